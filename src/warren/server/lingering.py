"""Behind a turn the loop looks for the next event for a moment before it sleeps, where that pays.

A processor that has gone to sleep takes longer to wake than a client nearby takes to answer, so
that whoever waits for each answer (connections that open, remote calls, declarations one by one)
waits mostly for that. But a processor that looks is not there for others, and a process that may
have only so much of it uses that up: where nothing comes in time the next chances are let go, the
more of them the oftener that was so, and where the processor was taken away meanwhile, all of some
time (decision 83).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

LOOK_NS: Final = 50_000
"""So long it looks where nobody says otherwise."""
TAKEN_NS: Final = 1_000_000
"""A look that ends so much too late has had the processor taken away."""
PAUSE_NS: Final = 1_000_000_000
"""There is no look for so long after that."""
PASSED_OVER_MAX: Final = 127
"""So many chances in a row are let go at most."""


@final
class Lingering:
    """Of one loop."""

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        working: Callable[[], bool],
        clock_ns: Callable[[], int],
        look_ns: int = LOOK_NS,
    ) -> None:
        """Prepare.

        Args:
            call_soon: Has the loop call something in its next round, for which it does not sleep.
            working: Whether another thread works for the loop, which it would hold up.
            clock_ns: Tells nanoseconds that pass steadily.
            look_ns: So long it looks; 0 for never.
        """
        self._call_soon: Callable[[Callable[[], None]], object] = call_soon
        self._working: Callable[[], bool] = working
        self._clock_ns: Callable[[], int] = clock_ns
        self._look_ns: i64 = look_ns
        self._looking: bool = False
        self._until_ns: i64 = 0
        self._passed_over: i64 = 0
        """So many chances are let go before the next look,"""
        self._vain: i64 = 0
        """as many as after the last look that found nothing."""
        self._not_before_ns: i64 = 0

    def turn_ended(self) -> None:
        """What an event has brought is done."""
        if self._looking:
            # It came while the loop looked for it.
            self._vain = 0
            self._until_ns = self._clock_ns() + self._look_ns
        elif self._passed_over > 0:
            self._passed_over -= 1
        elif self._look_ns > 0 and not self._working():
            now_ns: i64 = self._clock_ns()
            if now_ns >= self._not_before_ns:
                self._looking = True
                self._until_ns = now_ns + self._look_ns
                self._call_soon(self._look)

    def _look(self) -> None:
        now_ns: i64 = self._clock_ns()
        if now_ns < self._until_ns:
            if self._working():
                self._looking = False
            else:
                self._call_soon(self._look)
            return
        self._looking = False
        self._vain = min(2 * self._vain + 1, PASSED_OVER_MAX)
        self._passed_over = self._vain
        if now_ns - self._until_ns > TAKEN_NS:
            self._not_before_ns = now_ns + PAUSE_NS
