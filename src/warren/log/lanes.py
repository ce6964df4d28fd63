"""Reads off the node's thread: several at a time, and none that hangs holds up the others.

A disk may hang on one file only, and a thread that waits for it cannot be called back. So there are
a few lanes, a read goes to the first that is least busy, and a lane whose read does not come back
is given up until it does: a queue that waits for a read there is told, and may ask again, on
another lane.
"""

from __future__ import annotations

import errno
from abc import abstractmethod
from collections import deque
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from warren.ports import Executor, Job

LANES: Final = ("read", "read2", "read3", "read4")
"""A thread each, begun when all before it are busy."""

HUNG_MS: Final = 10_000
"""A read that has not come back for so long hangs: it is of a mebibyte or so."""

TICK_MS_MAX: Final = 2_000
"""What counts of the time between two ticks: a process that stood still for longer, and its reads
with it, learns of none that came back before it looks."""

UNSEEN: Final = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class LaneRead(Job):
    """One read of files of the log, on a lane.

    Attributes:
        lane: Where it is or was.
        over: Whether the reader was told that it hangs; what it brings is not wanted.
    """

    def __init__(self) -> None:
        self.lane: Lane | None = None
        self.over: bool = False

    def run(self) -> None:
        if not self.over:
            self.read()

    def done(self, error: BaseException | None) -> None:
        lane = self.lane
        assert lane is not None, "a read comes back from its lane"
        lane.ended()
        self.release()
        if not self.over:
            self.finished(error)

    @abstractmethod
    def read(self) -> None:
        """Read from the disk. Blocks; runs on the lane's thread."""

    @abstractmethod
    def release(self) -> None:
        """Let go of the files that were read."""

    @abstractmethod
    def finished(self, error: BaseException | None) -> None:
        """Go on with what was read; `error` is what `read` raised. Not called if given up."""

    @abstractmethod
    def give_up(self, error: OSError) -> None:
        """Tell the reader that its read hangs on the disk; `error` says for how long."""


@final
class Lane:
    """Reads that follow each other on one thread.

    Attributes:
        jobs: Those that have not come back, in order.
        waited_ms: How long the first of them has been the first, as far as ticks have seen;
            `UNSEEN` before the first tick that sees it.
        hangs: Whether that is too long.
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.jobs: deque[LaneRead] = deque()
        self.waited_ms: i64 = UNSEEN
        self.hangs: bool = False

    def ended(self) -> None:
        """Take note that the first read of this lane has come back."""
        self.jobs.popleft()
        self.waited_ms = UNSEEN
        self.hangs = False


@final
class ReadLanes:
    """All lanes for reads of a log.

    Attributes:
        now_ms: Monotonic time as of the last tick.
    """

    def __init__(self, executor: Executor) -> None:
        self.now_ms: i64 = 0
        self._executor = executor
        self._lanes = [Lane(name) for name in LANES]
        self._refused: list[LaneRead] = []
        """Reads that no lane took; they are told with the next tick."""

    def submit(self, job: LaneRead) -> None:
        """Have a read done."""
        best: Lane | None = None
        for lane in self._lanes:
            if not lane.hangs and (best is None or len(lane.jobs) < len(best.jobs)):
                best = lane
        if best is None:
            self._refused.append(job)
            return
        if not best.jobs:
            best.waited_ms = UNSEEN
        best.jobs.append(job)
        job.lane = best
        self._executor.submit(best.name, job)

    def tick(self, now_ms: i64) -> None:
        """Give up what hangs."""
        passed_ms = min(now_ms - self.now_ms, TICK_MS_MAX)
        self.now_ms = now_ms
        refused = self._refused
        self._refused = []
        for job in refused:
            job.release()
            _give_up(job)
        for lane in self._lanes:
            if not lane.jobs or lane.hangs:
                continue
            # What passed before a read was the first is not its time.
            lane.waited_ms = 0 if lane.waited_ms == UNSEEN else lane.waited_ms + passed_ms
            if lane.waited_ms >= HUNG_MS:
                lane.hangs = True
                for job in list(lane.jobs):
                    if not job.over:
                        _give_up(job)


def _give_up(job: LaneRead) -> None:
    job.over = True
    job.give_up(OSError(errno.ETIMEDOUT, f"a read did not come back in {HUNG_MS // 1_000} s"))
