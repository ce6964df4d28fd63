"""How the queues of a query share a micro-batch's rows and bytes, and the broker's time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

#: Seconds that an idle query has between two looks at a queue, for each queue that it has beyond
#: these many: looks at all of them take a broker a twentieth of its time at most.
_PAUSE_QUEUES: Final = 200
_PAUSE_MAX: Final = 1.0

Take = Callable[[str, int, int], tuple[int, int] | None]
"""Takes rows and bytes at most of a queue; gives how many it took, or None for nothing."""


def pause_max(queues: int) -> float:
    """Seconds between two looks of an idle query at each of so many queues, at most."""
    return max(_PAUSE_MAX, queues / _PAUSE_QUEUES)


class FairShares:
    """Gives each queue its even share, and what others leave of theirs, the next one first."""

    def __init__(self) -> None:
        self._first = 0  # the queue that is asked first, of those there are

    def take(
        self,
        queues: Sequence[str],
        rows_max: int,
        bytes_max: int,
        take: Take,
        has_more: Callable[[str], bool],
    ) -> None:
        """Ask queues until a batch is full or there is nothing more.

        Args:
            has_more: Whether a queue that gave something has still more.
        """
        if not queues:
            return
        at = self._first % len(queues)
        order = [*queues[at:], *queues[:at]]
        rows, size = rows_max, bytes_max
        share = max(1, -(-rows_max // len(order)))
        share_bytes = max(1, -(-bytes_max // len(order)))
        more: list[str] = []
        taken_last = 0
        for turn, queue in enumerate(order):
            if rows <= 0 or size <= 0:
                break
            got = take(queue, min(share, rows), min(share_bytes, size))
            if got is not None:
                rows, size = rows - got[0], size - got[1]
                taken_last = turn + 1
                more.append(queue)
        # Who has more than its share may have what the others left.
        for queue in more if len(order) > 1 else ():
            if rows <= 0 or size <= 0:
                break
            if not has_more(queue):
                continue
            got = take(queue, rows, size)
            if got is not None:
                rows, size = rows - got[0], size - got[1]
        self._first = at + taken_last
