"""Quorum queues whose voters are gone for good: one of two goes on, of others the log tells."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair, Station
from tests.node.test_damage import rolled
from tests.node.test_leading_again import drained
from tests.node.test_older_disks import votes
from warren.log.batch import HEADER_BYTES
from warren.log.group import newest_snapshot, newest_state
from warren.metadata.member_checks import delete_member
from warren.protocols.peer import refusal as codes

QUEUE = "orders"
BODIES = [b"%d" % number for number in range(1, 6)]


def two_voters(file_bytes: int = 1 << 22) -> Pair:
    """Nodes a, b and c; the queue has members on two of them."""
    pair = Pair(file_bytes=file_bytes)
    pair.minds_seconds = True
    pair.add("c")
    client = pair.a.client()
    client.declare(QUEUE, kind="quorum", size=2)
    names = {row.node for row in pair.a.record(QUEUE).members}
    pair.until(lambda: all(voters(pair.stations[name]) == names for name in names))
    return pair


def voters(station: Station) -> set[str]:
    found = station.node.cluster.members.get(int(station.record(QUEUE).group_id))
    return set() if found is None else {copy.node for copy in found.raft.members if copy.voter}


def leads(pair: Pair, name: str) -> bool:
    group_id = int(pair.a.record(QUEUE).group_id)
    found = pair.stations[name].node.cluster.members.get(group_id)
    return found is not None and bool(found.raft.can_propose())


def two(pair: Pair) -> tuple[Station, Station]:
    """Its nodes: one that stays, and one whose disk is lost, which leads."""
    stays, lost = sorted(row.node for row in pair.a.record(QUEUE).members)
    pair.until(lambda: any(leads(pair, name) for name in (stays, lost)))
    if leads(pair, stays):
        group_id = int(pair.a.record(QUEUE).group_id)
        pair.stations[stays].node.queue_members.transfer(group_id, lost)
    pair.until(lambda: leads(pair, lost))
    return pair.stations[stays], pair.stations[lost]


def test_one_of_two_goes_on_when_the_other_disk_is_put_back() -> None:
    pair = two_voters()
    stays, lost = two(pair)
    backup = lost.backup()
    lost.kill()
    lost.start()
    pair.until(lambda: lost.node.ready)
    stays, lost = two(pair)
    publisher = stays.client()
    publisher.publish_confirmed(QUEUE, 5)
    pair.settle(20)
    lost.kill()
    lost.restore(backup)
    lost.start()
    pair.until(lambda: codes.OUTDATED in lost.refusals)
    lost.begin_anew()
    pair.until(lambda: lost.node.ready and votes(stays, lost.name))
    said = [text for text in stays.warnings if "goes on with the copy on this node" in text]
    assert len(said) == 1 and QUEUE in said[0] and lost.name in said[0]
    publisher.publish_confirmed(QUEUE, 1)
    assert drained(stays.client(), QUEUE) == [*BODIES, b"6"]


def test_one_of_two_goes_on_when_the_other_copy_cannot_be_started() -> None:
    pair = two_voters(file_bytes=1 << 16)
    stays, lost = two(pair)
    client = stays.client()
    client.publish_confirmed(QUEUE, 5)
    pair.settle(20)
    lost.queue(QUEUE).snapshot()
    pair.settle(20)
    path, offset = rolled(pair, client, lost, "snapshot")
    lost.kill()
    lost.disk.flip(path, offset + HEADER_BYTES + 1, 1)
    lost.start()
    pair.until(lambda: lost.node.ready)
    assert any("is not started" in text for text in lost.warnings)
    pair.until(lambda: votes(stays, lost.name) and leads(pair, stays.name))
    assert any("goes on with the copy on this node" in text for text in stays.warnings)
    publisher = stays.client()
    publisher.publish_confirmed(QUEUE, 1)
    assert drained(stays.client(), QUEUE) == [*BODIES, b"1"]


def test_it_does_not_while_the_other_one_may_vote_again() -> None:
    pair = two_voters()
    stays, lost = two(pair)
    lost.kill()
    pair.settle(1_000)
    assert not leads(pair, stays.name)
    lost.start()
    pair.until(lambda: leads(pair, stays.name) or leads(pair, lost.name))
    assert voters(stays) == {stays.name, lost.name}
    assert not any("goes on with the copy" in text for text in stays.warnings)


def test_one_of_two_goes_on_when_the_leader_is_lost_for_good() -> None:
    """Whoever stays has heard of no other leader since."""
    pair = two_voters()
    stays, lost = two(pair)
    publisher = stays.client()
    publisher.publish_confirmed(QUEUE, 5)
    pair.settle(20)
    lost.kill()
    forget_copies(pair, stays, [lost.name])
    pair.until(lambda: leads_alone(stays))
    publisher.publish_confirmed(QUEUE, 1)
    assert drained(stays.client(), QUEUE) == [*BODIES, b"6"]


def leads_alone(station: Station) -> bool:
    return station.node.stranded.is_alone(station.record(QUEUE))


def forget_copies(pair: Pair, stays: Station, others: list[str]) -> None:
    """Have the tables name members on these nodes no more, which are down."""
    left = next(each for each in pair.stations.values() if each.alive)
    for name in others:
        command = delete_member(left.record(QUEUE), name, [stays.name], True)
        assert command is not None
        left.node.store.submit(command, None)
        pair.until(lambda name=name: left.record(QUEUE).member_on(name) is None)


@pytest.mark.parametrize("led_by_lost", [False, True])
def test_of_more_voters_the_log_says_that_a_queue_is_lost(led_by_lost: bool) -> None:
    """Those that are gone may have had what is not here."""
    pair = Pair()
    pair.minds_seconds = True
    for name in "cde":
        pair.add(name)
    pair.a.client().declare(QUEUE, kind="quorum", size=1)
    (row,) = pair.a.record(QUEUE).members
    others = [name for name in "bcde" if name != row.node][:2]
    for name in others:
        pair.add_member(QUEUE, name)
    names = {row.node, *others}
    stays = pair.stations[row.node]
    pair.until(lambda: voters(stays) == names)
    pair.settle(20)
    if led_by_lost:
        group_id = int(pair.a.record(QUEUE).group_id)
        stays.node.queue_members.transfer(group_id, others[0])
        pair.until(lambda: leads(pair, others[0]))
        pair.settle(20)
    for name in others:
        pair.stations[name].kill()
    forget_copies(pair, stays, others)
    pair.settle(800)
    said = [text for text in stays.warnings if "has no leader and will get none" in text]
    assert len(said) == 1
    assert "force_shrink_member_to_current_member --vhost '/' 'orders'" in said[0]
    assert not leads(pair, row.node)
    assert stays.node.stranded.why_not_alone(stays.record(QUEUE)) == ""


@pytest.mark.parametrize("leads_here", [True, False])
def test_no_byte_of_a_term_and_a_vote_may_differ(leads_here: bool) -> None:
    """A copy whose newest state is damaged is not started: it might vote twice in a term.

    There is no snapshot, which would say that there was a newer state than the one before.
    """
    pair = two_voters(file_bytes=1 << 16)
    stays, leader = two(pair)
    station = leader if leads_here else stays
    client = stays.client()
    client.publish_confirmed(QUEUE, 5)
    pair.settle(20)
    rolled(pair, client, station, "state")
    station.kill()
    backup = station.backup()
    group_id = int(pair.stations["b"].record(QUEUE).group_id)
    # One that was on its way to the disk may be there, and is newer than what the node knew of.
    station.start()
    log = station.node.log.group(group_id)
    place = newest_state(log)
    assert place is not None and newest_snapshot(log) is None
    assert place.file.closed and place.file.has_sidecar
    path, offset, size = place.file.path, int(place.state_offset), int(place.state_size)
    station.alive = False
    for at in [*range(offset, offset + size, 7), offset + size - 1]:
        station.restore(backup)
        station.disk.flip(path, at, 1 << at % 8)
        station.warnings.clear()
        station.start()
        assert group_id not in station.node.cluster.members, f"byte {at - offset} of {size}"
        assert any("is not started" in text for text in station.warnings)
        station.alive = False
