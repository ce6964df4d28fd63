"""A small AMQP 0-9-1 client on the standard library that lets a test say anything.

Other clients refuse to send what a broken or hostile peer would send. This one only frames what it
is told: every byte, every method, any order. It keeps nothing of the protocol's state, so that the
broker's answers are all a test sees. It is for tests: simple, blocking, every wait bounded.

Source: AMQP 0-9-1, 2.3 and 4.2, and RabbitMQ's additions (`amqp-rabbitmq-0.9.1.json`).
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from tests.support.patience import patient

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
WAIT_S = patient(10.0)

# name: (class, method, arguments). Types: o octet, h short, l long, L longlong, s shortstr,
# S longstr, b bit, F table.
METHODS: dict[str, tuple[int, int, str]] = {
    "connection.start": (
        10, 10,
        "version_major:o version_minor:o server_properties:F mechanisms:S locales:S",
    ),
    "connection.start-ok": (10, 11, "client_properties:F mechanism:s response:S locale:s"),
    "connection.secure": (10, 20, "challenge:S"),
    "connection.secure-ok": (10, 21, "response:S"),
    "connection.tune": (10, 30, "channel_max:h frame_max:l heartbeat:h"),
    "connection.tune-ok": (10, 31, "channel_max:h frame_max:l heartbeat:h"),
    "connection.open": (10, 40, "virtual_host:s capabilities:s insist:b"),
    "connection.open-ok": (10, 41, "known_hosts:s"),
    "connection.close": (10, 50, "reply_code:h reply_text:s class_id:h method_id:h"),
    "connection.close-ok": (10, 51, ""),
    "connection.blocked": (10, 60, "reason:s"),
    "connection.unblocked": (10, 61, ""),
    "connection.update-secret": (10, 70, "new_secret:S reason:s"),
    "connection.update-secret-ok": (10, 71, ""),
    "channel.open": (20, 10, "out_of_band:s"),
    "channel.open-ok": (20, 11, "channel_id:S"),
    "channel.flow": (20, 20, "active:b"),
    "channel.flow-ok": (20, 21, "active:b"),
    "channel.close": (20, 40, "reply_code:h reply_text:s class_id:h method_id:h"),
    "channel.close-ok": (20, 41, ""),
    "access.request": (30, 10, "realm:s exclusive:b passive:b active:b write:b read:b"),
    "access.request-ok": (30, 11, "ticket:h"),
    "exchange.declare": (
        40, 10,
        "ticket:h exchange:s type:s passive:b durable:b auto_delete:b internal:b nowait:b"
        + " arguments:F",
    ),
    "exchange.declare-ok": (40, 11, ""),
    "exchange.delete": (40, 20, "ticket:h exchange:s if_unused:b nowait:b"),
    "exchange.delete-ok": (40, 21, ""),
    "exchange.bind": (
        40, 30, "ticket:h destination:s source:s routing_key:s nowait:b arguments:F"
    ),
    "exchange.bind-ok": (40, 31, ""),
    "exchange.unbind": (
        40, 40, "ticket:h destination:s source:s routing_key:s nowait:b arguments:F"
    ),
    "exchange.unbind-ok": (40, 51, ""),
    "queue.declare": (
        50, 10,
        "ticket:h queue:s passive:b durable:b exclusive:b auto_delete:b nowait:b arguments:F",
    ),
    "queue.declare-ok": (50, 11, "queue:s message_count:l consumer_count:l"),
    "queue.bind": (50, 20, "ticket:h queue:s exchange:s routing_key:s nowait:b arguments:F"),
    "queue.bind-ok": (50, 21, ""),
    "queue.purge": (50, 30, "ticket:h queue:s nowait:b"),
    "queue.purge-ok": (50, 31, "message_count:l"),
    "queue.delete": (50, 40, "ticket:h queue:s if_unused:b if_empty:b nowait:b"),
    "queue.delete-ok": (50, 41, "message_count:l"),
    "queue.unbind": (50, 50, "ticket:h queue:s exchange:s routing_key:s arguments:F"),
    "queue.unbind-ok": (50, 51, ""),
    "basic.qos": (60, 10, "prefetch_size:l prefetch_count:h global:b"),
    "basic.qos-ok": (60, 11, ""),
    "basic.consume": (
        60, 20,
        "ticket:h queue:s consumer_tag:s no_local:b no_ack:b exclusive:b nowait:b arguments:F",
    ),
    "basic.consume-ok": (60, 21, "consumer_tag:s"),
    "basic.cancel": (60, 30, "consumer_tag:s nowait:b"),
    "basic.cancel-ok": (60, 31, "consumer_tag:s"),
    "basic.publish": (60, 40, "ticket:h exchange:s routing_key:s mandatory:b immediate:b"),
    "basic.return": (60, 50, "reply_code:h reply_text:s exchange:s routing_key:s"),
    "basic.deliver": (
        60, 60, "consumer_tag:s delivery_tag:L redelivered:b exchange:s routing_key:s"
    ),
    "basic.get": (60, 70, "ticket:h queue:s no_ack:b"),
    "basic.get-ok": (
        60, 71, "delivery_tag:L redelivered:b exchange:s routing_key:s message_count:l"
    ),
    "basic.get-empty": (60, 72, "cluster_id:s"),
    "basic.ack": (60, 80, "delivery_tag:L multiple:b"),
    "basic.reject": (60, 90, "delivery_tag:L requeue:b"),
    "basic.recover-async": (60, 100, "requeue:b"),
    "basic.recover": (60, 110, "requeue:b"),
    "basic.recover-ok": (60, 111, ""),
    "basic.nack": (60, 120, "delivery_tag:L multiple:b requeue:b"),
    "confirm.select": (85, 10, "nowait:b"),
    "confirm.select-ok": (85, 11, ""),
    "tx.select": (90, 10, ""),
    "tx.select-ok": (90, 11, ""),
    "tx.commit": (90, 20, ""),
    "tx.commit-ok": (90, 21, ""),
    "tx.rollback": (90, 30, ""),
    "tx.rollback-ok": (90, 31, ""),
}  # fmt: skip
BY_NUMBER = {(c, m): (name, arguments) for name, (c, m, arguments) in METHODS.items()}
CONTENT = {"basic.deliver", "basic.get-ok", "basic.return"}

# In the order of their flag bits, from 15 downwards.
PROPERTIES = (
    ("content_type", "s"), ("content_encoding", "s"), ("headers", "F"), ("delivery_mode", "o"),
    ("priority", "o"), ("correlation_id", "s"), ("reply_to", "s"), ("expiration", "s"),
    ("message_id", "s"), ("timestamp", "L"), ("type", "s"), ("user_id", "s"), ("app_id", "s"),
    ("cluster_id", "s"),
)  # fmt: skip

CAPABILITIES: dict[str, Any] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class Typed(NamedTuple):
    """A field-table value with its type letter on the wire, where Python's type does not say it."""

    tag: str
    value: Any


