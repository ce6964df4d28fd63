"""Facts: known of each message by its batch, so that its record need not be opened.

Most batches say all in their header. Where their messages differ in what a queue goes by, or it has
to know each one's size, the batch carries facts behind its lengths: a u32 that says which, and for
each of these, in this order, a column with a value of every message:

    SIZES       1  u32  bytes that count towards a limit: of the body, and of a quorum queue's
                        messages the properties, but no framing
    PRIORITIES  2  u8   the priority, that of messages without one where they have none

All numbers are little-endian. A queue writes them once, when it seals a batch; the machines of all
nodes go by what is there.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_le
from mypy_extensions import i64

SIZES: Final = 1
PRIORITIES: Final = 2

KNOWN: Final = SIZES | PRIORITIES
HEAD_BYTES: Final = 4
SIZE_BYTES: Final = 4


def facts_bytes(which: i64, count: i64) -> i64:
    """How long the facts of so many messages are; -1 if this release does not know them all."""
    if which <= 0 or which & ~KNOWN:
        return -1
    size: i64 = HEAD_BYTES
    if which & SIZES:
        size += SIZE_BYTES * count
    if which & PRIORITIES:
        size += count
    return size


def facts_end(data: bytes, at: i64, count: i64, end: i64) -> i64:
    """Where facts end that begin there; -1 if they are none that this release knows.

    Args:
        end: They end before it.
    """
    if at + HEAD_BYTES > end:
        return -1
    size = facts_bytes(i64(read_i32_le(data, at)), count)
    return -1 if size < 0 or at + size > end else at + size


def facts_in(facts: bytes) -> i64:
    """Which facts these are; 0 if there are none."""
    return i64(read_i32_le(facts, 0)) if facts else 0


def size_at(facts: bytes, position: i64) -> i64:
    """What a message counts towards a limit in bytes, where the facts have that."""
    return i64(read_i32_le(facts, HEAD_BYTES + SIZE_BYTES * position))


def priority_at(facts: bytes, count: i64, position: i64) -> i64:
    """The priority of one of so many messages, where the facts have that."""
    return i64(facts[len(facts) - count + position])


def narrowed_facts(facts: bytes, skip: i64, count: i64) -> bytes:
    """The facts of so many messages, behind some that are left out."""
    which = facts_in(facts)
    if which == 0:
        return facts
    narrowed = facts[:HEAD_BYTES]
    if which & SIZES:
        at = HEAD_BYTES + SIZE_BYTES * skip
        narrowed += facts[at : at + SIZE_BYTES * count]
    if which & PRIORITIES:
        whole = len(facts) - HEAD_BYTES
        all_of_them = whole // (1 + SIZE_BYTES) if which & SIZES else whole
        at = len(facts) - all_of_them + skip
        narrowed += facts[at : at + count]
    return narrowed
