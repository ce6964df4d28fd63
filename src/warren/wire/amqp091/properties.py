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
from warren.wire.amqp091.table import Table, write_table

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


def malformed_properties() -> ConnectionException:
    """The error for properties that cannot be read."""
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
        raise malformed_properties()
    return i64(read_i16_be(data, start)) & _FLAGS_KNOWN


def skip_shortstr(data: bytes, offset: i64, end: i64) -> i64:
    """The offset after a short string; beyond `end` where the string is cut short."""
    if offset >= end:
        return end + 1
    return offset + 1 + data[offset]


def skip_table(data: bytes, offset: i64, end: i64) -> i64:
    """The offset after a table; beyond `end` where the table is cut short."""
    if end - offset < 4:
        return end + 1
    return offset + 4 + (i64(read_i32_be(data, offset)) & _U32)


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
        raise malformed_properties() from None
    if reader.offset != end:
        raise malformed_properties()
    return result


def _read_text(reader: Reader, flags: i64, flag: i64) -> str | None:
    return reader.shortstr_unchecked() if flags & flag else None
