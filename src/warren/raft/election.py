"""Elections: asking first (pre-vote), campaigning, and voting.

A member that wants to lead first asks whether it would be elected. Being asked changes nothing
(R-08): no term, no vote, no timer. Voters that trust a live leader say no, so a member that was
cut off, or left the group, does not disturb those that work.

A candidate asks, and counts, the voters of its own configuration (R-14). A member that is
asked answers, even if it takes itself for a learner: the candidate may have the entry that
promoted it, and need its vote to be able to send that entry.
"""

from __future__ import annotations

from mypy_extensions import i64

from warren.raft import leading
from warren.raft.effects import AppendConfig, Removed
from warren.raft.members import Replica
from warren.raft.messages import PreVote, PreVoteReply, TimeoutNow, Vote, VoteReply
from warren.raft.state import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE, State


def start(state: State) -> None:
    """The member begins to run. The only voter of a group elects itself at once."""
    state.campaign_some_time()
    state.keep_timer()
    if state.is_voter() and state.config().voters() == 1 and state.is_vote_eligible():
        campaign(state)


def timeout(state: State) -> None:
    """The election timer ran out: ask whether this member would be elected."""
    state.election_ms = -1
    if not state.may_campaign() or state.removed or state.role == LEADER:
        return
    state.restart_timer()
    if not state.is_vote_eligible():
        # It may not stand, but waits on: it may heal, and need to stand later.
        return
    config = state.config()
    if config.voters() == 1 and state.is_voter():
        campaign(state)
        return
    if state.abstains and state.abstentions < state.options.abstentions_max:
        state.abstentions += 1
        return
    state.role = PRE_CANDIDATE
    _clear_votes(state)
    if state.is_voter():
        state.granted.append(state.node)
    # Suspected nodes are asked too: a leader that resigned lets all who hear it know that way.
    for member in config.members:
        if member.voter and member.node != state.node:
            question = PreVote(
                state.node, state.incarnation, member.node, member.incarnation, state.term
            )
            question.last_index = state.log.last_index
            question.last_term = state.log.last_term()
            question.config_index = config.index
            state.send_held(question)


def _clear_votes(state: State) -> None:
    state.granted.clear()
    state.refused.clear()


def campaign(state: State) -> None:
    """Stand for the next term. Vote and request go out when the own vote is durable (R-01)."""
    assert state.role != LEADER and state.may_campaign() and state.is_vote_eligible()
    state.follow(state.term + 1, "", 0)
    state.role = CANDIDATE
    state.voted_for = state.node
    state.voted_incarnation = state.incarnation
    state.persist_state()
    state.vote_sequence = state.state_sequence
    _clear_votes(state)
    state.restart_timer()
    for member in state.config().members:
        if member.voter and member.node != state.node:
            request = Vote(
                state.node, state.incarnation, member.node, member.incarnation, state.term
            )
            request.last_index = state.log.last_index
            request.last_term = state.log.last_term()
            state.send_held(request)


def campaign_alone(state: State, members: list[Replica]) -> None:
    """Begin the next term with this copy as the only voter.

    No other vote is asked for. The own vote is durable first all the same: another candidate of the
    term would need it, so no other member writes entries of that term.
    """
    state.follow(state.term + 1, "", 0)
    state.role = CANDIDATE
    state.voted_for = state.node
    state.voted_incarnation = state.incarnation
    state.persist_state()
    state.vote_sequence = state.state_sequence
    state.alone = members
    _clear_votes(state)
    state.restart_timer()


def own_vote_persisted(state: State) -> None:
    """Term and vote are durable: a candidate's own vote counts from now on (R-01)."""
    if state.role == CANDIDATE and state.state_persisted >= state.vote_sequence:
        members = state.alone
        if members:
            state.alone = []
            leading.become_leader(state)
            state.config_due = members
            state.effects.append(AppendConfig(state.term, members))
            return
        if state.is_voter() and state.node not in state.granted:
            state.granted.append(state.node)
            _tally(state)


