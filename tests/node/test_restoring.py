"""States of queues that other nodes send, and that are read over many turns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.node.pair import Client, Pair, Station
from warren.protocols.broker import Settings
from warren.replication.member import Member
from warren.replication.observer import Observer
from warren.wire.amqp091 import spec

COUNT = 60
PARTS = 10
"""At least so many turns pass while a state is read."""
LEFT = [b"%d" % number for number in range(1, COUNT, 2)]


def few(settings: Settings) -> None:
    """Have little be done at a time."""
    settings.part_runs = 2


def member_of(station: Station) -> Member:
    """A node's copy of the queue."""
    return station.node.cluster.members[int(station.queue("q").group_id)]


def consuming(pair: Pair, count: int = COUNT) -> Client:
    client = pair.a.client()
    client.qos(count)
    method = spec.BasicConsume(0, "q", "c", False, False, False, False, {})
    assert isinstance(client.call(method), spec.BasicConsumeOk)
    return client


def scatter(pair: Pair, client: Client) -> None:
    """Have every second message of the queue be acked, and the others be ready again."""
    for number in range(COUNT):
        client.publish("q", b"%d" % number)
    pair.until(lambda: len(client.messages) == COUNT)
    for got in client.messages[::2]:
        client.ack(got.tag)
    client.exchange()
    client.vanish()
    pair.until(lambda: pair.a.queue("q").ready_count() == len(LEFT))


class Watch:
    """Sees to it that a node takes one turn at a time, and looks at it after each.

    Attributes:
        between: Turns in which a state was here, and not in force.
        act: What is to be done in the fifth of them.
        paused: Whether the node takes no turns.
        indexes: Of which entries the states were.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, station: Station) -> None:
        self.between = 0
        self.act: Callable[[], None] | None = None
        self.acted = False
        self.paused = False
        self.indexes: set[int] = set()
        turn = Pair.turn

        def watched(pair: Pair, one: Station) -> None:
            if one is not station:
                turn(pair, one)
                return
            if self.paused:
                return
            one.node.turn()
            if one.alive and self.reads(one):
                self.between += 1
                if self.between >= PARTS // 2 and self.act is not None and not self.acted:
                    self.acted = True
                    self.act()

        monkeypatch.setattr(Pair, "turn", watched)

    def reads(self, station: Station) -> bool:
        """Whether a state of the queue is being read."""
        if not station.knows("q"):
            return False
        group_id = int(station.queue("q").group_id)
        member = station.node.cluster.members.get(group_id)
        if member is not None:
            taken = member.snapshots._taken_over
            if taken is None:
                return False
            self.indexes.add(int(taken.index))
            assert not member.is_complete(), "what is not in the log here is not lost"
            assert member.log.incomplete, "no message of it may go"
            assert member.snapshot_part() == 0, "what the machine has is of before"
            return True
        observer = station.node.cluster._parts().observers.observer(group_id)
        return isinstance(observer, Observer) and observer._arrival is not None


def behind(monkeypatch: pytest.MonkeyPatch) -> tuple[Pair, Client, Watch]:
    """A queue on three nodes; `c` comes back when what it missed is to be had as a state only."""
    pair = Pair(configure=few)
    pair.add("c")
    client = pair.a.client()
    assert isinstance(client.declare("q", kind="quorum", size=3), spec.QueueDeclareOk)
    pair.until(lambda: all(station.knows("q") for station in pair.stations.values()))
    pair.until(lambda: member_of(pair.a).leads())
    pair.settle()
    pair.stations["c"].kill()
    scatter(pair, consuming(pair))
    take_snapshots(pair)
    watch = Watch(monkeypatch, pair.stations["c"])
    pair.stations["c"].start()
    return pair, client, watch


def take_snapshots(pair: Pair) -> None:
    """Have entries go from those who have them."""
    pair.settle(40)
    for station in (pair.a, pair.b):
        member = member_of(station)
        assert member.snapshots.take(member, True) > 0
    pair.settle(40)


def alike(pair: Pair) -> bool:
    """Whether all copies have the same."""
    members = [member_of(station) for station in pair.stations.values()]
    if any(member.snapshots.is_whole() or member.log.incomplete for member in members):
        return False
    return len({member.machine.state() for member in members}) == 1


def got_at(station: Station) -> list[bytes]:
    """What a client of one node gets, one by one."""
    client = station.client()
    bodies = []
    while (got := client.get("q")) is not None:
        bodies.append(got.body)
    return bodies


def test_a_leaders_state_is_read_over_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go on; the copy has what it had until all is read, and lacks nothing then."""
    pair, client, watch = behind(monkeypatch)
    c = pair.stations["c"]
    lives: set[int] = set()
    said: list[bool] = []

    def publish() -> None:
        client.publish("q", b"meanwhile")
        lives.add(len(c.queue("q").live()))
        said.append(member_of(pair.a).leads())

    watch.act = publish
    pair.until(lambda: watch.acted)
    pair.until(lambda: pair.a.queue("q").ready_count() == len(LEFT) + 1)
    pair.until(lambda: alike(pair))
    assert watch.between >= PARTS and lives == {0} and said == [True]
    assert not c.node._works
    assert got_at(c) == [*LEFT, b"meanwhile"]


