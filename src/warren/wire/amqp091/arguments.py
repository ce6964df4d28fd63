"""Arguments of AMQP 0-9-1 methods: a cursor to read them, functions to write them.

Wire types (all numbers big-endian, unsigned)::

    octet u8 · short u16 · long u32 · longlong u64 · timestamp u64
    shortstr = u8 size, bytes · longstr = u32 size, bytes · table = u32 size, entries (`table.py`)
    bits: neighbouring bits share an octet, the first one lowest

Short strings are `str`, long strings `bytes`. RabbitMQ checks that short strings are UTF-8 except
in methods that carry content; `shortstr` and `shortstr_unchecked` are the two ways.

Source: AMQP 0-9-1, 4.2.5.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i64_be
from mypy_extensions import i64, u8

from warren.limits import SHORTSTR_BYTES_MAX
from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.table import Table, decode_table, write_u32

_U16: Final[i64] = 0xFFFF
_U32: Final[i64] = 0xFFFFFFFF


@final
class Truncated(Exception):
    """Arguments ended early. Internal to this package: callers of its codecs see a 501 or 502."""


@final
class Reader:
    """A cursor over `data[offset:end]`. Reading past `end` raises `Truncated`.

    Attributes:
        offset: The next byte to read.
        end: One past the last byte that may be read; within `data`.
    """

    __slots__ = ("data", "end", "offset")

    def __init__(self, data: bytes, offset: i64, end: i64) -> None:
        assert 0 <= offset <= end <= len(data)
        self.data = data
        self.offset: i64 = offset
        self.end: i64 = end

    def _take(self, size: i64) -> i64:
        """Step over `size` bytes; gives where they start."""
        start = self.offset
        if size > self.end - start:
            raise Truncated
        self.offset = start + size
        return start

    def octet(self) -> int:
        """Read 8 bits."""
        return self.data[self._take(1)]

    def short(self) -> int:
        """Read 16 bits."""
        return int(i64(read_i16_be(self.data, self._take(2))) & _U16)

    def long(self) -> int:
        """Read 32 bits."""
        return int(i64(read_i32_be(self.data, self._take(4))) & _U32)

    def longlong(self) -> int:
        """Read 64 bits."""
        value = int(read_i64_be(self.data, self._take(8)))
        return value if value >= 0 else value + (1 << 64)

    def timestamp(self) -> int:
        """Read seconds since the Unix epoch."""
        return self.longlong()

    def shortstr(self) -> str:
        """Read a short string.

        Raises:
            ConnectionException: 501, it is not UTF-8.
        """
        size: i64 = self.data[self._take(1)]
        start = self._take(size)
        try:
            return str(self.data[start : start + size], "utf-8")
        except UnicodeDecodeError:
            raise ConnectionException(501, "Malformed UTF-8 in shortstr") from None

    def shortstr_unchecked(self) -> str:
        """Read a short string; bytes that are not UTF-8 become lone surrogates."""
        size: i64 = self.data[self._take(1)]
        start = self._take(size)
        return str(self.data[start : start + size], "utf-8", "surrogateescape")

    def longstr(self) -> bytes:
        """Read a long string."""
        size: i64 = i64(read_i32_be(self.data, self._take(4))) & _U32
        start = self._take(size)
        return self.data[start : start + size]

    def table(self) -> Table:
        """Read a field table.

        Raises:
            ConnectionException: 502, from `table.decode_table`.
        """
        size: i64 = i64(read_i32_be(self.data, self._take(4))) & _U32
        start = self._take(size)
        return decode_table(self.data, start, start + size)


def _check_width(value: int, bits: int) -> None:
    if value < 0 or value >= 1 << bits:
        raise ConnectionException(502, f"{value} does not fit {bits} bits")


def write_octet(writer: BytesWriter, value: int) -> None:
    """Append 8 bits; `ConnectionException` 502 if `value` does not fit, as in all of these."""
    _check_width(value, 8)
    writer.append(value)


def write_short(writer: BytesWriter, value: int) -> None:
    """Append 16 bits."""
    _check_width(value, 16)
    number: i64 = value
    writer.append(u8(number >> 8))
    writer.append(u8(number & 0xFF))


def write_long(writer: BytesWriter, value: int) -> None:
    """Append 32 bits."""
    _check_width(value, 32)
    write_u32(writer, value)


def write_longlong(writer: BytesWriter, value: int) -> None:
    """Append 64 bits."""
    _check_width(value, 64)
    write_i64_be(writer, value if value < 1 << 63 else value - (1 << 64))


def write_timestamp(writer: BytesWriter, value: int) -> None:
    """Append seconds since the Unix epoch."""
    write_longlong(writer, value)


def write_shortstr(writer: BytesWriter, value: str) -> None:
    """Append a short string; 502 if it is longer than 255 bytes."""
    data = value.encode("utf-8", "surrogateescape")
    size: i64 = len(data)
    if size > SHORTSTR_BYTES_MAX:
        raise ConnectionException(
            502, f"short string of {size} bytes is longer than {SHORTSTR_BYTES_MAX}"
        )
    writer.append(u8(size))
    writer.write(data)


def write_longstr(writer: BytesWriter, value: bytes) -> None:
    """Append a long string."""
    write_long(writer, len(value))
    writer.write(value)
