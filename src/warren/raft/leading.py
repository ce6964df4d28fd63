"""The leader: replication to each peer, the commit index, and when to give the office up.

Nothing is sent to peers that owe nothing and miss nothing, so an idle group is silent. What is
outstanding is asked for again after `Options.resend_ms`; that is the only timer of replication.
"""

from __future__ import annotations

from mypy_extensions import i64

from warren.raft import reads
from warren.raft.effects import AppendNoop, BecameLeader, Replicate, Send, SendSnapshot
from warren.raft.messages import Append, AppendReply, SnapshotOffer, TimeoutNow
from warren.raft.progress import PROBE, REPLICATE, SNAPSHOT, Progress
from warren.raft.state import LEADER, State


def become_leader(state: State) -> None:
    """A majority voted for this member."""
    assert state.role != LEADER and state.leader == "", "one leader a term"
    state.role = LEADER
    state.leader = state.node
    state.leader_incarnation = state.incarnation
    state.leader_heard = True
    state.election_ms = -1
    state.peers = []
    state.rebuild_peers()
    state.first_of_term = state.log.last_index + 1
    state.noop_due = True
    state.read_round = 0
    if state.transfer_to != "":
        state.end_transfer(False)
    state.effects.append(BecameLeader(state.term))
    state.effects.append(AppendNoop(state.term))
    check_quorum(state)


def appended(state: State, index: i64) -> None:
    """The shell appended entries of this term up to `index`."""
    assert state.role == LEADER, "only a leader appends of its own accord"
    state.log.append(index, state.term)
    state.noop_due = False


# --- sending ------------------------------------------------------------------------------------


def flush(state: State) -> None:
    """Offer every peer what it misses. Once a turn."""
    reads.ask(state)
    for peer in state.peers:
        if not peer.up or peer.offered or not _something_for(state, peer):
            continue
        if peer.next_index <= state.log.snapshot_index:
            _send_snapshot(state, peer)
        else:
            peer.offered = True
            state.effects.append(Replicate(peer.member.node))


def misses(state: State, peer: Progress) -> bool:
    """Whether the next `flush` has something for a peer."""
    return peer.up and _something_for(state, peer)


def _something_for(state: State, peer: Progress) -> bool:
    if peer.mode == SNAPSHOT or (
        # What it misses is in a snapshot only, for which its disk has no room now.
        peer.behind and peer.next_index <= state.log.snapshot_index
    ):
        return False
    if peer.ping:
        return True
    if peer.mode == PROBE:
        return not peer.asked and (
            peer.acked_commit < state.commit_index or peer.match_index < state.log.last_index
        )
    if peer.sent_commit < state.commit_index:
        return True
    return peer.next_index <= state.log.last_index and _has_room(state, peer)


def _has_room(state: State, peer: Progress) -> bool:
    return not peer.behind and len(peer.inflight) < state.options.inflight_max


def next_append(state: State, peer: Progress) -> Append | None:
    """The next append for a peer; None when there is nothing to send it now."""
    if not peer.up or not _something_for(state, peer):
        peer.offered = False
        return None
    if peer.next_index <= state.log.snapshot_index:
        # The log was compacted since the peer was offered something.
        peer.offered = False
        _send_snapshot(state, peer)
        return None
    log = state.log
    prev = peer.next_index - 1
    assert log.snapshot_index <= prev <= log.last_index, "a peer is sent what the log has"
    last = prev
    if (peer.mode == PROBE and not peer.bare and not peer.asked and not peer.behind) or (
        peer.mode == REPLICATE and _has_room(state, peer)
    ):
        last = prev + state.options.entries_max
        if last > log.last_index:
            last = log.last_index
    message = Append(
        state.node,
        state.incarnation,
        peer.member.node,
        peer.member.incarnation,
        state.term,
        prev,
        log.term_at(prev),
        last,
        state.commit_index,
    )
    if last > prev:
        log.cut(prev + 1, last, message.firsts, message.terms)
        message.configs = state.configs.between(prev + 1, last)
    elif peer.mode == REPLICATE and not peer.ping and state.leaving_ms < 0:
        message.quiet = True
    peer.ping = False
    peer.sent_commit = state.commit_index
    if peer.mode == PROBE:
        peer.asked = True
    elif last > prev:
        peer.next_index = last + 1
        peer.inflight.append(last)
    if message.quiet:
        _ask_later(state, peer)
    else:
        _expect_answer(state, peer)
    return message


