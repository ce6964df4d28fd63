"""The events feed of a real cluster whose leaders are killed: gaps only where it says so."""

from __future__ import annotations

from typing import Any

from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Cluster, Node, declare, seen_by
from warren.spark.feed import table

QUEUE = "orders"
FEED = "warren.feed"
MESSAGES = 200


def publish(node: Node, count: int) -> None:
    """Publish to the queue, and wait for confirms."""
    connection = node.connect()
    channel = connection.channel()
    channel.confirm_delivery()
    for _ in range(count):
        channel.basic_publish("", QUEUE, b"x")
    connection.close()


def take(node: Node, count: int) -> None:
    """Consume so many messages, and acknowledge each."""
    connection = node.connect()
    channel = connection.channel()
    channel.basic_qos(prefetch_count=10)
    for method, _, _ in channel.consume(QUEUE, inactivity_timeout=WAIT_S):
        assert method is not None, "there are more messages"
        channel.basic_ack(method.delivery_tag)
        count -= 1
        if count == 0:
            break
    channel.cancel()
    connection.close()


def blocks(node: Node) -> list[bytes]:
    """What the feed's queue has; it is taken out."""
    connection = node.connect()
    channel = connection.channel()
    found = []
    while True:
        method, _, body = channel.basic_get(FEED, auto_ack=True)
        if method is None:
            break
        found.append(body)
    connection.close()
    return found


def offsets(told: list[dict[str, Any]], event: str) -> set[int]:
    """The messages that an event is told of."""
    return {
        row["first_offset"] + at * row["step"]
        for row in told
        if row["queue"] == QUEUE and row["event"] == event
        for at in range(row["count"])
    }


def test_a_feed_has_gaps_only_where_a_life_of_a_node_ends(cluster: Cluster) -> None:
    nodes = cluster.start(3)
    nodes[0].done("feed", "enable")
    declare(nodes[0], QUEUE)
    for node in nodes:
        seen_by(node, QUEUE)
        seen_by(node, FEED)
    told: list[dict[str, Any]] = []

    def told_of(node: Node, event: str, first: int, behind: int) -> bool:
        told.extend(table(blocks(node)).to_pylist())
        return offsets(told, event) >= set(range(first, behind))

    publish(nodes[0], MESSAGES)
    take(nodes[1], MESSAGES)
    eventually(lambda: told_of(nodes[1], "acked", 0, MESSAGES), WAIT_S)
    # All that was told so far is in the feed, on a majority of disks.
    leader = cluster.leader(QUEUE, nodes[0])
    survivor, other = cluster.others(leader)
    leader.broker.kill()
    publish(survivor, MESSAGES)
    take(other, MESSAGES)
    leader.broker.start()
    eventually(lambda: told_of(survivor, "acked", MESSAGES, 2 * MESSAGES), WAIT_S)

    numbers: dict[tuple[str, int], set[int]] = {}
    for row in told:
        numbers.setdefault((row["node"], row["life"]), set()).add(row["block"])
    for life, found in numbers.items():
        assert found == set(range(1, len(found) + 1)), life
    assert {row["left_out"] for row in told} == {0}
    led = [row for row in told if row["event"] == "leading" and row["queue"] == QUEUE]
    assert len({(row["node"], row["life"]) for row in led}) >= 2
    for event in ("published", "confirmed"):
        # The first entry of a leader may come before it has all there was: `leading` says so.
        missing = set(range(2 * MESSAGES)) - offsets(told, event)
        later = max(row["first_offset"] for row in led)
        assert all(MESSAGES <= offset < later for offset in missing), (event, sorted(missing))
