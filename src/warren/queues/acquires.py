"""Acquires of groups of readers whose answers may lie within a snapshot.

A node that takes over a state has not seen what came of the commands before it. Each acquire gives
its group the next epoch. Where the state has as many more as this node had acquires within it,
there were no others, and each has the epoch of its place. Else nobody knows whose is whose: they
are made anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.queues.fifo.effects import AcquireReply
from warren.queues.waiting import PassedOn

if TYPE_CHECKING:
    from warren.pending import PendingReply
    from warren.queues.fifo.machine import Fifo


@final
class Acquires:
    """Those of one node's readers in one queue."""

    def __init__(self) -> None:
        self._missed: list[Acquire] = []
        """Those that were applied within a state."""
        self._epochs: dict[str, int] = {}
        """The epoch of each group when the machine last got a state,"""
        self._used: i64 = 0
        """and the one behind which that of a new group began."""

    def state_comes(self, fifo: Fifo) -> None:
        """A state takes the machine's place; acquires that wait for an answer may span two."""
        if not self._missed:
            self._epochs = {group.name: int(group.epoch) for group in fifo.groups.values()}
            self._used = fifo.readers.used

    def miss(self, acquire: Acquire) -> None:
        """An acquire was applied, and nobody here has seen it."""
        self._missed.append(acquire)

    def any_missed(self) -> bool:
        """Whether some were."""
        return len(self._missed) > 0

    def answer_missed(self, fifo: Fifo) -> None:
        """Answer those from the machine's state, in the order in which they were made."""
        missed = self._missed
        self._missed = []
        counts: dict[str, int] = {}
        for acquire in missed:
            counts[acquire.group] = counts.get(acquire.group, 0) + 1
        for acquire in missed:
            known = fifo.groups.get(acquire.group)
            before = self._epochs.get(acquire.group, int(self._used))
            if known is None or known.epoch - before != counts[acquire.group]:
                acquire.waiter.missed()
                continue
            place = counts[acquire.group] = counts[acquire.group] - 1
            self._epochs[acquire.group] = before + 1
            acquire.waiter.succeeded(AcquireReply(known.epoch - place, known.settled))

    def abandon_missed(self) -> None:
        """The queue is gone."""
        missed = self._missed
        self._missed = []
        for acquire in missed:
            acquire.waiter.abandoned()


@final
class Acquire(PassedOn):
    """A reader's acquire that is under way.

    Attributes:
        group: What it is of.
    """

    def __init__(self, acquires: Acquires, group: str, waiter: PendingReply) -> None:
        super().__init__(waiter)
        self._acquires: Acquires = acquires
        self.group: str = group

    def missed(self) -> None:
        """It was applied, and is answered at the end of the turn."""
        self._acquires.miss(self)
