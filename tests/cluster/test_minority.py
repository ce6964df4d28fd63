"""What clients of a node get that has lost the others: refusals in bounded time, and no lies."""

from __future__ import annotations

import time
from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.clients.support import eventually
from tests.cluster.nodes import QUORUM, WAIT_S, Cluster, declare, ready, seen_by
from tests.cluster.traffic import Consumer, Publisher, check_books
from tests.support.patience import patient

QUEUE = "orders"
WAIT_MS = 2_000
LATEST_S = patient(12.0)
"""Refusals come within the wait and a tick or two, on a machine that has much else to do."""

CHANGES: dict[str, Callable[[BlockingChannel], object]] = {
    "Could not declare quorum queue 'new' in vhost '/'": lambda channel: channel.queue_declare(
        "new", durable=True, arguments=QUORUM
    ),
    "The operation to delete the queue from the metadata store": lambda channel: (
        channel.queue_delete("other")
    ),
    "Could not add binding due to timeout": lambda channel: channel.queue_bind(
        QUEUE, "amq.topic", "a.b"
    ),
    "timed out consuming from quorum queue": lambda channel: channel.basic_consume(
        QUEUE, lambda *_: None
    ),
}


@pytest.mark.rule("BEH-03")
@pytest.mark.rule("BEH-10")
def test_a_minority_refuses_and_says_so(cluster: Cluster) -> None:
    """Changes are refused with RabbitMQ's texts and the reason; publishes wait for confirms."""
    nodes = cluster.start(3, "--set", f"metadata_store.khepri.default_timeout={WAIT_MS}")
    declare(nodes[0], "other")
    declare(nodes[0], QUEUE)
    seen_by(nodes[1], QUEUE)
    nodes[1].broker.kill()
    nodes[2].broker.kill()
    eventually(lambda: not nodes[0].status()["leader"], WAIT_S)
    publisher = Publisher(nodes[0], QUEUE, "p")
    publisher.start()
    for text, change in CHANGES.items():
        connection = nodes[0].connect()
        begun = time.monotonic()
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as refused:
            change(connection.channel())
        assert WAIT_MS / 1_000 < time.monotonic() - begun < LATEST_S
        assert refused.value.reply_code == 541
        assert refused.value.reply_text.startswith(f"INTERNAL_ERROR - {text}")
        assert "n2@localhost, n3@localhost" in refused.value.reply_text
    publisher.check()
    assert publisher.sent > 0 and not publisher.confirmed
    nodes[1].broker.start()
    publisher.goes_on()
    publisher.stop()
    # What was refused did not come about later.
    assert ready(nodes[1], "other") == 0 and ready(nodes[1], "new") == -1
    consumer = Consumer(nodes[1], QUEUE)
    consumer.start()
    eventually(lambda: len(consumer.got) >= publisher.sent, WAIT_S)
    consumer.stop()
    check_books([publisher], [consumer])
