"""Messages larger than what nodes once could say to each other, in clusters of real processes."""

from __future__ import annotations

import os

import pika
import pytest

from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Cluster, declare, ready, seen_by

BODY_BYTES = int(os.environ.get("WARREN_LARGE_BYTES", "72000000"))
"""Above 64 MiB; up to 512 MiB, where there is memory for it."""
SECONDS = 60 + BODY_BYTES // 1_000_000


@pytest.mark.timeout(3 * SECONDS)
def test_a_message_above_64_mib(cluster: Cluster) -> None:
    """It is confirmed, replicated and delivered; to a classic queue of another node likewise."""
    nodes = cluster.start(3, "--set", f"max_message_size={BODY_BYTES}")
    declare(nodes[0], "replicated")
    body = os.urandom(1_000_000) * (BODY_BYTES // 1_000_000)
    connection = nodes[0].connect()
    connection.channel().queue_declare("elsewhere", durable=True)
    connection.close()
    for queue in ("replicated", "elsewhere"):
        leader = cluster.leader(queue, nodes[0]) if queue == "replicated" else nodes[0]
        node, other = cluster.others(leader)
        seen_by(node, queue)
        connection = node.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        # Large ones one after the other, and small ones between.
        for message in (body, b"small", body):
            channel.basic_publish(
                "", queue, message, pika.BasicProperties(delivery_mode=2), mandatory=True
            )
        connection.close()
        eventually(lambda queue=queue, other=other: ready(other, queue) == 3, WAIT_S)
        connection = other.connect()
        channel = connection.channel()
        for message in (body, b"small", body):
            method, _, got = channel.basic_get(queue, auto_ack=True)
            assert method is not None and got == message
        connection.close()
    cluster.check_alive()
    for node in nodes:
        assert "cannot go on" not in node.broker.log_text()
