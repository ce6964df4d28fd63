"""All that consensus has to know of its log: where it begins and ends, and the terms between."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.term_runs import TermRuns


@final
class LogTerms:
    """Terms from the snapshot to the end of the log.

    Attributes:
        snapshot_index: Index of the last entry that only the snapshot holds; 0 for none.
        snapshot_term: Its term; 0 for none.
        last_index: Index of the newest entry; `snapshot_index` if there is none after it.
    """

    def __init__(self, snapshot_index: i64, snapshot_term: i64) -> None:
        self.snapshot_index: i64 = snapshot_index
        self.snapshot_term: i64 = snapshot_term
        self.last_index: i64 = snapshot_index
        self._runs: TermRuns = TermRuns()

    def last_term(self) -> i64:
        """Term of the newest entry."""
        return self._runs.last_term if len(self._runs) > 0 else self.snapshot_term

    def term_at(self, index: i64) -> i64:
        """Term of the entry at `index`; -1 where that is unknown."""
        if index > self.last_index or index < self.snapshot_index:
            return -1
        if index == self.snapshot_index:
            return self.snapshot_term
        return self._runs.at(index)

    def append(self, last_index: i64, term: i64) -> None:
        """Entries up to `last_index` were added, all of one term.

        Raises:
            AssertionError: The term would fall, or nothing was added.
        """
        assert last_index > self.last_index, "entries are appended behind the last"
        assert term >= self.last_term(), "terms never fall along a log"
        self._runs.note(self.last_index + 1, term)
        self.last_index = last_index

    def truncate(self, from_index: i64) -> None:
        """The entries from `from_index` on are gone."""
        assert from_index > self.snapshot_index, "a snapshot is never truncated"
        if from_index > self.last_index:
            return
        self._runs.cut(from_index)
        self.last_index = from_index - 1

    def compact(self, index: i64) -> None:
        """The entries up to `index` are in a snapshot now."""
        term = self.term_at(index)
        assert term >= 0, "a snapshot covers entries that are known"
        if index == self.snapshot_index:
            return
        if index == self.last_index:
            self._runs.clear()
        else:
            self._runs.forget(index)
        self.snapshot_index = index
        self.snapshot_term = term

    def reset(self, snapshot_index: i64, snapshot_term: i64) -> None:
        """Everything is replaced by a snapshot."""
        self.snapshot_index = snapshot_index
        self.snapshot_term = snapshot_term
        self.last_index = snapshot_index
        self._runs.clear()

    def common(self, index: i64, term: i64) -> i64:
        """The largest index up to `index` whose entry a log may share that has `term` there.

        Entries of higher terms cannot be: terms never fall along a log. So one rejection steps
        back over a whole run. Below the snapshot nothing is known, and `index` itself is answered.
        """
        if index > self.last_index:
            index = self.last_index
        if index < self.snapshot_index:
            return index
        runs = self._runs
        position = len(runs) - 1
        while position >= 0:
            first = runs.first(position)
            if first <= index:
                if runs.term(position) <= term:
                    return index
                index = first - 1
            position -= 1
        return index if self.snapshot_term <= term else self.snapshot_index - 1

    def cut(self, first_index: i64, last_index: i64, firsts: list[int], terms: list[int]) -> None:
        """Append to two lists the runs of the entries `first_index` to `last_index`."""
        assert self.snapshot_index < first_index and last_index <= self.last_index
        runs = self._runs
        position = len(runs) - 1
        while position > 0 and runs.first(position) > first_index:
            position -= 1
        while position < len(runs) and runs.first(position) <= last_index:
            firsts.append(int(max(runs.first(position), first_index)))
            terms.append(int(runs.term(position)))
            position += 1

    def pairs(self) -> list[tuple[int, int]]:
        """The runs after the snapshot, as pairs (first index, term)."""
        runs = self._runs
        return [(int(runs.first(at)), int(runs.term(at))) for at in range(len(runs))]
