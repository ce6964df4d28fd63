"""Values of bodies as RabbitMQ takes them: texts may stand for truths and numbers."""

from __future__ import annotations

from typing import Any, Final

from warren.admin.http.errors import bad_request
from warren.limits import SHORTSTR_BYTES_MAX

VALUES_MAX: Final = 32_768
"""Values of one table, those within others counted: some tens of milliseconds. No client can send
many more, for a table is in one frame."""


def as_boolean(document: dict[str, Any], key: str) -> bool:
    """A truth value, false where it is left out.

    Raises:
        Problem: It is none.
    """
    value = document.get(key, False)
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise bad_request(["not_boolean", value])


def as_integer(value: object) -> int:
    """A whole number, or a text with one.

    Raises:
        Problem: It is none.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) < 19:
        return int(value)
    raise bad_request(["not_integer", value])


def as_table(document: dict[str, Any], key: str) -> dict[str, Any]:
    """Arguments of something that is declared; none where they are left out.

    Raises:
        Problem: They are no object, or have what no client could send.
    """
    value = document.get(key) or {}
    if not isinstance(value, dict):
        raise bad_request(f"{key} is no object")
    check_table(value)
    return value


def check_name(what: str, name: str) -> None:
    """Refuse a name that no client could send.

    Raises:
        Problem: It is too long.
    """
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > SHORTSTR_BYTES_MAX:
        raise bad_request(
            f"{what} should be less than {SHORTSTR_BYTES_MAX} bytes, actually was {size}\n"
        )


def check_table(value: Any) -> None:
    """Refuse what a field table cannot hold, or what is too much for one.

    Raises:
        Problem: It has such a thing.
    """
    _check(value, 0, VALUES_MAX)


def _check(value: Any, depth: int, left: int) -> int:
    """Check one value; how many more there may be."""
    if left <= 0:
        raise bad_request(f"arguments have at most {VALUES_MAX} values")
    left -= 1
    if depth > 16:
        raise bad_request("arguments are nested too deeply")
    if isinstance(value, dict):
        for name, item in value.items():
            if len(name.encode("utf-8", "surrogateescape")) > SHORTSTR_BYTES_MAX:
                raise bad_request("names of arguments have at most 255 bytes")
            left = _check(item, depth + 1, left)
    elif isinstance(value, list):
        for item in value:
            left = _check(item, depth + 1, left)
    elif value is None:
        raise bad_request("null_not_allowed")
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise bad_request("numbers of arguments have at most 64 bits")
    return left
