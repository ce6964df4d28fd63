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

from warren.errors import ConnectionException
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
from warren.wire.amqp091.table import (
    Table,
    encode_entry,
    entry_end,
    validate_table,
    write_table,
    write_u32,
)

BASIC_CLASS_ID: Final[i64] = 60
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
    if offset >= end:
        raise _malformed()
    offset += 1 + data[offset]
    if offset > end:
        raise _malformed()
    return offset


def _skip_table(data: bytes, offset: i64, end: i64) -> i64:
    if end - offset < 4:
        raise _malformed()
    size = i64(read_i32_be(data, offset)) & _U32
    if size > end - offset - 4:
        raise _malformed()
    return offset + 4 + size


def validate_properties(data: bytes, start: i64, end: i64) -> i64:
    """Check properties bytes, headers included, without building values.

    Returns:
        The flags, as `property_flags` does.

    Raises:
        ConnectionException: 502, values are missing, cut short, left over, or headers malformed.
    """
    flags = property_flags(data, start, end)
    offset = start + 2
    if flags & FLAG_CONTENT_TYPE:
        offset = _skip_shortstr(data, offset, end)
    if flags & FLAG_CONTENT_ENCODING:
        offset = _skip_shortstr(data, offset, end)
    if flags & FLAG_HEADERS:
        after = _skip_table(data, offset, end)
        validate_table(data, offset + 4, after)
        offset = after
    if flags & FLAG_DELIVERY_MODE:
        offset += 1
    if flags & FLAG_PRIORITY:
        offset += 1
    flag: i64 = FLAG_CORRELATION_ID
    while flag >= FLAG_CLUSTER_ID:
        if flags & flag:
            if flag == FLAG_TIMESTAMP:
                offset += 8
            else:
                offset = _skip_shortstr(data, offset, end)
        flag >>= 1
    if offset != end:
        raise _malformed()
    return flags


def headers_at(data: bytes, start: i64, end: i64) -> tuple[i64, i64]:
    """Where the headers' entries lie in properties bytes that were validated.

    Returns:
        Start and end of the entries, after the table's size; (-1, -1) if there are no headers.
    """
    flags = property_flags(data, start, end)
    if not flags & FLAG_HEADERS:
        return -1, -1
    offset = _before_headers(data, flags, start, end)
    return offset + 4, _skip_table(data, offset, end)


def _before_headers(data: bytes, flags: i64, start: i64, end: i64) -> i64:
    """Where the headers are, or would be."""
    offset = start + 2
    if flags & FLAG_CONTENT_TYPE:
        offset = _skip_shortstr(data, offset, end)
    if flags & FLAG_CONTENT_ENCODING:
        offset = _skip_shortstr(data, offset, end)
    return offset


def delivery_mode(data: bytes, start: i64, end: i64) -> i64:
    """The delivery mode in properties bytes: 2 is persistent; 0 if it is not set.

    Raises:
        ConnectionException: 502, the bytes end before it.
    """
    flags = property_flags(data, start, end)
    if not flags & FLAG_DELIVERY_MODE:
        return 0
    offset = _after_headers(data, flags, start, end)
    if offset >= end:
        raise _malformed()
    return data[offset]


def priority(data: bytes, start: i64, end: i64) -> i64:
    """The priority in properties bytes, 0 to 255; -1 if it is not set. Errors: 502."""
    flags = property_flags(data, start, end)
    if not flags & FLAG_PRIORITY:
        return -1
    offset = _after_headers(data, flags, start, end)
    if flags & FLAG_DELIVERY_MODE:
        offset += 1
    if offset >= end:
        raise _malformed()
    return data[offset]


def _after_headers(data: bytes, flags: i64, start: i64, end: i64) -> i64:
    offset = _before_headers(data, flags, start, end)
    return _skip_table(data, offset, end) if flags & FLAG_HEADERS else offset


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
    before = _before_headers(properties, flags, 0, end)
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
