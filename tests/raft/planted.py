"""Bugs put into the group on purpose, to show that the simulated cluster finds them.

Each breaks something in the uncompiled modules and returns what undoes that. Most are bugs that
other implementations shipped; the id is that of the rule they break.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.raft.world import Swarm
from warren.raft import election, following, leading, reads
from warren.raft.members import Configs, GroupConfig, Replica
from warren.raft.progress import Progress
from warren.raft.raft import Raft
from warren.raft.state import State

Undo = Callable[[], None]


def replace(owner: Any, name: str, new: Any) -> Undo:
    """Put something else in the place of an attribute."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    return lambda: setattr(owner, name, old)


def after(owner: Any, name: str, more: Callable[..., None]) -> Undo:
    """Do more after a function."""
    old = getattr(owner, name)

    def both(*args: Any) -> Any:
        result = old(*args)
        more(*args)
        return result

    return replace(owner, name, both)


def during(owner: Any, name: str, field: str, value: Callable[[State], Any]) -> Undo:
    """Let a field of the state have another value while a function runs."""
    old = getattr(owner, name)

    def changed(subject: Any, *args: Any) -> Any:
        state = subject.state if isinstance(subject, Raft) else subject
        before = getattr(state, field)
        setattr(state, field, value(state))
        try:
            return old(subject, *args)
        finally:
            setattr(state, field, before)

    return replace(owner, name, changed)


def unpersisted_vote() -> Undo:
    """R-01: votes, and acknowledgements in a new term, leave before they are durable."""
    return replace(State, "send_held", State.send)


def own_vote_at_once() -> Undo:
    """R-01: a candidate counts its own vote before it is durable."""

    def count(state: State) -> None:
        if state.role == 2 and state.node not in state.granted:
            state.granted.append(state.node)
            election._tally(state)

    return after(election, "campaign", count)


def leader_counts_before_sync() -> Undo:
    """R-02: the leader counts what it has not synced."""
    return during(leading, "advance_commit", "persisted_index", lambda state: state.log.last_index)


def follower_acks_before_sync() -> Undo:
    """R-02: a follower acknowledges what it has not synced."""
    return during(following, "_accept", "persisted_index", lambda state: state.log.last_index)


