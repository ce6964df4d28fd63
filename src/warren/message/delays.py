"""How long a message is to be delayed, and what becomes of that in its headers.

Source: `rabbit_delayed_message_utils` of the plugin rabbitmq-delayed-message-exchange.
"""

from __future__ import annotations

import re
from typing import Final

from mypy_extensions import i64

from warren.wire.amqp091.table import Table, Timestamp, Value

X_DELAY: Final = "x-delay"
"""The header that says for how many milliseconds; negative once that is over."""

DELAY_MS_MAX: Final = (1 << 32) - 1
"""What is to be delayed for longer is not delayed at all, as with RabbitMQ."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}")


def delay_of(headers: Table | None) -> i64:
    """For how many milliseconds a message with such headers is to be delayed; 0 for not at all."""
    if headers is None:
        return 0
    value = _whole(headers.get(X_DELAY))
    return value if 0 < value <= DELAY_MS_MAX else 0


def _whole(value: Value) -> int:
    """What a header's value is as a whole number; 0 where it is none."""
    typed: object = value
    if isinstance(value, bool) or isinstance(typed, Timestamp):
        return 0
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if abs(value) <= DELAY_MS_MAX else 0
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str) and _NUMBER.fullmatch(value) is not None:
        return int(value)
    return 0


def mark_delayed(headers: Table) -> None:
    """Have headers say that the delay is over, so that no exchange delays the message again."""
    value = _whole(headers.get(X_DELAY))
    if value > 0:
        headers[X_DELAY] = -value
