"""Messages between nodes about queues of other nodes, by lines (see `proxying.py`).

Each begins as `replication.frames` says, and goes on with the number of the line, i64:

    OPEN, OPENED, CLOSE   group 0, nothing more
    CLOSED    nothing more; group 0, or that of a queue that its node cannot start
    MESSAGES  sequence i64, flags u8, count u32, lengths count x u32, payload
    COMMANDS  sequence i64, flags u8, commands of `queues.fifo.commands`
    STORED    as often as need be: sequence i64, refused u8; if that is 2 there was no room for
              some: count u32, and for each stretch of them first u32, count u32
    REPLY     sequence, code, a, ready, consumers: i64 each; for a polled message then what
              DELIVER says
    DELIVER   consumer, id, first, acquired: i64 each; count u32, lengths count x u32, payload
    GRANT     consumer, messages, bytes: i64 each
    HOLD      held u8

The upper four bits of a count are the flavour of the messages, as in a PROPOSE. Behind the flags
of MESSAGES with EXPIRING among them a u32 says after what time they expire, as there.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from warren.replication.frames import head

PERSISTENT: Final = 1
CONFIRMS: Final = 2
EXPIRING: Final = 4
WANTED: Final = 1
EXCLUSIVE: Final = 2

REFUSED: Final = 1
REJECTED: Final = 2
"""What becomes of messages that could not be stored, or not all."""

LINE_BYTES: Final = 17

COUNT_MAX: Final = (1 << 32) - 1
"""As many messages or consumers clients can be told of."""
NUMBER_MAX: Final = 1 << 60
"""No message has a higher number, nor comes back more often: nothing that is added overflows."""


def line_head(kind: i64, group_id: i64, number: i64) -> BytesWriter:
    """The beginning of a frame of a line."""
    writer = head(kind, group_id)
    write_i64_le(writer, number)
    return writer


def number_at(frame: bytes, position: i64) -> i64:
    """The number at a position behind the line's, which are all 64 bits wide."""
    return read_i64_le(frame, LINE_BYTES + 8 * position)
