"""A quorum queue of one or two voters, one of whose disks goes bad when nothing else goes wrong.

The disk is put back to an older copy, loses what nobody can name, loses everything, or has a bit
flipped in what it holds of the queue.

Of two voters each has all that was confirmed: the queue has to go on with the other one, without
anybody's help but for the operator who has a node forgotten that does not come back, and gives out
all of it. With its only voter a queue is what its disk has: of an older copy exactly what was there
then, of a spoiled one some of what was ever published, of an empty one nothing. A flipped bit may
cost the messages that its node says are gone, of a queue with one voter, and no others.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, final

from sim.cluster.hand import Hand
from sim.cluster.schedule import MS
from sim.model import Violation
from warren.log.files import LogFile
from warren.metadata.member_checks import voters
from warren.metadata.tables import MemberRecord
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.cluster.site import Backup, Site
    from sim.cluster.world import ClusterWorld

WEAK: Final = "weak"
RESTORED: Final = "restored"
SPOILED: Final = "spoiled"
WIPED: Final = "wiped"
ROTTEN: Final = "rotten"
FAULTS: Final = (RESTORED, SPOILED, WIPED, ROTTEN)
NODES_MIN: Final = 3
FEW: Final = 8
MANY: Final = 30
"""So many messages that some lie in closed files."""
LAST: Final = FEW + MANY + FEW + 1
WAIT_MS: Final = 30_000
CALM_US: Final = 1_000 * MS
"""So long all hear each other: others know of more than an older copy has."""
BACK_MS: Final = 60_000
"""So long it may take until a cluster with a bad disk works again."""


@final
class WeakGroup:
    """See the module's head.

    Attributes:
        kept: Numbers of messages that were confirmed and not taken out.
        may_come: Those that may come, or not.
    """

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._random = Random(f"{world.seed} weak group")
        self._arguments: Table = {}
        self._group_id = -1
        self._holders: list[str] = []
        self.kept: set[int] = set()
        self.may_come: set[int] = set()
        self._taken: set[int] = set()
        self._then: set[int] = set()
        """The same when the disk was copied."""

    def run(self) -> None:
        """Have a disk go bad.

        Raises:
            Violation: Something confirmed is lost, or comes again, or the queue does not go on.
        """
        world, random = self._world, self._random
        sites = world.running()
        if len(sites) < NODES_MIN:
            return
        size = random.choice((1, 2))
        fault = random.choice(FAULTS)
        bad, here = random.sample(sites, 2)
        if fault == SPOILED and _has_classic(bad):
            # Nobody can say what is left of these.
            fault = RESTORED
        self._arguments = {"x-queue-type": "quorum", "x-quorum-initial-group-size": size}
        world.incarnations.overlook(WEAK)
        maker = Hand(world, bad, WEAK, self._arguments)
        self._wait("a queue cannot be declared", maker.opened)
        self._holders = self._voters()
        if len(self._holders) != size or bad.name not in self._holders:
            # Policies say that there are to be others.
            self._remove(here)
            return
        world.say("a queue of %s; the disk of %s is to be %s", self._holders, bad.name, fault)
        self._fill(here, FEW, 0)
        backup = bad.backup()
        self._then = set(self.kept)
        self._fill(here, MANY, FEW)
        if random.random() < 0.5:
            self._take(here, FEW)
        calm = self._calm(bad, backup)
        if not calm or self._voters() != self._holders or len(self._rows(here)) != size:
            # Or policies have said meanwhile that there are to be others.
            self._remove(here)
            return
        world.count("weak groups")
        world.count(f"weak groups of {size}, {fault}")
        if fault != ROTTEN:
            self._forget_lonely(bad)
        self._strike(bad, fault, backup)
        if size == 1 and fault == RESTORED:
            self.kept = self._then
        elif size == 1 and fault == SPOILED:
            self.kept = set()
            self.may_come = set(range(1, LAST))
        elif size == 1:
            # What says that they are settled may be what is damaged.
            self.may_come = self._taken
        self._recover(bad, fault)
        if not (size == 1 and self._removed(here)):
            self._look(here, size)
            self._remove(here)
        elif fault not in (WIPED, ROTTEN):
            raise Violation(f"queue {WEAK} went with a {fault} disk")

    # --- before ---------------------------------------------------------------------------------

    def _voters(self) -> list[str]:
        """Whose members vote in the queue, as its members know."""
        names: set[str] = set()
        for site in self._world.running():
            assert site.node is not None
            record = site.node.metadata.queue("/", WEAK)
            if record is None:
                continue
            self._group_id = int(record.group_id)
            member = site.node.cluster.members.get(self._group_id)
            if member is not None:
                names |= {copy.node for copy in member.raft.members if copy.voter}
        return sorted(names)

    @staticmethod
    def _rows(here: Site) -> list[MemberRecord]:
        """Its members by a node's tables, those that are to vote later, too."""
        assert here.node is not None
        record = here.node.metadata.queue("/", WEAK)
        return [] if record is None else record.members

    def _fill(self, here: Site, count: int, first: int) -> None:
        """Have so many messages confirmed."""
        hand = self._hand(here, first)
        for _ in range(count):
            hand.publish()
        self._wait("publishes are not confirmed", hand.settled)
        self.kept.update(range(first + 1, first + count + 1))

    def _take(self, here: Site, count: int) -> None:
        """Take some out, which must not come again."""
        hand = self._hand(here, 0)
        hand.most = count
        self._wait("messages do not come out", hand.take)
        self.check(hand)

    def _calm(self, bad: Site, backup: Backup) -> bool:
        """Wait until others know of more than an older copy has."""
        world = self._world
        restoring = world.troubles.restoring
        since = world.schedule.now_us

        def calm() -> bool:
            nonlocal since
            if not restoring.all_hear(bad, backup):
                since = world.schedule.now_us
            return world.schedule.now_us - since >= CALM_US

        # The group of the tables wants to know who lives now and then; nothing else is written.
        hand = self._hand(bad, FEW + MANY)
        for _ in range(FEW):
            hand.publish()
            self._wait("publishes are not confirmed", hand.settled)
        self.kept.update(range(FEW + MANY + 1, FEW + MANY + FEW + 1))
        if not restoring.all_hear(bad, backup):
            return False
        self._wait("nodes that are up have no link", calm)
        return True

    # --- the disk -------------------------------------------------------------------------------

    def _forget_lonely(self, bad: Site) -> None:
        """Of queues with no other voter nobody else knows what they had."""
        assert bad.node is not None
        for tables in bad.node.metadata.vhosts.values():
            for record in tables.queues.values():
                if voters(record) == [bad.name]:
                    self._world.ledger.forget(int(record.group_id))

    def _strike(self, bad: Site, fault: str, backup: Backup) -> None:
        world = self._world
        if fault == WIPED:
            world.troubles.spoiling.empty(bad)
            return
        if fault == ROTTEN:
            place = self._place(bad)
        (bad.kill if self._random.random() < 0.5 else bad.fail_power)()
        if fault == RESTORED:
            bad.restore(backup)
            world.ledger.restored(bad)
        elif fault == SPOILED:
            world.troubles.spoiling.damage(bad)
            # What it lacks of a queue with no other voter stays away.
            bad.rotten = bad.rotten or len(self._holders) == 1
        elif place is not None:
            file, at = place
            bad.disk.flip(file.path, at, 1 << self._random.randrange(8))
            bad.rotten = True
            bad.flipped = (file.path, at)
            world.count("bits flipped")

    def _place(self, bad: Site) -> tuple[LogFile, int] | None:
        """Where a closed file of the disk has something of the queue."""
        assert bad.node is not None
        log = bad.node.log.group(self._group_id)
        places = [
            (extents.file, int(extents.offset(at)), int(extents.span(at)))
            for extents in log.places
            if extents.file.closed and extents.file.has_sidecar
            for at in range(int(extents.size))
        ]
        if not places:
            return None
        file, offset, span = self._random.choice(places)
        return file, offset + self._random.randrange(span)

    def _recover(self, bad: Site, fault: str) -> None:
        """Wait for the cluster to be whole, as an operator would who knows that a disk is bad."""
        world = self._world
        world.forces = True

        def whole() -> bool:
            sites = [site for site in world.sites.values() if not site.lost]
            healthy = not (bad.restored or bad.spoiled) or bad.lost
            return healthy and all(world.serves(site) and not site.former_uid for site in sites)

        world.until(BACK_MS, f"a cluster with a {fault} disk does not come up", whole)

    # --- after ----------------------------------------------------------------------------------

    def _look(self, here: Site, size: int) -> None:
        """It has what it is to have, but what its node says is gone, and takes more."""
        world = self._world
        world.until(BACK_MS, "a queue has no leader", self._led)
        self._fill(here, 1, LAST - 1)
        hand = self._hand(here, 0)
        self._wait("messages do not come out", hand.take)
        self.check(hand)
        self.check_rest(len(world.gone(WEAK)) if size == 1 else 0)
        if LAST in self.kept:
            raise Violation(f"{WEAK} has confirmed a message behind its damage, and lost it")

    def _led(self) -> bool:
        return any(
            site.node.cluster.members[self._group_id].leads_fully()
            for site in self._world.running()
            if site.node is not None and self._group_id in site.node.cluster.members
        )

    def check_rest(self, gone: int) -> None:
        """No more is missing than its node has said is gone."""
        if len(self.kept) > gone:
            raise Violation(f"{len(self.kept)} messages of {WEAK} are lost: {sorted(self.kept)}")

    def check(self, hand: Hand) -> None:
        """What came out was confirmed, and had not come before."""
        for number in hand.got:
            if number in self.may_come and number not in self.kept:
                self.may_come.discard(number)
                continue
            if number not in self.kept:
                raise Violation(f"message {number} of {WEAK} came out, which was gone or never was")
            self.kept.discard(number)
            self._taken.add(number)

    def _removed(self, here: Site) -> bool:
        assert here.node is not None
        return here.node.metadata.queue("/", WEAK) is None

    def _remove(self, here: Site) -> None:
        """Delete the queue."""
        hand = self._hand(here, 0)
        hand.delete()
        self._wait("a queue cannot be deleted", lambda: self._removed(here))

    def _hand(self, site: Site, first: int) -> Hand:
        hand = Hand(self._world, site, WEAK, self._arguments, first)
        self._wait("a queue cannot be used", hand.opened)
        return hand

    def _wait(self, complaint: str, done: Callable[[], bool]) -> None:
        self._world.until(WAIT_MS, complaint, done)


def _has_classic(site: Site) -> bool:
    """Whether classic queues live on a machine."""
    assert site.node is not None
    return any(
        record.kind == "classic" and record.node == site.name
        for tables in site.node.metadata.vhosts.values()
        for record in tables.queues.values()
    )
