"""Reading a log file from its start: what is in it, where it ends, whether it is whole."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, final

from librt.strings import read_i32_le
from mypy_extensions import i64, mypyc_attr

from warren.checksum import crc32
from warren.errors import CorruptRecord
from warren.log.batch import (
    CHECKSUM_AT,
    HEADER_BYTES,
    KIND_DROP,
    KIND_ROUND,
    KIND_SNAPSHOT,
    KIND_STATE,
    KIND_TRUNCATE,
    MAGIC,
    SECTOR_BYTES,
    Header,
    aligned,
    identity,
)
from warren.log.extents import Tombstone
from warren.log.files import LogFile

CHUNK_BYTES: Final = 4 * 1024 * 1024
ZEROS: Final = bytes(65_536)


def all_zeros(data: bytes, start: i64, end: i64) -> bool:
    """Whether `data` has nothing but zeros from `start` to `end`, or to its own end.

    Most of a file that is being written may be such space, and every start reads it: compared in
    blocks, it costs a hundredth of what `bytes.strip` takes.
    """
    end = min(end, len(data))
    while end - start >= len(ZEROS):
        if not data.startswith(ZEROS, start):
            return False
        start += len(ZEROS)
    return start >= end or data.startswith(ZEROS[: end - start], start)


@mypyc_attr(allow_interpreted_subclasses=True)
class Visitor:
    """Who looks at the batches of a file."""

    @abstractmethod
    def batch(self, header: Header, data: bytes, at: i64, offset: i64) -> None:
        """One batch of a whole round, never a ROUND; in file order.

        Args:
            header: Its header; reused for the next batch.
            data: A buffer that holds the whole batch.
            at: Where it starts in the buffer.
            offset: Where it starts in the file.
        """


@final
class Indexer(Visitor):
    """Rebuilds the index of a file."""

    def __init__(self, file: LogFile, max_span: i64) -> None:
        self._file = file
        self._max_span: i64 = max_span
        self.gaps = False
        """Whether batches may be missing between those that come, tombstones among them."""

    def batch(self, header: Header, data: bytes, at: i64, offset: i64) -> None:
        if header.kind == KIND_DROP:
            self._file.drops.append(header.group)
            return
        extents = self._file.extents(header.group)
        if header.kind == KIND_SNAPSHOT:
            extents.add_snapshot(header.index, offset, header.size)
        elif header.kind == KIND_STATE:
            extents.add_state(header.index, offset, header.size)
        elif header.kind >= KIND_TRUNCATE:
            extents.cut(Tombstone(header.index, header.first, offset, header.term > 0))
        else:
            if self.gaps and 0 < header.index <= extents.all_last_index:
                # What made those void is lost, and it was before this entry.
                extents.cut(Tombstone(header.index, header.first, offset, False))
            extents.add(
                header.kind,
                header.index,
                header.term,
                header.first,
                header.count,
                offset,
                header.size,
                self._max_span,
            )


@final
class Window:
    """The part of a file that is in memory while it is scanned."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self.data = b""
        self.base: i64 = 0

    def hold(self, offset: i64, size: i64) -> i64:
        """Have `size` bytes from an offset in `data`, fewer at the end of the file.

        Returns:
            Where the offset is in `data`.
        """
        if offset < self.base or offset + size > self.base + len(self.data):
            self.data = self._file.read(offset, max(size, CHUNK_BYTES))
            self.base = offset
        return offset - self.base


