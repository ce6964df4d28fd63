"""A little of everything that metrics count, done by a client: pika.

Its connections stay open while somebody scrapes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

PUBLISHED = 40
"""Messages with confirms, half of them to a classic queue and half to a quorum queue."""
HELD = 7
"""Deliveries of each queue that are not settled."""
GOT = 3
"""Messages of each queue that are asked for one by one, and acknowledged."""
GOT_AUTOMATIC = 6
"""The same, settled as they are sent."""
RETURNED = 2
DROPPED = 5
TYPES = ("classic", "quorum")
SETTLE_SECONDS = 20.0


def connect(port: int, password: str = "guest") -> pika.BlockingConnection:
    """A connection of the first user."""
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1",
            port,
            credentials=pika.PlainCredentials("guest", password),
            # Nobody reads from these connections while they stay open.
            heartbeat=0,
        )
    )


def taken(channel: BlockingChannel, queue: str, count: int, automatic: bool) -> list[int]:
    """The delivery tags of so many messages, consumed."""
    tags: list[int] = []

    def on_message(_: Any, method: Any, *rest: Any) -> None:
        tags.append(method.delivery_tag)

    channel.basic_consume(queue, on_message, auto_ack=automatic)
    until = time.monotonic() + SETTLE_SECONDS
    while len(tags) < count:
        assert time.monotonic() < until, f"{len(tags)} of {count} messages came"
        channel.connection.process_data_events(time_limit=0.1)
    return tags


@contextmanager
def traffic(port: int) -> Iterator[None]:
    """Publish, consume, get, return, drop, dead-letter; what was opened stays open meanwhile.

    Of each queue type, in messages: 20 published and confirmed; 3 got and acknowledged; 6 got and
    settled as they were sent; 9 consumed: 1 is acknowledged, 1 rejected, which goes to the queue
    `graves`, and 7 are held; 2 are ready. Of `graves` both are consumed and settled as they are
    sent, and then one asks for one more.
    """
    publisher, consumer, one_more = connect(port), connect(port), connect(port)
    try:
        channel = publisher.channel()
        channel.exchange_declare("orders", "topic", durable=True)
        channel.queue_declare("graves", durable=True)
        for kind in TYPES:
            channel.queue_declare(
                kind,
                durable=True,
                arguments={
                    "x-queue-type": kind,
                    "x-dead-letter-exchange": "",
                    "x-dead-letter-routing-key": "graves",
                },
            )
            channel.queue_bind(kind, "orders", f"{kind}.#")
        channel.queue_declare("passing")
        channel.queue_delete("passing")
        channel.confirm_delivery()
        for kind in TYPES:
            for number in range(PUBLISHED // 2):
                channel.basic_publish("orders", f"{kind}.{number}", b"x" * (10 + 90 * number))
        for _ in range(RETURNED):
            try:
                channel.basic_publish("orders", "nowhere", b"", mandatory=True)
            except pika.exceptions.UnroutableError:
                continue
        for _ in range(DROPPED):
            channel.basic_publish("orders", "nowhere", b"")
        other = one_more.channel()
        for kind in TYPES:
            for _ in range(GOT):
                method, _, _ = other.basic_get(kind)
                assert method is not None, "a message was published"
                other.basic_ack(method.delivery_tag)
            for _ in range(GOT_AUTOMATIC):
                method, _, _ = other.basic_get(kind, auto_ack=True)
                assert method is not None, "a message was published"
            manual = consumer.channel()
            manual.basic_qos(prefetch_count=HELD)
            tags = taken(manual, kind, HELD, False)
            manual.basic_ack(tags[0])
            manual.basic_reject(tags[1], requeue=False)
        sink = consumer.channel()
        taken(sink, "graves", 2, True)
        method, _, _ = other.basic_get("graves")
        assert method is None, "both were consumed"
        transactional = one_more.channel()
        transactional.tx_select()
        transactional.basic_publish("", "graves", b"later")
        yield
    finally:
        for connection in (publisher, consumer, one_more):
            if connection.is_open:
                connection.close()
