"""How much a queue hands out at a time, and that it goes on until all is handed out."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair
from warren.protocols.amqp091.consuming import FLUSH_BYTES
from warren.protocols.output import TURN_BYTES_MAX
from warren.queues.fifo.machine import HAND_OUT_MAX
from warren.wire.amqp091 import spec

COUNT = 400
PART = 30


@pytest.mark.parametrize(
    ("kind", "durable"), [("classic", True), ("classic", False), ("quorum", True)]
)
def test_all_is_handed_out_a_part_at_a_time(kind: str, durable: bool) -> None:
    """Two consumers with room for everything, which never acknowledge anything."""
    pair = Pair(alone=True)
    client = pair.a.client()
    assert isinstance(client.declare("q", durable=durable, kind=kind), spec.QueueDeclareOk)
    for tag in ("one", "two"):
        consume = spec.BasicConsume(0, "q", tag, False, False, False, False, {})
        assert isinstance(client.call(consume), spec.BasicConsumeOk)
    queue = pair.a.queue("q")
    assert queue.fifo.hand_out_max == HAND_OUT_MAX
    queue.fifo.hand_out_max = PART
    for number in range(COUNT):
        client.publish("q", b"%d" % number)
    most, before, turns = 0, 0, 0
    while len(client.messages) < COUNT:
        client.exchange()
        pair.a.executor.step()
        pair.a.node.turn()
        most = max(most, queue.delivered - before)
        before = queue.delivered
        pair.a.node.tick_log()
        turns += 1
        assert turns < 400
    assert client.bodies() == [b"%d" % number for number in range(COUNT)]
    tags = [got.method.consumer_tag for got in client.messages]
    assert tags == ["one", "two"] * (COUNT // 2), "in turn, over the end of a part"
    # A turn serves a queue twice, around its write to the disk, and a part may come on top of less.
    assert 0 < most < 4 * PART


def test_another_leader_goes_on_where_the_last_one_stopped() -> None:
    """The leader is gone between two parts; its consumers are not, since they are elsewhere."""
    pair = Pair()
    pair.add("c")
    client = pair.b.client()
    assert isinstance(client.declare("q", kind="quorum", size=3), spec.QueueDeclareOk)
    pair.until(lambda: all(s.knows("q") for s in pair.stations.values()))
    queues = {name: station.queue("q") for name, station in pair.stations.items()}
    for queue in queues.values():
        queue.fifo.hand_out_max = 2
    pair.settle(20)
    for number in range(40):
        client.publish("q", b"%d" % number)
    pair.until(lambda: all(queue.ready_count() == 40 for queue in queues.values()))
    for tag in ("one", "two"):
        client.send(spec.BasicConsume(0, "q", tag, False, False, False, False, {}))
    pair.until(lambda: bool(client.messages))
    leader = next(name for name, queue in queues.items() if queue.proposer().leads())
    if leader != "b":
        pair.stations[leader].kill()
    pair.until(lambda: len(client.messages) == 40)
    assert sorted(int(body) for body in client.bodies()) == list(range(40))


def test_a_turn_gives_one_client_a_bounded_number_of_bytes() -> None:
    """A client that takes whatever it is given, from a queue that has all in memory."""
    pair = Pair(alone=True)
    client = pair.a.client()
    assert isinstance(client.declare("q", durable=False), spec.QueueDeclareOk)
    body = bytes(100_000)
    for _ in range(60):
        client.publish("q", body)
    pair.until(lambda: pair.a.queue("q").ready_count() == 60)
    client.send(spec.BasicConsume(0, "q", "c", False, False, False, False, {}))
    node = pair.a.node
    most = 0
    for _ in range(100):
        client.exchange()
        client.inbox = []
        before = int(client.end.output.sent_bytes)
        node.turn()
        most = max(most, int(client.end.output.sent_bytes) - before)
        if pair.a.queue("q").delivered == 60 and not node.needs_turn:
            break
    assert client.end.output.sent_bytes > 60 * len(body)
    # The buffer is handed over when it passes its size, and once more at the end of the turn.
    assert most < TURN_BYTES_MAX + 2 * (FLUSH_BYTES + len(body))
