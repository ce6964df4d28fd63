"""This node's copies of quorum queues: as the log brings them back, new, or in another one's place.

A copy goes by the incarnation on its disk, whatever the metadata says. After a start that is older
than the disk for a moment, since what is committed of it has to be heard anew; so a copy is held
against it only once it knows this life of the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast, final

from mypy_extensions import i64

from warren.limits import TICK_GROUPS_MAX
from warren.log.group import GroupLog
from warren.log.log import Log
from warren.metadata.machine import MetadataMachine
from warren.metadata.tables import MemberRecord, QueueRecord
from warren.node.loop import Loop
from warren.node.policies import QueuePolicies
from warren.node.queues import LocalQueues
from warren.queues.fifo.config import NOT_SET_UP
from warren.queues.fifo.machine import Fifo
from warren.queues.logged import LoggedQueue
from warren.queues.quorum import QuorumQueue
from warren.raft.members import Replica
from warren.replication.hard_state import HardState
from warren.replication.member import Member
from warren.replication.proposals import Proposals
from warren.replication.recovered import Recovered

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster
    from warren.node.cluster.observers import Observers
    from warren.node.cluster.queue_members import QueueMembers
    from warren.node.repairs import Repairs
    from warren.node.replay import NodeReplayer

LEAVE_EVERY_MS: Final = 1_000
"""How often others are asked whether a copy may go."""
NEVER_MS: Final = -LEAVE_EVERY_MS


@final
class Copies:
    """Of one node."""

    def __init__(
        self,
        loop: Loop,
        log: Log,
        metadata: MetadataMachine,
        queues: LocalQueues,
        cluster: Cluster,
        observers: Observers,
        queue_members: QueueMembers,
        policies: QueuePolicies,
        repairs: Repairs,
        node_uid: bytes,
    ) -> None:
        self._loop: Loop = loop
        self._log: Log = log
        self._metadata: MetadataMachine = metadata
        self._queues: LocalQueues = queues
        self._cluster: Cluster = cluster
        self._observers: Observers = observers
        self._queue_members: QueueMembers = queue_members
        self._policies: QueuePolicies = policies
        self._repairs: Repairs = repairs
        self._node_uid: bytes = node_uid
        self._node_name: str = loop.settings.node_name
        self._begins_anew: bool = len(loop.settings.former_uid) > 0
        self._to_leave: dict[int, int] = {}
        """Quorum queues with a copy here that should not be, by group; when its members were asked
        last whether it may go."""

    def here(self, record: QueueRecord) -> MemberRecord | None:
        """The copy of a quorum queue that this node has to keep.

        None also where the metadata, while it is replayed, names the copy that a node of this name
        had on a disk that was lost, and where it names one whose log is damaged here: an empty one
        must not come back in its place (R-15).
        """
        own = self._metadata.nodes.get(self._node_name)
        if own is None or own.uid != self._node_uid:
            return None
        row = record.member_on(self._node_name)
        if row is None or self._repairs.spent(record, row.incarnation):
            return None
        return row

    def start(
        self, record: QueueRecord, replayer: NodeReplayer | None, used: QuorumQueue | None
    ) -> LoggedQueue:
        """Create a node's copy, with what the log replayed of it if there was one.

        Args:
            used: The queue, if this node has used it without holding it. It is used so still until
                the copy has what its clients have seen.

        Returns:
            The queue that clients here use.
        """
        group_id = int(record.group_id)
        fifo: Fifo | None = None
        recovered: Recovered | None = None
        if replayer is not None:
            fifo = replayer.machines.get(group_id)
            recovered = replayer.groups.get(group_id)
        own = self.here(record)
        assert own is not None or recovered is not None, "only members start a quorum queue"
        if (
            own is not None
            and recovered is not None
            and self._begins_anew
            and recovered.hard_state.incarnation != own.incarnation
        ):
            # It lacks what it acknowledged, and must not take part even for a moment.
            empty(self._log.group(group_id), HardState(own.incarnation, []))
            fifo = None
            recovered = None
        fresh = recovered is None
        if fifo is None:
            # As a replay would make it; an entry of the first leader sets it up.
            fifo = Fifo(NOT_SET_UP, False)
        if recovered is None:
            recovered = Recovered(self._first_hard_state(record), self._node_name)
        log = self._log.group(group_id)
        if self._repairs.begun(group_id):
            # In the place of a damaged one. What says so is written before that one is dropped.
            log.save_state(recovered.hard_state.encode(), None)
            log.reset_for_install()
        limit = self._policies.delivery_limit(record)
        queue = QuorumQueue(
            self._loop, record.vhost, record.name, log, log.id, fifo, limit, record.type
        )
        queue.auto_delete = record.auto_delete
        member = self._cluster.add(log, queue, recovered)
        queue.group = member
        self._policies.tell(queue, record)
        self._queues.logged[group_id] = queue
        if used is not None:
            # What its clients submit goes by the observer, until this copy has caught up with that.
            member.proposals = Proposals(0, self._cluster.load())
            self._observers.arrives(record.group_id, member, queue)
        if replayer is not None:
            queue.seen_messages, queue.seen_bytes = replayer.seen.get(group_id, (0, 0))
        first = fresh and record.node == self._node_name and len(recovered.hard_state.members) > 0
        if fresh:
            member.save_hard_state(None)
        self._cluster.start(member)
        if first:
            member.campaign()
        if used is None:
            return queue
        if not used.in_use():
            self._observers.arrived(record.group_id)
        return used

    def _first_hard_state(self, record: QueueRecord) -> HardState:
        """What a copy begins with that has nothing on disk."""
        own = self.here(record)
        assert own is not None, "only members start a quorum queue"
        if own.incarnation != record.group_id:
            # A later one learns from the leader who there is.
            return HardState(own.incarnation, [])
        first: list[Replica] = []
        for row in record.members:
            if row.incarnation == record.group_id:
                first.append(Replica(row.node, row.incarnation, row.voter))
        return HardState(own.incarnation, first)

    def replace(self, record: QueueRecord) -> None:
        """Drop a copy that the metadata names no more, and begin the one that takes its place.

        One that leads goes on until it has handed its place over, and any other until the group's
        leader has counted it out: what was acknowledged for a majority may be on no other node. A
        damaged one goes at once.
        """
        member = self._cluster.members.get(int(record.group_id))
        if not self._cluster.session or member is None or self._queues.is_elsewhere(record):
            # Where no other one is to be in its place, `tick` sees to it.
            return
        if member.raft.is_leader or not self._is_to_go(record):
            return
        if self._repairs.wants(record):
            self._rejoin(record)
        else:
            self.leave_later(record)

    def _rejoin(self, record: QueueRecord) -> None:
        """Begin the copy that takes the place of another one here."""
        member = self._cluster.members[int(record.group_id)]
        own = self.here(record)
        assert own is not None, "there is another copy in its place"
        why = (
            "is damaged" if self._repairs.wants(record) else "was replaced while the node was away"
        )
        self._loop.log_warning(
            f"the copy of queue '{record.name}' in vhost '{record.vhost}' that this node had {why}"
            ": it is dropped, and the new one gets everything from the leader"
        )
        self._cluster.transfers.begun_anew(int(record.group_id))
        member.rejoin_as(own.incarnation)

    # --- copies that are to go ------------------------------------------------------------------

    def leave_later(self, record: QueueRecord) -> None:
        """Drop a copy here that the metadata names no more, when its group has counted it out."""
        self._to_leave.setdefault(int(record.group_id), NEVER_MS)

    def tick(self, now_ms: i64) -> None:
        """Drop copies here that the metadata names no more; who uses those queues goes on.

        In the place of some there is to be another one.

        Each goes on until its group has counted it out: the leader may need its vote for that, and
        may have given it one that it has not heard of. It says so when it is asked, since nothing
        else may reach the copy any more.
        """
        for _ in range(min(len(self._to_leave), TICK_GROUPS_MAX)):
            group_id, asked_ms = next(iter(self._to_leave.items()))
            del self._to_leave[group_id]
            record = self._queues.record_of(group_id)
            if record is None or not self._is_to_go(record):
                continue
            if not self._cluster.session or now_ms - asked_ms < LEAVE_EVERY_MS:
                self._to_leave[group_id] = asked_ms
                continue
            member = self._cluster.members[group_id]
            self._to_leave[group_id] = int(now_ms)
            if not member.raft.is_leader:
                self._queue_members.ask_to_leave(record, member)

    def may_leave(self, group_id: int, incarnation: i64) -> None:
        """The leader has counted out a copy here, which the metadata names no more."""
        record = self._queues.record_of(group_id)
        member = self._cluster.members.get(group_id)
        if record is None or member is None or not self._is_to_go(record):
            return
        if member.hard_state.incarnation == incarnation and not member.raft.is_leader:
            self._to_leave.pop(group_id, None)
            self._give_way(record)

    def _is_to_go(self, record: QueueRecord) -> bool:
        """Whether the metadata names a copy here no more, with or without another in its place."""
        if self._queues.is_elsewhere(record):
            return True
        member = self._cluster.members.get(int(record.group_id))
        own = self.here(record)
        return (
            member is not None
            and own is not None
            and member.hard_state.incarnation != own.incarnation
        )

    def _give_way(self, record: QueueRecord) -> None:
        """Drop a copy that is to go and that counts no more in its group."""
        if self._queues.is_elsewhere(record):
            self._leave(record)
        else:
            self._rejoin(record)

    def _leave(self, record: QueueRecord) -> None:
        """Drop a copy that is to be here no more; clients here go on through other members."""
        group_id = int(record.group_id)
        member = self._cluster.members[group_id]
        self._loop.log_warning(
            f"the copy of queue '{record.name}' in vhost '{record.vhost}' on this node is dropped: "
            "other nodes hold the queue"
        )
        if self._observers.gives_up_arrival(record.group_id):
            # It never came so far that clients used it.
            self._cluster.transfers.begun_anew(group_id)
            self._cluster.leave(member)
            del self._queues.logged[group_id]
            empty(member.log, _remembered(member))
            self._loop.appended(True)
            return
        queue = cast(QuorumQueue, member.machine)
        index = member.applied_index
        term = max(member.log.term_at(index), i64(0))
        next_message = member.next_message()
        members = member.raft.members
        proposals = member.proposals
        self._cluster.transfers.begun_anew(group_id)
        self._cluster.leave(member)
        del self._queues.logged[group_id]
        observer = self._observers.take(record, queue, proposals)
        # The group stays, empty: its number is never used for another log, and may be for this one.
        empty(member.log, _remembered(member))
        self._loop.appended(True)
        observer.take_place(index, term, next_message, members)


def empty(log: GroupLog, hard_state: HardState) -> None:
    """Drop what the log holds of a copy that another one takes the place of."""
    # Written before the log is dropped: entries under a new incarnation do no harm, but an old one
    # without what it acknowledged does.
    log.save_state(hard_state.encode(), None)
    log.reset_for_install()
    log.begin_empty()


def _remembered(member: Member) -> HardState:
    """What stays of a copy that goes: its term, its vote, and how far it acknowledged entries.

    After a start the metadata may name it for a moment, as it did before. Then it is there again,
    empty, and must not elect a copy that lacks what this one had a part in committing (R-20).
    """
    raft = member.raft
    raft.give_up_log(raft.state.log.last_term(), raft.state.log.last_index)
    kept = member.hard_state
    state = HardState(kept.incarnation, [])
    state.term = kept.term
    state.voted_for = kept.voted_for
    state.voted_incarnation = kept.voted_incarnation
    state.floor_term = raft.state.floor_term
    state.floor_index = raft.state.floor_index
    return state
