"""What many queues cost a node: each declare, the longest turn of the loop, idleness, memory.

    python -m bench.queues [--counts 1000,16000,100000] [--nodes 1] [--dir DIR] [ROW]...

    declare     half quorum, half durable classic queues are declared one by one,
                with a message each
    close       files of the log close, until all that this calls for is done
    idle        nobody does anything
    exclusive   a connection with as many queues of its own is gone
    down        one of several nodes ends, and is back
    restart     the node is killed and starts on its data
    delete      a client deletes all queues, one after the other

All rows without ROW, `down` with several nodes only. The nodes run in this process without sockets
or threads: clients and links are lists of bytes, files are real ones. A step is what an event loop
does before it looks at its sockets again: one event handled, or one turn of the node. Its cost is
the processor time of this thread, so that other work on the machine does not count. The collector
of cyclic garbage runs as in the server, ticks come with every 50 ms of that time at least, and the
longest part of a step that was the collector's is told, too. Jobs, which a server runs in threads,
run between steps; of them what they do outside of the kernel is counted, as the loop may have to
wait for it. Steps longer than 20 ms are counted, by kind.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random

from sim.clock import SeededRandom, VirtualClock
from warren import COMPILED
from warren.limits import FRAME_BYTES_MAX
from warren.log.config import LogConfig
from warren.node.cluster.links import ClusterListener
from warren.node.node import Node
from warren.ports import Job, PeerHello
from warren.protocols.amqp091.connection import Connection
from warren.protocols.broker import Settings
from warren.server.disk import OsDisk
from warren.server.garbage import Garbage
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import PROTOCOL_HEADER, FrameReader, content_frames, method_frame
from warren.wire.amqp091.table import Table

ROWS = ("declare", "close", "idle", "exclusive", "down", "restart", "delete")
TICK_MS = 50
LONG_SECONDS = 0.02
STEPS_MAX = 3_000_000
CHUNK_BYTES = 262_144
"""What a link hands over at a time, as a socket does."""
FILE_BYTES = 64 * 1024 * 1024
BODY_BYTES = 131_072
IDLE_SECONDS = 10


class Collector:
    """How long the collector of cyclic garbage took at a time, in seconds: the longest."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._began = 0.0
        gc.callbacks.append(self._heard)

    def _heard(self, phase: str, info: dict[str, int]) -> None:
        now = time.thread_time()
        if phase == "start":
            self._began = now
        else:
            self.longest = max(self.longest, now - self._began)


COLLECTOR = Collector()


class Meter:
    """The cost of steps, by kind: how many, the longest and the sum in seconds.

    Attributes:
        untold: What steps cost since the last tick.
    """

    def __init__(self) -> None:
        self.untold = 0.0
        self.longest: dict[str, float] = {}
        self.total: dict[str, float] = {}
        self.long: dict[str, int] = {}
        self.longest_job = 0.0
        self.longest_job_kind = ""

    def step(self, kind: str, work: Callable[..., object], *words: object) -> None:
        """Do one step."""
        began = time.thread_time()
        work(*words)
        cost = time.thread_time() - began
        self.untold += cost
        self.total[kind] = self.total.get(kind, 0.0) + cost
        if cost > self.longest.get(kind, 0.0):
            self.longest[kind] = cost
        if cost > LONG_SECONDS:
            self.long[kind] = self.long.get(kind, 0) + 1

    def job(self, job: Job) -> None:
        """Do what a thread would."""
        began = resource.getrusage(resource.RUSAGE_THREAD).ru_utime
        job.run()
        cost = resource.getrusage(resource.RUSAGE_THREAD).ru_utime - began
        if cost > self.longest_job:
            self.longest_job = cost
            self.longest_job_kind = type(job).__name__

    @property
    def cost(self) -> float:
        """Seconds of all steps so far."""
        return sum(self.total.values())

    def worst(self) -> str:
        """The longest steps, in words, and the longest job."""
        kinds = sorted(self.longest, key=lambda name: -self.longest[name])[:3]
        steps = ", ".join(f"{1000 * self.longest[kind]:.1f} ms ({kind})" for kind in kinds)
        long = ", ".join(f"{count} ({kind})" for kind, count in self.long.items()) or "none"
        return (
            f"longest steps {steps}; over {1000 * LONG_SECONDS:.0f} ms: {long}; "
            f"collector {1000 * COLLECTOR.longest:.1f} ms, "
            f"job {1000 * self.longest_job:.1f} ms ({self.longest_job_kind})"
        )

    def begin(self) -> None:
        """Count from here on."""
        self.longest = {}
        self.total = {}
        self.long = {}
        self.longest_job = 0.0
        self.longest_job_kind = ""
        COLLECTOR.longest = 0.0


