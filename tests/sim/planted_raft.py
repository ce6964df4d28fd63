"""Bugs put into the consensus of a cluster's nodes on purpose, for the simulator to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.cluster.swarm import (
    BLACKOUT,
    KILL,
    MEMBERS,
    PARTITION,
    POWER,
    REPLACE,
    TRANSFER,
)
from tests.sim.planted import Undo, Where, replace
from warren.raft import election, following, leading, state
from warren.raft.members import Replica
from warren.raft.raft import Raft


def blind_vote() -> Undo:
    """A vote is given to whoever asks, whatever its log holds."""
    return replace(state.State, "may_win", lambda *_: True)


def votes_twice() -> Undo:
    """A voter forgets within a term whom it voted for."""

    def asked(voter: Any, message: Any) -> None:
        voter.voted_for = ""
        original(voter, message)

    original = election.asked
    return replace(election, "asked", asked)


def counts_memory() -> Undo:
    """A leader counts its own entries before they are durable."""

    def advance(leader: Any) -> None:
        leader.persisted_index = leader.log.last_index
        original(leader)

    original = leading.advance_commit
    return replace(leading, "advance_commit", advance)


def acknowledges_memory() -> Undo:
    """A follower acknowledges entries that its disk has not synced."""

    def accept(follower: Any, prev_index: int) -> None:
        durable, follower.persisted_index = follower.persisted_index, follower.log.last_index
        try:
            original(follower, prev_index)
        finally:
            follower.persisted_index = durable

    original = following._accept
    return replace(following, "_accept", accept)


def counts_learners() -> Undo:
    """What learners have counts towards the majority that commits."""

    def advance(leader: Any) -> None:
        config = leader.config()
        members = config.members
        config.members = [Replica(each.node, each.incarnation, True) for each in members]
        try:
            original(leader)
        finally:
            config.members = members

    original = leading.advance_commit
    return replace(leading, "advance_commit", advance)


def half_is_enough() -> Undo:
    """Half of the voters is taken for a majority of them when entries are committed."""

    return without_those_behind(lambda count: 1)


def three_are_enough() -> Undo:
    """Three are taken for a majority, however many voters there are."""
    return without_those_behind(lambda count: max(0, count - 5))


def without_those_behind(left_out: Callable[[int], int]) -> Undo:
    """Voters that have least are left out when a leader looks at what a majority has.

    Args:
        left_out: How many of so many voters.
    """

    def advance(leader: Any) -> None:
        config = leader.config()
        members = config.members
        others = [each for each in members if each.voter and each.node != leader.node]
        others.sort(key=lambda each: match_of(leader, each))
        behind = others[: left_out(sum(bool(each.voter) for each in members))]
        config.members = [each for each in members if each not in behind]
        try:
            original(leader)
        finally:
            config.members = members

    def match_of(leader: Any, voter: Any) -> int:
        peer = leader.peer(voter.node, voter.incarnation)
        return 0 if peer is None else int(peer.match_index)

    original = leading.advance_commit
    return replace(leading, "advance_commit", advance)


def commits_older_terms() -> Undo:
    """A leader commits entries of older terms by counting who has them."""

    def advance(leader: Any) -> None:
        term_at = leader.log.term_at
        log = leader.log

        class Claiming:
            """The log, if all its entries were of this term."""

            def __getattr__(self, name: str) -> Any:
                return getattr(log, name)

            def term_at(self, index: int) -> int:
                return int(leader.term) if term_at(index) >= 0 else -1

        leader.log = Claiming()
        try:
            original(leader)
        finally:
            leader.log = log

    original = leading.advance_commit
    return replace(leading, "advance_commit", advance)


def commits_unvalidated() -> Undo:
    """A follower commits what its log holds, not what this leader has confirmed of it."""

    def append(follower: Any, message: Any) -> None:
        if message.term >= follower.term:
            follower.validated_index = max(follower.validated_index, message.prev_index)
            index = min(message.commit_index, follower.log.last_index)
            if index > follower.commit_index:
                follower.commit_index = index
                follower.announce_commit()
        original(follower, message)

    original = following.append
    return replace(following, "append", append)


def matches_unchecked() -> Undo:
    """A follower takes entries behind whatever it has, without looking at the term before them."""

    def append(follower: Any, message: Any) -> None:
        known = follower.log.term_at(message.prev_index)
        if message.prev_index <= follower.log.last_index and known > 0:
            message.prev_term = known
        original(follower, message)

    original = following.append
    return replace(following, "append", append)


def doubled_append_cuts() -> Undo:
    """An append that comes twice cuts off what came behind it."""

    def store(follower: Any, message: Any) -> int:
        return max(int(message.prev_index), int(follower.commit_index)) + 1

    return replace(following, "_first_new", store)


def keeps_durable_mark() -> Undo:
    """What was durable of entries that are void still counts as durable."""

    def truncate(follower: Any, from_index: int) -> None:
        durable = follower.persisted_index
        original(follower, from_index)
        follower.persisted_index = durable

    original = following.truncate
    return replace(following, "truncate", truncate)


def configured_at_commit() -> Undo:
    """A change of members is in force once it is committed, not once it is in the log."""

    def config(member: Any) -> Any:
        known = member.configs._history
        return next((each for each in known[::-1] if each.index <= member.commit_index), known[0])

    return replace(state.State, "config", config)


def older_snapshot() -> Undo:
    """A snapshot is taken over although the log has gone further already."""

    def installed(follower: Any, index: int, term: int, members: Any) -> int:
        if follower.role != state.LEADER:
            follower.commit_index = min(follower.commit_index, index - 1)
        return int(original(follower, index, term, members))

    def offered(follower: Any, message: Any) -> None:
        committed = follower.commit_index
        follower.commit_index = min(committed, message.index - 1)
        try:
            original_offered(follower, message)
        finally:
            follower.commit_index = committed

    original = following.installed
    original_offered = following.offered
    undone = (
        replace(following, "installed", installed),
        replace(following, "offered", offered),
    )

    def undo() -> None:
        for each in undone:
            each()

    return undo


def outlived_office() -> Undo:
    """A leader that hears of a later term goes on in its own."""

    def answering(raft: Any, message: Any) -> Any:
        leader = raft.state
        if leader.role != state.LEADER or message.term < leader.term:
            return None
        return leader.peer(message.sender, message.sender_incarnation)

    return replace(Raft, "_answering", answering)


HASTY = {"groups": False, "gap_us": 2_000, "fault_us": 60_000}
"""Clients and faults are."""

PLANTED = {
    blind_vote: Where(4),
    counts_memory: Where(1, 150, (POWER, BLACKOUT), HASTY | {"disk_us": 10_000}),
    acknowledges_memory: Where(1, 150, (POWER, BLACKOUT), HASTY | {"disk_us": 10_000}),
    counts_learners: Where(10, 150, (REPLACE, MEMBERS, POWER)),
    half_is_enough: Where(),
    three_are_enough: Where(1, 60, (), {"many": 7, "many_members": 7}),
    commits_unvalidated: Where(2, 150, (KILL, PARTITION, TRANSFER), HASTY),
    doubled_append_cuts: Where(2),
    configured_at_commit: Where(1),
}
"""With each bug where it shows soon; see `hunt`."""

RARE = (
    votes_twice,
    outlived_office,
    commits_older_terms,
    keeps_durable_mark,
    older_snapshot,
    matches_unchecked,
)
"""It takes more seeds to find these than a test has time for; `hunt` does."""
