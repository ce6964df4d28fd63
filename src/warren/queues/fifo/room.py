"""Whether a queue holds more than it may, and whether publishers have to be told.

Source: QL-02 to QL-04.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren.queues.fifo.machine import Fifo


def is_over(fifo: Fifo) -> bool:
    """Whether there is more than there may be."""
    config = fifo.config
    if not config.rejects:
        delayed = fifo.delayed
        return (0 <= config.max_length < fifo.ready.count + delayed.count) or (
            0 <= config.max_bytes < fifo.ready.bytes + delayed.bytes
        )
    return (0 <= config.max_length < fifo.limited_count()) or (
        0 <= config.max_bytes < fifo.limited_bytes()
    )


def is_blocked(fifo: Fifo, overdue: bool) -> bool:
    """Whether publishers have to be told that there is no room (QL-04).

    That is so from when there is too much on until no more than four fifths of each limit is left,
    and behind a hand-out only. A classic queue looks at each message that comes.

    Args:
        overdue: Whether messages are to go that have not gone yet.
    """
    config = fifo.config
    if config.keeps_place or not config.is_limited():
        return False
    if fifo.coming.count > 0 or overdue or fifo.delayed.is_due(fifo.now_ms):
        return fifo.blocked
    if fifo.ready.count > 0 and fifo.service.any():
        # What is to be handed out first does not count in a moment.
        return fifo.blocked
    if is_over(fifo):
        return True
    return fifo.blocked and not (
        (config.max_length < 0 or fifo.limited_count() <= config.max_length * 4 // 5)
        and (config.max_bytes < 0 or fifo.limited_bytes() <= config.max_bytes * 4 // 5)
    )
