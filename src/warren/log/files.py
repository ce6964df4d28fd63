"""Where a group's batches lie: log files and the sparse index over them.

The index of one group in one file is a column of extents. An extent is a stretch of the file that
is worth reading in one go to find a batch of this group: at most `extent_bytes_max` long (or one
batch), and mostly made of the group's own bytes. So a backlog of one queue costs a few numbers per
quarter of a mebibyte, and a thousand queues written in turn do not make each other's reads dear.
"""

from __future__ import annotations

import errno
from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

from warren.log.batch import KIND_COMMAND
from warren.ports import File

FOREIGN_BYTES_FREE: Final = 4096
"""Bytes of other groups that an extent may hold whatever its own size: one page."""

FOREIGN_FACTOR: Final = 3
"""Beyond that, bytes of other groups per own byte."""


def lacks_space(error: BaseException) -> bool:
    """Whether a disk call failed for want of space only."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


@final
class Extents:
    """One group's index in one file. Numbers and offsets ascend from extent to extent.

    Attributes:
        file: The file.
        offsets, spans: Where each extent starts, and its length, in bytes.
        numbers: The first message number an extent can hold.
        indexes: The Raft index of its first batch.
        first_message, next_message: The range that all extents together can hold.
        last_index: Raft index of the newest entry, 0 if there are only snapshots.
        message_count, message_bytes: Messages in the file, and the bytes of their batches.
        snapshot_index, snapshot_offset, snapshot_size: The newest snapshot; offset -1 if none.
    """

    def __init__(self, group_id: i64, file: LogFile) -> None:
        self.group_id: i64 = group_id
        self.file = file
        self.offsets = vec[i64]()
        self.spans = vec[i64]()
        self.numbers = vec[i64]()
        self.indexes = vec[i64]()
        self.first_message: i64 = 0
        self.next_message: i64 = 0
        self.last_index: i64 = 0
        self.message_count: i64 = 0
        self.message_bytes: i64 = 0
        self.snapshot_index: i64 = 0
        self.snapshot_offset: i64 = -1
        self.snapshot_size: i64 = 0
        self._own_bytes: i64 = 0
        """Bytes of the last extent that belong to this group."""

    def add(
        self, kind: i64, index: i64, first: i64, count: i64, offset: i64, size: i64, max_span: i64
    ) -> None:
        """Note an entry (any kind but snapshots and drops) behind all noted before."""
        last = len(self.offsets) - 1
        if last < 0:
            self.first_message = first
            self._begin(index, first, offset, size)
        else:
            span = offset + size - self.offsets[last]
            own = self._own_bytes + size
            if span > max_span or span - own > FOREIGN_BYTES_FREE + FOREIGN_FACTOR * own:
                self._begin(index, first, offset, size)
            else:
                self.spans[last] = span
                self._own_bytes = own
        self.last_index = index
        self.next_message = first + count
        if kind != KIND_COMMAND:
            self.message_count += count
            self.message_bytes += size

    def _begin(self, index: i64, first: i64, offset: i64, size: i64) -> None:
        self.offsets = append(self.offsets, offset)
        self.spans = append(self.spans, size)
        self.numbers = append(self.numbers, first)
        self.indexes = append(self.indexes, index)
        self._own_bytes = size

    def add_snapshot(self, index: i64, offset: i64, size: i64) -> None:
        """Note a snapshot; an older one in the same file is forgotten."""
        if index >= self.snapshot_index:
            self.snapshot_index = index
            self.snapshot_offset = offset
            self.snapshot_size = size

    def find(self, number: i64) -> i64:
        """The extent in which a message lies, if it is in this file at all.

        Returns:
            The last extent that starts at or below the number; 0 if all start above it.
        """
        low: i64 = 0
        high: i64 = len(self.numbers)
        while low < high:
            middle = (low + high) >> 1
            if self.numbers[middle] <= number:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low > 0 else 0


@final
class LogFile:
    """One file of the log.

    Attributes:
        number: Its name; numbers are never used twice.
        end: Bytes written, a multiple of the sector size.
        reserved: Bytes allocated, from the start of the file.
        prepared: Whether those were all written before, which makes a durable write cheap.
        closed: Whether it is complete; only the newest is not.
        groups: The index of every group that has batches here, also of dropped ones.
        drops: Groups whose DROP batch lies here.
        readers: Reads under way; the handle is closed only at 0.
        retired: Whether the file has left the log.
        damaged: Whether a batch here failed its checksum; the file is then left alone.
        has_sidecar: Whether its index is on disk, or cannot be.
    """

    def __init__(self, number: i64, path: str, handle: File) -> None:
        self.number: i64 = number
        self.path = path
        self.handle = handle
        self.end: i64 = 0
        self.reserved: i64 = 0
        self.prepared = False
        self.closed = False
        self.groups: dict[int, Extents] = {}
        self.drops: list[int] = []
        self.readers: i64 = 0
        self.retired = False
        self.damaged = False
        self.has_sidecar = False

    def extents(self, group_id: i64) -> Extents:
        """The index of a group here, begun if there is none yet."""
        found = self.groups.get(group_id)
        if found is None:
            found = Extents(group_id, self)
            self.groups[group_id] = found
        return found

    def release(self) -> None:
        """One read less."""
        self.readers -= 1
        if self.retired and self.readers == 0:
            self.handle.close()

    def retire(self) -> None:
        """The file is no longer part of the log; close it when nobody reads it."""
        self.retired = True
        if self.readers == 0:
            self.handle.close()
