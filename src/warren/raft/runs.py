"""The terms of a log's entries, as runs: all that consensus has to know of the log itself.

A log of a million entries written in three terms is three pairs (first index, term). Indexes and
terms only rise along the log, so one comparison covers a run.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class TermRuns:
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
        self._firsts: list[int] = []
        self._terms: list[int] = []

    def last_term(self) -> i64:
        """Term of the newest entry."""
        if len(self._terms) == 0:
            return self.snapshot_term
        return self._terms[-1]

    def term_at(self, index: i64) -> i64:
        """Term of the entry at `index`; -1 where that is unknown."""
        if index > self.last_index or index < self.snapshot_index:
            return -1
        if index == self.snapshot_index:
            return self.snapshot_term
        position = len(self._firsts) - 1
        while i64(self._firsts[position]) > index:
            position -= 1
        return self._terms[position]

    def append(self, last_index: i64, term: i64) -> None:
        """Entries up to `last_index` were added, all of one term.

        Raises:
            AssertionError: The term would fall, or nothing was added.
        """
        assert last_index > self.last_index, "entries are appended behind the last"
        newest = self.last_term()
        assert term >= newest, "terms never fall along a log"
        if len(self._terms) == 0 or term > newest:
            self._firsts.append(self.last_index + 1)
            self._terms.append(term)
        self.last_index = last_index

    def truncate(self, from_index: i64) -> None:
        """The entries from `from_index` on are gone."""
        assert from_index > self.snapshot_index, "a snapshot is never truncated"
        if from_index > self.last_index:
            return
        while len(self._firsts) > 0 and i64(self._firsts[-1]) >= from_index:
            self._firsts.pop()
            self._terms.pop()
        self.last_index = from_index - 1

    def compact(self, index: i64) -> None:
        """The entries up to `index` are in a snapshot now."""
        term = self.term_at(index)
        assert term >= 0, "a snapshot covers entries that are known"
        if index == self.snapshot_index:
            return
        while len(self._firsts) > 1 and i64(self._firsts[1]) <= index + 1:
            self._firsts.pop(0)
            self._terms.pop(0)
        if index == self.last_index:
            self._firsts.clear()
            self._terms.clear()
        elif i64(self._firsts[0]) <= index:
            self._firsts[0] = index + 1
        self.snapshot_index = index
        self.snapshot_term = term

    def reset(self, snapshot_index: i64, snapshot_term: i64) -> None:
        """Everything is replaced by a snapshot."""
        self.snapshot_index = snapshot_index
        self.snapshot_term = snapshot_term
        self.last_index = snapshot_index
        self._firsts.clear()
        self._terms.clear()

    def common(self, index: i64, term: i64) -> i64:
        """The largest index up to `index` whose entry a log may share that has `term` there.

        Entries of higher terms cannot be: terms never fall along a log. So one rejection steps
        back over a whole run. Below the snapshot nothing is known, and `index` itself is answered.
        """
        if index > self.last_index:
            index = self.last_index
        if index < self.snapshot_index:
            return index
        position = len(self._firsts) - 1
        while position >= 0:
            first: i64 = self._firsts[position]
            if first <= index:
                if i64(self._terms[position]) <= term:
                    return index
                index = first - 1
            position -= 1
        return index if self.snapshot_term <= term else self.snapshot_index - 1

    def cut(self, first_index: i64, last_index: i64, firsts: list[int], terms: list[int]) -> None:
        """Append to two lists the runs of the entries `first_index` to `last_index`."""
        assert self.snapshot_index < first_index and last_index <= self.last_index
        position = len(self._firsts) - 1
        while position > 0 and i64(self._firsts[position]) > first_index:
            position -= 1
        while position < len(self._firsts) and i64(self._firsts[position]) <= last_index:
            first: i64 = self._firsts[position]
            firsts.append(first if first > first_index else first_index)
            terms.append(self._terms[position])
            position += 1

    def pairs(self) -> list[tuple[int, int]]:
        """The runs after the snapshot, as pairs (first index, term)."""
        return list(zip(self._firsts, self._terms, strict=True))
