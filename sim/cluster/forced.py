"""A quorum queue whose operator says `--force`, when nothing else goes wrong any more.

- *delete*: one of three voters stands still, and another one's member is to be deleted. Without
  force that is refused; by force it is done, and the queue has no leader until the one that stands
  still is back. Nothing is lost.
- *shrink*: two of three or four voters are lost for good, with their machines. Once these are
  forgotten the queue is to go on with the copy on one node, and has what that had: all that was
  confirmed, or, where it stood still before the others were lost, all that it had then. What was
  confirmed after that may be gone, and nothing else.

Either way the queue goes on, and in the end no two of its members differ.
"""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import TYPE_CHECKING, Final, final

from sim.cluster.hand import Hand
from sim.cluster.schedule import MS
from sim.model import Violation
from warren.errors import Refusal
from warren.metadata.commands import SetMembers
from warren.metadata.member_checks import delete_member, voters
from warren.metadata.tables import MemberRecord, QueueRecord
from warren.node.cluster.stranded import is_gone
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.cluster.site import Site
    from sim.cluster.world import ClusterWorld
    from warren.replication.member import Member

FORCED: Final = "forced"
DELETE_SIZE: Final = 3
SHRINK_SIZES: Final = (3, 4)
LOST: Final = 2
NODES_MIN: Final = 3
SHRINK_NODES_MIN: Final = 5
"""So many nodes that the tables have a majority without those that are lost."""
FEW: Final = 8
LAST: Final = 3 * FEW + 1
AWAY_MS: Final = 20_000
WAIT_MS: Final = 30_000
BACK_MS: Final = 120_000
AGAIN_MS: Final = 1_000
"""So long an operator waits before the same is asked again."""