@pytest.mark.parametrize("twice", [False, True])
def test_a_node_dies_before_a_state_is_read(monkeypatch: pytest.MonkeyPatch, twice: bool) -> None:
    """Its copy is empty then, and gets another one."""
    pair, _, watch = behind(monkeypatch)
    c = pair.stations["c"]
    for _ in range(1 + twice):
        watch.act, watch.acted = c.kill, False
        pair.until(lambda: not c.alive)
        c.start()
    watch.act = None
    pair.until(lambda: c.alive and c.knows("q") and alike(pair))
    assert got_at(c) == LEFT


def test_another_leader_is_there_before_a_state_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, _, watch = behind(monkeypatch)

    def hand_over() -> None:
        member = member_of(pair.a)
        assert member.raft.transfer("b", member.host.monotonic_ms()) == ""
        member.work()

    watch.act = hand_over
    pair.until(lambda: watch.acted)
    pair.until(lambda: member_of(pair.b).leads())
    pair.until(lambda: alike(pair))
    assert watch.between >= PARTS
    assert got_at(pair.stations["c"]) == LEFT


def test_a_newer_state_comes_before_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader has no entries behind the first one any more."""
    pair, client, watch = behind(monkeypatch)
    c = pair.stations["c"]
    pair.until(lambda: watch.between > 0)
    watch.paused = True
    for number in range(5):
        client.publish("q", b"new %d" % number)
    pair.until(lambda: pair.a.queue("q").ready_count() == len(LEFT) + 5)
    take_snapshots(pair)
    watch.paused = False
    pair.until(lambda: alike(pair))
    assert len(watch.indexes) == 2
    assert got_at(c) == [*LEFT, *(b"new %d" % number for number in range(5))]


def test_a_queue_is_deleted_before_its_state_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, client, watch = behind(monkeypatch)
    c = pair.stations["c"]
    watch.act = lambda: client.send(spec.QueueDelete(0, "q", False, False, False))
    pair.until(lambda: watch.acted)
    pair.until(lambda: not any(station.knows("q") for station in pair.stations.values()))
    pair.settle(40)
    assert watch.between >= PARTS // 2 and not c.node._works and not c.node.cluster._applying


# --- nodes that only use a queue ----------------------------------------------------------------


def used_elsewhere(monkeypatch: pytest.MonkeyPatch) -> tuple[Pair, Client, Watch]:
    """A queue of `a`, which a client of `b` is about to use for the first time."""
    pair = Pair(configure=few)
    client = pair.a.client()
    assert isinstance(client.declare("q", kind="quorum", size=1), spec.QueueDeclareOk)
    scatter(pair, consuming(pair))
    watch = Watch(monkeypatch, pair.b)
    return pair, client, watch


def test_who_uses_a_queue_reads_its_state_over_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind the state has its turn, too."""
    pair, client, watch = used_elsewhere(monkeypatch)

    def publish() -> None:
        for number in range(5):
            client.publish("q", b"new %d" % number)
            client.exchange()
            pair.a.node.turn()

    watch.act = publish
    assert got_at(pair.b) == [*LEFT, *(b"new %d" % number for number in range(5))]
    assert watch.acted and watch.between >= PARTS


def test_a_link_is_lost_before_a_state_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, _, watch = used_elsewhere(monkeypatch)
    watch.act = lambda: pair.cut("a", "b")
    assert got_at(pair.b) == LEFT
    assert watch.acted and watch.between >= PARTS
    pair.settle(40)
    assert not pair.b.node._works


def test_an_observed_queue_is_deleted_before_its_state_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair, client, watch = used_elsewhere(monkeypatch)
    watch.act = lambda: client.send(spec.QueueDelete(0, "q", False, False, False))
    other = pair.b.client()
    other.send(spec.QueueDeclare(0, "q", True, False, False, False, False, {}))
    pair.until(lambda: watch.acted and not pair.b.knows("q"))
    pair.settle(40)
    assert not pair.b.node._works
