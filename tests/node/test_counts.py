"""What queues count is what the clients of each node did, so that nodes can be added up."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair
from warren.admin.service.statistics import COUNTERS, counters_of
from warren.queues.classic import TOLD_APART_MAX


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_nodes_add_up(kind: str) -> None:
    pair = Pair()
    near = pair.a.client()
    # Of one member, so that the clients of b reach either type over a line.
    near.declare("q", kind=kind, size=1 if kind == "quorum" else 0)
    pair.settle()
    far = pair.b.client()
    near.publish_confirmed("q", 5)
    far.publish_confirmed("q", 7)
    for client, count in ((near, 4), (far, 6)):
        for _ in range(count):
            got = client.get("q")
            assert got is not None
            client.ack(got.tag)
    far.consume("q")
    pair.until(lambda: len(far.messages) == 2)
    for message in far.messages:
        far.ack(message.tag)
    pair.settle()
    counted = []
    for station in (pair.a, pair.b):
        queue = station.node.queues.find("/", "q")
        assert queue is not None
        counted.append(dict(zip(COUNTERS, counters_of(queue), strict=True)))
    assert [each["publish"] for each in counted] == [5, 7]
    assert [each["get"] for each in counted] == [4, 6]
    assert [each["deliver"] for each in counted] == [0, 2]
    assert [each["ack"] for each in counted] == [4, 8]
    assert [each["deliver_get"] for each in counted] == [4, 8]


@pytest.mark.rule("MET-01")
def test_what_survives_a_restart_is_counted_or_not_told() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q")

    def survive() -> tuple[int, int]:
        counts = pair.a.queue("q").counts()
        return int(counts.persistent), int(counts.persistent_bytes)

    for number in range(10):
        client.publish("q", bytes(1 + number), persistent=number % 2 == 0)
    pair.until(lambda: pair.a.queue("q").counts().ready == 10)
    assert survive()[0] == 5
    got = [client.get("q") for _ in range(4)]
    assert got[1] is not None and got[3] is not None
    # One of each kind is settled, two are held.
    client.ack(got[1].tag, multiple=True)
    pair.settle()
    assert pair.a.queue("q").counts().held == 2 and survive()[0] == 4
    pair.a.queue("q").snapshot()
    assert survive()[0] == 4
    all_bytes = int(pair.a.queue("q").counts().bytes)
    assert 0 < survive()[1] < all_bytes
    # Where there is much to look at it is not told; of one kind alone it always is.
    for number in range(2 * TOLD_APART_MAX):
        client.publish("q", b"x", persistent=number % 2 == 0)
    pair.until(lambda: pair.a.queue("q").counts().ready > 2 * TOLD_APART_MAX)
    assert survive() == (-1, -1)
    client.declare("p")
    for _ in range(2 * TOLD_APART_MAX):
        client.publish("p", b"x")
    pair.until(lambda: pair.a.queue("p").counts().ready == 2 * TOLD_APART_MAX)
    counts = pair.a.queue("p").counts()
    assert (counts.persistent, counts.persistent_bytes) == (2 * TOLD_APART_MAX, counts.bytes)
