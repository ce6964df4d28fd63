"""Time and randomness of a simulated node, both from the seed."""

from __future__ import annotations

from random import Random
from typing import Final, final

START_WALL_MS = 1_700_000_000_000
START_MONOTONIC_MS = 1_000

CONSUMER_TIMEOUT_MS: Final = 31_536_000_000
"""A year, to which all jumps of the wall clocks of a run together do not come."""

DISCONNECTED_TIMEOUT_MS: Final = 1_500
"""Silences are shorter and longer than that."""


@final
class VirtualClock:
    """A clock that stands still unless it is moved; see `warren.ports.Clock`."""

    def __init__(self) -> None:
        self._wall_ms = START_WALL_MS
        self._monotonic_ms = START_MONOTONIC_MS

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return self._wall_ms * 1_000_000

    def monotonic_ns(self) -> int:
        """Nanoseconds from an arbitrary start."""
        return self._monotonic_ms * 1_000_000

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return self._wall_ms

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start."""
        return self._monotonic_ms

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self._wall_ms += milliseconds
        self._monotonic_ms += milliseconds

    def jump(self, milliseconds: int) -> None:
        """Set the wall clock forward or back, as an operator or a time server does."""
        self._wall_ms = max(1, self._wall_ms + milliseconds)


@final
class SeededRandom:
    """Randomness that the seed replays; see `warren.ports.Random`."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def bytes(self, count: int) -> bytes:
        """`count` random bytes."""
        return self._random.randbytes(count)
