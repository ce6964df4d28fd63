"""What a refusal is in AMQP 0-9-1: its reply code, and whether the channel or the connection ends.

The one place where this is decided. Class and method ids are those of the method that was refused,
which the caller knows.

Source: AMQP 0-9-1, constants; RabbitMQ for what is a channel's error and what a connection's.
"""

from __future__ import annotations

from typing import Final

from warren.errors import (
    ACCESS_REFUSED,
    EXHAUSTED,
    NO_MAJORITY,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    RESOURCE_LOCKED,
    TIMED_OUT,
    Refusal,
)
from warren.wire.amqp091.errors import AmqpError, ChannelException, ConnectionException

CHANNEL_CODES: Final[dict[str, int]] = {
    ACCESS_REFUSED: 403,
    NOT_FOUND: 404,
    RESOURCE_LOCKED: 405,
    PRECONDITION_FAILED: 406,
}
"""Refusals that end the channel."""

CONNECTION_CODES: Final[dict[str, int]] = {
    EXHAUSTED: 506,
    NOT_ALLOWED: 530,
    NOT_IMPLEMENTED: 540,
    TIMED_OUT: 541,
    NO_MAJORITY: 541,
}
"""Refusals that end the connection."""


def amqp_error(refusal: Refusal, class_id: int, method_id: int) -> AmqpError:
    """The error that a refused method ends in.

    Args:
        class_id, method_id: The method; 0 where there is none.
    """
    code = CHANNEL_CODES.get(refusal.kind, 0)
    if code:
        return ChannelException(code, refusal.text, class_id, method_id)
    return ConnectionException(CONNECTION_CODES[refusal.kind], refusal.text, class_id, method_id)
