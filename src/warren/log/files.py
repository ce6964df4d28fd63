"""Log files, and whether a disk call failed for want of space."""

from __future__ import annotations

import errno
from typing import Final, final

from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.log.extents import Extents
from warren.ports import File
from warren.sharded_dict import ShardedDict

UNREADABLE: Final = (errno.EIO, errno.EBADMSG, errno.EUCLEAN)
"""What systems answer for bytes that a disk cannot give back, or not as they were."""


def lacks_space(error: BaseException) -> bool:
    """Whether a disk call failed for want of space only, or of a descriptor: it may work later."""
    return isinstance(error, OSError) and error.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EMFILE,
        errno.ENFILE,
    )


def read_patiently(handle: File, offset: i64, size: i64) -> bytes:
    """Bytes of a file, fewer only at its end. Where the disk refuses it is asked once more. Blocks.

    What is taken for damage costs messages, or another copy of a queue, and some refusals pass,
    such as those of the way to a disk that is not in the machine.

    Raises:
        OSError: The disk failed, twice if it says that it cannot give the bytes back.
    """
    try:
        return handle.read(offset, size)
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
    return handle.read(offset, size)


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
        has_sidecar: Whether its index is on disk.
    """

    def __init__(self, number: i64, path: str, handle: File) -> None:
        self.number: i64 = number
        self.path = path
        self.handle = handle
        self.end: i64 = 0
        self.reserved: i64 = 0
        self.prepared = False
        self.closed = False
        self.groups: ShardedDict[int, Extents] = ShardedDict()
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

    def read(self, offset: i64, size: i64) -> bytes:
        """Bytes of the file, fewer only at its end. Blocks.

        Raises:
            CorruptRecord: The disk cannot give them back, which some do for what is damaged.
            OSError: The disk failed in another way.
        """
        try:
            return read_patiently(self.handle, offset, size)
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            raise CorruptRecord(self.path, offset, f"it cannot be read: {error}") from error

    def release(self) -> None:
        """Count one read less; the last one closes the file if it was retired."""
        self.readers -= 1
        if self.retired and self.readers == 0:
            self.handle.close()

    def retire(self) -> None:
        """Take the file out of the log; its handle is closed once no read is under way."""
        self.retired = True
        if self.readers == 0:
            self.handle.close()
