"""Requests whose answers a leader's snapshot swallows: applied, and nobody here has seen how."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair
from warren.wire.amqp091 import spec

QUEUE = "orders"

REQUESTS = {
    "acquire": spec.TableAcquire(0, QUEUE, "g", 0),
    "get": spec.BasicGet(0, QUEUE, False),
    "purge": spec.QueuePurge(0, QUEUE, False),
}


def swallowed(request: spec.Method) -> tuple[Pair, Client]:
    """A client that has its answer, after its node asked the leader and got a snapshot."""
    pair = Pair()
    pair.add("c")
    a, b = pair.a, pair.b
    publisher = a.client()
    publisher.declare(QUEUE, kind="quorum")
    publisher.call(spec.ConfirmSelect(False))
    for _ in range(3):
        publisher.publish(QUEUE, b"x")
    pair.until(lambda: b.knows(QUEUE))
    pair.until(lambda: b.queue(QUEUE).ready_count() == 3)
    client = b.client()
    leading = a.node.cluster.members[int(a.queue(QUEUE).group_id)]
    assert leading.leads()
    pair.blocked.add(("a", "b"))
    pair.cut("a", "b")
    before = int(leading.applied_index)
    client.send(request)
    pair.until(lambda: int(leading.applied_index) > before)
    leading.snapshot()
    pair.until(lambda: int(leading.log.snapshot_index) > before)
    pair.blocked.clear()
    pair.until(lambda: client.over or len(client.methods) > 0)
    return pair, client


@pytest.mark.parametrize("name", REQUESTS)
def test_an_answer_that_nobody_has_seen_is_not_made_up(name: str) -> None:
    """What a poll was given returns with its connection."""
    pair, client = swallowed(REQUESTS[name])
    (closing,) = client.methods
    assert isinstance(closing, spec.ConnectionClose) and closing.reply_code == 541
    assert "was lost: ask again" in closing.reply_text
    left = 0 if name == "purge" else 3
    pair.until(lambda: int(pair.a.queue(QUEUE).ready_count()) == left)


def test_a_consumer_is_attached_all_the_same() -> None:
    """There is but one answer, and it gets what it was handed meanwhile."""
    consume = spec.BasicConsume(0, QUEUE, "", False, False, False, False, {})
    pair, client = swallowed(consume)
    assert isinstance(client.methods[0], spec.BasicConsumeOk)
    pair.until(lambda: client.bodies() == [b"x"] * 3)


def test_a_declare_whose_queue_is_deleted_before_its_node_hears_of_it_is_made_anew() -> None:
    """Both are in one snapshot."""
    pair = Pair()
    pair.add("c")
    a, b = pair.a, pair.b
    client, other = b.client(), a.client()
    leading = a.node.store.member()
    assert leading.leads()
    pair.blocked.add(("a", "b"))
    pair.cut("a", "b")
    client.send(spec.QueueDeclare(queue=QUEUE, durable=True, arguments={"x-queue-type": "quorum"}))
    pair.until(lambda: a.knows(QUEUE))
    assert isinstance(other.call(spec.QueueDelete(queue=QUEUE)), spec.QueueDeleteOk)
    leading.snapshot()
    index = int(leading.applied_index)
    pair.until(lambda: int(leading.log.snapshot_index) >= index)
    pair.blocked.clear()
    pair.until(lambda: len(client.methods) > 0)
    assert isinstance(client.methods[0], spec.QueueDeclareOk)
    assert b.knows(QUEUE)
