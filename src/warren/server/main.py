"""The shell around a node: event loop, listeners, timer, signals, and an orderly end.

The only place of the broker with asyncio. It turns what happens outside into calls on the node,
runs the node's turn once after each round of events, and stops the process when the node says that
it cannot go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import itertools
import logging
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

import uvloop

from warren import __version__
from warren.errors import BrokerError, ConfigError, StorageError
from warren.log.config import LogConfig
from warren.node.cluster import ClusterListener
from warren.node.node import Node
from warren.ports import PeerHello, PeerListener
from warren.protocols.amqp091.connection import CLOSED, CLOSING, Connection
from warren.protocols.broker import Settings
from warren.protocols.peer.hello import NO_CLUSTER
from warren.server.client_log import ClientLog
from warren.server.config import CLUSTER_PORT_DEFAULT, ServerConfig
from warren.server.descriptors import shares
from warren.server.disk import OsDisk
from warren.server.executor import ThreadExecutor
from warren.server.formation import dial_contacts, has_to_join
from warren.server.garbage import Garbage
from warren.server.identity import begin_life, find_secret
from warren.server.operators import NodeOperators, waits_for
from warren.server.peer_tls import PeerTls, peer_tls
from warren.server.peers import PeerNetwork
from warren.server.pulse import Pulse
from warren.wire.amqp091.frame import HEARTBEAT_FRAME

log = logging.getLogger("warren")

WRITE_HIGH_BYTES = 1_048_576
WRITE_LOW_BYTES = 262_144
TICK_SECONDS = 1.0
LOG_TICK_SECONDS = 0.05
READY_POLL_SECONDS = 0.005
PATIENCE_SECONDS = 1.0
WAITING_SECONDS = 10.0
"""A start that has to wait for other nodes says so after the first, and again after each second."""
HAND_OVER_SECONDS = 2.0
"""How long an orderly stop tries to give the lead of groups to other nodes."""
HAND_OVER_POLL_SECONDS = 0.01
MACHINE_VERSION = 1
START_AGAIN = -1
"""In place of an exit status: the process goes on with another server on the same directory."""
LINGER_SECONDS = 0.005
"""How long settles that nobody waits for may keep out of the log, to share the next write."""
RESET_AT_CLOSE = struct.pack("ii", 1, 0)
"""`SO_LINGER` without a time: closing sends a reset instead of an end."""
DRAIN_SECONDS = 0.05
"""What clients' sockets get to take the last frames at an orderly stop."""
LOG_FILES = 8
"""`raft.wal_max_size_bytes` is cut into this many files, to reclaim space in small steps."""
MEBIBYTE = 1_048_576
CACHE_SHARE = 256
CACHE_BYTES = (2 * MEBIBYTE, 8 * MEBIBYTE)
"""The newest bodies may take this part of the memory limit, within bounds."""
READ_CACHE_SHARE = 64
READ_CACHE_BYTES = (8 * MEBIBYTE, 128 * MEBIBYTE)
"""The same for bodies that were read back; more would mostly be one more copy of the page cache."""
WARN_SECONDS = 10.0
"""How often the log says that there is no room for connections."""
LOOKED_AT_MAX = 64
"""Sockets looked at to find one that may go; those that were opened are not looked at again."""
SLOW_TURN_SECONDS = 0.05
"""A turn of the node that takes longer is told at log level debug."""
SILENT, HEARD, OPENED, SHED = range(4)
"""How far a client's connection is, for the log: no byte came yet; some did; it has its vhost; it
had to make room."""
SWITCH_INTERVAL_SECONDS = 0.0002
"""How long the event loop may keep a worker thread waiting for the interpreter."""


class SystemClock:
    """`ports.Clock` by the operating system."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since some start."""
        return time.monotonic_ns() // 1_000_000


class SystemRandom:
    """`ports.Random` by the operating system."""

    def bytes(self, count: int) -> bytes:
        """Bytes from the kernel's generator."""
        return os.urandom(count)