def shorten(state: State, message: Append, last_index: i64) -> None:
    """The shell sends fewer entries than `next_append` gave it."""
    before = message.last_index
    message.cut(last_index)
    if state.role != LEADER or message.term != state.term:
        return
    peer = state.peer(message.target, message.target_incarnation)
    if peer is None or peer.mode != REPLICATE or peer.next_index != before + 1:
        return
    if last_index < before:
        peer.next_index = last_index + 1
        peer.inflight.pop()
        if last_index > message.prev_index:
            peer.inflight.append(last_index)
        else:
            # Nothing could be read: an empty append keeps the peer waiting for an answer.
            peer.ping = False


def _send_snapshot(state: State, peer: Progress) -> None:
    config = state.configs.at(state.log.snapshot_index)
    peer.mode = SNAPSHOT
    peer.snapshot_index = state.log.snapshot_index
    peer.inflight.clear()
    peer.asked = False
    peer.ping = False
    peer.resend_ms = -1
    peer.silent_ms = -1
    state.effects.append(
        SendSnapshot(
            SnapshotOffer(
                state.node,
                state.incarnation,
                peer.member.node,
                peer.member.incarnation,
                state.term,
                state.log.snapshot_index,
                state.log.snapshot_term,
                config.members,
            )
        )
    )


def snapshot_sent(state: State, peer: Progress, index: i64, done: bool) -> None:
    """The snapshot up to `index` reached the peer, or could not be sent."""
    if peer.mode != SNAPSHOT:
        return
    peer.probe(index + 1 if done else peer.match_index + 1)
    if done:
        peer.ping = True
    else:
        # Not at once: what failed will likely fail again.
        peer.asked = True
        _expect_answer(state, peer)


def _ask_later(state: State, peer: Progress) -> None:
    if peer.resend_ms < 0:
        peer.resend_ms = max(state.now_ms, peer.arrives_ms) + state.options.resend_ms


def _expect_answer(state: State, peer: Progress) -> None:
    _ask_later(state, peer)
    if peer.silent_ms < 0:
        peer.silent_ms = max(state.now_ms, peer.arrives_ms)


def takes_long(state: State, peer: Progress, extra_ms: i64) -> None:
    """What the peer was sent last is so large that its answer comes so much later."""
    peer.arrives_ms = max(state.now_ms, peer.arrives_ms) + extra_ms
    if peer.resend_ms >= 0:
        peer.resend_ms += extra_ms
    if peer.silent_ms >= 0:
        peer.silent_ms += extra_ms


def heard(state: State, peer: Progress) -> None:
    """The peer said something: it is alive, and is given time for what it still owes."""
    peer.silent_ms = -1
    peer.resend_ms = -1
    if peer.owes():
        _expect_answer(state, peer)
    elif peer.sent_commit > peer.acked_commit:
        # It was told quietly, and says that it knows with its next answer.
        _ask_later(state, peer)


# --- answers ------------------------------------------------------------------------------------


def answered(state: State, peer: Progress, message: AppendReply) -> None:
    """A peer accepted an append, made more of it durable, or rejected one."""
    if not message.accepted:
        _rejected(state, peer, message)
        heard(state, peer)
        return
    last = state.log.last_index
    assert message.match_index <= message.received_index <= last, "a peer is ahead of its leader"
    if message.match_index > peer.match_index:
        peer.match_index = message.match_index
    if message.commit_index > peer.acked_commit:
        peer.acked_commit = message.commit_index
    if peer.mode == REPLICATE:
        peer.settle()
        if peer.next_index <= peer.match_index:
            peer.next_index = peer.match_index + 1
    elif peer.mode == PROBE or peer.match_index >= peer.snapshot_index:
        # A peer that has all of an offered snapshot says so; there may be a newer one by now.
        received = message.received_index
        if received < peer.match_index:
            received = peer.match_index
        peer.replicate(received)
    heard(state, peer)
    advance_commit(state)
    if state.transfer_to == peer.member.node:
        hand_over(state)
    if state.leaving_ms >= 0:
        _leave_when_known(state)


def _rejected(state: State, peer: Progress, message: AppendReply) -> None:
    if peer.mode == SNAPSHOT or message.prev_index <= peer.match_index:
        return
    if peer.mode == PROBE and message.prev_index != peer.next_index - 1:
        return
    hint = message.hint_index
    if hint > message.prev_index - 1:
        hint = message.prev_index - 1
    common = state.log.common(hint, message.hint_term)
    if common < peer.match_index:
        common = peer.match_index
    peer.probe(common + 1)
    peer.bare = True


