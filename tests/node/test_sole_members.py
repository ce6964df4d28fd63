"""A quorum queue of one member: clients of its node need not wait for its disk, others do."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

COUNT = 5
ALL = [b"%d" % number for number in range(1, COUNT + 1)]


def filled(no_ack: bool = False) -> tuple[Pair, Client, Client]:
    """A node alone, whose queue has messages; the client that published, and a worker of it."""
    pair = Pair(alone=True)
    publisher = pair.a.client()
    publisher.declare("q", kind="quorum")
    publisher.publish_confirmed("q", COUNT)
    worker = pair.a.client()
    worker.qos(1)
    worker.consume("q", no_ack=no_ack)
    pair.until(lambda: bool(worker.messages))
    return pair, publisher, worker


def work(pair: Pair, worker: Client, count: int) -> None:
    """Have the worker get so many messages, with an ack of each before it gets the next."""
    pair.until(lambda: bool(worker.messages))
    while len(worker.messages) < count:
        seen = len(worker.messages)
        worker.ack(worker.messages[-1].tag)
        pair.until(lambda seen=seen: len(worker.messages) > seen)


def test_a_worker_goes_on_while_the_disk_stands_still() -> None:
    pair, publisher, worker = filled()
    pair.a.hold_disk = True
    work(pair, worker, COUNT)
    publisher.publish("q", b"6")
    work(pair, worker, COUNT + 1)
    assert worker.bodies() == [*ALL, b"6"]
    assert not any(got.redelivered for got in worker.messages)
    pair.settle()
    assert 6 not in publisher.acked, "confirmed before it was durable"
    pair.a.hold_disk = False
    pair.until(lambda: 6 in publisher.acked)


def test_what_a_crash_makes_ready_again_may_have_been_seen() -> None:
    pair, publisher, worker = filled()
    pair.a.hold_disk = True
    work(pair, worker, 3)
    pair.a.kill()
    pair.a.hold_disk = False
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    other = pair.a.client()
    other.consume("q")
    pair.until(lambda: len(other.messages) == COUNT)
    assert other.bodies() == ALL, "what was confirmed is there, in order"
    assert all(got.redelivered for got in other.messages)
    # What comes later was never seen.
    publisher = pair.a.client()
    publisher.publish("q", b"6")
    pair.until(lambda: len(other.messages) == COUNT + 1)
    assert not other.messages[-1].redelivered


def test_what_nobody_consumed_was_not_seen() -> None:
    pair = Pair(alone=True)
    publisher = pair.a.client()
    publisher.declare("q", kind="quorum")
    publisher.publish_confirmed("q", COUNT)
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    other = pair.a.client()
    other.consume("q")
    pair.until(lambda: len(other.messages) == COUNT)
    assert not any(got.redelivered for got in other.messages)


def test_what_is_delivered_once_at_most_waits_for_the_disk() -> None:
    pair, publisher, worker = filled(no_ack=True)
    pair.until(lambda: len(worker.messages) == COUNT)
    pair.settle()
    pair.a.hold_disk = True
    publisher.publish("q", b"6")
    pair.settle()
    assert worker.bodies() == ALL
    pair.a.hold_disk = False
    pair.until(lambda: len(worker.messages) == COUNT + 1)


def test_who_asks_is_answered_when_it_is_durable() -> None:
    pair, publisher, worker = filled()
    pair.a.hold_disk = True
    poller = publisher
    poller.send(spec.BasicGet(0, "q", False))
    worker.ack(worker.messages[-1].tag)
    pair.settle()
    assert not poller.messages
    assert len(worker.messages) == 1, "what comes behind a question waits with it"
    pair.a.hold_disk = False
    pair.until(lambda: bool(poller.messages) and len(worker.messages) == 2)
    assert [poller.messages[0].body, worker.messages[-1].body] == ALL[1:3]


def test_bodies_stay_until_their_acks_are_durable() -> None:
    pair, _, worker = filled()
    pair.a.hold_disk = True
    work(pair, worker, 4)
    queue = pair.a.queue("q")
    assert queue.gather_live().all().pairs() == [(0, COUNT - 1)]
    pair.a.hold_disk = False
    pair.settle()
    assert queue.gather_live().all().pairs() == [(3, COUNT - 1)]


def test_snapshots_are_taken_of_a_queue_that_is_always_ahead_of_its_disk() -> None:
    def configure(settings: Settings) -> None:
        settings.delivery_limit = -1

    pair = Pair(alone=True, configure=configure, file_bytes=1 << 16)
    publisher = pair.a.client()
    publisher.declare("q", kind="quorum")
    worker = pair.a.client()
    worker.qos(10)
    worker.consume("q")
    group = pair.a.queue("q").messages
    got = 0
    for _ in range(1_500):
        if group.snapshot_index > 0:
            break
        publisher.publish("q", bytes(1_000))
        for message in worker.messages[got:]:
            worker.ack(message.tag)
        got = len(worker.messages)
        pair.step()
    assert group.snapshot_index > 0
    assert got > 20


def test_what_comes_before_a_queue_is_led_waits_for_no_tick() -> None:
    """A queue that was just declared has no leader yet when the next command comes."""
    pair = Pair(alone=True)
    client = pair.a.client()
    arguments = {"x-queue-type": "quorum"}
    client.send(spec.QueueDeclare(0, "q", False, True, False, False, False, arguments))
    client.send(spec.QueuePurge(0, "q", False))
    seen = len(client.methods)
    for _ in range(20):
        # All but time goes on.
        pair.a.executor.step()
        client.exchange()
        pair.turn(pair.a)
    assert isinstance(client.methods[seen], spec.QueueDeclareOk)
    assert isinstance(client.methods[seen + 1], spec.QueuePurgeOk)


@pytest.mark.rule("DL-01")
@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_dead_letters_wait_for_the_disk(strategy: str) -> None:
    """After a power cut the message is in its queue again, so nobody else may have it."""
    pair = Pair()
    client = pair.a.client()
    pair.b.client().declare("dead")
    arguments: Table = {
        "x-queue-type": "quorum",
        "x-quorum-initial-group-size": 1,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
        "x-dead-letter-strategy": strategy,
        "x-overflow": "reject-publish",
    }
    client.call(spec.QueueDeclare(0, "q", False, True, False, False, False, arguments))
    client.publish_confirmed("q", COUNT + 1)
    worker = pair.a.client()
    worker.qos(2)
    worker.consume("q")
    pair.until(lambda: len(worker.messages) == 2)
    worker.send(spec.BasicReject(worker.messages[0].tag, False))
    pair.until(lambda: pair.b.queue("dead").counts().ready == 1)
    pair.until(lambda: len(worker.messages) == 3)
    pair.settle()
    pair.a.hold_disk = True
    worker.send(spec.BasicReject(worker.messages[2].tag, False))
    worker.ack(worker.messages[1].tag)
    pair.until(lambda: len(worker.messages) == 5)
    pair.settle(20)
    assert pair.b.queue("dead").counts().ready == 1
    pair.a.kill()
    pair.a.hold_disk = False
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    other = pair.a.client()
    other.consume("q")
    pair.until(lambda: len(other.messages) == COUNT)
    assert other.bodies() == [*ALL[1:], b"6"]
    pair.until(lambda: pair.usable())
    other.send(spec.BasicReject(other.messages[1].tag, False))
    pair.until(lambda: pair.b.queue("dead").counts().ready == 2)
    pair.settle(20)
    assert pair.b.queue("dead").counts().ready == 2


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_dead_letters_go_when_the_disk_has_it(strategy: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("dead")
    arguments: Table = {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
        "x-dead-letter-strategy": strategy,
        "x-overflow": "reject-publish",
    }
    client.call(spec.QueueDeclare(0, "q", False, True, False, False, False, arguments))
    client.publish_confirmed("q", COUNT)
    worker = pair.a.client()
    worker.qos(2)
    worker.consume("q")
    pair.until(lambda: len(worker.messages) == 2)
    pair.a.hold_disk = True
    worker.send(spec.BasicReject(worker.messages[1].tag, False))
    worker.ack(worker.messages[0].tag)
    pair.until(lambda: len(worker.messages) == 4)
    assert pair.a.queue("dead").counts().ready == 0
    queue = pair.a.queue("q")
    assert queue.gather_live().all().pairs() == [(0, COUNT - 1)], "its body is needed"
    pair.a.hold_disk = False
    pair.until(lambda: pair.a.queue("dead").counts().ready == 1)
    got = client.get("dead")
    assert got is not None and got.body == b"2"
