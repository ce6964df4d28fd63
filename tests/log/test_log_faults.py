"""What the owner is told when the disk fails or fills up."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from sim.disk import CHANGES, SimDisk, SimFile
from tests.log.model import World
from warren.log.cache import BATCH_OVERHEAD_BYTES
from warren.log.extents import Extents


def test_a_failed_sync_is_fatal_and_nothing_is_confirmed_after_it() -> None:
    world = World(5)
    group_id = world.new_group()
    world.publish(group_id, [10])
    world.settle_down()
    confirmed = world.confirmed
    world.publish(group_id, [10])
    world.disk.sync_fails_at = world.disk.syncs + 1
    world.settle_down()
    world.publish(group_id, [10])
    world.settle_down()
    assert isinstance(world.failure, OSError)
    assert world.confirmed == confirmed == 1


def test_a_full_disk_is_told_before_it_hurts_and_again_when_there_is_space() -> None:
    world = World(5, wal_max_size_bytes=1 << 20)
    disk = world.disk
    group_id = world.new_group()
    world.publish(group_id, [10])
    world.settle_down()
    disk.capacity_bytes = disk.capacity_bytes - disk.free_bytes() + 1_000
    world.tick(200)
    world.executor.drain()
    assert world.full_edges == [True] and world.log.full
    # Settling goes on in the space reserved.
    world.settle(group_id, [0])
    world.log.flush()
    world.executor.drain()
    assert not world.order
    # More than was reserved waits; it is neither confirmed nor fatal.
    world.publish(group_id, [900] * 40)
    world.settle_down()
    assert len(world.order) == 1 and world.failure is None and world.full_edges == [True]
    disk.capacity_bytes = 1 << 40
    world.settle_down()
    assert not world.order and world.full_edges == [True, False]
    world.restart(crash=True)
    world.check()


def test_a_queue_that_keeps_up_leaves_nothing_behind() -> None:
    world = World(5)
    group_id = world.new_group()
    for _ in range(200):
        world.publish(group_id, [500, 500])
        world.log.flush()
        world.executor.drain()
        world.settle(group_id, sorted(world.machines[group_id].live))
        world.answer_wanted()
        world.tick(60)
        world.executor.drain()
    world.settle_down()
    files = world.log._store.files
    assert files[-1].number > 12, "files were rolled over"
    assert len(files) <= 2, "what is settled goes"


def test_one_stuck_message_pins_next_to_nothing() -> None:
    world = World(5)
    group_id = world.new_group()
    for turn in range(200):
        world.publish(group_id, [500, 500])
        world.log.flush()
        world.executor.drain()
        keep = {0} if turn else set()
        world.settle(group_id, sorted(world.machines[group_id].live - keep - {turn * 2 // 50 * 50}))
        world.answer_wanted()
        world.tick(60)
        world.executor.drain()
    world.settle_down()
    files = world.log._store.files
    assert sum(file.end for file in files) < 5 * world.settings["wal_max_size_bytes"]
    world.check()
    world.restart(crash=True)
    world.check()


def test_a_contiguous_backlog_costs_next_to_no_memory() -> None:
    world = World(5, wal_max_size_bytes=1 << 30, extent_bytes_max=256 * 1024)
    group_id = world.new_group()
    group = world.log.group(group_id)
    lengths = (100).to_bytes(4, "little") * 250
    for _ in range(80):
        group.append(1, 1, 0, 250, lengths, bytes(25_000), None)
        world.order.append((group_id, 1, group.last_index))
    world.log.flush()
    world.executor.drain()
    extent_bytes = 4 * 8
    extents: list[Extents] = group.places
    assert sum(place.count() for place in extents) * extent_bytes < 0.05 * 80 * 250
    # The newest batch stays whatever its size, so that who waited for it gets to see it.
    one_batch = group.cached(80 * 250 - 1)
    assert one_batch is not None
    assert world.log._store.cache.size_bytes <= one_batch.size() + BATCH_OVERHEAD_BYTES


def test_many_queues_in_turn_do_not_make_each_others_reads_dear() -> None:
    world = World(5, wal_max_size_bytes=1 << 30, extent_bytes_max=256 * 1024)
    groups = [world.new_group() for _ in range(100)]
    for _ in range(5):
        for group_id in groups:
            world.publish(group_id, [200])
        world.log.flush()
        world.executor.drain()
    for group_id in groups:
        for place in world.log.group(group_id).places:
            assert all(place.span(at) < 8_192 for at in range(place.count()))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_log_without_a_descriptor_for_its_next_file_goes_on(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: the file that it has grows on, and the next one comes when it can."""
    world = World(5, wal_max_size_bytes=1 << 14)
    group_id = world.new_group()
    opened = SimDisk.open
    refused = 0

    def exhausted(disk: SimDisk, path: str, create: bool = False) -> SimFile:
        nonlocal refused
        if create:
            refused += 1
            raise OSError(number, "simulated: no descriptor left")
        return opened(disk, path, create)

    monkeypatch.setattr(SimDisk, "open", exhausted)
    for _ in range(40):
        world.publish(group_id, [900])
        world.settle_down()
    assert refused and world.failure is None and not world.order
    files = len(world.log._store.files)
    monkeypatch.setattr(SimDisk, "open", opened)
    for _ in range(40):
        world.publish(group_id, [900])
        world.settle_down()
    assert len(world.log._store.files) > files
    world.restart(crash=True)
    world.check()


@pytest.mark.parametrize("call", CHANGES)
def test_a_failed_call_is_fatal_and_the_next_life_stands_on_what_is_durable(call: str) -> None:
    """What a process finds that comes after one whose disk failed may not be durable yet."""
    failures = 0
    for seed in range(30):
        random = Random(seed)
        world = World(seed, wal_max_size_bytes=1 << 14)
        group_id = world.new_group()
        # Most kinds of calls come when the log goes on to its next file, or makes files ready.
        world.disk.failing.begin((call,), random.randrange(6), random.choice((1, 1, 3)))
        for _ in range(40):
            if world.failure is not None:
                break
            world.publish(group_id, [900])
            world.log.flush()
            world.executor.drain()
            world.answer_wanted()
            live = sorted(world.machines[group_id].live)
            if len(live) > 8 and world.failure is None:
                world.settle(group_id, live[:6])
            world.tick(60)
            world.executor.drain()
        world.disk.failing.calls = CHANGES
        while True:
            failures += len(world.disk.failing.failed)
            world.disk.failing.failed.clear()
            try:
                world.restart(crash=False)
            except OSError:
                continue
            if group_id not in world.histories:
                group_id = world.new_group()
            world.disk.failing.end()
            world.publish(group_id, [900])
            world.log.flush()
            # No more than what confirms it: other jobs make names durable, too.
            while world.order:
                assert world.executor.step()
            break
        world.restart(crash=True)
        world.check()
    assert failures


@pytest.mark.parametrize("job", ["note_looked", "looked_through"])
def test_a_failed_call_is_fatal_to_what_is_noted_about_damage_too(job: str) -> None:
    """A disk that fails once is not written to again; only a full one may be."""
    for number, ends in ((errno.ENOSPC, False), (errno.EIO, True)):
        world = World(5)
        world.log.note_looked(3)
        world.executor.drain()
        disk: Any = world.disk
        disk.sync_directory = disk.remove = raising(OSError(number, "simulated"))
        if job == "note_looked":
            world.log.note_looked(4)
        else:
            world.log.looked_through()
        world.executor.drain()
        assert (world.failure is not None) == ends


def raising(error: OSError) -> Callable[..., None]:
    """A call that fails."""

    def call(*_: Any) -> None:
        raise error

    return call
