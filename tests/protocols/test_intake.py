"""What a client may make a node keep, and what it is told when that is too much."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest

from tests.node.pair import Pair
from tests.protocols.line import Line, body_frame, publish_frames
from warren.limits import (
    ASSEMBLY_BYTES_MAX,
    BODY_FRAME_BYTES_MIN,
    EMPTY_FRAMES_MAX,
    RECORD_OVERHEAD_BYTES_MAX,
)
from warren.log.config import LogConfig
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame

MEMORY_BYTES = 1_000_000_000


def limited(settings: Settings) -> None:
    """A node with a memory alarm."""
    settings.memory_limit_bytes = MEMORY_BYTES


def forgetful(settings: Settings) -> None:
    """A node that reads what it delivers from its disk."""
    settings.log = LogConfig(cache_bytes=1, read_cache_bytes=1_000_000)


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


# --- small frames ---------------------------------------------------------------------------------


def record_of(pair: Pair, name: str) -> bytes:
    """The one record of a queue, as it is stored."""
    queue = pair.a.queue(name)
    batch = queue.batch_of(queue.fifo.ready.head().first)
    return batch.payload


@pytest.mark.parametrize("frame_max", [8_192, 131_072])
@pytest.mark.parametrize("part", [1, 100, BODY_FRAME_BYTES_MIN - 1, BODY_FRAME_BYTES_MIN])
def test_bodies_in_small_frames_are_cut_anew(part: int, frame_max: int) -> None:
    """A record is little larger than its body, however it came, and every reader can take it."""
    pair = Pair(alone=True)
    line = Line(pair.a, channels=2)
    queue_of(line, "q")
    body = Random(part).randbytes(300_000 if part > 1 else 20_000)
    parts = [body[at : at + part] for at in range(0, len(body), part)]
    frames = publish_frames(2, "", "q", parts=[b"x" * BODY_FRAME_BYTES_MIN, *parts])
    line.hand(b"".join(frames))
    pair.settle(3)
    record = record_of(pair, "q")
    size = BODY_FRAME_BYTES_MIN + len(body)
    assert len(record) - size <= size // BODY_FRAME_BYTES_MIN * 8 + 64
    assert len(record) - size <= RECORD_OVERHEAD_BYTES_MAX
    reader = Line(pair.a, frame_max=frame_max)
    got = reader.drain("q")
    assert [told.body for told in got] == [b"x" * BODY_FRAME_BYTES_MIN + body]


def test_large_frames_are_kept_as_they_came() -> None:
    """What wastes little is not copied again."""
    pair = Pair(alone=True)
    line = Line(pair.a)
    queue_of(line, "q")
    frames = publish_frames(1, "", "q", parts=[b"a" * 5_000, b"b" * 90_000, b"c"])
    for frame in frames:
        line.hand(frame)
    pair.settle(3)
    assert record_of(pair, "q") == b"".join(frames)


def test_empty_body_frames_mean_nothing() -> None:
    """Wherever they stand in a message, as at RabbitMQ; none of them is kept."""
    pair = Pair(alone=True)
    line = Line(pair.a)
    queue_of(line, "q")
    publish, header, *parts = publish_frames(1, "", "q", parts=[b"ab", b"c"])
    empty = body_frame(1, b"")
    line.hand(publish + header + empty + parts[0] + 100 * empty)
    line.hand(empty + parts[1])
    pair.settle(3)
    method, header, _ = publish_frames(1, "", "q", parts=[b"abc"])
    assert record_of(pair, "q") == method + header + body_frame(1, b"abc")
    # Nothing is missing any more.
    line.hand(empty)
    assert line.wait(1, spec.ConnectionClose)[0].method.reply_code == 505


def test_empty_body_frames_without_end_take_no_memory() -> None:
    """They are counted, and an absurd number ends the connection."""
    pair = Pair(alone=True)
    line = Line(pair.a)
    queue_of(line, "q")
    publish, header, part = publish_frames(1, "", "q", parts=[b"abc"])
    line.hand(publish + header)
    lot = body_frame(1, b"") * (EMPTY_FRAMES_MAX // 20)
    tracemalloc.start()
    line.hand(lot)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 50_000
    for _ in range(19):
        line.hand(lot)
    assert not line.of(spec.ConnectionClose)
    line.hand(body_frame(1, b""))
    close = line.wait(1, spec.ConnectionClose)[0].method
    assert (close.reply_code, close.reply_text) == (
        501,
        "FRAME_ERROR - content body has more than 100000 empty frames",
    )
    assert (close.class_id, close.method_id) == (60, 40)


# --- messages that are not whole ------------------------------------------------------------------


def begin_messages(line: Line, channels: range, size: int) -> None:
    """Send all but the last byte of a message on each channel, as long as that is open."""
    for channel in channels:
        publish, header = publish_frames(channel, "", "q", parts=[bytes(size)])[:2]
        line.hand(publish + header)
        for _ in range((size - 1) // PART_BYTES):
            line.hand(body_frame(channel, bytes(PART_BYTES)))


PART_BYTES = 131_064


def test_messages_that_are_not_whole_are_bounded_on_a_connection() -> None:
    """The largest of them is refused; the others, and what follows, are not."""
    pair = Pair(alone=True)
    line = Line(pair.a, channels=10)
    queue_of(line, "q")
    size = 128 * PART_BYTES + 1
    begin_messages(line, range(1, 10), size)
    # It was handed over without turns between, and lies in no pile that each hand-over copies.
    assert ASSEMBLY_BYTES_MAX - 2 * size < pair.a.node.assembled_bytes <= ASSEMBLY_BYTES_MAX
    pair.settle(3)
    closed = line.of(spec.ChannelClose)
    assert [told.method.reply_code for told in closed] == [311]
    left = [channel for channel in range(1, 10) if channel != closed[0].channel]
    for channel in left[:2]:
        line.hand(body_frame(channel, b"!"))
    line.pair.settle(3)
    assert pair.a.queue("q").ready_count() == 2
    line.send(closed[0].channel, spec.ChannelCloseOk())
    line.ask(closed[0].channel, spec.ChannelOpen())
    line.end.lost()
    assert pair.a.node.assembled_bytes == 0


def small(settings: Settings) -> None:
    """A node with little memory and small messages."""
    settings.memory_limit_bytes = 40 * PART_BYTES
    settings.max_message_bytes = 8 * PART_BYTES


def test_messages_that_are_not_whole_are_bounded_on_a_node() -> None:
    """Who has most of them loses one."""
    pair = Pair(alone=True, configure=small)
    greedy, modest = Line(pair.a, channels=5), Line(pair.a)
    queue_of(modest, "q")
    begin_messages(modest, range(1, 2), 4 * PART_BYTES + 1)
    begin_messages(greedy, range(1, 5), 2 * PART_BYTES + 1)
    pair.settle(3)
    assert pair.a.node.assembled_bytes <= 10 * PART_BYTES
    assert [told.method.reply_code for told in greedy.of(spec.ChannelClose)] == [311]
    modest.hand(body_frame(1, b"!"))
    assert len(modest.drain("q")) == 1


def test_rest_of_a_refused_message_is_dropped() -> None:
    """A client that answers the close within the body goes on with that, and opens again."""
    pair = Pair(alone=True, configure=small)
    line = Line(pair.a)
    queue_of(line, "q")
    for exchange, size in (("", 9 * PART_BYTES), ("nowhere", 2 * PART_BYTES)):
        frames = publish_frames(1, exchange, "q", parts=[bytes(PART_BYTES)] * (size // PART_BYTES))
        seen = len(line.of(spec.ChannelClose))
        line.hand(b"".join(frames[:3]))
        assert len(line.wait(seen + 1, spec.ChannelClose)) == seen + 1
        line.hand(frames[3])
        line.send(1, spec.ChannelCloseOk())
        line.hand(b"".join(frames[4:]))
        line.ask(1, spec.ChannelOpen())
    assert not line.of(spec.ConnectionClose)
    line.send(1, spec.ChannelClose())
    line.hand(body_frame(1, b"more"))
    close = line.wait(1, spec.ConnectionClose)[0].method
    assert close.reply_text == (
        "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
    )


def test_header_of_another_class_is_an_error_before_its_body_comes() -> None:
    """A small message is waited for whole only if it can be one."""
    pair = Pair(alone=True)
    line = Line(pair.a)
    publish, header = publish_frames(1, "", "q", parts=[b"abc"])[:2]
    line.hand(publish + header[:8] + b"\x0a" + header[9:])
    close = line.wait(1, spec.ConnectionClose)[0].method
    assert close.reply_text == (
        "UNEXPECTED_FRAME - expected content header for class 60, got one for class 10 instead"
    )


# --- large messages, and many clients -------------------------------------------------------------


@pytest.mark.parametrize("cut", [700, 30_000, 131_000])
def test_large_frames_arrive_in_parts(cut: int) -> None:
    """However the socket cuts them, and whatever comes in the same part behind the last one."""
    pair = Pair(alone=True)
    line = Line(pair.a)
    queue_of(line, "q")
    parts = [bytes([65 + at]) * 131_064 for at in range(3)]
    frames = publish_frames(1, "", "q", parts=[*parts, b"end"])
    data = b"".join(frames + publish_frames(1, "", "q", parts=[b"next"]) + frames)
    for at in range(0, len(data), cut):
        line.hand(data[at : at + cut])
    pair.settle()
    large = b"".join(parts) + b"end"
    assert [told.body for told in line.drain("q")] == [large, b"next", large]


@pytest.mark.parametrize("frame_max", [131_072, 8_192])
def test_large_messages_reach_any_channel(frame_max: int) -> None:
    """The one that they were published on, and others; cut anew where frames have to be smaller."""
    pair = Pair(alone=True)
    publisher = Line(pair.a, channels=2)
    queue_of(publisher, "q")
    body = bytes(range(256)) * 1_200
    parts = [body[at : at + 100_000] for at in range(0, len(body), 100_000)]
    for channel in (1, 2):
        publisher.hand(b"".join(publish_frames(channel, "", "q", parts=parts)))
    pair.settle()
    consumer = Line(pair.a, frame_max=frame_max)
    assert [told.body for told in consumer.drain("q")] == [body, body]
    assert (max(consumer.body_frames) > 8_192) == (frame_max > 8_192)


def test_a_publisher_among_many_clients_gets_its_share_of_a_turn() -> None:
    """What it sent beyond that is held, and taken in the next turns, in order."""
    pair = Pair(alone=True)
    publisher = Line(pair.a)
    queue_of(publisher, "q")
    others = [Line(pair.a) for _ in range(40)]
    messages = 400
    data = b"".join(
        b"".join(publish_frames(1, "", "q", parts=[b"%04d" % at + bytes(1_000)]))
        for at in range(messages)
    )
    ready: list[int] = []
    queue = pair.a.queue("q")
    while len(ready) < 12:
        for other in others:
            other.send(1, spec.BasicQos(0, 1, False))
        if len(ready) == 1:
            publisher.hand(data)
            assert publisher.held
        pair.a.node.turn()
        pair.a.executor.step()
        pair.a.node.turn()
        ready.append(int(queue.ready_count()))
    assert 0 < ready[1] - ready[0] < messages
    pair.settle(20)
    assert not publisher.held
    told = [told.body[:4] for told in publisher.drain("q")]
    assert told == [b"%04d" % at for at in range(messages)]


def test_publishers_wait_for_consumers_that_wait_for_the_disk() -> None:
    """For some reads, and for no longer than a moment; nothing is lost or held for good."""
    pair = Pair(alone=True, configure=forgetful)
    publisher = Line(pair.a)
    consumer = Line(pair.a)
    queue_of(publisher, "q")
    message = b"".join(publish_frames(1, "", "q", parts=[bytes(100_000)]))
    for _ in range(30):
        publisher.hand(message)
        pair.settle(1)
    assert not publisher.held, "nobody consumes"
    consumer.ask(1, spec.BasicQos(0, 10, False))
    consumer.send(1, spec.BasicConsume(0, "q", "", False, False, False, False, {}))
    held = 0
    published = 30
    for at in range(400):
        if at < 60 and not publisher.held:
            publisher.hand(message)
            published += 1
        held += publisher.held
        pair.settle(1)
        if consumer.of(spec.BasicDeliver):
            consumer.send(1, spec.BasicAck(0, True))
    assert held > 0, "held for consumers that read"
    assert published > 31, "and let go again"
    assert len(consumer.of(spec.BasicDeliver)) == published
    assert not publisher.held
