"""Looks at one message of a queue where it lies: nothing is taken, counted or moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from warren.message.envelope import Envelope
from warren.message.flavours import envelope_of
from warren.queues.fifo_queue import FifoQueue
from warren.queues.links import Fetching

READS_MAX: Final = 20
"""Reads that bring no message until it counts as gone: memory may be short, too."""


@final
class Peek(Fetching):
    """Waits for a message's body, which may have to be read.

    Attributes:
        message: Its record, which shares memory with the batch that it came in; None before, and
            where it has left the queue.
    """

    def __init__(self, queue: FifoQueue, number: i64, told: Callable[[], None]) -> None:
        """Prepare.

        Args:
            number: The message's.
            told: Called when `message` is there, or is found nowhere.
        """
        self.message: Envelope | None = None
        self._queue: FifoQueue = queue
        self._number: i64 = number
        self._told: Callable[[], None] = told
        self._reads: i64 = 0
        self._over: bool = False

    def resume(self) -> None:
        """Look at the message if it is in memory, or have it read first."""
        if self._over:
            return
        self.message = record_here(self._queue, self._number)
        if self.message is None and not self._queue.deleted and self._queue.has(self._number):
            self._reads += 1
            if self._reads <= READS_MAX:
                self._queue.fetch(self._number, self)
                return
        self._over = True
        self._told()

    def end(self) -> None:
        """Want it no more: the queue may have lost it, and would be asked for ever."""
        self._over = True


def record_here(queue: FifoQueue, number: i64) -> Envelope | None:
    """A message's record, which shares memory with its batch; None if it is not in memory."""
    if queue.deleted or not queue.has(number):
        return None
    batch = queue.batch_of(number)
    if batch is None:
        return None
    position = number - batch.first
    start = batch.offset(position)
    return envelope_of(batch.flavour, batch.payload, start, start + batch.length(position))
