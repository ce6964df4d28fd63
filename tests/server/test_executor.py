"""Which jobs the event loop does itself, and which it hands to threads."""

from __future__ import annotations

import asyncio
import threading

from warren.ports import Job
from warren.server.executor import DELAY_NS_MAX, PROBATION_NS, SLOW_NS, ThreadExecutor


class Timed(Job):
    """A brief job that takes some time of a clock that only such jobs move."""

    def __init__(self, clock: list[int], takes_ns: int) -> None:
        self.brief = True
        self.thread = 0
        self._clock = clock
        self._takes_ns = takes_ns

    def run(self) -> None:
        self.thread = threading.get_ident()
        self._clock[0] += self._takes_ns

    def done(self, error: BaseException | None) -> None:
        assert error is None


def test_delay_keeps_the_loop_for_so_long_and_no_longer() -> None:
    clock = [PROBATION_NS * 4]
    loop = asyncio.new_event_loop()
    workers = ThreadExecutor(loop, clock_ns=lambda: clock[0])

    def here(takes_ns: int) -> bool:
        job = Timed(clock, takes_ns)
        workers.submit("wal", job)
        workers.drain()
        return job.thread == threading.get_ident()

    late = SLOW_NS + DELAY_NS_MAX // 4
    assert [here(late) for _ in range(6)] == [True] * 5 + [False], "the sum of their delays counts"
    clock[0] += PROBATION_NS
    assert here(SLOW_NS), "the disk may have recovered"
    for _ in range(12):
        assert here(late), "single jobs that seem slow now and then change nothing"
        clock[0] += PROBATION_NS // 2
    assert here(SLOW_NS + DELAY_NS_MAX + 1)
    assert not here(0), "one that hangs is enough"
    workers.stop()
    loop.close()
