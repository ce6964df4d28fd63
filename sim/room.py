"""How much a queue holds that drops its first messages where there are too many."""

from __future__ import annotations

from sim.model import Violation
from warren.queues.fifo.machine import Fifo


def check_room(fifo: Fifo) -> None:
    """A machine that is through with its entries holds no more than it may.

    Raises:
        Violation: It does.
    """
    config = fifo.config
    if config.rejects or not config.is_limited() or fifo.unfinished():
        return
    count = int(fifo.ready.count + fifo.delayed.count)
    size = int(fifo.ready.bytes + fifo.delayed.bytes)
    if 0 <= config.max_length < count or 0 <= config.max_bytes < size:
        raise Violation(
            f"a queue holds {count} messages of {size} bytes, with limits of "
            f"{config.max_length} and {config.max_bytes}"
        )


def is_at_rest(fifo: Fifo) -> bool:
    """Whether all messages of a machine are ready, and nobody consumes them."""
    waits = fifo.delayed.count + fifo.coming.count + fifo.held_count()
    return waits == 0 and not fifo.consumers and not fifo.unfinished()
