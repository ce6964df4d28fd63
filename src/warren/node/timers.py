"""Queues and connections that have something to see to at a time: work follows what is due.

Both are kept in heaps. A queue has one time at most, the earliest that it asked for. What moves
that time back, such as a use of a queue that goes when it is unused, costs nothing here: the queue
asks anew when it is called.

Of the queues whose time has come one turn calls as many as `TURN_DUE_WORK_MAX` has room for, with
those before them that have more to do, and the next turn goes on. What a queue plans then counts
from the next tick on, so that none is called twice before all that were due.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from warren.limits import DUE_COST, TURN_DUE_WORK_MAX
from warren.queues.queue import Queue
from warren.sharded_dict import ShardedDict

BEGUN_MS_MAX: Final = 1_000
"""A queue that has more to do for longer than this does not hold up others any more."""

STALE_MIN: Final = 1_024
"""Fewer entries of queues that are gone, or of times that count no more, are not tidied away."""


@final
class QueueTimers:
    """When which queue of this node has something to see to.

    Attributes:
        more: Whether the next turn goes on to call queues.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        """Times and groups; those count that are in `_times`, too."""
        self._times: ShardedDict[int, int] = ShardedDict()
        self._queues: ShardedDict[int, Queue] = ShardedDict()
        self._upto: i64 = -1
        """Queues are called whose time came until then, which was the last tick."""
        self._begun: list[tuple[int, Queue]] = []
        """Those that were called and may have more to do, and when that was."""
        self.more: bool = False

    def plan(self, queue: Queue, at_ms: i64) -> None:
        """Call a queue at a time, unless it is called before in any case.

        Args:
            at_ms: Monotonic time.
        """
        at_ms = max(at_ms, self._upto + 1)
        group_id = int(queue.group_id)
        planned = self._times.get(group_id)
        if planned is not None and planned <= at_ms and self._queues[group_id] is queue:
            return
        self._times[group_id] = int(at_ms)
        self._queues[group_id] = queue
        heappush(self._heap, (int(at_ms), group_id))
        if len(self._heap) > STALE_MIN + 2 * len(self._times):
            self._heap = [(at, group) for group, at in self._times.items()]
            heapify(self._heap)

    def forget(self, queue: Queue) -> None:
        """A queue is no more."""
        group_id = int(queue.group_id)
        if self._queues.get(group_id) is queue:
            del self._times[group_id]
            del self._queues[group_id]

    def waiting(self) -> int:
        """Times that are kept, those that count no more among them."""
        return len(self._heap)

    def tick(self, now_ms: i64) -> None:
        """Have turns call the queues whose time has come, and those of before that are left.

        Args:
            now_ms: Monotonic time.
        """
        self._upto = max(now_ms, self._upto)
        self.more = self.behind()

    def go_on(self, now_ms: i64) -> None:
        """Call some of the queues whose time had come at the last tick, the earliest first.

        What it has them do is to be done before the next call.

        Args:
            now_ms: Monotonic time.
        """
        room = TURN_DUE_WORK_MAX - self._still_busy(now_ms)
        self.more = False
        heap = self._heap
        while heap and heap[0][0] <= self._upto:
            if room <= 0:
                # Those that have more to do bring on the next turn by themselves, or a tick does.
                return
            at, group_id = heappop(heap)
            if self._times.get(group_id) != at:
                continue
            del self._times[group_id]
            queue = self._queues[group_id]
            del self._queues[group_id]
            if queue.deleted:
                continue
            cost = queue.due_cost()
            room -= cost
            queue.due(now_ms)
            self.more = True
            if cost > DUE_COST:
                self._begun.append((int(now_ms), queue))
        self.more = False

    def behind(self) -> bool:
        """Whether there are queues still whose time had come at the last tick."""
        return len(self._heap) > 0 and self._heap[0][0] <= self._upto

    def _still_busy(self, now_ms: i64) -> i64:
        """What those take of a turn that were called before and have more to do."""
        if not self._begun:
            return 0
        busy: i64 = 0
        begun = self._begun
        self._begun = []
        for at, queue in begun:
            if now_ms - at < BEGUN_MS_MAX and not queue.deleted and queue.is_overdue():
                busy += queue.due_cost()
                self._begun.append((at, queue))
        return busy


@final
class ConnectionTimers:
    """When which connection has something to see to.

    Connections may come and go by the thousand, each with a time that it does not live to see: in
    the heap there are only milliseconds.
    """

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._due: dict[int, list[int]] = {}
        """Who has something to see to at each of these times."""

    def plan(self, identity: int, at_ms: i64) -> None:
        """Tell of a connection at a time.

        Args:
            identity: Anything but 0.
            at_ms: Monotonic time.
        """
        due = self._due.get(int(at_ms))
        if due is None:
            self._due[int(at_ms)] = [identity]
            heappush(self._heap, int(at_ms))
        else:
            due.append(identity)

    def take(self, now_ms: i64) -> int:
        """The next connection whose time has come; 0 if there is none."""
        heap = self._heap
        while heap and heap[0] <= now_ms:
            due = self._due[heap[0]]
            if due:
                return due.pop()
            del self._due[heappop(heap)]
        return 0
