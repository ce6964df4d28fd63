"""Reads from disk for peers that are far behind, paced: catching up must not slow down what is new.

All groups of a node share one allowance, so that it holds however many of them are behind. What a
peer misses of the newest entries comes from memory and is not counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

READ_BYTES: Final = 1_048_576
"""What one read asks for, and is counted as until it is known how much came."""
BURST_BYTES: Final = 2 * READ_BYTES
BYTES_PER_MS: Final = 40_000
"""The pace; twice what is newly written where that is more, or peers would never catch up."""


@final
class Throttle:
    """Lets reads begin, at once or when earlier ones are paid for."""

    def __init__(self, now_ms: i64) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._left: i64 = BURST_BYTES
        self._filled_ms: i64 = now_ms
        self._written_bytes: i64 = 0

    def want(self, read: Callable[[], None]) -> None:
        """Call `read` when a read of up to `READ_BYTES` may begin; `done` follows when it ends."""
        self._waiting.append(read)
        self._begin()

    def done(self, size: i64) -> None:
        """A read has ended, with so many bytes."""
        self._left += READ_BYTES - size
        self._begin()

    def tick(self, now_ms: i64, written_bytes: i64) -> None:
        """Time has passed, and so many bytes were newly written in this life."""
        granted = (now_ms - self._filled_ms) * BYTES_PER_MS
        granted = max(granted, 2 * (written_bytes - self._written_bytes))
        self._left = min(self._left + granted, max(granted, i64(BURST_BYTES)))
        self._filled_ms = now_ms
        self._written_bytes = written_bytes
        self._begin()

    def _begin(self) -> None:
        while self._waiting and self._left > 0:
            self._left -= READ_BYTES
            self._waiting.popleft()()
