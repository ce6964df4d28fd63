"""What a client is told whose method was not done in time, because there is no majority for it.

What a leader has been told of may still come about, as with RabbitMQ. A change of the tables that
no leader ever heard of is given up.

Source: `rabbit_channel`, `rabbit_amqqueue` and the queue types of RabbitMQ 4.3 for the texts.
"""

from __future__ import annotations

from warren.errors import TIMED_OUT, Refusal
from warren.metadata.arguments import queue_type
from warren.wire.amqp091 import spec


def timed_out(
    request: spec.Method, vhost: str, name: str, queue: str, node: str, reason: str
) -> Refusal:
    """The error for a method that has waited too long.

    Args:
        request: The method.
        vhost: Where.
        name: The queue's name if the method declares one, which it may have left to the server.
        queue: How texts call the queue if the method uses one.
        node: This node's name.
        reason: What is waited for; empty if that is not known.
    """
    if isinstance(request, spec.QueueDeclare):
        kind = "quorum queue" if queue_type(request.arguments) == "quorum" else "queue"
        text = (
            f"Could not declare {kind} '{name}' in vhost '{vhost}' on node '{node}' because the "
            "metadata store operation timed out"
        )
    elif isinstance(request, spec.QueueDelete):
        text = "The operation to delete the queue from the metadata store timed out"
    elif isinstance(request, (spec.QueueBind, spec.ExchangeBind)):
        text = "Could not add binding due to timeout"
    elif isinstance(request, (spec.QueueUnbind, spec.ExchangeUnbind)):
        text = "Could not remove binding due to timeout"
    elif isinstance(request, spec.ExchangeDeclare):
        text = (
            f"failed to declare exchange '{request.exchange}' in vhost '{vhost}' because the "
            "operation timed out"
        )
    elif isinstance(request, spec.ExchangeDelete):
        text = f"failed to delete exchange '{request.exchange}' in vhost '{vhost}' due to a timeout"
    elif isinstance(request, spec.BasicConsume):
        text = f"timed out consuming from quorum {queue}"
    elif isinstance(request, spec.BasicGet):
        text = f"Cannot get a message from {queue}: timeout"
    elif isinstance(request, spec.TxCommit):
        text = f"{queue} has not confirmed the commit in time, which may yet come about"
    else:
        text = f"failed to perform operation on {queue} due to timeout"
    return Refusal(TIMED_OUT, f"{text}; {reason}" if reason else text)
