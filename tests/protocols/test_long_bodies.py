"""Long bodies on their way to clients: whole and in order, and never copied in one piece."""

from __future__ import annotations

from random import Random

import pytest

from tests.node.pair import Pair
from tests.protocols.line import Line, publish_frames
from warren.protocols.amqp091.consuming import FLUSH_BYTES
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
