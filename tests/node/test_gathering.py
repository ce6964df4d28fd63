"""What a queue with several members gathers before it submits an entry."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.pair import Client, Pair
from warren.log.batch import KIND_COMMAND, KIND_MESSAGES
from warren.wire.amqp091 import spec


def with_queue() -> tuple[Pair, Client, Any]:
    """A quorum queue on two nodes, a client of one that does not lead it, and its queue there."""
    pair = Pair()
    owner = pair.a.client()
    declare = spec.QueueDeclare(
        0, "q", False, True, False, False, False, {"x-queue-type": "quorum"}
    )
    assert isinstance(owner.call(declare), spec.QueueDeclareOk)
    pair.until(lambda: pair.b.knows("q"))
    client = pair.b.client()
    assert isinstance(client.call(spec.ConfirmSelect(False)), spec.ConfirmSelectOk)
    queue = pair.b.queue("q")
    pair.until(lambda: not queue.group.busy())
    assert not queue.group.leads()
    return pair, client, queue


def exchange(pair: Pair, client: Client) -> None:
    """What the client said reaches its node; no time passes."""
    client.exchange()
    pair.turn(client.station)


def publish(pair: Pair, client: Client, count: int) -> None:
    """Publishes that come one at a time."""
    for number in range(count):
        client.publish("q", b"%d" % number)
        exchange(pair, client)


def consuming(pair: Pair, client: Client, count: int, prefetch: int) -> None:
    """Have so many messages delivered."""
    client.qos(prefetch)
    assert isinstance(client.consume("q"), spec.BasicConsumeOk)
    publish(pair, client, count)
    pair.until(lambda: len(client.messages) == count and len(client.acked) == count)
    pair.until(lambda: not client.station.queue("q").group.busy())


@pytest.mark.rule("QQ-09")
def test_what_comes_while_an_entry_is_under_way_is_one_entry() -> None:
    pair, client, queue = with_queue()
    before = queue.messages.last_index
    publish(pair, client, 10)
    pair.until(lambda: client.acked == set(range(1, 11)))
    assert queue.messages.last_index == before + 2
    assert queue.ready_count() == 10


def test_what_was_gathered_is_safe_when_the_queue_goes() -> None:
    """As with RabbitMQ: a message that was on its way into a deleted queue is confirmed."""
    pair, client, queue = with_queue()
    publish(pair, client, 3)
    other = pair.a.client()
    assert isinstance(other.call(spec.QueueDelete(0, "q", False, False, False)), spec.QueueDeleteOk)
    pair.until(lambda: client.acked == {1, 2, 3})
    assert queue.deleted


def test_settles_that_nobody_waits_for_share_an_entry() -> None:
    pair, client, queue = with_queue()
    consuming(pair, client, 10, prefetch=100)
    before = queue.messages.last_index
    for got in client.messages:
        client.ack(got.tag)
        exchange(pair, client)
    assert not queue.group.busy()
    pair.until(lambda: queue.fifo.held_count() == 0)
    assert queue.messages.last_index == before + 1


def test_a_consumer_with_little_credit_left_gets_it_back_at_once() -> None:
    pair, client, queue = with_queue()
    consuming(pair, client, 2, prefetch=2)
    client.ack(client.messages[0].tag)
    exchange(pair, client)
    assert queue.group.busy()


def test_settles_go_at_once_when_messages_wait_for_credit() -> None:
    pair, client, queue = with_queue()
    publisher = pair.a.client()
    consuming(pair, client, 1, prefetch=3)
    client.ack(client.messages[0].tag)
    exchange(pair, client)
    assert not queue.group.busy()
    for number in range(3):
        publisher.publish("q", b"%d" % number)
    for _ in range(20):
        pair.step_at_once()
        for each in (publisher, client):
            exchange(pair, each)
    assert len(client.messages) == 4


def test_messages_do_not_overtake_settles() -> None:
    """Whoever sees a publish confirmed may count on what was acknowledged before it."""
    pair, client, queue = with_queue()
    consuming(pair, client, 1, prefetch=100)
    publish(pair, client, 1)
    client.ack(client.messages[0].tag)
    publish(pair, client, 1)
    pair.until(lambda: 3 in client.acked and not queue.group.busy())
    last = queue.messages.last_index
    assert [queue.messages.recent(last - 1).kind, queue.messages.recent(last).kind] == [
        KIND_COMMAND,
        KIND_MESSAGES,
    ]


def test_messages_of_other_channels_go_before_settles() -> None:
    """A settle that nobody waits for is kept, and shares an entry with later ones."""
    pair, client, queue = with_queue()
    publisher = pair.b.client()
    assert isinstance(publisher.call(spec.ConfirmSelect(False)), spec.ConfirmSelectOk)
    consuming(pair, client, 4, prefetch=100)
    before = queue.messages.last_index
    for number in range(4):
        client.ack(client.messages[number].tag)
        exchange(pair, client)
        publish(pair, publisher, 1)
        for _ in range(20):
            pair.step_at_once()
            for each in (publisher, client):
                exchange(pair, each)
        assert publisher.acked == set(range(1, number + 2))
    assert queue.messages.last_index == before + 4
    pair.until(lambda: queue.fifo.held_count() == 4)
    assert queue.messages.last_index == before + 5


def test_what_comes_while_the_lead_is_handed_over_in_vain_is_asked_for() -> None:
    pair, client, queue = with_queue()
    group = pair.a.queue("q").group
    assert group.raft.transfer("b", pair.a.node.monotonic_ms()) == ""
    group.work()
    # The word that `b` is to lead gets lost.
    pair.links["a", "b"].clear()
    publish(pair, client, 1)
    pair.until(lambda: client.acked == {1})
    assert group.leads() and queue.ready_count() == 1
