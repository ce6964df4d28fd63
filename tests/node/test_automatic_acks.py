"""Automatic acknowledgement: a message comes at most once, whatever breaks (V-03)."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair
from warren.wire.amqp091 import spec

COUNT = 40


def bodies(count: int = COUNT, size: int = 0) -> list[bytes]:
    return [b"%06d" % number + bytes(size) for number in range(count)]


def published(pair: Pair, kind: str, messages: list[bytes]) -> Client:
    """A queue on all nodes, or on `a` if it is a classic one, and a client that filled it."""
    client = pair.a.client()
    assert isinstance(client.declare("q", kind=kind), spec.QueueDeclareOk)
    stations = pair.stations.values()
    pair.until(lambda: all(s.knows("q") for s in stations))
    for body in messages:
        client.publish("q", body)
    pair.until(lambda: pair.a.queue("q").ready_count() == len(messages))
    return client


def clog(reader: Client) -> None:
    """Have a client's socket take some hundred kilobytes and no more."""

    def exchange() -> None:
        if reader.outbox:
            data = bytes(reader.outbox)
            reader.outbox.clear()
            reader.end.receive(data)

    reader.socket_bytes = 200_000
    reader.exchange = exchange  # type: ignore[method-assign]


def rest(client: Client) -> list[bytes]:
    """What is left in the queue."""
    assert isinstance(client.consume("q", no_ack=True), spec.BasicConsumeOk)
    client.pair.settle(30)
    return client.bodies()


@pytest.mark.parametrize("dies", [True, False])
@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_nothing_comes_twice(kind: str, dies: bool) -> None:
    """The consumer's node dies, or its links break, before it can say what its client has seen."""
    pair = Pair()
    pair.add("c")
    client = published(pair, kind, [])
    reader = pair.b.client()
    assert isinstance(reader.consume("q", no_ack=True), spec.BasicConsumeOk)
    pair.settle()
    pair.deaf |= {("b", "a"), ("b", "c")}
    for body in bodies():
        client.publish("q", body)
    pair.until(lambda: bool(reader.messages))
    if dies:
        pair.b.kill()
    else:
        for other in ("a", "c"):
            for link in ((other, "b"), ("b", other)):
                pair.blocked.add(link)
                pair.cut(*link)
    seen = reader.bodies()
    pair.settle(300)
    reader.over = True
    left = rest(client)
    assert not set(left) & set(seen)
    assert len(set(left)) == len(left)


@pytest.mark.parametrize("where", ["a", "b"])
@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_nothing_is_lost_while_nothing_breaks(kind: str, where: str) -> None:
    """A client that reads slowly goes away: what it was not sent is for others."""
    pair = Pair()
    client = published(pair, kind, bodies(size=100_000))
    reader = pair.stations[where].client()
    clog(reader)
    reader.send(spec.BasicConsume(0, "q", "", False, True, False, False, {}))
    pair.settle(20)
    assert reader.inbox
    reader.station.clients.remove(reader)
    reader.end.lost()
    pair.settle(10)
    reader._reader.feed(b"".join(reader.inbox))
    while reader._reader.next():
        reader._frame()
    seen = reader.bodies()
    left = rest(client)
    assert 0 < len(seen) < COUNT
    # The last one may have been cut off on its way.
    assert sorted(seen + left) == bodies(size=100_000)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_what_a_cancelled_consumer_was_not_sent_is_for_others(kind: str) -> None:
    pair = Pair()
    client = published(pair, kind, bodies(size=100_000))
    reader = pair.b.client()
    clog(reader)
    reader.send(spec.BasicConsume(0, "q", "c", False, True, False, False, {}))
    pair.settle(20)
    reader.send(spec.BasicCancel("c", False))
    pair.settle(3)
    del reader.exchange
    pair.until(lambda: any(isinstance(m, spec.BasicCancelOk) for m in reader.methods))
    left = rest(client)
    assert 0 < len(left) < COUNT
    assert sorted(reader.bodies() + left) == bodies(size=100_000)
