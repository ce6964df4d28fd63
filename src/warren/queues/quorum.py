"""Quorum queues: nothing counts before a majority of members has it on disk.

A queue with one member is its own majority: an entry is committed once it is durable here, in log
order, and only then applied. So confirms, deliveries and the credit that an ack gives back all
follow the disk.

Source: QQ-01 to QQ-28, BEH-09, reliability rules 1, 2 and 29.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.log.batch import KIND_COMMAND, KIND_SNAPSHOT, Batch
from warren.log.group import GroupLog
from warren.queues import commands
from warren.queues.fifo import Fifo
from warren.queues.links import Waiter
from warren.queues.logged import LoggedQueue
from warren.queues.queue import Host

PREFETCH_UNLIMITED: Final = 2_000
"""Messages in flight to a consumer without a prefetch limit, as RabbitMQ has it (2.4)."""


@final
class QuorumQueue(LoggedQueue):
    """A quorum queue with one member."""

    def __init__(self, host: Host, vhost: str, name: str, log: GroupLog, fifo: Fifo) -> None:
        super().__init__(host, vhost, name, "quorum", fifo, log)
        self._applied_index: i64 = log.persisted_index

    def unlimited_credit(self) -> i64:
        """A bound stands in for no bound, so that the machine never hands out a whole backlog."""
        return PREFETCH_UNLIMITED

    def persisted(self, batch: Batch) -> None:
        """Commit and apply an entry."""
        kind = batch.kind
        if kind == KIND_SNAPSHOT:
            return
        self._applied_index = batch.index
        if kind == KIND_COMMAND:
            start = batch.payload_at
            reply = self.fifo.apply(
                batch.payload, start, start + batch.payload_size, batch.stamp_ms
            )
            self.fifo.dispatch()
            waiter = batch.origin
            if waiter is not None:
                batch.origin = None
                assert isinstance(waiter, Waiter)
                waiter.answered(reply)
        else:
            self.fifo.enqueue(batch.first, batch.count)
            self.fifo.dispatch()
            self._confirm(batch)
        self._mark()

    def consumer_count(self) -> i64:
        """Consumers in the machine; one that was cancelled counts until it has settled all."""
        return len(self.fifo.consumers)

    def snapshot(self) -> None:
        """Write the machine's state, as of the last applied entry, into the log."""
        self.log.snapshot(self._applied_index, self.fifo.encode(), self.host.now_ms())

    def recovered(self, clean: bool) -> None:
        """Give back what consumers held that are gone with the last process."""
        if self.fifo.consumers:
            commands.reset(self._commands)
            self._command()

    def _seal_messages(self) -> None:
        self._append_messages()

    def _seal_commands(self, waiter: Waiter | None) -> None:
        # Settles alone change nothing that anybody sees while no message waits for their credit.
        urgent = self._urgent or waiter is not None or self.fifo.ready_count() > 0
        self._append_commands(self._take_commands(), waiter, urgent)
