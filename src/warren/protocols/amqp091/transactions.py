"""AMQP 0-9-1 transactions of one channel: publishes and acks that wait for a commit.

`tx.commit-ok` is sent when every message is where its confirm would need it to be (MIR-35). As in
RabbitMQ a commit is not atomic over several queues. Deliveries are answered when all messages are
safe, and not at all where one of them was refused: who moves messages loses none, whichever node
dies. Of many messages and answers to deliveries a turn does some; what the client sends meanwhile
waits. A commit that has come is carried out, whatever becomes of its client.

Source: AMQP 0-9-1, 1.9.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.headed_list import HeadedList
from warren.ports import Work
from warren.protocols.amqp091.publishing import Transacted
from warren.protocols.amqp091.shedding import weight_of, weight_of_answer
from warren.protocols.amqp091.unsettled import TagRun, runs_of
from warren.queues.fan_out import is_wide
from warren.queues.fifo.effects import Reply
from warren.queues.fifo.pieces import SPENT_LISTS, Piece
from warren.queues.publishing import Publisher, PublishRun
from warren.queues.queue import Queue
from warren.vhost.routes import Route
from warren.wire.amqp091 import spec
from warren.wire.amqp091.errors import ChannelException, ConnectionException

if TYPE_CHECKING:
    from warren.protocols.amqp091.channel import Channel, Pending


ANSWERS_MAX: Final = 4_096
"""Runs of deliveries that one turn commits or rolls back, but for the rest of a list: some 4 ms."""

RETURNS_MAX: Final = 2_048
"""Runs that one turn returns for `basic.recover`, each by a command of its own: about 10 ms."""

MESSAGES_MAX: Final = 4_096
"""Runs of messages that one turn commits, once for each queue that they go to, or forgets."""

MESSAGES_BYTES: Final = 4_194_304
"""What these take, but for the last of them: a queue copies all that a turn brings it."""

AWAITED_MAX: Final = 1_024
"""Queues about which a waiting commit asks at a time whether they have leaders: about 1 ms."""


@final
class AwaitedQueue:
    """A queue that has not answered for messages of the commit under way.

    Attributes:
        runs: How many runs of messages wait that went to it, perhaps for others of their queues.
    """

    def __init__(self, queue: Queue) -> None:
        self.queue: Queue = queue
        self.runs: i64 = 0


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
    """What a transactional channel did since its last commit.

    Attributes:
        published: Messages that wait for the next one.
        bytes: What they take, and the answers that wait with them.
    """

    def __init__(self, channel: Channel) -> None:
        self.published: deque[Transacted] = deque()
        self.bytes: i64 = 0
        self._count: i64 = 0
        """Messages in `published`."""
        self._answers: deque[Answer] = deque()
        self._owners: dict[tuple[int, int], None] = {}
        """The consumers whose deliveries were answered, by their queues' identities and their ids;
        until the next commit or rollback is through."""
        self._newest: TagRun | None = None
        """Of the consumer that was noted last."""
        self._channel: Channel = channel
        self._waiting: int = 0
        self._runs: HeadedList[tuple[PublishRun, Route]] = HeadedList()
        """Of the commit under way, from the first on that is not safe."""
        self._before: i64 = 0
        """Runs of it before those; each is numbered by its place among all."""
        self._awaited: dict[int, AwaitedQueue] = {}
        """By the identities of their queues, those of runs that are not safe, but for wide ones."""
        self._asked: i64 = 0
        """Of the queues of the first run, if it is wide, how many were given last."""
        self._refused: bool = False
        self._rejected: bool = False
        """Whether a classic queue had no room for some of the commit's messages."""
        self._pending: Pending | None = None
        self._left: deque[Answer] = deque()
        """Of the commit or the rollback under way, what is not done yet."""
        self._publishing: deque[Transacted] = deque()
        """Likewise of what was published."""
        self._spreads: bool = False
        """Whether a message of it is on its way into more queues than one turn serves."""
        self._undoing: bool = False
        self._answering: bool = False
        """Whether the messages of the commit are safe, or it is undone: deliveries are next."""
        self._kept: list[tuple[Queue, int]] | None = None
        """Consumers that are let go of when the commit is through, as the client has gone."""

    def publish(self, record: Transacted) -> None:
        """Keep messages for the commit.

        Raises:
            ChannelException: 406, these are too many.
        """
        most: i64 = self._channel.connection.broker.settings.tx_messages_max
        if 0 <= most < self._count + record.count:
            text = f"transaction has reached the maximum of {most} uncommitted publishes"
            raise ChannelException(406, text, 60, 40)
        self._count += record.count
        self.published.append(record)
        self._grow(weight_of(record))

    def ack(self, taken: list[list[Piece]], runs: list[TagRun]) -> None:
        """Keep acks for the commit."""
        self._note_owners(runs)
        self._grow(weight_of_answer(runs))
        self._answers.append(Answer(taken, runs, True, False, False))

    def reject(
        self, taken: list[list[Piece]], runs: list[TagRun], requeue: bool, failed: bool
    ) -> None:
        """Keep a nack or reject for the commit."""
        self._note_owners(runs)
        self._grow(weight_of_answer(runs))
        self._answers.append(Answer(taken, runs, False, requeue, failed))

    def published_count(self) -> i64:
        """Messages that wait for the commit."""
        return self._count

    def answered_count(self) -> i64:
        """Deliveries whose answers wait for it."""
        count: i64 = 0
        for answer in self._answers:
            for run in answer.runs:
                count += run.count
        return count

    def _grow(self, size: i64) -> None:
        self.bytes += size
        self._channel.connection.transacting(size)

    def _forget(self) -> None:
        """Nothing waits for a commit that is still to come."""
        size = self.bytes
        self.bytes = 0
        self._count = 0
        if size > 0:
            self._channel.connection.transacting(-size)

    def is_empty(self) -> bool:
        """Whether no deliveries were answered since the last commit or rollback."""
        return not self._answers

    def owners(self) -> list[tuple[int, int]]:
        """Consumers of deliveries that were answered and not committed or rolled back yet.

        Each is named by its queue's identity and its id there; others may be among them.
        """
        return list(self._owners)

    def _note_owners(self, runs: list[TagRun]) -> None:
        newest = self._newest
        for run in runs:
            if newest is None or not run.kin(newest):
                newest = run
                self._owners[(id(run.queue), int(run.consumer_id))] = None
        self._newest = newest

    def roll_back(self, pending: Pending) -> None:
        """Forget the publishes; deliveries are unsettled again when it completes."""
        self._begin(pending, True)

    def commit(self, pending: Pending) -> None:
        """Do everything, and complete when the messages are safe."""
        self._begin(pending, False)

    def _begin(self, pending: Pending, undoing: bool) -> None:
        self._publishing = self.published
        self._left = self._answers
        self.published = deque()
        self._answers = deque()
        self._forget()
        self._undoing = undoing
        self._pending = pending
        self._refused = False
        self._rejected = False
        self._answering = False
        self._runs = HeadedList()
        self._before = 0
        self._awaited = {}
        self._waiting = 1
        self.go_on()

    def going_on(self) -> bool:
        """Whether a commit or a rollback has more to do in the next turn."""
        return (
            len(self._publishing) > 0 or self._spreads or (self._answering and len(self._left) > 0)
        )

    def go_on(self) -> None:
        """Publish and then do what was answered, in that order, or undo it: a turn's part of it."""
        if self._answering:
            self._answer(0)
            return
        done: i64 = self._go_on_publishing()
        if self._spreads:
            # The channel goes on when all queues have it, if it is still there.
            if self._kept is not None:
                self._go_on_later()
        elif self._publishing:
            self._go_on_later()
        else:
            self._one_less(done)

    def _go_on_later(self) -> None:
        broker = self._channel.connection.broker
        if self._kept is None:
            broker.go_on_later(self._channel)
        else:
            broker.do_in_parts(Finishing(self))

    def _answer(self, done: i64) -> None:
        """Do or undo some of what was answered, after so much else in this turn, and complete."""
        self._answering = True
        self._go_on_answering(done)
        if self._left:
            self._go_on_later()
        else:
            self._complete()

    def _complete(self) -> None:
        """Everything was done, or refused: tell the client, or let go of what it left."""
        self._answering = False
        self._owners = {}
        self._newest = None
        kept = self._kept
        if kept is not None:
            self._kept = None
            for queue, consumer_id in kept:
                if not queue.deleted:
                    queue.down(consumer_id)
        pending = self._pending
        self._pending = None
        if pending is None:
            return
        assert self._runs.size() == 0 and not self._awaited, "all are safe or refused"
        if self._refused:
            self._channel.refused(
                ConnectionException(506, "a queue refused messages; the commit failed")
            )
        elif self._rejected:
            # As RabbitMQ has it: what a quorum queue has no room for is dropped silently.
            self._channel.refused(ChannelException(406, "partial tx completion", 90, 20))
        else:
            pending.succeeded(Reply())

    def _go_on_publishing(self) -> i64:
        """Publish or forget some messages; gives how many runs of them."""
        publishing = self._publishing
        path = self._channel.publishing
        done: i64 = 0
        size: i64 = 0
        self._spreads = path.fan_out is not None
        while publishing and done < MESSAGES_MAX and size < MESSAGES_BYTES and path.fan_out is None:
            record = publishing.popleft()
            size += len(record.records)
            if self._undoing:
                done += 1
                continue
            done += max(1, len(record.route.queues))
            self._waiting += 1
            place = self._before + self._runs.size()
            run = PublishRun(self, place, record.count, len(record.route.queues))
            self._runs.append((run, record.route))
            self._wait_for(record.route)
            path.enqueue(
                record.route,
                record.records,
                record.lengths,
                record.count,
                record.persistent,
                run,
                record.life_ms,
            )
        self._spreads = path.fan_out is not None
        return done

    def _go_on_answering(self, done: i64) -> None:
        """Do or undo some of what was answered, after so much else in this turn."""
        left = self._left
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

    def keep(self, holders: dict[tuple[int, int], Queue]) -> None:
        """The client goes: take out those consumers whose deliveries a commit has yet to answer.

        Args:
            holders: Of the channel, each under its queue's identity and its id there.
        """
        if self._pending is None or self._undoing:
            return
        kept: list[tuple[Queue, int]] = []
        if self._left:
            for key in self._owners:
                queue = holders.pop(key, None)
                if queue is not None and not queue.deleted:
                    queue.cancel(key[1])
                    kept.append((queue, key[1]))
        self._kept = kept
        if self.going_on():
            self._go_on_later()

    def end(self) -> None:
        """The client is gone, and `keep` was called: what it did not commit is let go of."""
        self._forget()
        committing = self._kept is not None
        ending = Ending(
            [self.published] if committing else [self._publishing, self.published],
            [self._answers] if committing else [self._left, self._answers],
        )
        if not ending.go_on():
            self._channel.connection.broker.do_in_parts(ending)

    def awaited(self) -> list[Queue]:
        """Queues that the commit under way may be waiting for: a part of very many, in turn."""
        awaited = self._awaited
        keys = list(itertools.islice(awaited, AWAITED_MAX))
        if len(keys) < len(awaited):
            for key in keys:
                awaited[key] = awaited.pop(key)
        found = [awaited[key].queue for key in keys]
        if self._runs.size() > 0:
            queues = self._runs.at(0)[1].queues
            if is_wide(queues):
                first = self._asked % len(queues)
                self._asked = first + AWAITED_MAX
                found += queues[first : first + AWAITED_MAX]
        return found

    def _wait_for(self, route: Route) -> None:
        """A run of messages is on its way to some queues."""
        awaited = self._awaited
        if is_wide(route.queues):
            return
        for queue in route.queues:
            found = awaited.get(id(queue))
            if found is None:
                found = awaited[id(queue)] = AwaitedQueue(queue)
            found.runs += 1

    def settled(self, run: PublishRun) -> None:
        """One run of the commit's messages is safe, or refused."""
        try:
            self._settled(run)
        except Exception as error:
            self.failed(error)

    def failed(self, error: Exception) -> None:
        """End the connection for an error that was met while the commit went on."""
        self._channel.failed(error)

    def _settled(self, run: PublishRun) -> None:
        if run.refused:
            self._refused = True
        runs = self._runs
        queues = runs.at(run.first - self._before)[1].queues
        if run.rejected is not None:
            for queue in queues:
                if not queue.type.replicated:
                    self._rejected = True
        for queue in [] if is_wide(queues) else queues:
            found = self._awaited[id(queue)]
            found.runs -= 1
            if found.runs == 0:
                del self._awaited[id(queue)]
        while runs.size() > 0 and runs.at(0)[0].waiting == 0:
            runs.drop(1)
            self._before += 1
        self._one_less()

    def _one_less(self, done: i64 = 0) -> None:
        """One run less is waited for, or all have been published, after so much in this turn."""
        self._waiting -= 1
        if self._waiting > 0:
            return
        if self._refused or self._rejected:
            # The deliveries return with their channel.
            left = self._left
            self._left = deque()
            self._channel.connection.broker.do_in_parts(Ending([], [left]))
        self._answer(done)


