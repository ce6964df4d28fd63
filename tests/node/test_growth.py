"""What a queue costs the nodes that hold it, and what it costs the others: nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.node.pair import Client, Pair, Station
from warren.node.store import METADATA_GROUP
from warren.wire.amqp091 import spec

BODY_BYTES = 1_024
MESSAGES = 1_024
WINDOW = 256
PUBLISHED = BODY_BYTES * MESSAGES
FILE_BYTES = 1 << 18
"""Small, so that what is published takes new files."""
MEMBERS = 3
QUEUES = 20
JOINED_BYTES_MAX = 4_096
STEPS = 300
"""Some seconds."""


def on_disk(station: Station) -> int:
    """The sizes of all files."""
    return station.disk.capacity_bytes - station.disk.free_bytes()


def written(station: Station) -> int:
    """What the disk was given, by the log's rounds and all others."""
    assert station.disk.written_bytes >= station.node.log.written_bytes
    return station.disk.written_bytes


def each(pair: Pair, cost: Callable[[Station], int]) -> dict[str, int]:
    return {name: cost(station) for name, station in pair.stations.items()}


def placed(nodes: int) -> tuple[Pair, set[str], list[str]]:
    """So many nodes; who holds the queue `q`, and who does not."""
    pair = Pair(file_bytes=FILE_BYTES)
    for name in "cdefg"[: nodes - 2]:
        pair.add(name)
    assert isinstance(pair.a.client().declare("q", kind="quorum"), spec.QueueDeclareOk)
    pair.until(lambda: all(station.knows("q") for station in pair.stations.values()))
    members = {row.node for row in pair.a.record("q").members}
    return pair, members, sorted(set(pair.stations) - members)


def publish(client: Client, name: str) -> None:
    """Publish all there is, with so many unconfirmed."""
    client.call(spec.ConfirmSelect(False))
    end = client.published + MESSAGES
    while len(client.acked) < end:
        while client.published < min(end, len(client.acked) + WINDOW):
            client.publish(name, b"x" * BODY_BYTES)
        client.pair.step()


def consume(client: Client) -> None:
    """Take and acknowledge it all."""
    client.qos(WINDOW)
    client.consume("q")
    taken = 0
    while taken < MESSAGES:
        client.pair.step()
        if client.messages:
            taken += len(client.messages)
            client.ack(client.messages[-1].tag, multiple=True)
            client.messages.clear()
    client.pair.settle()


@pytest.mark.rule("D-02")
@pytest.mark.parametrize("nodes", [5, 7])
def test_only_members_write_what_is_published(nodes: int) -> None:
    """Elsewhere the queue is published to and consumed from, and the disk hears nothing of it."""
    pair, members, outside = placed(nodes)
    assert len(members) == MEMBERS and len(outside) == nodes - MEMBERS
    publisher, consumer = (pair.stations[name].client() for name in outside[:2])
    pair.settle()
    grown, given = each(pair, on_disk), each(pair, written)
    publish(publisher, "q")
    pair.settle()
    for name, size in each(pair, on_disk).items():
        grown[name] = size - grown[name]
    assert all(grown[name] * 100 < PUBLISHED for name in outside)
    assert all(grown[name] >= PUBLISHED for name in members)
    consume(consumer)
    for name, size in each(pair, written).items():
        given[name] = size - given[name]
    assert all(given[name] * 100 < PUBLISHED for name in outside)
    # Once each, and a little for frames and settlements: three times in all.
    assert all(PUBLISHED <= given[name] < PUBLISHED * 6 // 5 for name in members)


class Held:
    """What a node holds of queues, in memory and on disk."""

    def __init__(self, station: Station) -> None:
        node = station.node
        assert set(node.cluster.members) == set(node.log.group_ids())
        self.groups = set(node.cluster.members) - {METADATA_GROUP}
        self.queues = set(node.queues.vhosts["/"].queues)
        self.cached_bytes = int(node.log.cache.size_bytes)
        self.written_bytes = written(station)
        self.disk_bytes = on_disk(station)


@pytest.mark.rule("MEM-01")
def test_nodes_that_join_take_nothing_from_the_others_and_add_nothing_to_them() -> None:
    pair = Pair(file_bytes=FILE_BYTES)
    pair.minds_seconds = True
    pair.add("c")
    client = pair.a.client()
    for number in range(QUEUES):
        client.declare(f"q{number}", kind="quorum")
        client.publish_confirmed(f"q{number}", 5)
    publish(client, "q0")
    pair.settle(STEPS)
    first = list(pair.stations.values())
    before = [Held(station) for station in first]
    assert all(len(held.groups) == len(held.queues) == QUEUES for held in before)
    for name in "defghi":
        pair.add(name)
    pair.settle(STEPS)
    for held, station in zip(before, first, strict=True):
        now = Held(station)
        assert (now.groups, now.queues) == (held.groups, held.queues)
        assert now.cached_bytes == held.cached_bytes
        # The tables say six times that a node has joined.
        assert now.written_bytes - held.written_bytes < 6 * JOINED_BYTES_MAX
        assert now.disk_bytes - held.disk_bytes <= FILE_BYTES
    for name in "defghi":
        joined = Held(pair.stations[name])
        assert (joined.groups, joined.queues, joined.cached_bytes) == (set(), set(), 0)
        assert joined.written_bytes * 20 < PUBLISHED
