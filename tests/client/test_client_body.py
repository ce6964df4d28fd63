"""Contents of all sizes, however they are cut: into frames by the broker, into reads by the net."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.client.script import Peer, scripted
from tests.support.examples import examples
from warren.client import Channel, connect
from warren.client.body import DIRECT_BYTES_MAX, DIRECT_BYTES_MIN, Body, BodyReader
from warren.wire.amqp091 import spec
from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.frame import header_frame, method_frame

FRAME_MAX = 131_072
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"


def pattern(size: int) -> bytes:
    """Bytes that show when some are missing, doubled or out of place."""
    return struct.pack(f">{size // 4 + 1}I", *range(size // 4 + 1))[:size]


def frame(payload: bytes, channel: int = 1) -> bytes:
    """A body frame, laid out without the code under test."""
    return struct.pack(">BHI", 3, channel, len(payload)) + payload + b"\xce"


def deliver(tag: int, size: int, channel: int = 1) -> bytes:
    """What comes before the body frames of a delivery."""
    method = spec.BasicDeliver("t", tag, False, "", "q")
    return method_frame(channel, method.encode()) + header_frame(channel, b"\x00\x00", size)


def cut(body: bytes, size: int) -> list[bytes]:
    """A body's frames of `size` bytes each."""
    return [frame(body[at : at + size]) for at in range(0, len(body), size)]


# --- the reader alone: every read, down to single bytes -------------------------------------------


