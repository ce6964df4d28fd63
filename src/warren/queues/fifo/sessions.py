"""Sessions of nodes, as far as a machine knows them: by the consumers that are named after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.ids import session_of_consumer
from warren.queues.fifo.consumers import Consumer
from warren.queues.fifo.effects import Effects

if TYPE_CHECKING:
    from warren.queues.fifo.machine import Fifo


def close_sessions(fifo: Fifo, sessions: list[int], now_ms: i64, lost: bool) -> Effects:
    """The consumers of these sessions are gone, says an entry of that time.

    Args:
        lost: Whether nobody hears their nodes, so that no delivery is known to have failed.
    """
    gone: list[int] = []
    for consumer_id in fifo.consumers:
        if session_of_consumer(consumer_id) in sessions:
            gone.append(consumer_id)
    for session in sessions:
        fifo.purged.pop(session, None)
        fifo.suspects.pop(session, None)
    return fifo.down_all(gone, now_ms, not lost)


def suspect(fifo: Fifo, session: i64) -> None:
    """Nobody hears a session's node: its consumers keep what they hold, and get nothing more.

    The queue counts as used until now for them.
    """
    if int(session) in fifo.suspects:
        return
    fifo.suspects[session] = fifo.now_ms
    fifo.used_ms = fifo.now_ms
    for consumer in fifo.consumers.values():
        if session_of_consumer(consumer.id) == session:
            consumer.suspected = True
            fifo.service.leave(consumer)
            if fifo.single is not None:
                fifo.single.stale = True


def trust(fifo: Fifo, session: i64) -> None:
    """The node is heard again: its consumers go on."""
    if fifo.suspects.pop(session, None) is None:
        return
    for consumer in fifo.consumers.values():
        if session_of_consumer(consumer.id) == session:
            consumer.suspected = False
            if fifo.single is not None:
                fifo.single.stale = True
            fifo.service.wake(consumer)


def mark_suspected(fifo: Fifo, consumer: Consumer) -> None:
    """A consumer arrives: note whether nobody hears its node."""
    if fifo.suspects:
        consumer.suspected = int(session_of_consumer(consumer.id)) in fifo.suspects
