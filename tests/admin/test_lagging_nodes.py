"""An operator asks a node that lags: "done" is said of what is so, not of what is known there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.host import answered, service_of
from tests.node.pair import Pair, Station
from tests.support.patience import patient
from warren.admin.service import changes, leaders, members
from warren.admin.service.caller import LOCAL
from warren.admin.service.operation import Operation
from warren.errors import TIMED_OUT, Refusal
from warren.metadata.commands import SetMembers
from warren.metadata.member_checks import voters
from warren.metadata.tables import MemberRecord
from warren.wire.amqp091 import spec

QUEUE = "orders"
WORDS = {"vhost": "/", "queue": QUEUE}


@pytest.fixture
def pair() -> Pair:
    """Nodes a, b and c; a leads the tables and a quorum queue, of which it is the only member."""
    pair = Pair()
    pair.add("c")
    assert isinstance(pair.a.client().declare(QUEUE, kind="quorum", size=1), spec.QueueDeclareOk)
    pair.until(lambda: all(station.knows(QUEUE) for station in pair.stations.values()))
    return pair


def group(pair: Pair) -> int:
    return int(pair.a.record(QUEUE).group_id)


def in_group(station: Station) -> dict[str, bool]:
    """The nodes of the group and whether they vote, as a member knows that."""
    raft = station.node.cluster.members[int(station.record(QUEUE).group_id)].raft
    return {copy.node: bool(copy.voter) for copy in raft.members}


def ask(pair: Pair, name: str, operation: Operation[Any, Any], **words: Any) -> Any:
    """The answer of a node, with the cluster at work meanwhile."""
    return answered(pair, lambda: operation(service_of(pair, name), LOCAL, **words))


def withhold(pair: Pair, target: str, group_id: int) -> None:
    """Let a node hear nothing more of a group."""
    pair.withheld_group = group_id
    pair.withheld = {(source, target): [] for source in pair.stations if source != target}


def set_voters(pair: Pair, *nodes: str) -> None:
    """Have the tables say who votes, as no operator waits for."""
    before = pair.a.record(QUEUE)
    rows = [MemberRecord(row.node, row.incarnation, row.node in nodes) for row in before.members]
    command = SetMembers(before.group_id, "/", QUEUE, rows, before.revision)
    pair.a.node.store.submit(command, None)


def test_a_copy_that_lags_is_not_believed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has not heard that b votes, when b is to go: it looks as asked from the beginning."""
    for node in ("b", "c"):
        pair.add_member(QUEUE, node)
    pair.until(lambda: all(in_group(pair.a).get(node) for node in "abc"))
    set_voters(pair, "a", "c")
    c = pair.stations["c"]
    pair.until(lambda: not in_group(c)["b"] and c.node.queue_members.in_force(c.record(QUEUE)))
    withhold(pair, "c", group(pair))
    set_voters(pair, "a", "b", "c")
    pair.until(lambda: in_group(pair.a)["b"])
    set_voters(pair, "a", "c")
    pair.until(lambda: voters(c.record(QUEUE)) == ["a", "c"])
    assert c.node.queue_members.in_force(c.record(QUEUE)), "as its own copy has it"
    monkeypatch.setattr(changes, "WAIT_SECONDS", 0.3)
    with pytest.raises(Refusal) as refused:
        ask(pair, "c", members.delete_member, **WORDS, node="b")
    assert refused.value.kind == TIMED_OUT
    # When it hears of its group again, what it says is so.
    monkeypatch.setattr(changes, "WAIT_SECONDS", patient(20.0))
    pair.release()
    state = ask(pair, "c", members.add_member, **WORDS, node="b")
    assert state.changed and in_group(pair.a) == {"a": True, "b": True, "c": True}
    state = ask(pair, "c", members.delete_member, **WORDS, node="b")
    assert state.changed and in_group(pair.a) == {"a": True, "c": True}


