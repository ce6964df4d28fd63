"""Members of quorum queues: of one queue, or of all those that names match.

Source: MEM-02 to MEM-09; `rabbitmq-queues` of RabbitMQ 4.3.
"""

from __future__ import annotations

import collections
import logging
from typing import Literal

from warren.admin.service.caller import Caller
from warren.admin.service.changes import change_members
from warren.admin.service.operation import operation
from warren.admin.service.rows import MemberChange, Membership, MemberState
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.sought import pattern
from warren.errors import PRECONDITION_FAILED, TIMED_OUT, Refusal
from warren.metadata import member_checks
from warren.metadata.commands import SetMembers
from warren.metadata.machine import MetadataMachine
from warren.metadata.member_checks import check_node, majority_lost, quorum_queue, voters
from warren.metadata.spread import Spread
from warren.metadata.tables import QueueRecord

log = logging.getLogger("warren")

Strategy = Literal["all", "even"]
"""Which queues grow: all, or those with an even number of members."""


@operation()
async def add_member(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    queue: str,
    node: str,
    membership: Membership = "promotable",
) -> MemberState:
    """Have a node hold a queue and vote (MEM-02).

    Raises:
        Refusal: It cannot be; or `TIMED_OUT`, where that is not known.
    """
    await service.catch_up()
    record = named(service.machine, vhost, queue, node)
    service.check_running(node)
    votes = membership != "non_voter"
    if node in voters(record):
        return MemberState(changed=False, votes=True)
    if not votes and record.member_on(node) is not None:
        return MemberState(changed=False, votes=False)
    (row,) = await change_members(
        service,
        [record],
        lambda queue: member_checks.add_member(
            queue, node, service.node.placing.new_group(), votes
        ),
        membership == "promotable",
    )
    check_row(row)
    return MemberState(changed=True, votes=votes, later=row.result == "later")


@operation()
async def delete_member(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    queue: str,
    node: str,
    force: bool = False,
) -> MemberState:
    """Have a node vote no more in a queue (MEM-03).

    Args:
        force: Even where the queue loses its quorum by it.

    Raises:
        Refusal: It cannot be; or `TIMED_OUT`, where that is not known.
    """
    await service.catch_up()
    record = named(service.machine, vhost, queue, node)
    if record.member_on(node) is None:
        return MemberState(changed=False, votes=False)
    (row,) = await change_members(
        service,
        [record],
        lambda queue: deleted(service, queue, node, force),
    )
    check_row(row)
    return MemberState(changed=True, votes=False)


@operation()
async def grow(
    service: AdminService,
    caller: Caller,
    *,
    node: str,
    strategy: Strategy = "all",
    vhost_pattern: str = ".*",
    queue_pattern: str = ".*",
    membership: Membership = "promotable",
) -> list[MemberChange]:
    """Add members on a node to many queues (MEM-04).

    Raises:
        Refusal: Of none of them can anything be changed.
    """
    await service.catch_up()
    check_node(service.machine, node)
    service.check_running(node)
    votes = membership != "non_voter"
    found = await Slices().those(
        await matching(service, vhost_pattern, queue_pattern),
        lambda queue: node not in holders(queue, votes) and fits(queue, strategy),
    )
    return await change_members(
        service,
        found,
        lambda queue: member_checks.add_member(
            queue, node, service.node.placing.new_group(), votes
        ),
        membership == "promotable",
    )


