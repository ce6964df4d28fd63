"""How long a consumer has held messages: until when it may, and which it held for too long.

Message ids ascend with time, and all of a consumer's messages have the same time. So it is enough
to note now and then from which id on messages were handed out after a time: a few marks say until
when each message is locked, and a hand-out costs one comparison. A mark stands for all that is
handed out within a 256th of the timeout behind it, which is how much later than asked messages
may return; there are never many more than 256 of them.

Source: CT-01, CT-15; B-05.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.queues.fifo.cursor import Cursor
from warren.queues.fifo.pieces import Piece, Pieces
from warren.queues.fifo.sizes import NEVER

GRAIN_BITS: Final = 8
"""A mark stands for this power of two's part of the timeout."""

TIMEOUT_MS_MAX: Final = 1 << 60
"""No timeout is longer: what is asked for beyond is 36 million years."""


@final
class Locks:
    """The marks of one consumer.

    Attributes:
        timeout_ms: How long it may hold a message.
        late: Ids that returned because it held them for too long, and that it has not settled.
    """

    def __init__(self, timeout_ms: i64) -> None:
        self.timeout_ms: i64 = min(timeout_ms, TIMEOUT_MS_MAX)
        self.late: Pieces = Pieces()
        self._grain_ms: i64 = self.timeout_ms >> GRAIN_BITS
        self._mids: list[int] = []
        """From each of these ids on messages were handed out"""
        self._times: list[int] = []
        """at these times, or up to `_grain_ms` later."""
        self._newest_ms: i64 = NEVER
        """The last of them."""

    def wants_mark(self, now_ms: i64) -> bool:
        """Whether what is handed out now takes a mark of its own."""
        newest = self._newest_ms
        return newest == NEVER or not newest <= now_ms <= newest + self._grain_ms

    def mark(self, mid: i64, now_ms: i64, lowest: i64) -> i64:
        """Messages are handed out from an id on; gives until when these are locked.

        Args:
            lowest: The lowest id that is held, perhaps the same one: all before it is settled.
        """
        mids = self._mids
        done = 0
        while done + 1 < len(mids) and mids[done + 1] <= lowest:
            done += 1
        if lowest == mid:
            done = len(mids)
        if done > 0:
            del mids[:done]
            del self._times[:done]
        self.restore_mark(mid, now_ms)
        return now_ms + self._grain_ms + self.timeout_ms

    def deadline(self, mid: i64) -> i64:
        """Until when a message that is held is locked."""
        at = self._find(mid)
        return i64(self._times[at]) + self._grain_ms + self.timeout_ms

    def next_due(self, lowest: i64, now_ms: i64) -> i64:
        """No message is held for too long before this time; `NEVER` if none will be.

        Args:
            lowest: The lowest id that is held; -1 for none. What comes soon may still be under the
                newest mark.
        """
        if lowest >= 0:
            return self.deadline(lowest)
        if self._newest_ms == NEVER:
            return NEVER
        due = self._newest_ms + self._grain_ms + self.timeout_ms
        return due if due > now_ms else NEVER

    def due_behind(self, now_ms: i64, next_mid: i64) -> i64:
        """The first id that is not held for too long; `next_mid` if all are."""
        times = self._times
        mids = self._mids
        passed_ms = now_ms - self._grain_ms - self.timeout_ms
        for at in range(len(times)):
            if times[at] > passed_ms:
                return mids[at]
        return next_mid

    def keep_late(self, lists: list[list[Piece]]) -> None:
        """These were held for too long, and are not settled yet."""
        self.late.adopt(lists)

    def settled_late(self, first: i64, last: i64) -> bool:
        """Ids are settled, perhaps some of those; whether there are none left."""
        self.late.take(first, last)
        return self.late.count == 0

    def encode(self, out: BytesWriter) -> None:
        """Append what a snapshot has of them, but for what is late."""
        write_i64_be(out, self.timeout_ms)
        write_i32_be(out, i32(len(self._mids)))
        for at in range(len(self._mids)):
            write_i64_be(out, i64(self._mids[at]))
            write_i64_be(out, i64(self._times[at]))

    def restore_mark(self, mid: i64, time_ms: i64) -> None:
        """Add the next mark that a snapshot has."""
        self._mids.append(mid)
        self._times.append(time_ms)
        self._newest_ms = time_ms

    def _find(self, mid: i64) -> i64:
        """Which mark an id is under."""
        mids = self._mids
        low: i64 = 0
        high: i64 = len(mids)
        while high - low > 1:
            middle = (low + high) // 2
            if mids[middle] <= mid:
                low = middle
            else:
                high = middle
        return low


def read_locks(cursor: Cursor) -> Locks:
    """Read what `Locks.encode` wrote."""
    locks = Locks(cursor.long())
    for _ in range(cursor.count()):
        mid = cursor.long()
        locks.restore_mark(mid, cursor.long())
    return locks
