"""Messages of quorum queues that came back, and wait for a time before they are ready again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.pair import Client, Pair
from warren.metadata.commands import ClearPolicy, SetPolicy
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

NAME = "q"
DELAY_MS = 3_000


def declare(client: Client, **more: Any) -> spec.Method:
    arguments: Table = {"x-queue-type": "quorum"}
    arguments.update({name.replace("_", "-"): value for name, value in more.items()})
    return client.call(spec.QueueDeclare(0, NAME, False, True, False, False, False, arguments))


def delayed(kind: str = "all", least: int = DELAY_MS, **more: Any) -> dict[str, Any]:
    return {"x_delayed_retry_type": kind, "x_delayed_retry_min": least, **more}


def rejected(client: Client) -> None:
    """The next message is rejected, to come again."""
    got = client.get(NAME)
    assert got is not None
    client.send(spec.BasicReject(got.tag, True))


def waits(pair: Pair, where: str = "a") -> int:
    counts = pair.stations[where].queue(NAME).counts()
    return int(counts.delayed)


def waited(pair: Pair, since_ms: int, where: str = "a") -> int:
    """For how long what returned was not ready, by the clock of the test."""
    pair.until(lambda: int(pair.stations[where].queue(NAME).ready_count()) == 1)
    return int(pair.clock.monotonic_ms()) - since_ms


def test_each_failure_makes_it_wait_for_longer_up_to_the_longest() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, **delayed(x_delayed_retry_max=5_000))
    client.publish_confirmed(NAME, 1)
    for wanted in (3_000, 5_000, 5_000):
        rejected(client)
        since = pair.clock.monotonic_ms()
        pair.until(lambda: waits(pair) == 1)
        assert wanted <= waited(pair, since) < wanted + 500
        assert waits(pair) == 0


def test_a_policy_counts_for_what_returns_from_then_on() -> None:
    pair = Pair()
    client = pair.a.client()
    declare(client)
    client.publish_confirmed(NAME, 2)
    rejected(client)
    pair.until(lambda: int(pair.b.queue(NAME).ready_count()) == 2)
    definition = {"delayed-retry-type": "failed", "delayed-retry-min": DELAY_MS}
    pair.b.node.store.submit(SetPolicy("/", "p", False, "q", "queues", 0, definition), None)
    pair.until(lambda: int(pair.b.queue(NAME).fifo.config.retry.min_ms) == DELAY_MS)
    rejected(client)
    pair.until(lambda: waits(pair) == waits(pair, "b") == 1)
    pair.b.node.store.submit(ClearPolicy("/", "p", False), None)
    pair.until(lambda: int(pair.b.queue(NAME).fifo.config.retry.kind) == 0)
    assert waits(pair) == 1, "what waits goes on waiting"
    rejected(client)
    pair.until(lambda: int(pair.a.queue(NAME).ready_count()) == 1)
    pair.until(lambda: int(pair.b.queue(NAME).ready_count()) == 2)


@pytest.mark.parametrize(
    ("own", "policy", "operator", "wanted"),
    [
        (("all", 7, 9), {}, {}, (1, 7, 9)),
        (("all", 7, None), {}, {}, (1, 7, 7)),
        ((None, 7, 9), {}, {}, (0, 1, 1)),
        (("all", None, 9), {}, {}, (0, 1, 1)),
        (("all", 7, 9), {"type": "failed", "min": 5}, {}, (2, 5, 9)),
        (("all", 3, 9), {"type": "returned", "min": 5, "max": 6}, {}, (3, 3, 6)),
        (("all", 3, 9), {"type": "disabled"}, {}, (0, 1, 1)),
        ((None, 3, None), {"type": "all", "min": 5}, {}, (1, 3, 3)),
        ((None, None, None), {"type": "all", "min": 5, "max": 8}, {"min": 7}, (1, 7, 8)),
        ((None, None, None), {"type": "all", "min": 5, "max": 8}, {"max": 6}, (1, 5, 6)),
        (
            (None, None, None),
            {"type": "all", "min": 5},
            {"type": "failed", "min": 4},
            (2, 5, 5),
        ),
    ],
)
def test_what_counts(
    own: tuple[Any, ...], policy: dict[str, Any], operator: dict[str, Any], wanted: tuple[int, ...]
) -> None:
    """Of arguments and policies the smaller time, of operators the larger shortest one."""
    pair = Pair(alone=True)
    names = ("type", "min", "max")
    given = {f"x_delayed_retry_{n}": v for n, v in zip(names, own, strict=True) if v is not None}
    declare(pair.a.client(), **given)
    for by_operator, said in ((False, policy), (True, operator)):
        definition = {f"delayed-retry-{name}": value for name, value in said.items()}
        if definition:
            command = SetPolicy("/", "p", by_operator, ".*", "queues", 0, definition)
            pair.a.node.store.submit(command, None)

    def in_force() -> tuple[int, ...]:
        retry = pair.a.queue(NAME).fifo.config.retry
        return int(retry.kind), int(retry.min_ms), int(retry.max_ms)

    pair.until(lambda: in_force() == wanted)
    pair.settle(20)
    assert in_force() == wanted


def test_a_client_of_a_node_without_the_queue_waits_as_long() -> None:
    pair = Pair()
    declare(pair.a.client(), **delayed(x_quorum_initial_group_size=1))
    pair.until(lambda: pair.b.knows(NAME))
    client = pair.b.client()
    client.publish_confirmed(NAME, 1)
    client.consume(NAME)
    pair.until(lambda: len(client.messages) == 1)
    client.send(spec.BasicReject(client.messages[0].tag, True))
    since = pair.clock.monotonic_ms()
    pair.until(lambda: len(client.messages) == 2)
    passed = pair.clock.monotonic_ms() - since
    assert DELAY_MS <= passed < DELAY_MS + 500
    counts = {"x-acquired-count": 1, "x-delivery-count": 1}
    assert client.messages[1].headers() == counts


@pytest.mark.parametrize("orderly", (False, True))
def test_it_goes_on_waiting_behind_a_restart(orderly: bool) -> None:
    """Neither anew nor for less, by the time of the log; here with a snapshot, and without."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, **delayed(least=60_000))
    client.publish_confirmed(NAME, 1)
    rejected(client)
    since = pair.clock.monotonic_ms()
    pair.until(lambda: waits(pair) == 1)
    pair.settle(20)
    if orderly:
        pair.a.queue(NAME).snapshot()
        pair.settle(20)
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready and pair.a.queue(NAME) is not None)
    pair.until(lambda: waits(pair) == 1)
    # It may be some time until the queue has its leader.
    pair.clock.advance(60_000 - int(pair.clock.monotonic_ms() - since) - 2_000)
    pair.settle(5)
    assert int(pair.a.queue(NAME).ready_count()) == 0
    assert 60_000 <= waited(pair, since) < 63_000