class Jobs:
    """Runs jobs between steps; see `warren.ports.Executor`."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._waiting: deque[Job] = deque()

    def submit(self, lane: str, job: Job) -> None:
        """Queue a job."""
        self._waiting.append(job)

    def run(self) -> bool:
        """Run one and report it; False if there is none."""
        if not self._waiting:
            return False
        job = self._waiting.popleft()
        self._meter.job(job)
        self._meter.step(f"after {type(job).__name__}", job.done, None)
        return True


class Links:
    """One node's links; see `warren.ports.Peers`."""

    def __init__(self, station: Station) -> None:
        self._station = station
        self.waiting: dict[str, deque[bytes]] = {}
        self.queued: dict[str, int] = {}
        """Bytes of those."""
        self.dialled: set[str] = set()

    def send(self, peer: str, message: list[bytes]) -> bool:
        """Queue a message."""
        link = self.waiting.get(peer)
        if link is None:
            return False
        data = b"".join(message)
        link.append(data)
        self.queued[peer] += len(data)
        self._station.sent_bytes += len(data)
        return True

    def backlog_bytes(self, peer: str) -> int:
        """Bytes not taken yet."""
        return self.queued.get(peer, 0)

    def dial(self, peer: str, host: str, port: int) -> None:
        """Have a link."""
        self.dialled.add(peer)

    def refuse(self, peer: str, reason: str) -> None:
        """Nothing is damaged here."""
        raise AssertionError(f"what {peer} sent is refused: {reason}")

    def forget(self, peer: str) -> None:
        """Have none."""
        self.dialled.discard(peer)

    def flush(self) -> None:
        """All is on its way."""


class Station:
    """One node, and what it stands on.

    Attributes:
        sent_bytes: What it sent to other nodes.
    """

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench = bench
        self.name = name
        self.root = bench.root / name
        self.root.mkdir()
        self.meter = Meter()
        self.alive = False
        self.boot = 0
        self.sent_bytes = 0
        self.clients: list[Client] = []

    def start(self) -> None:
        """Begin a life."""
        self.boot += 1
        settings = Settings(self.name)
        settings.node_uid = self.name.encode().ljust(16, b".")
        settings.cluster_host, settings.cluster_port = self.name, 1
        settings.join = self.name != "a"
        settings.log = LogConfig(wal_max_size_bytes=FILE_BYTES)
        settings.reconciles = True
        self.jobs = Jobs(self.meter)
        self.links = Links(self)
        self.node = Node(
            settings,
            self.bench.clock,
            SeededRandom(self.bench.random),
            OsDisk(self.root),
            self.jobs,
            lambda text: None,
            self.links,
        )
        self.garbage = Garbage(self.node, lambda: False)
        self.listener = ClusterListener(self.node.cluster)
        self.meter.step("recover", self.node.recover)
        self.alive = True
        if settings.join and self.boot == 1:
            self.links.dialled.add("a")

    def kill(self) -> None:
        """End it at once."""
        self.alive = False
        self.clients = []

    def turn(self) -> bool:
        """Take a turn if one is wanted."""
        if not self.node.needs_turn:
            return False
        self.meter.step("turn", self.node.turn)
        return True


