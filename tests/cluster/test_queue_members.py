"""`warren queues`: members and leaders of quorum queues, changed while clients work."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from typing import Any

import pytest

from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Cluster, Node, declare, seen_by
from tests.cluster.traffic import Consumer, Publisher, check_books

QUEUE = "orders"


def queues(node: Node, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `warren queues` for a node."""
    return node.command("queues", *words)


def done(node: Node, *words: str) -> str:
    """Run it, and it has to be done."""
    return node.done("queues", *words)


def listed(node: Node, *words: str) -> list[dict[str, Any]]:
    """What it answers as JSON."""
    found: list[dict[str, Any]] = json.loads(done(node, *words, "--json"))
    return found


def voting(node: Node, queue: str = QUEUE) -> list[str]:
    """Who votes, by what the group itself says, and all copies but those keep up."""
    rows = listed(node, "quorum_status", queue)
    return [row["Node Name"][:2] for row in rows if row["Membership"] == "voter"]


@pytest.mark.rule("D-05")
@pytest.mark.rule("MEM-02")
@pytest.mark.rule("MEM-03")
@pytest.mark.rule("MEM-08")
@pytest.mark.rule("MEM-09")
def test_a_member_moves_to_another_node(cluster: Cluster) -> None:
    """A new node gets a member, an old one loses the lead and its own; clients do not notice."""
    nodes = cluster.start(3)
    declare(nodes[0], QUEUE)
    publisher, consumer = Publisher(nodes[1], QUEUE, "p"), Consumer(nodes[2], QUEUE)
    publisher.start()
    consumer.start()
    publisher.goes_on()
    fourth = cluster.new("n4", "--join", nodes[0].contact)
    fourth.broker.start()
    cluster.settled()
    seen_by(fourth, QUEUE)
    assert voting(fourth) == ["n1", "n2", "n3"]

    text = done(fourth, "add_member", QUEUE, fourth.name)
    assert text == f"queue '{QUEUE}' in vhost '/' has a member on node 'n4@localhost'"
    assert voting(nodes[1]) == ["n1", "n2", "n3", "n4"]
    assert done(nodes[0], "add_member", QUEUE, fourth.name).endswith("already")
    publisher.goes_on()
    # By way of a node that does not lead it: the leader itself goes.
    done(nodes[2], "delete_member", "-p", "/", QUEUE, nodes[0].name)
    assert voting(nodes[0]) == ["n2", "n3", "n4"]
    assert cluster.leader(QUEUE, nodes[0]) is not nodes[0]
    publisher.goes_on()
    nodes[0].broker.kill()
    publisher.goes_on()
    publisher.stop()
    consumer.gets(publisher.sent)
    consumer.stop()
    check_books([publisher], [consumer])
    rows = {row["Node Name"][:2]: row for row in listed(fourth, "quorum_status", QUEUE)}
    ends = {name: row["Last Log Index"] for name, row in rows.items()}
    assert sorted(ends) == ["n2", "n3", "n4"]
    assert len(set(ends.values())) == 1 and ends["n4"] > 0
    assert sorted(row["Raft State"] for row in rows.values()) == [
        "follower",
        "follower",
        "leader",
    ]


@pytest.mark.rule("MEM-06")
def test_a_quorum_is_not_lost_by_accident(cluster: Cluster) -> None:
    """Without a majority nothing is changed; what would take it away is done by force only."""
    nodes = cluster.start(3)
    declare(nodes[0], QUEUE)
    seen_by(nodes[1], QUEUE)
    nodes[2].broker.kill()
    eventually(lambda: len(running(nodes[0])) == 2, WAIT_S)
    refused = queues(nodes[0], "delete_member", QUEUE, nodes[1].name)
    assert refused.returncode == 1
    assert "loses its quorum: of n1@localhost, n3@localhost, n1@localhost would" in refused.stderr
    assert "--force" in refused.stderr
    shrunk = queues(nodes[0], "shrink", nodes[1].name)
    assert shrunk.returncode == 1 and "loses its quorum" in shrunk.stdout
    done(nodes[0], "shrink", nodes[2].name)
    assert voting(nodes[0]) == ["n1", "n2"]
    refused = queues(nodes[0], "add_member", QUEUE, nodes[2].name)
    assert refused.returncode == 1 and "node 'n3@localhost' is not running" in refused.stderr
    nodes[1].broker.kill()
    eventually(lambda: not nodes[0].status()["leader"], WAIT_S)
    refused = queues(nodes[0], "delete_member", QUEUE, nodes[1].name)
    assert refused.returncode == 1 and "waits for a majority of" in refused.stderr
    rows = listed(nodes[0], "quorum_status", QUEUE)
    assert [row["Raft State"] for row in rows][1:] == ["nodedown"]


