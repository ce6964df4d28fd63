"""Durable checkouts: a number means the same rows for ever, epochs fence, settled rows are gone.

- Whatever checkout is answered twice under one number has the same runs both times.
- The rows read from a checkout that was then settled are complete, in order, and are in no other
  settled checkout; nobody else holds or has settled them.
- What was settled before a retake was sent is not taken again.
- A call succeeds only if nobody acquired or deleted the group between the caller's acquire and the
  call. A group that is made anew has other epochs and numbers.

Source: docs/formats/table-class.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.checkers import Checker
from sim.model import SETTLED, SETTLED_FOR_GOOD, Copy, QueueState, Violation

if TYPE_CHECKING:
    from sim.stage import Stage

Runs = list[tuple[int, int]]


class CheckoutChecker(Checker):
    """See the module's head. Readers report here directly."""

    def __init__(self, world: Stage) -> None:
        super().__init__(world)
        self._epochs: dict[tuple[str, str], set[int]] = {}
        self._runs: dict[tuple[str, str, int], Runs] = {}
        self._since_ms: dict[tuple[str, str, int], int] = {}
        self._gone: dict[tuple[str, str], int] = {}
        self._owner: dict[tuple[str, int], tuple[str, int]] = {}
        self._newest: dict[tuple[str, str], int] = {}
        self._settled: dict[tuple[str, str], int] = {}

    def acquired(self, queue: QueueState, group: str, epoch: int, newest: int) -> None:
        """A reader took a group over; `newest` is the newest epoch known when it asked."""
        key = (queue.name, group)
        known = self._epochs.setdefault(key, {0})
        if epoch <= newest or epoch in known:
            raise Violation(
                f"group {group} of {queue.name}: epoch {epoch}, though there were {sorted(known)}"
            )
        known.add(epoch)

    def epoch(self, queue: QueueState, group: str) -> int:
        """The newest epoch that a reader was told."""
        return max(self._epochs.get((queue.name, group), {0}))

    def deleted(self, queue: QueueState, group: str, newest: int) -> None:
        """The group is gone; `newest` is the newest epoch known when that was asked for."""
        key = (queue.name, group)
        self._gone[key] = max(newest, self._gone.get(key, 0))

    def gone(self, queue: QueueState, group: str) -> int:
        """The newest epoch that is known to be one of a group that was deleted."""
        return self._gone.get((queue.name, group), 0)

    def passed(self, queue: QueueState, group: str, epoch: int, newest: int, gone: int = 0) -> None:
        """A call of a reader succeeded.

        Args:
            newest: The newest epoch known when it was sent.
            gone: The newest one of a deleted group, likewise.
        """
        if epoch <= gone:
            raise Violation(
                f"group {group} of {queue.name}: a call of epoch {epoch} passed, though the group "
                f"of epoch {gone} was deleted before it was sent"
            )
        if epoch < newest:
            raise Violation(
                f"group {group} of {queue.name}: a call of epoch {epoch} passed, though epoch "
                f"{newest} had begun before it was sent"
            )

    def checked_out(self, queue: QueueState, group: str, number: int, runs: Runs) -> None:
        """A checkout was answered."""
        self._newest[queue.name, group] = max(number, self.newest(queue, group))
        key = (queue.name, group, number)
        self._since_ms.setdefault(key, self.world.now_ms())
        before = self._runs.setdefault(key, runs)
        if before != runs:
            raise Violation(
                f"checkout {number} of group {group} of {queue.name} was {before} and is {runs}"
            )

    def newest(self, queue: QueueState, group: str) -> int:
        """The number of the newest checkout that a reader of a group was told."""
        return self._newest.get((queue.name, group), 0)

    def settled_up_to(self, queue: QueueState, group: str) -> int:
        """The number up to which a reader of a group was told that checkouts are settled."""
        return self._settled.get((queue.name, group), 0)

    def retaken(self, queue: QueueState, group: str, number: int, settled: int) -> None:
        """A checkout was had again.

        Args:
            settled: Up to which number they were known to be settled when that was asked for.

        Raises:
            Violation: It was among those.
        """
        if number <= settled:
            raise Violation(
                f"checkout {number} of group {group} of {queue.name} was taken again, though those "
                f"up to {settled} were settled"
            )

    def settled_rows(
        self, queue: QueueState, group: str, number: int, rows: list[tuple[int, Copy]]
    ) -> None:
        """A checkout was read whole, and the node answered that it is settled."""
        self._settled[queue.name, group] = max(number, self.settled_up_to(queue, group))
        key = (queue.name, group, number)
        wanted = [n for first, last in self._runs[key] for n in range(first, last + 1)]
        if wanted != [at for at, _ in rows]:
            missing = sorted(set(wanted) - {at for at, _ in rows})
            raise Violation(
                f"checkout {number} of group {group} of {queue.name} was read without the rows "
                f"{missing[:5]} of {len(wanted)}"
            )
        for at, copy in rows:
            before = self._owner.setdefault((queue.name, at), (group, number))
            if before != (group, number):
                raise Violation(
                    f"row {at} of {queue.name} was settled in checkout {before} and again in "
                    f"{(group, number)}"
                )
            self._taken(copy, self._since_ms[key])
            holder = copy.holder
            if holder is not None and holder.alive:
                raise Violation(f"{copy.message} was settled as row {at}, held by {holder.name}")
            if self._done_with(copy):
                raise Violation(f"{copy.message} was settled as row {at} and before that")
            copy.settled = SETTLED_FOR_GOOD

    def _taken(self, copy: Copy, now_ms: int) -> None:
        """A row was checked out by then; somebody may still think to hold it."""

    def _done_with(self, copy: Copy) -> bool:
        """Whether it was settled, and no end of a process can have undone that."""
        return copy.settled == SETTLED_FOR_GOOD or (
            copy.settled == SETTLED and copy.settled_life == self.world.life
        )
