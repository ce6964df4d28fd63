"""The content header of a message, and its properties.

A content header frame's payload (all numbers big-endian)::

    u16 class (60) · u16 weight (0) · u64 body size in bytes · properties
    properties = u16 flags, then the values of the properties whose flag is set, in this order

    bit 15 content-type shortstr      10 correlation-id shortstr    5 type shortstr
    bit 14 content-encoding shortstr   9 reply-to shortstr          4 user-id shortstr
    bit 13 headers table               8 expiration shortstr        3 app-id shortstr
    bit 12 delivery-mode octet         7 message-id shortstr        2 cluster-id shortstr
    bit 11 priority octet              6 timestamp u64 seconds

Bits 1 and 0 are ignored, as RabbitMQ does. What is called *properties bytes* here starts at the
flags; a broker keeps and forwards these bytes unread, so most functions work on them without
building values.

Source: AMQP 0-9-1, 2.3.5.2 and 4.2.6.1.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.limits import CONTENT_BYTES_MAX
from warren.wire.amqp091.arguments import (
    Reader,
    Truncated,
    write_longlong,
    write_octet,
    write_short,
    write_shortstr,
    write_timestamp,
)
from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.table import (
    Table,
    encode_entry,
    entry_end,
    find_entry,
    validate_table,
    write_table,
    write_u32,
)
from warren.wire.facts import MessageFacts

HEADER_FIXED_BYTES: Final[i64] = 12
"""Bytes of a content header before its properties."""

FLAG_CONTENT_TYPE: Final = 0x8000
FLAG_CONTENT_ENCODING: Final = 0x4000
FLAG_HEADERS: Final = 0x2000
FLAG_DELIVERY_MODE: Final = 0x1000
FLAG_PRIORITY: Final = 0x0800
FLAG_CORRELATION_ID: Final = 0x0400
FLAG_REPLY_TO: Final = 0x0200
FLAG_EXPIRATION: Final = 0x0100
FLAG_MESSAGE_ID: Final = 0x0080
FLAG_TIMESTAMP: Final = 0x0040
FLAG_TYPE: Final = 0x0020
FLAG_USER_ID: Final = 0x0010
FLAG_APP_ID: Final = 0x0008
FLAG_CLUSTER_ID: Final = 0x0004

DIRECT_REPLY: Final = b"amq.rabbitmq.reply-to"
"""The `reply_to` of a message that asks for a direct reply."""

_FLAGS_KNOWN: Final[i64] = 0xFFFC
_U16: Final[i64] = 0xFFFF
_U32: Final[i64] = 0xFFFFFFFF


def _malformed() -> ConnectionException:
    return ConnectionException(502, "malformed content properties")


# --- the header ---------------------------------------------------------------------------------


def parse_header(
    payload: bytes, offset: i64, end: i64, class_id: i64 = 60, method_id: i64 = 0
) -> tuple[i64, i64]:
    """Read a content header frame's payload, `payload[offset:end]`, up to its properties.

    Args:
        class_id, method_id: The method this content belongs to.

    Returns:
        The body's size in bytes, and where the properties bytes start; they go on to `end` and are
        not looked at.

    Raises:
        ConnectionException: 501, the frame is too short or the body larger than RabbitMQ's
            ceiling; 505, the header is for another class or has a weight.
    """
    if end - offset < HEADER_FIXED_BYTES:
        raise ConnectionException(501, "content header frame is too short")
    found = i64(read_i16_be(payload, offset)) & _U16
    if read_i16_be(payload, offset + 2) != 0:
        raise ConnectionException(
            505,
            f"expected content header for class {class_id}, got non content header frame instead",
            int(class_id),
            int(method_id),
        )
    if found != class_id:
        raise ConnectionException(
            505,
            f"expected content header for class {class_id}, got one for class {found} instead",
            int(class_id),
            int(method_id),
        )
    size = read_i64_be(payload, offset + 4)
    if size < 0 or size > CONTENT_BYTES_MAX:
        unsigned = int(size) if size >= 0 else int(size) + (1 << 64)
        raise ConnectionException(
            501,
            f"content body size {unsigned} exceeds maximum allowed size {CONTENT_BYTES_MAX}",
            int(class_id),
            int(method_id),
        )
    return size, offset + HEADER_FIXED_BYTES


def write_header(
    writer: BytesWriter, properties: bytes, body_size: i64, class_id: i64 = 60
) -> None:
    """Append a content header frame's payload for these properties bytes."""
    write_short(writer, int(class_id))
    write_short(writer, 0)
    write_longlong(writer, int(body_size))
    writer.write(properties)


# --- properties bytes without values ------------------------------------------------------------


