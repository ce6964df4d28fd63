"""One AMQP 0-9-1 channel: methods in order, one at a time.

A method that has to wait, for the disk or for a queue's machine, sets the channel aside: what
follows on this channel is kept until the answer is there, other channels go on. What each method
does is in `methods`; what a channel holds, and how deliveries are settled, is here.

Source: AMQP 0-9-1, 1.3 to 1.9, with RabbitMQ's extensions; B-07.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.errors import Refusal
from warren.limits import FRAME_OVERHEAD_BYTES, HEADER_STEP_BYTES, METHOD_STEPS, TOPOLOGY_STEPS
from warren.message.amqp091.record import content_at
from warren.message.amqp091.scan import PropertyScan
from warren.message.flavours import AMQP091
from warren.metadata.patterns import WORK
from warren.pending import PendingRequest, Result
from warren.protocols.amqp091 import methods, tables
from warren.protocols.amqp091.consuming import ConsumerLink, LinkOwner, MessageFrames
from warren.protocols.amqp091.leaving import ConsumersLeaving
from warren.protocols.amqp091.publishing import (
    BASIC_PUBLISH,
    HEADER_OWED,
    PublishOwner,
    PublishPath,
    Transacted,
    still_owed,
)
from warren.protocols.amqp091.refusals import amqp_error
from warren.protocols.amqp091.replies import DirectReplies
from warren.protocols.amqp091.served import HandedOut
from warren.protocols.amqp091.transactions import ChannelRecovery, Transaction
from warren.protocols.amqp091.unsettled import TagRun, Unsettled, runs_of
from warren.protocols.client import EndOfTurn
from warren.protocols.facts import ChannelFacts, ConsumerFacts
from warren.queues.fifo.consumers import Limiter
from warren.queues.fifo.effects import Reply
from warren.queues.fifo.pieces import SPENT_LISTS, LettingGo, Piece
from warren.queues.links import Holder
from warren.queues.publishing import PublishRun
from warren.queues.queue import Queue
from warren.queues.traffic import USES_MAX, QueueUse
from warren.vhost.handle import VhostHandle
from warren.vhost.requests import VhostRequest
from warren.vhost.routes import Route
from warren.vhost.tracing import Redeliveries
from warren.wire.amqp091 import spec
from warren.wire.amqp091.erlang_text import close_text
from warren.wire.amqp091.errors import (
    REPLY_NAMES,
    AmqpError,
    ChannelException,
    ConnectionException,
)

if TYPE_CHECKING:
    from warren.protocols.amqp091.connection import Connection
    from warren.protocols.amqp091.polling import PollLink

EXCHANGE_CLASS: Final = 40
QUEUE_CLASS: Final = 50
BASIC_ACK: Final = 0x003C0050
CHANNEL_CLOSE: Final = 0x00140028
CHANNEL_CLOSE_OK: Final = 0x00140029

TURN_BYTES: Final = 65_536
"""Input that one channel takes up in one turn, of what it had put aside."""

HOLDERS_KEPT: Final = 64
"""Consumers that are gone from a channel, before it looks which of them can be forgotten."""

TICK_MS_MAX: Final = 2_000
"""What a tick counts for at most, towards the time that a method has waited."""


@final
class Pending(PendingRequest):
    """A method of this channel that waits for its answer.

    Attributes:
        request: The method.
        change: What it asks of the vhost; None if it is about a queue, or this channel.
        queue: The queue that it is about, if it is.
        name: The consumer tag of the consumer that it begins.
        polls: Whether its message is on its way to the client, after which the channel goes on.
    """

    def __init__(self, channel: Channel, request: spec.Method) -> None:
        self.channel: Channel = channel
        self.request: spec.Method = request
        self.change: VhostRequest | None = None
        self.queue: Queue | None = None
        self.link: ConsumerLink | None = None
        self.polls: bool = False
        self.name: str = ""
        self.waited_ms: i64 = 0
        self.seen_ms: i64 = -1

    # Queues and tables call these in the middle of what they do: no error of ours may pass.

    def succeeded(self, result: Result) -> None:
        """A queue, or else the vhost, has done it."""
        try:
            if isinstance(result, Reply):
                self.channel.completed(self, result)
            else:
                self.channel.changed(self, result)
        except Exception as error:
            self.channel.failed(error)

    def refused(self, refusal: Refusal) -> None:
        """It turned out to be impossible."""
        request = self.request
        try:
            self.channel.refused(amqp_error(refusal, request.CLASS_ID, request.METHOD_ID))
        except Exception as error:
            self.channel.failed(error)

    def abandoned(self) -> None:
        """The queue was deleted meanwhile."""
        queue = self.queue
        assert queue is not None
        try:
            self.channel.refused(ChannelException(404, queue.absence()))
        except Exception as error:
            self.channel.failed(error)

    def missed(self) -> None:
        """It was done, and its answer is not known: only a consumer has the same in any case.

        A poll whose message went back with its node's session is made anew, and so is what readers
        of class `table` ask for.
        """
        try:
            self._missed()
        except Exception as error:
            self.channel.failed(error)

    def _missed(self) -> None:
        request = self.request
        if isinstance(request, spec.BasicConsume):
            self.succeeded(Reply())
            return
        if isinstance(request, spec.BasicGet):
            if self.channel.is_open():
                methods.poll(self.channel, self)
            return
        if request.CLASS_ID == spec.TableRead.CLASS_ID:
            if self.channel.is_open():
                tables.ask_again(self)
            return
        text = f"the answer of {self.queue} to {request.NAME} was lost: ask again"
        error = ConnectionException(541, text, request.CLASS_ID, request.METHOD_ID)
        self.channel.refused(error)


@final
class Channel(PublishOwner, LinkOwner, Holder, EndOfTurn):
    """The server's side of one channel.

    Attributes:
        vhost: What it may use.
        number: Its number on the connection.
        aside: Whether input has to be kept or dropped instead of handled.
        publishing: The way of its publishes.
        acked_to: Where in the input the last ack looked at ends.
        last_queue: The queue that an empty name means.
        prefetch: What consumers begin with; 0 for no limit.
        prefetch_said: The same for consumers of queues that honour no limit over a channel: what
            `basic.qos` said last, for whom ever.
        limiter: The limit over all consumers, if one was ever set.
        transaction: What waits for `tx.commit`; None outside transactional mode.
        replies: The consumer of direct replies, if there is one.
        leaving: The consumers of a channel that has ended, as long as not all have left.
        polled: A message that was polled for, while it is read.
        owed: Of a message that was refused, the bytes of its body that the client still sends, or
            `HEADER_OWED`.
    """

    def __init__(self, connection: Connection, vhost: VhostHandle, number: i64) -> None:
        self.connection: Connection = connection
        self.vhost: VhostHandle = vhost
        self.number: i64 = number
        self.aside: bool = False
        self.publishing: PublishPath = PublishPath(
            vhost,
            self,
            number,
            connection.output.frame_max - FRAME_OVERHEAD_BYTES,
            connection.broker.traffic,
            connection.broker.budget,
        )
        self.acked_to: i64 = 0
        self._served: HandedOut | None = None
        """What is handed out here; None as long as nobody consumed or polled."""
        self._holders_enough: i64 = HOLDERS_KEPT
        self._first_woken: i64 = 0
        self.last_queue: str = ""
        self.prefetch: i64 = 0
        self.prefetch_said: i64 = 0
        self.limiter: Limiter | None = None
        self.transaction: Transaction | None = None
        self.replies: DirectReplies | None = None
        self.leaving: ConsumersLeaving | None = None
        self.polled: PollLink | None = None
        self.owed: i64 = 0
        self._closing: bool = False
        self._ended: bool = False
        self._pending: Pending | None = None
        self._deferred: list[bytes] | None = None
        self._deferred_bytes: i64 = 0
        self._kept: bytes = b""
        """What comes before `_deferred`, from `_kept_at` on."""
        self._kept_at: i64 = 0
        self._taking_up: bool = False
        self._repeat_at: i64 = -1
        """Where in `_kept` a method lies that was taken up and has to wait once more; else -1."""

    @property
    def served(self) -> HandedOut:
        """What is handed out here, and by whom; made when it is asked for first."""
        served = self._served
        if served is None:
            served = self._served = HandedOut(
                self.connection.output, self.number, self.vhost.tracer
            )
            self.publishing.consumes = True
        return served

    @property
    def unsettled(self) -> Unsettled:
        """Deliveries that wait for an ack."""
        return self.served.unsettled

    @property
    def consumers(self) -> dict[str, ConsumerLink]:
        """By consumer tag."""
        return self.served.consumers

    @property
    def frames(self) -> MessageFrames:
        """Writes messages to this channel."""
        return self.served.frames

    def facts(self) -> ChannelFacts:
        """What operators are told of it, and of its consumers."""
        facts = ChannelFacts(self.number)
        confirms = self.publishing.confirms
        if confirms is not None:
            facts.confirm = True
            facts.unconfirmed = confirms.owed_count()
        facts.publishes = self.publishing.published > 0
        uses = self.publishing.uses
        if uses is not None:
            facts.published = list(uses.values())
        transaction = self.transaction
        if transaction is not None:
            facts.transactional = True
            facts.uncommitted = transaction.published_count()
            facts.acks_uncommitted = transaction.answered_count()
        facts.prefetch = self.prefetch
        limiter = self.limiter
        facts.global_prefetch = 0 if limiter is None else limiter.limit
        served = self._served
        if served is None:
            return facts
        facts.served = list(served.uses.values())
        facts.unacknowledged = served.unsettled.count()
        for link in served.consumers.values():
            facts.consumers.append(_facts_of(link))
        return facts

    def consumer_begun(self, link: ConsumerLink) -> None:
        """A queue has taken a consumer."""
        link.begun = True
        self.connection.broker.consumer_changed(self.connection, self.number, _facts_of(link), True)

    def consumer_gone(self, link: ConsumerLink) -> None:
        """A consumer is no more, whoever wanted that."""
        if link.begun:
            link.begun = False
            broker = self.connection.broker
            broker.consumer_changed(self.connection, self.number, _facts_of(link), False)

    def use_of(self, queue: Queue) -> QueueUse:
        """Where it is counted what this channel gets of a queue."""
        uses = self.served.uses
        use = uses.get(id(queue))
        if use is None or use.name != queue.name:
            if len(uses) >= USES_MAX:
                uses.clear()
            whole = self.connection.broker.traffic.of_type(queue.type)
            use = uses[id(queue)] = QueueUse(queue.name, whole)
        return use

    # Input.

    def method(self, data: bytes, at: i64, end: i64) -> None:
        """Handle one method frame's payload.

        Raises:
            ChannelException, ConnectionException: With class and method id filled in.
        """
        self.publishing.check_idle()
        key = read_i32_be(data, at)
        if key == 0x003C0028:
            self.publishing.begin(data, at - 7, end + 1)
            return
        method = spec.decode_method(data, at, end)
        changes = key >> 16 == EXCHANGE_CLASS or key >> 16 == QUEUE_CLASS
        budget = self.connection.broker.budget
        # Arguments are a table, of which each entry is an object or more.
        budget.spent += (end - at) // HEADER_STEP_BYTES
        budget.spent += TOPOLOGY_STEPS if changes else METHOD_STEPS
        before = WORK.steps
        try:
            if self.vhost.removing() and methods.waits_for_removal(self, method):
                # Its queue is about to go; what is asked now has to find it gone.
                self.aside = True
                if self._taking_up:
                    self._repeat_at = at - 7
                else:
                    self._keep(data[at - 7 : end + 1])
                return
            methods.handle(self, method)
        except Refusal as refusal:
            raise amqp_error(refusal, method.CLASS_ID, method.METHOD_ID) from None
        except AmqpError as error:
            error.class_id = method.CLASS_ID
            error.method_id = method.METHOD_ID
            raise
        finally:
            budget.spent += WORK.steps - before

    def acks(self, data: bytes, at: i64, end: i64) -> i64:
        """Handle the `basic.ack` frame at `at` and those that follow directly; returns the end.

        Raises:
            ChannelException: 406, an unknown delivery tag; `acked_to` says how far it came.
        """
        first: i64 = 0
        last: i64 = 0
        some = False
        low = self.number & 0xFF
        high = self.number >> 8
        while end - at >= 21:
            if (
                data[at] != 1
                or i64(data[at + 1]) != high
                or i64(data[at + 2]) != low
                or i64(read_i32_be(data, at + 7)) != BASIC_ACK
                or read_i32_be(data, at + 3) != 13
                or data[at + 20] != 0xCE
            ):
                break
            tag = read_i64_be(data, at + 11)
            multiple = data[at + 19] & 1
            at += 21
            self.acked_to = at
            if multiple == 0 and some and tag == last + 1:
                last = tag
                continue
            if some:
                self.settle(first, last)
                some = False
            if multiple:
                self.settle_up_to(tag)
            else:
                some = True
                first = tag
                last = tag
        if some:
            self.settle(first, last)
        return at

    def waits(self) -> bool:
        """Whether its input is kept, as opposed to handled or dropped."""
        return self.aside and not self._closing

    def put_aside(self, data: bytes, at: i64, stop: i64, key: i64) -> None:
        """Keep a frame until the answer is there; a channel that closes drops it."""
        if not self._closing:
            self._keep(data[at:stop])
        elif key == CHANNEL_CLOSE_OK:
            self.connection.channel_closed(self)
        else:
            self._pass_over(data, at, stop, key)

    def _pass_over(self, data: bytes, at: i64, stop: i64, key: i64) -> None:
        """Drop a frame of a channel that closes; a close of the client's is answered."""
        if data[at] != 1:
            self.owed = still_owed(self.owed, data, at, stop)
        elif key == BASIC_PUBLISH:
            self.owed = HEADER_OWED
        elif key == CHANNEL_CLOSE:
            self.send(spec.ChannelCloseOk())

    def fail(self, error: AmqpError) -> None:
        """Close the channel for a client's error."""
        if self._closing:
            return
        self.connection.broker.log_warning(f"{self.connection.peer} channel {self.number}: {error}")
        self.owed = self.publishing.owed()
        self._closing = True
        self.end()
        self.aside = True
        self.send(
            spec.ChannelClose(
                error.code,
                close_text(REPLY_NAMES[error.code], error.text),
                error.class_id,
                error.method_id,
            ),
        )
        if not self._taking_up:
            self._pass_over_deferred()

    def end(self) -> None:
        """Let go of everything this channel has in the broker; once."""
        if self._ended:
            return
        self._ended = True
        self.vhost.close_channel()
        self.publishing.let_go()
        self._pending = None
        if not self._closing:
            self._drop_deferred()
        if self.replies is not None:
            self.replies.close()
        served = self._served
        transaction = self.transaction
        if transaction is not None:
            transaction.keep({} if served is None else served.holders)
        if served is not None:
            leaving = ConsumersLeaving(self, list(served.consumers.values()), served.holders)
            served.consumers = {}
            served.holders = {}
            if not leaving.go_on():
                self.leaving = leaving
                self.connection.broker.do_small(leaving)
        if transaction is not None:
            self.transaction = None
            transaction.end()
        if served is not None:
            self._let_go(served.unsettled.take(0, served.unsettled.next_tag))

    def brief_queues(self) -> list[Queue]:
        """The auto-delete queues that have consumers here, which may be their last."""
        served = self._served
        if served is None:
            return []
        return [link.queue for link in served.consumers.values() if link.queue.auto_delete]

    def keeps_others(self) -> bool:
        """Whether it has what others wait for: memory for messages of its own, or deliveries."""
        if self.publishing.assembly is not None:
            return True
        transaction = self.transaction
        if transaction is not None and (transaction.published or not transaction.is_empty()):
            return True
        served = self._served
        return served is not None and (len(served.consumers) > 0 or served.unsettled.count() > 0)

    def hold_number(self) -> None:
        """Drop what comes: the client was not told yet that its channel has ended."""
        self._closing = True
        self.aside = True

    def is_open(self) -> bool:
        """Whether answers may still be sent on it."""
        return not self._ended

    # Waiting.

    def completed(self, pending: Pending, reply: Reply) -> None:
        """An answer is there: tell the client and go on."""
        if self._ended:
            return
        self._pending = None
        try:
            methods.answer(self, pending, reply)
        except AmqpError as error:
            error.class_id = pending.request.CLASS_ID
            error.method_id = pending.request.METHOD_ID
            self.refused(error)
            return
        if not pending.polls and not self._waits():
            self.go_on()

    def changed(self, pending: Pending, result: Result) -> None:
        """The vhost has done what was asked: tell the client and go on."""
        if self._ended:
            return
        self._pending = None
        methods.answer_change(self, pending.request, result)
        if not self._waits():
            self.go_on()

    def _waits(self) -> bool:
        return self._pending is not None

    def refused(self, error: AmqpError) -> None:
        """A method that waited turned out to be an error."""
        if self._ended:
            return
        self._pending = None
        if isinstance(error, ConnectionException):
            self.connection.refuse(error)
        else:
            self.fail(error)

    def tick(self, now_ms: i64) -> None:
        """Nobody waits for ever for a majority that is not there; called about once a second."""
        pending = self._pending
        if pending is None or self._ended:
            return
        if pending.seen_ms >= 0:
            # A node that stood still for longer first has to do what was due meanwhile.
            pending.waited_ms += min(now_ms - pending.seen_ms, TICK_MS_MAX)
        pending.seen_ms = now_ms
        if pending.waited_ms > self.connection.broker.settings.majority_wait_ms:
            self._give_up(pending)

    def _give_up(self, pending: Pending) -> None:
        """Refuse a method that has waited too long, if a majority can have been what it lacked."""
        request = pending.request
        queue = pending.queue
        if isinstance(request, (spec.TxRollback, spec.BasicRecover, spec.BasicRecoverAsync)):
            # What it waits for is its turns here.
            return
        if isinstance(request, spec.TxCommit):
            assert self.transaction is not None
            # A commit may be long, and its disks slow.
            queue = self.vhost.without_majority(self.transaction.awaited())
            if queue is None:
                return
        elif (
            isinstance(request, (spec.TableRead, spec.TableStatus, spec.TableCheckouts))
            and queue is None
        ):
            # What it waits for is the disk here, or its turns.
            return
        if pending.change is not None:
            pending.refused(self.vhost.timed_out(pending.change, pending))
        else:
            text = methods.overdue(request, queue)
            pending.refused(self.vhost.use_timed_out(text, queue))

    def sent(self) -> None:
        """The answer that a method waited for is on its way: go on."""
        self._pending = None
        self.go_on()

    def go_on(self) -> None:
        """Take up what was put aside, up to the next method that has to wait."""
        if self._ended or self.publishing.fan_out is not None:
            return
        transaction = self.transaction
        if transaction is not None and transaction.going_on():
            transaction.go_on()
            return
        self.aside = False
        if not self._taking_up and (self._deferred or self._kept):
            self._take_up()

    def _take_up(self) -> None:
        """Handle what was put aside, each byte once, however often methods in it have to wait."""
        connection = self.connection
        taken: i64 = 0
        self._taking_up = True
        while not self._ended and not self.aside:
            if self._kept_at == len(self._kept):
                self._kept = b"".join(self._deferred or [])
                self._kept_at = 0
                self._deferred = None
                if not self._kept:
                    break
            if taken >= TURN_BYTES:
                # The rest is for the next turn: other clients wait, too.
                self.aside = True
                self.connection.broker.go_on_later(self)
                break
            start = self._kept_at
            at = connection.take_up(self, self._kept, start, start + TURN_BYTES)
            assert at > start or self.aside or self._ended, "what was put aside is not taken up"
            if self._repeat_at >= 0:
                at = self._repeat_at
                self._repeat_at = -1
            taken += at - start
            self._kept_at = at
        self._taking_up = False
        if self._closing:
            self._pass_over_deferred()
        elif self._ended:
            self._drop_deferred()
        else:
            if self._kept_at == len(self._kept):
                self._kept = b""
                self._kept_at = 0
            self._deferred_bytes -= taken
            connection.channel_waits(-taken)

    def gone(self) -> bool:
        """Whether the channel has ended."""
        return self._ended

    def failed(self, error: Exception) -> None:
        """End the connection for an error of this program's own; see `ClientConnection.failed`."""
        self.connection.failed(error)

    def settled(self, run: PublishRun) -> None:
        """A run of publishes is answered by all its queues."""
        try:
            self._settled(run)
        except Exception as error:
            self.failed(error)

    def _settled(self, run: PublishRun) -> None:
        confirms = self.publishing.confirms
        if confirms is not None and not self._ended:
            use = run.use
            if use is not None and not run.refused:
                use.confirmed(run.count - run.rejected_count())
            confirms.settled(run)
            self.connection.broker.confirm_later(self)

    def write_confirms(self) -> None:
        """Write the acks that are due; called at the end of the turn."""
        confirms = self.publishing.confirms
        if confirms is not None and not self._ended:
            confirms.write(self.connection.output.buffer)
            self.connection.output.touch()

    # Publishing.

    def unroutable(self, record: bytes, route: Route) -> None:
        """Return a mandatory message that no queue took."""
        self.send(spec.BasicReturn(312, "NO_ROUTE", route.exchange, route.routing_key))
        self.frames.write_content(record, content_at(record, 0), len(record))

    def congested(self, queue: Queue) -> None:
        """Hold this connection's input until the queue has caught up."""
        self.connection.flow_off()
        queue.hold_back(self.connection)

    def assembling(self, size: i64) -> None:
        """Count it with what the other channels collect."""
        self.connection.assembling(size)

    def spreads(self) -> None:
        """What follows waits until all queues have what was published."""
        self.aside = True

    def is_spread(self) -> None:
        """Go on."""
        self.go_on()

    def transact(self, record: Transacted) -> None:
        """Keep a message for the transaction's commit."""
        assert self.transaction is not None
        self.transaction.publish(record)

    def connection_name(self) -> str:
        """Both ends of the connection."""
        return self.connection.name()

    def reply_to(self, record: bytes, scan: PropertyScan, head: i64) -> bytes:
        """Put this channel's reply address into a request."""
        if self.replies is None:
            raise ChannelException(406, "fast reply consumer does not exist")
        return self.replies.addressed(record, head)

    # Consumers.

    def will_hold(self, queue: Queue, consumer_id: i64) -> None:
        """A queue may hand something to this channel, as to a consumer with this id."""
        if len(self.served.holders) >= self._holders_enough:
            self._forget_consumers()
        self.served.holders[(id(queue), int(consumer_id))] = queue

    def _forget_consumers(self) -> None:
        """Let go of consumers that are cancelled, or poll, and of which nothing is unsettled.

        A queue forgets a cancelled consumer by itself, but nobody may have its id before it is
        said to be gone.
        """
        needed: set[tuple[int, int]] = set()
        served = self.served
        for link in served.consumers.values():
            needed.add((id(link.queue), int(link.consumer_id)))
        runs = served.unsettled.owners()
        for run in runs:
            needed.add((id(run.queue), int(run.consumer_id)))
        if self.transaction is not None:
            needed.update(self.transaction.owners())
        for key, queue in list(served.holders.items()):
            if key not in needed:
                del served.holders[key]
                if served.pollers.get(key[0], -1) == key[1]:
                    del served.pollers[key[0]]
                    del served.poll_times[key[0]]
                if not queue.deleted:
                    queue.down(key[1])
        kept: i64 = len(served.holders)
        # So that each consumer costs the same, however much is unsettled.
        self._holders_enough = kept + max(HOLDERS_KEPT, kept, len(runs) // 16)

    def wake_consumers(self) -> None:
        """The shared prefetch limit has room again; each time another consumer hears of it first.

        Those of one queue keep their turns there, whoever is the first.
        """
        served = self._served
        if served is None or not served.consumers:
            return
        links = list(served.consumers.values())
        first = self._first_woken % len(links)
        self._first_woken = first + 1
        for link in links[first:] + links[:first]:
            link.queue.wake(link.consumer_id)

    def link_cancelled(self, link: ConsumerLink) -> None:
        """A consumer's queue was deleted: tell clients that know `basic.cancel` from the server."""
        served = self.served
        served.consumers.pop(link.tag, None)
        self.consumer_gone(link)
        served.holders.pop((id(link.queue), int(link.consumer_id)), None)
        if self.connection.agreement.capability("consumer_cancel_notify"):
            self.send(spec.BasicCancel(link.tag, True))

    def link_traced(
        self, link: ConsumerLink, records: bytes, lengths: bytes, redeliveries: Redeliveries
    ) -> None:
        """Tell of what a consumer was given."""
        self.trace_delivered(link.queue, records, lengths, redeliveries)

    def trace_delivered(
        self, queue: Queue, records: bytes, lengths: bytes, redeliveries: Redeliveries
    ) -> None:
        """Tell of messages that a queue gave to the client, of a vhost that is traced."""
        name = self.connection.name()
        self.vhost.trace_delivered(
            name, self.number, queue.name, AMQP091, records, lengths, redeliveries
        )

    def link_renumbered(self, link: ConsumerLink, before: i64) -> None:
        """It is under its new id that it has to be let go of."""
        holders = self.served.holders
        holders.pop((id(link.queue), int(before)), None)
        holders[(id(link.queue), int(link.consumer_id))] = link.queue

    def held_too_long(self, queue: Queue, consumer_id: i64, timeout_ms: i64) -> None:
        """Cancel the consumer, if the client can be told of that; else close the channel (CT-11).

        What it still holds may be settled; so may be what went back, to no effect.
        """
        try:
            self._held_too_long(queue, consumer_id, timeout_ms)
        except Exception as error:
            self.failed(error)

    def _held_too_long(self, queue: Queue, consumer_id: i64, timeout_ms: i64) -> None:
        if self._ended:
            return
        if self.connection.agreement.capability("consumer_cancel_notify"):
            for link in self.consumers.values():
                if link.queue is queue and link.consumer_id == consumer_id:
                    del self.consumers[link.tag]
                    link.close()
                    self.consumer_gone(link)
                    queue.cancel(consumer_id)
                    self.send(spec.BasicCancel(link.tag, True))
                    return
        self.refused(
            ChannelException(
                406,
                f"delivery acknowledgement on channel {self.number} timed out. Timeout value used: "
                f"{timeout_ms} ms. This timeout value can be configured, see consumers doc guide "
                "to learn more",
            )
        )

    def holds(self, queue: Queue, consumer_id: i64, first: i64, last: i64) -> bool:
        """Whether any of a consumer's messages with these ids waits for an ack of the client.

        So does what it polled for and is still read.
        """
        if self._ended:
            return False
        polled = self.polled
        if polled is not None and polled.holds(queue, consumer_id, first, last):
            return True
        served = self._served
        return served is not None and served.unsettled.holds_of(queue, consumer_id, first, last)

    # Settling.

    def settle(self, first: i64, last: i64) -> None:
        """Ack the tags `first..last`, each of which has to be unsettled."""
        taken = self.unsettled.take(first, last)
        runs = runs_of(taken)
        expected = first
        for run in runs:
            if run.key != expected:
                break
            expected += run.count
        self._settle_runs(taken, runs)
        if expected != last + 1:
            raise _unknown_tag(expected, 80)

    def settle_up_to(self, tag: i64) -> None:
        """Ack all tags up to one; 0 means all there are."""
        last = self._last_of(tag, 80)
        runs = self.unsettled.spans(last)
        self._settle_runs(self.unsettled.take(0, last), runs)

    def _settle_runs(self, taken: list[list[Piece]], runs: list[TagRun]) -> None:
        transaction = self.transaction
        if transaction is not None:
            transaction.ack(taken, runs)
            return
        self.settle_now(runs)
        self._let_go(taken)

    def _let_go(self, taken: list[list[Piece]]) -> None:
        """Forget what was unsettled, in parts if it is much."""
        if len(taken) > SPENT_LISTS:
            self.connection.broker.do_in_parts(LettingGo(taken))

    def settle_now(self, runs: list[TagRun]) -> None:
        """Tell the queues that deliveries are done with."""
        queue: Queue | None = None
        use: QueueUse | None = None
        for run in runs:
            if run.queue.deleted:
                continue
            if use is None or run.queue is not queue:
                queue = run.queue
                use = self.use_of(queue)
            use.acknowledged(run.count)
            run.queue.settle(run.consumer_id, run.mid, run.mid + run.count - 1)
        self._limits_changed()

    def give_back(self, tag: i64, multiple: bool, requeue: bool, failed: bool) -> None:
        """`basic.nack` and `basic.reject`."""
        method_id = 90 if failed else 120
        if multiple:
            last = self._last_of(tag, method_id)
            runs = self.unsettled.spans(last)
            taken = self.unsettled.take(0, last)
        else:
            taken = self.unsettled.take(tag, tag)
            runs = runs_of(taken)
            if not runs:
                raise _unknown_tag(tag, method_id)
        if self.transaction is not None:
            self.transaction.reject(taken, runs, requeue, failed)
        else:
            self.give_back_now(runs, requeue, failed)
            self._let_go(taken)

    def give_back_now(self, runs: list[TagRun], requeue: bool, failed: bool) -> None:
        """Return deliveries to their queues, or discard them."""
        for run in runs:
            if run.queue.deleted:
                continue
            last = run.mid + run.count - 1
            if requeue:
                run.queue.return_(run.consumer_id, run.mid, last, failed)
            else:
                run.queue.discard(run.consumer_id, run.mid, last, failed)
        self._limits_changed()

    def recover(self, request: spec.Method) -> None:
        """Return all that is unsettled, and answer `request`."""
        last = self.unsettled.next_tag
        if self.transaction is None or self.transaction.is_empty():
            spans = self.unsettled.spans(last)
            taken = self.unsettled.take(0, last)
            self.give_back_now(spans, True, False)
            self._let_go(taken)
            self.recovered(request)
            return
        # What the transaction has between these waits for its commit: each run is for itself.
        recovery = ChannelRecovery(self, request, self.unsettled.take(0, last))
        if not recovery.go_on():
            self.wait(request)
            self.connection.broker.do_in_parts(recovery)

    def recovered(self, request: spec.Method) -> None:
        """Answer `basic.recover`: all that was unsettled has returned."""
        if isinstance(request, spec.BasicRecover):
            self.send(spec.BasicRecoverOk())

    def _last_of(self, tag: i64, method_id: int) -> i64:
        """The last tag that an answer up to `tag` is for; 0 means all there are."""
        if tag == 0:
            return self.unsettled.next_tag
        if not self.unsettled.holds(tag):
            raise _unknown_tag(tag, method_id)
        return tag

    def _limits_changed(self) -> None:
        if self.limiter is not None and self.limiter.limit > 0:
            self.wake_later()

    def wake_later(self) -> None:
        """Have consumers hear, once in this turn, that their shared limit may have room."""
        self.connection.broker.wake_later(self)

    # For the methods.

    def wait(self, request: spec.Method) -> Pending:
        """Set the channel aside until `request` is answered."""
        self.aside = True
        pending = Pending(self, request)
        self._pending = pending
        return pending

    def wait_for(self, change: VhostRequest, request: spec.Method) -> Pending:
        """Set the channel aside until the vhost has done what `request` asks for."""
        pending = self.wait(request)
        pending.change = change
        return pending

    def queue_name(self, name: str) -> str:
        """A queue's name, where an empty one means the last declared (NAME-05)."""
        if name:
            return name
        if not self.last_queue:
            raise ChannelException(404, "no previously declared queue")
        return self.last_queue

    def send(self, method: spec.Method) -> None:
        """Send a method to the client."""
        self.connection.send(self.number, method)

    def _keep(self, frame: bytes) -> None:
        if self._deferred is None:
            self._deferred = []
        self._deferred.append(frame)
        self._deferred_bytes += len(frame)
        self.connection.channel_waits(len(frame))

    def _pass_over_deferred(self) -> None:
        """Drop what was put aside, as what comes to a channel that closes."""
        data = self._kept[self._kept_at :] + b"".join(self._deferred or [])
        self._drop_deferred()
        at: i64 = 0
        while at < len(data):
            size: i64 = i64(read_i32_be(data, at + 3))
            stop = at + 8 + size
            key: i64 = i64(read_i32_be(data, at + 7)) if data[at] == 1 and size >= 4 else 0
            self._pass_over(data, at, stop, key)
            at = stop

    def _drop_deferred(self) -> None:
        self._deferred = None
        self._kept = b""
        self._kept_at = 0
        if self._deferred_bytes:
            size = self._deferred_bytes
            self._deferred_bytes = 0
            self.connection.channel_waits(-size)


def _unknown_tag(tag: i64, method_id: int) -> ChannelException:
    """What is told of a tag that is not unsettled; on the wire it has 64 bits without a sign."""
    said = int(tag)
    if said < 0:
        said += 1 << 64
    return ChannelException(406, f"unknown delivery tag {said}", 60, method_id)


def _facts_of(link: ConsumerLink) -> ConsumerFacts:
    return ConsumerFacts(
        link.queue.name,
        link.tag,
        not link.no_ack,
        link.exclusive,
        link.prefetch,
        link.arguments,
        link.consumer_id,
    )
