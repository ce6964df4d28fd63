"""Clients' sockets: what the node has to do with each, and how many there may be."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import cast, final

from warren.config.client_tls import login_name
from warren.node.node import Node
from warren.protocols.amqp091.connection import CLOSED, CLOSING, Connection
from warren.protocols.facts import ClientPlace
from warren.server.client_log import ClientLog
from warren.server.held_sockets import HeldSockets
from warren.server.turns import NodeTurns
from warren.wire.amqp091.frame import HEARTBEAT_FRAME

log = logging.getLogger("warren")

WRITE_HIGH_BYTES = 1_048_576
WRITE_LOW_BYTES = 262_144
RESET_AT_CLOSE = struct.pack("ii", 1, 0)
"""`SO_LINGER` without a time: closing sends a reset instead of an end."""
WARN_SECONDS = 10.0
"""How often the log says that there is no room for connections."""
LOOKED_AT_MAX = 64
"""Sockets looked at to find one that may go; those that were opened are not looked at again."""
SILENT, HEARD, OPENED, SHED = range(4)
"""How far a client's connection is, for the log: no byte came yet; some did; it has its vhost; it
had to make room."""


@final
class ClientTransport:
    """One client's socket, as the node sees it; see `ports.Transport`."""

    __slots__ = ("_held", "_stream", "write")

    def __init__(self, stream: asyncio.Transport, held: HeldSockets) -> None:
        self.write: Callable[[bytes], None] = stream.write
        self._stream: asyncio.Transport = stream
        self._held: HeldSockets = held

    def close(self) -> None:
        """Close when all that was written is sent."""
        self._stream.close()

    # A socket that its own end has begun to close refuses these.

    def pause_reading(self) -> None:
        """Read nothing for now."""
        if not self._stream.is_closing():
            self._stream.pause_reading()
            self._held.add(self._stream)

    def resume_reading(self) -> None:
        """Read again."""
        if not self._stream.is_closing():
            self._held.drop(self._stream)
            self._stream.resume_reading()

    def abort(self) -> None:
        """Close with a reset, so that nothing that the client sends from now on looks taken."""
        client = self._stream.get_extra_info("socket")
        if client is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
        self._stream.abort()


class ClientProtocol(asyncio.Protocol):
    """One client's socket, and what the log says of it."""

    __slots__ = (
        "_beat_ms",
        "_connection",
        "_encrypted",
        "_reception",
        "_since",
        "_stage",
        "_stream",
        "_turns",
    )

    def __init__(self, reception: Reception, encrypted: bool = False) -> None:
        self._reception: Reception = reception
        self._turns: NodeTurns = reception.turns
        self._connection: Connection | None = None
        self._stream: asyncio.Transport | None = None
        self._encrypted: bool = encrypted
        self._beat_ms: int = 0
        self._stage: int = SILENT
        self._since: float = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        stream = cast(asyncio.Transport, transport)
        self._stream = stream
        stream.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        reception = self._reception
        reception.clients.add(self)
        host, port = (stream.get_extra_info("peername") or ("", 0))[:2]
        if not reception.no_delay:
            # Whatever the listening socket has, the loop sets this one.
            end = stream.get_extra_info("socket")
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        node = reception.node
        certified = ""
        if self._encrypted:
            certificate = stream.get_extra_info("peercert")
            certified = login_name(certificate, reception.login_from)
        place = reception.place(stream, self._encrypted)
        client = ClientTransport(stream, reception.held)
        self._connection = Connection(node, client, host, port, certified, place)
        node.accept(self._connection)
        reception.doorkeeper.came(self)

    @property
    def is_open(self) -> bool:
        """Whether the client has logged in and opened its connection."""
        connection = self._connection
        return connection is not None and connection.handle is not None

    def shed(self) -> None:
        """Let the socket go, to make room for others."""
        if self._stream is not None:
            self._stage = SHED
            self._stream.abort()

    def client_ended(self, half: bool) -> None:
        """The client of a socket that is not read has sent its last; see `Connection.heeds_end`."""
        connection = self._connection
        stream = self._stream
        if connection is not None and stream is not None and connection.heeds_end(half):
            stream.abort()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        connection = self._connection
        if connection is None:
            return
        try:
            if self._stage == OPENED:
                connection.receive(data)
            else:
                self._receive_first(connection, data)
        except Exception as error:
            self._failed(connection, error)
        self._turns.after_event()

    def _failed(self, connection: Connection, error: Exception) -> None:
        """End a connection for an error that was met while it was served, or else the process."""
        try:
            connection.failed(error)
        except Exception:
            self._turns.give_up()

    def _receive_first(self, connection: Connection, data: bytes) -> None:
        """Bytes came of a client that had not opened its connection; the log says how far it is."""
        if self._stage == SILENT:
            self._stage = HEARD
            self._since = time.monotonic()
            self._reception.log.accepted(connection)
        connection.receive(data)
        if self._stage == HEARD and connection.vhost:
            self._stage = OPENED
            self._reception.log.opened(connection)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._reception.clients.discard(self)
        if self._stream is not None:
            self._reception.held.drop(self._stream)
        self._stream = None
        connection = self._connection
        self._reception.doorkeeper.left(self)
        if connection is not None:
            self._connection = None
            heard = self._stage in (HEARD, OPENED)
            orderly = connection.state in (CLOSING, CLOSED)
            try:
                connection.lost()
            except Exception as error:
                self._failed(connection, error)
            self._reception.log.closed(connection, heard, orderly, time.monotonic() - self._since)
            self._turns.after_event()

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        if self._connection is not None:
            self._connection.set_writable(False)

    def resume_writing(self) -> None:
        """The socket takes bytes again."""
        connection = self._connection
        if connection is not None:
            try:
                connection.set_writable(True)
            except Exception as error:
                self._failed(connection, error)
            self._turns.after_event()

    def beat(self, now_ms: int) -> None:
        """Send a heartbeat if one is due; called while the loop is kept, by another thread.

        Only where nothing is queued, so that it falls between two frames. The kernel takes so few
        bytes whole or not at all.
        """
        connection = self._connection
        stream = self._stream
        if connection is None or stream is None or stream.is_closing() or self._encrypted:
            # What is encrypted, only the loop can write.
            return
        beats_ms = connection.beats_ms()
        if not beats_ms or now_ms - self._beat_ms < beats_ms // 2:
            return
        if stream.get_write_buffer_size() == 0:
            self._beat_ms = now_ms
            with contextlib.suppress(OSError):
                os.write(stream.get_extra_info("socket").fileno(), HEARTBEAT_FRAME)