def property_flags(data: bytes, start: i64, end: i64) -> i64:
    """Which properties are set, as the `FLAG_` bits.

    Raises:
        ConnectionException: 502, there is no room for the flags.
    """
    if end - start < 2:
        raise _malformed()
    return i64(read_i16_be(data, start)) & _FLAGS_KNOWN


def _skip_shortstr(data: bytes, offset: i64, end: i64) -> i64:
    """The offset after a short string; beyond `end` where the string is cut short."""
    if offset >= end:
        return end + 1
    return offset + 1 + data[offset]


def _skip_table(data: bytes, offset: i64, end: i64) -> i64:
    """The offset after a table; beyond `end` where the table is cut short."""
    if end - offset < 4:
        return end + 1
    return offset + 4 + (i64(read_i32_be(data, offset)) & _U32)


@final
class PropertyScan(MessageFacts):
    """What matters in a message's properties, as AMQP 0-9-1 has them.

    Attributes:
        headers_at, headers_end: The headers table's entries; equal where there are none.
        direct_reply: Whether it asks for a direct reply.
        special: Whether it must be looked at by itself: direct replies, CC and BCC.
    """

    def __init__(self) -> None:
        super().__init__()
        self.headers_at: i64 = 0
        self.headers_end: i64 = 0
        self.direct_reply: bool = False
        self.special: bool = False


def scan_properties(data: bytes, start: i64, end: i64, scan: PropertyScan) -> i64:
    """Check properties bytes, headers included, and note what matters.

    Returns:
        The flags, as `property_flags` does; -1 if values are missing, cut short or left over.

    Raises:
        ConnectionException: 502, malformed headers.
    """
    if end - start < 2:
        return -1
    flags = property_flags(data, start, end)
    scan.persistent = False
    scan.priority = 0
    scan.headers_at = 0
    scan.headers_end = 0
    scan.has_expiration = False
    scan.has_user_id = False
    scan.direct_reply = False
    # Nothing is read at or behind `end`; an offset beyond it stays there until the end.
    at = start + 2
    if flags & FLAG_CONTENT_TYPE:
        at = _skip_shortstr(data, at, end)
    if flags & FLAG_CONTENT_ENCODING:
        at = _skip_shortstr(data, at, end)
    if flags & FLAG_HEADERS:
        scan.headers_at = at + 4
        at = _skip_table(data, at, end)
        if at > end:
            return -1
        scan.headers_end = at
        validate_table(data, scan.headers_at, at)
    if flags & FLAG_DELIVERY_MODE:
        if at >= end:
            return -1
        scan.persistent = data[at] == 2
        at += 1
    if flags & FLAG_PRIORITY:
        if at >= end:
            return -1
        scan.priority = i64(data[at])
        at += 1
    if flags & FLAG_CORRELATION_ID:
        at = _skip_shortstr(data, at, end)
    if flags & FLAG_REPLY_TO:
        before = at
        at = _skip_shortstr(data, at, end)
        scan.direct_reply = data[before + 1 : at] == DIRECT_REPLY
    if flags & FLAG_EXPIRATION:
        before = at
        at = _skip_shortstr(data, at, end)
        scan.expiration = data[before + 1 : at]
        scan.has_expiration = True
    if flags & FLAG_MESSAGE_ID:
        at = _skip_shortstr(data, at, end)
    if flags & FLAG_TIMESTAMP:
        at += 8
    if flags & FLAG_TYPE:
        at = _skip_shortstr(data, at, end)
    if flags & FLAG_USER_ID:
        before = at
        at = _skip_shortstr(data, at, end)
        scan.user_id = data[before + 1 : at]
        scan.has_user_id = True
    if flags & FLAG_APP_ID:
        at = _skip_shortstr(data, at, end)
    if flags & FLAG_CLUSTER_ID:
        at = _skip_shortstr(data, at, end)
    if at != end:
        return -1
    scan.copies = scan.headers_at < scan.headers_end and (
        find_entry(data, scan.headers_at, scan.headers_end, b"CC") >= 0
        or find_entry(data, scan.headers_at, scan.headers_end, b"BCC") >= 0
    )
    scan.special = scan.direct_reply or scan.copies
    return flags


def validate_properties(data: bytes, start: i64, end: i64) -> i64:
    """Check properties bytes, headers included, without building values.

    Returns:
        The flags, as `property_flags` does.

    Raises:
        ConnectionException: 502, values are missing, cut short, left over, or headers malformed.
    """
    flags = scan_properties(data, start, end, PropertyScan())
    if flags < 0:
        raise _malformed()
    return flags


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
    before: i64 = 2
    if flags & FLAG_CONTENT_TYPE:
        before = _skip_shortstr(properties, before, end)
    if flags & FLAG_CONTENT_ENCODING:
        before = _skip_shortstr(properties, before, end)
    entries = BytesWriter()
    rest = before
    if flags & FLAG_HEADERS:
        rest = _skip_table(properties, before, end)
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