@dataclass
class Event:
    """One thing the broker said: a method with its arguments, and its content if it carries one."""

    channel: int
    name: str
    args: dict[str, Any]
    properties: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""
    body_frames: int = 0


class Closed(Exception):
    """The broker closed the socket."""


_FIXED = {"b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q",
          "f": ">f", "d": ">d", "T": ">Q"}  # fmt: skip


def short_string(value: str | bytes) -> bytes:
    """Encode a shortstr; the length octet is cut to 8 bits, as a broken client would."""
    raw = value.encode() if isinstance(value, str) else value
    return bytes([len(raw) & 0xFF]) + raw


def long_string(value: str | bytes) -> bytes:
    """Encode a longstr."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(">I", len(raw)) + raw


def encode_value(value: Any) -> bytes:
    """Encode one field value with its type letter; `Typed` chooses the letter."""
    if isinstance(value, Typed):
        tag, inner = value
        code = tag.encode()
        if tag in _FIXED:
            return code + struct.pack(_FIXED[tag], inner)
        if tag == "D":  # (scale, unscaled value)
            return code + struct.pack(">BI", *inner)
        if tag == "t":
            return code + bytes([int(inner)])
        if tag == "F":
            return code + encode_table(inner)
        if tag == "A":
            return code + long_string(b"".join(encode_value(item) for item in inner))
        if tag == "V":
            return code
        return code + long_string(inner)  # S, x and letters nobody knows
    if isinstance(value, bool):
        return encode_value(Typed("t", value))
    if isinstance(value, int):
        return encode_value(Typed("I" if -(2**31) <= value < 2**31 else "l", value))
    if isinstance(value, float):
        return encode_value(Typed("d", value))
    if isinstance(value, bytes):
        return encode_value(Typed("x", value))
    if isinstance(value, str):
        return encode_value(Typed("S", value))
    if isinstance(value, Mapping):
        return encode_value(Typed("F", value))
    if value is None:
        return encode_value(Typed("V", None))
    return encode_value(Typed("A", value))


def encode_table(table: Mapping[str, Any]) -> bytes:
    """Encode a field table with its length."""
    return long_string(b"".join(short_string(k) + encode_value(v) for k, v in table.items()))


class Reader:
    """Reads typed values from one payload, in order."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.bits = 0

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes; fails the test when they are not there."""
        assert self.at + count <= len(self.data), "the broker sent a truncated payload"
        piece = self.data[self.at : self.at + count]
        self.at += count
        return piece

    def unpack(self, form: str) -> Any:
        """Read one number."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def read(self, kind: str) -> Any:
        """Read one argument of the given type letter (see `METHODS`)."""
        if kind == "b":
            if self.bits == 0:
                self.octet = self.unpack(">B")
            bit = bool(self.octet >> self.bits & 1)
            self.bits = (self.bits + 1) % 8
            return bit
        self.bits = 0
        if kind == "s":
            return self.take(self.unpack(">B")).decode("utf-8", "surrogateescape")
        if kind == "S":
            return self.take(self.unpack(">I"))
        if kind == "F":
            return self.table()
        return self.unpack({"o": ">B", "h": ">H", "l": ">I", "L": ">Q"}[kind])

    def value(self) -> Typed:
        """Read one field value."""
        tag = self.take(1).decode("latin-1")
        if tag in _FIXED:
            return Typed(tag, self.unpack(_FIXED[tag]))
        if tag == "D":
            return Typed(tag, struct.unpack(">BI", self.take(5)))
        if tag == "t":
            return Typed(tag, self.take(1) != b"\0")
        if tag == "S":
            return Typed(tag, self.take(self.unpack(">I")).decode("utf-8", "surrogateescape"))
        if tag == "x":
            return Typed(tag, self.take(self.unpack(">I")))
        if tag == "F":
            return Typed(tag, self.table())
        if tag == "A":
            inner = Reader(self.take(self.unpack(">I")))
            items = []
            while inner.at < len(inner.data):
                items.append(inner.value())
            return Typed(tag, items)
        assert tag == "V", f"the broker sent an unknown field type {tag!r}"
        return Typed(tag, None)

    def table(self) -> dict[str, Typed]:
        """Read a field table."""
        inner = Reader(self.take(self.unpack(">I")))
        table = {}
        while inner.at < len(inner.data):
            key = inner.read("s")
            table[key] = inner.value()
        return table


