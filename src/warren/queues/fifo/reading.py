"""The commands of analytical readers: groups of them take out leases on messages.

Source: docs/formats/table-class.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.queues.feed_block import GONE, REQUEUED
from warren.queues.fifo import commands
from warren.queues.fifo.cursor import Cursor
from warren.queues.fifo.effects import DONE, UNKNOWN_GROUP, LeaseReply, Reply
from warren.queues.fifo.groups import Checkout, Group
from warren.queues.fifo.pieces import opened
from warren.queues.fifo.retaking import retake
from warren.queues.fifo.returning import Strand
from warren.queues.fifo.runs import Run, as_run, common_runs, disjoint, first_of, read_run

if TYPE_CHECKING:
    from warren.queues.fifo.machine import Fifo


def apply_reader(fifo: Fifo, opcode: i64, payload: bytes, at: i64, now_ms: i64) -> Reply:
    """The commands of analytical readers."""
    fifo.used_ms = now_ms
    name_at = at + i64(commands.FIELD_BYTES[opcode])
    end = name_at + 4 + i64(read_i32_be(payload, name_at))
    name = payload[name_at + 4 : end].decode()
    if opcode == commands.ACQUIRE or opcode == commands.ACQUIRE_KEPT:
        keeps = opcode == commands.ACQUIRE_KEPT
        return fifo.readers.acquire(name, read_i64_be(payload, at), now_ms, keeps)
    if opcode == commands.GROUP_DELETE:
        gone = fifo.readers.delete(name)
        if gone is None:
            return Reply(UNKNOWN_GROUP)
        _give_back(fifo, gone, False)
        return DONE
    if opcode == commands.EXPIRE:
        fenced = fifo.readers.expired(name, read_i64_be(payload, at), now_ms)
        if fenced is not None:
            _give_back(fifo, fenced, True)
        return DONE
    if opcode == commands.TAKEN:
        return _taken(fifo, name, payload, at, end, now_ms)
    refusal = fifo.readers.refusal(name, read_i64_be(payload, at))
    if refusal is not None:
        return refusal
    group = fifo.readers.groups[name]
    group.seen_ms = now_ms
    if opcode == commands.GROUP_RELEASE:
        _give_back(fifo, group, False)
    elif opcode == commands.RETAKE:
        return retake(fifo, group, read_i64_be(payload, at + 8))
    elif opcode == commands.GROUP_SETTLE:
        for checkout in group.settle(read_i64_be(payload, at + 8)):
            messages = checkout.messages
            fifo.held -= messages.count
            if fifo.feed is not None:
                fifo.feed.read_done(name, messages.freeze())
            fifo.leave(messages.freeze(), messages.count)
    else:
        assert opcode == commands.CHECKOUT, opcode
        return _checkout(
            fifo,
            group,
            read_i64_be(payload, at + 8),
            read_i64_be(payload, at + 16),
            read_i64_be(payload, at + 24),
        )
    return DONE


def _checkout(fifo: Fifo, group: Group, after: i64, rows_max: i64, up_to: i64) -> Reply:
    """Replies the lowest open checkout above `after`, or takes a new one.

    A new one holds at most `rows_max` messages, none with a number above `up_to` (negative:
    no bound). Nothing to take: number `after` and count 0.
    """
    checkout = group.first_open(after)
    if checkout is None:
        if fifo.sizes.expiring == 0 or fifo.expire():
            checkout = group.take(fifo.ready, rows_max, up_to, fifo.now_ms)
        if checkout is None:
            return LeaseReply(after, 0, None)
        fifo.held += checkout.messages.count
        if fifo.feed is not None:
            fifo.feed.read(group.name, checkout.messages.freeze())
    return LeaseReply(checkout.number, checkout.messages.count, checkout)


def _taken(fifo: Fifo, name: str, payload: bytes, at: i64, end: i64, now_ms: i64) -> Reply:
    """Have a group hold the runs that a classic queue's log names, as far as they are here.

    They are, but for what left later on and lies in no file any more: it was settled behind this.
    """
    group = fifo.readers.groups.get(name)
    if group is None:
        return Reply(UNKNOWN_GROUP)
    group.seen_ms = now_ms
    cursor = Cursor(payload)
    cursor.at = end
    count = cursor.count()
    if count == 0:
        return DONE
    checkout = Checkout(read_i64_be(payload, at), read_i64_be(payload, at + 8))
    runs: list[Run] = []
    pairs: list[tuple[int, int]] = []
    for _ in range(count):
        run = read_run(cursor)
        runs.append(run)
        pairs.append((int(run.first), int(run.first + run.count - 1)))
    fifo.all_back()
    there: list[Run] = []
    for pieces in fifo.ready.remove(disjoint(pairs), fifo.config.keeps_place):
        there.extend([as_run(piece) for piece in opened(pieces)])
    there.sort(key=first_of)
    for run in runs:
        for part in common_runs(there, run):
            last = part.first + part.count - 1
            checkout.messages.push(part.first, last, run.acquired, run.failed)
    fifo.held += checkout.messages.count
    fifo.keep_held(checkout.messages)
    group.opened(checkout)
    return LeaseReply(checkout.number, checkout.messages.count, checkout)


def _give_back(fifo: Fifo, group: Group, lapses: bool) -> None:
    """Return everything a group holds; the delivery limit is not for readers."""
    count = group.held()
    fifo.held -= count
    taken = group.give_up(lapses)
    if fifo.feed is not None:
        fifo.feed.read_back(group.name, taken, GONE if lapses else REQUEUED)
    fifo.come_back([Strand(taken, count)], True, -1, delays=False)
