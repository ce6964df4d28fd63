"""A leader of a queue whose node has older tables than the one that led before."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair, Station
from warren.metadata.commands import SetMembers
from warren.metadata.member_checks import voters
from warren.metadata.tables import MemberRecord
from warren.wire.amqp091 import spec

QUEUE = "orders"


def voting(station: Station) -> list[str]:
    """Who votes, by what the node's member of the group has in force."""
    member = station.node.cluster.members[int(station.record(QUEUE).group_id)]
    return sorted(copy.node for copy in member.raft.members if copy.voter)


@pytest.mark.rule("MEM-06")
def test_it_does_not_undo_what_was_done_by_newer_ones() -> None:
    """That could leave the queue to members that are down; it asks for newer tables first."""
    pair = Pair()
    pair.add("c")
    a, b = pair.a, pair.b
    assert isinstance(a.client().declare(QUEUE, kind="quorum", size=1), spec.QueueDeclareOk)
    pair.add_member(QUEUE, "b", votes=False)
    pair.add_member(QUEUE, "c", votes=False)
    pair.until(lambda: [row.node for row in b.record(QUEUE).members] == ["a", "b", "c"])

    def vote(*nodes: str) -> None:
        before = a.record(QUEUE)
        members = [
            MemberRecord(row.node, row.incarnation, row.node in nodes) for row in before.members
        ]
        command = SetMembers(before.group_id, "/", QUEUE, members, before.revision)
        a.node.store.submit(command, None)

    vote("a", "b")
    pair.until(lambda: voting(b) == sorted(voters(b.record(QUEUE))) == ["a", "b"])
    pair.withheld = {("a", "b"): [], ("c", "b"): []}
    vote("a", "b", "c")
    pair.until(lambda: voting(a) == voting(b) == ["a", "b", "c"])
    member = b.node.cluster.members[int(b.record(QUEUE).group_id)]
    a.node.queue_members.transfer(int(a.record(QUEUE).group_id), "b")
    pair.until(lambda: member.raft.is_leader)
    assert "c" not in voters(b.record(QUEUE))
    pair.settle(100)
    assert voting(b) == ["a", "b", "c"]
    # With the tables it goes on, by what they say then.
    pair.release()
    vote("b", "c")
    pair.until(lambda: voting(b) == voting(a) == ["b", "c"])
    assert member.raft.is_leader


@pytest.mark.rule("BEH-15")
def test_an_older_snapshot_drops_no_copy() -> None:
    """A member that gave its log up may be brought up from a snapshot of before what it applied.

    A queue that this one does not name yet keeps its copy, with what that acknowledged.
    """
    pair = Pair()
    c = pair.add("c")
    client = pair.a.client()
    older = pair.a.node.metadata.snapshot()
    assert isinstance(client.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    client.call(spec.ConfirmSelect(False))
    client.publish(QUEUE, b"m")
    pair.until(lambda: len(client.acked) == 1 and c.queue(QUEUE).ready_count() == 1)
    queue, member = c.queue(QUEUE), c.node.cluster.members[int(c.record(QUEUE).group_id)]
    store = c.node.store
    store.restore(store.first_state())
    store.restore(older)
    assert c.queue(QUEUE) is queue and not member.stopped
    # What follows in the log says the same again.
    store.restore(pair.a.node.metadata.snapshot())
    assert c.queue(QUEUE) is queue and queue.ready_count() == 1
    assert c.node.cluster.members[int(c.record(QUEUE).group_id)] is member


@pytest.mark.rule("BEH-15")
def test_a_snapshot_brings_queues_before_clients_hear_of_those_it_took() -> None:
    """A client that waited for a queue that is gone goes on at once, with a queue that is new."""
    pair = Pair()
    pair.add("c")
    a, b = pair.a, pair.b
    first, second = a.client(), b.client()
    assert isinstance(first.declare("old"), spec.QueueDeclareOk)
    pair.until(lambda: b.knows("old"))
    pair.withheld = {("a", "b"): [], ("c", "b"): []}
    assert isinstance(first.call(spec.QueueDelete(0, "old")), spec.QueueDeleteOk)
    assert isinstance(first.declare("new"), spec.QueueDeclareOk)
    assert b.knows("old") and not b.knows("new")
    seen = len(second.methods)
    second.send(spec.QueueDelete(0, "old"))
    second.send(spec.QueueDeclare(0, "new", durable=True))
    second.exchange()
    b.node.store.restore(a.node.metadata.snapshot())
    pair.until(lambda: len(second.methods) == seen + 2)
    assert isinstance(second.methods[seen], spec.QueueDeleteOk)
    assert isinstance(second.methods[seen + 1], spec.QueueDeclareOk)
