"""Facts: known of each message by its batch, so that its record need not be opened.

Most batches say all in their header. Where their messages differ in what a queue goes by, or it has
to know each one's size, the batch carries facts behind its lengths: a u32 that says which, and for
each of these, in this order, a column with a value of every message:

    SIZES       1  u32  bytes that count towards a limit: of the body, and of a quorum queue's
                        messages the properties, but no framing
    PRIORITIES  2  u8   the priority, that of messages without one where they have none
    FAILURES    4  u32  how often deliveries of it failed in queues that it was in before; there
                        only where some did

All numbers are little-endian. A queue writes them once, when it seals a batch; the machines of all
nodes go by what is there.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_le
from mypy_extensions import i64

SIZES: Final = 1
PRIORITIES: Final = 2
FAILURES: Final = 4

KNOWN: Final = SIZES | PRIORITIES | FAILURES
HEAD_BYTES: Final = 4
SIZE_BYTES: Final = 4
FAILURE_BYTES: Final = 4


def facts_bytes(which: i64, count: i64) -> i64:
    """How long the facts of so many messages are; -1 if this release does not know them all."""
    if which <= 0 or which & ~KNOWN:
        return -1
    return HEAD_BYTES + count * _each_bytes(which)


def _each_bytes(which: i64) -> i64:
    """What the facts of each message take."""
    size: i64 = 0
    if which & SIZES:
        size += SIZE_BYTES
    if which & PRIORITIES:
        size += 1
    if which & FAILURES:
        size += FAILURE_BYTES
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
    at: i64 = HEAD_BYTES
    if facts_in(facts) & SIZES:
        at += SIZE_BYTES * count
    return i64(facts[at + position])


def failures_at(facts: bytes, position: i64) -> i64:
    """How often deliveries of a message failed elsewhere; 0 where the facts do not have that."""
    if not facts_in(facts) & FAILURES:
        return 0
    begin = len(facts) - FAILURE_BYTES * _count_of(facts)
    return i64(read_i32_le(facts, begin + FAILURE_BYTES * position))


def _count_of(facts: bytes) -> i64:
    """Of how many messages these are the facts."""
    return (len(facts) - HEAD_BYTES) // _each_bytes(facts_in(facts))


def narrowed_facts(facts: bytes, skip: i64, count: i64) -> bytes:
    """The facts of so many messages, behind some that are left out."""
    which = facts_in(facts)
    if which == 0:
        return facts
    all_of_them = _count_of(facts)
    narrowed = facts[:HEAD_BYTES]
    at: i64 = HEAD_BYTES
    if which & SIZES:
        narrowed += facts[at + SIZE_BYTES * skip : at + SIZE_BYTES * (skip + count)]
        at += SIZE_BYTES * all_of_them
    if which & PRIORITIES:
        narrowed += facts[at + skip : at + skip + count]
        at += all_of_them
    if which & FAILURES:
        narrowed += facts[at + FAILURE_BYTES * skip : at + FAILURE_BYTES * (skip + count)]
    return narrowed
