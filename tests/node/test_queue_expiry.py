"""Queues that go when nobody uses them: `x-expires`, and `expires` in policies."""

from __future__ import annotations

from typing import Any

import pytest

import warren
from tests.node.pair import Client, Pair, Station
from warren.limits import DUE_COST, TURN_DUE_WORK_MAX
from warren.metadata.commands import ClearPolicy, SetPolicy
from warren.node.timers import STALE_MIN, QueueTimers
from warren.queues.queue import Host, Queue
from warren.queues.transient import TransientQueue
from warren.versions import EXPIRY
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

NAME = "q"
EXPIRES = 600
KINDS = ["classic", "transient", "quorum"]


def declare(
    client: Client, kind: str, expires: int = EXPIRES, name: str = NAME, size: int = 0
) -> spec.Method:
    arguments: Table = {"x-queue-type": "quorum" if kind == "quorum" else "classic"}
    if expires:
        arguments["x-expires"] = expires
    if size and kind == "quorum":
        arguments["x-quorum-initial-group-size"] = size
    durable = kind != "transient"
    return client.call(spec.QueueDeclare(0, name, False, durable, False, False, False, arguments))


def left(pair: Pair, name: str = NAME) -> set[str]:
    """The nodes that know the queue."""
    return {s.name for s in pair.stations.values() if s.alive and s.knows(name)}


def pass_time(pair: Pair, milliseconds: int) -> None:
    """Go on for so long."""
    end = pair.clock.monotonic_ms() + milliseconds
    pair.until(lambda: pair.clock.monotonic_ms() >= end)


def gone_after(pair: Pair, name: str = NAME) -> int:
    """How long it takes from now on until no node knows the queue."""
    begin = pair.clock.monotonic_ms()
    pair.until(lambda: not left(pair, name))
    return pair.clock.monotonic_ms() - begin


