"""Reading entries of all kinds by index, off the node's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.errors import Compacted, CorruptRecord
from warren.log.batch import Batch, Header
from warren.log.lanes import LaneRead
from warren.log.listener import BatchReader
from warren.log.reading import Span, below, take

if TYPE_CHECKING:
    from warren.log.group import GroupLog


@final
class EntriesJob(LaneRead):
    """One read of a range of a group's entries."""

    def __init__(
        self, group: GroupLog, first: i64, last: i64, max_bytes: i64, reader: BatchReader
    ) -> None:
        super().__init__()
        self._group = group
        self._first: i64 = first
        self._last: i64 = last
        self._max_bytes: i64 = max_bytes
        self._reader = reader
        self._spans: list[Span] = []
        self._found: list[Batch] = []
        self._cuts_seen: i64 = 0
        self._persisted: i64 = 0

    def start(self) -> None:
        """Plan the read and hand it to the executor."""
        self._plan()
        self._group.store.lanes.submit(self)

    def _plan(self) -> None:
        """Choose what to read: extents for `max_bytes`, at least one, if any is on disk."""
        group = self._group
        self._spans = []
        self._found = []
        self._cuts_seen = group.cut_count()
        self._persisted = group.persisted_index
        if self._first <= group.snapshot_index:
            return
        planned: i64 = 0
        for extents in group.places:
            if extents.last_index < self._first:
                continue
            at = extents.find_index(self._first)
            while at < extents.size:
                if extents.index(at) > self._last or planned >= self._max_bytes:
                    return
                span = Span(extents, at)
                self._spans.append(span)
                planned += span.size
                at += 1

    def read(self) -> None:
        header = Header()
        for span in self._spans:
            take(span, header, self._group, self._first, self._last, True, self._found)

    def release(self) -> None:
        for span in self._spans:
            span.file.release()

    def finished(self, error: BaseException | None) -> None:
        group = self._group
        if group.cut_count() > self._cuts_seen:
            self._found = below(self._found, group.lowest_cut(self._cuts_seen))
        if error is not None or group.dropped or group.incomplete:
            self._reader.batches_read([], error)
        elif self._first <= group.snapshot_index:
            self._reader.batches_read(
                [], Compacted(f"a snapshot covers entry {self._first} of group {group.id}")
            )
        elif not self._found and self._first <= group.persisted_index:
            self._look_again()
        else:
            self._deliver()

    def give_up(self, error: OSError) -> None:
        self._reader.batches_read([], error)

    def _look_again(self) -> None:
        """Nothing was found although there is an entry: it came after the look, or is lost."""
        group = self._group
        if group.cut_count() == self._cuts_seen and self._first <= self._persisted:
            path = group.places[-1].file.path
            self._reader.batches_read(
                [], CorruptRecord(path, 0, f"entry {self._first} of group {group.id} is missing")
            )
        else:
            self.start()

    def _deliver(self) -> None:
        group = self._group
        entries: list[Batch] = []
        size: i64 = 0
        index = self._first
        for batch in self._found:
            if batch.index != index or (entries and size + batch.size() > self._max_bytes):
                break
            entries.append(batch)
            size += batch.size()
            index += 1
        if len(entries) == len(self._found):
            # What is on disk has ended, or the plan has.
            recent = group.recent(index)
            while recent is not None and index <= self._last:
                if entries and size + recent.size() > self._max_bytes:
                    break
                entries.append(recent)
                size += recent.size()
                index += 1
                recent = group.recent(index)
        self._reader.batches_read(entries, None)
