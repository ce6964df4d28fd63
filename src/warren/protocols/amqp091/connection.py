"""One AMQP 0-9-1 connection: handshake, frames to channels, heartbeats, and an orderly end.

Sans-I/O: `receive` is fed what the socket brought, answers gather in `output`. One call parses all
whole frames; the rest waits for more. The one place where errors become close methods.

    AWAIT_HEADER -> AWAIT_START_OK -> AWAIT_TUNE_OK -> AWAIT_OPEN -> OPEN -> CLOSING -> CLOSED

Between AWAIT_START_OK and what follows it may be VERIFYING, while a password is checked elsewhere.
Any state may go to CLOSED when the socket is lost, and every state after the header to CLOSING when
one side closes: `connection.close` or its answer was sent, and what the client does is awaited.

Source: AMQP 0-9-1, 2.2.4 and 4.2; B-07; R-32 to R-37.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i32_be
from mypy_extensions import i64

from warren.errors import Refusal
from warren.limits import (
    ASSEMBLY_BYTES_MAX,
    FRAME_OVERHEAD_BYTES,
    FRAME_SLACK_BYTES,
    STEP_BYTES,
)
from warren.ports import Transport
from warren.protocols.amqp091.agreement import Agreement, greeting, shared_properties
from warren.protocols.amqp091.channel import Channel
from warren.protocols.amqp091.heartbeats import Heartbeats
from warren.protocols.amqp091.publishing import (
    BASIC_PUBLISH,
    HEADER_OWED,
    NO_METHOD,
    still_owed,
)
from warren.protocols.amqp091.refusals import amqp_error
from warren.protocols.amqp091.shedding import Shedding, shed_largest
from warren.protocols.broker import (
    ALARM_DISK,
    ALARM_MEMORY,
    ELSEWHERE_SHIFT,
    Broker,
    LoginListener,
)
from warren.protocols.client import ClientConnection
from warren.protocols.facts import NOWHERE, ChannelFacts, ClientPlace, ConnectionFacts
from warren.protocols.failures import went_through_shared
from warren.protocols.output import Output, OutputOwner
from warren.queues.queue import FlowControlled
from warren.vhost.handle import VhostHandle
from warren.vhost.pending import Resumable
from warren.wire.amqp091 import spec
from warren.wire.amqp091.erlang_text import close_text, frame_failure
from warren.wire.amqp091.errors import (
    REPLY_NAMES,
    AmqpError,
    ChannelException,
    ConnectionException,
)
from warren.wire.amqp091.frame import (
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    check_frame,
    header_words,
    method_frame,
    protocol_refusal,
)

BASIC_ACK: Final = 0x003C0050
BASIC_ACK_BYTES: Final = 13
"""Payload of the method's frame: class, method, delivery tag and `multiple`."""
FRAME_END: Final = 0xCE

AWAIT_HEADER: Final = 0
AWAIT_START_OK: Final = 1
VERIFYING: Final = 2
AWAIT_TUNE_OK: Final = 3
AWAIT_OPEN: Final = 4
OPEN: Final = 5
CLOSING: Final = 6
CLOSED: Final = 7

STATE_NAMES: Final = {AWAIT_TUNE_OK: "tuning", AWAIT_OPEN: "opening", OPEN: "running"}
SHOWN_STATES: Final = {
    AWAIT_HEADER: "pre_init",
    AWAIT_START_OK: "starting",
    VERIFYING: "securing",
    AWAIT_TUNE_OK: "tuning",
    AWAIT_OPEN: "opening",
    OPEN: "running",
    CLOSING: "closing",
    CLOSED: "closed",
}
"""What operators see, in RabbitMQ's words."""

CLOSE_GRACE_MS: Final = 30_000
"""How long a client may take to answer `connection.close`, or its heartbeat time-out if shorter."""
SILENT_CLOSE_MS: Final = 3_000
"""The same for a client that has not logged in, or cannot be understood any more. Who fails to log
in cannot try again at once either."""
DEFERRED_BYTES_MAX: Final = 1_048_576
"""Input kept for channels that wait for an answer, before the socket is left alone."""

LARGE_FRAME_BYTES: Final = 16_384
"""A body frame of this size that arrives in parts is put together once, when all of it is here."""

HELD_BY_ALARM: Final = 1
HELD_BY_CHANNELS: Final = 2
HELD_BY_OUTPUT: Final = 4
HELD_BY_FLOW: Final = 8
HELD_BY_TURN: Final = 16
HELD_BY_LOGIN: Final = 32
TOKEN_EXPIRED: Final = "credential expired"


