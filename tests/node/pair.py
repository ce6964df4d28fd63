"""A few nodes in one process, with their links, disks and clients in the hands of a test."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from sim.clock import SeededRandom, VirtualClock
from sim.disk import SimDisk, SimExecutor
from warren.limits import FRAME_BYTES_MAX
from warren.log.config import LogConfig
from warren.metadata.member_checks import add_member, delete_member
from warren.metadata.tables import QueueRecord
from warren.node.cluster.links import ClusterListener
from warren.node.node import Node
from warren.node.store import METADATA_GROUP
from warren.ports import PeerHello
from warren.protocols.amqp091.connection import Connection
from warren.protocols.broker import Settings
from warren.replication.frames import group_of, seal
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import PROTOCOL_HEADER, FrameReader, content_frames, method_frame
from warren.wire.amqp091.properties import Properties, decode_properties
from warren.wire.amqp091.table import Table

TICK_MS = 50
ROUNDS_MAX = 2_000


def sealed(message: bytes) -> bytes:
    """A message with its checksum, as it comes over a link."""
    buffers = [message]
    seal(buffers)
    return b"".join(buffers)


class Station:
    """One node and what it stands on."""

    def __init__(self, pair: Pair, name: str) -> None:
        self.pair = pair
        self.name = name
        self.disk = SimDisk(len(pair.stations) + 1)
        self.executor = SimExecutor(pair.random)
        self.boot = 0
        self.uid = name.encode().ljust(16, b".")
        self.former_uid = b""
        self.cluster_id = b""
        self.lives: list[bytes] = []
        self.refusals: list[int] = []
        self.alive = False
        self.hold_disk = False
        self.warnings: list[str] = []
        self.dialled: set[str] = set()
        self.clients: list[Client] = []

    def start(self) -> None:
        """Begin a life."""
        self.boot += 1
        self.lives.insert(0, len(self.pair.lives).to_bytes(16, "big"))
        self.pair.lives.append(self.name)
        self.dialled = set()
        self.executor = SimExecutor(self.pair.random)
        settings = Settings(self.name)
        settings.renews_hashes = False
        settings.node_uid, settings.former_uid = self.uid, self.former_uid
        settings.boot, settings.life = self.boot, self.lives[0]
        settings.cluster_host, settings.cluster_port = self.name, 1
        settings.join = self.name != "a" or self.former_uid != b""
        settings.log = LogConfig(
            wal_max_size_bytes=self.pair.file_bytes, reserve_bytes=1 << 16, cache_bytes=1 << 23
        )
        # A silence of a second is as good as one of a minute, unless a test says otherwise.
        settings.consumer_disconnected_timeout_ms = 0
        self.pair.configure(settings)
        self.node = Node(
            settings,
            self.pair.clock,
            SeededRandom(self.pair.random),
            self.disk,
            self.executor,
            self.warnings.append,
            MemoryPeers(self),
        )
        self.node.membership.cluster_id = b"" if self.former_uid else self.cluster_id
        self.listener = ClusterListener(self.node.cluster)
        self.alive = True
        self.node.recover()
        if settings.join:
            self.dialled.add("a")

    def kill(self) -> None:
        """Cut the power: of what was not synced any part may be gone."""
        self.alive = False
        self.disk.crash()
        for client in self.clients:
            client.over = True
        self.clients = []
        for source, target in list(self.pair.links):
            if self.name in (source, target):
                self.pair.cut(source, target)

    def backup(self) -> tuple[SimDisk, int, list[bytes]]:
        """A copy of the data directory, as `restore` takes it."""
        return copy.deepcopy(self.disk), self.boot, list(self.lives)

    def restore(self, backup: tuple[SimDisk, int, list[bytes]]) -> None:
        """Put a copy of the data directory in the place of what the node had."""
        assert not self.alive
        disk, self.boot, lives = copy.deepcopy(backup)
        self.disk, self.lives = disk, lives
        self.disk.restart()

    def begin_anew(self) -> None:
        """Do what the server does when a majority says that the disk is an older copy."""
        self.former_uid = self.uid
        self.uid = f"{self.name}.{self.boot}".encode().ljust(16, b".")
        self.kill()
        self.start()

    def client(
        self, heartbeat_s: int = 0, user: str = "guest", password: str = "", vhost: str = "/"
    ) -> Client:
        """Connect a client, with a channel."""
        client = self.caller(heartbeat_s, user, password, vhost)
        self.pair.until(lambda: client.opened)
        return client

    def caller(
        self, heartbeat_s: int = 0, user: str = "guest", password: str = "", vhost: str = "/"
    ) -> Client:
        """A client that may not be let in; the empty password is the user's name."""
        client = Client(self, heartbeat_s, user, password, vhost)
        self.clients.append(client)
        return client

    def queue(self, name: str) -> Any:
        """This node's object of a queue, which its clients use from now on."""
        return self.node.vhosts.use("/", name)

    def knows(self, name: str) -> bool:
        """Whether this node has heard of a queue."""
        return self.node.metadata.queue("/", name) is not None

    def record(self, name: str) -> QueueRecord:
        """What this node's tables say of a queue."""
        found = self.node.metadata.queue("/", name)
        assert found is not None
        return found


