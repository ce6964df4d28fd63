"""Queues that serve one consumer at a time, used from one node, from others, and without one."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

NAME = "q"
KINDS = ["classic", "transient", "quorum"]


def declare(client: Client, kind: str, size: int = 1) -> spec.Method:
    arguments: Table = {"x-queue-type": kind if kind == "quorum" else "classic"}
    arguments["x-single-active-consumer"] = True
    if kind == "quorum":
        arguments["x-quorum-initial-group-size"] = size
    durable = kind != "transient"
    ok = client.call(spec.QueueDeclare(0, NAME, False, durable, False, False, False, arguments))
    return ok


def consume(client: Client, tag: str, priority: int = 0, exclusive: bool = False) -> spec.Method:
    arguments: Table = {"x-priority": priority}
    return client.call(spec.BasicConsume(0, NAME, tag, False, False, exclusive, False, arguments))


@pytest.mark.parametrize("kind", KINDS)
def test_operators_are_told_of_all_consumers(kind: str) -> None:
    """Those that wait, too. Clients are told of the active one alone where RabbitMQ does so."""
    pair = Pair()
    first, second = pair.a.client(), pair.a.client()
    declare(first, kind)
    for client in (first, second):
        consume(client, "c")
    pair.settle(5)
    assert int(pair.a.queue(NAME).counts().consumers) == 2
    declared = declare(second, kind)
    assert isinstance(declared, spec.QueueDeclareOk)
    assert int(declared.consumer_count) == (1 if kind == "quorum" else 2)


def cancel(client: Client, tag: str) -> None:
    assert isinstance(client.call(spec.BasicCancel(tag, False)), spec.BasicCancelOk)


@pytest.mark.rule("QQ-18")
@pytest.mark.parametrize("kind", KINDS)
def test_consumers_of_all_nodes_take_turns(kind: str) -> None:
    """Those of another node wait and are active like any, and nobody gets anything beside one."""
    pair = Pair()
    assert isinstance(declare(pair.a.client(), kind), spec.QueueDeclareOk)
    pair.until(lambda: pair.b.knows(NAME))
    far, near, late = pair.b.client(), pair.a.client(), pair.b.client()
    for client in (far, near, late):
        assert isinstance(consume(client, "c"), spec.BasicConsumeOk)
    publisher = pair.a.client()
    publisher.publish_confirmed(NAME, 2)
    pair.until(lambda: far.bodies() == [b"1", b"2"])
    cancel(far, "c")
    publisher.publish_confirmed(NAME, 1)
    pair.until(lambda: near.bodies() == [b"3"])
    near.vanish()
    pair.until(lambda: late.bodies() == [b"3"])
    assert late.messages[0].redelivered
    far.ack(2, True)
    late.ack(1)
    pair.settle(20)
    counts = pair.a.queue(NAME).counts()
    assert (int(counts.ready), int(counts.held)) == (0, 0)
    assert len(far.messages) == 2 and len(near.messages) == 1 and len(late.messages) == 1


def test_a_node_that_is_lost_takes_the_active_consumer_with_it() -> None:
    pair = Pair()
    pair.add("c")
    assert isinstance(declare(pair.a.client(), "quorum", 3), spec.QueueDeclareOk)
    pair.until(lambda: all(station.knows(NAME) for station in pair.stations.values()))
    first, second = pair.b.client(), pair.stations["c"].client()
    consume(first, "first")
    consume(second, "second")
    publisher = pair.a.client()
    publisher.publish_confirmed(NAME, 3)
    pair.until(lambda: len(first.messages) == 3)
    assert second.messages == []
    pair.b.kill()
    pair.until(lambda: second.bodies() == [b"1", b"2", b"3"])


def test_a_change_of_leader_changes_nothing() -> None:
    """Whoever leads then, the same consumer is active, and the same one is next."""
    pair = Pair()
    pair.add("c")
    assert isinstance(declare(pair.a.client(), "quorum", 3), spec.QueueDeclareOk)
    pair.until(lambda: all(station.knows(NAME) for station in pair.stations.values()))
    first, second = pair.b.client(), pair.stations["c"].client()
    consume(first, "first")
    consume(second, "second")
    pair.b.client().publish_confirmed(NAME, 1)
    pair.until(lambda: first.bodies() == [b"1"])
    pair.a.kill()
    publisher = pair.b.client()
    publisher.publish_confirmed(NAME, 1)
    pair.until(lambda: len(first.messages) == 2)
    assert second.messages == []
    cancel(first, "first")
    publisher.publish_confirmed(NAME, 1)
    pair.until(lambda: second.bodies() == [b"2"])


def test_consumers_of_a_node_that_holds_nothing_of_the_queue() -> None:
    pair = Pair()
    pair.add("c")
    assert isinstance(declare(pair.a.client(), "quorum", 1), spec.QueueDeclareOk)
    pair.until(lambda: all(station.knows(NAME) for station in pair.stations.values()))
    low, high = pair.b.client(), pair.stations["c"].client()
    consume(low, "low")
    publisher = pair.a.client()
    publisher.publish_confirmed(NAME, 1)
    pair.until(lambda: low.bodies() == [b"1"])
    consume(high, "high", 5)
    publisher.publish_confirmed(NAME, 1)
    pair.settle(20)
    assert len(low.messages) == 1 and high.messages == [], "the low one has to settle first"
    low.ack(1)
    pair.until(lambda: high.bodies() == [b"2"])


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_restart_serves_one_again(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, kind)
    consume(client, "c")
    client.publish_confirmed(NAME, 1)
    pair.settle(20)
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    first, second = pair.a.client(), pair.a.client()
    consume(first, "first")
    consume(second, "second")
    publisher = pair.a.client()
    publisher.publish_confirmed(NAME, 2)
    pair.until(lambda: len(first.messages) == 3)
    assert second.messages == []


@pytest.mark.rule("QQ-19")
@pytest.mark.parametrize("where", ["a", "b"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_exclusive_consumer(kind: str, where: str) -> None:
    pair = Pair()
    declare(pair.a.client(), kind)
    pair.until(lambda: pair.b.knows(NAME))
    client = pair.stations[where].client()
    answer = consume(client, "alone", exclusive=True)
    if kind == "quorum":
        assert isinstance(answer, spec.BasicConsumeOk)
    else:
        assert isinstance(answer, spec.ChannelClose)
        assert answer.reply_text == f"ACCESS_REFUSED - queue '{NAME}' in vhost '/' in exclusive use"
    assert isinstance(consume(client, "other"), spec.BasicConsumeOk)


@pytest.mark.parametrize("single", [True, False])
def test_a_refused_exclusive_consumer_keeps_nobody_out(single: bool) -> None:
    """Not even those who ask on its node before it is refused."""
    pair = Pair()
    if single:
        declare(pair.a.client(), "classic")
    else:
        pair.a.client().declare(NAME)
        pair.a.client().consume(NAME)
    pair.until(lambda: pair.b.knows(NAME))
    alone, other = pair.b.client(), pair.b.client()
    alone.send(spec.BasicConsume(0, NAME, "alone", False, False, True, False, {}))
    other.send(spec.BasicConsume(0, NAME, "other", False, False, False, False, {}))
    pair.until(lambda: len(alone.methods) > 0 and len(other.methods) > 0)
    (closing,) = alone.methods
    assert isinstance(closing, spec.ChannelClose) and closing.reply_code == 403
    assert isinstance(other.methods[0], spec.BasicConsumeOk)


@pytest.mark.parametrize("where", ["a", "b"])
def test_a_get_is_for_classic_queues_only(where: str) -> None:
    pair = Pair()
    declare(pair.a.client(), "quorum")
    pair.until(lambda: pair.b.knows(NAME))
    refused = pair.stations[where].client().call(spec.BasicGet(0, NAME, False))
    assert isinstance(refused, spec.ChannelClose) and refused.reply_code == 405


def test_a_cluster_of_two_releases_has_none() -> None:
    pair = Pair(configure=lambda settings: setattr(settings, "cluster_version_max", 3))
    refused = declare(pair.a.client(), "quorum")
    assert isinstance(refused, spec.ChannelClose)
    assert "this needs cluster version 4" in refused.reply_text