@operation()
async def grow_to_count(
    service: AdminService,
    caller: Caller,
    *,
    count: int,
    strategy: Strategy = "all",
    vhost_pattern: str = ".*",
    queue_pattern: str = ".*",
    membership: Membership = "promotable",
) -> list[MemberChange]:
    """Add members until queues have so many, or as many as there are nodes that run.

    One member of each queue after the other; a queue with which something goes wrong is left.

    Raises:
        Refusal: Of none of them can anything be changed.
    """
    if count < 1:
        raise Refusal(PRECONDITION_FAILED, "a queue has one member at least")
    await service.catch_up()
    votes = membership != "non_voter"
    rows: list[MemberChange] = []
    wrong: set[QueueRecord] = set()

    def free(queue: QueueRecord) -> list[str]:
        """Nodes that run and could take a member of a queue."""
        held = holders(queue, votes)
        return [node for node in service.members.running() if node not in held]

    while True:
        found = await Slices().those(
            await matching(service, vhost_pattern, queue_pattern),
            lambda queue: (
                queue not in wrong
                and len(holders(queue, votes)) < count
                and fits(queue, strategy)
                and free(queue)
            ),
        )
        if not found:
            return rows
        load: collections.Counter[str] = collections.Counter()
        slices = Slices()
        for queue in service.members.queues():
            load.update(holders(queue, votes))
            await slices.breathe()

        def added(queue: QueueRecord, load: collections.Counter[str] = load) -> SetMembers:
            spread = Spread(service.machine.nodes, holders(queue, votes))
            node = min(spread.best(free(queue)), key=lambda name: (load[name], name))
            load[node] += 1
            command = member_checks.add_member(queue, node, service.node.placing.new_group(), votes)
            assert command is not None, "a free node has no member"
            return command

        done = await change_members(service, found, added, membership == "promotable")
        rows += done
        wrong.update(queue for queue, row in zip(found, done, strict=True) if row.result != "ok")


@operation()
async def shrink(
    service: AdminService, caller: Caller, *, node: str, force: bool = False
) -> list[MemberChange]:
    """Remove all members on a node (MEM-05).

    Args:
        force: Even where a queue loses its quorum by it.

    Raises:
        Refusal: Of none of them can anything be changed.
    """
    await service.catch_up()
    check_node(service.machine, node)
    found = await Slices().those(
        service.members.queues(), lambda queue: queue.member_on(node) is not None
    )
    return await change_members(
        service,
        found,
        lambda queue: deleted(service, queue, node, force),
    )


def deleted(service: AdminService, queue: QueueRecord, node: str, force: bool) -> SetMembers | None:
    """The command that removes a member; the log says so where a quorum is lost by force.

    Raises:
        Refusal: It is needed, and is not to go by force.
    """
    running = service.members.running()
    command = member_checks.delete_member(queue, node, running, force)
    lost = "" if command is None else majority_lost(queue, node, running)
    if lost:
        log.warning(
            "%s loses its member on node %s by force, and has no leader until more of its members "
            "run: %s",
            title(queue.vhost, queue.name),
            node,
            lost,
        )
    return command


def named(machine: MetadataMachine, vhost: str, queue: str, node: str) -> QueueRecord:
    """The quorum queue that an operation names, together with a node.

    Raises:
        Refusal: There is no such queue, or no such node.
    """
    record = quorum_queue(machine, vhost, queue)
    check_node(machine, node)
    return record


async def matching(
    service: AdminService, vhost_pattern: str, queue_pattern: str
) -> list[QueueRecord]:
    """The quorum queues whose names and vhosts match.

    Raises:
        Refusal: A pattern is no regular expression, or takes too much.
    """
    vhosts, names = pattern(vhost_pattern), pattern(queue_pattern)
    return await Slices().those(
        service.members.queues(),
        lambda queue: vhosts.found_in(queue.vhost) and names.found_in(queue.name),
    )


def holders(queue: QueueRecord, votes: bool) -> list[str]:
    """The nodes with members of a kind: those that vote, or all."""
    return voters(queue) if votes else [row.node for row in queue.members]


def fits(queue: QueueRecord, strategy: Strategy) -> bool:
    """Whether a strategy is for queues with as many members as this one."""
    return strategy == "all" or len(voters(queue)) % 2 == 0


def check_row(row: MemberChange) -> None:
    """Refuse where the change of one queue has not come about.

    Raises:
        Refusal: As the row says.
    """
    if not row.ok:
        kind = TIMED_OUT if row.result == "unknown" else PRECONDITION_FAILED
        raise Refusal(kind, f"{title(row.vhost, row.name)}: {row.problem}")


def title(vhost: str, queue: str) -> str:
    """What refusals call a queue."""
    return f"queue '{queue}' in vhost '{vhost}'"