class MemoryPeers:
    """The links of one node; see `warren.ports.Peers`."""

    def __init__(self, station: Station) -> None:
        self._station = station

    def send(self, peer: str, message: list[bytes]) -> bool:
        link = self._station.pair.links.get((self._station.name, peer))
        if link is None:
            return False
        link.append(b"".join(message))
        return True

    def backlog_bytes(self, peer: str) -> int:
        link = self._station.pair.links.get((self._station.name, peer))
        return 0 if link is None else sum(len(message) for message in link)

    def dial(self, peer: str, host: str, port: int) -> None:
        self._station.dialled.add(peer)

    def refuse(self, peer: str, reason: str) -> None:
        self._station.pair.refused.append((peer, self._station.name, reason))

    def forget(self, peer: str) -> None:
        self._station.dialled.discard(peer)

    def flush(self) -> None:
        pass


class Pair:
    """Nodes `a` and `b`, one cluster; or `a` alone; or more, by `add`.

    Attributes:
        links: Messages on their way, by sender and receiver; an absent pair has no link.
        blocked: Links that do not come about again.
        deaf: Links over which nothing moves for now.
        withheld: Links that do not bring what one group says, and what they have so far.
        withheld_group: Which one: that of the tables, unless a test says otherwise.
        damage: What becomes of messages on links that damage them.
        refused: Links that were ended for damage: sender, receiver and reason.
        fuses: Links that break when they have carried so many messages more.
        minds_seconds: Whether nodes are told each second that one has passed.
    """

    def __init__(
        self,
        seed: int = 1,
        alone: bool = False,
        configure: Callable[[Settings], None] = lambda settings: None,
        file_bytes: int = 1 << 22,
    ) -> None:
        self.random = Random(seed)
        self.file_bytes = file_bytes
        self.configure = configure
        self.clock = VirtualClock()
        self.stations: dict[str, Station] = {}
        self.lives: list[str] = []
        self.links: dict[tuple[str, str], deque[bytes]] = {}
        self.blocked: set[tuple[str, str]] = set()
        self.deaf: set[tuple[str, str]] = set()
        self.withheld: dict[tuple[str, str], list[bytes]] = {}
        self.withheld_group = METADATA_GROUP
        self.fuses: dict[tuple[str, str], int] = {}
        self.refused: list[tuple[str, str, str]] = []
        self._ended = 0
        self.damage: dict[tuple[str, str], Callable[[bytes], bytes]] = {}
        self.minds_seconds = False
        self.a = self.add("a")
        if alone:
            return
        self.b = self.add("b")
        self.until(self.usable)

    def add(self, name: str) -> Station:
        """One more node; `a` begins the cluster."""
        station = self.stations[name] = Station(self, name)
        station.start()
        self.until(lambda: station.node.ready)
        return station

    def add_member(self, name: str, node: str, votes: bool = True) -> None:
        """Give a queue one more member, and wait until its node has begun with it."""
        record = self.a.record(name)
        command = add_member(record, node, self.a.node.placing.new_group(), votes)
        assert command is not None
        self.a.node.store.submit(command, None)
        group_id = int(record.group_id)
        self.until(lambda: group_id in self.stations[node].node.cluster.members)

    def delete_member(self, name: str, node: str) -> None:
        """Take a queue's member from a node, and wait until that holds it no more."""
        record = self.a.record(name)
        command = delete_member(record, node, sorted(self.stations), False)
        assert command is not None
        self.a.node.store.submit(command, None)
        group_id = int(record.group_id)
        self.until(lambda: group_id not in self.stations[node].node.cluster.members)

    def usable(self) -> bool:
        """Whether each node may use the other's queues."""
        return self.a.node.remotes.line("b").number > 0 and self.b.node.remotes.line("a").number > 0

    def cut(self, source: str, target: str) -> None:
        """A link breaks, and what it had not brought over is gone."""
        if self.links.pop((source, target), None) is None:
            return
        if self.stations[source].alive:
            self.stations[source].listener.unlinked(target)
        if self.stations[target].alive:
            self.stations[target].listener.incoming_lost(source)

    def step(self) -> None:
        """Let everybody do what is to be done, and time pass a little."""
        self._link()
        for station in self.stations.values():
            if station.alive:
                if not station.hold_disk:
                    station.executor.step()
                self.turn(station)
        for key in list(self.links):
            self.carry(*key)
        for station in self.stations.values():
            if station.alive:
                for client in list(station.clients):
                    client.exchange()
                self.turn(station)
        second = self.clock.monotonic_ms() // 1_000
        self.clock.advance(TICK_MS // 5)
        is_new = self.clock.monotonic_ms() // 1_000 > second
        for station in self.stations.values():
            if station.alive:
                station.node.tick_log()
                if is_new and self.minds_seconds:
                    station.node.tick(0)
                self.turn(station)

    def step_at_once(self) -> None:
        """Let nodes do what is to be done, while no time passes."""
        for station in self.stations.values():
            station.executor.step()
            self.turn(station)
        for key in list(self.links):
            self.carry(*key)

    def turn(self, station: Station) -> None:
        """A node's turn, as often as it wants one."""
        for _ in range(20):
            station.node.turn()
            known = station.node.membership.cluster_id or station.node.metadata.cluster_id
            station.cluster_id = known or station.cluster_id
            self._end_refused()
            if not station.node.needs_turn:
                return

    def _end_refused(self) -> None:
        """Cut the links that a node has refused."""
        while self._ended < len(self.refused):
            source, target, _ = self.refused[self._ended]
            self._ended += 1
            self.cut(source, target)

    def carry(self, source: str, target: str, count: int = -1) -> int:
        """Bring messages over a link; returns how many."""
        link = self.links.get((source, target))
        carried = 0
        while link and carried != count and (source, target) not in self.deaf:
            message = link.popleft()
            withheld = self.withheld.get((source, target))
            if withheld is not None and group_of(message) == self.withheld_group:
                withheld.append(message)
                continue
            changes = self.damage.get((source, target))
            if changes is not None:
                message = changes(message)
            self.stations[target].listener.received(source, message)
            carried += 1
            self._end_refused()
            if (source, target) in self.fuses:
                self.fuses[source, target] -= 1
                if self.fuses[source, target] == 0:
                    self.cut(source, target)
            if self.links.get((source, target)) is not link:
                break
        return carried

    def release(self) -> None:
        """Let all links bring what that group says."""
        for (source, target), messages in self.withheld.items():
            self.links[source, target].extendleft(reversed(messages))
        self.withheld = {}

    def _link(self) -> None:
        for source, station in self.stations.items():
            for target in sorted(station.dialled):
                other = self.stations.get(target)
                key = (source, target)
                if other is None or key in self.links or key in self.blocked:
                    continue
                if station.alive and other.alive and source != target:
                    if self._judge(station, other):
                        continue
                    self.links[key] = deque()
                    other.listener.incoming(source, self._hello(station))
                    station.listener.linked(target, self._hello(other))

    def _judge(self, source: Station, target: Station) -> bool:
        """Whether one end does not want a link."""
        for judge, judged in ((target, source), (source, target)):
            code = judge.listener.judge(self._hello(judged))
            if code:
                judged.refusals.append(code)
                return True
        return False

    def _hello(self, station: Station) -> PeerHello:
        """What a node says of itself, as the server has it."""
        node = station.node
        cluster_id = b"" if station.former_uid else station.cluster_id
        return PeerHello(
            station.name,
            station.uid,
            cluster_id or bytes(16),
            station.boot,
            "1",
            node.settings.cluster_version_max,
            station.name,
            1,
            life=station.lives[0],
            lives=station.lives[1:33],
            round=int(node.announcer.first_round),
            former_uid=station.former_uid,
        )

    def until(self, done: Callable[[], bool]) -> None:
        """Go on until something is so."""
        for _ in range(ROUNDS_MAX):
            if done():
                return
            self.step()
        raise AssertionError("it did not come about")

    def settle(self, steps: int = 12) -> None:
        """Go on for a while, where nothing is to happen."""
        for _ in range(steps):
            self.step()


class Got:
    """A message that came, or came back."""

    def __init__(
        self,
        method: spec.BasicDeliver | spec.BasicGetOk | spec.BasicReturn,
        body: bytes,
        properties: bytes,
    ) -> None:
        self.tag = 0 if isinstance(method, spec.BasicReturn) else method.delivery_tag
        self.redelivered = not isinstance(method, spec.BasicReturn) and method.redelivered
        self.method = method
        self.body = body
        self._properties = properties

    def properties(self) -> Properties:
        """Its properties."""
        return decode_properties(self._properties, 0, len(self._properties))

    def headers(self) -> Table:
        """Its headers."""
        return self.properties().headers or {}


class Client:
    """A client with one connection and one channel; for its node it is the transport.

    Attributes:
        methods: Answers of the node, in order.
        messages: Messages, in order.
        rows: Contents of answers of class `table`, in order.
        acked, nacked: Publishes answered.
        blocked: Reasons of `connection.blocked`, and "" for each `connection.unblocked`.
    """

    def __init__(
        self,
        station: Station,
        heartbeat_s: int = 0,
        user: str = "guest",
        password: str = "",
        vhost: str = "/",
    ) -> None:
        """Begin to open a connection; an empty password is the user's name."""
        self.station = station
        self.login = f"\0{user}\0{password or user}".encode()
        self.vhost = vhost
        self.pair = station.pair
        self.heartbeat_s = heartbeat_s
        self.opened = False
        self.over = False
        self.deaf = False
        self.knows_cancels = True
        self.held = False
        self.outbox = bytearray()
        self.inbox: list[bytes] = []
        self.socket_bytes = 1 << 62
        """What its socket takes before the broker has to wait."""
        self.methods: list[spec.Method] = []
        self.messages: list[Got] = []
        self.rows: list[bytes] = []
        self.acked: set[int] = set()
        self.nacked: set[int] = set()
        self.blocked: list[str] = []
        self.published = 0
        self._settled_to = 0
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._content: tuple[spec.Method, int, bytes] | None = None
        self._properties = b""
        self.end = Connection(station.node, self, "127.0.0.1", 0)
        station.node.accept(self.end)
        self.outbox += PROTOCOL_HEADER

    # The transport.

    def write(self, data: bytes) -> None:
        self.inbox.append(data)
        if sum(map(len, self.inbox)) > self.socket_bytes:
            self.end.set_writable(False)

    def close(self) -> None:
        self.over = True

    def abort(self) -> None:
        self.over = True

    def pause_reading(self) -> None:
        self.held = True

    def resume_reading(self) -> None:
        self.held = False

    # The client.

    def exchange(self) -> None:
        """Hand bytes over, both ways."""
        if self.outbox and not self.over and not self.held:
            data = bytes(self.outbox)
            self.outbox.clear()
            self.end.receive(data)
        if self.deaf:
            if self.inbox:
                self.end.set_writable(False)
            return
        self.end.set_writable(True)
        if self.inbox:
            self._reader.feed(b"".join(self.inbox))
            self.inbox = []
            while self._reader.next():
                self._frame()

    def vanish(self) -> None:
        """The connection is cut."""
        self.over = True
        self.station.clients.remove(self)
        self.end.lost()

    def send(self, method: spec.Method) -> None:
        self.outbox += method_frame(1, method.encode())

    def call(self, method: spec.Method) -> spec.Method:
        """Send a method and wait for its answer, which may be that the channel is closed."""
        seen = len(self.methods)
        self.send(method)
        self.pair.until(lambda: len(self.methods) > seen)
        return self.methods[seen]

    def declare(
        self,
        name: str,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        passive: bool = False,
        kind: str = "classic",
        size: int = 0,
    ) -> spec.Method:
        """Declare a queue; a quorum queue of so many members, or as many as by default."""
        arguments: Table = {"x-queue-type": kind}
        if size:
            arguments["x-quorum-initial-group-size"] = size
        return self.call(
            spec.QueueDeclare(0, name, passive, durable, exclusive, auto_delete, False, arguments)
        )

    def publish(
        self, name: str, body: bytes, persistent: bool = True, expiration: str | None = None
    ) -> None:
        self.published += 1
        properties = b"\x10\x00\x02" if persistent else b"\x00\x00"
        if expiration is not None:
            text = expiration.encode()
            delivery_mode = b"\x11\x00\x02" if persistent else b"\x01\x00"
            properties = delivery_mode + bytes([len(text)]) + text
        method = spec.BasicPublish(0, "", name, False, False)
        self.outbox += content_frames(1, method, properties, body, 131_072)

    def publish_confirmed(self, name: str, count: int) -> None:
        """Publish messages that are their numbers, and wait for their confirms."""
        if not self.published:
            self.call(spec.ConfirmSelect(False))
        for number in range(self.published + 1, self.published + count + 1):
            self.publish(name, b"%d" % number)
        self.pair.until(lambda: len(self.acked) == self.published)

    def consume(self, name: str, no_ack: bool = False, exclusive: bool = False) -> spec.Method:
        arguments: Table = {}
        return self.call(spec.BasicConsume(0, name, "", False, no_ack, exclusive, False, arguments))

    def get(self, name: str) -> Got | None:
        """`basic.get`."""
        seen = len(self.methods)
        count = len(self.messages)
        self.send(spec.BasicGet(0, name, False))
        self.pair.until(lambda: len(self.methods) > seen or len(self.messages) > count)
        return self.messages.pop() if len(self.messages) > count else None

    def ack(self, tag: int, multiple: bool = False) -> None:
        self.send(spec.BasicAck(tag, multiple))

    def qos(self, count: int, shared: bool = False) -> None:
        assert isinstance(self.call(spec.BasicQos(0, count, shared)), spec.BasicQosOk)

    def bodies(self) -> list[bytes]:
        return [got.body for got in self.messages]

    def _frame(self) -> None:
        reader = self._reader
        kind, data = int(reader.kind), reader.buffer[int(reader.start) : int(reader.end)]
        if kind == 1:
            method = spec.decode_method(data, 0, len(data))
            if method.HAS_CONTENT:
                self._content = (method, -1, b"")
            else:
                self._method(method)
        elif kind == 2:
            assert self._content is not None
            size = int.from_bytes(data[4:12], "big")
            self._properties = data[12:]
            self._take(self._content[0], size, b"")
        elif kind == 3:
            assert self._content is not None
            method, size, body = self._content
            self._take(method, size, body + data)

    def _take(self, method: spec.Method, size: int, body: bytes) -> None:
        self._content = (method, size, body)
        if len(body) == size:
            if isinstance(method, spec.TableReadOk):
                self.rows.append(body)
                return
            if isinstance(
                method,
                (
                    spec.TableStatusOk,
                    spec.TableCheckoutsOk,
                    spec.TableCheckoutOk,
                    spec.TableGroupsOk,
                    spec.TableHeldOk,
                    spec.TableQueuesOk,
                    spec.TableMessagesOk,
                    spec.TableRetakeOk,
                ),
            ):
                self.rows.append(body)
                self.methods.append(method)
                return
            assert isinstance(method, (spec.BasicDeliver, spec.BasicGetOk, spec.BasicReturn))
            self.messages.append(Got(method, body, self._properties))

    def _method(self, method: spec.Method) -> None:
        if isinstance(method, spec.ConnectionStart):
            capabilities: Table = {
                "consumer_cancel_notify": self.knows_cancels,
                "basic.nack": True,
                "connection.blocked": True,
            }
            ok = spec.ConnectionStartOk({"capabilities": capabilities}, "PLAIN", self.login)
            self.outbox += method_frame(0, ok.encode())
        elif isinstance(method, spec.ConnectionTune):
            tune = spec.ConnectionTuneOk(method.channel_max, 131_072, self.heartbeat_s)
            self.outbox += method_frame(0, tune.encode())
            self.outbox += method_frame(0, spec.ConnectionOpen(self.vhost).encode())
        elif isinstance(method, spec.ConnectionOpenOk):
            self.send(spec.ChannelOpen())
        elif isinstance(method, spec.ConnectionBlocked):
            self.blocked.append(method.reason)
        elif isinstance(method, spec.ConnectionUnblocked):
            self.blocked.append("")
        elif isinstance(method, spec.ChannelOpenOk):
            self.opened = True
        elif isinstance(method, (spec.BasicAck, spec.BasicNack)):
            answered = self.acked if isinstance(method, spec.BasicAck) else self.nacked
            first = self._settled_to + 1 if method.multiple else method.delivery_tag
            others = self.acked | self.nacked
            for tag in range(first, method.delivery_tag + 1):
                if tag not in others:
                    answered.add(tag)
            while self._settled_to + 1 in self.acked or self._settled_to + 1 in self.nacked:
                self._settled_to += 1
        else:
            if isinstance(method, spec.ChannelClose):
                self.send(spec.ChannelCloseOk())
                self.send(spec.ChannelOpen())
            self.methods.append(method)


def three_with_messages(name: str, minds_seconds: bool = False) -> Pair:
    """Nodes a, b and c; all three vote in a quorum queue with five messages."""
    pair = Pair()
    pair.minds_seconds = minds_seconds
    pair.add("c")
    client = pair.a.client()
    assert isinstance(client.declare(name, kind="quorum"), spec.QueueDeclareOk)
    client.publish_confirmed(name, 5)
    return pair
