"""One stored message, for readers that do not ask what protocol it came by."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import i64, mypyc_attr

from warren.message.properties import MessageProperties


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
