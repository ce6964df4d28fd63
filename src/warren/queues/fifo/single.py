"""The one consumer of a queue that is served, where that is one at a time.

The others wait in the order in which they came. When the active one goes, the waiting one of the
highest priority is next. In a quorum queue one of a higher priority need not wait for that: it
takes over when the active one holds nothing, and until then the active one gets nothing more.
So does another one where nobody hears the node of the active one.

Who is next is found out before messages are handed out, once for all that came about before, so
that an entry by which thousands of consumers go costs one look at those that are left.

Source: QQ-18; 2.4 of the acceptance (rabbit_fifo, rabbit_amqqueue_process).
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.queues.fifo.consumers import QUIESCING, SERVED, WAITING, Consumer
from warren.queues.fifo.service import ServiceQueue

UNSEEN: Final = -(1 << 62)
"""Less credit than any consumer has."""


@final
class SingleActive:
    """Who is active in a queue.

    Attributes:
        active: The consumer that is, or that still has to settle what it holds before another one
            is; None where nobody can be.
        stale: Whether it may be another one's turn.
    """

    def __init__(self, preempts: bool) -> None:
        """
        Args:
            preempts: Whether a higher priority takes over, and among equals those with more credit
                come first; so it is in quorum queues.
        """
        self.active: Consumer | None = None
        self.stale: bool = False
        self._preempts: bool = preempts

    def attached(self, consumer: Consumer) -> None:
        """A consumer comes, and waits."""
        consumer.standing = WAITING
        active = self.active
        if active is None or (self._preempts and consumer.priority > active.priority):
            self.stale = True

    def left(self, consumer: Consumer) -> None:
        """A consumer gets nothing more."""
        if consumer is self.active:
            self.active = None
            self.stale = True

    def restored(self, consumers: dict[int, Consumer]) -> None:
        """Find who is active, where a snapshot has said how each of them stands."""
        for consumer in consumers.values():
            if consumer.active and consumer.standing in (SERVED, QUIESCING):
                self.active = consumer
        self.stale = True

    def choose(self, consumers: dict[int, Consumer], service: ServiceQueue) -> None:
        """Find out whose turn it is, and have that one stand in line alone."""
        self.stale = False
        active = self.active
        if active is not None and (active.standing == QUIESCING or active.suspected):
            if active.held > 0:
                return
            active.standing = WAITING
            active = None
        found = self._first(consumers)
        if active is not None:
            if found is None or not self._preempts or found.priority <= active.priority:
                return
            service.leave(active)
            if active.held > 0:
                active.standing = QUIESCING
                return
            active.standing = WAITING
        self.active = found
        if found is not None:
            found.standing = SERVED
            service.wake(found)

    def count_waiting(self, consumers: dict[int, Consumer]) -> i64:
        """How many of some consumers wait for their turn at being active."""
        count: i64 = 0
        for consumer in consumers.values():
            if consumer.active and consumer.standing == WAITING:
                count += 1
        return count

    def _first(self, consumers: dict[int, Consumer]) -> Consumer | None:
        """Who of those that wait is next."""
        found: Consumer | None = None
        priority: i64 = 0
        credit: i64 = UNSEEN
        for consumer in consumers.values():
            if consumer.standing != WAITING or not consumer.active or consumer.suspected:
                continue
            if (
                found is None
                or consumer.priority > priority
                or (self._preempts and consumer.priority == priority and consumer.credit > credit)
            ):
                found = consumer
                priority = consumer.priority
                credit = consumer.credit
        return found
