"""The links between this node and the others: `ports.Peers` with sockets of asyncio or uvloop.

Every node dials every other and keeps that link up; messages go from the dialling end to the other
one. What one link or one stranger does ends that connection at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any, Protocol

from warren.config.peer_tls import PeerTls, why
from warren.errors import ConfigError
from warren.ports import Deaf, PeerHello, PeerListener, Random
from warren.protocols.peer.complaints import Complaints
from warren.protocols.peer.handshake import derive_key
from warren.protocols.peer.hello import ANYONE
from warren.server.executor import no_hook
from warren.server.peer_link import PeerLink, PeerSettings, tune

ACCEPT_RETRY_SECONDS = 0.1
"""After a failed accept, for instance when descriptors have run out."""
CLOSE_SECONDS = 2.0
"""What peers get to take the last messages at an orderly stop."""
BACKLOG = 1_024


class Operators(Protocol):
    """Who answers the operators that come with the secret; see `admin.control`."""

    def asked(self, link: PeerLink, request: bytes) -> None:
        """An operator wants something; `link.answer` says what became of it."""


class NoOperators:
    """Answers nobody."""

    def asked(self, link: PeerLink, request: bytes) -> None:
        """End the connection."""
        link.abort()


class PeerNetwork:
    """All links of one node. Belongs to the loop's thread.

    Attributes:
        own: What this node says of itself. Read anew at each handshake: a node that joins a cluster
            sets `own.cluster_id`, and links that are up stay.
        listener: Who is told; to be set before the loop runs.
        operators: Who answers operators.
        refused_by: Nodes that proved who they are and did not want the link, by its label.
        flushed_by_turns: Whether each event that sends is followed by a `flush` anyway.
    """

    def __init__(
        self,
        own: PeerHello,
        secret: bytes,
        random: Random,
        loop: asyncio.AbstractEventLoop,
        settings: PeerSettings | None = None,
        tls: PeerTls | None = None,
        after: Callable[[], None] = no_hook,
    ) -> None:
        """Prepare; nothing is sent before `dial` or `listen`.

        Args:
            secret: The same for all nodes of the cluster, and hard to guess.
            random: For nonces, and for the jitter of dials.
            after: Called after the calls of the listener that one event led to.

        Raises:
            ConfigError: The secret is empty.
        """
        if not secret:
            raise ConfigError("links to other nodes need a cluster secret, the same on all of them")
        self.own = own
        self.listener: PeerListener = Deaf()
        self.operators: Operators = NoOperators()
        self.key = derive_key(secret)
        self.random = random
        self.loop = loop
        self.settings = settings or PeerSettings()
        self.tls = tls
        self.after = after
        self._links: dict[str, PeerLink] = {}
        self._incoming: dict[str, PeerLink] = {}
        self._diallers: dict[str, _Dialler] = {}
        self.refused_by: dict[str, PeerHello] = {}
        self.flushed_by_turns = False
        self._contacts: list[_Dialler] = []
        self._operators: set[PeerLink] = set()
        self._strangers: dict[PeerLink, asyncio.Task[None]] = {}
        self._accepting: list[asyncio.Task[None]] = []
        self._listening: list[socket.socket] = []
        self._dirty: list[PeerLink] = []
        self._flush_planned = False
        self._peer_complaints = Complaints()
        self._stranger_complaints = Complaints()

    # --- ports.Peers ----------------------------------------------------------------------------

    def send(self, peer: str, message: list[bytes]) -> bool:
        """Queue one message; see `ports.Peers`."""
        link = self._links.get(peer)
        if link is None:
            return False
        if not link.queued:
            link.queued = True
            self._dirty.append(link)
            if not self._flush_planned and not self.flushed_by_turns:
                self._flush_planned = True
                self.loop.call_soon(self.flush)
        sent = link.send(message)
        if link.over:
            del self._links[peer]
        return sent

    def backlog_bytes(self, peer: str) -> int:
        """Bytes queued for a peer."""
        link = self._links.get(peer)
        return 0 if link is None else link.backlog_bytes

    def dial(self, peer: str, host: str, port: int) -> None:
        """Keep a link to this node from now on."""
        dialler = self._diallers.get(peer)
        if dialler is None:
            self._diallers[peer] = _Dialler(self, peer, host, port)
        elif (dialler.host, dialler.port) != (host, port):
            dialler.host = host
            dialler.port = port
            dialler.hurry.set()

    def hand_to(self, listener: PeerListener) -> None:
        """Tell another listener from now on, and of the links that are up."""
        self.listener = listener
        for link in self._links.values():
            assert link.hello is not None
            listener.linked(link.peer, link.hello)
        for link in self._incoming.values():
            assert link.hello is not None
            listener.incoming(link.peer, link.hello)

    def dial_contact(self, host: str, port: int) -> None:
        """Have a link to whichever node answers there: its hello names it, then it is dialled."""
        self._contacts.append(_Dialler(self, ANYONE, host, port))

    def give_up_contacts(self) -> None:
        """Dial no more where no node was found."""
        for contact in self._contacts:
            contact.stop()
        self._contacts = []

    def drop(self, peer: str) -> None:
        """End the link to a node, which is dialled again."""
        link = self._links.get(peer)
        if link is not None:
            link.abort()

    def refuse(self, peer: str, reason: str) -> None:
        """End the link from a node, which may dial anew; see `ports.Peers`."""
        link = self._incoming.get(peer)
        if link is not None:
            link.refuse_damage(reason)

    def forget(self, peer: str) -> None:
        """End the link to this node and dial no more."""
        dialler = self._diallers.pop(peer, None)
        if dialler is not None:
            dialler.stop()
        link = self._links.pop(peer, None)
        if link is not None:
            link.told = False
            link.abort()
        self._peer_complaints.forget(f"{peer} ")

    def flush(self) -> None:
        """Write what this turn has queued: one write for each peer."""
        self._flush_planned = False
        dirty = self._dirty
        self._dirty = []
        for link in dirty:
            link.queued = False
            link.flush()

    # --- listening ------------------------------------------------------------------------------

    async def listen(self, host: str, port: int) -> int:
        """Accept links there, on all interfaces if `host` is empty; gives the port.

        Raises:
            ConfigError: The address cannot be listened on.
        """
        try:
            found = await self.loop.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, _, _, _, address in dict.fromkeys(found):
                if port == 0 and self._listening:
                    break
                try:
                    listening = socket.socket(family, socket.SOCK_STREAM)
                except OSError:
                    # A machine without IPv6 may well have names for it.
                    continue
                self._listening.append(listening)
                self._bind(listening, address)
            if not self._listening:
                raise OSError(0, "it has no address")
        except OSError as error:
            for listening in self._listening[len(self._accepting) :]:
                listening.close()
            del self._listening[len(self._accepting) :]
            raise ConfigError(
                f"cannot listen for other nodes on {host or '*'}:{port}: {error.strerror}"
            ) from error
        for listening in self._listening[len(self._accepting) :]:
            self._accepting.append(self.loop.create_task(self._accept(listening)))
        return int(self._listening[0].getsockname()[1])

    def _bind(self, listening: socket.socket, address: Any) -> None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listening.family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # What is accepted inherits the buffers, which count from the first packet on.
        tune(listening, self.settings)
        listening.setblocking(False)
        listening.bind(address)
        listening.listen(BACKLOG)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                sock, address = await self.loop.sock_accept(listening)
            except OSError as error:
                self.complain(
                    "listener", "accept", f"cannot accept links: {why(error)}", known=False
                )
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                continue
            while len(self._strangers) >= self.settings.strangers_max:
                # The oldest has had the longest time to prove what it is.
                self._drop_stranger(next(iter(self._strangers)))
            link = PeerLink(self, str(address[0]))
            self._strangers[link] = self.loop.create_task(self._greet(link, sock))

    async def _greet(self, link: PeerLink, sock: socket.socket) -> None:
        """Take an accepted connection up, through the end of its TLS handshake."""
        try:
            await self.loop.connect_accepted_socket(
                lambda: link,
                sock,
                ssl=self.tls.accepting if self.tls else None,
                ssl_handshake_timeout=self.settings.handshake_ms / 1_000 if self.tls else None,
            )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            reason = f"a connection failed: {why(error, self.tls is not None)}"
            self.complain(link.label, "tls", reason, known=False)
            link.connection_lost(None)
            sock.close()
        except asyncio.CancelledError:
            sock.close()
            raise

    def _drop_stranger(self, link: PeerLink) -> None:
        task = self._strangers.pop(link)
        self.complain(link.label, "many", "too many connections without proof", known=False)
        link.abort()
        task.cancel()

    # --- for links ------------------------------------------------------------------------------

    def dialled(self, link: PeerLink, hello: PeerHello) -> None:
        """The handshake of a dialled connection is done."""
        for contact in self._contacts:
            if contact.link is link:
                self._contacts.remove(contact)
                if link.peer not in self._diallers:
                    contact.peer = link.peer
                    self._diallers[link.peer] = contact
                else:
                    contact.stop()
                break
        dialler = self._diallers.get(link.peer)
        if dialler is None or dialler.link is not link:
            link.abort()
            return
        self._links[link.peer] = link
        link.told = True
        self._peer_complaints.forget(f"{link.peer} ")
        self.listener.linked(link.peer, hello)

    def accepted(self, link: PeerLink, hello: PeerHello) -> None:
        """The handshake of an accepted connection is done; it replaces an older one."""
        self._strangers.pop(link, None)
        older = self._incoming.get(link.peer)
        self._incoming[link.peer] = link
        if older is not None:
            older.abort()
            older.told = False
            self.listener.incoming_lost(link.peer)
        link.told = True
        dialler = self._diallers.get(link.peer)
        if dialler is not None and link.peer not in self._links:
            # It is there: no need to wait for the next dial.
            dialler.hurry.set()
        self.listener.incoming(link.peer, hello)

    def operator_came(self, link: PeerLink) -> None:
        """The handshake with an operator is done."""
        self._strangers.pop(link, None)
        self._operators.add(link)

    def lost(self, link: PeerLink) -> None:
        """A connection is gone."""
        self._strangers.pop(link, None)
        self._operators.discard(link)
        outgoing = link.dials
        links = self._links if outgoing else self._incoming
        if links.get(link.peer) is link:
            del links[link.peer]
        if link.told:
            link.told = False
            if outgoing:
                self.listener.unlinked(link.peer)
            else:
                self.listener.incoming_lost(link.peer)

    def complain(self, label: str, kind: str, reason: str, known: bool = True) -> None:
        """Tell why something was refused, unless that was told a moment ago."""
        complaints = self._peer_complaints if known else self._stranger_complaints
        now_ms = int(self.loop.time() * 1_000)
        key = f"{label} {kind}"
        if not complaints.due(key, now_ms):
            return
        left_out = complaints.take_left_out(key)
        if left_out:
            reason += f" (and {left_out} times since this was last said)"
        self.listener.refused(label, reason)

    # --- the end --------------------------------------------------------------------------------

    async def close(self) -> None:
        """Send what is queued, then end all links and accept no more."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for listening in self._listening:
            listening.close()
        for dialler in [*self._diallers.values(), *self._contacts]:
            dialler.stop()
        for link in list(self._strangers):
            self._strangers.pop(link).cancel()
            link.abort()
        self.flush()
        links = [*self._links.values(), *self._incoming.values(), *self._operators]
        for link in links:
            link.close()
        if links:
            await asyncio.wait([link.closed for link in links], timeout=CLOSE_SECONDS)
        for link in links:
            link.abort()


