"""One block of an events feed: rows of what happened, in columns as narrow as what they say.

    magic      4   "WFB2"
    rows       4   u32
    life       8   the session of the node's life that tells
    number     8   of the block, in that life and vhost
    left_out   8   rows that this life could not tell of before
    queues     4   u32: queues that rows name
    texts      4   u32: texts, of which the first two are the vhost and the node
    consumers  4   u32: consumers that rows name
    sized      4   u32: rows of event 0, which alone have bytes
    columns    9 each: base i64, width u8
    incarnations, origins            8 a queue
    consumers                        8 each
    the columns                      width a row (of `bytes`, a row of event 0)
    sizes                            4 a queue and a text, u32: names of queues come first
    names and texts                  UTF-8

A column's value is its base and what a row has of it: nothing where all are alike, or u8, i16, i32
or i64, by the width in bytes. All numbers are little-endian; what a row does not have is -1.
docs/formats/feed.md has the columns, and the numbers of events and reasons.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i16_le, write_i32_le, write_i64_le
from librt.vecs import append, vec
from mypy_extensions import i16, i32, i64, u8

MAGIC: Final = b"WFB2"
NONE: Final = -1
"""What a row does not have."""

PUBLISHED: Final = 0
CONFIRMED: Final = 1
DELIVERED: Final = 2
ACKED: Final = 3
RETURNED: Final = 4
REJECTED: Final = 5
DEAD_LETTERED: Final = 6
DROPPED: Final = 7
LEADING: Final = 8
LIFE_CYCLE: Final = 9
"""What happened; the text of a row of the last kind says what."""

BY_DEATH: Final = 0
"""The reasons of `message.dead_letters` are these numbers, too."""
NO_REASON: Final = 16
REDELIVERED: Final = 17
REQUEUED: Final = 18
GONE: Final = 19
TIMEOUT: Final = 20
PURGED: Final = 21
LOST: Final = 22
UNSEEN: Final = 23


TIME: Final = 0
FIRST: Final = 1
COUNT: Final = 2
STEP: Final = 3
WHAT: Final = 4
"""The last cell of a row is all that takes few bits."""
CELLS: Final = 5
"""So many has each row."""

PLACE: Final = 0x1FFFF
"""Bits of a place, of which there is one more for `NONE`: a block names fewer things."""
CONSUMER_SHIFT: Final = 0
QUEUE_SHIFT: Final = 17
TEXT_SHIFT: Final = 34
EVENT: Final = 0xF
EVENT_SHIFT: Final = 51
REASON: Final = 0x1F
REASON_SHIFT: Final = 55

LEAST_ROWS: Final = 64
KEPT_ROWS: Final = 8_192
"""Memory for so many rows at most, 330 KB, is handed on from a block to the next one,"""
SPARE: Final = 8
"""and no more than for so many times the rows that the block had."""


@final
class FeedBlock:
    """A block that is being written.

    Attributes:
        nth: Which one of its writer's it is.
        rows: How many it has.
        text_bytes: What its texts and names of queues take.
    """

    def __init__(self, vhost: str, node: str, before: FeedBlock | None = None) -> None:
        """Begin a block.

        Args:
            before: The one before it, that was encoded and is nobody's any more: this one takes
                its memory over.
        """
        self.nth: i64 = 0
        self.rows: i64 = 0
        self.text_bytes: i64 = 0
        self._cells: vec[i64] = vec[i64]()
        """Row behind row, so that a row is written at one place; what is behind them is old."""
        self._mixed: i64 = 0
        """Which bits of `WHAT` are not alike in all rows."""
        if before is not None:
            self.nth = before.nth + 1
            kept = min(KEPT_ROWS, max(LEAST_ROWS, SPARE * before.rows))
            if len(before._cells) <= kept * CELLS:
                self._cells = before._cells
        self._sizes: vec[i64] = vec[i64]()
        self._incarnations: vec[i64] = vec[i64]()
        self._origins: vec[i64] = vec[i64]()
        """By queue, the number that its messages are counted from: that of its first row."""
        self._ids: vec[i64] = vec[i64]()
        self._names: list[bytes] = []
        self._known: dict[str, int] = {}
        self._said: list[bytes] = []
        self.text(vhost)
        self.text(node)

    def queue(self, name: str, incarnation: i64) -> i64:
        """Add a queue, which has a row; gives its place among them."""
        self._incarnations = append(self._incarnations, incarnation)
        self._origins = append(self._origins, NONE)
        data = _utf8(name)
        self._names.append(data)
        self.text_bytes += len(data)
        return len(self._names) - 1

    def consumer(self, consumer_id: i64) -> i64:
        """Add a consumer, or one that is there once more; gives its place among them."""
        self._ids = append(self._ids, consumer_id)
        return len(self._ids) - 1

    def text(self, text: str) -> i64:
        """The place of a text among them; it is added where it is new."""
        known = self._known.get(text)
        if known is not None:
            return known
        place = len(self._said)
        data = _utf8(text)
        self._known[text] = place
        self._said.append(data)
        self.text_bytes += len(data)
        return place

    def row(
        self,
        event: i64,
        reason: i64,
        time_ms: i64,
        queue: i64,
        first: i64,
        count: i64,
        step: i64,
        size: i64,
        consumer: i64,
        text: i64,
    ) -> None:
        """Add a row; `NONE` is what it does not have.

        Args:
            queue, consumer, text: Places among those of the block.
            step: How far the numbers of its messages lie apart.
            size: Bytes of the messages; of `PUBLISHED` alone, the others have none.
        """
        at = self.rows * CELLS
        if at == len(self._cells):
            self._grow()
        self.rows += 1
        what = (
            (consumer + 1) << CONSUMER_SHIFT
            | (queue + 1) << QUEUE_SHIFT
            | (text + 1) << TEXT_SHIFT
            | event << EVENT_SHIFT
            | reason << REASON_SHIFT
        )
        counted: i64 = 0
        if queue >= 0:
            origins = self._origins
            if origins[queue] < 0:
                origins[queue] = first
            counted = first - origins[queue]
        cells = self._cells
        cells[at + TIME] = time_ms
        cells[at + FIRST] = counted
        cells[at + COUNT] = count
        cells[at + STEP] = step
        cells[at + WHAT] = what
        self._mixed |= what ^ cells[WHAT]
        if event == PUBLISHED:
            self._sizes = append(self._sizes, size)

    def _grow(self) -> None:
        """Make room for twice as many rows."""
        cells = self._cells
        for _ in range(max(LEAST_ROWS * CELLS, i64(len(cells)))):
            cells = append(cells, 0)
        self._cells = cells

    def encode(self, life: i64, number: i64, left_out: i64) -> bytes:
        """The block, which nothing is added to any more."""
        head = BytesWriter()
        head.write(MAGIC)
        write_i32_le(head, i32(self.rows))
        write_i64_le(head, life)
        write_i64_le(head, number)
        write_i64_le(head, left_out)
        write_i32_le(head, i32(len(self._names)))
        write_i32_le(head, i32(len(self._said)))
        write_i32_le(head, i32(len(self._ids)))
        write_i32_le(head, i32(len(self._sizes)))
        columns = BytesWriter()
        behind = self.rows * CELLS
        for cell in range(i64(WHAT)):
            _narrow(head, columns, self._cells, cell, behind, CELLS, 0, -1, 0)
        self._narrow_what(head, columns, CONSUMER_SHIFT, PLACE, 1)
        self._narrow_what(head, columns, QUEUE_SHIFT, PLACE, 1)
        self._narrow_what(head, columns, TEXT_SHIFT, PLACE, 1)
        self._narrow_what(head, columns, EVENT_SHIFT, EVENT, 0)
        self._narrow_what(head, columns, REASON_SHIFT, REASON, 0)
        _narrow(head, columns, self._sizes, 0, len(self._sizes), 1, 0, -1, 0)
        _write_all(head, self._incarnations)
        _write_all(head, self._origins)
        _write_all(head, self._ids)
        names = self._names + self._said
        for name in names:
            write_i32_le(columns, i32(len(name)))
        return b"".join([head.getvalue(), columns.getvalue(), *names])

    def _narrow_what(
        self, head: BytesWriter, columns: BytesWriter, shift: i64, bits: i64, less: i64
    ) -> None:
        """Write a column of those that share a cell."""
        # Mostly all rows are alike in it, of which one is looked at then.
        rows = self.rows
        if self._mixed >> shift & bits == 0:
            rows = min(rows, 1)
        _narrow(head, columns, self._cells, WHAT, rows * CELLS, CELLS, shift, bits, less)


def _narrow(
    head: BytesWriter,
    out: BytesWriter,
    cells: vec[i64],
    first: i64,
    behind: i64,
    apart: i64,
    shift: i64,
    bits: i64,
    less: i64,
) -> None:
    """Write a column: its base and width to the head, and what rows have of it to the others.

    Args:
        cells, first, behind, apart: Where its values are: in each so manieth cell from one on.
        shift, bits: Which bits of a cell: so many from the lowest, then those of a mask.
        less: By how much the bits are higher than what they say.
    """
    low = less
    if behind > first:
        low = cells[first] >> shift & bits
    high = low
    at = first
    while at < behind:
        value = cells[at] >> shift & bits
        if value < low:
            low = value
        elif value > high:
            high = value
        at += apart
    most = high - low
    base = low
    width = 1
    if most == 0:
        width = 0
    elif most >= 1 << 32:
        width = 8
    elif most >= 1 << 16:
        width = 4
        base += 1 << 31
    elif most >= 1 << 8:
        width = 2
        base += 1 << 15
    write_i64_le(head, base - less)
    head.append(width)
    at = first
    if width == 1:
        while at < behind:
            out.append(u8((cells[at] >> shift & bits) - base))
            at += apart
    elif width == 2:
        while at < behind:
            write_i16_le(out, i16((cells[at] >> shift & bits) - base))
            at += apart
    elif width == 4:
        while at < behind:
            write_i32_le(out, i32((cells[at] >> shift & bits) - base))
            at += apart
    elif width == 8:
        while at < behind:
            write_i64_le(out, (cells[at] >> shift & bits) - base)
            at += apart


def _write_all(out: BytesWriter, values: vec[i64]) -> None:
    """Write numbers as they are."""
    for at in range(i64(len(values))):
        write_i64_le(out, values[at])


def _utf8(text: str) -> bytes:
    """A text; what was no UTF-8 as it came is replaced."""
    if text.isascii():
        return text.encode()
    data = text.encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "replace").encode()
