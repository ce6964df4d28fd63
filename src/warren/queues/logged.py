"""Queues whose messages lie in the node's log: quorum queues and durable classic queues."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.log.batch import KIND_COMMAND, KIND_MESSAGES, KIND_TRANSIENT, Batch
from warren.log.group import GroupLog
from warren.log.listener import BatchReader
from warren.queues import commands
from warren.queues.fifo import Fifo
from warren.queues.links import Link, Waiter
from warren.queues.publishing import PublishRun
from warren.queues.queue import Host, Queue

FLOW_BYTES: Final = 33_554_432
"""With more than this on its way to disk, a queue's publishers wait for the disk."""

TERM: Final = 1
"""The term of a group whose only member leads it; nothing ever contests it."""

READ_AHEAD_BYTES: Final = 1_048_576
"""How much of a backlog one read brings into memory: some thousand small messages."""


class LoggedQueue(Queue):
    """A queue with a group in the log; see `quorum` and `classic` for when things apply."""

    def __init__(
        self, host: Host, vhost: str, name: str, kind: str, fifo: Fifo, log: GroupLog
    ) -> None:
        super().__init__(host, vhost, name, kind, fifo)
        self.log: GroupLog = log
        self.group_id = log.id
        self.unwritten_bytes: i64 = 0
        self.seen_bytes: i64 = 0
        self.seen_messages: i64 = 0
        self._readers: list[Link] = []
        self._wanted: i64 = 0
        self._reading: bool = False

    def batch_of(self, number: i64) -> Batch | None:
        """The batch that holds a message, if the log has it in memory."""
        return self.log.cached(number)

    def fetch(self, number: i64, link: Link) -> None:
        """Read ahead from a message on; every link that waits is resumed after each read."""
        if not self._readers or number < self._wanted:
            self._wanted = number
        self._readers.append(link)
        self._read()

    def batches_read(self, error: BaseException | None) -> None:
        """A read came back; a failed one is fatal, since a live message cannot be had."""
        self._reading = False
        if self.deleted:
            return
        if error is not None:
            raise error
        self._resume_readers()
        self._read()

    def close(self) -> None:
        """The queue was deleted: nobody gets what they wait for."""
        super().close()
        self._resume_readers()

    def _resume_readers(self) -> None:
        links = self._readers
        self._readers = []
        for link in links:
            link.resume()

    def configure(self) -> None:
        """Log how the machine is set up, as a new group's first entry."""
        commands.config(self._commands, self.fifo.keeps_place, self.fifo.delivery_limit)
        self._append_commands(self._take_commands(), None, True)

    def snapshot(self) -> None:
        """Write the machine's state into the log, so that older entries can go."""
        raise AssertionError("a logged queue type defines snapshot")

    def recovered(self, clean: bool) -> None:
        """The log was replayed; `clean` if it ended with an orderly stop's snapshot."""
        raise AssertionError("a logged queue type defines recovered")

    def expire_groups(self, now_ms: i64) -> None:
        """Give back what readers hold that did not call for as long as their lease."""
        for group in self.fifo.groups.values():
            if group.open and 0 < group.lease_ms < now_ms - group.seen_ms:
                commands.expire(self._commands, group.name)
                self._command()

    def congested(self) -> bool:
        """Whether the disk is behind."""
        return self.unwritten_bytes > FLOW_BYTES

    def mean_message_bytes(self) -> i64:
        """Mean size of the records seen so far, frames included; 0 before the first."""
        return 0 if self.seen_messages == 0 else self.seen_bytes // self.seen_messages

    def _read(self) -> None:
        if self._readers and not self._reading and not self.deleted:
            self._reading = True
            newest = self.log.next_message - 1
            self.log.read(self._wanted, newest, READ_AHEAD_BYTES, ReadAhead(self))

    def _append_messages(self) -> Batch:
        """One record batch of all messages gathered."""
        # A quorum queue persists every message, whatever its publisher asked for (QQ-09).
        durable = self._persistent or not self.fifo.keeps_place
        lengths = self._lengths[0] if len(self._lengths) == 1 else b"".join(self._lengths)
        payload = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        batch = self.log.append(
            KIND_MESSAGES if durable else KIND_TRANSIENT,
            TERM,
            self.host.now_ms(),
            self._pending,
            lengths,
            payload,
            self._runs,
        )
        self.host.appended(True)
        self.published += self._pending
        self.unwritten_bytes += self._pending_bytes
        self.seen_messages += self._pending
        self.seen_bytes += self._pending_bytes
        self._parts = []
        self._lengths = []
        self._runs = []
        self._pending = 0
        self._pending_bytes = 0
        return batch

    def _append_commands(self, payload: bytes, waiter: Waiter | None, urgent: bool) -> Batch:
        """One record batch of encoded commands; unless urgent, nobody waits for it."""
        self.host.appended(urgent)
        return self.log.append(KIND_COMMAND, TERM, self.host.now_ms(), 0, b"", payload, waiter)

    def _confirm(self, batch: Batch) -> None:
        """A batch of messages is durable: its publishers are told, if they still wait."""
        self.unwritten_bytes -= batch.payload_size
        self._answer_runs(batch)

    def _answer_runs(self, batch: Batch) -> None:
        """Tell the publishers of a batch that it is where it belongs."""
        runs = batch.origin
        if runs is not None:
            batch.origin = None
            assert isinstance(runs, list)
            for run in runs:
                assert isinstance(run, PublishRun)
                run.safe()


@final
class ReadAhead(BatchReader):
    """A read of a queue's backlog that is under way."""

    def __init__(self, queue: LoggedQueue) -> None:
        self._queue: LoggedQueue = queue

    def batches_read(self, batches: list[Batch], error: BaseException | None) -> None:
        """Hand the answer on."""
        self._queue.batches_read(error)


def replay(fifo: Fifo, batch: Batch) -> None:
    """Apply an entry of the log at recovery, exactly as it was applied at first."""
    if batch.kind == KIND_COMMAND:
        start = batch.payload_at
        fifo.apply(batch.payload, start, start + batch.payload_size, batch.stamp_ms)
    else:
        fifo.enqueue(batch.first, batch.count)
        if batch.kind == KIND_TRANSIENT:
            fifo.transient.push(batch.first, batch.first + batch.count - 1)
    fifo.dispatch()
    fifo.deliveries.clear()
