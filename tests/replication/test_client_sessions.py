"""What a leader takes of what nodes propose: each session's next, once, until it is closed."""

from __future__ import annotations

import pytest
from librt.strings import read_i64_le

from tests.replication.hosts import GROUP, LIVES, FakeHost, World, proposed
from warren.ids import first_session
from warren.log.batch import KIND_COMMAND
from warren.replication import frames, kinds
from warren.replication.proposals import Proposal

SESSION = int(first_session(14))
"""Of node d, which proposes, and is no member: a test speaks for it."""


def asked(world: World) -> list[tuple[str, int, int]]:
    """To whom it was said what is expected next, by session."""
    return [
        (
            receiver,
            int(read_i64_le(frame, frames.HEAD_BYTES)),
            int(read_i64_le(frame, frames.HEAD_BYTES + 8)),
        )
        for _, receiver, frame in world.taken(kinds.EXPECT)
    ]


def propose(host: FakeHost, *sequences: int, session: int = SESSION) -> None:
    """Have node d propose."""
    for sequence in sequences:
        host.member.received("d", proposed(session, sequence, b"%d" % sequence))


def taken(host: FakeHost, session: int = SESSION) -> list[int]:
    """The sequences of a session that are in the log."""
    return [sequence for of, sequence, _ in host.entries() if of == session]


def test_proposals_are_taken_in_their_order_and_once() -> None:
    world = World()
    leader = world.hosts["a"]
    propose(leader, 1, 2, 1, 2, 3, 3)
    assert taken(leader) == [1, 2, 3]
    assert asked(world) == []
    world.settle()
    for host in world.hosts.values():
        assert taken(host) == [1, 2, 3]
        assert host.member.sessions[SESSION] == 3
        assert host.member.applied_index == leader.member.log.last_index


def test_what_is_missing_is_asked_for_once() -> None:
    """All that is under way behind it is out of order too; it comes again when it is asked for."""
    world = World()
    leader = world.hosts["a"]
    propose(leader, 1, 3, 4, 5)
    assert taken(leader) == [1]
    assert asked(world) == [("d", SESSION, 2)]
    propose(leader, 2, 3, 4)
    assert taken(leader) == [1, 2, 3, 4]
    assert asked(world) == []


def test_it_is_asked_for_again_if_there_is_still_a_hole_when_the_node_has_begun_again() -> None:
    world = World()
    leader = world.hosts["a"]
    propose(leader, 4)
    assert asked(world) == [("d", SESSION, 1)]
    propose(leader, 5, 6)
    assert asked(world) == []
    propose(leader, 3)
    assert asked(world) == [("d", SESSION, 1)]


def test_sessions_do_not_mind_each_other() -> None:
    world = World()
    leader = world.hosts["a"]
    other = SESSION + 1
    propose(leader, 1, 2)
    propose(leader, 2, session=other)
    propose(leader, 1, session=other)
    assert (taken(leader), taken(leader, other)) == ([1, 2], [1])
    assert asked(world) == [("d", other, 1)]


def test_a_new_leader_knows_what_its_log_holds_committed_or_not() -> None:
    world = World()
    old = world.hosts["a"]
    propose(old, 1, 2)
    world.settle()
    propose(old, 3, 4)
    # The others have these, and do not know them to be committed.
    old.write()
    for frame in world.taken():
        world.deliver(frame)
    world.hosts["b"].write()
    world.hosts["c"].write()
    world.taken()
    assert world.hosts["b"].member.sessions == world.hosts["c"].member.sessions == {SESSION: 2}
    new = world.lose("a")
    assert new.member.client_sessions.next(SESSION) == 5
    propose(new, 3, 4, 5)
    assert taken(new) == [1, 2, 3, 4, 5]


def test_one_that_does_not_lead_takes_nothing_and_says_nothing() -> None:
    world = World()
    follower = world.hosts["b"]
    propose(follower, 1, 2)
    assert taken(follower) == []
    assert asked(world) == []


