"""Find messages in record batches: from raw bytes to columns of positions, without a loop a row.

`table.read` hands out record batches as they lie in the log (`docs/formats/record-batch.md`)::

    header, 80 bytes   lengths, u32 LE x count   facts, if any   records, back to back

`parse` checks each batch's checksum and finds its records, whatever flavour they are of. A `Block`
holds records of flavour 0, of many batches: the frames of publishes, as they came
(`warren.message.amqp091.record` has a diagram)::

    method frame                        header frame                       body frames, 0 or more
    01 channel size                     02 channel size                    03 channel size
      003C 0028 0000                      003C weight u16                    body bytes
      exchange shortstr                   body size u64                    CE
      routing key shortstr                flags u16, properties
      bits u8                           CE
    CE

All is numpy columns: every step of decoding is one operation on a whole column, so a row costs
nanoseconds and rows of different shapes need no case of their own. The broker checked the frames
when they came; here it is checked that every part of every record ends where the next begins.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from warren.checksum import crc32
from warren.errors import CorruptRecord
from warren.limits import FRAME_OVERHEAD_BYTES
from warren.log.batch import (
    FORMAT_VERSION,
    HEADER_BYTES,
    KIND_MESSAGES,
    KIND_TRANSIENT,
    MAGIC,
    WITH_FACTS,
)
from warren.log.facts import facts_end
from warren.message.amqp091.record import (
    BODY_SIZE_AT,
    DEAD,
    FRAME_HEAD_BYTES,
    HEADER_PROPERTIES_AT,
    NAMES_AT,
    NAMES_TAIL_BYTES,
    NOTE_BYTES_MIN,
)

Positions = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

#: magic, size, checksum, kind, flavour, version, group, index, term, first, count, reserved, stamp,
#: session, sequence
HEADER: Final = struct.Struct("<IIIBBHQQQQIIqqq")

#: The checksum covers everything behind its own field.
CHECKED_FROM: Final = 12

_FLAGS_BYTES: Final = 2


class Stored:
    """Records of one flavour, of one `table.read`; positions are offsets into `data`.

    Attributes:
        flavour: What the records are (`warren.message.flavours`).
        data: The raw bytes the positions point into.
        numbers: Message numbers in the queue, ascending.
        stamps_ms: When the broker took each message, milliseconds since the epoch.
        starts, ends: Each record.
    """

    def __init__(
        self, flavour: int, data: bytes, numbers: Positions, stamps_ms: Positions,
        starts: Positions, ends: Positions,
    ) -> None:  # fmt: skip
        self.flavour = flavour
        self.data = data
        self.numbers = numbers
        self.stamps_ms = stamps_ms
        self.starts = starts
        self.ends = ends

    def __len__(self) -> int:
        return len(self.numbers)

    def select(self, rows: npt.NDArray[np.bool_]) -> Stored:
        """Some of the records, sharing the bytes."""
        if rows.all():
            return self
        return Stored(
            self.flavour, self.data, self.numbers[rows], self.stamps_ms[rows], self.starts[rows],
            self.ends[rows],
        )  # fmt: skip

    def part(self, first: int, last: int) -> Stored:
        """The records in the rows `first` to `last - 1`, sharing the bytes."""
        if first == 0 and last == len(self):
            return self
        cut = slice(first, last)
        return Stored(
            self.flavour, self.data, self.numbers[cut], self.stamps_ms[cut], self.starts[cut],
            self.ends[cut],
        )  # fmt: skip


class Block:
    """Messages that are frames of AMQP 0-9-1, as columns; positions are offsets into `data`.

    Attributes:
        data, numbers, stamps_ms, starts, ends: As in `Stored`.
        view: The data as numpy bytes.
        headers: Each content header frame.
        bodies: The first byte of each message's first body frame's payload.
        body_sizes: Bytes of each body.
        whole: Where the body is one piece; the rest are cut over several frames.
        flags: AMQP property flags.
        properties, properties_end: The encoded properties after the flags.
    """

    def __init__(self, stored: Stored) -> None:
        self.data = stored.data
        self.view: Bytes = np.frombuffer(stored.data, np.uint8)
        self.numbers = stored.numbers
        self.stamps_ms = stored.stamps_ms
        self.starts = stored.starts
        self.ends = stored.ends
        with np.errstate(over="ignore"):
            self._walk()

    def __len__(self) -> int:
        return len(self.numbers)

    def _walk(self) -> None:
        """Follow the frames of all records at once."""
        self.headers = self.starts + self.u32(self.starts + 3) + FRAME_OVERHEAD_BYTES
        after = self.headers + self.u32(self.headers + 3) + FRAME_OVERHEAD_BYTES
        self.flags = self.u16(self.headers + HEADER_PROPERTIES_AT)
        self.properties = self.headers + HEADER_PROPERTIES_AT + _FLAGS_BYTES
        self.properties_end = after - 1
        self.body_sizes = self.u64(self.headers + BODY_SIZE_AT)
        self.bodies = after + FRAME_HEAD_BYTES
        one_frame = after + self.body_sizes + FRAME_OVERHEAD_BYTES == self.ends
        self.whole: npt.NDArray[np.bool_] = one_frame | (self.body_sizes == 0)
        sound = (
            (self.view_at(self.starts) == 1)
            & (self.view_at(self.headers) == 2)
            & (self.properties <= self.properties_end)
            & (after <= self.ends)
            & (self.body_sizes >= 0)
            & ((self.body_sizes > 0) | (after == self.ends))
            & (after + self.body_sizes <= self.ends)
        )
        if not sound.all():
            bad = int(np.argmin(sound))
            raise CorruptRecord(
                "table.read", int(self.starts[bad]), f"message {self.numbers[bad]} has no frames"
            )

    def view_at(self, at: Positions) -> Bytes:
        """One byte at each position; a position outside the block reads as its border.

        A damaged length can point anywhere. What it leads to is refused by the checks of the
        callers; until then it must not stop the column.
        """
        return np.take(self.view, at, mode="clip")

    def u16(self, at: Positions) -> Positions:
        """The big-endian 16-bit number at each position."""
        return (self.view_at(at).astype(np.int64) << 8) | self.view_at(at + 1)

    def u32(self, at: Positions) -> Positions:
        """The big-endian 32-bit number at each position."""
        return (self.u16(at) << 16) | self.u16(at + 2)

    def u64(self, at: Positions) -> Positions:
        """Big-endian 64-bit numbers; from 2**63 on they come out negative."""
        return (self.u32(at) << 32) | self.u32(at + 4)

    def strings(self, lengths_at: Positions) -> tuple[Positions, Positions]:
        """Start and end of the short string whose length byte is at each position."""
        starts = lengths_at + 1
        return starts, starts + self.view_at(lengths_at)

    def routing(self) -> tuple[Positions, Positions, Positions, Positions]:
        """Start and end of each message's exchange name, then of its routing key.

        Raises:
            CorruptRecord: The names do not fill the method frame.
        """
        exchanges, exchanges_end = self.strings(self.starts + NAMES_AT)
        keys, keys_end = self.strings(exchanges_end)
        # Behind them the broker may have noted something, which is no shorter than an empty note.
        left = self.headers - keys_end - NAMES_TAIL_BYTES
        fits = (left == 0) | (left >= NOTE_BYTES_MIN)
        if not fits.all():
            bad = int(np.argmin(fits))
            raise CorruptRecord(
                "table.read", int(self.starts[bad]), f"message {self.numbers[bad]}: bad publish"
            )
        return exchanges, exchanges_end, keys, keys_end

    def dead(self) -> Bytes:
        """1 for each message that the broker has noted as a dead letter, and 0 for others."""
        names_end = self.routing()[3]
        noted = self.headers - names_end - NAMES_TAIL_BYTES >= NOTE_BYTES_MIN
        dead: Bytes = (noted & (self.view_at(names_end + 1) & DEAD != 0)).astype(np.uint8)
        return dead

    def body(self, row: int) -> bytes:
        """The body of one message, joined from its frames.

        Raises:
            CorruptRecord: The body frames do not add up to the announced size.
        """
        at = int(self.bodies[row]) - FRAME_HEAD_BYTES
        end = int(self.ends[row])
        pieces = []
        while at + FRAME_OVERHEAD_BYTES <= end and self.data[at] == 3:
            size = int.from_bytes(self.data[at + 3 : at + 7], "big")
            pieces.append(self.data[at + FRAME_HEAD_BYTES : at + FRAME_HEAD_BYTES + size])
            at += size + FRAME_OVERHEAD_BYTES
        body = b"".join(pieces)
        if at != end or len(body) != self.body_sizes[row]:
            raise CorruptRecord("table.read", at, f"message {self.numbers[row]} has a bad body")
        return body


class _Stretch:
    """Batches of one flavour that follow each other."""

    def __init__(self, flavour: int) -> None:
        self.flavour = flavour
        self.firsts: list[int] = []
        self.counts: list[int] = []
        self.stamps: list[int] = []
        self.payloads: list[int] = []
        self.lengths: list[npt.NDArray[np.uint32]] = []

    def stored(self, data: bytes) -> Stored:
        """The records of these batches, in their order."""
        sizes = np.concatenate(self.lengths).astype(np.int64)
        per_batch = np.array(self.counts, np.int64)
        batch_rows = np.cumsum(per_batch) - per_batch  # the row each batch starts with
        ends = np.cumsum(sizes)
        # Ends counted as if the payloads were back to back, moved to where each payload lies.
        ends += np.repeat(np.array(self.payloads) - (ends - sizes)[batch_rows], per_batch)
        rows = np.arange(len(sizes))
        numbers = rows + np.repeat(np.array(self.firsts, np.int64) - batch_rows, per_batch)
        stamps_ms = np.repeat(np.array(self.stamps, np.int64), per_batch)
        return Stored(self.flavour, data, numbers, stamps_ms, ends - sizes, ends)


def parse(data: bytes) -> list[Stored]:
    """Find all records in the bytes of whole record batches; batches of other kinds are skipped.

    Returns:
        The records in their order, those of batches of one flavour that follow each other together.

    Raises:
        CorruptRecord: The bytes are not record batches of a known version, or a checksum is wrong.
    """
    at = 0
    stretches: list[_Stretch] = []
    view = memoryview(data)
    while at < len(data):
        if len(data) - at < HEADER_BYTES:
            raise CorruptRecord("table.read", at, "the last record batch is cut")
        (magic, size, checksum, kind, flavour, version, _, _, _, first, count, _, stamp, _, _) = (
            HEADER.unpack_from(data, at)
        )
        if magic != MAGIC or version & ~(WITH_FACTS << 8) != FORMAT_VERSION:
            raise CorruptRecord("table.read", at, f"no record batch of version {FORMAT_VERSION}")
        if size < HEADER_BYTES + 4 * count or size > len(data) - at:
            raise CorruptRecord("table.read", at, f"a record batch of {size} bytes does not fit")
        if crc32(view[at + CHECKED_FROM : at + size]) != checksum:
            raise CorruptRecord("table.read", at, "wrong checksum")
        if count and kind in (KIND_MESSAGES, KIND_TRANSIENT):
            payload = at + HEADER_BYTES + 4 * count
            if version != FORMAT_VERSION:
                payload = facts_end(data, payload, count, at + size)
                if payload < 0:
                    raise CorruptRecord("table.read", at, "facts of messages that are not known")
            if not stretches or stretches[-1].flavour != flavour:
                stretches.append(_Stretch(flavour))
            stretch = stretches[-1]
            stretch.firsts.append(first)
            stretch.counts.append(count)
            stretch.stamps.append(stamp)
            stretch.payloads.append(payload)
            stretch.lengths.append(np.frombuffer(data, "<u4", count, at + HEADER_BYTES))
        at += size
    return [stretch.stored(data) for stretch in stretches]
