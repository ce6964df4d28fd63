"""Reading message batches back from disk, off the node's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.log.batch import (
    HEADER_BYTES,
    KIND_MESSAGES,
    KIND_TRANSIENT,
    Batch,
    Header,
    aligned,
)
from warren.log.files import LogFile
from warren.log.listener import BatchReader, RawReader
from warren.ports import Job

if TYPE_CHECKING:
    from warren.log.group import GroupLog


@final
class Span:
    """A stretch of a file to read in one go."""

    def __init__(self, file: LogFile, offset: i64, size: i64) -> None:
        self.file = file
        self.offset: i64 = offset
        self.size: i64 = size


def walk(data: bytes, base: i64, at: i64, header: Header, path: str) -> i64:
    """Step to the next batch in bytes of a log file, over the padding between rounds.

    Args:
        data: The bytes.
        base: Offset in the file at which they start.
        at: Where to look, counted in `data`.
        header: Receives the batch's header.
        path: The file, for errors.

    Returns:
        Where the batch starts; -1 if none does.

    Raises:
        CorruptRecord: Neither a batch nor padding is there.
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
    return at


@final
class ReadJob(Job):
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
        self._group = group
        self._group_id: i64 = group.id
        self._first: i64 = first
        self._last: i64 = last
        self._max_bytes: i64 = max_bytes
        self._reader = reader
        self._raw_reader = raw_reader
        self._spans: list[Span] = []
        self._resume: i64 = first
        """Where to look on if the planned spans hold nothing."""
        self._found: list[Batch] = []
        self._found_bytes: i64 = 0

    def start(self) -> None:
        """Plan the read and hand it to the executor."""
        self._plan()
        self._group.store.executor.submit("read", self)

    def _plan(self) -> None:
        """Choose what to read: extents for `max_bytes`, at least one."""
        self._spans = []
        last = self._last
        planned: i64 = 0
        for extents in self._group.places:
            if extents.next_message <= self._resume:
                continue
            size: i64 = len(extents.offsets)
            at = extents.find(self._resume)
            while at < size:
                if extents.numbers[at] > last:
                    return
                behind = extents.numbers[at + 1] if at + 1 < size else extents.next_message
                if behind > extents.numbers[at]:
                    if planned >= self._max_bytes:
                        return
                    span = extents.spans[at]
                    extents.file.readers += 1
                    self._spans.append(Span(extents.file, extents.offsets[at], span))
                    planned += span
                    self._resume = behind
                at += 1

    def run(self) -> None:
        header = Header()
        for span in self._spans:
            self._scan(span, header)

    def _scan(self, span: Span, header: Header) -> None:
        path = span.file.path
        data = span.file.handle.read(span.offset, span.size)
        if len(data) < span.size:
            raise CorruptRecord(path, span.offset + len(data), "the file ends too early")
        at = walk(data, span.offset, 0, header, path)
        own: i64 = 0
        start = len(self._found)
        while at >= 0:
            if (
                header.group == self._group_id
                and (header.kind == KIND_MESSAGES or header.kind == KIND_TRANSIENT)
                and header.first + header.count > self._first
                and header.first <= self._last
            ):
                if not header.checksum_holds(data, at):
                    raise CorruptRecord(path, span.offset + at, "the checksum does not match")
                self._found.append(header.batch(self._group, data, at))
                own += header.size
            at = walk(data, span.offset, at + header.size, header, path)
        if 2 * own < len(data):
            # Do not let a few batches keep a large buffer of other groups' bytes in memory.
            for batch in self._found[start:]:
                detach(batch)

    def done(self, error: BaseException | None) -> None:
        for span in self._spans:
            span.file.release()
        group = self._group
        if error is not None:
            self._deliver([], error)
        elif group.dropped:
            self._deliver([], None)
        elif self._found:
            if self._reader is not None:
                group.store.cache.admit_read(self._found, group.share)
            self._deliver(self._limited(self._found), None)
        elif self._resume < group.written_messages and self._resume <= self._last:
            self._plan_on()
        else:
            recent: list[Batch] = []
            for batch in group.share.recent.from_number(self._first):
                if batch.first <= self._last:
                    recent.append(batch)
            self._deliver(self._limited(recent), None)

    def _plan_on(self) -> None:
        before = self._resume
        self._plan()
        if not self._spans and self._resume == before:
            # Nothing on disk from here on: what follows was not written when last looked at.
            self._resume = self._group.written_messages
        self._group.store.executor.submit("read", self)

    def _limited(self, batches: list[Batch]) -> list[Batch]:
        """The first of these, up to `max_bytes`, at least one."""
        size: i64 = 0
        count = 0
        for batch in batches:
            if count > 0 and size + batch.size() > self._max_bytes:
                return batches[:count]
            size += batch.size()
            count += 1
        return batches

    def _deliver(self, batches: list[Batch], error: BaseException | None) -> None:
        if self._reader is not None:
            self._reader.batches_read(batches, error)
        if self._raw_reader is not None:
            pieces: list[bytes] = []
            behind = self._last + 1
            for batch in batches:
                behind = batch.first + batch.count
                if batch.lengths is batch.payload:
                    start = batch.lengths_at - HEADER_BYTES
                    pieces.append(batch.payload[start : batch.payload_at + batch.payload_size])
                else:
                    pieces.append(batch.encode_head())
                    pieces.append(batch.body())
            self._raw_reader.raw_read(b"".join(pieces), behind, error)


def detach(batch: Batch) -> None:
    """Give a batch its own copy of its bytes."""
    lengths_end = batch.lengths_at + 4 * batch.count
    batch.lengths = batch.lengths[batch.lengths_at : lengths_end]
    batch.lengths_at = 0
    batch.payload = batch.body()
    batch.payload_at = 0
