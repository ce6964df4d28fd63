"""The way out of a queue: from message numbers to `basic.deliver` frames.

Deliveries are kept as runs of numbers until the client's connection takes bytes; only then are
bodies looked up, and a message's frames are copied from its publish as they came, with the channel
number put right. Messages that are not in memory are read ahead by the queue, which then resumes
the link.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, final

from librt.strings import (
    BytesWriter,
    read_i32_be,
    write_i16_be,
    write_i32_be,
    write_i32_le,
    write_i64_be,
)
from mypy_extensions import i16, i32, i64, trait, u8

from warren.log.batch import Batch
from warren.log.facts import FAILURES, facts_in
from warren.message.amqp091.edits import changed_content, with_headers
from warren.message.amqp091.note import failed_in
from warren.message.amqp091.record import (
    NAMES_AT,
    NAMES_TAIL_BYTES,
    content_at,
    names_in,
    properties_of,
)
from warren.message.envelope import redelivery_headers
from warren.message.flavours import AMQP091
from warren.protocols.amqp091.converting import readable
from warren.protocols.amqp091.unsettled import Unsettled
from warren.protocols.output import Output
from warren.queues.fifo.effects import Delivery
from warren.queues.links import Link
from warren.queues.queue import Queue
from warren.queues.traffic import QueueUse
from warren.vhost.tracing import Redeliveries, Tracer
from warren.wire.amqp091.table import Table

BASIC_DELIVER: Final = 0x003C003C
HEADER_FRAME: Final = 2
FRAME_END: Final = 0xCE
FLUSH_BYTES: Final = 262_144
"""Output of one connection is handed to its transport when it passes this size."""
PASSED_ON_BYTES: Final = 65_536
"""Content larger than this is handed to the transport by itself: gathering would copy it twice."""
PAUSE_MESSAGES: Final = 4_096
"""A consumer with this much waiting for its socket is handed nothing more, where its queue can."""

NO_ARGUMENTS: Final[Table] = {}


@final
class MessageFrames:
    """Writes the frames of stored messages to one channel of one connection.

    Attributes:
        output, channel: Where to.
        tracer: Whether what is written is to be told of.
    """

    def __init__(self, output: Output, channel: i64, tracer: Tracer) -> None:
        self.output: Output = output
        self.channel: i64 = channel
        self.tracer: Tracer = tracer

    def write_content(self, record: bytes, at: i64, end: i64) -> None:
        """Copy a message's header and body frames, `record[at:end]`, for this channel.

        Of a long message a piece is copied at a time, and handed on: in memory that is new all of
        it takes longer than it may in a turn. Its body frames may come by themselves.
        """
        if end - at > PASSED_ON_BYTES and self._fits(record, at, end):
            self._pass_on(record, at, end)
            return
        if end - at > FLUSH_BYTES:
            self._write_long(record, at, end)
        else:
            self._write_frames(record, at, end)

    def _write_frames(self, record: bytes, at: i64, end: i64) -> None:
        """Copy frames into the buffer."""
        out = self.output.buffer
        start: i64 = len(out)
        out.write(record[at:end])
        limit = self.output.frame_max
        high = u8(self.channel >> 8)
        low = u8(self.channel & 0xFF)
        frame = at
        while frame < end:
            size: i64 = i64(read_i32_be(record, frame + 3))
            if size + 8 > limit:
                out.truncate(start)
                self._resplit(record, at, end)
                return
            position = start + (frame - at)
            out[position + 1] = high
            out[position + 2] = low
            frame += size + 8

    def _write_long(self, record: bytes, at: i64, end: i64) -> None:
        """Copy frames a few at a time, and hand each of these pieces on."""
        limit = self.output.frame_max
        first = at
        while first < end:
            frame = first
            while frame < end and frame - first <= PASSED_ON_BYTES:
                size: i64 = i64(read_i32_be(record, frame + 3))
                if size + 8 > limit:
                    self._resplit(record, first, end)
                    return
                frame += size + 8
            self._write_frames(record, first, frame)
            self.output.flush()
            first = frame

    def _pass_on(self, record: bytes, at: i64, end: i64) -> None:
        """Hand on frames that may go out as they are."""
        while at < end:
            stop = min(end, at + FLUSH_BYTES)
            self.output.pass_on(record[at:stop])
            at = stop

    def _fits(self, record: bytes, at: i64, end: i64) -> bool:
        """Whether frames can go out as they came: on a channel of this number, and small enough."""
        limit = self.output.frame_max
        while at < end:
            size: i64 = i64(read_i32_be(record, at + 3))
            number = i64(record[at + 1]) << 8 | i64(record[at + 2])
            if number != self.channel or size + 8 > limit:
                return False
            at += size + 8
        return True

    def write_redelivered(
        self, record: bytes, at: i64, end: i64, acquired: i64, failed: i64
    ) -> None:
        """The same with its counts in the headers, as quorum queues show them (POI-01).

        Args:
            acquired: How often it came back.
            failed: How often deliveries of it failed, also where it died before.
        """
        counts = redelivery_headers(acquired, failed)
        properties = with_headers(properties_of(record, at), counts)
        body = at + 8 + i64(read_i32_be(record, at + 3))
        header = changed_content(record, at, body, properties)
        if body < end and end - body <= PASSED_ON_BYTES:
            # A client may have smaller frames than the publisher's.
            header += record[body:end]
            body = end
        self.write_content(header, 0, len(header))
        if body < end:
            self.write_content(record, body, end)

    def _resplit(self, record: bytes, at: i64, end: i64) -> None:
        """Cut the body anew for a client with smaller frames than the publisher's."""
        out = self.output.buffer
        size: i64 = i64(read_i32_be(record, at + 3))
        frame = at
        if record[at] == HEADER_FRAME:
            start: i64 = len(out)
            out.write(record[at : at + size + 8])
            out[start + 1] = u8(self.channel >> 8)
            out[start + 2] = u8(self.channel & 0xFF)
            frame = at + size + 8
        part = self.output.frame_max - 8
        while frame < end:
            size = i64(read_i32_be(record, frame + 3))
            done: i64 = 0
            while done < size:
                take = min(part, size - done)
                if len(out) > FLUSH_BYTES:
                    self.output.flush()
                out.append(3)
                write_i16_be(out, i16(self.channel))
                write_i32_be(out, i32(take))
                out.write(record[frame + 7 + done : frame + 7 + done + take])
                out.append(FRAME_END)
                done += take
            frame += size + 8


