"""AMQP 0-9-1 transactions of one channel: publishes and acks that wait for a commit.

`tx.commit-ok` is sent when every message is where its confirm would need it to be (MIR-35). As in
RabbitMQ a commit is not atomic over several queues. Of many answers to deliveries a turn does some;
what the client sends meanwhile waits, and if it goes, deliveries whose acks were not done return.

Source: AMQP 0-9-1, 1.9.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, final

from warren.protocols.amqp091.publishing import Transacted
from warren.protocols.amqp091.unsettled import TagRun
from warren.queues.fifo.effects import Reply
from warren.queues.fifo.pieces import Piece
from warren.queues.publishing import Publisher, PublishRun
from warren.queues.queue import Queue
from warren.vhost.routes import Route
from warren.wire.amqp091.errors import ConnectionException

if TYPE_CHECKING:
    from warren.protocols.amqp091.channel import Channel, Pending


ANSWERS_MAX: Final = 4_096
"""Runs of deliveries that one turn commits or rolls back, but for the rest of a list: some 4 ms."""


@final
class Answer:
    """Deliveries that were acked, nacked or rejected inside a transaction.

    Attributes:
        taken: What was unsettled until then.
        runs: What their queues are to be told: the same, or as `Unsettled.spans` has it.
    """

    def __init__(
        self, taken: list[list[Piece]], runs: list[TagRun], ack: bool, requeue: bool, failed: bool
    ) -> None:
        self.taken: list[list[Piece]] = taken
        self.runs: list[TagRun] = runs
        self.ack: bool = ack
        self.requeue: bool = requeue
        self.failed: bool = failed


@final
class Transaction(Publisher):
    """What a transactional channel did since its last commit."""

    def __init__(self, channel: Channel) -> None:
        self.published: list[Transacted] = []
        self._answers: deque[Answer] = deque()
        self._channel: Channel = channel
        self._waiting: int = 0
        self._runs: list[tuple[PublishRun, Route]] = []
        """Of the commit under way."""
        self._refused: bool = False
        self._pending: Pending | None = None
        self._left: deque[Answer] = deque()
        """Of the commit or the rollback under way, what is not done yet."""
        self._undoing: bool = False

    def ack(self, taken: list[list[Piece]], runs: list[TagRun]) -> None:
        """Keep acks for the commit."""
        self._answers.append(Answer(taken, runs, True, False, False))

    def reject(
        self, taken: list[list[Piece]], runs: list[TagRun], requeue: bool, failed: bool
    ) -> None:
        """Keep a nack or reject for the commit."""
        self._answers.append(Answer(taken, runs, False, requeue, failed))

    def roll_back(self, pending: Pending) -> None:
        """Forget the publishes; deliveries are unsettled again when it completes."""
        self._left = self._answers
        self._undoing = True
        self._begin(pending)
        self.go_on()

    def runs(self) -> list[TagRun]:
        """Deliveries that were acked, nacked or rejected and not committed or rolled back yet."""
        runs: list[TagRun] = []
        for answer in self._answers:
            runs.extend(answer.runs)
        for answer in self._left:
            runs.extend(answer.runs)
        return runs

    def commit(self, pending: Pending) -> None:
        """Do everything, and complete when the messages are safe."""
        published = self.published
        self._left = self._answers
        self._undoing = False
        self._begin(pending)
        path = self._channel.publishing
        for record in published:
            self._waiting += 1
            run = PublishRun(self, 0, record.count, len(record.route.queues))
            self._runs.append((run, record.route))
            path.enqueue(
                record.route, record.records, record.lengths, record.count, record.persistent, run
            )
        self.go_on()

    def _begin(self, pending: Pending) -> None:
        self.published = []
        self._answers = deque()
        self._pending = pending
        self._refused = False
        self._runs = []
        self._waiting = 1

    def going_on(self) -> bool:
        """Whether a commit or a rollback has more to do in the next turn."""
        return len(self._left) > 0

    def go_on(self) -> None:
        """Do what was answered, in that order, or undo it: so much of it as a turn has time for."""
        left = self._left
        done = 0
        while left and done < ANSWERS_MAX:
            answer = left[0]
            if self._undoing:
                while answer.taken and done < ANSWERS_MAX:
                    pieces = answer.taken.pop()
                    for piece in pieces:
                        self._channel.unsettled.put_back(piece)
                    done += len(pieces)
                if answer.taken:
                    break
            elif answer.ack:
                self._channel.settle_now(answer.runs)
            else:
                self._channel.give_back_now(answer.runs, answer.requeue, answer.failed)
            done += 1 + len(answer.runs)
            left.popleft()
        if left:
            self._channel.connection.broker.go_on_later(self._channel)
        else:
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
        pending = self._pending
        if self._waiting == 0 and pending is not None:
            self._pending = None
            self._runs = []
            if self._refused:
                self._channel.refused(
                    ConnectionException(506, "a queue refused messages; the commit failed")
                )
            else:
                pending.succeeded(Reply())
