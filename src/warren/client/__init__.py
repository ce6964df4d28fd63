"""A small fast blocking AMQP 0-9-1 client on `warren.wire`, for tools and Spark.

    with connect("amqp://localhost") as connection:
        channel = connection.channel()
        refused = channel.publish_many("", "orders", bodies, PERSISTENT)

`table.Tables` reads queues as tables. It speaks to brokers over sockets of its own; nothing of a
node comes in.
"""

from __future__ import annotations

from warren.client.channel import NO_PROPERTIES, PERSISTENT, Channel
from warren.client.connection import Connection, connect
from warren.client.messages import ConsumerCancelled, Delivery, QueueCounts, Returned
from warren.wire.amqp091.errors import AmqpError, ChannelException, ConnectionException

__all__ = [
    "NO_PROPERTIES",
    "PERSISTENT",
    "AmqpError",
    "Channel",
    "ChannelException",
    "Connection",
    "ConnectionException",
    "ConsumerCancelled",
    "Delivery",
    "QueueCounts",
    "Returned",
    "connect",
]
