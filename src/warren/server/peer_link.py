"""One connection between two nodes, as asyncio sees it: a handshake, then messages one way."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast, final

from warren.config.peer_tls import certified_names, why
from warren.ports import PeerHello
from warren.protocols.peer import refusal as codes
from warren.protocols.peer.framing import (
    WHOLE_BYTES_MAX,
    MessageReader,
    MessageWriter,
)
from warren.protocols.peer.handshake import DONE, REFUSED, Handshake
from warren.protocols.peer.hello import ANYONE

if TYPE_CHECKING:
    from warren.server.peers import PeerNetwork

FLUSH_BYTES = 1_048_576
"""Of messages in parts, so much is written at a time; pings get in between."""
IN_TRANSPORT_BYTES = 262_144
"""Parts wait here while the transport has more than this: what it has cannot be overtaken."""
LINGER_SECONDS = 1.0
"""How long the other end of a refused link may take to read why."""


@dataclass(frozen=True)
class PeerSettings:
    """Bounds and times of links.

    Attributes:
        whole_bytes_max: A message that is not in parts; the same on all nodes.
        backlog_bytes_max: Queued for one peer, but for the largest message; with one message more,
            the link is given up.
        handshake_ms: From the connect to the end of the handshake, TLS included.
        connect_ms: Until the other machine answers a dial without TLS.
        strangers_max: Connections that have not proven anything yet.
        redial_ms_min, redial_ms_max: Between two dials, doubling, with jitter.
        silence_ms_max: Sent data not acknowledged by the other machine for so long end a link.
        socket_bytes: Of each of the two buffers that the kernel keeps for a link; 0 leaves them to
            the kernel.
    """

    whole_bytes_max: int = WHOLE_BYTES_MAX
    backlog_bytes_max: int = 268_435_456
    handshake_ms: int = 5_000
    connect_ms: int = 2_000
    strangers_max: int = 64
    redial_ms_min: int = 50
    redial_ms_max: int = 2_000
    silence_ms_max: int = 10_000
    socket_bytes: int = 4_194_304


def tune(sock: socket.socket, settings: PeerSettings) -> None:
    """Set a link's socket up: no delay, big buffers, and an end when the other machine is gone."""
    seconds = max(1, settings.silence_ms_max // 1_000)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, seconds // 2))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, seconds // 6))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, settings.silence_ms_max)
    wanted = settings.socket_bytes
    if wanted:
        # A size that the system cuts would be worse than the one that it finds by itself.
        if allowed_bytes("wmem_max") >= wanted:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, wanted)
        if allowed_bytes("rmem_max") >= wanted:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted)


@functools.cache
def allowed_bytes(name: str) -> int:
    """How much of a socket's buffer this machine lets a process ask for."""
    try:
        with open(f"/proc/sys/net/core/{name}", encoding="ascii") as file:
            return int(file.read())
    except OSError:
        return 0