class ClientTransport:
    """One client's socket, as the node sees it; see `ports.Transport`."""

    def __init__(self, stream: asyncio.Transport) -> None:
        self.write = stream.write
        self.write_eof = stream.write_eof
        self.close = stream.close
        self.pause_reading = stream.pause_reading
        self.resume_reading = stream.resume_reading
        self._stream = stream

    def abort(self) -> None:
        """Close with a reset, so that nothing that the client sends from now on looks taken."""
        client = self._stream.get_extra_info("socket")
        if client is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
        self._stream.abort()


class ClientProtocol(asyncio.Protocol):
    """One client's socket, and what the log says of it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Connection | None = None
        self._stream: asyncio.Transport | None = None
        self._beat_ms = 0
        self._stage = SILENT
        self._since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        stream = cast(asyncio.Transport, transport)
        self._stream = stream
        stream.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        self._server.clients.add(self)
        host, port = (stream.get_extra_info("peername") or ("", 0))[:2]
        self._connection = self._server.node.accept(ClientTransport(stream), host, port)
        self._server.doorkeeper.came(self)

    @property
    def is_open(self) -> bool:
        """Whether the client has logged in and opened its connection."""
        connection = self._connection
        return connection is not None and connection.session is not None

    def shed(self) -> None:
        """Let the socket go, to make room for others."""
        if self._stream is not None:
            self._stage = SHED
            self._stream.abort()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        connection = self._connection
        if connection is not None:
            if self._stage == SILENT:
                self._stage = HEARD
                self._since = time.monotonic()
                self._server.client_log.accepted(connection)
            connection.receive(data)
            if self._stage == HEARD and connection.vhost:
                self._stage = OPENED
                self._server.client_log.opened(connection)
            self._server.after_event()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._server.clients.discard(self)
        self._stream = None
        connection = self._connection
        self._server.doorkeeper.left(self)
        if connection is not None:
            self._connection = None
            heard = self._stage in (HEARD, OPENED)
            orderly = connection.state in (CLOSING, CLOSED)
            connection.lost()
            self._server.client_log.closed(
                connection, heard, orderly, time.monotonic() - self._since
            )
            self._server.after_event()

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        if self._connection is not None:
            self._connection.set_writable(False)

    def resume_writing(self) -> None:
        """The socket takes bytes again."""
        if self._connection is not None:
            self._connection.set_writable(True)
            self._server.after_event()

    def beat(self, now_ms: int) -> None:
        """Send a heartbeat if one is due; called while the loop is kept, by another thread.

        Only where nothing is queued, so that it falls between two frames. The kernel takes so few
        bytes whole or not at all.
        """
        connection = self._connection
        stream = self._stream
        if connection is None or stream is None or stream.is_closing():
            return
        beats_ms = connection.beats_ms()
        if not beats_ms or now_ms - self._beat_ms < beats_ms // 2:
            return
        if stream.get_write_buffer_size() == 0:
            self._beat_ms = now_ms
            with contextlib.suppress(OSError):
                os.write(stream.get_extra_info("socket").fileno(), HEARTBEAT_FRAME)


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


class NodeLinks(PeerListener):
    """What links tell the node. A broken invariant there is the node's end, not a link's."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._guarded = server.guarded
        self._cluster = ClusterListener(server.node)

    def judge(self, hello: PeerHello) -> int:
        """Whether a link is wanted."""
        return self._cluster.judge(hello)

    def linked(self, peer: str, hello: PeerHello) -> None:
        """The link to a node is up."""
        log.debug("link to node %s is up", peer)
        self._guarded(lambda: self._cluster.linked(peer, hello))

    def unlinked(self, peer: str) -> None:
        """The link to a node is gone."""
        log.debug("link to node %s is gone", peer)
        self._guarded(lambda: self._cluster.unlinked(peer))

    def incoming(self, peer: str, hello: PeerHello) -> None:
        """A node has a link to this one."""
        self._guarded(lambda: self._cluster.incoming(peer, hello))

    def incoming_lost(self, peer: str) -> None:
        """A node's link to this one is gone."""
        self._guarded(lambda: self._cluster.incoming_lost(peer))

    def gone(self, peer: str) -> None:
        """A node's process has ended."""
        self._guarded(lambda: self._cluster.gone(peer))

    def outdated(self, peer: str) -> None:
        """A node says that this one's disk is an older copy."""
        self._guarded(lambda: self._server.begin_anew(peer))

    def received(self, peer: str, message: bytes) -> None:
        """A message came."""
        self._guarded(lambda: self._cluster.received(peer, message))

    def refused(self, peer_or_address: str, reason: str) -> None:
        """A link did not come about."""
        log.warning("link with %s: %s", peer_or_address, reason)


