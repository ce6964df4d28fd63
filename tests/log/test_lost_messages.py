"""Files that lack messages which a queue still has: a damaged disk took them."""

from __future__ import annotations

from random import Random

from sim.disk import SimDisk, SimExecutor
from tests.log.replica import known_runs, pack_lengths
from warren.log.batch import KIND_MESSAGES, Batch
from warren.log.config import LogConfig
from warren.log.listener import LogListener, Replayer
from warren.log.log import Log
from warren.log.runlist import LiveRuns

MESSAGES = 10
QUEUE = 1
OTHER = 2


class Owner(LogListener):
    """Has the messages of one queue that it is told live, and takes each snapshot at once."""

    def __init__(self) -> None:
        self.live: list[tuple[int, int]] = []
        self.wanted: set[int] = set()

    def persisted(self, batches: list[Batch]) -> None:
        pass

    def snapshot_wanted(self, group_id: int) -> None:
        self.wanted.add(group_id)

    def live_runs(self, group_id: int) -> LiveRuns:
        return known_runs(self.live if group_id == QUEUE else [])

    def disk_full(self, full: bool) -> None:
        pass

    def failed(self, error: BaseException) -> None:
        raise error


def test_files_that_lack_just_what_lives_leave_the_log() -> None:
    owner, executor, disk = Owner(), SimExecutor(Random(1)), SimDisk(4)
    config = LogConfig(wal_max_size_bytes=65_536, reserve_bytes=65_536)
    log = Log(disk, executor, config, owner)
    log.recover(Replayer())

    def write(group_id: int, number: int, size: int) -> None:
        body = bytes(size)
        log.group(group_id).append(KIND_MESSAGES, 1, number, 1, pack_lengths([body]), body, None)
        log.flush()
        executor.drain()

    def pass_time(seconds: int) -> None:
        nonlocal now_ms
        for _ in range(seconds):
            now_ms += 1_000
            log.tick(now_ms)
            for group_id in owner.wanted:
                group = log.group(group_id)
                group.snapshot(group.last_index, b"state", 0)
            owner.wanted.clear()
            log.flush()
            executor.drain()

    def held() -> int:
        return sum(int(place.message_count) for place in log.group(QUEUE).places)

    now_ms = 0
    owner.live = [(0, 0), (MESSAGES - 1, MESSAGES - 1)]
    for number in range(MESSAGES):
        write(QUEUE, number, 1_000)
    for number in range(40):
        write(OTHER, number, 10_000)
    pass_time(100)
    assert held() == 2
    # One between them lives by now, and is not there.
    owner.live = [(5, 5)]
    write(OTHER, 40, 10_000)
    pass_time(1_000)
    assert held() == 0
