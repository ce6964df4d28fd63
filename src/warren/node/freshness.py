"""Whether the tables here are as new as those of who led a group before.

The tables of a node that has just started, or was cut off, may be older than those that the leader
before went by. What leads a queue has its log say how policies want it to be: to say what old
tables say would bring back a limit that is gone, and drop messages for it. To bring a group's
members back to what old tables say would take votes from nodes that run. So a new leader does
neither before a barrier, which is asked for once it leads, has come back through the tables' log.
One barrier does for all that wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.limits import TURN_STEPS_MAX
from warren.metadata import commands
from warren.metadata.patterns import WORK
from warren.node.loop import Loop
from warren.pending import PendingResult, Result
from warren.ports import Work
from warren.queues.queue import Queue

if TYPE_CHECKING:
    from warren.node.policies import QueuePolicies
    from warren.node.queues import LocalQueues
    from warren.node.store import MetadataStore

TURN_QUEUES_MAX: Final = 256
"""So many queues go on in one turn."""


@final
class Freshness:
    """Of the tables of one node. Barriers are numbered from 1.

    Attributes:
        begun: Whether this life of the node is known to the cluster: the tables here are no older
            than those of its lives before.
    """

    def __init__(self, loop: Loop, store: MetadataStore) -> None:
        self._loop: Loop = loop
        self._store: MetadataStore = store
        self._asked: i64 = 0
        self._done: i64 = 0
        self._waiting: dict[Queue, None] = {}
        self.begun: bool = False
        self._policies: QueuePolicies | None = None
        self._queues: LocalQueues | None = None

    def begin(self, policies: QueuePolicies, queues: LocalQueues) -> None:
        """This life of the node is known to the cluster.

        Args:
            policies: What tells queues of what the tables say.
            queues: Where the queues are.
        """
        self._policies = policies
        self._queues = queues
        self.begun = True
        if self._waiting:
            self._ask()

    def next_barrier(self) -> i64:
        """The number of the first barrier that is yet to be asked for."""
        return self._asked + 1

    def passed(self, barrier: i64) -> bool:
        """Whether a barrier has come back; else it will."""
        if self._done >= barrier:
            return True
        self._ask()
        return False

    def known(self, barrier: i64, queue: Queue) -> bool:
        """The same, for a queue whose `tables_came` is called then."""
        if self.passed(barrier):
            return True
        self._waiting[queue] = None
        return False

    def _ask(self) -> None:
        if self.begun and self._asked == self._done:
            self._asked += 1
            self._store.submit(commands.Barrier(), PendingBarrier(self))

    def came(self) -> None:
        """The barrier that was asked for has come back."""
        self._done = self._asked
        if not self._waiting:
            return
        waiting = list(self._waiting)
        self._waiting = {}
        policies, queues = self._policies, self._queues
        assert policies is not None and queues is not None, "a life that asks has begun"
        self._loop.do_in_parts(FreshQueues(waiting, policies, queues))


@final
class PendingBarrier(PendingResult):
    """One that is under way."""

    def __init__(self, freshness: Freshness) -> None:
        self._freshness: Freshness = freshness

    def succeeded(self, result: Result) -> None:
        """It has come back."""
        self._freshness.came()


@final
class FreshQueues(Work):
    """Queues that waited go on, some each turn, behind what the tables say of them by now."""

    def __init__(self, waiting: list[Queue], policies: QueuePolicies, queues: LocalQueues) -> None:
        self._waiting: list[Queue] = waiting
        self._policies: QueuePolicies = policies
        self._queues: LocalQueues = queues

    def go_on(self) -> bool:
        """Have some of them go on."""
        before = WORK.steps
        for _ in range(min(len(self._waiting), TURN_QUEUES_MAX)):
            if WORK.steps - before > TURN_STEPS_MAX:
                break
            queue = self._waiting.pop()
            record = self._queues.record_of(int(queue.group_id))
            if record is not None and not queue.deleted:
                self._policies.tell_all(queue, record)
                queue.tables_came()
        return not self._waiting
