"""What a client may make a node keep, and what it is told when that is too much."""

from __future__ import annotations

from tests.node.pair import Pair
from tests.protocols.line import Line, publish_frames
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame

MEMORY_BYTES = 1_000_000_000


def limited(settings: Settings) -> None:
    """A node with a memory alarm."""
    settings.memory_limit_bytes = MEMORY_BYTES


def queue_of(line: Line, name: str) -> None:
    """A queue for the messages of a test."""
    line.ask(1, spec.QueueDeclare(0, name, False, True, False, False, False, {}))


def test_memory_alarm_holds_content_frames() -> None:
    """A message that has begun does not go on filling memory; it is whole after the alarm."""
    pair = Pair(alone=True, configure=limited)
    line = Line(pair.a)
    queue_of(line, "q")
    publish, header, *parts = publish_frames(1, "", "q", parts=[b"a" * 90_000, b"b" * 90_000])
    line.hand(publish + header + parts[0])
    pair.a.node.tick(MEMORY_BYTES + 1)
    line.hand(parts[1])
    assert line.held
    pair.settle()
    assert pair.a.queue("q").ready_count() == 0
    pair.a.node.tick(0)
    assert not line.held
    assert [told.body for told in line.drain("q")] == [b"a" * 90_000 + b"b" * 90_000]


def test_publishes_of_a_channel_that_waited_outlive_an_alarm() -> None:
    """What a channel had put aside is held, not lost, and nothing overtakes it."""
    pair = Pair(alone=True, configure=limited)
    line = Line(pair.a)
    queue_of(line, "q")
    line.ask(1, spec.ConfirmSelect(False))
    declare = spec.ExchangeDeclare(0, "x", "fanout", False, False, False, False, False, {})
    frames = [method_frame(1, declare.encode())]
    for body in (b"1", b"2", b"3"):
        frames += publish_frames(1, "", "q", parts=[body])
    line.hand(b"".join(frames[:-1]))
    pair.a.node.tick(MEMORY_BYTES + 1)
    line.wait(1, spec.ExchangeDeclareOk)
    line.hand(frames[-1])
    pair.settle()
    assert line.held
    assert pair.a.queue("q").ready_count() == 0
    pair.a.node.tick(0)
    assert not line.held
    assert [told.body for told in line.drain("q")] == [b"1", b"2", b"3"]
    assert line.of(spec.BasicAck)[-1].method.delivery_tag == 3
