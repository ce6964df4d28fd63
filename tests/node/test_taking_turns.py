"""Who gets what first: consumers that share a limit, and those who ask after others waited."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair
from warren.wire.amqp091 import spec

KINDS = [("classic", True), ("classic", False), ("quorum", True)]


def consume(client: Client, name: str, tag: str) -> None:
    method = spec.BasicConsume(0, name, tag, False, False, False, False, {})
    assert isinstance(client.call(method), spec.BasicConsumeOk)


def tags_in_turn(client: Client, count: int) -> str:
    """Ack one message after the other; returns whose they were."""
    tags = ""
    for number in range(count):
        client.pair.until(lambda at=number: len(client.messages) > at)
        method = client.messages[number].method
        assert isinstance(method, spec.BasicDeliver)
        tags += method.consumer_tag
        client.ack(client.messages[number].tag)
    return tags


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("limit", [1, 3])
def test_consumers_of_a_queue_share_a_limit_in_turn(durable: bool, limit: int) -> None:
    """`basic.qos` for the channel: an ack makes room for the next in line, not for who acked."""
    pair = Pair(alone=True)
    client = pair.a.client()
    assert isinstance(client.declare("q", durable=durable), spec.QueueDeclareOk)
    client.qos(limit, shared=True)
    for tag in ("1", "2", "3"):
        consume(client, "q", tag)
    for number in range(30):
        client.publish("q", b"%d" % number)
    assert tags_in_turn(client, 30) == "123" * 10


@pytest.mark.parametrize("durable", [True, False])
def test_a_limit_is_for_those_who_were_there_before_it(durable: bool) -> None:
    """With what they hold; consumers with automatic acks have none."""
    pair = Pair(alone=True)
    client, other = pair.a.client(), pair.a.client()
    for name in ("q", "r"):
        assert isinstance(client.declare(name, durable=durable), spec.QueueDeclareOk)
    consume(client, "q", "1")
    assert isinstance(client.consume("r", no_ack=True), spec.BasicConsumeOk)
    for number in range(2):
        other.publish("q", b"%d" % number)
    pair.until(lambda: len(client.messages) == 2)
    client.qos(3, shared=True)
    for number in range(4):
        other.publish("q", b"%d" % (2 + number))
        other.publish("r", b"r")
    pair.until(lambda: len(client.messages) == 7)
    pair.settle(20)
    assert client.bodies().count(b"r") == 4 and len(client.messages) == 7
    client.ack(client.messages[1].tag, multiple=True)
    pair.until(lambda: len(client.messages) == 9)
    pair.settle(20)
    assert len(client.messages) == 9


@pytest.mark.parametrize("where", ["a", "b"])
def test_a_limit_of_each_consumer_ends_the_channels(where: str) -> None:
    """As in RabbitMQ; what is held then counts where the channel is limited once more."""
    pair = Pair()
    assert isinstance(pair.a.client().declare("q"), spec.QueueDeclareOk)
    pair.until(lambda: pair.b.knows("q"))
    client, other = pair.stations[where].client(), pair.a.client()
    client.qos(2, shared=True)
    consume(client, "q", "1")
    for number in range(4):
        other.publish("q", b"%d" % number)
    pair.until(lambda: len(client.messages) == 2)
    pair.settle(20)
    assert len(client.messages) == 2
    client.qos(1)
    pair.until(lambda: len(client.messages) == 4)
    client.qos(4, shared=True)
    other.publish("q", b"4")
    pair.settle(20)
    assert len(client.messages) == 4
    client.ack(client.messages[0].tag)
    pair.until(lambda: len(client.messages) == 5)


def test_a_limit_is_for_those_of_another_nodes_queue_who_were_there_before() -> None:
    pair = Pair()
    assert isinstance(pair.a.client().declare("q"), spec.QueueDeclareOk)
    pair.until(lambda: pair.b.knows("q"))
    client, other = pair.b.client(), pair.a.client()
    consume(client, "q", "1")
    client.qos(2, shared=True)
    pair.settle(20)
    for number in range(4):
        other.publish("q", b"%d" % number)
    pair.until(lambda: len(client.messages) == 2)
    pair.settle(20)
    assert len(client.messages) == 2
    client.ack(client.messages[0].tag)
    pair.until(lambda: len(client.messages) == 3)


def test_queues_share_a_limit_in_turn() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    for name in ("q1", "q2"):
        assert isinstance(client.declare(name), spec.QueueDeclareOk)
        for number in range(20):
            client.publish(name, b"%d" % number)
    client.qos(1, shared=True)
    consume(client, "q1", "1")
    consume(client, "q2", "2")
    assert tags_in_turn(client, 20)[2:] in ("12" * 9, "21" * 9)


def test_consumers_of_another_nodes_queue_share_a_limit_in_turn() -> None:
    pair = Pair()
    assert isinstance(pair.a.client().declare("q"), spec.QueueDeclareOk)
    pair.until(lambda: pair.b.knows("q"))
    client = pair.b.client()
    client.qos(1, shared=True)
    consume(client, "q", "1")
    consume(client, "q", "2")
    for number in range(20):
        client.publish("q", b"%d" % number)
    tags = tags_in_turn(client, 20)
    assert sorted(tags) == ["1"] * 10 + ["2"] * 10
    assert "111" not in tags and "222" not in tags


def test_a_cancelled_consumer_leaves_its_share_to_the_others() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    assert isinstance(client.declare("q"), spec.QueueDeclareOk)
    client.qos(1, shared=True)
    consume(client, "q", "1")
    consume(client, "q", "2")
    for number in range(4):
        client.publish("q", b"%d" % number)
    pair.until(lambda: len(client.messages) == 1)
    assert isinstance(client.call(spec.BasicCancel("1", False)), spec.BasicCancelOk)
    assert tags_in_turn(client, 4) == "1222"


# --- what came first ----------------------------------------------------------------------------


def waiting(kind: str, durable: bool) -> tuple[Client, Client]:
    """A consumer with room that waits, and another client of its node."""
    pair = Pair(alone=True)
    consumer, other = pair.a.client(), pair.a.client()
    assert isinstance(consumer.declare("q", durable=durable, kind=kind), spec.QueueDeclareOk)
    consumer.qos(1)
    consume(consumer, "q", "c")
    return consumer, other


@pytest.mark.parametrize(("kind", "durable"), KINDS[:2])
def test_a_get_does_not_overtake_a_waiting_consumer(kind: str, durable: bool) -> None:
    consumer, other = waiting(kind, durable)
    other.publish("q", b"one")
    assert other.get("q") is None
    consumer.pair.until(lambda: consumer.bodies() == [b"one"])
    other.publish("q", b"two")
    got = other.get("q")
    assert got is not None and got.body == b"two"


@pytest.mark.parametrize(("kind", "durable"), KINDS[:2])
def test_counts_are_those_behind_the_delivery(kind: str, durable: bool) -> None:
    consumer, other = waiting(kind, durable)
    other.publish("q", b"one")
    other.publish("q", b"two")
    answer = other.declare("q", passive=True)
    assert isinstance(answer, spec.QueueDeclareOk) and answer.message_count == 1
    consumer.pair.until(lambda: consumer.bodies() == [b"one"])


@pytest.mark.parametrize(("kind", "durable"), KINDS[:2])
def test_a_purge_leaves_a_waiting_consumer_its_message(kind: str, durable: bool) -> None:
    consumer, other = waiting(kind, durable)
    other.publish("q", b"one")
    other.publish("q", b"two")
    answer = other.call(spec.QueuePurge(0, "q", False))
    assert isinstance(answer, spec.QueuePurgeOk) and answer.message_count == 1
    consumer.pair.until(lambda: consumer.bodies() == [b"one"])


@pytest.mark.parametrize(("kind", "durable"), KINDS[:2])
def test_a_queue_whose_message_is_handed_out_is_empty(kind: str, durable: bool) -> None:
    consumer, other = waiting(kind, durable)
    other.publish("q", b"one")
    assert isinstance(other.call(spec.QueueDelete(0, "q", False, True, False)), spec.QueueDeleteOk)


@pytest.mark.parametrize(("kind", "durable"), KINDS)
def test_what_is_requeued_goes_to_who_waits_and_not_to_a_later_get(
    kind: str, durable: bool
) -> None:
    """The get comes with the same write as the reject; the consumer was there before both."""
    consumer, other = waiting(kind, durable)
    pair = consumer.pair
    # The consumer is full; `other` takes the second message and gives it back when there is room.
    other.publish("q", b"one")
    pair.until(lambda: len(consumer.messages) == 1)
    other.publish("q", b"two")
    pair.settle(3)
    got = other.get("q")
    assert got is not None and got.body == b"two"
    consumer.ack(consumer.messages[0].tag)
    pair.settle(3)
    seen = len(other.methods)
    other.send(spec.BasicReject(got.tag, True))
    other.send(spec.BasicGet(0, "q", False))
    pair.until(lambda: len(other.methods) > seen or bool(other.messages))
    assert isinstance(other.methods[-1], spec.BasicGetEmpty)
    pair.until(lambda: consumer.bodies() == [b"one", b"two"])


@pytest.mark.parametrize(("kind", "durable"), KINDS)
def test_what_is_requeued_is_what_a_get_finds(kind: str, durable: bool) -> None:
    """Nobody waits: the message that came back is the first in line again."""
    pair = Pair(alone=True)
    client = pair.a.client()
    assert isinstance(client.declare("q", durable=durable, kind=kind), spec.QueueDeclareOk)
    client.publish("q", b"one")
    client.publish("q", b"two")
    pair.settle(3)
    got = client.get("q")
    assert got is not None and got.body == b"one"
    client.send(spec.BasicReject(got.tag, True))
    again = client.get("q")
    assert again is not None and again.body == b"one" and again.redelivered
