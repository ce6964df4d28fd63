"""A node that comes back with an older disk is found out, and begins anew (R-15 and R-20)."""

from __future__ import annotations

import pytest

from sim.disk import SimDisk
from tests.node.pair import Pair, Station, three_with_messages
from warren.metadata.commands import NodeSeen
from warren.node.store import METADATA_GROUP
from warren.protocols.peer import refusal as codes
from warren.wire.amqp091 import spec

QUEUE = "orders"


def incarnation(station: Station, name: str) -> int:
    """Which copy of the queue a node has by the tables of another."""
    return next(int(row.incarnation) for row in station.record(QUEUE).members if row.node == name)


def votes(station: Station, name: str) -> bool:
    """Whether a node votes in the queue, by what the member on another one knows."""
    member = station.node.cluster.members[int(station.record(QUEUE).group_id)]
    present = incarnation(station, name)
    return any(
        copy.node == name and copy.voter and copy.incarnation == present
        for copy in member.raft.members
    )


def drained(pair: Pair, station: Station) -> list[bytes]:
    """All that the queue has, got through a node."""
    client = station.client()
    found = []
    while (got := client.get(QUEUE)) is not None:
        found.append(got.body)
        client.ack(got.tag)
    return found


def begins_anew(pair: Pair, station: Station, judge: Station) -> None:
    """A restored node is refused, begins anew, and votes again with a copy that has everything."""
    pair.until(lambda: codes.OUTDATED in station.refusals)
    assert not station.node.ready
    before = incarnation(judge, station.name)
    station.begin_anew()
    pair.until(lambda: station.node.ready and votes(station, station.name))
    assert incarnation(judge, station.name) != before
    station.former_uid = b""


def test_a_directory_restored_from_a_copy() -> None:
    pair = three_with_messages(QUEUE, minds_seconds=True)
    c = pair.stations["c"]
    backup = c.backup()
    client = pair.a.client()
    c.kill()
    c.start()
    pair.until(lambda: c.node.ready)
    client.publish_confirmed(QUEUE, 20)
    c.kill()
    c.restore(backup)
    c.start()
    begins_anew(pair, c, pair.a)
    pair.a.kill()
    pair.until(lambda: pair.b.record(QUEUE) is not None)
    assert drained(pair, c) == [b"%d" % n for n in (*range(1, 6), *range(1, 21))]


def test_a_node_that_stops_while_it_begins_anew() -> None:
    """The cluster has it under its new uid already, and it has not noted that yet."""
    pair = three_with_messages(QUEUE, minds_seconds=True)
    c = pair.stations["c"]
    backup = c.backup()
    c.kill()
    c.start()
    pair.until(lambda: c.node.ready)
    c.kill()
    c.restore(backup)
    c.start()
    pair.until(lambda: codes.OUTDATED in c.refusals)
    c.begin_anew()
    pair.until(lambda: pair.a.node.metadata.nodes["c"].nonce == c.lives[0])
    c.refusals.clear()
    c.kill()
    c.start()
    pair.until(lambda: c.node.ready and votes(pair.a, "c"))
    assert not c.refusals


def test_what_was_acknowledged_by_one_that_began_anew_counts() -> None:
    """It has not noted that it is in the cluster again, and others count on its tables already."""
    pair = three_with_messages(QUEUE, minds_seconds=True)
    c = pair.stations["c"]
    backup = c.backup()
    c.kill()
    c.start()
    pair.until(lambda: c.node.ready)
    c.kill()
    c.restore(backup)
    c.start()
    former = c.uid
    begins_anew(pair, c, pair.a)
    c.former_uid = former
    tables = pair.a.node.store.member()
    pair.until(lambda: any(copy.node == "c" and copy.voter for copy in tables.raft.members))
    pair.b.kill()
    pair.a.client().declare("later")
    c.kill()
    c.start()
    pair.a.kill()
    pair.b.start()
    pair.until(lambda: pair.b.knows("later"))


