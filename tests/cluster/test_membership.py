"""How nodes come together, are kept apart, and go."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Cluster, declare, ready, seen_by, wait_s
from tests.cluster.traffic import Consumer, Publisher, check_books
from tests.support.broker import HOST, free_port
from warren.config.identity import read_identity
from warren.protocols.peer.hello import PREAMBLE

QUEUE = "orders"


def test_a_queue_spans_three_nodes(cluster: Cluster) -> None:
    """Declared on one, published through another, consumed on the third."""
    nodes = cluster.start(3)
    declare(nodes[0], QUEUE)
    for node in nodes:
        seen_by(node, QUEUE)
    publisher, consumer = Publisher(nodes[1], QUEUE, "p"), Consumer(nodes[2], QUEUE)
    publisher.start()
    consumer.start()
    publisher.goes_on(500)
    publisher.stop()
    consumer.gets(publisher.sent)
    consumer.stop()
    check_books([publisher], [consumer])
    for node in nodes:
        eventually(lambda node=node: ready(node, QUEUE) == 0, WAIT_S)
    status = nodes[2].status()
    (queue,) = status["queues"]
    assert queue["leader"] == "n1@localhost" and len(queue["members"]) == 3
    text = nodes[2].warren("status").stdout
    assert f"queue  /  {QUEUE}  quorum  leader n1@localhost  voters" in text


def test_a_wrong_secret(cluster: Cluster, tmp_path: Path) -> None:
    """A node or an operator with another secret gets nowhere, and both logs say why."""
    first = cluster.new("n1")
    first.broker.start()
    wrong = tmp_path / "wrong"
    wrong.write_text("another-secret")
    stranger = cluster.new("n2", "--join", first.contact, "--secret-file", str(wrong))
    stranger.broker.launch()
    stranger.says("the other node's secret differs; give both the same cluster secret")
    stranger.says("waiting to be taken into the cluster of 127.0.0.1")
    first.says("the other node's secret differs")
    refused = first.warren("--secret-file", str(wrong), "status")
    assert refused.returncode == 2 and "secret differs" in refused.stderr
    assert len(first.status()["nodes"]) == 1
    assert stranger.broker.stop() == 0


def test_joining_takes_a_secret(cluster: Cluster) -> None:
    """Without one, the error says where to find it; a copied file will do."""
    first = cluster.new("n1")
    first.broker.options = first.broker.options[:4]
    first.broker.start()
    kept = first.folder / "secret"
    assert len(kept.read_text().strip()) == 64 and kept.stat().st_mode & 0o777 == 0o600
    second = cluster.new("n2", "--join", first.contact)
    second.broker.options = [*second.broker.options[:4], "--join", first.contact]
    assert second.broker.launch().wait(WAIT_S) == 2
    assert "copy the file 'secret' from the data directory" in second.broker.log_text()
    second.broker.kill()
    shutil.copy(kept, second.folder / "secret")
    second.broker.start()
    cluster.settled()


def test_garbage_on_the_cluster_port(cluster: Cluster) -> None:
    """Strangers, floods and half handshakes cost a line in the log at most."""
    nodes = cluster.start(2)
    port = nodes[0].cluster_port
    open_ones = []
    for data in (b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(5_000), PREAMBLE, PREAMBLE + bytes(9)):
        for _ in range(20):
            stream = socket.create_connection((HOST, port), 5)
            open_ones.append(stream)
            try:
                stream.sendall(data)
            except ConnectionError:
                pass
    declare(nodes[1], QUEUE)
    publisher = Publisher(nodes[1], QUEUE, "p")
    publisher.start()
    publisher.goes_on()
    publisher.stop()
    for stream in open_ones:
        stream.close()
    cluster.settled()
    nodes[0].says("what came from there is not the protocol of Warren's nodes")


@pytest.mark.rule("MEM-07", "MEM-09")
def test_a_lost_disk(cluster: Cluster) -> None:
    """A node that lost its disk may not come back under its name before it was forgotten."""
    nodes = cluster.start(3)
    lost = nodes[2]
    declare(nodes[0], QUEUE)
    publisher = Publisher(nodes[0], QUEUE, "p")
    publisher.start()
    publisher.goes_on()
    lost.broker.kill()
    shutil.rmtree(lost.folder)
    publisher.goes_on()
    lost.broker.launch()
    lost.says("the cluster has a node of this name with another data directory: forget that one")
    publisher.goes_on()
    assert "is running" not in nodes[0].warren("forget", lost.name).stderr
    lost.broker.wait()
    cluster.settled()
    publisher.goes_on()
    publisher.stop()
    eventually(lambda: ready(lost, QUEUE) == publisher.sent, WAIT_S)
    consumer = Consumer(lost, QUEUE)
    consumer.start()
    consumer.gets(publisher.sent)
    consumer.stop()
    check_books([publisher], [consumer])


def test_a_lost_log(cluster: Cluster) -> None:
    """A directory that lost its log, and not the node's identity, is as good as a lost disk."""
    nodes = cluster.start(2)
    lost = nodes[1]
    assert lost.broker.stop() == 0
    shutil.rmtree(lost.folder / "log")
    assert lost.broker.launch().wait(WAIT_S) == 2
    assert "is in a cluster, and the node's log there is gone" in lost.broker.log_text()
    assert not (lost.folder / "log").exists()
    lost.broker.kill()