@final
class ConsumerLink(Link):
    """One consumer of one channel.

    Attributes:
        tag: Its consumer tag.
        no_ack: Whether messages are settled as they are written.
        begun: Whether its queue has taken it, and nobody was told that it is gone.
        waiting: Messages handed out and not written yet.
        prefetch, exclusive, arguments: As it was begun with.
    """

    def __init__(
        self,
        queue: Queue,
        tag: str,
        no_ack: bool,
        frames: MessageFrames,
        unsettled: Unsettled,
        use: QueueUse,
    ) -> None:
        self.queue: Queue = queue
        self.tag: str = tag
        self.no_ack: bool = no_ack
        self.prefetch: i64 = 0
        self.exclusive: bool = False
        self.arguments: Table = NO_ARGUMENTS
        self.consumer_id: i64 = 0
        self.closed: bool = False
        self.begun: bool = False
        self.waiting: i64 = 0
        self.on_cancelled: LinkOwner | None = None
        self._frames: MessageFrames = frames
        self._unsettled: Unsettled = unsettled
        self._use: QueueUse = use
        self._shows_counts: bool = queue.type.shows_delivery_counts
        self._parked: list[Delivery] = []
        self._tag_bytes: bytes = tag.encode("utf-8", "surrogateescape")
        self._envelope: bytes = b""
        self._failed: i64 = 0
        """How often deliveries of such messages failed in queues where they died before."""
        self._prefix: bytes = b""
        self._suffix: bytes = b""
        """What follows the delivery tag: the bit of a redelivery, and what stays the same."""
        self._suffix_again: bytes = b""
        self._fetching: bool = False

    def delivered(self, delivery: Delivery) -> None:
        """Write messages now, or as soon as the socket takes them."""
        try:
            if self._parked:
                self._park(delivery)
            elif not self._write(delivery):
                self._park(delivery)
        except Exception as error:
            self._failed_for(error)

    def _failed_for(self, error: Exception) -> None:
        """End the connection; what was handed out goes back with its channel."""
        owner = self.on_cancelled
        if owner is None:
            raise error
        owner.failed(error)

    def resume(self) -> None:
        """Go on with what waits; of a channel that is gone nothing may be sent any more."""
        try:
            self._resume()
        except Exception as error:
            self._failed_for(error)

    def _resume(self) -> None:
        self._fetching = False
        if self.closed:
            self._parked.clear()
            return
        done = 0
        for delivery in self._parked:
            before = delivery.count
            finished = self._write(delivery)
            self.waiting -= before - delivery.count
            if not finished:
                break
            done += 1
        if done:
            del self._parked[:done]
        if not self._parked:
            self.output_ready()

    def output_ready(self) -> None:
        """Nothing waits any more; a paused consumer takes part again."""
        self.queue.resume(self.consumer_id)

    def renumbered(self, consumer_id: i64) -> None:
        """What waits for the socket was given to others meanwhile."""
        before = self.consumer_id
        self.consumer_id = consumer_id
        self._parked.clear()
        self.waiting = 0
        owner = self.on_cancelled
        if owner is not None:
            try:
                owner.link_renumbered(self, before)
            except Exception as error:
                owner.failed(error)

    def cancelled(self) -> None:
        """The queue was deleted."""
        self.closed = True
        self._parked.clear()
        owner = self.on_cancelled
        if owner is not None:
            try:
                owner.link_cancelled(self)
            except Exception as error:
                owner.failed(error)

    def close(self) -> None:
        """The consumer was cancelled: what it was handed but never sent goes back."""
        self.closed = True
        parked = self._parked
        self._parked = []
        self.waiting = 0
        for delivery in parked:
            last = delivery.mid + delivery.count - 1
            self.queue.return_(self.consumer_id, delivery.mid, last, False)

    def _park(self, delivery: Delivery) -> None:
        self._parked.append(delivery)
        self.waiting += delivery.count
        if self.waiting > PAUSE_MESSAGES:
            self.queue.pause(self.consumer_id)

    def _write(self, delivery: Delivery) -> bool:
        """Write what can be written; True if that was all of it."""
        output = self._frames.output
        while delivery.count > 0:
            if len(output.buffer) > FLUSH_BYTES:
                output.flush()
            if not output.takes():
                output.wait(self)
                return False
            batch = self.queue.batch_of(delivery.first)
            if batch is None:
                if self.queue.pass_over(delivery):
                    continue
                if not self._fetching:
                    self._fetching = True
                    self.queue.fetch(delivery.first, self)
                # What was written is not held up by what may take long to come.
                output.touch()
                return False
            batch = readable(batch, delivery.first)
            count = min(delivery.count, batch.first + batch.count - delivery.first)
            count = self._write_some(batch, delivery, count)
            if self._frames.tracer.on:
                self._trace(batch, delivery, count)
            mid = delivery.mid
            delivery.first += count
            delivery.mid += count
            delivery.count -= count
            self._use.consumed(count, delivery.acquired > 0, self.no_ack)
            if self.no_ack:
                self.queue.automatic += count
                self.queue.settle(self.consumer_id, mid, mid + count - 1)
            else:
                self._unsettled.add(count, self.queue, self.consumer_id, mid)
        output.touch()
        return True

    def _write_some(self, batch: Batch, delivery: Delivery, count: i64) -> i64:
        """Write messages of one batch until the output is full; returns how many."""
        assert batch.flavour == AMQP091, "messages of other flavours were converted"
        frames = self._frames
        output = frames.output
        out = output.buffer
        record = batch.payload
        unsettled = self._unsettled
        acquired = delivery.acquired
        counted = facts_in(batch.facts) & FAILURES != 0
        position = delivery.first - batch.first
        written: i64 = 0
        end = batch.offset(position)
        while written < count and len(out) <= FLUSH_BYTES and output.takes():
            start = end
            end = batch.offset(position + written + 1)
            content = content_at(record, start)
            envelope = record[start + NAMES_AT : content - NAMES_TAIL_BYTES]
            if envelope != self._envelope:
                self._remember(envelope)
            tag = unsettled.next_tag
            unsettled.next_tag = tag + 1
            out.write(self._prefix)
            write_i64_be(out, tag)
            failed = delivery.failed if counted else delivery.failed + self._failed
            again = acquired + failed > 0
            out.write(self._suffix_again if again else self._suffix)
            if again and self._shows_counts:
                frames.write_redelivered(record, content, end, acquired, failed)
            else:
                frames.write_content(record, content, end)
            written += 1
        output.delivered += written
        return written

    def _trace(self, batch: Batch, delivery: Delivery, count: i64) -> None:
        """Tell of messages that were written, of one batch."""
        owner = self.on_cancelled
        if owner is None or count <= 0:
            return
        position = delivery.first - batch.first
        lengths = BytesWriter()
        for at in range(position, position + count):
            write_i32_le(lengths, i32(batch.length(at)))
        records = batch.payload[batch.offset(position) : batch.offset(position + count)]
        whole = facts_in(batch.facts) & FAILURES != 0
        before = Redeliveries(delivery.acquired, delivery.failed, whole, self._shows_counts)
        owner.link_traced(self, records, lengths.getvalue(), before)

    def _remember(self, envelope: bytes) -> None:
        """Prepare the parts of `basic.deliver` that do not change while the route does not."""
        self._envelope = envelope
        names = names_in(envelope)
        self._failed = 0
        if names < len(envelope):
            # Behind them are the bits of the publish, and a note but for its end.
            self._failed = failed_in(envelope, names + 1)
            envelope = envelope[:names]
        prefix = BytesWriter()
        prefix.append(1)
        write_i16_be(prefix, i16(self._frames.channel))
        write_i32_be(prefix, i32(4 + 1 + len(self._tag_bytes) + 8 + 1 + len(envelope)))
        write_i32_be(prefix, BASIC_DELIVER)
        prefix.append(len(self._tag_bytes))
        prefix.write(self._tag_bytes)
        self._prefix = prefix.getvalue()
        self._suffix = b"\x00" + envelope + b"\xce"
        self._suffix_again = b"\x01" + envelope + b"\xce"


@trait
class LinkOwner:
    """The channel of a consumer."""

    @abstractmethod
    def link_cancelled(self, link: ConsumerLink) -> None:
        """The consumer's queue was deleted."""

    @abstractmethod
    def link_traced(
        self, link: ConsumerLink, records: bytes, lengths: bytes, redeliveries: Redeliveries
    ) -> None:
        """The consumer was given messages, of a vhost that is traced."""

    @abstractmethod
    def link_renumbered(self, link: ConsumerLink, before: i64) -> None:
        """The consumer has another id than before."""

    @abstractmethod
    def failed(self, error: Exception) -> None:
        """End the connection for an error that was met while a consumer was served."""
