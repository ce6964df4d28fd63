"""Who on this node gets what a queue's machine hands out and answers."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, trait

from warren.queues.fifo.effects import Delivery

if TYPE_CHECKING:
    from warren.queues.queue import Queue

IN_EXCLUSIVE_USE: Final = 16
"""The code of a reply: a consumer was not attached, because of an exclusive one."""


class Fetching:
    """Waits for a message that its queue is reading from the log."""

    @abstractmethod
    def resume(self) -> None:
        """Messages that were not in memory are there now; go on."""


class Link(Fetching):
    """The way from a consumer in a machine to the client that consumes."""

    @abstractmethod
    def delivered(self, delivery: Delivery) -> None:
        """Pass messages on now, or keep the delivery until there is room."""

    @abstractmethod
    def renumbered(self, consumer_id: i64) -> None:
        """The consumer was attached anew under another id; what it holds by the old one is void."""

    @abstractmethod
    def cancelled(self) -> None:
        """The queue is gone; tell the client."""


@trait
class Holder:
    """Who holds messages that a queue has handed out: a channel."""

    @abstractmethod
    def held_too_long(self, queue: Queue, consumer_id: i64, timeout_ms: i64) -> None:
        """Messages went back to their queue, since nobody settled them in time; tell the client."""

    @abstractmethod
    def holds(self, queue: Queue, consumer_id: i64, first: i64, last: i64) -> bool:
        """Whether it has any message with these ids of a consumer, and did nothing with it yet."""
