"""Consumers that hold messages for too long: what becomes of these, and of them.

What it costs to know since when they hold what is for `locks`.

Source: CT-03, CT-15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.queues.feed_block import TIMEOUT
from warren.queues.fifo.consumers import SERVED, TIMED_OUT, Consumer
from warren.queues.fifo.effects import TimedOut
from warren.queues.fifo.returning import Strand
from warren.queues.fifo.sizes import NEVER

if TYPE_CHECKING:
    from warren.queues.fifo.machine import Fifo


def time_out(fifo: Fifo) -> None:
    """What consumers have held for too long returns; they get nothing more (CT-03, CT-15).

    To find it out costs a look at each consumer, and nothing for each message.
    """
    for consumer in list(fifo.consumers.values()):
        locks = consumer.locks
        if locks is None or consumer.held == 0:
            continue
        first = consumer.lowest()
        behind = locks.due_behind(fifo.now_ms, consumer.next_mid)
        if behind <= first:
            continue
        held = consumer.held
        taken = consumer.release(first, behind - 1)
        count = held - consumer.held
        fifo.held -= count
        if consumer.active:
            locks.keep_late(taken)
            consumer.standing = TIMED_OUT
            fifo.service.leave(consumer)
            if fifo.single is not None:
                fifo.single.left(consumer)
        if fifo.feed is not None:
            fifo.feed.returned(consumer.id, taken, TIMEOUT)
        fifo.timed_out.append(TimedOut(consumer.id, locks.timeout_ms))
        # No delivery failed: the client may be at work still.
        fifo.come_back([Strand(list(taken), count)], False, fifo.config.delivery_limit)
        fifo.gave_up(consumer, count)
    fifo.look_at_locks()


def next_due(consumers: dict[int, Consumer], now_ms: i64) -> i64:
    """When the next message will have been held for too long; `NEVER` if none may be."""
    due: i64 = NEVER
    for consumer in consumers.values():
        if consumer.locks is not None:
            at = consumer.locks.next_due(consumer.first_held(), now_ms)
            if at != NEVER and (due == NEVER or at < due):
                due = at
    return due


def settled_late(fifo: Fifo, consumer: Consumer, first: i64, last: i64) -> None:
    """A consumer that held messages for too long settled some: it is served after the last."""
    locks = consumer.locks
    if locks is not None and consumer.active and locks.settled_late(first, last):
        consumer.standing = SERVED
        if fifo.single is None:
            fifo.service.wake(consumer)
        else:
            fifo.single.attached(consumer)
