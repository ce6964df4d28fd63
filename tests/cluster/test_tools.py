"""RabbitMQ's tools on a cluster: what only one node knows is asked of it, and nodes have names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Cluster, Node, declare, seen_by
from tests.ctl.play import in_process
from warren.admin.cli.asking import FOLDER_VARIABLE
from warren.admin.cli.tools.session import NODE_VARIABLE


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of the environment names a node."""
    for name in (FOLDER_VARIABLE, NODE_VARIABLE):
        if name in os.environ:
            monkeypatch.delenv(name)
    yield


def tool(node: Node, words: str, code: int = 0) -> str:
    """What a tool writes that asks by a node's data directory."""
    name, *rest = words.split()
    done = in_process([name, *rest, "--data-dir", str(node.folder)], "")
    assert done[0] == code, done
    return done[1] if code == 0 else done[2]


def rows(node: Node, words: str) -> list[dict[str, Any]]:
    """What it lists."""
    found: list[dict[str, Any]] = json.loads(tool(node, f"{words} --formatter json"))
    return found


def running(node: Node) -> list[str]:
    """Names of the nodes that it sees running."""
    return [row["name"] for row in node.status()["nodes"] if row["running"]]


def test_any_node_tells_of_clients_and_queues_of_all(cluster: Cluster) -> None:
    """Counts of queues, connections, channels and consumers, wherever they are; and an end."""
    first, second, third = cluster.start(3)
    there = second.connect()
    channel = there.channel()
    channel.queue_declare("log", durable=True)
    for _ in range(3):
        channel.basic_publish("", "log", b"x")
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("log", lambda *_: None, consumer_tag="reader")
    there.process_data_events(0)
    seen_by(third, "log")

    columns = "name messages messages_ready messages_unacknowledged consumers leader"
    wanted = {"name": "log", "messages": 3, "messages_ready": 2, "messages_unacknowledged": 1}
    wanted |= {"consumers": 1, "leader": second.name}
    eventually(lambda: rows(third, f"rabbitmqctl list_queues {columns}") == [wanted], WAIT_S)
    (connection,) = rows(third, "rabbitmqctl list_connections pid name user vhost channels")
    assert (connection["user"], connection["vhost"], connection["channels"]) == ("guest", "/", 1)
    (found,) = rows(third, "rabbitmqctl list_channels connection number consumer_count")
    assert found == {"connection": connection["pid"], "number": 1, "consumer_count": 1}
    (consumer,) = rows(third, "rabbitmqctl list_consumers queue_name consumer_tag active")
    assert consumer == {"queue_name": "log", "consumer_tag": "reader", "active": True}

    tool(third, f"rabbitmqctl close_connection {connection['pid']} enough")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="enough"):
        there.process_data_events(WAIT_S)
    eventually(lambda: rows(first, "rabbitmqctl list_connections") == [], WAIT_S)
    client = first.connect()
    assert tool(third, "rabbitmqctl close_all_connections --global bye").endswith(
        "Closed 1 connections\n"
    )
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="bye"):
        client.process_data_events(WAIT_S)


def test_nodes_are_asked_by_name_and_say_whether_they_are_needed(cluster: Cluster) -> None:
    """`-n` names a node of the cluster; with one of three down, the two others are critical."""
    first, second, third = cluster.start(3)
    declare(first, "orders")
    for node in (second, third):
        text = tool(first, f"rabbitmqctl -n {node.name} status")
        assert f"Node name: {node.name}" in text
    refused = tool(first, "rabbitmqctl -n other@localhost status", 69)
    assert "unable to perform an operation on node 'other@localhost'" in refused

    critical = "rabbitmq-queues check_if_node_is_quorum_critical"
    assert "no queues/streams with minimum quorum" in tool(first, critical)
    assert "all quorum queue" in tool(
        first, "rabbitmq-diagnostics check_for_quorum_queues_without_an_elected_leader .*"
    )
    status = json.loads(tool(second, "rabbitmqctl cluster_status --formatter json"))
    names = [first.name, second.name, third.name]
    assert sorted(status["running_nodes"]) == sorted(status["disk_nodes"]) == names
    assert "Will wait for at least 3" in tool(first, "rabbitmqctl await_online_nodes 3")
    third.broker.kill()
    eventually(lambda: third.name not in running(first), WAIT_S)
    assert "queue 'orders' in vhost '/'" in tool(first, critical, 69)
    text = tool(first, "rabbitmqctl await_online_nodes 3 --timeout 1", 70)
    assert "Not enough nodes joined" in text
    refused = tool(first, f"rabbitmqctl -n {third.name} list_queues", 69)
    assert "Please see diagnostics information" in refused


def test_a_node_in_maintenance_takes_no_clients_and_leads_nothing(cluster: Cluster) -> None:
    """Clients are told to go and come to other nodes; revived, it takes them again."""
    first, second, _ = cluster.start(3)
    declare(first, "orders")
    client = first.connect()
    tool(first, "rabbitmq-upgrade drain")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance"):
        client.process_data_events(WAIT_S)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        first.connect()
    (queue,) = rows(second, "rabbitmqctl list_queues name leader")
    assert queue["leader"] != first.name
    status = json.loads(tool(second, "rabbitmqctl cluster_status --formatter json"))
    assert status["maintenance_status"][first.name] == "under maintenance"
    second.connect().channel().basic_publish("", "orders", b"x")
    tool(first, "rabbitmq-upgrade revive")
    client = first.connect()
    eventually(lambda: client.channel().basic_get("orders")[0] is not None, WAIT_S)


def test_a_message_is_peeked_at_where_it_lies(cluster: Cluster) -> None:
    """By its place, from any node; however often, it is not delivered again for that."""
    nodes = cluster.start(3)
    declare(nodes[0], "orders")
    connection = nodes[0].connect()
    channel = connection.channel()
    channel.confirm_delivery()
    properties = pika.BasicProperties(
        content_type="text/plain",
        delivery_mode=2,
        message_id="m",
        headers={"a": 1, "t": {"n": True}},
    )
    channel.basic_publish("", "orders", b"one")
    channel.basic_publish("", "orders", b"\xff" + b"t" * 90, properties)
    leader = next(row["leader"] for row in rows(nodes[0], "rabbitmqctl list_queues name leader"))
    for node in nodes:
        for _ in range(2):
            said = json.loads(tool(node, "rabbitmq-queues peek orders 2 --formatter json"))
        assert said["result"] == "ok" and leader
        assert said["message"] == {
            "content_type": "text/plain",
            "delivery_mode": 2,
            "message_id": "m",
            "exchange": "",
            "routing_keys": ["orders"],
            "header.a": 1,
            "header.t": {"n": True},
            "header.x-delivery-count": 0,
            "payload (max 64 bytes)": f"<<255{',116' * 63}>>",
        }
        text = tool(node, "rabbitmq-queues peek orders 3", 69)
        assert text == "Error:\nTarget queue does not have a message at that position\n"
    for redelivered, body in ((False, b"one"), (False, b"\xff" + b"t" * 90)):
        method, got, found = channel.basic_get("orders", auto_ack=False)
        assert (method.redelivered, found) == (redelivered, body)
        assert "x-acquired-count" not in (got.headers or {})
    channel.basic_nack(0, multiple=True)
    (first,) = {
        json.loads(tool(node, "rabbitmq-queues peek orders 1 --formatter json"))["message"][
            "header.x-delivery-count"
        ]
        for node in nodes
    }
    assert first in (0, 1)
    connection.close()
