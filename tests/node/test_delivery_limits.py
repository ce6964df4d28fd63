"""How many returns a message survives: what policies say counts for queues that exist, too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.pair import Client, Got, Pair, Station, sealed
from warren.message.amqp091.note import note_of
from warren.metadata.commands import Barrier, ClearPolicy, SetPolicy
from warren.metadata.encoding import encode
from warren.node.announcing import COMMAND_KIND
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

QUEUE = "orders"


def set_policy(pair: Pair, definition: dict[str, Any], operator: bool = False) -> None:
    command = SetPolicy("/", "p", operator, "^ord", "quorum_queues", 0, definition)
    pair.b.node.store.submit(command, None)


def limits(pair: Pair) -> set[int]:
    """The limit in force on each node."""
    stations: list[Station] = list(pair.stations.values())
    return {int(station.queue(QUEUE).fifo.config.delivery_limit) for station in stations}


def returned(client: Client, times: int) -> bool:
    """Reject a message so often; whether it is still there."""
    for _ in range(times):
        got = client.get(QUEUE)
        if got is None:
            return False
        client.send(spec.BasicReject(got.tag, True))
    got = client.get(QUEUE)
    if got is not None:
        client.ack(got.tag)
    return got is not None


def with_queue() -> tuple[Pair, Client]:
    pair = Pair()
    client = pair.a.client()
    client.declare(QUEUE, kind="quorum")
    pair.until(lambda: QUEUE in pair.b.node.queues.vhosts["/"].queues and limits(pair) == {20})
    return pair, client


@pytest.mark.rule("POI-03", "POI-05", "POI-06")
def test_a_policy_counts_for_a_queue_that_exists_and_ends_with_it() -> None:
    pair, client = with_queue()
    set_policy(pair, {"delivery-limit": 2})
    pair.until(lambda: limits(pair) == {2})
    client.publish_confirmed(QUEUE, 1)
    assert returned(client, 2)
    client.publish_confirmed(QUEUE, 1)
    assert not returned(client, 3)
    pair.b.node.store.submit(ClearPolicy("/", "p", False), None)
    pair.until(lambda: limits(pair) == {20})
    client.publish_confirmed(QUEUE, 1)
    assert returned(client, 20)
    client.publish_confirmed(QUEUE, 1)
    assert not returned(client, 21)


@pytest.mark.rule("POI-07")
def test_a_policy_takes_the_limit_away() -> None:
    pair, client = with_queue()
    set_policy(pair, {"delivery-limit": -1})
    pair.until(lambda: limits(pair) == {-1})
    client.publish_confirmed(QUEUE, 1)
    assert returned(client, 40)


def test_of_two_policies_the_stricter_limit_counts() -> None:
    pair, _ = with_queue()
    set_policy(pair, {"delivery-limit": 7})
    set_policy(pair, {"delivery-limit": 5}, operator=True)
    pair.until(lambda: limits(pair) == {5})
    set_policy(pair, {"delivery-limit": -1})
    pair.until(lambda: limits(pair) == {5})
    set_policy(pair, {"delivery-limit": -1}, operator=True)
    pair.until(lambda: limits(pair) == {-1})


@pytest.mark.rule("POI-04")
def test_a_queue_has_a_limit_of_its_own() -> None:
    """Or none, by -1; any other number below is the same, and what is no number says nothing."""
    pair, client = with_queue()
    for name, given, limit in (("2", 2, 2), ("none", -1, -1), ("less", -7, -1), ("text", "2", 20)):
        arguments: Table = {"x-queue-type": "quorum", "x-delivery-limit": given}
        declare = spec.QueueDeclare(0, name, False, True, False, False, False, arguments)
        assert isinstance(client.call(declare), spec.QueueDeclareOk)
        config = pair.a.queue(name).fifo.config
        pair.until(lambda config=config, limit=limit: int(config.delivery_limit) == limit)
    client.publish_confirmed("none", 1)
    client.publish_confirmed("2", 1)
    for name, times, left in (("none", 25, True), ("2", 3, False)):
        for _ in range(times):
            got = client.get(name)
            assert got is not None
            client.send(spec.BasicReject(got.tag, True))
        assert (client.get(name) is not None) == left


def test_of_a_limit_of_its_own_and_those_of_policies_the_smallest_counts() -> None:
    pair = Pair()
    client = pair.a.client()
    for name, given in (("ord.5", 5), ("ord.none", -1)):
        arguments: Table = {"x-queue-type": "quorum", "x-delivery-limit": given}
        client.call(spec.QueueDeclare(0, name, False, True, False, False, False, arguments))

    def limit(name: str) -> int:
        return int(pair.a.queue(name).fifo.config.delivery_limit)

    pair.until(lambda: limit("ord.5") == 5 and limit("ord.none") == -1)
    set_policy(pair, {"delivery-limit": 9})
    pair.until(lambda: limit("ord.none") == 9)
    assert limit("ord.5") == 5
    set_policy(pair, {"delivery-limit": 3})
    pair.until(lambda: limit("ord.5") == limit("ord.none") == 3)
    set_policy(pair, {"delivery-limit": -2})
    pair.until(lambda: limit("ord.5") == 5 and limit("ord.none") == -1)
    set_policy(pair, {"delivery-limit": 4})
    pair.until(lambda: limit("ord.5") == limit("ord.none") == 4)


def test_policies_that_follow_each_other_at_once_leave_the_last() -> None:
    pair, _ = with_queue()
    for limit in (3, 20, 4, 20):
        set_policy(pair, {"delivery-limit": limit})
    pair.until(lambda: limits(pair) == {20})
    pair.settle(50)
    assert limits(pair) == {20}


def test_a_queue_that_is_declared_later_has_it_from_the_start() -> None:
    pair, client = with_queue()
    set_policy(pair, {"delivery-limit": 3})
    pair.until(lambda: limits(pair) == {3})
    client.declare("orders-2", kind="quorum")
    queue = pair.a.queue("orders-2")
    pair.until(lambda: int(queue.fifo.config.delivery_limit) == 3)


def test_who_leads_next_goes_by_the_policy_that_was_set_without_a_leader() -> None:
    """The node that led is gone before it could log the change."""
    pair = Pair()
    pair.minds_seconds = True
    pair.add("c")
    client = pair.a.client()
    client.declare(QUEUE, kind="quorum")
    pair.until(lambda: limits(pair) == {20})
    leader = next(s for s in pair.stations.values() if s.queue(QUEUE).group.leads())
    others = [station for station in pair.stations.values() if station is not leader]
    leader.kill()
    others[0].node.store.submit(
        SetPolicy("/", "p", False, "^ord", "queues", 0, {"delivery-limit": 6}), None
    )
    pair.until(lambda: {int(s.queue(QUEUE).fifo.config.delivery_limit) for s in others} == {6})
    leader.start()
    pair.until(lambda: leader.node.ready and limits(pair) == {6})


@pytest.mark.rule("POI-03")
def test_a_leader_that_the_cluster_does_not_know_yet_sets_the_limit() -> None:
    """It has no session then, and nothing else that it submits is logged."""
    pair = Pair()
    pair.add("c")
    a, b = pair.a, pair.b
    b.kill()

    def unheard(message: bytes) -> bytes:
        return (
            sealed(COMMAND_KIND + encode(Barrier())) if message[0] == COMMAND_KIND[0] else message
        )

    pair.damage = {("b", "a"): unheard, ("b", "c"): unheard}
    b.start()
    pair.until(lambda: not a.node.cluster.detector.suspected("b"))
    client = a.client()
    name = ""
    for number in range(10):
        name = f"{QUEUE}{number}"
        arguments: Table = {"x-queue-type": "quorum", "x-queue-leader-locator": "balanced"}
        declare = spec.QueueDeclare(0, name, durable=True, arguments=arguments)
        assert isinstance(client.call(declare), spec.QueueDeclareOk)
        if a.record(name).node == "b":
            break
    pair.until(
        lambda: (
            b.knows(name) and b.node.cluster.members[int(b.record(name).group_id)].raft.is_leader
        )
    )
    assert b.node.cluster.session == 0
    pair.until(lambda: int(a.queue(name).fifo.config.delivery_limit) == 20)
    assert b.node.cluster.session == 0


@pytest.mark.rule("POI-05")
def test_a_policy_of_while_the_lead_was_to_be_handed_over_counts() -> None:
    """The leader takes nothing into the log meanwhile, and goes on when nobody takes over."""
    pair = Pair()
    pair.add("c")
    client = pair.a.client()
    assert isinstance(client.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    pair.until(lambda: pair.stations["c"].knows(QUEUE) and limits(pair) == {20})
    pair.minds_seconds = True
    group_id = int(pair.a.record(QUEUE).group_id)
    raft = pair.a.node.cluster.members[group_id].raft
    assert raft.is_leader
    pair.deaf = {("a", "c"), ("c", "a")}
    pair.a.node.queue_members.transfer(group_id, "c")
    pair.until(lambda: not raft.can_propose())
    set_policy(pair, {"delivery-limit": 2})
    pair.until(lambda: "p" in pair.a.node.metadata.vhosts["/"].policies)
    pair.settle(3)
    assert not raft.can_propose()
    pair.until(raft.can_propose)
    pair.until(lambda: int(pair.b.queue(QUEUE).fifo.config.delivery_limit) == 2)
    assert raft.is_leader


def given_back(client: Client, times: int) -> list[tuple[Any, Any]]:
    """Have a message come so often by `basic.nack`; what its headers count."""
    counts = []
    for _ in range(times):
        got = client.get(QUEUE)
        if got is None:
            break
        headers: Table = got.headers()
        counts.append((headers.get("x-acquired-count"), headers.get("x-delivery-count")))
        client.send(spec.BasicNack(got.tag, False, True))
    return counts


@pytest.mark.rule("POI-02")
def test_what_is_given_back_without_a_failure_never_reaches_the_limit() -> None:
    pair, client = with_queue()
    set_policy(pair, {"delivery-limit": 1})
    pair.until(lambda: limits(pair) == {1})
    client.publish_confirmed(QUEUE, 1)
    assert given_back(client, 6) == [(None, None), *[(n, None) for n in range(1, 6)]]
    assert returned(client, 1)
    client.publish_confirmed(QUEUE, 1)
    given_back(client, 3)
    assert not returned(client, 2)


@pytest.mark.parametrize("way", ["cut off", "restarted"])
def test_what_a_consumer_of_a_node_that_is_not_heard_held_has_not_failed(way: str) -> None:
    """That of one that begins again has: whoever consumed there is gone for certain."""
    pair = Pair()
    c = pair.add("c")
    client = pair.a.client()
    client.declare(QUEUE, kind="quorum")
    client.publish_confirmed(QUEUE, 1)
    pair.until(lambda: QUEUE in c.node.queues.vhosts["/"].queues)
    assert c.client().get(QUEUE) is not None
    c.kill()
    if way == "restarted":
        c.start()
    pair.until(lambda: pair.a.queue(QUEUE).ready_count() == 1)
    assert given_back(client, 1) == [(1, 1 if way == "restarted" else None)]


CHAINS = [("quorum", False), ("quorum", True), ("classic", False)]
"""By way of what queue messages get from the first quorum queue to the last, and whether the first
keeps them until they are confirmed."""


def chained(pair: Pair, client: Client, by: str, kept: bool) -> None:
    """Declare `first`, whose dead letters go to `next`, by way of a classic queue if so."""
    strategy: Table = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
    to = "next" if by == "quorum" else "between"
    for name, key, more in (
        ("last", "", {"x-queue-type": "classic"}),
        ("next", "last", {"x-queue-type": "quorum", "x-delivery-limit": 2}),
        ("between", "next", {"x-queue-type": "classic"}),
        ("first", to, {"x-queue-type": "quorum", **(strategy if kept else {})}),
    ):
        dead: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": key}
        arguments: Table = {**more, **(dead if key else {})}
        declare = spec.QueueDeclare(0, name, False, True, False, False, False, arguments)
        assert isinstance(client.call(declare), spec.QueueDeclareOk)
    pair.until(lambda: all(station.knows("first") for station in pair.stations.values()))


def got_from(pair: Pair, client: Client, name: str) -> Got:
    found: list[Got] = []

    def there() -> bool:
        got = client.get(name)
        if got is not None:
            found.append(got)
        return got is not None

    pair.until(there)
    return found[0]


def fail(pair: Pair, client: Client, name: str, times: int) -> None:
    for _ in range(times):
        client.send(spec.BasicReject(got_from(pair, client, name).tag, True))


@pytest.mark.rule("POI-02", "POI-03", "DL-01")
@pytest.mark.parametrize(("by", "kept"), CHAINS)
@pytest.mark.parametrize("restart", [False, True])
def test_what_failed_elsewhere_counts_towards_the_limit(by: str, kept: bool, restart: bool) -> None:
    """Of the next quorum queue that a message comes to as a dead letter, on whichever node."""
    pair = Pair()
    client = pair.a.client()
    chained(pair, client, by, kept)
    client.publish_confirmed("first", 2)
    fail(pair, client, "first", 2)
    for _ in range(2):
        client.send(spec.BasicNack(got_from(pair, client, "first").tag, False, False))
    if by == "classic":
        for _ in range(2):
            client.send(spec.BasicNack(got_from(pair, client, "between").tag, False, False))
    pair.until(lambda: pair.a.queue("next").ready_count() == 2)
    if restart:
        # From a snapshot of the machine, and from entries of the log.
        queue = pair.a.queue("next")
        pair.until(lambda: queue.snapshot() > 0)
        pair.settle()
        pair.a.kill()
        pair.a.start()
        pair.until(lambda: pair.a.node.ready)
    other = pair.b.client()
    counts = []
    for _ in range(2):
        got = got_from(pair, other, "next")
        counts.append((got.body, got.headers().get("x-delivery-count"), got.redelivered))
        other.send(spec.BasicReject(got.tag, True))
    # In the first queue the second message has never failed.
    assert sorted(counts, key=lambda one: one[0]) == [(b"1", 2, True), (b"2", None, False)]
    # The first one is over the limit now, and the other is not.
    assert got_from(pair, other, "last").body == b"1"
    got = got_from(pair, other, "next")
    assert (got.body, got.headers()["x-delivery-count"]) == (b"2", 1)
    assert other.get("next") is None and other.get("last") is None


def test_a_message_over_the_limit_of_its_queue_goes_with_its_next_return() -> None:
    """Even if that is no failure, as in RabbitMQ; and those failures are not counted twice."""
    pair = Pair(alone=True)
    client = pair.a.client()
    chained(pair, client, "quorum", False)
    client.publish_confirmed("first", 1)
    fail(pair, client, "first", 4)
    client.send(spec.BasicNack(got_from(pair, client, "first").tag, False, False))
    got = got_from(pair, client, "next")
    assert got.headers()["x-delivery-count"] == 4
    client.send(spec.BasicNack(got.tag, False, True))
    assert got_from(pair, client, "last").body == b"1"
    assert note_of(pair.a.queue("last").batch_of(0).record(0), 0).failed == 4


@pytest.mark.rule("POI-02")
def test_what_was_never_sent_has_not_failed_when_its_consumer_is_cancelled() -> None:
    """It waited for a client that reads nothing; what was sent is the client's to settle."""
    pair = Pair(alone=True)
    publisher = pair.a.client()
    assert isinstance(publisher.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    publisher.call(spec.ConfirmSelect(False))
    for _ in range(20):
        publisher.publish(QUEUE, bytes(20_000))
    pair.until(lambda: len(publisher.acked) == 20)
    reader = pair.a.client()
    reader.deaf = True
    reader.socket_bytes = 50_000
    reader.send(spec.BasicConsume(0, QUEUE, "c", False, False, False, False, {}))
    pair.until(lambda: pair.a.queue(QUEUE).ready_count() == 0)
    written = sum(map(len, reader.inbox)) // 20_000
    assert 0 < written < 20
    reader.send(spec.BasicCancel("c", False))
    left = 20 - written
    pair.until(lambda: pair.a.queue(QUEUE).ready_count() == left)
    other = pair.a.client()
    counts = [got_from(pair, other, QUEUE).headers().get("x-delivery-count") for _ in range(left)]
    assert counts == [None] * left
