"""When a micro-batch begins: at once, or when enough messages wait (`minOffsetsPerTrigger`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: Seconds between two looks at how many wait.
_PAUSE: Final = 0.2


class TriggerPace:
    """Holds batches back until so many messages wait, or some have waited for so long.

    The first batch of a process is not held back, as with Spark's Kafka source: it may be one that
    the process before had begun.
    """

    def __init__(self, rows_min: int, delay_seconds: float) -> None:
        """
        Args:
            rows_min: A batch is due when so many messages wait; 1 or less has it due at once.
            delay_seconds: ... or so long after the batch before.
        """
        self._rows_min = rows_min
        self._delay = delay_seconds
        self._due_at = 0.0
        self._look_at = 0.0

    def is_due(self, waiting: Callable[[], int]) -> bool:
        """Whether the next batch may begin.

        Args:
            waiting: How many messages wait; asked a few times a second.
        """
        now = time.monotonic()
        if self._rows_min <= 1 or now >= self._due_at:
            return True
        if now < self._look_at:
            return False
        self._look_at = now + _PAUSE
        return waiting() >= self._rows_min

    def began(self) -> None:
        """A batch begins: the time until the next one counts from here."""
        self._due_at = time.monotonic() + self._delay
        self._look_at = 0.0