@final
class PeerLink(asyncio.Protocol):
    """One end of one link.

    Attributes:
        label: The dialled peer's name, or the other end's address; for logs.
        dialled: The dialled peer's name, `ANYONE` if it is not known; empty if the other end
            dialled.
        dials: Whether this end dialled: it sends messages, the other one receives them.
        queued: Whether it waits for the network's next flush.
        peer: The peer's name once the handshake is done, and empty before.
        hello: What it said of itself.
        established: Whether the handshake is done; stays True when the link is lost.
        told: Whether the listener was told that the link is up, and not yet that it is gone.
        since: When it was established, by the loop's time.
        closed: Done when the connection is gone.
    """

    def __init__(self, network: PeerNetwork, label: str, dialled: str = "") -> None:
        self.label = label
        self.dialled = dialled
        self.dials = dialled != ""
        self.peer = ""
        self.hello: PeerHello | None = None
        self.queued = False
        self.established = False
        self.told = False
        self.since = 0.0
        self.closed: asyncio.Future[None] = network.loop.create_future()
        self._network = network
        self._transport: asyncio.Transport | None = None
        self._handshake: Handshake | None = None
        self._reader = MessageReader(network.settings.whole_bytes_max)
        self._writer = MessageWriter(network.settings.whole_bytes_max)
        self._in_transport_bytes = 0
        self._pumping = False
        self._heard = False
        self._over = False
        self._deadline = network.loop.call_later(
            network.settings.handshake_ms / 1_000, self._expired
        )

    # asyncio's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there, with TLS if that is in use."""
        self._transport = cast(asyncio.Transport, transport)
        if self._over:
            self._transport.abort()
        else:
            self._guarded(self._begin)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._over:
            return
        self._heard = True
        if self.established and not self.dials:
            try:
                messages = self._reader.receive(data)
                if self.peer == ANYONE:
                    for message in messages:
                        self._network.operators.asked(self, message)
                else:
                    self._hand_on(messages)
                if self._reader.failure and not self._over:
                    self._refuse(self._reader.failure)
            except Exception as error:
                self._failed(error)
            self._network.after()
        else:
            self._guarded(lambda: self._shake_hands(data))

    def _hand_on(self, messages: list[bytes]) -> None:
        """Give the node what came."""
        listener = self._network.listener
        long = self._reader.long
        for place, message in enumerate(messages):
            found = long.get(place) if long else None
            if found is None:
                listener.received(self.peer, message)
            else:
                listener.received_in_parts(self.peer, message, found.body, found.checksum)
            if self._over:
                break

    def resume_writing(self) -> None:
        """The transport has room for further parts."""
        self._pump()

    def eof_received(self) -> bool:
        """The other end sends no more; neither does this one."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._deadline.cancel()
        self._guarded(lambda: self._ended(exc))
        if not self.closed.done():
            self.closed.set_result(None)

    # The network's side.

    @property
    def over(self) -> bool:
        """Whether it is given up, although nobody was told yet."""
        return self._over

    @property
    def backlog_bytes(self) -> int:
        """What was sent and has not left this process yet."""
        self._in_transport_bytes = (
            self._transport.get_write_buffer_size() if self._transport is not None else 0
        )
        return self._in_transport_bytes + int(self._writer.size_bytes)

    def send(self, message: list[bytes]) -> bool:
        """Queue a message; False if no node would take one of its size.

        False, and the link is given up, if too much is queued already. One message is not too much,
        however large, and small ones behind it are not either.
        """
        limit = self._network.settings.backlog_bytes_max
        if self._writer.size_bytes + self._in_transport_bytes > limit:
            backlog = self.backlog_bytes
            if backlog - int(self._writer.largest_left()) > limit:
                reason = f"it takes too little: {backlog} bytes are queued for it, {limit} may be"
                self._network.loop.call_soon(self._complain, "backlog", reason)
                self.abort()
                return False
        return self._add(message)

    def _add(self, message: list[bytes]) -> bool:
        if self._writer.add(message):
            return True
        size = sum(len(buffer) for buffer in message)
        reason = f"a message of {size} bytes is not sent: no node takes one of that size"
        self._network.loop.call_soon(self._complain, "refused", reason)
        return False

    def answer(self, message: bytes) -> None:
        """Send an operator, who dialled, an answer."""
        if self._add([message]):
            self.flush()
        else:
            self.abort()

    def flush(self) -> None:
        """Write what is queued; of messages in parts what may be on its way at a time."""
        transport = self._transport
        if transport is None or self._over:
            return
        try:
            writer = self._writer
            if writer.waits and transport.get_write_buffer_size() > IN_TRANSPORT_BYTES:
                # `resume_writing` comes.
                transport.writelines(writer.take(0))
            else:
                transport.writelines(writer.take(FLUSH_BYTES))
                if writer.waits and not self._pumping:
                    self._pumping = True
                    self._network.loop.call_soon(self._pump_on)
            self._in_transport_bytes = transport.get_write_buffer_size()
        except Exception as error:
            self._failed(error)

    def _pump_on(self) -> None:
        self._pumping = False
        self._pump()

    def _pump(self) -> None:
        """Have further parts leave, if there are any."""
        if self._writer.waits:
            self.flush()

    def close(self) -> None:
        """End the link after what is queued; the listener hears of it when it is over."""
        if self._transport is not None and not self._over:
            if self._writer.waits:
                self._transport.writelines(self._writer.take())
            self._transport.close()
        self._over = True

    def abort(self) -> None:
        """End the link now; the listener hears of it in a later round of the loop."""
        self._over = True
        self._deadline.cancel()
        if self._transport is not None:
            self._transport.abort()

    # Handshake.

    def _begin(self) -> None:
        transport = self._transport
        assert transport is not None
        network = self._network
        tune(transport.get_extra_info("socket"), network.settings)
        certified = None
        if network.tls is not None and network.tls.verify_names:
            certified = certified_names(transport.get_extra_info("peercert"))
        self._handshake = Handshake(
            network.own,
            network.key,
            network.random.bytes(32),
            self.dialled,
            certified,
            network.listener,
        )
        self._say()

    def _say(self) -> None:
        assert self._handshake is not None and self._transport is not None
        out = self._handshake.take_output()
        if out:
            self._transport.write(out)

    def _shake_hands(self, data: bytes) -> None:
        handshake = self._handshake
        assert handshake is not None
        handshake.receive(data)
        self._say()
        if handshake.state == REFUSED:
            self._refused()
        elif handshake.state == DONE and not self.established:
            self._deadline.cancel()
            assert handshake.peer is not None
            self._establish(handshake.peer)
            if handshake.rest and not self._over:
                rest = handshake.rest
                handshake.rest = b""
                self.data_received(rest)

    def _establish(self, hello: PeerHello) -> None:
        assert self._transport is not None
        self.peer = hello.name
        self.hello = hello
        self.established = True
        self._reader.splits = hello.name != ANYONE
        self._transport.set_write_buffer_limits(IN_TRANSPORT_BYTES, IN_TRANSPORT_BYTES // 2)
        self.since = self._network.loop.time()
        if self.dials:
            self._network.dialled(self, hello)
        elif hello.name == ANYONE:
            self._network.operator_came(self)
        else:
            self._network.accepted(self, hello)

    def refuse_damage(self, reason: str) -> None:
        """What came is damaged: end the link in a later round of the loop, and say so there."""
        if not self._over:
            self._over = True
            self._network.loop.call_soon(
                lambda: self._guarded(lambda: self._refuse(codes.DAMAGED, reason))
            )

    def _refuse(self, code: int, detail: str = "") -> None:
        assert self._handshake is not None
        self._handshake.refuse(code, detail)
        self._say()
        self._refused()

    def _refused(self) -> None:
        """The handshake ended in a refusal: say so here, and let the other end read it."""
        assert self._handshake is not None and self._handshake.refusal is not None
        refusal = self._handshake.refusal
        hello = self._handshake.proven()
        if refusal.theirs and hello is not None:
            self._network.refused_by[self.label] = hello
            if refusal.code == codes.OUTDATED:
                self._network.listener.outdated(hello.name)
            elif refusal.code == codes.FORGOTTEN:
                self._network.listener.forgotten(hello.name)
            elif refusal.code == codes.BEHIND:
                self._network.listener.behind(hello.name)
        self._complain(str(refusal.code), refusal.text)
        transport = self._transport
        if transport is None or refusal.theirs or refusal.code == codes.GARBAGE:
            self.abort()
            return
        # Closed at once, with input unread, the socket would be reset and the reason lost.
        self._over = True
        if transport.can_write_eof():
            transport.write_eof()
        self._deadline.cancel()
        self._deadline = self._network.loop.call_later(LINGER_SECONDS, self.abort)

    def _expired(self) -> None:
        """The handshake has taken too long."""
        if self._over or self.established:
            return
        if self._handshake is not None:
            self._guarded(lambda: self._refuse(codes.TIMEOUT))
        else:
            self.abort()

    # The end.

    def _ended(self, exc: Exception | None) -> None:
        said = self._over
        self._over = True
        if not self.established and not said and (self._heard or exc or self.dials):
            encrypted = self._network.tls is not None
            self._complain("closed", f"the handshake ended early: {why(exc, encrypted)}")
        self._network.lost(self)

    def _complain(self, kind: str, reason: str) -> None:
        known = self.dials or self.established
        self._network.complain(self.peer or self.label, kind, reason, known)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step; whatever goes wrong in it ends this link and no other."""
        try:
            step()
        except Exception as error:
            self._failed(error)
        self._network.after()

    def _failed(self, error: Exception) -> None:
        self.abort()
        self._network.loop.call_exception_handler(
            {"message": f"link with {self.peer or self.label} failed", "exception": error}
        )
