"""When the leases of groups of readers are over, as the node sees it that minds them.

A lease is over when it is by the node's own monotonic time, from when it found it renewed, and by
the time of the log, which wall clocks make jump, too. So the time that a node was down, or led no
queue, does not count against a lease.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.queues.fifo.groups import Group


@final
class LeaseClock:
    """Those of one queue."""

    def __init__(self) -> None:
        self._renewed: dict[str, tuple[int, int]] | None = None
        """By group: its last call in the log's time, and when this node came to know of it, in
        monotonic time."""

    def over(self, groups: list[Group], now_ms: i64, log_ms: i64) -> list[tuple[str, int]]:
        """The groups whose leases are over, and the calls that these count from.

        Args:
            now_ms: Monotonic time.
            log_ms: The time of the log's next entry.
        """
        renewed = self._renewed
        self._renewed = None
        found: list[tuple[str, int]] = []
        for readers in groups:
            if not readers.open or readers.lease_ms <= 0:
                continue
            seen_ms, found_ms = -1, 0
            if renewed is not None:
                seen_ms, found_ms = renewed.get(readers.name, (-1, 0))
            if seen_ms != readers.seen_ms:
                seen_ms, found_ms = int(readers.seen_ms), int(now_ms)
            elif readers.lease_ms < min(now_ms - found_ms, log_ms - seen_ms):
                found.append((readers.name, seen_ms))
            if self._renewed is None:
                self._renewed = {}
            self._renewed[readers.name] = (seen_ms, found_ms)
        return found

    def forget(self) -> None:
        """Another node minds them."""
        self._renewed = None
