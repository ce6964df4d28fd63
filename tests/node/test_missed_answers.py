"""Requests whose answers a leader's snapshot swallows: applied, and nobody here has seen how."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.node.pair import Client, Pair
from warren.wire.amqp091 import spec

QUEUE = "orders"

GET = spec.BasicGet(0, QUEUE, False)


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
    client.rows.clear()
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
    answers = (client.methods, client.messages, client.rows)
    pair.until(lambda: client.over or any(answers))
    return pair, client


def test_a_reader_that_another_one_has_fenced_meanwhile_begins_anew() -> None:
    """Its epoch is none that somebody else was told of."""
    others: list[int] = []

    def fence(pair: Pair) -> None:
        ok = pair.a.client().call(spec.TableAcquire(0, QUEUE, "g", 0))
        assert isinstance(ok, spec.TableAcquireOk)
        others.append(ok.epoch)

    pair, client = swallowed(spec.TableAcquire(0, QUEUE, "g", 0), meanwhile=fence)
    (answer,) = client.methods
    assert isinstance(answer, spec.TableAcquireOk)
    assert (others, answer.epoch) == ([2], 3)


@pytest.mark.parametrize("size", (0, 1))
def test_readers_of_one_node_are_told_apart(size: int) -> None:
    """All of their acquires lie in one snapshot: each has the epoch of its place.

    Done once more, they would lie in the next one together, and so on for ever.
    """
    request = spec.TableAcquire(0, QUEUE, "g", 0)
    others: list[Client] = []

    def compete(pair: Pair) -> None:
        leading = pair.a.node.cluster.members[int(pair.a.queue(QUEUE).group_id)]
        for _ in range(2):
            index = int(leading.applied_index)
            others.append(pair.b.client())
            others[-1].send(request)
            pair.until(lambda index=index: int(leading.applied_index) > index)

    pair, client = swallowed(request, size=size, meanwhile=compete)
    pair.until(lambda: all(other.methods for other in others))
    answers = [each.methods[-1] for each in (client, *others)]
    assert all(isinstance(answer, spec.TableAcquireOk) for answer in answers)
    assert [answer.epoch for answer in answers] == [1, 2, 3]


def purged(client: Client) -> None:
    ok = client.call(spec.QueuePurge(0, QUEUE, False))
    assert isinstance(ok, spec.QueuePurgeOk) and ok.message_count == 3
    client.publish_confirmed(QUEUE, 2)


@pytest.mark.parametrize("size", (0, 1))
@pytest.mark.parametrize("again", (False, True))
def test_a_purge_says_how_many_messages_it_took(again: bool, size: int) -> None:
    """Though nobody here has seen it, and whatever those before it took."""
    before = purged if again else lambda client: None
    pair, client = swallowed(spec.QueuePurge(0, QUEUE, False), before, size)
    (ok,) = client.methods
    assert isinstance(ok, spec.QueuePurgeOk)
    assert ok.message_count == (2 if again else 3)
    assert int(pair.a.queue(QUEUE).ready_count()) == 0


def cut_off(pair: Pair) -> None:
    """Node `b` is cut off for so long that what its clients held is given to others."""
    for link in (("a", "b"), ("b", "a"), ("c", "b"), ("b", "c")):
        pair.blocked.add(link)
        pair.cut(*link)
    queue = pair.a.queue(QUEUE)
    pair.until(lambda: queue.counts().held == 0)


@pytest.mark.parametrize("size", (0, 1))
def test_what_a_closed_session_purged_is_not_made_up(size: int) -> None:
    request = spec.QueuePurge(0, QUEUE, False)
    pair, client = swallowed(request, got_and_kept, size, cut_off)
    (closing,) = client.methods
    assert isinstance(closing, spec.ConnectionClose) and closing.reply_code == 541
    assert "was lost: ask again" in closing.reply_text
    assert not pair.a.queue(QUEUE).fifo.purged


def acquired(client: Client) -> None:
    assert isinstance(client.call(spec.TableAcquire(0, QUEUE, "g", 0)), spec.TableAcquireOk)


def checked_out(client: Client) -> None:
    acquired(client)
    client.call(spec.TableCheckout(0, QUEUE, "g", 1, 0, 2, 0, 99))


TABLES = {
    "acquire": (acquired, spec.TableAcquire(0, QUEUE, "g", 0)),
    "checkout": (acquired, spec.TableCheckout(0, QUEUE, "g", 1, 0, 2, 0, 99)),
    "settle": (checked_out, spec.TableSettle(0, QUEUE, "g", 1, 1)),
    "release": (checked_out, spec.TableRelease(0, QUEUE, "g", 1)),
    "retake": (checked_out, spec.TableRetake(0, QUEUE, "g", 1, 1)),
    "delete": (checked_out, spec.TableDelete(0, QUEUE, "g")),
    "read": (checked_out, spec.TableRead(0, QUEUE, 0, 99, 1_000_000)),
}


@pytest.mark.parametrize("size", (0, 1))
@pytest.mark.parametrize("name", TABLES)
def test_a_reader_is_told_what_came_of_its_request(name: str, size: int) -> None:
    """What it did is done once, and the reader goes on from its answer."""
    before, request = TABLES[name]
    pair, client = swallowed(request, before, size)
    queue = pair.a.queue(QUEUE)
    if name == "acquire":
        (answer,) = client.methods
        assert isinstance(answer, spec.TableAcquireOk)
        assert answer.epoch == int(queue.fifo.groups["g"].epoch) == 2
        got = client.call(spec.TableCheckout(0, QUEUE, "g", answer.epoch, 0, 2, 0, 99))
        assert isinstance(got, spec.TableCheckoutOk) and got.count == 2
    elif name == "checkout":
        (answer,) = client.methods
        assert isinstance(answer, spec.TableCheckoutOk)
        assert (answer.number, answer.count) == (1, 2)
        assert int(queue.ready_count()) == 1, "there is one lease"
    elif name == "settle":
        assert isinstance(client.methods[0], spec.TableSettleOk)
        counts = queue.counts()
        assert (int(counts.ready), int(counts.held)) == (1, 0)
    elif name == "release":
        assert isinstance(client.methods[0], spec.TableReleaseOk)
        assert int(queue.ready_count()) == 3
    elif name == "retake":
        (answer,) = client.methods
        assert isinstance(answer, spec.TableRetakeOk) and answer.count == 2
    elif name == "delete":
        assert isinstance(client.methods[0], spec.TableDeleteOk)
        assert int(queue.ready_count()) == 3 and not queue.fifo.groups
    else:
        assert not client.methods and len(client.rows) == 1


def settled(client: Client) -> None:
    checked_out(client)
    assert isinstance(client.call(spec.TableSettle(0, QUEUE, "g", 1, 1)), spec.TableSettleOk)


def entries_behind(request: spec.Method, before: Callable[[Client], None], size: int) -> int:
    """How many entries the queue's log has behind the snapshot that swallowed an answer."""
    pair, _ = swallowed(request, before, size)
    pair.settle()
    log = pair.a.node.cluster.members[int(pair.a.queue(QUEUE).group_id)].log
    return int(log.last_index) - int(log.snapshot_index)


