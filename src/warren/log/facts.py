"""Facts: known of each message by its batch, so that its record need not be opened.

Most batches say all in their header. Where their messages differ in what a queue goes by, or it has
to know each one's size, the batch carries facts behind its lengths: a u32 that says which, and for
each of these a column with a value of every message:

    SIZES  1  u32  bytes that count towards a limit: of the body, and of a quorum queue's messages
                   the properties, but no framing

All numbers are little-endian. A queue writes them once, when it seals a batch; the machines of all
nodes go by what is there.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_le
from mypy_extensions import i64

SIZES: Final = 1

KNOWN: Final = SIZES
HEAD_BYTES: Final = 4
SIZE_BYTES: Final = 4


def facts_bytes(which: i64, count: i64) -> i64:
    """How long the facts of so many messages are; -1 if this release does not know them all."""
    if which <= 0 or which & ~KNOWN:
        return -1
    return HEAD_BYTES + SIZE_BYTES * count


def facts_end(data: bytes, at: i64, count: i64, end: i64) -> i64:
    """Where facts end that begin there; -1 if they are none that this release knows.

    Args:
        end: They end before it.
    """
    if at + HEAD_BYTES > end:
        return -1
    size = facts_bytes(i64(read_i32_le(data, at)), count)
    return -1 if size < 0 or at + size > end else at + size


def size_at(facts: bytes, position: i64) -> i64:
    """What a message counts towards a limit in bytes."""
    return i64(read_i32_le(facts, HEAD_BYTES + SIZE_BYTES * position))


def narrowed_facts(facts: bytes, skip: i64, count: i64) -> bytes:
    """The facts of so many messages, behind some that are left out."""
    if not facts:
        return facts
    at = HEAD_BYTES + SIZE_BYTES * skip
    return facts[:HEAD_BYTES] + facts[at : at + SIZE_BYTES * count]
