"""What long lists of queues are sorted by, without looking at each queue in full.

Lengths are counted by compiled code, in stretches. For any other figure only the queues in use have
to be looked at: it is the same of all that are idle.
"""

from __future__ import annotations

from array import array
from bisect import bisect
from typing import Any, Final, Literal, NamedTuple

import msgspec

from warren.admin.service.caller import MANAGEMENT, Caller, vhosts_of
from warren.admin.service.details import chosen_queues
from warren.admin.service.operation import operation
from warren.admin.service.queue_order import QueueName
from warren.admin.service.queues import PART_ROWS, counted, queue_rows
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.metadata.tables import QueueRecord, VhostRecord
from warren.node import queue_tally

LengthColumn = Literal["messages", "messages_ready", "messages_unacknowledged", "consumers"]
"""What is counted of a queue without looking at more of it."""
COLUMNS: Final[dict[LengthColumn, int]] = {
    "messages": queue_tally.READY_AND_HELD,
    "messages_ready": queue_tally.READY,
    "messages_unacknowledged": queue_tally.HELD,
    "consumers": queue_tally.CONSUMERS,
}

Ranked = tuple[Any, int]
"""What a queue is sorted by, and its place in the list by name."""


class QueueLengths(msgspec.Struct, kw_only=True):
    """How long some queues are.

    Attributes:
        names: Those queues, by vhost and name, in order.
        lengths: Of each; None where no node could say.
    """

    names: list[QueueName]
    lengths: list[int | None]


class QueuesInUse(msgspec.Struct, kw_only=True):
    """Which of some queues are in use.

    Attributes:
        names: Those queues, by vhost and name, in order.
        used: The places in `names` of those that hold or ever had messages, or have consumers.
    """

    names: list[QueueName]
    used: list[int]


class QueuesInOrder(NamedTuple):
    """Some queues in the order of what they are sorted by.

    Attributes:
        names: Those queues, by vhost and name, in order.
        places: Their places in `names`, in the order that is wanted.
    """

    names: list[QueueName]
    places: array[int]


class QueuesSeen(msgspec.Struct, kw_only=True):
    """What a list of queues is of.

    Attributes:
        vhosts: The vhosts that the caller may enter, by name.
        count: How many queues are there.
    """

    vhosts: list[str]
    count: int


@operation(MANAGEMENT)
async def queues_seen(
    service: AdminService, caller: Caller, *, vhost: str | None = None
) -> QueuesSeen:
    """Show how many queues the caller sees, without a look at any.

    Args:
        vhost: Of this one; None for all that the caller may enter.

    Raises:
        Refusal: There is no such vhost, or none for this user.
    """
    vhosts = vhosts_of(service.machine, caller, vhost)
    return QueuesSeen(
        vhosts=[tables.name for tables in vhosts],
        count=sum(int(tables.queues_of_clients()) for tables in vhosts),
    )


@operation(MANAGEMENT)
async def queue_lengths(
    service: AdminService,
    caller: Caller,
    *,
    column: LengthColumn,
    vhost: str | None = None,
    name: str = "",
    use_regex: bool = False,
) -> QueueLengths:
    """Show how long queues are.

    Args:
        column: What is counted.
        vhost: Of this one; None for all that the caller may enter.
        name: Only those whose names have this in them.
        use_regex: Whether that is a regular expression.

    Raises:
        Refusal: There is no such vhost, or none for this user.
    """
    vhosts = vhosts_of(service.machine, caller, vhost)
    records, names = await _fitting(service, vhosts, name, use_regex)
    found = QueueLengths(names=names, lengths=[])
    elsewhere: list[int] = []
    slices = Slices()
    async for at, end in slices.stretches(len(records)):
        lengths = queue_tally.lengths(service.node, records, at, end, COLUMNS[column])
        if queue_tally.ELSEWHERE in lengths:
            elsewhere += [
                at + place for place, n in enumerate(lengths) if n == queue_tally.ELSEWHERE
            ]
        found.lengths += lengths
    for at in range(0, len(elsewhere), PART_ROWS):
        places = {
            (records[place].vhost, records[place].name): place
            for place in elsewhere[at : at + PART_ROWS]
        }
        for place in places.values():
            found.lengths[place] = None
        rows = await queue_rows(service, [records[place] for place in places.values()], False)
        for row in await counted(service, rows, True):
            if row.messages_ready is not None and row.messages_unacknowledged is not None:
                found.lengths[places[row.vhost, row.name]] = _length(
                    column, row.messages_ready, row.messages_unacknowledged, row.consumers or 0
                )
    return found


def _length(column: LengthColumn, ready: int, held: int, consumers: int) -> int:
    if column == "messages":
        return ready + held
    if column == "messages_ready":
        return ready
    return held if column == "messages_unacknowledged" else consumers


@operation(MANAGEMENT)
async def queues_in_use(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str | None = None,
    name: str = "",
    use_regex: bool = False,
) -> QueuesInUse:
    """Show which queues are in use, as far as this node knows; one that it does not know is.

    Args:
        vhost: Of this one; None for all that the caller may enter.
        name: Only those whose names have this in them.
        use_regex: Whether that is a regular expression.

    Raises:
        Refusal: There is no such vhost, or none for this user.
    """
    vhosts = vhosts_of(service.machine, caller, vhost)
    records, names = await _fitting(service, vhosts, name, use_regex)
    found = QueuesInUse(names=names, used=[])
    slices = Slices()
    async for at, end in slices.stretches(len(records)):
        found.used += queue_tally.places_in_use(service.node, records, at, end)
    return found


async def _fitting(
    service: AdminService, vhosts: list[VhostRecord], name: str, use_regex: bool
) -> tuple[list[QueueRecord], list[QueueName]]:
    """The queues of some vhosts that fit, in the order of lists, and their names; only to read."""
    if len(vhosts) == 1 and not name:
        order = await service.queue_order.with_names(service.machine, vhosts[0])
        return order.records, order.names
    records: list[QueueRecord] = []
    names: list[QueueName] = []
    slices = Slices()
    for found in (await chosen_queues(service, vhosts, name, use_regex))[0]:
        async for at, end in slices.stretches(len(found)):
            records += found[at:end]
            names += [(record.vhost, record.name) for record in found[at:end]]
    return records, names


async def in_order(ranked: list[Ranked], idle: list[int], rank: Any, reverse: bool) -> array[int]:
    """Places of queues in the order of what they are sorted by; equal ones stay in order.

    Args:
        ranked: Queues with what they are sorted by, in order.
        idle: Places of queues that all have `rank`, in order.
        reverse: Whether the last come first.
    """
    places = array("L")
    equal: list[int] = []
    given = not idle
    async for each, place in Slices().in_order(ranked, _rank, reverse):
        if not given:
            if each == rank:
                equal.append(place)
                continue
            if each < rank if reverse else each > rank:
                given = True
                await _merge(places, idle, equal)
        places.append(place)
    if not given:
        await _merge(places, idle, equal)
    return places


async def _merge(places: array[int], idle: list[int], equal: list[int]) -> None:
    """Add two lists of places, each in order, as one that is in order."""
    taken = 0
    slices = Slices()
    async for at, end in slices.stretches(len(idle)):
        part = idle[at:end]
        below = bisect(equal, part[-1], taken)
        places.extend(sorted([*part, *equal[taken:below]]))
        taken = below
    async for at, end in slices.stretches(len(equal)):
        places.extend(equal[max(at, taken) : end])


def _rank(ranked: Ranked) -> Any:
    return ranked[0]
