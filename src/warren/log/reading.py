"""Reading message batches back from disk, off the node's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.errors import Compacted, CorruptRecord
from warren.log.batch import KIND_COMMAND, KIND_MESSAGES, Batch, Header, aligned
from warren.log.extents import Extents, is_void
from warren.log.lanes import LaneRead
from warren.log.listener import BatchReader, RawReader
from warren.log.salvage import gaps, messages_in

if TYPE_CHECKING:
    from warren.log.group import GroupLog


@final
class Span:
    """A stretch of a file to read in one go for one group, as it is when the read is planned."""

    def __init__(self, extents: Extents, at: i64) -> None:
        self.file = extents.file
        self.offset: i64 = extents.offset(at)
        self.size: i64 = extents.span(at)
        self.tombstones = extents.tombstones
        self.hidden_from: i64 = extents.hidden_from
        self.file.readers += 1


def walk(data: bytes, base: i64, at: i64, header: Header, path: str) -> i64:
    """Step to the next batch in bytes of a log file, over the padding between rounds.

    Each one's checksum is looked at, whatever group it names: a damaged header may name another
    group or other messages, and what it hides would be passed over as if it did not matter.

    Args:
        data: The bytes.
        base: Offset in the file at which they start.
        at: Where to look, counted in `data`.
        header: Receives the batch's header.
        path: The file, for errors.

    Returns:
        Where the batch starts; -1 if none does.

    Raises:
        CorruptRecord: Neither a whole batch nor padding is there.
    """
    end: i64 = len(data)
    if at < end and data[at] == 0:
        # The first byte of a batch is not zero; padding may be shorter than the magic number.
        at = aligned(base + at) - base
    if at >= end:
        return -1
    problem = header.load(data, at, end)
    if problem:
        raise CorruptRecord(path, base + at, problem)
    if not header.checksum_holds(data, at):
        raise CorruptRecord(path, base + at, "the checksum does not match")
    return at


def take(
    span: Span,
    header: Header,
    group: GroupLog,
    low: i64,
    high: i64,
    by_index: bool,
    found: list[Batch],
) -> None:
    """Read a span and gather the group's entries in it that are not void. Blocks.

    Args:
        span: What to read.
        header: To be used.
        group: The one whose entries are wanted.
        low: The first index, or else the first message number.
        high: The last one, included.
        by_index: Whether indexes are meant, and commands wanted too.
        found: Where they go.

    Raises:
        CorruptRecord: The file is damaged there.
        OSError: The disk failed.
    """
    path = span.file.path
    group_id = group.id
    data = span.file.read(span.offset, span.size)
    if len(data) < span.size:
        raise CorruptRecord(path, span.offset + len(data), "the file ends too early")
    at = walk(data, span.offset, 0, header, path)
    own: i64 = 0
    start = len(found)
    while at >= 0:
        if header.group == group_id and KIND_MESSAGES <= header.kind <= KIND_COMMAND:
            if by_index:
                hit = low <= header.index <= high
            else:
                hit = header.first + header.count > low and header.first <= high
                hit = hit and header.kind != KIND_COMMAND
            if hit and not is_void(
                span.tombstones, span.hidden_from, header.index, span.offset + at
            ):
                found.append(header.batch(group, data, at))
                own += header.size
        at = walk(data, span.offset, at + header.size, header, path)
    if 2 * own < len(data):
        # Do not let a few batches keep a large buffer of other groups' bytes in memory.
        for batch in found[start:]:
            batch.detach()


def end_of(extents: Extents, at: i64) -> i64:
    """The number after the last message that an extent can hold."""
    return extents.number(at + 1) if at + 1 < extents.size else extents.next_message


def below(batches: list[Batch], index: i64) -> list[Batch]:
    """Those of some batches that have a lower index."""
    return [batch for batch in batches if batch.index < index]


def limited(batches: list[Batch], max_bytes: i64) -> list[Batch]:
    """The first ones, up to a size, at least one."""
    size: i64 = 0
    count = 0
    for batch in batches:
        if count > 0 and size + batch.size() > max_bytes:
            return batches[:count]
        size += batch.size()
        count += 1
    return batches


@final
class ReadJob(LaneRead):
    """One read of a range of a group's messages, as batches or as raw bytes."""

    def __init__(
        self,
        group: GroupLog,
        first: i64,
        last: i64,
        max_bytes: i64,
        reader: BatchReader | None,
        raw_reader: RawReader | None,
    ) -> None:
        super().__init__()
        self._group = group
        self._first: i64 = first
        self._last: i64 = last
        self._max_bytes: i64 = max_bytes
        self._reader = reader
        self._raw_reader = raw_reader
        self._spans: list[Span] = []
        self._resume: i64 = first
        """Where to look on if the planned spans hold nothing."""
        self._found: list[Batch] = []
        self._cuts_before: i64 = group.cut_count()
        self._cuts_seen: i64 = 0
        self._damage: CorruptRecord | None = None
        """What was wrong with a span that was read; `_found` is what of it is whole."""

    def start(self) -> None:
        """Plan the read and hand it to the executor."""
        self._plan()
        self._group.store.lanes.submit(self)

    def _plan(self) -> None:
        """Choose what to read: extents for `max_bytes`, at least one."""
        self._spans = []
        self._found = []
        self._damage = None
        group = self._group
        self._cuts_seen = group.cut_count()
        last = self._last
        planned: i64 = 0
        for extents in group.places:
            if extents.next_message <= self._resume:
                continue
            at = extents.find(self._resume)
            while at < extents.size:
                if extents.number(at) > last:
                    return
                behind = end_of(extents, at)
                if behind > extents.number(at):
                    if planned >= self._max_bytes:
                        return
                    span = Span(extents, at)
                    self._spans.append(span)
                    planned += span.size
                    self._resume = behind
                at += 1

    def read(self) -> None:
        header = Header()
        for span in self._spans:
            before = len(self._found)
            try:
                take(span, header, self._group, self._first, self._last, False, self._found)
            except CorruptRecord as error:
                self._damage = error
                del self._found[before:]
                self._found += messages_in(span, self._group, self._first, self._last)

    def release(self) -> None:
        for span in self._spans:
            span.file.release()

    def finished(self, error: BaseException | None) -> None:
        group = self._group
        if group.cut_count() > self._cuts_seen:
            # What was made void since is not handed out; look again for what took its place.
            self._found = below(self._found, group.lowest_cut(self._cuts_seen))
            if not self._found:
                self._resume = self._first
        if error is not None:
            self._deliver([], error)
        elif self._raw_reader is not None and self._voided():
            # To whoever asked, nothing would mean that the messages are gone.
            self._deliver([], Compacted(f"group {group.id} is not what it was"))
        elif group.dropped or group.incomplete:
            self._deliver([], None)
        elif self._damage is not None and group.cut_count() == self._cuts_seen:
            self._deliver_rest(self._damage)
        elif self._found:
            if self._reader is not None:
                group.store.cache.admit_read(self._found, group.share)
            self._deliver(limited(self._found, self._max_bytes), None)
        elif self._resume < group.written_messages and self._resume <= self._last:
            self._plan_on()
        else:
            recent: list[Batch] = []
            for batch in group.share.recent.from_number(self._first):
                if batch.first <= self._last:
                    recent.append(batch)
            self._deliver(limited(recent, self._max_bytes), None)

    def _voided(self) -> bool:
        """Whether the group was deleted, or its log given up for another one, meanwhile."""
        group = self._group
        return group.dropped or group.incomplete or group.lowest_cut(self._cuts_before) == 0

    def give_up(self, error: OSError) -> None:
        self._deliver([], error)

    def _deliver_rest(self, error: CorruptRecord) -> None:
        """Hand out what is whole, and say what is not, of the messages that were looked for."""
        error.group_id = int(self._group.id)
        error.lost = gaps(self._found, self._first, min(self._resume - 1, self._last))
        if self._reader is not None:
            self._group.store.cache.admit_read(self._found, self._group.share)
        self._deliver(self._found, error if error.lost else None)

    def _plan_on(self) -> None:
        before = self._resume
        self._plan()
        if not self._spans and self._resume == before:
            # Nothing on disk from here on: what follows was not written when last looked at.
            self._resume = self._group.written_messages
        self._group.store.lanes.submit(self)

    def _deliver(self, batches: list[Batch], error: BaseException | None) -> None:
        if self._reader is not None:
            self._reader.batches_read(batches, error)
        if self._raw_reader is not None:
            pieces: list[bytes | memoryview] = []
            behind = self._last + 1
            for batch in batches:
                behind = batch.first + batch.count
                pieces.append(batch.stored_view())
            self._raw_reader.raw_read(b"".join(pieces), behind, error)
