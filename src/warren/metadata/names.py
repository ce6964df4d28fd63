"""Names of queues and exchanges: what is cut from them, reserved ones, ones the server makes."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Final

from warren.errors import ACCESS_REFUSED, PRECONDITION_FAILED, Refusal
from warren.limits import SHORTSTR_BYTES_MAX

RESERVED_PREFIX: Final = "amq."
SERVER_NAME_PREFIX: Final = "amq.gen"
SERVER_NAME_RANDOM_BYTES: Final = 16


def clean_name(name: str) -> str:
    """A name as RabbitMQ takes it in what declares, deletes and binds: without line breaks.

    Where a queue is used, or an exchange published to, the name counts as it came.
    """
    if "\n" in name or "\r" in name:
        return name.replace("\n", "").replace("\r", "")
    return name


def check_length(what: str, text: str) -> None:
    """Refuse a text that no client of AMQP 0-9-1 could say, from other ways in.

    Args:
        what: How the refusal calls it.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    if len(text.encode("utf-8", "surrogateescape")) > SHORTSTR_BYTES_MAX:
        raise Refusal(PRECONDITION_FAILED, f"{what} has at most {SHORTSTR_BYTES_MAX} bytes")


def check_reserved(what: str, name: str) -> None:
    """Refuse a client's new entity in the server's part of the name space.

    Args:
        what: `queue` or `exchange`.

    Raises:
        Refusal: `ACCESS_REFUSED`.
    """
    if name.startswith(RESERVED_PREFIX):
        raise Refusal(ACCESS_REFUSED, f"{what} name '{name}' contains reserved prefix 'amq.*'")


def server_name(random: bytes) -> str:
    """A new name for a queue declared without one.

    Args:
        random: `SERVER_NAME_RANDOM_BYTES` bytes that no client can guess.
    """
    assert len(random) == SERVER_NAME_RANDOM_BYTES
    return f"{SERVER_NAME_PREFIX}-{urlsafe_b64encode(random).decode().rstrip('=')}"
