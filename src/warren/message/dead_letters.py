"""What a queue's dead letters are like, whatever protocol the messages came by.

A message that a queue was to be rid of, and that goes through an exchange once more, says why it
died and where. Each flavour of records has its way to write that (`flavours.dead_letters_of`); what
routing has to know of such a message is here.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64

from warren.message.properties import MessageProperties
from warren.wire.amqp091.table import Table

REJECTED: Final = 0
EXPIRED: Final = 1
MAXLEN: Final = 2
DELIVERY_LIMIT: Final = 3
"""Why a message died."""
REASONS: Final = ("rejected", "expired", "maxlen", "delivery_limit")


class DeadLetter:
    """What dead letters that differ in their bodies alone have in common, for routing.

    Attributes:
        keys: All routing keys that count, the message's own first; none if it leads nowhere.
        persistent: Whether it asks to survive a restart.
        prioritised: Whether it has a priority.
        deaths: The queues that it died in, the last one first, and whether a client rejected it
            there.
        life_ms: After what time it expires where it goes; negative for never.
    """

    def __init__(
        self,
        keys: list[str],
        persistent: bool,
        prioritised: bool,
        deaths: list[tuple[str, bool]],
    ) -> None:
        self.keys: list[str] = keys
        self.persistent: bool = persistent
        self.prioritised: bool = prioritised
        self.deaths: list[tuple[str, bool]] = deaths
        self.life_ms: i64 = -1

    @abstractmethod
    def headers(self) -> Table:
        """The headers as those who receive it see them, where routing needs them."""

    @abstractmethod
    def properties(self) -> MessageProperties:
        """All of its properties, where routing needs them."""

    def goes_round(self, queue: str) -> bool:
        """Whether it came from that queue before, and no client has rejected it since.

        Source: the cycles of RabbitMQ's dead letters.
        """
        for name, rejected in self.deaths:
            if rejected:
                return False
            if name == queue:
                return True
        return False


class DeadLetters:
    """Makes dead letters of the messages of one queue.

    Attributes:
        flavour: As what they are stored, for `message.flavours`.
        steps: What it took to look at the last message, in steps of a turn; 0 if it is like the one
            before.
    """

    def __init__(self) -> None:
        self.flavour: i64 = 0
        self.steps: i64 = 0

    @abstractmethod
    def aim(self, exchange: str, key: str | None) -> None:
        """Say where they go from now on.

        Args:
            key: Their routing key; None for those that each message has.
        """

    @abstractmethod
    def make(self, record: bytes, reason: i64, failed: i64, now_ms: i64) -> DeadLetter:
        """Look at a message that died; the same object comes for each of those that are alike.

        Args:
            record: As it was stored, checked when it came.
            failed: How often deliveries of it failed in this queue.
        """

    @abstractmethod
    def record(self) -> bytes:
        """The dead letter of the message that was looked at last."""


@final
class NoLetter(DeadLetter):
    """One of a message that cannot be read: it leads nowhere."""

    def __init__(self) -> None:
        super().__init__([], True, False, [])

    def headers(self) -> Table:
        """None of its headers are known."""
        return {}

    def properties(self) -> MessageProperties:
        """Nothing is known of it."""
        return MessageProperties()


@final
class NoLetters(DeadLetters):
    """Makes letters of messages that cannot be read."""

    def aim(self, exchange: str, key: str | None) -> None:
        """They go nowhere, wherever the queue's others go."""

    def make(self, record: bytes, reason: i64, failed: i64, now_ms: i64) -> DeadLetter:
        """Look at none of it."""
        return NoLetter()

    def record(self) -> bytes:
        """Give nothing: there is nowhere to put it."""
        return b""
