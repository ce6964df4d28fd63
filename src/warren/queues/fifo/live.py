"""The message numbers of many runs, put in order in parts.

The runs come from queues and consumers as they were at one moment (`Pieces.freeze`), so they may
change meanwhile. Mostly they ascend but for a few places; then they are only joined. If not, blocks
of them are sorted, and merged.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64

from warren.log.runlist import PAIR_BYTES, LiveRuns, RunList
from warren.queues.fifo.groups import Checkout
from warren.queues.fifo.pieces import Piece
from warren.queues.fifo.runs import pairs_of
from warren.queues.fifo.schedule import ScheduledRuns

PART_RUNS: Final = 8_192
"""Runs that one part looks at, but for the rest of a list: about 4 ms."""


@final
class Gathering(LiveRuns):
    """Puts the numbers of runs in order; none of them may overlap."""

    def __init__(
        self,
        lists: list[list[Piece]],
        checkouts: list[Checkout],
        more: list[list[tuple[int, int]]],
        part_runs: i64 = PART_RUNS,
        scheduled: ScheduledRuns | None = None,
    ) -> None:
        """
        Args:
            lists: Runs; neither the lists nor the runs may change before this is through.
            checkouts: More of them.
            more: And more, as pairs (first, last).
            part_runs: How many of them one part looks at.
            scheduled: Runs of messages that wait for their time.
        """
        super().__init__()
        self._part_runs: i64 = part_runs
        self._lists = lists
        self._checkouts = checkouts
        self._more = more
        self._scheduled: ScheduledRuns | None = scheduled
        self._sequences: list[BytesWriter] = []
        """What was looked at, each in order."""
        self._last: i64 = -1
        """The last number of the newest of them."""
        self._parts: Iterator[None] | None = self._gather()

    def go_on(self) -> bool:
        """Do the next part; whether it was the last."""
        parts = self._parts
        if parts is not None and next(parts, self) is not self:
            return False
        self._parts = None
        return True

    def all(self) -> RunList:
        """Do all parts that are left; gives what they found."""
        while not self.go_on():
            pass
        return self.runs

    def _gather(self) -> Iterator[None]:
        block: list[tuple[int, int]] = []
        for pieces in self._all_lists():
            block.extend(pairs_of(pieces))
            if len(block) >= self._part_runs:
                self._append(block)
                block = []
                yield
        for pairs in self._more:
            block.extend(pairs)
            if len(block) >= self._part_runs:
                self._append(block)
                block = []
                yield
        scheduled = self._scheduled
        waiting: i64 = 0 if scheduled is None else scheduled.size
        for each in range(waiting):
            assert scheduled is not None, "it has some"
            begin = scheduled.first(each)
            block.append((int(begin), int(begin + scheduled.count(each) - 1)))
            if len(block) >= self._part_runs:
                self._append(block)
                block = []
                yield
        self._checkouts = []
        self._more = []
        self._scheduled = None
        self._append(block)
        if len(self._sequences) < 2:
            self.runs = RunList(self._sequences.pop().getvalue() if self._sequences else b"")
            return
        sources: list[bytes] = []
        places: list[int] = []
        heads: list[tuple[int, int]] = []
        copied: i64 = 0
        for at, sequence in enumerate(self._sequences):
            sources.append(sequence.getvalue())
            places.append(0)
            heads.append((read_i64_be(sources[at], 0), at))
            copied += len(sources[at])
            if copied >= PAIR_BYTES * self._part_runs:
                copied = 0
                yield
        self._sequences = []
        heapq.heapify(heads)
        out = BytesWriter()
        first: i64 = -1
        last: i64 = -1
        done: i64 = 0
        while heads:
            at = heads[0][1]
            source = sources[at]
            place: i64 = i64(places[at])
            low = read_i64_be(source, place)
            if first >= 0 and low == last + 1:
                last = read_i64_be(source, place + 8)
            else:
                if first >= 0:
                    write_i64_be(out, first)
                    write_i64_be(out, last)
                first = low
                last = read_i64_be(source, place + 8)
            place += PAIR_BYTES
            if place < len(source):
                places[at] = int(place)
                heapq.heapreplace(heads, (read_i64_be(source, place), at))
            else:
                heapq.heappop(heads)
            done += 1
            if done >= self._part_runs:
                done = 0
                yield
        write_i64_be(out, first)
        write_i64_be(out, last)
        self.runs = RunList(out.getvalue())

    def _all_lists(self) -> Iterator[list[Piece]]:
        """The lists, and those of the checkouts. What was looked at is not kept from going."""
        lists = self._lists
        lists.reverse()
        while lists:
            yield lists.pop()
        for checkout in self._checkouts:
            yield from checkout.messages.freeze()

    def _append(self, block: list[tuple[int, int]]) -> None:
        """Put some runs behind the others, if they belong there, or begin another sequence."""
        if not block:
            return
        block.sort()
        sequences = self._sequences
        first: i64 = i64(block[0][0])
        if not sequences or first <= self._last:
            sequences.append(BytesWriter())
            self._last = -1
        out = sequences[-1]
        last = self._last
        if last >= 0 and first == last + 1:
            # The run before goes on.
            out.truncate(len(out) - 8)
        else:
            write_i64_be(out, first)
        last = first - 1
        for low, high in block:
            if i64(low) != last + 1:
                write_i64_be(out, last)
                write_i64_be(out, i64(low))
            last = i64(high)
        write_i64_be(out, last)
        self._last = last
