"""Classic queues whose messages go by their priorities: `x-max-priority`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.pair import Client, Pair
from tests.node.test_length_limits import NAME, declare, drained
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames

KINDS = ["classic", "transient"]


def publish(client: Client, body: bytes, priority: int | None, **more: Any) -> None:
    """Publish with a priority, behind a content type."""
    client.published += 1
    flags = 0x9000 | (0x0800 if priority is not None else 0)
    octet = b"" if priority is None else bytes([priority])
    properties = flags.to_bytes(2, "big") + b"\x04text\x02" + octet
    method = spec.BasicPublish(0, "", NAME, False, False)
    client.outbox += content_frames(1, method, properties, body, 131_072)


@pytest.mark.rule("CQ-08", "ORD-02")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["a", "b"])
def test_the_highest_goes_first_and_the_oldest_of_these(kind: str, where: str) -> None:
    """None is the lowest, and what is beyond the queue's is its highest."""
    pair = Pair()
    ok = declare(pair.a.client(), kind, **{"x-max-priority": 5})
    assert isinstance(ok, spec.QueueDeclareOk)
    client = pair.stations[where].client()
    for at, priority in enumerate((0, 3, None, 200, 5, 3, 1)):
        publish(client, b"%d" % at, priority)
    client.call(spec.QueueDeclare(0, NAME, True, False, False, False, False, {}))
    assert drained(client) == [b"3", b"4", b"1", b"5", b"6", b"0", b"2"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["a", "b"])
def test_what_comes_back_has_its_place_again(kind: str, where: str) -> None:
    pair = Pair()
    declare(pair.a.client(), kind, **{"x-max-priority": 5})
    client = pair.stations[where].client()
    for at, priority in enumerate((1, 1, 4, 4)):
        publish(client, b"%d" % at, priority)
    got = [client.get(NAME) for _ in range(4)]
    assert [each.body for each in got if each] == [b"2", b"3", b"0", b"1"]
    publish(client, b"4", 4)
    publish(client, b"5", 2)
    for each in (got[3], got[0], got[2], got[1]):
        assert each is not None
        client.send(spec.BasicReject(each.tag, True))
    pair.settle(20)
    assert drained(client) == [b"2", b"3", b"4", b"5", b"0", b"1"]


@pytest.mark.parametrize("orderly", [False, True])
def test_a_restart_keeps_the_order(orderly: bool) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "classic", **{"x-max-priority": 255})
    client.call(spec.ConfirmSelect(False))
    for at, priority in enumerate((7, 255, 0, 7, 254)):
        publish(client, b"%d" % at, priority)
    pair.until(lambda: len(client.acked) == 5)
    for _ in range(2):
        if orderly:
            pair.a.queue(NAME).snapshot()
            pair.settle(20)
        pair.a.kill()
        pair.a.start()
        pair.until(lambda: pair.a.node.ready)
    client = pair.a.client()
    publish(client, b"5", 7)
    client.declare(NAME, passive=True)
    assert drained(client) == [b"1", b"4", b"0", b"3", b"5", b"2"]


@pytest.mark.parametrize("kind", KINDS)
def test_consumers_get_the_highest_there_is(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, kind, **{"x-max-priority": 9})
    for at, priority in enumerate((1, 9, 5)):
        publish(client, b"%d" % at, priority)
    consumer = pair.a.client()
    consumer.qos(1)
    consumer.consume(NAME)
    pair.settle(20)
    publish(client, b"3", 8)
    pair.settle(20)
    for taken in range(1, 4):
        pair.until(lambda taken=taken: len(consumer.messages) == taken)
        consumer.ack(consumer.messages[-1].tag)
    pair.until(lambda: len(consumer.messages) == 4)
    assert consumer.bodies() == [b"1", b"3", b"2", b"0"]


def test_a_purge_takes_all_and_counts_are_of_all() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "classic", **{"x-max-priority": 3, "x-max-length": 4})
    for at in range(6):
        publish(client, b"%d" % at, at % 4)
    counted = client.declare(NAME, passive=True)
    assert counted.message_count == 4
    # The first ones go where there are too many, and these are the highest.
    purged = client.call(spec.QueuePurge(0, NAME, False))
    assert isinstance(purged, spec.QueuePurgeOk) and purged.message_count == 4


def test_who_asks_for_none_has_two() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "classic", **{"x-max-priority": 0})
    for at, priority in enumerate((0, 9, 4, 0)):
        publish(client, b"%d" % at, priority)
    assert drained(client) == [b"1", b"2", b"0", b"3"]


def test_a_queue_without_priorities_keeps_the_order() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "classic")
    for at, priority in enumerate((0, 9, 4)):
        publish(client, b"%d" % at, priority)
    assert drained(client) == [b"0", b"1", b"2"]


def test_a_cluster_of_two_releases_has_none() -> None:
    pair = Pair(configure=lambda settings: setattr(settings, "cluster_version_max", 3))
    refused = declare(pair.a.client(), "classic", **{"x-max-priority": 3})
    assert isinstance(refused, spec.ChannelClose)
    assert "this needs cluster version 4" in refused.reply_text
