"""What waits for a queue's answer on behalf of others, or of the queue itself.

A node that takes over a state has not seen what came of the commands before it. What purges did is
found in the state, as far as that says it; `polls` and `acquires` find what those did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.pending import PendingAnswer, PendingReply, Result
from warren.queues.fifo.effects import PurgeReply, Reply

if TYPE_CHECKING:
    from warren.queues.quorum import QuorumQueue
    from warren.queues.session_queue import SessionQueue


class PassedOn(PendingReply):
    """Waits for a result, and passes on what becomes of it.

    Attributes:
        waiter: Who is told.
    """

    def __init__(self, waiter: PendingReply) -> None:
        self.waiter: PendingReply = waiter

    def succeeded(self, result: Result) -> None:
        """It is done."""
        self.waiter.succeeded(result)

    def abandoned(self) -> None:
        """The queue went away before."""
        self.waiter.abandoned()

    def missed(self) -> None:
        """It is done, and nobody here has seen what came of it."""
        self.waiter.missed()


@final
class Purge(PassedOn):
    """A purge that is under way."""

    def __init__(self, queue: SessionQueue, waiter: PendingReply) -> None:
        super().__init__(waiter)
        self._queue: SessionQueue = queue

    def missed(self) -> None:
        """It is done, and the state says what it took, unless the session was closed since."""
        count: i64 = self._queue.purged()
        if count < 0:
            self.waiter.missed()
        else:
            self.waiter.succeeded(PurgeReply(count))


@final
class Confirming(PendingAnswer):
    """Waits until a majority has said that it follows this node, for who wants to be shown a queue.

    Where another node leads by now, the log has to say what there is.
    """

    def __init__(self, queue: QuorumQueue, waiter: PendingReply) -> None:
        self._queue: QuorumQueue = queue
        self._waiter: PendingReply = waiter

    def succeeded(self, result: Result) -> None:
        """It does."""
        self._waiter.succeeded(Reply())

    def abandoned(self) -> None:
        """It does not, or the queue is gone."""
        if self._queue.deleted:
            self._waiter.abandoned()
        else:
            self._queue.catch_up(self._waiter)


class Applied(PendingReply):
    """Waits until an entry of this node's is applied, which nobody has to be told."""

    def succeeded(self, result: Result) -> None:
        """It is."""

    def abandoned(self) -> None:
        """The queue is gone."""

    def missed(self) -> None:
        """It is, within a snapshot."""


@final
class Expiring(Applied):
    """Waits until this node's own entry is applied, to look again whether a queue is to go.

    Where it was applied within a snapshot another node leads, and sees to that.
    """

    def __init__(self, queue: QuorumQueue) -> None:
        self._queue: QuorumQueue = queue

    def succeeded(self, result: Result) -> None:
        """It is."""
        self._queue.expire()


@final
class Informed(Applied):
    """Waits until it is known here what the queue holds, for messages that wait for that."""

    def __init__(self, queue: QuorumQueue) -> None:
        self._queue: QuorumQueue = queue

    def succeeded(self, result: Result) -> None:
        """It is."""
        self._queue.informed()

    def missed(self) -> None:
        """It is, within a snapshot."""
        self._queue.informed()
