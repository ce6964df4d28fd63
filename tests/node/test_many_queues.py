"""What there may be arbitrarily many of is worked off in parts, and all of it in the end."""

from __future__ import annotations

import gc
from itertools import pairwise
from typing import Any, final

import pytest

import warren
import warren.sharded_dict as sharded_dict
from tests.node.pair import Client, Pair, Station
from tests.queues.test_scattered import steps
from warren.limits import (
    CHANGES_AT_ONCE_MAX,
    TURN_CHANGES_MAX,
    TURN_CONNECTIONS_MAX,
    TURN_SNAPSHOTS_MAX,
)
from warren.log.batch import KIND_MESSAGES
from warren.log.log import Log
from warren.metadata import machine as metadata_machine
from warren.metadata import membership
from warren.metadata import rows as metadata_rows
from warren.metadata.changes import QUEUE_COST
from warren.metadata.commands import RemoveNode
from warren.metadata.membership import LOT_COST
from warren.metadata.outcome import Outcome
from warren.metadata.rows import LOT_ROWS
from warren.node import beginnings, policies, removals, replay
from warren.node.cluster import disks, news, timed
from warren.node.cluster import dispatch as cluster
from warren.node.cluster.disks import BEHIND, PING_BYTES
from warren.node.store import METADATA_GROUP
from warren.pending import PendingResult, Result
from warren.protocols.amqp091.connection import Connection
from warren.queues.proxy import ProxyQueue
from warren.raft.raft import Raft
from warren.replication import frames
from warren.replication.client_sessions import ClientSessions
from warren.replication.kinds import PING
from warren.replication.member import Member
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

MANY = 300
"""More than any of the bounds on queues lets one turn do."""


def declare_many(
    pair: Pair, client: Client, kind: str = "classic", exclusive: bool = False
) -> None:
    wanted = len(client.methods) + MANY
    for number in range(MANY):
        client.send(
            spec.QueueDeclare(
                0,
                f"q{number}",
                False,
                not exclusive,
                exclusive,
                False,
                False,
                {"x-queue-type": kind},
            )
        )
    pair.until(lambda: len(client.methods) == wanted)


def with_queues(count: int) -> tuple[Pair, Client]:
    """Two nodes, which both vote in so many quorum queues; and who has declared them."""
    pair = Pair()
    client = pair.a.client()
    for number in range(count):
        client.declare(f"q{number}", kind="quorum", size=2)
    return pair, client


def queues_of(station: Station) -> int:
    return len(station.node.metadata.vhosts["/"].queues)


