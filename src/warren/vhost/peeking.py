"""Looks at one message of a queue where it lies: nothing is taken, counted or moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from warren.message.envelope import Envelope
from warren.message.flavours import envelope_of
from warren.queues.links import Fetching
from warren.queues.queue import Queue

READS_MAX: Final = 20
"""Reads that bring no message until it counts as gone: memory may be short, too."""


@final
class Peek(Fetching):
    """Waits for a message's body, which may have to be read.

    Attributes:
        message: Its record, which shares memory with the batch that it came in; None before, and
            where it has left the queue.
    """

    def __init__(self, queue: Queue, number: i64, told: Callable[[], None]) -> None:
        """Prepare.

        Args:
            number: The message's.
            told: Called when `message` is there, or is found nowhere.
        """
        self.message: Envelope | None = None
        self._queue: Queue = queue
        self._number: i64 = number
        self._told: Callable[[], None] = told
        self._reads: i64 = 0
        self._over: bool = False

    def resume(self) -> None:
        """Look at the message if it is in memory, or have it read first."""
        if self._over or self._queue.deleted:
            return
        batch = self._queue.batch_of(self._number)
        if batch is None:
            self._reads += 1
            if self._reads > READS_MAX:
                self._over = True
                self._told()
                return
            self._queue.fetch(self._number, self)
            return
        position = self._number - batch.first
        start = batch.offset(position)
        end = start + batch.length(position)
        self.message = envelope_of(batch.flavour, batch.payload, start, end)
        self._over = True
        self._told()

    def end(self) -> None:
        """Want it no more: the queue may have lost it, and would be asked for ever."""
        self._over = True
