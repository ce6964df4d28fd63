"""Backlogs that are drained side by side do not push each other out of memory."""

from __future__ import annotations

import pytest

from sim.disk import SimFile
from tests.node.pair import Client, Pair
from warren.wire.amqp091 import spec

QUEUES = 24
MESSAGES = 60
BODY = bytes(20_000)
"""A queue has more than is read at a time, and all together have three times what memory keeps."""


def test_what_is_read_is_used_before_it_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    client.call(spec.ConfirmSelect(False))
    names = [f"q{number}" for number in range(QUEUES)]
    for name in names:
        client.declare(name)
        for _ in range(MESSAGES):
            client.publish(name, BODY)
        pair.until(lambda: len(client.acked) == client.published)
    for name in names:
        log = pair.a.queue(name).messages
        log.store.cache.forget(log.share.recent)
    read = 0
    real = SimFile.read

    def counted(file: SimFile, offset_bytes: int, size_bytes: int) -> bytes:
        nonlocal read
        data = real(file, offset_bytes, size_bytes)
        read += len(data)
        return data

    monkeypatch.setattr(SimFile, "read", counted)
    consumers: list[Client] = []
    for name in names:
        consumer = pair.a.client()
        consumer.qos(2)
        consumer.consume(name)
        consumers.append(consumer)
    seen = [0] * QUEUES

    def drained() -> bool:
        for at, consumer in enumerate(consumers):
            if len(consumer.messages) > seen[at]:
                seen[at] = len(consumer.messages)
                consumer.ack(consumer.messages[-1].tag, multiple=True)
        return sum(seen) == QUEUES * MESSAGES

    pair.until(drained)
    assert read < 1.5 * QUEUES * MESSAGES * len(BODY)