@final
class Connection(OutputOwner, ClientConnection, FlowControlled, Resumable, LoginListener):
    """The server's side of one client connection.

    Attributes:
        output: Where its frames go.
        user: Who logged in, empty before.
        vhost: The vhost that it was opened for, empty before.
        peer: The client's address as `host:port`.
        channels: Open and closing channels by number.
        agreement: What was agreed with the client.
        place: Where the client reached this node.
        handle: The way to its vhost, once it is open.
        assembled_bytes: What is here of messages that no queue has; see `shedding`.
    """

    def __init__(
        self,
        broker: Broker,
        transport: Transport,
        host: str,
        port: int,
        certified: str = "",
        place: ClientPlace = NOWHERE,
    ) -> None:
        """Begin to wait for the client's header.

        Args:
            certified: The user whom its certificate names, which was verified; empty for none.
            place: Where the client reached this node.
        """
        self.broker: Broker = broker
        self.output: Output = Output(self, broker, transport)
        self.user: str = ""
        self.vhost: str = ""
        self.peer: str = f"{host}:{port}"
        self.channels: dict[int, Channel] = {}
        self.handle: VhostHandle | None = None
        self.agreement: Agreement = Agreement(broker, certified)
        self.state: i64 = AWAIT_HEADER
        self.assembled_bytes: i64 = 0
        self.number: int = 0
        self.place: ClientPlace = place
        self._came_ms: i64 = broker.now_ms()
        self._received_bytes: i64 = 0
        self._received_count: i64 = 0
        self._transport: Transport = transport
        self._host: str = host
        self._tail: bytes = b""
        self._tail_at: i64 = 0
        """Where in it that begins which was not handled."""
        self._arriving: list[bytes] | None = None
        """Parts of a large frame."""
        self._lacking: i64 = 0
        """How many bytes of that frame are still to come; 0 if there is none."""
        self._turn: i64 = 0
        """The turn of the newest input."""
        self._turn_bytes: i64 = 0
        """How much was handled in that turn."""
        self._ticked_bytes: i64 = 0
        self._grace_ms: i64 = broker.settings.handshake_timeout_ms
        """How long the client may take to open the connection or, later, to answer a close."""
        self._began_ms: i64 = broker.monotonic_ms()
        """Since when that is waited for."""
        self._last_number: i64 = -1
        self._last_channel: Channel | None = None
        self._held: i64 = 0
        self._alarms: i64 = 0
        self._alarmed: list[Channel] | None = None
        """Channels whose input was put aside before the alarm that holds it back now."""
        self._told_blocked: bool = False
        self._publishes: bool = False
        self._deferred_bytes: i64 = 0
        self._deaf: bool = False
        self._broken: bool = False
        """Whether an error of this program's own was met while it was served."""
        self._start_ok: spec.ConnectionStartOk | None = None
        """What the client said that is being verified."""
        self.waited = False
        self.turned_away = False
        self._assembly_max: i64 = max(
            ASSEMBLY_BYTES_MAX, broker.settings.max_message_bytes, broker.assembly_bytes_max // 8
        )
        self._sheds: bool = False
        """Whether `shed` is to come."""
        self._cut_off: dict[int, i64] | None = None
        """By channels that were closed within a message, what their clients still send of it."""
        self._heartbeats: Heartbeats = Heartbeats(self._began_ms)
        broker.pulse_later(self, int(self._began_ms + self._grace_ms))

    # Input.

    def receive(self, data: bytes) -> None:
        """Take bytes from the client; never raises for what a client can do."""
        self._heartbeats.heard = True
        self._received_bytes += len(data)
        self._received_count += 1
        # Who hands over more all the same has it handled: it must not pile up here.
        bounded = self._held & HELD_BY_TURN == 0
        at: i64 = 0
        arriving = self._arriving
        if arriving is not None:
            if len(data) < self._lacking:
                if data:
                    arriving.append(data)
                    self._lacking -= len(data)
                return
            at = self._lacking
            arriving.append(data[:at])
            frame = b"".join(arriving)
            self._arriving = None
            self._lacking = 0
            self._take(frame, 0, bounded)
        if self._tail:
            if at < len(data):
                data = self._tail[self._tail_at :] + data[at:]
                at = 0
            else:
                data = self._tail
                at = self._tail_at
            self._tail = b""
            self._tail_at = 0
        if self.state == AWAIT_HEADER:
            if len(data) < 8 and PROTOCOL_HEADER.startswith(data[:4]):
                self._tail = data
                return
            refusal = protocol_refusal(data[:8].ljust(8, b"\x00"))
            if refusal:
                self.broker.log_warning(f"{self.peer}: bad header, {header_words(data)}")
                self.output.buffer.write(refusal)
                self._end()
                self.output.close()
                return
            at = 8
            self._start()
        if at < len(data):
            self._take(data, at, bounded)

    def _take(self, data: bytes, at: i64, bounded: bool) -> None:
        """Handle the frames of `data` from `at` on, and keep what has to wait.

        Args:
            bounded: Whether what is too much for this turn has to wait.
        """
        if self._deaf or self.state == CLOSED:
            return
        broker = self.broker
        if self._turn != broker.turn_number:
            self._turn = broker.turn_number
            self._turn_bytes = 0
            broker.inputs += 1
        end: i64 = len(data)
        most = end
        share: i64 = broker.input_share
        if bounded:
            share -= self._turn_bytes
            most = min(end, at + share)
        start = at
        budget = broker.budget
        spent = budget.spent
        before = budget.begin(share)
        try:
            at = self._parse(data, at, most)
        except ConnectionException as error:
            # Framing is lost: nothing that follows can be understood.
            budget.limit = before
            self._deaf = True
            if self.state == CLOSING:
                # Nor can the end of the close that is waited for.
                self._wait_at_most(SILENT_CLOSE_MS)
            else:
                self._fail(error)
            return
        stopped = budget.over() and at < end
        budget.limit = before
        spent = (budget.spent - spent) * STEP_BYTES
        self._turn_bytes += at - start + spent
        if self.state == CLOSED:
            return
        if (stopped or self._turn_bytes >= broker.input_share) and self._held & HELD_BY_TURN == 0:
            self._hold(HELD_BY_TURN)
            broker.go_on_later(self, spent > at - start)
        if at == end:
            return
        if at < most and end - at >= 7 and data[at] == 3:
            lacking = at + 8 + (i64(read_i32_be(data, at + 3)) & 0xFFFFFFFF) - end
            if lacking > 0 and end - at + lacking >= LARGE_FRAME_BYTES and self._held == 0:
                self._arriving = [data[at:]]
                self._lacking = lacking
                return
        if at > 0 and 2 * at >= end:
            self._tail = data[at:]
        else:
            # What is to be taken up in many turns is not copied in each.
            self._tail = data
            self._tail_at = at

    def go_on(self) -> None:
        """Take up what was too much for the turn before."""
        if self._broken:
            self._end_broken()
        else:
            self._release(HELD_BY_TURN)

    def lost(self) -> None:
        """The socket is gone."""
        self.output.lost()
        self._end()

    def failed(self, error: Exception) -> None:
        """End the connection for an error of this program's own, with 541.

        Raises:
            Exception: The error itself, if it went through what all clients depend on.
        """
        if went_through_shared(error):
            raise error
        self.broker.contain(f"connection {self.peer} ({self.user or '-'}) ends", error)
        if self._broken:
            # Ending it failed, too.
            self.output.abort()
            self.state = CLOSED
            self.broker.connection_closed(self)
            return
        self._broken = True
        self._deaf = True
        # In a turn of its own: a queue may be calling, in the middle of what it does.
        self.broker.go_on_later(self)

    def _end_broken(self) -> None:
        """End it for what `failed` was told."""
        if self.state == OPEN:
            self._fail(ConnectionException(541, "an error of the broker's own; its log has more"))
        else:
            self._end()
            self.output.abort()

    def beats_ms(self) -> i64:
        """The client's heartbeat timeout; 0 while it expects none."""
        return self._heartbeats.timeout_ms if self.state != CLOSED else 0

    def excuse(self) -> None:
        """This node stood still: what the client sent meanwhile was not read yet."""
        self._heartbeats.heard = True

    def tick(self, now_ms: i64) -> None:
        """Look after the channels, and see whether the client is still there.

        Called about once a second.
        """
        handle = self.handle
        if handle is not None and handle.expired(now_ms):
            self.shut_down(TOKEN_EXPIRED)
        for channel in list(self.channels.values()):
            channel.tick(now_ms)
        sent = self.output.sent_bytes
        if sent != self._ticked_bytes:
            self._ticked_bytes = sent
        else:
            self.output.shrink()

    def pulse(self, now_ms: i64) -> None:
        """See to what is due by now: the end of a wait for the client, a heartbeat."""
        waits = self.state < OPEN or self.state == CLOSING
        if waits and now_ms - self._began_ms >= self._grace_ms:
            if self.state < OPEN:
                self.broker.log_warning(f"{self.peer}: handshake timed out, connection closed")
            self.output.abort()
            self._end()
            return
        self._listen(now_ms)
        if self.state != CLOSED:
            self._beat(now_ms)

    def _listen(self, now_ms: i64) -> None:
        """Give a client up that was silent for too long."""
        heartbeats = self._heartbeats
        if not heartbeats.listens_at(now_ms):
            return
        if self._held != 0:
            # Nobody reads what it sends.
            heartbeats.heard = True
        if not heartbeats.listen(now_ms):
            self.broker.pulse_later(self, int(heartbeats.look_ms))
            return
        self.broker.log_warning(
            f"{self.peer}: missed heartbeats from client, "
            f"timeout: {heartbeats.timeout_ms // 1000}s, connection closed"
        )
        self.output.abort()
        self._end()

    def _beat(self, now_ms: i64) -> None:
        """Send a heartbeat if nothing else was sent for half of the time-out."""
        heartbeats = self._heartbeats
        if not heartbeats.is_due(now_ms):
            # Asked for by a connection that was here before.
            return
        output = self.output
        if heartbeats.was_silent(now_ms, output.sent_bytes):
            output.buffer.write(HEARTBEAT_FRAME)
            output.flush()
        heartbeats.sent(now_ms, output.sent_bytes)
        self.broker.pulse_later(self, int(heartbeats.due_ms))

    def shut_down(self, text: str) -> None:
        """End the connection from the server's side."""
        try:
            if self.state == OPEN:
                self._fail(ConnectionException(320, text))
            elif self.state < OPEN:
                self._end()
                self.output.close()
        except Exception as error:
            self.failed(error)

    def refuse(self, error: ConnectionException) -> None:
        """End it for what a method that had to wait came to."""
        if self.state == OPEN:
            self._fail(error)

    def set_writable(self, writable: bool) -> None:
        """The transport's buffer passed its high mark (False) or drained (True)."""
        self.output.set_writable(writable)
        if writable:
            self._release(HELD_BY_OUTPUT)

    def stalled(self) -> None:
        """The client does not read while its requests are answered: stop taking them (R-36)."""
        if self.state != CLOSING and self.state != CLOSED:
            self._hold(HELD_BY_OUTPUT)

    def flow_off(self) -> None:
        """A queue that it publishes to is behind: leave the socket alone for a moment."""
        self._hold(HELD_BY_FLOW)

    def flow_on(self) -> None:
        """That queue has caught up."""
        try:
            self._release(HELD_BY_FLOW)
        except Exception as error:
            self.failed(error)

    def heeds_end(self, half: bool) -> bool:
        """Whether it ends because its client has, of which it would read nothing for now.

        Args:
            half: Whether the client only sends no more. What it has sent is to be taken in then,
                unless others wait for what this holds until an alarm is over.
        """
        if not half:
            return self._held & ~HELD_BY_TURN != 0
        if self._alarms == 0 or self._held & (HELD_BY_ALARM | HELD_BY_FLOW) == 0:
            return False
        return any(channel.keeps_others() for channel in self.channels.values())

    def is_over(self) -> bool:
        """Whether the connection has ended."""
        return self.state == CLOSED

    def set_alarms(self, alarms: i64, reason: str) -> None:
        """Resource alarms changed; publishers are told once at each edge (R-38)."""
        try:
            self._set_alarms(alarms, reason)
        except Exception as error:
            self.failed(error)

    def _set_alarms(self, alarms: i64, reason: str) -> None:
        self._alarms = alarms
        if alarms:
            if self._publishes:
                self._tell_blocked(reason)
            return
        if self._told_blocked:
            self._told_blocked = False
            self.send(0, spec.ConnectionUnblocked())
        self._release(HELD_BY_ALARM)
        alarmed = self._alarmed
        if alarmed is not None:
            self._alarmed = None
            for channel in alarmed:
                channel.go_on()

    # For channels.

    def assembling(self, size: i64) -> None:
        """So many bytes of messages that are not whole have come; negative when they leave again.

        What is too much for this connection, or for the node, costs the largest of such messages:
        its channel is closed.
        """
        broker = self.broker
        self.assembled_bytes += size
        broker.assembled_bytes += size
        if size > 0:
            if self.assembled_bytes > self._assembly_max:
                self.shed_assembly(self._assembly_max)
            elif broker.assembled_bytes > broker.assembly_bytes_max:
                broker.shed_assembly()

    def transacting(self, size: i64) -> None:
        """So many bytes more wait for commits; negative when they do not any more.

        What is too much is closed a moment later, behind the publish that it came with.
        """
        broker = self.broker
        self.assembled_bytes += size
        broker.assembled_bytes += size
        much = self.assembled_bytes > self._assembly_max
        much = much or broker.assembled_bytes > broker.assembly_bytes_max
        if size > 0 and much and not self._sheds:
            self._sheds = True
            broker.go_on_later(Shedding(self))

    def shed(self) -> None:
        """Close channels until neither this connection nor the node has too much of these."""
        self._sheds = False
        broker = self.broker
        while self.assembled_bytes > self._assembly_max:
            if not self.shed_assembly(self._assembly_max):
                break
        while broker.assembled_bytes > broker.assembly_bytes_max:
            if not broker.shed_assembly():
                break

    def shed_assembly(self, limit: i64) -> bool:
        """Close the channel that has most of them; see `shed_largest`."""
        return shed_largest(list(self.channels.values()), limit)

    def send(self, channel: i64, method: spec.Method) -> None:
        """Queue a method frame."""
        self.output.buffer.write(method_frame(int(channel), method.encode()))
        self.output.touch()

    def channel_left(self, channel: Channel) -> None:
        """Answer a client that closed a channel, unless the connection ended meanwhile."""
        if self.channels.get(int(channel.number)) is channel:
            self.send(channel.number, spec.ChannelCloseOk())
            self.channel_closed(channel)

    def channel_closed(self, channel: Channel) -> None:
        """A channel is closed on both sides; its number is free.

        A client that answers within a message goes on with that.
        """
        if channel.owed != 0:
            if self._cut_off is None:
                self._cut_off = {}
            self._cut_off[int(channel.number)] = channel.owed
        if self.channels.pop(int(channel.number), None) is not None:
            self.broker.traffic.channels_closed += 1
            self.broker.channel_changed(self, channel.number, False)
        self._forget_last()

    def channel_waits(self, size: i64) -> None:
        """A channel put input aside, or took it up again (negative size)."""
        self._deferred_bytes += size
        if self._deferred_bytes > DEFERRED_BYTES_MAX:
            self._hold(HELD_BY_CHANNELS)
        else:
            self._release(HELD_BY_CHANNELS)

    def take_up(self, channel: Channel, data: bytes, at: i64, enough: i64) -> i64:
        """Process frames that a channel had put aside; returns the offset of the rest.

        Args:
            data: Whole frames of that channel.
            at: Where to begin.
            enough: No frame is begun at this offset or behind.
        """
        budget = self.broker.budget
        before = budget.begin(enough - at)
        at = self._parse(data, at, len(data), enough)
        if budget.over() and not channel.aside:
            # What is left is for another turn.
            channel.aside = True
            self.broker.go_on_later(channel, True)
        budget.limit = before
        return at

    # Frames.

    def _parse(self, data: bytes, at: i64, most: i64, enough: i64 = -1) -> i64:
        """Handle the whole frames of `data` from `at` on; returns the offset of the rest.

        Frames at `most` or behind are for another turn, or part of a run that began before.
        What a channel takes up again (`enough` says how far) ends where the channel waits again.
        """
        end: i64 = len(data)
        budget = self.broker.budget
        before: i64 = -1
        while at < most and end - at >= 7 and self.state != CLOSED:
            # A frame that is neither handled nor refused would keep the node for good.
            assert at > before, f"the frame at {at} of {end} bytes was not handled"
            before = at
            size: i64 = i64(read_i32_be(data, at + 3)) & 0xFFFFFFFF
            if size > self.agreement.frame_max - FRAME_OVERHEAD_BYTES + FRAME_SLACK_BYTES:
                self._oversized(data[at], size)
            stop = at + 8 + size
            if stop > end:
                break
            if data[stop - 1] != FRAME_END:
                self._bad_end(data, at, stop)
            number = i64(data[at + 1]) << 8 | i64(data[at + 2])
            if number != self._last_number:
                self._last_channel = self.channels.get(int(number))
                self._last_number = number
            channel = self._last_channel
            if channel is None or self.state != OPEN:
                try:
                    self._outside_channels(data, at, stop, number)
                except ConnectionException as fatal:
                    self._fail(fatal)
                at = stop
                if self.state == VERIFYING:
                    # A client may send what comes next before it is let in.
                    return at
                continue
            if enough >= 0 and at >= enough:
                return at
            kind: i64 = data[at]
            key: i64 = i64(read_i32_be(data, at + 7)) if kind == 1 and size >= 4 else 0
            if channel.aside:
                if enough >= 0 and channel.waits():
                    return at
                if kind == 0 or kind > 3:
                    # Nothing passes over what no frame is, not even a channel that closes.
                    try:
                        check_frame(kind, number, data, at + 7, stop - 1)
                    except ConnectionException as unknown:
                        self._fail(unknown)
                else:
                    channel.put_aside(data, at, stop, key)
                at = stop
                continue
            if (
                budget.spent >= budget.limit
                and key != BASIC_ACK
                and (key != BASIC_PUBLISH or channel.publishing.costs(data, at, stop))
            ):
                return at
            try:
                if (
                    self._alarms != 0
                    and (key == BASIC_PUBLISH or kind == 2 or kind == 3)
                    and self._must_hold(channel)
                ):
                    if enough >= 0:
                        channel.aside = True
                        if self._alarmed is None:
                            self._alarmed = []
                        self._alarmed.append(channel)
                    return at
                if key == BASIC_PUBLISH:
                    if not self._publishes:
                        self._publishes = True
                    taken = channel.publishing.publish(data, at, end, most)
                    if taken > at:
                        at = taken
                    elif enough < 0:
                        return at
                    else:
                        # Its content is still to come, which is not to be waited for here.
                        channel.publishing.begin(data, at, stop)
                        at = stop
                elif key == BASIC_ACK and size == BASIC_ACK_BYTES:
                    at = channel.acks(data, at, end)
                else:
                    if kind == 1 and size >= 4:
                        channel.method(data, at + 7, stop - 1)
                    else:
                        check_frame(kind, number, data, at + 7, stop - 1)
                        channel.publishing.content(data, at, stop)
                    at = stop
            except AmqpError as error:
                at = self._spoilt(channel, error, data, at, stop, key)
            except Refusal as refusal:
                # Of methods the channel says which it was: this is about a publish.
                at = self._spoilt(channel, amqp_error(refusal, 60, 40), data, at, stop, key)
        return at

    def _spoilt(
        self, channel: Channel, error: AmqpError, data: bytes, at: i64, stop: i64, key: i64
    ) -> i64:
        """Close a channel, or all of this, for what came on the channel.

        Args:
            at, stop: Where the frame lies.
            key: Class and method of a method frame, else 0.

        Returns:
            The offset behind what was at fault.
        """
        if key == BASIC_PUBLISH:
            at = channel.publishing.failed_at
            stop = at + 8 + i64(read_i32_be(data, at + 3))
        if isinstance(error, ChannelException):
            if error.class_id == 0 and key != BASIC_ACK:
                error.class_id, error.method_id = 60, 40
            if key == BASIC_ACK:
                stop = channel.acked_to
            channel.fail(error)
            if key == BASIC_PUBLISH:
                channel.owed = HEADER_OWED
            return stop
        if data[at] != 8 and error.class_id == 0 and key in (0, BASIC_PUBLISH):
            error.class_id, error.method_id = self._blamed(channel)
        self._fail(error)
        return stop

    def _blamed(self, channel: Channel) -> tuple[int, int]:
        """Class and method of an error in content: the publish it belongs to, if there is one."""
        return (60, 40) if channel.publishing.begun else (0, 0)

    def _outside_channels(self, data: bytes, at: i64, stop: i64, number: i64) -> None:
        """A frame of channel 0, of a channel that is not open, or outside the open state."""
        kind: i64 = data[at]
        if self.state == CLOSING and (number != 0 or kind != 1):
            return
        check_frame(kind, number, data, at + 7, stop - 1)
        if number == 0:
            if kind == 1:
                said = spec.decode_method(data, at + 7, stop - 1)
                if isinstance(said, spec.ConnectionStartOk):
                    properties = shared_properties(data, at + 11, said.client_properties)
                    said.client_properties = properties
                self._connection_method(said)
            return
        if self.state != OPEN:
            text = frame_failure(int(kind), data[at + 7 : stop - 1], "")
            raise ConnectionException(505, text)
        if kind != 1:
            cut_off = self._cut_off
            owed = 0 if cut_off is None else cut_off.pop(int(number), 0)
            if cut_off is None or owed == 0:
                raise ConnectionException(505, NO_METHOD)
            owed = still_owed(owed, data, at, stop)
            if owed != 0:
                cut_off[int(number)] = owed
            return
        method = spec.decode_method(data, at + 7, stop - 1)
        if isinstance(method, spec.ChannelOpen):
            self._open_channel(number)
        elif isinstance(method, (spec.ChannelCloseOk, spec.ChannelClose)):
            # The client closed a channel that an error here had ended just before.
            if isinstance(method, spec.ChannelClose):
                self.send(number, spec.ChannelCloseOk())
        else:
            raise ConnectionException(
                504, "expected 'channel.open'", method.CLASS_ID, method.METHOD_ID
            )

    def _connection_method(self, method: spec.Method) -> None:
        """A method on channel 0."""
        if isinstance(method, spec.ConnectionClose):
            # The client may still be writing; it closes the socket, or is given up after the grace.
            if self.state == CLOSING:
                if self.output.writable:
                    self.send(0, spec.ConnectionCloseOk())
                return
            self._end()
            self.send(0, spec.ConnectionCloseOk())
            self.output.flush()
            self._linger(self._grace())
        elif isinstance(method, spec.ConnectionCloseOk):
            if self.state == CLOSING:
                self._end()
                self.output.close()
        elif self.state == CLOSING:
            return
        elif self.state == AWAIT_START_OK and isinstance(method, spec.ConnectionStartOk):
            self._authenticate(method)
        elif self.state == AWAIT_TUNE_OK and isinstance(method, spec.ConnectionTuneOk):
            self._tune(method)
        elif self.state == AWAIT_OPEN and isinstance(method, spec.ConnectionOpen):
            self._open(method)
        elif self.state == OPEN and isinstance(method, spec.ConnectionUpdateSecret):
            login = self.agreement.login
            secret = method.new_secret.decode("utf-8", "surrogateescape")
            try:
                renewed = login is not None and self.broker.renew_login(login, secret, self.vhost)
            except Refusal as refusal:
                raise ConnectionException(
                    530, refusal.text, method.CLASS_ID, method.METHOD_ID
                ) from None
            if not renewed:
                raise ConnectionException(
                    530,
                    "New secret was refused by one of the backends",
                    method.CLASS_ID,
                    method.METHOD_ID,
                )
            self.send(0, spec.ConnectionUpdateSecretOk())
        else:
            raise ConnectionException(
                504,
                f"unexpected method in connection state {STATE_NAMES.get(self.state, 'starting')}",
                method.CLASS_ID,
                method.METHOD_ID,
            )

    # Handshake.

    def _start(self) -> None:
        self.state = AWAIT_START_OK
        mechanisms = " ".join(self.agreement.mechanisms())
        self.output.buffer.write(greeting(self.broker.settings.node_name, mechanisms))
        self.output.touch()

    def _authenticate(self, method: spec.ConnectionStartOk) -> None:
        agreement = self.agreement
        try:
            if agreement.waits(method, self._host, self):
                self._start_ok = method
                self.state = VERIFYING
                self._hold(HELD_BY_LOGIN)
                return
            if self.turned_away:
                let_in = agreement.turn_away(method, self.peer)
            else:
                let_in = agreement.authenticate(method, self.peer, self._host)
        except ConnectionException:
            self.broker.login_tried(self, agreement.tried, agreement.problem)
            raise
        self.broker.login_tried(self, agreement.tried, agreement.problem)
        if not let_in:
            self._fall_silent()
            return
        login = agreement.login
        assert login is not None
        self.user = login.user
        self.state = AWAIT_TUNE_OK
        self.send(0, agreement.offer())

    def verified(self) -> None:
        """It is known what comes of the client's password."""
        try:
            self._verified()
        except Exception as error:
            self.failed(error)

    def _verified(self) -> None:
        method = self._start_ok
        self._start_ok = None
        if self.state != VERIFYING or method is None:
            return
        self.state = AWAIT_START_OK
        try:
            self._authenticate(method)
        except ConnectionException as error:
            self._fail(error)
        self._release(HELD_BY_LOGIN)

    def _fall_silent(self) -> None:
        """Say nothing more and hear nothing, then close: what a stranger gets that went wrong."""
        self._deaf = True
        self._forget_input()
        self._end()
        self._linger(SILENT_CLOSE_MS)

    def _tune(self, method: spec.ConnectionTuneOk) -> None:
        agreement = self.agreement
        agreement.tune(method)
        self.output.frame_max = agreement.frame_max
        if agreement.heartbeat_ms > 0:
            self._heartbeats.begin(agreement.heartbeat_ms, self.broker.monotonic_ms())
            self.broker.pulse_later(self, int(self._heartbeats.due_ms))
            self.broker.pulse_later(self, int(self._heartbeats.look_ms))
        self.state = AWAIT_OPEN

    def _open(self, method: spec.ConnectionOpen) -> None:
        login = self.agreement.login
        assert login is not None
        try:
            self.handle = self.broker.open_vhost(login, method.virtual_host)
        except Refusal as refusal:
            raise amqp_error(refusal, method.CLASS_ID, method.METHOD_ID) from None
        self.vhost = self.handle.name
        self.state = OPEN
        self.send(0, spec.ConnectionOpenOk())
        self._alarms = self.broker.alarms()
        self.broker.connection_opened(self)

    def _open_channel(self, number: i64) -> None:
        self.agreement.check_channels(len(self.channels))
        handle = self.handle
        assert handle is not None
        try:
            handle.open_channel()
        except Refusal as refusal:
            raise amqp_error(refusal, 0, 0) from None
        if self._cut_off is not None:
            self._cut_off.pop(int(number), None)
        self.channels[int(number)] = Channel(self, handle, number)
        self.broker.traffic.channels_opened += 1
        self._forget_last()
        self.broker.channel_changed(self, number, True)
        self.send(number, spec.ChannelOpenOk())

    # Errors and the end.

    def _oversized(self, kind: i64, size: i64) -> None:
        # The frame is not read: its size alone breaks the agreement.
        reason = f"frame_too_large,{size}"
        payload_max = int(self.agreement.frame_max - FRAME_OVERHEAD_BYTES)
        text = frame_failure(int(kind), b"", reason, payload_max)
        raise ConnectionException(501, text)

    def _bad_end(self, data: bytes, at: i64, stop: i64) -> None:
        text = frame_failure(
            int(data[at]), data[at + 7 : stop - 1], "invalid_frame_end_marker", int(data[stop - 1])
        )
        raise ConnectionException(501, text)

    def _fail(self, error: AmqpError) -> None:
        """Close for a client's error: everything it held returns, and it is told why."""
        if self.state == CLOSING or self.state == CLOSED:
            return
        before = self.state
        self.broker.log_warning(f"{self.peer} ({self.user or '-'}): closing connection: {error}")
        told = error.code in (403, 320)
        if (before == AWAIT_START_OK and not told) or (before < AWAIT_OPEN and self._deaf):
            self._fall_silent()
            return
        self._end()
        self._forget_input()
        self.send(
            0,
            spec.ConnectionClose(
                error.code,
                close_text(REPLY_NAMES[error.code], error.text),
                error.class_id,
                error.method_id,
            ),
        )
        self.output.flush()
        self._linger(SILENT_CLOSE_MS if before < AWAIT_OPEN or self._deaf else self._grace())

    def _forget_input(self) -> None:
        """Drop the part of a frame that has come."""
        self._tail = b""
        self._tail_at = 0
        self._arriving = None
        self._lacking = 0

    def _grace(self) -> i64:
        """How long it may take the client to end the connection, in milliseconds."""
        heartbeat = self._heartbeats.timeout_ms
        return heartbeat if 0 < heartbeat < CLOSE_GRACE_MS else CLOSE_GRACE_MS

    def _linger(self, grace_ms: i64) -> None:
        """Wait for the client's part of the close, for a while."""
        self.state = CLOSING
        self._wait(grace_ms)
        self.broker.connection_closing(self)
        if self._held:
            self._held = 0
            if not self.output.closed:
                self._transport.resume_reading()

    def _wait(self, grace_ms: i64) -> None:
        self._grace_ms = grace_ms
        self._began_ms = self.broker.monotonic_ms()
        self.broker.pulse_later(self, int(self._began_ms + grace_ms))

    def _wait_at_most(self, grace_ms: i64) -> None:
        """Give the client up after a while from now, or when that was due anyway."""
        left = self._began_ms + self._grace_ms - i64(self.broker.monotonic_ms())
        if left > grace_ms:
            self._wait(grace_ms)

    def _end(self) -> None:
        """Let go of everything this connection has in the broker; once."""
        if self.state == CLOSED:
            return
        self.state = CLOSED
        channels = self.channels
        self.channels = {}
        self.broker.traffic.channels_closed += len(channels)
        self._alarmed = None
        self._forget_last()
        for channel in channels.values():
            try:
                channel.end()
            except Exception as error:
                # What the other channels hold goes back to its queues all the same.
                if went_through_shared(error):
                    raise
                self.broker.contain(f"{channel} of {self} ends", error)
            self.broker.channel_changed(self, channel.number, False)
        self.output.let_go()
        handle = self.handle
        if handle is not None:
            self.handle = None
            handle.closed()
        self.broker.connection_closed(self)

    def _forget_last(self) -> None:
        self._last_number = -1
        self._last_channel = None

    # Alarms and flow.

    def _must_hold(self, channel: Channel) -> bool:
        """Whether publishes wait for an alarm to clear.

        A full disk of this node nacks what a channel in confirm mode publishes, so that its client
        knows; everything else simply waits in the socket.
        """
        if not self._publishes:
            self._publishes = True
        self._tell_blocked(self.broker.alarm_reason())
        low_on_memory = self._alarms & (ALARM_MEMORY | ALARM_MEMORY << ELSEWHERE_SHIFT) != 0
        refuses = self._alarms & ALARM_DISK != 0 and not low_on_memory
        if refuses and channel.publishing.confirms is not None:
            return False
        self._hold(HELD_BY_ALARM)
        return True

    def _tell_blocked(self, reason: str) -> None:
        if (
            not self._told_blocked
            and self.state == OPEN
            and self.agreement.capability("connection.blocked")
        ):
            self._told_blocked = True
            self.send(0, spec.ConnectionBlocked(reason))

    def _hold(self, why: i64) -> None:
        if self._held == 0 and not self.output.closed:
            self._transport.pause_reading()
        self._held |= why

    def _release(self, why: i64) -> None:
        if self._held & why and self.state != CLOSED:
            self._held &= ~why
            if self._held == 0:
                self._heartbeats.heard = True
                if not self.output.closed:
                    self._transport.resume_reading()
                if self._tail:
                    self.receive(b"")

    # For operators.

    def name(self) -> str:
        """Both ends, as operators see it."""
        return f"{self.peer} -> {self.place.host}:{self.place.port}"

    def facts(self) -> ConnectionFacts:
        """What operators are told of it."""
        agreement = self.agreement
        handle = self.handle
        facts = ConnectionFacts()
        facts.state = SHOWN_STATES[int(self.state)]
        if self._held & HELD_BY_ALARM:
            facts.state = "blocked"
        elif self._held & HELD_BY_FLOW:
            facts.state = "flow"
        facts.protocol = "AMQP 0-9-1"
        facts.mechanism = agreement.mechanism
        facts.peer_host = self._host
        facts.peer_port = int(self.peer.rpartition(":")[2])
        facts.host = self.place.host
        facts.port = self.place.port
        facts.encrypted = self.place.encrypted
        facts.channel_max = agreement.channel_max
        facts.frame_max = agreement.frame_max
        facts.heartbeat_s = agreement.heartbeat_ms // 1000
        facts.client_properties = agreement.client_properties
        facts.received_bytes = self._received_bytes
        facts.received_count = self._received_count
        facts.sent_bytes = self.output.sent_bytes
        facts.sent_count = self.output.sent_count
        facts.pending_bytes = self.output.gathered_bytes()
        facts.connected_ms = self._came_ms
        facts.identity = 0 if handle is None else handle.identity
        facts.channels = len(self.channels)
        return facts

    def channel_numbers(self) -> list[int]:
        """The numbers of its channels."""
        return list(self.channels)

    def channel_facts(self, number: int) -> ChannelFacts | None:
        """What they are told of one of its channels; None if there is none of that number."""
        channel = self.channels.get(number)
        return None if channel is None else channel.facts()

    def __str__(self) -> str:
        return f"connection {self.peer}"
