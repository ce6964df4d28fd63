"""Content headers and properties: values, and the checks that work on bytes alone."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from tests.wire.strategies import properties, same
from warren.limits import CONTENT_BYTES_MAX
from warren.message.amqp091.scan import validate_properties
from warren.wire.amqp091 import properties as codec
from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.properties import (
    Properties,
    decode_properties,
    parse_header,
    write_header,
)

FIELDS = [
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type_",
    "user_id",
    "app_id",
    "cluster_id",
]


def _values(of: Properties) -> list[object]:
    return [getattr(of, name) for name in FIELDS]


@given(properties)
def test_round_trip(value: Properties) -> None:
    data = value.encode()
    again = decode_properties(data, 0, len(data))
    assert same(_values(again), _values(value))
    assert again.encode() == data
    flags = validate_properties(data, 0, len(data))
    expected = 0
    for name in FIELDS:
        if getattr(value, name) is not None:
            expected |= getattr(codec, "FLAG_" + name.rstrip("_").upper())
    assert flags == expected


def test_each_property_alone() -> None:
    text = b"\x02ab"
    wire: list[tuple[str, object, bytes]] = [
        (name, "ab", text) for name in FIELDS if name not in {"headers", "timestamp"}
    ]
    wire = [entry for entry in wire if entry[0] not in {"delivery_mode", "priority"}]
    wire += [
        ("headers", {"a": None}, b"\x00\x00\x00\x03\x01aV"),
        ("delivery_mode", 2, b"\x02"),
        ("priority", 255, b"\xff"),
        ("timestamp", 2**64 - 1, b"\xff" * 8),
    ]
    assert {entry[0] for entry in wire} == set(FIELDS)
    for name, value, encoded in wire:
        value_of = Properties()
        setattr(value_of, name, value)
        data = value_of.encode()
        flag = 0x8000 >> FIELDS.index(name)
        assert data == struct.pack(">H", flag) + encoded, name
        assert same(getattr(decode_properties(data, 0, len(data)), name), value)


@given(properties, st.data())
def test_every_cut_is_refused(value: Properties, data: st.DataObject) -> None:
    whole = value.encode()
    size = data.draw(st.integers(0, len(whole) - 1))
    for read in (validate_properties, decode_properties):
        for broken in (whole[:size], whole + b"\x00"):
            with pytest.raises(ConnectionException) as caught:
                read(broken, 0, len(broken))
            assert caught.value.code == 502


@given(st.binary(max_size=120))
def test_arbitrary_bytes_are_properties_or_a_502(data: bytes) -> None:
    """`validate_properties` and `decode_properties` agree on which."""
    try:
        value = decode_properties(data, 0, len(data))
    except ConnectionException as error:
        assert error.code == 502
        with pytest.raises(ConnectionException):
            validate_properties(data, 0, len(data))
    else:
        validate_properties(data, 0, len(data))
        again = value.encode()
        assert same(_values(decode_properties(again, 0, len(again))), _values(value))


def test_unused_flags_are_ignored() -> None:
    """RabbitMQ looks neither at bit 1 nor at the continuation bit."""
    assert validate_properties(b"\x10\x03\x02", 0, 3) == codec.FLAG_DELIVERY_MODE
    assert decode_properties(b"\x10\x03\x02", 0, 3).delivery_mode == 2


@given(properties, st.integers(0, CONTENT_BYTES_MAX))
def test_header_round_trip(value: Properties, body_size: int) -> None:
    encoded = value.encode()
    writer = BytesWriter()
    write_header(writer, encoded, body_size)
    payload = writer.getvalue()
    size, start = parse_header(b"zz" + payload, 2, 2 + len(payload))
    assert (size, start) == (body_size, 14)
    assert payload[start - 2 :] == encoded


def _refusal(payload: bytes) -> ConnectionException:
    with pytest.raises(ConnectionException) as caught:
        parse_header(payload, 0, len(payload), 60, 40)
    return caught.value


def test_header_refusals_are_rabbitmqs() -> None:
    wrong_class = _refusal(struct.pack(">HHQH", 10, 0, 0, 0))
    assert str(wrong_class) == (
        "UNEXPECTED_FRAME - expected content header for class 60, got one for class 10 instead"
    )
    weight = _refusal(struct.pack(">HHQH", 60, 1, 0, 0))
    assert str(weight) == (
        "UNEXPECTED_FRAME - expected content header for class 60, "
        "got non content header frame instead"
    )
    large = _refusal(struct.pack(">HHQH", 60, 0, 1 << 40, 0))
    assert str(large) == (
        "FRAME_ERROR - content body size 1099511627776 exceeds maximum allowed size 536870912"
    )
    largest = _refusal(struct.pack(">HHQH", 60, 0, 2**64 - 1, 0))
    assert "size 18446744073709551615 exceeds" in largest.text
    for error in (wrong_class, weight, large, largest):
        assert (error.class_id, error.method_id) == (60, 40)
    assert _refusal(b"\x00\x3c\x00").code == 501


def test_values_that_do_not_fit_are_refused() -> None:
    for value in (
        Properties(delivery_mode=256),
        Properties(priority=-1),
        Properties(timestamp=2**64),
        Properties(message_id="x" * 256),
    ):
        with pytest.raises(ConnectionException) as caught:
            value.encode()
        assert caught.value.code == 502
