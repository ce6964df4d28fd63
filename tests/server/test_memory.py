"""Freed memory goes back to the system while it is short, and no more often than that helps."""

from __future__ import annotations

from warren.ports import Job
from warren.server.memory import GROWN_BYTES, IDLE_TICKS, PAUSE_TICKS_MAX, FreedMemory, trim

LIMIT = 1_000_000


class AtOnce:
    """An executor that does a job when told to."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def submit(self, lane: str, job: Job) -> None:
        self.jobs.append(job)

    def go_on(self) -> None:
        for job in self.jobs:
            job.run()
            job.done(None)
        self.jobs = []


class World:
    """A process with memory of which some can be given back."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.used = 0
        self.freed = 0
        self.times = 0
        self.load = 1.0
        self._worked = 0.0
        self.executor = AtOnce()
        self.memory = FreedMemory(
            lambda: limit,
            self.executor,
            lambda: self.used,
            self._give_back,
            lambda: self._worked,
            self._let_go,
        )
        self.kept = 0

    def _let_go(self) -> None:
        self.freed += self.kept
        self.kept = 0

    def _give_back(self) -> None:
        self.times += 1
        self.used -= self.freed
        self.freed = 0

    def ticks(self, count: int) -> int:
        """How often memory was given back in so many seconds."""
        before = self.times
        for _ in range(count):
            self._worked += self.load
            self.memory.tick(self.used)
            self.executor.go_on()
        return self.times - before


def test_nothing_is_done_while_there_is_enough() -> None:
    world = World()
    world.used = LIMIT
    assert world.ticks(100) == 0
    world = World(0)
    world.used = LIMIT * 100
    assert world.ticks(100) == 0


def test_an_idle_process_gives_back_what_it_has_grown_by() -> None:
    world = World(1 << 40)
    world.used, world.freed = 3 * GROWN_BYTES, GROWN_BYTES
    assert world.ticks(IDLE_TICKS * 3) == 0, "it has work to do"
    world.load = 0.01
    assert world.ticks(IDLE_TICKS - 1) == 0
    assert world.ticks(1) == 1 and world.used == 2 * GROWN_BYTES
    assert world.ticks(IDLE_TICKS * 10) == 0, "nothing was freed since"
    world.used += GROWN_BYTES
    world.load = 1.0
    assert world.ticks(1) == 0
    world.load = 0.01
    assert world.ticks(IDLE_TICKS) == 1


def test_an_idle_process_lets_go_of_what_it_keeps_for_later_reads() -> None:
    world = World(1 << 40)
    world.used = world.kept = 2 * GROWN_BYTES
    world.ticks(IDLE_TICKS * 2)
    assert world.kept > 0, "it may be read again"
    world.load = 0.0
    world.ticks(IDLE_TICKS)
    assert (world.kept, world.used) == (0, 0)


def test_an_idle_process_gives_back_where_memory_has_no_limit() -> None:
    world = World(0)
    world.used, world.load = GROWN_BYTES, 0.0
    assert world.ticks(IDLE_TICKS) == 1


def test_what_was_freed_goes_back_at_once() -> None:
    world = World()
    world.used, world.freed = 3 * LIMIT, LIMIT
    assert world.ticks(1) == 1
    world.freed = LIMIT * 3 // 2
    assert world.ticks(1) == 1
    assert world.used == LIMIT // 2
    assert world.ticks(50) == 0


def test_where_it_brings_nothing_it_is_done_less_often() -> None:
    world = World()
    world.used = 2 * LIMIT
    assert world.ticks(10) == 3
    assert world.ticks(1_000) < 20
    before = world.times
    assert world.ticks(PAUSE_TICKS_MAX + 1) >= 1, "it is tried for ever"
    assert world.times - before == 1
    world.used = LIMIT
    world.ticks(1)
    world.used = 2 * LIMIT
    assert world.ticks(1) == 1, "it begins anew when it was over"


def test_one_at_a_time() -> None:
    world = World()
    world.used = 2 * LIMIT
    for _ in range(10):
        world.memory.tick(world.used)
    assert len(world.executor.jobs) == 1


def test_the_library_here_knows_how() -> None:
    trim()
