"""A quorum queue that lost most of its members goes on with the copy on one node.

Source: `rabbit_quorum_queue:force_shrink_member_to_current_member/2` of RabbitMQ 4.3, which has no
command of its own there.
"""

from __future__ import annotations

import logging

from warren.admin.service.caller import Caller
from warren.admin.service.members import title
from warren.admin.service.operation import operation
from warren.admin.service.rows import MemberState
from warren.admin.service.service import AdminService
from warren.admin.service.waiting import until
from warren.errors import PRECONDITION_FAILED, TIMED_OUT, Refusal
from warren.metadata.commands import SetMembers
from warren.metadata.member_checks import quorum_queue
from warren.metadata.tables import MemberRecord, QueueRecord
from warren.node.cluster.stranded import is_gone
from warren.replication.member import Member

log = logging.getLogger("warren")

LEAD_SECONDS = 10.0
"""For the copy to lead."""


@operation()
async def force_shrink_member_to_current_member(
    service: AdminService, caller: Caller, *, vhost: str, queue: str
) -> MemberState:
    """Have a queue that has no leader, and will get none, go on with the copy on this node.

    What the others had confirmed and this one does not have is lost. Members on nodes that run
    begin anew with what this one has; nodes that are down have to be forgotten first, so that they
    do not come back with another history.

    Raises:
        Refusal: It cannot be, or need not; or `TIMED_OUT`, where that is not known.
    """
    await service.catch_up()
    record = quorum_queue(service.machine, vhost, queue)
    member = _own_copy(service, record)
    others = [copy for copy in member.raft.members if copy.node != service.own_name]
    if member.raft.is_leader and not any(copy.voter for copy in others):
        return MemberState(changed=False, votes=True)
    living = _living(service, record, member)
    if living:
        members = [
            MemberRecord(row.node, service.node.placing.new_group(), row.voter)
            if row.node in living
            else row
            for row in record.members
        ]
        await service.change(SetMembers(record.group_id, vhost, queue, members, record.revision))
        if service.machine.queue(vhost, queue) is not record:
            record = quorum_queue(service.machine, vhost, queue)
    names = ", ".join(copy.node for copy in others)
    log.warning(
        "%s goes on with the copy on this node alone, as an operator asked: what %s had confirmed "
        "and it does not have is lost",
        title(vhost, queue),
        names,
    )
    refused: list[str] = []

    def begin() -> None:
        refused.append(member.raft.go_on_alone(service.node.monotonic_ms()))
        member.work()

    service.host.guarded(begin)
    service.host.after_event()
    if refused[0]:
        raise Refusal(PRECONDITION_FAILED, f"{title(vhost, queue)}: {refused[0]}")
    if not await until(lambda: member.leads_fully(), LEAD_SECONDS):
        raise Refusal(TIMED_OUT, f"{title(vhost, queue)} has no leader yet; ask once more")
    return MemberState(changed=True, votes=True)


def _own_copy(service: AdminService, record: QueueRecord) -> Member:
    """The copy on this node, which has to vote.

    Raises:
        Refusal: There is none, or none that can be used.
    """
    own = record.member_on(service.own_name)
    if own is None or not own.voter:
        holders = ", ".join(row.node for row in record.members if row.voter)
        raise Refusal(
            PRECONDITION_FAILED,
            f"{title(record.vhost, record.name)} has no voting member on node "
            f"'{service.own_name}': ask one of {holders}, the one whose copy has most "
            "(quorum_status)",
        )
    member = service.node.cluster.members.get(int(record.group_id))
    if member is None or member.hard_state.incarnation != own.incarnation:
        raise Refusal(
            PRECONDITION_FAILED,
            f"the copy of {title(record.vhost, record.name)} on node '{service.own_name}' could "
            "not be started, since it is damaged: ask another one",
        )
    return member


def _living(service: AdminService, record: QueueRecord, member: Member) -> list[str]:
    """Other nodes with a voter of the group that run; the rest of its voters is gone for good.

    Raises:
        Refusal: The queue has a leader, or can get one; or one of them may come back.
    """
    name = title(record.vhost, record.name)
    if member.raft.leader:
        raise Refusal(
            PRECONDITION_FAILED,
            f"{name} is led by node '{member.raft.leader}': remove its other members with "
            "delete_member",
        )
    running = service.members.running()
    voters = [copy for copy in member.raft.members if copy.voter]
    left = [
        copy.node
        for copy in voters
        if copy.node != service.own_name
        and copy.node in service.machine.nodes
        and not is_gone(record, copy)
    ]
    down = [node for node in left if node not in running]
    if down:
        raise Refusal(
            PRECONDITION_FAILED,
            f"{name} has members on nodes that are down and may come back: {', '.join(down)}. "
            "Start them; or, where they are lost, have the cluster forget them first "
            "(forget_cluster_node)",
        )
    if 2 * (len(left) + 1) > len(voters):
        raise Refusal(
            PRECONDITION_FAILED,
            f"{name} has a majority of its members, on {', '.join([service.own_name, *left])}: "
            "one of them will lead",
        )
    return left
