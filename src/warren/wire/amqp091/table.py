"""Field tables and arrays: AMQP 0-9-1's self-describing values, as RabbitMQ understands them.

Layout (all numbers big-endian)::

    table  = u32 size of the entries, entry*        entry = shortstr name, value
    array  = u32 size of the values, value*         value = u8 type, payload

    type  payload                 Python value        type  payload               Python value
    't'   u8, 0 is false          bool                'f'   IEEE 754 single       Float
    'b'   i8                      Byte                'd'   IEEE 754 double       float
    'B'   u8                      UnsignedByte        'D'   u8 scale, u32 value   Decimal
    's'   i16                     Short               'S'   u32 size, bytes       str
    'u'   u16                     UnsignedShort       'x'   u32 size, bytes       bytes
    'I'   i32                     SignedInt           'A'   array                 list
    'i'   u32                     UnsignedInt         'F'   table                 dict
    'l'   i64                     int                 'T'   u64 seconds           Timestamp
    'L'   i64 (read only)         int                 'V'   nothing               None

Plain Python values stand for the types most clients send; the rest are subclasses of `int` and
`float`, which compare and compute like their base and remember the width they came with, so that
a value read and written again has the same bytes. The three exceptions are RabbitMQ's as well:
`L` is read as `l`, true is written as 1, and of two entries with one name the first is kept.

Strings are bytes on the wire. What is not UTF-8 survives in `str` as lone surrogates
(`surrogateescape`) and is written back unchanged.

Source: AMQP 0-9-1, 4.2.5.5, with RabbitMQ's errata for the type letters.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from librt.strings import (
    BytesWriter,
    read_f32_be,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f32_be,
    write_f64_be,
    write_i64_be,
)
from mypy_extensions import i64, mypyc_attr, u8

from warren.limits import SHORTSTR_BYTES_MAX, TABLE_NESTING_MAX
from warren.wire.amqp091.errors import ConnectionException


@mypyc_attr(native_class=False)
class Byte(int):
    """Type `b`: -128 to 127."""


@mypyc_attr(native_class=False)
class UnsignedByte(int):
    """Type `B`: 0 to 255."""


@mypyc_attr(native_class=False)
class Short(int):
    """Type `s`: 16 bits, signed."""


@mypyc_attr(native_class=False)
class UnsignedShort(int):
    """Type `u`: 16 bits, unsigned."""


@mypyc_attr(native_class=False)
class SignedInt(int):
    """Type `I`: 32 bits, signed."""


@mypyc_attr(native_class=False)
class UnsignedInt(int):
    """Type `i`: 32 bits, unsigned."""


@mypyc_attr(native_class=False)
class Timestamp(int):
    """Type `T`: seconds since the Unix epoch, 64 bits, unsigned."""


@mypyc_attr(native_class=False)
class Float(float):
    """Type `f`: single precision."""


class Decimal(NamedTuple):
    """Type `D`: `value / 10**scale`. RabbitMQ reads and writes the value unsigned."""

    scale: int
    value: int


Value: TypeAlias = (
    "bool | int | float | str | bytes | Decimal | list[Value] | dict[str, Value] | None"
)
Table: TypeAlias = dict[str, Value]


def plain_int(value: Any) -> int:
    """A number as Python's own `int`, whatever its width was.

    The parameter is untyped, because compiled code takes what it knows as an `int` for converted
    and leaves the conversion out: a number from 2**62, which has no short form there, would keep
    its class, and encoders refuse that.
    """
    return int(value)


def plain_float(value: Any) -> float:
    """A number as Python's own `float`, as `plain_int`."""
    return float(value)


_SINGLE_MAX: Final = 3.4028234663852886e38
_INFINITY: Final = float("inf")
_U16: Final[i64] = 0xFFFF
_U32: Final[i64] = 0xFFFFFFFF

# Type letters as numbers, which is what indexing bytes gives.
_T_BOOL: Final[i64] = 0x74
_T_BYTE: Final[i64] = 0x62
_T_UNSIGNED_BYTE: Final[i64] = 0x42
_T_SHORT: Final[i64] = 0x73
_T_UNSIGNED_SHORT: Final[i64] = 0x75
_T_SIGNED_INT: Final[i64] = 0x49
_T_UNSIGNED_INT: Final[i64] = 0x69
_T_LONG: Final[i64] = 0x6C
_T_LONG_OLD: Final[i64] = 0x4C
_T_FLOAT: Final[i64] = 0x66
_T_DOUBLE: Final[i64] = 0x64
_T_DECIMAL: Final[i64] = 0x44
_T_LONGSTR: Final[i64] = 0x53
_T_BINARY: Final[i64] = 0x78
_T_ARRAY: Final[i64] = 0x41
_T_TIMESTAMP: Final[i64] = 0x54
_T_TABLE: Final[i64] = 0x46
_T_VOID: Final[i64] = 0x56