def test_while_its_disk_is_behind_a_leader_takes_nothing_and_asks_for_it_later() -> None:
    world = World()
    leader = world.hosts["a"]
    propose(leader, 1)
    leader.disk_behind = True
    propose(leader, 2, 3)
    assert taken(leader) == [1]
    leader.member.client_sessions.ask_declined(leader.member)
    assert asked(world) == [], "the disk is behind still"
    leader.disk_behind = False
    leader.member.client_sessions.ask_declined(leader.member)
    assert asked(world) == [("d", SESSION, 2)]
    leader.member.client_sessions.ask_declined(leader.member)
    assert asked(world) == [], "it was asked for"
    propose(leader, 2, 3)
    assert taken(leader) == [1, 2, 3]


def test_what_came_while_the_lead_was_being_handed_over_is_asked_for_if_that_fails() -> None:
    world = World()
    leader = world.hosts["a"]
    world.cut = {("a", "c"), ("c", "a")}
    leader.member.raft.transfer("c", world.now)
    leader.member.work()
    propose(leader, 1)
    assert taken(leader) == []
    world.taken(kinds.EXPECT)
    asked_for: list[tuple[str, int, int]] = []
    for _ in range(100):
        world.now += 50
        leader.member.raft.tick(world.now)
        leader.member.work()
        asked_for += asked(world)
        world.settle()
        if asked_for:
            break
    assert asked_for == [("d", SESSION, 1)]
    propose(leader, 1)
    assert taken(leader) == [1]


@pytest.mark.rule("BEH-15")
def test_the_session_of_a_node_that_is_gone_is_closed_on_all_members() -> None:
    world = World()
    leader = world.hosts["a"]
    propose(leader, 1, 2)
    world.settle()
    leader.over = {SESSION}
    leader.member.client_sessions.close_sessions(leader.member)
    assert leader.member.client_sessions.next(SESSION) == 0
    last = leader.member.log.last_index
    leader.member.client_sessions.close_sessions(leader.member)
    assert leader.member.log.last_index == last, "it is closed once"
    propose(leader, 3, 4)
    assert taken(leader) == [1, 2]
    assert asked(world) == []
    world.settle()
    for host in world.hosts.values():
        assert host.member.sessions[SESSION] == ~2
    leader = world.hand_over("c")
    assert leader.member.client_sessions.next(SESSION) == 0
    propose(leader, 3)
    assert taken(leader) == [1, 2]


def test_a_node_whose_session_was_closed_goes_on_in_the_next_one() -> None:
    world = World()
    leader, other = world.hosts["a"], world.hosts["b"]
    session = int(first_session(LIVES["b"]))
    other.member.submit(KIND_COMMAND, 0, b"", b"first", None)
    world.settle()
    assert taken(leader, session) == [1]
    leader.over = {session}
    leader.member.client_sessions.close_sessions(leader.member)
    other.member.submit(KIND_COMMAND, 0, b"", b"second", None)
    world.settle()
    assert other.member.session() == session + 1
    assert (taken(leader, session), taken(leader, session + 1)) == ([1], [1])
    assert len(other.member.proposals) == 0


def test_the_only_member_has_taken_over_when_sessions_of_the_gone_are_closed() -> None:
    world = World("a")
    host = world.hosts["a"]
    member = host.member
    sessions = member.client_sessions
    member.append(SESSION, Proposal(1, KIND_COMMAND, 0, b"", b"x", None))
    world.settle()
    host.over = {SESSION}
    assert not sessions.taken_over(member)
    sessions.close_sessions(member)
    world.settle()
    assert sessions.taken_over(member)


def test_of_a_group_with_other_members_nothing_has_to_be_taken_over() -> None:
    world = World()
    for host in world.hosts.values():
        host.over = {SESSION}
        assert host.member.client_sessions.taken_over(host.member)
    assert GROUP == world.hosts["a"].member.group_id
