"""What a node's cluster is and has, in one look: what the HTTP API's overview shows."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from warren.admin.service.caller import MANAGEMENT, Caller, vhosts_of
from warren.admin.service.operation import operation
from warren.admin.service.rows import ExchangeTypeRow, Listener
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.statistics import (
    NO_LENGTH_RATES,
    VHOST_NO_RATES,
    VHOST_NOTHING,
)
from warren.admin.service.status import cluster_name
from warren.queue_types import DEFAULT
from warren.routing.exchange_types import EXCHANGE_TYPES

Number = TypeVar("Number", int, float)

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
        queues, exchanges, connections, channels, consumers: How many there are of those that the
            caller sees; connections, channels and consumers are this node's.
        ready, unacknowledged: Messages of queues that this node can count.
        counters, rates, length_rates: Of all of these vhosts on this node, as
            `statistics.VHOST_COUNTERS` and `Figures` have them.
    """

    version: str
    node: str
    cluster: str
    default_queue_type: str
    exchange_types: list[ExchangeTypeRow]
    listeners: list[Listener]
    queues: int
    exchanges: int
    connections: int
    channels: int
    consumers: int
    ready: int
    unacknowledged: int
    counters: tuple[int, ...]
    rates: tuple[float, ...]
    length_rates: tuple[float, ...]


@operation(MANAGEMENT)
async def overview(service: AdminService, caller: Caller) -> Overview:
    """Show what the cluster has; of what is in vhosts, of those that the caller may enter."""
    node = service.node
    process = service.host.state()
    vhosts = vhosts_of(service.machine, caller)
    names = {tables.name for tables in vhosts}
    clients = list(node.connections.values())
    ready = unacknowledged = consumers = 0
    slices = Slices()
    statistics = service.statistics.vhosts
    figures = [statistics[name] for name in names if name in statistics]
    for name in names:
        local = node.queues.vhosts.get(name)
        for queue in [] if local is None else list(local.queues.values()):
            counts = queue.counts()
            if counts is not None:
                ready += int(counts.ready)
                unacknowledged += int(counts.held)
                consumers += int(counts.consumers)
            await slices.breathe()
    return Overview(
        version=process.version,
        node=service.own_name,
        cluster=cluster_name(service),
        default_queue_type=node.settings.default_queue_type or DEFAULT.name,
        exchange_types=exchange_types(),
        listeners=process.addresses,
        queues=sum(int(tables.queues_of_clients()) for tables in vhosts),
        exchanges=sum(len(tables.exchanges) for tables in vhosts),
        connections=sum(1 for each in clients if each.vhost in names),
        channels=sum(int(each.facts().channels) for each in clients if each.vhost in names),
        consumers=consumers,
        ready=ready,
        unacknowledged=unacknowledged,
        counters=summed(VHOST_NOTHING, [each.counters for each in figures]),
        rates=summed(VHOST_NO_RATES, [each.rates for each in figures]),
        length_rates=summed(NO_LENGTH_RATES, [each.length_rates for each in figures]),
    )


def summed(none: tuple[Number, ...], rows: list[tuple[Number, ...]]) -> tuple[Number, ...]:
    """The sums of columns, of which there are as many as in `none`."""
    return tuple(sum(column) for column in zip(none, *rows, strict=True))


def exchange_types() -> list[ExchangeTypeRow]:
    """The types that exchanges can be declared with, by name."""
    return [
        ExchangeTypeRow(name=name, description=DESCRIPTIONS[name], enabled=True)
        for name in sorted(EXCHANGE_TYPES)
    ]
