"""What one node asks others about quorum queues that it does not hold, for operators."""

from __future__ import annotations

from collections.abc import Sequence

from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.waiting import until
from warren.metadata.tables import QueueRecord

STATUS_SECONDS = 2.0
"""For other nodes to say what they know."""
QUEUES_AT_ONCE = 1_000
TURNS = 3
"""How many members of a queue are asked, one after the other, who leads it."""


async def leaders_of(service: AdminService, queues: Sequence[QueueRecord]) -> dict[int, str]:
    """The nodes that lead quorum queues, by group; without those of which no leader is known.

    Members are asked of queues that this node does not hold, or not yet.
    """
    members = service.members
    leaders: dict[int, str] = {}
    unknown: list[QueueRecord] = []
    slices = Slices()
    for queue in queues:
        leader = members.leader(queue)
        if leader:
            leaders[int(queue.group_id)] = leader
        elif not members.holds(queue):
            unknown.append(queue)
        await slices.breathe()
    for at in range(0, len(unknown), QUEUES_AT_ONCE):
        leaders.update(await _inquire(service, unknown[at : at + QUEUES_AT_ONCE]))
    return leaders


async def _inquire(service: AdminService, queues: list[QueueRecord]) -> dict[int, str]:
    """Who leads queues, as their members say."""
    members = service.members
    leaders: dict[int, str] = {}
    for turn in range(TURNS):
        if not queues:
            break
        number = members.inquire(queues, turn)
        service.host.after_event()
        inquiry = members.inquired(number)
        try:
            await until(inquiry.over, STATUS_SECONDS)
        finally:
            members.end_inquiry(number)
        leaders.update(inquiry.leaders)
        queues = [queue for queue in queues if int(queue.group_id) not in leaders]
    return leaders
