"""Nodes that were away, that are new, and a cluster that starts as a whole, with a backlog.

The log's files are small here, so that what a node lacks is long covered by snapshots.
`bench/recovery.py` measures the same with a million messages.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Cluster, Node, consumers, declare, ready
from tests.cluster.traffic import Publisher
from tests.support.broker import HOST, Broker
from warren.client import PERSISTENT, connect
from warren.protocols.peer.hello import MAGIC, VERSION_NUMBER

QUEUE = "orders"
SMALL_FILES = ("--set", "raft.wal_max_size_bytes=1048576")
BACKLOG = 30_000
BODY_BYTES = 100
TAKEN = 10_000
PREFETCH = 1_000


def bodies(first: int, behind: int) -> list[bytes]:
    """Messages that tell which they are."""
    return [b"m:%d" % number + b"." * BODY_BYTES for number in range(first, behind)]


def fill(node: Node, first: int, behind: int) -> None:
    """Publish them with confirms."""
    with connect(node.broker.url) as connection:
        channel = connection.channel()
        channel.confirm_select()
        assert channel.publish_many("", QUEUE, bodies(first, behind), PERSISTENT) == []


def take(node: Node, count: int) -> list[bytes]:
    """Consume and acknowledge so many messages, of which there may be more."""
    got: list[bytes] = []
    with connect(node.broker.url) as connection:
        channel = connection.channel()
        channel.qos(PREFETCH)
        channel.consume(QUEUE)
        while len(got) < count:
            deliveries = channel.receive(min(PREFETCH, count - len(got)), WAIT_S)
            assert deliveries, f"nothing behind {len(got)} messages"
            got += [delivery.body for delivery in deliveries]
            channel.ack(deliveries[-1].delivery_tag, multiple=True)
        # Closed in order, so that the acknowledgements have been read; and not cancelled before,
        # which returns at once what is not sent yet, ahead of what the channel still holds.
        channel.close()
    return got


def own(got: list[bytes]) -> list[bytes]:
    """Those of `fill`; others publish meanwhile."""
    return [body for body in got if body.startswith(b"m:")]


def membership(asked: Node, node: Node) -> str:
    """What a node's copy of the queue is, as the asked one says."""
    command = [sys.executable, "-m", "warren", "queues", "--data-dir", str(asked.folder)]
    said = subprocess.check_output([*command, "quorum_status", QUEUE, "--json"], text=True)
    found = {row["Node Name"]: row["Membership"] for row in json.loads(said)}
    return str(found.get(node.name, "nothing"))


def add_member(asked: Node, node: Node) -> None:
    """Have a node's copy of the queue vote."""
    command = [sys.executable, "-m", "warren", "queues", "--data-dir", str(asked.folder)]
    subprocess.run([*command, "add_member", QUEUE, node.name], check=True, timeout=2 * WAIT_S)


@pytest.mark.rule("QQ-01", "QQ-07", "QQ-27")
def test_a_node_that_was_away(cluster: Cluster) -> None:
    """It gets what the others have, by snapshots, under load; then it makes up a majority."""
    nodes = cluster.start(3, *SMALL_FILES)
    declare(nodes[0], QUEUE)
    away = nodes[2]
    eventually(lambda: ready(away, QUEUE) == 0, WAIT_S)
    away.broker.kill()
    fill(nodes[0], 0, BACKLOG)
    # Some of it is gone again, as are the log's first files: a replay of the log would not do.
    assert own(take(nodes[1], TAKEN)) == bodies(0, TAKEN)
    publisher = Publisher(nodes[1], QUEUE, "p")
    publisher.start()
    publisher.goes_on()
    away.broker.start()
    publisher.goes_on(500)
    publisher.stop()
    publisher.check()
    left = BACKLOG - TAKEN + publisher.sent
    eventually(lambda: ready(away, QUEUE) == left, 2 * WAIT_S)
    nodes[0].broker.kill()
    assert own(take(away, left)) == bodies(TAKEN, BACKLOG)
    eventually(lambda: ready(nodes[1], QUEUE) == 0, WAIT_S)


