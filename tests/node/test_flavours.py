"""Messages of a flavour that this release does not know: kept, told of, and handed to nobody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.node.pair import Client, Pair, Station
from warren.message.envelope import Envelope
from warren.message.flavours import OTHERS, Flavour
from warren.message.properties import MessageProperties
from warren.protocols.broker import Login
from warren.vhost.routes import Route
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

QUEUE = "orders"
LATER = 7
TEXT = f"flavour {LATER}, which this release of Warren does not know"


def publish_later(station: Station, *bodies: bytes) -> None:
    """Publish as a protocol of a later release would; what it stores is no AMQP 0-9-1."""
    lengths = b"".join(len(body).to_bytes(4, "little") for body in bodies)
    station.queue(QUEUE).publish(b"".join(bodies), lengths, len(bodies), True, None, LATER)


def filled(pair: Pair, kind: str) -> Client:
    """Fill a queue: one message, two that cannot be read, one more."""
    client = pair.a.client()
    assert isinstance(client.declare(QUEUE, kind=kind), spec.QueueDeclareOk)
    client.publish_confirmed(QUEUE, 1)
    publish_later(pair.a, b"\xffnothing that this release", b"")
    client.publish_confirmed(QUEUE, 1)
    pair.until(lambda: count(pair.a.client()) == 4)
    return client


def count(client: Client) -> int:
    """The ready messages that a declaration reports."""
    answer = client.declare(QUEUE, passive=True)
    assert isinstance(answer, spec.QueueDeclareOk)
    return answer.message_count


def warnings(station: Station) -> list[str]:
    """What a node's log says of them."""
    return [text for text in station.warnings if TEXT in text]


def restarted(pair: Pair) -> None:
    """All nodes lose their power, and start again."""
    for station in pair.stations.values():
        station.kill()
    for station in pair.stations.values():
        station.warnings.clear()
        station.start()
    pair.until(lambda: all(station.node.ready for station in pair.stations.values()))


def assert_served(pair: Pair, station: Station) -> None:
    """A node hands out what it can read of the queue, and says what it cannot."""
    first, second = station.client(), station.client()
    for client, expected in ((first, [b"1"]), (second, [b"2"])):
        # The first consumer gets three, of which it is sent one.
        client.qos(3)
        client.consume(QUEUE)
        pair.until(lambda client=client, expected=expected: client.bodies() == expected)
    pair.settle(5)
    assert (first.bodies(), second.bodies()) == ([b"1"], [b"2"])
    owners = [warned for warned in pair.stations.values() if warnings(warned)]
    assert len(owners) == 1 and len(warnings(owners[0])) == 1
    assert f"'{QUEUE}'" in warnings(owners[0])[0] and "messages 1 to 2" in warnings(owners[0])[0]
    for client in (first, second):
        client.vanish()
    pair.until(lambda: count(station.client()) == 4)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
@pytest.mark.parametrize("at", ["a", "b"])
def test_a_queue_goes_on_around_them(kind: str, at: str) -> None:
    """Whichever node the consumers are on; after a restart too, which finds them on the disk."""
    pair = Pair()
    filled(pair, kind)
    assert_served(pair, pair.stations[at])
    restarted(pair)
    pair.until(lambda: pair.usable() and pair.stations[at].knows(QUEUE))
    pair.until(lambda: pair.a.queue(QUEUE).ready_count() == 4)
    assert_served(pair, pair.stations[at])
    assert all(station.node.failure is None for station in pair.stations.values())


def test_another_member_has_them_and_leads_on() -> None:
    """They came to it over a link, as entries of its leader's log."""
    pair = Pair()
    pair.add("c")
    filled(pair, "quorum")
    pair.until(lambda: all(s.queue(QUEUE).ready_count() == 4 for s in pair.stations.values()))
    pair.a.kill()
    others = (pair.b, pair.stations["c"])
    pair.until(lambda: any(s.queue(QUEUE).group.raft.can_propose() for s in others))
    leader = next(s for s in others if s.queue(QUEUE).group.raft.can_propose())
    assert not pair.refused
    assert_served(pair, leader)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_they_can_be_purged_and_what_follows_is_served(kind: str) -> None:
    pair = Pair(alone=True)
    client = filled(pair, kind)
    answer = client.call(spec.QueuePurge(0, QUEUE, False))
    assert isinstance(answer, spec.QueuePurgeOk) and answer.message_count == 4
    client.publish_confirmed(QUEUE, 1)
    client.consume(QUEUE, no_ack=True)
    pair.until(lambda: client.bodies() == [b"3"])
    assert not warnings(pair.a)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_poll_waits_at_them_until_its_channel_ends(kind: str) -> None:
    pair = Pair(alone=True)
    pair.minds_seconds = True
    filled(pair, kind)
    client = pair.a.client()
    got = client.get(QUEUE)
    assert got is not None and got.body == b"1"
    client.send(spec.BasicGet(0, QUEUE, False))
    pair.until(lambda: len(warnings(pair.a)) == 1)
    # It tries again each second, and the log is not filled.
    pair.settle(350)
    assert not client.messages and len(warnings(pair.a)) == 1
    client.vanish()
    pair.until(lambda: count(pair.a.client()) == 4)


