"""Message records from elsewhere: whether they are the frames of a publish, as a node keeps them.

A record is the method frame of a `basic.publish`, its content header and the frames of its body.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.frame import FRAME_END
from warren.wire.amqp091.properties import validate_properties

BASIC_PUBLISH: Final = (60 << 16) + 40
BASIC: Final = 60
ENVELOPE_BYTES: Final = 7 + 4 + 2
"""A frame's head, the ids of class and method, and a ticket; exchange and routing key follow."""


@final
class RecordCheck:
    """Looks at records one by one; properties like those of the record before are good."""

    def __init__(self) -> None:
        self._properties: bytes = b"\0\0"

    def passes(self, data: bytes, at: i64, end: i64) -> bool:
        """Whether a record lies there, whole; `end` is within `data`."""
        content = _frame_end(data, at, end, 1)
        if content < 0 or content - at < ENVELOPE_BYTES + 4:
            return False
        if i64(read_i32_be(data, at + 7)) != BASIC_PUBLISH:
            return False
        # The exchange, the routing key, and an octet of flags.
        name = at + ENVELOPE_BYTES
        name += 1 + i64(data[name])
        if name + 3 > content:
            return False
        name += 1 + i64(data[name])
        if name + 2 != content:
            return False
        body = _frame_end(data, content, end, 2)
        if body - content < 8 + 14 or i64(read_i32_be(data, content + 7)) >> 16 != BASIC:
            return False
        properties = data[content + 19 : body - 1]
        if properties != self._properties:
            try:
                validate_properties(properties, 0, len(properties))
            except ConnectionException:
                return False
            self._properties = properties
        left = read_i64_be(data, content + 11)
        while body < end:
            behind = _frame_end(data, body, end, 3)
            if behind < 0:
                return False
            left -= behind - body - 8
            body = behind
        return left == 0


def _frame_end(data: bytes, at: i64, end: i64, kind: i64) -> i64:
    """The offset after a whole frame of a kind; -1 if there is none."""
    if end - at < 8 or data[at] != kind:
        return -1
    size = i64(read_i32_be(data, at + 3))
    behind = at + 8 + size
    if size < 0 or behind > end or data[behind - 1] != FRAME_END:
        return -1
    return behind
