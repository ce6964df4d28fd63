"""Continuous membership reconciliation, with nodes that come, go and fall silent."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair, Station
from warren.metadata.commands import ClearPolicy, RemoveNode, SetPolicy
from warren.metadata.member_checks import voters
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

INTERVAL_MS = 20_000
TRIGGER_MS = 1_000
TARGET = "x-quorum-target-group-size"


def reconciling(target: int = 0) -> Pair:
    """Three nodes that look after their queues."""

    def configure(settings: Settings) -> None:
        settings.reconciles = True
        settings.reconcile_target = target
        settings.reconcile_interval_ms = INTERVAL_MS
        settings.reconcile_trigger_ms = TRIGGER_MS

    pair = Pair(configure=configure)
    pair.add("c")
    return pair


def declare(pair: Pair, name: str, size: int, **arguments: int) -> spec.Method:
    table: Table = {"x-queue-type": "quorum", "x-quorum-initial-group-size": size}
    for key, value in arguments.items():
        table[key] = value
    client = pair.a.client()
    return client.call(spec.QueueDeclare(0, name, False, True, False, False, False, table))


def members(pair: Pair, name: str, station: Station | None = None) -> list[str]:
    """Who votes by what the group itself has in force."""
    node = (station or pair.a).node
    queue = node.metadata.queue("/", name)
    assert queue is not None
    member = node.cluster.members[int(queue.group_id)]
    return sorted(copy.node for copy in member.raft.members if copy.voter)


def passes(pair: Pair, milliseconds: int) -> None:
    """Let time pass where nothing is to happen."""
    until = pair.clock.monotonic_ms() + milliseconds
    while pair.clock.monotonic_ms() < until:
        pair.step()


@pytest.mark.rule("D-05")
@pytest.mark.rule("CMR-02")
@pytest.mark.rule("CMR-11")
def test_a_queue_grows_to_what_its_argument_says() -> None:
    pair = reconciling()
    declare(pair, "q", 1, **{TARGET: 3})
    declare(pair, "left", 1)
    pair.until(lambda: members(pair, "q") == ["a", "b", "c"])
    assert members(pair, "left") == ["a"]
    assert pair.clock.monotonic_ms() < INTERVAL_MS
    assert any("has 1 of 3 members and gets one on node" in text for text in pair.a.warnings)


@pytest.mark.rule("CMR-03")
@pytest.mark.rule("CMR-10")
@pytest.mark.rule("CMR-11")
@pytest.mark.rule("ARG-10")
def test_a_policy_is_a_trigger_and_says_how_many() -> None:
    """It re-applies to queues that are there; the larger of argument and policies counts."""
    pair = reconciling()
    declare(pair, "orders", 1)
    declare(pair, "bills", 1)
    declare(pair, "wants-three", 1, **{TARGET: 3})
    passes(pair, 3 * TRIGGER_MS)
    begun = pair.clock.monotonic_ms()
    set_target(pair, "^(orders|wants)", 2)
    pair.until(lambda: len(members(pair, "orders")) == 2)
    assert pair.clock.monotonic_ms() - begun < INTERVAL_MS // 2
    assert len(members(pair, "wants-three")) == 3
    set_target(pair, "^o", 3, operator=True)
    pair.until(lambda: len(members(pair, "orders")) == 3)
    assert members(pair, "bills") == ["a"]
    # Nothing is taken away when it is cleared.
    pair.b.node.store.submit(ClearPolicy("/", "p", True), None)
    passes(pair, 3 * TRIGGER_MS)
    assert len(members(pair, "orders")) == 3


def set_target(pair: Pair, pattern: str, size: int, operator: bool = False) -> None:
    """Set a policy, on a node that leads nothing."""
    command = SetPolicy("/", "p", operator, pattern, "all", 0, {"target-group-size": size})
    pair.b.node.store.submit(command, None)


@pytest.mark.rule("CMR-06")
def test_the_larger_target_counts() -> None:
    pair = reconciling(target=2)
    declare(pair, "two", 1)
    declare(pair, "three", 1, **{TARGET: 3})
    pair.until(lambda: len(members(pair, "three")) == 3)
    assert len(members(pair, "two")) == 2


@pytest.mark.rule("D-05")
@pytest.mark.rule("CMR-05")
def test_nothing_happens_unless_it_is_enabled() -> None:
    pair = Pair()
    pair.add("c")
    declare(pair, "q", 1, **{TARGET: 3})
    passes(pair, 12_000)
    assert members(pair, "q") == ["a"]


@pytest.mark.rule("CMR-03")
@pytest.mark.rule("CMR-09")
def test_a_new_node_is_a_trigger() -> None:
    """It comes into force a moment later, once; the next look is an interval away."""
    pair = reconciling(target=4)
    declare(pair, "q", 3)
    passes(pair, 2 * TRIGGER_MS)
    # A fourth one would leave an even group, so the only node that is free has to wait.
    pair.add("d")
    passes(pair, 2 * TRIGGER_MS)
    assert members(pair, "q") == ["a", "b", "c"]
    begun = pair.clock.monotonic_ms()
    pair.add("e")
    pair.until(lambda: len(members(pair, "q")) == 4)
    assert pair.clock.monotonic_ms() - begun < INTERVAL_MS // 2


@pytest.mark.rule("CMR-03")
@pytest.mark.rule("CMR-07")
@pytest.mark.rule("MEM-07")
def test_a_node_that_is_forgotten_is_replaced() -> None:
    """Its member goes with it, and another node gets one; its being down changes nothing."""
    pair = reconciling(target=3)
    pair.add("d")
    declare(pair, "q", 3)
    gone = next(name for name in members(pair, "q") if name != "a")
    left = ({"b", "c", "d"} - set(members(pair, "q"))).pop()
    passes(pair, 2 * TRIGGER_MS)
    pair.stations[gone].kill()
    passes(pair, 5 * TRIGGER_MS)
    assert gone in members(pair, "q") and left not in members(pair, "q")
    pair.a.node.store.submit(RemoveNode(gone), None)
    pair.until(lambda: gone not in members(pair, "q"))
    queue = pair.a.node.metadata.queue("/", "q")
    assert queue is not None and gone not in voters(queue)
    pair.until(lambda: left in members(pair, "q"))
    assert len(members(pair, "q")) == 3


@pytest.mark.rule("CMR-04")
def test_a_member_that_is_down_holds_changes_up_and_starts_none() -> None:
    pair = reconciling(target=5)
    for name in ("d", "e"):
        pair.add(name)
    declare(pair, "q", 3)
    down = next(name for name in members(pair, "q") if name != "a")
    pair.stations[down].kill()
    passes(pair, 5 * TRIGGER_MS)
    assert len(members(pair, "q")) == 3
    pair.stations[down].start()
    passes(pair, INTERVAL_MS)
    pair.until(lambda: len(members(pair, "q")) == 5)


@pytest.mark.rule("CMR-08")
def test_what_could_not_be_done_is_tried_again_after_the_interval() -> None:
    pair = reconciling(target=3)
    pair.stations["b"].kill()
    pair.until(lambda: pair.a.node.cluster.detector.suspected("b"))
    declare(pair, "q", 1)
    # Only `c` is free, which would make two of one.
    passes(pair, 3 * TRIGGER_MS)
    assert members(pair, "q") == ["a"]
    pair.stations["b"].start()
    pair.until(lambda: pair.stations["b"].node.ready)
    passes(pair, 3 * TRIGGER_MS)
    assert members(pair, "q") == ["a"]
    passes(pair, INTERVAL_MS)
    pair.until(lambda: len(members(pair, "q")) == 3)


@pytest.mark.parametrize(
    ("value", "reason"),
    [(0, "{value_zero,0}"), (-1, "{value_negative,-1}")],
)
def test_a_target_is_a_positive_number(value: int, reason: str) -> None:
    pair = Pair()
    answer = declare(pair, "q", 1, **{TARGET: value})
    assert isinstance(answer, spec.ChannelClose) and answer.reply_code == 406
    assert answer.reply_text.endswith(
        f"invalid arg '{TARGET}' for queue 'q' in vhost '/': {reason}"
    )


def test_declares_may_differ_in_the_target() -> None:
    """As in RabbitMQ, which does not compare it."""
    pair = Pair()
    declare(pair, "q", 1, **{TARGET: 3})
    assert isinstance(declare(pair, "q", 1, **{TARGET: 5}), spec.QueueDeclareOk)
    assert isinstance(declare(pair, "q", 1), spec.QueueDeclareOk)
