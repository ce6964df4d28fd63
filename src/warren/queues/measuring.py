"""What a queue says of each of its messages, in the facts of their batch, when it seals that.

This is the one place where a record is opened for a queue: of what another node's queue or an older
batch holds, the facts are there or they are not.
"""

from __future__ import annotations

from librt.strings import BytesWriter, read_i32_le, write_i32_le
from mypy_extensions import i32, i64

from warren.log.facts import FAILURES, PRIORITIES, SIZES
from warren.message.flavours import content_bytes, failures_of, priority_of
from warren.queues.fifo.config import STRICT_DEFAULT


def measured(
    records: bytes, lengths: bytes, count: i64, flavour: i64, which: i64, replicated: bool
) -> bytes:
    """Facts of messages whose records lie back to back.

    Args:
        which: The facts that are wanted.
        replicated: Whether they are for a quorum queue: as in RabbitMQ, properties count there
            towards sizes, and messages without a priority are not of the lowest.
    """
    absent: i64 = STRICT_DEFAULT if replicated else 0
    facts = BytesWriter()
    write_i32_le(facts, i32(which))
    at: i64 = 0
    if which & SIZES:
        for position in range(count):
            length = i64(read_i32_le(lengths, 4 * position))
            size = content_bytes(flavour, records, at, replicated)
            write_i32_le(facts, i32(length if size < 0 else size))
            at += length
    if which & PRIORITIES:
        at = 0
        for position in range(count):
            priority = priority_of(flavour, records, at)
            facts.append(absent if priority < 0 else priority)
            at += i64(read_i32_le(lengths, 4 * position))
    if which & FAILURES:
        at = 0
        for position in range(count):
            write_i32_le(facts, i32(failures_of(flavour, records, at)))
            at += i64(read_i32_le(lengths, 4 * position))
    return facts.getvalue()


def any_failed(records: bytes, lengths: bytes, count: i64, flavour: i64) -> bool:
    """Whether deliveries of any of these messages failed before they came here."""
    at: i64 = 0
    for position in range(count):
        if failures_of(flavour, records, at) > 0:
            return True
        at += i64(read_i32_le(lengths, 4 * position))
    return False
