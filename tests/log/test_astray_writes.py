"""Writes that a disk reports as done and that are nowhere, or elsewhere, once it lost power.

What such a write costs has to be noticed by the next start or by whoever reads it, unless it was
the last one: that cannot be told from one that the power cut off. Nobody is ever given other bytes.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.log.model import World
from warren.errors import CorruptRecord, StorageError

SEEDS = 60


def work(world: World, groups: list[int], random: Random, rounds: int) -> None:
    """Publish, settle, and let files go."""
    for _ in range(rounds):
        group_id = random.choice(groups)
        world.publish(group_id, [random.choice((10, 600, 900))])
        live = sorted(world.machines[group_id].live)
        if len(live) > 6:
            world.settle(group_id, random.sample(live, 5))
        world.log.flush()
        world.executor.drain()
        world.answer_wanted()
        world.tick(random.choice((10, 60, 200)))
        world.executor.drain()


@pytest.mark.parametrize("lands", [False, True], ids=["lost", "misdirected"])
def test_a_write_that_went_astray_is_noticed_or_does_no_harm(lands: bool) -> None:
    refused = harmless = noticed = 0
    for seed in range(SEEDS):
        random = Random(seed)
        world = World(seed, wal_max_size_bytes=1 << 13)
        groups = [world.new_group() for _ in range(3)]
        work(world, groups, random, 30)
        world.disk.astray.begin(random.randrange(4), lands)
        while not world.disk.astray.path:
            work(world, groups, random, 1)
        # What was written last is vouched for by a round behind it.
        work(world, groups, random, random.randrange(2, 8))
        assert world.failure is None
        try:
            world.restart(crash=True)
        except StorageError:
            refused += 1
            continue
        try:
            world.check()
        except CorruptRecord:
            noticed += 1
        else:
            harmless += 1
    assert refused and noticed and harmless