def test_the_next_leader_has_it_ready_in_time() -> None:
    pair = Pair()
    pair.add("c")
    client = pair.a.client()
    declare(client, **delayed(least=9_000))
    client.publish_confirmed(NAME, 1)
    rejected(client)
    since = pair.clock.monotonic_ms()
    pair.until(lambda: pair.stations["c"].knows(NAME) and waits(pair, "b") == 1)
    pair.minds_seconds = True
    pair.a.kill()
    passed = waited(pair, since, "b")
    assert 9_000 <= passed < 9_500


def test_a_cluster_of_two_releases_has_none() -> None:
    pair = Pair(configure=lambda settings: setattr(settings, "cluster_version_max", 3))
    client = pair.a.client()
    refused = declare(client, **delayed())
    assert isinstance(refused, (spec.ChannelClose, spec.ConnectionClose))
    assert "this needs cluster version 4" in refused.reply_text


def test_publishers_of_all_nodes_are_rejected_for_what_waits() -> None:
    """What waits counts towards the limit, and leaves room when it has left."""
    pair = Pair()
    client = pair.a.client()
    declare(client, **delayed(least=600_000), x_max_length=2, x_overflow="reject-publish")
    pair.until(lambda: pair.b.knows(NAME))
    client.publish_confirmed(NAME, 3)
    for _ in range(3):
        rejected(client)
    pair.until(lambda: waits(pair, "b") == 3)
    for name in ("a", "b"):
        publisher = pair.stations[name].client()
        publisher.call(spec.ConfirmSelect())
        publisher.publish(NAME, b"more")
        pair.until(lambda who=publisher: sum(who.acked) + sum(who.nacked) > 0)
        assert list(publisher.nacked) == [1]
    assert isinstance(client.call(spec.QueuePurge(0, NAME)), spec.QueuePurgeOk)
    client.publish_confirmed(NAME, 1)
