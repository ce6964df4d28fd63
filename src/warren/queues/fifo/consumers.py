"""Consumers as a queue's machine sees them: credit, and what they hold.

A message handed to a consumer gets the consumer's next *message id*, dense from 0, so that a run
of settled ids is a pair of integers however many consumers share the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.queues.fifo.locks import Locks
from warren.queues.fifo.pieces import Piece, Pieces
from warren.queues.fifo.runs import Run, as_run

if TYPE_CHECKING:
    from warren.queues.feed import ConsumerRuns
    from warren.queues.fifo.service import Level

SERVED: Final = 0
"""It stands in line when it has room, as all do where several are served."""
WAITING: Final = 1
"""Another consumer is active."""
QUIESCING: Final = 2
"""It was active, and gets nothing more; another one is when it has settled what it holds."""
TIMED_OUT: Final = 3
"""It held messages for too long, and gets nothing more before it has settled these."""


@final
class Limiter:
    """A prefetch limit shared by all consumers of one channel (`basic.qos` with `global`).

    Attributes:
        limit: Most unsettled messages at a time; 0 means no limit.
        used: Unsettled messages now.
    """

    def __init__(self) -> None:
        self.limit: i64 = 0
        self.used: i64 = 0

    def used_up(self) -> bool:
        """Whether nothing more may be handed out under it."""
        return 0 < self.limit <= self.used


@final
class Consumer:
    """One consumer of one queue.

    Attributes:
        credit: Messages it may still be given.
        priority: Higher ones are served first while they have credit.
        held: Messages it holds unsettled.
        active: False once cancelled: it keeps what it holds and gets nothing more.
        standing: Whether it is served, one of the constants above.
        paused: True while its node cannot pass messages on (never set for a quorum queue).
        automatic: Whether what it is handed counts as settled when it is gone.
        locks: Until when it may hold what, if it may not hold it for ever.
        suspected: Whether nobody hears its node, so that it gets nothing more for now.
        limited: Whether its shared limit was found used up when its turn came.
        told: What an events feed was last told of it; None without one.
    """

    def __init__(self, consumer_id: i64, credit: i64, priority: i64) -> None:
        self.id: i64 = consumer_id
        self.credit: i64 = credit
        self.priority: i64 = priority
        self.held: i64 = 0
        self.active: bool = True
        self.standing: i64 = SERVED
        self.paused: bool = False
        self.automatic: bool = False
        self.suspected: bool = False
        self.limited: bool = False
        self.limiter: Limiter | None = None
        self.locks: Locks | None = None
        self.told: ConsumerRuns | None = None
        self.next_mid: i64 = 0
        self.line: Level | None = None
        self.before: Consumer | None = None
        self.after: Consumer | None = None
        self._lone: Run | None = None
        """All that it holds, while that is one run; then `_holding` is empty."""
        self._holding: Pieces = Pieces()
        self._behind: i64 = -1
        """The number after the newest message that it was handed."""

    def willing(self) -> bool:
        """Whether it stands in line, as far as it is for itself to say."""
        if self.paused or self.suspected:
            return False
        return self.active and self.credit > 0 and self.standing == SERVED

    def room(self) -> i64:
        """How many messages it may be given right now."""
        if not self.active or self.paused or self.suspected or self.standing != SERVED:
            return 0
        limiter = self.limiter
        if limiter is not None and limiter.limit > 0:
            left = limiter.limit - limiter.used
            return min(self.credit, left)
        return self.credit

    def hold(self, first: i64, count: i64, acquired: i64, failed: i64) -> i64:
        """Take messages; returns the id of the first."""
        mid = self.next_mid
        self.next_mid += count
        self.held += count
        self.credit -= count
        limiter = self.limiter
        if limiter is not None:
            limiter.used += count
        if first != self._behind or not self._grow(mid, first, count, acquired, failed):
            run = Run(mid, first, count, acquired, failed)
            if self.held == count:
                # Who works on a message at a time has never more than this.
                self._lone = run
            else:
                self._spread()
                self._holding.push(run)
        self._behind = first + count
        return mid

    def _grow(self, mid: i64, first: i64, count: i64, acquired: i64, failed: i64) -> bool:
        """Have messages be part of the newest run, if it still ends just before them."""
        tail = self.newest()
        if tail is None or tail.key + tail.count != mid:
            return False
        if not tail.precedes(first, acquired, failed):
            return False
        if tail is self._lone:
            tail.count += count
        else:
            self._holding.grow_tail(count)
        return True

    def _spread(self) -> None:
        """Keep what it holds in chunks, which can be cut, and be looked at as they are now."""
        run = self._lone
        if run is not None:
            self._lone = None
            self._holding.push(run)

    def release(self, mid_first: i64, mid_last: i64) -> list[list[Piece]]:
        """Give up the ids `mid_first..mid_last`; ids that it does not hold are ignored.

        Returns the runs that were held, in order, in lists. Credit is not touched.
        """
        run = self._lone
        if run is not None and mid_first <= run.key and run.key + run.count - 1 <= mid_last:
            self._lone = None
            taken: list[list[Piece]] = [[run]]
            count = run.count
        else:
            self._spread()
            holding = self._holding
            taken = holding.take(mid_first, mid_last)
            count = self.held - holding.count
        self.held -= count
        limiter = self.limiter
        if limiter is not None:
            limiter.used -= count
        return taken

    def first_held(self) -> i64:
        """The lowest id that it holds; -1 if it holds nothing."""
        return self.lowest() if self.held > 0 else -1

    def lowest(self) -> i64:
        """The lowest id that it holds; it must hold something."""
        run = self._lone
        return self._holding.head().key if run is None else run.key

    def newest(self) -> Run | None:
        """The run with the newest message that it holds, at its end; None if it holds nothing."""
        if self._lone is not None:
            return self._lone
        tail = self._holding.tail()
        return None if tail is None else as_run(tail)

    def holding(self, mid: i64 = 0) -> list[Run]:
        """All that it holds from an id on, and some before that, in id order."""
        self._spread()
        found: list[Run] = []
        chunks = self._holding.chunks()
        for at in range(self._holding.chunks_from(mid), i64(len(chunks))):
            for piece in chunks[at].live():
                found.append(as_run(piece))
        return found

    def freeze(self) -> list[list[Piece]]:
        """All that it holds now, in id order, in lists."""
        self._spread()
        return self._holding.freeze()