def containers() -> list[Any]:
    """All that is kept in dicts and sets of this process, those of modules and classes too."""
    gc.collect()
    return [found for found in gc.get_objects() if isinstance(found, (dict, set))]


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
@pytest.mark.parametrize("kind", ["classic", "quorum", "exclusive"])
def test_no_dict_has_an_entry_for_each_queue(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does moves all its entries at some declare, at the same as others that do.

    On the queues' node and on another one that uses them.
    """
    monkeypatch.setattr(sharded_dict, "SPREAD_FROM", 64)
    exclusive = kind == "exclusive"
    pair = Pair(alone=exclusive)
    stations = [pair.a] if exclusive else [pair.a, pair.b]
    clients = [station.client() for station in stations]
    # A lot of rows is one dict.
    before = {id(found) for found in containers() if len(found) >= LOT_ROWS}
    names = [f"q{number}" for number in range(LOT_ROWS + 64)]
    for at, name in enumerate(names):
        arguments: Table = {"x-queue-type": "classic" if exclusive else kind}
        clients[0].send(
            spec.QueueDeclare(0, name, False, not exclusive, exclusive, False, False, arguments)
        )
        if at % 64 == 63:
            pair.until(lambda at=at: queues_of(stations[-1]) == at + 1)
    for client in clients:
        for name in names:
            client.publish(name, b"m")
    pair.settle(20)
    long = [found for found in containers() if len(found) > LOT_ROWS and id(found) not in before]
    assert not [str(list(found)[:2]) for found in long]


def test_a_turn_writes_few_of_many_snapshots() -> None:
    pair = Pair(alone=True)
    declare_many(pair, pair.a.client())
    node = pair.a.node
    for group_id in node.queues.logged:
        node.want_snapshot(group_id)
        node.want_snapshot(group_id)
    turns = 0
    left = MANY
    while left:
        node.turn()
        turns += 1
        assert left - len(node.due_snapshots.groups) <= TURN_SNAPSHOTS_MAX
        left = len(node.due_snapshots.groups)
        assert node.needs_turn or not left
    assert turns == -(-MANY // TURN_SNAPSHOTS_MAX)
    groups = [queue.messages for queue in node.queues.logged.values()]
    pair.until(lambda: all(group.snapshot_index >= 0 for group in groups))


def test_queues_of_a_connection_that_is_gone_are_deleted_in_parts() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare_many(pair, client, exclusive=True)
    other = pair.a.client()
    proposals = pair.a.node.store.member().proposals
    client.vanish()
    assert 0 < len(proposals) <= CHANGES_AT_ONCE_MAX
    # A queue that is still to be submitted is waited for like one that is on its way.
    other.send(spec.QueueDeclare(0, "q0", False, True, False, False, False, {}))
    seen = len(other.methods)
    while len(other.methods) == seen:
        pair.step()
        assert len(proposals) <= CHANGES_AT_ONCE_MAX + 1
    assert isinstance(other.methods[-1], spec.QueueDeclareOk)
    pair.until(lambda: queues_of(pair.a) == 1)
    assert not pair.a.node.removals.pending


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_of_many_queues_of_a_connection_that_is_gone_few_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end of a connection copies no list of its queues, and none is used meanwhile."""
    monkeypatch.setattr(removals, "CHANGES_AT_ONCE_MAX", 3)
    pair = Pair(alone=True)
    client = pair.a.client()
    client.call(spec.ExchangeDeclare(0, "e", "topic", False, False, True))
    client.call(spec.ExchangeDeclare(0, "behind", "topic", False, False, True))
    client.call(spec.ExchangeBind(0, "behind", "e"))
    for number in range(40):
        client.declare(f"q{number}", durable=False, exclusive=True)
        client.call(spec.QueueBind(0, f"q{number}", "behind"))
    going = pair.a.node.removals
    first, other = pair.a.client(), pair.a.client()
    client.vanish()
    # Exchanges go with the last of the queues, so that others of their names can be declared.
    first.send(spec.QueueDeclare(0, "q39", False, True, False, False, False, {}))
    other.send(spec.ExchangeDeclare(0, "e", "fanout"))
    seen = len(other.methods)
    steps = 0
    while len(other.methods) == seen:
        assert 0 < len(going._to_remove) + going._removing <= 9 or not going.pending
        pair.step()
        steps += 1
        assert steps < 1_000
    assert isinstance(other.methods[-1], spec.ExchangeDeclareOk)
    assert isinstance(first.methods[-1], spec.QueueDeclareOk)
    assert queues_of(pair.a) == 1 and not going.pending


def test_a_node_that_joins_has_nothing_of_many_queues() -> None:
    """They cost it their rows in the tables, until its clients use them."""
    pair = Pair(alone=True)
    declare_many(pair, pair.a.client(), kind="quorum")
    station = pair.add("b")
    queues = station.node.metadata.vhosts["/"].queues.values()
    assert len(queues) > 1 and not any(queue.member_on("b") for queue in queues)
    assert not station.node.queues.vhosts["/"].queues
    assert list(station.node.cluster.members) == [METADATA_GROUP]


def test_a_turn_looks_at_the_timers_of_few_of_many_connections() -> None:
    pair = Pair(alone=True)
    node = pair.a.node
    clients = []
    for _ in range(2 * TURN_CONNECTIONS_MAX + 1):
        client = Client.__new__(Client)
        client.over = False
        client.end = Connection(node, client, "127.0.0.1", 0)
        node.accept(client.end)
        clients.append(client)
    pair.clock.advance(2 * node.settings.handshake_timeout_ms)
    node.tick_log()
    assert sum(client.over for client in clients) == TURN_CONNECTIONS_MAX
    node.turn()
    assert sum(client.over for client in clients) == 2 * TURN_CONNECTIONS_MAX
    assert node.needs_turn
    node.turn()
    assert all(client.over for client in clients)


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_members_hear_of_a_node_that_went_and_came_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Quorum queues of a node that is gone are led elsewhere, few or many at a time."""
    monkeypatch.setattr(news, "TURN_MEMBERS_MAX", 3)
    told: dict[news.MemberNews, int] = {}
    tell, begin = news.MemberNews._tell_one, news.MemberNews.turn_begun

    def counted(self: news.MemberNews, member: Member, what: news.News) -> None:
        told[self] = told.get(self, 0) + 1
        assert told[self] <= 3, "all that happens between two turns shares what one may tell"
        tell(self, member, what)

    def begun(self: news.MemberNews) -> None:
        told[self] = 0
        begin(self)

    monkeypatch.setattr(news.MemberNews, "_tell_one", counted)
    monkeypatch.setattr(news.MemberNews, "turn_begun", begun)
    pair = Pair()
    pair.add("c")
    client = pair.b.client()
    for number in range(8):
        client.declare(f"q{number}", kind="quorum")
    members = pair.a.node.cluster.members

    def led_by(name: str) -> list[int]:
        return [group for group, member in members.items() if member.raft.leader == name]

    pair.until(lambda: len(led_by("b")) == 8)
    pair.b.kill()
    pair.until(lambda: not led_by("b") and len(led_by("a") + led_by("c")) == 9)
    pair.b.start()
    pair.until(lambda: pair.b.node.ready)
    other = pair.b.client()
    for number in range(8):
        other.publish(f"q{number}", b"x")
    pair.until(lambda: all(pair.a.queue(f"q{number}").ready_count() == 1 for number in range(8)))


def test_a_turn_puts_few_of_many_changes_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that was away hears at once that hundreds of changes are committed."""
    pair = Pair()
    pair.add("c")
    pair.b.kill()
    declare_many(pair, pair.a.client())
    grown: list[int] = []
    seen = 0

    def look(station: Station) -> None:
        nonlocal seen
        if station is pair.b:
            index = int(station.node.metadata.applied_index)
            grown.append(index - seen)
            seen = index

    def turn(self: Pair, station: Station) -> None:
        for _ in range(20):
            look(station)
            station.node.turn()
            look(station)
            if not station.node.needs_turn:
                return

    pair.b.start()
    seen = int(pair.b.node.metadata.applied_index)
    monkeypatch.setattr(Pair, "turn", turn)
    pair.until(lambda: pair.b.node.ready and queues_of(pair.b) == MANY)
    assert max(grown) == TURN_CHANGES_MAX
    assert pair.a.node.metadata.state_hash() == pair.b.node.metadata.state_hash()


@pytest.mark.parametrize("dies", [False, True])
def test_tables_from_a_leader_are_read_in_parts(
    dies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients see those of before until all are here; a crash in between changes nothing."""
    pair = Pair()
    pair.add("c")
    pair.settle()
    pair.b.kill()
    declare_many(pair, pair.a.client())
    pair.settle()
    for station in (pair.a, pair.stations["c"]):
        member = station.node.store.member()
        assert member.snapshots.take(member, True) > 0
    pair.settle(40)
    seen: list[int] = []
    between = 0

    def named(station: Station) -> int:
        return queues_of(station) if station.node.metadata.vhosts else 0

    def turn(self: Pair, station: Station) -> None:
        """At most one, so that what each does is seen."""
        nonlocal between
        station.node.turn()
        if station is pair.b:
            seen.append(named(station))
            store = station.node.store
            if store._reading is not None:
                between += 1
                assert store.member().snapshots.is_whole() and not store.member().is_complete()
                if dies and between == 5:
                    station.kill()

    pair.b.start()
    pair.b.node.store.rows_at_once = MANY // 20
    before = named(pair.b)
    assert before < MANY
    monkeypatch.setattr(Pair, "turn", turn)
    if dies:
        pair.until(lambda: between == 5)
        assert set(seen) == {before}
        pair.b.start()
    pair.until(lambda: pair.b.node.ready and named(pair.b) == MANY)
    if not dies:
        assert between >= 20
        assert set(seen) == {before, MANY}
    assert pair.a.node.metadata.state_hash() == pair.b.node.metadata.state_hash()


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_what_a_start_brought_back_is_let_go_of_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all at once, when the node has taken it over; and all of it in the end."""
    monkeypatch.setattr(replay, "LET_GO_MAX", 20)
    left: list[int] = []

    def counted(replayer: replay.NodeReplayer) -> bool:
        kept = (replayer.groups, replayer.machines, replayer.seen, replayer.clean)
        if not left:
            left.append(sum(map(len, kept)))
        over = let_go(replayer)
        left.append(sum(map(len, kept)))
        return over

    let_go = replay.NodeReplayer.let_go
    monkeypatch.setattr(replay.NodeReplayer, "let_go", counted)
    pair = Pair(alone=True)
    client = pair.a.client()
    for number in range(60):
        client.declare(f"q{number}")
        client.publish(f"q{number}", b"x")
    pair.settle()
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    pair.settle()
    assert left[0] > 2 * 60 and left[-1] == 0
    assert all(0 <= a - b <= 20 for a, b in pairwise(left))
    assert pair.a.queue("q59").ready_count() == 1


@final
class Removed(PendingResult):
    """Waits for a node to be removed."""

    def __init__(self) -> None:
        self.done = False

    def succeeded(self, result: Result) -> None:
        """It is."""
        assert isinstance(result, Outcome) and result.nodes_changed and not self.done
        self.done = True


FEW = 8


def many_of_b(monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Three nodes; b has more queues of its own than are treated in a turn, and is gone."""
    monkeypatch.setattr(metadata_machine, "BINDINGS_AT_ONCE_MAX", FEW * QUEUE_COST)
    pair = Pair()
    pair.add("c")
    client = pair.b.client()
    for number in range(8 * FEW):
        client.declare(f"q{number}")
    pair.until(lambda: queues_of(pair.a) == 8 * FEW)
    pair.b.kill()
    return pair


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_queues_of_a_node_that_is_removed_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind in the log waits, as does a snapshot, and then is done."""
    pair = many_of_b(monkeypatch)
    store, metadata = pair.a.node.store, pair.a.node.metadata
    client = pair.a.client()
    removed = Removed()
    turn = Pair.turn
    left: list[int] = []
    between = 0

    def one_turn(self: Pair, station: Station) -> None:
        """At most one, so that what each does is seen."""
        nonlocal between
        if station is not self.a:
            turn(self, station)
            return
        station.node.turn()
        left.append(queues_of(station))
        if store.unfinished():
            between += 1
            assert not removed.done and metadata.queue("/", "behind") is None
            assert store.member().applies_later() and store.snapshot() == 0

    monkeypatch.setattr(Pair, "turn", one_turn)
    store.submit(RemoveNode("b", True), removed)
    client.send(spec.QueueDeclare(0, "behind", False, True, False, False, False, {}))
    pair.until(lambda: len(client.methods) > 0)
    assert isinstance(client.methods[-1], spec.QueueDeclareOk)
    assert removed.done and between > 0 and queues_of(pair.a) == 1
    # The first ones go when the change is committed, and then some in each turn.
    assert all(a - b <= 2 * FEW for a, b in pairwise(left))
    others = pair.stations["c"].node.metadata
    pair.until(lambda: others.applied_index == metadata.applied_index)
    assert metadata.state_hash() == others.state_hash()
    assert store.snapshot() > 0


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_a_node_dies_while_queues_of_another_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on with tables from which all of them are gone."""
    pair = many_of_b(monkeypatch)
    removed = Removed()
    pair.a.node.store.submit(RemoveNode("b", True), removed)
    while queues_of(pair.a) == 8 * FEW:
        for station in (pair.a, pair.stations["c"]):
            station.executor.step()
            station.node.turn()
        for key in list(pair.links):
            pair.carry(*key)
        pair.clock.advance(1)
    assert pair.a.node.store.unfinished() and not removed.done
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    machines = [pair.stations[name].node.metadata for name in "ac"]
    pair.until(lambda: machines[0].applied_index == machines[1].applied_index)
    assert queues_of(pair.a) == 0
    assert machines[0].state_hash() == machines[1].state_hash()


@pytest.mark.skipif(warren.COMPILED, reason="calls are counted in uncompiled code only")
def test_a_queue_that_begins_looks_at_no_messages_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Messages for groups that a node has not heard of wait, thousands of them."""
    pair = Pair()
    for group_id in range(1_000):
        frame = frames.raft_frame((1 << 40) + group_id, b"")
        pair.b.listener.received("a", frame)
    looked = 0
    group_of = frames.group_of

    def counted(frame: bytes) -> int:
        nonlocal looked
        looked += 1
        return int(group_of(frame))

    monkeypatch.setattr(frames, "group_of", counted)
    client = pair.a.client()
    for number in range(10):
        client.declare(f"q{number}", kind="quorum", size=2)
    pair.until(lambda: queues_of(pair.b) == 10)
    assert 0 < looked < 1_000


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
@pytest.mark.parametrize("bound", ["TURN_ELECTIONS_MAX", "TURN_TIMERS_MAX"])
def test_few_of_many_groups_begin_to_elect_at_once(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a start all of them do, however long the node was kept from it.

    To find out which do is no longer turn, either.
    """
    monkeypatch.setattr(timed, bound, 3)
    pair = Pair(alone=True)
    client = pair.a.client()
    for number in range(20):
        client.declare(f"q{number}", kind="quorum")
        client.publish(f"q{number}", b"x")
    pair.settle()
    pair.a.kill()
    pair.a.start()
    node = pair.a.node
    ticked = 0
    looked_at = (Raft, "tick") if bound == "TURN_ELECTIONS_MAX" else (timed.TimedMembers, "_is_due")
    look, go_on = getattr(*looked_at), cluster.Cluster.go_on

    def counted(*words: Any) -> Any:
        nonlocal ticked
        ticked += 1
        return look(*words)

    def gone_on(self: cluster.Cluster) -> None:
        nonlocal ticked
        ticked = 0
        go_on(self)

    monkeypatch.setattr(*looked_at, counted)
    monkeypatch.setattr(cluster.Cluster, "go_on", gone_on)
    pair.clock.advance(60_000)
    node.tick_log()
    most = ticked
    while node.needs_turn:
        node.turn()
        most = max(most, ticked)
    assert most == 3
    pair.until(lambda: node.ready)
    assert all(member.raft.is_leader for member in node.cluster.members.values())


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_few_of_many_members_hear_of_a_disk_that_is_behind_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(news, "TURN_MEMBERS_MAX", 3)
    pair, _ = with_queues(8)
    pair.settle()
    told: list[bool] = []
    tell = Raft.peer_behind

    def counted(self: Raft, node: str, behind: bool, now_ms: int) -> bool:
        told.append(behind)
        return tell(self, node, behind, now_ms)

    monkeypatch.setattr(Raft, "peer_behind", counted)
    cluster_a = pair.a.node.cluster
    number = bytes(PING_BYTES - 1)
    while cluster_a.has_work:
        pair.a.node.turn()
    for flags in (BEHIND, 0):
        before = len(told)
        cluster_a.disks.heard("b", bytes([PING]) + number + bytes([flags]))
        while cluster_a.has_work or before < len(told):
            assert len(told) - before <= 3
            before = len(told)
            pair.a.node.turn()
    assert told == 9 * [True] + 9 * [False]


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_few_of_many_members_hear_at_once_that_their_own_disk_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(disks, "TURN_MEMBERS_MAX", 3)
    pair, client = with_queues(8)
    pair.settle()
    told: list[bool] = []
    abstain = Raft.abstain

    def counted(self: Raft, abstains: bool) -> None:
        told.append(abstains)
        abstain(self, abstains)

    monkeypatch.setattr(Raft, "abstain", counted)
    node = pair.a.node
    for hangs in (True, False):
        pair.a.hold_disk = hangs
        client.publish("q0", b"body")
        began = before = len(told)
        while before < began + 9:
            pair.clock.advance(100)
            if not hangs:
                pair.a.executor.step()
            node.tick_log()
            while node.needs_turn and len(told) <= before + 3:
                assert len(told) - before <= 3
                before = len(told)
                node.turn()
            assert len(told) - before <= 3
            before = len(told)
    assert told == 9 * [True] + 9 * [False]


def test_asking_whether_clients_may_come_looks_at_each_queue_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A start asks again and again, however many queues there are."""
    pair = Pair(alone=True)
    declare_many(pair, pair.a.client(), kind="quorum")
    pair.a.kill()
    pair.a.start()
    node = pair.a.node
    pair.until(lambda: bool(node.cluster.session) and not node.cluster.has_work)
    asked: list[int] = []
    ask = ClientSessions.taken_over

    def counted(sessions: ClientSessions, member: Member) -> bool:
        asked.append(int(member.group_id))
        return ask(sessions, member)

    if not warren.COMPILED:
        monkeypatch.setattr(ClientSessions, "taken_over", counted)
    waits = 0
    while not node.ready:
        waits += 1
        pair.step()
        assert waits < 1_000
    assert node.ready and node.ready
    assert len(asked) <= MANY + 1 + waits


def test_a_start_of_a_node_looks_at_queues_of_its_process_only() -> None:
    """Transient and exclusive queues go with it, wherever many others are."""
    pair = Pair()
    client = pair.b.client()
    client.declare("stays")
    client.declare("goes", durable=False)
    client.declare("own", durable=False, exclusive=True)
    pair.a.client().declare("other", durable=False)
    tables = pair.a.node.metadata.vhosts["/"]
    assert [queue.name for queue in tables.in_memory] == ["goes", "own", "other"]
    pair.b.kill()
    pair.b.start()
    pair.until(lambda: pair.b.node.ready)
    for station in (pair.a, pair.b):
        tables = station.node.metadata.vhosts["/"]
        assert list(tables.queues) == ["stays", "other"]
        assert [queue.name for queue in tables.in_memory] == ["other"]


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_a_node_that_stops_gives_the_lead_of_few_groups_away_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "TICK_GROUPS_MAX", 3)
    pair, _ = with_queues(8)
    members = pair.a.node.cluster.members.values()

    def led() -> int:
        return sum(member.raft.is_leader for member in members)

    def under_way() -> int:
        return sum(member.raft.is_leader and not member.raft.can_propose() for member in members)

    pair.until(lambda: led() == 9)
    most = 0
    left = 1
    while left:
        before = under_way()
        left = pair.a.node.cluster.hand_over()
        most = max(most, under_way() - before)
        pair.step()
    assert most == 3
    assert led() == 0


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_a_life_that_is_known_begins_with_few_queues_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A start: members get their session, and what no queue has a use for is dropped."""
    monkeypatch.setattr(beginnings, "TURN_MEMBERS_MAX", 3)
    pair = Pair(alone=True)
    client = pair.a.client()
    for number in range(8):
        client.declare(f"q{number}", kind="quorum" if number % 2 else "classic")
        client.publish(f"q{number}", b"x")
    strays = range(1 << 40, (1 << 40) + 8)
    for group_id in strays:
        pair.a.node.log.group(group_id).append(
            KIND_MESSAGES, 1, 0, 1, bytes([1, 0, 0, 0]), b"x", None
        )
    pair.a.node.appended(True)
    pair.settle()
    pair.a.kill()
    begun = 0
    begin, drop, go_on = Member.set_session, Log.drop, cluster.Cluster.go_on

    def counted(self: Member, session: int) -> None:
        nonlocal begun
        begun += 1
        assert begun <= 3 and not pair.a.node.ready
        begin(self, session)

    def dropped(self: Log, group_id: int) -> None:
        nonlocal begun
        begun += 1
        assert begun <= 3 and group_id in strays
        drop(self, group_id)

    def gone_on(self: cluster.Cluster) -> None:
        nonlocal begun
        begun = 0
        go_on(self)

    monkeypatch.setattr(Member, "set_session", counted)
    monkeypatch.setattr(Log, "drop", dropped)
    monkeypatch.setattr(cluster.Cluster, "go_on", gone_on)
    pair.a.start()
    pair.until(lambda: pair.a.node.ready and not pair.a.node.cluster.has_work)
    groups = list(pair.a.node.log.group_ids())
    assert len(groups) == 9 and not set(groups) & set(strays)
    other = pair.a.client()
    for number in range(8):
        got = other.get(f"q{number}")
        assert got is not None and got.body == b"x"


@pytest.mark.skipif(warren.COMPILED, reason="lines are counted in uncompiled code only")
def test_a_change_of_policies_looks_at_no_queue_at_once() -> None:
    """Each is told of it in its turn."""
    pair = Pair(alone=True)
    client = pair.a.client()
    node = pair.a.node
    client.declare("first")
    few = steps(lambda: node.policies.changed(node.queues))
    pair.settle()
    declare_many(pair, client)
    assert steps(lambda: node.policies.changed(node.queues)) < few + MANY // 10
    told: list[str] = []
    for queue in node.queues.logged.values():
        queue.set_delivery_limit = lambda limit, name=queue.name: told.append(name)
    pair.settle()
    assert sorted(told) == sorted(["first", *(f"q{number}" for number in range(MANY))])


@pytest.mark.skipif(warren.COMPILED, reason="compiled code has its bounds in it")
def test_a_turn_tells_some_queues_of_a_change_of_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few patterns there are to try: each queue may have its settings to write down."""
    monkeypatch.setattr(policies, "TOLD_MAX", 64)
    pair = Pair(alone=True)
    declare_many(pair, pair.a.client())
    node = pair.a.node
    told: list[str] = []
    for queue in node.queues.logged.values():
        queue.set_delivery_limit = lambda limit, name=queue.name: told.append(name)
    node.policies.changed(node.queues)
    counts = [0]
    while counts[-1] < MANY:
        node.turn()
        counts.append(len(told))
        assert len(counts) < 20
    assert max(after - before for before, after in pairwise(counts)) <= 64


@pytest.mark.skipif(warren.COMPILED, reason="calls are counted in uncompiled code only")
def test_of_many_queues_of_another_node_those_in_use_hear_that_its_line_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair()
    declare_many(pair, pair.a.client())
    pair.until(lambda: queues_of(pair.b) == MANY)
    user, other = pair.b.client(), pair.b.client()
    user.publish_confirmed("q1", 1)
    assert isinstance(other.consume("q2"), spec.BasicConsumeOk)
    lost: list[str] = []
    lose = ProxyQueue.lost

    def counted(queue: ProxyQueue) -> None:
        lost.append(queue.name)
        lose(queue)

    monkeypatch.setattr(ProxyQueue, "lost", counted)
    for _ in range(2):
        pair.cut("a", "b")
        pair.cut("b", "a")
        pair.until(pair.usable)
        pair.settle()
        user.publish_confirmed("q1", 1)
    # Whoever consumes has to begin anew.
    assert lost == ["q1", "q2", "q1"]
    assert any(isinstance(method, spec.BasicCancel) for method in other.methods)


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
@pytest.mark.parametrize("needed", [False, True])
def test_whether_a_node_is_needed_is_found_out_in_parts(
    needed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it goes; one that is needed stays, with all that it has."""
    monkeypatch.setattr(metadata_rows, "LOT_ROWS", 2)
    monkeypatch.setattr(metadata_machine, "BINDINGS_AT_ONCE_MAX", 3 * LOT_COST)
    pair = Pair()
    pair.add("c")
    clients = [pair.a.client(), pair.b.client()]
    for number in range(8 * FEW):
        last = needed and number == 6 * FEW
        clients[last].declare(f"q{number}", kind="quorum", size=1 if last else 3)
    store, nodes = pair.a.node.store, pair.a.node.metadata.nodes
    looked: list[int] = []
    look = membership.is_last_voter
    monkeypatch.setattr(
        membership, "is_last_voter", lambda *words: looked.append(1) is None and look(*words)
    )
    turns: list[int] = []

    def turn(self: Pair, station: Station) -> None:
        before = len(looked)
        station.node.turn()
        if len(looked) > before:
            turns.append(len(looked) - before)
            assert "b" in nodes or not needed

    monkeypatch.setattr(Pair, "turn", turn)
    answer = Settled()
    store.submit(RemoveNode("b", False), answer)
    pair.until(lambda: answer.outcome is not None)
    assert answer.outcome.nodes_changed != needed and ("b" in nodes) == needed
    # Some are looked at when the entry is committed, and some by what goes on with it.
    assert max(turns) <= 12 and len(turns) >= 8
    assert queues_of(pair.a) == 8 * FEW


@pytest.mark.parametrize("alone", [True, False])
def test_a_tick_looks_at_no_group_in_which_nothing_is_due(alone: bool) -> None:
    """However many queues there are, nothing is timed in those that rest."""
    pair = Pair(alone=alone)
    declare_many(pair, pair.a.client(), kind="quorum")
    pair.settle(40)
    for station in pair.stations.values():
        assert len(station.node.cluster.members) > MANY
        assert len(station.node.cluster._timed) <= 1


@final
class Settled(PendingResult):
    """What became of a change, once it is applied."""

    def __init__(self) -> None:
        self.outcome: Outcome | None = None

    def succeeded(self, result: Result) -> None:
        """It is."""
        assert isinstance(result, Outcome)
        self.outcome = result
