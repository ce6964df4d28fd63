"""The shell around a node: event loop, listeners, timer, signals, and an orderly end.

It turns what happens outside into calls on the node, runs the node's turn once after each round of
events, and stops the process when the node says that it cannot go on. Only this room of the broker
knows asyncio.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import uvloop

from warren import __version__
from warren.admin import dialling
from warren.admin.control import ControlSocket
from warren.admin.service.host import OperatorHost
from warren.admin.service.nodes import LEVELS
from warren.admin.service.rows import CertificateFiles, ProcessState
from warren.admin.service.service import AdminService
from warren.admin.service.slices import pace_of
from warren.config.config import CLUSTER_PORT_DEFAULT, SETTINGS, ServerConfig
from warren.config.identity import begin_life, find_secret
from warren.errors import (
    NOT_FOUND,
    PRECONDITION_FAILED,
    TIMED_OUT,
    BrokerError,
    ClusterError,
    ConfigError,
    CorruptRecord,
    Refusal,
    StorageError,
)
from warren.limits import STOP_STALL_SECONDS_MAX
from warren.log.manifest import DIRECTORY, MANIFEST_PATH
from warren.node.node import Node
from warren.ports import Deaf, PeerHello
from warren.protocols.peer.hello import ID_BYTES, LIVES_MAX, NO_CLUSTER
from warren.server.client_log import LINE_DATE_FORMAT, LINE_FORMAT, ClientLog, LineFormatter
from warren.server.clients import Reception
from warren.server.definitions import load_definitions
from warren.server.descriptors import shares
from warren.server.disk import OsDisk
from warren.server.executor import ThreadExecutor
from warren.server.formation import dial_contacts, has_to_join
from warren.server.garbage import Garbage
from warren.server.listeners import Listeners
from warren.server.memory import LANE, FreedMemory
from warren.server.node_links import NodeLinks
from warren.server.peers import PeerNetwork
from warren.server.pulse import Pulse
from warren.server.settings import (
    bind_host,
    settings_from,
    tls_from,
    tokens_from,
)
from warren.server.start_code import StartCode
from warren.server.stopping import Signals, StopWatch
from warren.server.supervisor import READY, STOPPING, Supervisor
from warren.server.system import (
    SystemClock,
    SystemRandom,
    open_descriptors,
    resident_bytes,
    total_memory_bytes,
)
from warren.server.tokens import JwtVerifier
from warren.server.turns import NodeTurns
from warren.server.waiting import waits_for
from warren.server.watchdog import Watchdog

log = logging.getLogger("warren")

LOOPBACK = "127.0.0.1"
TICK_SECONDS = 1.0
LOG_TICK_SECONDS = 0.05
REST_MS = 250
"""The same for a node on its own to which nothing happens, until something does."""
READY_POLL_SECONDS = 0.005
PATIENCE_SECONDS = 1.0
WAITING_SECONDS = 10.0
"""A start that has to wait for other nodes says so after the first, and again after each second."""
ASK_AGAIN_SECONDS = 1.0
"""How long another node may take to know whether it needs what a damaged log has."""
HAND_OVER_SECONDS = 2.0
"""How long an orderly stop tries to give the lead of groups to other nodes."""
HAND_OVER_POLL_SECONDS = 0.01
FORGOTTEN_SECONDS = 3.0
"""So long all nodes that answer have to say that the cluster has this one no more."""
START_AGAIN = -1
"""In place of an exit status: the process goes on with another server on the same directory."""
DRAIN_SECONDS = 0.05
"""What clients' sockets get to take the last frames at an orderly stop."""
SWITCH_INTERVAL_SECONDS = 0.0002
"""How long the event loop may keep a worker thread waiting for the interpreter."""


class Stranded(Deaf):
    """Waits for the word of another node that a majority of them works without this one.

    The node names no life that they know, so they say so as to one that was restored from an older
    copy, as soon as it is true.
    """

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop

    def linked(self, peer: str, hello: PeerHello) -> None:
        """A node that knows too little yet: ask it again."""
        self._loop.call_later(ASK_AGAIN_SECONDS, self._server.network.drop, peer)

    def outdated(self, peer: str) -> None:
        """The others can do without what this node has."""
        self._server.guarded(self._server.give_up)

    def refused(self, peer_or_address: str, reason: str) -> None:
        """Not yet."""
        log.warning("link with %s: %s", peer_or_address, reason)