# --- values -------------------------------------------------------------------------------------


@final
class Properties:
    """All properties of a message; None where one is not set."""

    __slots__ = (
        "app_id",
        "cluster_id",
        "content_encoding",
        "content_type",
        "correlation_id",
        "delivery_mode",
        "expiration",
        "headers",
        "message_id",
        "priority",
        "reply_to",
        "timestamp",
        "type_",
        "user_id",
    )

    def __init__(
        self,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: Table | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        expiration: str | None = None,
        message_id: str | None = None,
        timestamp: int | None = None,
        type_: str | None = None,
        user_id: str | None = None,
        app_id: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.headers = headers
        self.delivery_mode = delivery_mode
        self.priority = priority
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.expiration = expiration
        self.message_id = message_id
        self.timestamp = timestamp
        self.type_ = type_
        self.user_id = user_id
        self.app_id = app_id
        self.cluster_id = cluster_id

    def encode(self) -> bytes:
        """These properties' bytes.

        Raises:
            ConnectionException: 502, a value does not fit its type.
        """
        values = BytesWriter()
        flags = _write_text(values, self.content_type, FLAG_CONTENT_TYPE)
        flags |= _write_text(values, self.content_encoding, FLAG_CONTENT_ENCODING)
        if self.headers is not None:
            flags |= FLAG_HEADERS
            write_table(values, self.headers)
        if self.delivery_mode is not None:
            flags |= FLAG_DELIVERY_MODE
            write_octet(values, self.delivery_mode)
        if self.priority is not None:
            flags |= FLAG_PRIORITY
            write_octet(values, self.priority)
        flags |= _write_text(values, self.correlation_id, FLAG_CORRELATION_ID)
        flags |= _write_text(values, self.reply_to, FLAG_REPLY_TO)
        flags |= _write_text(values, self.expiration, FLAG_EXPIRATION)
        flags |= _write_text(values, self.message_id, FLAG_MESSAGE_ID)
        if self.timestamp is not None:
            flags |= FLAG_TIMESTAMP
            write_timestamp(values, self.timestamp)
        flags |= _write_text(values, self.type_, FLAG_TYPE)
        flags |= _write_text(values, self.user_id, FLAG_USER_ID)
        flags |= _write_text(values, self.app_id, FLAG_APP_ID)
        flags |= _write_text(values, self.cluster_id, FLAG_CLUSTER_ID)
        writer = BytesWriter()
        write_short(writer, int(flags))
        writer.write(values.getvalue())
        return writer.getvalue()


def _write_text(writer: BytesWriter, value: str | None, flag: i64) -> i64:
    """Append a short string if there is one; gives the flag to set."""
    if value is None:
        return 0
    write_shortstr(writer, value)
    return flag


def decode_properties(data: bytes, start: i64, end: i64) -> Properties:
    """Read properties bytes. Accepts exactly what `validate_properties` does.

    Raises:
        ConnectionException: 502.
    """
    flags = property_flags(data, start, end)
    reader = Reader(data, start + 2, end)
    result = Properties()
    try:
        result.content_type = _read_text(reader, flags, FLAG_CONTENT_TYPE)
        result.content_encoding = _read_text(reader, flags, FLAG_CONTENT_ENCODING)
        if flags & FLAG_HEADERS:
            result.headers = reader.table()
        if flags & FLAG_DELIVERY_MODE:
            result.delivery_mode = reader.octet()
        if flags & FLAG_PRIORITY:
            result.priority = reader.octet()
        result.correlation_id = _read_text(reader, flags, FLAG_CORRELATION_ID)
        result.reply_to = _read_text(reader, flags, FLAG_REPLY_TO)
        result.expiration = _read_text(reader, flags, FLAG_EXPIRATION)
        result.message_id = _read_text(reader, flags, FLAG_MESSAGE_ID)
        if flags & FLAG_TIMESTAMP:
            result.timestamp = reader.timestamp()
        result.type_ = _read_text(reader, flags, FLAG_TYPE)
        result.user_id = _read_text(reader, flags, FLAG_USER_ID)
        result.app_id = _read_text(reader, flags, FLAG_APP_ID)
        result.cluster_id = _read_text(reader, flags, FLAG_CLUSTER_ID)
    except Truncated:
        raise _malformed() from None
    if reader.offset != end:
        raise _malformed()
    return result


def _read_text(reader: Reader, flags: i64, flag: i64) -> str | None:
    return reader.shortstr_unchecked() if flags & flag else None
