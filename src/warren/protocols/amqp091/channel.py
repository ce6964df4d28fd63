"""One AMQP 0-9-1 channel: methods in order, one at a time.

A method that has to wait, for the disk or for a queue's machine, sets the channel aside: what
follows on this channel is kept until the answer is there, other channels go on.

Source: AMQP 0-9-1, 1.3 to 1.9, with RabbitMQ's extensions; acceptance 2.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.errors import REPLY_NAMES, ChannelException, ConnectionException, ProtocolError
from warren.limits import FRAME_OVERHEAD_BYTES
from warren.protocols.amqp091 import tables
from warren.protocols.amqp091.confirms import Confirms
from warren.protocols.amqp091.consuming import ConsumerLink, LinkOwner, MessageFrames
from warren.protocols.amqp091.polling import PollLink
from warren.protocols.amqp091.publishing import PublishOwner, PublishPath, Transacted
from warren.protocols.amqp091.replies import DirectReplies
from warren.protocols.amqp091.transactions import Transaction
from warren.protocols.amqp091.unsettled import TagRun, Unsettled
from warren.protocols.broker import Completion, Confirming, Route, Session
from warren.queues.consumers import Limiter
from warren.queues.links import Reply
from warren.queues.publishing import PublishRun
from warren.queues.queue import Queue
from warren.wire.amqp091 import spec
from warren.wire.amqp091.erlang_text import close_text
from warren.wire.amqp091.properties import PropertyScan
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from warren.protocols.amqp091.connection import Connection

BASIC_ACK: Final = 0x003C0050
BASIC_NACK: Final = 0x003C0078
CHANNEL_CLOSE: Final = 0x00140028
CHANNEL_CLOSE_OK: Final = 0x00140029
NO_ACK_CREDIT: Final = 4_096
"""Messages handed ahead to a consumer whose messages are settled as they are written."""
NOT_YET: Final = "is not supported yet by this version of Warren"
REFUSED_CONSUME_ARGUMENTS: Final = ("x-consumer-timeout", "x-stream-offset", "x-stream-filter")


def known_tag(tag: int) -> i64:
    """A delivery tag from the wire, where it has 64 bits without a sign.

    Raises:
        ChannelException: 406, no channel ever had as many deliveries.
    """
    if tag >= 1 << 63:
        raise ChannelException(406, f"unknown delivery tag {tag}")
    return tag


@final
class Pending(Completion):
    """A method of this channel that waits for its answer."""

    def __init__(self, channel: Channel, request: spec.Method) -> None:
        self.channel: Channel = channel
        self.request: spec.Method = request
        self.queue: Queue | None = None
        self.link: ConsumerLink | None = None
        self.poll: PollLink | None = None
        self.name: str = ""

    def answered(self, reply: Reply) -> None:
        """The work is done."""
        self.channel.completed(self, reply)

    def refused(self, error: ProtocolError) -> None:
        """It turned out to be impossible."""
        self.channel.refused(error)

    def named(self, name: str) -> None:
        """The queue that was declared."""
        self.name = name

    def abandoned(self) -> None:
        """The queue was deleted meanwhile."""
        queue = self.queue
        assert queue is not None
        self.channel.refused(
            ChannelException(404, f"no queue '{queue.name}' in vhost '{queue.vhost}'")
        )


@final
class Channel(PublishOwner, LinkOwner, Confirming):
    """The server's side of one channel.

    Attributes:
        number: Its number on the connection.
        aside: Whether input has to be kept or dropped instead of handled.
        publishing: The way of its publishes.
        unsettled: Deliveries that wait for an ack.
        acked_to: Where in the input the last ack looked at ends.
    """

    def __init__(self, connection: Connection, session: Session, number: i64) -> None:
        self.connection: Connection = connection
        self.session: Session = session
        self.number: i64 = number
        self.aside: bool = False
        self.publishing: PublishPath = PublishPath(
            session, self, number, connection.output.frame_max - FRAME_OVERHEAD_BYTES
        )
        self.unsettled: Unsettled = Unsettled()
        self.acked_to: i64 = 0
        self.consumers: dict[str, ConsumerLink] = {}
        self.frames: MessageFrames = MessageFrames(connection.output, number)
        self._closing: bool = False
        self._ended: bool = False
        self._deferred: list[bytes] = []
        self._deferred_bytes: i64 = 0
        self._last_queue: str = ""
        self._prefetch: i64 = 0
        self._limiter: Limiter | None = None
        self._holders: dict[tuple[int, int], Queue] = {}
        self._pollers: dict[int, i64] = {}
        self._transaction: Transaction | None = None
        self._replies: DirectReplies | None = None

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
        if self.session.removing() and key >> 16 in (40, 50, 60) and key != BASIC_NACK:
            # A queue is about to go; what is asked now has to find it gone.
            self.aside = True
            self._keep(data[at - 7 : end + 1])
            self.session.after_removals(self)
            return
        method = spec.decode_method(data, at, end)
        try:
            self._handle(method)
        except ProtocolError as error:
            error.class_id = method.CLASS_ID
            error.method_id = method.METHOD_ID
            raise

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
                self._settle(first, last)
                some = False
            if multiple:
                self._settle_up_to(tag)
            else:
                some = True
                first = tag
                last = tag
        if some:
            self._settle(first, last)
        return at

    def put_aside(self, data: bytes, at: i64, stop: i64, key: i64) -> None:
        """Keep a frame until the answer is there; a channel that closes drops it."""
        if not self._closing:
            self._keep(data[at:stop])
        elif key == CHANNEL_CLOSE:
            self.connection.send(self.number, spec.ChannelCloseOk())
        elif key == CHANNEL_CLOSE_OK:
            self.connection.channel_closed(self)

    def fail(self, error: ProtocolError) -> None:
        """Close the channel for a client's error."""
        if self._closing:
            return
        self.session.log_warning(f"{self.connection.peer} channel {self.number}: {error}")
        self.end()
        self._closing = True
        self.aside = True
        self.connection.send(
            self.number,
            spec.ChannelClose(
                error.code,
                close_text(REPLY_NAMES[error.code], error.text),
                error.class_id,
                error.method_id,
            ),
        )

    def end(self) -> None:
        """Let go of everything this channel has in the broker; once."""
        if self._ended:
            return
        self._ended = True
        self.publishing.assembly = None
        self._drop_deferred()
        if self._replies is not None:
            self._replies.close()
        links = self.consumers
        self.consumers = {}
        for link in links.values():
            link.closed = True
        for (_, consumer_id), queue in self._holders.items():
            if not queue.deleted:
                queue.down(consumer_id)
        self._holders = {}

    def is_open(self) -> bool:
        """Whether answers may still be sent on it."""
        return not self._ended

    # Waiting.

    def completed(self, pending: Pending, reply: Reply) -> None:
        """An answer is there: tell the client and go on."""
        if self._ended:
            return
        try:
            self._answer(pending, reply)
        except ChannelException as error:
            error.class_id = pending.request.CLASS_ID
            error.method_id = pending.request.METHOD_ID
            self.fail(error)
            return
        if pending.poll is None:
            self.go_on()

    def refused(self, error: ProtocolError) -> None:
        """A method that waited turned out to be an error."""
        if self._ended:
            return
        if isinstance(error, ConnectionException):
            self.connection.close(error.code, error.text)
        else:
            self.fail(error)

    def go_on(self) -> None:
        """Take up what was put aside."""
        if self._ended:
            return
        self.aside = False
        if self._deferred:
            data = b"".join(self._deferred)
            self._drop_deferred()
            self.connection.take_up(data)

    def settled(self, run: PublishRun) -> None:
        """A run of publishes is answered by all its queues."""
        confirms = self.publishing.confirms
        if confirms is not None and not self._ended:
            confirms.settled(run)
            self.session.confirm_later(self)

    def write_confirms(self) -> None:
        """Write the acks that are due; called at the end of the turn."""
        confirms = self.publishing.confirms
        if confirms is not None and not self._ended:
            confirms.write(self.connection.output.buffer)
            self.connection.output.touch()

    def wake_consumers(self) -> None:
        """The shared prefetch limit has room again."""
        for link in self.consumers.values():
            link.queue.wake(link.consumer_id)

    # Publishing.

    def unroutable(self, record: bytes, route: Route) -> None:
        """Return a mandatory message that no queue took."""
        self.connection.send(
            self.number, spec.BasicReturn(312, "NO_ROUTE", route.exchange, route.routing_key)
        )
        at: i64 = 8 + i64(read_i32_be(record, 3))
        self.frames.write_content(record, at, len(record))

    def congested(self, queue: Queue) -> None:
        """Hold this connection's input until the queue has caught up."""
        self.connection.flow_off()
        queue.hold_back(self.connection)

    def transact(self, record: Transacted) -> None:
        """Keep a message for the transaction's commit."""
        assert self._transaction is not None
        self._transaction.published.append(record)

    def reply_to(self, record: bytes, scan: PropertyScan, head: i64) -> bytes:
        """Put this channel's reply address into a request."""
        if self._replies is None:
            raise ChannelException(406, "fast reply consumer does not exist")
        return self._replies.addressed(record, head)

    def link_cancelled(self, link: ConsumerLink) -> None:
        """A consumer's queue was deleted: tell clients that know `basic.cancel` from the server."""
        self.consumers.pop(link.tag, None)
        self._holders.pop((id(link.queue), int(link.consumer_id)), None)
        if self.connection.capability("consumer_cancel_notify"):
            self.connection.send(self.number, spec.BasicCancel(link.tag, True))

    # Methods.

    def _handle(self, method: spec.Method) -> None:
        if method.CLASS_ID == 60:
            self._handle_basic(method)
        elif method.CLASS_ID == 50:
            self._handle_queue(method)
        elif method.CLASS_ID == 40:
            self._handle_exchange(method)
        elif isinstance(method, spec.ChannelClose):
            self.end()
            self.connection.send(self.number, spec.ChannelCloseOk())
            self.connection.channel_closed(self)
        elif isinstance(method, spec.ChannelOpen):
            raise ConnectionException(504, "second 'channel.open' seen")
        elif isinstance(method, spec.ChannelFlow):
            if not method.active:
                raise ConnectionException(540, "active=false")
            self._send(spec.ChannelFlowOk(True))
        elif isinstance(method, spec.ConfirmSelect):
            self._confirm_select(method)
        elif isinstance(method, (spec.TxSelect, spec.TxCommit, spec.TxRollback)):
            self._handle_tx(method)
        elif isinstance(method, spec.AccessRequest):
            self._send(spec.AccessRequestOk(1))
        elif method.CLASS_ID == spec.TableAcquire.CLASS_ID:
            tables.handle(self, method)
        elif isinstance(method, (spec.ChannelFlowOk, spec.ChannelCloseOk)):
            return
        else:
            raise ConnectionException(503, "unimplemented method")

    def _handle_exchange(self, method: spec.Method) -> None:
        pending = self.wait(method)
        session = self.session
        if isinstance(method, spec.ExchangeDeclare):
            session.declare_exchange(method, pending)
        elif isinstance(method, spec.ExchangeDelete):
            session.delete_exchange(method, pending)
        elif isinstance(method, (spec.ExchangeBind, spec.ExchangeUnbind)):
            session.bind_exchange(method, pending)
        else:
            raise ConnectionException(503, "unimplemented method")

    def _handle_queue(self, method: spec.Method) -> None:
        session = self.session
        if isinstance(method, spec.QueueDeclare):
            name = method.queue
            if name == "" and method.passive:
                name = self.queue_name("")
            session.declare_queue(method, name, self.wait(method))
        elif isinstance(method, (spec.QueueBind, spec.QueueUnbind)):
            name = self.queue_name(method.queue)
            key = method.routing_key
            if method.queue == "" and key == "":
                key = name
            session.bind_queue(method, name, key, self.wait(method))
        elif isinstance(method, spec.QueueDelete):
            name = self.queue_name(method.queue)
            session.delete_queue(method, name, self.wait(method))
        elif isinstance(method, spec.QueuePurge):
            queue = session.queue_for(self.queue_name(method.queue), "read")
            pending = self.wait(method)
            pending.queue = queue
            queue.purge(pending)
        else:
            raise ConnectionException(503, "unimplemented method")

    def _handle_basic(self, method: spec.Method) -> None:
        if isinstance(method, spec.BasicAck):
            tag = known_tag(method.delivery_tag)
            if method.multiple:
                self._settle_up_to(tag)
            else:
                self._settle(tag, tag)
        elif isinstance(method, spec.BasicNack):
            tag = known_tag(method.delivery_tag)
            self._give_back(tag, method.multiple, method.requeue, False)
        elif isinstance(method, spec.BasicReject):
            self._give_back(known_tag(method.delivery_tag), False, method.requeue, True)
        elif isinstance(method, spec.BasicConsume):
            self._consume(method)
        elif isinstance(method, spec.BasicCancel):
            self._cancel(method)
        elif isinstance(method, spec.BasicGet):
            self._get(method)
        elif isinstance(method, spec.BasicQos):
            self._qos(method)
        elif isinstance(method, (spec.BasicRecover, spec.BasicRecoverAsync)):
            self._recover(method)
        elif isinstance(method, spec.BasicCancelOk):
            return
        else:
            raise ConnectionException(503, "unimplemented method")

    def _handle_tx(self, method: spec.Method) -> None:
        transaction = self._transaction
        if isinstance(method, spec.TxSelect):
            if self.publishing.confirms is not None:
                raise ChannelException(406, "cannot switch from confirm to tx mode")
            if transaction is None:
                self._transaction = Transaction(self)
                self.publishing.transactional = True
            self._send(spec.TxSelectOk())
            return
        if transaction is None:
            raise ChannelException(406, "channel is not transactional")
        if isinstance(method, spec.TxRollback):
            transaction.roll_back()
            self._send(spec.TxRollbackOk())
        else:
            pending = self.wait(method)
            transaction.commit(pending)

    def _confirm_select(self, method: spec.ConfirmSelect) -> None:
        if self._transaction is not None:
            raise ChannelException(406, "cannot switch from tx to confirm mode")
        if self.publishing.confirms is None:
            self.publishing.confirms = Confirms(self.number)
        if not method.nowait:
            self._send(spec.ConfirmSelectOk())

    def _qos(self, method: spec.BasicQos) -> None:
        if method.prefetch_size != 0:
            raise ConnectionException(540, f"prefetch_size!=0 ({method.prefetch_size})")
        if not method.global_:
            self._prefetch = method.prefetch_count
        else:
            if self._limiter is None:
                self._limiter = Limiter()
            self._limiter.limit = method.prefetch_count
            self.wake_consumers()
        self._send(spec.BasicQosOk())

    def _consume(self, method: spec.BasicConsume) -> None:
        tag = method.consumer_tag
        if tag in self.consumers or (self._replies is not None and self._replies.tag == tag):
            raise ConnectionException(530, f"attempt to reuse consumer tag '{tag}'")
        name = self.queue_name(method.queue)
        if tag == "":
            tag = self.session.new_name("amq.ctag-")
        if name == DirectReplies.NAME:
            self._consume_replies(method, tag)
            return
        queue = self.session.queue_for(name, "read")
        priority = self._consume_arguments(queue, method.arguments)
        limiter = None if method.no_ack else self._limiter
        if limiter is not None and limiter.limit > 0 and queue.kind == "quorum":
            raise ConnectionException(540, f"{queue} does not support global qos")
        if queue.kind == "classic":
            if queue.exclusive_consumer or (method.exclusive and queue.links):
                raise ChannelException(403, f"{queue} in exclusive use")
            queue.exclusive_consumer = method.exclusive
        link = ConsumerLink(queue, tag, method.no_ack, self.frames, self.unsettled)
        link.on_cancelled = self
        pending = self.wait(method)
        pending.queue = queue
        pending.link = link
        pending.name = tag
        self.consumers[tag] = link
        credit = NO_ACK_CREDIT if method.no_ack else self._prefetch
        link.consumer_id = queue.new_consumer()
        self._holders[(id(queue), int(link.consumer_id))] = queue
        queue.subscribe(link, link.consumer_id, credit, priority, limiter, pending)

    def _consume_arguments(self, queue: Queue, arguments: Table) -> int:
        """Check a consumer's arguments; returns its priority."""
        for key in REFUSED_CONSUME_ARGUMENTS:
            if key in arguments:
                raise ChannelException(406, f"argument '{key}' for a consumer of {queue} {NOT_YET}")
        priority = arguments.get("x-priority", 0)
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise ChannelException(
                406, f"invalid arg 'x-priority' for {queue}: it has to be an integer"
            )
        return int(priority)

    def _consume_replies(self, method: spec.BasicConsume, tag: str) -> None:
        if self._replies is not None:
            raise ChannelException(406, "reply consumer already set")
        if not method.no_ack:
            raise ChannelException(406, "reply consumer cannot acknowledge")
        self._replies = DirectReplies(self.session, self.frames, self.unsettled, tag)
        if not method.nowait:
            self._send(spec.BasicConsumeOk(tag))

    def _cancel(self, method: spec.BasicCancel) -> None:
        tag = method.consumer_tag
        link = self.consumers.pop(tag, None)
        if link is not None:
            link.close()
            link.queue.cancel(link.consumer_id)
        elif self._replies is not None and self._replies.tag == tag:
            self._replies.close()
            self._replies = None
        if not method.nowait:
            self._send(spec.BasicCancelOk(tag))

    def _get(self, method: spec.BasicGet) -> None:
        name = self.queue_name(method.queue)
        queue = self.session.queue_for(name, "read")
        consumer_id = self._pollers.get(id(queue))
        if consumer_id is None:
            consumer_id = queue.new_consumer()
            self._pollers[id(queue)] = consumer_id
            self._holders[(id(queue), int(consumer_id))] = queue
        pending = self.wait(method)
        pending.queue = queue
        queue.get(consumer_id, pending)

    def _recover(self, method: spec.Method) -> None:
        assert isinstance(method, (spec.BasicRecover, spec.BasicRecoverAsync))
        if not method.requeue:
            raise ConnectionException(540, "requeue=false")
        for run in self.unsettled.take(0, self.unsettled.next_tag):
            if not run.queue.deleted:
                run.queue.return_(run.consumer_id, run.mid, run.mid + run.count - 1, False)
        self._limits_changed()
        if isinstance(method, spec.BasicRecover):
            self._send(spec.BasicRecoverOk())

    # Settling.

    def _settle(self, first: i64, last: i64) -> None:
        """Ack the tags `first..last`, each of which has to be unsettled."""
        runs = self.unsettled.take(first, last)
        expected = first
        for run in runs:
            if run.tag != expected:
                break
            expected += run.count
        self._settle_runs(runs)
        if expected != last + 1:
            raise ChannelException(406, f"unknown delivery tag {expected}", 60, 80)

    def _settle_up_to(self, tag: i64) -> None:
        """Ack all tags up to one; 0 means all there are."""
        runs = self._take_multiple(tag, 80)
        self._settle_runs(runs)

    def _settle_runs(self, runs: list[TagRun]) -> None:
        transaction = self._transaction
        if transaction is not None:
            transaction.acked.extend(runs)
            return
        self.settle_now(runs)

    def settle_now(self, runs: list[TagRun]) -> None:
        """Tell the queues that deliveries are done with."""
        for run in runs:
            if not run.queue.deleted:
                run.queue.settle(run.consumer_id, run.mid, run.mid + run.count - 1)
        self._limits_changed()

    def _give_back(self, tag: i64, multiple: bool, requeue: bool, failed: bool) -> None:
        """`basic.nack` and `basic.reject`."""
        method_id = 90 if failed else 120
        if multiple:
            runs = self._take_multiple(tag, method_id)
        else:
            runs = self.unsettled.take(tag, tag)
            if not runs:
                raise ChannelException(406, f"unknown delivery tag {tag}", 60, method_id)
        if self._transaction is not None:
            self._transaction.reject(runs, requeue, failed)
        else:
            self.give_back_now(runs, requeue, failed)

    def give_back_now(self, runs: list[TagRun], requeue: bool, failed: bool) -> None:
        """Return deliveries to their queues, or discard them."""
        for run in runs:
            if run.queue.deleted:
                continue
            last = run.mid + run.count - 1
            if requeue:
                run.queue.return_(run.consumer_id, run.mid, last, failed)
            else:
                run.queue.discard(run.consumer_id, run.mid, last)
        self._limits_changed()

    def _take_multiple(self, tag: i64, method_id: int) -> list[TagRun]:
        if tag == 0:
            return self.unsettled.take(0, self.unsettled.next_tag)
        if not self.unsettled.holds(tag):
            raise ChannelException(406, f"unknown delivery tag {tag}", 60, method_id)
        return self.unsettled.take(0, tag)

    def _limits_changed(self) -> None:
        if self._limiter is not None and self._limiter.limit > 0:
            self.session.wake_later(self)

    # Answers.

    def _answer(self, pending: Pending, reply: Reply) -> None:
        """Send the answer to a method that had to wait."""
        request = pending.request
        queue = pending.queue
        if isinstance(request, spec.QueueDeclare):
            self._last_queue = pending.name
            if not request.nowait:
                self._send(spec.QueueDeclareOk(pending.name, int(reply.a), int(reply.b)))
        elif isinstance(request, spec.BasicConsume):
            if not request.nowait:
                self._send(spec.BasicConsumeOk(pending.name))
        elif isinstance(request, spec.BasicGet):
            assert queue is not None
            if reply.delivery is None:
                self._send(spec.BasicGetEmpty())
            else:
                pending.poll = PollLink(self, queue, reply.delivery, request.no_ack)
                pending.poll.resume()
        elif isinstance(request, spec.QueuePurge):
            if not request.nowait:
                self._send(spec.QueuePurgeOk(int(reply.a)))
        elif isinstance(request, spec.QueueDelete):
            if not request.nowait:
                self._send(spec.QueueDeleteOk(int(reply.a)))
        elif isinstance(request, spec.QueueBind):
            if not request.nowait:
                self._send(spec.QueueBindOk())
        elif isinstance(request, spec.QueueUnbind):
            self._send(spec.QueueUnbindOk())
        elif isinstance(request, spec.ExchangeDeclare):
            if not request.nowait:
                self._send(spec.ExchangeDeclareOk())
        elif isinstance(request, spec.ExchangeDelete):
            if not request.nowait:
                self._send(spec.ExchangeDeleteOk())
        elif isinstance(request, spec.ExchangeBind):
            if not request.nowait:
                self._send(spec.ExchangeBindOk())
        elif isinstance(request, spec.ExchangeUnbind):
            if not request.nowait:
                self._send(spec.ExchangeUnbindOk())
        elif isinstance(request, spec.TxCommit):
            self._send(spec.TxCommitOk())
        else:
            tables.answer(self, request, reply, pending)

    def wait(self, request: spec.Method) -> Pending:
        """Set the channel aside until `request` is answered."""
        self.aside = True
        return Pending(self, request)

    def queue_name(self, name: str) -> str:
        """A queue's name, where an empty one means the last declared (NAME-05)."""
        if name:
            return name
        if not self._last_queue:
            raise ChannelException(404, "no previously declared queue")
        return self._last_queue

    def _send(self, method: spec.Method) -> None:
        self.connection.send(self.number, method)

    def _keep(self, frame: bytes) -> None:
        self._deferred.append(frame)
        self._deferred_bytes += len(frame)
        self.connection.channel_waits(len(frame))

    def _drop_deferred(self) -> None:
        self._deferred = []
        if self._deferred_bytes:
            size = self._deferred_bytes
            self._deferred_bytes = 0
            self.connection.channel_waits(-size)
