"""A cluster whose nodes have a network namespace each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.clients.support import eventually
from tests.cluster.chaos.net import Net, address
from tests.cluster.nodes import QUORUM, Cluster, Node
from tests.cluster.status import cluster_status
from tests.support.broker import Broker
from warren.admin.cli.asking import Contact
from warren.errors import BrokerError

CLIENT_PORT = 5672
CLUSTER_PORT = 25672
HEALED_S = 60.0
SECRET = "the-secret-of-this-lab"

DISCONNECTED_MS = 500


class Lab:
    """The cluster, its network, and what is seen of it.

    Args:
        folder: For the nodes' data and logs.
        count: How many nodes.
        options: Further ones of all nodes.

    Attributes:
        net: The network.
        cluster: The nodes.
        frozen: Names of nodes that stand still.
    """

    def __init__(self, folder: Path, count: int, *options: str) -> None:
        self.net = Net()
        self.frozen: set[str] = set()
        self._folder = folder
        self._made: list[Broker] = []
        self.cluster = Cluster(self._make, folder)
        self.cluster.secret.write_text(SECRET)
        for place in range(1, count + 1):
            self.net.add(place)
            words = [] if place == 1 else ["--join", f"{address(1)}:{CLUSTER_PORT}"]
            words += ["--cluster-host", address(place), "--set", "loopback_users.guest=false"]
            # Faults take seconds, and what consumers hold is to come again within some of them.
            words += ["--set", f"consumer_disconnected_timeout={DISCONNECTED_MS}"]
            words += options
            self.cluster.new(f"n{place}", *words, port=CLUSTER_PORT)

    def _make(self, *options: str) -> Broker:
        place = len(self._made) + 1
        broker = Broker(
            CLIENT_PORT, self._folder / f"n{place}", host=address(place), options=list(options)
        )
        broker.prefix = self.net.inside(place)
        self._made.append(broker)
        return broker

    def start(self) -> None:
        """Have them make one cluster."""
        nodes = self.cluster.nodes
        nodes[0].broker.start()
        for node in nodes[1:]:
            node.broker.launch()
        for node in nodes[1:]:
            node.broker.wait()
        self.whole([])

    def close(self) -> None:
        """End it all."""
        for broker in self._made:
            broker.kill()
        self.net.close()

    def place(self, node: Node) -> int:
        """A node's place in the network."""
        return self.cluster.nodes.index(node) + 1

    def status(self, node: Node) -> dict[str, Any] | None:
        """The cluster as a node sees it; None if it says nothing."""
        if node.name in self.frozen or not node.broker.running:
            return None
        try:
            where = Contact(node.broker.host, CLUSTER_PORT, SECRET.encode(), None)
            answer = cluster_status(where)
        except (OSError, BrokerError):
            return None
        found: dict[str, Any] = answer[1]
        return found

    def whole(self, queues: list[str]) -> None:
        """Wait until every node sees all nodes, and a leader of each queue that all agree on."""
        eventually(lambda: self._agreed(queues), HEALED_S)

    def _agreed(self, queues: list[str]) -> bool:
        leaders: dict[str, str] = {}
        for node in self.cluster.nodes:
            seen = self.status(node)
            if seen is None or not seen["leader"]:
                return False
            if sum(row["running"] for row in seen["nodes"]) < len(self.cluster.nodes):
                return False
            rows = {row["name"]: row["leader"] for row in seen["queues"]}
            for queue in queues:
                leader = rows.get(queue, "")
                if not leader or leaders.setdefault(queue, leader) != leader:
                    return False
        return True

    def leader(self, queue: str) -> Node:
        """The node that leads a queue, when the cluster is whole; a change may be under way."""

        def found() -> str:
            seen = self.status(self.cluster.nodes[0])
            if seen is None:
                return ""
            (name,) = (row["leader"] for row in seen["queues"] if row["name"] == queue)
            return str(name)

        name = eventually(found, HEALED_S)
        return next(node for node in self.cluster.nodes if node.name == name)

    def places(self, queue: str) -> list[int]:
        """Where clients of a queue may be, counted from 0: first where it has no member."""
        seen = self.status(self.cluster.nodes[0])
        assert seen is not None, "the cluster is whole when it is asked who holds a queue"
        (members,) = (row["members"] for row in seen["queues"] if row["name"] == queue)
        held = [node.name in members for node in self.cluster.nodes]
        return sorted(range(len(held)), key=lambda place: held[place])

    def declare(self, queue: str, voters: int) -> None:
        """Declare a quorum queue, and wait until every node knows it."""
        connection = self.cluster.nodes[0].connect()
        arguments = {**QUORUM, "x-quorum-initial-group-size": voters}
        connection.channel().queue_declare(queue, durable=True, arguments=arguments)
        connection.close()
        self.whole([queue])

    def ready(self, queue: str) -> int:
        """How many messages of a queue are ready, on the node where most are."""
        counts = []
        for node in self.cluster.nodes:
            connection = node.connect()
            declared = connection.channel().queue_declare(queue, passive=True)
            counts.append(declared.method.message_count)
            connection.close()
        return max(counts)
