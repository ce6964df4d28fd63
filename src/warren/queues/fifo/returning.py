"""Messages on their way back into their queue, however many runs they are in.

What a consumer held leaves it at once, in the lists that it was kept in; a queue's machine then
makes it ready again some runs at a time, with each entry of the log that it applies.

In a snapshot: flags u8 (1 failed, 2 spared), strands i32, for each its runs like those of a queue.
"""

from __future__ import annotations

import heapq
from typing import Final, final

from librt.strings import read_i32_be
from mypy_extensions import i64

from warren.queues.fifo.pieces import CHUNK_PIECES, Piece
from warren.queues.fifo.runs import Run, as_run, decode_run

FAILED: Final = 1
SPARED: Final = 2


@final
class Strand:
    """Runs that somebody held, to be taken one after the other.

    Attributes:
        count: Messages in them.
    """

    def __init__(self, lists: list[list[Piece]], count: i64) -> None:
        lists.reverse()
        self.count: i64 = count
        self._lists: list[list[Piece]] = lists
        self._at: i64 = 0

    def next(self) -> Run | None:
        """Take the first run; None if there is no more."""
        lists = self._lists
        while lists:
            pieces = lists[-1]
            if self._at < len(pieces):
                run = as_run(pieces[self._at])
                self._at += 1
                self.count -= run.count
                return run
            lists.pop()
            self._at = 0
        return None

    def rest(self) -> list[list[Piece]]:
        """What was not taken, in order."""
        lists = self._lists[::-1]
        if lists and self._at > 0:
            lists[0] = lists[0][self._at :]
        return lists


@final
class Return:
    """Messages that one command returns; of several strands the lowest comes first each time.

    Attributes:
        count: Messages that are not ready again yet.
        failed: Whether a delivery of them failed.
        spared: Whether the delivery limit is not for them.
    """

    def __init__(self, strands: list[Strand], failed: bool, spared: bool) -> None:
        self.count: i64 = 0
        self.failed: bool = failed
        self.spared: bool = spared
        self._strands: list[Strand] = strands
        self._heads: list[tuple[int, int]] = []
        """Of several strands, the number that each begins with and which one it is; a heap."""
        self._runs: list[Run | None] = []
        """The first run of each of several strands, which it does not have any more."""
        for strand in strands:
            self.count += strand.count
        if len(strands) > 1:
            for at, strand in enumerate(strands):
                run = strand.next()
                self._runs.append(run)
                if run is not None:
                    self._heads.append((run.first, at))
            heapq.heapify(self._heads)

    def next(self) -> Run | None:
        """Take the next run; None if there is no more."""
        if len(self._strands) > 1:
            return self._lowest()
        run = self._strands[0].next()
        if run is not None:
            self.count -= run.count
        return run

    def _lowest(self) -> Run | None:
        if not self._heads:
            return None
        at = self._heads[0][1]
        lowest = self._runs[at]
        assert lowest is not None, "who stands in the heap has a run"
        run = self._strands[at].next()
        self._runs[at] = run
        if run is None:
            heapq.heappop(self._heads)
        else:
            heapq.heapreplace(self._heads, (run.first, at))
        self.count -= lowest.count
        return lowest

    def lists(self) -> list[list[Piece]]:
        """All that is not ready again yet, strand by strand."""
        found: list[list[Piece]] = []
        for at in range(len(self._strands)):
            found.extend(self._rest(at))
        return found

    def flags(self) -> i64:
        """What a snapshot has of it beside the messages."""
        return (FAILED if self.failed else 0) + (SPARED if self.spared else 0)

    def strands(self) -> list[list[list[Piece]]]:
        """What is not ready again yet of each strand; none of it changes."""
        return [self._rest(at) for at in range(len(self._strands))]

    def _rest(self, at: int) -> list[list[Piece]]:
        lists = self._strands[at].rest()
        if self._runs:
            run = self._runs[at]
            if run is not None:
                lists.insert(0, [run])
        return lists


def decode_return(data: bytes, at: i64) -> tuple[Return, i64]:
    """Read what a snapshot has of a return; returns it and the offset behind it."""
    flags = data[at]
    count: i64 = i64(read_i32_be(data, at + 1))
    at += 5
    strands: list[Strand] = []
    for _ in range(count):
        strand, at = _decode_strand(data, at)
        strands.append(strand)
    return Return(strands, flags & FAILED != 0, flags & SPARED != 0), at


def _decode_strand(data: bytes, at: i64) -> tuple[Strand, i64]:
    """Runs are kept as they were, joined or not: so many of them come back at a time."""
    count: i64 = i64(read_i32_be(data, at))
    at += 4
    messages: i64 = 0
    lists: list[list[Piece]] = []
    for number in range(count):
        run, at = decode_run(data, at)
        messages += run.count
        if number % CHUNK_PIECES == 0:
            lists.append([])
        lists[-1].append(run)
    return Strand(lists, messages), at
