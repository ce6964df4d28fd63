"""Virtual time for many nodes: events in order, and each node's own idea of the time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, final

from sim.clock import START_WALL_MS

MS: Final = 1_000
"""Microseconds, the schedule's unit, in a millisecond."""


@final
class Schedule:
    """What happens next.

    Attributes:
        now_us: Virtual time.
        done: Events so far.
    """

    def __init__(self) -> None:
        self.now_us = 0
        self.done = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0

    def after(self, delay_us: int, event: Callable[[], None]) -> None:
        """Let something happen later."""
        self._sequence += 1
        heapq.heappush(self._events, (self.now_us + delay_us, self._sequence, event))

    def step(self) -> None:
        """Let the next thing happen."""
        self.now_us, _, event = heapq.heappop(self._events)
        self.done += 1
        event()


@final
class SiteClock:
    """One machine's clock; see `warren.ports.Clock`."""

    def __init__(self, schedule: Schedule, start_ms: int) -> None:
        self._schedule = schedule
        self._start_ms = start_ms
        self._wall_ms = START_WALL_MS

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch, as this machine has it; whole milliseconds."""
        return (self._wall_ms + self._schedule.now_us // MS) * 1_000_000

    def monotonic_ns(self) -> int:
        """Nanoseconds from this machine's start; whole milliseconds."""
        return (self._start_ms + self._schedule.now_us // MS) * 1_000_000

    def jump(self, milliseconds: int) -> None:
        """Set the wall clock forward or back."""
        self._wall_ms += milliseconds
