"""What no member of a group can have said: judged before it is taken up.

Elsewhere here such things are asserted, as defects of our own. A peer whose memory or network is
damaged says them, too; then its link ends, and this member has taken up nothing of it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from warren.raft import following
from warren.raft.members import GroupConfig, Replica
from warren.raft.messages import Append, AppendReply, Message, ReadProbe, SnapshotOffer
from warren.raft.state import LEADER, State

TERMS_MAX: Final = 1 << 32
"""Elections that a member may have missed: a thousand a second for seven weeks."""
ENTRIES_MAX: Final = 1 << 40
"""Entries that a member may have missed: as many as no cluster ever writes to one group."""


def refuse(state: State, message: Message) -> str:
    """Why a message for this copy cannot be meant; empty if it can."""
    if message.term > state.term + TERMS_MAX:
        return f"term {message.term} comes behind term {state.term}"
    if isinstance(message, Append):
        return _other_leader(state, message) or _refuse_append(state, message)
    if isinstance(message, AppendReply):
        return _refuse_reply(state, message)
    if isinstance(message, SnapshotOffer):
        if message.index < 1 or message.index > state.log.last_index + ENTRIES_MAX:
            return f"a snapshot of entry {message.index}"
        if message.snapshot_term > message.term:
            return "a snapshot of a later term than its leader's"
        return _other_leader(state, message) or _refuse_members(message.members)
    if isinstance(message, ReadProbe):
        return _other_leader(state, message)
    return ""


def _other_leader(state: State, message: Message) -> str:
    if message.term == state.term and (
        state.role == LEADER or state.leader not in ("", message.sender)
    ):
        return f"two leaders in term {message.term}"
    return ""


def _refuse_append(state: State, message: Append) -> str:
    first = following.first_to_store(state, message)
    if first == 0:
        return ""
    log = state.log
    if message.term == state.term and first <= state.validated_index:
        return f"its leader contradicts itself at entry {first}"
    if message.term_of(first) < log.term_at(first - 1):
        return f"the term falls at entry {first}"
    for config in message.configs:
        problem = _refuse_members(config.members)
        if problem:
            return problem
    return ""


def _refuse_reply(state: State, message: AppendReply) -> str:
    if state.role != LEADER or message.term != state.term or not message.accepted:
        return ""
    if not message.match_index <= message.received_index <= state.log.last_index:
        return "a peer is ahead of its leader"
    return ""


def _refuse_members(members: list[Replica]) -> str:
    voters: i64 = GroupConfig(0, members).voters()
    if voters == 0:
        return "members without a voter"
    names: dict[str, bool] = {}
    for member in members:
        names[member.node] = True
    return "" if len(names) == len(members) else "two members on one node"