@final
class Finishing(Work):
    """Goes on with the commit of a client that is gone."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction: Transaction = transaction

    def go_on(self) -> bool:
        """Have the transaction do a turn's part, which asks for another one by itself."""
        self._transaction.go_on()
        return True

    def failed(self, error: Exception) -> None:
        """End the connection, if it is still there."""
        self._transaction.failed(error)


@final
class Ending(Work):
    """Lets go of what the client of a transaction had not committed when it went."""

    def __init__(self, forgotten: list[deque[Transacted]], answers: list[deque[Answer]]) -> None:
        """
        Args:
            forgotten: Messages.
            answers: What was answered: its consumers are gone, so that nothing is to be done.
        """
        self._forgotten: list[deque[Transacted]] = forgotten
        self._answers: list[deque[Answer]] = answers

    def go_on(self) -> bool:
        """Let go of some; whether that was all."""
        done: i64 = 0
        size: i64 = 0
        for records in self._forgotten:
            while records:
                if done >= MESSAGES_MAX or size >= MESSAGES_BYTES:
                    return False
                record = records.popleft()
                done += 1
                size += len(record.records)
        for answers in self._answers:
            while answers:
                if done >= ANSWERS_MAX:
                    return False
                taken = answers[0].taken
                done += sum(map(len, taken[-SPENT_LISTS:]))
                del taken[-SPENT_LISTS:]
                done += 1
                if not taken:
                    answers.popleft()
        return True


@final
class ChannelRecovery(Work):
    """Returns what was unsettled on a channel, run by run, and answers the client."""

    def __init__(self, channel: Channel, request: spec.Method, taken: list[list[Piece]]) -> None:
        taken.reverse()
        self._channel: Channel = channel
        self._request: spec.Method = request
        self._taken: list[list[Piece]] = taken
        self._waited: bool = False

    def go_on(self) -> bool:
        """Return some; whether these were the last. If the client is gone, all has returned."""
        channel = self._channel
        taken = self._taken
        done = 0
        while taken and done < RETURNS_MAX:
            pieces = taken.pop()
            done += len(pieces)
            if channel.is_open():
                channel.give_back_now(runs_of([pieces]), True, False)
        if taken:
            self._waited = True
            return False
        if channel.is_open():
            channel.recovered(self._request)
            if self._waited:
                channel.sent()
        return True

    def failed(self, error: Exception) -> None:
        """End the connection."""
        self._channel.failed(error)
