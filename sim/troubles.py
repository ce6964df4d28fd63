"""What goes wrong, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from sim import swarm
from sim.cuts import deafen_one, garble_one, have_all_read, lose_one
from sim.disk import CHANGES, LOOKS

if TYPE_CHECKING:
    from random import Random

    from sim.disk import SimDisk
    from sim.world import World

WIDE_BYTES: Final = 1 << 40
HOUR_MS: Final = 3_600_000
STANDSTILL_STEPS: Final = 1_000
LOOKS_SHARE: Final = 0.4
CALLS_BEFORE: Final = 12
"""So many calls of any kind succeed at most before one fails."""
FAILS_MOST: Final = 12
"""So many fail at most, one after the other."""


@final
class Troubles:
    """Strikes a world.

    Attributes:
        free_limit_bytes: Free space below which the node has to raise its alarm.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.free_limit_bytes = 8_192

    def strike(self, trouble: str) -> None:
        """Let one kind of trouble happen."""
        world, random = self._world, self._world.random
        if trouble == swarm.POWER:
            if world.node is not None:
                world.fail_power()
            if random.random() < 0.3:
                world.disk.crash_after = random.randrange(12)
        elif trouble == swarm.POWER_IN_CALL:
            world.disk.crash_after = random.randrange(30)
        elif trouble == swarm.KILL:
            world.kill()
        elif trouble == swarm.STOP:
            world.stop()
        elif trouble == swarm.LOSE:
            lose_one(world)
        elif trouble == swarm.DEAF:
            deafen_one(world)
        elif trouble == swarm.SYNC_FAILS:
            world.disk.sync_fails_at = world.disk.syncs + random.randrange(1, 10)
        elif trouble == swarm.FULL:
            self._fill()
        elif trouble == swarm.CLOCK:
            self._jump()
        elif trouble == swarm.GARBLE:
            garble_one(world)
        elif trouble == swarm.STALL:
            world.stalled_until = world.step_number + random.randrange(STANDSTILL_STEPS)
            world.say("the disk stands still")
            world.count("disks stand still")
        elif trouble == swarm.CRAWL:
            world.crawls_until = world.step_number + random.randrange(STANDSTILL_STEPS)
            world.say("the disk crawls")
            world.count("disks crawl")
        elif trouble == swarm.DISK_FAILS:
            if random.random() < LOOKS_SHARE:
                # One at a time: what is refused twice in a row is damage.
                world.disk.reading.begin(LOOKS, random.randrange(4), 1)
            else:
                fail_calls(world.disk, random)
        else:
            world.memory_bytes = 0 if world.memory_bytes else WIDE_BYTES
            world.say("memory in use: %d", world.memory_bytes)

    def heal(self) -> None:
        """From now on nothing goes wrong."""
        world = self._world
        world.options.calm()
        world.disk.capacity_bytes = WIDE_BYTES
        world.disk.crash_after = -1
        world.disk.sync_fails_at = 0
        world.disk.failing.end()
        world.disk.reading.end()
        world.memory_bytes = 0
        world.stalled_until = world.crawls_until = 0
        have_all_read(world)

    def _fill(self) -> None:
        world = self._world
        disk = world.disk
        if disk.capacity_bytes < WIDE_BYTES:
            disk.capacity_bytes = WIDE_BYTES
            world.say("the disk has space again")
            return
        left = world.random.choice((0, 2_000, 8_000, 20_000))
        disk.capacity_bytes = WIDE_BYTES - disk.free_bytes() + left
        world.tolerated.add(506)
        for connection in world.connections:
            connection.tolerated.add(506)
        world.say("the disk has %d bytes left", left)
        world.count("full disks")

    def _jump(self) -> None:
        world, random = self._world, self._world.random
        if random.random() < 0.3:
            size = random.randrange(1_000, 100_000)
            world.say("the machine sleeps for %d ms", size)
            world.clock.advance(size)
        else:
            size = random.randrange(-HOUR_MS, HOUR_MS)
            world.say("the wall clock jumps by %d ms", size)
            world.clock.jump(size)
        world.count("clock jumps")


def fail_calls(disk: SimDisk, random: Random) -> None:
    """Have one of the next calls to a disk fail, or several: of any kind, or of one.

    Some kinds are rare, and would hardly ever be the one that fails.
    """
    times = random.choice((1, 1, 1, 1, random.randrange(2, FAILS_MOST + 1)))
    if random.random() < 0.5:
        disk.failing.begin(CHANGES, random.randrange(CALLS_BEFORE), times)
    else:
        disk.failing.begin((random.choice(CHANGES),), random.randrange(3), times)
