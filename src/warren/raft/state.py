"""One member's state, and what all roles do with it: change term, hold messages, keep its timer.

Three figures say how far the log goes, and none stands for another: `log.last_index` is what is
written down in memory, `persisted_index` what is durable here, `commit_index` what a majority has
made durable. `validated_index` is how far this log is known to be that of the leader of this term.

Votes compare the log in memory, not the durable one. A voter with entries on their way to disk
that refuses a shorter candidate is merely strict; a candidate that wins with such entries has them
for as long as it leads, since a crash that takes them also ends its office. Nothing but durable
entries is ever acknowledged or counted.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.raft.effects import (
    BecameFollower,
    Committed,
    ConfigChanged,
    Effect,
    PersistState,
    ReadRefused,
    Send,
    TransferDone,
    TransferFailed,
)
from warren.raft.members import Configs, GroupConfig, Replica
from warren.raft.messages import Message
from warren.raft.progress import Progress
from warren.raft.runs import LogTerms

FOLLOWER: Final = 0
PRE_CANDIDATE: Final = 1
CANDIDATE: Final = 2
LEADER: Final = 3

ROLE_NAMES: Final = ("follower", "pre-candidate", "candidate", "leader")


@final
class Options:
    """How long to wait and how much to send. Times serve liveness only (R-11).

    Attributes:
        election_timeout_ms: A leader without a majority steps down after this; elections are
            retried after one to two of it; a transfer of leadership fails after it.
        abstentions_max: Elections that a voter with a slow disk leaves to others in a row, so that
            there is a leader in the end even if all disks are slow.
        stagger_ms: Voters that lost their leader stand one after another, so far apart; the first
            of them after a third of it.
        resend_ms: An unanswered message is repeated after this.
        entries_max: Batches in one append.
        inflight_max: Appends to one peer that are out at a time.
    """

    def __init__(
        self,
        election_timeout_ms: i64 = 1_000,
        resend_ms: i64 = 300,
        entries_max: i64 = 256,
        inflight_max: i64 = 16,
        stagger_ms: i64 = 60,
        abstentions_max: i64 = 4,
    ) -> None:
        assert 0 < resend_ms < election_timeout_ms and entries_max > 0 and inflight_max > 0
        assert 0 < stagger_ms < election_timeout_ms
        self.election_timeout_ms: i64 = election_timeout_ms
        self.resend_ms: i64 = resend_ms
        self.entries_max: i64 = entries_max
        self.inflight_max: i64 = inflight_max
        self.stagger_ms: i64 = stagger_ms
        self.abstentions_max: i64 = abstentions_max


@final
class Held:
    """A message that waits for term and vote to be durable."""

    def __init__(self, message: Message, sequence: i64) -> None:
        self.message = message
        self.sequence: i64 = sequence


@final
class Read:
    """A read that waits for its round; `round` is 0 until it is asked."""

    def __init__(self, context: i64) -> None:
        self.context: i64 = context
        self.round: i64 = 0
        self.index: i64 = 0


@final
class State:
    """A member's state. The shell talks to `Raft`, which owns one.

    Attributes:
        effects: What the shell has to do, in order; it empties the list.
    """

    def __init__(
        self,
        node: str,
        incarnation: i64,
        log: LogTerms,
        configs: Configs,
        options: Options,
        seed: i64,
    ) -> None:
        self.node = node
        self.incarnation: i64 = incarnation
        self.log = log
        self.configs = configs
        self.options = options
        self.effects: list[Effect] = []
        self.now_ms: i64 = 0

        self.term: i64 = 0
        self.voted_for = ""
        self.voted_incarnation: i64 = 0
        self.state_sequence: i64 = 0
        self.state_persisted: i64 = 0
        self.held: list[Held] = []
        self.state_changed = False

        self.persisted_index: i64 = log.last_index
        self.commit_index: i64 = log.snapshot_index
        self.announced_index: i64 = log.snapshot_index
        self.validated_index: i64 = log.snapshot_index
        self.acked_index: i64 = 0
        self.floor_term: i64 = 0
        self.floor_index: i64 = 0

        self.role: i64 = FOLLOWER
        self.leader = ""
        self.leader_incarnation: i64 = 0
        self.leader_heard = False
        self.down: list[str] = []
        self.behind: list[str] = []
        """Nodes whose disks are behind: they are sent no entries."""
        self.abstains = False
        """Whether others are to lead, because this node's disk is slow."""
        self.abstentions: i64 = 0
        self.removed = False
        self.passed_over = False
        """Whether a leader not behind this copy's term has spoken to another copy on its node."""
        self.granted: list[str] = []
        self.refused: list[str] = []
        self.vote_sequence: i64 = 0
        self.election_ms: i64 = -1

        self.peers: list[Progress] = []
        self.first_of_term: i64 = 0
        self.noop_due = False
        self.config_due: list[Replica] = []
        self.alone: list[Replica] = []
        """As candidate: the configuration to lead with, of which it is the only voter."""
        self.quorum_ms: i64 = -1
        self.leaving_ms: i64 = -1
        self.transfer_to = ""
        self.transfer_ms: i64 = -1
        self.transfer_sent = False
        self.transfer_as_is = False
        self.reads: list[Read] = []
        self.read_round: i64 = 0

        self._random: i64 = (seed ^ 0x2545F491) & 0x7FFF_FFFF

    # --- who is who -----------------------------------------------------------------------------

    def config(self) -> GroupConfig:
        """The configuration in force."""
        return self.configs.latest()

    def is_voter(self) -> bool:
        """Whether this copy votes, by the configuration in force."""
        return self.config().has_voter(self.node, self.incarnation)

    def may_campaign(self) -> bool:
        """Whether this copy may lead: it votes by its newest configuration or the one before.

        One that is being removed or demoted may be the only one with the entry that says so: it
        stays a candidate, without a vote of its own, until it knows that entry committed. The
        configuration before is committed, since changes wait for each other (R-12).
        """
        if self.is_voter():
            return True
        return self.config().index > self.commit_index and self.configs.before_latest().has_voter(
            self.node, self.incarnation
        )

    def is_vote_eligible(self) -> bool:
        """Whether the log holds all that this member ever acknowledged (R-20)."""
        return self.reaches_floor(self.log.last_index, self.log.last_term())

    def reaches_floor(self, index: i64, term: i64) -> bool:
        """Whether a log that ends there may hold all that this member ever acknowledged."""
        return term > self.floor_term or (term == self.floor_term and index >= self.floor_index)

    def may_win(self, index: i64, term: i64) -> bool:
        """Whether a candidate whose log ends there may have this member's vote."""
        last_term = self.log.last_term()
        if term < last_term or (term == last_term and index < self.log.last_index):
            return False
        return self.reaches_floor(index, term)

    def trusts_leader(self) -> bool:
        """Whether there is a live leader, so that no member needs to campaign.

        Its node must not be suspected, it must have been heard since it last was, and it must be
        a voter still: one that left the group goes without saying so to all.
        """
        return (
            self.leader != ""
            and self.leader_heard
            and self.leader not in self.down
            and self.config().has_voter(self.leader, self.leader_incarnation)
        )

    def peer(self, node: str, incarnation: i64) -> Progress | None:
        """The leader's view of a peer; None for other copies and for itself."""
        for peer in self.peers:
            if peer.member.is_copy(node, incarnation):
                return peer
        return None

    # --- what goes out --------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Have the node send a message now, whatever is durable."""
        self.effects.append(Send(message))

    def send_held(self, message: Message) -> None:
        """Send once the present term and vote are durable (R-01)."""
        if self.state_persisted >= self.state_sequence:
            self.effects.append(Send(message))
        else:
            self.held.append(Held(message, self.state_sequence))

    def release_held(self) -> None:
        """Send what waited and still speaks for the present term.

        What was said in an older term is dropped: entries it acknowledges may be gone meanwhile.
        """
        waiting = self.held
        self.held = []
        for held in waiting:
            if held.message.term == self.term:
                if held.sequence <= self.state_persisted:
                    self.effects.append(Send(held.message))
                else:
                    self.held.append(held)

    def persist_state(self) -> None:
        """Term or vote changed. What is sent from now on waits until they are durable."""
        if not self.state_changed:
            self.state_changed = True
            self.state_sequence += 1

    def end_call(self) -> None:
        """Have a new term and vote made durable, both at once."""
        if self.state_changed:
            self.state_changed = False
            self.effects.append(
                PersistState(self.term, self.voted_for, self.voted_incarnation, self.state_sequence)
            )

    def announce_commit(self) -> None:
        """Have applied what is committed and durable here (R-23)."""
        index = self.commit_index
        if index > self.persisted_index:
            index = self.persisted_index
        if index > self.announced_index:
            self.announced_index = index
            self.effects.append(Committed(index))

    def announce_config(self) -> None:
        """Tell that another configuration is in force."""
        config = self.config()
        self.effects.append(ConfigChanged(config.index, config.members))

    # --- changes of role ------------------------------------------------------------------------

    def follow(self, term: i64, leader: str, leader_incarnation: i64) -> None:
        """Be a follower in `term`, of this leader, or of one not known yet ("")."""
        assert term >= self.term, "terms only rise"
        news = (
            self.role == LEADER
            or term != self.term
            or leader != self.leader
            or leader_incarnation != self.leader_incarnation
        )
        self.alone = []
        if term > self.term:
            self.term = term
            self.voted_for = ""
            self.voted_incarnation = 0
            self.validated_index = self.commit_index
            self.acked_index = 0
            self.persist_state()
        if self.role == LEADER:
            self._leave_office()
        if self.role != FOLLOWER:
            self.election_ms = -1
        self.role = FOLLOWER
        self.leader = leader
        self.leader_incarnation = leader_incarnation
        self.leader_heard = leader != ""
        if self.leader_heard:
            self.abstentions = 0
        if news:
            self.effects.append(BecameFollower(term, leader, leader_incarnation))
        if leader != "" and self.transfer_to != "":
            self.end_transfer(leader == self.transfer_to)
        self.keep_timer()

    def lose_leader(self) -> None:
        """The leader this follower knew leads no more; who does will show."""
        self.leader = ""
        self.leader_incarnation = 0
        self.leader_heard = False
        self.effects.append(BecameFollower(self.term, "", 0))
        self.keep_timer()

    def _leave_office(self) -> None:
        self.peers = []
        self.noop_due = False
        self.config_due = []
        self.quorum_ms = -1
        self.leaving_ms = -1
        self.validated_index = self.commit_index
        self.acked_index = 0
        waiting = self.reads
        self.reads = []
        for read in waiting:
            self.effects.append(ReadRefused(read.context))

    def end_transfer(self, done: bool) -> None:
        """Say how the transfer of leadership went; proposals resume (R-16)."""
        node = self.transfer_to
        self.transfer_to = ""
        self.transfer_ms = -1
        self.transfer_sent = False
        self.transfer_as_is = False
        if done:
            self.effects.append(TransferDone(node))
        else:
            self.effects.append(TransferFailed(node))

    # --- the election timer ---------------------------------------------------------------------

    def random_below(self, bound: i64) -> i64:
        """A number from 0 to `bound` - 1, by this member's own sequence."""
        self._random = (self._random * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
        return (self._random >> 8) % bound

    def keep_timer(self) -> None:
        """Let the election timer run if, and only if, there is no leader to be trusted."""
        if self.role == LEADER or self.removed or not self.may_campaign() or self.trusts_leader():
            self.election_ms = -1
        elif self.election_ms < 0:
            if self.leader == "" or self.leader in self.down:
                # The others notice a moment sooner or later, and trust their leader till then.
                moment = self.options.stagger_ms // 3
                self.election_ms = self.now_ms + moment + self.stagger_wait_ms()
            else:
                # Its node is there again: it may well lead still.
                self.campaign_some_time()

    def campaign_some_time(self) -> None:
        """Wait up to one election timeout from now."""
        self.election_ms = self.now_ms + 1 + self.random_below(self.options.election_timeout_ms)

    def stagger_wait_ms(self) -> i64:
        """How long to let others stand first, of the voters whose nodes are up.

        All members come to the same order, so that no two stand at the same time. It begins
        elsewhere in each group and term: what a node led does not all go to the same other one.
        """
        members = self.config().members
        voters: i64 = 0
        place: i64 = -1
        for member in members:
            if member.voter and member.node not in self.down:
                if member.is_copy(self.node, self.incarnation):
                    place = voters
                voters += 1
        if place < 0:
            return voters * self.options.stagger_ms
        return (place + members[0].incarnation + self.term) % voters * self.options.stagger_ms

    def restart_timer(self) -> None:
        """Wait one to two election timeouts from now."""
        timeout = self.options.election_timeout_ms
        self.election_ms = self.now_ms + timeout + self.random_below(timeout)

    # --- members --------------------------------------------------------------------------------

    def rebuild_peers(self) -> None:
        """Let the leader's view of its peers follow the configuration in force."""
        peers: list[Progress] = []
        for member in self.config().members:
            if member.node == self.node:
                continue
            peer = self.peer(member.node, member.incarnation)
            if peer is None:
                up = member.node not in self.down
                peer = Progress(member, self.log.last_index + 1, up)
                peer.behind = member.node in self.behind
            peer.member = member
            peers.append(peer)
        self.peers = peers
