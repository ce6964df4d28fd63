"""What the clients of each node did, and what all nodes of the cluster come to together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from warren.admin.service.caller import MONITORING, Caller
from warren.admin.service.everywhere import ask_all, others
from warren.admin.service.history import SampleRange, Values
from warren.admin.service.operation import operation
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.statistics import (
    CHURN,
    LENGTHS,
    NO_LENGTH_RATES,
    NODE_GAUGES,
    TOTAL,
    VHOST_COUNTERS,
    VHOST_NO_RATES,
    VHOST_NOTHING,
    churn_of,
    published_of,
    served_of,
)
from warren.node.queue_tally import QueueTally

Number = TypeVar("Number", int, float)


class NodeFigures(msgspec.Struct, kw_only=True):
    """What one node counts, or some nodes together.

    Attributes:
        ready, unacknowledged, consumers: Of the queues that it leads.
        connections, channels: Of clients that are in a vhost.
        counters, rates: In the order of `VHOST_COUNTERS`.
        length_rates: In the order of `LENGTHS`.
        churn, churn_rates: In the order of `CHURN`.
        gauge_rates: In the order of `NODE_GAUGES`.
        samples: For each span that was asked for, from the oldest on: counters, lengths, churn and
            gauges.
    """

    ready: int = 0
    unacknowledged: int = 0
    consumers: int = 0
    connections: int = 0
    channels: int = 0
    counters: tuple[int, ...] = VHOST_NOTHING
    rates: tuple[float, ...] = VHOST_NO_RATES
    length_rates: tuple[float, ...] = NO_LENGTH_RATES
    churn: tuple[int, ...] = (0,) * len(CHURN)
    churn_rates: tuple[float, ...] = (0.0,) * len(CHURN)
    gauge_rates: tuple[float, ...] = (0.0,) * len(NODE_GAUGES)
    samples: list[list[Values]] = []


@operation(MONITORING)
async def node_figures(
    service: AdminService,
    caller: Caller,
    *,
    spans: list[SampleRange] = [],  # noqa: B006 - it is read only
) -> NodeFigures:
    """Show what the clients of this node did, in all vhosts.

    Args:
        spans: Moments at which samples are wanted.
    """
    return await own_figures(service, spans)


async def own_figures(service: AdminService, spans: list[SampleRange]) -> NodeFigures:
    """The same, for what authorises its callers by itself."""
    node, statistics = service.node, service.statistics
    found = NodeFigures(
        counters=published_of(node) + served_of(node.traffic),
        rates=statistics.total.rates,
        length_rates=statistics.total.length_rates,
        churn=churn_of(node.traffic),
        churn_rates=statistics.churn.rates,
        gauge_rates=statistics.gauges.rates,
    )
    tally = await tally_of(service, list(node.queues.vhosts))
    found.ready, found.unacknowledged = int(tally.ready), int(tally.held)
    found.consumers = int(tally.consumers)
    found.connections, found.channels = await clients_of(service, None)
    if spans:
        seen = statistics.of_node()
        statistics.node_samples.wanted(TOTAL, statistics.moment, seen)
        found.samples = [statistics.node_samples.at(TOTAL, span, seen) for span in spans]
    return found


async def tally_of(service: AdminService, vhosts: Iterable[str], delays: bool = True) -> QueueTally:
    """What the queues of some vhosts hold together that this node leads.

    Args:
        delays: Whether those count, too, in which exchanges keep messages that wait.
    """
    found = [service.node.queues.vhosts.get(name) for name in vhosts]
    here = [each for each in found if each is not None]

    async def find() -> QueueTally:
        tally = QueueTally(service.node)
        slices = Slices()
        for each in here:
            for queues in each.queues.lots():
                async for at, end in slices.stretches(len(queues)):
                    tally.add(queues, at, end, delays)
        return tally

    key = ("tally", tuple(each.name for each in here), delays)
    return await service.kept.get(key, sum(len(each.queues) for each in here), find)


async def clients_of(service: AdminService, vhosts: frozenset[str] | None) -> tuple[int, int]:
    """How many connections to this node there are, and how many channels they have.

    Args:
        vhosts: Only those that are in one of these; None for all that are in a vhost.
    """
    here = list(service.node.connections.values())

    async def find() -> tuple[int, int]:
        connections = channels = 0
        slices = Slices()
        for connection in here:
            await slices.breathe()
            if connection.vhost and (vhosts is None or connection.vhost in vhosts):
                connections += 1
                channels += len(connection.channel_numbers())
        return connections, channels

    return await service.kept.get(("clients", vhosts), len(here), find)


@operation()
async def reset_samples(service: AdminService, caller: Caller) -> None:
    """Forget all samples of this node."""
    service.statistics.forget()


@operation()
async def reset_all_samples(service: AdminService, caller: Caller) -> None:
    """Forget all samples of all nodes of the cluster that run."""
    service.statistics.forget()
    await ask_all(service, others(service), "reset_samples", {}, None)


async def figures_by_node(
    service: AdminService, spans: list[SampleRange]
) -> dict[str, NodeFigures]:
    """The same of all nodes of the cluster, without those that do not answer."""
    own = await own_figures(service, spans)
    asked = {"spans": spans}
    answers = await ask_all(service, others(service), "node_figures", asked, NodeFigures)
    return {service.own_name: own, **answers.by_node}


async def cluster_figures(service: AdminService, spans: list[SampleRange]) -> NodeFigures:
    """The same of all nodes of the cluster together."""
    return together(list((await figures_by_node(service, spans)).values()), spans)


def together(every: list[NodeFigures], spans: list[SampleRange]) -> NodeFigures:
    """What some nodes come to, of which each has samples of the same moments."""
    if len(every) == 1:
        return every[0]
    columns = len(VHOST_COUNTERS) + len(LENGTHS) + len(CHURN) + len(NODE_GAUGES)
    return NodeFigures(
        ready=sum(each.ready for each in every),
        unacknowledged=sum(each.unacknowledged for each in every),
        consumers=sum(each.consumers for each in every),
        connections=sum(each.connections for each in every),
        channels=sum(each.channels for each in every),
        counters=summed(VHOST_NOTHING, [each.counters for each in every]),
        rates=summed(VHOST_NO_RATES, [each.rates for each in every]),
        length_rates=summed(NO_LENGTH_RATES, [each.length_rates for each in every]),
        churn=summed((0,) * len(CHURN), [each.churn for each in every]),
        churn_rates=summed((0.0,) * len(CHURN), [each.churn_rates for each in every]),
        samples=[
            [
                summed((0,) * columns, [*rows])
                for rows in zip(*(each.samples[place] for each in every), strict=True)
            ]
            for place in range(len(spans))
        ],
    )


def summed(none: tuple[Number, ...], rows: list[tuple[Number, ...]]) -> tuple[Number, ...]:
    """The sums of columns, of which there are as many as in `none`."""
    return tuple(sum(column) for column in zip(none, *rows, strict=True))
