"""A member's snapshots: when they are taken, when they count, and how a leader's replaces a log."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.replication.hosts import LIVES, FakeHost, World, proposed
from warren.errors import CorruptRecord
from warren.ids import first_session
from warren.limits import TURN_COPY_BYTES_MAX
from warren.log.batch import KIND_COMMAND
from warren.raft.messages import SnapshotOffer
from warren.replication.wrapping import Unwrapping, unwrap, wrap_head

SESSION = int(first_session(14))
"""Of a node that is no member: a test speaks for it."""


def take(host: FakeHost, at_once: bool = False) -> int:
    """Take one; its size, 0 if it cannot be taken now."""
    return int(host.member.snapshots.take(host.member, at_once))


def offered(world: World) -> tuple[World, FakeHost, SnapshotOffer, bytes]:
    """A member b that lacks what only the leader's snapshot has, and has been offered that."""
    world.part("a", "b")
    leader, behind = world.hosts["a"], world.hosts["b"]
    leader.member.received("d", proposed(SESSION, 1, b"x"))
    leader.append(5)
    world.settle()
    leader.forget_entries()
    assert take(leader) > 0
    world.settle()
    world.join("a", "b")
    world.wait(10)
    assert len(leader.to_send) == 1
    offer = leader.to_send[0].offer
    behind.member.raft.step(offer, world.now)
    behind.member.work()
    assert [effect.offer for effect in behind.to_accept] == [offer]
    return world, behind, offer, leader.member.snapshots.payload


def take_over(host: FakeHost, offer: SnapshotOffer, payload: bytes) -> None:
    """Have all of an offered one be here."""
    unwrapping = Unwrapping(payload, 0, len(payload), True)
    member = host.member
    member.snapshots.take_over(member, offer.index, offer.snapshot_term, 5, unwrapping)


# --- its own ------------------------------------------------------------------------------------


def test_one_counts_when_it_is_durable() -> None:
    world = World()
    host = world.hosts["a"]
    host.member.received("d", proposed(SESSION, 1, b"x"))
    world.settle()
    index = int(host.member.applied_index)
    assert take(host) > 0
    assert host.member.snapshots.payload == b"" and host.member.log.snapshot_index < index
    host.write()
    assert host.member.log.snapshot_index == index
    parts = unwrap(host.member.snapshots.payload)
    assert [copy.node for copy in parts.members] == ["a", "b", "c"]
    assert parts.sessions == {SESSION: 1}
    assert host.member.raft.state.log.snapshot_index == index


def test_a_newer_one_takes_the_place_of_one_that_is_not_durable() -> None:
    world = World()
    host = world.hosts["a"]
    assert take(host) > 0
    host.append(3)
    # The entries become durable with the snapshot before them.
    world.settle()
    first = host.member.snapshots.payload
    assert take(host) > 0
    world.settle()
    assert host.member.log.snapshot_index == host.member.applied_index
    assert host.member.snapshots.payload == first, "the machine has no state, and nothing came"


def test_there_is_none_of_what_is_not_applied() -> None:
    world = World()
    host = FakeHost(world, "a")
    assert host.member.applied_index == 0
    assert take(host) == 0


def test_a_peer_that_is_being_sent_older_entries_is_waited_for() -> None:
    world, host = lagging()
    assert take(host) == 0
    assert take(host, at_once=True) > 0


def test_nobody_is_waited_for_where_space_matters_more() -> None:
    world, host = lagging()
    host.full = True
    assert take(host) > 0


def test_a_peer_is_waited_for_as_long_as_it_gets_on() -> None:
    world, host = lagging()
    host.pinned = 1_000
    host.size = 10_000
    assert take(host) == 0
    for written in (900, 1_800):
        host.written = written
        host.sent["b"] = written
        assert take(host) == 0, "it got on"
    host.written = 2_800
    assert take(host) == 0
    host.written = 2_801
    assert take(host) > 0, "more than that was written meanwhile"


def test_a_peer_that_is_slower_than_what_is_written_is_not_waited_for() -> None:
    world, host = lagging()
    host.pinned = 500
    host.size = 1_000
    for step in range(20):
        host.written = 100 * step
        host.sent["b"] = step
        assert take(host) == 0, "twice the size of the log was not written yet"
    host.written, host.sent["b"] = 2_000, 20
    assert take(host) == 0
    host.written, host.sent["b"] = 2_001, 21
    assert take(host) > 0


def test_a_peer_that_gets_the_one_before_is_waited_for() -> None:
    world, behind, offer, payload = offered(World())
    leader = world.hosts["a"]
    leader.recent_bytes = 1 << 20
    leader.member.keep_recent()
    leader.append(3)
    world.settle()
    assert leader.member.log.recent(offer.index + 1) is not None
    assert take(leader) == 0, "the peer would have to begin anew"
    behind.member.snapshots.prepare_install(behind.member, offer)
    take_over(behind, offer, payload)
    behind.write()
    leader.member.raft.snapshot_sent(offer, True, world.now)
    assert take(leader) == 0, "the entries behind it are not there yet"
    world.wait(10)
    assert behind.member.log.last_index == leader.member.log.last_index
    assert take(leader) > 0


def test_a_peer_that_is_not_there_is_not_waited_for() -> None:
    world, host = lagging()
    world.part("a", "b")
    assert take(host) > 0


def lagging() -> tuple[World, FakeHost]:
    """A leader that reads from disk what b misses."""
    world = World()
    world.part("a", "b")
    host = world.hosts["a"]
    host.append(30, 100_000)
    world.settle()
    host.forget_entries()
    # There is no allowance for the read, and it takes place later.
    for _ in range(4):
        host.own_throttle.want(nothing)
    world.join("a", "b")
    for _ in range(4):
        for frame in world.taken():
            world.deliver(frame)
        for each in world.hosts.values():
            each.write()
    assert host.member.raft.sends_next("b") >= 0
    assert host.executor.reads == 0
    return world, host


