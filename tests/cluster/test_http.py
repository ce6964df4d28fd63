"""The HTTP API of a cluster: any node answers for all of them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Cluster, Node
from tests.http.talk import Ask, Peer
from tests.support.broker import free_port

QUORUM = {"durable": True, "arguments": {"x-queue-type": "quorum"}}
BY_ALL = {"strategy": "all", "vhost_pattern": ".*", "queue_pattern": ".*"}


def started(cluster: Cluster) -> list[Node]:
    """Three nodes, each with the API."""
    first = cluster.new("n1")
    others = [cluster.new(f"n{number}", "--join", first.contact) for number in (2, 3)]
    for node in (first, *others):
        node.broker.management = str(free_port())
    first.broker.start()
    for node in others:
        node.broker.launch()
    for node in others:
        node.broker.wait()
    cluster.settled()
    return cluster.nodes


def peer_of(node: Node) -> Peer:
    return Peer(node.broker.host, int(node.broker.management), node.broker.port)


def shown(peer: Peer, path: str) -> Any:
    status, _, body = peer.raw(Ask("GET", path))
    assert status == 200, (path, status, body)
    return json.loads(body)


def done(peer: Peer, method: str, path: str, body: Any = None, expected: int = 204) -> None:
    status, _, content = peer.raw(Ask(method, path, body))
    assert status == expected, (path, status, content)


def test_any_node_answers_for_the_cluster(cluster: Cluster) -> None:
    """Queues that are elsewhere are filled, looked into, counted and deleted from any node."""
    nodes = started(cluster)
    one, two = peer_of(nodes[0]), peer_of(nodes[1])
    done(one, "PUT", "/queues/%2F/classic", {"durable": True}, 201)
    done(one, "PUT", "/queues/%2F/quorum", QUORUM, 201)
    for queue in ("classic", "quorum"):
        message = {
            "properties": {},
            "routing_key": queue,
            "payload": "abc",
            "payload_encoding": "string",
        }
        done(two, "POST", "/exchanges/%2F/amq.default/publish", message, 200)
        asked = {"count": 5, "ackmode": "reject_requeue_true", "encoding": "auto"}
        status, _, body = two.raw(Ask("POST", f"/queues/%2F/{queue}/get", asked))
        assert status == 200 and [row["payload"] for row in json.loads(body)] == ["abc"]
    for peer in (one, two):
        rows = eventually(
            lambda peer=peer: (
                [row.get("messages") for row in shown(peer, "/queues")] == [1, 1]
                and shown(peer, "/queues")
            ),
            WAIT_S,
        )
        assert [row["node"] for row in rows] == ["n1@localhost"] * 2
        assert sorted(rows[1]["members"]) == ["n1@localhost", "n2@localhost", "n3@localhost"]
        assert [row["running"] for row in shown(peer, "/nodes")] == [True] * 3
        memory = [shown(peer, f"/nodes/n{at}@localhost/memory")["memory"] for at in (1, 2, 3)]
        assert all(parts["total"]["rss"] > parts["code"] > 0 for parts in memory)
    connection = nodes[2].connect()
    connection.channel().basic_consume("quorum", lambda *_: None, consumer_tag="third")
    (seen,) = eventually(lambda: shown(one, "/connections"), WAIT_S)
    assert seen["node"] == "n3@localhost"
    (consumer,) = shown(two, "/queues/%2F/quorum")["consumer_details"]
    assert consumer["consumer_tag"] == "third"
    done(one, "DELETE", f"/connections/{quote(seen['name'], safe='')}")
    eventually(lambda: shown(two, "/connections") == [], WAIT_S)
    done(two, "DELETE", "/queues/%2F/classic")
    done(two, "DELETE", "/queues/%2F/quorum")
    eventually(lambda: shown(one, "/queues") == [], WAIT_S)


def test_members_come_and_go_over_http(cluster: Cluster) -> None:
    """Members of quorum queues are taken away, added and grown, and leaders spread."""
    nodes = started(cluster)
    peer = peer_of(nodes[0])
    for number in range(4):
        done(peer, "PUT", f"/queues/%2F/q{number}", QUORUM, 201)
    path = "/queues/quorum/%2F/q0/replicas"

    def members(queue: str = "q0") -> list[str]:
        rows = shown(peer, f"/queues/quorum/%2F/{queue}/status")
        return [row["Node Name"][:2] for row in rows if row["Membership"] == "voter"]

    assert members() == ["n1", "n2", "n3"]
    done(peer, "DELETE", f"{path}/delete", {"node": "n3@localhost"})
    assert members() == ["n1", "n2"]
    done(peer, "POST", f"{path}/add", {"node": "n3@localhost"})
    eventually(lambda: members() == ["n1", "n2", "n3"], WAIT_S)
    on_third = "/queues/quorum/replicas/on/n3@localhost"
    done(peer, "DELETE", f"{on_third}/shrink", expected=202)
    eventually(lambda: [members(f"q{n}") for n in range(4)] == [["n1", "n2"]] * 4, WAIT_S)
    done(peer, "POST", f"{on_third}/grow", BY_ALL)
    eventually(lambda: [members(f"q{n}") for n in range(4)] == [["n1", "n2", "n3"]] * 4, WAIT_S)
    done(peer, "POST", "/rebalance/queues")

    def leaders() -> set[str]:
        return {row["leader"] for row in shown(peer, "/queues")}

    eventually(lambda: len(leaders()) == 3, WAIT_S)
    checked = "/health/checks/quorum-queues-without-elected-leaders/all-vhosts"
    critical = "/health/checks/node-is-quorum-critical"
    for check in (checked, critical):
        eventually(lambda check=check: peer.raw(Ask("GET", check))[0] == 200, WAIT_S)
    nodes[1].broker.kill()
    status, _, body = eventually(
        lambda: (answer := peer.raw(Ask("GET", critical)))[0] == 503 and answer,
        WAIT_S,
    )
    found = json.loads(body)
    assert found["status"] == "failed" and len(found["queues"]) >= 4
    nodes[1].broker.start()


def test_the_overview_is_of_all_nodes(cluster: Cluster) -> None:
    """What clients of each node did is added up, wherever a queue is, and each message once."""
    nodes = started(cluster)
    peers = [peer_of(node) for node in nodes]
    done(peers[0], "PUT", "/queues/%2F/classic", {"durable": True}, 201)
    done(peers[0], "PUT", "/queues/%2F/quorum", QUORUM, 201)
    connections = [node.connect() for node in nodes]
    for connection in connections:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in ("classic", "quorum"):
            for _ in range(3):
                channel.basic_publish("", queue, b"abc")
            method, _, _ = channel.basic_get(queue)
            channel.basic_ack(method.delivery_tag)
    wanted = {"publish": 18, "confirm": 18, "get": 6, "ack": 6, "deliver_get": 6}
    ranges = "lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5"
    for peer in peers:

        def agrees(peer: Peer = peer) -> bool:
            found = shown(peer, f"/overview?{ranges}")
            stats = found["message_stats"]
            newest = stats["publish_details"]["samples"][0]["sample"]
            lengths = found["queue_totals"]["messages_details"]["samples"][0]["sample"]
            return (
                {name: stats[name] for name in wanted} == wanted
                and found["queue_totals"]["messages"] == lengths == 12
                and newest == 18
                and found["object_totals"]["connections"] == 3
                and found["churn_rates"]["connection_created"] == 3
            )

        assert eventually(agrees, WAIT_S), shown(peer, "/overview")
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_figures_are_those_of_all_nodes(cluster: Cluster, kind: str) -> None:
    """What clients of three nodes do with one queue counts once each, whichever node is asked."""
    nodes = started(cluster)
    peers = [peer_of(node) for node in nodes]
    done(peers[0], "PUT", "/vhosts/v", {}, 201)
    arguments = {"x-queue-type": kind}
    done(peers[0], "PUT", "/queues/v/q", {"durable": True, "arguments": arguments}, 201)
    done(peers[0], "PUT", "/exchanges/v/e", {"type": "fanout"}, 201)
    done(peers[0], "POST", "/bindings/v/e/e/q/q", {}, 201)

    def bound(peer: Peer) -> bool:
        status, _, body = peer.raw(Ask("GET", "/bindings/v/e/e/q/q"))
        return status == 200 and json.loads(body) != []

    for peer in peers:
        eventually(lambda peer=peer: bound(peer), WAIT_S)
    for node in nodes:
        connection = node.connect("v")
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(10):
            channel.basic_publish("e", "", b"x")
        connection.close()
    for node in nodes:
        connection = node.connect("v")
        channel = connection.channel()
        for automatic in (False, False, False, False, True):
            method, _, _ = channel.basic_get("q", auto_ack=automatic)
            assert method is not None
            if not automatic:
                channel.basic_ack(method.delivery_tag)
        connection.close()

    wanted = {"publish": 30, "get": 12, "get_no_ack": 3, "ack": 12}

    def counted(peer: Peer, path: str, names: dict[str, int]) -> dict[str, Any]:
        stats = shown(peer, path).get("message_stats", {})
        return {name: stats.get(name) for name in names}

    for peer in peers:
        eventually(lambda peer=peer: counted(peer, "/queues/v/q", wanted) == wanted, WAIT_S)
        of_exchange = {"publish_in": 30, "publish_out": 30}
        assert counted(peer, "/exchanges/v/e", of_exchange) == of_exchange
        eventually(lambda peer=peer: counted(peer, "/vhosts/v", wanted) == wanted, WAIT_S)
        rows = {row["name"]: row for row in shown(peer, "/vhosts")}
        assert rows["v"]["message_stats"]["publish"] == 30
