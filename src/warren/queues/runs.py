"""Runs of message numbers: how a queue remembers messages without an object for each.

A `Run` is a contiguous stretch of message numbers that share their delivery counters. A backlog
that nobody touched is one run, whatever its length.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

RUN_BYTES: Final = 24


@final
class Run:
    """Message numbers `first` to `last`, both included.

    Attributes:
        acquired: How often these messages were handed out before and came back.
        failed: How often that was because a delivery failed.
    """

    def __init__(self, first: i64, last: i64, acquired: i64 = 0, failed: i64 = 0) -> None:
        self.first: i64 = first
        self.last: i64 = last
        self.acquired: i64 = acquired
        self.failed: i64 = failed


@final
class RunQueue:
    """A FIFO of runs; neighbours that continue each other are merged."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self._runs: list[Run] = []
        self._head: i64 = 0

    def push(self, first: i64, last: i64, acquired: i64 = 0, failed: i64 = 0) -> None:
        """Append numbers behind everything that is here."""
        self.count += last - first + 1
        if self._head < len(self._runs):
            tail = self._runs[-1]
            if tail.last + 1 == first and tail.acquired == acquired and tail.failed == failed:
                tail.last = last
                return
        self._runs.append(Run(first, last, acquired, failed))

    def head(self) -> Run:
        """The first run; the queue must not be empty."""
        return self._runs[self._head]

    def take(self, count: i64) -> None:
        """Drop `count` numbers, at most its length, from the first run."""
        run = self._runs[self._head]
        run.first += count
        self.count -= count
        if run.first > run.last:
            self._head += 1
            if self._head == len(self._runs):
                self._runs.clear()
                self._head = 0
            elif self._head > 256 and self._head * 2 > len(self._runs):
                del self._runs[: self._head]
                self._head = 0

    def remove(self, first: i64, last: i64) -> None:
        """Drop the numbers `first..last`, wherever they are; the runs have to be ascending."""
        runs = self._runs
        low = self._find(first)
        while low < len(runs) and runs[low].first <= last:
            run = runs[low]
            start = max(run.first, first)
            stop = min(run.last, last)
            self.count -= stop - start + 1
            if start == run.first and stop == run.last:
                if low == self._head:
                    self._head += 1
                    low += 1
                else:
                    del runs[low]
                continue
            if start == run.first:
                run.first = stop + 1
            elif stop == run.last:
                run.last = start - 1
            else:
                runs.insert(low + 1, Run(stop + 1, run.last, run.acquired, run.failed))
                run.last = start - 1
            low += 1
        if self._head == len(runs):
            runs.clear()
            self._head = 0

    def clear(self) -> None:
        """Forget all numbers."""
        self._runs.clear()
        self._head = 0
        self.count = 0

    def insert_sorted(self, runs: list[Run]) -> None:
        """Merge runs into place by number, for messages that return to where they were.

        What lies before and behind all of them is not looked at, however much that is.
        """
        if not runs:
            return
        for run in runs:
            self.count += run.last - run.first + 1
        runs.sort(key=first_of)
        mine = self._runs
        low = self._find(runs[0].first)
        high = self._find(runs[-1].first)
        region = mine[low:high]
        if region:
            region.extend(runs)
            region.sort(key=first_of)
        else:
            region = runs
        if low > self._head:
            # So that it may be joined with the first that comes behind it.
            low -= 1
            region.insert(0, mine[low])
        if high < len(mine):
            region.append(mine[high])
            high += 1
        merged: list[Run] = []
        tail: Run | None = None
        for run in region:
            if tail is not None and tail.last + 1 == run.first:
                if tail.acquired == run.acquired and tail.failed == run.failed:
                    tail.last = run.last
                    continue
            merged.append(run)
            tail = run
        mine[low:high] = merged

    def _find(self, number: i64) -> i64:
        """Index of the first run that ends at or behind a number; the runs are ascending."""
        runs = self._runs
        low: i64 = self._head
        high: i64 = len(runs)
        while low < high:
            middle = (low + high) // 2
            if runs[middle].last < number:
                low = middle + 1
            else:
                high = middle
        return low

    def pairs(self) -> list[tuple[int, int]]:
        """All numbers as (first, last) pairs, in queue order."""
        return [(run.first, run.last) for run in self._runs[self._head :]]

    def quadruples(self) -> list[tuple[int, int, int, int]]:
        """All runs as (first, last, acquired, failed), in queue order."""
        return [(r.first, r.last, r.acquired, r.failed) for r in self._runs[self._head :]]

    def encode(self, out: BytesWriter) -> None:
        """Append this queue to a snapshot: a count, then `first last acquired failed` each."""
        live = self._runs[self._head :]
        write_i32_be(out, i32(len(live)))
        for run in live:
            write_i64_be(out, run.first)
            write_i64_be(out, run.last)
            write_i32_be(out, i32(run.acquired))
            write_i32_be(out, i32(run.failed))

    def decode(self, data: bytes, at: i64) -> i64:
        """Read what `encode` wrote; returns the offset behind it."""
        count: i64 = i64(read_i32_be(data, at))
        at += 4
        for _ in range(count):
            self.push(
                read_i64_be(data, at),
                read_i64_be(data, at + 8),
                i64(read_i32_be(data, at + 16)),
                i64(read_i32_be(data, at + 20)),
            )
            at += RUN_BYTES
        return at


def first_of(run: Run) -> int:
    """Sort key: a run's first number."""
    return run.first


def merge_pairs(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort (first, last) pairs and join those that touch; none may overlap."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(pairs):
        if merged and merged[-1][1] + 1 == first:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged


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
    """The numbers of ascending pairs that are not in others."""
    left: list[tuple[int, int]] = []
    for first, last in pairs:
        for low, high in common([(first, last)], others):
            if first < low:
                left.append((first, low - 1))
            first = high + 1
        if first <= last:
            left.append((first, last))
    return left
