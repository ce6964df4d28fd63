"""Reading the messages that live in a snapshot, as batches to store elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.errors import Compacted
from warren.log.batch import Batch, Header
from warren.log.copying import narrowed
from warren.log.lanes import LaneRead
from warren.log.listener import RawReader
from warren.log.reading import Span, end_of, take
from warren.log.runlist import RunList

if TYPE_CHECKING:
    from warren.log.group import GroupLog


@final
class LiveJob(LaneRead):
    """One read of some runs of a group's messages."""

    def __init__(
        self, group: GroupLog, runs: RunList, first: i64, max_bytes: i64, reader: RawReader
    ) -> None:
        super().__init__()
        self._group = group
        self._runs = runs
        self._max_bytes: i64 = max_bytes
        self._reader = reader
        self._spans: list[Span] = []
        self._pieces: list[bytes] = []
        self._bytes: i64 = 0
        self._cuts_seen: i64 = group.cut_count()
        self._next: i64 = first
        """The first message not looked for yet."""
        self._resume: i64 = self._next

    def start(self) -> None:
        """Plan the read and hand it to the executor."""
        self._plan()
        self._group.store.lanes.submit(self)

    def _plan(self) -> None:
        """Choose extents that hold messages of the runs, for `max_bytes`, at least one."""
        self._spans = []
        runs = self._runs
        planned: i64 = 0
        for extents in self._group.places:
            if extents.next_message <= self._next:
                continue
            at = extents.find(self._next)
            while at < extents.size:
                low = max(extents.number(at), self._next)
                behind = end_of(extents, at)
                turn = runs.find(low)
                if turn == runs.size:
                    break
                if runs.first(turn) < behind:
                    if planned >= self._max_bytes:
                        return
                    span = Span(extents, at)
                    self._spans.append(span)
                    planned += span.size
                    self._resume = behind
                at += 1
        # All that is there is planned for.
        self._resume = runs.last(runs.size - 1) + 1 if runs.size > 0 else 0

    def read(self) -> None:
        header = Header()
        found: list[Batch] = []
        for span in self._spans:
            take(span, header, self._group, self._next, self._resume - 1, False, found)
        runs = self._runs
        for batch in found:
            last = batch.first + batch.count - 1
            first = max(batch.first, self._next)
            at = runs.find(first)
            while at < runs.size and runs.first(at) <= last:
                low = max(runs.first(at), first)
                high = min(runs.last(at), last)
                whole = low == batch.first and high == last
                if not self._add(batch if whole else narrowed(batch, low, high)):
                    return
                at += 1
        self._next = self._resume

    def _add(self, batch: Batch) -> bool:
        """Take a batch, if there is room for it."""
        if self._pieces and self._bytes + batch.size() > self._max_bytes:
            self._next = batch.first
            return False
        self._pieces.append(batch.encoded())
        self._bytes += batch.size()
        return True

    def release(self) -> None:
        for span in self._spans:
            span.file.release()

    def finished(self, error: BaseException | None) -> None:
        group = self._group
        if error is None and (group.dropped or group.lowest_cut(self._cuts_seen) == 0):
            error = Compacted(f"group {group.id} is not what it was")
        if error is not None:
            self._reader.raw_read(b"", 0, error)
        elif self._pieces or not self._runs.reaches(self._next):
            self._reader.raw_read(b"".join(self._pieces), self._next, None)
        else:
            self.start()

    def give_up(self, error: OSError) -> None:
        self._reader.raw_read(b"", 0, error)
