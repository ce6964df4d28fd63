"""Queues whose messages may be lost by a disk, and that go on without them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.queue_types import QueueType
from warren.queues.fifo.effects import Delivery
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo_queue import FifoQueue
from warren.queues.lost import Dropping, Losses, Matching
from warren.queues.queue import Host

NO_LOSSES: Final = Losses()
"""Those of queues that have all of their messages; nothing is noted here."""


class LossyQueue(FifoQueue):
    """A queue whose bodies may lie on disk."""

    def __init__(
        self, host: Host, vhost: str, name: str, queue_type: QueueType, fifo: Fifo
    ) -> None:
        super().__init__(host, vhost, name, queue_type, fifo)
        self._losses: Losses = NO_LOSSES
        """Messages that this queue goes on without in this life."""
        self._dropping: Dropping | None = None
        """What finds out which of them count, and drops them, while it is not over."""
        self._left_over: Matching | None = None
        """What finds out whether any of them count behind that."""

    def go_without(self, lost: list[tuple[int, int]], error: CorruptRecord) -> None:
        """Go on without some messages, of which nobody has a copy.

        The host is told which of them still count; these are dropped, in parts. What consumers were
        handed is settled when it is their turn.
        """
        self.note_lost(lost)
        self._left_over = None
        dropping = self._dropping
        if dropping is not None:
            dropping.add(lost, error)
            return
        dropping = Dropping(self)
        self._dropping = dropping
        dropping.add(lost, error)
        if not dropping.go_on():
            self.host.do_in_parts(dropping)

    def note_lost(self, lost: list[tuple[int, int]]) -> None:
        """Nobody has a copy of some messages: pass over those that consumers are handed."""
        if self._losses is NO_LOSSES:
            self._losses = Losses()
        self._losses.note(lost)

    @abstractmethod
    def drop(self, gone: list[tuple[int, int]]) -> None:
        """Have messages that are lost leave what is ready, and the log say so if there is one."""

    def dropped(self) -> None:
        """All that is lost, as far as it is known, was dropped."""
        self._dropping = None

    def pass_over(self, delivery: Delivery) -> bool:
        """Settle what is lost of a delivery's next messages; whether there was such."""
        last = self._losses.end(delivery.first)
        if last < 0:
            return False
        count = min(last - delivery.first + 1, delivery.count)
        self.settle(delivery.consumer.id, delivery.mid, delivery.mid + count - 1)
        delivery.first += count
        delivery.mid += count
        delivery.count -= count
        return True

    def gone_up_to(self, number: i64) -> i64:
        """The last of the messages from a number on that this queue goes on without; -1 if none."""
        return self._losses.end(number)
