"""Frames: found whatever the pieces they come in, refused in RabbitMQ's words."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.strategies import methods, properties
from warren.limits import FRAME_BYTES_MAX, INITIAL_FRAME_BYTES_MAX
from warren.wire.amqp091 import spec
from warren.wire.amqp091.erlang_text import close_text, decode_failure
from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.frame import (
    HEARTBEAT_FRAME,
    FrameReader,
    content_frames,
    header_frame,
    long_content_frames,
    method_frame,
    protocol_refusal,
    split_body,
)
from warren.wire.amqp091.properties import Properties, parse_header
from warren.wire.amqp091.spec import decode_method

Frame = tuple[int, int, bytes]


def frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    """A frame laid out without the code under test."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def read_all(reader: FrameReader, pieces: list[bytes]) -> list[Frame]:
    """The frames that come out when these pieces go in."""
    found: list[Frame] = []
    for piece in pieces:
        reader.feed(piece)
        while reader.next():
            found.append((reader.kind, reader.channel, reader.buffer[reader.start : reader.end]))
    return found


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` cut at these places."""
    places = sorted({0, len(data), *[cut % (len(data) + 1) for cut in cuts]})
    return [data[start:end] for start, end in pairwise(places)]


frames = st.one_of(
    st.tuples(st.just(1), st.integers(0, 65535), st.binary(min_size=4, max_size=60)),
    st.tuples(st.just(2), st.integers(1, 65535), st.binary(min_size=12, max_size=60)),
    st.tuples(st.just(3), st.integers(1, 65535), st.binary(max_size=60)),
    st.just((8, 0, b"")),
)


@given(st.lists(frames, max_size=8), st.lists(st.integers(0, 10_000), max_size=12))
def test_frames_are_found_however_they_are_cut(sent: list[Frame], cuts: list[int]) -> None:
    data = b"".join(frame(*each) for each in sent)
    assert read_all(FrameReader(FRAME_BYTES_MAX), pieces_of(data, cuts)) == sent
    assert (
        read_all(FrameReader(FRAME_BYTES_MAX), [data[i : i + 1] for i in range(len(data))]) == sent
    )


@given(st.lists(frames, min_size=1, max_size=4), st.data())
def test_an_unfinished_frame_is_no_error(sent: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(frame(*each) for each in sent)
    size = data.draw(st.integers(0, len(stream) - 1))
    reader = FrameReader(FRAME_BYTES_MAX)
    found = read_all(reader, [stream[:size]])
    assert found == sent[: len(found)]
    assert len(found) < len(sent)
    assert not reader.next()
    assert found + read_all(reader, [stream[size:]]) == sent


def test_a_trickled_frame_is_not_copied_again_and_again() -> None:
    """A frame that comes byte by byte stays in pieces until it can be whole."""
    data = frame(3, 1, bytes(100_000))
    reader = FrameReader(FRAME_BYTES_MAX)
    reader.feed(data[:7])
    assert not reader.next()
    buffers = {id(reader.buffer)}
    for at in range(7, len(data) - 1, 97):
        reader.feed(data[at : min(at + 97, len(data) - 1)])
        assert not reader.next()
        buffers.add(id(reader.buffer))
    assert len(buffers) == 1
    reader.feed(data[-1:])
    assert reader.next()


@given(methods(), st.integers(0, 65535))
def test_method_frames(method: spec.Method, channel: int) -> None:
    payload = method.encode()
    data = method_frame(channel, payload)
    assert data == frame(1, channel, payload)


@given(
    st.binary(max_size=200),
    properties,
    st.integers(min_value=9, max_value=150),
    st.integers(1, 65535),
)
def test_content_round_trip(
    body: bytes, value: Properties, frame_bytes_max: int, channel: int
) -> None:
    encoded = value.encode()
    method = spec.BasicPublish(exchange="e", routing_key="k")
    data = content_frames(channel, method, encoded, body, frame_bytes_max)
    found = read_all(FrameReader(FRAME_BYTES_MAX), [data])
    assert [each[1] for each in found] == [channel] * len(found)
    assert found[0][2] == method.encode()
    size, start = parse_header(found[1][2], 0, len(found[1][2]))
    assert size == len(body)
    assert found[1][2][start:] == encoded
    assert data.startswith(
        method_frame(channel, method.encode()) + header_frame(channel, encoded, len(body))
    )
    parts = found[2:]
    assert [each[0] for each in parts] == [3] * len(parts)
    assert b"".join(each[2] for each in parts) == body
    assert len(parts) == -(-len(body) // (frame_bytes_max - 8))
    assert all(1 <= len(each[2]) <= frame_bytes_max - 8 for each in parts)
    assert split_body(body, frame_bytes_max) == [each[2] for each in parts]


def test_heartbeat() -> None:
    assert frame(8, 0, b"") == HEARTBEAT_FRAME
    assert read_all(FrameReader(FRAME_BYTES_MAX), [HEARTBEAT_FRAME]) == [(8, 0, b"")]


# What RabbitMQ 4.3 answers to the same bytes, with frame_max 131072 and channel 1 open.
ANSWERS: list[tuple[bytes, str]] = [
    (
        frame(1, 1, b"\x00\x32\x00\x0a\x00\x00", b"\x00"),
        "FRAME_ERROR - type 1, all octets = <<0,50,0,10,0,0>>: {invalid_frame_end_marker,0}",
    ),
    (
        frame(8, 0, b"", b"\x00"),
        "FRAME_ERROR - type 8, all octets = <<>>: {invalid_frame_end_marker,0}",
    ),
    (
        frame(3, 1, b"hello", b"A"),
        'FRAME_ERROR - type 3, all octets = <<"hello">>: {invalid_frame_end_marker,65}',
    ),
    (
        frame(3, 1, "héllo".encode(), b"A"),
        'FRAME_ERROR - type 3, all octets = <<"héllo"/utf8>>: {invalid_frame_end_marker,65}',
    ),
    (
        frame(3, 1, b"h\xe9llo", b"A"),
        'FRAME_ERROR - type 3, all octets = <<"héllo">>: {invalid_frame_end_marker,65}',
    ),
    (
        frame(3, 1, b"\b\f\n\r\t\v\x1b'\"\\", b"A"),
        'FRAME_ERROR - type 3, all octets = <<"\\b\\f\\n\\r\\t\\v\\e\'\\"\\\\">>: '
        + "{invalid_frame_end_marker,65}",
    ),
    (
        frame(3, 1, b"\x7f", b"A"),
        "FRAME_ERROR - type 3, all octets = <<127>>: {invalid_frame_end_marker,65}",
    ),
    (
        frame(3, 1, b"\xef\xbf\xbe", b"A"),
        "FRAME_ERROR - type 3, all octets = <<239,191,190>>: {invalid_frame_end_marker,65}",
    ),
    (
        frame(3, 1, b"\xc2\x80", b"A"),
        "FRAME_ERROR - type 3, all octets = <<194,128>>: {invalid_frame_end_marker,65}",
    ),
    (
        frame(3, 1, b'""""aaaaaaaaaaaa', b"A"),
        'FRAME_ERROR - type 3, all octets = <<"\\"\\"\\"\\"aaaaaaaaaaaa">>: '
        + "{invalid_frame_end_marker,65}",
    ),
    (
        frame(3, 1, b'"""""aaaaaaaaaaa', b"A"),
        'FRAME_ERROR - type 3, all octets = <<"\\"\\"\\"\\"\\"aaaaaaaaaaa">>: '
        "{invalid_frame_end_marker,\n" + " " * 51 + "65}",
    ),
    (
        frame(3, 1, b"a" * 40, b"A"),
        'FRAME_ERROR - type 3, first 16 octets = <<"aaaaaaaaaaaaaaaa">>: '
        "{invalid_frame_end_marker,\n" + " " * 51 + "65}",
    ),
    (
        frame(3, 1, b"\x01" * 16, b"A"),
        "FRAME_ERROR - type 3, all octets = <<1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1>>: "
        "{invalid_frame_end_marker,\n" + " " * 59 + "65}",
    ),
    (
        frame(3, 1, b"\x80" * 14, b"A"),
        "FRAME_ERROR - type 3, all octets = <<" + "128," * 13 + "128>>: "
        "{invalid_frame_end_marker,\n" + " " * 83 + "65}",
    ),
    (
        frame(3, 1, b"\x80" * 15, b"A"),
        "FRAME_ERROR - type 3, all octets = <<" + "128," * 14 + "\n" + " " * 23 + "128>>: "
        "{invalid_frame_end_marker,65}",
    ),
    (
        frame(9, 1, b"\x80" * 40),
        "FRAME_ERROR - type 9, first 16 octets = <<"
        + "128," * 12
        + "\n"
        + " " * 28
        + "128,128,128,128>>: unknown_frame",
    ),
    (
        struct.pack(">BHI", 3, 1, 131_073),
        "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131073,131064}",
    ),
    (frame(9, 1, b"abc"), 'FRAME_ERROR - type 9, all octets = <<"abc">>: unknown_frame'),
    (frame(9, 0, b"abc"), 'FRAME_ERROR - type 9, all octets = <<"abc">>: unknown_frame'),
    (frame(0, 1, b"abc"), 'FRAME_ERROR - type 0, all octets = <<"abc">>: unknown_frame'),
    (frame(8, 0, b"x"), 'FRAME_ERROR - type 8, all octets = <<"x">>: unknown_frame'),
    (frame(8, 1, b"x"), 'FRAME_ERROR - type 8, all octets = <<"x">>: unknown_frame'),
    (frame(8, 1, b""), "UNEXPECTED_FRAME - type 8, all octets = <<>>"),
    (frame(1, 1, b"\x00\x32"), "FRAME_ERROR - type 1, all octets = <<0,50>>: unknown_frame"),
    (frame(1, 1, b""), "FRAME_ERROR - type 1, all octets = <<>>: unknown_frame"),
    (
        frame(2, 1, b"\x00\x3c\x00\x00"),
        "FRAME_ERROR - type 2, all octets = <<0,60,0,0>>: unknown_frame",
    ),
    (frame(3, 0, b"hello"), 'UNEXPECTED_FRAME - type 3, all octets = <<"hello">>'),
]


@pytest.mark.parametrize(("data", "answer"), ANSWERS, ids=range(len(ANSWERS)))
def test_refusals_are_rabbitmqs(data: bytes, answer: str) -> None:
    reader = FrameReader(FRAME_BYTES_MAX)
    reader.feed(HEARTBEAT_FRAME + data)
    assert reader.next(), "what came before the broken frame is still delivered"
    with pytest.raises(ConnectionException) as caught:
        reader.next()
    assert str(caught.value) == answer
    with pytest.raises(ConnectionException):
        reader.next()


def test_eight_bytes_too_many_are_forgiven() -> None:
    """RabbitMQ's slack, before and after `tune-ok`; one byte more is refused early."""
    reader = FrameReader(INITIAL_FRAME_BYTES_MAX)
    reader.feed(frame(3, 1, bytes(INITIAL_FRAME_BYTES_MAX)))
    assert reader.next()
    reader.feed(struct.pack(">BHI", 1, 0, INITIAL_FRAME_BYTES_MAX + 1))
    with pytest.raises(ConnectionException, match="frame_too_large,8193,8184"):
        reader.next()
    reader = FrameReader(INITIAL_FRAME_BYTES_MAX)
    reader.frame_bytes_max = FRAME_BYTES_MAX
    reader.feed(frame(3, 1, bytes(FRAME_BYTES_MAX)))
    assert reader.next()


def test_decode_failure_is_cut_where_rabbitmq_cuts() -> None:
    """255 characters in all, of which the last three are dots."""
    whole = "FRAME_ERROR - cannot decode <<0,0,255" + ",113" * 100
    for repeats in (62, 100_000):
        arguments = b"\x00\x00\xff" + b"q" * repeats
        text = close_text("FRAME_ERROR", decode_failure(arguments))
        assert text == whole[:252] + "..."
    assert decode_failure(b"\x00\x05a") == "cannot decode <<0,5,97>>"
    assert decode_failure(b"") == "cannot decode <<>>"


def test_close_text_fits_a_short_string() -> None:
    assert close_text("NOT_FOUND", "no queue") == "NOT_FOUND - no queue"
    text = close_text("NOT_FOUND", "é" * 300)
    assert len(text.encode()) <= 255
    assert text.startswith("NOT_FOUND - ééé")


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        (b"AMQP\x00\x00\x09\x01", b""),
        (b"AMQP\x01\x01\x00\x09", b""),
        (b"AMQP\x00\x00\x09\x02", b"AMQP\x00\x00\x09\x01"),
        (b"AMQP\x00\x00\x0a\x00", b"AMQP\x00\x00\x09\x01"),
        (b"AMQP\x00\x00\x08\x00", b"AMQP\x03\x01\x00\x00"),
        (b"AMQP\x01\x01\x08\x00", b"AMQP\x03\x01\x00\x00"),
        (b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00"),
        (b"GET / HT", b"AMQP\x03\x01\x00\x00"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", b"AMQP\x03\x01\x00\x00"),
    ],
)
def test_protocol_headers(header: bytes, answer: bytes) -> None:
    assert protocol_refusal(header) == answer


@given(st.binary(max_size=300), st.lists(st.integers(0, 10_000), max_size=4))
def test_arbitrary_streams_end_in_frames_or_a_declared_error(data: bytes, cuts: list[int]) -> None:
    reader = FrameReader(INITIAL_FRAME_BYTES_MAX)
    try:
        for kind, _channel, payload in read_all(reader, pieces_of(data, cuts)):
            if kind == 1:
                decode_method(payload, 0, len(payload))
    except ConnectionException as error:
        assert error.code in {501, 502, 503, 505}


@pytest.mark.parametrize("size", [0, 1, 91, 92, 93, 184, 185, 1_000])
def test_long_content_has_the_frames_of_any_other(size: int) -> None:
    content = bytes(each % 251 for each in range(size))
    method = spec.TableReadOk(7)
    frames = long_content_frames(3, method, content, 100)
    assert frames == content_frames(3, method, b"\x00\x00", content, 100)
