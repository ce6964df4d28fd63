"""What a disk holds of a copy that is no more never comes back as another one (R-15)."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair, Station, three_with_messages
from warren.metadata.commands import AddNode, DeleteQueue, SetMembers
from warren.metadata.tables import MemberRecord
from warren.raft.members import GroupConfig
from warren.replication.member import Member
from warren.wire.amqp091 import spec

QUEUE = "orders"


def copy_on(station: Station) -> Member:
    """A node's copy of the queue."""
    return station.node.cluster.members[int(station.record(QUEUE).group_id)]


def committed(station: Station) -> GroupConfig:
    """The configuration of the queue's group that is committed, as far as a node's copy knows."""
    raft = copy_on(station).raft
    return raft.config_at(raft.commit_index)


def set_members(pair: Pair, members: list[MemberRecord]) -> None:
    """Have the tables say where the copies are."""
    queue = pair.a.record(QUEUE)
    revision = queue.revision
    command = SetMembers(queue.group_id, "/", QUEUE, members, revision)
    pair.a.node.store.submit(command, None)
    pair.until(lambda: pair.a.record(QUEUE).revision > revision)


def replaced(pair: Pair, node: str) -> int:
    """Take a node's copy away and give it another one; its incarnation."""
    rows = [row for row in pair.a.record(QUEUE).members if row.node != node]
    set_members(pair, rows)
    incarnation = int(pair.a.node.placing.new_group())
    set_members(pair, [*rows, MemberRecord(node, incarnation, True)])
    return incarnation


def counts(pair: Pair, node: str, incarnation: int) -> bool:
    """Whether all that run know that this copy votes, and that it is committed."""
    for station in pair.stations.values():
        if station.alive:
            raft = copy_on(station).raft
            config = raft.state.config()
            if not config.has_voter(node, incarnation) or config.index > raft.commit_index:
                return False
    return True


@pytest.mark.rule("MEM-02", "MEM-03", "MEM-09")
def test_a_copy_that_was_replaced_while_its_node_was_down() -> None:
    """It begins with nothing, says so, and gets everything from the leader."""
    pair = three_with_messages(QUEUE)
    client = pair.a.client()
    before = copy_on(pair.stations["c"]).hard_state
    pair.stations["c"].kill()
    client.publish_confirmed(QUEUE, 3)
    incarnation = replaced(pair, "c")
    assert incarnation != before.incarnation
    pair.stations["c"].start()
    pair.until(lambda: counts(pair, "c", incarnation))
    assert copy_on(pair.stations["c"]).hard_state.incarnation == incarnation
    said = "the copy of queue 'orders' in vhost '/' that this node had was replaced"
    assert any(said in text for text in pair.stations["c"].warnings)
    # With the leader gone, it takes the new copy for a majority: nothing may be missing there.
    pair.until(lambda: copy_on(pair.stations["c"]).applied_index == copy_on(pair.a).applied_index)
    pair.a.kill()
    other = pair.stations["c"].client()
    other.publish_confirmed(QUEUE, 1)
    got = [other.get(QUEUE) for _ in range(9)]
    assert [message.body for message in got if message is not None] == [
        *(b"%d" % number for number in range(1, 6)),
        *(b"%d" % number for number in range(1, 4)),
        b"1",
    ]


