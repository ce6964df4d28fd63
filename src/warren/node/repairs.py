"""What becomes of queues whose messages a disk has lost: the queue has a problem, not the node.

A durable classic queue goes on without them, and says which they are; no other node has them.

A member of a quorum queue that cannot read what it once acknowledged must not lead or be counted
on (R-20), and what it lacks the others have. So it gives the lead away, if need be to one that
lacks what no other one has and is therefore not committed, and asks the leader for another copy in
its place; once the tables name one it drops what it has, and is brought up like any
new copy. The leader grants that only while a majority of the other members has all that is
committed, and after it has read all of its own copy: what can still be read of the damaged one is
dropped when it is needed no more. Until then consumers that come to a message which cannot be read
wait. In a group with a single voter another copy that has everything gets a vote first; the only
copy there is goes on as a classic queue does.

A queue whose machine cannot be rebuilt at a start is not started. A quorum queue's copy is replaced
in the same way; a classic queue cannot be used, and its log is kept, until it is deleted.

The tables' group has no messages: a snapshot of what is in memory takes the place of its entries,
but for those that are not committed. A leader that cannot read such a one gives the lead away, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.errors import Compacted, CorruptRecord
from warren.log.log import Log
from warren.metadata.machine import MetadataMachine
from warren.metadata.member_checks import add_member, majority_lost, renew_copy, voters
from warren.metadata.tables import QueueRecord
from warren.node.copy_checks import CopyCheck, CopySearch
from warren.node.loop import Loop
from warren.node.placing import Placing
from warren.node.queues import LocalQueues
from warren.node.store import METADATA_GROUP, MetadataStore
from warren.queues.logged import LoggedQueue
from warren.queues.lost import Losses
from warren.queues.queue import Queue
from warren.replication.member import Member

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster
    from warren.node.cluster.queue_members import QueueMembers
    from warren.node.hosting import QueueHosting
    from warren.node.replay import NodeReplayer


RETRY_MS: Final = 1_000
"""Least time between two attempts at what a disk or the other members did not allow."""


WHOLE_TRANSFERS: Final = 2
"""So often a successor is to have all entries first."""


LOOKS_AT_ONCE: Final = 256
"""So many queues are looked through at a time for what is gone, by their groups: where the node
ends before it is through, the next life goes on behind those that are done."""


RUNS_SAID: Final = 20
"""A line of the log names so many runs of messages."""


@final
class Damage:
    """One quorum queue's copy that is damaged on this node.

    Attributes:
        incarnation: The copy.
        said: What the log says last about why it is still there.
        handed_over: How often this node tried to give the lead away.
        losses: Messages that are known to be unreadable.
        error: What was found first.
        vhost, name: The queue, once the tables have named it, where it could not be started.
    """

    def __init__(self, incarnation: i64) -> None:
        self.incarnation: i64 = incarnation
        self.said: str = ""
        self.handed_over: i64 = 0
        self.losses: Losses = Losses()
        self.error: CorruptRecord | None = None
        self.vhost: str = ""
        self.name: str = ""


@final
class Repairs:
    """See the module's head.

    Attributes:
        stalled: Queues with consumers that wait for something that could not be read.
    """

    def __init__(
        self,
        loop: Loop,
        log: Log,
        metadata: MetadataMachine,
        queues: LocalQueues,
        store: MetadataStore,
        placing: Placing,
        cluster: Cluster,
        queue_members: QueueMembers,
    ) -> None:
        self.stalled: list[Queue] = []
        self._loop: Loop = loop
        self._log: Log = log
        self._metadata: MetadataMachine = metadata
        self._queues: LocalQueues = queues
        self._store: MetadataStore = store
        self._placing: Placing = placing
        self._cluster: Cluster = cluster
        self._queue_members: QueueMembers = queue_members
        self._hosting: QueueHosting | None = None
        self._node_name: str = loop.settings.node_name
        self._damaged: dict[int, Damage] = {}
        self._unfit: dict[int, Damage] = {}
        """Queues that could not be replayed at the start of this life."""
        self._doubtful: bool = False
        """Whether the log of this life may lack what nobody knows of."""
        self._to_look: list[LoggedQueue] = []
        """Queues that are to be looked through for that, the next one last if `_in_order`."""
        self._in_order: bool = True
        self._looking: list[LoggedQueue] = []
        """Those that are."""
        self._looked_upto: i64 = -1
        """Up to which group all need no look, as is written down."""
        self._done_upto: i64 = -1
        """Up to which they need none once the log is at `_done_round`; not above what is noted if
        that is not known."""
        self._done_round: i64 = 0
        self._looked_round: i64 = 0
        """The round of the log with which all that came of the look is durable; 0 before."""
        self._holes: list[int] = []
        """Groups that lack entries, until a snapshot covers those."""
        self._losses: dict[int, list[CorruptRecord]] = {}
        """What was lost of queues that the tables have not named yet."""
        self._tables_damaged: bool = False
        """Whether the tables have entries that this node, which leads them, cannot read."""
        self._tables_offered: i64 = 0
        """How often it tried to give the lead of them away."""
        self._checking: dict[int, bool] = {}
        """Groups of which this node reads its own copy, so that another one may go."""
        self._turn: int = 0
        self._said_turn: int = -1
        self._due_ms: i64 = 0

    def wire(self, hosting: QueueHosting) -> None:
        """Name what begins copies; before anything is recovered."""
        self._hosting = hosting

    # --- what a start found ---------------------------------------------------------------------

    def take(self, replayer: NodeReplayer) -> None:
        """Before queues are started: these cannot be."""
        self._holes = list(dict.fromkeys(replayer.holes))
        for error in replayer.doubts:
            self._doubtful = True
            self._loop.log_warning(
                f"{error}; the node goes on with all that is whole. Of classic queues here, and of "
                "quorum queues without other members, messages may be gone or come again beyond "
                "what is said of each"
            )
        if self._log.salvaged:
            if not self._doubtful:
                self._loop.log_warning(
                    "a start before this one went on over damage in the log, and ended before it "
                    "had looked through all that is left; this one looks again"
                )
            if not replayer.doubts:
                self._looked_upto = self._log.looked_upto
            self._doubtful = True
        for group_id, error in replayer.damaged.items():
            recovered = replayer.groups.pop(group_id, None)
            incarnation: i64 = 0 if recovered is None else recovered.hard_state.incarnation
            self._unfit[group_id] = Damage(incarnation)
            self._loop.log_warning(f"the queue of group {group_id} is not started: {error}")
        for error in replayer.losses:
            self._losses.setdefault(error.group_id, []).append(error)

    def started(self, queue: LoggedQueue) -> None:
        """A queue is started, perhaps long after the node: say what it has lost."""
        for error in self._losses.pop(int(queue.group_id), []):
            if error.lost:
                queue.note_lost(error.lost)
                self.say_gone(queue, error.lost, error)
            else:
                self._loop.log_warning(
                    f"messages that had left {queue} may come again, redelivered: {error}"
                )
        if self._doubtful and queue.group_id > self._looked_upto:
            self._to_look.append(queue)
            self._in_order = False

    def halts(self, group_id: int) -> bool:
        """Whether a queue could not be started here because its log is damaged."""
        return group_id in self._unfit

    def spent(self, record: QueueRecord, incarnation: i64) -> bool:
        """Whether a copy was here, and must not come back with nothing (R-15).

        Which one it was its disk may not be able to say; then it is whichever the tables name once
        they know this life of the node.
        """
        damage = self._unfit.get(int(record.group_id))
        if damage is None:
            return False
        damage.vhost = record.vhost
        damage.name = record.name
        settings = self._loop.settings
        if settings.former_uid and voters(record) != [settings.node_name]:
            # The tables that name this node's present uid name another copy, too.
            return damage.incarnation == incarnation
        if not self._cluster.session:
            return True
        if damage.incarnation == 0:
            damage.incarnation = incarnation
        return damage.incarnation == incarnation

    def begun(self, group_id: int) -> bool:
        """A queue that could not be started begins anew, or is deleted; False if it is none."""
        return self._unfit.pop(group_id, None) is not None

    # --- what was found -------------------------------------------------------------------------

    def queue_damaged(self, queue: Queue, error: BaseException) -> None:
        """Messages of a queue cannot be read here."""
        if not isinstance(error, CorruptRecord):
            # Read again a while later, by all queues that cannot be read.
            if self._said_turn != self._turn:
                self._said_turn = self._turn
                self._loop.log_warning(f"{queue} cannot be read for now: {error}")
        else:
            self._note(int(queue.group_id), error)

    def say_gone(self, queue: Queue, lost: list[tuple[int, int]], error: CorruptRecord) -> None:
        """Messages of a queue are gone for good."""
        said = ", ".join(f"{a} to {b}" if b > a else str(a) for a, b in lost[:RUNS_SAID])
        if len(lost) > RUNS_SAID:
            said += f" and more up to {lost[-1][1]}"
        self._loop.log_warning(
            f"messages {said} of {queue} are gone, the others are served: {error}"
        )

    def member_damaged(self, member: Member, error: BaseException) -> None:
        """What a leader's peer needs cannot be read here."""
        if member.group_id == METADATA_GROUP:
            self._loop.log_warning(f"the tables' log is damaged: {error}")
            member.snapshots.take(member, True)
            self._tables_damaged = True
        else:
            self._note(int(member.group_id), error)

    def found(self, error: CorruptRecord) -> None:
        """The log met damage while it cleared up."""
        queue = self._queues.logged.get(error.group_id)
        if queue is None or queue.deleted:
            self._loop.log_warning(str(error))
            if error.group_id == METADATA_GROUP:
                self._store.snapshot()
        elif error.lost:
            queue.check(error.lost[0][0], error.lost[-1][1])
        else:
            # Of a snapshot, or of what Raft has to remember: a new one is as good.
            self._loop.log_warning(f"{error}; {queue} writes it anew")
            queue.snapshot()

    def _note(self, group_id: int, error: BaseException) -> None:
        if not isinstance(error, CorruptRecord):
            return
        damage = self._damaged.get(group_id)
        if damage is not None:
            damage.losses.note(error.lost)
            return
        member = self._cluster.members.get(group_id)
        queue = self._queues.logged.get(group_id)
        if member is None or queue is None:
            return
        self._loop.log_warning(f"the copy of {queue} on this node is damaged: {error}")
        damage = Damage(member.hard_state.incarnation)
        damage.losses.note(error.lost)
        damage.error = error
        self._damaged[group_id] = damage

    def is_whole(self, group_id: int) -> bool:
        """Whether nothing is known to be wrong with this node's copy of a queue."""
        return group_id not in self._damaged and group_id not in self._unfit

    def wants(self, record: QueueRecord) -> bool:
        """Whether this node asked for another copy of a queue."""
        return int(record.group_id) in self._damaged

    # --- what is done about it ------------------------------------------------------------------

    def life_begins(self) -> None:
        """The tables know this life of the node: begin copies that they named before that in the
        place of damaged ones.
        """
        for group_id, damage in list(self._unfit.items()):
            record = self._record_of_unfit(group_id, damage)
            if record is not None:
                self._begin_another(record)

    def _begin_another(self, record: QueueRecord) -> bool:
        """Begin the copy that the tables name in the place of a damaged one, if they do."""
        own = record.member_on(self._node_name)
        if own is None or self.spent(record, own.incarnation):
            return False
        hosting = self._hosting
        assert hosting is not None, "the node wires its parts first"
        hosting.furnish(record)
        return True

    def tick(self, now_ms: i64) -> None:
        """Try again, about once a second, what could not be done."""
        if self._to_look:
            self._look()
        if now_ms < self._due_ms:
            return
        if not (
            self.stalled
            or self._damaged
            or self._unfit
            or self._holes
            or self._tables_damaged
            or self._doubtful
        ):
            return
        self._due_ms = now_ms + RETRY_MS
        self._turn += 1
        self._holes = [group_id for group_id in self._holes if not self._covered(group_id)]
        stalled = self.stalled
        self.stalled = []
        for queue in stalled:
            queue.retry()
        for group_id, damage in list(self._damaged.items()):
            if not self._renew(group_id, damage):
                del self._damaged[group_id]
        for group_id, damage in list(self._unfit.items()):
            self._renew_unfit(group_id, damage)
        if self._tables_damaged:
            self._leave_tables()
        if self._doubtful:
            self._end_look()

    def _look(self) -> None:
        """Begin to look through some more queues, those of the lowest groups first."""
        self._looking = [queue for queue in self._looking if queue.looking()]
        room = LOOKS_AT_ONCE - len(self._looking)
        if room <= 0:
            return
        if not self._in_order:
            self._in_order = True
            self._to_look.sort(key=_group_of, reverse=True)
        while self._to_look and room > 0:
            room -= 1
            queue = self._to_look.pop()
            if not queue.deleted:
                self._looking.append(queue)
                queue.look_for_gaps()

    def _note_looked(self) -> None:
        """Write down up to which group the look is through, once what came of it is durable."""
        if self._done_upto > self._looked_upto:
            if self._log.idle or self._log.round_number >= self._done_round:
                self._looked_upto = self._done_upto
                self._log.note_looked(int(self._looked_upto))
            return
        hosting = self._hosting
        known = self._cluster.session > 0 and hosting is not None and hosting.furnished()
        if not known or not self._in_order:
            # There may be more to look through.
            return
        left = [int(queue.group_id) for queue in self._looking]
        left.extend(int(queue.group_id) for queue in self._to_look[-1:])
        left.extend(self._damaged)
        left.extend(self._holes)
        left.extend(self._unfit)
        if left:
            # One round may be under way; what was appended since goes into the next one.
            self._done_upto = min(left) - 1
            self._done_round = self._log.round_number + 2

    def _end_look(self) -> None:
        """Forget about the damage once all was looked through, and what came of it is durable."""
        self._looking = [queue for queue in self._looking if queue.looking()]
        if self._log.salvaged:
            self._note_looked()
        looks = len(self._to_look) + len(self._looking) > 0
        if looks or self._damaged or self._holes or not self._cluster.session:
            self._looked_round = 0
        elif self._looked_round == 0:
            # One round may be under way; what was appended since goes into the next one.
            self._looked_round = self._log.round_number + 2
        elif self._log.idle or self._log.round_number >= self._looked_round:
            self._doubtful = False
            if self._log.salvaged:
                self._loop.log_warning("all that is left of the damaged log was looked through")
                self._log.looked_through()

    def _leave_tables(self) -> None:
        """Give the lead of the tables away while an entry that no other node has cannot be read."""
        member = self._store.member()
        raft = member.raft
        if not raft.is_leader or raft.commit_index == raft.last_index:
            self._tables_damaged = False
            self._tables_offered = 0
            return
        successor = self._successor(member)
        if successor:
            self._tables_offered += 1
            as_is = self._tables_offered > WHOLE_TRANSFERS
            self._queue_members.hand_over(member, successor, as_is)

    def _covered(self, group_id: int) -> bool:
        """Whether what a group lacks is behind a snapshot now, or does not matter any more."""
        if group_id == METADATA_GROUP:
            return self._store.snapshot() > 0
        queue = self._queues.logged.get(group_id)
        if queue is None:
            return self._cluster.session > 0
        return queue.deleted or queue.snapshot() > 0

    def _renew(self, group_id: int, damage: Damage) -> bool:
        """Do the next step for a damaged copy; False if it is there no more."""
        member = self._cluster.members.get(group_id)
        queue = self._queues.logged.get(group_id)
        record = None if queue is None else self._metadata.queue(queue.vhost, queue.name)
        if member is None or record is None or record.group_id != group_id:
            return False
        if member.hard_state.incarnation != damage.incarnation:
            return False
        own = record.member_on(self._node_name)
        if own is None or own.incarnation != damage.incarnation:
            return True
        if voters(record) == [self._node_name]:
            return self._rescue(member, record, damage)
        why = self._why_not(record, own.voter)
        if why:
            self._say_why(queue, damage, why)
        elif member.raft.is_leader:
            # Who lacks what cannot be read here is never brought up from here.
            damage.handed_over += 1
            as_is = damage.handed_over > WHOLE_TRANSFERS
            self._queue_members.hand_over(member, self._successor(member), as_is)
        else:
            self._ask(record, own.incarnation)
        return True

    def _say_why(self, queue: Queue | None, damage: Damage, why: str) -> None:
        if why != damage.said:
            damage.said = why
            self._loop.log_warning(f"the damaged copy of {queue} stays for now: {why}")

    def _rescue(self, member: Member, record: QueueRecord, damage: Damage) -> bool:
        """Do the next step for the copy of a queue's only voter; False if there is none any more.

        A copy that has everything gets a vote, and this one goes as any other. Where it is the only
        copy, the queue goes on without what is lost.
        """
        raft = member.raft
        queue = self._queues.logged.get(int(record.group_id))
        if not raft.is_leader or not raft.can_propose() or not self._queue_members.in_force(record):
            return True
        others = [row.node for row in record.members if row.node != self._node_name]
        if not others:
            if queue is not None and queue.brings_back():
                # What is lost is dropped of what is ready, so it has to be that first.
                return True
            if queue is not None and damage.error is not None:
                queue.go_without(damage.losses.pairs(), damage.error)
            return False
        running = self._cluster.running()
        for name in others:
            command = add_member(record, name, 0)
            if command is not None and name in running and raft.ready_to_promote(name):
                self._loop.log_warning(
                    f"node {name} is given a vote in {queue}: its copy has everything"
                )
                self._store.submit(command, None)
                return True
        self._say_why(queue, damage, "no other node that runs has all of it")
        return True

    def _record_of_unfit(self, group_id: int, damage: Damage) -> QueueRecord | None:
        """What the tables say of a quorum queue whose copy could not be started."""
        record = self._metadata.queue(damage.vhost, damage.name) if damage.name else None
        if record is None or record.group_id != group_id or not record.type.replicated:
            return None
        return record

    def _renew_unfit(self, group_id: int, damage: Damage) -> None:
        """Ask for another copy in the place of one that could not be started."""
        record = self._record_of_unfit(group_id, damage)
        own = None if record is None else record.member_on(self._node_name)
        if record is None or own is None or not self._cluster.session:
            return
        if self._begin_another(record):
            return
        why = self._why_not(record, own.voter)
        if why and why != damage.said:
            self._loop.log_warning(
                f"queue '{record.name}' in vhost '{record.vhost}' stays damaged for now: {why}"
            )
        damage.said = why
        if not why:
            self._ask(record, own.incarnation)

    def _why_not(self, record: QueueRecord, votes: bool) -> str:
        """Why a damaged copy is still needed, as far as this node knows; empty if it is not."""
        if votes and len(voters(record)) == 1:
            return "the queue has no other member"
        if votes:
            lost = majority_lost(record, self._node_name, self._cluster.running())
            if lost:
                return f"a majority of the other members has to run; {lost}"
        return ""

    def _successor(self, member: Member) -> str:
        """Give a running voter to hand the lead to, one that lacks least; empty if none runs."""
        running = self._cluster.running()
        best: list[str] = []
        least: i64 = 0
        for copy in member.raft.members:
            name = copy.node
            if copy.voter and name in running and name != self._node_name:
                behind = member.raft.behind(name)
                if behind < 0:
                    behind = member.raft.last_index + 1
                if not best or behind < least:
                    best = []
                    least = behind
                if behind == least:
                    best.append(name)
        return best[self._turn % len(best)] if best else ""

    def _ask(self, record: QueueRecord, incarnation: i64) -> None:
        """Ask the leader of a queue for another copy in the place of this node's."""
        for row in record.members:
            if row.node != self._node_name:
                self._queue_members.say_renew(row.node, record, incarnation)

    # --- for other nodes ------------------------------------------------------------------------

    def asked(self, peer: str, group_id: int, incarnation: int) -> None:
        """A node cannot read its copy of a queue: if this one leads it, see whether that may go."""
        member = self._cluster.members.get(group_id)
        queue = self._queues.logged.get(group_id)
        if member is None or queue is None or group_id in self._checking:
            return
        record = self._metadata.queue(queue.vhost, queue.name)
        if record is None or record.group_id != group_id:
            return
        if not (self._may_go(member, record, peer) or self._has_all(member, record, peer)):
            return
        row = record.member_on(peer)
        if row is not None and row.incarnation == incarnation:
            self._checking[group_id] = True
            search = CopySearch(queue.gather_live(), CopyCheck(self, member, peer, incarnation))
            if not search.go_on():
                self._loop.do_in_parts(search)

    def _may_go(self, member: Member, record: QueueRecord, without: str) -> bool:
        """Whether a majority of the other members has all that is committed, as the leader sees."""
        raft = member.raft
        if (
            not raft.is_leader
            or not raft.can_propose()
            or int(member.group_id) in self._damaged
            # A copy that cannot be read never gets the vote that the tables give it.
            or not self._queue_members.in_force(record, without)
        ):
            return False
        others = [name for name in voters(record) if name != without]
        up_to_date = 0
        for name in others:
            if name == self._node_name or raft.ready_to_promote(name):
                up_to_date += 1
        return 2 * up_to_date > len(others)

    def _has_all(self, member: Member, record: QueueRecord, without: str) -> bool:
        """Whether the copy here has all that is committed, and no leader.

        Each of two voters has. The other one, which is damaged, does not run, so that neither can
        be elected.
        """
        raft = member.raft
        own = record.member_on(self._node_name)
        if raft.leader != "" or not member.is_one_of_two():
            return False
        if not self.is_whole(int(member.group_id)):
            return False
        if own is None or own.incarnation != member.hard_state.incarnation:
            return False
        counted = [copy.node for copy in raft.members]
        both = sorted([self._node_name, without])
        return sorted(counted) == both and sorted(voters(record)) == both

    def checked(self, check: CopyCheck, error: BaseException | None) -> None:
        """A leader has read its own copy of a queue: if it is whole, another node's may go."""
        member = check.member
        group_id = int(member.group_id)
        self._checking.pop(group_id, None)
        queue = self._queues.logged.get(group_id)
        if error is not None and not isinstance(error, Compacted):
            self.member_damaged(member, error)
        if error is not None or queue is None:
            return
        record = self._metadata.queue(queue.vhost, queue.name)
        if record is None or record.group_id != group_id:
            return
        row = record.member_on(check.peer)
        if (
            row is not None
            and row.incarnation == check.incarnation
            and (
                self._may_go(member, record, check.peer)
                or self._has_all(member, record, check.peer)
            )
            and not self._placing.spent()
        ):
            self._loop.log_warning(
                f"{queue} gets another copy on node {check.peer}, whose disk is damaged"
            )
            self._store.submit(renew_copy(record, check.peer, self._placing.new_group()), None)


def _group_of(queue: LoggedQueue) -> int:
    return int(queue.group_id)
