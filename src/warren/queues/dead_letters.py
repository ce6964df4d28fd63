"""Messages that died in a queue of this node, until they have gone through its exchange, once.

They are kept as the runs that they were in, however many there are, and read a few at a time; until
then their bodies stay in the log, or in memory. The node routes them (`DeadLetterRouter`).
Publishes that a full queue rejects go the same way (`reject-publish-dlx`): they never had a number.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Final, final

from librt.strings import read_i32_le
from mypy_extensions import i64, trait

from warren.log.batch import Batch
from warren.log.facts import failures_at
from warren.message.dead_letters import MAXLEN, DeadLetter, DeadLetters
from warren.message.flavours import AMQP091, dead_letters_of
from warren.queues.fifo.dead_letters import Dead
from warren.queues.fifo.pieces import Piece
from warren.queues.fifo.returning import Strand
from warren.queues.fifo.runs import Run
from warren.queues.links import Fetching
from warren.queues.queue import FlowControlled, Queue

if TYPE_CHECKING:
    from warren.queues.fifo_queue import FifoQueue


REJECTED_BYTES_MAX: Final = 1_048_576
"""Publishers wait while so much that they published and that was rejected is to go elsewhere."""


@trait
class DeadLetterRouter:
    """Routes dead letters, and puts them into queues."""

    @abstractmethod
    def take(self, letter: DeadLetter, letters: DeadLetters, reason: i64, flavour: i64) -> i64:
        """Route the message that `letters` looked at last; gives the bytes that it takes.

        What else it costs counts as bytes, too.
        """


@final
class Rejected:
    """Messages of one publish that were rejected; those before `at` are gone."""

    def __init__(self, records: bytes, lengths: bytes, count: i64, flavour: i64) -> None:
        self.flavour: i64 = flavour
        self._records: bytes = records
        self._lengths: bytes = lengths
        self._count: i64 = count
        self._at: i64 = 0
        self._offset: i64 = 0

    def next(self) -> bytes:
        """Take the first of them."""
        begin = self._offset
        self._offset += i64(read_i32_le(self._lengths, 4 * self._at))
        self._at += 1
        return self._records[begin : self._offset]

    def empty(self) -> bool:
        """Whether there are no more."""
        return self._at == self._count


@final
class DeadLettering(Fetching, FlowControlled):
    """A queue's messages that died and are on their way elsewhere.

    Attributes:
        queue: Where they died.
        exchange, key: Where they go; without a key of the queue's, by their own.
        waiting: Whether the next of them is being read.
        held_by: The queue that takes no more of them for a while.
        due: Whether the node is going to call `carry`.
        rejected_bytes: What publishes take that were rejected and have not gone elsewhere.
    """

    def __init__(self, queue: FifoQueue) -> None:
        self.queue: FifoQueue = queue
        self.exchange: str = ""
        self.key: str | None = None
        self.waiting: bool = False
        self.held_by: Queue | None = None
        self.due: bool = False
        self._letters: DeadLetters = dead_letters_of(AMQP091, queue.name)
        self._flavour: i64 = AMQP091
        self.rejected_bytes: i64 = 0
        self._dead: deque[Dead] = deque()
        self._rejected: deque[Rejected] = deque()
        self._strand: Strand | None = None
        """The runs of the first of them that are not begun."""
        self._first: i64 = 0
        """The next message of the run under way."""
        self._count: i64 = 0
        """How many of that run are left."""
        self._acquired: i64 = 0
        self._failed: i64 = 0

    def aim(self, exchange: str, key: str | None) -> None:
        """Have them go through an exchange from now on, by a key or by their own."""
        if exchange != self.exchange or key != self.key:
            self.exchange = exchange
            self.key = key
            self._letters.aim(exchange, key)

    def add(self, dead: list[Dead]) -> None:
        """More messages died."""
        self._dead.extend(dead)
        self.go_on()

    def add_rejected(self, records: bytes, lengths: bytes, count: i64, flavour: i64) -> None:
        """Messages were published for which there was no room."""
        self.rejected_bytes += len(records)
        self._rejected.append(Rejected(records, lengths, count, flavour))
        self.go_on()

    def go_on(self) -> None:
        """Ask the node to carry on, if nothing is being waited for."""
        if self.empty():
            return
        if not self.due and not self.waiting and self.held_by is None:
            self.due = True
            self.queue.host.queue_dead_letters(self)

    def resume(self) -> None:
        """Messages were read."""
        self.waiting = False
        self.go_on()

    def flow_on(self) -> None:
        """The queue that took no more is congested no more."""
        self.held_by = None
        self.go_on()

    def hold(self, queue: Queue) -> None:
        """Wait until a queue is congested no more."""
        self.held_by = queue
        queue.hold_back(self)

    def forget(self) -> None:
        """None of them goes anywhere."""
        self._dead.clear()
        self._rejected.clear()
        self.rejected_bytes = 0
        self._strand = None
        self._count = 0

    def empty(self) -> bool:
        """Whether there are none."""
        return not self._dead and not self._rejected

    def lists(self) -> list[list[Piece]]:
        """All of them, in lists that do not change: their bodies are needed."""
        found: list[list[Piece]] = []
        if self._count > 0:
            found.append([Run(self._first, self._first, self._count)])
        for at, dead in enumerate(self._dead):
            strand = self._strand
            if at == 0 and strand is not None:
                found.extend(strand.rest())
            else:
                found.extend(dead.lists)
        return found

    def carry(self, router: DeadLetterRouter, most: i64, most_bytes: i64) -> None:
        """Have the next of them routed, as far as they are in memory.

        Args:
            most, most_bytes: No more than so many, or little more than so many bytes.
        """
        queue = self.queue
        now_ms: i64 = queue.host.now_ms()
        gone: list[Piece] = []
        while most > 0 and most_bytes > 0 and self._next():
            first = self._first
            behind = queue.gone_up_to(first) + 1
            if behind > first:
                count = min(behind - first, self._count)
            else:
                batch = queue.batch_of(first)
                if batch is None:
                    self.waiting = True
                    break
                count = min(self._count, batch.first + batch.count - first, most)
                count, taken = self._route(batch, router, count, most_bytes, now_ms)
                most_bytes -= taken
                most -= count
            gone.append(Run(first, first, count, self._acquired, self._failed))
            self._first += count
            self._count -= count
        self._next()
        rejected = self._rejected
        while most > 0 and most_bytes > 0 and rejected:
            record = rejected[0].next()
            flavour = rejected[0].flavour
            if rejected[0].empty():
                rejected.popleft()
            self.rejected_bytes -= len(record)
            letters = self._letters_of(flavour)
            letter = letters.make(record, MAXLEN, 0, now_ms)
            most_bytes -= router.take(letter, letters, MAXLEN, letters.flavour)
            most -= 1
        if gone:
            queue.dead_lettered([gone])
        if self.waiting:
            queue.fetch(self._first, self)

    def _next(self) -> bool:
        """Have a run under way; False if there is none left."""
        while self._count == 0:
            if not self._dead:
                return False
            strand = self._strand
            if strand is None:
                dead = self._dead[0]
                strand = Strand(list(dead.lists), dead.count)
                self._strand = strand
            run = strand.next()
            if run is None:
                self._dead.popleft()
                self._strand = None
            else:
                self._first = run.first
                self._count = run.count
                self._acquired = run.acquired
                self._failed = run.failed
        return True

    def _route(
        self, batch: Batch, router: DeadLetterRouter, count: i64, most_bytes: i64, now_ms: i64
    ) -> tuple[i64, i64]:
        """Have messages of one batch routed, no more than may be.

        Returns:
            How many were, and how many bytes they took.
        """
        dead = self._dead[0]
        letters = self._letters_of(batch.flavour)
        failed = self._failed + dead.failed
        position = self._first - batch.first
        taken: i64 = 0
        for at in range(position, position + count):
            # The record's note has those of before.
            here = failed - failures_at(batch.facts, at)
            letter = letters.make(batch.record(at), dead.reason, here, now_ms)
            taken += router.take(letter, letters, dead.reason, letters.flavour)
            if taken >= most_bytes:
                return at + 1 - position, taken
        return count, taken

    def _letters_of(self, flavour: i64) -> DeadLetters:
        """What makes dead letters of messages of a flavour."""
        if flavour != self._flavour:
            self._flavour = flavour
            self._letters = dead_letters_of(flavour, self.queue.name)
            self._letters.aim(self.exchange, self.key)
        return self._letters
