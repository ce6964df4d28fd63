"""The terms of a log's entries as runs: a million entries written in three terms are three pairs.

Indexes and terms only rise along a log, so one comparison covers a run. Consensus and the log on
disk each keep the terms of the entries that they know. Most logs have one run, so the newest takes
no memory of its own.
"""

from __future__ import annotations

from typing import final

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr


@final
@mypyc_attr(acyclic=True)  # Nothing that it refers to leads back to it.
class TermRuns:
    """Pairs of the first index of a run of entries and their term. Both only rise.

    Attributes:
        last_term: The term of the newest run, 0 if there is none.
    """

    def __init__(self) -> None:
        self.last_term: i64 = 0
        self._last_first: i64 = -1
        """The first index of the newest run; negative if there is none."""
        self._older = vec[i64]()
        """First index and term of each of the others, side by side."""

    def __len__(self) -> int:
        return int(self._size())

    def _size(self) -> i64:
        return 0 if self._last_first < 0 else len(self._older) // 2 + 1

    def first(self, at: i64) -> i64:
        """The index of a run's first entry."""
        older = self._older
        return older[2 * at] if 2 * at < len(older) else self._last_first

    def term(self, at: i64) -> i64:
        """The term of a run's entries."""
        older = self._older
        return older[2 * at + 1] if 2 * at < len(older) else self.last_term

    def note(self, index: i64, term: i64) -> None:
        """Note an entry after all noted before; one of the term noted last changes nothing."""
        if self._last_first < 0:
            self._last_first = index
            self.last_term = term
        elif term != self.last_term:
            self._older = append(append(self._older, self._last_first), self.last_term)
            self._last_first = index
            self.last_term = term

    def cut(self, index: i64) -> None:
        """Forget the entries from an index on."""
        count = self._size()
        if count == 0 or self._last_first < index:
            return
        while count > 0 and self.first(count - 1) >= index:
            count -= 1
        self._keep(0, count)

    def forget(self, index: i64) -> None:
        """Forget the entries up to an index; one after them belongs to the last run."""
        count = self._size()
        gone: i64 = 0
        while gone + 1 < count and self.first(gone + 1) <= index + 1:
            gone += 1
        if gone > 0:
            self._keep(gone, count)
        if count > 0 and self.first(0) <= index:
            if len(self._older) > 0:
                self._older[0] = index + 1
            else:
                self._last_first = index + 1

    def _keep(self, begin: i64, end: i64) -> None:
        """Forget all runs but for some that follow each other."""
        if begin == end:
            self.clear()
            return
        first = self.first(end - 1)
        self.last_term = self.term(end - 1)
        self._last_first = first
        self._older = self._older[2 * begin : 2 * (end - 1)]

    def clear(self) -> None:
        """Forget all entries."""
        self.last_term = 0
        self._last_first = -1
        self._older = vec[i64]()

    def at(self, index: i64) -> i64:
        """The term of the run that an index belongs to, 0 before the first."""
        if 0 <= self._last_first <= index:
            return self.last_term
        at = self._size() - 1
        while at > 0 and self.first(at - 1) > index:
            at -= 1
        return self.term(at - 1) if at > 0 else 0

    def merge(self, other: TermRuns, below: i64) -> None:
        """Note the runs of later entries, as far as they begin below an index."""
        for at in range(other._size()):
            if other.first(at) < below:
                self.note(other.first(at), other.term(at))

    def know(self, index: i64, term: i64) -> None:
        """Note one entry between those that are known."""
        if self.at(index) == term and self._last_first >= 0:
            return
        behind = TermRuns()
        for at in range(self._size()):
            if self.first(at) > index:
                behind.note(self.first(at), self.term(at))
        self.cut(index)
        self.note(index, term)
        self.merge(behind, 0x7FFF_FFFF_FFFF_FFFF)
