"""Copying what lives in some files to a new one, group by group."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.checksum import crc32
from warren.errors import CorruptRecord
from warren.log.batch import (
    CHECKSUM_AT,
    HEADER_BYTES,
    KIND_DROP,
    KIND_MESSAGES,
    KIND_RESET,
    KIND_SNAPSHOT,
    KIND_STATE,
    KIND_TRANSIENT,
    KIND_TRUNCATE,
    Batch,
    Header,
    aligned,
    encode_round,
    identity,
)
from warren.log.extents import Extents, Tombstone, is_void
from warren.log.facts import narrowed_facts
from warren.log.files import LogFile
from warren.log.reading import walk
from warren.log.runlist import RunList

ROUND_BYTES: Final = 1024 * 1024
"""A round of the new file is written when it has this size."""


@final
class CopyPart:
    """What to take from one file for one group, as it is when the rewrite is planned.

    Attributes:
        extents: Where the group's batches lie there.
        runs: Live messages.
        with_snapshot: Whether the snapshot there is the one to keep.
        with_state: Whether the state there is the one to keep.
        tombstones: Those there that are needed on.
        size, next_message, hidden_from: What is not void, as in `Extents`.
    """

    def __init__(
        self,
        extents: Extents,
        runs: RunList,
        with_snapshot: bool,
        with_state: bool,
        tombstones: list[Tombstone],
    ) -> None:
        self.extents = extents
        self.runs = runs
        self.with_snapshot = with_snapshot
        self.with_state = with_state
        self.tombstones = tombstones
        self.size: i64 = extents.size
        self.next_message: i64 = extents.next_message
        self.hidden_from: i64 = extents.hidden_from


@final
class Copier:
    """One rewrite.

    Attributes:
        cancelled: Set from outside to end early; what was written is then worthless.
        part: What is being copied, None while nothing is read.
        sought: Where in it messages are being copied from, as at most one pair (first, last) of
            numbers; empty while a snapshot or a state is.
    """

    def __init__(self, parts: list[CopyPart], drops: list[int], salt: i64, max_span: i64) -> None:
        self._parts = parts
        parts.reverse()
        self._drops = drops
        self._salt: i64 = salt
        self._max_span: i64 = max_span
        self.cancelled = False
        self.part: CopyPart | None = None
        self.sought: list[tuple[int, int]] = []
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
        while self._parts:
            if self.cancelled:
                return
            # Let go of here, and not of all when the loop is told.
            part = self._parts.pop()
            self.part = part
            self.sought = []
            self._copy(part, file)
        self.part = None
        self._write_round(file)

    def _copy(self, part: CopyPart, file: LogFile) -> None:
        extents = part.extents
        # Tombstones first: they are about earlier files only, and what follows here is not void.
        for tombstone in part.tombstones:
            kind = KIND_RESET if tombstone.index == 0 else KIND_TRUNCATE
            term = 1 if tombstone.opens else 0
            index, first = tombstone.index, tombstone.next_message
            batch = Batch(None, kind, index, term, first, 0, 0, b"", 0, b"", 0, 0, None)
            batch.group_id = extents.group_id
            self._add(batch, batch.encode_head(), file)
        if part.with_state:
            self._take_control(extents.file, extents.state_offset, extents.state_size, file)
        if part.with_snapshot:
            self._take_control(extents.file, extents.snapshot_offset, extents.snapshot_size, file)
        runs = part.runs
        if runs.size == 0:
            return
        turn: i64 = 0
        for at in range(part.size):
            # Runs that end before this extent are behind us.
            if turn < runs.size and runs.last(turn) < extents.number(at):
                turn = runs.find(extents.number(at))
            if turn == runs.size or self.cancelled:
                return
            behind = extents.number(at + 1) if at + 1 < part.size else part.next_message
            if runs.first(turn) < behind:
                self.sought = [(int(extents.number(at)), int(behind - 1))]
                self._copy_extent(part, at, turn, file)

    def _take_control(self, source: LogFile, offset: i64, size: i64, file: LogFile) -> None:
        """Copy a snapshot or a state."""
        data = source.read(offset, size)
        if walk(data, offset, 0, self._header, source.path) != 0:
            raise CorruptRecord(source.path, offset, "no batch begins here")
        self._take(data, 0, file)

    def _copy_extent(self, part: CopyPart, at: i64, turn: i64, file: LogFile) -> None:
        extents = part.extents
        runs = part.runs
        source = extents.file
        base = extents.offset(at)
        span = extents.span(at)
        header = self._header
        data = source.read(base, span)
        if len(data) < span:
            raise CorruptRecord(source.path, base + len(data), "the file ends too early")
        place = walk(data, base, 0, header, source.path)
        while place >= 0:
            size = header.size
            if (
                header.group == extents.group_id
                and (header.kind == KIND_MESSAGES or header.kind == KIND_TRANSIENT)
                and not is_void(extents.tombstones, part.hidden_from, header.index, base + place)
            ):
                while turn < runs.size and runs.last(turn) < header.first:
                    turn += 1
                self._take_live(data, place, runs, turn, file)
            place = walk(data, base, place + size, header, source.path)

    def _take_live(
        self,
        data: bytes,
        at: i64,
        runs: RunList,
        turn: i64,
        file: LogFile,
    ) -> None:
        """Copy the live part of the message batch in the header: all, some runs, or nothing."""
        header = self._header
        first = header.first
        last = first + header.count - 1
        if turn == runs.size or runs.first(turn) > last:
            return
        if runs.first(turn) <= first and runs.last(turn) >= last:
            self._take(data, at, file)
            return
        whole = header.batch(None, data, at)
        while turn < runs.size and runs.first(turn) <= last:
            part = narrowed(whole, max(runs.first(turn), first), min(runs.last(turn), last))
            self._add(part, part.encode_head(), file)
            turn += 1

    def _take(self, data: bytes, at: i64, file: LogFile) -> None:
        """Copy the batch in the header as it is."""
        batch = self._header.batch(None, data, at)
        self._add(batch, data[at : batch.payload_at], file)

    def _add(self, batch: Batch, head: bytes, file: LogFile) -> None:
        offset = file.end + HEADER_BYTES + self._size
        size = batch.size()
        if batch.kind == KIND_SNAPSHOT:
            file.extents(batch.group_id).add_snapshot(batch.index, offset, size)
        elif batch.kind == KIND_STATE:
            file.extents(batch.group_id).add_state(batch.index, offset, size)
        elif batch.kind >= KIND_TRUNCATE:
            tombstone = Tombstone(batch.index, batch.first, offset, batch.term > 0)
            file.extents(batch.group_id).cut(tombstone)
        elif batch.kind != KIND_DROP:
            file.extents(batch.group_id).add(
                batch.kind,
                batch.index,
                batch.term,
                batch.first,
                batch.count,
                offset,
                size,
                self._max_span,
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
        whole.session,
        whole.sequence,
        whole.flavour,
        whole.life_ms,
        narrowed_facts(whole.facts, skip, count),
    )
    part.group_id = whole.group_id
    return part
