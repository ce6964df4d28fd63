"""What it costs a node with many queues and connections to be watched.

    python -m bench.watched [--queues 100000] [--connections 10000] [--rate 1000] [--seconds 10]
                            [--warm 50] [--turns 1] [--only REGEX] [--peer] [--peer-base 5850]
                            [--nice] [--pause]

A node of its own has so many durable classic queues and so many connections, each with a channel,
that do nothing. Ten queues take messages of 256 bytes from one publisher, at the rate, and one
consumer settles them. Each row takes so many seconds; with it goes how long messages took from
publisher to consumer. Pages have 100 rows and are asked for ten times a second at most:

    nothing      nobody asks anything
    pages        `GET /api/queues?page=N&page_size=100`
    sorted       the same, sorted by how many messages queues have
    rates        the same, sorted by the rate of publishes
    names        the same, of queues whose names fit a pattern
    connections, channels, bindings
                 pages of these
    overview     `GET /api/overview`
    metrics      `GET /metrics`, once a second at most
    idle         no messages flow: what share of a core the node uses

With `--turns` all rows are measured so often, one after the other, and medians are shown behind
those of each turn. Before the first row messages flow for `--warm` seconds: a node that has just
got 100,000 queues has work of its own for half a minute, which writes down what each of them is.
`--peer` measures RabbitMQ 4.3 beside it, row by row; whichever is not measured stands still
meanwhile. It lies below `--peer-base`, a number of a port; what an earlier run left there is
deleted first, which may take many minutes where that had 100,000 queues: name another one then.
With `--nice` who asks gives way to all others on the machine, as if it were on another one.
`--pause` waits for a line on stdin between making all of that and measuring. Descriptors allow
about as many connections as `ulimit -n` says.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import multiprocessing
import multiprocessing.connection
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from pathlib import Path

import pika

from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import PROTOCOL_HEADER, method_frame

HOST = "127.0.0.1"
BODY_BYTES = 256
BUSY = 10
PAGE = 100
SORTED = "&sort={}&sort_reverse=true"
SETTLE_SECONDS = 1.0
"""For a broker that stood still to catch up."""
PEER_BASE = 5850
AT_ONCE = 50
"""Connections that are opened at a time."""
NICE = 15
TICK = os.sysconf("SC_CLK_TCK")
HEAD = (
    "| | | answers p50 ms | p99 | max | messages p50 ms | p99 | max | answers | messages |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


def free_port() -> int:
    """A port of the loopback that nobody listens on just now."""
    import socket

    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def rank(values: list[float], share: float) -> float:
    """The value below which such a share of values is."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def opening() -> bytes:
    """What a client sends to open a connection, all at once."""
    methods = (
        spec.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US"),
        spec.ConnectionTuneOk(2047, 131_072, 0),
        spec.ConnectionOpen("/", "", False),
    )
    frames = (method_frame(0, method.encode()) for method in methods)
    return PROTOCOL_HEADER + b"".join(frames)


async def connect(port: int, count: int) -> list[asyncio.StreamWriter]:
    """Open so many connections."""
    opened: list[asyncio.StreamWriter] = []
    done = method_frame(1, spec.ChannelOpenOk().encode())
    hello = opening() + method_frame(1, spec.ChannelOpen().encode())

    async def one() -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(hello)
        await reader.readuntil(done)
        opened.append(writer)

    for at in range(0, count, AT_ONCE):
        await asyncio.gather(*(one() for _ in range(min(AT_ONCE, count - at))))
    return opened


def parameters(port: int) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(HOST, port, heartbeat=0)


