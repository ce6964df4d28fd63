"""A message's properties by neutral names: what any protocol asks of them, or sets.

Each protocol converts between these and bytes of its own; `amqp091.conversion` is an example. On
its way through the broker a message keeps its bytes: these values are for those who read a message
of another protocol's, or make one.
"""

from __future__ import annotations

import re
from typing import Final, final

from mypy_extensions import i64

from warren.errors import PRECONDITION_FAILED, Refusal
from warren.wire.amqp091.table import Table

EXPIRATION_MS_MAX: Final = 10 * 365 * 86_400_000
EXACT_MS_MAX: Final = (1 << 31) - 2
"""What takes longer to expire is kept in seconds: docs/formats/record-batch.md."""

PLAIN_DIGITS_MAX: Final = 9
"""So many digits say no more than `EXACT_MS_MAX`."""


@final
class MessageProperties:
    """All properties of a message; None where one is not set.

    Text that came as bytes outside UTF-8 has them as lone surrogates.

    Attributes:
        content_type: The body's MIME type.
        content_encoding: How the body is compressed, if it is.
        headers: What applications and exchanges make of them, as field tables have it.
        persistent: Whether the message asks to survive a restart.
        priority: 0 to 255, the higher the more urgent.
        correlation_id: The request to which this is the answer.
        reply_to: Where an answer goes.
        expiration_ms: How long it is worth anything, in milliseconds from when it came.
        message_id: The publisher's name for it.
        timestamp_ms: When the publisher made it, in milliseconds since 1970; AMQP 0-9-1 keeps
            whole seconds.
        type_: What kind of message it is to applications.
        user_id: Who published it; checked by the broker where it is set.
        app_id: The application that published it.
    """

    __slots__ = (
        "app_id",
        "content_encoding",
        "content_type",
        "correlation_id",
        "expiration_ms",
        "headers",
        "message_id",
        "persistent",
        "priority",
        "reply_to",
        "timestamp_ms",
        "type_",
        "user_id",
    )

    def __init__(
        self,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: Table | None = None,
        persistent: bool | None = None,
        priority: int | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        expiration_ms: int | None = None,
        message_id: str | None = None,
        timestamp_ms: int | None = None,
        type_: str | None = None,
        user_id: str | None = None,
        app_id: str | None = None,
    ) -> None:
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.headers = headers
        self.persistent = persistent
        self.priority = priority
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.expiration_ms = expiration_ms
        self.message_id = message_id
        self.timestamp_ms = timestamp_ms
        self.type_ = type_
        self.user_id = user_id
        self.app_id = app_id


def parse_expiration(text: str) -> int:
    """The milliseconds that an expiration given as text asks for, 0 to `EXPIRATION_MS_MAX`.

    Raises:
        Refusal: `PRECONDITION_FAILED`, it is no such number.
    """
    match = re.match(r"[+-]?[0-9]+", text)
    if match is None:
        reason = "no_integer"
    elif match.end() < len(text):
        reason = f'{{leftover_string,"{text[match.end() :]}"}}'
    elif int(text) < 0:
        reason = f"{{value_negative,{int(text)}}}"
    elif int(text) > EXPIRATION_MS_MAX:
        reason = f"{{value_too_large,{int(text)}}}"
    else:
        return int(text)
    raise Refusal(PRECONDITION_FAILED, f"invalid expiration '{text}': {reason}")


def stored_life(expiration_ms: int | None) -> int:
    """An expiration as queues keep it, -1 for none.

    It is in whole seconds, rounded up, where that is 25 days or more.
    """
    if expiration_ms is None:
        return -1
    return expiration_ms if expiration_ms <= EXACT_MS_MAX else -(-expiration_ms // 1_000) * 1_000


def plain_life(text: bytes) -> i64:
    """The same of an expiration given as a few digits, as nearly all are, without what that costs.

    Returns:
        -1 for any other text, which `parse_life` may take or refuse.
    """
    size = i64(len(text))
    if size == 0 or size > PLAIN_DIGITS_MAX:
        return -1
    life_ms: i64 = 0
    for at in range(size):
        digit = i64(text[at]) - 48
        if digit < 0 or digit > 9:
            return -1
        life_ms = 10 * life_ms + digit
    return life_ms


def parse_life(text: str) -> int:
    """The same of an expiration given as any text.

    Raises:
        Refusal: `PRECONDITION_FAILED`, it is no such number.
    """
    return stored_life(parse_expiration(text))