def test_a_life_that_was_met_and_is_not_in_the_tables_here() -> None:
    """Who misses the news of a majority has met the life itself, and asks for that majority."""
    pair = three_with_messages(QUEUE, minds_seconds=True)
    a, b, c = (pair.stations[name] for name in "abc")
    backup = c.backup()
    c.kill()
    known = b.node.metadata.nodes["c"].boot
    pair.deaf |= {("a", "b"), ("b", "a")}
    c.start()
    pair.until(lambda: c.node.ready and a.node.metadata.nodes["c"].boot > known)
    a.client().declare("later")
    pair.until(lambda: c.knows("later"))
    pair.settle(30)
    assert b.node.metadata.nodes["c"].boot == known
    a.kill()
    c.kill()
    pair.deaf.clear()
    c.restore(backup)
    c.start()
    pair.until(lambda: codes.OLDER in c.refusals)
    pair.settle(300)
    assert not c.node.ready
    a.start()
    pair.until(lambda: a.knows("later"))
    begins_anew(pair, c, a)
    pair.until(lambda: b.knows("later"))


def test_a_copy_of_the_same_life() -> None:
    """It was made while the node ran, and the node never started again in between."""
    pair = three_with_messages(QUEUE, minds_seconds=True)
    c = pair.stations["c"]
    backup = c.backup()
    client = pair.a.client()
    client.publish_confirmed(QUEUE, 20)
    pair.settle(60)
    c.kill()
    c.restore(backup)
    c.start()
    begins_anew(pair, c, pair.b)


def test_what_was_durable_is_said_again_over_a_new_link() -> None:
    """The word was lost with the link that had brought the acknowledgement before it."""
    pair = three_with_messages(QUEUE, minds_seconds=True)
    c = pair.stations["c"]
    client = pair.a.client()
    pair.settle(60)
    client.publish_confirmed(QUEUE, 1)
    backup = c.backup()
    client.publish_confirmed(QUEUE, 1)
    words = {(c.name, name) for name in "ab"}
    pair.deaf |= words
    pair.settle(30)
    for source, target in words:
        pair.cut(source, target)
    pair.deaf -= words
    pair.settle(30)
    c.kill()
    c.restore(backup)
    c.start()
    begins_anew(pair, c, pair.b)


def test_what_was_durable_is_known_after_a_restart_of_all() -> None:
    """A node that was down said how far it had come, and those who heard it wrote that down."""
    pair = three_with_messages(QUEUE, minds_seconds=True)
    c = pair.stations["c"]
    backup = c.backup()
    client = pair.a.client()
    client.publish_confirmed(QUEUE, 20)
    pair.settle(60)
    c.kill()
    pair.until(lambda: pair.a.node.metadata.nodes["c"].round > int(backup[1]))
    pair.settle(60)
    for station in (pair.a, pair.b):
        station.kill()
    c.restore(backup)
    for station in (pair.a, pair.b, c):
        station.start()
    begins_anew(pair, c, pair.a)


def test_what_was_heard_counts_until_the_tables_say_so() -> None:
    """One that leads has just begun to write down how far another had come, and meets it again."""
    pair = three_with_messages(QUEUE, minds_seconds=True)
    c = pair.stations["c"]
    others = (pair.a, pair.b)
    backup = c.backup()
    pair.a.client().publish_confirmed(QUEUE, 20)
    pair.settle(60)

    def writes(station: Station) -> bool:
        asked = station.node.store.submitted()
        return any(isinstance(each.command, NodeSeen) for each in asked)

    c.kill()
    pair.until(lambda: any(map(writes, others)))
    (other,) = (station for station in others if not writes(station))
    pair.blocked = {(c.name, other.name), (other.name, c.name)}
    for station in others:
        station.hold_disk = True
    c.restore(backup)
    c.start()
    pair.until(lambda: len(c.refusals) > 0)
    for station in others:
        station.hold_disk = False
    pair.blocked = set()
    begins_anew(pair, c, pair.a)


def test_an_ordinary_restart_is_no_older_disk() -> None:
    pair = three_with_messages(QUEUE, minds_seconds=True)
    for round_number in range(40):
        station = pair.stations["abc"[round_number % 3]]
        station.kill()
        station.start()
        pair.until(lambda station=station: station.node.ready)
        assert not station.refusals


def test_nothing_is_dropped_without_a_majority() -> None:
    """Two of three were restored: the third one cannot tell them to give up what they have."""
    pair = three_with_messages(QUEUE, minds_seconds=True)
    backups = {name: pair.stations[name].backup() for name in "bc"}
    for name in "bc":
        pair.stations[name].kill()
        pair.stations[name].start()
    pair.until(lambda: all(pair.stations[name].node.ready for name in "bc"))
    client = pair.a.client()
    client.publish_confirmed(QUEUE, 3)
    for station in pair.stations.values():
        station.kill()
    for name in "bc":
        pair.stations[name].restore(backups[name])
    for station in pair.stations.values():
        station.refusals.clear()
        station.start()
    pair.settle(300)
    for name in "bc":
        assert set(pair.stations[name].refusals) == {codes.OLDER}
    assert not pair.a.node.ready


