"""Publishers wait while something is short or behind; who consumes goes on, whatever that is."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair, Station
from warren.limits import FRAME_BYTES_MAX
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames

LIMIT_BYTES = 1_000
KINDS = ("classic", "transient", "quorum")


def alarm(station: Station, which: str, raised: bool) -> None:
    """Memory or disk of a node gets short, or is not any more."""
    if which == "memory":
        station.node.settings.memory_limit_bytes = LIMIT_BYTES
        station.node.tick(LIMIT_BYTES + 1 if raised else 0)
    else:
        station.node.disk_full(raised)


def declared(client: Client, kind: str) -> None:
    client.declare(
        "q", durable=kind != "transient", kind="quorum" if kind == "quorum" else "classic"
    )


@pytest.mark.rule("R-38")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["memory", "disk"])
def test_consumers_go_on_while_publishers_wait(which: str, kind: str) -> None:
    """Also ones that come during the alarm, with what they ask and settle; on each node."""
    pair = Pair()
    publisher = pair.a.client()
    declared(publisher, kind)
    pair.until(lambda: pair.b.knows("q"))
    publisher.publish_confirmed("q", 30)
    consumers = [pair.a.client(), pair.b.client()]
    for consumer in consumers:
        consumer.qos(2)
        consumer.consume("q")
    pair.until(lambda: all(len(consumer.messages) == 2 for consumer in consumers))
    alarm(pair.b, which, True)
    publisher.publish("q", b"waits")
    far = pair.b.client()
    if which == "memory":
        far.publish("q", b"waits, too")
    pair.until(lambda: publisher.blocked == [f"low on {which}"] and publisher.held)
    late = pair.b.client()
    late.qos(1)
    late.consume("q")
    assert isinstance(late.declare("other"), spec.QueueDeclareOk)
    consumers.append(late)
    seen = 0
    for _ in range(400):
        for consumer in consumers:
            for got in consumer.messages:
                consumer.ack(got.tag)
                seen += 1
            consumer.messages = []
        if seen == 30:
            break
        pair.step()
    assert seen == 30
    assert late.blocked == [] and all(consumer.blocked == [] for consumer in consumers)
    assert publisher.held and len(publisher.acked) == 30
    alarm(pair.b, which, False)
    pair.until(lambda: len(publisher.acked) == 31)
    assert publisher.blocked == [f"low on {which}", ""]
    assert not far.blocked or far.blocked == [f"low on {which}", ""]


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_publishes_and_consumes_goes_on_to_be_given_messages(kind: str) -> None:
    """It is not read from, so that its acks wait with what it publishes, as in RabbitMQ."""
    pair = Pair(alone=True)
    both, other = pair.a.client(), pair.a.client()
    declared(both, kind)
    both.publish_confirmed("q", 5)
    other.consume("q")
    pair.until(lambda: len(other.messages) == 5)
    both.consume("q")
    alarm(pair.a, "memory", True)
    both.publish("q", b"waits")
    pair.until(lambda: both.held)
    other.vanish()
    pair.until(lambda: len(both.messages) == 5)
    assert all(got.redelivered for got in both.messages)
    alarm(pair.a, "memory", False)
    pair.until(lambda: len(both.messages) == 6)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_publishers_wait_for_a_disk_that_is_behind_and_consumers_do_not(kind: str) -> None:
    """What a node takes that is not on disk is bounded, whoever sends it, and goes on by itself."""
    pair = Pair(alone=True)
    publisher, reader = pair.a.client(), pair.a.client()
    declared(publisher, kind)
    publisher.call(spec.ConfirmSelect(False))
    publisher.publish("q", b"first")
    pair.until(lambda: publisher.acked == {1})
    reader.consume("q", no_ack=False)
    pair.until(lambda: reader.bodies() == [b"first"])
    pair.a.hold_disk = True
    body = bytes(60_000)
    sent = 0
    for _ in range(3_000):
        if publisher.held:
            break
        method = spec.BasicPublish(0, "", "q", False, False)
        publisher.outbox += content_frames(1, method, b"\x10\x00\x02", body, FRAME_BYTES_MAX)
        publisher.published += 1
        sent += len(body)
        pair.step()
    assert publisher.held and sent < 64 * 1024 * 1024
    assert publisher.blocked == []  # it is no alarm
    # Who consumes is served: asked for, answered, and let go.
    reader.send(spec.BasicQos(0, 1, False))
    reader.ack(reader.messages[0].tag)
    before = len(reader.methods)
    pair.until(lambda: len(reader.methods) > before)
    pair.a.hold_disk = False
    pair.until(lambda: len(publisher.acked) == publisher.published)
    assert not publisher.held


@pytest.mark.rule("CFG-02")
@pytest.mark.parametrize("most", [0, 32])
def test_publishers_wait_while_more_than_so_much_is_under_way_to_a_quorum_queue(most: int) -> None:
    """Until the others have it; those of other queues do not wait."""

    def configure(settings: Settings) -> None:
        settings.commands_soft_limit = most

    pair = Pair(configure=configure)
    publisher, other = pair.a.client(), pair.a.client()
    publisher.declare("q", kind="quorum")
    other.declare("c")
    publisher.publish_confirmed("q", 1)
    for source, target in (("a", "b"), ("b", "a")):
        pair.blocked.add((source, target))
        pair.cut(source, target)
    for _ in range(5):
        for _ in range(20):
            publisher.publish("q", b"x")
        pair.settle(2)
    assert publisher.acked == {1}
    assert publisher.held == (most > 0)
    if most:
        queue = pair.a.queue("q")
        assert most < queue.under_way() <= most + 20
    other.publish_confirmed("c", 100)
    assert not other.held
    pair.blocked.clear()
    pair.until(lambda: len(publisher.acked) == 101)
    assert not publisher.held and publisher.blocked == []
