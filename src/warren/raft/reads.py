"""Reads that must not be stale, confirmed by a majority (R-10).

A leader may have been replaced without knowing it. Before it answers a read, a majority of the
voters has to confirm, in a round that began after the read came, that they follow it still. All
reads of a turn share a round; rounds are numbered within a term and never reused. No clock is
involved (R-11).
"""

from __future__ import annotations

from mypy_extensions import i64

from warren.raft.effects import ReadReady, ReadRefused, Send
from warren.raft.messages import ReadAck, ReadProbe
from warren.raft.progress import Progress
from warren.raft.state import LEADER, Read, State


def add(state: State, context: i64) -> None:
    """Take a read; it is asked for with the next flush."""
    if state.role != LEADER:
        state.effects.append(ReadRefused(context))
    else:
        state.reads.append(Read(context))


def ask(state: State) -> None:
    """Begin a round for the reads that came since the last, once an own entry is committed.

    Until then this leader does not know all that its predecessors committed.
    """
    if len(state.reads) == 0 or state.reads[-1].round > 0:
        return
    if state.commit_index < state.first_of_term:
        return
    state.read_round += 1
    at = len(state.reads) - 1
    while at >= 0 and state.reads[at].round == 0:
        state.reads[at].round = state.read_round
        state.reads[at].index = state.commit_index
        at -= 1
    for peer in state.peers:
        if peer.up and peer.member.voter:
            peer.sent_round = state.read_round
            _probe(state, peer)
    finish(state)


def _probe(state: State, peer: Progress) -> None:
    message = ReadProbe(
        state.node, state.incarnation, peer.member.node, peer.member.incarnation, state.term
    )
    message.round = peer.sent_round
    state.effects.append(Send(message))
    if peer.resend_ms < 0:
        peer.resend_ms = state.now_ms + state.options.resend_ms
    if peer.silent_ms < 0:
        peer.silent_ms = state.now_ms


def repeat(state: State, peer: Progress) -> None:
    """Ask a peer again for the newest round it did not answer."""
    if peer.sent_round > peer.acked_round:
        _probe(state, peer)


def catch_up(state: State, peer: Progress) -> None:
    """A peer is back: ask it for the round that is open."""
    if len(state.reads) > 0 and state.reads[-1].round > 0 and peer.member.voter:
        peer.sent_round = state.reads[-1].round
        repeat(state, peer)


def acknowledged(state: State, peer: Progress, message: ReadAck) -> None:
    """A peer confirmed a round, and with it all before."""
    if message.round > peer.acked_round:
        peer.acked_round = message.round
    finish(state)


def finish(state: State) -> None:
    """Answer the reads whose round a majority has confirmed."""
    if len(state.reads) == 0:
        return
    config = state.config()
    majority = config.majority()
    done = 0
    for read in state.reads:
        if read.round == 0 or _confirmations(state, read.round) < majority:
            break
        state.effects.append(ReadReady(read.context, read.index))
        done += 1
    if done > 0:
        del state.reads[:done]


def _confirmations(state: State, round_number: i64) -> i64:
    count: i64 = 1 if state.is_voter() else 0
    for peer in state.peers:
        if peer.member.voter and peer.acked_round >= round_number:
            count += 1
    return count