def test_messages_of_two_flavours_are_two_batches() -> None:
    pair = Pair(alone=True)
    filled(pair, "classic")
    log = pair.a.queue(QUEUE).log
    batches = {int(number): log.cached(number) for number in range(4)}
    assert [(b.first, b.count, b.flavour) for b in batches.values()] == [
        (0, 1, 0),
        (1, 2, LATER),
        (1, 2, LATER),
        (3, 1, 0),
    ]
    # Also within a turn, where they would be one.
    publish_later(pair.a, b"x")
    queue = pair.a.queue(QUEUE)
    queue.publish(b"abc", (3).to_bytes(4, "little"), 1, True, None)
    queue.publish(b"defg", (4).to_bytes(4, "little"), 1, True, None)
    pair.settle(2)
    assert [(log.cached(n).first, log.cached(n).flavour) for n in (4, 5, 6)] == [
        (4, LATER),
        (5, 0),
        (5, 0),
    ]


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_deleted_queue_lets_their_consumers_go(kind: str) -> None:
    pair = Pair(alone=True)
    client = filled(pair, kind)
    consumer = pair.a.client()
    consumer.qos(3)
    consumer.consume(QUEUE)
    pair.until(lambda: len(warnings(pair.a)) == 1)
    deleted = client.call(spec.QueueDelete(0, QUEUE, False, False, False))
    assert isinstance(deleted, spec.QueueDeleteOk) and deleted.message_count == 1
    pair.until(lambda: any(isinstance(m, spec.BasicCancel) for m in consumer.methods))
    pair.settle(3)
    assert pair.a.node.failure is None


LETTERS = 9
"""A flavour that is known in these tests."""
LONG = "x" * 300


