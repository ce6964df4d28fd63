"""The way in: from `basic.publish` frames to records in queues.

The common case is a whole message, three frames back to back, with the method frame of the message
before it and properties that ask queues for the same. Such messages are accepted as one run: the
run's records are one slice of what the socket brought, and routing and confirms happen once for all
of it, checks once for each change of the properties.
Everything else, frames of several channels interleaved, bodies in many frames, messages split over
reads, goes message by message through `Assembly`.

A record is the frames of the publish as they came, but for bodies in small frames: those are cut
anew while they are collected, so that a record is never much larger than its body.
"""

from __future__ import annotations

from abc import abstractmethod
from io import BytesIO
from typing import Final, final

from librt.strings import (
    BytesWriter,
    read_i32_be,
    read_i32_le,
    read_i64_be,
    write_i32_be,
    write_i32_le,
)
from mypy_extensions import i32, i64

from warren.limits import (
    BODY_FRAME_BYTES_CUT,
    BODY_FRAME_BYTES_MIN,
    CONTENT_BYTES_MAX,
    EMPTY_FRAMES_MAX,
    FILLED_QUEUES_MAX,
    HEADER_STEP_BYTES,
    QUEUE_STEPS,
    QUEUES_FREE,
    RUNS_FREE,
)
from warren.message.amqp091.conversion import neutral_properties
from warren.message.amqp091.edits import without_bcc
from warren.message.amqp091.record import properties_of
from warren.message.amqp091.scan import PropertyScan, scan_properties
from warren.message.facts import MessageFacts
from warren.message.flavours import AMQP091
from warren.protocols.amqp091.confirms import Confirms
from warren.protocols.amqp091.fan_out import PublishFanOut
from warren.queues.fan_out import is_wide
from warren.queues.publishing import Publisher, PublishRun, Unowed
from warren.queues.queue import Queue
from warren.queues.traffic import USES_MAX, ExchangeUse, Traffic
from warren.turn_budget import TurnBudget
from warren.vhost.handle import VhostHandle
from warren.vhost.routes import Route
from warren.wire.amqp091 import spec
from warren.wire.amqp091.errors import ChannelException, ConnectionException
from warren.wire.amqp091.table import decode_table

BASIC_PUBLISH: Final = 0x003C0028
BASIC_CLASS: Final = 0x003C0000
FRAME_END: Final = 0xCE
WAIT_BYTES: Final = 65_536
"""A message smaller than this is waited for whole; a larger one is collected frame by frame."""
RUN_BYTES_MAX: Final = 262_144
"""A run is handed over when it passes this size."""
JOINED_BYTES_MAX: Final = 4_194_304
"""Bodies of more are put together as they come: to join 200 MiB takes a tenth of a second."""
UNCHECKED: Final = b"\xff"
"""Equal to no properties, which are at least two bytes."""
HEADER_OWED: Final = -1
"""Not even the header frame of a message has come, so that the size of its body is not known."""
EXCHANGE_AT: Final = 13
"""Where in a method frame that publishes the size of the exchange's name stands."""
WANTS_LIFE: Final = 2
"""Where in what a message asks queues for its life begins; see `wants_of`."""
NO_METHOD: Final = "expected method frame, got non method frame instead"
NO_HEADER: Final = "expected content header for class 60, got non content header frame instead"
NO_BODY: Final = "expected content body, got non content body frame instead"


