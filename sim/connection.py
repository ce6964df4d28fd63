"""The client's end of a connection, and the byte stream between it and the node.

Bytes are handed over when the run says so, in pieces of any size. A lost connection takes with it
what was not handed over.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final, final

from sim.model import Violation
from warren.limits import FRAME_BYTES_MAX, FRAME_OVERHEAD_BYTES
from warren.node.node import Node
from warren.protocols.amqp091.connection import Connection
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import PROTOCOL_HEADER, FrameReader, method_frame
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.actors import Actor
    from sim.closing import Quitter
    from sim.stage import Stage

CAPABILITIES: Table = {
    "publisher_confirms": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}

GARBLED: Final = {501, 502, 503, 504, 505, 540}
"""With these the node may end a connection over which something came damaged."""

CLOSE: Final = re.compile(rb"\x01(?:\0\0.{4}\0\x0a\0\x32|(..).{4}\0\x14\0\x28)", re.DOTALL)
"""The beginning of a `connection.close`, or of a channel's `channel.close`, as a frame."""


BCC: Final = b"\x03BCC"
"""The name of a header that nobody is sent."""


class Mark:
    """Something that happens when the bytes sent before it have been handed to the node."""

    def handed(self, certain: bool) -> None:
        """They have; `certain` unless the node may have stopped listening."""
        raise AssertionError("a mark defines handed")