@final
class Forcing:
    """See the module's head.

    Attributes:
        kept: Numbers of messages that were confirmed and have to come.
        may_come: Those that may come, or not.
    """

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._random = Random(f"{world.seed} forced")
        self._arguments: Table = {}
        self._group_id = -1
        self._asked_ms = -AGAIN_MS
        self.kept: set[int] = set()
        self.may_come: set[int] = set()

    def run(self) -> None:
        """Have an operator say so.

        Raises:
            Violation: What must not be lost is, or the queue does not go on.
        """
        world, random = self._world, self._random
        sites = world.running()
        if len(sites) < NODES_MIN:
            return
        shrinks = len(sites) >= SHRINK_NODES_MIN and random.random() < 0.75
        size = random.choice(SHRINK_SIZES) if shrinks else DELETE_SIZE
        self._arguments = {"x-queue-type": "quorum", "x-quorum-initial-group-size": size}
        world.incarnations.overlook(FORCED)
        maker = Hand(world, sites[0], FORCED, self._arguments)
        self._wait("a queue cannot be declared", maker.opened)
        holders = self._holders()
        lost = self._spared(holders) if shrinks else []
        if len(holders) != size or (shrinks and not lost):
            # Policies say that there are to be others; or others would be lost, too.
            self._remove(sites[0])
            return
        world.say("a queue of %s is to be changed by force", [site.name for site in holders])
        self._publish(sites[0], FEW, 0)
        self._wait("members do not follow", self._agreed)
        if shrinks:
            self._shrink([site for site in holders if site not in lost], lost)
        else:
            self._delete(holders)
        self._look()

    # --- the ways -------------------------------------------------------------------------------

    def _delete(self, holders: list[Site]) -> None:
        """Delete one of three members while another one stands still."""
        world = self._world
        away, gone, here = self._random.sample(holders, DELETE_SIZE)
        world.count("members deleted by force")
        away.paused_until_us = world.schedule.now_us + AWAY_MS * MS
        self._wait("a silent node is trusted", lambda: self._suspects(here, away))
        record = self._record(here)
        running = [site.name for site in holders if site is not away]
        try:
            delete_member(record, gone.name, running, False)
        except Refusal:
            pass
        else:
            raise Violation(f"{FORCED} may lose its majority, and nobody had to say --force")

        def deleted() -> bool:
            record = self._record(here)
            if record.member_on(gone.name) is None:
                return True
            command = delete_member(record, gone.name, running, True)
            if command is not None:
                self._submit(here, command)
            return False

        self._wait("a member is not deleted by force", deleted)
        world.until(AWAY_MS + WAIT_MS, "a node stands still", lambda: not away.paused())

    def _shrink(self, left: list[Site], lost: list[Site]) -> None:
        """Lose most members for good, and go on with one of those that are left."""
        world = self._world
        here = self._random.choice(left)
        world.count("queues that went on with one copy by force")
        if self._random.random() < 0.5:
            world.count("copies that lacked something")
            # What is confirmed from now on this copy may not have.
            here.paused_until_us = world.schedule.now_us + AWAY_MS * MS
            self._publish(lost[0], FEW, FEW, False)
            world.ledger.forget(self._group_id)
        world.forces = True
        for site in lost:
            world.replace(site)
        names = {site.name for site in lost}
        world.until(BACK_MS, "nodes that are lost are not forgotten", lambda: self._forgot(names))
        world.until(AWAY_MS + WAIT_MS, "a node stands still", lambda: not here.paused())
        world.until(BACK_MS, "a copy does not go on alone by force", lambda: self._alone(here))

    def _alone(self, here: Site) -> bool:
        """Have the copy on a node go on alone, as an operator does who asks until it is so.

        The same as `warren.admin.service.alone`.
        """
        node, now_ms = here.node, self._world.now_ms()
        if node is None or not self._world.serves(here):
            return False
        stranded, record = node.stranded, self._record(here)
        if self._goes_on(record):
            return True
        if now_ms - self._asked_ms < AGAIN_MS:
            return False
        self._asked_ms = now_ms
        why_not = stranded.why_not_alone(record)
        if why_not:
            self._world.say("%s: %s %s", here.name, FORCED, why_not)
            return False
        living = stranded.living(record)
        if living:
            # They begin anew with what this one has.
            members = [
                MemberRecord(row.node, node.placing.new_group(), row.voter)
                if row.node in living
                else row
                for row in record.members
            ]
            command = SetMembers(record.group_id, "/", FORCED, members, record.revision)
            self._world.submit(here, command)
            return False

        def begin() -> None:
            why = stranded.go_on_alone(record)
            if why:
                self._world.say("%s: %s", here.name, why)

        here.guarded(here.life, begin)
        return False

    def _goes_on(self, record: QueueRecord) -> bool:
        """Whether a member leads with votes of copies alone that are not gone for good.

        One that has lost its majority a moment ago leads on until it notices.
        """
        for member in self._members():
            voting = [copy for copy in member.raft.members if copy.voter]
            if member.leads_fully() and not any(is_gone(record, copy) for copy in voting):
                return True
        return False

    # --- before and after -----------------------------------------------------------------------

    def _holders(self) -> list[Site]:
        """The machines of the voters, as its members know."""
        names: set[str] = set()
        for site in self._world.running():
            assert site.node is not None
            record = site.node.metadata.queue("/", FORCED)
            member = None if record is None else site.node.cluster.members.get(record.group_id)
            if record is not None and member is not None:
                self._group_id = int(record.group_id)
                names |= {copy.node for copy in member.raft.members if copy.voter}
                if sorted(voters(record)) != sorted(names):
                    return []
        return [self._world.sites[name] for name in sorted(names)]

    def _spared(self, holders: list[Site]) -> list[Site]:
        """Two of them without whose machines all other queues go on, and the tables."""
        pairs = list(combinations(holders, LOST))
        self._random.shuffle(pairs)
        for pair in pairs:
            names = {site.name for site in pair}
            if not any(_has_classic(site) for site in pair) and self._spares(names):
                return list(pair)
        return []

    def _spares(self, names: set[str]) -> bool:
        for site in self._world.running():
            assert site.node is not None
            for group_id, member in site.node.cluster.members.items():
                if group_id != self._group_id:
                    voting = {copy.node for copy in member.raft.members if copy.voter}
                    if 2 * len(voting - names) <= len(voting):
                        return False
        return True

    def _members(self) -> list[Member]:
        found: list[Member] = []
        for site in self._world.running():
            assert site.node is not None
            member = site.node.cluster.members.get(self._group_id)
            if member is not None:
                found.append(member)
        return found

    def _agreed(self) -> bool:
        """Whether all members have applied all there is, by a leader."""
        members = self._members()
        ends = {(int(each.applied_index), int(each.log.last_index)) for each in members}
        led = any(each.leads_fully() for each in members)
        return led and len(ends) == 1 and len(set(*ends)) == 1

    def _forgot(self, names: set[str]) -> bool:
        """Whether no node knows machines that are lost, and others are there in their place."""
        world = self._world
        sites = [site for site in world.sites.values() if not site.lost]
        running = [site.node for site in world.running()]
        return all(world.serves(site) for site in sites) and not any(
            name in node.metadata.nodes for node in running if node is not None for name in names
        )

    @staticmethod
    def _suspects(here: Site, away: Site) -> bool:
        assert here.node is not None
        return bool(here.node.cluster.detector.suspected(away.name))

    @staticmethod
    def _record(here: Site) -> QueueRecord:
        assert here.node is not None
        record = here.node.metadata.queue("/", FORCED)
        if record is None:
            raise Violation(f"queue {FORCED} is gone, though nobody deleted it")
        return record

    def _submit(self, here: Site, command: SetMembers) -> None:
        """Ask, unless that was asked a moment ago."""
        now_ms = self._world.now_ms()
        if now_ms - self._asked_ms >= AGAIN_MS:
            self._asked_ms = now_ms
            self._world.submit(here, command)

    def _publish(self, through: Site, count: int, first: int, sure: bool = True) -> None:
        """Have so many messages confirmed."""
        hand = self._hand(through, first)
        for _ in range(count):
            hand.publish()
        world = self._world
        world.until(BACK_MS, "a queue takes nothing behind a change by force", hand.settled)
        numbers = range(first + 1, first + count + 1)
        (self.kept if sure else self.may_come).update(numbers)

    def _look(self) -> None:
        """It takes more, and gives out what it is to have."""
        world = self._world
        here = world.running()[0]
        self._publish(here, FEW, 2 * FEW)
        world.until(BACK_MS, "members of a queue that was forced differ", self._agreed)
        states = {bytes(member.machine.state()) for member in self._members()}
        if len(states) > 1:
            raise Violation(f"members of {FORCED} have different states")
        hand = self._hand(here, 0)
        world.until(BACK_MS, "messages do not come out", hand.take)
        self.check(hand.got)
        self._remove(here)

    def check(self, got: list[int]) -> None:
        """What came out was published and had not come, and all has come that has to."""
        left = self.kept | self.may_come
        for number in got:
            if number not in left:
                raise Violation(f"message {number} of {FORCED} came again, or never was")
            left.discard(number)
        missing = self.kept & left
        if missing:
            raise Violation(f"messages {sorted(missing)} of {FORCED} are lost by force")

    def _remove(self, here: Site) -> None:
        """Delete the queue."""
        hand = self._hand(here, 0)
        hand.delete()

        def removed() -> bool:
            nodes = [site.node for site in self._world.running()]
            return all(n is not None and n.metadata.queue("/", FORCED) is None for n in nodes)

        self._wait("a queue cannot be deleted", removed)

    def _hand(self, site: Site, first: int) -> Hand:
        hand = Hand(self._world, site, FORCED, self._arguments, first)
        self._world.until(BACK_MS, "a queue cannot be used", hand.opened)
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