def nothing() -> None:
    """A read for some other group."""


# --- a leader's ---------------------------------------------------------------------------------


def test_a_log_that_is_given_up_for_one_is_not_whole_and_elects_nobody() -> None:
    world, host, offer, payload = offered(World())
    member = host.member
    assert member.is_complete()
    member.snapshots.prepare_install(member, offer)
    assert member.log.incomplete and not member.is_complete()
    assert (member.hard_state.floor_term, member.hard_state.floor_index) == (
        offer.snapshot_term,
        offer.index,
    )
    assert take(host, at_once=True) == 0


def test_it_takes_effect_when_it_is_durable() -> None:
    world, host, offer, payload = offered(World())
    member = host.member
    member.snapshots.prepare_install(member, offer)
    take_over(host, offer, payload)
    assert member.snapshots.is_whole()
    assert (member.applied_index, member.sessions) == (0, {}) or member.applied_index < offer.index
    host.write()
    assert not member.snapshots.is_whole()
    assert (member.applied_index, member.sessions) == (offer.index, {SESSION: 1})
    assert member.snapshots.payload == payload
    assert member.is_complete()
    world.hosts["a"].member.raft.snapshot_sent(offer, True, world.now)
    world.hosts["a"].append(3)
    world.wait(10)
    assert member.log.last_index == world.hosts["a"].member.log.last_index
    assert member.applied_index == world.hosts["a"].member.applied_index


@pytest.mark.parametrize("before", [0, 38])
def test_no_turn_copies_all_of_a_long_one(before: int) -> None:
    """Whether it came by itself or within a frame: it is in force some turns later."""
    world, host, offer, payload = offered(World())
    payload += bytes(16 * TURN_COPY_BYTES_MAX)
    data = bytes(before) + payload
    member = host.member
    member.snapshots.prepare_install(member, offer)
    turns = 0
    tracemalloc.start()
    try:
        begun = tracemalloc.get_traced_memory()[0]
        unwrapping = Unwrapping(data, before, len(data), True)
        member.snapshots.take_over(member, offer.index, offer.snapshot_term, 5, unwrapping)
        while host.applies:
            now, most = tracemalloc.get_traced_memory()
            # What grows is given an eighth more than it has.
            assert most - begun < len(payload) // 8 + 1.5 * TURN_COPY_BYTES_MAX
            tracemalloc.reset_peak()
            begun = now
            turns += 1
            host.turn()
    finally:
        tracemalloc.stop()
    assert turns >= 15
    host.write()
    assert member.snapshots.payload == payload and member.applied_index == offer.index


def test_one_that_is_being_copied_is_void_when_another_is_offered() -> None:
    world, host, offer, payload = offered(World())
    member = host.member
    member.snapshots.prepare_install(member, offer)
    take_over(host, offer, payload + bytes(3 * TURN_COPY_BYTES_MAX))
    assert member.snapshots.is_whole()
    member.snapshots.prepare_install(member, offer)
    world.settle()
    assert member.log.incomplete and not member.snapshots.is_whole()
    take_over(host, offer, payload)
    world.settle()
    assert member.snapshots.payload == payload


def test_one_that_is_cut_off_is_none() -> None:
    members = World().hosts["a"].member.raft.members
    payload = wrap_head(7, members, {SESSION: 1}).getvalue()
    assert unwrap(payload + b"state").state == b"state"
    for end in range(len(payload)):
        with pytest.raises(CorruptRecord):
            unwrap(payload[:end])


def test_what_was_submitted_and_is_part_of_it_is_not_submitted_again() -> None:
    world = World()
    behind = world.hosts["b"]
    session = int(first_session(LIVES["b"]))
    behind.member.submit(KIND_COMMAND, 0, b"", b"x", None)
    for frame in world.taken():
        world.deliver(frame)
    assert len(behind.member.proposals) == 1
    world, host, offer, payload = offered(world)
    member = host.member
    assert unwrap(payload).sessions == {session: 1, SESSION: 1}
    member.snapshots.prepare_install(member, offer)
    take_over(host, offer, payload)
    host.write()
    assert len(member.proposals) == 0


@pytest.mark.parametrize("whole", [False, True])
def test_what_will_not_come_is_given_up_unless_all_of_it_is_here(whole: bool) -> None:
    world, host, offer, payload = offered(World())
    member = host.member
    member.snapshots.prepare_install(member, offer)
    if whole:
        take_over(host, offer, payload)
    member.snapshots.give_up_install(member)
    assert member.log.incomplete == whole
    host.write()
    assert not member.log.incomplete
    assert member.applied_index == (offer.index if whole else 0)
    assert member.is_complete() == whole, "without it, less is here than was acknowledged"


def test_another_leader_ends_the_wait() -> None:
    world, host, offer, payload = offered(World())
    member = host.member
    member.snapshots.prepare_install(member, offer)
    leader = world.hand_over("c")
    world.wait(10)
    assert host.given_up == 1
    assert not member.log.incomplete
    assert member.log.last_index == leader.member.log.last_index


def test_one_of_another_offer_makes_what_came_before_void() -> None:
    world, host, offer, payload = offered(World())
    member = host.member
    member.snapshots.prepare_install(member, offer)
    take_over(host, offer, payload)
    member.snapshots.prepare_install(member, offer)
    assert not member.snapshots.is_whole()
    host.write()
    assert member.log.incomplete and member.applied_index < offer.index
