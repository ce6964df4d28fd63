"""Messages that lie scattered: what is done to all of them at once, in parts, and in between."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair
from warren.protocols.amqp091.transactions import ANSWERS_MAX
from warren.wire.amqp091 import spec

KINDS = [("classic", True), ("classic", False), ("quorum", True)]
LASTING = [KINDS[0], KINDS[2]]

COUNT = 120
PART = 7
LEFT = [b"%d" % number for number in range(1, COUNT, 2)]
"""What is not acked, each between two that are."""


def consume(client: Client) -> None:
    method = spec.BasicConsume(0, "q", "c", False, False, False, False, {})
    assert isinstance(client.call(method), spec.BasicConsumeOk)


def scattered(kind: str, durable: bool, transactional: bool = False) -> Client:
    """A client that holds every second message of a queue."""
    pair = Pair(alone=True)
    client = pair.a.client()
    assert isinstance(client.declare("q", durable=durable, kind=kind), spec.QueueDeclareOk)
    consume(client)
    for number in range(COUNT):
        client.publish("q", b"%d" % number)
    pair.until(lambda: len(client.messages) == COUNT)
    for got in client.messages[::2]:
        client.ack(got.tag)
    pair.settle(60)
    in_parts(pair)
    return client


def in_parts(pair: Pair) -> None:
    fifo = pair.a.queue("q").fifo
    fifo.return_max = PART
    fifo.freed_max = PART


def all_got(client: Client) -> list[bytes]:
    """What is in the queue, one by one."""
    bodies = []
    while (got := client.get("q")) is not None:
        bodies.append(got.body)
        assert got.redelivered
    return bodies


def nack_all(client: Client) -> spec.BasicNack:
    return spec.BasicNack(client.messages[-1].tag, True, True)


@pytest.mark.parametrize(("kind", "durable"), KINDS)
def test_what_is_nacked_comes_again_in_order(kind: str, durable: bool) -> None:
    client = scattered(kind, durable)
    client.send(nack_all(client))
    client.pair.until(lambda: len(client.messages) == COUNT + len(LEFT))
    assert client.bodies()[COUNT:] == LEFT
    assert all(got.redelivered for got in client.messages[COUNT:])


@pytest.mark.parametrize(("kind", "durable"), KINDS)
@pytest.mark.parametrize("way", ["channel", "connection", "recover"])
def test_what_returns_is_polled_in_order(kind: str, durable: bool, way: str) -> None:
    """By another client, which asks while some of it is still on its way."""
    client = scattered(kind, durable)
    pair = client.pair
    other = pair.a.client()
    if way == "channel":
        client.send(spec.ChannelClose(0, "", 0, 0))
    elif way == "connection":
        client.vanish()
    else:
        client.send(spec.BasicCancel("c", False))
        client.send(spec.BasicRecover(True))
    if way != "connection":
        client.exchange()
    pair.a.node.turn()
    if not (kind == "quorum"):
        assert pair.a.queue("q").fifo.returning()
    pair.until(lambda: pair.a.queue("q").ready_count() == len(LEFT))
    assert all_got(other) == LEFT


@pytest.mark.parametrize(("kind", "durable"), KINDS)
def test_a_purge_takes_what_is_on_its_way_back(kind: str, durable: bool) -> None:
    client = scattered(kind, durable)
    pair = client.pair
    client.send(spec.BasicCancel("c", False))
    client.send(nack_all(client))
    client.send(spec.QueuePurge(0, "q", False))
    pair.until(lambda: isinstance(client.methods[-1], spec.QueuePurgeOk))
    purged = client.methods[-1]
    assert isinstance(purged, spec.QueuePurgeOk) and purged.message_count == len(LEFT)
    client.publish("q", b"new")
    pair.settle(60)
    assert not pair.a.queue("q").fifo.freed
    if durable:
        pair.a.kill()
        pair.a.start()
        pair.until(lambda: pair.a.node.ready)
        client = pair.a.client()
    got = client.get("q")
    assert got is not None and got.body == b"new"
    assert client.get("q") is None


@pytest.mark.parametrize(("kind", "durable"), KINDS)
@pytest.mark.parametrize("requeue", [False, True])
def test_what_is_acked_or_discarded_is_gone(kind: str, durable: bool, requeue: bool) -> None:
    """All but the last, by one command; for good, where the queue is."""
    client = scattered(kind, durable)
    pair = client.pair
    last = client.messages[-3].tag
    client.send(spec.BasicNack(last, True, False) if requeue else spec.BasicAck(last, True))
    pair.settle(80)
    if durable:
        pair.a.kill()
        pair.a.start()
        pair.until(lambda: pair.a.node.ready)
    else:
        client.vanish()
    assert all_got(pair.a.client()) == LEFT[-1:]


@pytest.mark.parametrize(("kind", "durable"), KINDS)
def test_a_queue_is_deleted_with_messages_on_their_way_back(kind: str, durable: bool) -> None:
    client = scattered(kind, durable)
    pair = client.pair
    other = pair.a.client()
    client.send(nack_all(client))
    client.exchange()
    pair.a.node.turn()
    assert isinstance(other.call(spec.QueueDelete(0, "q", False, False, False)), spec.QueueDeleteOk)
    assert isinstance(other.declare("q", durable=durable, kind=kind), spec.QueueDeclareOk)
    other.publish("q", b"new")
    pair.settle(30)
    got = other.get("q")
    assert got is not None and got.body == b"new" and other.get("q") is None


@pytest.mark.parametrize(("kind", "durable"), LASTING)
@pytest.mark.parametrize("turns", range(1, 8))
def test_a_node_dies_between_two_parts(kind: str, durable: bool, turns: int) -> None:
    """Nothing is lost that was not acked, and nothing comes twice."""
    client = scattered(kind, durable)
    pair = client.pair
    client.send(nack_all(client))
    client.exchange()
    for _ in range(turns):
        pair.a.executor.step()
        pair.a.node.turn()
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    in_parts(pair)
    pair.settle(30)
    assert all_got(pair.a.client()) == LEFT


@pytest.mark.parametrize("turns", range(1, 12))
def test_a_node_dies_between_two_parts_of_a_purge(turns: int) -> None:
    """Of what a classic queue had not logged as gone, all or some is there again, in order."""
    client = scattered("classic", True)
    pair = client.pair
    client.send(spec.BasicCancel("c", False))
    client.send(nack_all(client))
    pair.settle(30)
    client.send(spec.QueuePurge(0, "q", False))
    client.exchange()
    for _ in range(turns):
        pair.a.node.turn()
        pair.a.executor.step()
        live = pair.a.queue("q").live()
        pair.a.node.tick_log()
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    again = all_got(pair.a.client())
    assert set(again) <= {b"%d" % n for first, last in live for n in range(first, last + 1)}
    assert again == [body for body in LEFT if body in again]


def test_another_leader_goes_on_where_the_last_one_stopped() -> None:
    """The leader is gone between two parts of what a third node's consumer gave back."""
    pair = Pair()
    pair.add("c")
    client = pair.b.client()
    assert isinstance(client.declare("q", kind="quorum", size=3), spec.QueueDeclareOk)
    pair.until(lambda: all("q" in s.node.tables.vhosts["/"].queues for s in pair.stations.values()))
    queues = {name: station.queue("q") for name, station in pair.stations.items()}
    pair.settle(20)
    consume(client)
    for number in range(COUNT):
        client.publish("q", b"%d" % number)
    pair.until(lambda: len(client.messages) == COUNT)
    for got in client.messages[::2]:
        client.ack(got.tag)
    pair.until(lambda: all(len(queue.fifo.live()) == len(LEFT) for queue in queues.values()))
    for queue in queues.values():
        queue.fifo.return_max = PART
    leader = next(name for name, queue in queues.items() if queue._group().leads())
    client.send(nack_all(client))
    pair.until(lambda: any(queue.fifo.returning() for queue in queues.values()))
    if leader != "b":
        pair.stations[leader].kill()
    pair.until(lambda: len(client.messages) == COUNT + len(LEFT))
    assert client.bodies()[COUNT:] == LEFT
    others = [queue for name, queue in queues.items() if name != leader or leader == "b"]
    pair.settle(20)
    assert len({queue.state() for queue in others}) == 1, "members have the same state"