@pytest.mark.rule("MEM-04")
@pytest.mark.rule("MEM-05")
def test_grow_and_shrink(cluster: Cluster) -> None:
    """Many queues at once, by patterns and by how many members they have."""
    nodes = cluster.start(3)
    names = [f"{kind}-{number}" for kind in ("even", "odd") for number in range(3)]
    for name in names:
        size = 2 if name.startswith("even") else 1
        declare(nodes[0], name, **{"x-quorum-initial-group-size": size})
    assert listed(nodes[1], "grow", nodes[2].name, "all", "--vhost-pattern", "^other$") == []
    pattern = ("--vhost-pattern", "^/$", "--queue-pattern", "[01]$")
    grown = listed(nodes[1], "grow", nodes[2].name, "even", *pattern)
    assert {row["name"] for row in grown} <= {"even-0", "even-1"}
    assert all(row["size"] == 3 and row["result"] == "ok" for row in grown)
    listed(nodes[1], "grow", nodes[2].name, "all", "--membership", "voter")
    assert all("n3" in voting(nodes[0], name) for name in names)
    assert listed(nodes[1], "grow", nodes[2].name, "all") == []

    assert len(listed(nodes[0], "shrink", nodes[2].name)) == len(names)
    assert not any("n3" in voting(nodes[1], name) for name in names)
    assert all(voting(nodes[1], name) for name in names)
    # The only member of a queue stays.
    left = [name for name in names if voting(nodes[1], name) == ["n1"]]
    assert left
    shrunk = queues(nodes[1], "shrink", nodes[0].name, "--errors-only", "--json")
    rows = json.loads(shrunk.stdout)
    assert shrunk.returncode == 1
    assert sorted(row["name"] for row in rows) == sorted(left)
    assert {row["result"] for row in rows} == {"error: the last node cannot be removed"}
    assert queues(nodes[1], "grow", "n9@localhost", "all").returncode == 1
    bad = queues(nodes[1], "grow", nodes[0].name, "all", "--queue-pattern", "(")
    assert bad.returncode == 1 and "'(' is no regular expression" in bad.stderr


def test_grow_to_a_count(cluster: Cluster) -> None:
    """Queues get members until they have so many, and no node gets more than others."""
    nodes = cluster.start(3)
    names = ["one-a", "one-b", "two"]
    for name in names:
        size = 2 if name == "two" else 1
        declare(nodes[0], name, **{"x-quorum-initial-group-size": size})
    pattern = ("--queue-pattern", "^one")
    assert listed(nodes[1], "grow_to_count", "1", "all") == []
    assert listed(nodes[1], "grow_to_count", "3", "even", *pattern) == []
    grown = listed(nodes[1], "grow_to_count", "2", "all", *pattern, "--membership", "voter")
    assert sorted(row["name"] for row in grown) == ["one-a", "one-b"]
    assert all(row["size"] == 2 and row["result"] == "ok" for row in grown)
    spread = Counter(node for name in names for node in voting(nodes[1], name))
    assert sorted(spread.values()) == [1, 2, 3]
    # Not more than there are nodes.
    grown = listed(nodes[2], "grow_to_count", "9", "even")
    assert sorted(row["name"] for row in grown) == names
    assert all(voting(nodes[0], name) == ["n1", "n2", "n3"] for name in names)
    for count in ("0", "-1", "x"):
        assert queues(nodes[0], "grow_to_count", count, "all").returncode == 2


