"""Which members of quorum queues an operator may change: one function a command, as in `checks`.

What RabbitMQ calls the members of a queue are those that vote. There may be others, which an
operator added so; a member without a vote is given one by adding it again.

Source: MEM-02 to MEM-09; `rabbit_quorum_queue` and `rabbit_queue_type_ra` of RabbitMQ 4.3.
"""

from __future__ import annotations

from mypy_extensions import i64

from warren.errors import NOT_FOUND, NOT_IMPLEMENTED, PRECONDITION_FAILED, Refusal
from warren.metadata.commands import SetMembers
from warren.metadata.machine import MetadataMachine
from warren.metadata.placement import GROUP_SIZE
from warren.metadata.tables import MemberRecord, QueueRecord

LAST_NODE = "the last node cannot be removed"


def quorum_queue(machine: MetadataMachine, vhost: str, name: str) -> QueueRecord:
    """The quorum queue of this name.

    Raises:
        Refusal: There is none of this name, or it is of another type.
    """
    if vhost not in machine.vhosts:
        raise Refusal(NOT_FOUND, f"vhost '{vhost}' does not exist")
    queue = machine.queue(vhost, name)
    if queue is None:
        raise Refusal(NOT_FOUND, f"queue '{name}' in vhost '{vhost}' does not exist")
    if not queue.type.replicated:
        raise Refusal(
            NOT_IMPLEMENTED,
            f"queue '{name}' in vhost '{vhost}' is of type {queue.kind}: only quorum queues have "
            "members",
        )
    return queue


def check_node(machine: MetadataMachine, node: str) -> None:
    """Refuse the name of a node that is not in the cluster.

    Raises:
        Refusal: `NOT_FOUND`.
    """
    if node not in machine.nodes:
        raise Refusal(
            NOT_FOUND,
            f"node '{node}' is not in the cluster, whose nodes are {', '.join(machine.nodes)}",
        )


def voters(queue: QueueRecord) -> list[str]:
    """The nodes of the members that are to vote."""
    return [row.node for row in queue.members if row.voter]


def add_member(
    queue: QueueRecord, node: str, incarnation: i64, votes: bool = True
) -> SetMembers | None:
    """A member on one more node (MEM-02). None where it has one.

    Args:
        node: One of the cluster that runs.
        incarnation: Of its copy, if it has none yet; never used before.
        votes: Whether it is to vote; else it only holds the queue.
    """
    present = queue.member_on(node)
    if present is None:
        return _set(queue, [*queue.members, MemberRecord(node, incarnation, votes)])
    return None if present.voter or not votes else _set_voter(queue, node, True)


def delete_member(
    queue: QueueRecord, node: str, running: list[str], force: bool
) -> SetMembers | None:
    """No member on a node any more (MEM-03). None where there is none.

    Args:
        running: The nodes that are up.
        force: Even if the queue has no majority of running members then.

    Raises:
        Refusal: It is the last one, or the queue would lose its quorum.
    """
    present = queue.member_on(node)
    if present is None:
        return None
    if not present.voter:
        return _set(queue, [row for row in queue.members if row is not present])
    if len(voters(queue)) == 1:
        raise Refusal(PRECONDITION_FAILED, LAST_NODE)
    lost = majority_lost(queue, node, running)
    if lost and not force:
        raise Refusal(
            PRECONDITION_FAILED,
            f"without the member on node '{node}' the queue loses its quorum: {lost}; start the "
            "nodes that are down, or say --force",
        )
    return _set(queue, [row for row in queue.members if row is not present])


def renew_copy(queue: QueueRecord, node: str, incarnation: i64) -> SetMembers:
    """Another copy in the place of a node's, which is damaged; it votes if that one did.

    But not where a queue of one voter was given a second one only so that this copy can go.

    Args:
        incarnation: Of the new one; never used before.
    """
    spare = len(voters(queue)) == 2 and queue.arguments.get(GROUP_SIZE) == 1
    members = [
        MemberRecord(row.node, incarnation, row.voter and not spare) if row.node == node else row
        for row in queue.members
    ]
    return _set(queue, members)


def majority_lost(queue: QueueRecord, without: str, running: list[str]) -> str:
    """Which of the members left are up, if that is no majority of them; empty if it is."""
    left = [node for node in voters(queue) if node != without]
    up = [node for node in left if node in running]
    if 2 * len(up) > len(left):
        return ""
    return f"of {', '.join(left)}, {', '.join(up) or 'none'} would be running"


def _set_voter(queue: QueueRecord, node: str, voter: bool) -> SetMembers:
    members = [
        MemberRecord(row.node, row.incarnation, voter) if row.node == node else row
        for row in queue.members
    ]
    return _set(queue, members)


def _set(queue: QueueRecord, members: list[MemberRecord]) -> SetMembers:
    return SetMembers(queue.group_id, queue.vhost, queue.name, members, queue.revision)
