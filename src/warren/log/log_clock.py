"""The time of a log's next entry: wall time, which never goes back.

A wall clock may be behind the log: it was ahead before and was set back, or another node led whose
clock is ahead. Time then goes on half as fast as it passes, from the latest that the log has, until
the clock has caught up. So what lives for a minute lives for two at most, and not for as long as
the clock had been ahead.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64, mypyc_attr


@final
@mypyc_attr(acyclic=True)  # Nothing that it refers to leads back to it.
class LogClock:
    """That of one log while its wall clock is behind."""

    def __init__(self) -> None:
        self._from_ms: i64 = 0
        """The log's time when the clock was found to be behind it."""
        self._since_ms: i64 = 0
        """When that was, in monotonic time."""

    def stamp(self, newest_ms: i64, now_ms: i64) -> i64:
        """The time now, where wall time is behind.

        Args:
            newest_ms: The latest time that the log has.
            now_ms: Monotonic time.
        """
        stamp_ms = self._from_ms + (now_ms - self._since_ms) // 2
        if stamp_ms >= newest_ms:
            return stamp_ms
        self._from_ms = newest_ms
        self._since_ms = now_ms
        return newest_ms
