"""What a client may have very many consumers for costs each turn a bounded part of them.

Work is counted in consumers, and never in time.
"""

from __future__ import annotations

import pytest

import warren
from tests.node.pair import Pair
from tests.protocols.line import Line, publish_frames
from warren.limits import CONSUMER_STEPS, TURN_STEPS_MAX
from warren.protocols.amqp091.channel import Channel
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame

A_TURN = TURN_STEPS_MAX // CONSUMER_STEPS + 1
"""Consumers that come or go in a turn."""
MANY = 3 * A_TURN


def consume(number: int, tag: str, exclusive: bool = False) -> bytes:
    method = spec.BasicConsume(0, "q", tag, False, False, exclusive, True, {})
    return method_frame(number, method.encode())


def crowd(channels: int) -> tuple[Pair, Line, Line]:
    """A node with a queue, a client that has very many consumers of it, and another client."""
    pair = Pair(alone=True)
    other = Line(pair.a)
    line = Line(pair.a, channels)
    other.ask(1, spec.QueueDeclare(0, "q", False, False, False, False, False, {}))
    line.hand(b"".join(consume(1 + each % channels, f"c{each}") for each in range(MANY)))
    return pair, line, other


def consumers(pair: Pair) -> int:
    return int(pair.a.queue("q").consumer_count())


def changes(pair: Pair, wanted: int) -> list[int]:
    """Give the node turns until there are so many consumers: how many came or went in each."""
    counts = [consumers(pair)]
    while counts[-1] != wanted:
        assert len(counts) < 60, "it did not come about"
        pair.a.executor.step()
        pair.a.node.turn()
        counts.append(consumers(pair))
    return [abs(after - before) for before, after in zip(counts, counts[1:], strict=False)]


def test_consumers_come_in_several_turns() -> None:
    pair, _, _ = crowd(1)
    assert consumers(pair) <= A_TURN
    assert max(changes(pair, MANY)) <= A_TURN


@pytest.mark.parametrize("channels", [1, 32])
def test_consumers_of_a_connection_that_is_gone_leave_in_several_turns(channels: int) -> None:
    pair, line, other = crowd(channels)
    changes(pair, MANY)
    line.end.lost()
    # Clients whose input comes first have theirs, too.
    other.hand(b"".join(publish_frames(1, "", "q", parts=[b"x"])))
    gone = changes(pair, 0)
    assert max(gone) <= 2 * A_TURN
    assert len(gone) >= 2
    assert pair.a.queue("q").ready_count() == 1, "none of those had it"


def test_a_channel_is_closed_when_all_of_its_consumers_have_left() -> None:
    """Whoever wants the queue alone gets it then."""
    pair, line, other = crowd(1)
    changes(pair, MANY)
    line.send(1, spec.ChannelClose(200, "", 0, 0))
    assert not line.of(spec.ChannelCloseOk)
    assert max(changes(pair, 0)) <= A_TURN
    line.wait(1, spec.ChannelCloseOk)
    other.ask(1, spec.BasicConsume(0, "q", "alone", False, False, True, False, {}))
    assert other.of(spec.BasicConsumeOk)
    # Its number is free again.
    line.ask(1, spec.ChannelOpen())


@pytest.mark.skipif(warren.COMPILED, reason="replaces methods")
def test_a_limit_that_is_set_often_wakes_consumers_once_in_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair, line, _ = crowd(1)
    changes(pair, MANY)
    woken: list[int] = []
    wake = Channel.wake_consumers

    def count(channel: Channel) -> None:
        woken.append(len(channel.consumers))
        wake(channel)

    monkeypatch.setattr(Channel, "wake_consumers", count)
    frames = [spec.BasicQos(0, 1 + number, True).encode() for number in range(200)]
    line.hand(b"".join(method_frame(1, frame) for frame in frames))
    assert not woken
    line.wait(200, spec.BasicQosOk)
    assert 1 <= len(woken) <= 3
    line.hand(b"".join(publish_frames(1, "", "q", parts=[b"x"])))
    line.wait(1, spec.BasicDeliver)
