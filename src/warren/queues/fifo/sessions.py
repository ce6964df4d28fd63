"""Sessions of nodes, as far as a machine knows them: by the consumers that are named after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.ids import session_of_consumer
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
