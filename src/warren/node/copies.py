"""This node's copies of quorum queues: as the log brings them back, new, or in another one's place.

A copy goes by the incarnation on its disk, whatever the tables say. Behind a start those are older
than the disk for a moment, since what is committed of them has to be heard anew; so a copy is held
against them only once they know this life of the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mypy_extensions import i64

from warren.log.group import GroupLog
from warren.metadata.tables import MemberRecord, QueueRecord
from warren.queues.fifo.config import NOT_SET_UP
from warren.queues.fifo.machine import Fifo
from warren.queues.logged import LoggedQueue
from warren.queues.quorum import QuorumQueue
from warren.raft.members import Member as Copy
from warren.replication.hard_state import HardState
from warren.replication.member import Member
from warren.replication.proposals import Proposals
from warren.replication.recovered import Recovered

if TYPE_CHECKING:
    from warren.node.node import Node
    from warren.node.replay import NodeReplayer


def copy_here(node: Node, record: QueueRecord) -> MemberRecord | None:
    """The copy of a quorum queue that a node has to keep.

    None also where the tables, while they are replayed, name the copy that a node of this name had
    on a disk that was lost, and where they name one whose log is damaged here: an empty one must
    not come back in its place (R-15).
    """
    name = node.settings.node_name
    own = node.tables.machine.nodes.get(name)
    if own is None or own.uid != node.uid:
        return None
    row = record.member_on(name)
    if row is None or node.repairs.spent(record, row.incarnation):
        return None
    return row


def start(
    node: Node, record: QueueRecord, replayer: NodeReplayer | None, used: QuorumQueue | None
) -> LoggedQueue:
    """Create a node's copy, with what the log replayed of it if there was one.

    Args:
        used: The queue, if this node has used it without holding it. It is used so still until the
            copy has what its clients have seen.

    Returns:
        The queue that clients here use.
    """
    group_id = int(record.group_id)
    fifo: Fifo | None = None
    recovered: Recovered | None = None
    if replayer is not None:
        fifo = replayer.machines.get(group_id)
        recovered = replayer.groups.get(group_id)
    own = copy_here(node, record)
    assert own is not None or recovered is not None, "only members start a quorum queue"
    if (
        own is not None
        and recovered is not None
        and node.settings.former_uid
        and recovered.hard_state.incarnation != own.incarnation
    ):
        # It lacks what it acknowledged, and must not take part even for a moment.
        empty(node.log.group(group_id), HardState(own.incarnation, []))
        fifo = None
        recovered = None
    fresh = recovered is None
    if fifo is None:
        # As a replay would make it; an entry of the first leader sets it up.
        fifo = Fifo(NOT_SET_UP, False)
    if recovered is None:
        recovered = Recovered(_first_hard_state(node, record), node.settings.node_name)
    log = node.log.group(group_id)
    if node.repairs.begun(group_id):
        # In the place of one that is damaged. What says so is written before that one is dropped.
        log.save_state(recovered.hard_state.encode(), None)
        log.reset_for_install()
    limit = node.policies.delivery_limit(record.vhost, record.name, record.kind)
    queue = QuorumQueue(node, record.vhost, record.name, log, log.id, fifo, limit)
    queue.auto_delete = record.auto_delete
    member = node.cluster.add(log, queue, recovered)
    queue.group = member
    node.tables.logged[group_id] = queue
    if used is not None:
        # What its clients submit goes by the observer, until this copy has caught up with that.
        member.proposals = Proposals(0, node.cluster.load())
        node.observers.arrives(record.group_id, member, queue)
    if replayer is not None:
        queue.seen_messages, queue.seen_bytes = replayer.seen.get(group_id, (0, 0))
    first = (
        fresh and record.node == node.settings.node_name and len(recovered.hard_state.members) > 0
    )
    if fresh:
        member.save_hard_state(None)
    node.cluster.start(member)
    if first:
        member.campaign()
    if used is None:
        return queue
    if not used.in_use():
        node.observers.arrived(record.group_id)
    return used


def empty(log: GroupLog, hard_state: HardState) -> None:
    """Drop what the log holds of a copy that another one takes the place of."""
    # Written before the log is dropped: entries under a new incarnation do no harm, but an old one
    # without what it acknowledged does.
    log.save_state(hard_state.encode(), None)
    log.reset_for_install()
    log.begin_empty()


def _first_hard_state(node: Node, record: QueueRecord) -> HardState:
    """What a copy begins with that has nothing on disk."""
    own = copy_here(node, record)
    assert own is not None, "only members start a quorum queue"
    if own.incarnation != record.group_id:
        # A later one learns from the leader who there is.
        return HardState(own.incarnation, [])
    first: list[Copy] = []
    for row in record.members:
        if row.incarnation == record.group_id:
            first.append(Copy(row.node, row.incarnation, row.voter))
    return HardState(own.incarnation, first)


def _remembered(member: Member) -> HardState:
    """What stays of a copy that goes: its term, its vote, and how far it acknowledged entries.

    After a start the tables may name it for a moment, as they did before. Then it is there again,
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


