"""Leaders of quorum queues: where they are, how far each copy is, and how they are moved.

Source: REB-01; `rabbitmq-queues` of RabbitMQ 4.3.
"""

from __future__ import annotations

import asyncio

from warren.admin.service.caller import MONITORING, Caller
from warren.admin.service.changes import is_gone
from warren.admin.service.inquiries import STATUS_SECONDS, leaders_of
from warren.admin.service.members import matching, named, title
from warren.admin.service.operation import operation
from warren.admin.service.rows import LeaderCount, Membership, MemberStatus
from warren.admin.service.service import AdminService
from warren.admin.service.waiting import POLL_SECONDS, until
from warren.errors import NOT_IMPLEMENTED, PRECONDITION_FAILED, TIMED_OUT, Refusal
from warren.metadata.balance import moves
from warren.metadata.member_checks import quorum_queue, voters
from warren.metadata.tables import QueueRecord
from warren.node.cluster.queue_members import Standing
from warren.queue_types import QUORUM

TRANSFER_SECONDS = 5.0
"""For a leader to move."""
ASK_AGAIN_SECONDS = 0.25
TRANSFERS_AT_ONCE = 16
TYPES = ("all", QUORUM.name)
"""Queue types that `rebalance` takes; of those there are, only quorum queues have members."""
UNKNOWN_NUMBERS: list[int | None] = [None] * 7


@operation()
async def transfer_leadership(
    service: AdminService, caller: Caller, *, vhost: str, queue: str, node: str
) -> None:
    """Move a queue's leader to another member.

    Raises:
        Refusal: It cannot be; or `TIMED_OUT`, where it has not come about in time.
    """
    record = named(service.machine, vhost, queue, node)
    members = service.members
    if node not in voters(record):
        raise Refusal(
            PRECONDITION_FAILED,
            f"{title(vhost, queue)} has no member on node '{node}': its members are "
            f"{', '.join(voters(record))}",
        )
    service.check_running(node)
    leader = (await leaders_of(service, [record])).get(int(record.group_id), "")
    if leader == node:
        raise Refusal(PRECONDITION_FAILED, "The target node is already the leader of this queue")
    if not leader:
        raise Refusal(PRECONDITION_FAILED, f"{title(vhost, queue)}: {members.why_not(record)}")
    if not await move(service, record, node):
        raise Refusal(
            TIMED_OUT,
            f"{title(vhost, queue)}: the leader has not moved to node '{node}' within "
            f"{TRANSFER_SECONDS:.0f} s; it is on node '{members.leader(record)}'",
        )


@operation()
async def rebalance(
    service: AdminService,
    caller: Caller,
    *,
    type: str = "all",
    vhost_pattern: str = ".*",
    queue_pattern: str = ".*",
) -> list[LeaderCount]:
    """Spread leaders over the nodes; members stay where they are.

    Args:
        type: Which types of queues, one of `TYPES`.

    Raises:
        Refusal: There is no such type, leaders are being moved already, or the tables have no
            leader.
    """
    if type not in TYPES:
        raise Refusal(
            NOT_IMPLEMENTED, f"type {type} is not supported. Try one of {', '.join(TYPES)}."
        )
    if service.rebalancing:
        raise Refusal(PRECONDITION_FAILED, "a rebalance is in progress; wait for its end")
    members = service.members
    service.rebalancing = True
    try:
        await service.catch_up()
        queues = await matching(service, vhost_pattern, queue_pattern)
        by_group = {int(queue.group_id): queue for queue in queues}
        room = asyncio.Semaphore(TRANSFERS_AT_ONCE)

        async def move_one(group_id: int, target: str) -> None:
            async with room:
                await move(service, by_group[group_id], target)

        planned = moves(members.led(queues, await leaders_of(service, queues)), members.running())
        await asyncio.gather(*(move_one(group_id, target) for group_id, target in planned))
    finally:
        service.rebalancing = False
    counts = dict.fromkeys(members.running(), 0)
    for led in members.led(queues, await leaders_of(service, queues)):
        counts[led.leader] = counts.get(led.leader, 0) + 1
    return [LeaderCount(node=node, queues=count) for node, count in counts.items()]


@operation(MONITORING)
async def quorum_status(
    service: AdminService, caller: Caller, *, vhost: str, queue: str
) -> list[MemberStatus]:
    """Show how far each copy of a queue is; the nodes that have them are asked.

    Raises:
        Refusal: There is no such quorum queue.
    """
    record = quorum_queue(service.machine, vhost, queue)
    members = service.members
    running = members.running()
    number = members.ask(record)
    awaited = [row.node for row in record.members if row.node in running]
    try:
        told = members.told(number)
        await until(lambda: all(node in told for node in awaited), STATUS_SECONDS)
    finally:
        told = members.forget(number)
    voting = members.voting(record)
    rows = []
    for row in sorted(record.members, key=lambda row: row.node):
        silent = Standing("timeout" if row.node in running else "nodedown", [])
        membership: Membership = "non_voter"
        if row.node in voting:
            membership = "voter"
        elif row.voter:
            membership = "promotable"
        rows.append(member_status(row.node, membership, told.get(row.node, silent)))
    return rows


def member_status(node: str, membership: Membership, standing: Standing) -> MemberStatus:
    """The row of one copy."""
    last, written, applied, commit, snapshot, term, version = standing.numbers or UNKNOWN_NUMBERS
    return MemberStatus(
        node_name=node,
        raft_state=standing.state,
        membership=membership,
        last_log_index=last,
        last_written=written,
        last_applied=applied,
        commit_index=commit,
        snapshot_index=snapshot,
        term=term,
        machine_version=version,
    )


async def move(service: AdminService, queue: QueueRecord, target: str) -> bool:
    """Hand the lead of a queue over; whether that came about."""
    members = service.members
    loop = asyncio.get_running_loop()
    over = loop.time() + TRANSFER_SECONDS
    while loop.time() < over and not is_gone(service, queue):
        # Where no copy is here, to hear who leads, before and after.
        service.host.guarded(lambda: members.listen(queue))
        asked = members.leader(queue) != ""
        service.host.guarded(lambda: members.transfer(int(queue.group_id), target))
        service.host.after_event()
        again = loop.time() + ASK_AGAIN_SECONDS
        while loop.time() < again and (asked or not members.leader(queue)):
            if members.leader(queue) == target and await leads(service, queue, target):
                return True
            await asyncio.sleep(POLL_SECONDS)
    return False


async def leads(service: AdminService, queue: QueueRecord, target: str) -> bool:
    """Whether a node leads a queue by what a majority of its members say.

    What this node has heard may be of before.
    """
    members = service.members
    number = members.ask(queue)
    service.host.after_event()
    try:
        await until(lambda: members.leader_told(queue, number) != "", ASK_AGAIN_SECONDS)
        return members.leader_told(queue, number) == target
    finally:
        members.forget(number)
