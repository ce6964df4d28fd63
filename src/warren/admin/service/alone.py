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
    stranded = service.node.stranded
    named = title(vhost, queue)
    if stranded.is_alone(record):
        return MemberState(changed=False, votes=True)
    why = stranded.why_not_alone(record)
    if why:
        raise Refusal(PRECONDITION_FAILED, f"{named}: {why}")
    living = stranded.living(record)
    if living:
        members = [
            MemberRecord(row.node, service.node.placing.new_group(), row.voter)
            if row.node in living
            else row
            for row in record.members
        ]
        await service.change(SetMembers(record.group_id, vhost, queue, members, record.revision))
        record = quorum_queue(service.machine, vhost, queue)
    log.warning(
        "%s goes on with the copy on this node alone, as an operator asked: what %s had confirmed "
        "and it does not have is lost",
        named,
        ", ".join(stranded.others(record)),
    )
    refused: list[str] = []

    def begin() -> None:
        refused.append(stranded.go_on_alone(record))

    service.host.guarded(begin)
    service.host.after_event()
    if refused[0]:
        raise Refusal(PRECONDITION_FAILED, f"{named}: {refused[0]}")
    if not await until(lambda: goes_on(service, record), LEAD_SECONDS):
        raise Refusal(TIMED_OUT, f"{named} has no leader yet; ask once more")
    return MemberState(changed=True, votes=True)


def goes_on(service: AdminService, record: QueueRecord) -> bool:
    """Whether the copy here leads, and only copies vote that the tables name.

    Members that begin anew may have their votes before anybody looks.
    """
    member = service.node.cluster.members.get(int(record.group_id))
    if member is None or not member.leads_fully():
        return False
    return not any(copy.voter and is_gone(record, copy) for copy in member.raft.members)