def leave(node: Node, record: QueueRecord) -> None:
    """Drop a copy that is to be here no more; this node's clients go on through other members."""
    group_id = int(record.group_id)
    member = node.cluster.members[group_id]
    node.log_warning(
        f"the copy of queue '{record.name}' in vhost '{record.vhost}' on this node is dropped: "
        "other nodes hold the queue"
    )
    if node.observers.gives_up_arrival(record.group_id):
        # It never came so far that clients used it.
        node.cluster.transfers.begun_anew(group_id)
        node.cluster.leave(member)
        del node.tables.logged[group_id]
        empty(member.log, _remembered(member))
        node.appended(True)
        return
    queue = cast(QuorumQueue, member.machine)
    index = member.applied_index
    term = max(member.log.term_at(index), i64(0))
    next_message = member.next_message()
    members = member.raft.members
    proposals = member.proposals
    node.cluster.transfers.begun_anew(group_id)
    node.cluster.leave(member)
    del node.tables.logged[group_id]
    observer = node.observers.take(record, queue, proposals)
    # The group stays, empty: its number is never used for another log, and may be for this one.
    empty(member.log, _remembered(member))
    node.appended(True)
    observer.take_place(index, term, next_message, members)


def counts_itself(member: Member) -> bool:
    """Whether a member's vote counts in its group, as far as this member knows."""
    raft = member.raft
    return raft.config_at(raft.commit_index).has_voter(
        member.host.name, member.hard_state.incarnation
    )


def is_to_go(node: Node, record: QueueRecord) -> bool:
    """Whether the tables name a copy here no more, with or without another one in its place."""
    if node.tables.is_elsewhere(record):
        return True
    member = node.cluster.members.get(int(record.group_id))
    own = copy_here(node, record)
    return (
        member is not None and own is not None and member.hard_state.incarnation != own.incarnation
    )


def give_way(node: Node, record: QueueRecord) -> None:
    """Drop a copy that is to go and that counts no more in its group."""
    if node.tables.is_elsewhere(record):
        leave(node, record)
    else:
        _begin_as_replaced(node, record)


def replace(node: Node, record: QueueRecord) -> None:
    """Drop a copy that the tables name no more, and begin the one that is to be in its place.

    One that leads goes on until it has handed its place over, and one that votes until its group
    has counted it out: what was acknowledged for a majority may be on no other node. A damaged one
    goes at once.
    """
    member = node.cluster.members.get(int(record.group_id))
    if not node.cluster.session or member is None or not is_to_go(node, record):
        return
    if member.raft.is_leader:
        return
    if counts_itself(member) and not node.repairs.wants(record):
        node.tables.await_leave(record)
    else:
        _begin_as_replaced(node, record)


def _begin_as_replaced(node: Node, record: QueueRecord) -> None:
    member = node.cluster.members[int(record.group_id)]
    own = copy_here(node, record)
    assert own is not None, "there is another copy in its place"
    why = "is damaged" if node.repairs.wants(record) else "was replaced while the node was away"
    node.log_warning(
        f"the copy of queue '{record.name}' in vhost '{record.vhost}' that this node had {why}: "
        "it is dropped, and the new one gets everything from the leader"
    )
    node.cluster.transfers.begun_anew(int(record.group_id))
    member.begin_as(own.incarnation)
