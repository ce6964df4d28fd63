"""The follower: entries, commit index and snapshots that a leader sends.

A follower believes of its log what this leader has confirmed, no more: it commits up to
`validated_index` at most (R-04), truncates only where an entry contradicts its own (R-06), and
acknowledges what is durable (R-01).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from warren.raft.effects import AcceptSnapshot, StoreEntries, Truncate
from warren.raft.members import Replica
from warren.raft.messages import Append, AppendReply, ReadAck, ReadProbe, SnapshotOffer
from warren.raft.state import LEADER, State

SNAPSHOT_REFUSED: Final = 0
"""What the snapshot covers is known here already; drop it."""
SNAPSHOT_KEEPS_TAIL: Final = 1
"""The log has the snapshot's last entry: keep the entries after it."""
SNAPSHOT_REPLACES_LOG: Final = 2
"""The log has not: drop all of it."""


def reply(state: State, leader: str, incarnation: i64) -> AppendReply:
    """An answer to a leader, a rejection until it is filled in."""
    return AppendReply(state.node, state.incarnation, leader, incarnation, state.term)


def hear(state: State, leader: str, incarnation: i64, term: i64) -> None:
    """A message from the leader of `term`, which is not below ours, has come."""
    if term == state.term:
        assert state.role != LEADER, "two leaders in one term"
        assert state.leader in ("", leader), "two leaders in one term"
    state.removed = False
    state.passed_over = False
    state.follow(term, leader, incarnation)
    if state.election_ms >= 0:
        # A leader that is leaving the group is not to be trusted for ever, only for a while.
        state.restart_timer()


def append(state: State, message: Append) -> None:
    """Entries of a leader, or none: a probe."""
    if message.term < state.term:
        # The answer's term makes an old leader step down.
        answer = reply(state, message.sender, message.sender_incarnation)
        answer.prev_index = message.prev_index
        state.send_held(answer)
        return
    hear(state, message.sender, message.sender_incarnation, message.term)
    log = state.log
    if message.prev_index > state.commit_index:
        if log.term_at(message.prev_index) != message.prev_term:
            _reject(state, message)
            return
    first = _first_new(state, message)
    if first <= message.last_index:
        _store(state, message, first)
    if message.last_index > state.validated_index:
        state.validated_index = message.last_index
    commit = message.commit_index
    if commit > state.validated_index:
        commit = state.validated_index
    if commit > state.commit_index:
        state.commit_index = commit
        state.announce_commit()
    if message.quiet:
        return
    if first > message.last_index or state.persisted_index >= message.last_index:
        _accept(state, message.prev_index)


def _reject(state: State, message: Append) -> None:
    log = state.log
    answer = reply(state, message.sender, message.sender_incarnation)
    answer.prev_index = message.prev_index
    answer.commit_index = state.commit_index
    hint = log.common(message.prev_index, message.prev_term)
    if hint < state.commit_index:
        # What is committed is common to both, whatever the terms seem to say.
        hint = state.commit_index
    answer.hint_index = hint
    answer.hint_term = log.term_at(hint)
    state.send_held(answer)


def _first_new(state: State, message: Append) -> i64:
    """Index of the first entry that the log has not, or that contradicts it."""
    log = state.log
    index = message.prev_index + 1
    if index <= state.commit_index:
        # Committed entries are the same everywhere; those in a snapshot cannot be compared.
        index = state.commit_index + 1
    run = 0
    while index <= message.last_index and index <= log.last_index:
        while run + 1 < len(message.firsts) and i64(message.firsts[run + 1]) <= index:
            run += 1
        if log.term_at(index) != i64(message.terms[run]):
            break
        index += 1
    return index


def first_to_store(state: State, message: Append) -> i64:
    """Index of the first entry that an append would bring; 0 if it is rejected or brings none."""
    if message.term < state.term:
        return 0
    if message.prev_index > state.commit_index:
        if state.log.term_at(message.prev_index) != message.prev_term:
            return 0
    first = _first_new(state, message)
    return first if first <= message.last_index else 0


