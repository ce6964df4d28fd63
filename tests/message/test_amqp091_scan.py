"""What is read from AMQP 0-9-1 properties, and changed in them, by bytes alone."""

from __future__ import annotations

import struct

from hypothesis import given

from tests.wire.strategies import properties, same, tables
from warren.message.amqp091.edits import with_headers
from warren.message.amqp091.scan import PropertyScan, scan_properties, validate_properties
from warren.wire.amqp091.properties import Properties, decode_properties
from warren.wire.amqp091.table import Table, decode_table, encode_entry, encode_table


@given(properties, properties)
def test_reading_from_bytes_alone(value: Properties, earlier: Properties) -> None:
    """What the one before it had is not seen in the next."""
    scan = PropertyScan()
    before = earlier.encode()
    assert scan_properties(before, 0, len(before), scan) >= 0
    data = b"\xff" + value.encode() + b"\xff"
    end = len(data) - 1
    assert scan_properties(data, 1, end, scan) == validate_properties(data, 1, end)
    assert scan.persistent is (value.delivery_mode == 2)
    assert scan.priority == (value.priority or 0)
    assert same(decode_table(data, scan.headers_at, scan.headers_end), value.headers or {})
    for name in ("expiration", "user_id"):
        text = getattr(value, name)
        assert getattr(scan, "has_" + name) is (text is not None)
        assert text is None or getattr(scan, name) == text.encode("utf-8", "surrogateescape")


def test_messages_to_be_looked_at_by_themselves() -> None:
    scan = PropertyScan()
    for value, direct, copies in (
        (Properties(reply_to="amq.rabbitmq.reply-to"), True, False),
        (Properties(reply_to="amq.rabbitmq.reply-to.x"), False, False),
        (Properties(headers={"CC": ["a"]}), False, True),
        (Properties(headers={"x": 1, "BCC": ["a"]}), False, True),
        (Properties(headers={"cc": ["a"]}, delivery_mode=2), False, False),
        (Properties(), False, False),
    ):
        data = value.encode()
        assert scan_properties(data, 0, len(data), scan) >= 0
        assert (scan.direct_reply, scan.copies, scan.special) == (direct, copies, direct or copies)


@given(properties, tables)
def test_with_headers(value: Properties, additions: Table) -> None:
    before = value.encode()
    data = with_headers(before, additions)
    validate_properties(data, 0, len(data))
    again = decode_properties(data, 0, len(data))
    kept = {name: old for name, old in (value.headers or {}).items() if name not in additions}
    assert same(again.headers, {**kept, **additions})
    again.headers = value.headers
    assert again.encode() == before


def test_with_headers_keeps_other_entries_byte_for_byte() -> None:
    """Entries that decoding would change: a name twice, `L`, a sloppy true."""
    odd = b"\x01aL" + bytes(8) + b"\x01at\x07" + b"\x01bV"
    before = b"\x20\x00" + struct.pack(">I", len(odd)) + odd
    added = encode_entry("x-delivery-count", 3)
    data = with_headers(before, {"x-delivery-count": 3, "b": True})
    entries = odd[:-3] + added + encode_entry("b", True)
    assert data == b"\x20\x00" + struct.pack(">I", len(entries)) + entries
    replaced = with_headers(data, {"a": 1})
    entries = added + encode_table({"b": True, "a": 1})
    assert replaced == b"\x20\x00" + struct.pack(">I", len(entries)) + entries
