"""What the guide says of quorum queues as a whole: limits, policies, timeouts, their log."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.pair import Client, Pair
from warren.log.config import LogConfig
from warren.metadata.commands import SetPolicy
from warren.protocols.broker import Settings
from warren.queues.fifo.dead_letters import AT_LEAST_ONCE
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

NAME = "q"
SHORT_MS = 1_000


def declare(client: Client, kind: str = "quorum", **more: Any) -> spec.Method:
    arguments: Table = {"x-queue-type": kind}
    arguments.update({name.replace("_", "-"): value for name, value in more.items()})
    return client.call(spec.QueueDeclare(0, NAME, False, True, False, False, False, arguments))


def consume(client: Client, tag: str = "c", no_ack: bool = False) -> spec.Method:
    return client.call(spec.BasicConsume(0, NAME, tag, False, no_ack, False, False, {}))


def left(pair: Pair) -> list[bytes]:
    """All that is ready."""
    client = pair.a.client()
    found = []
    while (got := client.get(NAME)) is not None:
        found.append(got.body)
    return found


@pytest.mark.rule("QQ-13")
@pytest.mark.parametrize(
    ("overflow", "kept"),
    [
        (None, [b"2", b"3"]),
        ("drop-head", [b"2", b"3"]),
        ("reject-publish", [b"1", b"2", b"3"]),
        ("reject-publish-dlx", [b"2", b"3"]),
    ],
)
def test_a_queue_has_each_overflow_but_one_which_drops_the_first(
    overflow: str | None, kept: list[bytes]
) -> None:
    """One that rejects goes beyond its limit by one; what asks for dead letters of that drops."""
    pair = Pair(alone=True)
    client = pair.a.client()
    said = {} if overflow is None else {"x_overflow": overflow}
    assert isinstance(declare(client, x_max_length=2, **said), spec.QueueDeclareOk)
    client.publish_confirmed(NAME, 3)
    client.publish(NAME, b"4")
    pair.until(lambda: len(client.acked) + len(client.nacked) == 4)
    assert client.nacked == ({4} if overflow == "reject-publish" else set())
    if overflow != "reject-publish":
        kept = [b"3", b"4"]
    assert left(pair) == kept


@pytest.mark.rule("QQ-23")
@pytest.mark.parametrize(("kind", "comes"), [("quorum", 21), ("classic", 60)])
def test_a_message_that_fails_again_and_again_is_given_up(kind: str, comes: int) -> None:
    """By a quorum queue; a classic queue goes on for ever."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, kind)
    client.publish_confirmed(NAME, 1)
    came = 0
    for _ in range(60):
        got = client.get(NAME)
        if got is None:
            break
        came += 1
        client.send(spec.BasicReject(got.tag, True))
    assert came == comes


@pytest.mark.rule("QQ-22", "POL-01", "POL-02", "POL-03")
def test_a_policy_sets_all_there_is_of_a_queue_that_exists() -> None:
    pair = Pair()
    declare(pair.a.client())
    definition = {
        "max-length": 11,
        "max-length-bytes": 12_000,
        "overflow": "reject-publish",
        "expires": 13_000_000,
        "dead-letter-exchange": "amq.fanout",
        "dead-letter-routing-key": "k",
        "delivery-limit": 14,
        "max-in-memory-length": 15,
        "max-in-memory-bytes": 16,
        "dead-letter-strategy": "at-least-once",
        "queue-leader-locator": "balanced",
        "target-group-size": 2,
        "consumer-timeout": 17_000,
        "message-ttl": 18_000,
    }
    pair.b.node.store.submit(
        SetPolicy("/", "p", False, "^q$", "quorum_queues", 0, definition), None
    )
    for station in (pair.a, pair.b):
        config = station.queue(NAME).fifo.config
        pair.until(lambda it=config: int(it.max_length) == 11 and int(it.delivery_limit) == 14)
        assert (int(config.max_bytes), bool(config.rejects)) == (12_000, True)
        assert (int(config.expires_ms), int(config.message_ttl_ms)) == (13_000_000, 18_000)
        assert int(config.dead_letters) == AT_LEAST_ONCE
    forwarding = pair.a.queue(NAME).forwarding
    assert (forwarding.exchange, forwarding.key) == ("amq.fanout", "k")
    client = pair.a.client()
    consume(client)
    (consumer,) = pair.a.queue(NAME).fifo.consumers.values()
    assert int(consumer.locks.timeout_ms) == 17_000
    client.publish_confirmed(NAME, 3)
    pair.until(lambda: client.bodies() == [b"1", b"2", b"3"])


