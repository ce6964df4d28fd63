"""Classic queues used from all nodes of a cluster of real processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.broker import HOST, Broker, free_port
from warren.client import PERSISTENT, connect
from warren.client.channel import Channel
from warren.client.connection import Connection
from warren.client.messages import ConsumerCancelled
from warren.errors import ChannelException

WAIT_SECONDS = 20.0
HOME_DOWN = "home node 'n1@localhost' of durable queue 'orders' in vhost '/' is down"


def start_nodes(make: Callable[..., Broker], folder: Path, count: int) -> list[Broker]:
    secret = folder / "secret-of-the-cluster"
    secret.write_text("a-secret-for-this-test-alone")
    contact = free_port()
    nodes = []
    for number in range(1, count + 1):
        words = ["--node-name", f"n{number}@localhost", "--secret-file", str(secret)]
        words += ["--cluster-port", str(contact if number == 1 else free_port())]
        if number > 1:
            words += ["--join", f"{HOST}:{contact}"]
        nodes.append(make(*words).start())
    return nodes


def usable(node: Broker) -> tuple[Connection, Channel, int]:
    """A channel on which the queue can be used, and how many messages are ready there."""
    connection = connect(node.url)
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        channel = connection.channel()
        try:
            return connection, channel, channel.queue_declare("orders", passive=True).messages
        except ChannelException as error:
            assert error.code == 404
            assert time.monotonic() < deadline, error
            time.sleep(0.05)


def test_a_classic_queue_from_every_node_and_through_the_death_of_its_own(
    make_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    nodes = start_nodes(make_broker, tmp_path, 3)
    connect(nodes[0].url).channel().queue_declare("orders", durable=True)
    bodies = [b"order %d" % number for number in range(2_000)]
    one, publisher, _ = usable(nodes[1])
    assert publisher.publish_many("", "orders", bodies, PERSISTENT) == []

    two, reader, ready = usable(nodes[2])
    assert ready == len(bodies)
    reader.qos(100)
    reader.consume("orders")
    seen: list[bytes] = []
    while len(seen) < 500:
        for delivery in reader.receive(100, WAIT_SECONDS):
            seen.append(delivery.body)
            reader.ack(delivery.delivery_tag)
    assert seen == bodies[: len(seen)]
    # An answer on this channel comes behind the acks; those at the queue's node follow in order.
    assert reader.queue_declare("orders", passive=True).messages < len(bodies)

    nodes[0].kill()
    with pytest.raises(ConsumerCancelled):
        while True:
            assert reader.receive(1_000, WAIT_SECONDS), "the consumer goes on without its queue"
    assert len(publisher.publish_many("", "orders", bodies[:10], PERSISTENT)) == 10
    with pytest.raises(ChannelException, match=HOME_DOWN):
        publisher.queue_declare("orders", passive=True)

    nodes[0].start()
    three, drain, ready = usable(nodes[1])
    drain.consume("orders")
    left: list[bytes] = []
    while len(left) < ready:
        left += [delivery.body for delivery in drain.receive(1_000, WAIT_SECONDS)]
    assert left == bodies[len(bodies) - len(left) :]
    assert set(bodies) == set(seen) | set(left)
    for connection in (one, two, three):
        connection.close()
