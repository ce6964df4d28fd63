"""Direct replies from a client of one node to a client of another."""

from __future__ import annotations

import pytest

import warren
from tests.node.pair import Client, Pair, sealed
from tests.node.test_versions import restart, three
from warren.node.direct_replies import BACKLOG_BYTES_MAX, SEEK_MS_MAX, TELL_MS
from warren.replication.kinds import DIRECT, SEEK, SOUGHT
from warren.versions import DIRECT_REPLIES, NEWEST
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import Properties

PSEUDO = "amq.rabbitmq.reply-to"


def send(client: Client, key: str, body: bytes, reply_to: str | None = None) -> None:
    """Publish to a queue, or to an address; what nobody takes comes back."""
    method = spec.BasicPublish(exchange="", routing_key=key, mandatory=True)
    properties = Properties(reply_to=reply_to).encode()
    client.outbox += content_frames(1, method, properties, body, 4_096)


def asking(pair: Pair, name: str) -> tuple[Client, str]:
    """A client of a node that takes direct replies, and its address."""
    client = pair.stations[name].client()
    before = set(pair.stations[name].node.vhosts.replies)
    client.call(spec.BasicConsume(0, PSEUDO, "", False, True, False, False, {}))
    ((_, address),) = set(pair.stations[name].node.vhosts.replies) - before
    return client, address


def returned(client: Client) -> list[int]:
    return [got.reply_code for got in client.methods if isinstance(got, spec.BasicReturn)]


def returns(client: Client) -> int:
    return sum(isinstance(got.method, spec.BasicReturn) for got in client.messages) + len(
        returned(client)
    )


def test_a_reply_comes_from_another_node_whatever_its_size_and_in_order() -> None:
    pair = Pair()
    requester, address = asking(pair, "a")
    responder = pair.b.client()
    bodies = [b"small", b"x" * 3_000_000, b"last"]
    for body in bodies:
        send(responder, address, body)
    pair.until(lambda: len(requester.messages) == 3)
    assert [got.body for got in requester.messages] == bodies
    assert {got.method.routing_key for got in requester.messages} == {address}
    pair.settle()
    assert returns(responder) == 0


def test_a_responder_can_ask_whether_a_requester_of_another_node_is_there() -> None:
    pair = Pair()
    requester, address = asking(pair, "a")
    there = pair.b.client().declare(address, passive=True)
    assert isinstance(there, spec.QueueDeclareOk)
    assert (there.queue, there.message_count, there.consumer_count) == (address, 0, 1)
    requester.vanish()
    gone = pair.b.client().declare(address, passive=True)
    assert isinstance(gone, spec.ChannelClose) and gone.reply_code == 404
    forged = address[:-1] + ("A" if address[-1] != "A" else "B")
    gone = pair.b.client().declare(forged, passive=True)
    assert isinstance(gone, spec.ChannelClose) and gone.reply_code == 404


def test_a_mandatory_reply_counts_as_routed_whoever_is_gone() -> None:
    """As RabbitMQ does it, whether on the same node or on another."""
    pair = Pair()
    requester, address = asking(pair, "a")
    other, _ = asking(pair, "a")
    forged = address[:-1] + ("A" if address[-1] != "A" else "B")
    for station in (pair.a, pair.b):
        publish_both(pair, station.client(), forged)
    requester.vanish()
    pair.settle()
    for station in (pair.a, pair.b):
        publish_both(pair, station.client(), address)
    assert not other.messages


def publish_both(pair: Pair, responder: Client, address: str) -> None:
    """Publish to an address that no channel has, and to what can be none: that alone comes back."""
    send(responder, address, b"dropped")
    send(responder, address[:-1], b"returned")
    pair.until(lambda: returns(responder) > 0)
    pair.settle()
    assert returns(responder) == 1


@pytest.mark.parametrize("tail", ["", ".", ".x", ".\xe4" + "A" * 31, "." + "A" * 31 + "!"])
def test_what_can_be_no_address_comes_back(tail: str) -> None:
    pair = Pair()
    asking(pair, "a")
    for station in (pair.a, pair.b):
        responder = station.client()
        send(responder, PSEUDO + tail, b"returned")
        pair.settle()
        assert returns(responder) == 1


