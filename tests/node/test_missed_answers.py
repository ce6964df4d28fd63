"""Requests whose answers a leader's snapshot swallows: applied, and nobody here has seen how."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.node.pair import Client, Pair
from warren.wire.amqp091 import spec

QUEUE = "orders"

GET = spec.BasicGet(0, QUEUE, False)

REQUESTS = {
    "acquire": spec.TableAcquire(0, QUEUE, "g", 0),
    "purge": spec.QueuePurge(0, QUEUE, False),
}


def swallowed(
    request: spec.Method,
    before: Callable[[Client], None] = lambda client: None,
    size: int = 0,
    meanwhile: Callable[[Pair], None] = lambda pair: None,
) -> tuple[Pair, Client]:
    """A client that has its answer, after its node asked the leader and got a snapshot.

    Args:
        request: What it asks.
        before: What it does before.
        size: How many nodes hold the queue; all by default, and with 1 the client's does not.
        meanwhile: What else comes about before its node hears of anything.
    """
    pair = Pair()
    pair.add("c")
    a, b = pair.a, pair.b
    publisher = a.client()
    publisher.declare(QUEUE, kind="quorum", size=size)
    publisher.call(spec.ConfirmSelect(False))
    for number in range(3):
        publisher.publish(QUEUE, b"x%d" % number)
    pair.until(lambda: b.knows(QUEUE))
    client = b.client()
    passive = client.declare(QUEUE, passive=True, kind="quorum", size=size)
    assert isinstance(passive, spec.QueueDeclareOk) and passive.message_count == 3
    before(client)
    client.methods.clear()
    leading = a.node.cluster.members[int(a.queue(QUEUE).group_id)]
    assert leading.leads()
    pair.blocked.add(("a", "b"))
    pair.cut("a", "b")
    # So that whoever is back is not fed from memory.
    leading.log.keep_recent(0)
    index = int(leading.applied_index)
    client.send(request)
    pair.until(lambda: int(leading.applied_index) > index)
    meanwhile(pair)
    index = int(leading.applied_index)
    leading.snapshot()
    pair.until(lambda: int(leading.log.snapshot_index) >= index)
    pair.blocked.clear()
    pair.until(lambda: client.over or len(client.methods) + len(client.messages) > 0)
    return pair, client


@pytest.mark.parametrize("name", REQUESTS)
def test_an_answer_that_nobody_has_seen_is_not_made_up(name: str) -> None:
    pair, client = swallowed(REQUESTS[name])
    (closing,) = client.methods
    assert isinstance(closing, spec.ConnectionClose) and closing.reply_code == 541
    assert "was lost: ask again" in closing.reply_text
    left = 0 if name == "purge" else 3
    pair.until(lambda: int(pair.a.queue(QUEUE).ready_count()) == left)


def got_and_acked(client: Client) -> None:
    got = client.get(QUEUE)
    assert got is not None
    client.ack(got.tag)


def got_and_kept(client: Client) -> None:
    assert client.get(QUEUE) is not None


def got_and_given_back(client: Client) -> None:
    got = client.get(QUEUE)
    assert got is not None
    client.send(spec.BasicReject(got.tag, True))


def got_twice_and_acked(client: Client) -> None:
    got_and_acked(client)
    got_and_acked(client)


POLLS = {
    "the first": (lambda client: None, b"x0", False),
    "behind one that is acked": (got_and_acked, b"x1", False),
    "behind two that are acked": (got_twice_and_acked, b"x2", False),
    "behind one that is kept": (got_and_kept, b"x1", False),
    "of one that was given back": (got_and_given_back, b"x0", True),
}


@pytest.mark.parametrize("size", (0, 1))
@pytest.mark.parametrize("name", POLLS)
def test_a_poll_is_given_what_it_was_handed(name: str, size: int) -> None:
    """On a member of the queue, and on a node that only uses it; nothing is lost or doubled."""
    before, body, redelivered = POLLS[name]
    pair, client = swallowed(GET, before, size)
    (got,) = client.messages
    assert (got.body, got.redelivered) == (body, redelivered)
    client.ack(0, multiple=True)
    rest = []
    other = pair.a.client()
    while (got := other.get(QUEUE)) is not None:
        assert not got.redelivered
        rest.append(got.body)
    assert rest == [b"x0", b"x1", b"x2"][[b"x0", b"x1", b"x2"].index(body) + 1 :]
    pair.until(lambda: pair.a.queue(QUEUE).counts().held == len(rest))


@pytest.mark.parametrize("size", (0, 1))
def test_a_poll_that_found_nothing_is_given_nothing(size: int) -> None:
    """Though its channel holds a message, the oldest it was given."""

    def before(client: Client) -> None:
        tags = []
        for _ in range(3):
            got = client.get(QUEUE)
            assert got is not None
            tags.append(got.tag)
        for tag in tags[1:]:
            client.ack(tag)

    pair, client = swallowed(GET, before, size)
    assert not client.messages
    assert isinstance(client.methods[0], spec.BasicGetEmpty)
    client.ack(0, multiple=True)
    pair.until(lambda: pair.a.queue(QUEUE).counts().held == 0)


@pytest.mark.parametrize("size", (0, 1))
def test_a_poll_without_an_ack_is_given_what_it_was_handed(size: int) -> None:
    pair, client = swallowed(spec.BasicGet(0, QUEUE, True), size=size)
    assert client.bodies() == [b"x0"]
    pair.until(lambda: pair.a.queue(QUEUE).counts().held == 0)
    assert int(pair.a.queue(QUEUE).ready_count()) == 2


@pytest.mark.parametrize("size", (0, 1))
def test_a_poll_whose_message_went_back_meanwhile_is_made_anew(size: int) -> None:
    """Its node was cut off for so long that what its clients held was given to others."""

    def cut_off(pair: Pair) -> None:
        for link in (("a", "b"), ("b", "a"), ("c", "b"), ("b", "c")):
            pair.blocked.add(link)
            pair.cut(*link)
        queue = pair.a.queue(QUEUE)
        pair.until(lambda: queue.counts().held == 0)

    pair, client = swallowed(GET, size=size, meanwhile=cut_off)
    (got,) = client.messages
    assert (got.body, got.redelivered) == (b"x0", True)
    client.ack(got.tag)
    pair.until(lambda: pair.a.queue(QUEUE).counts().held == 0)
    assert int(pair.a.queue(QUEUE).ready_count()) == 2


def test_a_consumer_is_attached_all_the_same() -> None:
    """There is but one answer, and it gets what it was handed meanwhile."""
    consume = spec.BasicConsume(0, QUEUE, "", False, False, False, False, {})
    pair, client = swallowed(consume)
    assert isinstance(client.methods[0], spec.BasicConsumeOk)
    pair.until(lambda: client.bodies() == [b"x0", b"x1", b"x2"])


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
