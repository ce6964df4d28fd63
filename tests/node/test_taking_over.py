"""Tables that come as a whole are in force at once; queues begin and end in parts."""

from __future__ import annotations

import pytest

import warren
from tests.node.pair import Pair, Station
from warren.metadata.commands import DeleteQueue
from warren.metadata.vhosts import VhostRemoval
from warren.node import store as node_store
from warren.node.hosting import QueueHosting
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec

AT_ONCE = 2
COUNT = 12
KINDS = ("classic", "quorum")

uncompiled = pytest.mark.skipif(warren.COMPILED, reason="calls are counted in uncompiled code only")


def few_at_once(settings: Settings) -> None:
    settings.changes_at_once = AT_ONCE


class Away:
    """Node b was away from the others, and gets the tables as a whole.

    Meanwhile some queues were deleted, others declared, and one of each kind is another queue of
    the same name.

    Attributes:
        client: One of b, which consumes from all queues that are gone.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pair = pair = Pair(configure=few_at_once)
        self.b = pair.b
        pair.add("c")
        self._monkeypatch = monkeypatch
        self._homes = [pair.a.client(), pair.b.client()]
        for number in range(COUNT):
            for name in ("stays", "goes"):
                self.declare(f"{name}{number}", number)
        for number in range(4):
            self.declare(f"again{number}", number)
        self.client = pair.b.client()
        for number in range(COUNT):
            assert isinstance(self.client.consume(f"goes{number}"), spec.BasicConsumeOk)
        pair.settle()
        self._part()
        for number in range(4):
            self._delete(f"again{number}")
        for number in range(COUNT):
            self._delete(f"goes{number}")
        pair.until(lambda: not pair.a.knows("goes0") and not pair.a.knows("again3"))
        for number in range(4):
            self.declare(f"again{number}", number + 1, 0)
        for number in range(COUNT):
            self.declare(f"new{number}", number, 0)

    def declare(self, name: str, number: int, home: int = -1) -> None:
        """Of either kind, on either node."""
        client = self._homes[number // 2 % 2 if home < 0 else home]
        assert isinstance(client.declare(name, kind=KINDS[number % 2]), spec.QueueDeclareOk)

    def _delete(self, name: str) -> None:
        """Whatever it has, where nobody hears of its node."""
        record = self.pair.a.record(name)
        command = DeleteQueue("/", name, record.group_id, record.durable)
        self.pair.a.node.store.submit(command, None)

    def _part(self) -> None:
        """Node b hears nobody, and nobody hears it."""
        for name in "ac":
            for link in (("b", name), (name, "b")):
                self.pair.blocked.add(link)
                self.pair.cut(*link)

    def meet(self) -> None:
        """It gets the tables, which are in force, with most queues as they were."""
        pair = self.pair
        for name in "ac":
            member = pair.stations[name].node.store.member()
            assert member.snapshots.take(member, True) > 0
        pair.settle(40)
        pair.blocked.clear()
        self._monkeypatch.setattr(Pair, "turn", lambda _, station: station.node.turn())
        pair.until(lambda: pair.b.knows("new0"))
        assert self.b.node.store.unfinished() and self.b.node.queues.taking_over is not None

    def check(self) -> None:
        """In the end b has what the tables name, and no more."""
        b = self.b.node
        self.pair.until(lambda: b.ready and not b.store.unfinished())
        assert self.client.over or self.client.opened
        queues = {queue.name: int(queue.group_id) for queue in b.queues.vhosts["/"].queues.values()}
        records = b.metadata.vhosts["/"].queues.values()
        assert queues == {record.name: int(record.group_id) for record in records}
        assert sorted(queues) == sorted(
            [f"{name}{number}" for name in ("stays", "new") for number in range(COUNT)]
            + [f"again{number}" for number in range(4)]
        )
        groups = set(queues.values())
        assert set(b.queues.logged) <= groups and set(b.cluster.members) - {1} <= groups
        assert set(map(int, b.log.group_ids())) - {1} <= groups
        assert not b.queues.vhosts["/"].before and b.hosting.furnished()
        a = self.pair.a.node.metadata
        self.pair.until(lambda: a.applied_index == b.metadata.applied_index)
        assert a.state_hash() == b.metadata.state_hash()
        client = self.b.client()
        for name in queues:
            client.publish_confirmed(name, 1)
            assert client.get(name) is not None


@uncompiled
def test_queues_begin_and_end_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what comes behind in the log waits until all have."""
    away = Away(monkeypatch)
    b = away.b
    seen: list[str] = []
    for name in ("_start", "_keep_copy", "_end"):
        call = getattr(QueueHosting, name)

        def counted(hosting: QueueHosting, what: object, name: str = name, call=call) -> None:
            if hosting is b.node.hosting:
                seen.append(name)
            call(hosting, what)

        monkeypatch.setattr(QueueHosting, name, counted)
    turns: list[int] = []

    def turn(_: Pair, station: Station) -> None:
        before = len(seen)
        station.node.turn()
        if station is b and len(seen) > before:
            turns.append(len(seen) - before)
            if b.node.store.unfinished():
                assert not b.knows("behind") and b.node.store.snapshot() == 0
                assert not b.node.hosting.furnished() and not b.node.ready

    away.meet()
    monkeypatch.setattr(Pair, "turn", turn)
    away.pair.a.client().send(spec.QueueDeclare(0, "behind", False, True, False, False, False, {}))
    away.pair.until(lambda: b.knows("behind"))
    assert max(turns) <= AT_ONCE and seen.count("_start") >= COUNT + 2
    assert seen.count("_end") == COUNT + 4
    # Those that the tables name come first.
    assert set(seen[-COUNT - 5 : -1]) == {"_end"}
    client = away.b.client()
    assert isinstance(client.call(spec.QueueDelete(0, "behind")), spec.QueueDeleteOk)
    away.check()
    # Who consumed from what is gone was told.
    cancelled = [method for method in away.client.methods if isinstance(method, spec.BasicCancel)]
    assert len(cancelled) <= COUNT


