"""Messages that died in a quorum queue and stay there until they have reached another one.

Each gets a *death*, a number that ascends, in the order in which they died; whoever has a message
where it belongs settles its death. They are runs, as what consumers hold is, and of those of one
reason each run goes by itself: so a million messages that died together are one.

Source: DL-02, DL-03, DL-09; `rabbit_fifo_dlx` of RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64, mypyc_attr

from warren.message.dead_letters import REASONS
from warren.queues.fifo.pieces import Piece, Pieces
from warren.queues.fifo.runs import Run, as_run
from warren.queues.fifo.sizes import Sizes


@final
@mypyc_attr(acyclic=True)  # Nothing that it refers to leads back to it.
class Discards:
    """The dead letters that a queue keeps.

    Attributes:
        count: How many there are.
        bytes: What they take.
        next_death: The number of the next death.
    """

    def __init__(self, sizes: Sizes) -> None:
        """
        Args:
            sizes: Knows all messages that come here.
        """
        self.count: i64 = 0
        self.bytes: i64 = 0
        self.next_death: i64 = 0
        self._sizes: Sizes = sizes
        self._made: list[Pieces] | None = None
        """By reason, once there was any; the key of a run is its first message's death."""

    def _kept(self) -> list[Pieces]:
        """All of them, to be looked at."""
        return [] if self._made is None else self._made

    def add(self, first: i64, count: i64, reason: i64, acquired: i64, failed: i64) -> None:
        """Messages died behind all that did before."""
        self._put(Run(self.next_death, first, count, acquired, failed), reason)

    def _put(self, run: Run, reason: i64) -> None:
        made = self._made
        if made is None:
            made = self._made = [Pieces() for _ in REASONS]
        kept = made[reason]
        tail = kept.tail()
        if (
            tail is not None
            and tail.key + tail.count == run.key
            and as_run(tail).precedes(run.first, run.acquired, run.failed)
        ):
            kept.grow_tail(run.count)
        else:
            kept.push(run)
        self.next_death = run.key + run.count
        self.count += run.count
        self.bytes += self._sizes.of(run.first, run.count)

    def from_death(self, death: i64) -> tuple[Run | None, i64]:
        """The messages with the lowest deaths from one on, all for one reason, and that."""
        found: Run | None = None
        why: i64 = 0
        for reason, kept in enumerate(self._kept()):
            if kept.count == 0:
                continue
            if kept.holds(death):
                run = as_run(kept.at(death))
                offset = death - run.key
                part = Run(death, run.first + offset, run.count - offset, run.acquired, run.failed)
                return part, i64(reason)
            behind = kept.neighbours(death)[1]
            if behind is not None and (found is None or behind.key < found.key):
                found = as_run(behind)
                why = i64(reason)
        return found, why

    def settle(self, first: i64, last: i64) -> list[list[Piece]]:
        """Take out what died from one death to another, as far as it is here, in lists."""
        taken: list[list[Piece]] = []
        for kept in self._kept():
            if kept.count > 0:
                before = kept.count
                lists = kept.take(first, last)
                self.count -= before - kept.count
                for pieces in lists:
                    for piece in pieces:
                        run = as_run(piece)
                        self.bytes -= self._sizes.of(run.first, run.count)
                taken.extend(lists)
        return taken

    def take_all(self) -> list[list[Piece]]:
        """Take everything out, in lists."""
        taken: list[list[Piece]] = []
        for kept in self._kept():
            taken.extend(kept.take_all())
        self.count = 0
        self.bytes = 0
        return taken

    def freeze(self) -> list[list[Piece]]:
        """All of it as it is now, in lists that do not change."""
        frozen: list[list[Piece]] = []
        for kept in self._kept():
            frozen.extend(kept.freeze())
        return frozen

    def by_reason(self) -> list[list[list[Piece]]]:
        """The same for a snapshot: for each reason its lists."""
        if self._made is None:
            return [[] for _ in REASONS]
        return [kept.freeze() for kept in self._made]

    def restore(self, run: Run, reason: i64) -> None:
        """A snapshot has this; those of one reason come in order."""
        next_death = self.next_death
        self._put(run, reason)
        self.next_death = max(next_death, self.next_death)
