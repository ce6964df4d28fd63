"""AMQP 0-9-1 transactions of one channel: publishes and acks that wait for a commit.

`tx.commit-ok` is sent when every message is where its confirm would need it to be (MIR-35). As in
RabbitMQ a commit is not atomic over several queues.

Source: AMQP 0-9-1, 1.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from warren.errors import ConnectionException
from warren.protocols.amqp091.publishing import Transacted
from warren.protocols.amqp091.unsettled import TagRun
from warren.protocols.broker import Completion, Route
from warren.queues.links import Reply
from warren.queues.publishing import Publisher, PublishRun
from warren.queues.queue import Queue

if TYPE_CHECKING:
    from warren.protocols.amqp091.channel import Channel


@final
class Rejection:
    """Deliveries that were nacked or rejected inside a transaction."""

    def __init__(self, runs: list[TagRun], requeue: bool, failed: bool) -> None:
        self.runs: list[TagRun] = runs
        self.requeue: bool = requeue
        self.failed: bool = failed


@final
class Transaction(Publisher):
    """What a transactional channel did since its last commit."""

    def __init__(self, channel: Channel) -> None:
        self.published: list[Transacted] = []
        self.acked: list[TagRun] = []
        self._rejected: list[Rejection] = []
        self._channel: Channel = channel
        self._waiting: int = 0
        self._runs: list[tuple[PublishRun, Route]] = []
        """Of the commit under way."""
        self._refused: bool = False
        self._completion: Completion | None = None

    def reject(self, runs: list[TagRun], requeue: bool, failed: bool) -> None:
        """Keep a nack or reject for the commit."""
        self._rejected.append(Rejection(runs, requeue, failed))

    def roll_back(self) -> None:
        """Forget the publishes; deliveries are unsettled again."""
        self._channel.unsettled.put_back(self.runs())
        self._clear()

    def runs(self) -> list[TagRun]:
        """Deliveries that were acked, nacked or rejected since the last commit."""
        runs = list(self.acked)
        for rejection in self._rejected:
            runs.extend(rejection.runs)
        return runs

    def commit(self, completion: Completion) -> None:
        """Do everything, and complete when the messages are safe."""
        published, acked, rejected = self.published, self.acked, self._rejected
        self._clear()
        self._completion = completion
        self._refused = False
        self._runs = []
        self._waiting = 1
        path = self._channel.publishing
        for record in published:
            self._waiting += 1
            run = PublishRun(self, 0, record.count, len(record.route.queues))
            self._runs.append((run, record.route))
            path.enqueue(
                record.route, record.records, record.lengths, record.count, record.persistent, run
            )
        if acked:
            self._channel.settle_now(acked)
        for rejection in rejected:
            self._channel.give_back_now(rejection.runs, rejection.requeue, rejection.failed)
        self._one_less()

    def awaited(self) -> list[Queue]:
        """Queues that the commit under way may be waiting for."""
        found: list[Queue] = []
        for run, route in self._runs:
            if run.waiting > 0:
                found.extend(queue for queue in route.queues if queue not in found)
        return found

    def settled(self, run: PublishRun) -> None:
        """One run of the commit's messages is safe, or refused."""
        if run.refused:
            self._refused = True
        self._one_less()

    def _one_less(self) -> None:
        self._waiting -= 1
        completion = self._completion
        if self._waiting == 0 and completion is not None:
            self._completion = None
            self._runs = []
            if self._refused:
                completion.refused(
                    ConnectionException(506, "a queue refused messages; the commit failed")
                )
            else:
                completion.answered(Reply())

    def _clear(self) -> None:
        self.published = []
        self.acked = []
        self._rejected = []
