"""A node that is cut off again and again, and never started anew."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair
from warren.ids import EPOCH_MAX, life_of_session
from warren.queues.numbers import Numbers
from warren.wire.amqp091 import spec

QUEUE = "orders"
TIMES = EPOCH_MAX + 45


@pytest.mark.rule("BEH-15")
def test_being_cut_off_three_hundred_times() -> None:
    """Each time its session is closed. It lives, and loses, doubles and reorders nothing."""
    pair = Pair()
    station = pair.add("c")
    client = station.client()
    assert isinstance(client.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    client.call(spec.ConfirmSelect(False))
    consumer = station.client()
    assert isinstance(consumer.declare("other", kind="quorum"), spec.QueueDeclareOk)
    assert isinstance(consumer.consume("other"), spec.BasicConsumeOk)
    # What the node has submitted before is what others close.
    assert consumer.get(QUEUE) is None
    owned = station.client()
    assert isinstance(owned.declare("mine", exclusive=True), spec.QueueDeclareOk)
    group = station.queue(QUEUE).group
    used = {int(group.session())}
    machine = pair.a.node.metadata
    for number in range(1, TIMES + 1):
        for other in ("a", "b"):
            for link in ((other, "c"), ("c", other)):
                pair.blocked.add(link)
                pair.cut(*link)
        client.publish(QUEUE, b"%d" % number)
        before = int(group.session())
        pair.until(lambda before=before: over(pair, before))
        pair.blocked.clear()
        pair.until(lambda number=number: len(client.acked) == number)
        pair.until(lambda before=before: int(group.session()) != before)
        assert int(group.session()) not in used
        used.add(int(group.session()))
        station.node.tick(0)
        # There is time for the tables, too, until the next time.
        pair.settle(3)
        pair.until(lambda: machine.applied_index == station.node.metadata.applied_index)
    assert len({life_of_session(session) for session in used}) > 1
    assert machine.nodes["c"].newest > machine.nodes["c"].session
    # Its process is the same: what ends with that is still there.
    assert machine.queue("/", "mine") is not None
    assert isinstance(owned.declare("mine", passive=True), spec.QueueDeclareOk)
    # So is its consumer, under its newest name.
    pair.a.client().publish("other", b"late")
    pair.until(lambda: consumer.bodies() == [b"late"])
    consumer.ack(1)
    pair.until(lambda: pair.a.queue("other").fifo.held_count() == 0)
    reader = pair.a.client()
    bodies: list[bytes] = []
    pair.until(lambda: pair.a.queue(QUEUE).ready_count() == TIMES)
    for _ in range(TIMES):
        got = reader.get(QUEUE)
        assert got is not None
        bodies.append(got.body)
    assert bodies == [b"%d" % number for number in range(1, TIMES + 1)]
    assert reader.get(QUEUE) is None


def over(pair: Pair, session: int) -> bool:
    """Whether the leader has closed a session."""
    for station in (pair.a, pair.b):
        member = station.node.cluster.members[int(pair.a.record(QUEUE).group_id)]
        if member.raft.is_leader and member.sessions.get(session, 0) < 0:
            return True
    return False


def test_consumers_beyond_what_ids_can_count() -> None:
    """Ids are used again, but never one that somebody has; nothing reaches another's consumer."""
    pair = Pair()
    holder = pair.b.client()
    assert isinstance(holder.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    pair.b.queue(QUEUE).numbers = Numbers(3)
    assert isinstance(holder.consume(QUEUE), spec.BasicConsumeOk)
    for _ in range(10):
        visitor = pair.b.client()
        assert isinstance(visitor.consume(QUEUE), spec.BasicConsumeOk)
        visitor.vanish()
    pair.until(lambda: pair.b.queue(QUEUE).consumer_count() == 1)
    poller = pair.b.client()
    assert poller.get(QUEUE) is None
    third = pair.b.client()
    assert isinstance(third.consume(QUEUE), spec.BasicConsumeOk)
    refused = pair.b.client().consume(QUEUE)
    assert isinstance(refused, spec.ConnectionClose) and refused.reply_code == 506
    third.vanish()
    for number in range(3):
        holder.publish(QUEUE, b"%d" % number)
    pair.until(lambda: holder.bodies() == [b"0", b"1", b"2"])
    holder.ack(3, multiple=True)
    pair.until(lambda: pair.a.queue(QUEUE).fifo.held_count() == 0)
