"""Classic queues whose messages go by their priorities: `x-max-priority`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.pair import Client, Pair
from tests.node.test_length_limits import NAME, declare, drained
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import Table

KINDS = ["classic", "transient"]
DEAD_KEY = "x-dead-letter-routing-key"


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


@pytest.mark.rule("CQ-09")
@pytest.mark.parametrize("where", ["a", "b"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_priority_is_a_property_whichever_way_a_message_comes(kind: str, where: str) -> None:
    """By itself, with others, with confirms, in a transaction, through an exchange, as a dead
    letter, and behind properties that stand before it: each is where its priority says, and each
    is given on as it came. Neither a header of that name nor another property is one."""
    pair = Pair()
    declare(pair.a.client(), kind, **{"x-max-priority": 9})
    client = pair.stations[where].client()
    arguments: Table = {"x-max-length": 0, "x-dead-letter-exchange": "", DEAD_KEY: NAME}
    client.call(spec.QueueDeclare(0, "source", False, True, False, False, False, arguments))
    client.call(spec.QueueBind(0, NAME, "amq.topic", "to.#", False, {}))
    send(client, Properties(priority=3), b"alone")
    for at, priority in enumerate((1, 8)):
        publish(client, b"together %d" % at, priority)
    send(client, Properties(headers={"priority": 9}, correlation_id="9"), b"a header")
    client.call(spec.QueueDeclare(0, NAME, True, False, False, False, False, {}))
    client.call(spec.TxSelect())
    send(client, Properties(delivery_mode=2, priority=7), b"in a transaction")
    client.call(spec.TxCommit())
    full = Properties(
        content_type="t", content_encoding="e", headers={"h": 1}, delivery_mode=2, priority=5,
        correlation_id="c", reply_to="r", expiration="600000", message_id="m", timestamp=1,
        type_="t", user_id="guest", app_id="a",
    )  # fmt: skip
    send(client, full, b"with all others", "amq.topic", "to.here")
    send(client, Properties(priority=6), b"dead", "", "source")
    client.call(spec.TxCommit())
    pair.until(lambda: pair.a.queue(NAME).ready_count() == 7)
    got = [client.get(NAME) for _ in range(7)]
    found = [(each.body, each.properties().priority) for each in got if each is not None]
    assert found == [
        (b"together 1", 8),
        (b"in a transaction", 7),
        (b"dead", 6),
        (b"with all others", 5),
        (b"alone", 3),
        (b"together 0", 1),
        (b"a header", None),
    ]


def send(
    client: Client, properties: Properties, body: bytes, exchange: str = "", key: str = NAME
) -> None:
    """Publish with properties of any kind."""
    method = spec.BasicPublish(0, exchange, key, False, False)
    client.outbox += content_frames(1, method, properties.encode(), body, 131_072)
