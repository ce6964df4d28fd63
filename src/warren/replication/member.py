"""One group's member on this node: consensus, log and machine tied together.

`raft.Raft` decides, `log.GroupLog` keeps, the machine is the tables or a queue. All that happens
ends in `work`, which carries out what Raft asks for until it asks for nothing. docs/clusters.md
has the whole.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i64_le
from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.headed_list import HeadedList
from warren.ids import first_session
from warren.limits import CHANGE_STEPS
from warren.log.batch import KIND_COMMAND, KIND_SNAPSHOT, KIND_STATE, Batch
from warren.log.group import GroupLog
from warren.log.listener import GroupOwner
from warren.log.log_clock import LogClock
from warren.pending import DONE, PendingAnswer
from warren.raft import wire
from warren.raft.effects import (
    AcceptSnapshot,
    AppendConfig,
    AppendNoop,
    BecameFollower,
    BecameLeader,
    Committed,
    ConfigChanged,
    Effect,
    PersistState,
    ReadReady,
    ReadRefused,
    Replicate,
    Send,
    SendSnapshot,
    StoreEntries,
    TransferDone,
    TransferFailed,
    Truncate,
)
from warren.raft.messages import Append, Message, SnapshotOffer
from warren.raft.raft import Raft
from warren.raft.state import Options
from warren.replication import frames
from warren.replication.arrivals import entries_of
from warren.replication.client_sessions import ClientSessions
from warren.replication.feeding import BACKLOG_BYTES, Feeding
from warren.replication.hard_state import HardState
from warren.replication.host import MemberHost
from warren.replication.kinds import EXPECT, OBSERVE, PROPOSE, RAFT, UNOBSERVE
from warren.replication.machine import NO_MACHINE, Machine, Proposer
from warren.replication.observing import Observing
from warren.replication.proposals import Proposal, Proposals
from warren.replication.raft_entries import (
    CLOSED_ENOUGH,
    MEMBERS,
    RAFT_SESSION,
    are_lost,
    closed_before,
    closed_sessions,
    note_session,
)
from warren.replication.recovered import Recovered, is_alone, recovered_state
from warren.replication.snapshots import Snapshots
from warren.replication.wrapping import Wrapped

AHEAD_MAX: Final = 256
"""So many entries the machine of a sole member has before they are durable: with more the disk
stands still, and what comes waits for it."""

COMMAND_BYTES_MAX: Final = 1 << 16
"""Behind so many bytes of commands the machine is given the rest in the next turn: 2,600 of a
queue's, which take it some 5 ms."""

STEP_BYTES: Final = 16
"""So many bytes of commands take a machine about as long as one step of what it goes on with: what
it does of that behind one entry, 4,096 steps of a kind, is enough for a turn."""

HINT_ENTRIES: Final = 4_096
"""The commit is noted on disk when it has moved by so much: a restart then has little to keep."""


@final
class StateSaved:
    """Marks a STATE record that Raft waits for."""

    def __init__(self, raft: Raft, sequence: i64) -> None:
        self.raft: Raft = raft
        self.sequence: i64 = sequence