def test_a_leader_whose_tables_lag_has_not_done_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member without a vote changes nothing of who votes: only the leader knows if it is in."""
    pair.add_member(QUEUE, "b")
    pair.until(lambda: in_group(pair.a).get("b", False))
    pair.a.node.queue_members.transfer(group(pair), "b")
    pair.until(lambda: pair.b.node.cluster.members[group(pair)].raft.is_leader)
    pair.settle(40)
    withhold(pair, "b", 1)
    monkeypatch.setattr(changes, "WAIT_SECONDS", 0.3)
    with pytest.raises(Refusal) as refused:
        ask(pair, "a", members.add_member, **WORDS, node="c", membership="non_voter")
    assert refused.value.kind == TIMED_OUT
    assert "c" not in in_group(pair.b)
    monkeypatch.setattr(changes, "WAIT_SECONDS", patient(20.0))
    pair.release()
    pair.until(lambda: "c" in in_group(pair.b))
    assert ask(pair, "a", members.delete_member, **WORDS, node="c").changed
    assert in_group(pair.b) == {"a": True, "b": True}


@pytest.mark.parametrize("name", ["grow", "shrink", "add_member", "delete_member"])
def test_tables_that_lag_are_not_believed(
    pair: Pair, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node asked has not heard of the last change of the tables, which is what is asked of."""
    words: dict[str, dict[str, Any]] = {
        "grow": {"node": "c", "queue_pattern": "^new$"},
        "shrink": {"node": "c"},
        "add_member": {**WORDS, "node": "c"},
        "delete_member": {**WORDS, "node": "c"},
    }
    if name == "add_member":
        pair.add_member(QUEUE, "c")
        pair.until(lambda: "c" in voters(pair.b.record(QUEUE)))
    withhold(pair, "b", 1)
    if name == "grow":
        client = pair.a.client()
        assert isinstance(client.declare("new", kind="quorum", size=1), spec.QueueDeclareOk)
    elif name == "add_member":
        pair.delete_member(QUEUE, "c")
    else:
        pair.add_member(QUEUE, "c")
    operation: Operation[Any, Any] = getattr(members, name)
    monkeypatch.setattr("warren.admin.service.service.CHANGE_SECONDS", 0.2)
    with pytest.raises(Refusal) as refused:
        ask(pair, "b", operation, **words[name])
    assert refused.value.kind == TIMED_OUT
    monkeypatch.setattr("warren.admin.service.service.CHANGE_SECONDS", patient(20.0))
    pair.release()
    pair.until(lambda: pair.b.node.queue_members.why_not(pair.b.record(QUEUE)) == "")
    done = ask(pair, "b", operation, **words[name])
    if isinstance(done, list):
        assert [row.result for row in done] == ["ok"]
        done = done[0]
    else:
        assert done.changed
    found = pair.a.record("new" if name == "grow" else QUEUE)
    assert ("c" in voters(found)) == (name in ("grow", "add_member"))


def test_a_lead_has_moved_when_a_majority_says_so(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that has not heard of the newest leader believes that another one leads."""
    for node in ("b", "c"):
        pair.add_member(QUEUE, node)
    pair.until(lambda: all(in_group(pair.a).get(node) for node in "abc"))
    pair.a.node.queue_members.transfer(group(pair), "b")
    service = service_of(pair, "c")
    record = pair.stations["c"].record(QUEUE)
    pair.until(lambda: service.members.leader(record) == "b")
    withhold(pair, "c", group(pair))
    pair.b.node.queue_members.transfer(group(pair), "a")
    pair.until(lambda: pair.a.node.cluster.members[group(pair)].raft.is_leader)
    assert service.members.leader(record) == "b", "as its own copy has it"
    monkeypatch.setattr(leaders, "TRANSFER_SECONDS", 0.3)
    # It has the lead moved to b in vain, as it believes that it is there.
    assert not answered(pair, lambda: leaders.move(service, record, "b"))
    assert answered(pair, lambda: leaders.leads(service, record, "a"))
