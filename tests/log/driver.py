"""A node's life from one seed: what it does, where it fails, what is checked on the way."""

from __future__ import annotations

from random import Random

from sim.disk import Crash
from tests.log.model import World

STEPS = 120


def live(seed: int, steps: int = STEPS, setup: dict[str, bool] | None = None) -> World:
    """Run one life; an `AssertionError` or `StorageError` says what the log did wrong.

    Args:
        seed: Decides everything.
        steps: How much happens.
        setup: Attributes to set on the disk, for planted faults.
    """
    world = World(seed)
    for name, value in (setup or {}).items():
        setattr(world.disk, name, value)
    random = world.random
    for _ in range(random.randint(1, 4)):
        world.new_group()
    replicated = random.choice([0.0, 0.5, 0.8])
    for _ in range(random.randint(1, 3) if replicated else 0):
        world.new_replica()
    busy = random.choice([0.3, 0.6, 0.9])
    fault = random.choice([0.0, 0.02, 0.06])
    rises_at = Random(seed).randrange(2 * steps)
    for step in range(steps):
        if step == rises_at:
            world.rise()
        if world.failure is not None:
            world.restart(random.random() < 0.5)
            world.check()
        elif random.random() < fault:
            _fail(world)
        elif random.random() < busy:
            if random.random() < replicated:
                _replicate(world)
            else:
                _work(world)
        else:
            _move(world)
    finish(world)
    return world


def finish(world: World) -> None:
    """Let everything get to disk, crash once more, and check."""
    world.disk.sync_fails_at = 0
    world.executor.drain()
    if world.failure is not None:
        world.restart(crash=False)
    for _ in range(20):
        for replica in list(world.replicas.values()):
            replica.go_on_installing()
    world.settle_down()
    assert world.failure is None and not world.order, "what was appended gets persisted"
    world.restart(crash=True)
    world.check()


def _work(world: World) -> None:
    random = world.random
    groups = world.groups()
    group_id = random.choice(groups) if groups else world.new_group()
    choice = random.randrange(12)
    if choice < 6:
        for _ in range(random.choice([1, 2, 10])):
            sizes = [random.choice([0, 20, 100, 700]) for _ in range(random.choice([1, 3, 20]))]
            world.publish(group_id, sizes)
    elif choice < 10:
        live = sorted(world.machines[group_id].live)
        share = random.choice([0.2, 0.9, 1.0])
        chosen = [number for number in live if random.random() < share]
        if chosen:
            world.settle(group_id, chosen)
    elif choice == 10:
        world.take_snapshot(group_id)
    elif random.random() < 0.3:
        world.drop(group_id)
        world.new_group()
    else:
        world.check_bodies(group_id)


def _replicate(world: World) -> None:
    random = world.random
    choice = random.randrange(24)
    if choice == 0:
        replicas = [r for _, r in sorted(world.replicas.items()) if not r.dropping]
        if len(replicas) > 3 or replicas and random.random() < 0.3:
            world.drop(replicas[0].group_id)
        else:
            world.new_replica()
        return
    open_ones = [r for _, r in sorted(world.replicas.items()) if not r.dropping]
    if not open_ones:
        return
    replica = random.choice(open_ones)
    if choice == 1:
        replica.save_state()
    elif not replica.usable:
        if choice == 2 and (replica.view.incomplete or replica.waiting):
            replica.give_up()
        elif choice == 3 or replica.offer is None:
            replica.begin_install()
        else:
            replica.go_on_installing()
    elif choice < 12:
        replica.append(random.choice([1, 2, 6]), random.random() < 0.5)
    elif choice < 16:
        replica.truncate()
    elif choice < 18:
        replica.advance()
    elif choice < 20:
        replica.begin_read()
    elif choice == 20:
        replica.take_snapshot()
    elif choice == 21:
        replica.check()
    elif choice == 22 and random.random() < 0.5:
        replica.begin_install()


def _move(world: World) -> None:
    choice = world.random.randrange(8)
    if choice < 2:
        world.log.flush()
    elif choice < 5:
        for _ in range(world.random.randint(1, 6)):
            world.executor.step()
    elif choice == 5:
        world.answer_wanted()
    elif choice == 6:
        world.tick(world.random.choice([10, 60, 200]))
    else:
        world.settle_down()


def _fail(world: World) -> None:
    random = world.random
    choice = random.randrange(6)
    if choice == 0:
        world.restart(crash=random.random() < 0.5)
        world.check()
    elif choice < 3:
        if world.step_into_crash(random.randrange(30)):
            world.restart(crash=True)
            world.check()
    elif choice == 3:
        world.disk.crash()
        world.disk.crash_after = random.randrange(8)
        try:
            world.start()
        except Crash:
            world.restart(crash=True)
        world.disk.crash_after = -1
        world.check()
    elif choice == 4:
        world.disk.sync_fails_at = world.disk.syncs + random.randint(1, 4)
    else:
        disk = world.disk
        disk.capacity_bytes = disk.capacity_bytes - disk.free_bytes() + random.choice([0, 2_048])
        world.settle_down()
        disk.capacity_bytes = 1 << 40
        world.settle_down()
        assert world.failure is not None or not world.log.full