class Deaf(PeerListener):
    """Hears of links nothing any more: the node is closed."""

    def linked(self, peer: str, hello: PeerHello) -> None:
        """Too late."""

    def unlinked(self, peer: str) -> None:
        """As it should be."""

    def incoming(self, peer: str, hello: PeerHello) -> None:
        """Too late."""

    def incoming_lost(self, peer: str) -> None:
        """As it should be."""

    def received(self, peer: str, message: bytes) -> None:
        """Too late."""

    def refused(self, peer_or_address: str, reason: str) -> None:
        """It does not matter any more."""


class Server:
    """A node, its listeners and its clockwork.

    Attributes:
        config: What the node was started with.
        client_log: Says in the log who comes and goes.
        clients: Sockets that are there.
        node, network: The node, and its links to others.
    """

    def __init__(self, config: ServerConfig, loop: asyncio.AbstractEventLoop) -> None:
        self.config = config
        self.client_log = ClientLog(log)
        self._loop = loop
        self._started = time.monotonic()
        self._knows_cluster = False
        self._turn_planned = False
        self._linger_planned = False
        self._closed = False
        self._stopping = loop.create_future()
        self._executor = ThreadExecutor(loop, self._after_jobs, self.guarded)
        self.clients: set[ClientProtocol] = set()
        self._pulse = Pulse(self._executor, self.clients)
        self._listeners: list[asyncio.Server] = []
        descriptors = shares(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self.doorkeeper = Doorkeeper(descriptors.connections)
        settings = settings_from(config)
        needs_secret = bool(config.join or config.cluster_nodes)
        secret = find_secret(
            config.data_dir, config.secret_file, config.cluster_secret, needs_secret
        )
        self._identity = begin_life(config.data_dir, config.node_name)
        settings.node_uid = self._identity.uid
        settings.boot = self._identity.boot
        settings.life = self._identity.life
        settings.former_uid = self._identity.former_uid
        own = PeerHello(
            config.node_name,
            self._identity.uid,
            # One that begins anew names none, as any that is to join.
            NO_CLUSTER if self._identity.former_uid else self._identity.cluster_id or NO_CLUSTER,
            self._identity.boot,
            __version__,
            MACHINE_VERSION,
            settings.cluster_host,
            settings.cluster_port,
            self._identity.life,
            self._identity.lives,
            former_uid=self._identity.former_uid,
        )
        self.network = PeerNetwork(
            own, secret, SystemRandom(), loop, tls=tls_from(config), after=self.after_event
        )
        self.node = Node(
            settings,
            SystemClock(),
            SystemRandom(),
            OsDisk(Path(config.data_dir), descriptors.log_files),
            self._executor,
            self.client_log.warn,
            self.network,
        )
        self._garbage = Garbage(self.node)

    async def run(self) -> int:
        """Recover, listen, serve until told to stop; returns the exit status."""
        started = time.perf_counter()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.stop, 0)
        if not await self._knows_whether_to_join():
            await self.network.close()
            return int(await self._stopping)
        await self._recover()
        await self._listen_for_nodes()
        self._loop.call_later(TICK_SECONDS, self._tick)
        self._loop.call_soon(self._tick_log)
        self._pulse.start()
        await self._get_ready()
        if self._identity.former_uid and not self._stopping.done():
            await self._be_known()
        if not self._stopping.done():
            await self._listen()
            self._garbage.begin()
            self._announce(time.perf_counter() - started)
        status = await self._stopping
        await self._close()
        return int(status)

    async def _knows_whether_to_join(self) -> bool:
        """Find out whether an empty node joins a cluster; False if it is stopped before that."""
        settings = self.node.settings
        if self._identity.cluster_id:
            settings.join = True
            return True
        looking = self._loop.create_task(has_to_join(self.config, self.network))
        await asyncio.wait({looking, self._stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not looking.done():
            looking.cancel()
            return False
        settings.join = looking.result()
        return True

    async def _recover(self) -> None:
        """Bring the node back, or have it begin or join a cluster."""
        node = self.node
        known = bool(self._identity.cluster_id)
        node.cluster_id = self._identity.cluster_id
        try:
            node.recover()
        except OSError as error:
            raise StorageError(f"data directory {self.config.data_dir}: {error}") from error
        self.network.own.round = int(node.first_round)
        if known:
            self._identity.save()
            if node.membership.joining():
                dial_contacts(self.config, self.network)
        self.network.hand_to(NodeLinks(self))
        # The node asks for a turn whenever it sends, and its turns end with a flush.
        self.network.flushed_by_turns = True
        self.network.operators = NodeOperators(self)

    async def _listen_for_nodes(self) -> None:
        port = self.config.cluster_port
        own = self.network.own
        try:
            await self.network.listen(bind_host(self.config), port or CLUSTER_PORT_DEFAULT)
            self._identity.listens_at((own.host, own.port))
        except ConfigError as error:
            machine = self.node.tables.machine
            if port or self.node.membership.joining() or len(machine.nodes) > 1:
                raise ConfigError(f"{error}; choose another port with --cluster-port") from error
            log.warning(
                "%s; until --cluster-port names a free port, no other node can join, and "
                "'warren status' and the like cannot ask this one",
                error,
            )
            self._identity.listens_at(("", 0))

    async def _get_ready(self) -> None:
        """Wait until clients may come.

        Nobody may before what a start calls for, such as the first user, is durable, and before the
        cluster knows this life of the node.
        """
        say_at = self._loop.time() + PATIENCE_SECONDS
        while not self.node.ready and not self._stopping.done():
            await asyncio.sleep(READY_POLL_SECONDS)
            if self._loop.time() >= say_at:
                say_at = self._loop.time() + WAITING_SECONDS
                log.warning("waiting %s", waits_for(self.node, self.config))
        self._heed_cluster()
        self.network.give_up_contacts()

    async def _listen(self) -> None:
        """Let clients come."""
        for host, port in self.config.listeners:
            try:
                listener = await self._loop.create_server(
                    lambda: ClientProtocol(self), host, port, backlog=4096, reuse_address=True
                )
            except OSError as error:
                raise ConfigError(
                    f"cannot listen on {host or '*'}:{port}: {why_not_listening(error)}"
                ) from error
            self._listeners.append(listener)

    def after_event(self) -> None:
        """Plan the node's turn behind the events of this round."""
        if self.node.needs_turn and not self._turn_planned:
            self._turn_planned = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_planned = False
        if self._closed:
            return
        if self.client_log.debugs:
            self._timed_turn()
        else:
            self.guarded(self.node.turn)
        if not self._knows_cluster:
            self._heed_cluster()
        self.after_event()
        if self.node.lingering and not self._linger_planned:
            self._linger_planned = True
            self._loop.call_later(LINGER_SECONDS, self._linger_over)

    def _timed_turn(self) -> None:
        began = time.perf_counter()
        self.guarded(self.node.turn)
        seconds = time.perf_counter() - began
        if seconds > SLOW_TURN_SECONDS:
            log.debug("a turn took %.0f ms", seconds * 1_000)

    def _linger_over(self) -> None:
        self._linger_planned = False
        if not self._closed:
            self.guarded(self.node.linger_over)
            self.after_event()

    def _after_jobs(self) -> None:
        self.guarded(self.node.turn)
        self.after_event()

    def _tick(self) -> None:
        if self._closed:
            return
        self._loop.call_later(TICK_SECONDS, self._tick)
        self.guarded(lambda: self.node.tick(resident_bytes()))
        self.client_log.tick()
        self.after_event()

    def _tick_log(self) -> None:
        if self._closed:
            return
        self._loop.call_later(LOG_TICK_SECONDS, self._tick_log)
        self.guarded(self.node.tick_log)
        self._garbage.look()
        self.after_event()

    def _heed_cluster(self) -> None:
        """Once the node belongs to a cluster, remember that, and once it is up there, say so."""
        cluster_id = self.node.cluster_id or self.node.tables.machine.cluster_id
        if cluster_id:
            self._identity.belongs_to(cluster_id)
            if self.node.cluster.session:
                self.network.own.cluster_id = cluster_id
                self._knows_cluster = True

    def begin_anew(self, peer: str) -> None:
        """Start once more with copies that have nothing: the disk lacks what it acknowledged."""
        if self._stopping.done() or self._identity.former_uid:
            return
        log.error(
            "node %s knows that this data directory had more than it has now: it was restored "
            "from an older copy, or a part of it is missing. The node begins anew: it gets its "
            "quorum queues from the other nodes; classic queues are as this directory has them",
            peer,
        )
        self._identity.begin_anew()
        self._stopping.set_result(START_AGAIN)

    async def _be_known(self) -> None:
        """Wait until what a node that begins anew was given is durable, and note that it has."""
        node = self.node
        before = node.log.round_number
        while not node.log.idle and node.log.round_number < before + 2:
            if self._stopping.done():
                return
            await asyncio.sleep(READY_POLL_SECONDS)
        self._identity.begun_anew()
        self.network.own.former_uid = b""

    def guarded(self, step: Callable[[], None]) -> None:
        """Run a step of the node; a broken invariant or a failed disk ends the process."""
        try:
            step()
        except BaseException:
            log.critical("the node cannot go on and stops", exc_info=True)
            self.stop(1)
        if self.node.failure is not None:
            log.critical("the node cannot go on and stops: %s", self.node.failure)
            self.stop(1)

    def stop(self, status: int) -> None:
        """End the process: in good order, or at once if the status says that it failed."""
        if status != 0:
            # Nothing may be confirmed or written after a failure of the disk.
            logging.shutdown()
            os._exit(status)
        if not self._stopping.done():
            self._stopping.set_result(status)

    def left(self) -> None:
        """End: the node is in its cluster no more, and its data directory of no more use."""
        log.warning("left the cluster; the data directory is of no more use")
        self._identity.has_left()
        self.stop(0)

    def state(self) -> dict[str, Any]:
        """What `warren status` shows of this process."""
        return {
            "version": __version__,
            "process": os.getpid(),
            "uptime_seconds": int(time.monotonic() - self._started),
            "listeners": self._addresses(),
            "data_dir": self.config.data_dir,
            "memory_bytes": resident_bytes(),
        }

    def _addresses(self) -> list[str]:
        return [f"{host or '0.0.0.0'}:{port}" for host, port in self.config.listeners]

    def _announce(self, seconds: float) -> None:
        log.info(
            "Warren %s, node %s, answers AMQP 0-9-1 on %s (data in %s, started in %.2f s)",
            __version__,
            self.config.node_name,
            ", ".join(self._addresses()),
            self.config.data_dir,
            seconds,
        )
        if sys.stderr.isatty():
            host, port = self.config.listeners[0]
            host = host or "localhost"
            print(f"clients connect to amqp://{host}:{port}; Ctrl-C ends the broker", flush=True)

    async def _close(self) -> None:
        log.info("stopping")
        for listener in self._listeners:
            listener.close()
        await self.hand_over()
        self.node.shut_down()
        self.node.turn()
        self._executor.drain()
        await asyncio.sleep(DRAIN_SECONDS)
        self.node.prepare_close()
        self._closed = True
        self._pulse.stop()
        self._executor.stop()
        self.node.close()
        self.network.listener = Deaf()
        await self.network.close()

    async def hand_over(self) -> None:
        """Give the lead of groups to other nodes, so that their clients do not wait."""
        until = self._loop.time() + HAND_OVER_SECONDS
        while self.node.cluster.hand_over() and self._loop.time() < until:
            self.guarded(self.node.turn)
            await asyncio.sleep(HAND_OVER_POLL_SECONDS)


def why_not_listening(error: OSError) -> str:
    """Why an address cannot be listened on, and what to do about it."""
    if isinstance(error, socket.gaierror):
        return "no such host is known; name an address of this machine with --bind"
    if error.errno == errno.EADDRINUSE:
        return (
            "another process listens there; is another broker running? stop it, or choose another "
            "port with --port"
        )
    if error.errno == errno.EACCES:
        return "this user may not listen there; choose a port from 1024 on with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address; name one that it has with --bind"
    return os.strerror(error.errno) if error.errno else str(error)


def bind_host(config: ServerConfig) -> str:
    """The address that all listeners for clients have in common; empty for every interface."""
    hosts = {host for host, _ in config.listeners}
    host = hosts.pop() if len(hosts) == 1 else ""
    return "" if host in ("0.0.0.0", "::") else host


def tls_from(config: ServerConfig) -> PeerTls | None:
    """How links between nodes are encrypted, if they are.

    Raises:
        ConfigError: A file cannot be used.
    """
    if not config.cluster_ssl_cacertfile:
        return None
    return peer_tls(
        config.cluster_ssl_cacertfile,
        config.cluster_ssl_certfile,
        config.cluster_ssl_keyfile,
        verify_names=config.cluster_ssl_verify_names,
    )


def settings_from(config: ServerConfig) -> Settings:
    """What a node needs to know of its configuration."""
    settings = Settings(config.node_name)
    settings.frame_max = config.frame_max
    settings.channel_max = config.channel_max
    settings.heartbeat_s = config.heartbeat
    settings.connections_max = config.connection_max
    settings.handshake_timeout_ms = config.handshake_timeout
    settings.max_message_bytes = config.max_message_size
    memory = config.memory_limit_bytes(total_memory_bytes())
    settings.log = LogConfig(
        wal_max_size_bytes=config.raft_wal_max_size_bytes // LOG_FILES,
        cache_bytes=within(memory // CACHE_SHARE, CACHE_BYTES),
        read_cache_bytes=within(memory // READ_CACHE_SHARE, READ_CACHE_BYTES),
        disk_free_limit_bytes=config.disk_free_limit,
        pinned_bytes_max=config.raft_wal_max_size_bytes,
    )
    settings.memory_limit_bytes = memory
    settings.default_vhost = config.default_vhost
    settings.default_user = config.default_user
    settings.default_password = config.default_pass
    settings.loopback_users = list(config.loopback_users)
    name_host = config.node_name.partition("@")[2]
    settings.cluster_host = config.cluster_host or bind_host(config) or name_host
    settings.cluster_port = config.cluster_port or CLUSTER_PORT_DEFAULT
    settings.quorum_size = config.quorum_cluster_size
    settings.leader_locator = config.queue_leader_locator
    settings.majority_wait_ms = config.metadata_store_default_timeout
    settings.reconciles = config.reconciliation_enabled
    settings.reconcile_target = config.reconciliation_target_group_size
    settings.reconcile_interval_ms = config.reconciliation_interval
    settings.reconcile_trigger_ms = config.reconciliation_trigger_interval
    return settings


def within(value: int, bounds: tuple[int, int]) -> int:
    """The nearest number that is not below or above some bounds."""
    return min(max(value, bounds[0]), bounds[1])


def total_memory_bytes() -> int:
    """Memory of this machine, or of the control group that bounds this process."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with open("/sys/fs/cgroup/memory.max") as file:
            limit = file.read().strip()
        if limit != "max":
            total = min(total, int(limit))
    except OSError:
        pass
    return total


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def lock_data_directory(path: str) -> IO[str]:
    """Take the data directory for this process; keep the file open as long as it is used.

    Raises:
        ConfigError: It cannot be created or written, or another process has it.
    """
    try:
        os.makedirs(path, exist_ok=True)
        file = open(os.path.join(path, "lock"), "w")
    except OSError as error:
        raise ConfigError(
            f"data directory {path}: {error.strerror}; choose another with --data-dir"
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ConfigError(
            f"data directory {path} is used by another process; "
            "stop that one or choose another with --data-dir"
        ) from None
    return file


def run(config: ServerConfig) -> int:
    """Run a broker until it is told to stop; returns the exit status."""
    logging.basicConfig(
        level=config.log_level.upper(),
        format="%(asctime)s.%(msecs)03d [%(levelname)s] %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
        stream=sys.stderr,
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    try:
        with lock_data_directory(config.data_dir):
            loop = uvloop.new_event_loop()
            status = START_AGAIN
            while status == START_AGAIN:
                status = int(loop.run_until_complete(Server(config, loop).run()))
            return status
    except BrokerError as error:
        print(f"warren: {error}", file=sys.stderr)
        return 2
