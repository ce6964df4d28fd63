"""Queues that keep so many messages: `x-max-length`, and `max-length` in policies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.pair import Client, Pair
from warren.metadata.commands import SetPolicy
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

NAME = "q"
KINDS = ["classic", "transient", "quorum"]


def declare(client: Client, kind: str, **more: Any) -> spec.Method:
    arguments: Table = {"x-queue-type": "quorum" if kind == "quorum" else "classic", **more}
    if kind == "quorum":
        arguments["x-quorum-initial-group-size"] = 1
    durable = kind != "transient"
    return client.call(spec.QueueDeclare(0, NAME, False, durable, False, False, False, arguments))


def drained(client: Client) -> list[bytes]:
    found = []
    while (got := client.get(NAME)) is not None:
        found.append(got.body)
        client.ack(got.tag)
    return found


@pytest.mark.rule("QL-02")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["a", "b"])
def test_the_oldest_go_where_there_are_too_many(kind: str, where: str) -> None:
    pair = Pair()
    ok = declare(pair.a.client(), kind, **{"x-max-length": 3, "x-overflow": "drop-head"})
    assert isinstance(ok, spec.QueueDeclareOk)
    client = pair.stations[where].client()
    client.publish_confirmed(NAME, 7)
    counted = client.declare(NAME, passive=True)
    assert isinstance(counted, spec.QueueDeclareOk) and counted.message_count == 3
    assert drained(client) == [b"5", b"6", b"7"]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_restart_keeps_what_was_kept(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, kind, **{"x-max-length": 3})
    client.publish_confirmed(NAME, 1)
    held = client.get(NAME)
    assert held is not None
    client.publish_confirmed(NAME, 4)
    for _ in range(3):
        got = client.get(NAME)
        assert got is not None
        client.ack(got.tag)
    pair.settle(20)
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    # The fifth was dropped for none of the others: only the second was.
    assert drained(pair.a.client()) == [b"1"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_counts_at_once_and_the_smaller_number(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, kind, **{"x-max-length": 6})
    client.publish_confirmed(NAME, 9)
    for most, left in ((8, 6), (4, 4)):
        pair.a.node.store.submit(
            SetPolicy("/", "p", False, ".*", "queues", 0, {"max-length": most}), None
        )
        pair.settle(20)
        counts = pair.a.queue(NAME).counts()
        assert int(counts.ready) == left
    assert drained(client) == [b"6", b"7", b"8", b"9"]


def test_a_quorum_queue_that_is_to_reject_to_an_exchange_drops_the_first() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "quorum", **{"x-max-length": 3, "x-overflow": "reject-publish-dlx"})
    client.publish_confirmed(NAME, 5)
    assert drained(client) == [b"3", b"4", b"5"]


def test_a_cluster_of_two_releases_has_none() -> None:
    pair = Pair(configure=lambda settings: setattr(settings, "cluster_version_max", 3))
    for argument in ("x-max-length", "x-max-length-bytes", "x-overflow"):
        value = "reject-publish" if argument == "x-overflow" else 3
        refused = declare(pair.a.client(), "classic", **{argument: value})
        assert isinstance(refused, spec.ChannelClose)
        assert "this needs cluster version 4" in refused.reply_text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["a", "b"])
def test_the_oldest_go_where_they_are_too_large(kind: str, where: str) -> None:
    """Each counts by itself: its body, and in a quorum queue its three bytes of properties."""
    pair = Pair()
    ok = declare(pair.a.client(), kind, **{"x-max-length-bytes": 28 if kind == "quorum" else 10})
    assert isinstance(ok, spec.QueueDeclareOk)
    client = pair.stations[where].client()
    client.call(spec.ConfirmSelect(False))
    for size in (1, 8, 0, 3, 4, 2, 0, 1):
        client.publish(NAME, bytes(size))
        pair.until(lambda: len(client.acked) == client.published)
    assert [len(body) for body in drained(client)] == [0, 3, 4, 2, 0, 1]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_sizes_survive_a_restart(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, kind, **{"x-max-length-bytes": 22 if kind == "quorum" else 10})
    client.call(spec.ConfirmSelect(False))
    for size in (1, 5, 2, 2):
        client.publish(NAME, bytes(size))
    pair.until(lambda: len(client.acked) == client.published)
    pair.settle(20)
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    client = pair.a.client()
    client.publish(NAME, bytes(6))
    assert [len(body) for body in drained(client)] == [2, 2, 6]


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_limits_bytes_of_what_comes_from_then_on(kind: str) -> None:
    """The smaller one of argument, policy and operator policy counts."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, kind, **{"x-max-length-bytes": 100})
    size = 5 if kind == "quorum" else 2
    for operator, most in ((False, 10), (True, 7), (False, 3)):
        pair.a.node.store.submit(
            SetPolicy("/", "p", operator, ".*", "queues", 0, {"max-length-bytes": most}), None
        )
        pair.settle(20)
        for _ in range(6):
            client.publish(NAME, bytes(2))
        pair.settle(20)
        assert int(pair.a.queue(NAME).counts().ready) == most // size