@final
class SimConnection:
    """One connection, seen from its client; for the node it is the transport.

    Attributes:
        name: For event lines.
        frame_max: Largest frame, as negotiated.
        ready: Whether channels may be opened.
        dead: Whether it is over for its client.
        condemned: Whether the node has begun to close it and may not listen any more.
        outbox: Bytes on their way to the node.
        inbox: Bytes on their way to the client.
        deaf: Whether the client does not read for now.
        held: Whether the node does not want bytes for now.
        tolerated: Reply codes with which the node may close it.
        site: Where in a cluster it leads.
        vhost: The vhost that it is to be opened to.
        garbled: Whether it has to end, for something came damaged over it.
        quitter: Its client, if that is one that closes in odd orders.
        properties: Those of the content that was read last, as they are sent.
    """

    def __init__(
        self, world: Stage, name: str, frame_max: int, node: Node | None = None, site: str = ""
    ) -> None:
        self.world = world
        self.name = name
        self.frame_max = frame_max
        self.ready = False
        self.dead = False
        self._over = False
        self.condemned = False
        self.closing = False
        self._refuses = False
        """Whether the node has closed it, and may do nothing more with it."""
        self.quitter: Quitter | None = None
        self.deaf = False
        self.held = False
        self.outbox = bytearray()
        self.inbox: list[bytes] = []
        self.tolerated: set[int] = {320}
        self.channels: dict[int, Actor] = {}
        self._left: dict[int, Actor] = {}
        self._marks: deque[tuple[int, Mark]] = deque()
        self._sent = 0
        self._last_bytes = 0
        self.garbled = False
        self.properties = b""
        self._handed = 0
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._contents: dict[int, tuple[spec.Method, int, list[bytes]]] = {}
        self.site = site
        self.vhost = "/"
        entry = node or world.entry()
        self.end: Connection = Connection(entry, self, "127.0.0.1", 0)
        entry.accept(self.end)
        self.send_bytes(PROTOCOL_HEADER)

    # The transport, for the node.

    def write(self, data: bytes) -> None:
        """The node sends; it need not know that its client is gone."""
        self._usable()
        if not self._over:
            self.inbox.append(data)
        if not self.dead:
            self.world.stirred(self)

    def close(self) -> None:
        """The node closes when its bytes are read."""
        self._refuses = True
        self._end()

    def _end(self) -> None:
        """It is over when what the node has written is read."""
        self.closing = True
        self.condemned = True
        self.world.stirred(self)

    def _usable(self) -> None:
        """As uvloop's transports do: one that was closed raises, whatever it is asked to do."""
        if self._refuses:
            raise RuntimeError(f"unable to perform operation on {self.name}; it is closed")

    def abort(self) -> None:
        """The node closes at once."""
        self.inbox = []
        self.close()

    def pause_reading(self) -> None:
        """The node wants no more bytes for now."""
        self._usable()
        self.held = True

    def resume_reading(self) -> None:
        """The node wants bytes."""
        self._usable()
        self.held = False
        self.world.stirred(self)

    # For the run.

    def hand_over(self, size: int) -> None:
        """Hand the node its next `size` bytes."""
        data = bytes(self.outbox[:size])
        del self.outbox[:size]
        self._handed += len(data)
        certain = not self.condemned
        self.end.receive(data)
        while self._marks and self._marks[0][0] <= self._handed:
            self._marks.popleft()[1].handed(certain)

    def is_closed_unread(self, channel: int) -> bool:
        """Whether the node has closed this or a channel, and its client has not read that yet."""
        unread = b"".join(self.inbox) + self.end.output.buffer.getvalue()
        closes = [None, channel.to_bytes(2, "big")]
        return any(found[1] in closes for found in CLOSE.finditer(unread))

    def receive(self) -> None:
        """The client reads what has come."""
        data = b"".join(self.inbox)
        self.inbox = []
        reader = self._reader
        reader.feed(data)
        while not self.dead and reader.next():
            self._frame(int(reader.kind), int(reader.channel), reader)
        if self.closing and not self.inbox and not self.dead:
            self.lose()

    def lose(self) -> None:
        """The connection is cut."""
        if not self.dead:
            self.vanish()
            self.end.lost()

    def cut(self) -> None:
        """The client is gone, and its node is not told yet: what it writes till then is missed."""
        if not self.dead:
            self._leave()
            self._miss(b"")
            self.dead = True

    def vanish(self) -> None:
        """Both ends are gone; what the node had written is looked at, and missed."""
        if not self._over:
            self._leave()
            self._miss(self.end.output.buffer.getvalue())
            self.dead = self._over = True

    def _miss(self, unsent: bytes) -> None:
        self._reader.feed(b"".join(self.inbox) + unsent)
        self.inbox = []
        while self._reader.next():
            self._frame(int(self._reader.kind), int(self._reader.channel), self._reader)

    def users(self) -> list[Actor]:
        """Whoever uses a channel."""
        return list(self.channels.values())

    def _leave(self) -> None:
        """Nobody uses this connection any more."""
        self._left.update(self.channels)
        self.channels = {}
        for actor in self._left.values():
            if actor.connection is self:
                actor.disconnected()

    # For actors.

    def say_goodbye(self) -> None:
        """Close in an orderly way."""
        self.send(0, spec.ConnectionClose(200, "bye"))
        self.condemned = True
        self._leave()

    def send(self, channel: int, method: spec.Method) -> None:
        """Send a method."""
        self.send_bytes(method_frame(channel, method.encode()))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.outbox += data
        self._sent += len(data)
        self._last_bytes = len(data)
        self.world.stirred(self)

    def garble(self) -> bool:
        """Flip a bit of a frame's end, type or size that is on its way; False if there is none.

        Only what was sent last is known to begin with a frame. From here on nothing that is sent
        counts.
        """
        outbox, random = self.outbox, self.world.random
        at = len(outbox) - self._last_bytes
        if at < 0 or not self._last_bytes:
            return False
        ends: list[int] = []
        while at < len(outbox):
            ends.append(at)
            at += int.from_bytes(outbox[at + 3 : at + 7], "big") + FRAME_OVERHEAD_BYTES
        first = random.choice(ends)
        size = int.from_bytes(outbox[first + 3 : first + 7], "big")
        # Of the size a high bit, so that no node waits for what never comes; of the type too, since
        # a channel that is closing passes over content.
        where = random.choice((first, first + 3, first + 7 + size))
        bit = random.randrange(8)
        outbox[where] ^= 1 << (4 + bit % 4 if where == first else bit)
        self.condemned = True
        self.tolerated |= GARBLED
        self.garbled = True
        # What its clients hold goes to others as soon as the node has seen it.
        self._leave()
        return True

    def mark(self, mark: Mark) -> None:
        """Tell `mark` when all that was sent so far has been handed over."""
        self._marks.append((self._sent, mark))

    # Frames.

    def _frame(self, kind: int, channel: int, reader: FrameReader) -> None:
        buffer, start, end = reader.buffer, int(reader.start), int(reader.end)
        if kind == 1:
            method = spec.decode_method(buffer, start, end)
            if method.HAS_CONTENT:
                self._contents[channel] = (method, -1, [])
            else:
                self._method(channel, method, b"")
        elif kind == 2:
            size = int.from_bytes(buffer[start + 4 : start + 12], "big")
            self.properties = bytes(buffer[start + 12 : end])
            if BCC in self.properties:
                raise Violation(f"{self.name}: a message says who had a blind copy")
            method, _, parts = self._contents[channel]
            self._content(channel, method, size, parts)
        elif kind == 3:
            method, left, parts = self._contents[channel]
            parts.append(buffer[start:end])
            self._content(channel, method, left - (end - start), parts)

    def _content(self, channel: int, method: spec.Method, left: int, parts: list[bytes]) -> None:
        if left > 0:
            self._contents[channel] = (method, left, parts)
            return
        if left < 0:
            raise Violation(f"{self.name}: more body came than the header announced")
        del self._contents[channel]
        self._method(channel, method, b"".join(parts))

    def _method(self, channel: int, method: spec.Method, content: bytes) -> None:
        if channel > 0:
            actor = self.channels.get(channel)
            if actor is not None:
                actor.receive(method, content)
            elif channel in self._left:
                self._left[channel].missed(method, content)
        elif isinstance(method, spec.ConnectionStart):
            if self.quitter is not None and self.quitter.started(self):
                return
            self.send(
                0,
                spec.ConnectionStartOk({"capabilities": CAPABILITIES}, "PLAIN", b"\0guest\0guest"),
            )
        elif isinstance(method, spec.ConnectionTune):
            if self.quitter is not None and self.quitter.tuned(self):
                return
            self.send(0, spec.ConnectionTuneOk(method.channel_max, self.frame_max, 0))
            self.send(0, spec.ConnectionOpen(self.vhost))
        elif isinstance(method, spec.ConnectionOpenOk):
            self.ready = True
        elif isinstance(method, spec.ConnectionClose):
            self._closed(method)
        elif isinstance(method, spec.ConnectionBlocked):
            self.world.count("blocked")
        elif isinstance(method, spec.ConnectionCloseOk):
            self._end()
        elif not isinstance(method, spec.ConnectionUnblocked):
            raise Violation(f"{self.name}: unexpected {method.NAME}")

    def _closed(self, method: spec.ConnectionClose) -> None:
        if self.quitter is not None:
            self.condemned = True
            self.quitter.closed(self)
            return
        if method.reply_code not in self.tolerated:
            raise Violation(
                f"{self.name}: the node closed the connection: {method.reply_code} "
                f"{method.reply_text}"
            )
        if method.reply_code == 541:
            self.world.check_internal_error(self, method.reply_text)
        self.world.say("%s closed by the node: %s", self.name, method.reply_text)
        self.condemned = True
        self.send(0, spec.ConnectionCloseOk())
        self._leave()
