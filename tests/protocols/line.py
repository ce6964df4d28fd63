"""A connection to a node in this process whose bytes are cut as a test likes.

It sends nothing by itself, and keeps all it is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.node.pair import Pair, Station
from warren.limits import FRAME_BYTES_MAX
from warren.protocols.amqp091.connection import Connection
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import PROTOCOL_HEADER, FrameReader, header_frame, method_frame
from warren.wire.amqp091.properties import Properties, decode_properties
from warren.wire.amqp091.table import Table

CAPABILITIES: Table = {
    "basic.nack": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class Told(NamedTuple):
    """One event of a channel; with content where its method has some."""

    channel: int
    method: spec.Method
    properties: Properties
    body: bytes


def body_frame(channel: int, payload: bytes) -> bytes:
    """Lay out one body frame."""
    start = b"\x03" + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big")
    return start + payload + b"\xce"


def publish_frames(
    channel: int,
    exchange: str,
    key: str,
    properties: bytes = b"\x00\x00",
    parts: Iterable[bytes] = (),
    mandatory: bool = False,
) -> list[bytes]:
    """The frames of one message whose body comes in these parts."""
    parts = list(parts)
    publish = spec.BasicPublish(0, exchange, key, mandatory, False)
    return [
        method_frame(channel, publish.encode()),
        header_frame(channel, properties, sum(map(len, parts))),
        *(body_frame(channel, part) for part in parts),
    ]


class Line:
    """One connection; for its node it is the transport, too.

    Attributes:
        told: What came, in order.
        body_frames: Payload sizes of the body frames that came.
        held: Whether the node leaves the socket alone.
        ended: How the node ended the connection, if it did: `close` or `abort`.
        heartbeats: How many came.
    """

    def __init__(
        self,
        station: Station,
        channels: int = 1,
        frame_max: int = FRAME_BYTES_MAX,
        channel_max: int = 0,
        heartbeat: int = 0,
        capabilities: Table = CAPABILITIES,
    ) -> None:
        self.station = station
        self.pair: Pair = station.pair
        self.over = False
        self.held = False
        self.ended = ""
        self.told: list[Told] = []
        self.body_frames: list[int] = []
        self.heartbeats = 0
        self._frame_max = frame_max
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._content: dict[int, tuple[spec.Method, int, Properties, bytes]] = {}
        self.end = Connection(station.node, self, "127.0.0.1", 0)
        station.node.accept(self.end)
        station.clients.append(self)
        if channels < 0:
            return
        self.hand(PROTOCOL_HEADER)
        self.login(capabilities)
        tune = self.wait(1, spec.ConnectionTune)[0].method
        assert isinstance(tune, spec.ConnectionTune)
        self.send(0, spec.ConnectionTuneOk(channel_max or tune.channel_max, frame_max, heartbeat))
        self.ask(0, spec.ConnectionOpen("/"))
        for channel in range(1, channels + 1):
            self.ask(channel, spec.ChannelOpen())

    def login(self, capabilities: Table, password: str = "guest") -> None:
        """Say who it is."""
        properties: Table = {"capabilities": capabilities}
        response = b"\0guest\0" + password.encode()
        self.send(0, spec.ConnectionStartOk(properties, "PLAIN", response))

    # The transport: as uvloop's does, it refuses all once it was closed.

    def write(self, data: bytes) -> None:
        self._usable()
        self._reader.feed(data)
        while self._reader.next():
            self._frame()

    def close(self) -> None:
        self._usable()
        self.ended = "close"

    def abort(self) -> None:
        self._usable()
        self.ended = "abort"

    def pause_reading(self) -> None:
        self._usable()
        self.held = True

    def resume_reading(self) -> None:
        self._usable()
        self.held = False

    def _usable(self) -> None:
        if self.ended:
            raise RuntimeError("unable to perform operation; the handler is closed")

    def exchange(self) -> None:
        """Nothing waits here: `hand` is what sends."""

    # The client.

    def hand(self, data: bytes) -> None:
        """Have the node read these bytes at once; what they stir up is done by and by."""
        self.end.receive(data)

    def send(self, channel: int, method: spec.Method) -> None:
        """Have the node read one method."""
        self.hand(method_frame(channel, method.encode()))

    def ask(self, channel: int, method: spec.Method) -> Told:
        """Send a method and wait for the next event of its channel."""
        seen = len(self.told)
        self.send(channel, method)
        self.pair.until(lambda: any(told.channel == channel for told in self.told[seen:]))
        return next(told for told in self.told[seen:] if told.channel == channel)

    def wait(self, count: int, *kinds: type[spec.Method]) -> list[Told]:
        """Wait until so many events of these kinds have come."""
        self.pair.until(lambda: len(self.of(*kinds)) >= count)
        return self.of(*kinds)

    def of(self, *kinds: type[spec.Method]) -> list[Told]:
        """The events of some kinds so far."""
        return [told for told in self.told if isinstance(told.method, kinds)]

    def confirmed(self, channel: int = 1) -> set[int]:
        """The publishes of a channel that were acked."""
        tags: set[int] = set()
        for told in self.of(spec.BasicAck):
            if told.channel == channel:
                tag = told.method.delivery_tag
                tags.update(range(1 if told.method.multiple else tag, tag + 1))
        return tags

    def drain(self, queue: str, channel: int = 1, steps: int = 3) -> list[Told]:
        """Take all messages of a queue, in its order; more steps where the disk has them."""
        seen = len(self.told)
        self.ask(channel, spec.BasicConsume(0, queue, "", False, True, False, False, {}))
        self.pair.settle(steps)
        return [told for told in self.told[seen:] if isinstance(told.method, spec.BasicDeliver)]

    def _frame(self) -> None:
        reader = self._reader
        kind, channel = int(reader.kind), int(reader.channel)
        data = reader.buffer[int(reader.start) : int(reader.end)]
        assert len(data) + 8 <= self._frame_max or kind == 1
        if kind == 8:
            self.heartbeats += 1
            return
        if kind == 1:
            method = spec.decode_method(data, 0, len(data))
            if method.HAS_CONTENT:
                self._content[channel] = (method, -1, Properties(), b"")
            else:
                self.told.append(Told(channel, method, Properties(), b""))
            return
        method, size, properties, body = self._content.pop(channel)
        if kind == 2:
            size = int.from_bytes(data[4:12], "big")
            properties = decode_properties(data, 12, len(data))
        else:
            self.body_frames.append(len(data))
            body += data
        if len(body) == size:
            self.told.append(Told(channel, method, properties, body))
        else:
            self._content[channel] = (method, size, properties, body)