def old_terms_by_counting() -> Undo:
    """R-03: entries of older terms are committed by counting."""
    old = leading.advance_commit

    def advance(state: State) -> None:
        term, matched = state.term, sorted(peer.match_index for peer in state.peers)
        if matched:
            state.term = max(state.log.term_at(matched[len(matched) // 2]), 0)
        try:
            old(state)
        finally:
            state.term = term

    return replace(leading, "advance_commit", advance)


def commits_beyond_validated() -> Undo:
    """R-04: a follower commits what the leader did, whatever its own entries are (Ra 3aa50f29)."""

    def commit(state: State, message: Any) -> None:
        if message.term == state.term:
            index = min(message.commit_index, state.log.last_index)
            if index > state.commit_index:
                state.commit_index = index
                state.announce_commit()

    return after(following, "append", commit)


def stale_last_written() -> Undo:
    """R-05: truncation leaves the mark of what is durable (Ra 39490978)."""
    old = following.truncate

    def truncate(state: State, from_index: int) -> None:
        mark = state.persisted_index
        old(state, from_index)
        state.persisted_index = mark

    return replace(following, "truncate", truncate)


def truncates_matching() -> Undo:
    """R-06: an append that brings nothing new truncates what follows it."""

    def first(state: State, message: Any) -> int:
        return max(message.prev_index, state.commit_index) + 1

    return replace(following, "_first_new", first)


def completion_by_index() -> Undo:
    """R-07: a completed write counts for whatever has its index now (Ra 324d9bc5)."""
    old = Raft.persisted

    def persisted(raft: Raft, index: int, term: int, now_ms: int) -> None:
        if index <= raft.last_index:
            old(raft, index, raft.state.log.term_at(index), now_ms)

    return replace(Raft, "persisted", persisted)


def pre_vote_raises_term() -> Undo:
    """R-08: being asked before an election raises the term (Ra bbd00102)."""

    def follow(state: State, message: Any) -> None:
        if message.term >= state.term and state.role != 3:
            state.follow(message.term + 1, "", 0)

    return after(election, "asked_before", follow)


def read_without_round() -> Undo:
    """R-10: a leader answers reads on its own word."""
    return replace(reads, "_confirmations", lambda state, number: 99)


def read_before_own_entry() -> Undo:
    """R-10: a new leader answers reads before it knows what is committed (etcd#7331)."""
    return during(reads, "ask", "first_of_term", lambda state: 0)


def change_before_noop() -> Undo:
    """R-12: members change before an own entry is committed."""
    return during(Raft, "propose_config", "first_of_term", lambda state: 0)


def two_changes_at_once() -> Undo:
    """R-12: a change of members does not wait for the one before."""
    return during(Raft, "propose_config", "commit_index", lambda state: state.log.last_index)


def change_not_reverted() -> Undo:
    """R-13: a truncated change of members stays in force (Ra 82e5ca2f)."""
    return replace(Configs, "truncate", lambda configs, from_index: False)


def learner_campaigns() -> Undo:
    """R-14: a learner stands for election (Ra 114d1d37)."""
    return replace(
        State, "may_campaign", lambda state: state.config().has(state.node, state.incarnation)
    )


def learner_counts() -> Undo:
    """R-14: a learner counts towards the commit."""
    old = leading.advance_commit

    def advance(state: State) -> None:
        members = state.config().members
        state.config().members = [Replica(m.node, m.incarnation, True) for m in members]
        try:
            old(state)
        finally:
            state.config().members = members

    return replace(leading, "advance_commit", advance)


def transfer_without_end() -> Undo:
    """R-16: a transfer of leadership that fails stops proposals for ever."""

    def forget(raft: Raft, node: str, now_ms: int) -> None:
        raft.state.transfer_ms = -1

    return after(Raft, "transfer", forget)


def old_snapshot_installed() -> Undo:
    """R-17: a snapshot below the commit index is installed."""
    old = following.installed

    def installed(state: State, *args: Any) -> int:
        state.commit_index = state.log.snapshot_index
        return old(state, *args)

    return replace(following, "installed", installed)


def forgotten_floor() -> Undo:
    """R-20: who lost acknowledged entries votes as if it never had them."""
    return replace(State, "reaches_floor", lambda state, index, term: True)


def applies_before_durable() -> Undo:
    """R-23: a member applies what is not durable there."""
    return during(State, "announce_commit", "persisted_index", lambda state: state.commit_index)


def half_is_enough() -> Undo:
    """Half of the voters elect."""
    return replace(GroupConfig, "majority", lambda config: max(1, config.voters() // 2))


def never_silent() -> Undo:
    """A leader keeps asking peers that owe nothing."""
    return replace(Progress, "owes", lambda peer: True)


def never_repeated() -> Undo:
    """What gets lost is not sent again."""
    return replace(leading, "_expect_answer", lambda state, peer: None)


def often_damaged(swarm: Swarm) -> None:
    """A world for bugs that only show on damaged disks."""
    swarm.damage = True
    swarm.crashes = 10
    swarm.disk_ms = 60


def often_shared(swarm: Swarm) -> None:
    """A world with few voters and many changes."""
    swarm.members = 12


def often_cut(swarm: Swarm) -> None:
    """A world of broken links and slow disks."""
    swarm.size = 5
    swarm.cuts = 25
    swarm.disk_ms = 60
    swarm.report_ms = 150


def often_late(swarm: Swarm) -> None:
    """A world whose disks finish long after leaders have changed."""
    often_cut(swarm)
    swarm.disk_ms = 60
    swarm.report_ms = 2_000
    swarm.each_write = True
    swarm.crashes = 0


def often_handed_over(swarm: Swarm) -> None:
    """A world in which leadership moves, or tries to."""
    swarm.transfers = 12
    swarm.loss = 20


def often_behind(swarm: Swarm) -> None:
    """A world of laggards, who need snapshots."""
    swarm.compactions = 30
    swarm.duplicates = 20
    swarm.cuts = 10


BUGS: list[tuple[Callable[[], Undo], int, int, Callable[[Swarm], None] | None]] = [
    (unpersisted_vote, 1, 20, None),
    (own_vote_at_once, 2, 20, None),
    (leader_counts_before_sync, 1, 20, None),
    (follower_acks_before_sync, 1, 20, None),
    (old_terms_by_counting, 1, 60, None),
    (commits_beyond_validated, 8, 100, often_cut),
    (stale_last_written, 3, 60, None),
    (truncates_matching, 1, 20, None),
    (completion_by_index, 31, 100, often_late),
    (pre_vote_raises_term, 1, 20, None),
    (read_without_round, 26, 100, often_cut),
    (read_before_own_entry, 1, 100, None),
    (change_before_noop, 2, 60, often_shared),
    (two_changes_at_once, 1, 20, often_shared),
    (change_not_reverted, 17, 60, often_shared),
    (learner_campaigns, 11, 60, often_shared),
    (learner_counts, 1, 60, often_shared),
    (transfer_without_end, 11, 60, often_handed_over),
    (old_snapshot_installed, 7, 100, often_behind),
    (forgotten_floor, 5, 300, often_damaged),
    (applies_before_durable, 1, 20, None),
    (half_is_enough, 3, 20, None),
    (never_silent, 1, 20, None),
    (never_repeated, 7, 60, None),
]
"""Each bug, the seed to begin with, the seeds within which it has to be found, and what the worlds
have to be like. The first is the lowest that finds it, to spare the time of those before it."""