async def declare(port: int, count: int) -> None:
    """Declare so many queues."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(opening() + method_frame(1, spec.ChannelOpen().encode()))
    for number in range(count):
        last = number == count - 1
        name = f"queue-{number:06}"
        method = spec.QueueDeclare(0, name, False, True, False, False, not last, {})
        writer.write(method_frame(1, method.encode()))
        if number % 1_000 == 0:
            await writer.drain()
    await reader.readuntil(method_frame(1, spec.QueueDeclareOk(name, 0, 0).encode()))
    writer.close()


def traffic(port: int, rate: int, told: multiprocessing.connection.Connection) -> None:
    """Publish and consume until told to end; at each word, send how long messages took since."""
    consumer = pika.BlockingConnection(parameters(port))
    publisher = pika.BlockingConnection(parameters(port))
    took: list[float] = []
    channel = consumer.channel()
    channel.basic_qos(prefetch_count=200)

    def on_message(of: object, method: pika.spec.Basic.Deliver, _: object, body: bytes) -> None:
        took.append(time.monotonic() - float(body[:20]))
        channel.basic_ack(method.delivery_tag)

    for number in range(BUSY):
        channel.basic_consume(f"queue-{number:06}", on_message)
    out = publisher.channel()
    began, sent = time.monotonic(), 0
    while True:
        if told.poll():
            word = told.recv()
            if word == "end":
                break
            if word == "pause":
                if told.recv() == "end":
                    break
                began, sent = time.monotonic(), 0
                continue
            told.send(took[:])
            took.clear()
        due = int((time.monotonic() - began) * rate)
        for _ in range(min(due - sent, 50)):
            stamp = f"{time.monotonic():<20.9f}".encode()
            out.basic_publish("", f"queue-{sent % BUSY:06}", stamp.ljust(BODY_BYTES))
            sent += 1
        consumer.process_data_events(0.001)
    publisher.close()
    consumer.close()


def processor_seconds(pid: int) -> float:
    """What a process has used of processors."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Watcher:
    """Asks the node over HTTP, on a connection that stays."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=60)
        token = b64encode(b"guest:guest").decode()
        self._headers = {"authorization": f"Basic {token}"}

    def ask(self, path: str) -> int:
        """Ask; how many bytes came."""
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status == 200, (path, answer.status, content[:200])
        return len(content)


def asked(watcher: Watcher, paths: list[str], seconds: float, every: float) -> list[float]:
    """Ask one path after the other; how long each answer took, in seconds."""
    took: list[float] = []
    until = time.monotonic() + seconds
    while (began := time.monotonic()) < until:
        watcher.ask(paths[len(took) % len(paths)])
        took.append(time.monotonic() - began)
        time.sleep(max(0.0, every - took[-1]))
    return took


Figures = list[float]
"""Of one turn: p50, p99 and the most of answers and of messages in ms, and how many there were."""


def figures_of(answers: list[float], messages: list[float]) -> Figures:
    """What one turn of a row has come to; no answers took no time."""
    return [
        *(
            1_000 * rank(values, share) if values else 0.0
            for values in (answers, messages)
            for share in (0.5, 0.99, 1.0)
        ),
        len(answers),
        len(messages),
    ]


def row(name: str, broker: str, figures: Figures) -> str:
    *times, answers, messages = figures
    cells = [f"{each:.1f}" for each in times]
    if not answers:
        cells[:3] = "---"
    return f"| {' | '.join([name, broker, *cells])} | {answers:.0f} | {messages:.0f} |"


class Broker:
    """One broker that is watched, with everything made in it.

    Attributes:
        name: What the table calls it.
        ports: Of AMQP, of the HTTP API, and of Prometheus.
        pids: Its processes.
    """

    def __init__(self, name: str, ports: list[int], pids: list[int]) -> None:
        self.name = name
        self.ports = ports
        self.pids = pids
        self._opened: list[asyncio.StreamWriter] = []

    async def fill(self, options: argparse.Namespace) -> None:
        """Declare the queues and open the connections, each with a channel."""
        began = time.monotonic()
        await declare(self.ports[0], options.queues)
        declared = time.monotonic() - began
        self._opened = await connect(self.ports[0], options.connections)
        took = time.monotonic() - began - declared
        print(
            f"{self.name}: {options.queues} queues in {declared:.0f} s, "
            f"{len(self._opened)} connections in {took:.0f} s",
            flush=True,
        )

    def pause(self) -> None:
        """Leave the processors to the other broker."""
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Be measured."""
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)

    def used_seconds(self) -> float:
        """What it has used of processors."""
        return sum(processor_seconds(pid) for pid in self.pids)


