"""What a client gets: messages delivered, messages returned, and counts."""

from __future__ import annotations

from typing import NamedTuple, final

from warren.errors import BrokerError
from warren.wire.amqp091.errors import REPLY_NAMES
from warren.wire.amqp091.properties import Properties, decode_properties


@final
class Delivery:
    """A message that the broker delivered, or that was fetched.

    Attributes:
        consumer_tag: The consumer that it is for; empty after `get`.
        delivery_tag: What to acknowledge it by, on the channel it came on.
        redelivered: Whether it was delivered before.
        exchange, routing_key: Where it was published to.
        properties: Its properties' bytes; `decoded` reads them.
        body: Its body.
        remaining: After `get`, how many messages are left in the queue; else -1.
    """

    __slots__ = (
        "body",
        "consumer_tag",
        "delivery_tag",
        "exchange",
        "properties",
        "redelivered",
        "remaining",
        "routing_key",
    )

    def __init__(
        self,
        consumer_tag: str,
        delivery_tag: int,
        redelivered: bool,
        exchange: str,
        routing_key: str,
        properties: bytes,
        body: bytes,
        remaining: int = -1,
    ) -> None:
        self.consumer_tag = consumer_tag
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key
        self.properties = properties
        self.body = body
        self.remaining = remaining

    def decoded(self) -> Properties:
        """The properties as values. Raises `ConnectionException` 502 if they are malformed."""
        return decode_properties(self.properties, 0, len(self.properties))


class Returned(NamedTuple):
    """A mandatory message that reached no queue."""

    code: int
    text: str
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes


class QueueCounts(NamedTuple):
    """What the broker tells of a queue that is declared."""

    name: str
    messages: int
    consumers: int


class ConsumerCancelled(BrokerError):
    """The broker ended a consumer, for instance because its queue was deleted."""


def close_error_text(code: int, text: str) -> str:
    """The text of a close method without the code's name before it."""
    prefix = REPLY_NAMES.get(code, "") + " - "
    return text[len(prefix) :] if text.startswith(prefix) else text


def known_code(code: int) -> int:
    """`code` if it has a name, else 541: an error's text needs the name."""
    return code if code in REPLY_NAMES else 541
