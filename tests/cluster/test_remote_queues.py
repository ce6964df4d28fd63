"""Classic queues used from all nodes of a cluster of real processes."""

from __future__ import annotations

import time

import pytest

from tests.cluster.nodes import Cluster
from tests.support.broker import Broker
from tests.support.patience import patient
from warren.client import PERSISTENT, connect
from warren.client.channel import Channel
from warren.client.connection import Connection
from warren.client.messages import ConsumerCancelled
from warren.wire.amqp091.errors import ChannelException

WAIT_SECONDS = patient(20.0)
HOME_DOWN = "home node 'n1@localhost' of durable queue 'orders' in vhost '/' is down"


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
    cluster: Cluster,
) -> None:
    nodes = [node.broker for node in cluster.start(3)]
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