@final
class Member(Proposer, GroupOwner):
    """See the module's head.

    Attributes:
        log, raft: The group's.
        applied_index: The last committed entry that the machine has.
        commit_ms: How long one of the last entries took from its append here to its commit.
        sessions: The last sequence applied, by session.
        client_sessions: What it takes while it leads.
        feeding: What it sends while it leads.
        snapshots: Those it takes, and a leader's.
        observing: Nodes that hold nothing of the group, as far as this member feeds them.
        dirty: Whether `work` is due.
        lot: So many entries the machine is given in one turn; 0 for as many as have
            `COMMAND_BYTES_MAX` of commands. A machine that does not apply each at once is given
            them in lots.
    """

    def __init__(
        self,
        host: MemberHost,
        log: GroupLog,
        machine: Machine,
        recovered: Recovered,
        session: i64,
        options: Options,
        seed: i64,
    ) -> None:
        self.host = host
        self.log = log
        self.machine = machine
        self.group_id: i64 = log.id
        self.hard_state = recovered.hard_state
        self.applied_index: i64 = recovered.applied
        self._had_index: i64 = 0
        """The newest entry that was applied before this began with nothing."""
        self.sessions = recovered.sessions
        self.proposals = Proposals(first_session(session), host.load())
        self.dirty = False
        self.stopped = False
        self.lot: i64 = 0
        self._room: i64 = COMMAND_BYTES_MAX
        """How many more entries it has before the next turn, or bytes of commands."""
        self._entries: HeadedList[Batch] = HeadedList()
        """Appended, and not both committed and applied."""
        for batch in recovered.pending:
            self._entries.append(batch)
        self._ahead: i64 = 0
        """So many of the first of these the machine has, ahead of their commit."""
        self._halted: bool = False
        """Whether it gets no further ones: its state is to be taken when those are durable."""
        self._committed: i64 = recovered.applied
        self.commit_ms: i64 = 0
        self._timed: i64 = 0
        """The entry whose way is timed; 0 for none."""
        self._timed_ms: i64 = 0
        self._arrived: list[Batch] | None = None
        """The entries of the append that Raft is about to take."""
        self._clock: LogClock = LogClock()
        self._options = options
        self._seed: i64 = seed
        self._confirming: dict[int, PendingAnswer] | None = None
        """Who waits for a majority to say that it follows this leader still."""
        self._confirmed: i64 = 0
        """How often that was asked."""
        self._reads: list[tuple[int, PendingAnswer]] = []
        """Who was told so by a majority, and by which entry: the machine does not have it yet."""
        self.client_sessions = ClientSessions()
        self.snapshots = Snapshots(recovered.snapshot_payload)
        self.feeding = Feeding()
        self.observing = Observing()
        if log.incomplete:
            # The snapshot that the log was given up for is not all here: begin with nothing.
            log.begin_empty()
        self.raft = self._raft_as_of(recovered)
        log.owner = self
        self.keep_recent()

    def _raft_as_of(self, recovered: Recovered) -> Raft:
        """Raft as of what the disk holds."""
        saved = recovered_state(recovered, self.log)
        return Raft(
            self.host.name, recovered.hard_state.incarnation, saved, self._options, self._seed
        )

    def keep_recent(self) -> None:
        """Keep as much of the newest entries in memory as is granted, if anybody is to get them.

        A sole member keeps them for its observers, which would else be fed from disk, entry by
        entry, and miss what a snapshot covers meanwhile.
        """
        if not self.is_alone() or self.observing.begun:
            self.log.keep_recent(self.host.recent_bytes)

    def start(self) -> None:
        """Begin to take part."""
        self.raft.start(self.host.monotonic_ms())
        self.work()

    def campaign(self) -> None:
        """Stand for election now: the group is new, and this is the node to lead it."""
        self.raft.campaign(self.host.monotonic_ms())
        self.work()

    # --- what the node submits ------------------------------------------------------------------

    def submit(
        self,
        kind: i64,
        count: i64,
        lengths: bytes,
        payload: bytes,
        origin: object | None,
        flavour: i64 = 0,
        life_ms: i64 = -1,
        facts: bytes = b"",
    ) -> None:
        """Have an entry appended by the leader, be it this member or another."""
        self.proposals.add(kind, count, lengths, payload, origin, flavour, life_ms, facts)
        self._offer()

    def busy(self) -> bool:
        """Whether a proposal is under way: what comes meanwhile is better one entry than many."""
        return len(self.proposals) > 0 and self.has_peers()

    def has_leader(self) -> bool:
        """Whether this member knows a leader, or is it."""
        return self.proposals.led

    def unoffered(self) -> list[Proposal]:
        """What this node submitted and no leader was offered."""
        return self.proposals.unoffered()

    def give_up(self, gone: dict[int, None]) -> None:
        """Forget some of that, by their numbers."""
        self.proposals.give_up(gone)

    def session(self) -> i64:
        """The session in force."""
        return self.proposals.session

    def set_session(self, session: i64) -> None:
        """This node's life has got its session."""
        self.proposals.renew(first_session(session))
        self._offer()

    def take_over(self, machine: Machine, proposals: Proposals) -> None:
        """Go on with a machine that is as far as the one here was, and with what was submitted."""
        self.machine = machine
        self.proposals = proposals
        proposals.lead_known(self.raft.leader != "")
        self._skip_proposals()
        self.offer_again()

    def offer_again(self) -> None:
        """A link to or from the leader is new: what was under way may be lost."""
        self.proposals.offer_from(1)
        self._offer()

    def _offer(self) -> None:
        """Append or send on what was not offered yet."""
        proposals = self.proposals
        raft = self.raft
        session = proposals.session
        if session == 0 or self.stopped:
            return
        if raft.can_propose():
            if self.client_sessions.next(session) == 0:
                # Closed by a leader before; what is left goes into the next one.
                return
            self._align(session)
            offered = proposals.next_offer()
            if offered is not None:
                # It may have been submitted long before there was a leader.
                self.host.appended(True)
            while offered is not None:
                self.append(session, offered)
                offered = proposals.next_offer()
        elif raft.leader != "" and raft.leader != self.host.name:
            offered = proposals.next_offer()
            while offered is not None:
                if self.host.backlog_bytes(raft.leader) > BACKLOG_BYTES:
                    proposals.offer_from(offered.sequence)
                    self.host.go_on_later(self)
                    return
                parts = frames.propose_frame(self.group_id, proposals.session, offered)
                if not self.host.send(raft.leader, parts):
                    proposals.offer_from(offered.sequence)
                    return
                offered = proposals.next_offer()

    def go_on(self) -> None:
        """A moment has passed since too much was queued for a node."""
        if not self.stopped:
            self._offer()
            self.feeding.go_on(self)
            self.work()

    def _align(self, session: i64) -> None:
        """As leader, go on where this node's own proposals stand in the log."""
        expected = self.client_sessions.next(session)
        if self.proposals.offered < expected - 1:
            self.proposals.offer_from(expected)

    def append(self, session: i64, proposal: Proposal) -> None:
        """As leader, take the next entry of a session."""
        batch = self.log.append(
            proposal.kind,
            self.raft.term,
            self.stamp_ms(),
            proposal.count,
            proposal.lengths,
            proposal.payload,
            None,
            session,
            proposal.sequence,
            proposal.flavour,
            proposal.life_ms,
            proposal.facts,
        )
        self.client_sessions.took(session, proposal.sequence)
        self._entries.append(batch)
        now_ms: i64 = self.host.monotonic_ms()
        if self._timed == 0:
            self._timed = batch.index
            self._timed_ms = now_ms
        self.raft.appended(batch.index, now_ms)
        self.mark()

    def stamp_ms(self) -> i64:
        """The time for the next entry; also where the clock is behind that of a leader before."""
        wall_ms: i64 = self.host.wall_ms()
        newest_ms = self.log.stamp_ms
        if wall_ms >= newest_ms:
            return wall_ms
        return self._clock.stamp(newest_ms, self.host.monotonic_ms())

    def append_own(self, payload: bytes) -> Batch:
        """As leader, append an entry of Raft's own; Raft is still to be told."""
        batch = self.log.append(
            KIND_COMMAND,
            self.raft.term,
            self.stamp_ms(),
            0,
            b"",
            payload,
            None,
            RAFT_SESSION,
            0,
        )
        self._entries.append(batch)
        self.host.appended(True)
        return batch

    def propose_plain(self, payload: bytes) -> bool:
        """As leader, append a command that belongs to no session; False if this is no leader."""
        if not self.raft.can_propose():
            return False
        self.append(0, Proposal(0, KIND_COMMAND, 0, b"", payload, None))
        self.host.appended(True)
        return True

    # --- what other nodes say -------------------------------------------------------------------

    def received(self, node: str, frame: bytes, body: bytes = b"") -> None:
        """A frame about this group came.

        Args:
            body: The records of a proposal, if they are not in the frame.

        Raises:
            CorruptRecord: It cannot be understood.
        """
        kind: i64 = frame[0]
        if kind == RAFT:
            said = frames.raft_message(frame)
            self._step(node, wire.decode(said), frame, frames.RAFT_BYTES + len(said))
        elif kind == PROPOSE:
            session, proposal = frames.read_proposal(frame, body)
            if self.host.session_of_another(session, node):
                raise CorruptRecord("a proposal", 0, f"session {session} is not of node {node}")
            self.machine.check_proposal(proposal.kind, proposal.payload)
            self.client_sessions.proposed(self, node, session, proposal)
        elif OBSERVE <= kind <= UNOBSERVE:
            self.observing.received(self, node, frame)
        elif kind == EXPECT:
            frames.need(frame, frames.HEAD_BYTES + 16)
            session = read_i64_le(frame, frames.HEAD_BYTES)
            if session == self.proposals.session:
                self.proposals.offer_from(read_i64_le(frame, frames.HEAD_BYTES + 8))
                self._offer()

    def _step(self, node: str, message: Message, frame: bytes, at: i64) -> None:
        """Let Raft take a message up, behind which more of the frame follows.

        Raises:
            CorruptRecord: It cannot be meant, or what follows is not what it says. Raft has not
                heard of it then.
        """
        raft = self.raft
        problem = "" if message.sender == node else f"it says that it is from {message.sender}"
        if self.log.incomplete and not problem:
            if not self._is_news(message):
                return
            # What was to come of a snapshot will not: begin with nothing, and answer.
            self.host.snapshot_given_up(self)
            self.begin_empty()
            raft = self.raft
        problem = problem or raft.refuses(message)
        if problem:
            raise CorruptRecord("a message of Raft", 0, problem)
        if isinstance(message, Append):
            self._arrived = entries_of(raft, self.log, message, frame, at)
        elif at != len(frame):
            raise CorruptRecord("a message of Raft", int(at), "bytes behind its end")
        raft.step(message, self.host.monotonic_ms())
        self.work()
        self._arrived = None

    def _is_news(self, message: Message) -> bool:
        """Whether a message ends the wait for a snapshot that the log was given up for.

        The snapshot's leader sends nothing else before it is all sent. If it does, or offers again,
        or another leader speaks, then it has given up, or leads no more.
        """
        if not self.raft.is_meant(message) or message.term < self.raft.term:
            return False
        if isinstance(message, SnapshotOffer):
            return True
        # All of it may be here, and not read or not durable yet.
        return isinstance(message, Append) and not self.snapshots.is_whole()

    # --- what the disk says ---------------------------------------------------------------------

    def persisted(self, batch: Batch) -> None:
        """A batch of this group is durable."""
        if self.stopped:
            return
        now = self.host.monotonic_ms()
        if batch.kind == KIND_STATE:
            saved = batch.origin
            if isinstance(saved, StateSaved) and saved.raft is self.raft:
                self.raft.state_persisted(saved.sequence, now)
        elif batch.kind == KIND_SNAPSHOT:
            self.snapshots.persisted(self, batch)
        elif batch.kind <= KIND_COMMAND and not self.log.incomplete:
            self.raft.persisted(batch.index, batch.term, now)
        self.mark()

    def snapshot(self) -> i64:
        """Write the machine's state into the log, so that older entries can go; gives its size."""
        return self.snapshots.take(self)

    def snapshot_part(self) -> i64:
        """The same in parts, of the state at the first; -1 if there is more to do."""
        return self.snapshots.take_part(self)

    def next_message(self) -> i64:
        """The number of the first message that the machine does not have."""
        return self._entries.at(0).first if self._entries.size() > 0 else self.log.next_message

    def save_hard_state(self, origin: StateSaved | None, urgent: bool = True) -> None:
        """Write the STATE record; `urgent` unless it may wait for what else is to be written."""
        self.hard_state.commit = self._committed
        self.log.save_state(self.hard_state.encode(), origin)
        self.host.appended(urgent)

    # --- what Raft asks for ---------------------------------------------------------------------

    def work(self) -> None:
        """Carry out what Raft asks for until it asks for nothing."""
        self.dirty = False
        if self.stopped:
            return
        raft = self.raft
        raft.flush(self.host.monotonic_ms())
        while raft.effects:
            effects = list(raft.effects)
            raft.effects.clear()
            news = False
            for effect in effects:
                news = news or not isinstance(effect, Replicate)
                self._carry_out(effect)
            if news and not raft.effects:
                raft.flush(self.host.monotonic_ms())
        if self._reads:
            self._answer_reads()
        if self.observing.watchers:
            self.observing.feed(self)
        if self._entries.size() > self._ahead:
            self._apply_ahead()

    def mark(self) -> None:
        """Have `work` called before the turn ends."""
        if not self.dirty:
            self.dirty = True
            self.host.member_dirty(self)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Committed):
            self.committed(effect.index)
        elif isinstance(effect, Replicate):
            self.feeding.feed(self, effect.node)
        elif isinstance(effect, Send):
            message = effect.message
            self.host.send(message.target, [frames.raft_frame(self.group_id, wire.encode(message))])
        elif isinstance(effect, StoreEntries):
            self._store(effect)
        elif isinstance(effect, PersistState):
            hard_state = self.hard_state
            hard_state.term = effect.term
            hard_state.voted_for = effect.voted_for
            hard_state.voted_incarnation = effect.voted_incarnation
            self.save_hard_state(StateSaved(self.raft, effect.sequence))
        elif isinstance(effect, Truncate):
            assert self._ahead == 0, "nobody else has a say in the log of a sole member"
            self.log.truncate_from(effect.from_index)
            if self._timed >= effect.from_index:
                self._timed = 0
            left = self._entries.size()
            while left > 0 and self._entries.at(left - 1).index >= effect.from_index:
                left -= 1
            self._entries.cut(left)
        elif isinstance(effect, AppendNoop):
            batch = self.append_own(b"")
            self.raft.appended(batch.index, self.host.monotonic_ms())
            self.machine.leading(self.log.next_message)
        elif isinstance(effect, AppendConfig):
            batch = self.append_own(bytes([MEMBERS]) + wire.encode_members(effect.members))
            self.log.keep_recent(self.host.recent_bytes)
            self.raft.config_appended(batch.index, self.host.monotonic_ms())
        elif isinstance(effect, ConfigChanged):
            self.host.members_changed(self)
        elif isinstance(effect, BecameLeader):
            self._lead()
        elif isinstance(effect, BecameFollower):
            self.proposals.lead_known(effect.leader != "")
            self.proposals.offer_from(1)
            self.host.leadership(self)
            self._offer()
        elif isinstance(effect, SendSnapshot):
            self.host.send_snapshot(self, effect)
        elif isinstance(effect, AcceptSnapshot):
            self.host.accept_snapshot(self, effect)
        elif isinstance(effect, ReadReady):
            waiter = self._confirmed_waiter(effect.context)
            if waiter is not None:
                self._reads.append((int(effect.index), waiter))
        elif isinstance(effect, ReadRefused):
            waiter = self._confirmed_waiter(effect.context)
            if waiter is not None:
                waiter.abandoned()
        elif isinstance(effect, TransferDone) or isinstance(effect, TransferFailed):
            self._offer()
            self.client_sessions.ask_declined(self)
            # Nodes may have gone meanwhile.
            self.client_sessions.close_sessions(self)

    def _lead(self) -> None:
        """Learn from the log which proposals it holds; all of them will be committed."""
        self.client_sessions.learn(self, self._entries)
        self.feeding.begin()
        self.proposals.lead_known(True)
        self.proposals.offer_from(self.client_sessions.next(self.proposals.session))
        self.host.leadership(self)
        self.mark()

    def _store(self, effect: StoreEntries) -> None:
        """Append what the leader sent along."""
        arrived = self._arrived
        self._arrived = None
        assert arrived and arrived[0].index == effect.first_index, "what Raft takes was checked"
        for batch in arrived:
            self.log.append_received(batch)
            self._entries.append(batch)
        self.host.appended(True)

    def confirm_lead(self, waiter: PendingAnswer) -> None:
        """Ask for a round of Raft's, which is told of when the machine is as far."""
        self._confirmed += 1
        if self._confirming is None:
            self._confirming = {}
        self._confirming[int(self._confirmed)] = waiter
        self.raft.read(self._confirmed)
        self.mark()

    def _give_up_confirming(self) -> None:
        """There will be no answer any more."""
        reads = self._reads
        self._reads = []
        for _, waiter in reads:
            waiter.abandoned()
        waiters = self._confirming
        if waiters is None:
            return
        self._confirming = None
        for waiter in waiters.values():
            waiter.abandoned()

    def _answer_reads(self) -> None:
        """Tell those whose entry the machine has; they were asked for in the order of the log."""
        while self._reads and i64(self._reads[0][0]) <= self.applied_index:
            _, waiter = self._reads.pop(0)
            waiter.succeeded(DONE)

    def _confirmed_waiter(self, context: i64) -> PendingAnswer | None:
        """Who asked whether a majority follows, and is about to hear."""
        return self._confirming.pop(int(context), None) if self._confirming is not None else None

    def is_complete(self) -> bool:
        """Whether the log is no shorter than it was when it was given up for a snapshot."""
        return not self.log.incomplete and self.raft.state.is_vote_eligible()

    def is_one_of_two(self) -> bool:
        """Whether the copy here has all that was ever committed, though another one votes, too."""
        return self.is_complete() and self.raft.is_one_of_two(self.hard_state.commit)

    def fed(self) -> bool:
        """A member always is, as far as it can be reached."""
        return True

    def leads(self) -> bool:
        """Whether this member leads."""
        return self.raft.is_leader

    def leads_fully(self) -> bool:
        """Whether it leads, and the machine has the first entry of its term and all before that.

        Asked of Raft and not noted: who leads again is as new to the office as any other.
        """
        raft = self.raft
        return raft.is_leader and self.applied_index >= raft.state.first_of_term

    def committed(self, index: i64) -> None:
        """All entries up to `index` are committed: let the machine have them."""
        assert index <= self.log.last_index, "what is committed here is in the log"
        self._committed = max(self._committed, index)
        if 0 < self._timed <= index:
            self.commit_ms = self.host.monotonic_ms() - self._timed_ms
            self._timed = 0
        self._apply()
        if self._committed - self.hard_state.commit > HINT_ENTRIES and self.has_peers():
            self.save_hard_state(None)

    def give_in_lots(self, lot: i64) -> None:
        """Let the machine have so many entries in one turn."""
        self.lot = lot
        self._room = lot

    def apply_more(self) -> None:
        """In the next turn: let the machine have what it was not given at once."""
        self._room = self.lot if self.lot > 0 else COMMAND_BYTES_MAX
        self.snapshots.go_on(self)
        if self.lot > 0 and self.machine.unfinished():
            self.machine.apply_rest()
        self._apply()
        if self._reads:
            self._answer_reads()
        if self.observing.watchers:
            self.observing.feed(self)

    def applies_later(self) -> bool:
        """Whether some of what is committed waits for a turn."""
        if self.lot > 0 and self.machine.unfinished():
            return True
        return self._entries.size() > 0 and self._entries.at(0).index <= self._committed

    def _apply(self) -> None:
        entries = self._entries
        machine = self.machine
        if self.lot > 0 and machine.unfinished():
            self.host.apply_later(self)
            return
        while entries.size() > 0 and not self.stopped:
            batch = entries.at(0)
            if batch.index > self._committed:
                break
            if self._room <= 0 and self._ahead == 0:
                self.host.apply_later(self)
                break
            entries.drop(1)
            assert batch.index > self.applied_index, "a machine has an entry once, in order"
            self.applied_index = batch.index
            session = batch.session
            if session == RAFT_SESSION:
                self._apply_own(batch)
                continue
            origin: object | None = None
            if session > 0:
                self.sessions[session] = batch.sequence
                if session == self.proposals.session:
                    origin = self.proposals.applied(batch.sequence)
            if self._ahead > 0:
                self._ahead -= 1
                machine.caught_up(batch, origin)
            else:
                machine.apply(batch, origin)
                self._room -= self._price(batch)
            if self.lot > 0 and machine.unfinished():
                self.host.apply_later(self)
                return

    def _price(self, batch: Batch) -> i64:
        """What an entry that was applied takes of a turn's room; messages cost the machine much
        the same however many they are, but with any entry it may go on with what is long.
        """
        if self.lot > 0:
            return 1 + self.machine.take_steps() // CHANGE_STEPS
        price = STEP_BYTES * self.machine.take_steps()
        return price + batch.payload_size if batch.kind == KIND_COMMAND else price

    def _apply_ahead(self) -> None:
        """Let a sole member's machine have what is appended, before it is durable.

        No other member can replace these entries, and what a crash takes of them it takes from this
        node's clients together with their connections. What others are told, confirms and replies
        among it, waits for the commit.
        """
        if not self.machine.is_awaited() or self._halted or self.lot > 0:
            return
        if not self.raft.is_leader or not self.is_alone():
            return
        entries = self._entries
        proposals = self.proposals
        while self._ahead < min(entries.size(), AHEAD_MAX):
            if self._room <= 0:
                self.host.apply_later(self)
                return
            batch = entries.at(self._ahead)
            if batch.session == RAFT_SESSION:
                return
            origin: object | None = None
            if batch.session == proposals.session:
                origin = proposals.origin(batch.sequence)
            if not self.machine.apply_ahead(batch, origin):
                return
            self._room -= self._price(batch)
            self._ahead += 1

    def is_ahead(self) -> bool:
        """Whether the machine has entries that are not durable yet."""
        return self._ahead > 0

    def halt(self) -> None:
        """Let the machine have nothing more ahead of the disk, so that its state can be taken."""
        self._halted = True

    def proceed(self) -> None:
        """Let it have that again: the state was taken, or is not wanted any more."""
        self._halted = False

    def _apply_own(self, batch: Batch) -> None:
        closed = closed_sessions(batch)
        if closed:
            note_session(self.sessions, batch)
            if len(self.sessions) > CLOSED_ENOUGH:
                self._forget_past()
            self.machine.sessions_closed(closed, batch.stamp_ms, are_lost(batch))
            own = self.proposals.session
            if own in closed:
                self.proposals.next_epoch(self.host.session_closed(self))
                self.machine.session_renewed()
                self._offer()
        elif batch.payload_size == 0 and batch.term == self.raft.term and self.raft.is_leader:
            self._note_doubts()
            self._offer()
            self.machine.elected()
            self.client_sessions.close_sessions(self)
            self.host.leadership(self)

    def _forget_past(self) -> None:
        """Forget closed sessions of lives that are over, but for the newest ones.

        A group keeps them in memory and in each snapshot. What a member forgets concerns what it
        takes as leader, and no machine.
        """
        for session in closed_before(self.sessions, CLOSED_ENOUGH):
            if self.host.session_past(session):
                del self.sessions[session]
                self.client_sessions.forget(session)

    def _note_doubts(self) -> None:
        """After a crash of a sole member, have the log say that any message may have been seen.

        Its machine was ahead of its disk, so the log does not have all that was handed out.
        """
        if not self.is_alone():
            return
        for session in self.machine.sessions_served():
            known = session == self.proposals.session
            if not known and not self.host.session_of_another(session, self.host.name):
                self.propose_plain(self.machine.doubt())
                return

    def mind_sessions(self) -> None:
        """As leader, close the sessions whose time is over, and have others go on."""
        self.client_sessions.close_sessions(self)

    def is_alone(self) -> bool:
        """Whether this member is its group's only one, and so its own majority."""
        return is_alone(self.raft.members, self.host.name, self.hard_state.incarnation)

    def has_peers(self) -> bool:
        """Whether the group has more members than this one."""
        return len(self.raft.members) > 1

    # --- other beginnings -----------------------------------------------------------------------

    def go_on_from(self, index: i64, snapshot: Wrapped) -> None:
        """A leader's snapshot is durable in this node's log: the machine goes on from it."""
        self.hard_state.members = snapshot.members
        self._stand_at(index, snapshot.sessions)
        if index < self._had_index:
            self.machine.restore_older(snapshot.state)
        else:
            self.machine.restore(snapshot.state)
        self._had_index = 0
        self._skip_proposals()
        self._offer()
        self.save_hard_state(None)
        self.mark()

    def _stand_at(self, index: i64, sessions: dict[int, int]) -> None:
        """The machine is about to have all up to `index`, and nothing behind that is here."""
        self._entries.clear()
        self._ahead = 0
        self.sessions = sessions
        self.applied_index = index
        self._committed = index

    def _skip_proposals(self) -> None:
        """Tell those whose proposals are part of a snapshot."""
        proposals = self.proposals
        over = True
        while over:
            known = self.sessions.get(proposals.session, 0)
            over = known < 0
            last = ~known if over else known
            while len(proposals) > 0 and proposals.first() <= last:
                self.machine.skipped(proposals.applied(proposals.first()))
            if over:
                # Closed meanwhile. What was not applied before that never was.
                proposals.next_epoch(self.host.session_closed(self))
                self.machine.session_renewed()

    def rejoin_as(self, incarnation: i64) -> None:
        """Drop all that is here, and begin as another copy, which others have to bring up."""
        self.hard_state = HardState(incarnation, [])
        self._committed = 0
        # Written before the log is dropped: entries under a new incarnation do no harm, but an old
        # one without what it acknowledged does.
        self.save_hard_state(None)
        self.log.reset_for_install()
        self.begin_empty()

    def begin_empty(self) -> None:
        """Go on without any entry."""
        self.observing.end(self)
        self.log.begin_empty()
        self.snapshots.forget()
        self.hard_state.commit = 0
        self._had_index = max(self._had_index, self.applied_index)
        self._stand_at(0, {})
        self.machine.forget()
        self.raft = self._raft_as_of(Recovered(self.hard_state, self.host.name))
        self.proposals.lead_known(False)
        self._give_up_confirming()
        # The Raft before this one may have waited for its term and vote still.
        self.raft.write_down()
        self.host.acquaint(self)
        self.start()
        # Whoever called this may know nothing of a time that is to be minded now.
        self.mark()

    def stop(self) -> None:
        """The group is deleted here: what was submitted will never be applied.

        The machine is let go of, which has its way to this member: see `NoMachine`.
        """
        left = self.proposals.take_all()
        machine = self.machine
        self.leave()
        for proposal in left:
            machine.abandoned(proposal.origin)

    def leave(self) -> None:
        """End, and leave machine and proposals to who takes this one's place on the node."""
        self.stopped = True
        self._give_up_confirming()
        self.observing.end(self)
        self.machine = NO_MACHINE
        self._entries.clear()
        self._ahead = 0
