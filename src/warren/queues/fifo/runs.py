"""Runs of message numbers: how a queue remembers messages without an object for each.

A `Run` is a contiguous stretch of message numbers that share their delivery counters. A backlog
that nobody touched is one run, whatever its length. Where messages of several priorities come by
turns, each is a run; of a long backlog of these most lie packed, a `RunPack` for some hundred.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from librt.vecs import append, vec
from mypy_extensions import i32, i64, mypyc_attr, u8

from warren.queues.fifo.cursor import Cursor
from warren.queues.fifo.pieces import Pack, Piece, Pieces, Stretches, opened, pack_of

RUN_BYTES: Final = 24

PACKED_MAX: Final = (1 << 31) - 1
"""Between the first message of a pack and that of each run, and messages of a run, at most."""

PACKED_TIMES_MAX: Final = 255
"""How often messages in a pack came back, or failed, at most."""


@final
@mypyc_attr(acyclic=True)
class Run(Piece):
    """Messages `first` to `first + count - 1`.

    It refers to nothing, so that the collector of cyclic garbage need not know it: there are many.

    Attributes:
        key: In a queue the number of the first message, in what a consumer holds its message id.
        acquired: How often these messages were handed out before and came back.
        failed: How often that was because a delivery failed.
    """

    def __init__(
        self, key: i64, first: i64, count: i64, acquired: i64 = 0, failed: i64 = 0
    ) -> None:
        super().__init__(key, count)
        self.first: i64 = first
        self.acquired: i64 = acquired
        self.failed: i64 = failed

    def part(self, offset: i64, count: i64) -> Piece:
        """Some of these messages, with the same counters."""
        return Run(self.key + offset, self.first + offset, count, self.acquired, self.failed)

    def shorten(self, count: i64) -> None:
        """Give up so many of the first messages."""
        self.key += count
        self.first += count
        self.count -= count

    def precedes(self, first: i64, acquired: i64, failed: i64) -> bool:
        """Whether a run that begins with `first` and has these counters is one with this."""
        return (
            self.first + self.count == first and self.acquired == acquired and self.failed == failed
        )

    def pack(self, pieces: list[Piece]) -> Pack | None:
        """A `RunPack`, if no number in these runs is too large for one."""
        last = as_run(pieces[-1])
        pack = RunPack(self.first, last.first + last.count - self.first, len(pieces))
        return pack if pack.fill(pieces) else None


@final
@mypyc_attr(acyclic=True)
class RunPack(Pack):
    """Runs whose keys are the numbers of their first messages, in 8 or 10 bytes each."""

    def __init__(self, key: i64, count: i64, size: i64) -> None:
        super().__init__(key, count, size)
        self._offsets: vec[i32] = vec[i32](capacity=size)
        """Where each begins, counted from the key; in whatever order they are."""
        self._counts: vec[i32] = vec[i32](capacity=size)
        self._times: vec[u8] = vec[u8]()
        """How often the messages of each were acquired, and failed; nothing if none ever were."""

    def fill(self, pieces: list[Piece]) -> bool:
        """Take the runs of a list; False if it cannot, and is of no use then."""
        timed = False
        for piece in pieces:
            run = as_run(piece)
            offset = run.first - self.key
            if not -PACKED_MAX <= offset <= PACKED_MAX or run.count > PACKED_MAX:
                return False
            if run.acquired > 0 or run.failed > 0:
                timed = True
            self._offsets = append(self._offsets, i32(offset))
            self._counts = append(self._counts, i32(run.count))
        if timed:
            times = vec[u8](capacity=2 * len(pieces))
            for piece in pieces:
                run = as_run(piece)
                if run.acquired > PACKED_TIMES_MAX or run.failed > PACKED_TIMES_MAX:
                    return False
                times = append(times, u8(run.acquired))
                times = append(times, u8(run.failed))
            self._times = times
        return True

    def open(self) -> list[Piece]:
        """Make the runs."""
        return [self.run(at) for at in range(self.size)]

    def run(self, at: i64) -> Run:
        """Make one of the runs."""
        first = self.key + i64(self._offsets[at])
        count = i64(self._counts[at])
        if len(self._times) == 0:
            return Run(first, first, count)
        return Run(first, first, count, i64(self._times[2 * at]), i64(self._times[2 * at + 1]))

    def pairs(self) -> list[tuple[int, int]]:
        """The messages of all runs as (first, last) pairs."""
        found: list[tuple[int, int]] = []
        for at in range(self.size):
            first = self.key + i64(self._offsets[at])
            found.append((first, first + i64(self._counts[at]) - 1))
        return found

    def encode(self, out: BytesWriter) -> None:
        """Append all runs to a snapshot, as `encode_runs` does."""
        timed = len(self._times) > 0
        for at in range(self.size):
            first = self.key + i64(self._offsets[at])
            write_i64_be(out, first)
            write_i64_be(out, first + i64(self._counts[at]) - 1)
            write_i32_be(out, i32(i64(self._times[2 * at])) if timed else 0)
            write_i32_be(out, i32(i64(self._times[2 * at + 1])) if timed else 0)

    def meets(self, gone: Stretches) -> bool:
        """Whether there is a message of these stretches in any of the runs."""
        lowest = gone.firsts[0]
        highest = gone.lasts[gone.size - 1]
        near: i64 = 0
        for at in range(self.size):
            first = self.key + i64(self._offsets[at])
            behind = first + i64(self._counts[at])
            if first <= highest and behind > lowest:
                near = gone.find_near(first, near)
                if gone.firsts[near] < behind:
                    return True
        return False


@final
class RunQueue:
    """A FIFO of runs; neighbours that continue each other are merged."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self._made: Pieces | None = None
        """None as long as there never was a run: there are some in each queue."""

    @property
    def _pieces(self) -> Pieces:
        """The runs, to change them."""
        pieces = self._made
        if pieces is None:
            pieces = self._made = Pieces(packs=True)
        return pieces

    def push(self, first: i64, last: i64, acquired: i64 = 0, failed: i64 = 0) -> None:
        """Append numbers behind everything that is here."""
        count = last - first + 1
        self.count += count
        pieces = self._pieces
        tail = pieces.tail()
        if tail is not None and as_run(tail).precedes(first, acquired, failed):
            pieces.grow_tail(count)
        else:
            pieces.push(Run(first, first, count, acquired, failed))

    def add(self, run: Run) -> None:
        """Append a run that is nobody else's behind everything that is here."""
        self.count += run.count
        pieces = self._pieces
        tail = pieces.tail()
        if tail is not None and as_run(tail).precedes(run.first, run.acquired, run.failed):
            pieces.grow_tail(run.count)
        else:
            run.key = run.first
            pieces.push(run)

    def head(self) -> Run:
        """The first run; the queue must not be empty."""
        return as_run(self._pieces.head())

    def end(self) -> i64:
        """The number behind the last run; -1 if there is none."""
        tail = None if self._made is None else self._made.tail()
        return -1 if tail is None else tail.key + tail.count

    def take(self, count: i64) -> None:
        """Drop `count` numbers, at most its length, from the first run."""
        self._pieces.drop(count)
        self.count -= count

    def take_all(self) -> list[list[Piece]]:
        """Take all runs out, in lists, in queue order."""
        self.count = 0
        return [] if self._made is None else self._made.take_all()

    def count_of_first(self, runs: i64) -> i64:
        """Numbers in about so many of the first runs; a few hundred more, at most."""
        return 0 if self._made is None else self._made.count_of_first(runs)

    def freeze(self) -> list[list[Piece]]:
        """All runs as they are now, in lists, in queue order."""
        return [] if self._made is None else self._made.freeze()

    def remove(self, first: i64, last: i64) -> list[list[Piece]]:
        """Take the numbers `first..last` out; the runs have to be ascending."""
        pieces = self._pieces
        taken = pieces.take(first, last)
        self.count = pieces.count
        return taken

    def strike(self, gone: list[tuple[int, int]]) -> list[list[Piece]]:
        """Take numbers out, whatever order the runs are in: may look at them all.

        Args:
            gone: Ascending pairs of first and last numbers.
        """
        pieces = self._pieces
        taken = pieces.strike(gone)
        self.count = pieces.count
        return taken

    def cut_out(self, gone: list[tuple[int, int]]) -> None:
        """Take numbers out; what is left is joined, as it is where a snapshot is read.

        Args:
            gone: Ascending pairs of first and last numbers.
        """
        for pieces in self.take_all():
            for piece in opened(pieces):
                run = as_run(piece)
                first = run.first
                behind = run.first + run.count
                low = 0
                high = len(gone)
                while low < high:
                    middle = (low + high) // 2
                    if gone[middle][1] < first:
                        low = middle + 1
                    else:
                        high = middle
                while low < len(gone) and gone[low][0] < behind:
                    if first < gone[low][0]:
                        self.push(first, i64(gone[low][0]) - 1, run.acquired, run.failed)
                    first = i64(gone[low][1]) + 1
                    low += 1
                if first < behind:
                    self.push(first, behind - 1, run.acquired, run.failed)

    def clear(self) -> None:
        """Forget all numbers."""
        self._made = None
        self.count = 0

    def insert(self, run: Run) -> None:
        """Put a run, by number, to where it was; the runs have to be ascending."""
        pieces = self._pieces
        self.count += run.count
        before, behind = pieces.neighbours(run.first)
        assert before is None or before.key + before.count <= run.first, "runs are disjoint"
        assert behind is None or run.first + run.count <= behind.key, "runs are disjoint"
        if before is not None and as_run(before).precedes(run.first, run.acquired, run.failed):
            grown = as_run(pieces.grow(before, run.count))
            if behind is not None:
                after = as_run(behind)
                if grown.precedes(after.first, after.acquired, after.failed):
                    pieces.take(after.key, after.key + after.count - 1)
                    pieces.grow(grown, after.count)
            return
        if behind is not None:
            after = as_run(behind)
            if run.precedes(after.first, after.acquired, after.failed):
                after = as_run(pieces.grow(after, run.count))
                after.key = run.first
                after.first = run.first
                return
        run.key = run.first
        pieces.insert(run)

    def pairs(self) -> list[tuple[int, int]]:
        """All numbers as (first, last) pairs, in queue order."""
        found: list[tuple[int, int]] = []
        for chunk in [] if self._made is None else self._made.chunks():
            found.extend(pairs_of(chunk.live()))
        return found

    def runs(self) -> list[Run]:
        """All runs, in queue order."""
        return [] if self._made is None else [as_run(piece) for piece in self._made.all()]

    def quadruples(self) -> list[tuple[int, int, int, int]]:
        """All runs as (first, last, acquired, failed), in queue order."""
        return [(r.first, r.first + r.count - 1, r.acquired, r.failed) for r in self.runs()]

    def read(self, cursor: Cursor) -> Iterator[None]:
        """Append what a snapshot has of a queue, in parts."""
        left = cursor.count()
        while left > 0:
            if cursor.room <= 0:
                yield
            some = cursor.take(left)
            left -= some
            self._read_some(cursor, some)

    def _read_some(self, cursor: Cursor, count: i64) -> None:
        for _ in range(count):
            self.add(read_run(cursor))


