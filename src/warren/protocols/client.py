"""What the node asks of any client's connection, whatever protocol it speaks."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import i64, trait

from warren.protocols.facts import ChannelFacts, ConnectionFacts
from warren.vhost.pending import Resumable


@trait
class ClientConnection:
    """A client's connection.

    Attributes:
        assembled_bytes: What is here of messages that no queue has: bodies of which a part is still
            to come, and transactions that are not committed.
        user: Who logged in, empty before.
        vhost: The vhost that it was opened for, empty before.
        number: What tells it from all others of the node's life; 0 before the node has it.
    """

    assembled_bytes: i64
    # Not i64: who sets an i64 of a trait, as the node does this, is more than mypyc compiles.
    number: int
    user: str
    vhost: str

    @abstractmethod
    def shut_down(self, text: str) -> None:
        """End the connection from the server's side, for what `text` says."""

    @abstractmethod
    def failed(self, error: Exception) -> None:
        """End the connection, in the next turn, for an error that was met while it was served.

        Others go on. The node's log has the error's stack.

        Raises:
            Exception: The error itself, if it went through what all clients depend on: see
                `protocols.failures`.
        """

    @abstractmethod
    def lost(self) -> None:
        """Let go of everything in the broker: the socket is gone."""

    @abstractmethod
    def excuse(self) -> None:
        """Count nothing as missing: this node stood still, and has not read what came meanwhile."""

    @abstractmethod
    def tick(self, now_ms: i64) -> None:
        """See whether the client is still there; called about once a second."""

    @abstractmethod
    def pulse(self, now_ms: i64) -> None:
        """See to what is due by now, as `Broker.pulse_later` was told."""

    @abstractmethod
    def set_alarms(self, alarms: i64, reason: str) -> None:
        """Hold publishes back while there are alarms, a sum of the `ALARM_` constants."""

    @abstractmethod
    def shed_assembly(self, limit: i64) -> bool:
        """Refuse the largest part of these, with its channel; whether there was any.

        Args:
            limit: What is too much of them, in bytes; 0 where memory is short because of them.
        """

    @abstractmethod
    def name(self) -> str:
        """Both ends, as operators see it."""

    @abstractmethod
    def facts(self) -> ConnectionFacts:
        """What operators are told of it."""

    @abstractmethod
    def channel_numbers(self) -> list[int]:
        """The numbers of its channels."""

    @abstractmethod
    def channel_facts(self, number: int) -> ChannelFacts | None:
        """What they are told of a channel and the consumers there; None if there is none."""


@trait
class EndOfTurn(Resumable):
    """A client's channel, or what other protocols have in its place, with something to do later."""

    @abstractmethod
    def write_confirms(self) -> None:
        """Write the confirms that are due."""

    @abstractmethod
    def wake_consumers(self) -> None:
        """Let consumers take part again whose shared limit has room."""
