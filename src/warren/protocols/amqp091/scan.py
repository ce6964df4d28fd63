"""One pass over a message's properties: everything that routing and queues care about.

Source: AMQP 0-9-1, 4.2.6.1 (property flags) and the `basic` class of the specification.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i32_be
from mypy_extensions import i64

from warren.errors import ConnectionException
from warren.wire.amqp091.table import find_entry, validate_table

CONTENT_TYPE: Final = 0x8000
CONTENT_ENCODING: Final = 0x4000
HEADERS: Final = 0x2000
DELIVERY_MODE: Final = 0x1000
PRIORITY: Final = 0x0800
CORRELATION_ID: Final = 0x0400
REPLY_TO: Final = 0x0200
EXPIRATION: Final = 0x0100
MESSAGE_ID: Final = 0x0080
TIMESTAMP: Final = 0x0040
TYPE: Final = 0x0020
USER_ID: Final = 0x0010
APP_ID: Final = 0x0008
CLUSTER_ID: Final = 0x0004

DIRECT_REPLY: Final = b"amq.rabbitmq.reply-to"


@final
class PropertyScan:
    """What a message's properties say.

    Attributes:
        persistent: Delivery mode 2.
        priority: 0 where none is set.
        headers_at, headers_end: The headers table's entries; equal where there are none.
        reply_to, expiration, user_id: Empty where not set.
        direct_reply: Whether it asks for a direct reply.
        special: Whether it must be looked at by itself: direct replies, CC and BCC.
    """

    def __init__(self) -> None:
        self.persistent: bool = False
        self.priority: i64 = 0
        self.headers_at: i64 = 0
        self.headers_end: i64 = 0
        self.reply_to: bytes = b""
        self.expiration: bytes = b""
        self.user_id: bytes = b""
        self.has_expiration: bool = False
        self.has_user_id: bool = False
        self.direct_reply: bool = False
        self.copies: bool = False
        self.special: bool = False


def scan_properties(data: bytes, scan: PropertyScan) -> None:
    """Check property flags and values, and note what matters.

    Raises:
        ConnectionException: 501, they do not fill `data` exactly; 502, a bad headers table.
    """
    end: i64 = len(data)
    if end < 2:
        raise _malformed()
    flags = i64(data[0]) << 8 | i64(data[1])
    if flags & 3:
        raise _malformed()
    scan.persistent = False
    scan.priority = 0
    scan.headers_at = 0
    scan.headers_end = 0
    scan.reply_to = b""
    scan.has_expiration = False
    scan.has_user_id = False
    at: i64 = 2
    if flags & CONTENT_TYPE:
        at = _after_short(data, at, end)
    if flags & CONTENT_ENCODING:
        at = _after_short(data, at, end)
    if flags & HEADERS:
        if end - at < 4:
            raise _malformed()
        size: i64 = i64(read_i32_be(data, at)) & 0xFFFFFFFF
        at += 4
        if size > end - at:
            raise _malformed()
        validate_table(data, at, at + size)
        scan.headers_at = at
        at += size
        scan.headers_end = at
    if flags & DELIVERY_MODE:
        if at >= end:
            raise _malformed()
        scan.persistent = data[at] == 2
        at += 1
    if flags & PRIORITY:
        if at >= end:
            raise _malformed()
        scan.priority = i64(data[at])
        at += 1
    if flags & CORRELATION_ID:
        at = _after_short(data, at, end)
    if flags & REPLY_TO:
        start = at
        at = _after_short(data, at, end)
        scan.reply_to = data[start + 1 : at]
    if flags & EXPIRATION:
        start = at
        at = _after_short(data, at, end)
        scan.expiration = data[start + 1 : at]
        scan.has_expiration = True
    if flags & MESSAGE_ID:
        at = _after_short(data, at, end)
    if flags & TIMESTAMP:
        at += 8
        if at > end:
            raise _malformed()
    if flags & TYPE:
        at = _after_short(data, at, end)
    if flags & USER_ID:
        start = at
        at = _after_short(data, at, end)
        scan.user_id = data[start + 1 : at]
        scan.has_user_id = True
    if flags & APP_ID:
        at = _after_short(data, at, end)
    if flags & CLUSTER_ID:
        at = _after_short(data, at, end)
    if at != end:
        raise _malformed()
    scan.direct_reply = scan.reply_to == DIRECT_REPLY
    scan.copies = scan.headers_at < scan.headers_end and (
        find_entry(data, scan.headers_at, scan.headers_end, b"CC") >= 0
        or find_entry(data, scan.headers_at, scan.headers_end, b"BCC") >= 0
    )
    scan.special = scan.direct_reply or scan.copies


def _after_short(data: bytes, at: i64, end: i64) -> i64:
    """The offset behind a short string."""
    if at >= end:
        raise _malformed()
    at += 1 + i64(data[at])
    if at > end:
        raise _malformed()
    return at


def _malformed() -> ConnectionException:
    return ConnectionException(501, "content properties do not match their flags")