@pytest.mark.rule("REP-04")
def test_a_new_voter_of_a_long_queue(cluster: Cluster) -> None:
    """A node joins, gets the backlog and then a vote: with one of the old ones it goes on."""
    nodes = cluster.start(3, *SMALL_FILES)
    declare(nodes[0], QUEUE, **{"x-quorum-initial-group-size": 2})
    fill(nodes[0], 0, BACKLOG)
    assert own(take(nodes[1], TAKEN)) == bodies(0, TAKEN)
    publisher = Publisher(nodes[0], QUEUE, "p")
    publisher.start()
    publisher.goes_on()
    new = cluster.new("n4", "--join", nodes[0].contact, *SMALL_FILES)
    new.broker.start()
    cluster.settled()
    add_member(nodes[0], new)
    eventually(lambda: membership(nodes[0], new) == "voter", 2 * WAIT_S)
    publisher.goes_on(500)
    publisher.stop()
    publisher.check()
    voters = [node for node in nodes if membership(nodes[0], node) == "voter"]
    assert len(voters) == 3 and new in voters
    leader = cluster.leader(QUEUE, nodes[0])
    assert leader is not new
    leader.broker.kill()
    left = BACKLOG - TAKEN + publisher.sent
    assert own(take(new, left)) == bodies(TAKEN, BACKLOG)


@pytest.mark.rule("QQ-01", "QQ-27")
def test_all_nodes_start_at_once(cluster: Cluster) -> None:
    """Killed together and started together, they deliver all that was confirmed, in order."""
    nodes = cluster.start(3, *SMALL_FILES)
    declare(nodes[0], QUEUE)
    fill(nodes[0], 0, BACKLOG)
    assert own(take(nodes[1], TAKEN)) == bodies(0, TAKEN)
    cluster.restart_all()
    # Confirmed there, it is behind all that was there before.
    fill(nodes[2], BACKLOG, BACKLOG + 1)
    # What the consumer of before held comes back when its node is known to have begun anew.
    eventually(lambda: consumers(nodes[2], QUEUE) == 0, WAIT_S)
    # The last acknowledgements may not count: nobody waited for them to be durable.
    left = ready(nodes[2], QUEUE)
    assert left > BACKLOG - TAKEN
    assert take(nodes[2], left) == bodies(BACKLOG + 1 - left, BACKLOG + 1)


def test_a_node_of_another_cluster(
    cluster: Cluster, make_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    """Where a node of the cluster should be, one of another cluster answers: both say so."""
    nodes = cluster.start(2)
    declare(nodes[0], QUEUE, **{"x-quorum-initial-group-size": 1})
    gone = nodes[1]
    assert gone.broker.stop() == 0
    (tmp_path / "other").mkdir()
    other = Cluster(make_broker, tmp_path / "other")
    other.secret = cluster.secret
    stranger = other.new("n2", port=gone.cluster_port)
    stranger.broker.start()
    nodes[0].says("the other node belongs to another cluster; reset the one that is to join anew")
    stranger.says("the other node belongs to another cluster; reset the one that is to join anew")
    assert ready(nodes[0], QUEUE) == 0
    assert len(stranger.status()["nodes"]) == 1
    assert stranger.broker.stop() == 0
    gone.broker.start()
    cluster.settled()


def test_a_node_of_another_version(cluster: Cluster) -> None:
    """What speaks an older version of the protocol is told so, and costs a line in the log."""
    (node,) = cluster.start(1)
    with socket.create_connection((HOST, node.cluster_port), WAIT_S) as stream:
        stream.settimeout(WAIT_S)
        stream.sendall(MAGIC + b"\x01")
        answer = b""
        while data := stream.recv(4_096):
            answer += data
    assert answer.startswith(MAGIC)
    node.says("the nodes speak different versions of the peer protocol; upgrade the older one")
    node.says(f"1 there, {VERSION_NUMBER} here")