class Bench:
    """Nodes of one cluster, with a clock that moves when nothing else does."""

    def __init__(self, root: Path, nodes: int) -> None:
        self.root = root
        self.random = Random(1)
        self.clock = VirtualClock()
        self.stations: dict[str, Station] = {}
        self._last_tick: dict[str, int] = {}
        for name in "abcdefg"[:nodes]:
            station = self.stations[name] = Station(self, name)
            station.start()
            self.until(lambda: all(one.node.ready for one in self.stations.values()))

    def step(self) -> None:
        """Let everybody go on; where nobody has anything to do, time passes."""
        busy = False
        self._link()
        for station in self.stations.values():
            if not station.alive:
                continue
            for client in station.clients:
                busy = client.exchange() or busy
            busy = self._carry(station) or busy
            busy = station.turn() or busy
            busy = station.jobs.run() or busy
            if station.node.deferring and not busy:
                station.meter.step("deferred", station.node.flush_deferred)
                busy = True
        spent = max(station.meter.untold for station in self.stations.values())
        if not busy or 1000 * spent >= TICK_MS:
            self.tick()

    def tick(self) -> None:
        """Time passes."""
        self.clock.advance(TICK_MS)
        for station in self.stations.values():
            station.meter.untold = 0.0
            if station.alive:
                station.meter.step("tick of log", station.node.tick_log)
                if station.name == "a":
                    station.meter.step("garbage", station.garbage.look)
                if self.clock.monotonic_ms() - self._last_tick.get(station.name, 0) >= 1_000:
                    self._last_tick[station.name] = self.clock.monotonic_ms()
                    station.meter.step("tick", station.node.tick, 0)

    def until(self, done: Callable[[], bool]) -> None:
        """Go on until something is so."""
        for _ in range(STEPS_MAX):
            if done():
                return
            self.step()
        raise RuntimeError("it did not come about")

    def settle(self, seconds: float) -> None:
        """Go on until so much time has passed, which it does when nothing is to be done."""
        end = self.clock.monotonic_ms() + 1000 * seconds
        self.until(lambda: self.clock.monotonic_ms() >= end)

    def _carry(self, source: Station) -> bool:
        carried = False
        for name, link in source.links.waiting.items():
            target = self.stations[name]
            if not link or not target.alive:
                continue
            carried = True
            batch: list[bytes] = []
            size = 0
            while link and size < CHUNK_BYTES:
                batch.append(link.popleft())
                size += len(batch[-1])
            source.links.queued[name] -= size
            target.meter.step("from a node", self._receive, source, target, batch)
        return carried

    def _receive(self, source: Station, target: Station, batch: list[bytes]) -> None:
        for message in batch:
            target.listener.received(source.name, message)

    def _link(self) -> None:
        for source in self.stations.values():
            for name in list(source.links.dialled if source.alive else ()):
                target = self.stations.get(name)
                if target is None or not target.alive or name == source.name:
                    continue
                if name not in source.links.waiting:
                    source.links.waiting[name] = deque()
                    source.links.queued[name] = 0
                    hello, other = self._hello(source), self._hello(target)
                    target.meter.step("link", target.listener.incoming, source.name, hello)
                    source.meter.step("link", source.listener.linked, target.name, other)

    def cut(self, gone: Station) -> None:
        """All links of a node break, and nobody listens there."""
        for other in self.stations.values():
            if other.alive and other.links.waiting.pop(gone.name, None) is not None:
                other.meter.step("link lost", other.listener.unlinked, gone.name)
                other.meter.step("link lost", other.listener.incoming_lost, gone.name)
                other.meter.step("node gone", other.listener.gone, gone.name)

    def _hello(self, station: Station) -> PeerHello:
        uid = station.node.settings.node_uid
        cluster_id = station.node.membership.cluster_id or bytes(16)
        return PeerHello(station.name, uid, cluster_id, station.boot, "1", 1)


