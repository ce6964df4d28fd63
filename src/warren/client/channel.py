"""A channel: declare, bind, publish, consume, get, acknowledge.

Calls that the broker answers block until it has. The rest (`publish`, `ack`, `nack`, `reject`) are
written and sent together: when there is enough, and before anything that waits.

Errors of every method: `ChannelException` if the broker closed this channel, `ConnectionException`
if it closed the connection, both with the broker's code and text; `OSError` if the connection broke
or, as `TimeoutError`, if an answer did not come in time, which also ends the connection. A channel
or connection that failed stays so: each later call raises the same error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from time import monotonic
from typing import Final, final

from mypy_extensions import i64

from warren.client.body import DIRECT_BYTES_MAX, DIRECT_BYTES_MIN, Body
from warren.client.confirms import Confirms
from warren.client.link import Link, Sink
from warren.client.messages import (
    ConsumerCancelled,
    Delivery,
    QueueCounts,
    Returned,
    close_error_text,
    known_code,
)
from warren.wire.amqp091 import spec
from warren.wire.amqp091.errors import ChannelException, ConnectionException
from warren.wire.amqp091.frame import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_METHOD,
    method_frame,
    write_body_frames,
    write_header_frame,
)
from warren.wire.amqp091.properties import parse_header
from warren.wire.amqp091.spec import Method, decode_method
from warren.wire.amqp091.table import Table

NO_PROPERTIES: Final = b"\x00\x00"
"""The properties bytes of a message without properties."""

PERSISTENT: Final = b"\x10\x00\x02"
"""The properties bytes of a message with delivery mode 2 and nothing else."""

CONFIRM_WINDOW: Final = 10_000
"""Messages that `publish_many` leaves unanswered before it waits."""


@final
class Channel(Sink):
    """One channel of a connection; not for use by several threads at once.

    Attributes:
        number: Its number on the connection.
        returned: Mandatory messages that came back; the owner takes them out.
        error: Why the channel is closed; None while it is open.
        unread_max: How many deliveries may wait for `receive`; 0 for no bound. A broker that sends
            more, beyond what `qos` asks for, is given up.
    """

    def __init__(self, link: Link, number: int) -> None:
        self.number: int = number
        self.returned: list[Returned] = []
        self.error: BaseException | None = None
        self.unread_max: int = 0
        self._link = link
        self._replies: deque[Method] = deque()
        self._reply_properties = b""
        self._reply_body = b""
        self._deliveries: deque[Delivery] = deque()
        self._cancelled: list[str] = []
        self._confirms: Confirms | None = None
        # The last route published to, and its method frame.
        self._exchange = ""
        self._routing_key = ""
        self._mandatory = False
        self._publish_frame = b""
        # A method whose content is on its way.
        self._content_method: Method | None = None
        self._content_properties = b""
        self._content_parts: list[bytes] = []
        self._content_missing: i64 = -1
        # A large one is collected here instead, and counts by itself what is missing.
        self._content_body: Body | None = None
        link.attach(number, self)

    # --- life -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the channel; `Connection.channel` does it."""
        self._expect(self.call(spec.ChannelOpen()), spec.ChannelOpenOk.NAME)

    def close(self) -> None:
        """Close the channel. Does nothing if it is closed."""
        if self.error is not None:
            return
        self._expect(self.call(spec.ChannelClose(reply_code=200)), spec.ChannelCloseOk.NAME)
        self._link.detach(self.number)
        self.fail(ChannelException(406, "the channel was closed by its owner"))

    def fail(self, error: BaseException) -> None:
        """Remember the first reason why the channel is gone; each later call raises it."""
        if self.error is None:
            self.error = error

    def call(self, method: Method) -> Method:
        """Send a synchronous method and wait for its answer."""
        self._check()
        link = self._link
        link.send(self.number, method)
        link.flush()
        deadline = monotonic() + link.timeout_seconds
        while not self._replies:
            self._check()
            if not link.pump(deadline):
                link.fail(TimeoutError(f"no answer to {method.NAME}"))
        return self._replies.popleft()

    def flush(self) -> None:
        """Send everything written so far."""
        self._check()
        self._link.flush()

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    def _expect(self, reply: Method, name: str) -> Method:
        if reply.NAME != name:
            raise ConnectionException(505, f"expected {name}, got {reply.NAME}")
        return reply

    # --- exchanges and queues -------------------------------------------------------------------

    def exchange_declare(
        self,
        exchange: str,
        type_: str = "direct",
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table | None = None,
    ) -> None:
        """Create an exchange, or check that it is there."""
        reply = self.call(
            spec.ExchangeDeclare(
                exchange=exchange,
                type_=type_,
                passive=passive,
                durable=durable,
                auto_delete=auto_delete,
                internal=internal,
                arguments=arguments,
            )
        )
        self._expect(reply, spec.ExchangeDeclareOk.NAME)

    def exchange_delete(self, exchange: str, if_unused: bool = False) -> None:
        """Delete an exchange, with `if_unused` only one without bindings."""
        reply = self.call(spec.ExchangeDelete(exchange=exchange, if_unused=if_unused))
        self._expect(reply, spec.ExchangeDeleteOk.NAME)

    def queue_declare(
        self,
        queue: str = "",
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Table | None = None,
    ) -> QueueCounts:
        """Create a queue, or check that it is there; an empty name lets the broker choose one."""
        reply = self.call(
            spec.QueueDeclare(
                queue=queue,
                passive=passive,
                durable=durable,
                exclusive=exclusive,
                auto_delete=auto_delete,
                arguments=arguments,
            )
        )
        self._expect(reply, spec.QueueDeclareOk.NAME)
        assert isinstance(reply, spec.QueueDeclareOk)
        return QueueCounts(reply.queue, reply.message_count, reply.consumer_count)

    def queue_bind(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        """Have an exchange route to a queue."""
        reply = self.call(
            spec.QueueBind(
                queue=queue, exchange=exchange, routing_key=routing_key, arguments=arguments
            )
        )
        self._expect(reply, spec.QueueBindOk.NAME)

    def queue_unbind(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        """Remove a binding that `queue_bind` made, with the same arguments."""
        reply = self.call(
            spec.QueueUnbind(
                queue=queue, exchange=exchange, routing_key=routing_key, arguments=arguments
            )
        )
        self._expect(reply, spec.QueueUnbindOk.NAME)

    def queue_purge(self, queue: str) -> int:
        """Drop a queue's ready messages; gives how many."""
        reply = self._expect(self.call(spec.QueuePurge(queue=queue)), spec.QueuePurgeOk.NAME)
        assert isinstance(reply, spec.QueuePurgeOk)
        return reply.message_count

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; gives how many messages went with it."""
        method = spec.QueueDelete(queue=queue, if_unused=if_unused, if_empty=if_empty)
        reply = self._expect(self.call(method), spec.QueueDeleteOk.NAME)
        assert isinstance(reply, spec.QueueDeleteOk)
        return reply.message_count

    # --- publishing -----------------------------------------------------------------------------

    def confirm_select(self) -> None:
        """Have the broker confirm what is published from now on."""
        if self._confirms is None:
            self._expect(self.call(spec.ConfirmSelect()), spec.ConfirmSelectOk.NAME)
            self._confirms = Confirms()

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: bytes = NO_PROPERTIES,
        mandatory: bool = False,
    ) -> int:
        """Publish a message.

        Args:
            properties: Properties bytes: `Properties(...).encode()`, `PERSISTENT`.
            mandatory: Have it returned, into `returned`, if no queue takes it.

        Returns:
            Its number in the channel's publish sequence; 0 without `confirm_select`.
        """
        if self.error is not None:
            raise self.error
        if (
            routing_key != self._routing_key
            or exchange != self._exchange
            or mandatory != self._mandatory
            or not self._publish_frame
        ):
            method = spec.BasicPublish(
                exchange=exchange, routing_key=routing_key, mandatory=mandatory
            )
            self._publish_frame = method_frame(self.number, method.encode())
            self._exchange = exchange
            self._routing_key = routing_key
            self._mandatory = mandatory
        link = self._link
        out = link.out
        out.write(self._publish_frame)
        write_header_frame(out, self.number, properties, len(body))
        write_body_frames(out, self.number, body, link.frame_bytes_max)
        confirms = self._confirms
        sequence: i64 = 0
        if confirms is not None:
            sequence = confirms.next_sequence
            confirms.next_sequence = sequence + 1
        link.written()
        return int(sequence)

    def publish_many(
        self,
        exchange: str,
        routing_key: str,
        bodies: Sequence[bytes],
        properties: bytes = NO_PROPERTIES,
        mandatory: bool = False,
    ) -> list[int]:
        """Publish messages and wait until the broker has answered for each.

        Turns confirms on if they are not.

        Returns:
            Which of `bodies` the broker refused, by position; empty if it has them all.
        """
        self.confirm_select()
        confirms = self._confirms
        assert confirms is not None
        first = int(confirms.next_sequence)
        for body in bodies:
            self.publish(exchange, routing_key, body, properties, mandatory)
            if confirms.outstanding() >= CONFIRM_WINDOW:
                self._await_confirms(CONFIRM_WINDOW // 2)
        self._await_confirms(0)
        refused = [number - first for number in confirms.nacked if number >= first]
        confirms.nacked = [number for number in confirms.nacked if number < first]
        return refused

    def wait_for_confirms(self) -> list[int]:
        """Wait until the broker has answered for everything published.

        Returns:
            The sequence numbers it refused since the last call.
        """
        confirms = self._confirms
        if confirms is None:
            raise ChannelException(406, "the channel is not in confirm mode")
        self._await_confirms(0)
        refused = confirms.nacked
        confirms.nacked = []
        return refused

    def outstanding(self) -> int:
        """How many published messages the broker has not answered for."""
        return 0 if self._confirms is None else int(self._confirms.outstanding())

    def _await_confirms(self, outstanding_max: i64) -> None:
        confirms = self._confirms
        assert confirms is not None
        link = self._link
        link.flush()
        deadline = monotonic() + link.timeout_seconds
        while confirms.outstanding() > outstanding_max:
            self._check()
            before = confirms.outstanding()
            if not link.pump(deadline):
                link.fail(TimeoutError(f"no confirm for {before} messages"))
            if confirms.outstanding() < before:
                deadline = monotonic() + link.timeout_seconds
        self._check()

    # --- transactions ---------------------------------------------------------------------------

    def tx_select(self) -> None:
        """Have publishes and acks wait for `tx_commit` from now on."""
        self._expect(self.call(spec.TxSelect()), spec.TxSelectOk.NAME)

    def tx_commit(self) -> None:
        """Have all of them done; gives back when the messages are safe."""
        self._expect(self.call(spec.TxCommit()), spec.TxCommitOk.NAME)

    # --- consuming ------------------------------------------------------------------------------

    def qos(self, prefetch_count: int, global_: bool = False) -> None:
        """Bound how many deliveries may be unacknowledged; 0 for no bound."""
        method = spec.BasicQos(prefetch_count=prefetch_count, global_=global_)
        self._expect(self.call(method), spec.BasicQosOk.NAME)

    def consume(
        self,
        queue: str,
        consumer_tag: str = "",
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: Table | None = None,
    ) -> str:
        """Have a queue's messages delivered; `receive` takes them. Gives the consumer tag."""
        method = spec.BasicConsume(
            queue=queue,
            consumer_tag=consumer_tag,
            no_ack=no_ack,
            exclusive=exclusive,
            arguments=arguments,
        )
        reply = self._expect(self.call(method), spec.BasicConsumeOk.NAME)
        assert isinstance(reply, spec.BasicConsumeOk)
        return reply.consumer_tag

    def cancel(self, consumer_tag: str) -> None:
        """End a consumer. What was delivered before is still there to be received."""
        reply = self.call(spec.BasicCancel(consumer_tag=consumer_tag))
        self._expect(reply, spec.BasicCancelOk.NAME)

    def receive(self, count_max: int, timeout_seconds: float) -> list[Delivery]:
        """Take deliveries, as soon as there is one.

        Returns:
            At most `count_max` messages; none if none came in `timeout_seconds`.

        Raises:
            ConsumerCancelled: The broker ended a consumer, and nothing is left from it.
        """
        deliveries = self._deliveries
        link = self._link
        if len(link.out) > 0:
            link.flush()
        deadline = monotonic() + timeout_seconds
        while not deliveries:
            self._check()
            if self._cancelled:
                tag = self._cancelled.pop()
                raise ConsumerCancelled(f"the broker cancelled consumer {tag!r}")
            if not link.pump(deadline):
                return []
        if len(deliveries) <= count_max:
            taken = list(deliveries)
            deliveries.clear()
            return taken
        return [deliveries.popleft() for _ in range(count_max)]

    def get(self, queue: str, no_ack: bool = False) -> Delivery | None:
        """Take one message from a queue, if it has one."""
        reply = self.call(spec.BasicGet(queue=queue, no_ack=no_ack))
        if isinstance(reply, spec.BasicGetEmpty):
            return None
        self._expect(reply, spec.BasicGetOk.NAME)
        assert isinstance(reply, spec.BasicGetOk)
        return Delivery(
            "",
            reply.delivery_tag,
            reply.redelivered,
            reply.exchange,
            reply.routing_key,
            self._reply_properties,
            self.reply_content(),
            reply.message_count,
        )

    def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        """Acknowledge a delivery; with `multiple`, all up to it. Sent before the next wait."""
        self._settle(spec.BasicAck(delivery_tag, multiple))

    def nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None:
        """Refuse a delivery; with `multiple`, all up to it. Sent before the next wait."""
        self._settle(spec.BasicNack(delivery_tag, multiple, requeue))

    def reject(self, delivery_tag: int, requeue: bool = True) -> None:
        """Refuse one delivery. Sent before the next wait."""
        self._settle(spec.BasicReject(delivery_tag, requeue))

    def _settle(self, method: Method) -> None:
        self._check()
        self._link.send(self.number, method)
        self._link.written()

    def reply_content(self) -> bytes:
        """The body that came with the last answer; hands it over."""
        body = self._reply_body
        self._reply_body = b""
        return body

    # --- what comes -----------------------------------------------------------------------------

    def take_frame(self, kind: int, data: bytes, start: int, end: int) -> None:
        """Take a method or a part of its content, and act on what is whole with it."""
        if kind == FRAME_METHOD:
            if self._content_method is not None:
                raise ConnectionException(505, "expected content, got a method")
            method = decode_method(data, start, end)
            if method.HAS_CONTENT:
                self._content_method = method
            else:
                self._take_method(method)
            return
        awaited = self._content_method
        if awaited is None:
            raise ConnectionException(505, "got content without a method")
        large = self._content_body
        if kind == FRAME_HEADER and self._content_missing < 0:
            header = parse_header(data, start, end, awaited.CLASS_ID, awaited.METHOD_ID)
            size: i64 = header[0]
            self._content_missing = size
            self._content_properties = data[header[1] : end]
            if DIRECT_BYTES_MIN <= size <= DIRECT_BYTES_MAX:
                self._content_body = Body(size)
        elif kind == FRAME_BODY and large is not None:
            if end - start > large.missing:
                raise ConnectionException(501, "content body frame exceeds remaining content size")
            large.add(data, start, end)
            if large.missing == 0:
                self.end_body()
        elif kind == FRAME_BODY and self._content_missing > 0:
            self._content_missing -= end - start
            if self._content_missing < 0:
                raise ConnectionException(501, "content body frame exceeds remaining content size")
            self._content_parts.append(data[start:end])
        else:
            raise ConnectionException(505, "content frames are out of order")
        if self._content_missing == 0:
            parts = self._content_parts
            self._content_parts = []
            self._end_content(parts[0] if len(parts) == 1 else b"".join(parts))

    def large_body(self) -> Body | None:
        """The large body that this channel is in the middle of; None if it is not."""
        return self._content_body

    def end_body(self) -> None:
        """Pass on the content whose large body is whole."""
        large = self._content_body
        assert large is not None
        self._content_body = None
        self._end_content(large.take())

    def _end_content(self, body: bytes) -> None:
        """Pass on a method whose content is whole."""
        awaited = self._content_method
        assert awaited is not None
        self._content_missing = -1
        self._content_method = None
        self._take_content(awaited, self._content_properties, body)

    def _take_content(self, method: Method, properties: bytes, body: bytes) -> None:
        """A method came, and its content is whole."""
        if isinstance(method, spec.BasicDeliver):
            if self.unread_max > 0 and len(self._deliveries) >= self.unread_max:
                raise ConnectionException(
                    506, f"the broker delivers more than the {self.unread_max} messages asked for"
                )
            self._deliveries.append(
                Delivery(
                    method.consumer_tag,
                    method.delivery_tag,
                    method.redelivered,
                    method.exchange,
                    method.routing_key,
                    properties,
                    body,
                )
            )
        elif isinstance(method, spec.BasicReturn):
            self.returned.append(
                Returned(
                    method.reply_code,
                    method.reply_text,
                    method.exchange,
                    method.routing_key,
                    properties,
                    body,
                )
            )
        else:
            self._reply_properties = properties
            self._reply_body = body
            self._replies.append(method)

    def _take_method(self, method: Method) -> None:
        """Act on a method that comes without content."""
        link = self._link
        if isinstance(method, spec.BasicAck):
            if self._confirms is not None:
                self._confirms.resolve(method.delivery_tag, method.multiple, True)
        elif isinstance(method, spec.BasicNack):
            if self._confirms is not None:
                self._confirms.resolve(method.delivery_tag, method.multiple, False)
        elif isinstance(method, spec.BasicCancel):
            self._cancelled.append(method.consumer_tag)
        elif isinstance(method, spec.ChannelFlow):
            link.send(self.number, spec.ChannelFlowOk(active=method.active))
            link.flush()
        elif isinstance(method, spec.ChannelClose):
            text = close_error_text(method.reply_code, method.reply_text)
            self.fail(
                ChannelException(
                    known_code(method.reply_code), text, method.class_id, method.method_id
                )
            )
            link.detach(self.number)
            link.send(self.number, spec.ChannelCloseOk())
            link.flush()
        else:
            self._replies.append(method)
