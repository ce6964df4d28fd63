"""What queues count is what the clients of each node did, so that nodes can be added up."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair
from warren.admin.service.statistics import COUNTERS, counters_of


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
