"""Long bodies on their way to clients: whole and in order, and never copied in one piece."""

from __future__ import annotations

from random import Random

import pytest

from tests.node.pair import Pair
from tests.protocols.line import Line, publish_frames
from warren.protocols.amqp091.consuming import FLUSH_BYTES
from warren.protocols.amqp091.publishing import JOINED_BYTES_MAX, Assembly
from warren.wire.amqp091 import spec

BODY = Random(1).randbytes(1_500_000)


class Counting(Line):
    """A client that notes how much it is handed at once."""

    def write(self, data: bytes) -> None:
        self.longest = max(getattr(self, "longest", 0), len(data))
        super().write(data)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("frame_max", [8_192, 50_000, 131_072])
@pytest.mark.parametrize("channel", [1, 2])
@pytest.mark.parametrize("part", [30_000, 131_064])
def test_long_body(kind: str, frame_max: int, channel: int, part: int) -> None:
    """At first, and when it comes again; by any channel, in frames as small as the client's."""
    pair = Pair(alone=True)
    line = Line(pair.a)
    arguments = {"x-queue-type": kind}
    line.ask(1, spec.QueueDeclare(0, "q", False, True, False, False, False, arguments))
    parts = [BODY[at : at + part] for at in range(0, len(BODY), part)]
    line.hand(b"".join(publish_frames(1, "", "q", parts=parts)))
    line.hand(b"".join(publish_frames(1, "", "q", parts=[b"behind"])))
    pair.settle()
    for turn in range(3):
        reader = Counting(pair.a, channels=2, frame_max=frame_max)
        reader.ask(channel, spec.BasicConsume(0, "q", "", False, False, False, False, {}))
        got = reader.wait(2, spec.BasicDeliver)
        assert [told.body for told in got] == [BODY, b"behind"]
        assert all(told.method.redelivered == (turn > 0) for told in got)
        headers = got[0].properties.headers or {}
        assert headers.get("x-delivery-count") == (turn if kind == "quorum" and turn else None)
        assert reader.longest <= FLUSH_BYTES + frame_max
        # It returns with its channel.
        reader.ask(channel, spec.ChannelClose())
        pair.settle(3)


@pytest.mark.parametrize("part", [500, 131_064])
def test_a_very_long_body_is_put_together_as_it_comes(part: int) -> None:
    """Once it is whole nothing of it is copied, however small the frames of its client are."""
    body = Random(2).randbytes(JOINED_BYTES_MAX + 70_001)
    parts = [body[at : at + part] for at in range(0, len(body), part)]
    method, header, *frames = publish_frames(1, "", "q", parts=parts)
    assembly = Assembly(method)
    assembly.begin_body(b"behind" + header + b"before", 6, 6 + len(header))
    for frame in frames:
        assembly.add(frame, 0, len(frame))
    assert assembly.missing == 0
    record = assembly.record()
    assert record is assembly.record(), "a copy would be another object"
    assert record.startswith(method + header)
    at, found = len(method) + len(header), []
    while at < len(record):
        size = int.from_bytes(record[at + 3 : at + 7], "big")
        assert record[at : at + 3] == b"\x03\x00\x01" and record[at + 7 + size] == 0xCE
        found.append(record[at + 7 : at + 7 + size])
        at += size + 8
    assert b"".join(found) == body


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_very_long_body_among_others_is_a_batch_of_its_own(kind: str) -> None:
    pair = Pair(alone=True)
    line = Line(pair.a)
    arguments = {"x-queue-type": kind}
    line.ask(1, spec.QueueDeclare(0, "q", False, True, False, False, False, arguments))
    body = Random(3).randbytes(JOINED_BYTES_MAX + 1)
    parts = [body[at : at + 131_064] for at in range(0, len(body), 131_064)]
    frames = [
        *publish_frames(1, "", "q", parts=[b"before"]),
        *publish_frames(1, "", "q", parts=parts),
        *publish_frames(1, "", "q", parts=[b"behind"]),
    ]
    line.hand(b"".join(frames))
    pair.settle()
    queue = pair.a.queue("q")
    batches = [queue.messages.cached(number) for number in range(3)]
    assert [int(batch.first) for batch in batches] == [0, 1, 2]
    reader = Line(pair.a)
    reader.ask(1, spec.BasicConsume(0, "q", "", False, False, False, False, {}))
    got = reader.wait(3, spec.BasicDeliver)
    assert [told.body for told in got] == [b"before", body, b"behind"]
