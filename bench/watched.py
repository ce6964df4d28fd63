"""What it costs a node with many queues and connections to be watched.

    python -m bench.watched [--queues 100000] [--connections 10000] [--rate 1000] [--seconds 10]
                            [--pause]

A node of its own has so many durable classic queues and so many connections that do nothing. Ten
queues take messages of 256 bytes from one publisher, at the rate, and one consumer settles them.
Each row takes so many seconds; with it goes how long messages took from publisher to consumer:

    nothing     nobody asks anything
    pages       pages of 100 queues are asked for, `GET /api/queues?page=N&page_size=100`, ten a
                second at most
    sorted      the same, sorted by how many messages queues have
    overview    `GET /api/overview`
    metrics     `GET /metrics`, once a second at most
    idle        no messages flow: what share of a core the node uses

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
import resource
import signal
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
AT_ONCE = 50
"""Connections that are opened at a time."""
TICK = os.sysconf("SC_CLK_TCK")


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
    done = method_frame(0, spec.ConnectionOpenOk("").encode())
    hello = opening()

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
            if told.recv() == "end":
                break
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


def row(name: str, answers: list[float], messages: list[float]) -> str:
    cells = [name]
    for values in (answers, messages):
        for share in (0.5, 0.99, 1.0):
            cells.append(f"{1_000 * rank(values, share):.1f}" if values else "-")
    return "| " + " | ".join([*cells, str(len(answers)), str(len(messages))]) + " |"


def measure(options: argparse.Namespace, ports: list[int], pid: int) -> None:
    """Print all rows."""
    ours, theirs = multiprocessing.Pipe()
    busy = multiprocessing.Process(target=traffic, args=(ports[0], options.rate, theirs))
    busy.start()

    def taken() -> list[float]:
        ours.send("tell")
        found: list[float] = ours.recv()
        return found

    pages = options.queues // PAGE
    queues = [f"/api/queues?page={1 + 7 * n % pages}&page_size={PAGE}" for n in range(pages)]
    rows: dict[str, tuple[int, list[str], float]] = {
        "pages": (ports[1], queues, 0.1),
        "sorted": (ports[1], [f"{path}&sort=messages&sort_reverse=true" for path in queues], 0.1),
        "overview": (ports[1], ["/api/overview"], 0.1),
        "metrics": (ports[2], ["/metrics"], 1.0),
    }
    print("| | answers p50 ms | p99 | max | messages p50 ms | p99 | max | answers | messages |")
    print("|---|---|---|---|---|---|---|---|---|")
    time.sleep(2)
    taken()
    time.sleep(options.seconds)
    print(row("nothing", [], taken()), flush=True)
    for name, (port, paths, every) in rows.items():
        watcher = Watcher(port)
        watcher.ask(paths[0])
        taken()
        answers = asked(watcher, paths, options.seconds, every)
        print(row(name, answers, taken()), flush=True)
    ours.send("end")
    busy.join()
    used = processor_seconds(pid)
    time.sleep(options.seconds)
    used = processor_seconds(pid) - used
    print(f"idle: {100 * used / options.seconds:.1f} % of a core")


async def watched(options: argparse.Namespace, folder: Path) -> None:
    ports = [free_port() for _ in range(3)]
    words = ["--data-dir", str(folder / "data"), "--bind", HOST, "--port", str(ports[0])]
    words += ["--management-port", str(ports[1]), "--set", f"prometheus.tcp.port={ports[2]}"]
    with (folder / "log").open("wb") as log:
        node = subprocess.Popen(
            [sys.executable, "-m", "warren", "server", *words], stdout=log, stderr=log
        )
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                (await asyncio.open_connection(HOST, ports[0]))[1].close()
                break
            except OSError:
                await asyncio.sleep(0.1)
        began = time.monotonic()
        await declare(ports[0], options.queues)
        print(f"{options.queues} queues in {time.monotonic() - began:.0f} s", flush=True)
        began = time.monotonic()
        opened = await connect(ports[0], options.connections)
        print(f"{len(opened)} connections in {time.monotonic() - began:.0f} s", flush=True)
        if options.pause:
            print("ready", flush=True)
            sys.stdin.readline()
        measure(options, ports, node.pid)
    finally:
        node.send_signal(signal.SIGTERM)
        node.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--pause", action="store_true")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(watched(options, Path(folder)))


if __name__ == "__main__":
    main()
