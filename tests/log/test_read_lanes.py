"""A read that hangs holds up nobody else, and is not waited for without a bound."""

from __future__ import annotations

import errno
from random import Random

from sim.disk import SimDisk, SimExecutor
from tests.log.model import SMALL, Reader
from tests.log.replica import pack_lengths
from tests.log.test_damaged_starts import Owner, Patient
from warren.log.batch import KIND_MESSAGES
from warren.log.config import LogConfig
from warren.log.lanes import HUNG_MS, LANES
from warren.log.log import Log
from warren.ports import Job

GROUPS = 12


class Holding:
    """An executor of which some lanes stand still."""

    def __init__(self) -> None:
        self._inner = SimExecutor(Random(1))
        self.held: dict[str, list[Job]] = {}

    def submit(self, lane: str, job: Job) -> None:
        if lane in self.held:
            self.held[lane].append(job)
        else:
            self._inner.submit(lane, job)

    def drain(self) -> None:
        self._inner.drain()

    def let_go(self, lane: str) -> None:
        for job in self.held.pop(lane):
            self._inner.submit(lane, job)
        self.drain()


def filled() -> tuple[Log, Holding]:
    """A log with some groups of one message, none of which is in memory."""
    executor = Holding()
    log = Log(SimDisk(3), executor, LogConfig(**SMALL), Owner())
    log.recover(Patient())
    log.tick(1)
    for group_id in range(1, GROUPS + 1):
        body = b"%d" % group_id
        log.group(group_id).append(KIND_MESSAGES, 1, 0, 1, pack_lengths([body]), body, None)
    log.flush()
    executor.drain()
    return log, executor


def read(log: Log, group_id: int) -> Reader:
    reader = Reader()
    group = log.group(group_id)
    log._store.cache.forget(group.share.recent)
    group.read(0, 0, 1_000, reader)
    return reader


def pass_time(log: Log, from_ms: int, to_ms: int) -> None:
    """Tick some times a second."""
    for now_ms in range(from_ms, to_ms, 200):
        log.tick(now_ms)
    log.tick(to_ms)


def body(reader: Reader) -> bytes:
    assert reader.answers == 1 and reader.error is None
    return reader.batches[0].record(0)


def test_one_hanging_read_leaves_the_others_alone() -> None:
    log, executor = filled()
    executor.held[LANES[0]] = []
    hanging = read(log, 1)
    for group_id in range(2, GROUPS + 1):
        reader = read(log, group_id)
        executor.drain()
        assert body(reader) == b"%d" % group_id
    pass_time(log, 1, HUNG_MS)
    assert hanging.answers == 0
    log.tick(HUNG_MS + 1)
    assert hanging.answers == 1 and isinstance(hanging.error, OSError)
    assert hanging.error.errno == errno.ETIMEDOUT
    again = read(log, 1)
    executor.drain()
    assert body(again) == b"1"
    # It comes back in the end: nobody is told twice, and the lane is used again.
    executor.let_go(LANES[0])
    assert hanging.answers == 1
    later = read(log, 1)
    executor.drain()
    assert body(later) == b"1"
    assert all(file.readers == 0 for file in log._store.files)


def test_what_queued_up_behind_a_hanging_read_is_told_as_well() -> None:
    log, executor = filled()
    for lane in LANES:
        executor.held[lane] = []
    readers = [read(log, group_id) for group_id in range(1, GROUPS + 1)]
    pass_time(log, 1, HUNG_MS + 1)
    assert all(reader.answers == 1 and reader.error is not None for reader in readers)
    # With no lane left nothing piles up.
    waiting = sum(len(jobs) for jobs in executor.held.values())
    late = read(log, 1)
    assert late.answers == 0
    log.tick(HUNG_MS + 50)
    assert late.answers == 1 and late.error is not None
    assert waiting == sum(len(jobs) for jobs in executor.held.values()) == GROUPS
    executor.let_go(LANES[2])
    after = read(log, 5)
    executor.drain()
    assert body(after) == b"5"


def test_a_process_that_stood_still_does_not_take_its_reads_for_hanging() -> None:
    """One that was asked for just before the first tick, and one from before it stood still."""
    log, executor = filled()
    before = read(log, 1)
    log.tick(10 * HUNG_MS)
    late = read(log, 2)
    log.tick(10 * HUNG_MS + 50)
    assert before.answers == late.answers == 0
    executor.drain()
    assert body(before) == b"1"
    assert body(late) == b"2"


def test_the_time_before_a_read_was_asked_for_is_not_its_time() -> None:
    log, executor = filled()
    log.tick(1_000)
    executor.held[LANES[0]] = []
    hanging = read(log, 1)
    # That it was asked for right before this tick nobody can tell.
    log.tick(1_900)
    pass_time(log, 1_900, HUNG_MS + 1_800)
    assert hanging.answers == 0
    log.tick(HUNG_MS + 1_900)
    assert hanging.answers == 1


def test_what_was_read_back_is_let_go_of_and_read_again() -> None:
    """As often as wanted, with nothing that counts for what is gone."""
    log, executor = filled()
    for group_id in range(1, GROUPS + 1):
        log._store.cache.forget(log.group(group_id).share.recent)
    kept = log.cached_bytes()
    for _ in range(3):
        share = log.cache.read_share_bytes()
        for group_id in range(1, GROUPS + 1):
            reader = read(log, group_id)
            executor.drain()
            assert body(reader) == b"%d" % group_id
        assert log.cached_bytes() > kept and log.cache.read_share_bytes() < share
        log.cache.forget_reads()
        assert log.cached_bytes() <= kept and log.cache.read_share_bytes() == share
        assert len(log.group(1).share.read_back) == 0
