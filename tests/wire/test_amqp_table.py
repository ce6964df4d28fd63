"""Field tables: every type in both directions, and every malformation ends in a 502."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.strategies import same, tables, values
from warren.limits import TABLE_NESTING_MAX
from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.table import (
    Byte,
    Decimal,
    Float,
    Short,
    SignedInt,
    Table,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
    Value,
    decode_array,
    decode_entry_value,
    decode_table,
    encode_entry,
    encode_table,
    entry_end,
    find_entry,
    validate_table,
)

ONE_OF_EACH: list[tuple[Value, bytes]] = [
    (True, b"t\x01"),
    (False, b"t\x00"),
    (Byte(-128), b"b\x80"),
    (Byte(127), b"b\x7f"),
    (UnsignedByte(255), b"B\xff"),
    (Short(-2), b"s\xff\xfe"),
    (UnsignedShort(65535), b"u\xff\xff"),
    (SignedInt(-(2**31)), b"I\x80\x00\x00\x00"),
    (UnsignedInt(2**32 - 1), b"i\xff\xff\xff\xff"),
    (-1, b"l" + b"\xff" * 8),
    (2**63 - 1, b"l\x7f" + b"\xff" * 7),
    (Float(0.5), b"f\x3f\x00\x00\x00"),
    (1.5, b"d\x3f\xf8" + bytes(6)),
    (math.inf, b"d\x7f\xf0" + bytes(6)),
    (Decimal(2, 2**32 - 1), b"D\x02\xff\xff\xff\xff"),
    ("é", b"S\x00\x00\x00\x02\xc3\xa9"),
    ("\udcff", b"S\x00\x00\x00\x01\xff"),
    (b"\x00\xff", b"x\x00\x00\x00\x02\x00\xff"),
    ([], b"A\x00\x00\x00\x00"),
    ([None, True], b"A\x00\x00\x00\x03Vt\x01"),
    ({}, b"F\x00\x00\x00\x00"),
    ({"a": None}, b"F\x00\x00\x00\x03\x01aV"),
    (Timestamp(2**64 - 1), b"T" + b"\xff" * 8),
    (None, b"V"),
]


@pytest.mark.parametrize(("value", "data"), ONE_OF_EACH, ids=lambda value: repr(value)[:30])
def test_each_type_has_its_bytes(value: Value, data: bytes) -> None:
    entry = b"\x01k" + data
    assert encode_table({"k": value}) == entry
    assert encode_entry("k", value) == entry
    assert same(decode_table(entry, 0, len(entry)), {"k": value})
    assert same(decode_array(data, 0, len(data)), [value])
    assert same(decode_entry_value(entry, 0, len(entry)), value)


def test_what_is_read_but_never_written() -> None:
    """`L` is a signed 64-bit number like `l`, and any non-zero octet is true (RabbitMQ)."""
    data = b"\x01aL" + b"\xff" * 8 + b"\x01bt\x05"
    table = decode_table(data, 0, len(data))
    assert table == {"a": -1, "b": True}
    assert encode_table(table) == b"\x01al" + b"\xff" * 8 + b"\x01bt\x01"


def test_of_two_entries_with_one_name_the_first_wins() -> None:
    data = b"\x01at\x01\x01at\x00\x01bV"
    assert decode_table(data, 0, len(data)) == {"a": True, "b": None}


def test_nan_survives() -> None:
    data = encode_table({"n": math.nan, "f": Float(math.nan)})
    assert same(decode_table(data, 0, len(data)), {"n": math.nan, "f": Float(math.nan)})


@given(tables)
def test_round_trip(table: Table) -> None:
    data = encode_table(table)
    validate_table(data, 0, len(data))
    assert same(decode_table(data, 0, len(data)), table)
    shifted = b"\xff\xff" + data + b"\xff"
    validate_table(shifted, 2, 2 + len(data))
    assert same(decode_table(shifted, 2, 2 + len(data)), table)


@given(tables, values)
def test_find_entry(table: Table, value: Value) -> None:
    name = "looked for"
    table.pop(name, None)
    data = encode_table(table)
    assert find_entry(data, 0, len(data), name.encode()) == -1
    whole = data + encode_entry(name, value) + data
    at = find_entry(whole, 0, len(whole), name.encode())
    assert at == len(data)
    assert entry_end(whole, at, len(whole)) == len(whole) - len(data)
    assert same(decode_entry_value(whole, at, len(whole)), value)


@given(tables.filter(bool))
def test_every_cut_is_refused(table: Table) -> None:
    data = encode_table(table)
    whole = {0, len(data)}
    at = 0
    while at < len(data):
        at = entry_end(data, at, len(data))
        whole.add(at)
    for size in range(len(data)):
        if size in whole:
            validate_table(data, 0, size)
            continue
        for read in (validate_table, decode_table):
            with pytest.raises(ConnectionException) as caught:
                read(data[:size], 0, size)
            assert caught.value.code == 502


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_table_or_a_502(data: bytes) -> None:
    """`validate_table` and `decode_table` agree on which."""
    try:
        table = decode_table(data, 0, len(data))
    except ConnectionException as error:
        assert error.code == 502
        with pytest.raises(ConnectionException):
            validate_table(data, 0, len(data))
    else:
        validate_table(data, 0, len(data))
        again = encode_table(table)
        assert same(decode_table(again, 0, len(again)), table)


@pytest.mark.parametrize(
    "data",
    [
        b"\x01",
        b"\x05abc",
        b"\x01a",
        b"\x01a?",
        b"\x01a\x00",
        b"\x01aI\x00\x00\x00",
        b"\x01aS\x00\x00",
        b"\x01aS\xff\xff\xff\xffx",
        b"\x01aF\x00\x00\x00\x02\x01b",
        b"\x01aA\x00\x00\x00\x02t",
        b"\x01aA\x00\x00\x00\x01?",
        b"\x01aA\x00\x00\x00\x02I\x00",
    ],
)
def test_malformed(data: bytes) -> None:
    for read in (validate_table, decode_table):
        with pytest.raises(ConnectionException) as caught:
            read(data, 0, len(data))
        assert caught.value.code == 502


def _nested(depth: int, kind: bytes) -> bytes:
    """A table that holds `depth - 1` tables or arrays inside each other."""
    inner = b""
    for _ in range(depth - 1):
        head = kind + struct.pack(">I", len(inner))
        inner = head + inner if kind == b"A" else b"\x01k" + head + inner
    return b"\x01k" + inner if kind == b"A" and inner else inner


@pytest.mark.parametrize("kind", [b"A", b"F"])
def test_nesting_is_bounded(kind: bytes) -> None:
    deepest = _nested(TABLE_NESTING_MAX, kind)
    validate_table(deepest, 0, len(deepest))
    value = decode_table(deepest, 0, len(deepest))
    assert encode_table(value) == deepest
    deeper = _nested(TABLE_NESTING_MAX + 1, kind)
    for read in (validate_table, decode_table):
        with pytest.raises(ConnectionException, match="nests deeper") as caught:
            read(deeper, 0, len(deeper))
        assert caught.value.code == 502
    wrapped: Value = value["k"]
    wrapped = [wrapped] if kind == b"A" else {"k": wrapped}
    with pytest.raises(ConnectionException, match="nests deeper"):
        encode_table({"k": wrapped})


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**63) - 1,
        Byte(128),
        Byte(-129),
        UnsignedByte(256),
        UnsignedByte(-1),
        Short(2**15),
        UnsignedShort(-1),
        UnsignedShort(2**16),
        SignedInt(2**31),
        UnsignedInt(2**32),
        Timestamp(-1),
        Timestamp(2**64),
        Float(1e39),
        Decimal(256, 1),
        Decimal(1, -1),
        Decimal(1, 2**32),
    ],
    ids=repr,
)
def test_numbers_that_do_not_fit_are_refused(value: Value) -> None:
    with pytest.raises(ConnectionException) as caught:
        encode_table({"k": value})
    assert caught.value.code == 502


VALUES = [object(), (1, 2), {1, 2}, bytearray(b"x")]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_other_python_types_are_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        encode_table({"k": value})


def test_a_name_is_at_most_255_bytes() -> None:
    longest = "é" * 127 + "e"
    data = encode_table({longest: 1})
    assert decode_table(data, 0, len(data)) == {longest: 1}
    with pytest.raises(ConnectionException):
        encode_table({"é" * 128: 1})
