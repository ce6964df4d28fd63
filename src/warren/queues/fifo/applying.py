"""The commands of an entry, each of which a machine carries out.

See `commands` for what their bytes say, and `Fifo` for what most of them do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from warren.ids import session_of_consumer
from warren.queues.fifo import commands
from warren.queues.fifo.effects import DONE, MALFORMED, Delivery, PollReply, PurgeReply, Reply
from warren.queues.fifo.entry import Encoded, Meta
from warren.queues.fifo.reading import apply_reader
from warren.queues.fifo.sessions import suspect, trust
from warren.queues.fifo.timeouts import time_out

if TYPE_CHECKING:
    from warren.queues.fifo.machine import Fifo

NUMBER_MAX: Final = (1 << 62) - 1
"""No message has a higher number."""


def apply_commands(fifo: Fifo, meta: Meta, batch: Encoded) -> Reply:
    """Have a machine do what an entry's commands say, in their order; replies to the last one.

    What no node writes ends the batch at the same place on every member, with `MALFORMED`.
    """
    payload = batch.payload
    at, end = batch.at, batch.end
    reply = DONE
    start = at
    session = meta.session
    while at < end:
        behind = commands.command_end(payload, at, end)
        if behind < 0:
            return Reply(MALFORMED)
        opcode: i64 = payload[at]
        at += 1
        if opcode == commands.SETTLE:
            fifo.settle(
                read_i64_be(payload, at),
                read_i64_be(payload, at + 8),
                read_i64_be(payload, at + 16),
            )
        elif opcode == commands.DISCARD or opcode == commands.REJECT:
            fifo.discard(
                read_i64_be(payload, at),
                read_i64_be(payload, at + 8),
                read_i64_be(payload, at + 16),
                opcode == commands.REJECT,
            )
        elif opcode == commands.RETURN:
            fifo.return_(
                read_i64_be(payload, at),
                read_i64_be(payload, at + 8),
                read_i64_be(payload, at + 16),
                payload[at + 24] == 1,
            )
        elif (
            opcode == commands.ATTACH
            or opcode == commands.ATTACH_AUTO
            or opcode == commands.ATTACH_TIMED
        ):
            if session == 0 or session_of_consumer(read_i64_be(payload, at)) == session:
                timed = opcode == commands.ATTACH_TIMED
                fifo.attach(
                    read_i64_be(payload, at),
                    read_i64_be(payload, at + 8),
                    read_i64_be(payload, at + 16),
                    opcode == commands.ATTACH_AUTO,
                    read_i64_be(payload, at + 24) if timed else -1,
                )
        elif opcode == commands.CANCEL:
            fifo.cancel(read_i64_be(payload, at))
        elif opcode == commands.DOWN:
            fifo.down(read_i64_be(payload, at))
        elif opcode == commands.GET or opcode == commands.GET_TIMED or opcode == commands.PICK:
            if at > start + 1:
                # Whoever waits in line was there before, and this batch may have made room.
                fifo.hand_out()
            if session == 0 or session_of_consumer(read_i64_be(payload, at)) == session:
                polled = _polled(fifo, opcode, payload, at)
                # In a quorum queue what expires behind it does so with the next entry, and counts.
                reply = PollReply(polled, fifo.ready_count())
            else:
                reply = PollReply(None)
        elif opcode == commands.PURGE:
            if at > start + 1:
                fifo.hand_out()
            purged = fifo.purge()
            if session > 0 and fifo.config.failures:
                # All members know that setting, and so this.
                fifo.purged[session] = int(fifo.purged.get(session, 0) + purged)
            reply = PurgeReply(purged)
        elif opcode == commands.RESET:
            fifo.reset()
        elif opcode == commands.DOUBT:
            fifo.count_as_delivered()
        elif opcode == commands.TIME_OUT:
            time_out(fifo)
        elif opcode == commands.DELIVERED:
            before = fifo.discards.count
            taken = fifo.discards.settle(read_i64_be(payload, at), read_i64_be(payload, at + 8))
            fifo.leave(taken, before - fifo.discards.count)
        elif opcode == commands.SUSPECT:
            suspect(fifo, read_i64_be(payload, at))
        elif opcode == commands.TRUST:
            trust(fifo, read_i64_be(payload, at))
        elif opcode == commands.GO_ON:
            # What it is for is the dispatch that follows every entry.
            pass
        elif opcode == commands.FREE:
            if fifo.config.keeps_place:
                # A classic queue's log is read at a start only, and says so of all there is.
                fifo.all_back()
            gone = [_freed(payload, at)]
            while behind < end and payload[behind] == commands.FREE:
                at = behind + 1
                behind = commands.command_end(payload, behind, end)
                if behind < 0:
                    return Reply(MALFORMED)
                gone.append(_freed(payload, at))
            fifo.free(gone)
        elif opcode == commands.CONFIG:
            fifo.configure(payload, at + 4, behind)
        else:
            reply = apply_reader(fifo, opcode, payload, at, meta.stamp_ms)
        at = behind
    return reply


def _freed(payload: bytes, at: i64) -> tuple[int, int]:
    """The first and the last number of a stretch that left.

    It is cut to the numbers that a message can have: one more or less than those can be counted.
    """
    first = max(read_i64_be(payload, at), 0)
    last = min(read_i64_be(payload, at + 8), NUMBER_MAX)
    return (int(first), int(last))


def _polled(fifo: Fifo, opcode: i64, payload: bytes, at: i64) -> Delivery | None:
    """What a channel gets that polls; None for nothing.

    Args:
        at: Where the fields of the command begin.
    """
    consumer_id = read_i64_be(payload, at)
    if opcode == commands.PICK:
        number, timeout_ms = read_i64_be(payload, at + 8), read_i64_be(payload, at + 16)
        return fifo.pick(consumer_id, number, timeout_ms)
    return fifo.get(
        consumer_id, read_i64_be(payload, at + 8) if opcode == commands.GET_TIMED else -1
    )
