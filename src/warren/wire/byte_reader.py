"""A cursor over bytes of Warren's own formats: numbers are little-endian, and nothing is trusted.

What of AMQP 0-9-1 is read has a cursor of its own (`amqp091.arguments`): its numbers have the high
byte first, and errors in them have the protocol's codes.
"""

from __future__ import annotations

from typing import NoReturn

from librt.strings import read_i16_le, read_i32_le, read_i64_le
from librt.vecs import append, vec
from mypy_extensions import i64

from warren.errors import CorruptRecord


class ByteReader:
    """Reads one value after the other, and never past the end; each may raise `CorruptRecord`."""

    def __init__(self, what: str, data: bytes, at: i64 = 0) -> None:
        """
        Args:
            what: What an error says is damaged.
            data: The bytes.
            at: Where to begin.
        """
        self._what = what
        self._data = data
        self._size: i64 = len(data)
        self._at: i64 = at

    def fail(self, reason: str) -> NoReturn:
        """Say that what was read last makes no sense.

        Raises:
            CorruptRecord: Always.
        """
        raise CorruptRecord(self._what, self._at, reason)

    def left(self) -> i64:
        """How many bytes were not read."""
        return self._size - self._at

    def step(self, size: i64) -> i64:
        """Step over bytes; gives where they begin."""
        assert size >= 0, "who reads a size checks it first"
        at = self._at
        if size > self._size - at:
            self.fail("it ends too early")
        self._at = at + size
        return at

    def octets(self, size: i64) -> bytes:
        """Read so many bytes."""
        at = self.step(size)
        return self._data[at : at + size]

    def octet(self) -> i64:
        """Read 8 bits, unsigned."""
        return self._data[self.step(1)]

    def short(self) -> i64:
        """Read 16 bits, signed."""
        return i64(read_i16_le(self._data, self.step(2)))

    def long(self) -> i64:
        """Read 32 bits, signed."""
        return i64(read_i32_le(self._data, self.step(4)))

    def longlong(self) -> i64:
        """Read 64 bits, signed."""
        return read_i64_le(self._data, self.step(8))

    def longlongs(self, count: i64) -> vec[i64]:
        """Read so many times 64 bits, signed."""
        at = self.step(8 * count)
        values = vec[i64](capacity=count)
        for position in range(count):
            values = append(values, read_i64_le(self._data, at + 8 * position))
        return values

    def text(self, size: i64) -> str:
        """Read so many bytes of UTF-8."""
        at = self.step(size)
        try:
            return self._data[at : at + size].decode()
        except UnicodeDecodeError:
            self.fail("a text that is not UTF-8")

    def end(self) -> None:
        """Check that nothing is left."""
        if self._at != self._size:
            self.fail("bytes behind its end")