class PublishOwner(Publisher):
    """The channel that publishes."""

    @abstractmethod
    def unroutable(self, record: bytes, route: Route) -> None:
        """A mandatory message reached no queue; return it to the client."""

    @abstractmethod
    def congested(self, queue: Queue) -> None:
        """A queue asks for a pause."""

    @abstractmethod
    def spreads(self) -> None:
        """What was published goes into its queues in parts: handle nothing until it is there."""

    @abstractmethod
    def is_spread(self) -> None:
        """It is there."""

    @abstractmethod
    def failed(self, error: Exception) -> None:
        """End the connection for an error of the broker's own."""

    @abstractmethod
    def transact(self, record: Transacted) -> None:
        """Keep messages for the transaction's commit.

        Raises:
            ChannelException: 406, these are too many.
        """

    @abstractmethod
    def assembling(self, size: i64) -> None:
        """So many bytes of a message that is not whole have come; negative when they leave again.

        Where that is too much, the channel of such a message is closed.
        """

    @abstractmethod
    def connection_name(self) -> str:
        """Both ends of the channel's connection, as operators see it."""

    @abstractmethod
    def reply_to(self, record: bytes, scan: PropertyScan, head: i64) -> bytes:
        """Put this channel's reply address into a message; its header frame is at `head`.

        Raises:
            ChannelException: 406, the channel consumes no direct replies.
        """


@final
class NoChannel(PublishOwner):
    """Stands where a channel was that has ended, so that its path refers to it no more."""

    def settled(self, run: PublishRun) -> None:
        """Nobody waits."""

    def unroutable(self, record: bytes, route: Route) -> None:
        """Nobody listens."""

    def congested(self, queue: Queue) -> None:
        """Nobody sends."""

    def gone(self) -> bool:
        """Nobody is there."""
        return True

    def spreads(self) -> None:
        """Nobody sends."""

    def is_spread(self) -> None:
        """Nobody waits."""

    def failed(self, error: Exception) -> None:
        """Nobody else can have been harmed by what nobody publishes."""
        raise error

    def transact(self, record: Transacted) -> None:
        """Nobody commits."""

    def assembling(self, size: i64) -> None:
        """Nobody counts."""

    def connection_name(self) -> str:
        """Nobody asks."""
        return ""

    def reply_to(self, record: bytes, scan: PropertyScan, head: i64) -> bytes:
        """Nobody has an address."""
        return record


NO_OWNER: Final = NoChannel()


@final
class Transacted:
    """Messages published inside a transaction, kept until its commit."""

    def __init__(
        self,
        route: Route,
        records: bytes,
        lengths: bytes,
        count: i64,
        persistent: bool,
        life_ms: i64,
    ) -> None:
        self.route: Route = route
        self.records: bytes = records
        self.lengths: bytes = lengths
        self.count: i64 = count
        self.persistent: bool = persistent
        self.life_ms: i64 = life_ms


