"""Whether the end of a log is missing, as far as its newest file can tell.

What was confirmed last lies at the end of the newest file, and nothing behind it vouches for it.
Blocks that read as zeros there look like blocks that were never written. But a node has room for a
round before it writes it, cuts its file at the end of the last round only when it stops, and writes
an empty round then: a file that ends in another way was cut by something else.
"""

from __future__ import annotations

from typing import Final

from warren.errors import CorruptRecord
from warren.log.batch import HEADER_BYTES, KIND_ROUND, SECTOR_BYTES, Header, identity
from warren.log.files import LogFile
from warren.log.manifest import SALVAGE_PATH, Manifest, log_path
from warren.log.scan import Scan, Visitor
from warren.ports import Disk

_LOST: Final = "what came last is missing, confirmed messages perhaps among it"


class _LastBatch(Visitor):
    """Notes where the last batch begins."""

    def __init__(self) -> None:
        self.offset = -1

    def batch(self, header: Header, data: bytes, at: int, offset: int) -> None:
        """Note it."""
        self.offset = int(offset)


def missing_end(disk: Disk, manifest: Manifest) -> str | None:
    """What shows that the end of a log is missing; None if nothing does.

    Args:
        disk: The directory as it lies, before a start mends it.

    Raises:
        OSError: The disk failed.
    """
    number = manifest.files[-1][0]
    path = log_path(number)
    if not disk.exists(path):
        return None
    handle = disk.open(path)
    try:
        size = int(handle.size_bytes())
        file = LogFile(number, path, handle)
        last = _LastBatch()
        scan = Scan(file, manifest.salt, last, False)
        scan.run(size)
        end = int(scan.end)
        if size == 0:
            begun = len(manifest.files) > 1 and not disk.exists(SALVAGE_PATH)
            return f"{path} is empty, as no node leaves it: {_LOST}" if begun else None
        if end < 1 and any(closed > number for closed, _ in manifest.files):
            return f"{path} has no round, and the log went on after it was begun: {_LOST}"
        if size % SECTOR_BYTES:
            return f"{path} is cut off at byte {size}, within a block: {_LOST}"
        if _begins_round(file, manifest.salt, end, size):
            return f"{path} is cut off at byte {size}, within a round: {_LOST}"
        if size == end and last.offset > scan.last_round:
            return (
                f"{path} ends with a round of messages and has no room behind it, as a node leaves "
                "it neither when it stops nor when it crashes: it may be cut off, and what came "
                "last be missing"
            )
        return None
    except CorruptRecord:
        return None  # There is more behind it, and recovery tells.
    finally:
        handle.close()


def _begins_round(file: LogFile, salt: int, at: int, size: int) -> bool:
    """Whether a round begins at an offset that ends behind the file."""
    data = file.read(at, HEADER_BYTES)
    header = Header()
    return (
        not header.load(data, 0, len(data))
        and header.kind == KIND_ROUND
        and header.group == at
        and header.term == identity(salt, file.number)
        and bool(header.checksum_holds(data, 0))
        and at + header.stamp_ms > size
    )
