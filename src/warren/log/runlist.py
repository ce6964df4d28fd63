"""Many runs of message numbers in one piece of memory, which is had and let go of in one go."""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64, mypyc_attr

from warren.ports import Work

PAIR_BYTES: Final = 16


@final
class RunList:
    """Ascending, disjoint runs of message numbers.

    Attributes:
        data: First and last number of each, both included, i64 with the high byte first.
        size: How many runs there are.
    """

    def __init__(self, data: bytes) -> None:
        self.data: bytes = data
        self.size: i64 = len(data) // PAIR_BYTES

    def first(self, at: i64) -> i64:
        """Where a run begins."""
        return read_i64_be(self.data, PAIR_BYTES * at)

    def last(self, at: i64) -> i64:
        """Where it ends; that number is in it."""
        return read_i64_be(self.data, PAIR_BYTES * at + 8)

    def find(self, number: i64) -> i64:
        """Index of the first run that ends at or behind a number."""
        low: i64 = 0
        high: i64 = self.size
        while low < high:
            middle = (low + high) // 2
            if self.last(middle) < number:
                low = middle + 1
            else:
                high = middle
        return low

    def reaches(self, number: i64) -> bool:
        """Whether there are messages with this number or a higher one."""
        return self.size > 0 and self.last(self.size - 1) >= number

    def pairs(self) -> list[tuple[int, int]]:
        """The runs as (first, last)."""
        return [(int(self.first(at)), int(self.last(at))) for at in range(self.size)]


NO_RUNS: Final = RunList(b"")


def run_list(pairs: list[tuple[int, int]]) -> RunList:
    """Ascending, disjoint runs, in one piece."""
    out = BytesWriter()
    for first, last in pairs:
        write_i64_be(out, first)
        write_i64_be(out, last)
    return RunList(out.getvalue())


@mypyc_attr(allow_interpreted_subclasses=True)
class LiveRuns(Work):
    """Finds out which messages of a group are needed; `runs` has them when it is through."""

    def __init__(self) -> None:
        self.runs: RunList = NO_RUNS


@final
class KnownRuns(LiveRuns):
    """There is nothing to find out."""

    def __init__(self, runs: RunList) -> None:
        super().__init__()
        self.runs = runs

    def go_on(self) -> bool:
        """Nothing is to be done."""
        return True
