"""What a client may ask on a channel: what each method does, and its answer.

`handle` takes the methods one by one; those that have to wait are answered by `answer`. Errors are
raised without class and method id, which the channel fills in.

Source: AMQP 0-9-1, 1.3 to 1.9, with RabbitMQ's extensions; B-07.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.limits import CONSUMER_STEPS, CONSUMER_WEIGHT_MAX
from warren.metadata.arguments import count_error
from warren.metadata.weights import weight_of_table
from warren.pending import Result
from warren.protocols.amqp091 import tables
from warren.protocols.amqp091.confirms import Confirms
from warren.protocols.amqp091.consuming import ConsumerLink
from warren.protocols.amqp091.polling import PollLink
from warren.protocols.amqp091.replies import DirectReplies
from warren.protocols.amqp091.transactions import Transaction
from warren.queue_types import TYPES, X_CONSUMER_TIMEOUT
from warren.queues.fifo.consumers import Limiter
from warren.queues.fifo.effects import PollReply, PurgeReply, Reply
from warren.queues.links import IN_EXCLUSIVE_USE
from warren.queues.queue import Queue
from warren.routing.terms import is_integer_type, text_term, type_name
from warren.vhost.pending import QueueDeclared, QueueDeleted, Resumable
from warren.vhost.requests import (
    BindRequest,
    DeclareExchangeRequest,
    DeclareQueueRequest,
    DeleteExchangeRequest,
    DeleteQueueRequest,
    UnbindRequest,
)
from warren.wire.amqp091 import spec
from warren.wire.amqp091.errors import ChannelException, ConnectionException
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from warren.protocols.amqp091.channel import Channel, Pending

NO_ACK_CREDIT: Final = 4_096
"""Messages handed ahead to a consumer whose messages are settled as they are written."""
NOT_YET: Final = "is not supported yet by this version of Warren"


def handle(channel: Channel, method: spec.Method) -> None:
    """Do what a method asks for, or begin it and set the channel aside.

    Raises:
        ChannelException, ConnectionException: It may not or cannot be done.
    """
    if method.CLASS_ID == 60:
        _basic(channel, method)
    elif method.CLASS_ID == 50:
        _queue(channel, method)
    elif method.CLASS_ID == 40:
        _exchange(channel, method)
    elif isinstance(method, spec.ChannelClose):
        brief = channel.brief_queues()
        channel.end()
        CloseAnswer(channel, brief).go_on()
    elif isinstance(method, spec.ChannelOpen):
        raise ConnectionException(504, "second 'channel.open' seen")
    elif isinstance(method, spec.ChannelFlow):
        if not method.active:
            raise ConnectionException(540, "active=false")
        channel.send(spec.ChannelFlowOk(True))
    elif isinstance(method, spec.ConfirmSelect):
        _confirm_select(channel, method)
    elif isinstance(method, (spec.TxSelect, spec.TxCommit, spec.TxRollback)):
        _tx(channel, method)
    elif isinstance(method, spec.AccessRequest):
        channel.send(spec.AccessRequestOk(1))
    elif method.CLASS_ID == spec.TableAcquire.CLASS_ID:
        tables.handle(channel, method)
    elif isinstance(method, (spec.ChannelFlowOk, spec.ChannelCloseOk)):
        return
    else:
        raise ConnectionException(503, "unimplemented method")


def waits_for_removal(channel: Channel, method: spec.Method) -> bool:
    """Whether a method is about something that is about to go with nobody having asked for it.

    If so, the channel goes on when it is gone.
    """
    vhost = channel.vhost
    if isinstance(method, spec.QueueDeclare):
        return vhost.after_removal(method.queue, channel)
    if isinstance(
        method,
        (
            spec.QueueBind,
            spec.QueueUnbind,
            spec.QueueDelete,
            spec.QueuePurge,
            spec.BasicConsume,
            spec.BasicGet,
        ),
    ):
        if vhost.after_removal(method.queue or channel.last_queue, channel):
            return True
        return isinstance(method, (spec.QueueBind, spec.QueueUnbind)) and vhost.after_unbinding(
            method.exchange, channel
        )
    if isinstance(method, (spec.ExchangeDeclare, spec.ExchangeDelete)):
        return vhost.after_unbinding(method.exchange, channel)
    if isinstance(method, (spec.ExchangeBind, spec.ExchangeUnbind)):
        return vhost.after_unbinding(method.source, channel) or vhost.after_unbinding(
            method.destination, channel
        )
    return False


# --- topology -----------------------------------------------------------------------------------


def _exchange(channel: Channel, method: spec.Method) -> None:
    vhost = channel.vhost
    if isinstance(method, spec.ExchangeDeclare):
        declare = DeclareExchangeRequest(
            method.exchange,
            method.type_,
            method.durable,
            method.auto_delete,
            method.internal,
            method.arguments,
            method.passive,
        )
        vhost.declare_exchange(declare, channel.wait_for(declare, method))
    elif isinstance(method, spec.ExchangeDelete):
        delete = DeleteExchangeRequest(method.exchange, method.if_unused)
        vhost.delete_exchange(delete, channel.wait_for(delete, method))
    elif isinstance(method, spec.ExchangeBind):
        bind = BindRequest(
            method.source, method.destination, True, method.routing_key, method.arguments
        )
        vhost.bind(bind, channel.wait_for(bind, method))
    elif isinstance(method, spec.ExchangeUnbind):
        unbind = UnbindRequest(
            method.source, method.destination, True, method.routing_key, method.arguments
        )
        vhost.unbind(unbind, channel.wait_for(unbind, method))
    else:
        raise ConnectionException(503, "unimplemented method")


def _queue(channel: Channel, method: spec.Method) -> None:
    vhost = channel.vhost
    if isinstance(method, spec.QueueDeclare):
        declare = DeclareQueueRequest(
            method.queue,
            method.durable,
            method.exclusive,
            method.auto_delete,
            method.arguments,
            method.passive,
        )
        vhost.declare_queue(declare, channel.wait_for(declare, method))
    elif isinstance(method, spec.QueueBind):
        name = channel.queue_name(method.queue)
        key = _binding_key(method.queue, method.routing_key, name)
        bind = BindRequest(method.exchange, name, False, key, method.arguments)
        vhost.bind(bind, channel.wait_for(bind, method))
    elif isinstance(method, spec.QueueUnbind):
        name = channel.queue_name(method.queue)
        key = _binding_key(method.queue, method.routing_key, name)
        unbind = UnbindRequest(method.exchange, name, False, key, method.arguments)
        vhost.unbind(unbind, channel.wait_for(unbind, method))
    elif isinstance(method, spec.QueueDelete):
        name = channel.queue_name(method.queue)
        delete = DeleteQueueRequest(name, method.if_unused, method.if_empty)
        vhost.delete_queue(delete, channel.wait_for(delete, method))
    elif isinstance(method, spec.QueuePurge):
        queue = vhost.queue_for(channel.queue_name(method.queue), "read")
        pending = channel.wait(method)
        pending.queue = queue
        queue.purge(pending)
    else:
        raise ConnectionException(503, "unimplemented method")


def _binding_key(queue: str, key: str, name: str) -> str:
    """A binding's key: where neither queue nor key are given, the name of the queue last declared.

    Args:
        queue, key: As given.
        name: The queue's.
    """
    return name if queue == "" and key == "" else key


# --- messages -----------------------------------------------------------------------------------


def _basic(channel: Channel, method: spec.Method) -> None:
    if isinstance(method, spec.BasicAck):
        tag = _known_tag(method.delivery_tag)
        if method.multiple:
            channel.settle_up_to(tag)
        else:
            channel.settle(tag, tag)
    elif isinstance(method, spec.BasicNack):
        tag = _known_tag(method.delivery_tag)
        channel.give_back(tag, method.multiple, method.requeue, False)
    elif isinstance(method, spec.BasicReject):
        channel.give_back(_known_tag(method.delivery_tag), False, method.requeue, True)
    elif isinstance(method, spec.BasicConsume):
        _consume(channel, method)
    elif isinstance(method, spec.BasicCancel):
        _cancel(channel, method)
    elif isinstance(method, spec.BasicGet):
        _get(channel, method)
    elif isinstance(method, spec.BasicQos):
        _qos(channel, method)
    elif isinstance(method, (spec.BasicRecover, spec.BasicRecoverAsync)):
        _recover(channel, method)
    elif isinstance(method, spec.BasicCancelOk):
        return
    else:
        raise ConnectionException(503, "unimplemented method")


def _known_tag(tag: int) -> i64:
    """A delivery tag from the wire, where it has 64 bits without a sign.

    Raises:
        ChannelException: 406, no channel ever had as many deliveries.
    """
    if tag >= 1 << 63:
        raise ChannelException(406, f"unknown delivery tag {tag}")
    return tag


def _qos(channel: Channel, method: spec.BasicQos) -> None:
    if method.prefetch_size != 0:
        raise ConnectionException(540, f"prefetch_size!=0 ({method.prefetch_size})")
    channel.prefetch_said = method.prefetch_count
    limiter = channel.limiter
    if not method.global_:
        channel.prefetch = method.prefetch_count
        if limiter is not None and limiter.limit > 0:
            # As in RabbitMQ: whoever limits each consumer does not limit the channel any more.
            limiter.limit = 0
            channel.wake_later()
    else:
        if limiter is None:
            limiter = Limiter()
            channel.limiter = limiter
            for link in channel.consumers.values():
                if link.queue.type.global_qos and not link.no_ack:
                    link.queue.limit(link.consumer_id, limiter)
        limiter.limit = method.prefetch_count
        channel.wake_later()
    channel.send(spec.BasicQosOk())


def _consume(channel: Channel, method: spec.BasicConsume) -> None:
    name = channel.queue_name(method.queue)
    tag = method.consumer_tag
    if tag in channel.consumers or (channel.replies is not None and channel.replies.tag == tag):
        raise ConnectionException(530, f"attempt to reuse consumer tag '{tag}'")
    if tag == "":
        tag = channel.vhost.new_name("amq.ctag-")
    if name == DirectReplies.NAME:
        _consume_replies(channel, method, tag)
        return
    most = channel.connection.broker.settings.consumers_max
    if 0 <= most <= len(channel.consumers):
        raise ConnectionException(530, f"reached maximum ({most}) of consumers per channel")
    channel.connection.broker.budget.spent += CONSUMER_STEPS
    queue = channel.vhost.queue_for(name, "read")
    priority = _consume_arguments(queue, method.arguments)
    if queue.type.exclusive_consumers and not queue.admit(method.exclusive):
        raise ChannelException(403, f"{queue} in exclusive use")
    link = ConsumerLink(
        queue, tag, method.no_ack, channel.frames, channel.unsettled, channel.use_of(queue)
    )
    link.on_cancelled = channel
    pending = channel.wait(method)
    pending.queue = queue
    pending.link = link
    pending.name = tag
    channel.consumers[tag] = link
    credit: i64 = NO_ACK_CREDIT
    limiter: Limiter | None = None
    if not method.no_ack:
        if queue.type.global_qos:
            credit = channel.prefetch
            limiter = channel.limiter
        else:
            credit = channel.prefetch_said
        link.prefetch = credit
    link.exclusive = method.exclusive
    if method.arguments:
        link.arguments = method.arguments
    given = method.arguments.get(X_CONSUMER_TIMEOUT, -1)
    assert isinstance(given, int)
    timeout_ms = channel.vhost.consumer_timeout(queue, given)
    link.consumer_id = queue.new_consumer()
    channel.will_hold(queue, link.consumer_id)
    queue.held_by(link.consumer_id, channel, timeout_ms)
    queue.subscribe(
        link, link.consumer_id, credit, priority, limiter, pending, automatic=method.no_ack
    )


def _consume_arguments(queue: Queue, arguments: Table) -> int:
    """Check a consumer's arguments; returns its priority."""
    weight = weight_of_table(arguments)
    if weight > CONSUMER_WEIGHT_MAX:
        text = f"arguments of a consumer would take {weight} bytes of memory"
        raise ChannelException(406, f"{text}, and {CONSUMER_WEIGHT_MAX} is the most: shorten them")
    for kind in TYPES.values():
        for key in kind.consumer_arguments:
            if key in arguments:
                if key == X_CONSUMER_TIMEOUT and key in queue.type.consumer_arguments:
                    reason = count_error(arguments[key])
                    if not reason:
                        continue
                    text = f"invalid arg '{key}' for {queue}: {reason}"
                elif key in queue.type.consumer_arguments:
                    text = f"argument '{key}' for a consumer of {queue} {NOT_YET}"
                else:
                    text = f"invalid arg '{key}' for {queue} of queue type {queue.type.module}"
                raise ChannelException(406, text)
    priority = arguments.get("x-priority", 0)
    if not is_integer_type(priority):
        reason = text_term(f"expected integer, got {type_name(priority)}")
        raise ChannelException(406, f"invalid arg 'x-priority' for {queue}: {reason}")
    assert isinstance(priority, int)
    return priority


