"""Messages of a quorum queue that came back, and wait for a time before they are ready again.

How long is said by the settings that were in force when they came back: the shortest time for each
delivery that failed, up to the longest one. They are kept by when they are due, and those that are
due at once by their numbers, as runs: a million that came back together are one.

A time is rounded up by at most a 1024th of how long it is, to a multiple of a power of two. So
there are no more than some thousand different ones for each doubling of the delay, however many
messages wait, and at a snapshot or a look at what is due all of them are few.

Source: 2.3 of the acceptance (`rabbit_fifo` of RabbitMQ 4.3).
"""

from __future__ import annotations

import heapq
from typing import Final, final

from mypy_extensions import i64

from warren.queues.fifo.pieces import Piece, opened
from warren.queues.fifo.runs import Run, RunQueue, as_run
from warren.queues.fifo.sizes import Sizes

DISABLED: Final = 0
"""What returns is ready at once."""
ALL: Final = 1
"""All that returns waits."""
FAILED: Final = 2
"""What returns waits if a delivery failed."""
RETURNED: Final = 3
"""It waits if none did."""

GRAIN_BITS: Final = 10
"""A delay is rounded up by no more than this power of two's part of it."""

DELAY_MS_MAX: Final = 1 << 60
"""No message waits longer: that is 36 million years."""


@final
class Retry:
    """What waits of what returns, and for how long; it does not change.

    Attributes:
        kind: One of the constants above.
        min_ms: How long it waits after a first failure, or none; above 0.
        max_ms: How long it waits at most; above 0.
    """

    def __init__(self, kind: i64, min_ms: i64, max_ms: i64) -> None:
        self.kind: i64 = kind
        self.min_ms: i64 = min(min_ms, DELAY_MS_MAX)
        self.max_ms: i64 = min(max_ms, DELAY_MS_MAX)

    def same(self, other: Retry) -> bool:
        """Whether both say the same."""
        if self.kind != other.kind:
            return False
        return self.min_ms == other.min_ms and self.max_ms == other.max_ms

    def delays(self, failed: bool) -> bool:
        """Whether it has messages wait whose deliveries failed, or did not."""
        return self.kind == ALL or self.kind == (FAILED if failed else RETURNED)

    def due_ms(self, since_ms: i64, failed: i64) -> i64:
        """When messages are due that came back at a time, and failed so often in all."""
        delay = self.max_ms
        if failed <= 1:
            delay = min(delay, self.min_ms)
        elif self.min_ms <= delay // failed:
            delay = self.min_ms * failed
        grain: i64 = 1
        while grain << (GRAIN_BITS + 1) <= delay:
            grain <<= 1
        due = since_ms + delay + grain - 1
        return due - due % grain


NO_RETRY: Final = Retry(DISABLED, 1, 1)


@final
class Delayed:
    """The messages that wait, by when they are due.

    Attributes:
        count: How many there are.
        bytes: What they take.
    """

    def __init__(self, sizes: Sizes) -> None:
        """
        Args:
            sizes: Knows all messages that come here.
        """
        self.count: i64 = 0
        self.bytes: i64 = 0
        self._sizes: Sizes = sizes
        self._times: list[int] = []
        """When any are due; a heap."""
        self._queues: dict[int, RunQueue] = {}
        """Those that are due at each of these times, by number."""

    def put(self, run: Run, due_ms: i64) -> None:
        """Messages that are nobody else's any more wait until a time."""
        self.count += run.count
        self.bytes += self._sizes.of(run.first, run.count)
        self._queue(due_ms).insert(run)

    def _queue(self, due_ms: i64) -> RunQueue:
        found = self._queues.get(due_ms)
        if found is None:
            found = RunQueue()
            self._queues[due_ms] = found
            heapq.heappush(self._times, due_ms)
        return found

    def due_ms(self) -> i64:
        """When the first are due; there must be some."""
        return self._times[0]

    def is_due(self, now_ms: i64) -> bool:
        """Whether some have waited long enough."""
        return self.count > 0 and i64(self._times[0]) <= now_ms

    def head(self) -> Run:
        """Some of those that are due first; there must be some."""
        return self._queues[self._times[0]].head()

    def take(self, first: i64, count: i64) -> None:
        """Take so many messages, at most all, from `head`, which begins with the first."""
        self.bytes -= self._sizes.of(first, count)
        self.count -= count
        queue = self._queues[self._times[0]]
        queue.take(count)
        if queue.count == 0:
            del self._queues[heapq.heappop(self._times)]

    def take_all(self) -> list[list[Piece]]:
        """Take everything out, in lists."""
        lists: list[list[Piece]] = []
        for due_ms in sorted(self._times):
            lists.extend(self._queues[due_ms].take_all())
        self._times = []
        self._queues = {}
        self.count = 0
        self.bytes = 0
        return lists

    def freeze(self) -> list[list[Piece]]:
        """All of it as it is now, in lists that do not change."""
        lists: list[list[Piece]] = []
        for _, frozen in self.by_time():
            lists.extend(frozen)
        return lists

    def by_time(self) -> list[tuple[int, list[list[Piece]]]]:
        """The same for a snapshot: in order, for each time its lists."""
        return [(due_ms, self._queues[due_ms].freeze()) for due_ms in sorted(self._times)]

    def restore(self, run: Run, due_ms: i64) -> None:
        """A snapshot has this; those of one time come in order."""
        self.count += run.count
        self.bytes += self._sizes.of(run.first, run.count)
        self._queue(due_ms).add(run)

    def quadruples(self) -> list[tuple[int, int, int, int]]:
        """All as (first, last, acquired, failed), in the order in which they are due."""
        found: list[tuple[int, int, int, int]] = []
        for pieces in self.freeze():
            for piece in opened(pieces):
                run = as_run(piece)
                last = int(run.first + run.count - 1)
                found.append((int(run.first), last, int(run.acquired), int(run.failed)))
        return found
