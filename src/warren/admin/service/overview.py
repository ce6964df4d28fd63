"""What a node's cluster is and has, in one look: what the HTTP API's overview shows."""

from __future__ import annotations

from typing import Final

import msgspec

from warren.admin.service.caller import MANAGEMENT, MONITORING, Caller, sees_all, vhosts_of
from warren.admin.service.everywhere import ask_all, others
from warren.admin.service.history import SampleRange
from warren.admin.service.node_figures import (
    NodeFigures,
    clients_of,
    cluster_figures,
    summed,
    tally_of,
    together,
)
from warren.admin.service.operation import operation
from warren.admin.service.rows import ExchangeTypeRow, Listener
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.statistics import (
    CHURN,
    LENGTHS,
    NO_LENGTH_RATES,
    NODE_GAUGES,
    VHOST_NO_RATES,
    VHOST_NOTHING,
)
from warren.admin.service.status import cluster_name
from warren.queue_types import DEFAULT
from warren.routing.exchange_types import EXCHANGE_TYPES

DESCRIPTIONS: Final = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "x-local-random": "Picks one random local binding (queue) to route via (to).",
    "x-modulus-hash": "Modulus Hashing Exchange",
    "x-consistent-hash": "Consistent Hashing Exchange",
    "x-random": "Picks one random binding (queue) to route via (to).",
    "x-recent-history": "Recent History Exchange",
    "x-delayed-message": "Delayed Message Exchange.",
}
"""Exchange types in RabbitMQ's words."""


class Overview(msgspec.Struct, kw_only=True):
    """What the cluster has, as one node knows it.

    Attributes:
        version: Of Warren.
        node: The node that answers.
        cluster: The cluster's name.
        default_queue_type: The type of queues that are declared without one.
        exchange_types: Those that exchanges can be declared with.
        listeners: Of the node that answers.
        queues, exchanges: How many there are of those that the caller sees.
        figures: Of all nodes; for those who do not see all, of the vhosts that they may enter.
    """

    version: str
    node: str
    cluster: str
    default_queue_type: str
    exchange_types: list[ExchangeTypeRow]
    listeners: list[Listener]
    queues: int
    exchanges: int
    figures: NodeFigures


@operation(MANAGEMENT)
async def overview(
    service: AdminService,
    caller: Caller,
    *,
    spans: list[SampleRange] = [],  # noqa: B006 - it is read only
) -> Overview:
    """Show what the cluster has; of what is in vhosts, of those that the caller may enter.

    Args:
        spans: Moments at which samples are wanted.
    """
    vhosts = vhosts_of(service.machine, caller)
    process = service.host.state()
    if sees_all(caller):
        vhosts = list(service.machine.vhosts.values())
        figures = await cluster_figures(service, spans)
    else:
        figures = await _together(service, [tables.name for tables in vhosts], spans)
    return Overview(
        version=process.version,
        node=service.own_name,
        cluster=cluster_name(service),
        default_queue_type=service.node.settings.default_queue_type or DEFAULT.name,
        exchange_types=exchange_types(),
        listeners=process.addresses,
        queues=sum(int(tables.queues_of_clients()) for tables in vhosts),
        exchanges=sum(len(tables.exchanges) for tables in vhosts),
        figures=figures,
    )


@operation(MONITORING)
async def figures_of_vhosts(
    service: AdminService,
    caller: Caller,
    *,
    vhosts: list[str],
    spans: list[SampleRange] = [],  # noqa: B006 - it is read only
) -> NodeFigures:
    """Show what the clients of this node did in some vhosts, without what comes and goes.

    Args:
        spans: Moments at which samples are wanted.
    """
    return await _figures(service, set(vhosts), spans)


async def _together(
    service: AdminService, vhosts: list[str], spans: list[SampleRange]
) -> NodeFigures:
    """The same of all nodes."""
    own = await _figures(service, set(vhosts), spans)
    asked = {"vhosts": vhosts, "spans": spans}
    answers = await ask_all(service, others(service), figures_of_vhosts.name, asked, NodeFigures)
    return together([own, *answers.by_node.values()], spans)


async def _figures(service: AdminService, names: set[str], spans: list[SampleRange]) -> NodeFigures:
    """What this node counts in some vhosts."""
    statistics = service.statistics
    every = [statistics.of_vhost(name) for name in names]
    seen = [each for each in every if each is not None]
    found = NodeFigures(
        counters=summed(VHOST_NOTHING, [each.counters for each in seen]),
        rates=summed(VHOST_NO_RATES, [each.rates for each in seen]),
        length_rates=summed(NO_LENGTH_RATES, [each.length_rates for each in seen]),
    )
    tally = await tally_of(service, sorted(names))
    found.ready, found.unacknowledged = int(tally.ready), int(tally.held)
    found.consumers = int(tally.consumers)
    found.connections, found.channels = await clients_of(service, frozenset(names))
    slices = Slices()
    nothing = VHOST_NOTHING + (0,) * len(LENGTHS)
    for span in spans:
        rows = [nothing] * len(span.moments)
        for name in names:
            figures = statistics.of_vhost(name)
            if figures is not None:
                now = figures.counters + figures.lengths
                samples = statistics.vhost_samples.at(name, span, now)
                rows = [summed(nothing, [*pair]) for pair in zip(rows, samples, strict=True)]
            await slices.breathe()
        none = (0,) * (len(CHURN) + len(NODE_GAUGES))
        found.samples.append([row + none for row in rows])
    return found


def exchange_types() -> list[ExchangeTypeRow]:
    """The types that exchanges can be declared with, by name."""
    return [
        ExchangeTypeRow(name=name, description=DESCRIPTIONS[name], enabled=True)
        for name in sorted(EXCHANGE_TYPES)
    ]
