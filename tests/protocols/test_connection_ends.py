"""How connections live and end where nobody sends anything, as RabbitMQ 4.3 was seen to do it."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair
from tests.protocols.line import CAPABILITIES, Line, body_frame, publish_frames
from warren.limits import FRAME_BYTES_MAX
from warren.node.login_turns import FREE, PACE_MS, WAIT_MS_MAX
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import HEARTBEAT_FRAME, PROTOCOL_HEADER, method_frame

TICK_MS = 50


def live(line: Line, milliseconds: int) -> None:
    """Let time pass, in which the client sends nothing but heartbeats if it is to."""
    pair = line.pair
    for _ in range(milliseconds // TICK_MS):
        pair.clock.advance(TICK_MS)
        pair.a.node.tick_log()
        if pair.clock.monotonic_ms() // 1_000 != (pair.clock.monotonic_ms() - TICK_MS) // 1_000:
            pair.a.node.tick(0)
        pair.turn(pair.a)


def ends_after(line: Line, milliseconds: int) -> None:
    """Wait so long, after which the node gives the connection up, and not before."""
    live(line, milliseconds - TICK_MS)
    assert not line.ended
    live(line, TICK_MS)
    assert line.ended == "abort"


@pytest.mark.parametrize("timeout_s", [1, 2, 10, 100])
def test_heartbeats_come_every_half_time_out(timeout_s: int) -> None:
    """From the first half on; a client that asks for a second would drop the connection else."""
    line = Line(Pair(alone=True).a, heartbeat=timeout_s)
    for expected in range(1, 5):
        for _ in range(5):
            live(line, timeout_s * 100)
            line.hand(method_frame(1, spec.BasicAck(0, True).encode()))
        live(line, TICK_MS)
        assert line.heartbeats == expected
    assert not line.ended


def test_heartbeats_are_left_out_where_something_else_was_sent() -> None:
    """Any frame tells as much."""
    line = Line(Pair(alone=True).a, heartbeat=2)
    live(line, 1_050)
    assert line.heartbeats == 1
    for _ in range(8):
        live(line, 500)
        line.send(1, spec.BasicQos(0, 1, False))
        line.pair.turn(line.station)
    assert line.heartbeats == 1


def test_connection_without_heartbeats_gets_none_of_one_before() -> None:
    """The heartbeats of a connection go with it."""
    pair = Pair(alone=True)
    line = Line(pair.a, heartbeat=1)
    line.end.lost()
    other = Line(pair.a)
    live(other, 3_000)
    assert other.heartbeats == 0 and line.heartbeats == 0


def test_silent_client_is_given_up_with_a_reset() -> None:
    """After two to three time-outs."""
    line = Line(Pair(alone=True).a, heartbeat=1)
    live(line, 1_950)
    assert not line.ended
    live(line, 1_050)
    assert line.ended == "abort"


def stranger(pair: Pair) -> Line:
    """A client that has not logged in."""
    line = Line(pair.a, channels=-1)
    line.hand(PROTOCOL_HEADER)
    line.wait(1, spec.ConnectionStart)
    return line


def test_refused_login_is_told_and_its_answer_awaited() -> None:
    """With `authentication_failure_close`: 403, then close-ok, or the end after 3 s."""
    pair = Pair(alone=True)
    for answers in (True, False):
        line = stranger(pair)
        line.login(CAPABILITIES, "wrong")
        close = line.wait(1, spec.ConnectionClose)[0].method
        assert close.reply_code == 403
        assert not line.ended
        if answers:
            line.send(0, spec.ConnectionCloseOk())
            assert line.ended == "close"
        else:
            ends_after(line, 3_000)


def test_a_password_that_had_no_turn_is_told_so() -> None:
    """With `authentication_failure_close`: 320, for which libraries try again."""
    pair = Pair(alone=True)
    lines = [stranger(pair) for _ in range(FREE + WAIT_MS_MAX // PACE_MS + 5)]
    for number, line in enumerate(lines):
        line.login(CAPABILITIES, f"wrong {number}")
    codes = [line.wait(1, spec.ConnectionClose)[0].method.reply_code for line in lines]
    told = codes.count(403)
    assert FREE < told <= FREE + WAIT_MS_MAX // PACE_MS
    assert codes == [403] * told + [320] * (len(lines) - told)
    assert "too many wrong passwords" in lines[-1].told[-1].method.reply_text
    lines[-1].send(0, spec.ConnectionCloseOk())
    assert lines[-1].ended == "close"


@pytest.mark.parametrize("case", ["old client", "mechanism", "large frame", "wrong method"])
def test_stranger_who_goes_wrong_hears_nothing_for_three_seconds(case: str) -> None:
    """Whatever it sends meanwhile, a right login for one."""
    line = stranger(Pair(alone=True))
    if case == "old client":
        line.login({}, "wrong")
    elif case == "mechanism":
        line.send(0, spec.ConnectionStartOk({}, "NONE", b""))
    elif case == "large frame":
        line.hand(b"\x01\x00\x00" + (100_000).to_bytes(4, "big") + bytes(100))
    else:
        line.send(0, spec.ConnectionOpen("/"))
    line.login(CAPABILITIES)
    ends_after(line, 3_000)
    assert [type(told.method) for told in line.told] == [spec.ConnectionStart]


@pytest.mark.parametrize(
    ("heartbeat", "grace_s"),
    [(0, 30), (1, 1), (8, 8), (60, 30)],
    ids=["none", "shortest", "short", "long"],
)
def test_answer_to_a_close_is_awaited_as_long_as_a_heartbeat(heartbeat: int, grace_s: int) -> None:
    """For 30 s at most, and with heartbeats until then."""
    line = Line(Pair(alone=True).a, heartbeat=heartbeat)
    assert isinstance(line.ask(0, spec.ChannelOpen()).method, spec.ConnectionClose)
    ends_after(line, grace_s * 1_000)
    assert line.heartbeats == (0 if heartbeat in (0, 60) else 1)


def test_connection_whose_framing_is_lost_ends_after_three_seconds() -> None:
    """It is told why; its answer could not be understood."""
    line = Line(Pair(alone=True).a)
    line.hand(body_frame(1, b"x")[:-1] + b"\x00")
    assert line.wait(1, spec.ConnectionClose)[0].method.reply_code == 501
    line.send(0, spec.ConnectionCloseOk())
    ends_after(line, 3_000)


@pytest.mark.parametrize(
    ("heartbeat", "grace_s", "heartbeats"),
    [(0, 30, 0), (2, 2, 1), (60, 30, 0)],
    ids=["none", "short", "long"],
)
def test_client_that_does_not_close_its_socket_is_given_up(
    heartbeat: int, grace_s: int, heartbeats: int
) -> None:
    """It closed the connection; the socket is its own to close, for as long as a heartbeat."""
    line = Line(Pair(alone=True).a, heartbeat=heartbeat)
    line.ask(0, spec.ConnectionClose(200, "bye", 0, 0))
    ends_after(line, grace_s * 1_000)
    assert line.heartbeats == heartbeats


def test_what_a_client_sends_after_its_close_is_passed_over() -> None:
    """Publishes, methods and heartbeats; another close is answered, and an answer ends it."""
    pair = Pair(alone=True)
    line = Line(pair.a)
    declare = spec.QueueDeclare(0, "q", False, True, False, False, False, {})
    line.ask(1, declare)
    bye = spec.ConnectionClose(200, "bye", 0, 0)
    line.ask(0, bye)
    told = len(line.told)
    line.hand(b"".join(publish_frames(1, "", "q", parts=[b"late"])))
    line.send(1, declare)
    line.send(2, spec.ChannelOpen())
    line.hand(HEARTBEAT_FRAME)
    line.send(0, spec.ConnectionBlocked("late"))
    pair.settle()
    assert len(line.told) == told
    assert isinstance(line.ask(0, bye).method, spec.ConnectionCloseOk)
    assert not line.ended
    line.send(0, spec.ConnectionCloseOk())
    assert line.ended == "close"
    assert Line(pair.a).drain("q") == []


def test_closes_of_a_client_that_does_not_read_are_answered_no_more() -> None:
    """What gathers for it has a bound."""
    line = Line(Pair(alone=True).a)
    bye = spec.ConnectionClose(200, "bye", 0, 0)
    line.ask(0, bye)
    line.end.set_writable(False)
    told = len(line.told)
    for _ in range(3):
        line.send(0, bye)
    line.pair.settle()
    assert len(line.told) == told


def test_socket_left_alone_is_read_again_once_its_client_has_closed() -> None:
    """Else nobody would notice that the client closes it, too."""
    pair = Pair(alone=True)
    line = Line(pair.a, channels=2)
    line.ask(1, spec.QueueDeclare(0, "q", False, True, False, False, False, {}))
    pair.a.hold_disk = True
    line.send(1, spec.QueueDeclare(0, "slow", False, True, False, False, False, {}))
    body = bytes(100_000)
    frames = b"".join(publish_frames(1, "", "q", parts=[body])) * 12
    bye = method_frame(0, spec.ConnectionClose(200, "bye", 0, 0).encode())
    line.hand(frames + bye)
    assert line.wait(1, spec.ConnectionCloseOk)
    assert not line.held
    pair.a.hold_disk = False


@pytest.mark.parametrize("stage", ["silent", "header", "login", "tuned"])
def test_handshake_that_does_not_come_to_its_end(stage: str) -> None:
    """The client has ten seconds for all of it."""
    pair = Pair(alone=True)
    line = Line(pair.a, channels=-1)
    live(line, 4_000)
    if stage != "silent":
        line.hand(PROTOCOL_HEADER)
    if stage in ("login", "tuned"):
        line.login(CAPABILITIES)
    if stage == "tuned":
        line.send(0, spec.ConnectionTuneOk(10, FRAME_BYTES_MAX, 0))
    ends_after(line, 6_000)
    assert not pair.a.node.connections
    assert "handshake timed out, connection closed" in pair.a.warnings[-1]


def test_heartbeats_begin_with_tune_ok() -> None:
    """A client that stays silent then is given up by them before its handshake times out."""
    line = stranger(Pair(alone=True))
    line.login(CAPABILITIES)
    line.send(0, spec.ConnectionTuneOk(10, FRAME_BYTES_MAX, 1))
    live(line, 1_000)
    assert line.heartbeats == 2 and not line.ended
    live(line, 2_000)
    assert line.ended == "abort"


@pytest.mark.parametrize(
    ("channel_max", "frame_max", "refusal"),
    [
        (0, 131_072, "channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"),
        (2_048, 131_072, "channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (2_047, 0, "frame_max = 0 is higher than the maximum allowed value (131072)"),
        (2_047, 8_191, "frame_max = 8191 is lower than the minimum allowed value (8192)"),
    ],
)
def test_no_limit_is_more_than_any(channel_max: int, frame_max: int, refusal: str) -> None:
    """Who answers an offer with 0 asks for no limit, which is refused where there is one."""
    line = stranger(Pair(alone=True))
    line.login(CAPABILITIES)
    line.send(0, spec.ConnectionTuneOk(channel_max, frame_max, 0))
    close = line.wait(1, spec.ConnectionClose)[0].method
    assert (close.reply_code, close.reply_text) == (530, f"NOT_ALLOWED - negotiated {refusal}")
    ends_after(line, 3_000)


@pytest.mark.parametrize("answer", [0, 1, 65_535])
def test_channels_without_limit_are_offered_as_0(answer: int) -> None:
    """Then a client may choose any limit, or none."""
    line = Line(Pair(alone=True, configure=boundless).a, channels=-1)
    line.hand(PROTOCOL_HEADER)
    line.login(CAPABILITIES)
    tune = line.wait(1, spec.ConnectionTune)[0].method
    assert isinstance(tune, spec.ConnectionTune) and tune.channel_max == 0
    line.send(0, spec.ConnectionTuneOk(answer, FRAME_BYTES_MAX, 0))
    line.ask(0, spec.ConnectionOpen("/"))
    told = [line.ask(number, spec.ChannelOpen()).method for number in (65_535, 1)[: answer or 2]]
    assert all(isinstance(method, spec.ChannelOpenOk) for method in told)


def boundless(settings: Settings) -> None:
    """`channel_max = 0`."""
    settings.channel_max = 0


def test_channel_max_limits_how_many_not_which() -> None:
    """Any numbers will do."""
    line = Line(Pair(alone=True).a, channel_max=3)
    for number in (7, 60_000):
        assert isinstance(line.ask(number, spec.ChannelOpen()).method, spec.ChannelOpenOk)
    line.send(9, spec.ChannelOpen())
    close = line.wait(1, spec.ConnectionClose)[0].method
    assert (close.reply_code, close.reply_text) == (
        530,
        "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)",
    )


def test_what_no_frame_is_ends_the_connection_on_a_closing_channel_too() -> None:
    """A channel that closes passes over content and methods, not over what is of no known type."""
    line = Line(Pair(alone=True).a)
    line.send(1, spec.QueueDeclare(0, "not there", True, False, False, False, False, {}))
    line.wait(1, spec.ChannelClose)
    line.hand(body_frame(1, b"passed over"))
    frame = bytearray(method_frame(1, spec.ChannelCloseOk().encode()))
    frame[0] = 129
    line.hand(bytes(frame))
    assert line.wait(1, spec.ConnectionClose)[0].method.reply_code == 501
