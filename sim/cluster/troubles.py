"""What goes wrong in a cluster, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from sim.cluster import swarm
from sim.cluster.network import Link
from sim.cluster.restoring import HARMLESS, Restoring
from sim.cluster.schedule import MS
from sim.cluster.site import Site
from sim.cluster.spoiling import Spoiling
from sim.cuts import deafen_one, garble_one, have_all_read, lose_one
from sim.journal import placed
from sim.swarm import DISK_FAILS
from sim.troubles import HOUR_MS, WIDE_BYTES, fail_calls
from warren.errors import CorruptRecord, Refusal
from warren.metadata.commands import ClearPolicy, Command, SetPolicy
from warren.metadata.member_checks import add_member, delete_member, voters
from warren.metadata.placement import BALANCED, CLIENT_LOCAL
from warren.queue_types import QUEUE_LEADER_LOCATOR, TARGET_GROUP_SIZE
from warren.replication.kinds import PROPOSE

if TYPE_CHECKING:
    from sim.cluster.world import ClusterWorld
    from warren.node.cluster.queue_members import QueueMembers

OUTLIVE_MS: Final = 8_000
"""Longer than it takes to notice that a node is gone."""
ROT_TRIES: Final = 100
ROT_AGAIN_US: Final = 20 * MS
LAST_CUTS: Final = 40
LAST_CUT_US: Final = 2 * MS
"""Links are cut that often and in such distances when clients fall silent."""


@final
class ClusterTroubles:
    """Strikes a cluster.

    Attributes:
        armed: Whether the next member that waits for a snapshot is to stand still.
        restoring: Puts a disk back.
        spoiling: Damages a disk, or empties it.
    """

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self.armed = False
        self.restoring = Restoring(world)
        self.spoiling = Spoiling(world)
        self._acts: dict[str, Callable[[Site], None]] = {
            swarm.KILL: Site.kill,
            swarm.POWER: self._fail_power,
            swarm.POWER_IN_CALL: self._fail_soon,
            swarm.BLACKOUT: self._black_out,
            swarm.STOP: Site.stop,
            swarm.PARTITION: self._partition,
            swarm.CUT: self._cut,
            swarm.PAUSE: self._pause,
            swarm.LOSE: lambda _: lose_one(world),
            swarm.DEAF: lambda _: deafen_one(world),
            swarm.SYNC_FAILS: self._fail_sync,
            swarm.FULL: self._fill,
            swarm.CLOCK: self._jump,
            swarm.REPLACE: self._replace,
            swarm.ROT: self._rot_soon,
            swarm.TRANSFER: self._transfer,
            swarm.MEMBERS: self._change_members,
            swarm.POLICY: self._change_policy,
            swarm.GARBLE: lambda _: garble_one(world),
            swarm.STALL: self._stall,
            swarm.CRAWL: self._crawl,
            swarm.DAMAGE: self._damage,
            swarm.OUTLIVE: lambda _: self._arm(),
            swarm.RESTORE: self.restoring.strike,
            swarm.SPOIL: self.spoiling.spoil,
            swarm.WIPE: self.spoiling.wipe,
            DISK_FAILS: lambda site: fail_calls(site.disk, world.random),
            swarm.VHOSTS: self._renew_vhost,
        }

    def strike(self, trouble: str) -> None:
        """Let one kind of trouble happen."""
        if self.restoring.hushed and trouble not in HARMLESS:
            return
        running = [site for site in self._world.running() if not site.paused()]
        if running:
            self._acts[trouble](self._world.random.choice(running))

    def heal(self) -> None:
        """From now on nothing goes wrong."""
        world = self._world
        cuts = swarm.CUT in world.faults.faults
        world.options.calm()
        world.faults.calm()
        world.say("all directions work")
        world.network.unblock()
        for site in world.sites.values():
            site.disk.capacity_bytes = WIDE_BYTES
            site.stalled_until_us = site.crawls_until_us = 0
        self.restoring.heal()
        self.spare()
        have_all_read(world)
        if cuts:
            self._cut_last(LAST_CUTS)

    def _cut_last(self, left: int) -> None:
        """Have what clients submitted last be lost on its way to leaders, for a moment.

        Later proposals of the same node, which would tell a leader that it misses some, do not
        follow: clients do nothing more.
        """
        world = self._world
        for link in world.network.carrying(PROPOSE):
            self._cut_link(link)
            world.count("last proposals cut off")
        if left:
            world.schedule.after(LAST_CUT_US, lambda: self._cut_last(left - 1))

    def spare(self) -> None:
        """What was to go wrong with machines and has not yet does not."""
        for site in self._world.sites.values():
            site.disk.crash_after = -1
            site.disk.sync_fails_at = 0
            site.disk.failing.end()
        self.armed = False
        self._world.network.damaging.clear()

    # --- machines -------------------------------------------------------------------------------

    def _fail_power(self, site: Site) -> None:
        site.fail_power()
        if self._world.random.random() < 0.3:
            site.disk.crash_after = self._world.random.randrange(12)

    def _fail_soon(self, site: Site) -> None:
        site.disk.crash_after = self._world.random.randrange(30)

    def _black_out(self, site: Site) -> None:
        world = self._world
        world.count("blackouts")
        share = world.random.choice((0.5, 1.0))
        for other in world.running():
            if other is site or world.random.random() < share:
                other.fail_power()

    def _pause(self, site: Site) -> None:
        world = self._world
        size = world.random.randrange(1, world.faults.longest_us)
        world.say("%s stands still for %d ms", site.name, size // MS)
        world.count("pauses")
        site.paused_until_us = world.schedule.now_us + size

    def _fail_sync(self, site: Site) -> None:
        site.disk.sync_fails_at = site.disk.syncs + self._world.random.randrange(1, 10)

    def _fill(self, site: Site) -> None:
        world = self._world
        disk = site.disk
        if disk.capacity_bytes < WIDE_BYTES:
            disk.capacity_bytes = WIDE_BYTES
            world.say("%s: the disk has space again", site.name)
            return
        left = world.random.choice((0, 2_000, 8_000, 20_000))
        disk.capacity_bytes = WIDE_BYTES - disk.free_bytes() + left
        world.tolerated.add(506)
        for connection in world.connections:
            connection.tolerated.add(506)
        world.say("%s: the disk has %d bytes left", site.name, left)
        world.count("full disks")

        def empty() -> None:
            disk.capacity_bytes = WIDE_BYTES

        world.schedule.after(world.faults.longest_us, empty)

    def _stall(self, site: Site) -> None:
        """As long as a pause, or three times: longer than nodes wait for each other."""
        world = self._world
        size = world.random.randrange(1, 3 * world.faults.longest_us)
        world.say("%s: the disk stands still for %d ms", site.name, size // MS)
        world.count("disks stand still")
        site.stalled_until_us = world.schedule.now_us + size

    def _crawl(self, site: Site) -> None:
        world = self._world
        size = world.random.randrange(1, 3 * world.faults.longest_us)
        world.say("%s: the disk crawls for %d ms", site.name, size // MS)
        world.count("disks crawl")
        site.crawls_until_us = world.schedule.now_us + size

    def _jump(self, site: Site) -> None:
        size = self._world.random.randrange(-HOUR_MS, HOUR_MS)
        self._world.say("%s: the wall clock jumps by %d ms", site.name, size)
        self._world.count("clock jumps")
        site.clock.jump(size)

    def _replace(self, site: Site) -> None:
        if self._world.may_lose(site):
            self._world.replace(site)

    def _rot_soon(self, site: Site, tries: int = ROT_TRIES) -> None:
        """Flip a bit of a message that is still to be read, as soon as there is one."""
        world = self._world
        if not world.faults.aims:
            self._rot(site)
            return
        sites = [each for each in world.running() if not each.paused()]
        world.random.shuffle(sites)
        for each in sites:
            if not any(machine.rotten for machine in world.sites.values()):
                self._rot(each)
        if tries > 0 and not any(machine.rotten for machine in world.sites.values()):
            world.schedule.after(ROT_AGAIN_US, lambda: self._rot_soon(site, tries - 1))

    def _rot(self, site: Site) -> None:
        """Flip a bit of a closed file; a start may be the first to notice."""
        world, random = self._world, self._world.random
        node = site.node
        assert node is not None
        if world.faults.aims:
            places = live_places(site)
        else:
            files = [file for file in node.log._store.files if file.closed and file.end]
            places = [(file.path, 0, int(file.end)) for file in files]
        if not places or not world.may_lose(site):
            return
        path, begin, end = random.choice(places)
        at = random.randrange(begin, end)
        site.disk.flip(path, at, 1 << random.randrange(8))
        site.rotten = True
        site.flipped = (path, at)
        world.say("%s: a bit of byte %d of %s flips", site.name, at, path)
        world.count("bits flipped")
        if world.faults.aims:
            world.count("bits of live messages flipped")
        elif random.random() < 0.5:
            site.fail_power()

    # --- what is sent between nodes -------------------------------------------------------------

    def _damage(self, site: Site) -> None:
        """A message that comes from this machine has another bit; see `Network.damaging`."""
        self._world.network.damaging.add(site.name)

    def _arm(self) -> None:
        self.armed = True

    def outlive(self, site: Site) -> None:
        """If a snapshot is on its way to a member here, it stands still and its leader changes."""
        world = self._world
        node = site.node
        assert node is not None
        for member in node.cluster.members.values():
            voters = [copy.node for copy in member.raft.members if copy.voter]
            others = [name for name in voters if name not in (site.name, member.raft.leader)]
            if member.log.incomplete and others and not site.paused():
                self.armed = False
                size = world.random.randrange(OUTLIVE_MS) * MS
                leader, target = member.raft.leader, world.random.choice(others)
                group_id = int(member.group_id)
                world.say(
                    "%s stands still for %d ms, group %d goes from %s to %s",
                    *(site.name, size // MS, group_id, leader, target),
                )
                world.count("transfers outlived")
                site.paused_until_us = world.schedule.now_us + size
                for other in world.running():
                    if other.name == leader and other.node is not None:
                        members = other.node.queue_members
                        world.schedule.after(
                            1, partial(_move, other, other.life, members, group_id, target)
                        )
                return

    # --- operators ------------------------------------------------------------------------------

    def _transfer(self, site: Site) -> None:
        world, random = self._world, self._world.random
        node = site.node
        assert node is not None
        member = random.choice(list(node.cluster.members.values()))
        voters = [copy.node for copy in member.raft.members if copy.voter]
        if voters:
            group_id, target = int(member.group_id), random.choice(voters)
            world.say("%s: group %d shall be led by %s", site.name, group_id, target)
            world.count("transfers")
            site.guarded(site.life, lambda: node.queue_members.transfer(group_id, target))

    def _change_members(self, site: Site) -> None:
        world, random = self._world, self._world.random
        node = site.node
        assert node is not None
        members = node.queue_members
        queues = members.queues()
        if not queues:
            return
        queue = random.choice(queues)
        name = random.choice(list(node.metadata.nodes))
        if members.why_not(queue):
            return
        row = queue.member_on(name)
        if row is None or not row.voter:
            if node.placing.spent():
                return
            word = "gets"
            command = add_member(queue, name, node.placing.new_group())
        elif len(voters(queue)) <= world.voters_min():
            return
        else:
            word = "loses"
            try:
                command = delete_member(queue, name, members.running(), False)
            except Refusal as error:
                world.say("%s: %s", site.name, error.text)
                return
        if command is not None:
            world.say("%s: %s %s a vote in %s", site.name, name, word, queue.name)
            world.count("votes moved")
            world.submit(site, command)

    def _renew_vhost(self, site: Site) -> None:
        realms = self._world.realms
        assert realms is not None, "who deletes vhosts has some"
        realms.renew(site)

    def _change_policy(self, site: Site) -> None:
        """Say of some queues, or all, how many members they are to have and where to begin."""
        world, random = self._world, self._world.random
        name, operator = random.choice(("p", "r")), random.random() < 0.3
        command: Command
        if random.random() < 0.3:
            command = ClearPolicy("/", name, operator)
            world.say("%s: no policy %s any more", site.name, name)
        else:
            definition: dict[str, Any] = {TARGET_GROUP_SIZE: random.randrange(1, 6)}
            if not operator and random.random() < 0.5:
                definition[QUEUE_LEADER_LOCATOR] = random.choice((CLIENT_LOCAL, BALANCED))
            pattern = random.choice(("", "^q", "0$"))
            command = SetPolicy(
                "/", name, operator, pattern, "all", random.choice((0, 1)), definition
            )
            world.say("%s: policy %s for '%s': %s", site.name, name, pattern, definition)
        world.count("policies changed")
        world.submit(site, command)

    # --- the network ----------------------------------------------------------------------------

    def _partition(self, site: Site) -> None:
        """Halves, one node, one way, a ring, or a bridge."""
        world, random = self._world, self._world.random
        names = [other.name for other in world.sites.values() if not other.lost]
        random.shuffle(names)
        shape = random.choice(("halves", "single", "one-way", "ring", "one-way-single"))
        blocked: set[tuple[str, str]] = set()
        if shape == "ring":
            count = len(names)
            for at, name in enumerate(names):
                for step in range(2, count - 1) or range(1, 2):
                    if count > 3 or at == 0:
                        pair = (name, names[(at + step) % count])
                        blocked |= {pair, pair[::-1]}
        else:
            size = len(names) // 2 if shape == "halves" else 1
            for name in names[:size]:
                for other in names[size:]:
                    blocked.add((name, other))
                    if shape != "one-way" and shape != "one-way-single":
                        blocked.add((other, name))
            if shape == "one-way":
                blocked = {random.choice(sorted(blocked))}
            elif random.random() < 0.5:
                blocked = {pair[::-1] for pair in blocked}
        world.network.blocked |= blocked
        world.say("%s: %s", shape, " ".join(f"{a}>{b}" for a, b in sorted(blocked)))
        world.count("partitions")

        def heal() -> None:
            if world.network.blocked:
                world.say("all directions work")
                world.network.unblock()

        world.schedule.after(random.randrange(1, world.faults.longest_us), heal)

    def _cut(self, site: Site) -> None:
        world, random = self._world, self._world.random
        links = [link for link in world.network.links if link.up and not link.doomed]
        if links:
            self._cut_link(random.choice(links))

    def _cut_link(self, link: Link) -> None:
        world, random = self._world, self._world.random
        world.say("link %s>%s is cut", link.source.name, link.target.name)
        world.count("links cut")
        late = random.choice((1, 100, world.faults.silence_us // MS)) * MS
        world.network.cut(link, random.randrange(1, 50 * MS), random.randrange(1, late + 1))


def live_places(site: Site) -> list[tuple[str, int, int]]:
    """Where closed files have messages that are next for a consumer and not in memory.

    Only of queues that nodes without a copy use through this one: these read them here.

    Returns:
        File, beginning and end of each batch.
    """
    node = site.node
    assert node is not None
    waiting: dict[int, int] = {}
    for group_id, queue in node.queues.logged.items():
        member = node.cluster.members.get(group_id)
        if member is not None and member.observing.watchers and queue.fifo.ready.count:
            waiting[group_id] = int(queue.fifo.ready.quadruples()[0][0])
    places: list[tuple[str, int, int]] = []
    for file in node.log._store.files if waiting else ():
        if not file.closed or not file.end or site.rotten:
            continue
        try:
            batches = placed(file)
        except CorruptRecord:
            # Its node has begun anew over that, and goes on with what is whole.
            continue
        for at, batch in batches:
            group_id, first = int(batch.group_id), int(batch.first)
            end = first + int(batch.count)
            if first <= waiting.get(group_id, -1) < end:
                if node.log.group(group_id).cached(waiting[group_id]) is None:
                    places.append((file.path, at, at + int(batch.size())))
    return places


def _move(site: Site, life: int, members: QueueMembers, group_id: int, target: str) -> None:
    """Have another member lead a group."""
    site.guarded(life, lambda: members.transfer(group_id, target))