def as_run(piece: Piece) -> Run:
    """A piece of what a queue or a consumer has."""
    assert isinstance(piece, Run), "queues and consumers have runs of messages"
    return piece


def pairs_of(pieces: list[Piece]) -> list[tuple[int, int]]:
    """The messages of some runs as (first, last) pairs."""
    pack = pack_of(pieces)
    if pack is not None:
        return as_run_pack(pack).pairs()
    found: list[tuple[int, int]] = []
    for piece in pieces:
        run = as_run(piece)
        found.append((run.first, run.first + run.count - 1))
    return found


def as_run_pack(pack: Pack) -> RunPack:
    """What stands for pieces of what a queue has."""
    assert isinstance(pack, RunPack), "queues have runs of messages"
    return pack


def run_at(pieces: list[Piece], at: i64) -> Run:
    """One of the runs that a list stands for."""
    pack = pack_of(pieces)
    return as_run(pieces[at]) if pack is None else as_run_pack(pack).run(at)


def encode_runs(out: BytesWriter, pieces: list[Piece]) -> None:
    """Append runs to a snapshot: `first last acquired failed` each."""
    pack = pack_of(pieces)
    if pack is not None:
        as_run_pack(pack).encode(out)
        return
    for piece in pieces:
        run = as_run(piece)
        write_i64_be(out, run.first)
        write_i64_be(out, run.first + run.count - 1)
        write_i32_be(out, i32(run.acquired))
        write_i32_be(out, i32(run.failed))


