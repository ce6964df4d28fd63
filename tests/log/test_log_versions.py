"""The manifest says of which cluster version the log may be, before there is anything of it."""

from __future__ import annotations

import errno

import pytest

import warren
from tests.log.model import World
from warren.errors import StorageError
from warren.log.manifest import MANIFEST_PATH, Manifest, decode
from warren.ports import Disk
from warren.versions import NEWEST, SAID_BY_LOGS


def said(world: World) -> int:
    return decode(world.disk.image()[MANIFEST_PATH]).version


def written() -> tuple[World, int]:
    """A log in which there is something that every release can read."""
    world = World(1)
    group_id = world.new_group()
    world.publish(group_id, [20])
    world.settle_down()
    return world, group_id


def test_the_manifest_is_as_before_until_a_version_is_used_that_needs_another() -> None:
    world, group_id = written()
    assert not world.log.use_version(SAID_BY_LOGS - 1)
    world.publish(group_id, [20])
    world.settle_down()
    assert world.disk.image()[MANIFEST_PATH].startswith(b"warren-log 3\nsalt ")
    assert world.log.use_version(SAID_BY_LOGS) and not world.log.use_version(SAID_BY_LOGS)
    world.publish(group_id, [20])
    world.settle_down()
    expected = f"warren-log 4\ncluster {SAID_BY_LOGS}\nsalt ".encode()
    assert world.disk.image()[MANIFEST_PATH].startswith(expected)
    for _ in range(3):
        # Files come and go.
        for _ in range(40):
            world.publish(group_id, [700])
        world.settle(group_id, sorted(world.machines[group_id].live))
        world.settle_down()
        assert said(world) == SAID_BY_LOGS
        world.restart(crash=True)
        assert said(world) == world.log.version == SAID_BY_LOGS
    world.check()


def test_nothing_newer_is_on_disk_before_the_manifest_says_so() -> None:
    seen: set[tuple[bool, int]] = set()
    for calls in range(40):
        world, group_id = written()
        world.log.use_version(SAID_BY_LOGS)
        world.publish(group_id, [20])
        world.step_into_crash(calls)
        world.restart(crash=True)
        seen.add((world.machines[group_id].applied > 1, said(world)))
        world.check()
    assert seen == {(False, 0), (False, SAID_BY_LOGS), (True, SAID_BY_LOGS)}


def test_a_log_that_is_closed_says_it_first() -> None:
    world, group_id = written()
    world.log.use_version(SAID_BY_LOGS)
    world.publish(group_id, [20])
    world.log.wind_down()
    world.executor.drain()
    world.log.close()
    assert said(world) == SAID_BY_LOGS
    world.restart(crash=True)
    assert world.machines[group_id].applied == 2


def test_a_round_waits_while_the_manifest_is_changed_by_others() -> None:
    world, group_id = written()
    world.log.use_version(SAID_BY_LOGS)
    world.log._store.manifest_busy = True
    world.publish(group_id, [20])
    world.settle_down()
    assert world.order and said(world) == 0
    world.log._store.manifest_busy = False
    world.tick(10)
    world.executor.drain()
    assert not world.order and said(world) == SAID_BY_LOGS


@pytest.mark.skipif(warren.COMPILED, reason="a compiled class keeps its methods")
def test_a_round_waits_for_space_for_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    world, group_id = written()

    def no_space(self: Manifest, disk: Disk) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    world.log.use_version(SAID_BY_LOGS)
    world.publish(group_id, [20])
    with monkeypatch.context() as patched:
        patched.setattr(Manifest, "draft", no_space)
        world.settle_down()
        assert world.order and world.failure is None
    world.settle_down()
    assert not world.order and said(world) == SAID_BY_LOGS


def test_what_a_later_release_wrote_is_refused_by_its_cluster_version() -> None:
    image = Manifest(1, 2, 0, [(1, 0)], NEWEST + 1).encode()
    text = f"what the log holds is of cluster version {NEWEST + 1}, .* up to {NEWEST}: start the"
    with pytest.raises(StorageError, match=text):
        decode(image)
