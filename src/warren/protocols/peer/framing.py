"""Messages between two nodes on a byte stream.

    u32 size, little-endian, at least 1      the message, of which the first byte is its kind

The reader hands out the whole messages of each read, and keeps the pieces of one that has not come
whole: they are joined once, when its last piece is there. The writer gathers the messages of a
turn: small buffers are put together, large ones are passed on as they are.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, write_i32_le
from mypy_extensions import i32, i64

from warren.ports import PeerListener
from warren.protocols.peer import refusal as codes

SIZE_BYTES: Final = 4
MESSAGE_BYTES_MAX: Final = 67_108_864
"""The default limit of one message. Whoever has more to say cuts it."""
COPY_BYTES_MAX: Final = 16_384
"""A buffer up to this is copied into its neighbours: that is cheaper than one more to write."""
CHUNK_BYTES: Final = 262_144
"""Copied buffers are passed on in chunks of about this size, so that none is moved as it grows."""


@final
class MessageReader:
    """The messages in a stream of bytes.

    Attributes:
        failure: Code of the refusal that the stream ended in; 0 while it has not.
    """

    def __init__(self, message_bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        assert 0 < message_bytes_max < 1 << 31
        self.failure: int = 0
        self._limit: i64 = message_bytes_max
        self._head: bytes = b""
        self._pieces: list[bytes] = []
        self._missing: i64 = 0

    def receive(self, data: bytes) -> list[bytes]:
        """Take what a read brought; gives the messages that are whole now, in order.

        After a failure nothing more comes. Messages before it are given out.
        """
        messages: list[bytes] = []
        if self.failure != 0:
            return messages
        if self._head:
            data = self._head + data
            self._head = b""
        at: i64 = 0
        end: i64 = len(data)
        missing = self._missing
        if missing > 0:
            if end < missing:
                self._pieces.append(data)
                self._missing = missing - end
                return messages
            self._pieces.append(data[:missing])
            messages.append(b"".join(self._pieces))
            self._pieces = []
            self._missing = 0
            at = missing
        limit = self._limit
        while end - at >= SIZE_BYTES:
            size: i64 = i64(read_i32_le(data, at)) & 0xFFFFFFFF
            if size > limit or size == 0:
                self.failure = codes.TOO_LARGE if size else codes.EMPTY
                return messages
            at += SIZE_BYTES
            if end - at < size:
                self._missing = size - (end - at)
                if end > at:
                    self._pieces.append(data[at:])
                return messages
            messages.append(data[at : at + size])
            at += size
        if at < end:
            self._head = data[at:]
        return messages

    @property
    def held_bytes(self) -> int:
        """Bytes kept of a message that has not come whole."""
        return len(self._head) + sum(len(piece) for piece in self._pieces)


@final
class MessageWriter:
    """Gathers messages until they are written.

    Attributes:
        size_bytes: What `take` would give, in bytes.
    """

    def __init__(self, message_bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self.size_bytes: i64 = 0
        self._limit: i64 = message_bytes_max
        self._small: BytesWriter = BytesWriter()
        self._buffers: list[bytes] = []

    def add(self, message: list[bytes]) -> None:
        """Add a message made of these buffers; one above the limit is an error of ours."""
        size: i64 = 0
        for buffer in message:
            size += len(buffer)
        assert 0 < size <= self._limit, "a message is empty or too large"
        self.size_bytes += size + SIZE_BYTES
        small = self._small
        write_i32_le(small, i32(size))
        for buffer in message:
            if len(buffer) <= COPY_BYTES_MAX:
                small.write(buffer)
            else:
                self._cut()
                self._buffers.append(buffer)
        if len(small) >= CHUNK_BYTES:
            self._cut()

    def take(self) -> list[bytes]:
        """Everything added since the last call, to be written in one go."""
        self._cut()
        buffers = self._buffers
        self._buffers = []
        self.size_bytes = 0
        return buffers

    def _cut(self) -> None:
        small = self._small
        if len(small) > 0:
            self._buffers.append(small.getvalue())
            small.truncate(0)


def hand_over(messages: list[bytes], peer: str, listener: PeerListener) -> None:
    """Tell a listener of the messages of one read."""
    for message in messages:
        listener.received(peer, message)