def test_who_began_a_cluster_and_left_begins_no_other(cluster: Cluster) -> None:
    """Its old data directory makes it no node, with others or without."""
    nodes = cluster.start(2)
    founder, other = nodes
    declare(other, QUEUE)
    left = founder.warren("leave")
    assert left.returncode == 0, left.stderr
    eventually(lambda: not founder.broker.running, WAIT_S)
    assert founder.broker.stop() == 0
    declare(other, "more")
    assert founder.broker.launch().wait(WAIT_S) == 2
    founder.broker.kill()
    # A copy of the directory from before does not know that its node left.
    identity = read_identity(str(founder.folder))
    assert identity is not None and identity.left
    identity.left = False
    identity.save()
    for words in ([], ["--join", other.contact]):
        founder.broker.options += words
        assert founder.broker.launch().wait(WAIT_S) == 2
        assert "which its cluster has forgotten" in founder.broker.log_text()
        founder.broker.kill()
    other.broker.kill()
    founder.broker.launch()
    founder.says("waiting for a majority of")
    with pytest.raises(OSError):
        socket.create_connection(founder.address, 1)
    founder.broker.kill()
    other.broker.start()
    declare(other, "later")
    assert [row["name"] for row in other.status()["nodes"]] == [other.name]


def test_forget_and_leave(cluster: Cluster) -> None:
    """A running node is not forgotten; it can leave. What left does not come back by itself."""
    nodes = cluster.start(3)
    declare(nodes[2], QUEUE)
    seen_by(nodes[0], QUEUE)
    refused = nodes[0].warren("forget", nodes[2].name)
    assert refused.returncode == 1 and "is running: stop it" in refused.stderr
    refused = nodes[0].warren("forget", "n9@localhost")
    assert refused.returncode == 1 and "is not in the cluster" in refused.stderr
    publisher = Publisher(nodes[0], QUEUE, "p")
    publisher.start()
    publisher.goes_on()
    left = nodes[2].warren("leave")
    assert left.returncode == 0, left.stderr
    eventually(lambda: not nodes[2].broker.running, WAIT_S)
    assert nodes[2].broker.stop() == 0
    publisher.goes_on()
    publisher.stop()
    eventually(lambda: len(nodes[0].status()["nodes"]) == 2, WAIT_S)
    assert nodes[2].broker.launch().wait(WAIT_S) == 2
    assert "has left its cluster, and of no more use" in nodes[2].broker.log_text()
    nodes[2].broker.kill()
    nodes[1].broker.kill()
    eventually(lambda: not nodes[0].status()["leader"], WAIT_S)
    refused = nodes[0].warren("forget", nodes[1].name)
    assert refused.returncode == 1 and "for a majority of" in refused.stderr


def test_a_forgotten_node_that_starts_again_is_told_and_ends(cluster: Cluster) -> None:
    """It waited for ever, and its log said no more than that links were refused."""
    nodes = cluster.start(3)
    declare(nodes[2], QUEUE)
    seen_by(nodes[0], QUEUE)
    nodes[2].broker.kill()
    eventually(lambda: nodes[0].warren("forget", nodes[2].name).returncode == 0, WAIT_S)
    for _ in range(2):
        assert nodes[2].broker.launch().wait(WAIT_S) == 2
        assert "which its cluster has forgotten" in nodes[2].broker.log_text()
    nodes[2].broker.kill()


def test_the_only_voter(cluster: Cluster) -> None:
    """What takes a queue its last voting member needs force."""
    nodes = cluster.start(3)
    declare(nodes[2], QUEUE, **{"x-quorum-initial-group-size": 1})
    seen_by(nodes[0], QUEUE)
    refused = nodes[2].warren("leave")
    assert refused.returncode == 1 and "only voting member of 1 quorum queue" in refused.stderr
    assert "by force, which deletes them" in refused.stderr
    assert nodes[2].broker.running
    left = nodes[2].warren("leave", "--force")
    assert left.returncode == 0, left.stderr
    eventually(lambda: not nodes[2].broker.running, WAIT_S)
    assert nodes[2].broker.stop() == 0
    eventually(lambda: ready(nodes[0], QUEUE) == -1, WAIT_S)
    declare(nodes[0], QUEUE)


