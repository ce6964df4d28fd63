"""Clusters of real processes on the loopback, for tests."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingConnection

from tests.clients.support import eventually
from tests.cluster.status import cluster_status
from tests.support.broker import Broker, free_port
from tests.support.patience import patient
from warren.admin.cli.asking import Contact
from warren.config.identity import SECRET_FILE, read_identity, read_secret

QUORUM = {"x-queue-type": "quorum"}
WAIT_S = patient(20.0)
COMMAND_SECONDS_MAX = patient(30.0)


class Node:
    """One node of a cluster.

    Attributes:
        name: Its name.
        broker: Its process.
        cluster_port: Where other nodes reach it.
    """

    def __init__(self, name: str, broker: Broker, cluster_port: int) -> None:
        self.name = name
        self.broker = broker
        self.cluster_port = cluster_port

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect."""
        return (self.broker.host, self.broker.port)

    @property
    def contact(self) -> str:
        """What `--join` wants."""
        return f"{self.broker.host}:{self.cluster_port}"

    @property
    def folder(self) -> Path:
        """Its data directory."""
        assert self.broker.data_dir is not None
        return self.broker.data_dir

    def connect(self, vhost: str = "/") -> BlockingConnection:
        """A pika connection."""
        return BlockingConnection(
            pika.ConnectionParameters(
                *self.address, vhost, heartbeat=0, blocked_connection_timeout=30
            )
        )

    def command(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `warren` for this node."""
        return subprocess.run(
            [sys.executable, "-m", "warren", name, "--data-dir", str(self.folder), *words],
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
        )

    def done(self, name: str, *words: str) -> str:
        """Run a command that has to be done; what it prints."""
        result = self.command(name, *words)
        assert result.returncode == 0, result.stderr + result.stdout
        return result.stdout.strip()

    def warren(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `warren cluster`."""
        return self.command("cluster", *words)

    def status(self) -> dict[str, Any]:
        """The cluster as this node sees it, which `warren cluster status --json` prints.

        Asked from here, many times in most tests, where a command takes half a second to start.
        """
        identity = read_identity(str(self.folder))
        assert identity is not None
        secret = read_secret(self.folder / SECRET_FILE)
        done, found = cluster_status(Contact(*identity.address, secret.encode(), None))
        assert done == "ok", found
        return dict(found)

    def says(self, text: str) -> None:
        """Wait until its log has a text."""
        eventually(lambda: text in self.broker.log_text(), WAIT_S)


class Cluster:
    """Nodes that make one cluster.

    Attributes:
        nodes: In the order in which they were made.
        secret: The file with their secret.
    """

    def __init__(self, make: Callable[..., Broker], folder: Path) -> None:
        self.nodes: list[Node] = []
        self.secret = folder / "cluster-secret"
        self.secret.write_text("the secret of this test's cluster".replace(" ", "-"))
        self._make = make

    def new(self, name: str, *options: str, port: int = 0) -> Node:
        """A node that is not started yet."""
        port = port or free_port()
        words = ["--node-name", f"{name}@localhost", "--cluster-port", str(port)]
        words += ["--secret-file", str(self.secret), *options]
        node = Node(f"{name}@localhost", self._make(*words), port)
        self.nodes.append(node)
        return node

    def start(self, count: int, *options: str) -> list[Node]:
        """Start so many nodes, of which all but the first join that one."""
        first = self.new("n1", *options)
        first.broker.start()
        others = [
            self.new(f"n{number}", "--join", first.contact, *options)
            for number in range(2, count + 1)
        ]
        for node in others:
            node.broker.launch()
        for node in others:
            node.broker.wait()
        self.settled()
        return self.nodes

    def restart_all(self) -> None:
        """Kill all nodes, start them together, and wait until clients may come."""
        for node in self.nodes:
            node.broker.kill()
        for node in self.nodes:
            node.broker.launch()
        for node in self.nodes:
            node.broker.wait()

    def settled(self, up: int = 0) -> None:
        """Wait until every node that runs sees so many running nodes (all), and a leader."""
        wanted = up or len(self.nodes)

        def agreed() -> bool:
            for node in self.nodes:
                if node.broker.running:
                    seen = node.status()
                    running = [row for row in seen["nodes"] if row["running"]]
                    if len(running) != wanted or not seen["leader"]:
                        return False
            return True

        eventually(agreed, WAIT_S)

    def leader(self, queue: str, ask: Node) -> Node:
        """The node that leads a queue, by what another one says; waits until there is one."""

        def found() -> str:
            for row in ask.status()["queues"]:
                if row["name"] == queue:
                    name: str = row["leader"]
                    return name
            return ""

        name = eventually(found, WAIT_S)
        return next(node for node in self.nodes if node.name == name)

    def others(self, node: Node) -> list[Node]:
        """All nodes but one."""
        return [other for other in self.nodes if other is not node]

    def check_alive(self) -> None:
        """No process has ended by itself."""
        for node in self.nodes:
            node.broker.check_alive()


def declare(node: Node, queue: str, **arguments: object) -> None:
    """Declare a quorum queue."""
    connection = node.connect()
    connection.channel().queue_declare(queue, durable=True, arguments={**QUORUM, **arguments})
    connection.close()


def seen_by(node: Node, queue: str) -> None:
    """Wait until a node has heard of a queue."""
    eventually(lambda: ready(node, queue) >= 0, WAIT_S)


def ready(node: Node, queue: str) -> int:
    """How many messages of a queue are ready, as a node sees it; -1 if it does not know it."""
    connection = node.connect()
    try:
        found: int = connection.channel().queue_declare(queue, passive=True).method.message_count
    except pika.exceptions.ChannelClosedByBroker as reply:
        assert reply.reply_code == 404
        found = -1
    connection.close()
    return found


def consumers(node: Node, queue: str) -> int:
    """How many consumers a queue has, as a node sees it."""
    connection = node.connect()
    found: int = connection.channel().queue_declare(queue, passive=True).method.consumer_count
    connection.close()
    return found


def wait_s(seconds: float) -> None:
    """Let time pass where that is the matter of the test."""
    time.sleep(seconds)
