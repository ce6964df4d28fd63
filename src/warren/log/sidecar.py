"""The index of a closed file, beside it, so that start-up need not read the file.

`log/NNNNNNNN.idx`, all numbers little-endian and signed:

     0       4         8      12         16       24        32     40
     +-------+---------+------+----------+--------+---------+------+--------- ...
     | magic | version | crc  | reserved | number | logsize | salt | words
     +-------+---------+------+----------+--------+---------+------+--------- ...

`crc` is CRC-32 over everything after it. `number`, `logsize` and `salt` bind the index to its log
file. The words are 64 bits each: the number of dropped groups and their ids; the number of groups;
and for each its id, first_message, all_next_message, all_last_index, top_index, message_count,
message_bytes, snapshot_index, snapshot_offset, snapshot_size, state_number, state_offset,
state_size; the number of extents, then all their offsets, spans, numbers and indexes, column after
column; the number of runs of terms, and for each its first index and its term; the number of
tombstones, and for each its index, next_message, offset, and 1 if it opens (`extents.py` says what
they mean).

What tombstones in later files make void is not in it: they say so themselves.

The sidecar can be rebuilt from the log file. One that is absent or does not fit is no error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from librt.strings import BytesWriter, read_i32_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from warren.checksum import crc32
from warren.log.batch import write_checksum
from warren.log.extents import NOWHERE, Extents, Tombstone
from warren.log.files import UNREADABLE, LogFile
from warren.log.manifest import sidecar_path
from warren.ports import Disk
from warren.wire.byte_reader import ByteReader

MAGIC: Final = 0x31585257
"""`WRX1` as bytes."""

SIDECAR_VERSION: Final = 2
HEAD_BYTES: Final = 40
CHECKED_FROM: Final = 12
SIDECAR_BYTES_MAX: Final = 1 << 30
PIECE_BYTES: Final = 65_536
"""Some hundred groups, and as many microseconds."""


def _head(checksum: int) -> bytes:
    """What comes before the part that the checksum is over."""
    head = BytesWriter()
    write_i32_le(head, i32(MAGIC))
    write_i32_le(head, i32(SIDECAR_VERSION))
    write_checksum(head, checksum)
    return head.getvalue()


def pieces(file: LogFile, salt: i64) -> Iterator[bytes]:
    """What the checksum is over, in pieces of about `PIECE_BYTES`.

    The caller lets the node's thread go on between two pieces: compiled code does not by itself.
    """
    body = BytesWriter()
    write_i32_le(body, 0)
    write_i64_le(body, file.number)
    write_i64_le(body, file.end)
    write_i64_le(body, salt)
    write_i64_le(body, len(file.drops))
    for group_id in file.drops:
        write_i64_le(body, group_id)
    write_i64_le(body, len(file.groups))
    for extents in file.groups.values():
        if len(body) >= PIECE_BYTES:
            yield body.getvalue()
            body = BytesWriter()
        write_i64_le(body, extents.group_id)
        write_i64_le(body, extents.first_message)
        write_i64_le(body, extents.all_next_message)
        write_i64_le(body, extents.all_last_index)
        write_i64_le(body, extents.top_index)
        write_i64_le(body, extents.message_count)
        write_i64_le(body, extents.message_bytes)
        write_i64_le(body, extents.snapshot_index)
        write_i64_le(body, extents.snapshot_offset)
        write_i64_le(body, extents.snapshot_size)
        write_i64_le(body, extents.state_number)
        write_i64_le(body, extents.state_offset)
        write_i64_le(body, extents.state_size)
        count = extents.count()
        write_i64_le(body, count)
        for at in range(count):
            write_i64_le(body, extents.offset(at))
        for at in range(count):
            write_i64_le(body, extents.span(at))
        for at in range(count):
            write_i64_le(body, extents.number(at))
        for at in range(count):
            write_i64_le(body, extents.index(at))
        write_i64_le(body, len(extents.terms))
        for at in range(len(extents.terms)):
            write_i64_le(body, extents.terms.first(at))
            write_i64_le(body, extents.terms.term(at))
        tombstones = extents.tombstones or []
        write_i64_le(body, len(tombstones))
        for tombstone in tombstones:
            write_i64_le(body, tombstone.index)
            write_i64_le(body, tombstone.next_message)
            write_i64_le(body, tombstone.offset)
            write_i64_le(body, 1 if tombstone.opens else 0)
    yield body.getvalue()


def decode(data: bytes, file: LogFile, salt: i64) -> bool:
    """Fill a file's index from its sidecar.

    Returns:
        False, with the file untouched, if the sidecar is damaged or not this file's.
    """
    if len(data) < HEAD_BYTES or read_i32_le(data, 0) != MAGIC:
        return False
    if read_i32_le(data, 4) != SIDECAR_VERSION:
        return False
    if crc32(data[CHECKED_FROM:]) != i64(read_i32_le(data, 8)) & 0xFFFF_FFFF:
        return False
    words = ByteReader("a sidecar", data, 16)
    if words.longlong() != file.number or words.longlong() != file.end:
        return False
    if words.longlong() != salt:
        return False
    for _ in range(words.longlong()):
        file.drops.append(words.longlong())
    for _ in range(words.longlong()):
        extents = Extents(words.longlong(), file)
        extents.first_message = words.longlong()
        extents.all_next_message = words.longlong()
        extents.all_last_index = words.longlong()
        extents.top_index = words.longlong()
        extents.message_count = words.longlong()
        extents.message_bytes = words.longlong()
        extents.snapshot_index = words.longlong()
        extents.snapshot_offset = words.longlong()
        extents.snapshot_size = words.longlong()
        extents.state_number = words.longlong()
        extents.state_offset = words.longlong()
        extents.state_size = words.longlong()
        count = words.longlong()
        offsets = words.longlongs(count)
        spans = words.longlongs(count)
        numbers = words.longlongs(count)
        indexes = words.longlongs(count)
        for at in range(count):
            extents.add_extent(offsets[at], spans[at], numbers[at], indexes[at])
        for _ in range(words.longlong()):
            first = words.longlong()
            extents.terms.note(first, words.longlong())
        for _ in range(words.longlong()):
            index = words.longlong()
            next_message = words.longlong()
            offset = words.longlong()
            extents.add_tombstone(Tombstone(index, next_message, offset, words.longlong() > 0))
        extents.hide(NOWHERE, NOWHERE)
        file.groups[extents.group_id] = extents
    return True


def store(disk: Disk, file: LogFile, salt: i64) -> None:
    """Write the sidecar of a closed file. Blocks; raises `OSError`."""
    handle = disk.open(sidecar_path(file.number), create=True)
    try:
        handle.truncate(0)
        # In place of the head, which is known last. Until it is there, nobody takes this for one.
        handle.write([bytes(CHECKED_FROM)], 0)
        at: i64 = CHECKED_FROM
        checksum = 0
        for piece in pieces(file, salt):
            checksum = crc32(piece, checksum)
            handle.write([piece], at)
            at += len(piece)
        handle.write([_head(checksum)], 0)
        handle.sync()
    finally:
        handle.close()


def load(disk: Disk, file: LogFile, salt: i64) -> bool:
    """Fill a closed file's index from its sidecar; False if there is none that fits. Blocks.

    One that the disk cannot give back is as good as none.

    Raises:
        OSError: The disk failed in another way.
    """
    path = sidecar_path(file.number)
    if not disk.exists(path):
        return False
    handle = disk.open(path)
    try:
        data = handle.read(0, SIDECAR_BYTES_MAX)
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
        return False
    finally:
        handle.close()
    return decode(data, file, salt)