@pytest.mark.rule("MEM-02")
def test_a_member_that_does_not_vote(cluster: Cluster) -> None:
    """It holds the queue and gets no vote; other nodes hold nothing of it."""
    nodes = cluster.start(2)
    declare(nodes[0], QUEUE, **{"x-quorum-initial-group-size": 1})
    words = (QUEUE, nodes[1].name, "--membership", "non_voter")
    rows = listed(nodes[1], "quorum_status", QUEUE)
    assert [row["Node Name"] for row in rows] == [nodes[0].name]
    assert "has a member that does not vote on node 'n2@localhost'" in done(
        nodes[0], "add_member", *words
    )
    assert listed(nodes[0], "grow", nodes[1].name, "all", "--membership", "non_voter") == []
    assert listed(nodes[0], "grow_to_count", "2", "all", "--membership", "non_voter") == []
    assert voting(nodes[0]) == ["n1"]
    rows = listed(nodes[0], "quorum_status", QUEUE)
    assert [row["Membership"] for row in rows] == ["voter", "non_voter"]
    assert "has no member" in done(nodes[0], "delete_member", QUEUE, nodes[1].name)
    assert len(listed(nodes[0], "quorum_status", QUEUE)) == 1
    assert queues(nodes[0], "add_member", *words[:3], "sometimes").returncode == 2


@pytest.mark.rule("REB-01")
def test_leaders_are_spread(cluster: Cluster) -> None:
    """A rebalance moves leaders and no members, of the queues that are meant; clients go on."""
    nodes = cluster.start(3)
    for number in range(6):
        declare(nodes[0], f"orders-{number}")
    declare(nodes[0], "other")
    seen_by(nodes[1], "other")
    publisher, consumer = Publisher(nodes[1], "orders-0", "p"), Consumer(nodes[2], "orders-0")
    publisher.start()
    consumer.start()
    publisher.goes_on()
    before = voting(nodes[0], "orders-5")
    rows = listed(
        nodes[1], "rebalance", "quorum", "--queue-pattern", "^orders", "--vhost-pattern", "/"
    )
    assert [row["queues"] for row in rows] == [2, 2, 2]
    assert cluster.leader("other", nodes[2]) is nodes[0]
    assert voting(nodes[0], "orders-5") == before
    assert listed(nodes[2], "rebalance", "all") == listed(nodes[0], "rebalance", "all")
    publisher.goes_on()

    text = done(nodes[2], "transfer_leadership", "other", nodes[1].name)
    assert text == "queue 'other' in vhost '/' is led by node 'n2@localhost'"
    assert cluster.leader("other", nodes[0]) is nodes[1]
    again = queues(nodes[2], "transfer_leadership", "other", nodes[1].name)
    assert again.returncode == 1 and "already the leader of this queue" in again.stderr
    publisher.stop()
    consumer.gets(publisher.sent)
    consumer.stop()
    check_books([publisher], [consumer])


def running(node: Node) -> list[str]:
    """The nodes that run, as one sees it."""
    return [row["name"] for row in node.status()["nodes"] if row["running"]]


@pytest.mark.rule("CMR-01", "QQ-10")
def test_a_lost_member_is_replaced(cluster: Cluster) -> None:
    """A node is forgotten, and its members come back on another one, messages and all."""
    key = "quorum_queue.continuous_membership_reconciliation"
    words = ["--set", f"{key}.enabled=true", "--set", f"{key}.target_group_size=3"]
    nodes = cluster.start(4, *words, "--set", f"{key}.trigger_interval=200")
    declare(nodes[0], QUEUE)
    seen_by(nodes[3], QUEUE)
    publisher, consumer = Publisher(nodes[0], QUEUE, "p"), Consumer(nodes[0], QUEUE)
    publisher.start()
    consumer.start()
    publisher.goes_on()
    before = voting(nodes[0])
    gone = next(node for node in nodes[1:] if node.name[:2] in before)
    gone.broker.kill()
    eventually(lambda: gone.name not in running(nodes[0]), WAIT_S)
    assert nodes[0].warren("forget", gone.name).returncode == 0
    eventually(lambda: len(voting(nodes[0])) == 3, WAIT_S)
    assert gone.name[:2] not in voting(nodes[0])
    (other,) = [node for node in nodes[1:] if node.name[:2] not in before]
    done(nodes[0], "transfer_leadership", QUEUE, other.name)
    publisher.goes_on()
    publisher.stop()
    consumer.gets(publisher.sent)
    consumer.stop()
    check_books([publisher], [consumer])
