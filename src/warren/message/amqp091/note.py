"""What the broker notes on a message that a client must not see, at the end of its method frame.

    routing key · u8 bits of the publish · note · u8 0xCE

    note: u8 flags · u32 failed · u16 count of keys · the keys, each a shortstr

Most records have none. A client's publish cannot bring one: what comes behind its last argument is
refused. So what a note says is the broker's own word, other than what headers say.

    flags  1  dead   the headers that tell of deaths are the broker's: it is a dead letter
           2  alone  the routing key counts alone; what CC and BCC named does not any more
    failed           how often deliveries of it failed, in all queues that it was in before
    keys             what its BCC header named, which is gone from its headers
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import (
    BytesWriter,
    read_i32_be,
    write_i16_be,
    write_i32_be,
)
from mypy_extensions import i16, i32, i64, u8

from warren.message.amqp091.record import (
    ALONE,
    DEAD,
    FRAME_HEAD_BYTES,
    NOTE_BYTES_MIN,
    content_at,
    names_end,
)

KEYS_MAX: Final = 0x7FFF
FAILED_MAX: Final = 0x7FFF_FFFF


@final
class Note:
    """See the module's head.

    Attributes:
        keys: As bytes, each of 255 at most.
    """

    def __init__(self, dead: bool, alone: bool, failed: i64, keys: list[bytes]) -> None:
        self.dead: bool = dead
        self.alone: bool = alone
        self.failed: i64 = failed
        self.keys: list[bytes] = keys

    def encode(self) -> bytes:
        """Its bytes, as they stand in the method frame."""
        out = BytesWriter()
        out.append(u8((DEAD if self.dead else 0) | (ALONE if self.alone else 0)))
        write_i32_be(out, i32(min(self.failed, FAILED_MAX)))
        keys = self.keys[:KEYS_MAX]
        write_i16_be(out, i16(len(keys)))
        for key in keys:
            out.append(u8(len(key)))
            out.write(key)
        return out.getvalue()


def no_note() -> Note:
    """What a record without a note says."""
    return Note(False, False, 0, [])


def failed_in(data: bytes, at: i64) -> i64:
    """How often deliveries failed, says the note that begins at `at`."""
    return i64(read_i32_be(data, at + 1))


def note_of(record: bytes, at: i64) -> Note:
    """What is noted on the record that begins at `at`, and was checked when it came."""
    return decode_note(record, names_end(record, at) + 1, content_at(record, at) - 1)


def decode_note(data: bytes, at: i64, end: i64) -> Note:
    """What the note `data[at:end]` says, which may be none."""
    note = no_note()
    if end - at < NOTE_BYTES_MIN:
        return note
    flags: i64 = data[at]
    note.dead = flags & DEAD != 0
    note.alone = flags & ALONE != 0
    note.failed = i64(read_i32_be(data, at + 1))
    at += NOTE_BYTES_MIN
    while at < end:
        behind = at + 1 + i64(data[at])
        note.keys.append(data[at + 1 : behind])
        at = behind
    return note


def with_note(record: bytes, note: Note) -> bytes:
    """A message with another note."""
    names = names_end(record, 0)
    content = content_at(record, 0)
    method = record[FRAME_HEAD_BYTES : names + 1] + note.encode()
    out = BytesWriter()
    out.write(record[:3])
    write_i32_be(out, i32(len(method)))
    out.write(method)
    out.write(record[content - 1 :])
    return out.getvalue()
