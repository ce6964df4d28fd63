"""A queue's machine is filled with what a snapshot has, in parts.

Nobody uses the machine before the last part; `snapshot` writes what is read here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.ports import Work
from warren.queues.fifo.consumers import Consumer
from warren.queues.fifo.cursor import Cursor
from warren.queues.fifo.groups import read_group
from warren.queues.fifo.parts import read_parts
from warren.queues.fifo.pieces import Piece, size_of
from warren.queues.fifo.returning import read_return
from warren.queues.fifo.runs import run_at
from warren.queues.fifo.snapshot import (
    ACTIVE,
    AUTOMATIC,
    VERSION,
    VERSION_DOUBTED,
    VERSION_EXPIRING,
    VERSION_PARTS,
)

if TYPE_CHECKING:
    from warren.queues.fifo.machine import Fifo


@final
class StateReader(Work):
    """Fills a machine that is empty."""

    def __init__(self, fifo: Fifo, data: bytes) -> None:
        """
        Args:
            fifo: The machine.
            data: What a writer wrote.
        """
        self._fifo: Fifo = fifo
        self._cursor: Cursor = Cursor(data)
        self._part_runs: i64 = fifo.part_runs
        self._parts: Iterator[None] | None = self._read()

    def go_on(self) -> bool:
        """Read the next part; whether it was the last.

        Raises:
            ValueError: The state is of a version that this build does not know.
        """
        parts = self._parts
        self._cursor.room = self._part_runs
        if parts is not None and next(parts, self) is not self:
            return False
        self._parts = None
        return True

    def _read(self) -> Iterator[None]:
        fifo = self._fifo
        cursor = self._cursor
        version = self._begin()
        yield from fifo.sizes.read(cursor, version >= VERSION_EXPIRING)
        yield from fifo.ready.read(cursor)
        yield from fifo.transient.read(cursor)
        for _ in range(cursor.count()):
            yield from self._consumer()
        for _ in range(cursor.count()):
            fifo.service.wait(fifo.consumers[cursor.long()])
        for _ in range(cursor.count()):
            yield from read_group(cursor, fifo.groups)
        fifo.held += fifo.readers.held()
        for _ in range(cursor.count()):
            yield from read_return(cursor, fifo.coming)
        yield from fifo.leaving.read(cursor)
        if version >= VERSION_PARTS:
            yield from read_parts(fifo, cursor)
        yield from self._claim_all()
        fifo.restored()

    def _begin(self) -> i64:
        """Read what comes before the runs; gives the version."""
        fifo = self._fifo
        cursor = self._cursor
        version = cursor.octet()
        if not VERSION <= version <= VERSION_PARTS:
            raise ValueError(
                f"queue snapshot of version {version}; this build reads versions {VERSION} to "
                f"{VERSION_PARTS} only"
            )
        # The owner's flags.
        cursor.octet()
        size = cursor.count()
        at = cursor.at
        cursor.at = at + size
        # What is not in it is not in force, whatever was before.
        fifo.config.forget()
        fifo.config.change(cursor.data, at, cursor.at, True)
        fifo.rank()
        fifo.next_message = cursor.long()
        fifo.dropped = cursor.long()
        if version >= VERSION_DOUBTED:
            fifo.ready.doubted = cursor.long()
        if version >= VERSION_EXPIRING:
            fifo.used_ms = cursor.long()
        return version

    def _consumer(self) -> Iterator[None]:
        """Read what a snapshot has of a consumer."""
        cursor = self._cursor
        consumer_id = cursor.long()
        credit = cursor.long()
        consumer = Consumer(consumer_id, credit, cursor.long())
        flags = cursor.octet()
        consumer.active = flags & ACTIVE != 0
        consumer.automatic = flags & AUTOMATIC != 0
        next_mid = cursor.long()
        left = cursor.count()
        # A consumer is as much as a run.
        cursor.room -= 1
        while left > 0:
            if cursor.room <= 0:
                yield
            some = cursor.take(left)
            left -= some
            self._hold_some(consumer, some)
        consumer.next_mid = next_mid
        consumer.credit = credit
        self._fifo.consumers[consumer_id] = consumer
        self._fifo.held += consumer.held

    def _hold_some(self, consumer: Consumer, count: i64) -> None:
        cursor = self._cursor
        for _ in range(count):
            consumer.next_mid = cursor.long()
            first = cursor.long()
            messages = cursor.long()
            acquired = cursor.count()
            consumer.hold(first, messages, acquired, cursor.count())

    def _claim_all(self) -> Iterator[None]:
        """Tell the machine's sizes which messages there are, those first that are ready."""
        fifo = self._fifo
        lists: list[list[Piece]] = []
        for part in fifo.ready.parts():
            lists.extend(part)
        yield from self._claim(lists)
        fifo.ready.counted(fifo.sizes.bytes)
        lists = [*fifo.coming.lists(), *fifo.leaving.lists(), *fifo.discards.freeze()]
        lists.extend(fifo.delayed.freeze())
        for consumer in fifo.consumers.values():
            lists.extend(consumer.freeze())
        for group in fifo.groups.values():
            for checkout in group.open:
                lists.extend(checkout.messages.freeze())
        yield from self._claim(lists)
        scheduled = fifo.schedule.frozen()
        at: i64 = 0
        while at < scheduled.size:
            if self._cursor.room <= 0:
                yield
            end = at + self._cursor.take(scheduled.size - at)
            while at < end:
                fifo.sizes.claim(scheduled.first(at), scheduled.count(at))
                at += 1

    def _claim(self, lists: list[list[Piece]]) -> Iterator[None]:
        for pieces in lists:
            at: i64 = 0
            size = size_of(pieces)
            while at < size:
                if self._cursor.room <= 0:
                    yield
                end = at + self._cursor.take(size - at)
                self._claim_some(pieces, at, end)
                at = end

    def _claim_some(self, pieces: list[Piece], begin: i64, end: i64) -> None:
        sizes = self._fifo.sizes
        for at in range(begin, end):
            run = run_at(pieces, at)
            sizes.claim(run.first, run.count)
