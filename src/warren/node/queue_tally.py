"""What many queues hold, looked at by compiled code, many in one call.

Of 100,000 queues most are idle as a rule. What lists, sums and rates are made of is found here for
a fraction of a microsecond a queue, so that interpreted code meets only the queues in use.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.metadata.tables import QueueRecord
from warren.node.node import Node
from warren.queues.queue import Counts, Queue

READY: Final = 0
HELD: Final = 1
READY_AND_HELD: Final = 2
CONSUMERS: Final = 3

ELSEWHERE: Final = -1
"""Stands for the length of a queue that only another node can count."""


@final
class QueueTally:
    """What those queues hold together that one node leads.

    Attributes:
        count: How many they are.
        ready, held, consumers, bytes, ready_bytes: As `Counts` has them.
    """

    def __init__(self, node: Node) -> None:
        """Begin with no queue."""
        self._node: Node = node
        self._own: str = node.settings.node_name
        self.count: i64 = 0
        self.ready: i64 = 0
        self.held: i64 = 0
        self.consumers: i64 = 0
        self.bytes: i64 = 0
        self.ready_bytes: i64 = 0

    def add(self, queues: list[Queue], first: i64, last: i64, delays: bool = True) -> None:
        """Add those of `queues` from index `first` to before `last` that the node leads.

        Args:
            delays: Whether those count, too, in which exchanges keep messages that wait.
        """
        for at in range(first, min(last, i64(len(queues)))):
            queue = queues[at]
            if queue.type.delays and not delays:
                continue
            counts = queue.counts()
            if counts is not None and self._leads(queue):
                self.count += 1
                self.ready += counts.ready
                self.held += counts.held
                self.consumers += counts.consumers
                self.bytes += counts.bytes
                self.ready_bytes += counts.ready_bytes

    def _leads(self, queue: Queue) -> bool:
        """Whether the node leads a queue that it can count: of a classic one it is the only one."""
        if not queue.type.replicated:
            return True
        record = self._node.metadata.queue(queue.vhost, queue.name)
        return record is not None and self._node.queue_members.leader(record) == self._own


def in_use(queues: list[Queue], first: i64, last: i64) -> list[Queue]:
    """Those of `queues` from index `first` to before `last` that are in use.

    That is one that holds or ever had messages, has consumers, or cannot be counted here.
    """
    found: list[Queue] = []
    for at in range(first, min(last, i64(len(queues)))):
        queue = queues[at]
        if _used(queue):
            found.append(queue)
    return found


def places_in_use(node: Node, records: list[QueueRecord], first: i64, last: i64) -> list[int]:
    """The indices from `first` to before `last` of those of `records` that are in use."""
    found: list[int] = []
    for at in range(first, min(last, i64(len(records)))):
        record = records[at]
        queue = node.queues.find(record.vhost, record.name)
        if queue is None or _used(queue):
            found.append(int(at))
    return found


def _used(queue: Queue) -> bool:
    done = queue.published | queue.delivered | queue.settled | queue.polled_empty
    if done | queue.redelivered != 0:
        return True
    counts = queue.counts()
    if counts is None:
        return True
    return counts.ready | counts.held | counts.consumers | counts.bytes != 0


def lengths(
    node: Node, records: list[QueueRecord], first: i64, last: i64, column: i64
) -> list[int]:
    """How long the queues of `records` from index `first` to before `last` are, in order.

    Args:
        column: `READY`, `HELD`, `READY_AND_HELD` or `CONSUMERS`: what is counted.

    Returns:
        The count of each; `ELSEWHERE` where this node cannot count.
    """
    found: list[int] = []
    for at in range(first, min(last, i64(len(records)))):
        record = records[at]
        queue = node.queues.find(record.vhost, record.name)
        counts = None if queue is None else queue.counts()
        found.append(ELSEWHERE if counts is None else int(_count(counts, column)))
    return found


def _count(counts: Counts, column: i64) -> i64:
    if column == READY:
        return counts.ready
    if column == HELD:
        return counts.held
    return counts.consumers if column == CONSUMERS else counts.ready + counts.held
