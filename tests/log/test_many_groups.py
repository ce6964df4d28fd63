"""What there is of many groups is done in parts, by ticks and by threads."""

from __future__ import annotations

import gc
import time
from random import Random

import pytest

from sim.disk import SimDisk, SimExecutor
from tests.log.replica import known_runs, pack_lengths
from warren.log.batch import KIND_MESSAGES, Batch
from warren.log.compact import ASKED_FACTOR, GROUPS_PER_MS
from warren.log.config import LogConfig
from warren.log.files import LogFile
from warren.log.listener import LogListener, Replayer
from warren.log.log import Log
from warren.log.runlist import LiveRuns
from warren.log.sidecar import PIECE_BYTES, load, store
from warren.log.wal import ROUND_BATCHES_MIN, ROUND_STATES_MAX, RoundJob
from warren.ports import Job

GROUPS = 200
AT_ONCE = 16
SALT = 5


class Owner(LogListener):
    """Takes what comes, counts what it is asked, and has every message of some groups live."""

    def __init__(self) -> None:
        self.asked = 0
        self.wanted: list[int] = []
        self.told: list[int] = []

    def persisted(self, batches: list[Batch]) -> None:
        self.told.append(len(batches))

    def snapshot_wanted(self, group_id: int) -> None:
        self.wanted.append(group_id)

    def live_runs(self, group_id: int) -> LiveRuns:
        self.asked += 1
        return known_runs([(0, 0)] if group_id % 4 == 0 else [])

    def disk_full(self, full: bool) -> None:
        pass

    def failed(self, error: BaseException) -> None:
        raise error


def begun() -> tuple[Log, SimExecutor, Owner]:
    owner = Owner()
    executor = SimExecutor(Random(1))
    config = LogConfig(wal_max_size_bytes=65_536, reserve_bytes=65_536, groups_at_once=AT_ONCE)
    log = Log(SimDisk(4), executor, config, owner)
    log.recover(Replayer())
    return log, executor, owner


def write(log: Log, group_id: int, size: int) -> None:
    body = bytes(size)
    log.group(group_id).append(KIND_MESSAGES, 1, 0, 1, pack_lengths([body]), body, None)


def filled(more: int) -> tuple[Log, SimExecutor, Owner]:
    """A log whose first file is closed and has many groups; that had as many more large entries."""
    log, executor, owner = begun()
    for group_id in range(1, GROUPS + 1):
        write(log, group_id, 100)
    log.flush()
    executor.drain()
    for _ in range(more):
        write(log, GROUPS + 1, 10_000)
        log.flush()
        executor.drain()
    old = log._store.files[0]
    assert old.closed and len(old.groups) == GROUPS
    return log, executor, owner


def lists_of_groups() -> list[list[object]]:
    """What Python's collector would look through, wherever a look has come to; other tests' too."""
    known = [one for one in gc.get_objects() if isinstance(one, list) and len(one) >= GROUPS]
    return [one for one in known if one[:3] == [1, 2, 3]]


def test_a_tick_looks_at_few_groups_and_lets_go_of_few() -> None:
    """Files with many groups close, are rewritten, and leave the log."""
    others = lists_of_groups()
    log, executor, owner = filled(40)
    old = log._store.files[0]
    now_ms = 0
    shrinking = 0
    while old.groups:
        held = len(old.groups)
        owner.asked, owner.wanted = 0, []
        now_ms += 1_000
        log.tick(now_ms)
        assert owner.asked <= AT_ONCE
        assert len(owner.wanted) <= AT_ONCE
        assert held - len(old.groups) <= AT_ONCE
        if now_ms < 20_000:
            assert len(lists_of_groups()) <= len(others)
        shrinking += len(old.groups) < held
        for group_id in owner.wanted:
            group = log.group(group_id)
            group.snapshot(group.last_index, b"state", 0)
        log.flush()
        executor.drain()
        assert now_ms < 10_000_000, "it comes to an end"
    assert shrinking >= GROUPS // AT_ONCE
    for group_id in range(1, GROUPS + 1):
        kept = log.group(group_id).places
        assert all(place.file is not old for place in kept)
        assert sum(int(place.message_count) for place in kept) == (group_id % 4 == 0)
    # What was known of them is forgotten in parts, too, and no other look begins before.
    for _ in range(GROUPS):
        now_ms += 1_000
        before = len(log._compactor._known)
        log.tick(now_ms)
        executor.drain()
        assert before - len(log._compactor._known) <= AT_ONCE