def test_a_reply_to_a_node_that_is_down_or_began_anew_counts_as_routed() -> None:
    pair = Pair()
    pair.add("c")
    _, address = asking(pair, "b")
    responder = pair.a.client()
    pair.b.kill()
    pair.until(lambda: not pair.a.node.cluster.detector.is_up("b"))
    publish_both(pair, responder, address)
    pair.b.start()
    pair.until(lambda: pair.b.node.ready)
    publish_both(pair, pair.a.client(), address)
    gone = pair.stations["c"].client().declare(address, passive=True)
    assert isinstance(gone, spec.ChannelClose) and gone.reply_code == 404


def test_no_reply_crosses_to_a_node_of_an_older_release() -> None:
    pair, _ = three(DIRECT_REPLIES - 1)
    requester, address = asking(pair, "a")
    responder = pair.b.client()
    send(responder, address, b"lost")
    pair.until(lambda: returns(responder) == 1)
    assert not requester.messages
    gone = pair.b.client().declare(address, passive=True)
    assert isinstance(gone, spec.ChannelClose) and gone.reply_code == 404
    near = pair.a.client()
    send(near, address, b"near")
    pair.until(lambda: len(requester.messages) == 1)


def test_one_older_node_keeps_replies_back_until_it_is_newer() -> None:
    pair, releases = three(DIRECT_REPLIES - 1)
    for name in ("c", "a"):
        restart(pair, releases, name, NEWEST)
    requester, address = asking(pair, "a")
    responder = pair.b.client()
    send(responder, address, b"lost")
    pair.until(lambda: returns(responder) == 1)
    assert not requester.messages
    restart(pair, releases, "b", NEWEST)
    pair.until(lambda: pair.b.node.metadata.version == NEWEST)
    pair.until(lambda: pair.b.node.cluster.detector.is_up("a"))
    send(pair.b.client(), address, b"comes")
    pair.until(lambda: len(requester.messages) == 1)


def test_replies_to_a_node_that_takes_too_little_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair()
    requester, address = asking(pair, "a")
    responder = pair.b.client()
    cluster = pair.b.node.cluster
    monkeypatch.setattr(cluster.peers, "backlog_bytes", lambda peer: BACKLOG_BYTES_MAX + 1)
    send(responder, address, b"too much")
    pair.until(lambda: returns(responder) == 1)
    monkeypatch.undo()
    send(responder, address, b"fits")
    pair.until(lambda: len(requester.messages) == 1)
    assert requester.messages[0].body == b"fits"
    assert pair.b.node.direct_replies.dropped == 1


def test_operators_are_told_of_all_that_is_dropped_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair()
    _, address = asking(pair, "a")
    responder = pair.b.client()
    monkeypatch.setattr(
        pair.b.node.cluster.peers, "backlog_bytes", lambda peer: BACKLOG_BYTES_MAX + 1
    )
    for _ in range(5):
        send(responder, address, b"too much")
    pair.until(lambda: returns(responder) == 5)
    assert told(pair) == ["1 direct replies are dropped: node a takes them too slowly"]
    began = pair.clock.monotonic_ns()
    while len(told(pair)) < 2 and pair.clock.monotonic_ns() - began < 2 * TELL_MS * 1_000_000:
        pair.step()
    assert pair.clock.monotonic_ns() - began >= (TELL_MS - 100) * 1_000_000
    assert told(pair)[1] == "4 direct replies are dropped: node a takes them too slowly"


def told(pair: Pair) -> list[str]:
    return [text for text in pair.b.warnings if "direct replies" in text]


@pytest.mark.skipif(warren.COMPILED, reason="replaces a function of the node")
def test_a_declare_ends_where_no_answer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair()
    _, address = asking(pair, "a")
    client = pair.b.client()
    monkeypatch.setattr(pair.a.node.direct_replies, "received", lambda peer, message: None)
    asked = pair.clock.monotonic_ns()
    gone = client.declare(address, passive=True)
    assert isinstance(gone, spec.ChannelClose) and gone.reply_code == 404
    assert pair.clock.monotonic_ns() - asked >= (SEEK_MS_MAX - 100) * 1_000_000


@pytest.mark.parametrize("kind", [DIRECT, SEEK, SOUGHT, SOUGHT + 1])
@pytest.mark.parametrize("rest", [b"", b"\xff", b"\x01\x05/", b"\x01\x01\xff\xff", b"\0\0junk"])
def test_what_cannot_be_a_reply_ends_its_link_only(kind: int, rest: bytes) -> None:
    pair = Pair()
    requester, address = asking(pair, "a")
    pair.a.listener.received("b", sealed(bytes([kind]) + bytes(8) + rest))
    pair.settle()
    responder = pair.b.client()
    send(responder, address, b"still")
    pair.until(lambda: len(requester.messages) == 1)
