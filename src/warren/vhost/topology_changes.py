"""What waits for a vhost's topology to change: until the tables have it, or a queue has told.

The requests themselves are checked by the vhost's handle, before and, where another change came
first, after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.errors import NOT_FOUND, Refusal
from warren.metadata.commands import Command
from warren.metadata.outcome import Outcome
from warren.pending import DONE, PendingReply, PendingRequest, PendingResult, Result
from warren.queues.fifo.effects import Reply
from warren.queues.queue import Queue
from warren.vhost.pending import QueueDeclared, QueueDeleted
from warren.vhost.requests import (
    BindRequest,
    DeclareExchangeRequest,
    DeclareQueueRequest,
    DeleteQueueRequest,
    VhostRequest,
)

if TYPE_CHECKING:
    from warren.vhost.handle import VhostHandle


@final
class TopologyChange(PendingResult):
    """A request that changes the tables and waits for the disk.

    Attributes:
        messages: How many a queue to be deleted had.
        user: Who wants it, as events name them.
    """

    def __init__(self, vhost: VhostHandle, request: VhostRequest, pending: PendingRequest) -> None:
        self._vhost: VhostHandle = vhost
        self._request: VhostRequest = request
        self.pending: PendingRequest = pending
        self.messages: i64 = 0
        self.user: str = vhost.acts_as

    def succeeded(self, result: Result) -> None:
        """The change is in force. If another one came first, check again who wins."""
        assert isinstance(result, Outcome), "the tables were asked"
        request = self._request
        try:
            if isinstance(request, DeclareQueueRequest):
                self._vhost.finish_declare(request, result.changed, self.pending)
                return
            if isinstance(request, DeclareExchangeRequest) and not result.changed:
                self._vhost.finish_exchange(request, self.pending)
                return
        except Refusal as refusal:
            self.pending.refused(refusal)
            return
        if isinstance(request, BindRequest) and result.changed:
            self._vhost.give_recent(request, self.pending)
        elif isinstance(request, DeleteQueueRequest):
            self.pending.succeeded(QueueDeleted(self.messages))
        else:
            self.pending.succeeded(DONE)


@final
class Declaring(PendingReply):
    """Waits for the counts of a queue, for a declare."""

    def __init__(self, queue: Queue, pending: PendingRequest) -> None:
        self._queue: Queue = queue
        self._pending: PendingRequest = pending

    def succeeded(self, result: Result) -> None:
        """They are known."""
        queue = self._queue
        self._pending.succeeded(
            QueueDeclared(queue.name, queue.ready_count(), queue.consumer_count())
        )

    def missed(self) -> None:
        """They are known all the same."""
        self.succeeded(Reply())

    def abandoned(self) -> None:
        """Its node went down, or it was deleted."""
        self._pending.refused(Refusal(NOT_FOUND, self._queue.absence()))


@final
class Deleting(PendingReply):
    """Waits for the counts of a queue, to delete it."""

    def __init__(
        self,
        vhost: VhostHandle,
        request: DeleteQueueRequest,
        queue: Queue,
        command: Command,
        change: TopologyChange,
    ) -> None:
        self._vhost: VhostHandle = vhost
        self._request: DeleteQueueRequest = request
        self._queue: Queue = queue
        self._command: Command = command
        self._change: TopologyChange = change

    def succeeded(self, result: Result) -> None:
        """They are known: delete it, if it may be."""
        try:
            self._vhost.check_deletable(self._request, self._queue)
        except Refusal as refusal:
            self._change.pending.refused(refusal)
            return
        self._change.messages = self._queue.ready_count()
        self._vhost.finish_delete(self._command, self._change)

    def missed(self) -> None:
        """They are known all the same."""
        self.succeeded(Reply())

    def abandoned(self) -> None:
        """Another client deleted it, which is no error; or its node went down, or cannot use it."""
        request = self._request
        if self._queue.deleted:
            self._change.pending.succeeded(QueueDeleted(0))
        elif self._queue.halted and not request.if_unused and not request.if_empty:
            # Nobody knows what it holds, and it is to go whatever that is.
            self._vhost.finish_delete(self._command, self._change)
        else:
            self._change.pending.refused(Refusal(NOT_FOUND, self._queue.absence()))