@final
class Scan:
    """One pass over a file.

    Attributes:
        end: Offset after the last whole round, a multiple of the sector size.
        last_round: Offset of the last whole round, -1 if there is none.
        round_number: Its number, 0 if there is none.
        torn: Whether bytes other than zeros follow.
        bad_at, problem: Where and why the pass ended.
    """

    def __init__(self, file: LogFile, salt: i64, visitor: Visitor, verify: bool) -> None:
        self._path = file.path
        self._identity: i64 = identity(salt, file.number)
        self._visitor = visitor
        self._verify = verify
        self._window = Window(file)
        self._header = Header()
        self.end: i64 = 0
        self.last_round: i64 = -1
        self.round_number: i64 = 0
        self.torn = False
        self.bad_at: i64 = 0
        self.problem = ""

    def run(self, file_size: i64) -> None:
        """Visit every whole round of the file.

        A round that is not whole ends the pass. It is a torn write, which was never reported,
        unless a later round shows that the file was durable beyond it.

        Raises:
            CorruptRecord: Damage in what was durable.
        """
        offset: i64 = 0
        while offset < file_size:
            size = self._open_round(offset, file_size)
            number = self._header.index
            if size >= 0 and self.round_number > 0 and number != self.round_number + 1:
                self.problem = "a round is missing before this one"
                size = -1
            if size < 0:
                self.bad_at = offset
                break
            if not self._check(offset, size, self._header.digest):
                break
            self._visit(offset, size)
            self.last_round = offset
            self.round_number = number
            offset = aligned(offset + size)
            self.end = offset
        self._look_beyond(offset, file_size)

    def _open_round(self, offset: i64, file_size: i64) -> i64:
        """The size of the round that starts at an offset, -1 if none does."""
        at = self._window.hold(offset, HEADER_BYTES)
        data = self._window.data
        header = self._header
        self.problem = header.load(data, at, len(data))
        if self.problem:
            return -1
        if not self._is_round(offset, at):
            self.problem = "no round begins here"
            return -1
        size = header.stamp_ms
        if size < HEADER_BYTES or offset + size > file_size:
            self.problem = "the round is cut off"
            return -1
        return size

    def _is_round(self, offset: i64, at: i64) -> bool:
        """Whether the header just loaded is one of a round that belongs here."""
        header = self._header
        return (
            header.kind == KIND_ROUND
            and header.size == HEADER_BYTES
            and header.group == offset
            and header.term == self._identity
            and header.checksum_holds(self._window.data, at)
        )

    def _check(self, offset: i64, size: i64, digest: i64) -> bool:
        """Whether a round is whole: every batch and the padding after them."""
        padded = aligned(offset + size) - offset
        at = self._window.hold(offset, padded)
        data = self._window.data
        header = self._header
        end = at + size
        base = offset - at
        if end > len(data):
            # The file is shorter than its round, and than is noted of it.
            self.problem = "the round is cut off"
            self.bad_at = base + len(data)
            return False
        at += HEADER_BYTES
        found = 0
        while at < end:
            self.problem = header.load(data, at, end)
            if not self.problem:
                if header.kind == KIND_ROUND:
                    self.problem = "a round begins inside another"
                elif self._verify and not header.checksum_holds(data, at):
                    self.problem = "the checksum does not match"
            if self.problem:
                self.bad_at = base + at
                return False
            found = crc32(data[at + CHECKSUM_AT : at + CHECKSUM_AT + 4], found)
            at += header.size
        if found != digest:
            self.problem = "a batch of another round is in it"
            self.bad_at = offset
            return False
        if not all_zeros(data, end, offset - base + padded):
            self.problem = "the padding is not zero"
            self.bad_at = base + end
            return False
        return True

    def _visit(self, offset: i64, size: i64) -> None:
        at = self._window.hold(offset, size)
        data = self._window.data
        header = self._header
        end = at + size
        base = offset - at
        at += HEADER_BYTES
        while at < end:
            header.load(data, at, end)
            self._visitor.batch(header, data, at, base + at)
            at += header.size

    def _look_beyond(self, offset: i64, file_size: i64) -> None:
        """Tell a torn tail from damage: look for a round that was issued later."""
        start = offset
        while offset < file_size:
            at = self._window.hold(offset, CHUNK_BYTES)
            data = self._window.data
            end: i64 = len(data)
            if at >= end:
                break
            if not all_zeros(data, at, end):
                self.torn = True
                while at + HEADER_BYTES <= end:
                    if (
                        read_i32_le(data, at) == MAGIC
                        and not self._header.load(data, at, end)
                        and self._is_round(offset, at)
                        and self._header.first > start
                    ):
                        raise CorruptRecord(self._path, self.bad_at, self.problem)
                    at += SECTOR_BYTES
                    offset += SECTOR_BYTES
                if at < end:
                    offset += SECTOR_BYTES
            else:
                offset += end - at
            offset = aligned(offset)
