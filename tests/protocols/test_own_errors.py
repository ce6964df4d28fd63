"""An error of the broker's own, wherever a client is served, ends that client and nobody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import warren
from tests.node.pair import Pair
from tests.protocols.line import Line, publish_frames
from warren.errors import Refusal
from warren.protocols.amqp091 import connection as connections
from warren.protocols.failures import went_through_shared
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame

QOS = method_frame(1, spec.BasicQos(0, 1, False).encode())


class Rubber:
    """A node that contains errors and keeps what it was told of them."""

    def __init__(self) -> None:
        self.pair = Pair(alone=True)
        self.told: list[tuple[str, Exception]] = []
        self.pair.a.node._contain = lambda text, error: self.told.append((text, error))
        self.good = Line(self.pair.a)
        self.bad = Line(self.pair.a)
        self.ask("q")

    def ask(self, queue: str) -> None:
        self.good.ask(1, spec.QueueDeclare(0, queue, False, True, False, False, False, {}))


def broken(*_: object) -> None:
    """What no caller expects."""
    raise KeyError("planted")


def as_uvloop(*_: object) -> None:
    """What a transport does that is gone."""
    raise RuntimeError("unable to perform operation; the handler is closed")


def in_receive(rubber: Rubber, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(connections.Channel, "method", broken)
        try:
            rubber.bad.hand(QOS)
        except KeyError as error:
            rubber.bad.end.failed(error)


def in_flush(rubber: Rubber, monkeypatch: pytest.MonkeyPatch) -> None:
    rubber.bad.hand(QOS)
    rubber.bad.end.output._write = as_uvloop
    rubber.pair.turn(rubber.pair.a)


def in_tick(rubber: Rubber, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(connections.Channel, "tick", broken)
        rubber.good.end.channels.clear()
        rubber.pair.a.node.tick(0)


def in_answer(rubber: Rubber, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables tell a channel that its queue is there."""
    with monkeypatch.context() as patch:
        patch.setattr(connections.Channel, "changed", broken)
        rubber.bad.send(1, spec.QueueDeclare(0, "other", False, True, False, False, False, {}))
        rubber.pair.until(lambda: rubber.told)


def in_confirms(rubber: Rubber, monkeypatch: pytest.MonkeyPatch) -> None:
    rubber.bad.ask(1, spec.ConfirmSelect(False))
    with monkeypatch.context() as patch:
        patch.setattr(connections.Channel, "write_confirms", broken)
        rubber.bad.hand(b"".join(publish_frames(1, "", "q", parts=[b"kept"])))
        rubber.pair.settle(3)


def in_delivery(rubber: Rubber, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue hands a message to a consumer whose frames cannot be written."""
    rubber.bad.ask(1, spec.BasicConsume(0, "q", "c", False, False, False, False, {}))
    with monkeypatch.context() as patch:
        patch.setattr(connections.Output, "takes", broken)
        rubber.good.hand(b"".join(publish_frames(1, "", "q", parts=[b"kept"])))
        rubber.pair.settle(3)


PLACES = [in_receive, in_flush, in_tick, in_answer, in_confirms, in_delivery]


@pytest.mark.skipif(warren.COMPILED, reason="replaces methods")
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_error_ends_the_connection_that_met_it(
    place: Callable[[Rubber, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stack is told, its client gets 541 where it can be told, and what it held returns."""
    rubber = Rubber()
    place(rubber, monkeypatch)
    rubber.pair.settle(3)
    assert rubber.told and isinstance(rubber.told[0][1], (KeyError, RuntimeError))
    assert rubber.told[0][1].__traceback__ is not None
    bad = rubber.bad
    closes = bad.of(spec.ConnectionClose)
    assert bad.ended or [told.method.reply_code for told in closes] == [541]
    assert bad.end.state in (connections.CLOSING, connections.CLOSED)
    after = Line(rubber.pair.a)
    left = [told.body for told in after.drain("q")]
    assert left == ([b"kept"] if place in (in_confirms, in_delivery) else [])


@pytest.mark.skipif(warren.COMPILED, reason="replaces methods")
def test_frame_that_is_not_handled_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser proves that it gets on: a way that takes nothing does not keep the node."""
    rubber = Rubber()
    rubber.bad.ask(1, spec.BasicConsume(0, "q", "c", False, False, False, False, {}))
    monkeypatch.setattr(connections.Channel, "acks", lambda self, data, at, end: at)
    try:
        rubber.bad.send(1, spec.BasicAck(1, False))
    except AssertionError as error:
        rubber.bad.end.failed(error)
    rubber.pair.settle(2)
    assert "was not handled" in str(rubber.told[0][1])
    assert [told.method.reply_code for told in rubber.bad.of(spec.ConnectionClose)] == [541]


def test_error_that_went_through_the_tables_is_the_nodes() -> None:
    """What all clients depend on may be half done then; a traceback says so, compiled or not."""
    pair = Pair(alone=True)
    with pytest.raises(Refusal) as shared:
        pair.a.node.store.authority.vhost("none")
    assert went_through_shared(shared.value)
    with pytest.raises(KeyError) as own:
        broken()
    assert not went_through_shared(own.value)
