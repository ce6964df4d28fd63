"""Queues and connections that have something to see to at a time: work follows what is due.

Both are kept in heaps. A queue has one time at most, the earliest that it asked for. What moves
that time back, such as a use of a queue that goes when it is unused, costs nothing here: the queue
asks anew when it is called.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from warren.queues.queue import Queue
from warren.sharded_dict import ShardedDict

DUE_MAX: Final = 1_024
"""So many queues are called in one go: a millisecond or two."""

STALE_MIN: Final = 1_024
"""Fewer entries of queues that are gone, or of times that count no more, are not tidied away."""


@final
class QueueTimers:
    """When which queue of this node has something to see to."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        """Times and groups; those count that are in `_times`, too."""
        self._times: ShardedDict[int, int] = ShardedDict()
        self._queues: ShardedDict[int, Queue] = ShardedDict()

    def plan(self, queue: Queue, at_ms: i64) -> None:
        """Call a queue at a time, unless it is called before in any case.

        Args:
            at_ms: Monotonic time.
        """
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
        """Call the queues whose time has come, or so many of them that the next call goes on.

        Args:
            now_ms: Monotonic time.
        """
        heap = self._heap
        left = DUE_MAX
        while heap and heap[0][0] <= now_ms and left > 0:
            at, group_id = heappop(heap)
            if self._times.get(group_id) != at:
                continue
            left -= 1
            del self._times[group_id]
            queue = self._queues[group_id]
            del self._queues[group_id]
            if not queue.deleted:
                queue.due(now_ms)


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
