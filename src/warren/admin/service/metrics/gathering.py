"""What is read off the node for a scrape, in slices: queues, clients, exchanges, Raft's groups."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Final, NamedTuple

from warren.admin.service.client_order import channels_of
from warren.admin.service.clients import pid_of
from warren.admin.service.metrics.families import (
    CHANNEL,
    CHANNEL_EXCHANGE,
    CHANNEL_QUEUE,
    CONNECTION,
    CONNECTION_COARSE,
    EXCHANGE,
    QUEUE,
    QUEUE_COARSE,
    QUEUE_DELIVERY,
    RAFT_MORE,
)
from warren.admin.service.metrics.samples import SampleTable, escaped, labelled
from warren.admin.service.node_figures import tally_of
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.statistics import counters_of
from warren.metadata.tables import ExchangeRecord, QueueRecord, queues_of
from warren.node.cluster.queue_members import Standing
from warren.node.queue_tally import QueueTally
from warren.queues.queue import Queue
from warren.queues.traffic import PublishedTraffic, ServedTraffic

QUEUE_COLUMNS: Final = (
    *QUEUE_COARSE.families,
    *QUEUE.families,
    *QUEUE_DELIVERY.families,
)
MILLISECONDS: Final = 1_000
TABLES_LABELS: Final = 'module="rabbit_khepri",ra_system="coordination"'
"""Of the group that has the cluster's metadata, as dashboards know it."""


class Wanted(NamedTuple):
    """What of it a scrape is about.

    Attributes:
        vhosts: Only queues and exchanges of these; None for all.
        queues: Says of a name whether that queue is wanted; None for all.
    """

    vhosts: frozenset[str] | None = None
    queues: Callable[[str], bool] | None = None

    def has_vhost(self, name: str) -> bool:
        """Whether it is about what is in a vhost."""
        return self.vhosts is None or name in self.vhosts

    def has(self, record: QueueRecord) -> bool:
        """Whether it is about a queue."""
        return self.queues is None or self.queues(record.name)


ALL: Final = Wanted()


# --- queues -------------------------------------------------------------------------------------


class QueueReadings:
    """Of queues.

    Attributes:
        rows: Of those that this node leads, in the columns `QUEUE_COLUMNS`.
        infos: The labels of `queue_info`, if each is wanted.
        count: How many this node leads.
    """

    def __init__(self, each: bool) -> None:
        self.rows = SampleTable(QUEUE_COLUMNS, each)
        self.infos: list[str] = []
        self.count = 0


async def queues(service: AdminService, each: bool, wanted: Wanted = ALL) -> QueueReadings:
    """Read the queues that this node leads, so that the nodes of a cluster can be added up."""
    found = QueueReadings(each)
    if not each and wanted == ALL:
        tally = await tally_of(service, list(service.machine.vhosts), delays=False)
        found.count = int(tally.count)
        if found.count:
            found.rows.add("", tallied(tally))
        return found
    own = service.own_name
    slices = Slices()
    async for record in queue_records(service, wanted):
        await slices.breathe()
        leads = (
            service.members.leader(record) == own
            if record.type.replicated
            else (record.node == own)
        )
        if each and (leads or record.member_on(own) is not None):
            found.infos.append(
                f"{queue_labels(record)},"
                f'queue_type="{type_label(record.kind)}",'
                f'membership="{"leader" if leads else "follower"}"'
            )
        if not leads:
            continue
        queue = service.node.queues.find(record.vhost, record.name)
        if queue is not None:
            found.count += 1
            found.rows.add(queue_labels(record) if each else "", queue_values(queue))
    return found


async def queue_records(service: AdminService, wanted: Wanted) -> AsyncGenerator[QueueRecord, None]:
    """The queues that clients know, lot by lot; the loop has its turns in between."""
    slices = Slices()
    for tables in list(service.machine.vhosts.values()):
        if not wanted.has_vhost(tables.name):
            continue
        for lot in list(tables.queue_rows.lots):
            for record in queues_of(lot):
                await slices.breathe()
                if not record.type.delays and wanted.has(record):
                    yield record


def queue_values(queue: Queue) -> tuple[int, ...]:
    """What a queue has, in the columns `QUEUE_COLUMNS`."""
    counts = queue.counts()
    _, manual, automatic, polled, polled_automatic, empty, acknowledged, again, _ = counters_of(
        queue
    )
    delivery = (polled, polled_automatic, manual, automatic, again, acknowledged, empty)
    if counts is None:
        return (0, 0, 0, 0, 0, 0, 0, *delivery)
    ready, held = int(counts.ready), int(counts.held)
    size, ready_size = int(counts.bytes), int(counts.ready_bytes)
    return (
        ready,
        held,
        ready + held,
        int(counts.consumers),
        size,
        ready_size,
        size - ready_size,
        *delivery,
    )


def tallied(tally: QueueTally) -> tuple[int, ...]:
    """What many queues have together, in the same columns: what was delivered is not among it."""
    ready, held = int(tally.ready), int(tally.held)
    size, ready_size = int(tally.bytes), int(tally.ready_bytes)
    lengths = (ready, held, ready + held, int(tally.consumers))
    return (*lengths, size, ready_size, size - ready_size, *(0,) * len(QUEUE_DELIVERY.families))


def queue_labels(record: QueueRecord) -> str:
    """What names a queue."""
    return f'vhost="{escaped(record.vhost)}",queue="{escaped(record.name)}"'


def type_label(kind: str) -> str:
    """A queue type as RabbitMQ's metrics name it."""
    return f"rabbit_{kind}_queue"


# --- clients ------------------------------------------------------------------------------------