@pytest.mark.parametrize("again", [False, True])
def test_a_copy_goes_when_its_group_has_counted_it_out(again: bool) -> None:
    """An operator may take it away, and add another one, by a node that lags and knows no better.

    Until then what is confirmed may be on no other node than the leader's and this one.
    """
    pair = Pair()
    c = pair.add("c")
    client = pair.b.client()
    assert isinstance(client.declare(QUEUE, kind="quorum", size=1), spec.QueueDeclareOk)
    pair.add_member(QUEUE, "a")
    pair.until(lambda: pair.a.node.queue_members.in_force(pair.a.record(QUEUE)))
    pair.until(lambda: copy_on(pair.b).raft.is_leader)
    pair.add_member(QUEUE, "c", votes=False)
    pair.until(lambda: committed(pair.a).has("c", int(copy_on(c).hard_state.incarnation)))
    pair.withheld_group = int(pair.a.record(QUEUE).group_id)
    pair.withheld = {("b", "a"): []}
    pair.add_member(QUEUE, "c")
    pair.until(lambda: committed(c).voters() == 3)
    client.publish_confirmed(QUEUE, 3)
    before = copy_on(c)
    incarnation, last = int(before.hard_state.incarnation), int(before.raft.last_index)
    assert copy_on(pair.a).raft.last_index < last
    rows = [row for row in pair.a.record(QUEUE).members if row.node != "c"]
    assert pair.b.node.queue_members.why_not(pair.b.record(QUEUE)) == ""
    set_members(pair, rows)
    # As far as the one that lags knows, nothing is under way.
    assert pair.a.node.queue_members.why_not(pair.a.record(QUEUE)) == ""
    if again:
        set_members(pair, [*rows, MemberRecord("c", pair.a.node.placing.new_group(), True)])
    pair.settle(100)
    assert copy_on(c) is before and before.hard_state.incarnation == incarnation
    assert before.log.persisted_index >= last
    pair.release()
    if again:
        row = c.record(QUEUE).member_on("c")
        assert row is not None
        pair.until(lambda: counts(pair, "c", int(row.incarnation)))
        assert copy_on(c).hard_state.incarnation == row.incarnation
    else:
        group_id = int(c.record(QUEUE).group_id)
        pair.until(lambda: group_id not in c.node.cluster.members)
    assert [got.body for got in (client.get(QUEUE) for _ in range(3)) if got is not None] == [
        b"1",
        b"2",
        b"3",
    ]


def test_a_copy_that_does_not_know_that_its_vote_is_needed_stays() -> None:
    """Its leader has let it vote, which takes that vote, when the tables name it no more."""
    pair = Pair()
    c = pair.add("c")
    client = pair.b.client()
    assert isinstance(client.declare(QUEUE, kind="quorum", size=1), spec.QueueDeclareOk)
    pair.add_member(QUEUE, "c", votes=False)
    pair.until(lambda: committed(c).has("c", int(copy_on(c).hard_state.incarnation)))
    group_id = int(c.record(QUEUE).group_id)
    pair.withheld_group = group_id
    pair.withheld = {("b", "c"): []}
    pair.add_member(QUEUE, "c")
    pair.until(lambda: copy_on(pair.b).raft.state.config().voters() == 2)
    assert committed(pair.b).voters() == 1 and committed(c).voters() == 1
    set_members(pair, [row for row in pair.a.record(QUEUE).members if row.node != "c"])
    pair.settle(100)
    assert group_id in c.node.cluster.members
    pair.release()
    pair.until(lambda: group_id not in c.node.cluster.members)
    assert committed(pair.b).voters() == 1
    client.publish_confirmed(QUEUE, 1)


def test_a_copy_is_counted_out_by_a_leader_that_is_to_go_itself() -> None:
    """The tables name neither it nor the leader any more, only the copy that is to come."""
    pair = Pair()
    c = pair.add("c")
    client = pair.b.client()
    assert isinstance(client.declare(QUEUE, kind="quorum", size=1), spec.QueueDeclareOk)
    pair.add_member(QUEUE, "c")
    pair.until(lambda: committed(c).voters() == 2)
    client.publish_confirmed(QUEUE, 3)
    group_id = int(c.record(QUEUE).group_id)
    lines = {("b", "c"), ("c", "b")}
    pair.blocked |= lines
    for line in lines:
        pair.cut(*line)
    before = copy_on(c).hard_state.incarnation
    incarnation = replaced(pair, "c")
    pair.until(lambda: c.record(QUEUE).member_on("c") is not None)
    assert copy_on(c).hard_state.incarnation == before
    assert c.node.queue_members.why_not(c.record(QUEUE)), "c has another copy than it shall have"
    set_members(pair, [MemberRecord("c", incarnation, True)])
    pair.until(lambda: c.record(QUEUE).member_on("b") is None)
    pair.blocked -= lines
    pair.until(lambda: group_id not in pair.b.node.cluster.members)
    assert copy_on(c).hard_state.incarnation == incarnation
    assert committed(c).voters() == 1
    got = [client.get(QUEUE) for _ in range(3)]
    assert [message.body for message in got if message is not None] == [b"1", b"2", b"3"]


