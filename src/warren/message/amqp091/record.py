"""Records of AMQP 0-9-1: the frames of a publish, as they came, and what stands where in them.

    0                        content_at            first body frame
    +------------------------+---------------------+------------------+-----
    | method frame           | content header frame| body frame       | ...   0 or more
    +------------------------+---------------------+------------------+-----

    frame: u8 type · u16 channel · u32 size · payload of that size · u8 0xCE, numbers big-endian

    method frame, from its start              content header frame, from its start
     0  frame head, type 1                     0  frame head, type 2
     7  u32 BASIC_PUBLISH                      7  u16 class 60 · u16 weight 0
    11  u16 ticket                            11  u64 body size in bytes
    13  exchange shortstr                     19  properties bytes: u16 flags, values
        routing key shortstr                      u8 0xCE
        u8 bits · u8 0xCE

Between the bits and the end of a method frame there may be a note of the broker's: `note` has it.

The channel is that of the publisher, and means nothing any more. Body frames are those of the
publisher too, but for small ones, which are cut anew as they are collected.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.limits import FRAME_OVERHEAD_BYTES
from warren.message.amqp091.scan import validate_properties
from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.frame import FRAME_END
from warren.wire.amqp091.properties import (
    FLAG_CONTENT_ENCODING,
    FLAG_CONTENT_TYPE,
    FLAG_DELIVERY_MODE,
    FLAG_HEADERS,
    FLAG_PRIORITY,
    skip_shortstr,
    skip_table,
)

BASIC_PUBLISH: Final = (60 << 16) + 40
BASIC: Final = 60

FRAME_HEAD_BYTES: Final = 7
NAMES_AT: Final = 13
"""From a method frame's start to the exchange, behind which the routing key follows."""
NAMES_TAIL_BYTES: Final = 2
"""Behind the routing key: the bits of the publish, and the end of the method frame; with a note
between them there is more."""
NOTE_BYTES_MIN: Final = 7
"""Of a note, if there is one."""
DEAD: Final = 1
ALONE: Final = 2
"""Flags of a note."""
BODY_SIZE_AT: Final = 11
"""From a content header frame's start to the size of the body."""
HEADER_PROPERTIES_AT: Final = 19
"""From a content header frame's start to the properties bytes."""


def content_at(record: bytes, at: i64) -> i64:
    """Where the content header frame of the record at `at` begins: the method frame ends there."""
    return at + FRAME_OVERHEAD_BYTES + i64(read_i32_be(record, at + 3))


def names_end(data: bytes, at: i64) -> i64:
    """Where the exchange and the routing key of the record at `at` end: the bits are there."""
    name = at + NAMES_AT
    name += 1 + i64(data[name])
    return name + 1 + i64(data[name])


def names_in(names: bytes) -> i64:
    """Where the exchange and the routing key, with which these bytes begin, end."""
    at: i64 = 1 + i64(names[0])
    return at + 1 + i64(names[at])


def content_bytes(record: bytes, at: i64, with_properties: bool) -> i64:
    """The size of the body of the record at `at`, and of the properties if these count."""
    content = content_at(record, at)
    size = read_i64_be(record, content + BODY_SIZE_AT)
    if with_properties:
        header_end = content + FRAME_HEAD_BYTES + i64(read_i32_be(record, content + 3))
        size += header_end - content - HEADER_PROPERTIES_AT
    return size


def priority_of(record: bytes, at: i64) -> i64:
    """The priority of the record at `at`; -1 if it has none."""
    content = content_at(record, at)
    at = content + HEADER_PROPERTIES_AT
    flags = i64(record[at]) << 8 | i64(record[at + 1])
    if not flags & FLAG_PRIORITY:
        return -1
    end = content + FRAME_HEAD_BYTES + i64(read_i32_be(record, content + 3))
    at += 2
    if flags & FLAG_CONTENT_TYPE:
        at = skip_shortstr(record, at, end)
    if flags & FLAG_CONTENT_ENCODING:
        at = skip_shortstr(record, at, end)
    if flags & FLAG_HEADERS:
        at = skip_table(record, at, end)
    if flags & FLAG_DELIVERY_MODE:
        at += 1
    return i64(record[at])


def failures_of(record: bytes, at: i64) -> i64:
    """How often deliveries of the record at `at` failed before, as the broker's note says."""
    note = names_end(record, at) + 1
    return i64(read_i32_be(record, note + 1)) if note + 1 < content_at(record, at) else 0


def properties_of(record: bytes, head: i64) -> bytes:
    """The properties bytes in the content header frame at `head`."""
    end = head + FRAME_HEAD_BYTES + i64(read_i32_be(record, head + 3))
    return record[head + HEADER_PROPERTIES_AT : end]


@final
class RecordCheck:
    """Looks at records one by one; properties like those of the record before are good."""

    def __init__(self) -> None:
        self._properties: bytes = b"\0\0"

    def passes(self, data: bytes, at: i64, end: i64) -> bool:
        """Whether a record lies there, whole; `end` is within `data`."""
        content = _frame_end(data, at, end, 1)
        if content < 0 or content - at < NAMES_AT + 4:
            return False
        if i64(read_i32_be(data, at + 7)) != BASIC_PUBLISH:
            return False
        # The exchange, the routing key, and an octet of flags.
        name = at + NAMES_AT
        name += 1 + i64(data[name])
        if name + 3 > content:
            return False
        name += 1 + i64(data[name])
        if name + NAMES_TAIL_BYTES != content and not is_note(data, name + 1, content - 1):
            return False
        body = _frame_end(data, content, end, 2)
        if body - content < 8 + 14 or i64(read_i32_be(data, content + 7)) >> 16 != BASIC:
            return False
        properties = data[content + HEADER_PROPERTIES_AT : body - 1]
        if properties != self._properties:
            try:
                validate_properties(properties, 0, len(properties))
            except ConnectionException:
                return False
            self._properties = properties
        left = read_i64_be(data, content + BODY_SIZE_AT)
        while body < end:
            behind = _frame_end(data, body, end, 3)
            if behind < 0:
                return False
            left -= behind - body - FRAME_OVERHEAD_BYTES
            body = behind
        return left == 0


def is_note(data: bytes, at: i64, end: i64) -> bool:
    """Whether `data[at:end]` is a note of the broker's."""
    if end - at < NOTE_BYTES_MIN or i64(data[at]) > DEAD | ALONE:
        return False
    count = i64(read_i16_be(data, at + 5))
    if count < 0 or i64(read_i32_be(data, at + 1)) < 0:
        return False
    at += NOTE_BYTES_MIN
    for _ in range(count):
        if at >= end:
            return False
        at += 1 + i64(data[at])
    return at == end


def _frame_end(data: bytes, at: i64, end: i64, kind: i64) -> i64:
    """The offset after a whole frame of a kind; -1 if there is none."""
    if end - at < 8 or data[at] != kind:
        return -1
    size = i64(read_i32_be(data, at + 3))
    behind = at + FRAME_OVERHEAD_BYTES + size
    if size < 0 or behind > end or data[behind - 1] != FRAME_END:
        return -1
    return behind
