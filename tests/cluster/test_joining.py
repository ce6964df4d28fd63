"""Nodes that begin anew, by RabbitMQ's commands: `reset` and `join_cluster`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Cluster, Node, declare
from tests.cluster.test_tools import running, tool
from tests.support.broker import HOST, free_port

pytestmark = pytest.mark.process

COUNT = 20


def names(node: Node) -> list[str]:
    """The nodes of its cluster."""
    return sorted(row["name"] for row in node.status()["nodes"])


def fill(node: Node, queue: str) -> None:
    """Publish some messages, which are confirmed."""
    connection = node.connect()
    channel = connection.channel()
    channel.confirm_delivery()
    for number in range(COUNT):
        channel.basic_publish("", queue, str(number).encode())
    connection.close()


def taken(node: Node, queue: str) -> list[bytes]:
    """All messages of a queue, in order; they are gone then."""
    connection = node.connect()
    channel = connection.channel()
    found: list[bytes] = []

    def more() -> bool:
        _, _, body = channel.basic_get(queue, auto_ack=True)
        if body is not None:
            found.append(body)
        return len(found) == COUNT

    eventually(more, WAIT_S)
    connection.close()
    return found


def queues(node: Node) -> list[dict[str, Any]]:
    """The queues that a node knows."""
    found: list[dict[str, Any]] = json.loads(
        tool(node, "rabbitmqctl list_queues name messages --formatter json")
    )
    return found


def test_a_node_is_reset_and_joins_again(cluster: Cluster) -> None:
    """What the others have stays whole; the node has nothing, and gets the queue back."""
    first, second, third = cluster.start(3)
    declare(first, "orders")
    fill(first, "orders")
    for words in ("reset", "force_reset"):
        said = tool(third, f"rabbitmqctl {words}", 64)
        assert said.startswith("Error: this command requires the 'rabbit' app to be stopped")
    tool(third, "rabbitmqctl stop_app")
    assert "Forced reset is unsupported" in tool(third, "rabbitmqctl force_reset", 69)
    told = tool(third, f"rabbitmqctl join_cluster {first.name}")
    assert told == f"Clustering node {third.name} with {first.name}\n"
    assert names(third) == [first.name, second.name, third.name]
    process = third.status()["process"]

    assert tool(third, "rabbitmqctl reset") == f"Resetting node {third.name} ...\n"
    assert names(third) == [third.name] and third.status()["drained"]
    assert third.status()["process"] == process and queues(third) == []
    eventually(lambda: names(first) == [first.name, second.name], WAIT_S)
    assert queues(first) == [{"name": "orders", "messages": COUNT}]

    joining = f"rabbitmqctl join_cluster {second.name} --address {second.contact}"
    said = tool(third, joining)
    assert said == f"Clustering node {third.name} with {second.name}\n"
    assert names(third) == [first.name, second.name, third.name]
    eventually(lambda: len(running(first)) == 3, WAIT_S)
    tool(third, "rabbitmqctl start_app")
    third.done("queues", "add_member", "orders", third.name)
    third.broker.kill()
    third.broker.start()
    cluster.settled()
    assert taken(third, "orders") == [str(number).encode() for number in range(COUNT)]


def test_a_node_behind_stop_app_is_forgotten(cluster: Cluster) -> None:
    """As in RabbitMQ: it may run, but not take clients. It goes on as a node of its own."""
    first, second, third = cluster.start(3)
    declare(first, "orders")
    fill(first, "orders")
    forget = f"rabbitmqctl forget_cluster_node {third.name}"
    assert "is running: stop it" in tool(first, forget, 69)
    tool(third, "rabbitmqctl stop_app")
    tool(first, forget)
    assert names(first) == [first.name, second.name]
    assert queues(first) == [{"name": "orders", "messages": COUNT}]
    assert names(third) == [third.name]
    assert third.status()["drained"] and queues(third) == []
    # What scripts do next.
    tool(third, "rabbitmqctl reset")
    tool(third, f"rabbitmqctl join_cluster {first.name} --address {first.contact}")
    tool(third, "rabbitmqctl start_app")
    cluster.settled()
    assert taken(third, "orders") == [str(number).encode() for number in range(COUNT)]


def test_a_node_that_is_needed_is_not_reset(cluster: Cluster) -> None:
    """Without it no majority would run: it stays, with all that it has."""
    first, second, third = cluster.start(3)
    declare(first, "orders")
    fill(first, "orders")
    tool(third, "rabbitmqctl stop_app")
    second.broker.kill()
    eventually(lambda: second.name not in running(third), WAIT_S)
    assert "majority" in tool(third, "rabbitmqctl reset", 69)
    assert "majority" in tool(first, f"rabbitmqctl forget_cluster_node {third.name}", 69)
    assert len(names(third)) == 3
    second.broker.start()
    tool(third, "rabbitmqctl start_app")
    cluster.settled()
    assert taken(third, "orders") == [str(number).encode() for number in range(COUNT)]


def test_a_node_that_cannot_join_keeps_what_it_has(cluster: Cluster) -> None:
    """A node that does not answer, one of another name, and a cluster that has its name already."""
    first, other = cluster.new("n1"), cluster.new("n2")
    for node in (first, other):
        node.broker.start()
        declare(node, "orders")
        fill(node, "orders")
    said = tool(other, f"rabbitmqctl join_cluster {other.name}", 70)
    assert said == f"Error:\nError: cannot cluster node with itself: {other.name}\n"
    nobody = f"--address {HOST}:{free_port()}"
    assert "cannot be asked" in tool(other, f"rabbitmqctl join_cluster {first.name} {nobody}", 69)
    there = f"--address {first.contact}"
    assert "not 'n9@localhost'" in tool(other, f"rabbitmqctl join_cluster n9@localhost {there}", 69)
    assert queues(other) == [{"name": "orders", "messages": COUNT}]

    tool(other, f"rabbitmqctl join_cluster {first.name} {there}")
    assert not other.status()["drained"]
    cluster.settled()
    other.broker.kill()
    other.broker.start()
    cluster.settled()
    assert taken(other, "orders") == [str(number).encode() for number in range(COUNT)]

    # Another data directory under a name that the cluster counts already.
    other.broker.kill()
    eventually(lambda: other.name not in running(first), WAIT_S)
    again = cluster.new("n2")
    again.broker.start()
    said = tool(again, f"rabbitmqctl join_cluster {first.name} {there}", 69)
    assert f"forget_cluster_node {other.name}" in said
    assert names(again) == [again.name]
