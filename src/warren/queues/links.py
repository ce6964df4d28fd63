"""Who on this node gets what a queue's machine hands out and answers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from mypy_extensions import i64, mypyc_attr

from warren.queues.fifo.effects import Delivery, Reply

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


@mypyc_attr(allow_interpreted_subclasses=True)
class Waiter:
    """Someone who waits for a command's answer."""

    @abstractmethod
    def answered(self, reply: Reply) -> None:
        """The command was applied; called once, unless the queue is deleted first."""
        raise AssertionError("a waiter defines answered")

    @abstractmethod
    def abandoned(self) -> None:
        """The queue went away before the command was applied."""
        raise AssertionError("a waiter defines abandoned")

    def missed(self) -> None:
        """The command was applied, and nobody here has seen what came of it.

        Only a quorum queue's: this node got its state behind the command from the leader.
        """
        raise AssertionError("a waiter of a quorum queue defines missed")