@final
class Assembly:
    """A message of which not all frames are here yet.

    Attributes:
        has_header: Whether its header frame is here.
        missing: How much of its body is not, in bytes.
        body_bytes: How much is.
        method_bytes: Size of its method frame, which comes first in its record.
    """

    def __init__(self, method: bytes) -> None:
        self.method_bytes: i64 = len(method)
        self.has_header: bool = False
        self.missing: i64 = 0
        self.body_bytes: i64 = 0
        self._empty_frames: i64 = 0
        self._frames: list[bytes] = [method]
        self._whole: BytesIO | None = None
        """What is here of a record that is too long to be joined in one go; it grows in place."""
        self._gathered: BytesWriter | None = None
        """Of a body that is cut anew, what is not a frame yet."""

    def begin_body(self, data: bytes, at: i64, stop: i64) -> None:
        """Take the header frame, `data[at:stop]`."""
        self.has_header = True
        self.missing = read_i64_be(data, at + 11)
        self._frames.append(data[at:stop])
        if self.missing > JOINED_BYTES_MAX:
            whole = self._whole = BytesIO()
            for frame in self._frames:
                whole.write(frame)

    def add(self, data: bytes, at: i64, stop: i64) -> None:
        """Take a body frame, `data[at:stop]`, which is not larger than what is missing."""
        size = stop - at - 8
        self.missing -= size
        self.body_bytes += size
        gathered = self._gathered
        if gathered is None:
            if size >= BODY_FRAME_BYTES_MIN or self.missing == 0:
                whole = at == 0 and stop == len(data)
                self._keep(data if whole else data[at:stop])
                return
            gathered = self._gathered = BytesWriter()
        # Many small frames would be many small objects here, and as many headers in the record.
        begin = at + 7
        while begin < stop - 1:
            part = min(stop - 1 - begin, BODY_FRAME_BYTES_CUT - i64(len(gathered)))
            gathered.write(data[begin : begin + part])
            begin += part
            if i64(len(gathered)) == BODY_FRAME_BYTES_CUT:
                self._cut(gathered)
        if self.missing == 0 and len(gathered) > 0:
            self._cut(gathered)

    def add_empty(self) -> None:
        """Count a body frame without a body, of which nothing is kept.

        Raises:
            ConnectionException: 501, these are too many to be meant.
        """
        self._empty_frames += 1
        if self._empty_frames > EMPTY_FRAMES_MAX:
            raise ConnectionException(
                501, f"content body has more than {EMPTY_FRAMES_MAX} empty frames"
            )

    def record(self) -> bytes:
        """All of its frames, once nothing is missing."""
        whole = self._whole
        # What it grew to is given as it is, without a copy.
        return b"".join(self._frames) if whole is None else whole.getvalue()

    def _keep(self, frame: bytes) -> None:
        whole = self._whole
        if whole is None:
            self._frames.append(frame)
        else:
            whole.write(frame)

    def _cut(self, gathered: BytesWriter) -> None:
        """Make a frame of what was gathered, on the channel of the method frame."""
        frame = BytesWriter()
        frame.append(3)
        frame.write(self._frames[0][1:3])
        write_i32_be(frame, i32(len(gathered)))
        frame.write(gathered.getvalue())
        frame.append(FRAME_END)
        self._keep(frame.getvalue())
        gathered.truncate(0)


@final
class Shape:
    """What the messages of one run have in common; whether a message is of a run is decided here.

    Messages share a run if their method frames are the same bytes, their properties ask queues for
    the same, routing has not changed between them, and nothing is done to each by itself: no route
    of its own, CC or BCC, no reply address to be put in.

    Attributes:
        method: Their method frame.
        route: Where they go by that; None before the first message.
        scan: What matters of the properties of the last one.
        properties: Those properties' bytes, once they were checked.
        wants: What they ask queues for; see `wants_of`.
        alone: Whether each message is handled by itself.
    """

    def __init__(self, vhost: VhostHandle) -> None:
        self.method: bytes = b""
        self.route: Route | None = None
        self.scan: PropertyScan = PropertyScan()
        self.properties: bytes = UNCHECKED
        self.wants: i64 = 0
        self.alone: bool = False
        self._vhost: VhostHandle = vhost

    def goes_with(self, method: bytes) -> bool:
        """Whether the route of the message before is that of one with this method frame."""
        route = self.route
        return (
            route is not None
            and method == self.method
            and route.generation == self._vhost.generation()
        )

    def is_checked(self, properties: bytes) -> bool:
        """Whether properties are those of the message before, and of its run without a look."""
        return properties == self.properties and not self.alone

    def resolve(self, method: bytes) -> None:
        """Find where messages with this method frame go.

        Raises:
            Refusal: Nowhere, by this user.
            ConnectionException: The frame is malformed, or `immediate` is set.
        """
        self.route = None
        self.properties = UNCHECKED
        publish = spec.decode_method(method, 7, len(method) - 1)
        assert isinstance(publish, spec.BasicPublish)
        if publish.immediate:
            raise ConnectionException(540, "immediate=true", 60, 40)
        self.route = self._vhost.resolve(publish.exchange, publish.routing_key, publish.mandatory)
        self.method = method

    def examine(self, properties: bytes) -> None:
        """Check properties, unless they are those of the last message on the same route.

        Raises:
            Refusal: They may not be claimed.
            ConnectionException: They are malformed.
        """
        if properties == self.properties:
            return
        self.properties = UNCHECKED
        scan = self.scan
        if properties[1] & 3 or scan_properties(properties, 0, len(properties), scan) < 0:
            raise ConnectionException(501, "content properties do not match their flags")
        route = self.route
        assert route is not None
        self._vhost.check_properties(scan, route)
        self.properties = properties
        self.wants = wants_of(scan)
        self.alone = scan.direct_reply or scan.copies or route.by_message