def read_run(cursor: Cursor) -> Run:
    """Read one run that `encode_runs` wrote."""
    data = cursor.data
    at = cursor.at
    cursor.at = at + RUN_BYTES
    first = read_i64_be(data, at)
    count = read_i64_be(data, at + 8) - first + 1
    acquired = i64(read_i32_be(data, at + 16))
    failed = i64(read_i32_be(data, at + 20))
    return Run(first, first, count, acquired, failed)


def merge_pairs(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort (first, last) pairs and join those that touch; none may overlap."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(pairs):
        if merged and merged[-1][1] + 1 == first:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged


def disjoint(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort (first, last) pairs and join those that overlap; those without numbers are left out."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(pairs):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        elif first <= last:
            found.append((first, last))
    return found


def common(pairs: list[tuple[int, int]], others: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The numbers that are in both of two lists of ascending pairs."""
    found: list[tuple[int, int]] = []
    at = 0
    for first, last in pairs:
        while at < len(others) and others[at][1] < first:
            at += 1
        turn = at
        while turn < len(others) and others[turn][0] <= last:
            found.append((max(first, others[turn][0]), min(last, others[turn][1])))
            turn += 1
    return found


def without(pairs: list[tuple[int, int]], others: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The numbers of ascending pairs that are in none of some others, which ascend, too."""
    found: list[tuple[int, int]] = []
    at = 0
    for first, last in pairs:
        while at < len(others) and others[at][1] < first:
            at += 1
        turn = at
        while turn < len(others) and others[turn][0] <= last:
            if first < others[turn][0]:
                found.append((first, others[turn][0] - 1))
            first = others[turn][1] + 1
            turn += 1
        if first <= last:
            found.append((first, last))
    return merge_pairs(found)


def first_of(run: Run) -> int:
    """The number of the first message of a run."""
    return int(run.first)


def common_runs(runs: list[Run], other: Run) -> list[Run]:
    """The parts of ascending runs whose messages are in another one, too; with their counters."""
    last = other.first + other.count - 1
    low: i64 = 0
    high: i64 = len(runs)
    while low < high:
        middle = (low + high) // 2
        if runs[middle].first + runs[middle].count <= other.first:
            low = middle + 1
        else:
            high = middle
    found: list[Run] = []
    while low < len(runs) and runs[low].first <= last:
        run = runs[low]
        first = max(run.first, other.first)
        count = min(last, run.first + run.count - 1) - first + 1
        found.append(Run(first, first, count, run.acquired, run.failed))
        low += 1
    return found