def _store(state: State, message: Append, first: i64) -> None:
    """Take the entries from `first` on, which may contradict what is there."""
    log = state.log
    if first <= log.last_index:
        truncate(state, first)
    config_before = state.config()
    run = 0
    while run < len(message.firsts):
        last = message.last_index
        if run + 1 < len(message.firsts):
            last = i64(message.firsts[run + 1]) - 1
        if last >= first:
            log.append(last, message.terms[run])
        run += 1
    assert log.last_index == message.last_index, "the entries of an append have no gap"
    for config in message.configs:
        if config.index >= first:
            state.configs.append(config.index, config.members)
    state.effects.append(StoreEntries(message, first))
    if state.config() is not config_before:
        state.announce_config()
        state.keep_timer()


def truncate(state: State, from_index: i64) -> None:
    """Drop entries that contradict the leader's, and with them all that rested on them.

    R-05 (what was durable of them no longer counts) and R-13 (the configuration before them is
    in force again).
    """
    assert from_index > state.commit_index, "committed entries are never truncated"
    state.log.truncate(from_index)
    if state.persisted_index >= from_index:
        state.persisted_index = from_index - 1
    assert state.validated_index < from_index, "the leader contradicts itself"
    state.effects.append(Truncate(from_index))
    if state.configs.truncate(from_index):
        state.announce_config()
        state.keep_timer()


def _accept(state: State, prev_index: i64) -> None:
    answer = reply(state, state.leader, state.leader_incarnation)
    answer.accepted = True
    answer.prev_index = prev_index
    answer.received_index = state.validated_index
    answer.match_index = state.validated_index
    if answer.match_index > state.persisted_index:
        answer.match_index = state.persisted_index
    answer.commit_index = state.commit_index
    state.acked_index = answer.match_index
    state.send_held(answer)


def persisted(state: State) -> None:
    """More of the log is durable: acknowledge it to the leader it came from."""
    if state.leader == "" or state.leader == state.node:
        return
    match = state.validated_index
    if match > state.persisted_index:
        match = state.persisted_index
    if match > state.acked_index:
        _accept(state, 0)


def offered(state: State, message: SnapshotOffer) -> None:
    """A leader has a snapshot for us."""
    if message.term < state.term:
        state.send_held(reply(state, message.sender, message.sender_incarnation))
        return
    hear(state, message.sender, message.sender_incarnation, message.term)
    if message.index <= state.commit_index or _has_all(state, message):
        # The log stays as it is: compacted, it would have this member offer others a snapshot of
        # that index, which it has not got.
        if state.commit_index < message.index:
            state.commit_index = message.index
            state.announce_commit()
        if state.validated_index < state.commit_index:
            state.validated_index = state.commit_index
        _accept(state, 0)
        return
    state.effects.append(AcceptSnapshot(message))


def _has_all(state: State, message: SnapshotOffer) -> bool:
    """Whether the log has the snapshot's last entry, and so all that it covers (R-05)."""
    return state.log.term_at(message.index) == message.snapshot_term


def installed(state: State, index: i64, term: i64, members: list[Replica]) -> int:
    """A snapshot is durable here; decide what becomes of the log (R-17)."""
    if index <= state.commit_index or state.role == LEADER:
        return SNAPSHOT_REFUSED
    result = SNAPSHOT_REPLACES_LOG
    if state.log.term_at(index) == term:
        result = SNAPSHOT_KEEPS_TAIL
        state.log.compact(index)
        state.configs.compact(index)
    else:
        state.log.reset(index, term)
        state.configs.reset(index, members)
        state.persisted_index = index
        state.announce_config()
    if state.persisted_index < index:
        state.persisted_index = index
    if state.validated_index < index:
        state.validated_index = index
    state.commit_index = index
    if state.announced_index < index:
        state.announced_index = index
    state.keep_timer()
    if state.leader != "":
        _accept(state, 0)
    return result


def asked_for_read(state: State, message: ReadProbe) -> None:
    """A leader asks whether it still is one (R-10)."""
    if message.term < state.term:
        state.send_held(reply(state, message.sender, message.sender_incarnation))
        return
    hear(state, message.sender, message.sender_incarnation, message.term)
    answer = ReadAck(
        state.node, state.incarnation, message.sender, message.sender_incarnation, state.term
    )
    answer.round = message.round
    state.send_held(answer)