class Client:
    """A client with one connection and one channel, and its transport."""

    def __init__(self, station: Station) -> None:
        self._station = station
        self._bench = station.bench
        self._outbox = bytearray()
        self._inbox: list[bytes] = []
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self.opened = False
        self.answers = 0
        self.end = Connection(station.node, self, "127.0.0.1", 0)
        station.node.accept(self.end)
        self._outbox += PROTOCOL_HEADER
        station.clients.append(self)
        self._bench.until(lambda: self.opened)

    def write(self, data: bytes) -> None:
        """Bytes from the node."""
        self._inbox.append(data)

    def close(self) -> None:
        """It is over."""

    def abort(self) -> None:
        """It is over."""

    def pause_reading(self) -> None:
        """The node is never in such a hurry here."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""

    def exchange(self) -> bool:
        """Hand bytes over, both ways; whether there were any."""
        busy = False
        if self._outbox:
            busy = True
            data = bytes(self._outbox[:CHUNK_BYTES])
            del self._outbox[:CHUNK_BYTES]
            self._station.meter.step("from a client", self.end.receive, data)
        if self._inbox:
            busy = True
            self._reader.feed(b"".join(self._inbox))
            self._inbox = []
            while self._reader.next():
                if self._reader.kind == 1:
                    start, end = int(self._reader.start), int(self._reader.end)
                    self._method(spec.decode_method(self._reader.buffer, start, end))
        return busy

    def _method(self, method: spec.Method) -> None:
        if isinstance(method, spec.ConnectionStart):
            login = spec.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")
            self._outbox += method_frame(0, login.encode())
        elif isinstance(method, spec.ConnectionTune):
            tune = spec.ConnectionTuneOk(2047, 131_072, 0).encode()
            self._outbox += method_frame(0, tune)
            self._outbox += method_frame(0, spec.ConnectionOpen("/").encode())
            self._outbox += method_frame(1, spec.ChannelOpen().encode())
        elif isinstance(method, spec.ChannelOpenOk):
            self.opened = True
        elif isinstance(method, (spec.ChannelClose, spec.ConnectionClose)):
            raise RuntimeError(f"{method.reply_code} {method.reply_text}")
        else:
            self.answers += 1

    def declare(self, name: str, kind: str, exclusive: bool = False) -> None:
        """Declare a queue, and wait for the answer."""
        arguments: Table = {"x-queue-type": kind}
        self.call(
            spec.QueueDeclare(0, name, False, not exclusive, exclusive, False, False, arguments)
        )

    def delete(self, name: str) -> None:
        """Delete a queue, and wait for the answer."""
        self.call(spec.QueueDelete(0, name, False, False, False))

    def send(self, data: bytes) -> None:
        """Send what takes no answer, or none that is waited for."""
        self._outbox += data
        if len(self._outbox) > CHUNK_BYTES:
            self._bench.until(lambda: not self._outbox)

    def call(self, method: spec.Method) -> None:
        """Send a method, and wait for the answer."""
        wanted = self.answers + 1
        self._outbox += method_frame(1, method.encode())
        self._bench.until(lambda: self.answers == wanted)

    def publish(self, name: str, size: int, count: int = 1) -> None:
        """Publish durable messages."""
        method = spec.BasicPublish(0, "", name, False, False)
        frames = content_frames(1, method, b"\x10\x00\x02", bytes(size), 131_072)
        for _ in range(count):
            self.send(frames)

    def vanish(self) -> None:
        """The connection is cut."""
        self._station.clients.remove(self)
        self._station.meter.step("client gone", self.end.lost)


def resident_bytes() -> int:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def queues_of(station: Station) -> int:
    """How many queues there are, as a node knows."""
    return sum(len(tables.queues) for tables in station.node.metadata.vhosts.values())


class Run:
    """One measurement with some number of queues."""

    def __init__(self, root: Path, count: int, nodes: int) -> None:
        self._count = count
        self._bench = Bench(root, nodes)
        self._home = self._bench.stations["a"]
        self._home.garbage.begin()

    def _begin(self) -> None:
        for station in self._bench.stations.values():
            station.meter.begin()

    def _report(self, row: str, text: str) -> None:
        stations = self._bench.stations.values()
        worst = max(stations, key=lambda one: max(one.meter.longest.values(), default=0.0))
        print(f"{self._count:>7} {row:<10} {text}; {worst.meter.worst()}", flush=True)

    def declare(self) -> None:
        """See the module's head."""
        memory = resident_bytes()
        client = Client(self._home)
        costs: list[float] = []
        self._begin()
        for number in range(self._count):
            before = sum(one.meter.cost for one in self._bench.stations.values())
            name = f"queue-{number}"
            client.declare(name, "classic" if number % 2 else "quorum")
            costs.append(sum(one.meter.cost for one in self._bench.stations.values()) - before)
            client.publish(name, 100)
        edge = min(100, self._count // 2)
        text = f"{1000 * sum(costs[:edge]) / edge:.2f} ms each for the first {edge}, "
        text += f"{1000 * sum(costs[-edge:]) / edge:.2f} ms for the last"
        each = (resident_bytes() - memory) / self._count / len(self._bench.stations)
        self._report("declare", f"{text}, {each / 1000:.1f} KB each")

    def close(self) -> None:
        """See the module's head."""
        client = Client(self._home)
        client.declare("filler", "classic")
        self._begin()
        first = max(self._numbers())
        while max(self._numbers()) < first + 2:
            client.publish("filler", BODY_BYTES, 64)
            self._bench.until(lambda: not self._home.node.needs_turn)
        self._bench.settle(60)
        cost = self._home.meter.cost
        left = len(self._numbers())
        self._report("close", f"{cost:.2f} s of processor time, {left} files left")

    def _numbers(self) -> list[int]:
        logs = (self._home.root / "log").glob("*.log")
        return [int(path.stem) for path in logs]

    def idle(self) -> None:
        """See the module's head."""
        self._bench.settle(5)
        self._begin()
        sent = sum(one.sent_bytes for one in self._bench.stations.values())
        self._bench.settle(IDLE_SECONDS)
        stations = self._bench.stations.values()
        share = sum(one.meter.cost for one in stations) / IDLE_SECONDS / len(stations)
        sent = sum(one.sent_bytes for one in stations) - sent
        text = f"{100 * share:.2f} % of a core a node"
        if len(stations) > 1:
            text += f", {sent / IDLE_SECONDS / 1000:.1f} KB/s on all links"
        self._report("idle", text)

    def exclusive(self) -> None:
        """See the module's head."""
        client = Client(self._home)
        before = queues_of(self._home)
        for number in range(self._count):
            client.declare(f"own-{number}", "classic", exclusive=True)
        self._begin()
        client.vanish()
        self._bench.until(lambda: queues_of(self._home) == before)
        cost = self._home.meter.cost
        self._report("exclusive", f"{1000 * cost / self._count:.3f} ms each to delete")

    def down(self) -> None:
        """See the module's head."""
        gone = self._bench.stations["b"]
        self._begin()
        gone.kill()
        self._bench.cut(gone)
        self._bench.settle(30)
        self._report("down", "until others lead")
        self._begin()
        gone.start()
        self._bench.until(lambda: gone.node.ready)
        self._bench.settle(10)
        recovered = gone.meter.longest.pop("recover", 0.0)
        self._report("back", f"recovered in {recovered:.2f} s")

    def restart(self) -> None:
        """See the module's head."""
        station = self._home
        if len(self._bench.stations) > 1:
            return
        station.kill()
        self._begin()
        began = time.perf_counter()
        station.start()
        recovered = station.meter.longest.pop("recover", 0.0)
        self._bench.until(lambda: station.node.ready)
        ready = time.perf_counter() - began
        station.garbage.begin()
        self._bench.settle(10)
        self._report("restart", f"recovered in {recovered:.2f} s, ready in {ready:.2f} s")

    def delete(self) -> None:
        """See the module's head."""
        client = Client(self._home)
        self._begin()
        for number in range(self._count):
            client.delete(f"queue-{number}")
        self._bench.settle(5)
        cost = sum(one.meter.cost for one in self._bench.stations.values())
        self._report("delete", f"{1000 * cost / self._count:.3f} ms each")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="bench.queues", description="see the module's head")
    parser.add_argument("--counts", default="1000,16000,100000")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--dir", type=Path, help="where files are put (a directory of its own)")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=" ".join(ROWS))
    words = parser.parse_args()
    rows = words.rows or [row for row in ROWS if row != "down" or words.nodes > 1]
    print(f"warren {'compiled' if COMPILED else 'pure'}, {words.nodes} nodes")
    for count in map(int, words.counts.split(",")):
        root = Path(tempfile.mkdtemp(prefix="warren-queues-", dir=words.dir))
        try:
            run = Run(root, count, words.nodes)
            for row in rows:
                getattr(run, row)()
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
