"""What queues there are, as one node knows them.

However many there are, clients wait for a slice of a few milliseconds only, and no more than a part
of the list is in memory: who asks takes the next part when there is room for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from warren.admin.service.caller import MANAGEMENT, MONITORING, Caller, visible
from warren.admin.service.everywhere import ask_all
from warren.admin.service.inquiries import leaders_of
from warren.admin.service.operation import operation
from warren.admin.service.rows import QueueRow
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.errors import NOT_FOUND, Refusal
from warren.metadata.plain_tables import plain
from warren.metadata.policies import (
    EffectiveSettings,
    names_of,
    operator_policy_of,
    policy_of,
)
from warren.metadata.policy_keys import BY_NAME
from warren.metadata.tables import NO_OWNER, QueueRecord, VhostRecord
from warren.queues.queue import Counts

PART_ROWS = 1_000
"""Rows of a part of the list: some 200 KB."""


@operation(MANAGEMENT)
async def list_queues(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str = "",
    own: bool = False,
    everywhere: bool = False,
) -> AsyncGenerator[list[QueueRow], None]:
    """List queues, in parts, some of which may be empty.

    Args:
        vhost: Only those of this one; empty for all that the caller may see.
        own: Only those whose messages this node can count.
        everywhere: Whether other nodes are asked for what this one cannot count.

    Raises:
        Refusal: There is no such vhost, or the caller may not see it.
    """
    if vhost and vhost not in service.machine.vhosts:
        raise Refusal(NOT_FOUND, f"vhost '{vhost}' does not exist")
    part: list[QueueRecord] = []
    slices = Slices()
    for tables in visible(service.machine, caller, vhost):
        # Queues may come and go between two slices.
        for queue in tables.queues_in_order():
            await slices.breathe()
            part.append(queue)
            if len(part) >= PART_ROWS:
                yield await counted(service, await queue_rows(service, part, own), everywhere)
                part = []
    yield await counted(service, await queue_rows(service, part, own), everywhere)


@operation(MONITORING)
async def count_queues(
    service: AdminService, caller: Caller, *, queues: list[tuple[str, str]]
) -> list[QueueRow]:
    """List some queues by vhost and name: those whose messages this node can count."""
    found = [service.machine.queue(vhost, name) for vhost, name in queues]
    return await queue_rows(service, [queue for queue in found if queue is not None], True)


async def counted(service: AdminService, rows: list[QueueRow], everywhere: bool) -> list[QueueRow]:
    """Rows, where wanted with what only the nodes know that lead the queues."""
    if not everywhere:
        return rows
    lacking: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        if row.messages_ready is None and row.leader:
            lacking.setdefault(row.leader, []).append((row.vhost, row.name))
    told: dict[tuple[str, str], QueueRow] = {}

    async def ask(node: str, queues: list[tuple[str, str]]) -> None:
        answers = await ask_all(service, [node], "count_queues", {"queues": queues}, list[QueueRow])
        for found in answers.by_node.values():
            told.update({(row.vhost, row.name): row for row in found})

    lacking.pop(service.own_name, None)
    await asyncio.gather(*(ask(node, queues) for node, queues in lacking.items()))
    return [told.get((row.vhost, row.name), row) for row in rows]


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
        durable=record.durable,
        auto_delete=record.auto_delete,
        exclusive=record.exclusive_owner != NO_OWNER,
        arguments=plain(record.arguments),
        effective_policy_definition=effective_definition(tables, record),
        state=state_of(leader, replicated),
        message_bytes=None if counts is None else int(counts.bytes),
        message_bytes_ready=None if counts is None else int(counts.ready_bytes),
        messages_persistent=known(counts, "persistent"),
        message_bytes_persistent=known(counts, "persistent_bytes"),
        messages_ram=known(counts, "resident"),
        message_bytes_ram=known(counts, "resident_bytes"),
    )


def known(counts: Counts | None, name: str) -> int | None:
    """A figure of a queue; None where it was not counted."""
    figure = -1 if counts is None else int(getattr(counts, name))
    return None if figure < 0 else figure


def home(service: AdminService, record: QueueRecord) -> str:
    """The node that a classic queue is on, if that runs."""
    down = record.node != service.own_name and (
        service.node.cluster.detector.suspected(record.node)
    )
    return "" if down else record.node


def state_of(leader: str, replicated: bool) -> str:
    """How a queue is, in RabbitMQ's words."""
    if leader:
        return "running"
    return "minority" if replicated else "down"


def effective_definition(tables: VhostRecord, record: QueueRecord) -> dict[str, Any]:
    """What the policies of a queue say together, by key."""
    names = [
        policy.definition
        for policy in (
            policy_of(tables, record.name, record.kind),
            operator_policy_of(tables, record.name, record.kind),
        )
        if policy is not None
    ]
    if not names:
        return {}
    settings = EffectiveSettings(tables, record.name, record.kind)
    keys = sorted({key for definition in names for key in definition if key in BY_NAME})
    return {key: settings.by_policy(key) for key in keys}
