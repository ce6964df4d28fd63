"""Consumers that come and go on one channel leave nothing behind."""

from __future__ import annotations

import gc
import sys

import pytest

from tests.node.pair import Client, Pair
from warren.queues.numbers import Numbers
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame

QUIET = 1_000
"""Blocks of memory that a node takes and gives back by itself."""


def churn(client: Client, name: str, cycles: int) -> None:
    """Consume and cancel, many times with one write."""
    pair = client.pair
    seen = len(client.methods)
    for number in range(cycles):
        tag = f"c{number}"
        consume = spec.BasicConsume(0, name, tag, False, False, False, False, {})
        client.outbox += method_frame(1, consume.encode())
        client.outbox += method_frame(1, spec.BasicCancel(tag, False).encode())
    pair.until(lambda: len(client.methods) == seen + 2 * cycles)
    answers = client.methods[seen:]
    assert all(isinstance(a, (spec.BasicConsumeOk, spec.BasicCancelOk)) for a in answers)
    del client.methods[seen:]
    pair.settle(2)


def queue_of(kind: str) -> tuple[Pair, Client]:
    """A client with a queue, which is another node's if it is remote."""
    pair = Pair(alone=kind != "remote")
    assert isinstance(
        pair.a.client().declare("q", kind="quorum" if kind == "quorum" else "classic"),
        spec.QueueDeclareOk,
    )
    if kind != "remote":
        return pair, pair.a.client()
    pair.until(lambda: pair.b.knows("q"))
    return pair, pair.b.client()


@pytest.mark.parametrize("kind", ["classic", "quorum", "remote"])
def test_a_consumer_that_was_cancelled_takes_no_memory(kind: str) -> None:
    _, client = queue_of(kind)
    churn(client, "q", 300)
    gc.collect()
    before = sys.getallocatedblocks()
    churn(client, "q", 600)
    gc.collect()
    assert sys.getallocatedblocks() - before < QUIET


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_queue_that_was_polled_and_deleted_takes_no_memory(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()

    def poll(cycles: int) -> int:
        for number in range(cycles):
            client.declare(f"q{number}", kind=kind)
            assert client.get(f"q{number}") is None
            delete = spec.QueueDelete(0, f"q{number}", False, False, False)
            assert isinstance(client.call(delete), spec.QueueDeleteOk)
        client.methods.clear()
        pair.settle(2)
        gc.collect()
        channel = next(iter(client.end.channels.values()))
        return len(channel.served.holders) + len(channel.served.pollers)

    assert max(poll(60), poll(80)) <= 2 * 64


def test_a_channel_does_not_run_out_of_identities() -> None:
    """More consumers come and go than there can be at a time, while one of them holds a message."""
    pair, client = queue_of("quorum")
    pair.a.queue("q").numbers = Numbers(200)
    client.publish("q", b"kept")
    consume = spec.BasicConsume(0, "q", "first", False, False, False, False, {})
    assert isinstance(client.call(consume), spec.BasicConsumeOk)
    pair.until(lambda: len(client.messages) == 1)
    assert isinstance(client.call(spec.BasicCancel("first", False)), spec.BasicCancelOk)
    churn(client, "q", 500)
    assert not client.messages[0].redelivered and len(client.messages) == 1
    # What the one of long ago holds is still its own.
    client.ack(client.messages[0].tag)
    pair.settle(3)
    client.vanish()
    pair.settle(3)
    assert pair.a.client().get("q") is None
    assert pair.a.queue("q").consumer_count() == 0