def _consume_replies(channel: Channel, method: spec.BasicConsume, tag: str) -> None:
    if channel.replies is not None:
        raise ChannelException(406, "reply consumer already set")
    if not method.no_ack:
        raise ChannelException(406, "reply consumer cannot acknowledge")
    channel.replies = DirectReplies(
        channel.vhost, channel.frames, channel.unsettled, tag, channel.connection.name()
    )
    if not method.nowait:
        channel.send(spec.BasicConsumeOk(tag))


def _cancel(channel: Channel, method: spec.BasicCancel) -> None:
    tag = method.consumer_tag
    link = channel.consumers.pop(tag, None)
    if link is not None:
        link.close()
        link.queue.cancel(link.consumer_id)
        channel.consumer_gone(link)
        answer = CancelAnswer(channel, method)
        if channel.vhost.removing() and channel.vhost.after_removal(link.queue.name, answer):
            # It was the last consumer of an auto-delete queue.
            channel.aside = True
            return
    elif channel.replies is not None and channel.replies.tag == tag:
        channel.replies.close()
        channel.replies = None
    if not method.nowait:
        channel.send(spec.BasicCancelOk(tag))


@final
class CancelAnswer(Resumable):
    """Answers a cancel that took an auto-delete queue along.

    What the client does next finds no such queue: a publish that is mandatory comes back (PROP-04).
    """

    def __init__(self, channel: Channel, method: spec.BasicCancel) -> None:
        self._channel: Channel = channel
        self._method: spec.BasicCancel = method

    def go_on(self) -> None:
        """The queue is gone, or nobody can say when it will be."""
        channel = self._channel
        if channel.is_open():
            if not self._method.nowait:
                channel.send(spec.BasicCancelOk(self._method.consumer_tag))
            channel.go_on()

    def failed(self, error: Exception) -> None:
        """End the connection."""
        self._channel.failed(error)