def test_a_copy_that_is_new_stays_whatever_older_tables_say() -> None:
    """Behind a start the tables are older for a moment; what was acknowledged is kept."""
    pair = three_with_messages(QUEUE)
    station = pair.stations["c"]
    # What a start has of the tables, before it hears from others, is this.
    station.node.store.snapshot()
    pair.until(lambda: bool(station.node.store.member().snapshots.payload))
    station.kill()
    incarnation = replaced(pair, "c")
    station.start()
    pair.until(lambda: counts(pair, "c", incarnation))
    pair.a.client().publish_confirmed(QUEUE, 3)
    pair.until(lambda: copy_on(station).applied_index == copy_on(pair.a).applied_index)
    last = int(copy_on(station).raft.last_index)
    pair.until(lambda: copy_on(station).log.persisted_index == last)
    for other in (pair.a, pair.b, station):
        other.kill()
    # What is committed nobody can tell it now.
    station.warnings.clear()
    station.start()
    own = station.record(QUEUE).member_on("c")
    assert own is not None and own.incarnation != incarnation, "the tables here are older"
    pair.settle()
    assert copy_on(station).hard_state.incarnation == incarnation
    assert copy_on(station).raft.last_index >= last
    pair.a.start()
    pair.until(lambda: station.node.ready)
    assert copy_on(station).hard_state.incarnation == incarnation
    assert copy_on(station).raft.last_index >= last
    assert not any("was replaced" in text for text in station.warnings)


def test_a_node_whose_place_is_a_copy_that_never_began() -> None:
    """It was asked for by a life of the node that ended too soon, and is heard of last.

    The node says that it has another one, until that counts.
    """
    pair = Pair()
    pair.minds_seconds = True
    c = pair.add("c")
    tables = pair.a.node.store.member().raft
    own = c.node.store.member().hard_state.incarnation
    pair.until(lambda: tables.config_at(tables.commit_index).has_voter("c", own))
    place = pair.a.node.metadata.nodes["c"]
    late = AddNode("c", place.uid, place.host, place.port, own + 1)
    pair.a.node.store.submit(late, None)
    pair.until(lambda: not tables.config_at(tables.commit_index).has_voter("c", own))
    pair.until(lambda: tables.config_at(tables.commit_index).has_voter("c", own))
    c.kill()
    c.start()
    pair.until(lambda: c.node.ready)
    assert isinstance(c.client().declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)


def test_a_queue_declared_again_while_its_node_was_down() -> None:
    """It is another queue: nothing of the one before comes back, on no node."""
    pair = three_with_messages(QUEUE)
    station = pair.stations["c"]
    before = int(pair.a.record(QUEUE).group_id)
    station.kill()
    pair.a.node.store.submit(DeleteQueue("/", QUEUE, before, True), None)
    client = pair.a.client()
    pair.until(lambda: pair.a.node.metadata.queue("/", QUEUE) is None)
    assert isinstance(client.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    client.publish_confirmed(QUEUE, 2)
    station.start()
    pair.until(lambda: station.node.ready)
    assert before not in station.node.cluster.members
    assert before not in station.node.log.group_ids()
    pair.until(lambda: copy_on(station).applied_index == copy_on(pair.a).applied_index)
    other = station.client()
    got = [other.get(QUEUE) for _ in range(3)]
    assert [message.body for message in got if message is not None] == [b"1", b"2"]
