"""Memory that the process has freed goes back to the system while it is short, or nobody works.

The C library keeps what it was given back, for later. So the process may look as large as it ever
was, and a memory alarm would go on when all that raised it is gone. Above the mark from which
bodies leave memory (`queues.paging`) the library is told to let go of what it can. That takes some
milliseconds for each gigabyte, on a thread; where it brings nothing it is done less and less often.

Below the mark it is told so when the process has been idle for a while and has grown since the
last time: the milliseconds are nobody's then, and operators see what is in use. What is kept only
for whoever reads it again is let go of before.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Final, final

from warren.ports import Executor, Job
from warren.server.system import resident_bytes

LANE: Final = "memory"
PAUSE_TICKS_MAX: Final = 64
GAIN_SHARE: Final = 64
"""One part in so many of the limit is worth doing it again at once."""
IDLE_TICKS: Final = 30
IDLE_SHARE: Final = 0.05
"""The process is idle when it has taken less of a processor for so many seconds."""
GROWN_BYTES: Final = 16 << 20
"""An idle process gives memory back that has grown by so much."""


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
        self._memory.given_back(self.before_bytes - self.after_bytes, self.after_bytes)


@final
class FreedMemory:
    """Gives the memory of one process back; see the module's head."""

    def __init__(
        self,
        limit_bytes: Callable[[], int],
        executor: Executor,
        used: Callable[[], int] = resident_bytes,
        give_back: Callable[[], None] = trim,
        worked: Callable[[], float] = time.process_time,
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            limit_bytes: Tells above how much memory is short; 0 where it never is.
            used: Tells how much this process has.
            give_back: Has the C library let go of what it can.
            worked: Tells how much processor time this process has taken, in seconds.
            let_go: Has the node forget what an idle one needs not keep.
        """
        self.used = used
        self._limit = limit_bytes
        self._executor = executor
        self._give_back = give_back
        self._at_work = False
        self._pause = 1
        self._wait = 0
        self._let_go = let_go
        self._processor = worked
        self._worked = worked()
        self._idle_ticks = 0
        self._left_bytes = 0
        """The least that the process had since memory was given back."""

    def tick(self, used_bytes: int) -> None:
        """Do what is due; to be called once a second."""
        self._watch()
        self._left_bytes = min(self._left_bytes, used_bytes)
        limit = self._limit()
        if not limit or used_bytes <= limit:
            self._pause = 1
            self._wait = 0
            grown = used_bytes - self._left_bytes >= GROWN_BYTES
            if grown and self._idle_ticks >= IDLE_TICKS:
                self._let_go()
                self._begin()
        elif self._wait > 0:
            self._wait -= 1
        else:
            self._begin()

    def _watch(self) -> None:
        """See whether the process has worked in the last second."""
        worked = self._processor()
        self._idle_ticks = self._idle_ticks + 1 if worked - self._worked < IDLE_SHARE else 0
        self._worked = worked

    def _begin(self) -> None:
        if not self._at_work:
            self._at_work = True
            self._executor.submit(LANE, GivingBack(self, self._give_back))

    def given_back(self, gained_bytes: int, left_bytes: int) -> None:
        """It is done, has brought so much, and so much is left."""
        self._at_work = False
        self._left_bytes = left_bytes
        if gained_bytes > self._limit() // GAIN_SHARE:
            self._pause = 1
            self._wait = 0
        else:
            self._wait = self._pause
            self._pause = min(2 * self._pause, PAUSE_TICKS_MAX)
