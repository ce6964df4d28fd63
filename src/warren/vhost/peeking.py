"""Looks at one message of a queue where it lies: nothing is taken, counted or moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from warren.log.batch import Batch
from warren.log.facts import FAILURES, facts_in
from warren.message.envelope import Envelope
from warren.message.flavours import envelope_of
from warren.queues.fifo_queue import FifoQueue
from warren.queues.links import Fetching

READS_MAX: Final = 20
"""Reads that bring no message until it counts as gone: memory may be short, too."""


@final
class LyingMessage:
    """A message where it lies.

    Attributes:
        message: Its record, which shares memory with the batch that it came in.
        failures: Deliveries that failed where it died before, and that its queue does not count.
    """

    def __init__(self, message: Envelope, failures: i64) -> None:
        self.message: Envelope = message
        self.failures: i64 = failures


@final
class Peek(Fetching):
    """Waits for a message's body, which may have to be read.

    Attributes:
        found: It; None before, and where it has left the queue.
    """

    def __init__(self, queue: FifoQueue, number: i64, told: Callable[[], None]) -> None:
        """Prepare.

        Args:
            number: The message's.
            told: Called when `found` is there, or is found nowhere.
        """
        self.found: LyingMessage | None = None
        self._queue: FifoQueue = queue
        self._number: i64 = number
        self._told: Callable[[], None] = told
        self._reads: i64 = 0
        self._over: bool = False

    def resume(self) -> None:
        """Look at the message if it is in memory, or have it read first."""
        if self._over:
            return
        self.found = record_here(self._queue, self._number)
        if self.found is None and not self._queue.deleted and self._queue.has(self._number):
            self._reads += 1
            if self._reads <= READS_MAX:
                self._queue.fetch(self._number, self)
                return
        self._over = True
        self._told()

    def end(self) -> None:
        """Want it no more: the queue may have lost it, and would be asked for ever."""
        self._over = True


def record_here(queue: FifoQueue, number: i64) -> LyingMessage | None:
    """A message as it lies in memory; None if it does not."""
    if queue.deleted or not queue.has(number):
        return None
    batch = queue.batch_of(number)
    if batch is None:
        return None
    position = number - batch.first
    start = batch.offset(position)
    message = envelope_of(batch.flavour, batch.payload, start, start + batch.length(position))
    return LyingMessage(message, uncounted_failures(batch, message))


def uncounted_failures(batch: Batch, message: Envelope) -> i64:
    """Deliveries of a message of a batch that failed where it died before, and that its queue does
    not count among its own: it does where the facts of the batch say how many."""
    return 0 if facts_in(batch.facts) & FAILURES else message.failures()
