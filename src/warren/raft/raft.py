"""Raft for one group at one member: everything that the node calls.

A `Raft` takes what happened (a message, a completed write, a passing of time) and appends to
`effects` what has to be done. It has no clock, socket, file, thread or random source of its own:
the same calls give the same effects. It never sees a payload; the node owns the log itself, and
one log index stands for one record batch.

The node's part, in any turn in which it called anything here:

1. call `flush` last, so that peers are offered what they miss;
2. carry out `effects` in their order, emptying the list, until it stays empty;
3. see to it that `tick` is called at `deadline_ms`, if that is not -1.

Time is the node's monotonic clock in milliseconds. It serves liveness only (R-11): safety
rests on terms, majorities and what is durable.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.raft import election, following, leading, reads, refusing
from warren.raft.effects import AppendConfig, Effect
from warren.raft.members import Configs, GroupConfig, Replica, refuse_change
from warren.raft.messages import (
    Append,
    AppendReply,
    Message,
    PreVote,
    PreVoteReply,
    ReadAck,
    ReadProbe,
    SnapshotOffer,
    TimeoutNow,
    Vote,
    VoteReply,
)
from warren.raft.progress import PROBE, REPLICATE, SNAPSHOT, Progress
from warren.raft.runs import LogTerms
from warren.raft.state import CANDIDATE, LEADER, ROLE_NAMES, Options, State


@final
class RecoveredState:
    """What a member finds on its disk when it starts; as it stands, a new and empty one.

    Attributes:
        term, voted_for, voted_incarnation: The newest PersistState that is durable.
        snapshot_index, snapshot_term: The last entry the newest durable snapshot covers.
        members: The configuration at the snapshot; for a new group, its first members; empty for
            a member that is added to a group that exists.
        runs: Terms of the durable entries after the snapshot: ascending (first index, term).
        last_index: The last of them; `snapshot_index` for none.
        configs: Configurations among them, by index.
        floor_term, floor_index: An entry this member is known to have acknowledged, if its log
            has lost some since. It neither stands for election nor votes for a log that ends
            below, until its own reaches that far again (R-20).
    """

    def __init__(self) -> None:
        self.term: i64 = 0
        self.voted_for = ""
        self.voted_incarnation: i64 = 0
        self.snapshot_index: i64 = 0
        self.snapshot_term: i64 = 0
        self.members: list[Replica] = []
        self.runs: list[tuple[int, int]] = []
        self.last_index: i64 = 0
        self.configs: list[GroupConfig] = []
        self.floor_term: i64 = 0
        self.floor_index: i64 = 0


def _recovered_log(saved: RecoveredState) -> LogTerms:
    log = LogTerms(saved.snapshot_index, saved.snapshot_term)
    for position in range(len(saved.runs)):
        last: i64 = saved.last_index
        if position + 1 < len(saved.runs):
            last = saved.runs[position + 1][0] - 1
        log.append(last, saved.runs[position][1])
    assert log.last_index == saved.last_index, "the runs end where the log ends"
    return log


@final
class Raft:
    """One member of one group.

    Attributes:
        state: Its whole state; read it, but change it by the methods here only.
    """

    def __init__(
        self, node: str, incarnation: i64, saved: RecoveredState, options: Options, seed: i64
    ) -> None:
        """Continue from what is on disk; call `start` next.

        Args:
            node: Name of this node.
            incarnation: Of this copy; positive.
            saved: What is durable.
            options: Times and bounds.
            seed: For election delays; another one for each member and group.
        """
        assert node != "" and incarnation > 0
        configs = Configs(GroupConfig(saved.snapshot_index, saved.members))
        for config in saved.configs:
            configs.append(config.index, config.members)
        state = State(node, incarnation, _recovered_log(saved), configs, options, seed)
        state.term = saved.term
        state.voted_for = saved.voted_for
        state.voted_incarnation = saved.voted_incarnation
        if state.log.last_term() > state.term:
            # Entries of that term were durable before the term itself was, so no vote was given.
            state.term = state.log.last_term()
            state.voted_for = ""
            state.voted_incarnation = 0
            # Written down before anything is said in it: those entries may yet go.
            state.persist_state()
        state.floor_term = saved.floor_term
        state.floor_index = saved.floor_index
        self.state = state

    # --- what the node may look at --------------------------------------------------------------

    @property
    def effects(self) -> list[Effect]:
        """What has to be done, in order. The node empties this list."""
        return self.state.effects

    @property
    def term(self) -> i64:
        """The present term; the term of what a leader appends."""
        return self.state.term

    @property
    def last_index(self) -> i64:
        """Index of the newest entry; a leader appends at the next."""
        return self.state.log.last_index

    @property
    def commit_index(self) -> i64:
        """How far the log is committed. Apply what `Committed` says, which may be less."""
        return self.state.commit_index

    @property
    def leader(self) -> str:
        """The leader's node, "" if none is known."""
        return self.state.leader

    @property
    def is_leader(self) -> bool:
        """Whether this member leads."""
        return self.state.role == LEADER

    @property
    def role_name(self) -> str:
        """The role in words, for people."""
        return ROLE_NAMES[self.state.role]

    @property
    def members(self) -> list[Replica]:
        """The configuration in force."""
        return self.state.config().members

    def config_at(self, index: i64) -> GroupConfig:
        """The configuration that a snapshot at `index` has to carry."""
        return self.state.configs.at(index)

    def can_propose(self) -> bool:
        """Whether this member leads and takes commands now."""
        state = self.state
        return (
            state.role == LEADER
            and not state.noop_due
            and state.transfer_to == ""
            and state.leaving_ms < 0
        )

    @property
    def deadline_ms(self) -> i64:
        """When `tick` is wanted, in milliseconds of the node's clock; -1 for never."""
        state = self.state
        if state.role == LEADER:
            return leading.deadline(state)
        return leading.earlier(state.election_ms, state.transfer_ms)

    def behind(self, node: str) -> i64:
        """How many entries a peer has still to make durable; -1 if that is not known."""
        peer = self._peer_on(node)
        if peer is None or peer.mode != REPLICATE:
            return -1
        return self.state.log.last_index - peer.match_index

    def sends_next(self, node: str) -> i64:
        """The next entry that a peer whose node is up is to be sent; -1 if that is not known."""
        peer = self._peer_on(node)
        if peer is None or not peer.up:
            return -1
        behind_snapshot = peer.snapshot_index + 1
        if peer.mode == SNAPSHOT:
            return behind_snapshot
        if peer.mode == PROBE and (behind_snapshot == 1 or peer.next_index != behind_snapshot):
            return -1
        return peer.next_index

    def ready_to_promote(self, node: str) -> bool:
        """Whether a learner has caught up: it would not hold up a commit as a voter."""
        behind = self.behind(node)
        return 0 <= behind <= self.state.log.last_index - self.state.commit_index

    def _peer_on(self, node: str) -> Progress | None:
        if self.state.role != LEADER:
            return None
        for peer in self.state.peers:
            if peer.member.node == node:
                return peer
        return None

    # --- what happens ---------------------------------------------------------------------------

    def start(self, now_ms: i64) -> None:
        """Begin. The only voter of a group campaigns at once."""
        self.state.now_ms = now_ms
        election.start(self.state)
        self.state.end_call()

    def write_down(self) -> None:
        """Before `start`: term and vote may not be durable; say nothing till they are (R-01)."""
        self.state.persist_state()

    def campaign(self, now_ms: i64) -> None:
        """Stand for election at once and without asking, in a group that was never led.

        There is no leader to disturb. Does nothing where another member was quicker.
        """
        self._see(now_ms)
        state = self.state
        alone = state.config().voters() == 1
        if (
            state.term == 0
            and state.is_voter()
            and state.is_vote_eligible()
            and (alone or not state.abstains)
        ):
            election.campaign(state)
            state.end_call()

    def is_one_of_two(self, known_index: i64) -> bool:
        """Whether this copy has all that was ever committed, though another one votes, too.

        That is so where each configuration that may be in force has it as a voter, and one other
        at most. A third member joins by an entry that both have, and may get a vote by one that
        only the others have.

        Args:
            known_index: What is known to be committed, from before a restart, too.
        """
        state = self.state
        known = min(max(state.commit_index, known_index), state.log.last_index)
        configs = state.configs
        if len(configs.latest().members) > 2 or not state.is_vote_eligible():
            return False
        for config in [configs.at(known), *configs.between(known + 1, state.log.last_index)]:
            if config.voters() > 2 or not config.has_voter(state.node, state.incarnation):
                return False
        return True

    def go_on_alone(self, now_ms: i64) -> str:
        """Lead the group with this copy as its only voter, though the others are not heard.

        The caller knows that they never vote again. What they committed without this copy is lost;
        of two voters there is no such entry.

        Returns:
            Why not; "" if it begins.
        """
        self._see(now_ms)
        state = self.state
        if state.role == LEADER:
            return "it leads"
        if not state.is_voter():
            return "it does not vote"
        if not state.is_vote_eligible():
            return "it lacks entries that it once had"
        if state.role == CANDIDATE and state.alone:
            return "it is about to lead"
        own = Replica(state.node, state.incarnation, True)
        election.campaign_alone(state, [own])
        state.end_call()
        return ""

    def tick(self, now_ms: i64) -> None:
        """Time has passed. Early calls do nothing."""
        self._see(now_ms)
        state = self.state
        if state.role == LEADER:
            leading.tick(state)
            return
        if 0 <= state.transfer_ms <= state.now_ms:
            state.end_transfer(False)
        if 0 <= state.election_ms <= state.now_ms:
            election.timeout(state)
            state.end_call()

    def _see(self, now_ms: i64) -> None:
        if now_ms > self.state.now_ms:
            self.state.now_ms = now_ms

    def refuses(self, message: Message) -> str:
        """Why a message cannot be meant, so that it must not be stepped; empty if it can."""
        return refusing.refuse(self.state, message) if self.is_meant(message) else ""

    def is_meant(self, message: Message) -> bool:
        """Whether a message is for this copy, and not for one that was here before (R-15)."""
        state = self.state
        return message.target == state.node and message.target_incarnation == state.incarnation

    def first_to_store(self, message: Append) -> i64:
        """Index of the first entry that this member would take; 0 if it would take none."""
        return following.first_to_store(self.state, message) if self.is_meant(message) else 0

    def step(self, message: Message, now_ms: i64) -> None:
        """A message came. What is meant for another copy is dropped (R-15)."""
        self._see(now_ms)
        state = self.state
        if not self.is_meant(message):
            if message.target == state.node and isinstance(message, (Append, SnapshotOffer)):
                state.passed_over = message.term >= state.term
            return
        if isinstance(message, Append):
            following.append(state, message)
        elif isinstance(message, AppendReply):
            peer = self._answering(message)
            if peer is not None:
                leading.answered(state, peer, message)
        elif isinstance(message, ReadProbe):
            following.asked_for_read(state, message)
        elif isinstance(message, ReadAck):
            peer = self._answering(message)
            if peer is not None:
                reads.acknowledged(state, peer, message)
                leading.heard(state, peer)
        elif isinstance(message, PreVote):
            election.asked_before(state, message)
        elif isinstance(message, PreVoteReply):
            election.answered_before(state, message)
        elif isinstance(message, Vote):
            election.asked(state, message)
        elif isinstance(message, VoteReply):
            election.answered(state, message)
        elif isinstance(message, SnapshotOffer):
            following.offered(state, message)
        elif isinstance(message, TimeoutNow):
            election.urged(state, message)
        state.end_call()

    def _answering(self, message: Message) -> Progress | None:
        """The peer whose answer this is, if it answers the leader of this term."""
        state = self.state
        if message.term > state.term:
            state.follow(message.term, "", 0)
        if state.role != LEADER or message.term < state.term:
            return None
        return state.peer(message.sender, message.sender_incarnation)

    def state_persisted(self, sequence: i64, now_ms: i64) -> None:
        """The PersistState with this number, and with it all before, is durable (R-01)."""
        self._see(now_ms)
        state = self.state
        if sequence > state.state_persisted:
            state.state_persisted = sequence
            state.release_held()
            election.own_vote_persisted(state)

    def persisted(self, index: i64, term: i64, now_ms: i64) -> None:
        """The log is durable up to the entry (index, term).

        An entry that was truncated meanwhile does not count, nor does one that others were
        appended in place of: the term tells (R-07).
        """
        self._see(now_ms)
        state = self.state
        if index <= state.persisted_index or state.log.term_at(index) != term:
            return
        state.persisted_index = index
        if state.role == LEADER:
            leading.advance_commit(state)
        else:
            following.persisted(state)
        state.announce_commit()

    def peer_down(self, node: str, now_ms: i64) -> None:
        """The failure detector suspects a node."""
        self._see(now_ms)
        state = self.state
        if node in state.down or node == state.node:
            return
        state.down.append(node)
        if state.role == LEADER:
            peer = self._peer_on(node)
            if peer is not None:
                peer.forget()
            leading.check_quorum(state)
        else:
            state.keep_timer()

    def peer_up(self, node: str, restarted: bool, now_ms: i64) -> None:
        """A node is there, again or after a restart.

        Args:
            node: Which.
            restarted: Its process is not the one that was there before: it leads nothing, and
                what it had not made durable is gone. Must be told even if it was never down.
            now_ms: The time.
        """
        self._see(now_ms)
        state = self.state
        known = node not in state.down
        if node == state.node or (known and not restarted):
            return
        if not known:
            state.down.remove(node)
        if state.role == LEADER:
            peer = self._peer_on(node)
            if peer is not None:
                self._probe_again(peer, restarted)
            leading.check_quorum(state)
            return
        if node == state.leader:
            # It leads until it is known not to; but only its word ends the wait.
            state.leader_heard = False
            if restarted:
                state.lose_leader()
        if state.election_ms >= 0:
            # An election that had no chance may have one now.
            # There may as well be a leader already, who is about to say so.
            sooner = state.now_ms + state.options.stagger_ms + state.stagger_wait_ms()
            state.election_ms = leading.earlier(state.election_ms, sooner)
        state.keep_timer()

    def peer_behind(self, node: str, behind: bool, now_ms: i64) -> bool:
        """A node's disk is behind, or is no more: as leader, send it no entries meanwhile.

        Returns:
            Whether there is something for it now.
        """
        self._see(now_ms)
        state = self.state
        if behind == (node in state.behind) or node == state.node:
            return False
        if behind:
            state.behind.append(node)
        else:
            state.behind.remove(node)
        peer = self._peer_on(node)
        if peer is not None:
            peer.behind = behind
            if not behind:
                # It may have been asked nothing for a while.
                peer.asked = False
                return leading.misses(state, peer)
        return False

    def abstain(self, abstains: bool) -> None:
        """This node's disk is slow, or is no more: leave elections to others meanwhile."""
        self.state.abstains = abstains
        self.state.abstentions = 0

    def _probe_again(self, peer: Progress, restarted: bool) -> None:
        peer.forget()
        peer.up = True
        if restarted:
            # A damaged disk may have lost what it once acknowledged: count it anew.
            peer.match_index = 0
            peer.probe(self.state.log.last_index + 1)
        peer.ping = True
        reads.catch_up(self.state, peer)

    # --- replication ----------------------------------------------------------------------------

    def flush(self, now_ms: i64) -> None:
        """End of a turn: offer every peer what it misses, and begin a round for new reads."""
        self._see(now_ms)
        if self.state.role == LEADER:
            leading.flush(self.state)

    def appended(self, index: i64, now_ms: i64) -> None:
        """This leader's log has entries of `term` up to `index`; not yet durable.

        Raises:
            AssertionError: This member does not lead, or there is nothing new.
        """
        self._see(now_ms)
        leading.appended(self.state, index)

    def next_append(self, node: str) -> Append | None:
        """The next append for a peer, after a Replicate effect; None if that is all for now.

        Its entries, `prev_index + 1` to `last_index`, go with it. If fewer of them can be sent,
        call `shorten` before anything else.
        """
        peer = self._peer_on(node)
        return None if peer is None else leading.next_append(self.state, peer)

    def shorten(self, message: Append, last_index: i64) -> None:
        """Send entries up to `last_index` only; the rest will be offered again."""
        leading.shorten(self.state, message, last_index)

    def takes_long(self, node: str, extra_ms: i64, now_ms: i64) -> None:
        """A peer was sent so much that its answer takes this much longer than usual."""
        self._see(now_ms)
        peer = self._peer_on(node)
        if peer is not None:
            leading.takes_long(self.state, peer, extra_ms)

    # --- snapshots ------------------------------------------------------------------------------

    def compacted(self, index: i64) -> None:
        """A durable snapshot covers entries up to `index`; they cannot be read any more.

        Raises:
            AssertionError: They were not all announced as committed.
        """
        state = self.state
        assert index <= state.announced_index, "a snapshot covers applied entries only"
        if index > state.log.snapshot_index:
            state.log.compact(index)
            state.configs.compact(index)

    def snapshot_sent(self, offer: SnapshotOffer, done: bool, now_ms: i64) -> None:
        """A peer has got the snapshot of a SendSnapshot, or it could not be sent."""
        self._see(now_ms)
        state = self.state
        if state.role != LEADER or offer.term != state.term:
            return
        peer = state.peer(offer.target, offer.target_incarnation)
        if peer is not None:
            leading.snapshot_sent(state, peer, offer.index, done)

    def snapshot_installed(self, index: i64, term: i64, members: list[Replica], now_ms: i64) -> int:
        """A snapshot from the leader is durable, and about to replace the machine (R-17).

        Returns:
            following.SNAPSHOT_REFUSED: Drop it: what it covers is committed here already.
            following.SNAPSHOT_KEEPS_TAIL: Drop the log up to `index`, and keep what comes after.
            following.SNAPSHOT_REPLACES_LOG: Drop the whole log; as with Truncate, nothing of it
                may be reported as persisted any more.
        """
        self._see(now_ms)
        return following.installed(self.state, index, term, members)

    def give_up_log(self, term: i64, index: i64) -> None:
        """The log is dropped for a snapshot up to an entry, which may never come whole (R-20).

        All that this member acknowledged lies below that entry.
        """
        state = self.state
        if state.reaches_floor(index, term):
            state.floor_term = term
            state.floor_index = index

    # --- reads, members, transfer ---------------------------------------------------------------

    def read(self, context: i64) -> None:
        """Ask for a read that is not stale; ReadReady or ReadRefused follows (R-10)."""
        reads.add(self.state, context)

    def propose_config(self, members: list[Replica]) -> str:
        """Change the configuration, by one member at a time (R-12).

        Returns:
            Why not; "" if an AppendConfig effect was added.
        """
        state = self.state
        if not self.can_propose():
            return "not a leader that takes commands"
        if state.commit_index < state.first_of_term:
            return "no entry of this term is committed yet"
        if len(state.config_due) > 0 or state.config().index > state.commit_index:
            return "another change is not committed yet"
        reason = refuse_change(state.config().members, members)
        if reason == "":
            state.config_due = members
            state.effects.append(AppendConfig(state.term, members))
        return reason

    def config_appended(self, index: i64, now_ms: i64) -> None:
        """The entry of an AppendConfig is in the log at `index`; it is in force from now on.

        Raises:
            AssertionError: No change was proposed, or this member does not lead.
        """
        self._see(now_ms)
        state = self.state
        members = state.config_due
        assert len(members) > 0, "a change is proposed first"
        state.config_due = []
        assert index == state.log.last_index + 1
        leading.appended(state, index)
        state.configs.append(index, members)
        state.rebuild_peers()
        state.announce_config()
        leading.check_quorum(state)
        leading.advance_commit(state)
        reads.finish(state)

    def transfer(self, node: str, now_ms: i64, as_is: bool = False) -> str:
        """Hand leadership to a voter; TransferDone or TransferFailed follows (R-16).

        Proposals stop meanwhile, for one election timeout at most.

        Args:
            as_is: Whether it is to campaign with what it has, for this leader cannot send it the
                rest. The others elect it only if that is all that is committed.

        Returns:
            Why not; "" if the transfer has begun.
        """
        self._see(now_ms)
        state = self.state
        if not self.can_propose():
            return "not a leader that takes commands"
        if node == state.node:
            return "it leads already"
        peer = self._peer_on(node)
        if peer is None:
            return "not a member"
        if not peer.member.voter:
            return "not a voter"
        if not peer.up:
            return "its node is down"
        state.transfer_to = node
        state.transfer_ms = state.now_ms + state.options.election_timeout_ms
        state.transfer_sent = False
        state.transfer_as_is = as_is
        leading.hand_over(state)
        return ""