@final
class Reception:
    """What the clients' sockets of a node share.

    Attributes:
        node: What they are clients of.
        turns: When the node does what they caused.
        log: Says who comes and goes.
        login_from: What of a certificate is a user's name; see `config.client_tls`.
        doorkeeper: How many there may be.
        clients: Those that are there.
        held: The sockets of those that are not read now.
        no_delay: Whether what is sent leaves at once, and does not wait to be more.
    """

    def __init__(
        self, node: Node, turns: NodeTurns, client_log: ClientLog, login_from: str, most: int
    ) -> None:
        """Open with no clients, and room for `most`."""
        self.node: Node = node
        self.turns: NodeTurns = turns
        self.log: ClientLog = client_log
        self.login_from: str = login_from
        self.doorkeeper: Doorkeeper = Doorkeeper(most)
        self.clients: set[ClientProtocol] = set()
        self.held: HeldSockets = HeldSockets()
        self.no_delay: bool = True
        self._places: dict[tuple[str, int, bool], ClientPlace] = {}

    def tick(self) -> None:
        """Miss clients that have gone while they were not heard; to be called once a second."""
        for stream, half in self.held.look():
            client = stream.get_protocol()
            if isinstance(client, ClientProtocol):
                client.client_ended(half)

    def place(self, stream: asyncio.Transport, encrypted: bool) -> ClientPlace:
        """Where a client reached this node; the same for all who came to one address."""
        host, port = (stream.get_extra_info("sockname") or ("", 0))[:2]
        key = (str(host), int(port), encrypted)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = ClientPlace(str(host), int(port), encrypted)
        return place


@final
class Doorkeeper:
    """Keeps the number of clients' sockets within the descriptors that there are for them.

    When one comes too many, the oldest one goes whose client has not opened its connection yet, and
    if there is none, the one that came. So silent sockets never keep out who logs in.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._present = 0
        self._strangers: dict[ClientProtocol, None] = {}
        """Those that had not opened their connection when last looked at, the oldest first."""
        self._shed = 0
        self._warned_s = -WARN_SECONDS

    def came(self, client: ClientProtocol) -> None:
        """A client's socket was accepted."""
        self._present += 1
        self._strangers[client] = None
        if self._present <= self._most:
            return
        for stranger in list(itertools.islice(self._strangers, LOOKED_AT_MAX)):
            del self._strangers[stranger]
            if not stranger.is_open:
                self._let_go(stranger)
                return
        self._let_go(client)

    def left(self, client: ClientProtocol) -> None:
        """A client's socket is gone."""
        self._present -= 1
        self._strangers.pop(client, None)

    def _let_go(self, client: ClientProtocol) -> None:
        self._strangers.pop(client, None)
        client.shed()
        self._shed += 1
        now = time.monotonic()
        if now - self._warned_s >= WARN_SECONDS:
            log.warning(
                "%d connections were closed before they were opened: there are descriptors for %d; "
                "raise the limit of open files (ulimit -n)",
                self._shed,
                self._most,
            )
            self._shed = 0
            self._warned_s = now