@final
class CloseAnswer(Resumable):
    """Answers the close of a channel when the queues are gone that went with its consumers."""

    def __init__(self, channel: Channel, queues: list[Queue]) -> None:
        self._channel: Channel = channel
        self._queues: list[Queue] = queues

    def go_on(self) -> None:
        """Wait for the next of them, or answer."""
        channel = self._channel
        if channel.leaving is not None:
            channel.leaving.answer = self
            channel.hold_number()
            return
        while self._queues and channel.vhost.removing():
            if channel.vhost.after_removal(self._queues.pop().name, self):
                channel.hold_number()
                return
        channel.connection.channel_left(channel)

    def failed(self, error: Exception) -> None:
        """End the connection."""
        self._channel.failed(error)


def _get(channel: Channel, method: spec.BasicGet) -> None:
    queue = channel.vhost.queue_to_poll(channel.queue_name(method.queue))
    pending = channel.wait(method)
    pending.queue = queue
    poll(channel, pending)


def poll(channel: Channel, pending: Pending) -> None:
    """Ask a queue for one message."""
    queue = pending.queue
    assert queue is not None
    served = channel.served
    timeout_ms = channel.vhost.consumer_timeout(queue, -1)
    consumer_id = served.pollers.get(id(queue))
    if (
        consumer_id is None
        or not queue.current(consumer_id)
        # All that a consumer holds has one time, which a policy may have changed since.
        or served.poll_times[id(queue)] != timeout_ms
    ):
        consumer_id = queue.new_consumer()
        channel.will_hold(queue, consumer_id)
        served.pollers[id(queue)] = consumer_id
        served.poll_times[id(queue)] = timeout_ms
    queue.held_by(consumer_id, channel, timeout_ms)
    queue.get(consumer_id, pending)


