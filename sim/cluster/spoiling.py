"""A machine whose disk loses what nobody can name, or everything, once in a run.

A spoiled disk has damage in the file being written, in a closed one that has no index beside it, or
in both texts of the manifest. Its node does not start with that, changes nothing, and waits until
the others have a majority without it; then it begins anew, as the server has it
(`Server._wait_for_others`). Nobody can say what of classic queues is left then, so this strikes
where there are none.

A wiped disk is empty. Its node comes back under the name that it had, as one that nobody knows: it
is refused until an operator has had the former one forgotten, and then joins like any other. Its
classic queues are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from sim.cluster.schedule import MS
from sim.disk import SimDisk
from warren.log.batch import Header
from warren.log.files import LogFile
from warren.log.manifest import DIRECTORY, MANIFEST_PATH, load, log_path, sidecar_path
from warren.log.scan import Scan, Visitor

if TYPE_CHECKING:
    from sim.cluster.site import Site
    from sim.cluster.world import ClusterWorld

LOOK_US: Final = 100 * MS
MANIFEST_SHARE: Final = 0.2
CLOSED_SHARE: Final = 0.5
TEXT_BYTES: Final = 60
"""A text of a manifest is at least as long."""


@final
class Spoiling:
    """See the module's head."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world

    def spoil(self, site: Site) -> None:
        """Damage a disk so that nobody knows what was there; its node starts again with that."""
        world = self._world
        if world.remote_lines.queues_on(site.name):
            others = [each for each in world.running() if not each.paused()]
            free = [each for each in others if not world.remote_lines.queues_on(each.name)]
            if not free:
                return
            site = world.random.choice(free)
        if site.rotten or not world.serves(site):
            return
        if _last_round(site.disk) <= 0 or not world.may_lose(site):
            return
        if world.random.random() < 0.5:
            site.kill()
        else:
            site.fail_power()
        self.damage(site)

    def damage(self, site: Site) -> None:
        """Flip a bit where no index says what was there; the node is down."""
        world = self._world
        site.disk.failing.end()
        where = self._damage(site)
        if where:
            site.spoiled = True
            world.say("%s: %s is damaged", site.name, where)
            world.count("disks spoiled")

    def wipe(self, site: Site) -> None:
        """Take all that a disk had; its node comes back with an empty one."""
        world = self._world
        if not site.rotten and world.serves(site) and world.may_lose(site):
            self.empty(site)

    def empty(self, site: Site) -> None:
        """End a node, and have it come back with an empty disk."""
        world = self._world
        former = site.uid
        world.remote_lines.lost(site)
        site.kill()
        world.say("the disk of %s is wiped", site.name)
        world.count("disks wiped")
        site.wipe()
        world.ledger.restored(site)
        world.forget(site.name, former, lambda _: self._look_back(site))

    def _look_back(self, site: Site) -> None:
        """Once it is a node again it must have nothing of what it was."""
        world = self._world
        if world.serves(site):
            world.count("wiped nodes back")
            world.ledger.begun_anew(site)
        else:
            world.schedule.after(LOOK_US, lambda: self._look_back(site))

    def _damage(self, site: Site) -> str:
        """Flip a bit where no index says what was there; gives the file, or nothing."""
        random, disk = self._world.random, site.disk
        chance = random.random()
        if chance < MANIFEST_SHARE:
            size = disk.open(MANIFEST_PATH).size_bytes()
            # Both of the two texts.
            for at in (random.randrange(TEXT_BYTES), size - 1 - random.randrange(TEXT_BYTES)):
                disk.flip(MANIFEST_PATH, at, 1 << random.randrange(8))
            return MANIFEST_PATH
        manifest = load(disk)
        closed = manifest.files[:-1]
        if closed and chance < CLOSED_SHARE:
            number, size = random.choice(closed)
            disk.remove(sidecar_path(number))
            disk.sync_directory(DIRECTORY)
            end = size
        else:
            number, end = manifest.files[-1][0], _last_round(disk)
        if end <= 0:
            return ""
        path = log_path(number)
        disk.flip(path, random.randrange(end), 1 << random.randrange(8))
        return path


@final
class Nobody(Visitor):
    """Looks at no batch."""

    def batch(self, header: Header, data: bytes, at: i64, offset: i64) -> None:
        """It is there."""


def _last_round(disk: SimDisk) -> int:
    """Where the last round begins of the file being written: before it, damage is no torn write."""
    manifest = load(disk)
    number = manifest.files[-1][0]
    file = LogFile(number, log_path(number), disk.open(log_path(number)))
    scan = Scan(file, manifest.salt, Nobody(), True)
    scan.run(file.handle.size_bytes())
    return int(scan.last_round)