@pytest.mark.parametrize("size", (0, 1))
@pytest.mark.parametrize("before", (checked_out, settled))
def test_a_retake_is_answered_by_the_snapshot(before: Callable[[Client], None], size: int) -> None:
    """It is not asked for once more: the next snapshot might swallow that, too, and so on."""
    settle = entries_behind(spec.TableSettle(0, QUEUE, "g", 1, 1), before, size)
    assert entries_behind(spec.TableRetake(0, QUEUE, "g", 1, 1), before, size) == settle


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
    pair, client = swallowed(GET, size=size, meanwhile=cut_off)
    (got,) = client.messages
    assert (got.body, got.redelivered) == (b"x0", True)
    client.ack(got.tag)
    pair.until(lambda: pair.a.queue(QUEUE).counts().held == 0)
    assert int(pair.a.queue(QUEUE).ready_count()) == 2


@pytest.mark.parametrize("size", (0, 1))
def test_a_poll_that_was_under_way_when_its_session_was_closed_is_made_anew(size: int) -> None:
    """It is applied in the next one, where nobody has the id under which it was made."""
    pair = Pair()
    pair.add("c")
    a, b = pair.a, pair.b
    publisher = a.client()
    publisher.declare(QUEUE, kind="quorum", size=size)
    publisher.publish_confirmed(QUEUE, 2)
    pair.until(lambda: b.knows(QUEUE))
    client = b.client()
    got_and_kept(client)
    pair.deaf.add(("b", "a"))
    client.methods.clear()
    client.send(GET)
    pair.settle(2)
    cut_off(pair)
    pair.deaf.clear()
    pair.blocked.clear()
    pair.until(lambda: len(client.methods) + len(client.messages) > 0)
    (got,) = client.messages
    assert (got.body, got.redelivered) == (b"1", True)
    client.ack(got.tag)
    pair.until(lambda: a.queue(QUEUE).counts().held == 0)
    assert int(a.queue(QUEUE).ready_count()) == 1


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
