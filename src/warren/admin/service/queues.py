"""What queues there are, as one node knows them.

However many there are, clients wait for a slice of a few milliseconds only, and no more than a part
of the list is in memory: who asks takes the next part when there is room for it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from warren.admin.service.caller import MONITORING, Caller
from warren.admin.service.inquiries import leaders_of
from warren.admin.service.operation import operation
from warren.admin.service.rows import QueueRow
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.errors import NOT_FOUND, Refusal
from warren.metadata.policies import names_of
from warren.metadata.tables import QueueRecord, VhostRecord

PART_ROWS = 1_000
"""Rows of a part of the list: some 200 KB."""


@operation(MONITORING)
async def list_queues(
    service: AdminService, caller: Caller, *, vhost: str = "", own: bool = False
) -> AsyncGenerator[list[QueueRow], None]:
    """List queues, in parts, some of which may be empty.

    Args:
        vhost: Only those of this one; empty for all.
        own: Only those whose messages this node can count.

    Raises:
        Refusal: There is no such vhost.
    """
    machine = service.machine
    if vhost and vhost not in machine.vhosts:
        raise Refusal(NOT_FOUND, f"vhost '{vhost}' does not exist")
    part: list[QueueRecord] = []
    slices = Slices()
    for name, tables in list(machine.vhosts.items()):
        if vhost not in ("", name):
            continue
        # Queues may come and go between two slices.
        for queue in tables.queues_in_order():
            await slices.breathe()
            part.append(queue)
            if len(part) >= PART_ROWS:
                yield await queue_rows(service, part, own)
                part = []
    yield await queue_rows(service, part, own)


async def queue_rows(
    service: AdminService, records: list[QueueRecord], own: bool
) -> list[QueueRow]:
    """The rows of some queues, without those that are gone by now.

    Args:
        own: Only of those whose messages this node can count; others are asked of none.
    """
    replicated = [record for record in records if record.type.replicated]
    leaders = {} if own else await leaders_of(service, replicated)
    running = frozenset(service.members.running())
    rows: list[QueueRow] = []
    slices = Slices()
    for record in records:
        await slices.breathe()
        tables = service.machine.vhosts.get(record.vhost)
        if tables is None or tables.queues.get(record.name) is not record:
            continue
        row = queue_row(service, tables, record, leaders, running)
        if not own or row.messages_ready is not None:
            rows.append(row)
    return rows


def queue_row(
    service: AdminService,
    tables: VhostRecord,
    record: QueueRecord,
    leaders: dict[int, str],
    running: frozenset[str],
) -> QueueRow:
    """The row of one queue; what it holds is None where only another node knows it.

    Args:
        leaders: The nodes that lead quorum queues, by group, as far as they are known.
        running: The nodes that are up, as far as this one knows.
    """
    replicated = record.type.replicated
    policy, operator_policy = names_of(tables, record)
    queue = service.node.queues.find(record.vhost, record.name)
    counts = None if queue is None else queue.counts()
    if replicated:
        leader = leaders.get(int(record.group_id)) or service.members.leader(record)
    else:
        leader = home(service, record)
    return QueueRow(
        vhost=record.vhost,
        name=record.name,
        type=record.kind,
        messages_ready=None if counts is None else int(counts.ready),
        messages_unacknowledged=None if counts is None else int(counts.held),
        consumers=None if counts is None else int(counts.consumers),
        leader=leader,
        members=[member.node for member in record.members],
        online=[member.node for member in record.members if member.node in running],
        learners=[member.node for member in record.members if not member.voter],
        policy=policy,
        operator_policy=operator_policy,
        messages_dlx=None if counts is None else int(counts.dead),
        messages_delayed=None if counts is None else int(counts.delayed),
    )


def home(service: AdminService, record: QueueRecord) -> str:
    """The node that a classic queue is on, if that runs."""
    down = record.node != service.own_name and (
        service.node.cluster.detector.suspected(record.node)
    )
    return "" if down else record.node
