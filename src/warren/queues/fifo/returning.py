"""Messages on their way back into their queue, or out of it, however many runs they are in.

What a consumer held leaves it at once, in the lists that it was kept in; a queue's machine then
makes it ready again, or forgets it, some runs at a time, with each entry of the log.

A return in a snapshot: flags u8, place u8, limit i64, and if it is delayed kind u8, min_ms i64,
max_ms i64, since_ms i64; strands i32, for each its runs like those of a queue.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from warren.headed_list import HeadedList
from warren.queues.fifo.cursor import Cursor
from warren.queues.fifo.delayed import NO_RETRY, Retry
from warren.queues.fifo.pieces import CHUNK_PIECES, Piece, opened, size_of
from warren.queues.fifo.runs import Run, read_run, run_at
from warren.queues.fifo.sizes import Sizes

FAILED: Final = 1
"""In the flags of a return: deliveries failed."""
FAILURES: Final = 2
"""And: failures count towards the limit, and no other returns."""
DELAYED: Final = 4
"""And: they are to wait before they are ready."""


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
            if self._at < size_of(pieces):
                run = run_at(pieces, self._at)
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
            lists[0] = opened(lists[0])[self._at :]
        return lists


@final
class Return:
    """Messages that one command returns; of several strands the lowest comes first each time.

    Attributes:
        count: Messages that are not ready again yet.
        failed: Whether a delivery of them failed.
        place: Where they go, one of the places of `Ready.put_back`.
        limit: The delivery limit for them; negative for none. It was in force when they returned,
            whatever it is when they are ready.
        failures: Whether failed deliveries count towards it alone, and no other returns; likewise.
        delayed: Whether they are to wait first.
        retry: For how long, then; likewise.
        since_ms: From when on, in the log's time.
    """

    def __init__(
        self,
        strands: list[Strand],
        failed: bool,
        place: i64,
        limit: i64,
        failures: bool,
        delayed: bool = False,
        retry: Retry = NO_RETRY,
        since_ms: i64 = 0,
    ) -> None:
        self.count: i64 = 0
        self.delayed: bool = delayed
        self.retry: Retry = retry
        self.since_ms: i64 = since_ms
        self.failed: bool = failed
        self.place: i64 = place
        self.limit: i64 = limit
        self.failures: bool = failures
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

    def encode(self, out: BytesWriter) -> None:
        """Append what a snapshot has of it before its strands."""
        flags = (FAILED if self.failed else 0) + (FAILURES if self.failures else 0)
        out.append(flags + (DELAYED if self.delayed else 0))
        out.append(self.place)
        write_i64_be(out, self.limit)
        if self.delayed:
            out.append(self.retry.kind)
            write_i64_be(out, self.retry.min_ms)
            write_i64_be(out, self.retry.max_ms)
            write_i64_be(out, self.since_ms)

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


@final
class Returning:
    """All that is on its way back into a queue, by the commands that returned it.

    Attributes:
        count: Messages that are not ready again yet.
    """

    def __init__(self) -> None:
        self.count: i64 = 0
        self._works: HeadedList[Return] | None = None

    def add(self, work: Return) -> None:
        """Have messages return behind all that return already."""
        self.count += work.count
        works = self._works
        if works is None:
            works = self._works = HeadedList()
        works.append(work)

    def first(self) -> Return:
        """The return under way; there must be one."""
        works = self._works
        assert works is not None, "there is one"
        return works.at(0)

    def next(self) -> Run | None:
        """Take the next run of the return under way; None if it was through."""
        works = self._works
        assert works is not None, "there is one"
        work = works.at(0)
        run = work.next()
        if run is not None:
            self.count -= run.count
        if work.count == 0:
            works.drop(1)
        return run

    def works(self) -> list[Return]:
        """All of them, in order."""
        works = self._works
        return [] if works is None else [works.at(place) for place in range(works.size())]

    def lists(self) -> list[list[Piece]]:
        """All that is on its way, in lists that do not change."""
        lists: list[list[Piece]] = []
        for work in self.works():
            lists.extend(work.lists())
        return lists


@final
class Leaving:
    """What has left a queue and is not forgotten yet: how large its messages were.

    Attributes:
        count: Messages in it.
    """

    def __init__(self) -> None:
        self.count: i64 = 0
        self._strands: HeadedList[Strand] | None = None
        self._first: i64 = 0
        """The first message of the run under way that is not forgotten."""
        self._rest: i64 = 0
        """How many there are of these."""

    def add(self, lists: list[list[Piece]], count: i64, sizes: Sizes, steps: i64) -> i64:
        """So many messages left, in lists which stay as they are.

        Most are forgotten at once, one stretch of a run at a step; gives how many steps are left.
        """
        if self.count == 0:
            for number in range(len(lists)):
                pieces = lists[number]
                for at in range(size_of(pieces)):
                    run = run_at(pieces, at)
                    first = run.first
                    behind = first + run.count
                    while first < behind:
                        if steps <= 0:
                            rest = [Run(first, first, behind - first), *opened(pieces)[at + 1 :]]
                            self._keep([rest, *lists[number + 1 :]], count)
                            return 0
                        steps -= 1
                        done = sizes.forget(first, behind - first)
                        first += done
                        count -= done
        elif count > 0:
            self._keep(list(lists), count)
        return steps

    def _keep(self, lists: list[list[Piece]], count: i64) -> None:
        self._append(Strand(lists, count))

    def _append(self, strand: Strand) -> None:
        self.count += strand.count
        strands = self._strands
        if strands is None:
            strands = self._strands = HeadedList()
        strands.append(strand)

    def forget(self, sizes: Sizes, steps: i64) -> i64:
        """Forget more of it, a stretch of a run at a step; gives how many steps are left."""
        strands = self._strands
        if strands is None:
            return steps
        while self.count > 0 and steps > 0:
            if self._rest == 0:
                run = strands.at(0).next()
                if run is None:
                    strands.drop(1)
                    continue
                self._first = run.first
                self._rest = run.count
            steps -= 1
            done = sizes.forget(self._first, self._rest)
            self._first += done
            self._rest -= done
            self.count -= done
        if self.count == 0:
            strands.clear()
        return steps

    def lists(self) -> list[list[Piece]]:
        """All of it, in lists that do not change."""
        lists: list[list[Piece]] = []
        if self._rest > 0:
            lists.append([Run(self._first, self._first, self._rest)])
        strands = self._strands
        if strands is not None:
            for place in range(strands.size()):
                lists.extend(strands.at(place).rest())
        return lists

    def read(self, cursor: Cursor) -> Iterator[None]:
        """Read what a snapshot has of it, in parts."""
        strands: list[Strand] = []
        yield from read_strand(cursor, strands)
        if strands[0].count > 0:
            self._append(strands[0])


def read_return(cursor: Cursor, coming: Returning) -> Iterator[None]:
    """Add what a snapshot has of a return, in parts."""
    flags = cursor.octet()
    place = cursor.octet()
    limit = cursor.long()
    delayed = flags & DELAYED != 0
    retry = NO_RETRY
    since_ms: i64 = 0
    if delayed:
        kind = cursor.octet()
        min_ms = cursor.long()
        retry = Retry(kind, min_ms, cursor.long())
        since_ms = cursor.long()
    strands: list[Strand] = []
    for _ in range(cursor.count()):
        yield from read_strand(cursor, strands)
    failed = flags & FAILED != 0
    failures = flags & FAILURES != 0
    coming.add(Return(strands, failed, place, limit, failures, delayed, retry, since_ms))


def read_strand(cursor: Cursor, strands: list[Strand]) -> Iterator[None]:
    """Append a strand to others, in parts.

    Runs are kept as they were, joined or not: so many of them come back at a time.
    """
    messages: i64 = 0
    lists: list[list[Piece]] = []
    left = cursor.count()
    while left > 0:
        if cursor.room <= 0:
            yield
        some = cursor.take(min(left, CHUNK_PIECES))
        left -= some
        pieces: list[Piece] = []
        for _ in range(some):
            run = read_run(cursor)
            messages += run.count
            pieces.append(run)
        lists.append(pieces)
    strands.append(Strand(lists, messages))