def _recover(channel: Channel, method: spec.BasicRecover | spec.BasicRecoverAsync) -> None:
    if not method.requeue:
        raise ConnectionException(540, "requeue=false")
    channel.recover(method)


# --- modes --------------------------------------------------------------------------------------


def _tx(channel: Channel, method: spec.Method) -> None:
    transaction = channel.transaction
    if isinstance(method, spec.TxSelect):
        if channel.publishing.confirms is not None:
            raise ChannelException(406, "cannot switch from confirm to tx mode")
        if transaction is None:
            channel.transaction = Transaction(channel)
            channel.publishing.transactional = True
        channel.send(spec.TxSelectOk())
        return
    if transaction is None:
        raise ChannelException(406, "channel is not transactional")
    if isinstance(method, spec.TxRollback):
        transaction.roll_back(channel.wait(method))
    else:
        pending = channel.wait(method)
        transaction.commit(pending)


def _confirm_select(channel: Channel, method: spec.ConfirmSelect) -> None:
    if channel.transaction is not None:
        raise ChannelException(406, "cannot switch from tx to confirm mode")
    if channel.publishing.confirms is None:
        channel.publishing.confirms = Confirms(channel.number)
    if not method.nowait:
        channel.send(spec.ConfirmSelectOk())


# --- answers ------------------------------------------------------------------------------------