class Letter(Envelope):
    """A record that is all body."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def exchange(self) -> str:
        return "letters"

    def routing_key(self) -> str:
        return LONG

    def properties(self) -> MessageProperties:
        """One that AMQP 0-9-1 has no place for, where the body says so."""
        odd = self._body.startswith(b"odd")
        return MessageProperties(message_id=LONG if odd else "an id", headers={"a": "b"})

    def body_size(self) -> int:
        return len(self._body)

    def body(self) -> list[memoryview]:
        """In two pieces."""
        return [memoryview(self._body)[:1], memoryview(self._body)[1:]]

    def size(self) -> int:
        return len(self._body)


class Letters(Flavour):
    """What a release that knows them would have."""

    def envelope(self, data: bytes, at: int, end: int) -> Envelope:
        return Letter(data[at:end])

    def content_bytes(self, data: bytes, at: int, with_properties: bool) -> int:
        return 1

    def priority(self, data: bytes, at: int) -> int:
        return -1


@pytest.fixture
def letters() -> Iterator[None]:
    OTHERS[LETTERS] = Letters()
    yield
    del OTHERS[LETTERS]


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_those_of_another_flavour_that_is_known_are_converted(kind: str) -> None:
    """Consumers and polls have them among others, and what has no place is left out."""
    pair = Pair(alone=True)
    client = pair.a.client()
    assert isinstance(client.declare(QUEUE, kind=kind), spec.QueueDeclareOk)
    client.publish_confirmed(QUEUE, 1)
    bodies = [b"one", b"odd", b""]
    lengths = b"".join(len(body).to_bytes(4, "little") for body in bodies)
    pair.a.queue(QUEUE).publish(b"".join(bodies), lengths, 3, True, None, LETTERS)
    client.publish_confirmed(QUEUE, 1)
    expected = [b"1", *bodies, b"2"]
    consumer = pair.a.client()
    consumer.consume(QUEUE)
    pair.until(lambda: len(consumer.bodies()) == len(expected))
    assert consumer.bodies() == expected
    consumer.vanish()
    pair.until(lambda: count(client) == len(expected))
    for body in expected:
        got = client.get(QUEUE)
        assert got is not None and got.body == body
    assert pair.a.node.failure is None


@pytest.mark.usefixtures("letters")
def test_exchanges_keep_those_of_another_flavour_converted() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    client.call(
        spec.ExchangeDeclare(0, "x", "x-recent-history", False, True, False, False, False, {})
    )
    client.declare(QUEUE, kind="classic")
    route = Route("x", "k", False, 0)
    route.keepers.append("x")
    pair.a.node.open_vhost(Login("guest", ""), "/").keep(route, [b"one", b"two"], LETTERS)
    pair.settle(5)
    client.call(spec.QueueBind(0, QUEUE, "x", "", False, {}))
    client.consume(QUEUE)
    pair.until(lambda: client.bodies() == [b"one", b"two"])


KEPT: Table = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
DYING: dict[str, Table] = {
    "classic": {"x-queue-type": "classic"},
    "quorum": {"x-queue-type": "quorum"},
    "kept": {"x-queue-type": "quorum", **KEPT},
}


def dying(pair: Pair, arguments: Table) -> Client:
    """A queue whose messages die soon, and go to another one."""
    client = pair.a.client()
    client.declare("dead")
    dead: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    declare = spec.QueueDeclare(0, QUEUE, False, True, False, False, False, {**dead, **arguments})
    assert isinstance(client.call(declare), spec.QueueDeclareOk)
    return client


def dead_bodies(client: Client) -> list[bytes]:
    found = []
    while (got := client.get("dead")) is not None:
        found.append(got.body)
        assert got.headers()["x-first-death-queue"] == QUEUE
    return found


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("kind", list(DYING))
def test_dead_letters_of_another_flavour_that_is_known_are_converted(kind: str) -> None:
    pair = Pair(alone=True)
    client = dying(pair, {**DYING[kind], "x-message-ttl": 200})
    lengths = b"".join(size.to_bytes(4, "little") for size in (3, 3))
    pair.a.queue(QUEUE).publish(b"onetwo", lengths, 2, True, None, LETTERS)
    client.publish_confirmed(QUEUE, 1)
    pair.until(lambda: pair.a.queue("dead").ready_count() == 3)
    assert sorted(dead_bodies(client)) == [b"1", b"one", b"two"]
    assert pair.a.node.failure is None


@pytest.mark.parametrize("kind", list(DYING))
def test_dead_letters_that_cannot_be_read_wait(kind: str) -> None:
    """They are neither lost nor sent as something else, and nothing stops for them."""
    pair = Pair(alone=True)
    client = dying(pair, {**DYING[kind], "x-message-ttl": 200})
    client.publish_confirmed(QUEUE, 1)
    publish_later(pair.a, b"\xffone", b"two")
    pair.until(lambda: dead_bodies(client) == [b"1"])
    pair.until(lambda: len(warnings(pair.a)) == 1)
    pair.settle(100)
    assert client.get("dead") is None and client.get(QUEUE) is None
    assert pair.a.node.failure is None
    # A release that can read them finds them where they were.
    log = pair.a.queue(QUEUE).messages
    assert log.cached(1) is not None and log.cached(1).record(0) == b"\xffone"


LIMITED: dict[str, Table] = {
    "rejected": {"x-max-length": 0, "x-overflow": "reject-publish-dlx"},
    "bytes": {"x-max-length-bytes": 4},
    "priorities": {"x-max-priority": 3, "x-max-length": 1},
    "quorum bytes": {"x-queue-type": "quorum", "x-max-length-bytes": 4},
    "quorum kept": {"x-queue-type": "quorum", "x-max-length": 1, **KEPT},
}


@pytest.mark.parametrize("limit", list(LIMITED))
def test_limits_count_what_cannot_be_read(limit: str) -> None:
    """By the bytes of its record; nothing that a queue asks of such a message stops the node."""
    pair = Pair(alone=True)
    client = dying(pair, LIMITED[limit])
    for _ in range(3):
        publish_later(pair.a, b"\xffone", b"t")
        pair.settle()
    client.publish(QUEUE, b"last")
    pair.settle(20)
    assert pair.a.node.failure is None
    # A message that can be read is last, if it fits; properties count in a quorum queue.
    left = {"rejected": 0, "quorum bytes": 0, "quorum kept": 2}.get(limit, 1)
    assert int(pair.a.queue(QUEUE).ready_count()) == left
