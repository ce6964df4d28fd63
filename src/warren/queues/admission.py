"""Publishes to a quorum queue that rejects what is too much, until it is known what it holds.

Every node has such a queue's machine, and looks by itself whether there is room, before it submits
messages. Those it has under way count as if they were there. While it is not known what the queue
holds, or whether what is under way fills it, publishes wait here, in their order.

Source: QL-04.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.queues.fitting import Publish
from warren.queues.waiting import Informed

if TYPE_CHECKING:
    from warren.queues.quorum import QuorumQueue


@final
class Admission:
    """What waits for room in a quorum queue.

    Attributes:
        queued: What is published while it is not known whether there is room; None before there is
            any. An empty one takes 760 bytes, and most queues never have any.
    """

    def __init__(self) -> None:
        self.queued: deque[Publish] | None = None
        self._informed: bool = False
        """Whether the machine has been as far in this life as others were when it was asked."""

    def waits(self) -> bool:
        """Whether publishes wait."""
        queued = self.queued
        return queued is not None and len(queued) > 0

    def may_reject(self, queue: QuorumQueue, count: i64) -> bool:
        """Whether there may be no room for so many messages more, or that is not known here."""
        if queue.deleted:
            return False
        if self.queued:
            return True
        if not self._knows(queue):
            return queue.settings.wanted.rejects
        fifo = queue.fifo
        config = fifo.config
        if not config.rejects or not config.is_limited():
            return False
        counted = fifo.limited_count() + fifo.coming.count
        room = config.max_length - counted - queue.under_way()
        return fifo.blocked or config.max_bytes >= 0 or count > room

    def admit(self, queue: QuorumQueue, publish: Publish) -> None:
        """Take or reject messages, now or when it is known whether there is room.

        At most one message more than there is room for is under way from here.
        """
        if self.queued:
            self.queued.append(publish)
        elif not self._knows(queue):
            self._wait(publish)
            queue.catch_up(Informed(queue))
        elif not self._admit_some(queue, publish):
            self._wait(publish)

    def informed(self, queue: QuorumQueue) -> None:
        """The machine is as far as the others were: go on with what waits."""
        self._informed = True
        queued = self.queued
        while queued and self._admit_some(queue, queued[0]):
            queued.popleft()

    def admit_more(self, queue: QuorumQueue) -> None:
        """The machine has seen something: see to what waits for that."""
        if self.queued and self._knows(queue):
            self.informed(queue)

    def close(self) -> None:
        """The queue is gone: what waits counts as safe."""
        queued = self.queued
        if queued is not None:
            for publish in queued:
                publish.answered()
            queued.clear()

    def _wait(self, publish: Publish) -> None:
        if self.queued is None:
            self.queued = deque()
        self.queued.append(publish)

    def _knows(self, queue: QuorumQueue) -> bool:
        """Whether this node knows what the queue holds, as of a moment ago."""
        return self._informed and queue.proposer().fed()

    def _admit_some(self, queue: QuorumQueue, publish: Publish) -> bool:
        """Take or reject as many messages of a publish as can be now; whether that was all."""
        fifo = queue.fifo
        config = fifo.config
        if fifo.blocked:
            publish.reject(publish.left())
        elif not config.rejects or not config.is_limited():
            queue.take_in(publish, publish.left())
        else:
            under_way = queue.under_way()
            ready = fifo.limited_count() + fifo.coming.count + under_way
            ready_bytes = fifo.limited_bytes() + queue.under_way_bytes()
            count = publish.fitting(config, ready, ready_bytes, True, True)
            if count == 0 and under_way == 0 and not fifo.unfinished():
                # Whether that is too much, the machine says next.
                count = 1
            if count > 0:
                queue.take_in(publish, count)
        if publish.left() > 0:
            return False
        publish.answered()
        return True
