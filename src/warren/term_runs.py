"""The terms of a log's entries as runs: a million entries written in three terms are three pairs.

Indexes and terms only rise along a log, so one comparison covers a run. Consensus and the log on
disk each keep the terms of the entries that they know.
"""

from __future__ import annotations

from typing import final

from librt.vecs import append, vec
from mypy_extensions import i64


@final
class TermRuns:
    """Pairs of the first index of a run of entries and their term. Both only rise.

    Attributes:
        last_term: The term of the newest run, 0 if there is none.
    """

    def __init__(self) -> None:
        self._firsts = vec[i64]()
        self._terms = vec[i64]()
        self.last_term: i64 = 0

    def __len__(self) -> int:
        return len(self._firsts)

    def first(self, at: i64) -> i64:
        """The index of a run's first entry."""
        return self._firsts[at]

    def term(self, at: i64) -> i64:
        """The term of a run's entries."""
        return self._terms[at]

    def note(self, index: i64, term: i64) -> None:
        """Note an entry after all noted before; one of the term noted last changes nothing."""
        if term != self.last_term or len(self._firsts) == 0:
            self._firsts = append(self._firsts, index)
            self._terms = append(self._terms, term)
            self.last_term = term

    def cut(self, index: i64) -> None:
        """Forget the entries from an index on."""
        count = len(self._firsts)
        if count == 0 or self._firsts[count - 1] < index:
            return
        while count > 0 and self._firsts[count - 1] >= index:
            count -= 1
        self._firsts = self._firsts[:count]
        self._terms = self._terms[:count]
        self.last_term = self._terms[count - 1] if count > 0 else 0

    def forget(self, index: i64) -> None:
        """Forget the entries up to an index; one after them belongs to the last run."""
        count = len(self._firsts)
        gone = 0
        while gone + 1 < count and self._firsts[gone + 1] <= index + 1:
            gone += 1
        if gone > 0:
            self._firsts = self._firsts[gone:]
            self._terms = self._terms[gone:]
        if count > 0 and self._firsts[0] <= index:
            self._firsts[0] = index + 1

    def clear(self) -> None:
        """Forget all entries."""
        self._firsts = vec[i64]()
        self._terms = vec[i64]()
        self.last_term = 0

    def at(self, index: i64) -> i64:
        """The term of the run that an index belongs to, 0 before the first."""
        at = len(self._firsts)
        while at > 0 and self._firsts[at - 1] > index:
            at -= 1
        return self._terms[at - 1] if at > 0 else 0

    def merge(self, other: TermRuns, below: i64) -> None:
        """Note the runs of later entries, as far as they begin below an index."""
        for at in range(len(other)):
            if other.first(at) < below:
                self.note(other.first(at), other.term(at))

    def know(self, index: i64, term: i64) -> None:
        """Note one entry between those that are known."""
        if self.at(index) == term and len(self._firsts) > 0:
            return
        behind = TermRuns()
        for at in range(len(self._firsts)):
            if self._firsts[at] > index:
                behind.note(self._firsts[at], self._terms[at])
        self.cut(index)
        self.note(index, term)
        self.merge(behind, 0x7FFF_FFFF_FFFF_FFFF)