@pytest.mark.rule("MEM-08")
def test_one_of_two_voters_leaves(cluster: Cluster) -> None:
    """It has no vote any more when it goes, so that the other one is a majority by itself."""
    nodes = cluster.start(3)
    names = [f"q{number}" for number in range(8)]
    for name in names:
        declare(nodes[2], name, **{"x-quorum-initial-group-size": 2})
    left = nodes[2].warren("leave")
    assert left.returncode == 0, left.stderr
    eventually(lambda: not nodes[2].broker.running, WAIT_S)
    assert nodes[2].broker.stop() == 0
    eventually(lambda: all(row["leader"] for row in nodes[0].status()["queues"]), WAIT_S)
    assert all(len(row["members"]) == 1 for row in nodes[0].status()["queues"])
    publisher = Publisher(nodes[1], names[0], "p")
    publisher.start()
    publisher.goes_on()
    publisher.stop()


def test_the_first_of_a_list_alone(cluster: Cluster) -> None:
    """It begins a cluster when it is told to, and can be stopped while it waits for others."""
    words = []
    for number in (1, 2):
        key = f"cluster_formation.classic_config.nodes.{number}"
        words += ["--set", f"{key}=n{number}@localhost:{free_port()}"]
    node = cluster.new("n1", *words)
    node.broker.launch()
    node.says("waiting to hear from n2@localhost")
    assert node.broker.stop() == 0
    node.broker.options += ["--set", "cluster_formation.begin=true"]
    node.broker.start()
    assert node.status()["leader"] == "n1@localhost"


def test_a_list_of_nodes(cluster: Cluster) -> None:
    """Only the first node of a list begins a cluster; the others wait for it."""
    ports = [free_port() for _ in range(3)]
    words = []
    for number, port in enumerate(ports, 1):
        words += ["--set"]
        key = f"cluster_formation.classic_config.nodes.{number}"
        words += [f"{key}=n{number}@localhost:{port}"]
    nodes = [cluster.new(f"n{number}", *words, port=port) for number, port in enumerate(ports, 1)]
    for node in nodes[1:]:
        node.broker.launch()
    for node in nodes[1:]:
        node.says("waiting to be taken into the cluster of n1@localhost")
    nodes[0].broker.launch()
    for node in nodes:
        node.broker.wait()
    cluster.settled()
    # The first one lost its disk: others have a cluster, so it begins none, not even alone.
    for node in nodes:
        node.broker.kill()
    shutil.rmtree(nodes[0].folder)
    nodes[0].broker.launch()
    nodes[0].says("waiting to hear from n2@localhost, n3@localhost whether there is a cluster")
    for node in nodes[1:]:
        node.broker.launch()
    for node in nodes[1:]:
        node.broker.wait()
    nodes[0].says("forget that one first")
    nodes[0].says("waiting to be taken into the cluster of n2@localhost, n3@localhost")
    # Whoever has just started takes all it knows for running, for a moment.
    eventually(lambda: nodes[1].warren("forget", nodes[0].name).returncode == 0, WAIT_S)
    nodes[0].broker.wait()
    cluster.settled()


def test_a_start_without_the_others(cluster: Cluster) -> None:
    """A node of a cluster that starts alone says whom it waits for, and answers no clients."""
    nodes = cluster.start(3)
    for node in nodes:
        node.broker.kill()
    nodes[1].broker.launch()
    nodes[1].says("waiting for a majority of n1@localhost, n2@localhost, n3@localhost")
    with pytest.raises(OSError):
        socket.create_connection(nodes[1].address, 1)
    wait_s(0.2)
    nodes[2].broker.launch()
    for node in nodes[1:]:
        node.broker.wait()


def test_another_address(cluster: Cluster) -> None:
    """A node comes back at another port; the others find it."""
    nodes = cluster.start(3)
    declare(nodes[0], QUEUE)
    moved = nodes[0]
    assert moved.broker.stop() == 0
    moved.cluster_port = free_port()
    at = moved.broker.options.index("--cluster-port")
    moved.broker.options[at + 1] = str(moved.cluster_port)
    moved.broker.start()
    cluster.settled()
    addresses = [row["address"] for row in nodes[2].status()["nodes"]]
    assert moved.contact in addresses


def test_placement_by_configuration(cluster: Cluster) -> None:
    """How many members vote, and where the leader begins, is the node's configuration."""
    words = ["--set", "quorum_queue.initial_cluster_size=1"]
    nodes = cluster.start(2, *words, "--set", "queue_leader_locator=balanced")
    for number in range(4):
        declare(nodes[0], f"q{number}")
    queues = nodes[0].status()["queues"]
    assert all(len(row["members"]) == 1 and not row["learners"] for row in queues)