def _syntax_error(text: str) -> ConnectionException:
    """The error for a table that cannot be read or written: 502, the whole connection."""
    return ConnectionException(502, text)


def _too_deep() -> ConnectionException:
    return _syntax_error(f"field table nests deeper than {TABLE_NESTING_MAX}")


def _payload_end(data: bytes, kind: i64, offset: i64, end: i64) -> i64:
    """Where the value of type `kind` whose payload starts at `offset` ends.

    Raises:
        ConnectionException: 502, the type is unknown or the value does not end by `end`.
    """
    size: i64
    if kind == _T_LONGSTR or kind == _T_TABLE or kind == _T_ARRAY or kind == _T_BINARY:
        if end - offset < 4:
            raise _syntax_error("field table ends inside a value")
        size = 4 + (i64(read_i32_be(data, offset)) & _U32)
    elif kind == _T_SIGNED_INT or kind == _T_UNSIGNED_INT or kind == _T_FLOAT:
        size = 4
    elif kind == _T_LONG or kind == _T_TIMESTAMP or kind == _T_DOUBLE or kind == _T_LONG_OLD:
        size = 8
    elif kind == _T_BOOL or kind == _T_BYTE or kind == _T_UNSIGNED_BYTE:
        size = 1
    elif kind == _T_SHORT or kind == _T_UNSIGNED_SHORT:
        size = 2
    elif kind == _T_DECIMAL:
        size = 5
    elif kind == _T_VOID:
        size = 0
    else:
        raise _syntax_error(f"unknown field value type {kind}")
    if size > end - offset:
        raise _syntax_error("field table ends inside a value")
    return offset + size


def _name_end(data: bytes, offset: i64, end: i64) -> i64:
    """Where an entry's name ends, which is where its type letter is: always before `end`."""
    result: i64 = offset + 1 + data[offset]
    if result >= end:
        raise _syntax_error("field table ends inside a name")
    return result


# --- walking ------------------------------------------------------------------------------------


def validate_table(data: bytes, offset: i64, end: i64, depth: i64 = 1) -> None:
    """Check a table's entries without building values. Accepts exactly what `decode_table` does.

    Args:
        data: Holds the entries at `offset` to `end`, which is within `data`.
        depth: How many tables and arrays hold this one, itself included.

    Raises:
        ConnectionException: 502.
    """
    if depth > TABLE_NESTING_MAX:
        raise _too_deep()
    while offset < end:
        offset = _name_end(data, offset, end)
        kind: i64 = data[offset]
        after = _payload_end(data, kind, offset + 1, end)
        if kind == _T_TABLE:
            validate_table(data, offset + 5, after, depth + 1)
        elif kind == _T_ARRAY:
            _validate_array(data, offset + 5, after, depth + 1)
        offset = after


def _validate_array(data: bytes, offset: i64, end: i64, depth: i64) -> None:
    if depth > TABLE_NESTING_MAX:
        raise _too_deep()
    while offset < end:
        kind: i64 = data[offset]
        after = _payload_end(data, kind, offset + 1, end)
        if kind == _T_TABLE:
            validate_table(data, offset + 5, after, depth + 1)
        elif kind == _T_ARRAY:
            _validate_array(data, offset + 5, after, depth + 1)
        offset = after


def entry_end(data: bytes, offset: i64, end: i64) -> i64:
    """Where the entry that starts at `offset` ends; nested values are skipped, not checked.

    Raises:
        ConnectionException: 502, the entry does not end by `end`.
    """
    at = _name_end(data, offset, end)
    return _payload_end(data, data[at], at + 1, end)


def find_entry(data: bytes, offset: i64, end: i64, name: bytes) -> i64:
    """Where the first entry called `name` starts, or -1.

    Args:
        data: Holds a table's entries at `offset` to `end`, already validated.
    """
    size: i64 = len(name)
    while offset < end:
        if data[offset] == size and data[offset + 1 : offset + 1 + size] == name:
            return offset
        offset = entry_end(data, offset, end)
    return -1


# --- reading ------------------------------------------------------------------------------------


def decode_table(data: bytes, offset: i64, end: i64, depth: i64 = 1) -> Table:
    """Read a table's entries, in order; of entries with one name the first wins.

    Args:
        data: Holds the entries at `offset` to `end`, which is within `data`.
        depth: How many tables and arrays hold this one, itself included.

    Raises:
        ConnectionException: 502.
    """
    if depth > TABLE_NESTING_MAX:
        raise _too_deep()
    table: Table = {}
    while offset < end:
        at = _name_end(data, offset, end)
        name = str(data[offset + 1 : at], "utf-8", "surrogateescape")
        kind: i64 = data[at]
        after = _payload_end(data, kind, at + 1, end)
        value = _decode_value(data, kind, at + 1, after, depth)
        if name not in table:
            table[name] = value
        offset = after
    return table


