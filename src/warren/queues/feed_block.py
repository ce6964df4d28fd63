"""One block of an events feed: rows of what happened, in columns that Arrow takes as they lie.

    magic     4   "WFB1"
    rows      4   u32
    life      8   the session of the node's life that tells
    number    8   of the block, in that life and vhost, from 1
    left_out  8   rows that this life could not tell of before
    queues    4   u32: queues that rows name
    texts     4   u32: texts, of which the first two are the vhost and the node
    time, first, count, bytes, consumer      8 a row each, i64
    queue, text                              4 a row each, i32
    incarnations                             8 a queue
    event, reason                            1 a row each
    sizes                                    4 a queue and a text, u32: names of queues come first
    names and texts                          UTF-8

All numbers are little-endian; what a row does not have is -1. docs/formats/feed.md has the numbers
of events and reasons.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

MAGIC: Final = b"WFB1"
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


@final
class FeedBlock:
    """A block that is being written.

    Attributes:
        rows: How many it has.
        text_bytes: What its texts and names of queues take.
    """

    def __init__(self, vhost: str, node: str) -> None:
        self.rows: i64 = 0
        self.text_bytes: i64 = 0
        self._times: BytesWriter = BytesWriter()
        self._firsts: BytesWriter = BytesWriter()
        self._counts: BytesWriter = BytesWriter()
        self._sizes: BytesWriter = BytesWriter()
        self._consumers: BytesWriter = BytesWriter()
        self._queues: BytesWriter = BytesWriter()
        self._texts: BytesWriter = BytesWriter()
        self._events: BytesWriter = BytesWriter()
        self._reasons: BytesWriter = BytesWriter()
        self._incarnations: BytesWriter = BytesWriter()
        self._names: list[bytes] = []
        self._known: dict[str, int] = {}
        self._said: list[bytes] = []
        self.text(vhost)
        self.text(node)

    def queue(self, name: str, incarnation: i64) -> i64:
        """Add a queue, which has a row; gives its place among them."""
        write_i64_le(self._incarnations, incarnation)
        data = _utf8(name)
        self._names.append(data)
        self.text_bytes += len(data)
        return len(self._names) - 1

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
        size: i64,
        consumer: i64,
        text: i64,
    ) -> None:
        """Add a row; `NONE` is what it does not have."""
        self.rows += 1
        self._events.append(int(event))
        self._reasons.append(int(reason))
        write_i64_le(self._times, time_ms)
        write_i64_le(self._firsts, first)
        write_i64_le(self._counts, count)
        write_i64_le(self._sizes, size)
        write_i64_le(self._consumers, consumer)
        write_i32_le(self._queues, i32(queue))
        write_i32_le(self._texts, i32(text))

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
        names = self._names + self._said
        sizes = BytesWriter()
        for name in names:
            write_i32_le(sizes, i32(len(name)))
        parts = [
            head.getvalue(),
            self._times.getvalue(),
            self._firsts.getvalue(),
            self._counts.getvalue(),
            self._sizes.getvalue(),
            self._consumers.getvalue(),
            self._queues.getvalue(),
            self._texts.getvalue(),
            self._incarnations.getvalue(),
            self._events.getvalue(),
            self._reasons.getvalue(),
            sizes.getvalue(),
        ]
        parts.extend(names)
        return b"".join(parts)


def _utf8(text: str) -> bytes:
    """A text; what was no UTF-8 as it came is replaced."""
    if text.isascii():
        return text.encode()
    data = text.encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "replace").encode()