def answer(channel: Channel, pending: Pending, reply: Reply) -> None:
    """Send the answer to a method that had to wait.

    Raises:
        ChannelException: The queue's machine refused it.
    """
    request = pending.request
    queue = pending.queue
    if isinstance(request, spec.BasicConsume):
        if reply.code == IN_EXCLUSIVE_USE:
            raise ChannelException(403, f"{queue} in exclusive use")
        link = pending.link
        if link is not None and not link.closed:
            channel.consumer_begun(link)
        if not request.nowait:
            channel.send(spec.BasicConsumeOk(pending.name))
    elif isinstance(request, spec.BasicGet):
        assert queue is not None
        delivery = reply.delivery if isinstance(reply, PollReply) else None
        if delivery is None:
            queue.polled_empty += 1
            channel.use_of(queue).got_none()
            channel.send(spec.BasicGetEmpty())
        else:
            pending.polls = True
            left: i64 = -1
            if isinstance(reply, PollReply) and not request.no_ack:
                # Where it is settled at once, that is over before it is counted what is left.
                left = reply.left
            PollLink(channel, pending, queue, delivery, left, request.no_ack).resume()
    elif isinstance(request, spec.QueuePurge):
        if not request.nowait:
            count = int(reply.count) if isinstance(reply, PurgeReply) else 0
            channel.send(spec.QueuePurgeOk(count))
    elif isinstance(request, spec.TxCommit):
        channel.send(spec.TxCommitOk())
    elif isinstance(request, spec.TxRollback):
        channel.send(spec.TxRollbackOk())
    else:
        tables.answer(channel, request, reply, pending)


def answer_change(channel: Channel, request: spec.Method, result: Result) -> None:
    """Send the answer to a method whose work the vhost has done."""
    if isinstance(request, spec.QueueDeclare):
        assert isinstance(result, QueueDeclared)
        channel.last_queue = result.name
        channel.connection.broker.traffic.queues_declared += 1
        if not request.nowait:
            channel.send(
                spec.QueueDeclareOk(result.name, int(result.messages), int(result.consumers))
            )
    elif isinstance(request, spec.QueueDelete):
        assert isinstance(result, QueueDeleted)
        if not request.nowait:
            channel.send(spec.QueueDeleteOk(int(result.messages)))
    elif isinstance(request, spec.QueueBind):
        if not request.nowait:
            channel.send(spec.QueueBindOk())
    elif isinstance(request, spec.QueueUnbind):
        channel.send(spec.QueueUnbindOk())
    elif isinstance(request, spec.ExchangeDeclare):
        if not request.nowait:
            channel.send(spec.ExchangeDeclareOk())
    elif isinstance(request, spec.ExchangeDelete):
        if not request.nowait:
            channel.send(spec.ExchangeDeleteOk())
    elif isinstance(request, spec.ExchangeBind):
        if not request.nowait:
            channel.send(spec.ExchangeBindOk())
    else:
        assert isinstance(request, spec.ExchangeUnbind), "these are all that a vhost does"
        if not request.nowait:
            channel.send(spec.ExchangeUnbindOk())


def overdue(request: spec.Method, queue: Queue | None) -> str:
    """What to say of a method that has waited too long for a queue."""
    title = "" if queue is None else str(queue)
    if isinstance(request, spec.BasicConsume):
        return f"timed out consuming from quorum {title}"
    if isinstance(request, spec.BasicGet):
        return f"Cannot get a message from {title}: timeout"
    if isinstance(request, spec.TxCommit):
        return f"{title} has not confirmed the commit in time, which may yet come about"
    return f"failed to perform operation on {title} due to timeout"
