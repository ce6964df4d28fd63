"""What a client is told whose request was not done in time, because there is no majority for it.

What a leader has been told of may still come about, as with RabbitMQ. A change of the tables that
no leader ever heard of is given up.

Source: `rabbit_channel`, `rabbit_amqqueue` of RabbitMQ 4.3 for the texts.
"""

from __future__ import annotations

from warren.errors import TIMED_OUT, Refusal
from warren.metadata.arguments import queue_type
from warren.queue_types import DEFAULT, find
from warren.vhost.requests import (
    BindRequest,
    DeclareExchangeRequest,
    DeclareQueueRequest,
    DeleteExchangeRequest,
    DeleteQueueRequest,
    UnbindRequest,
    VhostRequest,
)


def timed_out(text: str, reason: str) -> Refusal:
    """The refusal of what has waited too long.

    Args:
        reason: What is waited for; empty if that is not known.
    """
    return Refusal(TIMED_OUT, f"{text}; {reason}" if reason else text)


def overdue(request: VhostRequest, vhost: str, node: str) -> str:
    """What to say of a request that has waited too long at this node."""
    if isinstance(request, DeclareQueueRequest):
        kind = find(queue_type(request.arguments)) or DEFAULT
        return (
            f"Could not declare {kind.title} '{request.name}' in vhost '{vhost}' on node '{node}' "
            "because the metadata store operation timed out"
        )
    if isinstance(request, DeleteQueueRequest):
        return "The operation to delete the queue from the metadata store timed out"
    if isinstance(request, BindRequest):
        return "Could not add binding due to timeout"
    if isinstance(request, UnbindRequest):
        return "Could not remove binding due to timeout"
    if isinstance(request, DeclareExchangeRequest):
        return (
            f"failed to declare exchange '{request.name}' in vhost '{vhost}' because the "
            "operation timed out"
        )
    assert isinstance(request, DeleteExchangeRequest), "there are no other requests"
    return f"failed to delete exchange '{request.name}' in vhost '{vhost}' due to a timeout"