def test_a_queue_of_one_member_stays() -> None:
    """An older copy of the only one is the best there is."""
    pair = Pair()
    pair.minds_seconds = True
    c = pair.add("c")
    client = c.client()
    assert isinstance(client.declare(QUEUE, kind="quorum", size=1), spec.QueueDeclareOk)
    client.publish_confirmed(QUEUE, 5)
    backup = c.backup()
    client.publish_confirmed(QUEUE, 5)
    pair.settle(60)
    c.kill()
    c.restore(backup)
    c.start()
    pair.until(lambda: codes.OUTDATED in c.refusals)
    before = incarnation(pair.a, "c")
    c.begin_anew()
    pair.until(lambda: c.node.ready)
    assert incarnation(pair.a, "c") == before
    found = drained(pair, pair.a)
    assert found == [b"%d" % n for n in range(1, len(found) + 1)] and len(found) >= 5


def test_a_newest_file_without_its_end() -> None:
    """Cut where a round ends, so that nothing in it is damaged."""
    pair = three_with_messages(QUEUE, minds_seconds=True)
    c = pair.stations["c"]
    before = {path: len(data.rstrip(b"\0")) for path, data in c.disk.image().items()}
    client = pair.a.client()
    client.publish_confirmed(QUEUE, 20)
    pair.settle(60)
    c.kill()
    newest = max(path for path in c.disk.image() if path.endswith(".log"))
    file = c.disk.open(newest)
    file.truncate(-(-before[newest] // 512) * 512)
    file.sync()
    c.start()
    begins_anew(pair, c, pair.a)


def test_a_node_that_is_killed_at_any_moment_while_it_begins_anew() -> None:
    """Its log may be ahead of its tables, which name the copies of its lost disk until then."""
    pair = three_with_messages(QUEUE, minds_seconds=True)
    c = pair.stations["c"]
    behind = 0
    for steps in range(1, 60):
        c.disk = SimDisk(steps)
        c.begin_anew()
        for _ in range(steps):
            pair.step()
        c.kill()
        c.start()
        tables = c.node.log.group(METADATA_GROUP)
        behind += c.node.metadata.applied_index < tables.last_index
        pair.until(lambda: c.node.ready and votes(pair.a, "c"))
        c.former_uid = b""
    assert behind


@pytest.mark.parametrize("uses", ["before", "since"])
def test_others_go_on_with_a_queue_whose_only_copy_went_back(uses: str) -> None:
    """What they submit now has numbers that the older copy does not wait for.

    Args:
        uses: Whether the other node had used the queue when the copy was made.
    """
    pair = Pair()
    pair.minds_seconds = True
    pair.add("c")
    c = pair.stations["c"]
    c.client().declare(QUEUE, kind="quorum", size=1)
    pair.until(lambda: pair.a.knows(QUEUE) and pair.b.knows(QUEUE))
    assert [row.node for row in pair.a.record(QUEUE).members] == ["c"]
    client, far = pair.a.client(), pair.b.client()
    if uses == "before":
        client.publish_confirmed(QUEUE, 3)
        far.consume(QUEUE)
        pair.until(lambda: len(far.messages) == 3)
    pair.settle(20)
    backup = c.backup()
    c.kill()
    c.start()
    pair.until(lambda: c.node.ready)
    client.publish_confirmed(QUEUE, 5)
    if uses == "since":
        far.consume(QUEUE)
    pair.until(lambda: len(far.messages) >= 5)
    pair.settle(20)
    c.kill()
    c.restore(backup)
    c.start()
    pair.until(lambda: codes.OUTDATED in c.refusals)
    c.begin_anew()
    pair.until(lambda: c.node.ready)
    c.former_uid = b""
    before = len(far.messages)
    client.publish_confirmed(QUEUE, 2)
    pair.until(lambda: len(far.messages) >= before + 2)
    far.vanish()
    pair.settle(20)
    expected = [b"1", b"2", b"3"] if uses == "before" else []
    found = drained(pair, pair.stations["b"])
    assert sorted(found[: len(expected)]) == expected
    assert len(found) == len(expected) + 2
