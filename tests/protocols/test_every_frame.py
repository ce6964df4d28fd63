"""Frames that no well-meaning client sends: of every length, cut, joined, behind a close."""

from __future__ import annotations

import itertools
import struct

import pytest

from tests.node.pair import Pair
from tests.protocols.line import CAPABILITIES, Line, publish_frames
from warren.limits import FRAME_BYTES_MAX
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import HEARTBEAT_FRAME, PROTOCOL_HEADER, method_frame

ACK = struct.pack(">HHQB", 60, 80, 1, 0)
BYE = method_frame(0, spec.ConnectionClose(200, "bye", 0, 0).encode())
BYE_OK = method_frame(0, spec.ConnectionCloseOk().encode())


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Lay out a frame."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


@pytest.fixture(scope="module")
def pair() -> Pair:
    return Pair(alone=True)


def serves_others(pair: Pair) -> None:
    """Another client is let in and gets an answer."""
    other = Line(pair.a)
    other.ask(1, spec.QueueDeclare(0, "", False, False, True, False, False, {}))
    other.end.lost()


@pytest.mark.parametrize("size", [size for size in range(4, 40) if size != len(ACK)])
def test_ack_of_another_length_is_a_frame_error(pair: Pair, size: int) -> None:
    """The way that is made for acks takes whole ones alone: 501, as RabbitMQ says."""
    for before in (b"", frame(1, 1, ACK)):
        line = Line(pair.a)
        queue = line.ask(1, spec.QueueDeclare(0, "", False, False, True, False, False, {}))
        line.hand(b"".join(publish_frames(1, "", queue.method.queue, parts=[b"x"])))
        line.ask(1, spec.BasicGet(0, queue.method.queue, False))
        line.hand(before + frame(1, 1, (ACK + bytes(40))[:size]))
        close = line.wait(1, spec.ConnectionClose)[0].method
        assert (close.reply_code, close.class_id, close.method_id) == (501, 60, 80)
        line.end.lost()
    serves_others(pair)


@pytest.mark.parametrize("method", spec.METHODS, ids=lambda method: method.NAME)
def test_every_method_of_every_length_is_answered_or_refused(
    pair: Pair, method: type[spec.Method]
) -> None:
    """On a channel and on none, in one read and byte by byte; the node goes on."""
    head = struct.pack(">HH", method.CLASS_ID, method.METHOD_ID)
    for channel, size, fill in itertools.product((0, 1), (0, 1, 2, 8, 9, 13, 40), (0, 1, 0xFF)):
        bad = frame(1, channel, head + bytes([fill]) * size)
        for whole in (True, False):
            line = Line(pair.a)
            data = bad + method_frame(1, spec.BasicQos(0, 1, False).encode()) + BYE
            pieces = [data] if whole else [bytes([byte]) for byte in data]
            for piece in pieces:
                line.hand(piece)
            pair.turn(pair.a)
            line.end.lost()
    serves_others(pair)


CLOSERS = {
    "close": BYE,
    "close-ok": BYE_OK,
    "channel.close": method_frame(1, spec.ChannelClose(200, "bye", 0, 0).encode()),
    "channel.close-ok": method_frame(1, spec.ChannelCloseOk().encode()),
    "error": method_frame(1, spec.ChannelOpen().encode()),
    "garbage": b"\x01\x00\x01\x00\x00\x00\x01\x00\x00",
    "heartbeat": HEARTBEAT_FRAME,
    "publish": b"".join(publish_frames(1, "", "q", parts=[b"x"])),
}


@pytest.mark.parametrize("joined", [True, False], ids=["joined", "apart"])
@pytest.mark.parametrize("first", CLOSERS)
def test_closes_in_every_order_end_one_connection(pair: Pair, first: str, joined: bool) -> None:
    """The transport refuses what is written after its close; no turn of the node may fail on it."""
    for others in itertools.product(CLOSERS, repeat=2):
        line = Line(pair.a)
        frames = [CLOSERS[name] for name in (first, *others)]
        for data in [b"".join(frames)] if joined else frames:
            if line.ended:
                break
            line.hand(data)
            if not joined:
                pair.turn(pair.a)
        pair.turn(pair.a)
        line.end.lost()
        pair.turn(pair.a)
    serves_others(pair)


@pytest.mark.parametrize("joined", [True, False], ids=["joined", "apart"])
@pytest.mark.parametrize("case", ["header only", "wrong password", "wrong frame"])
def test_strangers_close_in_every_order(pair: Pair, case: str, joined: bool) -> None:
    """A client that never logged in says goodbye, answers its own goodbye, and says it again."""
    for order in itertools.product((BYE, BYE_OK), repeat=3):
        line = Line(pair.a, channels=-1)
        line.hand(PROTOCOL_HEADER)
        pair.turn(pair.a)
        start = b""
        if case == "wrong password":
            properties = {"capabilities": CAPABILITIES}
            login = spec.ConnectionStartOk(properties, "PLAIN", b"\0guest\0no").encode()
            start = method_frame(0, login)
        elif case == "wrong frame":
            start = method_frame(0, spec.ConnectionOpen("/").encode())
        frames = [start, *order]
        for data in [b"".join(frames)] if joined else frames:
            if line.ended:
                break
            line.hand(data)
            if not joined:
                pair.settle(2)
        pair.settle(2)
        line.end.lost()
        pair.turn(pair.a)
    serves_others(pair)


def test_frame_sizes_at_both_ends(pair: Pair) -> None:
    """Empty frames, and such as are larger than was agreed, of every kind."""
    for kind in range(256):
        for size in (0, FRAME_BYTES_MAX, 1 << 31, (1 << 32) - 1):
            line = Line(pair.a)
            line.hand(struct.pack(">BHI", kind, 1, size) + b"\xce")
            pair.turn(pair.a)
            line.end.lost()
    serves_others(pair)
