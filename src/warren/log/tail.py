"""What a replicated group keeps in memory of its newest entries.

For every entry after the snapshot the number that the next message had before it, so that
truncating needs no look at the disk; and the entries themselves as long as they are not durable,
then up to a bound, for followers that are a little behind and for applying.
"""

from __future__ import annotations

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

from warren.headed_list import SLACK_MIN, HeadedList
from warren.log.batch import Batch
from warren.log.cache import BATCH_OVERHEAD_BYTES

RECENT_MAX: Final = 4_096
"""Durable entries of one group that are kept, whatever their size."""


@final
class Tail:
    """The end of one group's log.

    Attributes:
        limit_bytes: Size up to which durable entries are kept.
        base: Index from which on the numbers of messages are known.
    """

    def __init__(self, index: i64) -> None:
        self.limit_bytes: i64 = 0
        self.base: i64 = index
        self._firsts = vec[i64]()
        self._batches: HeadedList[Batch] = HeadedList()
        self._from: i64 = index
        """Index of the first of `_batches`."""
        self._bytes: i64 = 0

    def restart(self, index: i64) -> None:
        """Forget everything; entries begin at an index."""
        self.base = index
        self._firsts = vec[i64]()
        self._batches.clear()
        self._from = index
        self._bytes = 0

    def push(self, batch: Batch) -> None:
        """Take the next entry."""
        self._firsts = append(self._firsts, batch.first)
        self._batches.append(batch)
        self._bytes += batch.size() + BATCH_OVERHEAD_BYTES

    def note(self, first: i64) -> None:
        """The next entry is on disk only. For recovery, before the first `push`."""
        self._firsts = append(self._firsts, first)
        self._from += 1

    def first_of(self, index: i64) -> i64:
        """The number the next message had before an entry; the entry must be known."""
        return self._firsts[index - self.base]

    def knows(self, index: i64) -> bool:
        """Whether `first_of` can tell."""
        return self.base <= index < self.base + len(self._firsts)

    def find(self, index: i64) -> Batch | None:
        """An entry, if it is in memory."""
        at = index - self._from
        if at < 0 or at >= self._batches.size():
            return None
        return self._batches.at(at)

    def trim(self, persisted_index: i64) -> None:
        """Let durable entries go that are too many."""
        batches = self._batches
        while (
            batches.size() > 0
            and self._from <= persisted_index
            and (self._bytes > self.limit_bytes or batches.size() > RECENT_MAX)
        ):
            self._bytes -= batches.at(0).size() + BATCH_OVERHEAD_BYTES
            batches.drop(1)
            self._from += 1

    def forget_to(self, index: i64) -> None:
        """A snapshot covers the entries up to an index: they are not truncated any more."""
        dead = index + 1 - self.base
        if dead > SLACK_MIN and 2 * dead > len(self._firsts):
            dead = min(dead, len(self._firsts))
            self._firsts = self._firsts[dead:]
            self.base += dead

    def cut(self, index: i64) -> None:
        """Forget the entries from an index on."""
        self._firsts = self._firsts[: index - self.base]
        batches = self._batches
        size = batches.size()
        keep = max(0, min(size, index - self._from))
        for at in range(keep, size):
            self._bytes -= batches.at(at).size() + BATCH_OVERHEAD_BYTES
        batches.cut(keep)
        if self._from > index:
            self._from = index
