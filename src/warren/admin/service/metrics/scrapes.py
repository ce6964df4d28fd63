"""What a scrape is answered with: all added up, each thing by itself, or what is asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from warren.admin.service.metrics import gathering
from warren.admin.service.metrics.families import (
    ALARMS,
    CHANNEL,
    CHANNEL_EXCHANGE,
    CHANNEL_QUEUE,
    CHURN,
    CLUSTER,
    CONNECTION,
    CONNECTION_COARSE,
    DEATHS,
    DEATHS_CONFIRMED,
    DETAILED,
    EXCHANGE,
    EXCHANGE_BINDINGS,
    EXCHANGE_NAMES,
    LOGINS,
    NODE,
    NODE_COARSE,
    PROTOCOL,
    PROTOCOL_QUEUE,
    QUEUE,
    QUEUE_COARSE,
    QUEUE_CONSUMERS,
    QUEUE_DELIVERY,
    QUEUE_INFO,
    RAFT,
    RAFT_LATENCY_MAX,
    RAFT_LOG,
    RAFT_MORE,
    ROUTED,
    SIZES,
    STARTED,
    TOTALS,
    UNREACHABLE,
    VHOST_STATUS,
    FamilyGroup,
)
from warren.admin.service.metrics.gathering import ALL, ClientReadings, QueueReadings, Wanted
from warren.admin.service.metrics.samples import SampleTable, Series, labelled, single
from warren.admin.service.service import AdminService, free_bytes
from warren.protocols.broker import ALARM_DISK, ALARM_MEMORY
from warren.queue_types import CLASSIC, QUORUM
from warren.queues.traffic import SIZE_BOUNDS, ServedTraffic

AMQP091: Final = 'protocol="amqp091"'
SERVED_TYPES: Final = (CLASSIC.name, QUORUM.name)
"""Queue types that have samples from the start, so that rates have something to begin with."""
DEATH_KINDS: Final = ((CLASSIC.name, False), (QUORUM.name, False), (QUORUM.name, True))


async def aggregated(service: AdminService) -> list[Series]:
    """Everything, with what there are many of added up."""
    queues = await gathering.queues(service, False)
    clients = await gathering.clients(service, False)
    traffic = service.node.traffic
    through = service.node.vhosts.all_traffic()
    exchanges = SampleTable(EXCHANGE.families, False)
    exchanges.add("", gathering.published_values(through))
    channels = SampleTable(CHANNEL_EXCHANGE.families, False)
    channels.add("", gathering.published_values(through))
    served = SampleTable(CHANNEL_QUEUE.families, False)
    delivered = SampleTable(QUEUE_DELIVERY.families, False)
    for counts in list(traffic.served.values()):
        served.add("", gathering.served_values(counts))
        delivered.add("", gathering.served_values(counts))
    latency = labelled(ra_system="quorum_queues")
    return [
        *await _of_node(service),
        *_totals(service, queues, clients),
        *queues.rows.series(QUEUE_COARSE),
        *queues.rows.series(QUEUE),
        *delivered.series(QUEUE_DELIVERY),
        *clients.connections.series(CONNECTION_COARSE),
        *clients.connections.series(CONNECTION),
        *clients.channels.series(CHANNEL),
        *channels.series(CHANNEL_EXCHANGE),
        *served.series(CHANNEL_QUEUE),
        *exchanges.series(EXCHANGE),
        *(single(family, int(traffic.routed)) for family in ROUTED),
        *_by_protocol(service, clients),
        *gathering.raft_of_tables(service).series(RAFT_MORE),
        single(RAFT_LATENCY_MAX, await gathering.longest_commit(service), latency),
    ]


async def per_object(service: AdminService) -> list[Series]:
    """Everything, with a sample for each queue, connection, channel and exchange."""
    queues = await gathering.queues(service, True)
    clients = await gathering.clients(service, True)
    exchanges = await gathering.exchanges(service)
    tables, groups = gathering.raft_of_tables(service), gathering.raft_of_tables(service)
    await gathering.raft_of_queues(service, groups)
    return [
        *await _of_node(service),
        *_totals(service, queues, clients),
        *queues.rows.series(QUEUE_COARSE),
        *queues.rows.series(QUEUE),
        *queues.rows.series(QUEUE_DELIVERY),
        Series(QUEUE_INFO, queues.infos, (1,) * len(queues.infos)),
        *clients.connections.series(CONNECTION_COARSE),
        *clients.connections.series(CONNECTION),
        *clients.channels.series(CHANNEL),
        *clients.published.series(CHANNEL_EXCHANGE),
        *clients.served.series(CHANNEL_QUEUE),
        *exchanges.series(EXCHANGE),
        *_by_protocol(service, clients),
        *groups.series(RAFT),
        *tables.series(RAFT_LOG),
    ]


# --- what is asked for --------------------------------------------------------------------------

OF_QUEUES: Final = {
    "queue_coarse_metrics": QUEUE_COARSE,
    "queue_consumer_count": QUEUE_CONSUMERS,
    "queue_metrics": QUEUE,
    "queue_delivery_metrics": QUEUE_DELIVERY,
}
OF_CLIENTS: Final[dict[str, tuple[FamilyGroup, Callable[[ClientReadings], SampleTable]]]] = {
    "connection_coarse_metrics": (CONNECTION_COARSE, lambda found: found.connections),
    "connection_metrics": (CONNECTION, lambda found: found.connections),
    "channel_metrics": (CHANNEL, lambda found: found.channels),
    "channel_exchange_metrics": (CHANNEL_EXCHANGE, lambda found: found.published),
    "channel_queue_metrics": (CHANNEL_QUEUE, lambda found: found.served),
}
WITH_INFO: Final = {"queue_coarse_metrics", "queue_consumer_count", "queue_metrics"}
"""Beside these `queue_info` comes, too."""


async def detailed(service: AdminService, asked: list[str], wanted: Wanted) -> list[Series]:
    """The families of some groups, each once; names that are none ask for nothing."""
    names = set(asked)
    if "queue_metrics" in names:
        # It has them, too.
        names.discard("queue_consumer_count")
    found: list[Series] = []
    if names & OF_QUEUES.keys():
        queues = await gathering.queues(service, True, wanted)
        for name, group in OF_QUEUES.items():
            if name in names:
                found += queues.rows.series(group, DETAILED)
        if names & WITH_INFO:
            found.append(Series(QUEUE_INFO, queues.infos, (1,) * len(queues.infos), DETAILED))
    if names & OF_CLIENTS.keys():
        clients = await gathering.clients(service, True)
        for name, (group, rows) in OF_CLIENTS.items():
            if name in names:
                found += rows(clients).series(group, DETAILED)
    for name, read in OTHERS.items():
        if name in names:
            found += await read(service, wanted)
    return found


async def _detailed_churn(service: AdminService, wanted: Wanted) -> list[Series]:
    return [one._replace(prefix=DETAILED) for one in _churn(service)]


async def _detailed_node_coarse(service: AdminService, wanted: Wanted) -> list[Series]:
    return [one._replace(prefix=DETAILED) for one in await _node_coarse(service)]


async def _detailed_node(service: AdminService, wanted: Wanted) -> list[Series]:
    return [one._replace(prefix=DETAILED) for one in _node(service)]


async def _detailed_logins(service: AdminService, wanted: Wanted) -> list[Series]:
    return [one._replace(prefix=DETAILED) for one in _logins(service)]


async def _detailed_exchanges(service: AdminService, wanted: Wanted) -> list[Series]:
    return (await gathering.exchanges(service, wanted)).series(EXCHANGE, DETAILED)


async def _detailed_raft(service: AdminService, wanted: Wanted) -> list[Series]:
    rows = (
        SampleTable(RAFT_MORE.families, True)
        if wanted != ALL
        else gathering.raft_of_tables(service)
    )
    await gathering.raft_of_queues(service, rows, wanted)
    return rows.series(RAFT_MORE, DETAILED)


async def _vhost_status(service: AdminService, wanted: Wanted) -> list[Series]:
    rows = SampleTable(VHOST_STATUS.families, True)
    for name in list(service.machine.vhosts):
        rows.add(labelled(vhost=name), (1,))
    return rows.series(VHOST_STATUS, CLUSTER)


async def _exchange_bindings(service: AdminService, wanted: Wanted) -> list[Series]:
    rows = SampleTable(EXCHANGE_BINDINGS.families, True)
    async for labels, record in gathering.exchange_records(service):
        rows.add(labels, (len(record.bound),))
    return rows.series(EXCHANGE_BINDINGS, CLUSTER)


async def _exchange_names(service: AdminService, wanted: Wanted) -> list[Series]:
    rows = SampleTable(EXCHANGE_NAMES.families, True)
    async for labels, _ in gathering.exchange_records(service):
        rows.add(labels, (1,))
    return rows.series(EXCHANGE_NAMES, CLUSTER)


OTHERS: Final[dict[str, Callable[[AdminService, Wanted], Awaitable[list[Series]]]]] = {
    "connection_churn_metrics": _detailed_churn,
    "node_coarse_metrics": _detailed_node_coarse,
    "node_metrics": _detailed_node,
    "auth_attempt_metrics": _detailed_logins,
    "exchange_metrics": _detailed_exchanges,
    "ra_metrics": _detailed_raft,
    "vhost_status": _vhost_status,
    "exchange_bindings": _exchange_bindings,
    "exchange_names": _exchange_names,
}


# --- parts --------------------------------------------------------------------------------------


def _one(group: FamilyGroup, values: tuple[float, ...], labels: str = "") -> list[Series]:
    """A sample for each family of a group."""
    return [
        single(family, value, labels)
        for family, value in zip(group.families.values(), values, strict=True)
    ]


async def _of_node(service: AdminService) -> list[Series]:
    node = service.node
    raised = int(node.own_alarms())
    missing = len(service.machine.nodes) - len(service.members.running())
    started = time.time() - service.host.state().uptime_seconds
    return [
        *_churn(service),
        *await _node_coarse(service),
        *_node(service),
        *_logins(service),
        *_one(ALARMS, (bool(raised & ALARM_DISK), bool(raised & ALARM_MEMORY))),
        single(UNREACHABLE, max(missing, 0)),
        single(STARTED, int(started), prefix=""),
    ]


def _churn(service: AdminService) -> list[Series]:
    traffic = service.node.traffic
    return _one(
        CHURN,
        (
            int(traffic.connections_opened),
            int(traffic.connections_closed),
            int(traffic.channels_opened),
            int(traffic.channels_closed),
            int(traffic.queues_declared),
            int(traffic.queues_created),
            int(traffic.queues_deleted),
        ),
    )


async def _node_coarse(service: AdminService) -> list[Series]:
    process = service.host.state()
    # A disk may take its time, which clients do not wait for.
    free = await asyncio.to_thread(free_bytes, process.data_dir)
    return _one(NODE_COARSE, (process.descriptors, process.memory_bytes, free))


def _node(service: AdminService) -> list[Series]:
    process, settings = service.host.state(), service.node.settings
    return _one(
        NODE,
        (
            process.descriptors_max,
            settings.memory_limit_bytes,
            settings.log.disk_free_limit_bytes,
            process.uptime_seconds,
        ),
    )


def _logins(service: AdminService) -> list[Series]:
    traffic = service.node.traffic
    logins, failed = int(traffic.logins), int(traffic.logins_failed)
    return _one(LOGINS, (logins, logins - failed, failed), AMQP091)


def _totals(service: AdminService, queues: QueueReadings, clients: ClientReadings) -> list[Series]:
    return _one(
        TOTALS,
        (
            clients.connection_count,
            clients.channel_count,
            clients.consumer_count,
            queues.count,
        ),
    )


def _by_protocol(service: AdminService, clients: ClientReadings) -> list[Series]:
    traffic = service.node.traffic
    through = service.node.vhosts.all_traffic()
    series = _one(
        PROTOCOL,
        (
            int(traffic.received),
            int(traffic.with_confirms),
            int(traffic.routed),
            int(through.dropped),
            int(through.returned),
            int(through.confirmed),
            clients.publisher_count,
            clients.consumer_count,
        ),
        AMQP091,
    )
    served = SampleTable(PROTOCOL_QUEUE.families, True)
    for kind in sorted({*SERVED_TYPES, *traffic.served}):
        counts = traffic.served.get(kind) or ServedTraffic()
        labels = f'{AMQP091},queue_type="{gathering.type_label(kind)}"'
        served.add(labels, _served(counts))
    return [*series, *served.series(PROTOCOL_QUEUE), *_deaths(service), _sizes(service)]


def _served(counts: ServedTraffic) -> tuple[int, ...]:
    """In the columns of `PROTOCOL_QUEUE`."""
    manual, automatic = int(counts.manual), int(counts.automatic)
    polled, polled_automatic = int(counts.polled), int(counts.polled_automatic)
    return (
        manual + automatic + polled + polled_automatic,
        manual,
        automatic,
        polled,
        polled_automatic,
        int(counts.polled_empty),
        int(counts.redelivered),
        int(counts.acknowledged),
    )


def _deaths(service: AdminService) -> list[Series]:
    deaths = service.node.traffic.deaths
    labels, by_reason, confirmed = [], [], []
    for kind, kept in sorted({*DEATH_KINDS, *deaths}):
        counts = deaths.get((kind, kept))
        labels.append(
            labelled(
                queue_type=gathering.type_label(kind),
                dead_letter_strategy="at_least_once" if kept else "at_most_once",
            )
        )
        by_reason.append([0] * len(DEATHS) if counts is None else list(counts.by_reason))
        confirmed.append(None if not kept else 0 if counts is None else int(counts.confirmed))
    series = [
        Series(family, labels, [counts[reason] for counts in by_reason])
        for reason, family in enumerate(DEATHS)
    ]
    kept_ones = [(label, count) for label, count in zip(labels, confirmed, strict=True)]
    series.append(
        Series(
            DEATHS_CONFIRMED,
            [label for label, count in kept_ones if count is not None],
            [count for _, count in kept_ones if count is not None],
        )
    )
    return series


def _sizes(service: AdminService) -> Series:
    sizes = service.node.traffic.sizes
    labels, values, total = [], [], 0
    for bound, count in zip((*map(str, SIZE_BOUNDS), "+Inf"), sizes.by_class(), strict=True):
        total += count
        labels.append(f'{AMQP091},le="{bound}"')
        values.append(total)
    suffixes = ["_bucket"] * len(values)
    return Series(
        SIZES,
        [*labels, AMQP091, AMQP091],
        [*values, total, int(sizes.bytes)],
        suffixes=[*suffixes, "_count", "_sum"],
    )