class _Dialler:
    """Keeps the link to one peer.

    Attributes:
        peer: Its name, or `ANYONE`.
    """

    def __init__(self, network: PeerNetwork, peer: str, host: str, port: int) -> None:
        self.peer = peer
        self.host = host
        self.port = port
        self.hurry = asyncio.Event()
        self.link: PeerLink | None = None
        self._network = network
        self._task = network.loop.create_task(self._run())

    def stop(self) -> None:
        """Dial no more; an unfinished attempt ends, a link that is up stays."""
        self._task.cancel()
        if self.link is not None and not self.link.established:
            self.link.abort()

    async def _run(self) -> None:
        settings = self._network.settings
        wait_ms = settings.redial_ms_min
        while True:
            label = f"{self.host}:{self.port}" if self.peer == ANYONE else self.peer
            link = PeerLink(self._network, label, self.peer)
            self.link = link
            await self._attempt(link)
            lived = self._network.loop.time() - link.since if link.established else 0.0
            if lived * 1_000 > settings.redial_ms_max:
                # Whether the other process lives still shows at once, if its machine does.
                wait_ms = settings.redial_ms_min
                continue
            # Half of the time, and up to once more at random: nodes that lost each other at the
            # same moment do not dial in step.
            share = int.from_bytes(self._network.random.bytes(2), "little") / 65_536
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ms * (0.5 + share / 2) / 1_000):
                    await self.hurry.wait()
            self.hurry.clear()
            wait_ms = min(wait_ms * 2, settings.redial_ms_max)

    async def _attempt(self, link: PeerLink) -> None:
        """Connect, shake hands, and wait for the end of the link."""
        network = self._network
        settings = network.settings
        tls = network.tls
        try:
            # The loop makes the socket and is the only one to close it. One that is made here and
            # handed over would be closed twice by uvloop when the link is lost at once, the second
            # time when the number may be that of a client or a file.
            limit_ms = settings.handshake_ms if tls else settings.connect_ms
            async with asyncio.timeout(limit_ms / 1_000):
                await network.loop.create_connection(
                    lambda: link,
                    self.host,
                    self.port,
                    ssl=tls.dialling if tls else None,
                    server_hostname=self.host if tls else None,
                    ssl_handshake_timeout=settings.handshake_ms / 1_000 if tls else None,
                )
            await asyncio.shield(link.closed)
        except (OSError, ssl.SSLError, TimeoutError) as error:
            link.abort()
            network.complain(
                link.label, "unreachable", f"cannot reach {self.host}:{self.port}: {why(error)}"
            )
            if isinstance(error, ConnectionRefusedError) and self.peer != ANYONE:
                network.listener.gone(self.peer)
            network.after()
        except Exception as error:
            link.abort()
            network.loop.call_exception_handler(
                {"message": f"dialling {link.label} failed", "exception": error}
            )
