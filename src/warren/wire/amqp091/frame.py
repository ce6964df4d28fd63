"""AMQP 0-9-1 frames: found in a byte stream, and laid out for sending.

A connection starts with the eight bytes of a protocol header, then it is frames (all numbers
big-endian)::

    u8 type · u16 channel · u32 payload size · payload · u8 0xCE

    type 1 method: u16 class, u16 method, arguments (`spec.py`)       channel 0: the connection's
    type 2 content header: class, body size, properties (`properties.py`)   never on channel 0
    type 3 content body: part of a message's body                           never on channel 0
    type 8 heartbeat: no payload                                      only on channel 0

Nothing here waits or reads: bytes go in, frames come out, and a frame that has not come whole is
not an error.

Source: AMQP 0-9-1, 2.3 and 4.2; answers to broken frames compared with RabbitMQ 4.3's.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i16_be, read_i32_be
from mypy_extensions import i64, u8

from warren.limits import FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, FRAME_SLACK_BYTES
from warren.wire.amqp091.erlang_text import frame_failure
from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.properties import HEADER_FIXED_BYTES, write_header
from warren.wire.amqp091.spec import Method
from warren.wire.amqp091.table import write_u32

FRAME_METHOD: Final[i64] = 1
FRAME_HEADER: Final[i64] = 2
FRAME_BODY: Final[i64] = 3
FRAME_HEARTBEAT: Final[i64] = 8
FRAME_END: Final[i64] = 0xCE

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
PROTOCOL_HEADER_BYTES: Final = 8
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

_METHOD_IDS_BYTES: Final[i64] = 4
_PROTOCOL_HEADER_0_9: Final = b"AMQP\x01\x01\x00\x09"
_PROTOCOL_HEADER_1_0_SASL: Final = b"AMQP\x03\x01\x00\x00"
_U16: Final[i64] = 0xFFFF
_U32: Final[i64] = 0xFFFFFFFF


def protocol_refusal(header: bytes) -> bytes:
    """What to answer to a client's first eight bytes before hanging up.

    Args:
        header: Exactly eight bytes. The 0-9 header is taken for 0-9-1, as RabbitMQ does.

    Returns:
        Empty if the header is welcome, else the header of a protocol that the client could have
        asked for: 0-9-1 after a newer 0-x, AMQP 1.0 with SASL after everything else.
    """
    assert len(header) == PROTOCOL_HEADER_BYTES
    if header == PROTOCOL_HEADER or header == _PROTOCOL_HEADER_0_9:
        return b""
    if header[:6] == b"AMQP\x00\x00" and header[6] >= 9:
        return PROTOCOL_HEADER
    return _PROTOCOL_HEADER_1_0_SASL


def header_words(header: bytes) -> str:
    """What a client that is refused for its first bytes sent, and seems to speak, for the log."""
    if header[:2] == b"\x16\x03":
        spoken = "TLS"
    elif header[:4] in (b"GET ", b"HEAD", b"POST", b"PUT "):
        spoken = "HTTP"
    elif header[:4] == b"AMQP":
        spoken = "another version of AMQP"
    else:
        spoken = "another protocol"
    return f"{header[:8]!r}: the client speaks {spoken}, and this port AMQP 0-9-1"


# --- reading ------------------------------------------------------------------------------------


@final
class FrameReader:
    """Cuts what a connection receives into frames.

    `feed` it every read, then call `next` until it says False. While it says True, the frame found
    is in the attributes; its payload stays in `buffer`, which is replaced by later feeding but
    never changed in place. Bytes are copied at most twice however they trickle in.

    Attributes:
        kind: The frame's type: one of the `FRAME_` numbers.
        channel: Its channel.
        buffer: Holds the payload at `start` to `end`.
        frame_bytes_max: The negotiated limit of a whole frame; set it anew after `tune-ok`.
    """

    __slots__ = (
        "_missing",
        "_offset",
        "_waiting",
        "buffer",
        "channel",
        "end",
        "frame_bytes_max",
        "kind",
        "start",
    )

    def __init__(self, frame_bytes_max: i64) -> None:
        self.frame_bytes_max: i64 = frame_bytes_max
        self.kind: i64 = 0
        self.channel: i64 = 0
        self.buffer = b""
        self.start: i64 = 0
        self.end: i64 = 0
        self._offset: i64 = 0
        # Reads that came since `buffer`, joined only once they can complete a frame.
        self._waiting: list[bytes] = []
        self._missing: i64 = 0

    def feed(self, data: bytes) -> None:
        """Add what was read from the connection."""
        self._waiting.append(data)
        self._missing -= len(data)
        if self._missing <= 0:
            rest = self.buffer[self._offset :]
            self.buffer = rest + b"".join(self._waiting) if rest else b"".join(self._waiting)
            self._offset = 0
            self._missing = 0
            self._waiting = []

    def next(self) -> bool:
        """Find the next whole frame.

        Returns:
            False if more bytes are needed first.

        Raises:
            ConnectionException: 501, the frame is too large, does not end in 0xCE, or has no
                meaning; 505, it may not come on this channel. The stream is lost: calling again
                raises again.
        """
        if self._waiting:
            return False
        buffer = self.buffer
        offset = self._offset
        available: i64 = len(buffer) - offset
        if available < FRAME_HEADER_BYTES:
            self._missing = FRAME_HEADER_BYTES - available
            return False
        kind: i64 = buffer[offset]
        channel = i64(read_i16_be(buffer, offset + 1)) & _U16
        size = i64(read_i32_be(buffer, offset + 3)) & _U32
        payload_max = self.frame_bytes_max - FRAME_OVERHEAD_BYTES
        if size > payload_max + FRAME_SLACK_BYTES:
            reason = f"frame_too_large,{size}"
            raise ConnectionException(501, frame_failure(int(kind), b"", reason, int(payload_max)))
        if available < size + FRAME_OVERHEAD_BYTES:
            self._missing = size + FRAME_OVERHEAD_BYTES - available
            return False
        start = offset + FRAME_HEADER_BYTES
        end = start + size
        if buffer[end] != FRAME_END:
            text = frame_failure(
                int(kind), buffer[start:end], "invalid_frame_end_marker", buffer[end]
            )
            raise ConnectionException(501, text)
        check_frame(kind, channel, buffer, start, end)
        self.kind = kind
        self.channel = channel
        self.start = start
        self.end = end
        self._offset = end + 1
        return True


def check_frame(kind: i64, channel: i64, data: bytes, start: i64, end: i64) -> None:
    """Check that a frame of this type may have this payload and come on this channel.

    Raises:
        ConnectionException: 501, unknown type or a payload that cannot be of that type; 505, wrong
            channel.
    """
    size = end - start
    if kind == FRAME_METHOD:
        meaningful = size >= _METHOD_IDS_BYTES
    elif kind == FRAME_HEADER:
        meaningful = size >= HEADER_FIXED_BYTES
    elif kind == FRAME_HEARTBEAT:
        meaningful = size == 0
    else:
        meaningful = kind == FRAME_BODY
    if not meaningful:
        text = frame_failure(int(kind), data[start:end], "unknown_frame")
        raise ConnectionException(501, text)
    if kind != FRAME_METHOD and (channel == 0) != (kind == FRAME_HEARTBEAT):
        raise ConnectionException(505, frame_failure(int(kind), data[start:end], ""))


# --- writing ------------------------------------------------------------------------------------


def write_frame_start(writer: BytesWriter, kind: i64, channel: i64, size: i64) -> None:
    """Append the seven bytes before a payload of `size` bytes."""
    writer.append(u8(kind))
    writer.append(u8((channel >> 8) & 0xFF))
    writer.append(u8(channel & 0xFF))
    write_u32(writer, size)


def write_method_frame(writer: BytesWriter, channel: i64, payload: bytes) -> None:
    """Append a method frame; `payload` is what `Method.encode` gives."""
    write_frame_start(writer, FRAME_METHOD, channel, len(payload))
    writer.write(payload)
    writer.append(u8(FRAME_END))


def write_header_frame(
    writer: BytesWriter, channel: i64, properties: bytes, body_size: i64, class_id: i64 = 60
) -> None:
    """Append a content header frame for these properties bytes and a body of `body_size` bytes."""
    write_frame_start(writer, FRAME_HEADER, channel, HEADER_FIXED_BYTES + len(properties))
    write_header(writer, properties, body_size, class_id)
    writer.append(u8(FRAME_END))


def write_body_frames(writer: BytesWriter, channel: i64, body: bytes, frame_bytes_max: i64) -> None:
    """Append a body's frames; none for an empty body.

    Args:
        frame_bytes_max: Negotiated limit of a whole frame, at least 9 so that a byte fits.
    """
    for part in split_body(body, frame_bytes_max):
        write_frame_start(writer, FRAME_BODY, channel, len(part))
        writer.write(part)
        writer.append(u8(FRAME_END))


def method_frame(channel: i64, payload: bytes) -> bytes:
    """A method frame; `payload` is what `Method.encode` gives."""
    writer = BytesWriter()
    write_method_frame(writer, channel, payload)
    return writer.getvalue()


def header_frame(channel: i64, properties: bytes, body_size: i64, class_id: i64 = 60) -> bytes:
    """A content header frame for these properties bytes and a body of `body_size` bytes."""
    writer = BytesWriter()
    write_header_frame(writer, channel, properties, body_size, class_id)
    return writer.getvalue()


def split_body(body: bytes, frame_bytes_max: i64) -> list[bytes]:
    """A body's frames' payloads, in order; none for an empty body, `body` itself if it fits.

    Args:
        frame_bytes_max: Negotiated limit of a whole frame, at least 9 so that a byte fits.
    """
    size: i64 = len(body)
    part_max = frame_bytes_max - FRAME_OVERHEAD_BYTES
    assert part_max > 0
    parts: list[bytes] = []
    offset: i64 = 0
    while offset < size:
        parts.append(body if size <= part_max else body[offset : offset + part_max])
        offset += part_max
    return parts


def content_frames(
    channel: i64, method: Method, properties: bytes, body: bytes, frame_bytes_max: i64
) -> bytes:
    """A method that carries content, with its header and body frames, ready to send."""
    writer = BytesWriter()
    write_method_frame(writer, channel, method.encode())
    write_header_frame(writer, channel, properties, len(body), method.CLASS_ID)
    write_body_frames(writer, channel, body, frame_bytes_max)
    return writer.getvalue()


def long_content_frames(
    channel: i64, method: Method, content: bytes, frame_bytes_max: i64
) -> bytes:
    """What `content_frames` gives without properties, for megabytes: they are copied once."""
    writer = BytesWriter()
    write_method_frame(writer, channel, method.encode())
    write_header_frame(writer, channel, b"\x00\x00", len(content), method.CLASS_ID)
    view = memoryview(content)
    part_max = frame_bytes_max - FRAME_OVERHEAD_BYTES
    assert part_max > 0
    parts: list[bytes | memoryview] = []
    size: i64 = len(content)
    offset: i64 = 0
    while offset < size:
        end = min(offset + part_max, size)
        write_frame_start(writer, FRAME_BODY, channel, end - offset)
        parts.append(writer.getvalue())
        parts.append(view[offset:end])
        writer = BytesWriter()
        writer.append(u8(FRAME_END))
        offset = end
    parts.append(writer.getvalue())
    return b"".join(parts)
