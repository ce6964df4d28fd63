"""Whether this node's disk is behind, and what the nodes tell each other of their disks.

Two things follow from the same two figures, the bytes that wait for the disk and how long the write
under way takes:

    behind   nothing more is taken for this disk: publishers wait, a leader declines what other
             nodes submit, and other leaders send no entries
    slow     it hangs, or has been behind for a while, or was a moment ago: members here hand their
             lead over and do not stand

Alarms, and these two, travel as an octet of flags with each ping, and at once when they change. A
node that is not heard of any more takes its flags with it.

A ping also says of which cluster version the node's log may be (0 where 0.1.0 can read it). It is
the first thing that goes over a link, and goes over all of them when that rises: the tables of who
hears it may lag, and its own log has to say that version before anything of it comes from there.

    PING      a number, 8 bytes; an octet of flags; an octet with that version
    PONG      the number
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.limits import (
    DISK_BEHIND_MS_MAX,
    DISK_PROMPT_MS,
    DISK_STALL_MS_MAX,
    HAND_OVER_PAUSE_MS_MAX,
    TICK_GROUPS_MAX,
    TURN_MEMBERS_MAX,
)
from warren.log.log import Log
from warren.metadata.machine import MetadataMachine
from warren.node.loop import Loop
from warren.node.sweep import Sweep
from warren.protocols.broker import ALARM_DISK, ALARM_MEMORY
from warren.raft.raft import Raft
from warren.replication.kinds import PING
from warren.replication.member import Member

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster

PING_BYTES: Final = 9
"""Of a ping without flags: its kind and a number."""
NO_NUMBER: Final = bytes(PING_BYTES - 1)
VERSION_AT: Final = PING_BYTES + 1
"""Where the cluster version stands."""
ALARMS: Final = ALARM_MEMORY | ALARM_DISK
"""The alarms among the flags."""
BEHIND: Final = 16
SLOW: Final = 32

TRY_NEXT_MS: Final = 1_000
"""How long a lead is offered to one member before the next one: as long as a transfer may take."""


@final
class Offers:
    """How often one group's lead has been offered.

    Attributes:
        heirs: To whom, one after the other.
        count: How often, to these.
        due_ms: When the next time comes.
    """

    def __init__(self, heirs: list[str]) -> None:
        self.heirs: list[str] = heirs
        self.count: i64 = 0
        self.due_ms: i64 = 0

    def next(self, group_id: i64, now_ms: i64) -> str:
        """Who is to be asked now. Each one is twice, then ever more rarely."""
        heir = self.heirs[(group_id + self.count) % len(self.heirs)]
        self.count += 1
        wait_ms: i64 = TRY_NEXT_MS
        beyond = self.count - 2 * len(self.heirs)
        while beyond >= 0 and wait_ms < HAND_OVER_PAUSE_MS_MAX:
            beyond -= 1
            wait_ms *= 2
        self.due_ms = now_ms + wait_ms
        return heir

    def fails(self) -> bool:
        """Whether it has just become clear that none of them takes it."""
        return self.count == 2 * len(self.heirs)


@final
class DiskWatch:
    """Judges this node's disk.

    Attributes:
        behind, slow: See the module's head.
    """

    def __init__(self, waiting_bytes_max: i64) -> None:
        self.behind = False
        self.slow = False
        self._bytes_max: i64 = waiting_bytes_max
        self._behind_ms: i64 = -1
        """Since when it has been behind; -1 while it is not."""
        self._prompt_ms: i64 = -1
        """Since when it has kept up; -1 while it does not."""

    def crowded(self, waiting_bytes: i64) -> bool:
        """Whether more has begun to wait than may."""
        return waiting_bytes > self._bytes_max and not self.behind

    def look(self, waiting_bytes: i64, stalled_ms: i64, now_ms: i64) -> bool:
        """Judge anew; whether anything has changed. Some times a second, and when crowded."""
        before = self.flags()
        hangs = stalled_ms > DISK_STALL_MS_MAX
        bound = self._bytes_max // 2 if self.behind else self._bytes_max
        self.behind = hangs or waiting_bytes > bound
        if not self.behind:
            self._behind_ms = -1
        elif self._behind_ms < 0:
            self._behind_ms = now_ms
        if hangs or (self.behind and now_ms - self._behind_ms > DISK_BEHIND_MS_MAX):
            self.slow = True
        if self.behind:
            self._prompt_ms = -1
        elif self._prompt_ms < 0:
            self._prompt_ms = now_ms
        elif now_ms - self._prompt_ms >= DISK_PROMPT_MS:
            self.slow = False
        return self.flags() != before

    def flags(self) -> i64:
        """What other nodes are told."""
        return (BEHIND if self.behind else 0) | (SLOW if self.slow else 0)


@final
class DiskNotices(Sweep[Member]):
    """Tells all members of a node how its disk is now, some at a time."""

    def __init__(self, loop: Loop, watch: DiskWatch) -> None:
        super().__init__(loop, TURN_MEMBERS_MAX)
        self._watch: DiskWatch = watch

    def see_to(self, thing: Member) -> None:
        """Tell a member whether it may stand, and have it ask for what leaders declined."""
        if thing.raft.state.abstains != self._watch.slow:
            thing.raft.abstain(self._watch.slow)
        thing.client_sessions.ask_declined(thing)


@final
class Disks:
    """This node's disk, and what is known of the others'."""

    def __init__(self, loop: Loop, log: Log, metadata: MetadataMachine, cluster: Cluster) -> None:
        self._loop: Loop = loop
        self._log: Log = log
        self._metadata: MetadataMachine = metadata
        self._cluster: Cluster = cluster
        self._watch: DiskWatch = DiskWatch(loop.settings.log.waiting_bytes_max)
        self._notices: DiskNotices = DiskNotices(loop, self._watch)
        self._flags: dict[str, int] = {}
        """What the other nodes said last."""
        self._to_move: deque[Member] = deque()
        """Members that are yet to be asked whether they lead, while the disk is slow."""
        self._offers: dict[int, Offers] = {}
        """By group, where the lead has been offered since the disk is slow."""

    # --- this node's ----------------------------------------------------------------------------

    def crowded(self) -> bool:
        """Whether `look` is due before the next tick."""
        return self._watch.crowded(self._log.waiting_bytes)

    def look(self) -> None:
        """Judge this node's disk, and do what follows."""
        watch = self._watch
        slow = watch.slow
        now = self._loop.monotonic_ms()
        if watch.look(self._log.waiting_bytes, self._log.stalled_ms, now):
            cluster = self._cluster
            relieved = self._loop.disk_behind and not watch.behind
            self._loop.disk_behind = watch.behind
            cluster.disk_behind = watch.behind
            if watch.slow != slow:
                self._say()
            self.tell()
            if relieved:
                cluster.transfers.go_on()
                self._loop.needs_turn = True
            if relieved or watch.slow != slow:
                self._notices.begin_now(cluster.members.values())

    def _say(self) -> None:
        log = self._log
        if self._watch.slow:
            self._loop.log_warning(
                f"the disk is behind: {log.waiting_bytes} bytes wait for it, and the write under "
                f"way takes {log.stalled_ms} ms; publishers wait, and other nodes lead if they can"
            )
        else:
            self._loop.log_warning("the disk keeps up again")

    def flags(self) -> bytes:
        """What a ping says of this node."""
        return bytes([(self._loop.own_alarms() & ALARMS) | self._watch.flags()])

    def tell(self) -> None:
        """Tell the other nodes at once what has changed."""
        for name in self._metadata.nodes:
            if name != self._cluster.name:
                self.ping(name)

    def ping(self, name: str, number: bytes = NO_NUMBER) -> None:
        """Send a ping to another node."""
        said = self.flags() + bytes([self._log.version])
        self._cluster.send(name, [bytes([PING]) + number + said])

    def hand_over(self) -> None:
        """Give the lead of groups away while the disk is slow; to be called at each tick."""
        to_move = self._to_move
        if not self._watch.slow:
            to_move.clear()
            self._offers.clear()
            return
        cluster = self._cluster
        now = cluster.monotonic_ms()
        if not to_move:
            to_move.extend(cluster.members.values())
        for _ in range(min(len(to_move), TICK_GROUPS_MAX)):
            member = to_move.popleft()
            raft = member.raft
            if not member.stopped and raft.is_leader and raft.can_propose():
                heirs = self._heirs(raft)
                if heirs:
                    self._offer(member, heirs, now)

    def _offer(self, member: Member, heirs: list[str], now: i64) -> None:
        """Offer a lead, unless that was done a moment ago and came to nothing."""
        group_id = int(member.group_id)
        offers = self._offers.get(group_id)
        if offers is None or offers.heirs != heirs:
            offers = Offers(heirs)
            self._offers[group_id] = offers
        if offers.due_ms > now:
            return
        if offers.fails():
            self._loop.log_warning(
                f"{member.machine} cannot be led by "
                f"{' or '.join(heirs)} for now; that is tried again, ever more rarely"
            )
        member.raft.transfer(offers.next(member.group_id, now), now)
        self._cluster.stirred(member)

    def _heirs(self, raft: Raft) -> list[str]:
        """Give the nodes that may lead in this one's place; none if they could not commit alone."""
        voters: i64 = 0
        heirs: list[str] = []
        for copy in raft.members:
            if copy.voter:
                voters += 1
                if self.fit(copy.node):
                    heirs.append(copy.node)
        return heirs if len(heirs) > voters // 2 else []

    # --- the others' ----------------------------------------------------------------------------

    def fit(self, name: str) -> bool:
        """Whether another node is there and its disk prompt."""
        prompt = self._flags.get(name, 0) & (BEHIND | SLOW) == 0
        return prompt and self._cluster.detector.is_up(name)

    def alarms(self) -> i64:
        """The alarms of all other nodes."""
        found: i64 = 0
        for flags in self._flags.values():
            found |= flags & ALARMS
        return found

    def alarmed(self) -> list[str]:
        """The other nodes that have alarms."""
        return [name for name, flags in self._flags.items() if flags & ALARMS]

    def acquaint(self, raft: Raft) -> None:
        """Tell a member that is about to begin what is known."""
        raft.abstain(self._watch.slow)
        for name, flags in self._flags.items():
            if flags & BEHIND:
                raft.peer_behind(name, True, self._loop.monotonic_ms())

    def heard(self, peer: str, message: bytes) -> None:
        """A ping came; one of an older version says nothing of its node."""
        flags: i64 = message[PING_BYTES] if len(message) > PING_BYTES else 0
        version = message[VERSION_AT] if len(message) > VERSION_AT else 0
        if peer in self._metadata.nodes:
            self._note(peer, flags)
        elif not self._cluster.is_of_this_cluster(peer):
            return
        if version <= self._loop.settings.cluster_version_max and self._log.use_version(version):
            self.tell()

    def gone(self, peer: str) -> None:
        """A node is not heard of any more, or has begun another life."""
        self._note(peer, 0)

    def _note(self, peer: str, flags: i64) -> None:
        before: i64 = self._flags.get(peer, 0)
        if flags == before:
            return
        if flags:
            self._flags[peer] = int(flags)
        else:
            del self._flags[peer]
        if (flags ^ before) & ALARMS:
            self._loop.alarms_changed()
        if (flags ^ before) & SLOW:
            self._loop.log_warning(
                f"the disk of node {peer} is behind"
                if flags & SLOW
                else f"the disk of node {peer} keeps up again"
            )
        if (flags ^ before) & BEHIND:
            self._cluster.tell_behind(peer, flags & BEHIND != 0)