@pytest.mark.rule("D-12")
@pytest.mark.rule("QQ-14")
def test_bodies_are_on_disk_and_not_in_memory() -> None:
    """But for the newest of all queues; a lazy mode is no setting of a quorum queue."""

    def configure(settings: Settings) -> None:
        settings.log = LogConfig(
            wal_max_size_bytes=1 << 20, reserve_bytes=1 << 16, cache_bytes=1 << 16
        )

    pair = Pair(alone=True, configure=configure)
    refused = declare(pair.a.client(), x_queue_mode="lazy")
    assert isinstance(refused, spec.ChannelClose)
    client = pair.a.client()
    declare(client)
    client.call(spec.ConfirmSelect(False))
    bodies = [b"%d" % number * 8_000 for number in range(100)]
    for body in bodies:
        client.publish(NAME, body)
    pair.until(lambda: len(client.acked) == 100)
    pair.settle()
    assert int(pair.a.node.log.cache.size_bytes) <= sum(map(len, bodies)) // 4
    consume(client, no_ack=True)
    pair.until(lambda: client.bodies() == bodies)


def impatient(kind: str = "quorum") -> Pair:
    """A node whose consumers may hold a message for a moment only, and a message."""
    pair = Pair(
        alone=True, configure=lambda settings: setattr(settings, "consumer_timeout_ms", SHORT_MS)
    )
    client = pair.a.client()
    declare(client, kind)
    client.publish_confirmed(NAME, 1)
    return pair


def passes(pair: Pair, time_ms: int) -> None:
    """Time goes by."""
    since = pair.clock.monotonic_ms()
    pair.until(lambda: pair.clock.monotonic_ms() - since > time_ms)


@pytest.mark.rule("D-13")
@pytest.mark.rule("CT-01", "CT-02")
@pytest.mark.parametrize(
    ("kind", "no_ack", "limited"),
    [("quorum", False, True), ("quorum", True, False), ("classic", False, False)],
)
def test_who_acknowledges_to_a_quorum_queue_has_a_limited_time(
    kind: str, no_ack: bool, limited: bool
) -> None:
    pair = impatient(kind)
    client = pair.a.client()
    consume(client, no_ack=no_ack)
    pair.until(lambda: len(client.messages) == 1)
    passes(pair, 3 * SHORT_MS)
    assert any(isinstance(method, spec.BasicCancel) for method in client.methods) == limited
    assert pair.a.queue(NAME).ready_count() == limited


@pytest.mark.rule("D-13")
@pytest.mark.rule("CT-10", "CT-12")
def test_a_client_that_cannot_be_told_of_a_cancelled_consumer_loses_its_channel() -> None:
    """And what it holds of other messages goes back with it."""
    pair = impatient()
    client = pair.a.caller()
    client.knows_cancels = False
    pair.until(lambda: client.opened)
    consume(client)
    pair.until(lambda: len(client.messages) == 1)
    passes(pair, SHORT_MS // 2)
    pair.a.client().publish_confirmed(NAME, 1)
    pair.until(lambda: isinstance(client.methods[-1], spec.ChannelClose))
    closing = client.methods[-1]
    assert isinstance(closing, spec.ChannelClose)
    assert closing.reply_code == 406
    assert "delivery acknowledgement on channel 1 timed out" in closing.reply_text
    pair.until(lambda: pair.a.queue(NAME).ready_count() == 2)
    assert not any(isinstance(method, spec.BasicCancel) for method in client.methods)


@pytest.mark.rule("POI-10")
@pytest.mark.parametrize("limit", (-1, 20))
def test_a_message_that_comes_back_for_ever_does_not_have_the_log_grow(limit: int) -> None:
    """Others that nobody takes stay beside it."""
    pair = Pair(alone=True, file_bytes=1 << 16)
    client = pair.a.client()
    declare(client, x_delivery_limit=limit)
    client.publish_confirmed(NAME, 20)
    consume(client)
    pair.minds_seconds = True
    sizes = []
    for _ in range(6):
        for _ in range(400):
            pair.until(lambda: len(client.messages) > 0)
            last = client.messages[-1].tag
            client.messages.clear()
            client.send(spec.BasicNack(last, True, True))
        pair.settle(300)
        sizes.append(log_bytes(pair))
    assert max(sizes[3:]) <= 1.5 * max(sizes[:3]), sizes
    client.vanish()
    pair.until(lambda: pair.a.queue(NAME).ready_count() == 20)


def log_bytes(pair: Pair) -> int:
    """What the node's log takes on its disk."""
    disk = pair.a.disk
    return disk.capacity_bytes - disk.free_bytes()
