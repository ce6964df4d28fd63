"""Copies of queues that are deleted do not come back with tables that have not heard of that."""

from __future__ import annotations

import pytest

from tests.node.pair import Station, three_with_messages
from warren.wire.amqp091 import spec

QUEUE = "gone"


def leads_or_has_voted(station: Station, group_id: int) -> bool:
    """Whether a copy on this node takes part in its group."""
    return station.alive and group_id in station.node.cluster.members


@pytest.mark.rule("QQ-02")
def test_a_copy_that_went_with_its_queue_does_not_begin_anew() -> None:
    """Nodes start with tables that name the queue; what they had of it is gone."""
    pair = three_with_messages("other", minds_seconds=True)
    client = pair.a.client()
    assert isinstance(client.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    client.publish_confirmed(QUEUE, 3)
    group_id = int(pair.a.record(QUEUE).group_id)
    stations = [pair.a, pair.b, pair.stations["c"]]
    for station in stations:
        # A start leaves the tables as they are in a snapshot.
        station.kill()
        station.start()
        pair.until(lambda: all(each.node.ready for each in stations))
    client = pair.a.client()
    client.call(spec.QueueDelete(0, QUEUE, False, False, False))
    pair.until(lambda: not any(station.knows(QUEUE) for station in stations))
    pair.settle(60)
    for station in stations:
        station.kill()
    named = 0

    def back() -> bool:
        nonlocal named
        for station in stations:
            assert not leads_or_has_voted(station, group_id)
            named += station.knows(QUEUE)
        return all(station.node.ready for station in stations)

    for station in stations:
        station.start()
        assert not leads_or_has_voted(station, group_id)
        named += station.knows(QUEUE)
    pair.until(back)
    assert named, "tables were old enough to name the queue"
    assert not any(station.knows(QUEUE) for station in stations)
    client = pair.a.client()
    bodies = []
    while (got := client.get("other")) is not None:
        bodies.append(got.body)
    assert len(bodies) == 5
