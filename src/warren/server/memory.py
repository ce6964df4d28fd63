"""Memory that the process has freed goes back to the system while it is short.

The C library keeps what it was given back, for later. So the process may look as large as it ever
was, and a memory alarm would go on when all that raised it is gone. Above the mark from which
bodies leave memory (`queues.paging`) the library is told to let go of what it can. That takes some
milliseconds for each gigabyte, on a thread; where it brings nothing it is done less and less often.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import final

from warren.ports import Executor, Job
from warren.server.system import resident_bytes

LANE = "memory"
PAUSE_TICKS_MAX = 64
GAIN_SHARE = 64
"""One part in so many of the limit is worth doing it again at once."""


def trim() -> None:
    """Tell the C library to let go of what it can; one that knows no such call does nothing."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return


@final
class GivingBack(Job):
    """One time that the library is told to."""

    def __init__(self, memory: FreedMemory, give_back: Callable[[], None]) -> None:
        self.before_bytes = 0
        self.after_bytes = 0
        self._memory = memory
        self._give_back = give_back

    def run(self) -> None:
        """Tell it. Blocks for as long as it takes."""
        self.before_bytes = self._memory.used()
        self._give_back()
        self.after_bytes = self._memory.used()

    def done(self, error: BaseException | None) -> None:
        """Let the next one come, sooner or later."""
        self._memory.given_back(self.before_bytes - self.after_bytes)


@final
class FreedMemory:
    """Gives the memory of one process back; see the module's head."""

    def __init__(
        self,
        limit_bytes: int,
        executor: Executor,
        used: Callable[[], int] = resident_bytes,
        give_back: Callable[[], None] = trim,
    ) -> None:
        """
        Args:
            limit_bytes: Memory above which it is short; 0 where it never is.
            used: Tells how much this process has.
            give_back: Has the C library let go of what it can.
        """
        self.used = used
        self._limit = limit_bytes
        self._executor = executor
        self._give_back = give_back
        self._at_work = False
        self._pause = 1
        self._wait = 0

    def tick(self, used_bytes: int) -> None:
        """Do what is due; to be called once a second."""
        if not self._limit or used_bytes <= self._limit:
            self._pause = 1
            self._wait = 0
        elif self._wait > 0:
            self._wait -= 1
        elif not self._at_work:
            self._at_work = True
            self._executor.submit(LANE, GivingBack(self, self._give_back))

    def given_back(self, gained_bytes: int) -> None:
        """It is done, and has brought so much."""
        self._at_work = False
        if gained_bytes > self._limit // GAIN_SHARE:
            self._pause = 1
            self._wait = 0
        else:
            self._wait = self._pause
            self._pause = min(2 * self._pause, PAUSE_TICKS_MAX)
