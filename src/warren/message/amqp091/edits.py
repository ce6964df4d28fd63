"""Changes to messages that were published with AMQP 0-9-1, by bytes alone where that is possible.

A record is never changed in place: each function gives the bytes of a new one, or of a part of it.
`content_at` (`record`) finds the header frame.
"""

from __future__ import annotations

from librt.strings import BytesWriter, read_i32_be, write_i32_be
from mypy_extensions import i32, i64

from warren.limits import FRAME_OVERHEAD_BYTES, SHORTSTR_BYTES_MAX
from warren.message.amqp091.note import no_note, with_note
from warren.message.amqp091.record import FRAME_HEAD_BYTES, HEADER_PROPERTIES_AT, properties_of
from warren.wire.amqp091.arguments import write_short
from warren.wire.amqp091.frame import FRAME_END
from warren.wire.amqp091.properties import (
    FLAG_CONTENT_ENCODING,
    FLAG_CONTENT_TYPE,
    FLAG_HEADERS,
    HEADER_FIXED_BYTES,
    decode_properties,
    property_flags,
    skip_shortstr,
    skip_table,
)
from warren.wire.amqp091.table import Table, encode_entry, entry_end, write_u32


def with_reply_to(record: bytes, head: i64, address: str) -> bytes:
    """A message with another `reply_to`; its header frame is at `head`."""
    encoded = properties_of(record, head)
    properties = decode_properties(encoded, 0, len(encoded))
    properties.reply_to = address
    return with_properties(record, head, properties.encode())


def without_bcc(record: bytes, head: i64, noted: bool) -> bytes:
    """A message without its `BCC` header, which no receiver may see; its header frame is at `head`.

    Args:
        noted: Whether the broker keeps in mind what the header named, for when the message dies.

    Source: RabbitMQ's sender-selected distribution.
    """
    encoded = properties_of(record, head)
    properties = decode_properties(encoded, 0, len(encoded))
    headers = properties.headers
    if headers is None or "BCC" not in headers:
        return record
    properties.headers = {name: value for name, value in headers.items() if name != "BCC"}
    record = with_properties(record, head, properties.encode())
    named = headers["BCC"]
    if not noted or not isinstance(named, list):
        return record
    note = no_note()
    for key in named:
        if isinstance(key, str):
            encoded = key.encode("utf-8", "surrogateescape")
            if len(encoded) <= SHORTSTR_BYTES_MAX:
                note.keys.append(encoded)
    return with_note(record, note) if note.keys else record


def with_properties(record: bytes, head: i64, properties: bytes) -> bytes:
    """A message with other properties; its header frame is at `head`."""
    return record[:head] + changed_content(record, head, len(record), properties)


def changed_content(record: bytes, head: i64, end: i64, properties: bytes) -> bytes:
    """The header and body frames `record[head:end]` of a message, with other properties."""
    size: i64 = i64(read_i32_be(record, head + 3))
    header = BytesWriter()
    header.write(record[head : head + 3])
    write_i32_be(header, i32(HEADER_FIXED_BYTES + i64(len(properties))))
    header.write(record[head + FRAME_HEAD_BYTES : head + HEADER_PROPERTIES_AT])
    header.write(properties)
    header.append(FRAME_END)
    return header.getvalue() + record[head + FRAME_OVERHEAD_BYTES + size : end]


def with_headers(properties: bytes, additions: Table) -> bytes:
    """Properties bytes with some headers added or replaced, everything else byte for byte.

    Args:
        properties: Properties bytes that were validated.
        additions: Headers to set. One that exists already is dropped from its place; the new ones
            come last, in this order.

    Raises:
        ConnectionException: 502, an addition has no wire form.
    """
    end: i64 = len(properties)
    flags = property_flags(properties, 0, end)
    before = _headers_at(properties, flags)
    entries = BytesWriter()
    rest = before
    if flags & FLAG_HEADERS:
        rest = skip_table(properties, before, end)
        replaced: set[bytes] = set()
        for name in additions:
            replaced.add(name.encode("utf-8", "surrogateescape"))
        at = before + 4
        while at < rest:
            after = entry_end(properties, at, rest)
            if properties[at + 1 : at + 1 + properties[at]] not in replaced:
                entries.write(properties[at:after])
            at = after
    for name, value in additions.items():
        entries.write(encode_entry(name, value))
    writer = BytesWriter()
    write_short(writer, int(flags | FLAG_HEADERS))
    writer.write(properties[2:before])
    write_u32(writer, len(entries))
    writer.write(entries.getvalue())
    writer.write(properties[rest:])
    return writer.getvalue()


def with_entries(properties: bytes, at: i64, end: i64, entries: bytes) -> bytes:
    """Properties bytes with encoded headers behind those that are there; none has a name of theirs.

    Args:
        properties: Properties bytes that were validated.
        at, end: Where the entries of their headers begin and end; equal where there are none.
    """
    total: i64 = len(properties)
    flags = property_flags(properties, 0, total)
    before = at - 4
    if not flags & FLAG_HEADERS:
        before = _headers_at(properties, flags)
        at = before
        end = before
    writer = BytesWriter()
    write_short(writer, int(flags | FLAG_HEADERS))
    writer.write(properties[2:before])
    write_u32(writer, end - at + len(entries))
    writer.write(properties[at:end])
    writer.write(entries)
    writer.write(properties[end:])
    return writer.getvalue()


def _headers_at(properties: bytes, flags: i64) -> i64:
    """Where the headers are, or would be."""
    end: i64 = len(properties)
    at: i64 = 2
    if flags & FLAG_CONTENT_TYPE:
        at = skip_shortstr(properties, at, end)
    if flags & FLAG_CONTENT_ENCODING:
        at = skip_shortstr(properties, at, end)
    return at