def decode_array(data: bytes, offset: i64, end: i64, depth: i64 = 1) -> list[Value]:
    """Read an array's values. Arguments and errors as for `decode_table`."""
    if depth > TABLE_NESTING_MAX:
        raise _too_deep()
    array: list[Value] = []
    while offset < end:
        kind: i64 = data[offset]
        after = _payload_end(data, kind, offset + 1, end)
        array.append(_decode_value(data, kind, offset + 1, after, depth))
        offset = after
    return array


def decode_entry_value(data: bytes, offset: i64, end: i64) -> Value:
    """The value of the entry that starts at `offset`, which `find_entry` gave."""
    at = _name_end(data, offset, end)
    kind: i64 = data[at]
    return _decode_value(data, kind, at + 1, _payload_end(data, kind, at + 1, end), 1)


def _decode_value(data: bytes, kind: i64, offset: i64, after: i64, depth: i64) -> Value:
    """Build one value whose payload is `offset` to `after`, as `_payload_end` found it."""
    # Compiled, a call of an `int` subclass on a native integer would be a mere conversion: the
    # numbers below are made Python's `int` first.
    number: i64
    if kind == _T_LONGSTR:
        return str(data[offset + 4 : after], "utf-8", "surrogateescape")
    if kind == _T_SIGNED_INT:
        return SignedInt(int(read_i32_be(data, offset)))
    if kind == _T_LONG or kind == _T_LONG_OLD:
        number = read_i64_be(data, offset)
        return int(number)
    if kind == _T_BOOL:
        return data[offset] != 0
    if kind == _T_TABLE:
        return decode_table(data, offset + 4, after, depth + 1)
    if kind == _T_ARRAY:
        return decode_array(data, offset + 4, after, depth + 1)
    if kind == _T_TIMESTAMP:
        return Timestamp(int.from_bytes(data[offset:after], "big"))
    if kind == _T_VOID:
        return None
    if kind == _T_BINARY:
        return data[offset + 4 : after]
    if kind == _T_DOUBLE:
        return read_f64_be(data, offset)
    if kind == _T_FLOAT:
        return Float(read_f32_be(data, offset))
    if kind == _T_BYTE:
        number = data[offset]
        return Byte(int(number - 256 if number > 127 else number))
    if kind == _T_UNSIGNED_BYTE:
        return UnsignedByte(int(data[offset]))
    if kind == _T_SHORT:
        return Short(int(read_i16_be(data, offset)))
    if kind == _T_UNSIGNED_SHORT:
        return UnsignedShort(int(i64(read_i16_be(data, offset)) & _U16))
    if kind == _T_UNSIGNED_INT:
        return UnsignedInt(int(i64(read_i32_be(data, offset)) & _U32))
    assert kind == _T_DECIMAL, kind
    number = i64(read_i32_be(data, offset + 1)) & _U32
    return Decimal(data[offset], int(number))


# --- writing ------------------------------------------------------------------------------------


def encode_table(table: Table) -> bytes:
    """A table's entries, without the size before them.

    Raises:
        ConnectionException: 502, a name is too long, a number does not fit its type, or tables
            nest too deep.
        TypeError: The Python type of a value has no wire type.
    """
    writer = BytesWriter()
    _write_entries(writer, table, 1)
    return writer.getvalue()


def encode_entry(name: str, value: Value) -> bytes:
    """One entry, to be placed among a table's entries. Errors as for `encode_table`."""
    writer = BytesWriter()
    _write_name(writer, name)
    _write_value(writer, value, 1)
    return writer.getvalue()


def write_table(writer: BytesWriter, table: Table) -> None:
    """Append a table with its size. Errors as for `encode_table`."""
    start = _open_size(writer)
    _write_entries(writer, table, 1)
    _close_size(writer, start)


def write_u32(writer: BytesWriter, value: i64) -> None:
    """Append an unsigned 32-bit number, which the caller has checked to fit."""
    writer.append(u8((value >> 24) & 0xFF))
    writer.append(u8((value >> 16) & 0xFF))
    writer.append(u8((value >> 8) & 0xFF))
    writer.append(u8(value & 0xFF))


def _open_size(writer: BytesWriter) -> i64:
    """Leave room for a size; gives where."""
    start: i64 = len(writer)
    write_u32(writer, 0)
    return start


