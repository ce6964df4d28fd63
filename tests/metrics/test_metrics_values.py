"""Each family has the value that it is of: everything that is counted is another number here."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from warren.admin.service.metrics import families, gathering, scrapes
from warren.admin.service.metrics.families import Family, FamilyGroup
from warren.admin.service.metrics.gathering import QueueReadings, raft_values, tallied
from warren.admin.service.metrics.samples import SampleTable
from warren.admin.service.rows import ProcessState
from warren.node.cluster.queue_members import Standing
from warren.protocols.broker import ALARM_MEMORY
from warren.protocols.facts import ChannelFacts, ConnectionFacts, ConsumerFacts
from warren.queue_types import QUORUM
from warren.queues.traffic import (
    ExchangeTraffic,
    ExchangeUse,
    PublishedTraffic,
    QueueUse,
    ServedTraffic,
    Traffic,
)

PROTOCOL = 'protocol="amqp091"'
CLASSIC = f'{PROTOCOL},queue_type="rabbit_classic_queue"'
KEPT = 'queue_type="rabbit_quorum_queue",dead_letter_strategy="at_least_once"'
LATENCY = 'ra_system="quorum_queues"'
SERVED = {
    "polled": 601,
    "polled_automatic": 602,
    "manual": 603,
    "automatic": 604,
    "redelivered": 605,
    "acknowledged": 606,
    "polled_empty": 607,
}
PUBLISHED = {"published": 501, "confirmed": 502, "returned": 503, "dropped": 504}
UNTOLD = {
    # What a release, a node and a queue are called; about scrapes, which differ each time.
    "build_info",
    "identity_info",
    "queue_info",
    "telemetry_scrape_duration_seconds",
    "telemetry_scrape_size_bytes",
    # Those of the whole cluster, which are 1, or how many bindings there are.
    "vhost_status",
    "exchange_bindings",
    "exchange_name",
    # It counts classes of sizes, and is read in `test_scrapes`.
    "message_size_bytes",
    # When it began, by the clock.
    "process_start_time_seconds",
}
EXPECTED: dict[tuple[str, str], float] = {
    ("connections_opened_total", ""): 101,
    ("connections_closed_total", ""): 102,
    ("channels_opened_total", ""): 103,
    ("channels_closed_total", ""): 104,
    ("queues_declared_total", ""): 105,
    ("queues_created_total", ""): 106,
    ("queues_deleted_total", ""): 107,
    ("process_open_fds", ""): 201,
    ("process_resident_memory_bytes", ""): 202,
    ("disk_space_available_bytes", ""): 203,
    ("process_max_fds", ""): 204,
    ("resident_memory_limit_bytes", ""): 205,
    ("disk_space_available_limit_bytes", ""): 206,
    ("erlang_uptime_seconds", ""): 207,
    ("auth_attempts_total", PROTOCOL): 310,
    ("auth_attempts_succeeded_total", PROTOCOL): 301,
    ("auth_attempts_failed_total", PROTOCOL): 9,
    ("alarms_free_disk_space_watermark", ""): 0,
    ("alarms_memory_used_watermark", ""): 1,
    ("unreachable_cluster_peers_count", ""): 2,
    ("connections", ""): 1,
    ("channels", ""): 2,
    ("consumers", ""): 3,
    ("queues", ""): 5,
    ("queue_messages_ready", ""): 401,
    ("queue_messages_unacked", ""): 402,
    ("queue_messages", ""): 803,
    ("queue_consumers", ""): 403,
    ("queue_messages_bytes", ""): 9_000,
    ("queue_messages_ready_bytes", ""): 2_500,
    ("queue_messages_unacked_bytes", ""): 6_500,
    ("connection_incoming_bytes_total", ""): 701,
    ("connection_outgoing_bytes_total", ""): 702,
    ("connection_incoming_packets_total", ""): 703,
    ("connection_outgoing_packets_total", ""): 704,
    ("connection_pending_packets", ""): 705,
    ("connection_channels", ""): 706,
    ("channel_consumers", ""): 3,
    ("channel_messages_unacked", ""): 801,
    ("channel_messages_unconfirmed", ""): 802,
    ("channel_messages_uncommitted", ""): 803,
    ("channel_acks_uncommitted", ""): 804,
    ("consumer_prefetch", ""): 805,
    ("channel_prefetch", ""): 806,
    ("queue_messages_published_total", ""): 903,
    ("queue_exchange_messages_published_total", ""): 903,
    ("global_messages_received_total", PROTOCOL): 901,
    ("global_messages_received_confirm_total", PROTOCOL): 902,
    ("global_messages_routed_total", PROTOCOL): 903,
    ("global_messages_unroutable_dropped_total", PROTOCOL): 504,
    ("global_messages_unroutable_returned_total", PROTOCOL): 503,
    ("global_messages_confirmed_total", PROTOCOL): 502,
    ("global_publishers", PROTOCOL): 1,
    ("global_consumers", PROTOCOL): 3,
    ("global_messages_delivered_total", CLASSIC): 601 + 602 + 603 + 604,
    ("global_messages_delivered_consume_manual_ack_total", CLASSIC): 603,
    ("global_messages_delivered_consume_auto_ack_total", CLASSIC): 604,
    ("global_messages_delivered_get_manual_ack_total", CLASSIC): 601,
    ("global_messages_delivered_get_auto_ack_total", CLASSIC): 602,
    ("global_messages_get_empty_total", CLASSIC): 607,
    ("global_messages_redelivered_total", CLASSIC): 605,
    ("global_messages_acknowledged_total", CLASSIC): 606,
    ("global_messages_dead_lettered_rejected_total", KEPT): 1_001,
    ("global_messages_dead_lettered_expired_total", KEPT): 1_002,
    ("global_messages_dead_lettered_maxlen_total", KEPT): 1_003,
    ("global_messages_dead_lettered_delivery_limit_total", KEPT): 1_004,
    ("global_messages_dead_lettered_confirmed_total", KEPT): 1_005,
    ("raft_last_index", ""): 1_101,
    ("raft_last_written_index", ""): 1_102,
    ("raft_last_applied", ""): 1_103,
    ("raft_commit_index", ""): 1_104,
    ("raft_snapshot_index", ""): 1_105,
    ("raft_term", ""): 1_106,
    ("raft_commit_latency_seconds", ""): 1.107,
    ("raft_max_commit_latency_seconds", LATENCY): 1_108,
}
for _first in ("channel", "exchange"):
    EXPECTED |= {
        (f"{_first}_messages_published_total", ""): 501,
        (f"{_first}_messages_confirmed_total", ""): 502,
        (f"{_first}_messages_unroutable_returned_total", ""): 503,
        (f"{_first}_messages_unroutable_dropped_total", ""): 504,
    }
for _first in ("channel", "queue"):
    EXPECTED |= {
        (f"{_first}_get_ack_total", ""): 601,
        (f"{_first}_get_total", ""): 602,
        (f"{_first}_messages_delivered_ack_total", ""): 603,
        (f"{_first}_messages_delivered_total", ""): 604,
        (f"{_first}_messages_redelivered_total", ""): 605,
        (f"{_first}_messages_acked_total", ""): 606,
        (f"{_first}_get_empty_total", ""): 607,
    }


def filled(counts: Any, values: dict[str, int]) -> Any:
    """The same, with its attributes set."""
    for name, value in values.items():
        setattr(counts, name, value)
    return counts


def served() -> ServedTraffic:
    found: ServedTraffic = filled(ServedTraffic(), SERVED)
    return found


def published() -> PublishedTraffic:
    found: PublishedTraffic = filled(PublishedTraffic(), PUBLISHED)
    return found


class Connection:
    """A client's connection with two channels, of which one does everything."""

    vhost = "/"

    def facts(self) -> ConnectionFacts:
        columns = ("received_bytes", "sent_bytes", "received_count", "sent_count")
        names = (*columns, "pending_bytes", "channels")
        facts: ConnectionFacts = filled(
            ConnectionFacts(), {name: 701 + place for place, name in enumerate(names)}
        )
        return facts

    def channel_numbers(self) -> list[int]:
        return [1, 2]

    def channel_facts(self, number: int) -> ChannelFacts:
        facts = ChannelFacts(number)
        if number == 1:
            columns = ("unacknowledged", "unconfirmed", "uncommitted", "acks_uncommitted")
            names = (*columns, "prefetch", "global_prefetch")
            filled(facts, {name: 801 + place for place, name in enumerate(names)})
            facts.consumers = [ConsumerFacts("q", "t", True, False, 1, {}, 1) for _ in range(3)]
            facts.publishes = True
            use = ExchangeUse("x", ExchangeTraffic(), PublishedTraffic())
            use.own = published()
            got = QueueUse("q", ServedTraffic())
            got.own = served()
            facts.published, facts.served = [use], [got]
        return facts


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stands in for a node whose counts are all different."""
    traffic = Traffic()
    churn = ("connections_opened", "connections_closed", "channels_opened", "channels_closed")
    names = (*churn, "queues_declared", "queues_created", "queues_deleted")
    filled(traffic, {name: 101 + place for place, name in enumerate(names)})
    filled(traffic, {"received": 901, "with_confirms": 902, "routed": 903})
    filled(traffic, {"logins": 310, "logins_failed": 9})
    traffic.served["classic"] = served()
    deaths = traffic.of_deaths(QUORUM, True)
    deaths.by_reason, deaths.confirmed = [1_001, 1_002, 1_003, 1_004], 1_005
    state = ProcessState(
        version="", process=1, uptime_seconds=207, listeners=[], data_dir="/", memory_bytes=202,
        descriptors=201, descriptors_max=204,
    )  # fmt: skip
    limits = SimpleNamespace(memory_limit_bytes=205, log=SimpleNamespace(disk_free_limit_bytes=206))
    tally = SimpleNamespace(
        count=5, ready=401, held=402, consumers=403, bytes=9_000, ready_bytes=2_500
    )
    standing = Standing("leader", [1_101, 1_102, 1_103, 1_104, 1_105, 1_106, 1])
    standing.commit_ms = 1_107

    async def queues(service: Any, each: bool, *rest: Any) -> QueueReadings:
        found = QueueReadings(each)
        found.count = tally.count
        found.rows.add("", tallied(tally))  # type: ignore[arg-type]
        return found

    async def longest(service: Any) -> float:
        return 1_108

    def tables(service: Any) -> SampleTable:
        rows = SampleTable(families.RAFT_MORE.families, True)
        rows.add("", raft_values(standing))
        return rows

    monkeypatch.setattr(gathering, "queues", queues)
    monkeypatch.setattr(gathering, "longest_commit", longest)
    monkeypatch.setattr(gathering, "raft_of_tables", tables)
    monkeypatch.setattr(scrapes, "free_bytes", lambda folder: 203)
    monkeypatch.setattr(gathering, "pid_of", lambda *names: "pid")
    return SimpleNamespace(
        own_name="n",
        node=SimpleNamespace(
            connections={1: Connection()},
            traffic=traffic,
            vhosts=SimpleNamespace(all_traffic=published),
            settings=limits,
            own_alarms=lambda: ALARM_MEMORY,
        ),
        machine=SimpleNamespace(nodes=("a", "b", "c"), vhosts={}),
        members=SimpleNamespace(running=lambda: ("a",)),
        host=SimpleNamespace(state=lambda: state),
    )


def all_families() -> dict[str, Family]:
    """All that the module of families has, by name."""
    found: dict[str, Family] = {}
    for value in vars(families).values():
        if isinstance(value, Family):
            found[value.name] = value
        elif isinstance(value, FamilyGroup):
            found.update({each.name: each for each in value.families.values()})
        elif isinstance(value, tuple):
            found.update({each.name: each for each in value if isinstance(each, Family)})
    return found


def test_each_family_has_its_value(service: Any) -> None:
    told: dict[tuple[str, str], float] = {}
    for series in asyncio.run(scrapes.aggregated(service)):
        for labels, value in zip(series.labels, series.values, strict=True):
            told[series.family.name, labels] = value
    assert {key: told.get(key) for key in EXPECTED} == EXPECTED
    assert {name for name, _ in EXPECTED} | UNTOLD == all_families().keys()


def test_a_channel_has_its_values_per_object(service: Any) -> None:
    """Through which exchange, and of which queue."""
    found = asyncio.run(gathering.clients(service, True))
    for table, group, first in (
        (found.published, families.CHANNEL_EXCHANGE, PUBLISHED),
        (found.served, families.CHANNEL_QUEUE, SERVED),
    ):
        told = {series.family.name: list(series.values) for series in table.series(group)}
        names = {family.name: key for key, family in group.families.items()}
        assert told == {name: [first[key]] for name, key in names.items()}
    first_one = found.published.series(families.CHANNEL_EXCHANGE)[0]
    assert list(first_one.labels) == ['channel="pid",vhost="/",exchange="x"']


def test_a_queue_has_its_values() -> None:
    """Of one queue: what it holds, and what clients got of it."""
    queue = SimpleNamespace(
        counts=lambda: SimpleNamespace(
            ready=401, held=402, consumers=403, bytes=9_000, ready_bytes=2_500
        ),
        # What was sent in all, of which some was settled as it was sent.
        published=1, delivered=601 + 602 + 603 + 604, automatic=604, polled=601,
        polled_automatic=602, polled_empty=607, settled=604 + 602 + 606, redelivered=605,
    )  # fmt: skip
    values = gathering.queue_values(queue)  # type: ignore[arg-type]
    told = {
        family.name: value
        for group in (families.QUEUE_COARSE, families.QUEUE, families.QUEUE_DELIVERY)
        for key, family in group.families.items()
        for value in [values[gathering.QUEUE_COLUMNS.index(key)]]
    }
    assert told == {name: EXPECTED[name, ""] for name in told}