# --- transactions -------------------------------------------------------------------------------


def answered(kind: str, durable: bool) -> Client:
    """A transactional client that acked more, one by one, than is done in a turn."""
    count = ANSWERS_MAX + 100
    pair = Pair(alone=True)
    client = pair.a.client()
    assert isinstance(client.declare("q", durable=durable, kind=kind), spec.QueueDeclareOk)
    assert isinstance(client.call(spec.TxSelect()), spec.TxSelectOk)
    other = pair.a.client()
    for number in range(count):
        other.publish("q", b"%d" % number)
    pair.until(lambda: pair.a.queue("q").ready_count() == count)
    if kind == "quorum":
        client.qos(count)
    consume(client)
    pair.until(lambda: len(client.messages) == count)
    ack_backwards(client)
    return client


def ack_backwards(client: Client) -> None:
    """So that no two acks are one."""
    for got in reversed(client.messages):
        client.ack(got.tag)
    client.pair.settle(3)


@pytest.mark.parametrize(("kind", "durable"), KINDS)
def test_a_long_transaction_is_rolled_back_and_committed_in_parts(kind: str, durable: bool) -> None:
    client = answered(kind, durable)
    channel = client.end.channels[1]
    assert channel.unsettled.count() == 0
    for method, part in ((spec.TxRollback(), ANSWERS_MAX), (spec.TxCommit(), 0)):
        seen = len(client.methods)
        client.send(method)
        # What comes behind it waits until it is done.
        client.send(spec.BasicQos(0, 1, False))
        client.exchange()
        assert 0 <= channel.unsettled.count() <= part
        assert channel.transaction.going_on() and len(client.methods) == seen
        client.pair.until(lambda seen=seen: len(client.methods) == seen + 2)
        done, behind = client.methods[seen:]
        assert done.NAME == method.NAME + "-ok" and isinstance(behind, spec.BasicQosOk)
        if part:
            assert channel.unsettled.count() == len(client.messages)
            ack_backwards(client)
    client.pair.settle(20)
    assert client.pair.a.queue("q").live() == []


def test_a_client_goes_before_its_commit_is_through() -> None:
    """What was not done returns, and only that."""
    client = answered("classic", True)
    pair, count = client.pair, len(client.messages)
    client.send(spec.TxCommit())
    client.exchange()
    client.vanish()
    pair.settle(20)
    live = pair.a.queue("q").live()
    assert live == [(0, count - ANSWERS_MAX // 2 - 1)]
    assert pair.a.queue("q").ready_count() == count - ANSWERS_MAX // 2