def rows_of(
    options: argparse.Namespace, ports: list[int]
) -> dict[str, tuple[int, list[str], float]]:
    """The port, the paths and the pause of each row that asks something."""

    def pages(path: str, count: int, more: str = "") -> list[str]:
        some = max(1, count // PAGE)
        return [f"{path}?page={1 + 7 * n % some}&page_size={PAGE}{more}" for n in range(some)]

    queues, connections = options.queues, options.connections
    rate = "message_stats.publish_details.rate"
    return {
        "pages": (ports[1], pages("/api/queues", queues), 0.1),
        "sorted": (ports[1], pages("/api/queues", queues, SORTED.format("messages")), 0.1),
        "rates": (ports[1], pages("/api/queues", queues, SORTED.format(rate)), 0.1),
        "names": (ports[1], pages("/api/queues", 100, "&name=-0001&use_regex=true"), 0.1),
        "connections": (ports[1], pages("/api/connections", connections), 0.1),
        "channels": (ports[1], pages("/api/channels", connections), 0.1),
        "bindings": (ports[1], pages("/api/bindings", queues), 0.1),
        "overview": (ports[1], ["/api/overview"], 0.1),
        "metrics": (ports[2], ["/metrics"], 1.0),
    }


def measure(options: argparse.Namespace, brokers: list[Broker]) -> None:
    """Print all rows, each of one broker after the other."""
    flows = []
    for broker in brokers:
        ours, theirs = multiprocessing.Pipe()
        busy = multiprocessing.Process(target=traffic, args=(broker.ports[0], options.rate, theirs))
        busy.start()
        flows.append((broker, ours, busy))
    print(HEAD)
    if options.nice:
        os.nice(NICE)
    time.sleep(options.warm)
    for broker, ours, _ in flows:
        ours.send("tell")
        ours.recv()
        ours.send("pause")
        broker.pause()
    names = ["nothing", *rows_of(options, brokers[0].ports)]
    wanted = [name for name in names if re.search(options.only, name)]
    turns: dict[tuple[str, str], list[Figures]] = {}
    for name in wanted * options.turns:
        for broker, ours, _ in flows:
            broker.go_on()
            ours.send("go on")
            time.sleep(SETTLE_SECONDS)
            answers: list[float] = []
            if name == "nothing":
                ours.send("tell")
                ours.recv()
                time.sleep(options.seconds)
            else:
                port, paths, every = rows_of(options, broker.ports)[name]
                watcher = Watcher(port)
                watcher.ask(paths[0])
                ours.send("tell")
                ours.recv()
                answers = asked(watcher, paths, options.seconds, every)
            ours.send("tell")
            found = figures_of(answers, ours.recv())
            print(row(name, broker.name, found), flush=True)
            turns.setdefault((name, broker.name), []).append(found)
            ours.send("pause")
            broker.pause()
    if options.turns > 1:
        print(f"\nMedians of {options.turns} turns:\n\n{HEAD}")
        for (name, broker_name), several in turns.items():
            medians = [statistics.median(each) for each in zip(*several, strict=True)]
            print(row(name, broker_name, medians), flush=True)
    for broker, ours, busy in flows:
        broker.go_on()
        ours.send("end")
        busy.join()
        used = broker.used_seconds()
        time.sleep(options.seconds)
        used = broker.used_seconds() - used
        print(f"{broker.name}, idle: {100 * used / options.seconds:.1f} % of a core", flush=True)
        broker.pause()


async def started(folder: Path) -> tuple[Broker, subprocess.Popen[bytes]]:
    """A node of Warren with nothing in it."""
    ports = [free_port() for _ in range(3)]
    words = ["--data-dir", str(folder / "data"), "--bind", HOST, "--port", str(ports[0])]
    words += ["--management-port", str(ports[1]), "--set", f"prometheus.tcp.port={ports[2]}"]
    with (folder / "log").open("wb") as log:
        node = subprocess.Popen(
            [sys.executable, "-m", "warren", "server", *words], stdout=log, stderr=log
        )
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            (await asyncio.open_connection(HOST, ports[0]))[1].close()
            break
        except OSError:
            await asyncio.sleep(0.1)
    return Broker("Warren", ports, [node.pid]), node


def peer(base: int, word: str) -> str:
    """What `bench/peer rabbit` says to a word."""
    environment = {
        **os.environ,
        "BASE": str(base),
        "PLUGINS": "rabbitmq_management,rabbitmq_prometheus",
        "EXTRA_CONF": f"prometheus.tcp.port = {base + 2}",
    }
    command = [str(Path(__file__).parent / "peer"), "rabbit", word]
    # A file, since what it starts may go on to hold a pipe.
    with tempfile.TemporaryFile("w+") as said:
        subprocess.run(command, check=True, env=environment, stdout=said)
        said.seek(0)
        return said.read()


def peer_started(base: int) -> Broker:
    """A node of RabbitMQ with nothing in it."""
    peer(base, "start")
    ports = [base + 1, base + 10_001, base + 2]
    return Broker("RabbitMQ", ports, [int(pid) for pid in peer(base, "pids").split()])


async def watched(options: argparse.Namespace, folder: Path) -> None:
    warren, node = await started(folder)
    brokers = [warren]
    try:
        await warren.fill(options)
        if options.peer:
            warren.pause()
            brokers.append(peer_started(options.peer_base))
            await brokers[1].fill(options)
            warren.go_on()
        if options.pause:
            print("ready", flush=True)
            sys.stdin.readline()
        measure(options, brokers)
    finally:
        for broker in brokers:
            broker.go_on()
        node.send_signal(signal.SIGTERM)
        node.wait()
        if options.peer:
            peer(options.peer_base, "stop")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--warm", type=float, default=50.0)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--peer-base", type=int, default=PEER_BASE)
    parser.add_argument("--nice", action="store_true")
    parser.add_argument("--pause", action="store_true")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(watched(options, Path(folder)))


if __name__ == "__main__":
    main()