def test_groups_are_cut_without_a_look_at_what_others_wait_with() -> None:
    """All groups whose leader is gone begin anew in one turn."""

    def cost(waiting: int) -> float:
        log, executor, _ = begun()
        groups = [log.group(number) for number in range(1, 501)]
        for group in groups:
            write(log, int(group.id), 10)
        log.flush()
        executor.drain()
        for _ in range(waiting):
            write(log, 1_000, 10)
        write(log, 500, 10)
        began = time.process_time()
        for group in groups:
            group.reset_for_install()
        took = time.process_time() - began
        assert log.group(500).unwritten == 0 and log.group(1_000).unwritten == waiting
        log.flush()
        executor.drain()
        assert log.group(1_000).unwritten == 0 == groups[0].unwritten
        return took

    assert min(cost(20_000) for _ in range(3)) < 10 * max(cost(0) for _ in range(3))


def test_the_index_of_many_groups_is_written_piece_by_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compiled code lets no other thread run before it comes to a call such as a write."""
    disk = SimDisk(1)
    file = LogFile(7, "log/00000007.log", disk.open("log/00000007.log", create=True))
    for group_id in range(1, 3_001):
        file.extents(group_id).add(KIND_MESSAGES, 1, 1, 0, 1, 4_096 * group_id, 200, 4_096)
    sizes: list[int] = []
    write_at = type(file.handle).write

    def counted(handle: object, buffers: list[bytes], offset: int) -> None:
        sizes.append(sum(map(len, buffers)))
        write_at(handle, buffers, offset)

    monkeypatch.setattr(type(file.handle), "write", counted)
    store(disk, file, SALT)
    assert len(sizes) > 5
    assert max(sizes) < 2 * PIECE_BYTES
    again = LogFile(7, file.path, file.handle)
    assert load(disk, again, SALT)
    assert list(again.groups) == list(file.groups)
    assert not load(disk, again, SALT + 1)


def test_few_of_many_votes_are_told_to_be_durable_at_once() -> None:
    """At a start each may make a leader of the group."""
    log, executor, owner = begun()
    many = 2 * ROUND_STATES_MAX + 1
    for group_id in range(1, many + 1):
        log.group(group_id).save_state(b"term 1", None)
    log.flush()
    executor.drain()
    assert owner.told == [ROUND_STATES_MAX, ROUND_STATES_MAX, 1]


def test_what_came_in_many_turns_is_told_to_be_durable_in_parts() -> None:
    """The disk stood still meanwhile."""
    log, executor, owner = begun()
    for _ in range(20):
        for group_id in range(1, ROUND_BATCHES_MIN + 1):
            write(log, group_id, 1)
        log.flush()
    executor.drain()
    assert sum(owner.told) == 20 * ROUND_BATCHES_MIN
    assert max(owner.told) <= 2 * ROUND_BATCHES_MIN


@pytest.mark.parametrize("count", [10, ROUND_BATCHES_MIN + 1, 5 * ROUND_BATCHES_MIN])
def test_what_a_turn_takes_in_is_durable_soon(count: int) -> None:
    """A node was seconds behind its disk where each of 300 queues got a message in each turn."""
    log, executor, owner = begun()
    for turn in range(1, 21):
        for group_id in range(1, count + 1):
            write(log, group_id, 1)
        log.flush()
        rounds = len(owner.told)
        while len(owner.told) == rounds:
            assert executor.step()
        assert turn * count - sum(owner.told) <= count


class Watched(SimExecutor):
    """Notes which rounds may keep the loop's thread."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.brief: list[bool] = []

    def submit(self, lane: str, job: Job) -> None:
        if isinstance(job, RoundJob):
            self.brief.append(job.brief)
        super().submit(lane, job)