def plain(value: Any) -> Any:
    """Drop the type letters of a decoded table or value."""
    if isinstance(value, Typed):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def encode_method(name: str, args: Mapping[str, Any]) -> bytes:
    """Encode a method's payload; arguments left out are zero, empty or false."""
    class_id, method_id, signature = METHODS[name]
    out = bytearray(struct.pack(">HH", class_id, method_id))
    known, bit = set(), 8
    for item in signature.split():
        key, kind = item.rsplit(":", 1)
        known.add(key)
        value = args.get(key)
        if kind == "b":
            if bit == 8:
                out.append(0)
                bit = 0
            out[-1] |= bool(value) << bit
            bit += 1
            continue
        bit = 8
        if kind == "s":
            out += short_string(value or "")
        elif kind == "S":
            out += long_string(value or "")
        elif kind == "F":
            out += encode_table(value or {})
        else:
            out += struct.pack({"o": ">B", "h": ">H", "l": ">I", "L": ">Q"}[kind], value or 0)
    assert known >= set(args), f"{name} has no argument {set(args) - known}"
    return bytes(out)


def encode_properties(body_bytes: int, properties: Mapping[str, Any]) -> bytes:
    """Encode a content header's payload for class basic."""
    flags, out = 0, bytearray()
    for place, (key, kind) in enumerate(PROPERTIES):
        if key not in properties:
            continue
        flags |= 1 << (15 - place)
        value = properties[key]
        if kind == "s":
            out += short_string(value)
        elif kind == "F":
            out += encode_table(value)
        else:
            out += struct.pack({"o": ">B", "L": ">Q"}[kind], value)
    return struct.pack(">HHQH", 60, 0, body_bytes, flags) + bytes(out)


