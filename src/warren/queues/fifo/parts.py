"""What a snapshot has of a queue's machine only where it is made use of: parts, each with a tag.

    parts   count u8, and for each: tag u8, size i32, and so many octets
    SINGLE  1  for each consumer that is not served, where one is at a time:
               id i64, standing u8 (1 it waits, 2 it has to settle what it holds first)
    BLOCKED 2  nothing more: publishes are rejected until there is room
    TURN    3  how many messages of the higher one of two levels went since one of the lower did: u8

A build that does not know a tag refuses the snapshot, as it does one of another version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.queues.fifo.consumers import SERVED

if TYPE_CHECKING:
    from warren.queues.fifo.machine import Fifo

SINGLE: Final = 1
BLOCKED: Final = 2
TURN: Final = 3


def encode_parts(fifo: Fifo) -> bytes:
    """All parts of a machine's state as it is now; empty where it has none."""
    out = BytesWriter()
    count: i64 = 0
    if fifo.single is not None:
        count += 1
        _append(out, SINGLE, _standings(fifo))
    if fifo.blocked:
        count += 1
        _append(out, BLOCKED, b"")
    if fifo.ready.turn > 0:
        count += 1
        _append(out, TURN, bytes([int(fifo.ready.turn)]))
    if count == 0:
        return b""
    head = BytesWriter()
    head.append(count)
    head.write(out.getvalue())
    return head.getvalue()


def restore_parts(fifo: Fifo, data: bytes, at: i64) -> i64:
    """Fill a machine, which has all else, with what its snapshot has here.

    Returns:
        The offset behind it.

    Raises:
        ValueError: A part that this build does not know.
    """
    count: i64 = data[at]
    at += 1
    for _ in range(count):
        tag: i64 = data[at]
        size = i64(read_i32_be(data, at + 1))
        at += 5
        if tag == SINGLE:
            _restore_standings(fifo, data, at, at + size)
        elif tag == BLOCKED:
            fifo.blocked = True
        elif tag == TURN:
            fifo.ready.turn = data[at]
        else:
            raise ValueError(f"queue snapshot with part {tag}, which this build does not know")
        at += size
    return at


def _append(out: BytesWriter, tag: i64, data: bytes) -> None:
    out.append(tag)
    write_i32_be(out, i32(len(data)))
    out.write(data)


def _standings(fifo: Fifo) -> bytes:
    out = BytesWriter()
    for consumer in fifo.consumers.values():
        if consumer.active and consumer.standing != SERVED:
            write_i64_be(out, consumer.id)
            out.append(consumer.standing)
    return out.getvalue()


def _restore_standings(fifo: Fifo, data: bytes, at: i64, end: i64) -> None:
    while at < end:
        fifo.consumers[read_i64_be(data, at)].standing = data[at + 8]
        at += 9