class ClientReadings:
    """Of the connections to this node, their channels and consumers.

    Attributes:
        connections, channels: In the columns of the groups of their names.
        published, served: By channel and exchange, and by channel and queue, if each is wanted.
        connection_count, channel_count, consumer_count, publisher_count: Connections that are open;
            channels; consumers; channels that have published.
    """

    def __init__(self, each: bool) -> None:
        self.connections = SampleTable((*CONNECTION_COARSE.families, *CONNECTION.families), each)
        self.channels = SampleTable(CHANNEL.families, each)
        self.published = SampleTable(CHANNEL_EXCHANGE.families, True)
        self.served = SampleTable(CHANNEL_QUEUE.families, True)
        self.connection_count = 0
        self.channel_count = 0
        self.consumer_count = 0
        self.publisher_count = 0


async def clients(service: AdminService, each: bool) -> ClientReadings:
    """Read this node's connections."""
    found = ClientReadings(each)
    slices = Slices()
    for connection in list(service.node.connections.values()):
        await slices.breathe()
        if not connection.vhost:
            # It is not open.
            continue
        found.connection_count += 1
        facts = connection.facts()
        vhost = escaped(connection.vhost) if each else ""
        found.connections.add(
            labelled(channel=pid_of(service, connection)) if each else "",
            (
                int(facts.received_bytes),
                int(facts.sent_bytes),
                int(facts.received_count),
                int(facts.sent_count),
                int(facts.pending_bytes),
                int(facts.channels),
            ),
        )
        for channel in channels_of(connection):
            await slices.breathe()
            found.channel_count += 1
            found.consumer_count += len(channel.consumers)
            found.publisher_count += channel.publishes
            pid = labelled(channel=pid_of(service, connection, int(channel.number))) if each else ""
            found.channels.add(
                pid,
                (
                    len(channel.consumers),
                    int(channel.unacknowledged),
                    int(channel.unconfirmed),
                    int(channel.uncommitted),
                    int(channel.acks_uncommitted),
                    int(channel.prefetch),
                    int(channel.global_prefetch),
                ),
            )
            if not each:
                continue
            for use in channel.published:
                labels = f'{pid},vhost="{vhost}",exchange="{escaped(use.name)}"'
                found.published.add(labels, published_values(use.own))
                await slices.breathe()
            for got in channel.served:
                labels = f'{pid},vhost="{vhost}",queue="{escaped(got.name)}"'
                found.served.add(labels, served_values(got.own))
                await slices.breathe()
    return found


def published_values(counts: PublishedTraffic) -> tuple[int, ...]:
    """In the columns of `CHANNEL_EXCHANGE` and `EXCHANGE`."""
    return (
        int(counts.published),
        int(counts.confirmed),
        int(counts.returned),
        int(counts.dropped),
    )


def served_values(counts: ServedTraffic) -> tuple[int, ...]:
    """In the columns of `CHANNEL_QUEUE`."""
    return (
        int(counts.polled),
        int(counts.polled_automatic),
        int(counts.manual),
        int(counts.automatic),
        int(counts.redelivered),
        int(counts.acknowledged),
        int(counts.polled_empty),
    )


# --- exchanges ----------------------------------------------------------------------------------


async def exchanges(service: AdminService, wanted: Wanted = ALL) -> SampleTable:
    """What was published on this node through each exchange that there is."""
    rows = SampleTable(EXCHANGE.families, True)
    slices = Slices()
    for (vhost, name), exchange in list(service.node.traffic.exchanges.items()):
        await slices.breathe()
        tables = service.machine.vhosts.get(vhost)
        known = tables is not None and (not name or name in tables.exchanges)
        if known and wanted.has_vhost(vhost):
            rows.add(labelled(vhost=vhost, exchange=name), published_values(exchange.counts))
    return rows


async def exchange_records(
    service: AdminService,
) -> AsyncGenerator[tuple[str, ExchangeRecord], None]:
    """The exchanges of the whole cluster that clients may publish to by name, with their labels."""
    slices = Slices()
    for tables in list(service.machine.vhosts.values()):
        for record in list(tables.exchanges.values()):
            await slices.breathe()
            if record.name and not record.internal:
                yield labelled(vhost=tables.name, exchange=record.name, type=record.kind), record


# --- Raft ---------------------------------------------------------------------------------------


def raft_values(standing: Standing) -> tuple[float, ...]:
    """How far one copy of a group is, in the columns of `RAFT_MORE`."""
    last, written, applied, commit, snapshot, term = standing.numbers[:6]
    latency = int(standing.commit_ms) / MILLISECONDS
    return (term, snapshot, applied, commit, written, latency, last)


def raft_of_tables(service: AdminService) -> SampleTable:
    """The group that has the cluster's metadata."""
    rows = SampleTable(RAFT_MORE.families, True)
    rows.add(TABLES_LABELS, raft_values(service.members.standing(None)))
    return rows


async def raft_of_queues(service: AdminService, rows: SampleTable, wanted: Wanted = ALL) -> None:
    """Add the groups of quorum queues that have a copy here."""
    slices = Slices()
    async for record in queue_records(service, wanted):
        await slices.breathe()
        if record.type.replicated:
            standing = service.members.standing(record)
            if standing.numbers:
                rows.add(queue_labels(record), raft_values(standing))


async def longest_commit(service: AdminService) -> float:
    """The longest of the latencies of queues' groups, in seconds."""
    longest = 0
    slices = Slices()
    tables = service.node.store.member()
    for member in list(service.node.cluster.members.values()):
        await slices.breathe()
        if member is not tables:
            longest = max(longest, int(member.commit_ms))
    return longest / MILLISECONDS
