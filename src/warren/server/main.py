"""The shell around a node: event loop, listeners, timer, signals, and an orderly end.

The only place of the broker with asyncio. It turns what happens outside into calls on the node,
runs the node's turn once after each round of events, and stops the process when the node says that
it cannot go on.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

import uvloop

from warren import __version__
from warren.errors import BrokerError, ConfigError
from warren.log.config import LogConfig
from warren.node.node import Node
from warren.protocols.amqp091.connection import Connection
from warren.protocols.broker import Settings
from warren.server.config import ServerConfig
from warren.server.disk import OsDisk
from warren.server.executor import ThreadExecutor

log = logging.getLogger("warren")

WRITE_HIGH_BYTES = 1_048_576
WRITE_LOW_BYTES = 262_144
TICK_SECONDS = 1.0
LOG_TICK_SECONDS = 0.05
READY_POLL_SECONDS = 0.005
LINGER_SECONDS = 0.005
"""How long settles that nobody waits for may keep out of the log, to share the next write."""
DRAIN_SECONDS = 0.05
"""What clients' sockets get to take the last frames at an orderly stop."""
LOG_FILES = 8
"""`raft.wal_max_size_bytes` is cut into this many files, to reclaim space in small steps."""
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


class ClientProtocol(asyncio.Protocol):
    """One client's socket."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Connection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        stream = cast(asyncio.Transport, transport)
        stream.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        host, port = (stream.get_extra_info("peername") or ("", 0))[:2]
        self._connection = self._server.node.accept(stream, host, port)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        connection = self._connection
        if connection is not None:
            connection.receive(data)
            self._server.after_event()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        connection = self._connection
        if connection is not None:
            self._connection = None
            connection.lost()
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


class Server:
    """A node, its listeners and its clockwork."""

    def __init__(self, config: ServerConfig, loop: asyncio.AbstractEventLoop) -> None:
        self._config = config
        self._loop = loop
        self._turn_planned = False
        self._linger_planned = False
        self._closed = False
        self._stopping = loop.create_future()
        self._executor = ThreadExecutor(loop, after=self._after_jobs)
        self._listeners: list[asyncio.Server] = []
        self.node = Node(
            settings_from(config),
            SystemClock(),
            SystemRandom(),
            OsDisk(Path(config.data_dir)),
            self._executor,
            log.warning,
        )

    async def run(self) -> int:
        """Recover, listen, serve until told to stop; returns the exit status."""
        started = time.perf_counter()
        self.node.recover()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop, 0)
        self._loop.call_later(TICK_SECONDS, self._tick)
        self._loop.call_soon(self._tick_log)
        # Nobody may come before what a start calls for, such as the first user, is durable.
        while not self.node.ready and not self._stopping.done():
            await asyncio.sleep(READY_POLL_SECONDS)
        for host, port in self._config.listeners:
            try:
                listener = await self._loop.create_server(
                    lambda: ClientProtocol(self), host, port, backlog=4096, reuse_address=True
                )
            except OSError as error:
                raise ConfigError(
                    f"cannot listen on {host or '*'}:{port}: {error.strerror}; "
                    "is another broker running there? choose another with --port"
                ) from error
            self._listeners.append(listener)
        gc.collect()
        gc.freeze()
        self._announce(time.perf_counter() - started)
        status = await self._stopping
        await self._close()
        return int(status)

    def after_event(self) -> None:
        """Plan the node's turn behind the events of this round."""
        if self.node.needs_turn and not self._turn_planned:
            self._turn_planned = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_planned = False
        self._guarded(self.node.turn)
        self.after_event()
        if self.node.lingering and not self._linger_planned:
            self._linger_planned = True
            self._loop.call_later(LINGER_SECONDS, self._linger_over)

    def _linger_over(self) -> None:
        self._linger_planned = False
        if not self._closed:
            self._guarded(self.node.linger_over)

    def _after_jobs(self) -> None:
        self._guarded(self.node.turn)
        self.after_event()

    def _tick(self) -> None:
        if self._closed:
            return
        self._loop.call_later(TICK_SECONDS, self._tick)
        self._guarded(lambda: self.node.tick(resident_bytes()))
        self.after_event()

    def _tick_log(self) -> None:
        if self._closed:
            return
        self._loop.call_later(LOG_TICK_SECONDS, self._tick_log)
        self._guarded(self.node.tick_log)
        self.after_event()

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step of the node; a broken invariant or a failed disk ends the process."""
        try:
            step()
        except BaseException:
            log.critical("the node cannot go on and stops", exc_info=True)
            self._stop(1)
        if self.node.failure is not None:
            log.critical("the node cannot go on and stops: %s", self.node.failure)
            self._stop(1)

    def _stop(self, status: int) -> None:
        if status != 0:
            # Nothing may be confirmed or written after a failure of the disk.
            logging.shutdown()
            os._exit(status)
        if not self._stopping.done():
            self._stopping.set_result(status)

    def _announce(self, seconds: float) -> None:
        where = ", ".join(f"{host or '0.0.0.0'}:{port}" for host, port in self._config.listeners)
        log.info(
            "Warren %s, node %s, answers AMQP 0-9-1 on %s (data in %s, started in %.2f s)",
            __version__,
            self._config.node_name,
            where,
            self._config.data_dir,
            seconds,
        )

    async def _close(self) -> None:
        log.info("stopping")
        for listener in self._listeners:
            listener.close()
        self.node.shut_down()
        self.node.turn()
        self._executor.drain()
        await asyncio.sleep(DRAIN_SECONDS)
        self.node.prepare_close()
        self._closed = True
        self._executor.stop()
        self.node.close()


def settings_from(config: ServerConfig) -> Settings:
    """What a node needs to know of its configuration."""
    settings = Settings(config.node_name)
    settings.frame_max = config.frame_max
    settings.channel_max = config.channel_max
    settings.heartbeat_s = config.heartbeat
    settings.handshake_timeout_ms = config.handshake_timeout
    settings.max_message_bytes = config.max_message_size
    settings.log = LogConfig(
        wal_max_size_bytes=config.raft_wal_max_size_bytes // LOG_FILES,
        disk_free_limit_bytes=config.disk_free_limit,
    )
    settings.memory_limit_bytes = config.memory_limit_bytes(total_memory_bytes())
    settings.default_vhost = config.default_vhost
    settings.default_user = config.default_user
    settings.default_password = config.default_pass
    settings.loopback_users = list(config.loopback_users)
    return settings


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
            return loop.run_until_complete(Server(config, loop).run())
    except BrokerError as error:
        print(f"warren: {error}", file=sys.stderr)
        return 2
