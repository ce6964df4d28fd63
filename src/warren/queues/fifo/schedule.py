"""Messages that wait for their time, each for its own, before they may go on.

They are runs of messages that came together and whose time is the same, in a heap: the first of
them is due first, and of those that are due at one time the one that came first. A run takes 16
bytes, and adding one or taking the first costs some twenty comparisons among a million.

The heap lies in blocks, so that it grows in small steps, and so that what it is at one moment can
be written down while it goes on: a block is copied when it changes for the first time after that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from librt.vecs import append, vec
from mypy_extensions import i32, i64, mypyc_attr

from warren.queues.fifo.cursor import Cursor

BLOCK_BITS: Final = 10
BLOCK_RUNS: Final = 1 << BLOCK_BITS
BLOCK_MASK: Final = BLOCK_RUNS - 1

COUNT_BITS: Final = 16
COUNT_MAX: Final = 1 << COUNT_BITS
"""Messages of one run: those of a larger batch are several."""
COUNT_MASK: Final = COUNT_MAX - 1
FIRST_MAX: Final = (1 << 47) - 1

SCHEDULED_BYTES: Final = 20
"""What a snapshot has of a run."""


@final
@mypyc_attr(acyclic=True)  # Nothing that it refers to leads back to it.
class ScheduleBlock:
    """Some of the runs: `dues` are their times, `spans` their first messages and counts.

    Attributes:
        shared: Whether somebody has the block as it is now.
    """

    def __init__(self, dues: vec[i64], spans: vec[i64]) -> None:
        self.dues: vec[i64] = dues
        self.spans: vec[i64] = spans
        self.shared: bool = False


def _new_block() -> ScheduleBlock:
    dues = vec[i64](capacity=BLOCK_RUNS)
    spans = vec[i64](capacity=BLOCK_RUNS)
    for _ in range(BLOCK_RUNS):
        dues = append(dues, i64(0))
        spans = append(spans, i64(0))
    return ScheduleBlock(dues, spans)


def _copy_of(block: ScheduleBlock) -> ScheduleBlock:
    dues = vec[i64](capacity=BLOCK_RUNS)
    spans = vec[i64](capacity=BLOCK_RUNS)
    for at in range(BLOCK_RUNS):
        dues = append(dues, block.dues[at])
        spans = append(spans, block.spans[at])
    return ScheduleBlock(dues, spans)


@final
class ScheduledRuns:
    """The runs of a heap as they were at one moment, in its order.

    Attributes:
        size: How many there are.
    """

    def __init__(self, blocks: list[ScheduleBlock], size: i64) -> None:
        self.size: i64 = size
        self._blocks: list[ScheduleBlock] = blocks

    def due(self, at: i64) -> i64:
        """When a run is due."""
        return self._blocks[at >> BLOCK_BITS].dues[at & BLOCK_MASK]

    def first(self, at: i64) -> i64:
        """The first message of a run."""
        return self._blocks[at >> BLOCK_BITS].spans[at & BLOCK_MASK] >> COUNT_BITS

    def count(self, at: i64) -> i64:
        """How many messages a run has."""
        return (self._blocks[at >> BLOCK_BITS].spans[at & BLOCK_MASK] & COUNT_MASK) + 1

    def encode(self, out: BytesWriter, begin: i64, end: i64) -> None:
        """Append some of them, as `Schedule.decode` reads them."""
        for at in range(begin, end):
            write_i64_be(out, self.due(at))
            write_i64_be(out, self.first(at))
            write_i32_be(out, i32(self.count(at)))


@final
@mypyc_attr(acyclic=True)  # Nothing that it refers to leads back to it.
class Schedule:
    """The messages that wait for their time.

    Attributes:
        count: How many there are.
    """

    def __init__(self) -> None:
        self.count: i64 = 0
        self._size: i64 = 0
        self._made: list[ScheduleBlock] | None = None
        """None as long as no message ever waited: few queues have such."""

    @property
    def _blocks(self) -> list[ScheduleBlock]:
        """The blocks, to change them."""
        blocks = self._made
        if blocks is None:
            blocks = self._made = []
        return blocks

    def add(self, first: i64, count: i64, due_ms: i64) -> None:
        """Messages wait until a time."""
        assert 0 < count and first + count <= FIRST_MAX, "so many messages never come"
        while count > 0:
            length = min(count, COUNT_MAX)
            self._push(due_ms, first << COUNT_BITS | (length - 1))
            first += length
            count -= length
            self.count += length

    def next_due(self) -> i64:
        """When the first of them is due; there is one."""
        return self._blocks[0].dues[0]

    def take(self) -> tuple[i64, i64]:
        """Take the run that is due first: its first message, and how many there are."""
        span = self._blocks[0].spans[0]
        last = self._size - 1
        block = self._blocks[last >> BLOCK_BITS]
        due = block.dues[last & BLOCK_MASK]
        moved = block.spans[last & BLOCK_MASK]
        self._size = last
        if last & BLOCK_MASK == 0:
            self._blocks.pop()
        if last > 0:
            self._sink(due, moved)
        count = (span & COUNT_MASK) + 1
        self.count -= count
        return span >> COUNT_BITS, count

    def _push(self, due_ms: i64, span: i64) -> None:
        at = self._size
        if at & BLOCK_MASK == 0:
            self._blocks.append(_new_block())
        self._size = at + 1
        while at > 0:
            above = (at - 1) >> 1
            block = self._blocks[above >> BLOCK_BITS]
            place = above & BLOCK_MASK
            due = block.dues[place]
            if due < due_ms or (due == due_ms and block.spans[place] < span):
                break
            self._set(at, due, block.spans[place])
            at = above
        self._set(at, due_ms, span)

    def _sink(self, due_ms: i64, span: i64) -> None:
        """Put a run where the first one was, and whatever is due before it above it."""
        at: i64 = 0
        size = self._size
        while True:
            below = 2 * at + 1
            if below >= size:
                break
            block = self._blocks[below >> BLOCK_BITS]
            due = block.dues[below & BLOCK_MASK]
            low = block.spans[below & BLOCK_MASK]
            other = below + 1
            if other < size:
                block = self._blocks[other >> BLOCK_BITS]
                due_too = block.dues[other & BLOCK_MASK]
                low_too = block.spans[other & BLOCK_MASK]
                if due_too < due or (due_too == due and low_too < low):
                    below = other
                    due = due_too
                    low = low_too
            if due_ms < due or (due_ms == due and span < low):
                break
            self._set(at, due, low)
            at = below
        self._set(at, due_ms, span)

    def _set(self, at: i64, due_ms: i64, span: i64) -> None:
        block = self._blocks[at >> BLOCK_BITS]
        if block.shared:
            block = _copy_of(block)
            self._blocks[at >> BLOCK_BITS] = block
        block.dues[at & BLOCK_MASK] = due_ms
        block.spans[at & BLOCK_MASK] = span

    def frozen(self) -> ScheduledRuns:
        """All runs as they are now."""
        blocks = self._made or []
        for block in blocks:
            block.shared = True
        return ScheduledRuns(list(blocks), self._size)

    def read(self, cursor: Cursor) -> Iterator[None]:
        """Read what `encode` wrote, behind how many there are: the order of the heap stays."""
        left = cursor.count()
        while left > 0:
            if cursor.room <= 0:
                yield
            some = cursor.take(left)
            left -= some
            for _ in range(some):
                self._read_run(cursor)

    def _read_run(self, cursor: Cursor) -> None:
        due_ms = cursor.long()
        first = cursor.long()
        count = cursor.count()
        if not (0 < count <= COUNT_MAX and 0 <= first <= FIRST_MAX):
            raise ValueError("a queue snapshot with messages that wait and cannot be")
        if self._size & BLOCK_MASK == 0:
            self._blocks.append(_new_block())
        self._size += 1
        self._set(self._size - 1, due_ms, first << COUNT_BITS | (count - 1))
        self.count += count