def _close_size(writer: BytesWriter, start: i64) -> None:
    """Fill in the size of what was written since `_open_size` gave `start`."""
    size: i64 = len(writer) - start - 4
    writer[start] = u8((size >> 24) & 0xFF)
    writer[start + 1] = u8((size >> 16) & 0xFF)
    writer[start + 2] = u8((size >> 8) & 0xFF)
    writer[start + 3] = u8(size & 0xFF)


def _write_entries(writer: BytesWriter, table: Table, depth: i64) -> None:
    if depth > TABLE_NESTING_MAX:
        raise _too_deep()
    for name, value in table.items():
        _write_name(writer, name)
        _write_value(writer, value, depth)


def _write_name(writer: BytesWriter, name: str) -> None:
    data = name.encode("utf-8", "surrogateescape")
    size: i64 = len(data)
    if size > SHORTSTR_BYTES_MAX:
        raise _syntax_error(f"field name of {size} bytes is longer than {SHORTSTR_BYTES_MAX}")
    writer.append(u8(size))
    writer.write(data)


def _write_value(writer: BytesWriter, value: Value, depth: i64) -> None:
    """Append the type letter and the payload of one value."""
    typed: object = value
    if value is None:
        writer.append(u8(_T_VOID))
    elif isinstance(value, str):
        _write_bytes(writer, _T_LONGSTR, value.encode("utf-8", "surrogateescape"))
    elif isinstance(value, bool):
        writer.append(u8(_T_BOOL))
        writer.append(1 if value else 0)
    elif isinstance(value, int):
        _write_number(writer, typed)
    elif isinstance(value, Float):
        writer.append(u8(_T_FLOAT))
        _write_single(writer, value)
    elif isinstance(value, float):
        writer.append(u8(_T_DOUBLE))
        write_f64_be(writer, value)
    elif isinstance(value, bytes):
        _write_bytes(writer, _T_BINARY, value)
    elif isinstance(value, dict):
        writer.append(u8(_T_TABLE))
        start = _open_size(writer)
        _write_entries(writer, value, depth + 1)
        _close_size(writer, start)
    elif isinstance(value, list):
        if depth >= TABLE_NESTING_MAX:
            raise _too_deep()
        writer.append(u8(_T_ARRAY))
        start = _open_size(writer)
        for item in value:
            _write_value(writer, item, depth + 1)
        _close_size(writer, start)
    elif isinstance(value, Decimal):
        if not (0 <= value.scale <= 0xFF and 0 <= value.value <= 0xFFFFFFFF):
            raise _syntax_error(f"{value} does not fit field value type D")
        writer.append(u8(_T_DECIMAL))
        writer.append(value.scale)
        write_u32(writer, value.value)
    else:
        raise TypeError(f"no field value type for {type(value).__name__}")


def _write_bytes(writer: BytesWriter, kind: i64, data: bytes) -> None:
    writer.append(u8(kind))
    write_u32(writer, len(data))
    writer.write(data)


def _write_single(writer: BytesWriter, value: float) -> None:
    # Beyond the largest single-precision number the conversion would quietly give infinity.
    if _SINGLE_MAX < abs(value) < _INFINITY:
        raise _syntax_error(f"{value} does not fit field value type f")
    write_f32_be(writer, value)


def _write_number(writer: BytesWriter, number: object) -> None:
    """Append the type letter and payload of an `int`: its class says the width.

    The parameter is an `object`, because compiled code forgets the class of what it takes as `int`.
    """
    kind: i64 = _T_LONG
    bits: i64 = 64
    low = -(1 << 63)
    if isinstance(number, SignedInt):
        kind, bits, low = _T_SIGNED_INT, 32, -(1 << 31)
    elif isinstance(number, Timestamp):
        kind, low = _T_TIMESTAMP, 0
    elif isinstance(number, Byte):
        kind, bits, low = _T_BYTE, 8, -(1 << 7)
    elif isinstance(number, UnsignedByte):
        kind, bits, low = _T_UNSIGNED_BYTE, 8, 0
    elif isinstance(number, Short):
        kind, bits, low = _T_SHORT, 16, -(1 << 15)
    elif isinstance(number, UnsignedShort):
        kind, bits, low = _T_UNSIGNED_SHORT, 16, 0
    elif isinstance(number, UnsignedInt):
        kind, bits, low = _T_UNSIGNED_INT, 32, 0
    assert isinstance(number, int)
    value: int = number
    if not low <= value < low + (1 << int(bits)):
        raise _syntax_error(f"{value} does not fit field value type {chr(int(kind))}")
    writer.append(u8(kind))
    if bits == 64:
        # A timestamp above 2**63 - 1 has the bits of a negative number.
        write_i64_be(writer, value if value < 1 << 63 else value - (1 << 64))
    else:
        rest: i64 = value
        while bits > 0:
            bits -= 8
            writer.append(u8((rest >> bits) & 0xFF))
