"""The sockets of the HTTP API, on the node's own event loop: how many, how slow, how large.

Only uvicorn's protocol is used, which turns bytes into requests of ASGI; its server would take
signals, end the process where a port is taken, and wake up ten times a second.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from email.utils import formatdate
from typing import Any, cast

import h11
from starlette.types import ASGIApp as ASGIApplication
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from warren.admin.http.failures import Outermost
from warren.admin.service.logins import network_of

log = logging.getLogger("warren")

HEAD_BYTES_MAX = 65_536
"""Of the request line and headers."""
HEAD_SECONDS = 10.0
"""For these to come, from the connect on, and behind the first byte of a further request."""
PIECE_BYTES = 4_096
"""Of what came that is looked at in one turn: of the smallest chunks, it has some hundreds."""
UNPARSED_BYTES_MAX = 1_048_576
"""Of one connection that wait for their turn. While some do nothing more is read, but for what
uvicorn asks for."""
UNREAD_SECONDS = 30.0
"""For a client to take what it is sent, when it does not keep up."""
REFUSAL = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s"
)
IDLE_SECONDS = 60
"""How long a connection stays that asks nothing."""


class HttpProtocol(H11Protocol):
    """One connection of a client, which is bounded in time.

    Attributes:
        host: From where the client comes, by its network.
    """

    def __init__(self, listener: HttpListener, *args: Any, **arguments: Any) -> None:
        super().__init__(*args, **arguments)
        self.host = ""
        self._listener = listener
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._unparsed = bytearray()

    @property
    def idle(self) -> bool:
        """Whether nothing is being answered."""
        return self.cycle is None or bool(self.cycle.response_complete)

    @property
    def half_sent(self) -> bool:
        """Whether the body of a request that is being answered is not here yet."""
        return not self.idle and bool(self.cycle.more_body)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a client in, if there is room, or can be made by closing one that asks nothing."""
        peer = transport.get_extra_info("peername")
        self.host = network_of(str(peer[0])) if peer else ""
        super().connection_made(cast(asyncio.Transport, transport))
        self._await_head()
        self._listener.came(self)

    def pause_writing(self) -> None:
        """The client does not take what it is sent: it has so long to do so."""
        super().pause_writing()
        self._unread_timer = self.loop.call_later(UNREAD_SECONDS, self.shed)

    def resume_writing(self) -> None:
        """The client takes it again."""
        self._stop_unread()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop_waiting()
        self._stop_unread()
        self._unparsed.clear()
        super().connection_lost(exc)
        # After a reset its time for a further request would go on, and keep all of it for as long.
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Bytes came. Many are looked at in pieces, so that others have their turn in between."""
        if not self._unparsed and len(data) <= PIECE_BYTES:
            self._look_at(data)
            return
        if not self._unparsed:
            self.loop.call_soon(self._go_on)
        self._unparsed += data
        if len(self._unparsed) > UNPARSED_BYTES_MAX:
            self.shed()
        else:
            self.transport.pause_reading()

    def _go_on(self) -> None:
        """Look at the next piece of what waits; read more once nothing does."""
        if not self._unparsed or self.transport.is_closing():
            return
        piece = bytes(self._unparsed[:PIECE_BYTES])
        del self._unparsed[:PIECE_BYTES]
        self._look_at(piece)
        if self._unparsed:
            self.loop.call_soon(self._go_on)
        elif not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _look_at(self, data: bytes) -> None:
        """Have a piece parsed; a request has to be whole in time."""
        if self.transport.is_closing() or self.conn.their_state is h11.ERROR:
            # Nothing that comes after what was no HTTP can be understood, nor is it kept.
            return
        before = self.cycle
        if self._head_timer is None and self.idle:
            self._await_head()
        super().data_received(data)
        if self.cycle is not before:
            self._stop_waiting()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, and close. An answer that has begun is not begun again.

        Args:
            msg: What to say.
        """
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._refuse(msg, self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE))
        elif cycle.more_body:
            # It stands in the body of a request that is being answered, or may be.
            cycle.disconnected = True
            cycle.message_event.set()
            self._refuse(msg, not cycle.response_started)
        else:
            # It comes after a whole request, whose answer is the last one.
            cycle.keep_alive = False

    def _refuse(self, msg: str, may_answer: bool) -> None:
        """Close the connection, with an answer where one may stand there now."""
        if may_answer:
            # Not by h11, which has no body after a HEAD, and raises.
            self.transport.write(REFUSAL % (len(msg), msg.encode("ascii")))
        self.transport.close()

    def shed(self) -> None:
        """Close the connection, whatever it is doing."""
        self.transport.abort()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.shed)

    def _stop_unread(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class HttpListener:
    """Answers HTTP on sockets of one node."""

    def __init__(self, application: ASGIApplication, connections_max: int) -> None:
        """Prepare to serve.

        Args:
            application: What answers.
            connections_max: Connections at a time.
        """
        self._connections_max = connections_max
        self._config = Config(
            Outermost(application),
            loop="none",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        )
        self._config.load()
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []
        self._ticker: asyncio.TimerHandle | None = None
        # What it would log, clients can cause as often as they like; errors `Outermost` logs.
        for name in ("uvicorn.error", "uvicorn.access"):
            logging.getLogger(name).setLevel(logging.CRITICAL)

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._state.connections)

    @property
    def answering(self) -> bool:
        """Whether a request is being answered."""
        return bool(self._state.tasks)

    async def serve(self, sockets: list[socket.socket], backlog: int) -> None:
        """Let clients come to sockets that are listened on; they are closed with this listener.

        Args:
            backlog: Connections that the kernel keeps until they are accepted.
        """
        loop = asyncio.get_running_loop()
        for listening in sockets:
            server = await loop.create_server(self.connection, sock=listening, backlog=backlog)
            self._servers.append(server)
        self.begin()

    def connection(self) -> HttpProtocol:
        """Make what a client's connection is given to."""
        return HttpProtocol(self, self._config, self._state, {}, asyncio.get_running_loop())

    def begin(self) -> None:
        """Be ready for clients."""
        if self._ticker is None:
            self._tick()

    async def close(self, seconds: float) -> None:
        """Let no client come any more, and give requests under way so long to end."""
        if self._ticker is not None:
            self._ticker.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=seconds)
        for connection in list(self._state.connections):
            if isinstance(connection, HttpProtocol):
                connection.shed()

    def came(self, newcomer: HttpProtocol) -> None:
        """Make room for a connection by one that waits for its client; else it goes again."""
        if len(self._state.connections) <= self._connections_max:
            return
        there = [each for each in self._state.connections if isinstance(each, HttpProtocol)]
        by_host = Counter(connection.host for connection in there)
        may_go = [each for each in there if each is not newcomer and (each.idle or each.half_sent)]
        # Those of the busiest address first, so that a stranger makes room for an operator.
        (max(may_go, key=lambda each: by_host[each.host]) if may_go else newcomer).shed()

    def _tick(self) -> None:
        """Have answers say what time it is."""
        self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        self._ticker = asyncio.get_running_loop().call_later(1.0, self._tick)