def decode_properties(payload: bytes) -> tuple[int, dict[str, Any]]:
    """Decode a content header's payload to the body's size and the properties that are set."""
    reader = Reader(payload)
    class_id, weight = reader.unpack(">H"), reader.unpack(">H")
    assert (class_id, weight) == (60, 0)
    size, flags = reader.unpack(">Q"), reader.unpack(">H")
    found = {
        key: reader.read(kind)
        for place, (key, kind) in enumerate(PROPERTIES)
        if flags & 1 << (15 - place)
    }
    assert reader.at == len(payload), "bytes left over in a content header"
    return size, found


class RawClient:
    """One TCP connection to a broker.

    Args:
        address: Host and port.
        receive_buffer_bytes: Size asked of the kernel for unread bytes, 0 for its default; small
            ones make a reader that stalls noticed soon.
    """

    def __init__(self, address: tuple[str, int], receive_buffer_bytes: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(WAIT_S)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.waiting: deque[Event] = deque()
        self.partial: dict[int, tuple[Event, int]] = {}
        self.heartbeats = 0
        self.frame_max = 131072
        self.tune: dict[str, Any] = {}
        self.server_properties: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    # Sending

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    @staticmethod
    def frame(kind: int, channel: int, payload: bytes, end: int = FRAME_END) -> bytes:
        """Lay out one frame."""
        return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])

    def send(self, channel: int, method: str, /, **args: Any) -> None:
        """Send one method."""
        self.send_bytes(self.frame(METHOD, channel, encode_method(method, args)))

    def publish_bytes(
        self,
        channel: int,
        exchange: str,
        routing_key: str,
        body: bytes = b"",
        properties: Mapping[str, Any] | None = None,
        **flags: bool,
    ) -> bytes:
        """Lay out one message: method, header and body frames of at most `frame_max`."""
        method = encode_method(
            "basic.publish", {"exchange": exchange, "routing_key": routing_key, **flags}
        )
        out = [
            self.frame(METHOD, channel, method),
            self.frame(HEADER, channel, encode_properties(len(body), properties or {})),
        ]
        step = self.frame_max - 8
        out += [self.frame(BODY, channel, body[i : i + step]) for i in range(0, len(body), step)]
        return b"".join(out)

    def publish(
        self,
        channel: int,
        exchange: str,
        routing_key: str,
        body: bytes = b"",
        properties: Mapping[str, Any] | None = None,
        **flags: bool,
    ) -> None:
        """Send one message."""
        self.send_bytes(
            self.publish_bytes(channel, exchange, routing_key, body, properties, **flags)
        )

    # Receiving

    def read_exactly(self, count: int, deadline: float) -> bytes:
        """Read `count` bytes.

        Raises:
            Closed: The broker closed before.
            TimeoutError: `deadline` (monotonic seconds) passed.
        """
        while len(self.buffer) < count:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"nothing more from the broker; {bytes(self.buffer[:64])!r}")
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(262144)
            except ConnectionResetError as error:
                raise Closed from error
            if not data:
                raise Closed
            self.buffer += data
        piece = bytes(self.buffer[:count])
        del self.buffer[:count]
        return piece

    def read_frame(self, timeout_s: float = WAIT_S) -> tuple[int, int, bytes]:
        """Read one frame as kind, channel and payload."""
        deadline = time.monotonic() + timeout_s
        kind, channel, size = struct.unpack(">BHI", self.read_exactly(7, deadline))
        payload = self.read_exactly(size + 1, deadline)
        assert payload[-1] == FRAME_END, "the broker sent a wrong frame end"
        assert size + 8 <= max(self.frame_max, 4096), "the broker broke its own frame_max"
        return kind, channel, payload[:-1]

    def read_event(self, timeout_s: float = WAIT_S) -> Event:
        """Read until one whole event is there; heartbeats are counted and skipped."""
        deadline = time.monotonic() + timeout_s
        while True:
            kind, channel, payload = self.read_frame(max(0.0, deadline - time.monotonic()))
            if kind == HEARTBEAT:
                assert (channel, payload) == (0, b"")
                self.heartbeats += 1
                continue
            if kind == METHOD:
                reader = Reader(payload)
                name, signature = BY_NUMBER[reader.unpack(">H"), reader.unpack(">H")]
                args = {}
                for item in signature.split():
                    key, letter = item.rsplit(":", 1)
                    args[key] = reader.read(letter)
                assert reader.at == len(payload), f"bytes left over in {name}"
                event = Event(channel, name, args)
                assert channel not in self.partial, "a method before the content's end"
                if name not in CONTENT:
                    return event
                self.partial[channel] = (event, -1)
                continue
            event, left = self.partial.pop(channel)
            if kind == HEADER:
                assert left == -1
                left, event.properties = decode_properties(payload)
            else:
                assert kind == BODY and payload
                event.body += payload
                event.body_frames += 1
                left -= len(payload)
            assert left >= 0
            if left == 0:
                return event
            self.partial[channel] = (event, left)

    def next(self, channel: int | None = None, timeout_s: float = WAIT_S) -> Event:
        """Return the next event of a channel (any when None), keeping those of others.

        A `connection.close` is returned whatever the channel.
        """
        for place, event in enumerate(self.waiting):
            if channel is None or event.channel == channel or event.name == "connection.close":
                del self.waiting[place]
                return event
        deadline = time.monotonic() + timeout_s
        while True:
            event = self.read_event(max(0.0, deadline - time.monotonic()))
            if channel is None or event.channel == channel or event.name == "connection.close":
                return event
            self.waiting.append(event)

    def call(self, channel: int, method: str, /, **args: Any) -> Event:
        """Send a method and return the next event of its channel."""
        self.send(channel, method, **args)
        return self.next(channel)

    def expect(self, channel: int, method: str, /, timeout_s: float = WAIT_S) -> Event:
        """Return the next event of a channel, which has to be this one."""
        event = self.next(channel, timeout_s)
        assert event.name == method, f"expected {method}, got {event}"
        return event

    def ask(self, channel: int, method: str, /, **args: Any) -> Event:
        """Send a method and return its `-ok` answer; anything else fails the test."""
        self.send(channel, method, **args)
        return self.expect(channel, f"{method}-ok")

    def wait_closed(self, timeout_s: float = WAIT_S) -> None:
        """Wait until the broker has closed the socket, dropping what it still sends."""
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                self.read_exactly(1, deadline)
                self.buffer.clear()
        except Closed:
            return

    def quiet(self, seconds: float = 0.2) -> bool:
        """Say whether the broker sends no event for a while."""
        if self.waiting:
            return False
        try:
            self.waiting.append(self.read_event(seconds))
        except TimeoutError:
            return True
        return False

    # Handshakes

    def start(
        self,
        user: str = "guest",
        password: str = "guest",
        mechanism: str = "PLAIN",
        properties: Mapping[str, Any] | None = None,
        response: bytes | None = None,
    ) -> Event:
        """Send the protocol header and `start-ok`; return what follows (`tune` or a close)."""
        self.send_bytes(PROTOCOL_HEADER)
        begin = self.expect(0, "connection.start")
        self.server_properties = begin.args["server_properties"]
        if response is None:
            response = f"\0{user}\0{password}".encode()
            if mechanism == "AMQPLAIN":
                response = encode_table({"LOGIN": user, "PASSWORD": password})[4:]
        return self.call(
            0,
            "connection.start-ok",
            client_properties={"capabilities": CAPABILITIES} if properties is None else properties,
            mechanism=mechanism,
            response=response,
            locale="en_US",
        )

    def open(
        self,
        vhost: str = "/",
        channel_max: int | None = None,
        frame_max: int | None = None,
        heartbeat: int = 0,
        channels: Iterable[int] = (),
        **start: Any,
    ) -> Self:
        """Do the whole handshake and open channels; what is None is taken as the broker offers."""
        event = self.start(**start)
        assert event.name == "connection.tune", event
        self.tune = event.args
        self.frame_max = self.tune["frame_max"] if frame_max is None else frame_max
        self.send(
            0,
            "connection.tune-ok",
            channel_max=self.tune["channel_max"] if channel_max is None else channel_max,
            frame_max=self.frame_max,
            heartbeat=heartbeat,
        )
        self.ask(0, "connection.open", virtual_host=vhost)
        for channel in channels:
            self.ask(channel, "channel.open")
        return self

    def close(self) -> None:
        """Close politely, then the socket."""
        self.send(0, "connection.close", reply_code=200, reply_text="bye")
        deadline = time.monotonic() + WAIT_S
        while self.next(None, max(0.1, deadline - time.monotonic())).name != "connection.close-ok":
            pass
        self.socket.close()
