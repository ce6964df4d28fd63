"""What matters in AMQP 0-9-1 properties bytes, found without building values.

A broker keeps and forwards these bytes unread; see `wire.amqp091.properties` for what they are.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.message.facts import MessageFacts
from warren.wire.amqp091.properties import (
    FLAG_APP_ID,
    FLAG_CLUSTER_ID,
    FLAG_CONTENT_ENCODING,
    FLAG_CONTENT_TYPE,
    FLAG_CORRELATION_ID,
    FLAG_DELIVERY_MODE,
    FLAG_EXPIRATION,
    FLAG_HEADERS,
    FLAG_MESSAGE_ID,
    FLAG_PRIORITY,
    FLAG_REPLY_TO,
    FLAG_TIMESTAMP,
    FLAG_TYPE,
    FLAG_USER_ID,
    malformed_properties,
    property_flags,
    skip_shortstr,
    skip_table,
)
from warren.wire.amqp091.table import find_entry, validate_table

DIRECT_REPLY: Final = b"amq.rabbitmq.reply-to"
"""The `reply_to` of a message that asks for a direct reply."""


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
    scan.life_ms = -1
    scan.headers_at = 0
    scan.headers_end = 0
    scan.has_priority = False
    scan.has_expiration = False
    scan.has_user_id = False
    scan.direct_reply = False
    # Nothing is read at or behind `end`; an offset beyond it stays there until the end.
    at = start + 2
    if flags & FLAG_CONTENT_TYPE:
        at = skip_shortstr(data, at, end)
    if flags & FLAG_CONTENT_ENCODING:
        at = skip_shortstr(data, at, end)
    if flags & FLAG_HEADERS:
        scan.headers_at = at + 4
        at = skip_table(data, at, end)
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
        scan.has_priority = True
        at += 1
    if flags & FLAG_CORRELATION_ID:
        at = skip_shortstr(data, at, end)
    if flags & FLAG_REPLY_TO:
        before = at
        at = skip_shortstr(data, at, end)
        scan.direct_reply = data[before + 1 : at] == DIRECT_REPLY
    if flags & FLAG_EXPIRATION:
        before = at
        at = skip_shortstr(data, at, end)
        scan.expiration = data[before + 1 : at]
        scan.has_expiration = True
    if flags & FLAG_MESSAGE_ID:
        at = skip_shortstr(data, at, end)
    if flags & FLAG_TIMESTAMP:
        at += 8
    if flags & FLAG_TYPE:
        at = skip_shortstr(data, at, end)
    if flags & FLAG_USER_ID:
        before = at
        at = skip_shortstr(data, at, end)
        scan.user_id = data[before + 1 : at]
        scan.has_user_id = True
    if flags & FLAG_APP_ID:
        at = skip_shortstr(data, at, end)
    if flags & FLAG_CLUSTER_ID:
        at = skip_shortstr(data, at, end)
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
        raise malformed_properties()
    return flags