def asked_before(state: State, message: PreVote) -> None:
    """Answer a member that asks whether it would be elected.

    Term, vote and timer stay as they are (R-08).
    """
    answer = PreVoteReply(
        state.node, state.incarnation, message.sender, message.sender_incarnation, state.term
    )
    if (
        message.term >= state.term
        and state.leader == message.sender
        and state.leader_incarnation == message.sender_incarnation
    ):
        # Whom we took for the leader of this term asks to be elected: it leads no more.
        state.lose_leader()
    if state.role == LEADER:
        peer = state.peer(message.sender, message.sender_incarnation)
        if peer is not None:
            # An append tells it who leads.
            peer.ping = peer.up
        answer.leader = state.node
        answer.leader_incarnation = state.incarnation
    elif state.trusts_leader():
        answer.leader = state.leader
        answer.leader_incarnation = state.leader_incarnation
    elif message.term >= state.term and state.may_win(message.last_index, message.last_term):
        answer.granted = True
    if not answer.granted:
        config = state.configs.at(state.commit_index)
        answer.removed = config.index >= message.config_index and not config.has_voter(
            message.sender, message.sender_incarnation
        )
    state.send_held(answer)


def answered_before(state: State, message: PreVoteReply) -> None:
    """Count a peer's answer to the question whether it would vote for this member."""
    if message.term > state.term:
        state.follow(message.term, "", 0)
        return
    if state.role != PRE_CANDIDATE:
        return
    if message.removed:
        # Whoever has no vote by a committed entry as new as its own cannot win, nor need it.
        state.removed = True
        state.follow(state.term, "", 0)
        state.effects.append(Removed())
        return
    _count(state, message.sender, message.sender_incarnation, message.granted)
    _tally(state)


def asked(state: State, message: Vote) -> None:
    """A candidate asks for this member's vote."""
    answer = VoteReply(
        state.node, state.incarnation, message.sender, message.sender_incarnation, state.term
    )
    if message.term > state.term:
        state.follow(message.term, "", 0)
        answer.term = state.term
    free = state.voted_for == "" or (
        state.voted_for == message.sender and state.voted_incarnation == message.sender_incarnation
    )
    if (
        message.term == state.term
        and free
        and state.leader == ""
        and state.may_win(message.last_index, message.last_term)
    ):
        answer.granted = True
        if state.voted_for == "":
            state.voted_for = message.sender
            state.voted_incarnation = message.sender_incarnation
            state.persist_state()
        state.role = FOLLOWER
        if state.election_ms >= 0:
            state.restart_timer()
    state.send_held(answer)


def answered(state: State, message: VoteReply) -> None:
    """Count a voter's answer to this member's candidature."""
    if message.term > state.term:
        state.follow(message.term, "", 0)
        return
    if state.role != CANDIDATE or message.term != state.term:
        return
    _count(state, message.sender, message.sender_incarnation, message.granted)
    _tally(state)


def _count(state: State, node: str, incarnation: i64, granted: bool) -> None:
    """Note an answer, if it is a voter's by this candidate's configuration."""
    if not state.config().has_voter(node, incarnation):
        return
    if node in state.granted or node in state.refused:
        return
    if granted:
        state.granted.append(node)
    else:
        state.refused.append(node)


def _tally(state: State) -> None:
    config = state.config()
    majority = config.majority()
    if len(state.granted) >= majority:
        if state.role == PRE_CANDIDATE:
            campaign(state)
        else:
            leading.become_leader(state)
    elif config.voters() - len(state.refused) < majority:
        # It cannot win; somebody better placed may, before the timer runs out again.
        state.role = FOLLOWER


def urged(state: State, message: TimeoutNow) -> None:
    """The leader hands its office over: campaign without asking."""
    if message.term < state.term or state.role == LEADER:
        return
    if message.term > state.term:
        state.follow(message.term, "", 0)
    if state.abstains:
        return
    if state.is_voter() and state.is_vote_eligible() and state.role != CANDIDATE:
        campaign(state)
