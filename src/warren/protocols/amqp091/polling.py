"""The way of a message that was asked for with `basic.get`."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.log.facts import FAILURES, facts_in
from warren.message.amqp091.note import note_of
from warren.message.amqp091.record import content_at
from warren.message.flavours import envelope_of
from warren.protocols.amqp091.converting import readable
from warren.queues.fifo.effects import Delivery
from warren.queues.links import Fetching
from warren.queues.queue import Queue
from warren.vhost.tracing import Redeliveries
from warren.wire.amqp091 import spec
from warren.wire.amqp091.errors import ChannelException
from warren.wire.amqp091.frame import method_frame

if TYPE_CHECKING:
    from warren.protocols.amqp091.channel import Channel, Pending


@final
class PollLink(Fetching):
    """One polled message on its way to the client; the channel waits until it is written."""

    def __init__(
        self,
        channel: Channel,
        pending: Pending,
        queue: Queue,
        delivery: Delivery,
        left: i64,
        no_ack: bool,
    ) -> None:
        """
        Args:
            left: How many messages were left when this one was taken; negative where that is not
                known, so that those count that are there when it is sent.
        """
        self._channel: Channel = channel
        self._pending: Pending = pending
        self._queue: Queue = queue
        self._delivery: Delivery = delivery
        self._left: i64 = left
        self._no_ack: bool = no_ack

    def resume(self) -> None:
        """Write the message if it is in memory, or read it first."""
        try:
            self._resume()
        except Exception as error:
            self._channel.failed(error)

    def _resume(self) -> None:
        channel = self._channel
        queue = self._queue
        delivery = self._delivery
        channel.polled = None
        if not channel.is_open():
            return
        if queue.deleted:
            channel.refused(ChannelException(404, f"no {queue}", 60, 70))
            return
        batch = queue.batch_of(delivery.first)
        if batch is None:
            if queue.pass_over(delivery):
                # This one is gone: the client asked for whichever comes next.
                self._pending.polls = False
                queue.get(delivery.consumer.id, self._pending)
            else:
                channel.polled = self
                queue.fetch(delivery.first, self)
            return
        batch = readable(batch, delivery.first)
        position = delivery.first - batch.first
        record = batch.payload
        start = batch.offset(position)
        end = start + batch.length(position)
        content = content_at(record, start)
        envelope = envelope_of(batch.flavour, record, start, end)
        unsettled = channel.unsettled
        tag = unsettled.next_tag
        unsettled.next_tag = tag + 1
        output = channel.connection.output
        failed = delivery.failed
        if not facts_in(batch.facts) & FAILURES:
            failed += note_of(record, start).failed
        again = delivery.acquired + failed > 0
        left = self._left if self._left >= 0 else queue.ready_count()
        answer = spec.BasicGetOk(
            int(tag),
            again,
            envelope.exchange(),
            envelope.routing_key(),
            int(left),
        )
        output.buffer.write(method_frame(int(channel.number), answer.encode()))
        if again and queue.type.shows_delivery_counts:
            channel.frames.write_redelivered(record, content, end, delivery.acquired, failed)
        else:
            channel.frames.write_content(record, content, end)
        output.touch()
        if channel.frames.tracer.on:
            length = int(end - start).to_bytes(4, "little")
            counted = queue.type.shows_delivery_counts
            before = Redeliveries(delivery.acquired, failed, True, counted)
            channel.trace_delivered(queue, record[start:end], length, before)
        channel.use_of(queue).got(again, self._no_ack)
        queue.delivered += 1
        if again:
            queue.redelivered += 1
        consumer_id = delivery.consumer.id
        if self._no_ack:
            queue.polled_automatic += 1
            queue.settle(consumer_id, delivery.mid, delivery.mid)
        else:
            queue.polled += 1
            unsettled.add(1, queue, consumer_id, delivery.mid)
        channel.go_on()

    def holds(self, queue: Queue, consumer_id: i64, first: i64, last: i64) -> bool:
        """Whether it is one of a consumer's messages with these ids."""
        delivery = self._delivery
        return (
            queue is self._queue
            and delivery.consumer.id == consumer_id
            and first <= delivery.mid <= last
        )
