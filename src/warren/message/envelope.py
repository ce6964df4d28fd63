"""One stored message, for readers that do not ask what protocol it came by."""

from __future__ import annotations

from abc import abstractmethod
from typing import final

from mypy_extensions import i64, mypyc_attr

from warren.message.properties import MessageProperties
from warren.wire.amqp091.table import Table


@mypyc_attr(allow_interpreted_subclasses=True)
class Envelope:
    """Reads one record; each flavour has a class of its own, and `flavours.envelope_of` finds it.

    Nothing is decoded before it is asked for, and the record is not copied. What has to be fast for
    one flavour, as handing frames of AMQP 0-9-1 to clients of AMQP 0-9-1, reads records directly.
    """

    @abstractmethod
    def exchange(self) -> str:
        """The exchange that the message was published to; empty for the default exchange."""

    @abstractmethod
    def routing_key(self) -> str:
        """The routing key that it was published with."""

    @abstractmethod
    def properties(self) -> MessageProperties:
        """The message's properties, by neutral names."""

    @abstractmethod
    def body_size(self) -> i64:
        """How many bytes its body has."""

    @abstractmethod
    def body(self) -> list[memoryview]:
        """Its body in pieces that share the record's memory; none for an empty body."""

    @abstractmethod
    def size(self) -> i64:
        """How many bytes the whole record has."""

    def failures(self) -> i64:
        """How often deliveries of it failed in all queues that it was in before this one."""
        return 0

    def is_dead_letter(self) -> bool:
        """Whether the broker says that it died: what its headers tell of deaths is true then.

        Clients may write such headers as well, which say nothing.
        """
        return False

    def hidden_keys(self) -> list[str]:
        """Routing keys that count, too, and that no receiver sees."""
        return []


@final
class NewMessage(Envelope):
    """A message that the node was asked to publish, by its values."""

    def __init__(
        self, exchange: str, routing_key: str, properties: MessageProperties, body: bytes
    ) -> None:
        self._exchange: str = exchange
        self._routing_key: str = routing_key
        self._properties: MessageProperties = properties
        self._body: bytes = body

    def exchange(self) -> str:
        """The exchange that it is published to."""
        return self._exchange

    def routing_key(self) -> str:
        """The routing key that it is published with."""
        return self._routing_key

    def properties(self) -> MessageProperties:
        """The properties that it was given."""
        return self._properties

    def body_size(self) -> i64:
        """How many bytes its body has."""
        return len(self._body)

    def body(self) -> list[memoryview]:
        """Its body, which is whole."""
        return [memoryview(self._body)] if self._body else []

    def size(self) -> i64:
        """How many bytes its body has; it is no record yet."""
        return len(self._body)


def redelivery_headers(acquired: i64, failed: i64) -> Table:
    """Headers of a message that a quorum queue gives once more (POI-01).

    Args:
        acquired: How often it came back; 0 if that was in other queues alone.
        failed: How often deliveries of it failed, also where it died before.
    """
    headers: Table = {"x-acquired-count": int(acquired if acquired > 0 else failed)}
    if failed > 0:
        headers["x-delivery-count"] = int(failed)
    return headers
