"""Worker threads for blocking jobs: one a lane, so that jobs of a lane keep their order."""

from __future__ import annotations

import threading
import time
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from warren.ports import Job

SLOW_NS = 2_000_000
"""What a brief job takes at most where the disk is prompt; the rest of a longer one is delay."""
DELAY_NS_MAX = 25_000_000
"""Delay of brief jobs within `PROBATION_NS`, all told, that shows a disk which is busy or fails.
Where other work keeps the processors busy, single jobs seem slow now and then."""
PROBATION_NS = 250_000_000
"""For so long after that all go to their threads, so that a bad disk stops the loop once."""


def no_hook() -> None:
    """What follows a wake-up when nobody asked for more."""


def no_guard(step: Callable[[], None]) -> None:
    """Run a step; what it raises is the event loop's."""
    step()


class ThreadExecutor:
    """Runs `Job.run` on a thread per lane and `Job.done` on the event loop's thread.

    However many jobs end between two turns of the loop, they cost it one wake-up.

    Attributes:
        keeping: Held while the loop comes back from a brief job; whoever else holds it keeps the
            loop from going on.
        ended: How many jobs have ended on their threads.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        after: Callable[[], None] = no_hook,
        guard: Callable[[Callable[[], None]], None] = no_guard,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Prepare; threads start with their lane's first job.

        Args:
            loop: The node's event loop.
            after: Called once after the `done` calls of each wake-up.
            guard: Runs those calls, and minds what they raise.
            clock_ns: Tells nanoseconds that pass steadily.
        """
        self._loop = loop
        self._after = after
        self._guard = guard
        self._clock_ns = clock_ns
        self._queues: dict[str, SimpleQueue[Job | None]] = {}
        self._pending: dict[str, int] = {}
        """Jobs of each lane that have not been reported."""
        self._threads: list[threading.Thread] = []
        self._finished: deque[tuple[str, Job, BaseException | None]] = deque()
        self._here = False
        """Whether a brief job runs on the loop's thread."""
        self.keeping = threading.Lock()
        self._kept_since_ns = 0
        """Since when a brief job has kept the loop; 0 while none does."""
        self._slow_until_ns = 0
        self._delay_ns = 0
        """Delay of brief jobs since `_delay_since_ns`."""
        self._delay_since_ns = 0
        self._lock = threading.Lock()
        self._woken = False
        self._unreported = 0
        self.ended = 0
        self._progress = threading.Event()
        self._stopped = False

    def submit(self, lane: str, job: Job) -> None:
        """Queue a job; only from the loop's thread."""
        assert not self._stopped, "the executor was stopped"
        pending = self._pending.get(lane, 0)
        if job.brief and not pending and not self._here:
            started = self._clock_ns()
            if started >= self._slow_until_ns:
                self._run_here(job, started)
                return
        self._pending[lane] = pending + 1
        queue = self._queues.get(lane)
        if queue is None:
            queue = SimpleQueue()
            self._queues[lane] = queue
            thread = threading.Thread(
                target=self._work, args=(lane, queue), name=f"warren-{lane}", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        self._unreported += 1
        queue.put(job)

    def _run_here(self, job: Job, started_ns: int) -> None:
        """Spare a job two changes of threads while the disk does not keep the loop waiting."""
        self._here = True
        self._kept_since_ns = started_ns
        error: BaseException | None = None
        try:
            job.run()
        except BaseException as raised:
            error = raised
        with self.keeping:
            self._kept_since_ns = 0
        ended = self._clock_ns()
        if ended - started_ns > SLOW_NS:
            self._delayed(ended - started_ns - SLOW_NS, ended)
        job.done(error)
        self._here = False

    def _delayed(self, delay_ns: int, now_ns: int) -> None:
        """Count what a brief job took too long; if it is much, the next ones go to threads."""
        if now_ns - self._delay_since_ns > PROBATION_NS:
            self._delay_since_ns = now_ns
            self._delay_ns = 0
        self._delay_ns += delay_ns
        if self._delay_ns > DELAY_NS_MAX:
            self._slow_until_ns = now_ns + PROBATION_NS
            self._delay_ns = 0

    @property
    def working(self) -> bool:
        """Whether jobs are under way on their threads, or have ended and are not reported."""
        return self._unreported > 0

    def kept_ms(self) -> int:
        """How long a brief job has kept the loop by now; 0 while none does. For any thread."""
        since_ns = self._kept_since_ns
        return (self._clock_ns() - since_ns) // 1_000_000 if since_ns else 0

    def _work(self, lane: str, queue: SimpleQueue[Job | None]) -> None:
        while True:
            job = queue.get()
            if job is None:
                return
            error: BaseException | None = None
            try:
                job.run()
            except BaseException as raised:
                error = raised
            with self._lock:
                self._finished.append((lane, job, error))
                self.ended += 1
                wake = not self._woken
                self._woken = True
            self._progress.set()
            if wake:
                self._loop.call_soon_threadsafe(self._report)

    def _report(self) -> None:
        with self._lock:
            self._woken = False
            finished = self._finished
            self._finished = deque()
        if finished:
            self._unreported -= len(finished)
            self._guard(lambda: self._tell(finished))
            self._after()

    def _tell(self, finished: deque[tuple[str, Job, BaseException | None]]) -> None:
        for lane, job, error in finished:
            self._pending[lane] -= 1
            job.done(error)

    def drain(self) -> None:
        """Run every job, and those that their reports submit. Blocks; the loop's thread only."""
        while self._unreported:
            self._progress.wait()
            self._progress.clear()
            self._report()

    def stop(self) -> None:
        """Drain, then end the threads. Blocks; the loop's thread only."""
        self.drain()
        self._stopped = True
        for queue in self._queues.values():
            queue.put(None)
        for thread in self._threads:
            thread.join()
