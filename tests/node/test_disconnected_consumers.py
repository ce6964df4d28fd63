"""Consumers of quorum queues whose nodes nobody hears: they keep what they hold for a time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.pair import Client, Pair, Station
from warren.metadata.commands import SetPolicy
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

NAME = "q"
SHORT_MS = 3_000
LONG_MS = 60_000


def trio(timeout_ms: int, where: str = "c", **more: Any) -> tuple[Pair, Station, Client]:
    """A queue with members on two nodes at least, and a client of another one with a message."""

    def configure(settings: Settings) -> None:
        settings.consumer_disconnected_timeout_ms = timeout_ms

    pair = Pair(configure=configure)
    away = pair.add("c")
    client = pair.a.client()
    arguments: Table = {"x-queue-type": "quorum"}
    arguments.update({name.replace("_", "-"): value for name, value in more.items()})
    client.call(spec.QueueDeclare(0, NAME, False, True, False, False, False, arguments))
    client.publish_confirmed(NAME, 1)
    pair.until(lambda: away.knows(NAME))
    consumer = away.client()
    consumer.qos(2)
    consumer.consume(NAME)
    pair.until(lambda: len(consumer.messages) == 1)
    pair.minds_seconds = True
    return pair, away, consumer


def cut_off(pair: Pair, name: str) -> None:
    """Nobody hears a node any more."""
    for other in pair.stations:
        if other != name:
            for key in ((name, other), (other, name)):
                pair.blocked.add(key)
                pair.cut(*key)


def heal(pair: Pair) -> None:
    pair.blocked.clear()


def suspects(pair: Pair) -> int:
    return len(pair.a.queue(NAME).fifo.suspects)


def ready(pair: Pair) -> int:
    return int(pair.a.queue(NAME).ready_count())


def test_a_shorter_silence_changes_nothing() -> None:
    """What its client settles meanwhile is settled when it is heard again, and it gets more."""
    pair, _, consumer = trio(LONG_MS)
    cut_off(pair, "c")
    pair.until(lambda: suspects(pair) == 1)
    pair.a.client().publish_confirmed(NAME, 1)
    consumer.ack(consumer.messages[0].tag)
    pair.settle(300)
    assert ready(pair) == 1 and int(pair.a.queue(NAME).counts().held) == 1
    heal(pair)
    pair.until(lambda: suspects(pair) == 0)
    pair.until(lambda: len(consumer.messages) == 2)
    assert not any(got.redelivered for got in consumer.messages)
    pair.until(lambda: int(pair.a.queue(NAME).counts().held) == 1)


@pytest.mark.parametrize("size", (1, 3))
def test_what_it_holds_returns_after_the_time(size: int) -> None:
    """Not as a failure; also of a node that holds nothing of the queue."""
    pair, _, consumer = trio(SHORT_MS, x_quorum_initial_group_size=size)
    other = pair.b.client()
    other.consume(NAME)
    since = pair.clock.monotonic_ms()
    cut_off(pair, "c")
    pair.until(lambda: len(other.messages) == 1)
    assert SHORT_MS <= pair.clock.monotonic_ms() - since < SHORT_MS + 2_500
    assert other.messages[0].headers() == {"x-acquired-count": 1}
    heal(pair)
    pair.until(lambda: suspects(pair) == 0)
    pair.settle(100)
    consumer.ack(consumer.messages[0].tag)
    other.ack(other.messages[0].tag)
    pair.until(lambda: int(pair.a.queue(NAME).counts().held) == 0)
    assert int(pair.a.queue(NAME).consumer_count()) == 2


def test_a_long_silence_costs_few_looks() -> None:
    """Each takes a moment, and there may be a great many queues: one a second is too much."""
    lasts_ms = 20_000
    pair, _, _ = trio(lasts_ms)
    group_id = int(pair.a.record(NAME).group_id)
    since = pair.clock.monotonic_ms()
    cut_off(pair, "c")
    planned: set[int] = set()
    while ready(pair) == 0:
        assert pair.clock.monotonic_ms() - since < lasts_ms + 2_500
        planned.add(pair.a.node.timers._times.get(group_id) or 0)
        pair.step()
    assert 2 < len(planned) < 10


def test_a_node_that_begins_again_has_left_it_at_once() -> None:
    """Its clients are gone for certain, and their deliveries failed."""
    pair, away, _ = trio(LONG_MS)
    away.kill()
    pair.until(lambda: suspects(pair) == 1)
    away.start()
    pair.until(lambda: ready(pair) == 1)
    got = pair.a.client().get(NAME)
    assert got is not None and got.headers() == {"x-acquired-count": 1, "x-delivery-count": 1}
    assert suspects(pair) == 0


def test_a_time_of_nothing_is_none() -> None:
    pair, _, _ = trio(LONG_MS, x_consumer_disconnected_timeout=0)
    cut_off(pair, "c")
    pair.until(lambda: ready(pair) == 1)
    assert suspects(pair) == 0


def test_another_leader_goes_by_the_same_time() -> None:
    pair, _, _ = trio(6_000)
    since = pair.clock.monotonic_ms()
    cut_off(pair, "c")
    pair.until(lambda: len(pair.b.queue(NAME).fifo.suspects) == 1)
    member = pair.a.node.cluster.members[int(pair.a.record(NAME).group_id)]
    assert member.raft.is_leader
    pair.a.node.queue_members.transfer(int(member.group_id), "b")
    pair.until(lambda: not member.raft.is_leader)
    pair.until(lambda: ready(pair) == 1)
    assert 6_000 <= pair.clock.monotonic_ms() - since < 8_500


def test_another_consumer_is_active_once_nothing_is_held() -> None:
    """Of a queue that serves one at a time; the first one waits when it is heard again."""
    pair, _, consumer = trio(SHORT_MS, x_single_active_consumer=True)
    other = pair.b.client()
    other.consume(NAME)
    cut_off(pair, "c")
    pair.until(lambda: suspects(pair) == 1)
    pair.a.client().publish_confirmed(NAME, 1)
    pair.settle(100)
    assert not other.messages, "what the first one holds may be worked on"
    pair.until(lambda: len(other.messages) == 2)
    heal(pair)
    pair.until(lambda: suspects(pair) == 0)
    pair.a.client().publish_confirmed(NAME, 1)
    pair.until(lambda: len(other.messages) == 3)
    assert len(consumer.messages) == 1


def test_one_that_holds_nothing_gives_its_place_up_at_once() -> None:
    pair, _, consumer = trio(LONG_MS, x_single_active_consumer=True)
    consumer.ack(consumer.messages[0].tag)
    other = pair.b.client()
    other.consume(NAME)
    pair.until(lambda: int(pair.a.queue(NAME).counts().held) == 0)
    cut_off(pair, "c")
    pair.until(lambda: suspects(pair) == 1)
    pair.a.client().publish_confirmed(NAME, 1)
    pair.until(lambda: len(other.messages) == 1)


@pytest.mark.parametrize(
    ("argument", "policy", "wanted"),
    [
        (None, None, 60_000),
        (5, None, 5),
        (None, 6, 6),
        (5, 6, 5),
        (6, 5, 5),
        (None, 90_000, 90_000),
    ],
)
def test_what_counts(argument: int | None, policy: int | None, wanted: int) -> None:
    default = Settings("a").consumer_disconnected_timeout_ms

    def configure(settings: Settings) -> None:
        settings.consumer_disconnected_timeout_ms = default

    pair = Pair(alone=True, configure=configure)
    arguments: Table = {"x-queue-type": "quorum"}
    if argument is not None:
        arguments["x-consumer-disconnected-timeout"] = argument
    client = pair.a.client()
    client.call(spec.QueueDeclare(0, NAME, False, True, False, False, False, arguments))
    if policy is not None:
        definition = {"consumer-disconnected-timeout": policy}
        pair.a.node.store.submit(SetPolicy("/", "p", False, ".*", "queues", 0, definition), None)
        pair.settle(20)
    assert int(pair.a.queue(NAME).silences.timeout_ms) == wanted


def test_a_cluster_of_two_releases_has_none() -> None:
    pair = Pair(configure=lambda settings: setattr(settings, "cluster_version_max", 3))
    arguments: Table = {"x-queue-type": "quorum", "x-consumer-disconnected-timeout": 5}
    declare = spec.QueueDeclare(0, NAME, False, True, False, False, False, arguments)
    refused = pair.a.client().call(declare)
    assert isinstance(refused, (spec.ChannelClose, spec.ConnectionClose))
    assert "this needs cluster version 4" in refused.reply_text


@pytest.mark.rule("CT-03")
@pytest.mark.parametrize("hears", ["entries", "a state"])
@pytest.mark.parametrize("size", (1, 3))
def test_it_is_told_of_what_it_held_too_long_before_its_session_was_closed(
    size: int, hears: str
) -> None:
    """Both are in what its node hears at once; its consumer has another identity after it."""
    more = {"x_quorum_initial_group_size": size, "x_consumer_timeout": 1_000}
    pair, away, consumer = trio(SHORT_MS, **more)
    cut_off(pair, "c")
    held = pair.a.queue(NAME).fifo
    pair.until(lambda: ready(pair) == 1)
    assert held.consumers, "by its timeout"
    pair.until(lambda: not pair.a.queue(NAME).fifo.consumers)
    if hears == "a state":
        for station in (pair.a, pair.b):
            group = station.node.cluster.members.get(int(station.record(NAME).group_id))
            if group is not None:
                group.log.keep_recent(0)
                index = int(group.applied_index)
                group.snapshot()
                pair.until(lambda group=group, index=index: group.log.snapshot_index >= index)
    heal(pair)
    pair.until(lambda: isinstance(consumer.methods[-1], spec.BasicCancel))
    pair.settle(20)
    assert consumer.bodies() == [b"1"]
    assert not pair.a.queue(NAME).fifo.consumers


def test_it_is_told_nothing_where_it_held_nothing_for_too_long() -> None:
    pair, away, consumer = trio(SHORT_MS, x_consumer_timeout=60_000)
    cut_off(pair, "c")
    pair.until(lambda: not pair.a.queue(NAME).fifo.consumers)
    heal(pair)
    pair.until(lambda: len(consumer.messages) == 2)
    assert consumer.messages[1].redelivered
    assert not isinstance(consumer.methods[-1], spec.BasicCancel)