def advance_commit(state: State) -> None:
    """Commit what a majority of the voters has made durable.

    Each counts up to what is durable there, this member included (R-02), and only entries of the
    present term are committed by counting; older ones go with them (R-03).
    """
    matches: list[int] = []
    for member in state.config().members:
        if not member.voter:
            continue
        match: i64 = 0
        if member.is_copy(state.node, state.incarnation):
            match = state.persisted_index
        else:
            peer = state.peer(member.node, member.incarnation)
            if peer is not None:
                match = peer.match_index
        at = len(matches)
        while at > 0 and i64(matches[at - 1]) < match:
            at -= 1
        matches.insert(at, match)
    index: i64 = matches[len(matches) // 2]
    if index <= state.commit_index or state.log.term_at(index) != state.term:
        return
    state.commit_index = index
    state.announce_commit()
    config = state.config()
    if (
        config.index <= index
        and state.leaving_ms < 0
        and not config.has_voter(state.node, state.incarnation)
    ):
        state.leaving_ms = state.now_ms + state.options.election_timeout_ms


# --- time, quorum, leaving ----------------------------------------------------------------------


def tick(state: State) -> None:
    """Time has passed: ask again, resign without a majority, end what took too long."""
    now = state.now_ms
    if 0 <= state.transfer_ms <= now:
        state.end_transfer(False)
    if 0 <= state.leaving_ms <= now:
        leave(state)
        return
    check_quorum(state)
    if 0 <= state.quorum_ms <= now:
        state.follow(state.term, "", 0)
        return
    for peer in state.peers:
        if 0 <= peer.resend_ms <= now:
            if peer.behind and peer.next_index <= state.log.snapshot_index:
                # It is sent nothing, so it owes nothing.
                peer.resend_ms = -1
                peer.silent_ms = -1
                continue
            peer.resend_ms = now + state.options.resend_ms
            peer.asked = False
            peer.ping = True
            reads.repeat(state, peer)


def check_quorum(state: State) -> None:
    """Let the time run in which a leader without a majority steps down (R-09).

    A voter counts while its node is up and it does not owe an answer for too long.
    """
    config = state.config()
    reached: i64 = 0
    for member in config.members:
        if member.voter:
            if member.is_copy(state.node, state.incarnation):
                reached += 1
                continue
            peer = state.peer(member.node, member.incarnation)
            if peer is not None and peer.up:
                silent = peer.silent_ms
                if silent < 0 or state.now_ms - silent < state.options.election_timeout_ms:
                    reached += 1
    if reached >= config.majority():
        state.quorum_ms = -1
    elif state.quorum_ms < 0:
        state.quorum_ms = state.now_ms + state.options.election_timeout_ms


def deadline(state: State) -> i64:
    """When a leader wants its next tick; -1 for never."""
    found = earlier(earlier(state.transfer_ms, state.leaving_ms), state.quorum_ms)
    for peer in state.peers:
        found = earlier(found, peer.resend_ms)
    return found


def earlier(one: i64, other: i64) -> i64:
    """The earlier of two times, -1 being never."""
    if one < 0:
        return other
    if other < 0 or one < other:
        return one
    return other


def hand_over(state: State) -> None:
    """Tell the target of a transfer to campaign, once it has all entries (R-16).

    Of a leader that cannot read what its peers lack, at once.
    """
    for peer in state.peers:
        if peer.member.node == state.transfer_to and not state.transfer_sent:
            if peer.up and (state.transfer_as_is or peer.match_index == state.log.last_index):
                state.transfer_sent = True
                _urge(state, peer)


def _urge(state: State, peer: Progress) -> None:
    member = peer.member
    state.effects.append(
        Send(TimeoutNow(state.node, state.incarnation, member.node, member.incarnation, state.term))
    )


def _leave_when_known(state: State) -> None:
    """A leader outside its group goes once a majority knows that it is outside."""
    config = state.config()
    knowing: i64 = 0
    for peer in state.peers:
        if peer.member.voter and peer.acked_commit >= config.index:
            knowing += 1
    if knowing >= config.majority():
        leave(state)


def leave(state: State) -> None:
    """Resign, and have the first voter that has everything campaign at once."""
    for peer in state.peers:
        if peer.member.voter and peer.up and peer.match_index == state.log.last_index:
            _urge(state, peer)
            break
    state.follow(state.term, "", 0)
