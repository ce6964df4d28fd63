"""A channel that the node closes for an error, while more of its client's input is on its way."""

from __future__ import annotations

from tests.node.pair import Pair
from tests.protocols.line import Line, publish_frames
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame


def declare(channel: int, name: str, auto_delete: bool) -> bytes:
    """A declare of a durable queue."""
    method = spec.QueueDeclare(0, name, False, True, False, auto_delete, False, {})
    return method_frame(channel, method.encode())


def lost_race(behind: bytes) -> Line:
    """Channel 2 declares a queue and goes on; channel 1 has another such queue first."""
    line = Line(Pair(alone=True).a, channels=2)
    line.hand(declare(1, "q", False))
    line.hand(declare(2, "q", True) + behind)
    assert not [told for told in line.told if told.channel == 2][1:], "it is known too early"
    line.wait(1, spec.ChannelClose)
    return line


def test_a_close_that_was_put_aside_is_answered_although_the_channel_fails() -> None:
    """Who closes a channel waits for the answer, also where the node closes it just then."""
    publish = b"".join(publish_frames(2, "", "q", parts=[b"abc"]))
    line = lost_race(publish + method_frame(2, spec.ChannelClose(200, "bye").encode()))
    told = [each.method for each in line.told if each.channel == 2][1:]
    assert isinstance(told[0], spec.ChannelClose)
    assert told[0].reply_code == 406
    assert [type(each) for each in told[1:]] == [spec.ChannelCloseOk]
    line.send(2, spec.ChannelCloseOk())
    assert isinstance(line.ask(2, spec.ChannelOpen()).method, spec.ChannelOpenOk)


def test_a_message_half_of_which_was_put_aside_may_go_on_when_the_channel_fails() -> None:
    """The rest of it comes behind the answer to the close, and ends nothing."""
    publish, header, body = publish_frames(2, "", "q", parts=[b"abc"])
    line = lost_race(publish + header)
    line.send(2, spec.ChannelCloseOk())
    line.hand(body)
    assert isinstance(line.ask(2, spec.ChannelOpen()).method, spec.ChannelOpenOk)
    assert not line.of(spec.ConnectionClose)


def test_what_was_taken_up_when_the_channel_fails_is_passed_over_to_its_end() -> None:
    """The method at fault waited behind another one, with more behind it than one turn takes up."""
    line = Line(Pair(alone=True).a, channels=1)
    wrong = method_frame(1, spec.QueueDeclare(0, "q", True, True, False, False, False, {}).encode())
    large = b"".join(publish_frames(1, "", "q", parts=[bytes(100_000)] * 3))
    close = method_frame(1, spec.ChannelClose(200, "bye").encode())
    line.hand(declare(1, "p", False) + wrong + large + close)
    line.wait(1, spec.ChannelClose)
    told = [each.method for each in line.told if each.channel == 1][-2:]
    assert [type(each) for each in told] == [spec.ChannelClose, spec.ChannelCloseOk]