class Pair:
    """A connected pair of sockets, for what has to be one."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)


@contextmanager
def paired() -> Iterator[Pair]:
    pair = Pair()
    with pair.near, pair.far:
        yield pair


@pytest.mark.parametrize("sizes", [[10], [3, 3, 3, 1], [9, 1], [1, 9], [0, 10, 0], [4, 0, 6]])
def test_a_read_may_end_anywhere(sizes: list[int]) -> None:
    body = pattern(10)
    parts = []
    at = 0
    for size in sizes:
        parts.append(frame(body[at : at + size]))
        at += size
    if sizes[-1] == 0:
        parts.pop()  # nothing may follow a complete content
    stream = b"".join(parts)
    for first in range(len(parts[0])):
        for second in range(first, len(stream) + 1):
            with paired() as pair:
                content = Body(10)
                reader = BodyReader(1, content, stream[:first])
                for piece in (stream[first:second], stream[second:]):
                    pair.far.sendall(piece)
                    assert reader.receive(pair.near)
                    assert not reader.foreign
                assert reader.complete
                assert content.take() == body


def test_single_bytes() -> None:
    body = pattern(40)
    stream = b"".join(cut(body, 7))
    content = Body(40)
    with paired() as pair:
        reader = BodyReader(1, content, b"")
        for at in range(len(stream)):
            assert not reader.complete
            assert reader.receive(pair.near)  # nothing there
            pair.far.sendall(stream[at : at + 1])
            assert reader.receive(pair.near)
    assert reader.complete
    assert content.take() == body


@pytest.mark.parametrize(
    "follows",
    [
        HEARTBEAT,
        frame(b"x", channel=2),
        frame(bytes(21)),
        method_frame(1, spec.QueuePurgeOk(1).encode()),
        struct.pack(">BHI", 3, 1, 1 << 31),
    ],
    ids=["heartbeat", "other channel", "too long", "method", "huge"],
)
@pytest.mark.parametrize("read_before", range(12))
def test_a_frame_of_another_kind_is_left_to_others(follows: bytes, read_before: int) -> None:
    """Nothing of it is lost, wherever the read before it ended."""
    stream = frame(pattern(10)) + follows
    content = Body(30)
    content.add(pattern(10), 0, 10)
    with paired() as pair:
        reader = BodyReader(1, content, stream[:read_before])
        pair.far.sendall(stream[read_before:])
        while not reader.foreign:
            assert reader.receive(pair.near)
        rest = reader.leftover + pair.near.recv(1000) if len(follows) > 7 else reader.leftover
    assert rest == follows
    assert content.missing == 10


def test_a_frame_of_another_kind_that_was_begun() -> None:
    for size in range(7, 8 + len(frame(b"x" * 5, channel=2))):
        begun = frame(b"x" * 5, channel=2)[:size][:-1]
        if len(begun) < 7:
            continue
        reader = BodyReader(1, Body(30), begun)
        assert (reader.foreign, reader.leftover) == (True, begun)


def test_a_bad_end_is_refused() -> None:
    for stream in (frame(pattern(10))[:-1] + b"\xcd", frame(pattern(4))[:-1] + b"\x00" + bytes(20)):
        with paired() as pair:
            reader = BodyReader(1, Body(10), b"")
            pair.far.sendall(stream)
            with pytest.raises(ConnectionException) as caught:
                while True:
                    assert reader.receive(pair.near)
            assert caught.value.code == 501


def test_the_end_of_the_stream() -> None:
    with paired() as pair:
        reader = BodyReader(1, Body(10), b"")
        pair.far.sendall(frame(pattern(10))[:9])
        pair.far.close()
        while reader.receive(pair.near):
            assert not reader.complete


# --- a whole client ------------------------------------------------------------------------------


def received(channel: Channel, count: int) -> list[tuple[int, bytes]]:
    """So many deliveries: tag and body."""
    result: list[tuple[int, bytes]] = []
    while len(result) < count:
        deliveries = channel.receive(count, 10)
        assert deliveries, "they did not come"
        result += [(each.delivery_tag, each.body) for each in deliveries]
    return result


def served(send: Callable[[Peer], None], channels: int = 1) -> Callable[[Peer], None]:
    """A script: some channels are opened, then this is sent."""

    def script(peer: Peer) -> None:
        peer.shake_hands()
        for _ in range(channels):
            peer.open_channel()
        send(peer)
        peer.expect(spec.ConnectionClose)
        peer.send(0, spec.ConnectionCloseOk())

    return script


SIZES = [
    0,
    1,
    FRAME_MAX - 8,
    FRAME_MAX - 7,
    DIRECT_BYTES_MIN - 1,
    DIRECT_BYTES_MIN,
    DIRECT_BYTES_MIN + 1,
    3 * (FRAME_MAX - 8),
    3 * (FRAME_MAX - 8) + 1,
    16 * 1024 * 1024,
    0,
    16 * 1024 * 1024 + 7,
    5,
]


@pytest.mark.parametrize("frame_bytes", [FRAME_MAX - 8, 100_000, 8_184])
def test_every_size(frame_bytes: int) -> None:
    def send(peer: Peer) -> None:
        for tag, size in enumerate(SIZES):
            frames = cut(pattern(size), frame_bytes)
            peer.stream.sendall(deliver(tag, size) + b"".join(frames))

    with scripted(served(send)) as uri, connect(uri) as connection:
        came = received(connection.channel(), len(SIZES))
        assert [(tag, len(body)) for tag, body in came] == list(enumerate(SIZES))
        for _, body in came:
            assert type(body) is bytes
            assert body == pattern(len(body))


def test_beyond_what_is_set_aside_at_once() -> None:
    """A content that is announced larger grows as it comes instead."""
    size = DIRECT_BYTES_MAX + 1

    def send(peer: Peer) -> None:
        peer.stream.sendall(deliver(1, size))
        for part in cut(bytes(size), FRAME_MAX - 8):
            peer.stream.sendall(part)
        peer.stream.sendall(deliver(2, 1 << 29))

    with scripted(served(send)) as uri, connect(uri) as connection:
        channel = connection.channel()
        assert received(channel, 1) == [(1, bytes(size))]
        assert channel.receive(1, 0.1) == []


def test_two_channels_and_heartbeats_in_between() -> None:
    one, other = pattern(600_000), pattern(700_001)[::-1]

    def send(peer: Peer) -> None:
        stream = deliver(1, len(one)) + deliver(2, len(other), channel=2)
        ones = cut(one, 50_000)
        others = [frame(other[at : at + 70_000], 2) for at in range(0, len(other), 70_000)]
        for at in range(max(len(ones), len(others))):
            stream += b"".join(ones[at : at + 1]) + HEARTBEAT + b"".join(others[at : at + 1])
        for at in range(0, len(stream), 33_333):
            peer.stream.sendall(stream[at : at + 33_333])

    with scripted(served(send, 2)) as uri, connect(uri) as connection:
        first, second = connection.channel(), connection.channel()
        assert received(first, 1) == [(1, one)]
        assert received(second, 1) == [(2, other)]


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_any_frames_in_any_reads(data: st.DataObject) -> None:
    """Frames, heartbeats and reads of random sizes around a content that is received in place."""
    size = data.draw(st.integers(DIRECT_BYTES_MIN, DIRECT_BYTES_MIN + 300_000))
    body = pattern(size)
    stream = deliver(1, size)
    at = 0
    while at < size:
        step = min(
            data.draw(st.sampled_from([0, 1, 7, 9, 8_184, 65_536, FRAME_MAX - 8])), size - at
        )
        # Small steps first, then whatever is left in frames of one size.
        if data.draw(st.integers(0, 9)) == 0:
            stream += b"".join(cut(body[at:], 100_000))
            at = size
            continue
        stream += frame(body[at : at + step])
        at += step
        if data.draw(st.booleans()):
            stream += HEARTBEAT
    stream += deliver(2, 3) + frame(b"end")
    cuts = data.draw(st.lists(st.integers(1, len(stream)), max_size=12).map(sorted))

    def send(peer: Peer) -> None:
        peer.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            peer.stream.sendall(stream[start:end])

    with scripted(served(send)) as uri, connect(uri) as connection:
        assert received(connection.channel(), 2) == [(1, body), (2, b"end")]


@pytest.mark.parametrize(
    "after",
    [
        method_frame(1, spec.QueuePurgeOk(1).encode()),
        header_frame(1, b"\x00\x00", 5),
        3 * frame(bytes(120_000)),
        struct.pack(">BHI", 3, 1, 10) + bytes(10) + b"\xcd" + bytes(20),
        struct.pack(">BHI", 3, 1, 1 << 30),
        b"\x07" * 300_000,
    ],
    ids=["method", "header", "too much", "bad end", "huge frame", "noise"],
)
@pytest.mark.parametrize("frames", [0, 1, 2])
def test_nonsense_in_a_large_content(after: bytes, frames: int) -> None:
    size = DIRECT_BYTES_MIN

    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        stream = deliver(1, size) + frame(bytes(80_000)) * frames
        peer.stream.sendall(stream)
        try:
            peer.stream.sendall(after + frame(bytes(100_000)))
        except OSError:
            pass  # The client may have hung up by then.

    with scripted(script, "?connection_timeout=2000") as uri:
        with pytest.raises(ConnectionException) as caught:
            connect(uri).channel().receive(1, 5)
        assert caught.value.code in {501, 505}