def twins(data: bytes, first: i64, body: i64, stop: i64, end: i64, reach: i64) -> i64:
    """Count the messages behind `data[first:stop]` that are unlike it in their bodies' bytes alone.

    Nothing of them but that need be looked at: of a client whose messages have the same properties
    and size that is all there is.

    Args:
        body: Where its body begins, in the one frame that it has.
        end: Where the input ends.
        reach: None that begins here or behind is counted.
    """
    size = stop - first
    frames = data[first:body]
    last = min(reach, end - size + 1)
    behind = body - first
    at = stop
    while at < last and data[at : at + behind] == frames and data[at + size - 1] == FRAME_END:
        at += size
    return (at - stop) // size


@final
class PublishPath:
    """Everything a channel does with `basic.publish`.

    Attributes:
        confirms: What is owed to the publisher; None outside confirm mode.
        transactional: Whether messages wait for `tx.commit`.
        consumes: Whether the channel acks messages, too, which no later publish may overtake.
        assembly: The message that is being collected, if any.
        failed_at: Where in the input the message lies that raised an error.
        begun: Whether the last content frame belonged to a publish.
        fan_out: What is on its way into more queues than one turn serves, if anything is: nothing
            may be published until it is there.
        uses: What was published through each exchange, by its name; None before the first.
    """

    def __init__(
        self,
        vhost: VhostHandle,
        owner: PublishOwner,
        channel: i64,
        payload_max: i64,
        traffic: Traffic,
        budget: TurnBudget,
    ) -> None:
        """Begin without confirms.

        Args:
            payload_max: Largest frame payload that was agreed, in bytes.
            traffic: Where messages are counted.
            budget: What messages draw on that cost more than their bytes say.
        """
        self.confirms: Confirms | None = None
        self.transactional: bool = False
        self.consumes: bool = False
        self.assembly: Assembly | None = None
        self.failed_at: i64 = 0
        self.begun: bool = False
        self.fan_out: PublishFanOut | None = None
        self.published: i64 = 0
        self._vhost: VhostHandle = vhost
        self._owner: PublishOwner = owner
        self._channel: i64 = channel
        self._payload_max: i64 = payload_max
        self._shape: Shape | None = None
        self.uses: dict[str, ExchangeUse] | None = None
        self._use: ExchangeUse | None = None
        """That of the last message."""
        self._traffic: Traffic = traffic
        self._budget: TurnBudget = budget

    def publish(self, data: bytes, at: i64, end: i64, most: i64) -> i64:
        """Accept whole messages of this channel from `data[at:end]`, as many as follow directly.

        Args:
            data: Input that starts, at `at`, with a whole `basic.publish` method frame.
            most: No message that begins here or behind is taken.

        Returns:
            The offset behind what was taken; `at` itself if the first message is small and has
            not arrived whole, so that it is offered again with more input.

        Raises:
            Refusal, ChannelException, ConnectionException: A message was refused; `failed_at` is
                its offset, and the messages before it have been accepted.
        """
        self.failed_at = at
        self.check_idle()
        limit = min(self._payload_max, self._vhost.max_message_bytes)
        channel = self._channel
        shape = self._shaped()
        body_sizes = self._traffic.sizes
        lengths = BytesWriter()
        count: i64 = 0
        begin = at
        start = at
        before: i64 = 0  # What the message before takes.
        while True:
            # The method frame is whole and its end marker was checked.
            head: i64 = at + 8 + i64(read_i32_be(data, at + 3))
            method = data[at:head]
            if not shape.goes_with(method):
                if count > 0:
                    self._accept(data[start:at], lengths, count, shape.wants)
                    lengths, count, start = BytesWriter(), 0, at
                self.failed_at = at
                if at > begin and self._is_enough():
                    return at
                shape.resolve(method)
            # The content header frame.
            if end - head < 22:
                break
            size: i64 = i64(read_i32_be(data, head + 3))
            body = head + 8 + size
            if (
                data[head] != 2
                or (i64(data[head + 1]) << 8 | i64(data[head + 2])) != channel
                or size < 14
                or size > limit
            ):
                break
            if body > end:
                break
            if data[body - 1] != FRAME_END or i64(read_i32_be(data, head + 7)) != BASIC_CLASS:
                break
            bytes_left = read_i64_be(data, head + 11)
            stop = body
            if bytes_left != 0:
                # One body frame; anything else is collected frame by frame.
                stop = body + 8 + bytes_left
                if bytes_left < 0 or bytes_left > limit or stop > end:
                    break
                if (
                    data[body] != 3
                    or (i64(data[body + 1]) << 8 | i64(data[body + 2])) != channel
                    or i64(read_i32_be(data, body + 3)) != bytes_left
                    or data[stop - 1] != FRAME_END
                ):
                    break
            properties = data[head + 19 : body - 1]
            alike = stop - at == before and bytes_left != 0
            before = stop - at
            if not shape.is_checked(properties):
                alike = False
                wants = shape.wants
                self.failed_at = at
                try:
                    shape.examine(properties)
                except Exception:
                    if count > 0:
                        self._accept(data[start:at], lengths, count, wants)
                    raise
                if count > 0 and (shape.alone or shape.wants != wants):
                    self._accept(data[start:at], lengths, count, wants)
                    if self._is_enough():
                        return at
                    lengths, count, start = BytesWriter(), 0, at
                if shape.alone:
                    self._accept_record(data[at:stop], head - at)
                    at = stop
                    start = at
                    self.failed_at = at
                    enough = at >= most or self._is_enough()
                    if enough or not self._publish_follows(data, at, end):
                        return at
                    continue
            more: i64 = 0
            if alike:
                reach = min(most, start + RUN_BYTES_MAX + 1)
                more = twins(data, at, body + 7, stop, end, reach)
            body_sizes.add(bytes_left, 1 + more)
            for _ in range(1 + more):
                write_i32_le(lengths, i32(before))
            count += 1 + more
            at = stop + more * before
            enough = at >= most or at - start > RUN_BYTES_MAX
            if enough or not self._publish_follows(data, at, end):
                self._accept(data[start:at], lengths, count, shape.wants)
                return at
        # The message at `at` is not whole, or not of the common shape.
        if count > 0:
            self._accept(data[start:at], lengths, count, shape.wants)
        self.failed_at = at
        if self._worth_waiting(data, head, end):
            return at
        self.begin(data, at, head)
        return head

    def costs(self, data: bytes, at: i64, stop: i64) -> bool:
        """Whether the message whose method frame is `data[at:stop]` may cost more than its bytes.

        Not by the default exchange, nor by the route of the message before if that leads to few
        queues: there is nothing to search. Once very many queues have something to do, only what
        goes where the message before did costs nothing more; and nothing does of who has published
        very many that differ.
        """
        if self.assembly is not None or stop - at <= EXCHANGE_AT:
            return False
        if self._budget.runs > RUNS_FREE:
            return True
        if data[at + EXCHANGE_AT] == 0 and self._budget.queues < FILLED_QUEUES_MAX:
            return False
        shape = self._shape
        if shape is None or shape.alone or not shape.goes_with(data[at:stop]):
            return True
        route = shape.route
        return route is None or len(route.queues) > QUEUES_FREE

    def content(self, data: bytes, at: i64, stop: i64) -> None:
        """Take the next content frame, `data[at:stop]`, of the message that is being collected.

        Raises:
            ConnectionException: The frame is not the one that must follow.
            ChannelException: The message is too large.
            Refusal: It was refused when it was complete.
        """
        assembly = self.assembly
        kind = data[at]
        self.begun = assembly is not None
        if assembly is None:
            raise ConnectionException(505, NO_METHOD)
        size: i64 = stop - at - 8
        if not assembly.has_header:
            self._content_header(assembly, data, at, stop)
        else:
            if kind != 3:
                raise ConnectionException(505, NO_BODY)
            if size > assembly.missing:
                raise ConnectionException(501, "content body frame exceeds remaining content size")
            if size == 0:
                assembly.add_empty()
                return
            assembly.add(data, at, stop)
            self._owner.assembling(size)
            if self.assembly is not assembly:
                # That was too much, and its channel has been closed.
                return
        if assembly.missing == 0:
            self.drop_assembly()
            record = assembly.record()
            head = assembly.method_bytes
            shape = self._shaped()
            shape.resolve(record[:head])
            shape.examine(properties_of(record, head))
            self._accept_record(record, head)

    def _content_header(self, assembly: Assembly, data: bytes, at: i64, stop: i64) -> None:
        """Take the header frame of the message that is being collected."""
        if data[at] != 2:
            raise ConnectionException(505, NO_HEADER)
        class_id = i64(data[at + 7]) << 8 | i64(data[at + 8])
        if class_id != 60:
            raise ConnectionException(
                505,
                f"expected content header for class 60, got one for class {class_id} instead",
            )
        if i64(read_i32_be(data, at + 7)) != BASIC_CLASS:
            # It has a weight.
            raise ConnectionException(505, NO_HEADER)
        if stop - at < 22:
            raise ConnectionException(501, "malformed content header")
        assembly.begin_body(data, at, stop)
        missing = assembly.missing
        if missing < 0 or missing > CONTENT_BYTES_MAX:
            size = int(missing) & 0xFFFFFFFFFFFFFFFF
            raise ConnectionException(
                501, f"content body size {size} exceeds maximum allowed size {CONTENT_BYTES_MAX}"
            )
        limit = self._vhost.max_message_bytes
        if missing > limit:
            raise ChannelException(
                406, f"message size {missing} is larger than configured max size {limit}"
            )

    def owed(self) -> i64:
        """What the client still sends of the message that is collected; see `still_owed`."""
        assembly = self.assembly
        if assembly is None:
            return 0
        return assembly.missing if assembly.has_header else HEADER_OWED

    def drop_assembly(self) -> None:
        """Collect the message no longer: it is whole, or its channel is closed."""
        assembly = self.assembly
        if assembly is not None:
            self.assembly = None
            if assembly.body_bytes > 0:
                self._owner.assembling(-assembly.body_bytes)

    def let_go(self) -> None:
        """The channel has ended: drop what is collected, and forget whose path this is."""
        self.drop_assembly()
        self._owner = NO_OWNER

    def begin(self, data: bytes, at: i64, stop: i64) -> None:
        """Collect the message whose method frame is `data[at:stop]` frame by frame."""
        self.check_idle()
        self._shaped().resolve(data[at:stop])
        self.assembly = Assembly(data[at:stop])

    def _shaped(self) -> Shape:
        """What the newest message is like; there is one since the first was published."""
        shape = self._shape
        if shape is None:
            shape = Shape(self._vhost)
            self._shape = shape
        return shape

    def check_idle(self) -> None:
        """Refuse a method frame where content has to follow.

        Raises:
            ConnectionException: 505.
        """
        assembly = self.assembly
        if assembly is not None:
            text = NO_BODY if assembly.has_header else NO_HEADER
            raise ConnectionException(505, text, 60, 40)

    def _worth_waiting(self, data: bytes, head: i64, end: i64) -> bool:
        """Whether the frames behind a method frame are a small message that is still arriving."""
        if end - head < 7:
            return True
        size: i64 = i64(read_i32_be(data, head + 3))
        body = head + 8 + size
        if data[head] != 2 or size < 14 or size > min(WAIT_BYTES, self._payload_max):
            return False
        if body > end:
            return True
        bytes_left = read_i64_be(data, head + 11)
        if (
            data[body - 1] != FRAME_END
            or i64(read_i32_be(data, head + 7)) != BASIC_CLASS
            or bytes_left <= 0
            or bytes_left > min(WAIT_BYTES, self._payload_max)
        ):
            return False
        if end - body < 7:
            return True
        if data[body] != 3 or i64(read_i32_be(data, body + 3)) != bytes_left:
            return False
        return body + 8 + bytes_left > end

    def _publish_follows(self, data: bytes, at: i64, end: i64) -> bool:
        """Whether a whole `basic.publish` method frame of this channel is next."""
        if end - at < 12 or data[at] != 1:
            return False
        if (i64(data[at + 1]) << 8 | i64(data[at + 2])) != self._channel:
            return False
        if i64(read_i32_be(data, at + 7)) != BASIC_PUBLISH:
            return False
        size: i64 = i64(read_i32_be(data, at + 3))
        if size < 9 or size > 1_024:
            return False
        stop = at + 8 + size
        return stop <= end and data[stop - 1] == FRAME_END

    def _accept_record(self, record: bytes, head: i64) -> None:
        """Accept one message by itself."""
        shape = self._shaped()
        scan = shape.scan
        route = shape.route
        assert route is not None
        self._traffic.sizes.add(read_i64_be(record, head + 11))
        if scan.direct_reply:
            record = self._owner.reply_to(record, scan, head)
        if scan.copies or route.by_message:
            self._budget.spent += (scan.headers_end - scan.headers_at) // HEADER_STEP_BYTES
            headers = decode_table(shape.properties, scan.headers_at, scan.headers_end)
            properties = neutral_properties(shape.properties) if route.by_properties else None
            route = self._vhost.route_message(route, scan, headers, properties)
            if scan.copies:
                record = without_bcc(record, head, self._vhost.notes_keys())
        lengths = BytesWriter()
        write_i32_le(lengths, i32(len(record)))
        self._hand_over(route, record, lengths.getvalue(), 1, shape.wants)

    def _accept(self, records: bytes, lengths: BytesWriter, count: i64, wants: i64) -> None:
        """Accept a run of messages that share a route and ask queues for the same."""
        route = self._shaped().route
        assert route is not None
        self._hand_over(route, records, lengths.getvalue(), count, wants)

    def _hand_over(
        self, route: Route, records: bytes, lengths: bytes, count: i64, wants: i64
    ) -> None:
        persistent = wants & 1 != 0
        life_ms = (wants >> WANTS_LIFE) - 1
        self._budget.add_run()
        self.published += count
        traffic = self._traffic
        traffic.received += count
        if self.transactional or self.confirms is not None:
            traffic.with_confirms += count
        if self.transactional:
            self._owner.transact(Transacted(route, records, lengths, count, persistent, life_ms))
            return
        run = self._sequence(route, count) if self.confirms is not None else None
        self.enqueue(route, records, lengths, count, persistent, run, life_ms)

    def enqueue(
        self,
        route: Route,
        records: bytes,
        lengths: bytes,
        count: i64,
        persistent: bool,
        run: PublishRun | None,
        life_ms: i64,
    ) -> None:
        """Put messages into the queues of a route, or return them."""
        queues = route.queues
        if len(queues) > QUEUES_FREE and not is_wide(queues):
            self._budget.spent += QUEUE_STEPS * len(queues)
        use = self._use_of(route)
        use.published(count)
        copies = count * len(queues)
        self._traffic.routed += copies
        use.exchange.routed += copies
        if not queues and route.reply is None:
            use.unroutable(count, route.mandatory)
        vhost = self._vhost
        if vhost.tracer.on:
            name = self._owner.connection_name()
            vhost.trace_published(name, self._channel, route, AMQP091, records, lengths)
        if route.keepers:
            vhost.keep(route, split_records(records, lengths))
        if route.reply is not None:
            for record in split_records(records, lengths):
                if not route.reply.replied(record):
                    use.unroutable(1, route.mandatory)
                    if route.mandatory:
                        self._owner.unroutable(record, route)
        elif not queues and route.mandatory:
            for record in split_records(records, lengths):
                self._owner.unroutable(record, route)
        if run is not None and (not queues or self._vhost.refuses(route)):
            # Nobody to wait for: confirmed at once, or refused while the disk is full.
            run.refused = bool(queues)
            run.waiting = 1
            run.safe()
            return
        if is_wide(queues):
            self.fan_out = PublishFanOut(
                self, queues, records, lengths, count, persistent, run, life_ms
            )
            self._owner.spreads()
            vhost.do_in_parts(self.fan_out)
            return
        self.put(queues, records, lengths, count, persistent, run, life_ms)

    def put(
        self,
        queues: list[Queue],
        records: bytes,
        lengths: bytes,
        count: i64,
        persistent: bool,
        run: PublishRun | None,
        life_ms: i64,
    ) -> None:
        """Put messages into queues."""
        for queue in queues:
            if self.consumes:
                queue.keep_order()
            owed = run
            if queue.stuck and owed is None:
                owed = PublishRun(Unowed(self._owner), 0, count, 1)
            queue.publish(records, lengths, count, persistent, owed, AMQP091, life_ms)
            if queue.congested():
                self._owner.congested(queue)

    def spread(self) -> None:
        """All queues have what was put into them in parts."""
        self.fan_out = None
        self._owner.is_spread()

    def failed(self, error: Exception) -> None:
        """End the connection for an error that was met on the way into queues."""
        self._owner.failed(error)

    def _is_enough(self) -> bool:
        """Whether what follows has to wait, for a later turn or until queues have what came."""
        return self.fan_out is not None or self._budget.over()

    def _use_of(self, route: Route) -> ExchangeUse:
        """Where messages with a route are counted."""
        use = self._use
        if use is not None and use.name == route.exchange and not use.exchange.forgotten:
            return use
        uses = self.uses
        if uses is None:
            uses = self.uses = {}
        use = uses.get(route.exchange)
        if use is None or use.exchange.forgotten:
            if len(uses) >= USES_MAX:
                uses.clear()
            exchange = self._traffic.of_exchange(self._vhost.name, route.exchange)
            use = ExchangeUse(route.exchange, exchange, self._vhost.traffic)
            uses[route.exchange] = use
        self._use = use
        return use

    def _sequence(self, route: Route, count: i64) -> PublishRun:
        """Owe confirms for `count` messages."""
        confirms = self.confirms
        assert confirms is not None
        run = PublishRun(self._owner, confirms.next_sequence, count, len(route.queues))
        run.use = self._use_of(route)
        confirms.next_sequence += count
        confirms.add(run)
        return run


def wants_of(facts: MessageFacts) -> i64:
    """What a message asks queues for, as one number: messages with the same may share a run.

    Returns:
        Whether to keep it over a restart (bit 0), whether it has a priority (bit 1; which is read
        of each), its life in milliseconds plus one (from `WANTS_LIFE` on).
    """
    wants = facts.life_ms + 1 << WANTS_LIFE
    return wants | (2 if facts.has_priority else 0) | (1 if facts.persistent else 0)


def still_owed(owed: i64, data: bytes, at: i64, stop: i64) -> i64:
    """How much of a message is still to come behind its content frame `data[at:stop]`.

    Args:
        owed: The same before it: bytes of the body, or `HEADER_OWED`.
    """
    size = stop - at - 8
    if data[at] == 3:
        return max(0, owed - size)
    if owed != HEADER_OWED or size < 12:
        return owed
    return max(0, read_i64_be(data, at + 11))


def split_records(records: bytes, lengths: bytes) -> list[bytes]:
    """Records that lie back to back, one by one."""
    split: list[bytes] = []
    at: i64 = 0
    for index in range(len(lengths) // 4):
        size: i64 = i64(read_i32_le(lengths, 4 * index))
        split.append(records[at : at + size])
        at += size
    return split
