"""A large content, received straight into the bytes it ends up as.

A content is cut over frames, and what lies between two payloads is eight bytes::

    payload · u8 0xCE, u8 type, u16 channel, u32 size · payload · ... · payload · u8 0xCE

So once a payload has begun, it is known where the next bytes belong: the rest of the payload in the
content, the following eight beside it (one after the last payload). `BodyReader` reads into these
two places at once, and payloads are copied once, by the system.
"""

from __future__ import annotations

import socket
from io import BytesIO
from typing import Final, final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64

from warren.limits import FRAME_HEADER_BYTES
from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.frame import FRAME_BODY, FRAME_END

DIRECT_BYTES_MIN: Final = 262_144
"""Contents from this size on are received in place; a smaller one comes in a read or two."""

DIRECT_BYTES_MAX: Final = 67_108_864
"""Contents up to this size are: it is announced, and more is not set aside on a peer's word."""

_BETWEEN_BYTES: Final[i64] = 8
_U16: Final[i64] = 0xFFFF
_U32: Final[i64] = 0xFFFFFFFF


@final
class Body:
    """A content's bytes while they come.

    Attributes:
        missing: How many are still to come.
    """

    __slots__ = ("_store", "_view", "missing", "size")

    def __init__(self, size: i64) -> None:
        # A BytesIO hands out the bytes it was filled in without another copy.
        self._store = BytesIO(bytes(size))
        self._view = self._store.getbuffer()
        self.size: i64 = size
        self.missing: i64 = size

    def place(self, size: i64) -> memoryview:
        """Where the next `size` bytes belong; the caller puts them there and lowers `missing`."""
        start = self.size - self.missing
        return self._view[start : start + size]

    def add(self, data: bytes, start: i64, end: i64) -> None:
        """Copy the next bytes, `data[start:end]`; they must not be more than `missing`."""
        self.place(end - start)[:] = memoryview(data)[start:end]
        self.missing -= end - start

    def take(self) -> bytes:
        """The content, once nothing is missing."""
        self._view.release()
        return self._store.getvalue()


@final
class BodyReader:
    """Reads the rest of a body from a socket, beginning after a whole frame.

    Attributes:
        channel: The content's channel.
        complete: The content is whole, and so is its last frame.
        foreign: What comes next is not the content's next frame. What was read of it is in
            `leftover`, for a reader of any frames to judge.
    """

    __slots__ = (
        "_between",
        "_between_bytes",
        "_body",
        "_frame_missing",
        "channel",
        "complete",
        "foreign",
        "leftover",
    )

    def __init__(self, channel: i64, body: Body, begun: bytes) -> None:
        """Take over from a reader of any frames.

        Args:
            body: Something of it is missing.
            begun: What was read after the last whole frame; less than a frame.
        """
        self.channel: i64 = channel
        self.complete = False
        self.foreign = False
        self.leftover = b""
        self._body = body
        # What stands between two payloads, so far as it came: the marker of the frame before did.
        self._between = bytearray(int(_BETWEEN_BYTES))
        self._between[0] = int(FRAME_END)
        self._between_bytes: i64 = 1
        self._frame_missing: i64 = 0
        header = begun[:FRAME_HEADER_BYTES]
        self._between[1 : 1 + len(header)] = header
        self._between_bytes += len(header)
        self._step()
        if self.foreign:
            self.leftover = begun
        elif len(begun) > FRAME_HEADER_BYTES:
            size: i64 = len(begun) - FRAME_HEADER_BYTES
            assert size <= self._frame_missing
            body.add(begun, FRAME_HEADER_BYTES, len(begun))
            self._frame_missing -= size

    def receive(self, source: socket.socket) -> bool:
        """Read until nothing is there, or `complete`, or `foreign`.

        Returns:
            False at the end of the stream.

        Raises:
            OSError: As the socket does.
            ConnectionException: 501, a frame does not end as it should.
        """
        body = self._body
        while not self.complete and not self.foreign:
            missing = self._frame_missing
            between_end: i64 = 1 if missing == body.missing else _BETWEEN_BYTES
            between = memoryview(self._between)[self._between_bytes : between_end]
            try:
                count: i64 = source.recvmsg_into([body.place(missing), between])[0]
            except BlockingIOError:
                break
            if count == 0:
                return False
            payload = min(count, missing)
            body.missing -= payload
            self._frame_missing = missing - payload
            asked = missing + between_end - self._between_bytes
            self._between_bytes += count - payload
            self._step()
            if count < asked:
                break
        return True

    def _step(self) -> None:
        """Go on to the next frame if this one is whole."""
        between = self._between
        if self._between_bytes == 0:
            return
        if between[0] != FRAME_END:
            raise ConnectionException(501, f"a body frame ends in {between[0]}")
        if self._body.missing == 0:
            self.complete = True
        elif self._between_bytes == _BETWEEN_BYTES:
            header = bytes(between)
            channel = i64(read_i16_be(header, 2)) & _U16
            size = i64(read_i32_be(header, 4)) & _U32
            if header[1] != FRAME_BODY or channel != self.channel or size > self._body.missing:
                self.foreign = True
                self.leftover = header[1:]
                return
            self._frame_missing = size
            self._between_bytes = 0
