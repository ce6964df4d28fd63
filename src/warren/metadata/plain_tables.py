"""Tables of AMQP 0-9-1 as JSON has them, and back.

JSON knows fewer types: a number is a number of 64 bits when it comes back, a time a number, too.
RabbitMQ's definitions lose the same. What JSON has no number for, such as infinity, is null.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from warren.errors import PRECONDITION_FAILED, Refusal
from warren.limits import FRAME_BYTES_MAX, SHORTSTR_BYTES_MAX, TABLE_NESTING_MAX
from warren.wire.amqp091.table import (
    Decimal,
    Table,
    Timestamp,
    Value,
    encode_table,
    plain_float,
    plain_int,
)

INTEGER_MAX = 1 << 63


def plain(table: Table) -> dict[str, Any]:
    """A table in values that JSON has."""
    return {_text(name): _plain(value) for name, value in table.items()}


def _plain(value: Value) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Decimal):
        return value.value / 10**value.scale
    if isinstance(value, int):
        return plain_int(value)
    if isinstance(value, float):
        return plain_float(value) if isfinite(value) else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return plain(value)
    assert isinstance(value, list), "there is no other kind"
    return [_plain(each) for each in value]


def _text(text: str) -> str:
    """A text without what is no character; that was no UTF-8 as it came."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def as_table(values: Any, what: str) -> Table:
    """A JSON object as a table.

    Args:
        what: How refusals call it.

    Raises:
        Refusal: `PRECONDITION_FAILED`, it cannot be one.
    """
    if values in (None, [], ""):
        return {}
    if not isinstance(values, dict):
        raise Refusal(PRECONDITION_FAILED, f"{what} is not an object")
    table = _table(values, what, 0)
    if len(encode_table(table)) > FRAME_BYTES_MAX:
        raise Refusal(PRECONDITION_FAILED, f"{what} take more than {FRAME_BYTES_MAX} bytes")
    return table


def _table(values: dict[Any, Any], what: str, depth: int) -> Table:
    if depth >= TABLE_NESTING_MAX:
        raise Refusal(PRECONDITION_FAILED, f"{what} is nested too deeply")
    table: Table = {}
    for name, value in values.items():
        if not isinstance(name, str) or len(name.encode()) > SHORTSTR_BYTES_MAX:
            raise Refusal(PRECONDITION_FAILED, f"{what} has a name that is none")
        table[name] = _value(value, what, depth + 1)
    return table


def _value(value: Any, what: str, depth: int) -> Value:
    if isinstance(value, dict):
        return _table(value, what, depth)
    if isinstance(value, list):
        if depth >= TABLE_NESTING_MAX:
            raise Refusal(PRECONDITION_FAILED, f"{what} is nested too deeply")
        return [_value(each, what, depth + 1) for each in value]
    if isinstance(value, bool) or value is None or isinstance(value, str | float):
        return value
    if isinstance(value, int) and -INTEGER_MAX <= value < INTEGER_MAX:
        return value
    if isinstance(value, int) and INTEGER_MAX <= value < 2 * INTEGER_MAX:
        # Of AMQP's types only a time goes so far.
        return Timestamp(value)
    raise Refusal(PRECONDITION_FAILED, f"{what} has a value that cannot be there")