class Server(OperatorHost):
    """A node, its listeners and its clockwork.

    Attributes:
        config: What the node was started with.
        node, network: The node, and its links to others.
    """

    def __init__(
        self,
        config: ServerConfig,
        loop: asyncio.AbstractEventLoop,
        signals: Signals,
        drained: bool = False,
    ) -> None:
        """Prepare.

        Args:
            drained: Whether no client is let in before an operator says so.
        """
        self.config = config
        self._signals = signals
        self._client_log = ClientLog(log)
        self._loop = loop
        self._started = time.monotonic()
        self._closed = False
        self._log_tick: asyncio.TimerHandle | None = None
        self._stopping = loop.create_future()
        self._forgotten_at = -1.0
        """When a node said first that the cluster has this one no more, with no link since."""
        self._serves = False
        """Whether the start is over: clients may come, unless an operator has asked for none."""
        self._farewell = ""
        """Why the node ends, if it is of no more use."""
        self._turns = NodeTurns(loop, self.stop, self._heed_cluster, lambda: self._executor.working)
        pace_of(loop).messages_wait = self._turns.messages_wait
        self._executor = ThreadExecutor(loop, self._turns.after_jobs, self._turns.guarded)
        self._watch = StopWatch(
            lambda: self._executor.ended, STOP_STALL_SECONDS_MAX, self._stop_hung
        )
        descriptors = shares(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._listeners = Listeners(config, loop, self._client_log, descriptors.http)
        self._listeners.drained = drained
        settings = settings_from(config)
        needs_secret = bool(config.join or config.cluster_nodes)
        secret = find_secret(
            config.data_dir, config.secret_file, config.cluster_secret, needs_secret
        )
        self._identity = begin_life(config.data_dir, config.node_name)
        self._damage: CorruptRecord | None = None
        """What keeps the node from starting with the log that it has."""
        settings.salvage = config.salvage and not self._identity.nodes
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
            config.cluster_version_max,
            settings.cluster_host,
            settings.cluster_port,
            self._identity.life,
            self._identity.lives,
            former_uid=self._identity.former_uid,
        )
        self.network = PeerNetwork(
            own, secret, SystemRandom(), loop, tls=tls_from(config), after=self._turns.after_event
        )
        self.node = Node(
            settings,
            SystemClock(),
            SystemRandom(),
            OsDisk(Path(config.data_dir), descriptors.log_files),
            self._executor,
            self._client_log.warn,
            self.network,
            self._client_log.contain,
        )
        tokens = tokens_from(config)
        self._tokens = None if tokens is None else JwtVerifier(tokens, self.node.monotonic_ms)
        self.node.tokens = self._tokens
        self._turns.serve(self.node)
        self._reception = Reception(
            self.node,
            self._turns,
            self._client_log,
            config.ssl_cert_login_from,
            descriptors.connections,
        )
        self._watchdog = Watchdog()
        self._pulse = Pulse(self._executor, self._reception.clients, self._watchdog)
        self._garbage = Garbage(self.node, self._listeners.answering)
        self._supervisor = Supervisor()
        self._memory = FreedMemory(
            self.node.settings.paging_limit_bytes,
            self._executor,
            let_go=self.node.log.cache.forget_reads,
        )

    async def run(self) -> int:
        """Recover, listen, serve until told to stop; returns the exit status."""
        try:
            return await self._run()
        finally:
            self._watch.cancel()

    async def _run(self) -> int:
        started = time.perf_counter()
        if self.config.warnings:
            log.warning("%s", self.config.ignored_text())
        self._signals.tell(self._told_to_stop)
        if not await self._knows_whether_to_join():
            await self.network.close()
            return int(await self._stopping)
        try:
            await self._recover()
        except CorruptRecord as error:
            return await self._wait_for_others(error)
        await self._listen_for_nodes()
        self._loop.call_later(TICK_SECONDS, self._tick)
        self._loop.call_soon(self._tick_log)
        self._pulse.start()
        await self._get_ready()
        if self._identity.former_uid and not self._stopping.done():
            await self._be_known()
        if not self._stopping.done():
            if self._tokens is not None:
                self._tokens.fetch_soon()
            await load_definitions(self.config, self._service, self._stopping)
            # First, since to load what it takes holds up the loop for a moment.
            await self._listeners.listen_for_http(self._service)
            await self._listeners.listen_for_scrapes(self._service)
            if not self._listeners.drained:
                await self._listeners.listen_for_clients(self._reception)
            self._serves = True
            self._garbage.begin()
            self._watchdog.arm()
            self._announce(time.perf_counter() - started)
            self._supervisor.tell(READY)
            self._executor.submit(LANE, StartCode())
        status = await self._stopping
        self._watch.begin()
        await self._close()
        if self._farewell:
            raise ClusterError(self._farewell)
        return int(status)

    async def _knows_whether_to_join(self) -> bool:
        """Find out whether an empty node joins a cluster; False if it is stopped before that."""
        settings = self.node.settings
        if self._identity.cluster_id:
            settings.join = True
            return True
        if self._identity.alone:
            return True
        if self._identity.joins is not None:
            settings.join = True
            self.network.dial_contact(*self._identity.joins)
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
        node.membership.cluster_id = self._identity.cluster_id
        try:
            node.recover()
        except OSError as error:
            raise StorageError(f"data directory {self.config.data_dir}: {error}") from error
        self.network.own.round = int(node.announcer.first_round)
        if known:
            self._identity.save()
            if node.membership.joining():
                self._dial_others()
        self.network.hand_to(NodeLinks(self.node.cluster, self, self._turns))
        # The node asks for a turn whenever it sends, and its turns end with a flush.
        self.network.flushed_by_turns = True
        self._service = AdminService(node, self)
        self.network.operators = ControlSocket(self._service)

    def _dial_others(self) -> None:
        """Dial the nodes that this one's log, or the lack of it, does not name."""
        dial_contacts(self.config, self.network)
        if self._identity.joins is not None:
            self.network.dial_contact(*self._identity.joins)
        for name, host, port in self._identity.nodes:
            self.network.dial(name, host, port)

    async def _wait_for_others(self, error: CorruptRecord) -> int:
        """The log is damaged: begin anew once the other nodes can do without what is in it.

        Returns:
            `START_AGAIN`, or the exit status if the node is stopped before.

        Raises:
            StorageError: There are none; the directory is as it was.
        """
        others = [name for name, _, _ in self._identity.nodes]
        if not others or self._identity.former_uid:
            raise StorageError(what_to_do(self.config.data_dir, error))
        log.error(
            "%s/%s. The directory stays as it is until a majority of the other nodes (%s) runs; "
            "then this node begins anew and gets its queues from them. If that cannot be, restore "
            "the directory from a copy",
            self.config.data_dir,
            error,
            ", ".join(others),
        )
        self._damage = error
        # None of the lives that the others know: see `Membership.judge`.
        self.network.own.lives = [bytes(ID_BYTES)] * LIVES_MAX
        self.network.listener = Stranded(self, self._loop)
        await self.network.listen(
            bind_host(self.config), self.config.cluster_port or CLUSTER_PORT_DEFAULT
        )
        self._dial_others()
        while not self._stopping.done():
            await asyncio.wait({self._stopping}, timeout=WAITING_SECONDS)
            if not self._stopping.done():
                log.warning("waiting for a majority of %s", ", ".join(others))
        await self.network.close()
        self._executor.stop()
        return int(self._stopping.result())

    def give_up(self) -> None:
        """Start once more, with what is whole of a damaged log, and count for nobody with that."""
        if self._stopping.done():
            return
        log.error(
            "the node begins anew, since its log is damaged: it gets its quorum queues from the "
            "other nodes; of classic queues here it has what is whole"
        )
        self._identity.begin_anew()
        if self._damage is not None and self._damage.path == MANIFEST_PATH:
            # Nothing says any more what is in which file.
            folder = Path(self.config.data_dir)
            aside = folder / f"{DIRECTORY}.damaged-{self._identity.boot}"
            os.rename(folder / DIRECTORY, aside)
            log.error("what the log had is in %s now: no queue can be served from it", aside)
        self._stopping.set_result(START_AGAIN)

    async def _listen_for_nodes(self) -> None:
        port = self.config.cluster_port
        own = self.network.own
        try:
            await self.network.listen(bind_host(self.config), port or CLUSTER_PORT_DEFAULT)
            self._identity.listens_at((own.host, own.port))
        except ConfigError as error:
            machine = self.node.metadata
            if port or self.node.membership.joining() or len(machine.nodes) > 1:
                raise ConfigError(f"{error}; choose another port with --cluster-port") from error
            log.warning("%s; until --cluster-port names a free port, no other node can join", error)
            # Commands on this machine find the node by its data directory.
            self._identity.listens_at((LOOPBACK, await self.network.listen(LOOPBACK, 0)))

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

    def after_event(self) -> None:
        """Plan the node's turn behind the events of this round."""
        self._turns.after_event()

    def _tick(self) -> None:
        if self._closed:
            return
        self._loop.call_later(TICK_SECONDS, self._tick)
        self._watchdog.feed()
        self._supervisor.tick()
        used = resident_bytes()
        self.guarded(lambda: self.node.tick(used))
        self._loop.call_soon(self._reception.tick)
        self._memory.tick(used)
        self._client_log.tick()
        self._note_others()
        self._turns.after_tick()

    def _tick_log(self) -> None:
        if self._closed:
            return
        self.guarded(self.node.tick_log)
        self._garbage.look()
        self._turns.after_tick()
        rests = self.node.at_rest(REST_MS) and self._turns.rest(self._rouse)
        self._log_tick = self._loop.call_later(
            REST_MS / 1_000 if rests else LOG_TICK_SECONDS, self._tick_log
        )

    def _rouse(self) -> None:
        """Something happens to the node that was at rest: look after its log as often as ever."""
        if self._log_tick is not None:
            self._log_tick.cancel()
            self._log_tick = self._loop.call_later(LOG_TICK_SECONDS, self._tick_log)

    def _note_others(self) -> None:
        """Remember which other nodes there are, for a start without a log that tells."""
        name = self.config.node_name
        machine = self.node.metadata
        if name in machine.nodes:
            others = [row for row in machine.nodes.values() if row.name != name]
            self._identity.is_with([(row.name, row.host, row.port) for row in others])

    def _heed_cluster(self) -> bool:
        """Once the node belongs to a cluster, remember that, and once it is up there, say so.

        True when that is done.
        """
        cluster_id = self.node.membership.cluster_id or self.node.metadata.cluster_id
        if cluster_id:
            self._identity.belongs_to(cluster_id)
            if self.node.cluster.session:
                self.network.own.cluster_id = cluster_id
                return True
        return False

    def begin_anew(self, peer: str) -> None:
        """Start once more with copies that have nothing: the disk lacks what it acknowledged."""
        if self._stopping.done():
            return
        log.error(
            "node %s knows that this data directory had more than it has now: it was restored "
            "from an older copy, or a part of it is missing. The node begins anew: it gets its "
            "quorum queues from the other nodes; classic queues are as this directory has them",
            peer,
        )
        self._identity.begin_anew()
        self._stopping.set_result(START_AGAIN)

    def forgotten(self, peer: str) -> None:
        """A node with a majority says that the cluster has this one no more: end, if that stays so.

        A node that has just joined may be ahead of whoever says so, for a moment. The directory is
        not marked as one of no more use: that would be for good.
        """
        now = self._loop.time()
        if self._forgotten_at < 0:
            self._forgotten_at = now
        elif now - self._forgotten_at >= FORGOTTEN_SECONDS and not self._stopping.done():
            self._farewell = (
                f"{self.config.data_dir} is that of node {self.config.node_name}, which its "
                f"cluster has forgotten, as node {peer} says, and of no more use: begin with an "
                "empty directory, and --join for a node that is to come back"
            )
            self.stop(0)

    def behind(self, peer: str) -> None:
        """A node of the cluster says that this one's release is too old."""
        if not self._stopping.done():
            self._farewell = (
                f"the cluster has moved on, as node {peer} says, and this node knows versions up "
                f"to {self.config.cluster_version_max}: start a newer release, or take "
                "cluster.version_max out of its configuration"
            )
            self.stop(0)

    def wanted(self) -> None:
        """A node has a link with this one."""
        self._forgotten_at = -1.0

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
        self._turns.guarded(step)

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

    def reset(self, joins: tuple[str, int] | None) -> None:
        """Start once more with an empty directory, in the same process."""
        log.warning("the data directory is emptied, as an operator asked")
        self._identity.to_reset(joins)
        # A process that is ending anyhow leaves it to the next start.
        if not self._stopping.done():
            self._stopping.set_result(START_AGAIN)

    @property
    def drained(self) -> bool:
        """Whether an operator has asked that no client is let in."""
        return self._listeners.drained

    def certificates(self) -> list[CertificateFiles]:
        """The certificates of all listeners that have some."""
        return list(self._listeners.certificates())

    def state(self) -> ProcessState:
        """What a status shows of this process."""
        return ProcessState(
            version=__version__,
            process=os.getpid(),
            uptime_seconds=int(time.monotonic() - self._started),
            listeners=self._listeners.addresses(),
            data_dir=self.config.data_dir,
            memory_bytes=resident_bytes(),
            memory_total_bytes=total_memory_bytes(),
            descriptors=open_descriptors(),
            descriptors_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            addresses=list(self._listeners.rows(self.network.own.port)),
            drained=self._listeners.drained,
        )

    async def ask(
        self, node: str, operation: str, arguments: dict[str, Any], seconds: float
    ) -> Any:
        """What another node of the cluster answers, decoded."""
        row = self.node.metadata.nodes.get(node)
        if row is None:
            raise Refusal(NOT_FOUND, f"node '{node}' is not in the cluster")
        return await self.ask_at(node, row.host, row.port, operation, arguments, seconds)

    async def ask_at(
        self,
        node: str,
        host: str,
        port: int,
        operation: str,
        arguments: dict[str, Any],
        seconds: float,
    ) -> Any:
        """What the node at an address answers, decoded."""
        network = self.network
        request = [operation, arguments]
        try:
            answer = await asyncio.to_thread(
                dialling.ask, host, port, network.key, network.tls, request, seconds
            )
        except (OSError, BrokerError) as error:
            raise Refusal(TIMED_OUT, f"node '{node}' cannot be asked: {error}") from None
        if answer[0] != "ok":
            kind = answer[2] if len(answer) > 2 else PRECONDITION_FAILED
            raise Refusal(str(kind), str(answer[1]))
        return answer[1]

    async def set_maintenance(self, drained: bool) -> None:
        """Take no more clients, or take them again."""
        listeners = self._listeners
        if drained == listeners.drained:
            return
        if not drained and not self._serves:
            text = "the node has not started fully yet: ask again"
            raise Refusal(PRECONDITION_FAILED, text)
        listeners.drained = drained
        if drained:
            listeners.stop_clients()
            log.warning("maintenance: no client is let in any more, as an operator asked")
            return
        try:
            await listeners.listen_for_clients(self._reception)
        except ConfigError as error:
            listeners.drained = True
            listeners.stop_clients()
            raise Refusal(PRECONDITION_FAILED, str(error)) from None
        log.warning("maintenance is over: clients may come again")

    def configuration(self) -> dict[str, Any]:
        """All settings that are in force, by their keys."""
        return {
            setting.key: getattr(self.config, setting.field)
            for setting in SETTINGS
            if not setting.field.endswith(("secret", "password", "pass"))
        }

    def _announce(self, seconds: float) -> None:
        log.info(
            "Warren %s, node %s, answers AMQP 0-9-1 on %s (data in %s, started in %.2f s)",
            __version__,
            self.config.node_name,
            ", ".join(self._listeners.addresses()),
            self.config.data_dir,
            seconds,
        )
        self._listeners.announce()
        if sys.stderr.isatty():
            scheme = "amqp" if self.config.listeners else "amqps"
            host, port = (*self.config.listeners, *self.config.tls_listeners)[0]
            where = f"{scheme}://{host or 'localhost'}:{port}"
            print(f"clients connect to {where}; Ctrl-C ends the broker", flush=True)

    def _told_to_stop(self) -> None:
        """A signal came; on its thread."""
        self._loop.call_soon_threadsafe(self.stop, 0)
        self._watch.begin()

    def _stop_hung(self) -> None:
        log.error(
            "the disk hangs: for %.0f s it has ended nothing that it was asked for. The node ends "
            "with what is durable, all that was confirmed",
            STOP_STALL_SECONDS_MAX,
        )
        self.stop(1)

    async def _close(self) -> None:
        log.info("stopping")
        self._watchdog.disarm()
        self._supervisor.tell(STOPPING)
        await self._listeners.close()
        self._service.kept.stop()
        await self.hand_over()
        self.node.shut_down()
        self.node.turn()
        self._executor.drain()
        await asyncio.sleep(DRAIN_SECONDS)
        self.node.prepare_close()
        self._closed = True
        self._turns.end()
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


def what_to_do(data_dir: str, error: CorruptRecord) -> str:
    """What an operator reads whose node does not start because of damage."""
    where = f"{data_dir}/{error}. Nothing was changed: "
    if error.path == MANIFEST_PATH:
        return where + "restore the directory from a copy"
    return where + (
        "restore the directory from a copy; or make one, and start with --salvage to go on with "
        "what is whole: what was in the damaged part is gone then"
    )


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
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(LINE_FORMAT, LINE_DATE_FORMAT))
    logging.basicConfig(level=LEVELS[config.log_level], handlers=[handler])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    try:
        with lock_data_directory(config.data_dir):
            signals = Signals()
            signals.start()
            loop = uvloop.new_event_loop()
            status, drained = START_AGAIN, False
            while status == START_AGAIN:
                server = Server(config, loop, signals, drained)
                status = int(loop.run_until_complete(server.run()))
                drained = server.drained
                del server
            return status
    except BrokerError as error:
        print(f"warren: {error}", file=sys.stderr)
        return 2