@pytest.mark.parametrize(
    ("allowed", "awaited", "groups", "size", "brief"),
    [
        (True, True, 1, 10_000, True),
        (True, True, 1, 20_000, False),
        (True, True, 100, 1_900, True),
        (True, True, 100, 2_100, False),
        (True, True, 1_500, 900, False),
        (False, True, 100, 1_900, False),
        (True, False, 1, 10_000, False),
    ],
)
def test_a_round_keeps_the_loop_that_is_small_beside_its_batches(
    allowed: bool, awaited: bool, groups: int, size: int, brief: bool
) -> None:
    """Where each of 300 queues got a message in each turn, two changes of threads cost more.

    Args:
        allowed: Whether any round may.
        awaited: Whether a client waits for this one.
        groups: How many of them get a batch.
        size: Bytes of each.
        brief: Whether the round may.
    """
    executor = Watched()
    config = LogConfig(wal_max_size_bytes=1 << 24, reserve_bytes=1 << 20)
    log = Log(SimDisk(4), executor, config, Owner())
    log.recover(Replayer())
    executor.drain()
    log.allow_brief_rounds(allowed)
    executor.brief.clear()
    for group_id in range(1, groups + 1):
        write(log, group_id, size)
    log.flush(awaited)
    assert executor.brief[:1] == [brief]
    executor.drain()


def test_a_round_that_a_client_waits_for_is_brief_behind_one_that_none_does() -> None:
    """Also where it was gathered while the other was on its way."""
    executor = Watched()
    log = Log(SimDisk(4), executor, LogConfig(reserve_bytes=1 << 20), Owner())
    log.recover(Replayer())
    executor.drain()
    log.allow_brief_rounds(True)
    executor.brief.clear()
    write(log, 1, 100)
    log.flush(False)
    write(log, 1, 100)
    log.flush(True)
    write(log, 1, 100)
    log.flush(False)
    executor.drain()
    assert executor.brief == [False, True]


def until_rest(log: Log, executor: SimExecutor) -> int:
    """Go on as turns of the node do, without a tick; how many times."""
    times = 0
    while log.has_work:
        log.go_on()
        times += 1
        assert times < 10_000, "it comes to an end"
    executor.drain()
    return times


def test_a_look_goes_on_in_turns_and_asks_for_some_snapshots_between_two_ticks() -> None:
    log, executor, owner = filled(8)
    now_ms = 10_000
    while not owner.wanted:
        # Files get their indexes first.
        now_ms += 50
        log.tick(now_ms)
        executor.drain()
    assert len(owner.wanted) <= AT_ONCE
    assert until_rest(log, executor) > 1
    assert len(owner.wanted) == ASKED_FACTOR * AT_ONCE
    log.tick(now_ms + 50)
    until_rest(log, executor)
    assert set(range(1, GROUPS + 1)) <= set(owner.wanted) and not log.has_work


def test_a_look_waits_as_long_as_many_groups_of_the_one_before_say() -> None:
    log, executor, owner = filled(8)
    now_ms = 10_000
    seen = 0
    while seen < GROUPS:
        log.tick(now_ms)
        until_rest(log, executor)
        seen = len(owner.wanted)
        now_ms += 1
    # A file closes: whatever is known of it is old.
    log._compactor.rolled(log._store.files[0])
    pause = GROUPS // GROUPS_PER_MS
    log.tick(10_000 + pause // 2)
    assert not log.has_work and len(owner.wanted) == seen
    log.tick(now_ms + 2 * pause)
    assert log.has_work and len(owner.wanted) > seen
