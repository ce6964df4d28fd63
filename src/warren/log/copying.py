"""Copying what lives in some files to a new one, group by group."""

from __future__ import annotations

from typing import Final, final
from zlib import crc32

from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.log.batch import (
    CHECKSUM_AT,
    HEADER_BYTES,
    KIND_DROP,
    KIND_MESSAGES,
    KIND_SNAPSHOT,
    KIND_TRANSIENT,
    Batch,
    Header,
    aligned,
    encode_round,
    identity,
)
from warren.log.files import Extents, LogFile
from warren.log.reading import walk

ROUND_BYTES: Final = 1024 * 1024
"""A round of the new file is written when it has this size."""


@final
class CopyPart:
    """What to take from one file for one group.

    Attributes:
        extents: Where the group's batches lie there.
        runs: Live messages: ascending pairs (first, last), both included.
        with_snapshot: Whether the snapshot there is the one to keep.
    """

    def __init__(self, extents: Extents, runs: list[tuple[int, int]], with_snapshot: bool) -> None:
        self.extents = extents
        self.runs = runs
        self.with_snapshot = with_snapshot


@final
class Copier:
    """One rewrite.

    Attributes:
        cancelled: Set from outside to end early; what was written is then worthless.
    """

    def __init__(self, parts: list[CopyPart], drops: list[int], salt: i64, max_span: i64) -> None:
        self._parts = parts
        self._drops = drops
        self._salt: i64 = salt
        self._max_span: i64 = max_span
        self.cancelled = False
        self._file: LogFile | None = None
        self._header = Header()
        self._pieces: list[bytes] = []
        self._digest: int = 0
        self._size: i64 = 0
        self._rounds: i64 = 0

    def run(self, file: LogFile) -> None:
        """Write the new file and its index; it is not synced. Blocks.

        Raises:
            CorruptRecord: A source is damaged.
            OSError: The disk failed or is full.
        """
        self._file = file
        for group_id in self._drops:
            batch = Batch(None, KIND_DROP, 0, 0, 0, 0, 0, b"", 0, b"", 0, 0, None)
            batch.group_id = group_id
            self._add(batch, batch.encode_head(), file)
            file.drops.append(group_id)
        for part in self._parts:
            if self.cancelled:
                return
            self._copy(part, file)
        self._write_round(file)

    def _copy(self, part: CopyPart, file: LogFile) -> None:
        extents = part.extents
        if part.with_snapshot:
            source = extents.file
            data = source.handle.read(extents.snapshot_offset, extents.snapshot_size)
            if walk(data, extents.snapshot_offset, 0, self._header, source.path) != 0:
                raise CorruptRecord(source.path, extents.snapshot_offset, "no batch begins here")
            self._take(data, 0, extents.snapshot_offset, source, file)
        if not part.runs:
            return
        turn: i64 = 0
        for at in range(len(extents.offsets)):
            # Runs that end before this extent are behind us.
            while turn < len(part.runs) and part.runs[turn][1] < extents.numbers[at]:
                turn += 1
            if turn == len(part.runs) or self.cancelled:
                return
            behind = (
                extents.numbers[at + 1] if at + 1 < len(extents.numbers) else extents.next_message
            )
            if part.runs[turn][0] < behind:
                self._copy_extent(extents, at, part.runs, turn, file)

    def _copy_extent(
        self, extents: Extents, at: i64, runs: list[tuple[int, int]], turn: i64, file: LogFile
    ) -> None:
        source = extents.file
        base = extents.offsets[at]
        span = extents.spans[at]
        header = self._header
        data = source.handle.read(base, span)
        if len(data) < span:
            raise CorruptRecord(source.path, base + len(data), "the file ends too early")
        place = walk(data, base, 0, header, source.path)
        while place >= 0:
            size = header.size
            if header.group == extents.group_id and (
                header.kind == KIND_MESSAGES or header.kind == KIND_TRANSIENT
            ):
                while turn < len(runs) and runs[turn][1] < header.first:
                    turn += 1
                self._take_live(data, place, base, runs, turn, source, file)
            place = walk(data, base, place + size, header, source.path)

    def _take_live(
        self,
        data: bytes,
        at: i64,
        base: i64,
        runs: list[tuple[int, int]],
        turn: i64,
        source: LogFile,
        file: LogFile,
    ) -> None:
        """Copy the live part of the message batch in the header: all, some runs, or nothing."""
        header = self._header
        first = header.first
        last = first + header.count - 1
        if turn == len(runs) or runs[turn][0] > last:
            return
        if runs[turn][0] <= first and runs[turn][1] >= last:
            self._take(data, at, base + at, source, file)
            return
        if not header.checksum_holds(data, at):
            raise CorruptRecord(source.path, base + at, "the checksum does not match")
        whole = header.batch(None, data, at)
        while turn < len(runs) and runs[turn][0] <= last:
            part = narrowed(whole, max(i64(runs[turn][0]), first), min(i64(runs[turn][1]), last))
            self._add(part, part.encode_head(), file)
            turn += 1

    def _take(self, data: bytes, at: i64, offset: i64, source: LogFile, file: LogFile) -> None:
        """Copy the batch in the header as it is."""
        header = self._header
        if not header.checksum_holds(data, at):
            raise CorruptRecord(source.path, offset, "the checksum does not match")
        batch = header.batch(None, data, at)
        self._add(batch, data[at : batch.payload_at], file)

    def _add(self, batch: Batch, head: bytes, file: LogFile) -> None:
        offset = file.end + HEADER_BYTES + self._size
        size = batch.size()
        if batch.kind == KIND_SNAPSHOT:
            file.extents(batch.group_id).add_snapshot(batch.index, offset, size)
        elif batch.kind != KIND_DROP:
            file.extents(batch.group_id).add(
                batch.kind, batch.index, batch.first, batch.count, offset, size, self._max_span
            )
        self._pieces.append(head)
        self._digest = crc32(head[CHECKSUM_AT : CHECKSUM_AT + 4], self._digest)
        if batch.payload_size > 0:
            self._pieces.append(batch.body())
        self._size += size
        if self._size >= ROUND_BYTES:
            self._write_round(file)

    def _write_round(self, file: LogFile) -> None:
        if self._size == 0:
            return
        size = HEADER_BYTES + self._size
        self._rounds += 1
        # Nothing of this file is vouched for before it is whole, hence durable up to 0.
        opening = encode_round(
            file.end, self._rounds, identity(self._salt, file.number), 0, size, self._digest
        )
        padding = bytes(aligned(size) - size)
        file.handle.write([opening, *self._pieces, padding], file.end)
        file.end = file.end + aligned(size)
        self._pieces = []
        self._digest = 0
        self._size = 0


def narrowed(whole: Batch, first: i64, last: i64) -> Batch:
    """The batch of the same entry with only the messages `first` to `last`, both included."""
    skip = first - whole.first
    count = last - first + 1
    start = whole.offset(skip)
    end = whole.offset(skip + count - 1) + whole.length(skip + count - 1)
    part = Batch(
        None,
        whole.kind,
        whole.index,
        whole.term,
        first,
        count,
        whole.stamp_ms,
        whole.lengths,
        whole.lengths_at + 4 * skip,
        whole.payload,
        start,
        end - start,
        None,
    )
    part.group_id = whole.group_id
    return part