def test_a_queue_that_is_asked_for_before_its_turn_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last of those that are new, and of those that were there, and of those of old names."""
    away = Away(monkeypatch)
    b = away.b
    names = (f"stays{COUNT - 1}", f"new{COUNT - 1}", "again3")
    clients = [b.client() for _ in names]
    away.meet()
    here = b.node.queues.vhosts["/"]
    for client, name in zip(clients, names, strict=True):
        assert name not in here.queues
        client.publish(name, b"m")
        client.exchange()
        assert here.queues[name].group_id == b.record(name).group_id
    queues = [here.queues[name] for name in names]
    for client, name in zip(clients, names, strict=True):
        client.send(spec.QueueDeclare(0, name, True, True, False, False, False, {}))
    away.pair.until(lambda: not b.node.store.unfinished())
    assert [here.queues[name] for name in names] == queues
    for client, name in zip(clients, names, strict=True):
        away.pair.until(lambda client=client: len(client.methods) == 1)
        assert isinstance(client.methods[-1], spec.QueueDeclareOk)
        got = client.get(name)
        assert got is not None and got.body == b"m"
    away.check()


def test_a_queue_that_the_tables_do_not_name_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the moment on in which they are in force, though its object is there yet."""
    away = Away(monkeypatch)
    b = away.b
    clients = [b.client() for _ in range(3)]
    away.meet()
    here = b.node.queues.vhosts["/"]
    gone = f"goes{COUNT - 1}"
    assert any(gone in queues for queues in here.before)
    for client, method in zip(
        clients,
        (
            spec.QueueDeclare(0, gone, True, False, False, False, False, {}),
            spec.BasicConsume(0, gone, "", False, False, False, False, {}),
            spec.BasicGet(0, gone, False),
        ),
        strict=True,
    ):
        client.send(method)
        client.exchange()
        b.node.turn()
        client.exchange()
        answer = client.methods[-1]
        assert isinstance(answer, spec.ChannelClose) and answer.reply_code == 404
    assert any(gone in queues for queues in here.before) and b.node.store.unfinished()
    away.check()


def test_a_node_that_ends_in_between_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the tables, and without what only its log has."""
    away = Away(monkeypatch)
    away.meet()
    away.b.kill()
    monkeypatch.undo()
    away.b.start()
    away.pair.until(lambda: away.b.node.ready)
    away.client = away.b.client()
    away.check()


def test_further_tables_come_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not seen to is held against those."""
    away = Away(monkeypatch)
    away.meet()
    store, hosting = away.b.node.store, away.b.node.hosting
    for _ in range(3):
        away.b.node.turn()
        assert store.unfinished()
        store.restore(away.pair.a.node.metadata.snapshot())
        assert len(away.b.node.queues.vhosts["/"].before) >= 2
    assert not hosting.furnished()
    away.check()


@uncompiled
def test_tables_of_before_are_let_go_of_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that they held, bindings too; and no route of clients is one of theirs."""
    monkeypatch.setattr(node_store, "LET_GO_MAX", 4)
    away = Away(monkeypatch)
    old = away.b.node.metadata.vhosts["/"]
    router = old.router
    parts: list[int] = []
    take = VhostRemoval.go_on

    def counted(removal: VhostRemoval, outcome: object, room: int) -> None:
        before = len(old.queues)
        take(removal, outcome, 20)
        if removal._tables is old:
            parts.append(before - len(old.queues))

    monkeypatch.setattr(VhostRemoval, "go_on", counted)
    away.meet()
    assert len(old.queues) > COUNT
    away.check()
    new = away.b.node.metadata.vhosts["/"]
    assert new is not old and new.router is router and old.router is not router
    assert not old.queues and len(old.queue_rows) == 0
    assert max(parts) <= 5 and sum(parts) == 2 * COUNT + 4
