"""Messages that no disk has any more, and how a queue goes on without them.

What is lost is passed over from when it is known. What of it still counts is found out, and dropped
of what is ready, in parts: a queue may hold half a million runs, all of them in the file that is
damaged. A small queue is through with the first part, in the turn that brought the damage.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.log.runlist import LiveRuns, RunList
from warren.ports import Work

if TYPE_CHECKING:
    from warren.queues.lossy import LossyQueue

MATCHED_MAX: Final = 8_192
"""Stretches that one part finds to count still, or not to: some milliseconds."""

DROPPED_MAX: Final = 256
"""Stretches that one part drops, which is an entry of the log."""

OPENED_MAX: Final = 512
"""Packs of runs that are opened for it: a stretch lies in one of each level of priority, and in
more where it is long. Each is some 20 microseconds."""

PACKED_MIN: Final = 64
"""Messages of one level that lie in one pack, at least; of a short backlog nothing is packed."""


@final
class Losses:
    """Which messages are lost: stretches of numbers, ascending and joined."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def note(self, lost: list[tuple[int, int]]) -> None:
        """These are, too, known or not."""
        firsts = self._firsts
        lasts = self._lasts
        for first, last in lost:
            low = bisect_left(lasts, first - 1)
            behind = bisect_right(firsts, last + 1)
            if low < behind:
                first = min(first, firsts[low])
                last = max(last, lasts[behind - 1])
            firsts[low:behind] = [first]
            lasts[low:behind] = [last]

    def end(self, number: i64) -> i64:
        """The last one of those in a row with a number; -1 if that is not lost."""
        at = bisect_left(self._lasts, int(number))
        return self._lasts[at] if at < len(self._lasts) and self._firsts[at] <= number else -1

    def pairs(self) -> list[tuple[int, int]]:
        """All of them, as first and last numbers."""
        return list(zip(self._firsts, self._lasts, strict=True))


@final
class Matching(Work):
    """Finds out which of the messages that are lost still count.

    Attributes:
        over: Whether it has.
        found: Which they are, ascending.
    """

    def __init__(self, live: LiveRuns, lost: list[tuple[int, int]]) -> None:
        self.over: bool = False
        self.found: list[tuple[int, int]] = []
        self._live: LiveRuns = live
        self._gathered: bool = False
        self._lost: list[tuple[int, int]] = lost
        self._at: i64 = 0
        """Of what is lost, the stretch that is looked at."""
        self._from: i64 = 0
        """The first number that was not."""

    def go_on(self) -> bool:
        """Do the next part; whether it was the last."""
        if not self._gathered:
            self._gathered = self._live.go_on()
            if not self._gathered:
                return False
        runs: RunList = self._live.runs
        lost = self._lost
        room: i64 = MATCHED_MAX
        while self._at < len(lost):
            first = max(i64(lost[self._at][0]), self._from)
            last = i64(lost[self._at][1])
            turn = runs.find(first)
            while turn < runs.size and runs.first(turn) <= last:
                if room == 0:
                    return False
                room -= 1
                low = max(first, runs.first(turn))
                high = min(last, runs.last(turn))
                self.found.append((int(low), int(high)))
                self._from = high + 1
                turn += 1
            if room == 0:
                return False
            room -= 1
            self._at += 1
        self.over = True
        return True


@final
class Dropping(Work):
    """A queue goes on without messages that are lost, one damage after the other."""

    def __init__(self, queue: LossyQueue) -> None:
        self._queue: LossyQueue = queue
        self._damages: deque[CorruptRecord] = deque()
        self._lost: deque[list[tuple[int, int]]] = deque()
        """What is lost by each of them."""
        self._matching: Matching | None = None
        self._dropped: i64 = 0
        """Stretches of what was found to count that do not any more."""
        self._first: i64 = -1
        """Where what is left of the next one begins, if some of it was dropped; else -1."""

    def add(self, lost: list[tuple[int, int]], error: CorruptRecord) -> None:
        """These messages are lost by a damage."""
        self._lost.append(lost)
        self._damages.append(error)

    def go_on(self) -> bool:
        """Do the next part; whether it was the last."""
        queue = self._queue
        if queue.deleted:
            return True
        matching = self._matching
        if matching is None:
            matching = Matching(queue.fifo.gather_live([], []), self._lost[0])
            self._matching = matching
        if not matching.over:
            if not matching.go_on():
                return False
            if matching.found:
                queue.host.queue_lost(queue, matching.found, self._damages[0])
        part = self._part(matching.found)
        if part:
            queue.drop(part)
        if self._dropped < len(matching.found):
            return False
        self._matching = None
        self._dropped = 0
        self._lost.popleft()
        self._damages.popleft()
        if self._lost:
            return False
        queue.dropped()
        return True

    def _part(self, found: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The next messages to be dropped."""
        part: list[tuple[int, int]] = []
        levels: i64 = self._queue.fifo.ready.levels()
        room: i64 = OPENED_MAX
        while self._dropped < len(found) and len(part) < DROPPED_MAX and room > 0:
            first, last = found[self._dropped]
            if self._first >= 0:
                first = int(self._first)
            room -= min(levels, last - first + 1)
            most: i64 = max(room, 1) * PACKED_MIN
            if last - first >= most:
                last = int(first + most - 1)
                self._first = last + 1
            else:
                self._first = -1
                self._dropped += 1
            part.append((first, last))
            room -= (last - first + 1) // PACKED_MIN
        return part