def leader(pair: Pair, name: str = NAME) -> Station:
    """The node that leads the queue, once there is one."""

    def leads(station: Station) -> bool:
        return station.alive and bool(station.queue(name).group.leads())

    pair.until(lambda: any(map(leads, pair.stations.values())))
    return next(filter(leads, pair.stations.values()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_that_nobody_uses_goes(kind: str) -> None:
    pair = Pair()
    client = pair.a.client()
    declare(client, kind)
    other = pair.b.client()
    begin = pair.clock.monotonic_ms()
    pair.until(lambda: not left(pair))
    assert EXPIRES - 100 <= pair.clock.monotonic_ms() - begin <= EXPIRES + 300
    assert isinstance(other.declare(NAME, passive=True), spec.ChannelClose)
    # A later one of the name is another queue.
    assert isinstance(client.declare(NAME), spec.QueueDeclareOk)
    pass_time(pair, 2 * EXPIRES)
    assert left(pair) == {"a", "b"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["a", "b"])
def test_a_consumer_keeps_it_and_the_time_counts_from_when_it_goes(kind: str, where: str) -> None:
    """Also one of a node that holds nothing of the queue."""
    pair = Pair()
    declare(pair.a.client(), kind, size=1)
    client = pair.stations[where].client()
    client.consume(NAME)
    pass_time(pair, 3 * EXPIRES)
    assert left(pair) == {"a", "b"}
    client.vanish()
    assert EXPIRES - 50 <= gone_after(pair) <= EXPIRES + 1_100


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["a", "b"])
def test_a_get_is_a_use(kind: str, where: str) -> None:
    pair = Pair()
    declare(pair.a.client(), kind, size=1)
    client = pair.stations[where].client()
    for _ in range(4):
        pass_time(pair, EXPIRES * 2 // 3)
        assert client.get(NAME) is None
    assert EXPIRES - 50 <= gone_after(pair) <= EXPIRES + 300


@pytest.mark.rule("QQ-12")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("passive", [False, True])
def test_a_declare_is_a_use_but_of_a_quorum_queue(kind: str, passive: bool) -> None:
    pair = Pair()
    client = pair.a.client()
    declare(client, kind)
    asks = pair.b.client()
    for _ in range(3):
        pass_time(pair, EXPIRES // 2)
        if passive:
            asks.declare(NAME, passive=True)
        elif left(pair):
            declare(asks, kind)
            if kind == "quorum":
                break
    if kind == "quorum":
        assert gone_after(pair) <= EXPIRES // 2 + 300
    else:
        assert EXPIRES - 50 <= gone_after(pair) <= EXPIRES + 300


def test_messages_and_publishers_keep_no_queue() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "classic")
    declare(client, "quorum", name="r")
    client.publish_confirmed(NAME, 3)
    client.publish_confirmed("r", 3)
    pair.until(lambda: not left(pair) and not left(pair, "r"))


def test_an_unsettled_message_keeps_a_quorum_queue() -> None:
    """Its consumer is there until it has settled all, though it gets nothing more."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "quorum")
    client.publish_confirmed(NAME, 1)
    got = client.get(NAME)
    assert got is not None
    pass_time(pair, 2 * EXPIRES)
    assert left(pair)
    client.ack(got.tag)
    assert EXPIRES - 50 <= gone_after(pair) <= EXPIRES + 1_100


def test_another_leader_goes_by_the_time_of_the_log() -> None:
    """What was left of the time is left; the node that led is gone for good."""
    pair = Pair()
    pair.minds_seconds = True
    pair.add("c")
    declare(pair.a.client(), "quorum", 3_000)
    pair.until(lambda: len(left(pair)) == 3)
    begin = pair.clock.monotonic_ms()
    leader(pair).kill()
    pair.until(lambda: not left(pair))
    assert 2_800 <= pair.clock.monotonic_ms() - begin <= 3_500


def test_a_restart_begins_anew_for_a_classic_queue_and_not_for_a_quorum_queue() -> None:
    pair = Pair(alone=True)
    declare(pair.a.client(), "classic", 2_000)
    declare(pair.a.client(), "quorum", 2_000, "r")
    pass_time(pair, 1_500)
    for name in (NAME, "r"):
        # A snapshot has it, and so has the log.
        if name == "r":
            pair.a.queue(name).snapshot()
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    assert gone_after(pair, "r") <= 700
    assert gone_after(pair) >= 800


def test_one_that_leads_no_more_deletes_nothing() -> None:
    """It does not hear that others use the queue, and hears nothing of the tables either."""
    pair = Pair()
    pair.minds_seconds = True
    pair.add("c")
    declare(pair.a.client(), "quorum", 2_000)
    pair.until(lambda: len(left(pair)) == 3)
    led = leader(pair)
    others = [s for s in pair.stations.values() if s is not led]
    for other in others:
        for ends in ((led.name, other.name), (other.name, led.name)):
            pair.blocked.add(ends)
            pair.cut(*ends)
    pair.until(lambda: any(s.queue(NAME).group.leads() for s in others))
    client = others[0].client()
    client.consume(NAME)
    pass_time(pair, 4_000)
    pair.blocked = set()
    pass_time(pair, 4_000)
    assert len(left(pair)) == 3


def set_policy(pair: Pair, definition: dict[str, Any], operator: bool = False) -> None:
    command = SetPolicy("/", "p", operator, ".*", "queues", 0, definition)
    pair.b.node.store.submit(command, None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_counts_for_a_queue_that_exists_and_ends_with_it(kind: str) -> None:
    pair = Pair()
    declare(pair.a.client(), kind, 0)
    declare(pair.a.client(), kind, 0, "other")
    set_policy(pair, {"expires": 5_000})
    pass_time(pair, 500)
    pair.b.node.store.submit(ClearPolicy("/", "p", False), None)
    pass_time(pair, 6_000)
    assert left(pair) == {"a", "b"}
    set_policy(pair, {"expires": EXPIRES})
    assert EXPIRES - 100 <= gone_after(pair) <= EXPIRES + 300


@pytest.mark.parametrize("kind", KINDS)
def test_of_argument_and_policies_the_shortest_time_counts(kind: str) -> None:
    pair = Pair()
    set_policy(pair, {"expires": 4_000})
    pair.settle()
    declare(pair.a.client(), kind, 10_000, "long")
    declare(pair.a.client(), kind, 1_000, "short")
    assert 800 <= gone_after(pair, "short") <= 1_300
    assert 2_700 <= gone_after(pair, "long") <= 3_300
    set_policy(pair, {"expires": EXPIRES}, operator=True)
    pair.settle()
    declare(pair.a.client(), kind, 1_000, "short")
    assert EXPIRES - 100 <= gone_after(pair, "short") <= EXPIRES + 200


def test_a_shorter_time_counts_though_its_entry_comes_after_that_time() -> None:
    """The queue is looked at before its log says so, and goes all the same."""
    pair = Pair()
    declare(pair.a.client(), "quorum", 0)
    queue = leader(pair).queue(NAME)
    set_policy(pair, {"expires": 3_600_000})
    pair.until(lambda: queue.fifo.config.expires_ms == 3_600_000)
    set_policy(pair, {"expires": 100})
    for _ in range(20):
        if queue.expires_ms == 100:
            break
        pair.step_at_once()
    for station in pair.stations.values():
        station.hold_disk = True
    pass_time(pair, 150)
    assert queue.fifo.config.expires_ms == 3_600_000
    for station in pair.stations.values():
        station.hold_disk = False
    assert gone_after(pair) <= 1_000


def test_a_cluster_of_two_releases_has_none() -> None:
    pair = Pair(configure=lambda settings: setattr(settings, "cluster_version_max", 3))
    refused = declare(pair.a.client(), "classic")
    assert isinstance(refused, spec.ChannelClose)
    assert f"this needs cluster version {EXPIRY}" in refused.reply_text
    assert SetPolicy("/", "p", False, "", "all", 0, {"expires": 1}).cluster_version() == 4
    assert not left(pair)


class Waiting(Host):
    """The host of queues that expire, and what it is asked for."""

    def __init__(self) -> None:
        self.timers = QueueTimers()
        self.now = 0
        self.unused: list[str] = []

    def monotonic_ms(self) -> int:
        return self.now

    def queue_later(self, queue: Queue, in_ms: int) -> None:
        self.timers.plan(queue, self.now + int(in_ms))

    def queue_unused(self, queue: Queue) -> None:
        self.unused.append(queue.name)

    def pass_time(self, to: int) -> list[str]:
        self.now = to
        self.timers.tick(to)
        return self.take_turn()

    def take_turn(self) -> list[str]:
        self.unused = []
        self.timers.go_on(self.now)
        return self.unused


def queue_of(host: Waiting, number: int, expires: int) -> TransientQueue:
    queue = TransientQueue(host, "/", str(number))
    queue.group_id = number
    queue.set_expires(expires)
    return queue


def test_queues_are_called_at_their_times_and_others_cost_nothing() -> None:
    host = Waiting()
    first, second, third = (queue_of(host, n, 100 * n) for n in (1, 2, 3))
    assert host.pass_time(99) == []
    third.set_expires(10)
    assert host.pass_time(110) == ["1", "3"]
    host.timers.forget(second)
    second.deleted = True
    assert host.pass_time(1_000) == []
    # One that asks for an earlier time is called then, and once.
    again = queue_of(host, 1, 500)
    again.set_expires(50)
    assert host.pass_time(1_050) == ["1"]
    assert host.pass_time(5_000) == []
    assert first.expires_ms == 100


def test_so_many_due_at_once_are_called_some_at_a_time_and_churn_leaves_nothing() -> None:
    host = Waiting()
    some = TURN_DUE_WORK_MAX // DUE_COST
    many = [queue_of(host, n, 5) for n in range(2 * some + 10)]
    assert len(host.pass_time(5)) == some
    # The next turn goes on, and no further time has to pass.
    assert host.timers.more and host.timers.behind()
    assert len(host.take_turn()) == some
    assert len(host.take_turn()) == 10
    assert not host.timers.more and not host.timers.behind()
    for _ in range(5 * STALE_MIN):
        queue = queue_of(host, 7, 1_000_000)
        host.timers.forget(queue)
    assert host.timers.waiting() <= 2 * STALE_MIN
    assert len(many) > some


class Asking(TransientQueue):
    """A queue that asks to be called again at once, whenever it is called."""

    def due(self, now_ms: int) -> None:
        self.host.queue_unused(self)
        self.host.queue_later(self, 0)


@pytest.mark.skipif(warren.COMPILED, reason="a queue's class has no others below it")
def test_a_queue_that_asks_for_now_waits_for_the_next_tick() -> None:
    """Else the node would do nothing else; and all others have their turn before it again."""
    host = Waiting()
    some = TURN_DUE_WORK_MAX // DUE_COST
    for number in range(some + 5):
        queue = Asking(host, "/", str(number))
        queue.group_id = number
        host.queue_later(queue, 0)
    called = host.pass_time(10)
    while host.timers.more:
        called += host.take_turn()
    assert sorted(called, key=int) == [str(number) for number in range(some + 5)]
    assert not host.timers.behind()
    assert len(host.pass_time(11)) == some
