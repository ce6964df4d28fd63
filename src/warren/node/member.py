"""One group's member on this node: consensus, log and machine tied together.

`raft.Raft` decides, `log.GroupLog` keeps, the machine is the tables or a queue. All that happens
ends in `work`, which carries out what Raft asks for until it asks for nothing. docs/clusters.md
has the whole.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i64_le
from mypy_extensions import i64, mypyc_attr, u8

from warren.errors import Compacted
from warren.log.batch import KIND_COMMAND, KIND_SNAPSHOT, KIND_STATE, Batch
from warren.log.group import GroupLog
from warren.log.listener import BatchReader
from warren.node import frames
from warren.node.pacing import READ_BYTES, Pacer
from warren.node.revived import (
    CLOSE,
    MEMBERS,
    RAFT_SESSION,
    Memory,
    Revived,
    closed_sessions,
    is_alone,
    note_session,
    unwrap,
    wrap,
)
from warren.node.submissions import EPOCH_BITS, Submission, Submissions
from warren.queues.replicated import Machine, Proposer
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
    Replicate,
    Send,
    SendSnapshot,
    Store,
    TransferDone,
    TransferFailed,
    Truncate,
)
from warren.raft.members import Config
from warren.raft.members import Member as Copy
from warren.raft.messages import SnapshotOffer
from warren.raft.raft import Raft, Saved
from warren.raft.state import Options

APPEND_BYTES: Final = 1_048_576
"""An append to a peer takes no further entry when it has this size."""
HINT_ENTRIES: Final = 4_096
"""The commit is noted on disk when it has moved by so much: a restart then has little to keep."""


@mypyc_attr(allow_interpreted_subclasses=True)
class MemberHost:
    """The node around its members.

    Attributes:
        name: The node's name.
        recent_bytes: Entries that a group with several members keeps in memory, for those that are
            a little behind.
    """

    name: str
    recent_bytes: int

    def wall_ms(self) -> int:
        """Wall time for the log."""
        raise AssertionError("a host defines wall_ms")

    def monotonic_ms(self) -> int:
        """Monotonic time for Raft."""
        raise AssertionError("a host defines monotonic_ms")

    def appended(self, urgent: bool) -> None:
        """Something was appended to the log."""
        raise AssertionError("a host defines appended")

    def send(self, node: str, message: list[bytes]) -> bool:
        """Send to another node; False if there is no link."""
        raise AssertionError("a host defines send")

    def member_dirty(self, member: Member) -> None:
        """Call `work` before the turn ends."""
        raise AssertionError("a host defines member_dirty")

    def session_over(self, session: i64) -> bool:
        """Whether the node that a session belongs to is gone, or lives another life."""
        raise AssertionError("a host defines session_over")

    def session_closed(self, member: Member) -> i64:
        """This node's session in a group was closed; what the tables gave it last, for another."""
        raise AssertionError("a host defines session_closed")

    def leadership(self, member: Member) -> None:
        """A member leads now, or does no more, or knows another leader."""
        raise AssertionError("a host defines leadership")

    def members_changed(self, member: Member) -> None:
        """Another configuration of a group is in force."""
        raise AssertionError("a host defines members_changed")

    def send_snapshot(self, member: Member, effect: SendSnapshot) -> None:
        """A peer needs the newest snapshot."""
        raise AssertionError("a host defines send_snapshot")

    def accept_snapshot(self, member: Member, effect: AcceptSnapshot) -> None:
        """The leader offers one that is to be taken over."""
        raise AssertionError("a host defines accept_snapshot")

    def pacer(self) -> Pacer:
        """Who lets reads for peers begin."""
        raise AssertionError("a host defines pacer")

    def short_of_disk(self) -> bool:
        """Whether space matters more than anything that could wait."""
        raise AssertionError("a host defines short_of_disk")


@final
class StateSaved:
    """Marks a STATE record that Raft waits for."""

    def __init__(self, raft: Raft, sequence: i64) -> None:
        self.raft: Raft = raft
        self.sequence: i64 = sequence


@final
class Member(Proposer):
    """See the module's head.

    Attributes:
        log, raft: The group's.
        applied_index: The last entry that the machine has.
        sessions: The last sequence applied, by session.
        snapshot_payload: The newest durable snapshot, for peers that need it.
        dirty: Whether `work` is due.
    """

    def __init__(
        self,
        host: MemberHost,
        log: GroupLog,
        machine: Machine,
        revived: Revived,
        session: i64,
        options: Options,
        seed: i64,
    ) -> None:
        self.host = host
        self.log = log
        self.machine = machine
        self.group_id: i64 = log.id
        self.memory = revived.memory
        self.applied_index: i64 = revived.applied
        self.sessions = revived.sessions
        self.snapshot_payload = revived.snapshot_payload
        self.submissions = Submissions(session << EPOCH_BITS)
        self.dirty = False
        self.stopped = False
        self._entries: deque[Batch] = deque(revived.pending)
        """Appended and not applied."""
        self._committed: i64 = revived.applied
        self._expected: dict[int, int] = {}
        """As leader: the next sequence of each session, 0 if it is closed."""
        self._asked: dict[int, tuple[int, int]] = {}
        """As leader: which sequence was asked for when which one came instead, by session."""
        self._declined: dict[str, int] = {}
        """As leader that takes no commands now: the sessions of nodes that had some, by node."""
        self._frame = b""
        """The append whose batches are being stored; they begin at `_frame_at`."""
        self._frame_at: i64 = 0
        self._snapshot_index: i64 = 0
        self._pending_snapshot = b""
        self._taken_over: tuple[int, int, bytes] | None = None
        """Index, term and payload of a leader's snapshot that is not durable yet."""
        self._reading: list[str] = []
        self._read: dict[str, list[Batch]] = {}
        self._options = options
        self._seed: i64 = seed
        if log.incomplete:
            # The snapshot that the log was given up for is not all here: begin with nothing.
            log.begin_empty()
        self.raft = self._new_raft(revived)
        log.owner = self
        self.keep_recent()

    def _new_raft(self, revived: Revived) -> Raft:
        """Raft as of what the disk holds."""
        saved = Saved()
        saved.term = self.memory.term
        saved.voted_for = self.memory.voted_for
        saved.voted_incarnation = self.memory.voted_incarnation
        saved.snapshot_index = revived.snapshot_index
        if revived.snapshot_index > 0:
            saved.snapshot_term = self.log.term_at(revived.snapshot_index)
        saved.members = self.memory.members
        if revived.snapshot is not None:
            saved.members = revived.snapshot.members
        saved.runs = revived.runs
        saved.last_index = self.log.last_index
        for index, members in revived.configs:
            saved.configs.append(Config(index, members))
        return Raft(self.host.name, self.memory.incarnation, saved, self._options, self._seed)

    def keep_recent(self) -> None:
        """Keep as much of the newest entries in memory as is granted now."""
        if not is_alone(self.raft.members):
            self.log.keep_recent(self.host.recent_bytes)

    def start(self) -> None:
        """Begin to take part."""
        self.raft.start(self.host.monotonic_ms())
        self.work()

    def campaign(self) -> None:
        """Stand for election now: the group is new, and this is the node to lead it."""
        self.raft.stand(self.host.monotonic_ms())
        self.work()

    # --- what the node submits ------------------------------------------------------------------

    def submit(
        self, kind: i64, count: i64, lengths: bytes, payload: bytes, origin: object | None
    ) -> None:
        """Have an entry appended by whoever leads."""
        self.submissions.add(kind, count, lengths, payload, origin)
        self._offer()

    def busy(self) -> bool:
        """Whether a submission is under way: what comes meanwhile is better one entry than many."""
        return len(self.submissions) > 0 and self.has_peers()

    def session(self) -> i64:
        """The session in force."""
        return self.submissions.session

    def set_session(self, session: i64) -> None:
        """This node's life has got its session."""
        self.submissions.renew(session << EPOCH_BITS)
        self._offer()

    def offer_again(self) -> None:
        """A link to or from the leader is new: what was under way may be lost."""
        self.submissions.offer_from(1)
        self._offer()

    def _offer(self) -> None:
        """Append or send on what was not offered yet."""
        submissions = self.submissions
        raft = self.raft
        session = submissions.session
        if session == 0 or self.stopped:
            return
        if raft.can_propose():
            if self._expected.get(session) == 0:
                # Closed by a leader before; what is left goes into the next one.
                return
            self._align(session)
            offered = submissions.next_offer()
            while offered is not None:
                self._append(session, offered)
                offered = submissions.next_offer()
        elif raft.leader != "" and raft.leader != self.host.name:
            offered = submissions.next_offer()
            while offered is not None:
                parts = frames.submit_frame(self.group_id, submissions.session, offered)
                if not self.host.send(raft.leader, parts):
                    submissions.offer_from(offered.sequence)
                    return
                offered = submissions.next_offer()

    def _align(self, session: i64) -> None:
        """As leader, go on where this node's own submissions stand in the log."""
        expected = self._expected.get(session, 1)
        if self.submissions.offered < expected - 1:
            self.submissions.offer_from(expected)

    def _append(self, session: i64, submission: Submission) -> None:
        batch = self.log.append(
            submission.kind,
            self.raft.term,
            self.host.wall_ms(),
            submission.count,
            submission.lengths,
            submission.payload,
            None,
            session,
            submission.sequence,
        )
        self._expected[session] = submission.sequence + 1
        self._entries.append(batch)
        self.raft.appended(batch.index, self.host.monotonic_ms())
        self._mark()

    def _append_own(self, payload: bytes) -> Batch:
        batch = self.log.append(
            KIND_COMMAND,
            self.raft.term,
            self.host.wall_ms(),
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

    def submit_plain(self, payload: bytes) -> bool:
        """As leader, append a command that belongs to no session; False if this is no leader."""
        if not self.raft.can_propose():
            return False
        self._append(0, Submission(0, KIND_COMMAND, 0, b"", payload, None))
        self.host.appended(True)
        return True

    def close_sessions(self) -> None:
        """As leader, end the sessions of nodes that are gone."""
        if not self.raft.can_propose():
            return
        over = [
            session
            for session, expected in self._expected.items()
            if session > 0 and expected > 0 and self.host.session_over(session)
        ]
        if over:
            writer = BytesWriter()
            writer.append(u8(CLOSE))
            for session in over:
                write_i64_le(writer, i64(session))
                self._expected[session] = 0
            batch = self._append_own(writer.getvalue())
            self.raft.appended(batch.index, self.host.monotonic_ms())
            self._mark()

    def taken_over(self) -> bool:
        """Whether a group that only this node has is led, and sessions that are over are closed.

        Of a group with other members nothing is said: those may be away.
        """
        if not is_alone(self.raft.members):
            return True
        if not self.raft.can_propose():
            return False
        for session, sequence in self.sessions.items():
            if session > 0 and sequence >= 0 and self.host.session_over(session):
                return False
        return True

    # --- what other nodes say -------------------------------------------------------------------

    def received(self, node: str, frame: bytes) -> None:
        """A frame about this group came.

        Raises:
            CorruptRecord: It cannot be understood.
        """
        kind: i64 = frame[0]
        if kind == frames.RAFT:
            end = frames.raft_end(frame)
            message = wire.decode(frame[frames.HEAD_BYTES + 4 : end])
            if self.log.incomplete and not isinstance(message, SnapshotOffer):
                # The log was given up for a snapshot that is not all here yet.
                return
            self._frame = frame
            self._frame_at = end
            self.raft.step(message, self.host.monotonic_ms())
            self.work()
            self._frame = b""
        elif kind == frames.SUBMIT:
            session, submission = frames.read_submit(frame)
            self._submitted(node, session, submission)
        elif kind == frames.EXPECT:
            session = read_i64_le(frame, frames.HEAD_BYTES)
            if session == self.submissions.session:
                self.submissions.offer_from(read_i64_le(frame, frames.HEAD_BYTES + 8))
                self._offer()

    def _submitted(self, node: str, session: i64, submission: Submission) -> None:
        """Another node wants an entry appended."""
        if not self.raft.can_propose():
            if self.raft.is_leader:
                self._declined[node] = session
            return
        expected = self._expected.get(session, 1)
        if submission.sequence == expected:
            self._append(session, submission)
            self.host.appended(True)
        elif submission.sequence > expected > 0:
            # Asked once, although all that is under way behind it is out of order too; again if
            # the sender has begun again and there is still a hole.
            asked, instead = self._asked.get(session, (0, 0))
            if asked != expected or submission.sequence <= instead:
                self._asked[session] = (expected, int(submission.sequence))
                self.host.send(node, [frames.expect_frame(self.group_id, session, expected)])

    # --- what the disk says ---------------------------------------------------------------------

    def persisted(self, batch: Batch) -> None:
        """A batch of this group is durable."""
        now = self.host.monotonic_ms()
        if batch.kind == KIND_STATE:
            saved = batch.origin
            if isinstance(saved, StateSaved) and saved.raft is self.raft:
                self.raft.state_persisted(saved.sequence, now)
        elif batch.kind == KIND_SNAPSHOT:
            if self._taken_over is not None:
                index, term, payload = self._taken_over
                if batch.index == index:
                    self._taken_over = None
                    self._install(index, term, payload)
            elif self._pending_snapshot and batch.index == self._snapshot_index:
                self.snapshot_payload = self._pending_snapshot
                self._pending_snapshot = b""
                self.raft.compacted(batch.index)
        elif batch.kind <= KIND_COMMAND and not self.log.incomplete:
            self.raft.persisted(batch.index, batch.term, now)
        self._mark()

    def snapshot(self) -> None:
        """Write the machine's state into the log, so that older entries can go."""
        # Right behind a start the machine may have what Raft does not know to be committed yet;
        # the log asks again.
        if self.log.incomplete or not 0 < self.applied_index <= self.raft.commit_index:
            return
        if self._somebody_catches_up() and not self.host.short_of_disk():
            return
        members = self.raft.config_at(self.applied_index).members
        first = self._entries[0].first if self._entries else self.log.next_message
        payload = wrap(first, members, self.sessions, self.machine.state())
        self.log.snapshot(self.applied_index, payload, self.host.wall_ms(), 0, first)
        self._snapshot_index = self.applied_index
        self._pending_snapshot = payload
        self.memory.members = members
        self.save_memory(None)

    def _somebody_catches_up(self) -> bool:
        """Whether a peer is being sent what the next snapshot would take away.

        It would have to begin anew with that one, and under load never come to an end.
        """
        raft = self.raft
        for copy in raft.members:
            index = raft.sends_next(copy.node)
            if 0 <= index <= raft.last_index and self.log.recent(index) is None:
                return True
        return False

    def save_memory(self, origin: StateSaved | None) -> None:
        """Write the STATE record."""
        self.memory.commit = self._committed
        self.log.save_state(self.memory.encode(), origin)
        self.host.appended(True)

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

    def _mark(self) -> None:
        if not self.dirty:
            self.dirty = True
            self.host.member_dirty(self)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Committed):
            self._committed = max(self._committed, effect.index)
            self._apply()
        elif isinstance(effect, Replicate):
            self._replicate(effect.node)
        elif isinstance(effect, Send):
            message = effect.message
            self.host.send(message.target, [frames.raft_frame(self.group_id, wire.encode(message))])
        elif isinstance(effect, Store):
            self._store(effect)
        elif isinstance(effect, PersistState):
            memory = self.memory
            memory.term = effect.term
            memory.voted_for = effect.voted_for
            memory.voted_incarnation = effect.voted_incarnation
            self.save_memory(StateSaved(self.raft, effect.sequence))
        elif isinstance(effect, Truncate):
            self.log.truncate_from(effect.from_index)
            while self._entries and self._entries[-1].index >= effect.from_index:
                self._entries.pop()
        elif isinstance(effect, AppendNoop):
            batch = self._append_own(b"")
            self.raft.appended(batch.index, self.host.monotonic_ms())
        elif isinstance(effect, AppendConfig):
            batch = self._append_own(bytes([MEMBERS]) + wire.encode_members(effect.members))
            self.log.keep_recent(self.host.recent_bytes)
            self.raft.config_appended(batch.index, self.host.monotonic_ms())
        elif isinstance(effect, ConfigChanged):
            self.host.members_changed(self)
        elif isinstance(effect, BecameLeader):
            self._lead()
        elif isinstance(effect, BecameFollower):
            self.submissions.offer_from(1)
            self.host.leadership(self)
            self._offer()
        elif isinstance(effect, SendSnapshot):
            self.host.send_snapshot(self, effect)
        elif isinstance(effect, AcceptSnapshot):
            self.host.accept_snapshot(self, effect)
        elif isinstance(effect, TransferDone) or isinstance(effect, TransferFailed):
            self._offer()
            self._ask_declined()
            # Nodes may have gone meanwhile.
            self.close_sessions()

    def _ask_declined(self) -> None:
        """The lead was not handed over after all: ask for what came meanwhile."""
        if self.raft.can_propose():
            declined = self._declined
            self._declined = {}
            for node, session in declined.items():
                expected = self._expected.get(session, 1)
                if expected > 0:
                    self.host.send(node, [frames.expect_frame(self.group_id, session, expected)])

    def _lead(self) -> None:
        """Learn from the log which submissions it holds; all of them will be committed."""
        self._expected = {}
        self._asked = {}
        self._declined = {}
        self._read.clear()
        for session, sequence in self.sessions.items():
            self._expected[session] = sequence + 1 if sequence >= 0 else 0
        for batch in self._entries:
            if batch.session > 0:
                self._expected[batch.session] = int(batch.sequence) + 1
            elif batch.session == RAFT_SESSION:
                for session in closed_sessions(batch):
                    self._expected[session] = 0
        self.submissions.offer_from(self._expected.get(self.submissions.session, 1))
        self.host.leadership(self)
        self._mark()

    def leads(self) -> bool:
        """Whether this member leads."""
        return self.raft.is_leader

    def _apply(self) -> None:
        """Let the machine have what is committed."""
        entries = self._entries
        machine = self.machine
        while entries and entries[0].index <= self._committed and not self.stopped:
            batch = entries.popleft()
            self.applied_index = batch.index
            session = batch.session
            if session == RAFT_SESSION:
                self._apply_own(batch)
                continue
            origin: object | None = None
            if session > 0:
                self.sessions[session] = batch.sequence
                if session == self.submissions.session:
                    origin = self.submissions.applied(batch.sequence)
            machine.apply(batch, origin)
        if self._committed - self.memory.commit > HINT_ENTRIES and self.has_peers():
            self.save_memory(None)

    def _apply_own(self, batch: Batch) -> None:
        closed = closed_sessions(batch)
        if closed:
            note_session(self.sessions, batch)
            self.machine.sessions_closed(closed)
            own = self.submissions.session
            if own in closed:
                self.submissions.next_epoch(self.host.session_closed(self))
                self.machine.session_renewed()
                self._offer()
        elif batch.payload_size == 0 and batch.term == self.raft.term and self.raft.is_leader:
            self._offer()
            self.close_sessions()
            self.host.leadership(self)

    def has_peers(self) -> bool:
        """Whether the group has more members than this one."""
        return len(self.raft.members) > 1

    # --- replication ----------------------------------------------------------------------------

    def _replicate(self, node: str) -> None:
        """Send a peer what it misses, as far as that is in memory; else fetch it."""
        while node not in self._reading:
            message = self.raft.next_append(node)
            if message is None:
                return
            parts: list[bytes] = [b""]
            size: i64 = 0
            index = message.prev_index + 1
            fetched = self._read.pop(node, None)
            at = 0
            while index <= message.last_index and size < APPEND_BYTES:
                batch = self.log.recent(index)
                if batch is None and fetched is not None:
                    while at < len(fetched) and fetched[at].index < index:
                        at += 1
                    if at < len(fetched) and fetched[at].index == index:
                        batch = fetched[at]
                if batch is None:
                    break
                parts.extend(batch.parts())
                size += batch.size()
                index += 1
            if index <= message.last_index:
                last = message.last_index
                self.raft.shorten(message, index - 1)
                if index == message.prev_index + 1:
                    self._reading.append(node)
                    self.host.pacer().want(Fetch(self, node, index, last).go)
            parts[0] = frames.raft_frame(self.group_id, wire.encode(message))
            self.host.send(node, parts)

    def fetched(self, node: str, batches: list[Batch], error: BaseException | None) -> None:
        """Entries for a peer were read from disk."""
        self._reading.remove(node)
        if error is not None and not isinstance(error, Compacted):
            raise error
        if self.stopped:
            return
        if batches:
            self._read[node] = batches
        # What was compacted meanwhile is replaced by a snapshot.
        self._replicate(node)
        self._mark()

    def _store(self, effect: Store) -> None:
        """Append what the leader sent along."""
        data = self._frame
        at = self._frame_at
        index = effect.message.prev_index + 1
        while index <= effect.message.last_index:
            if index < effect.first_index:
                at += self._size_at(data, at)
            else:
                batch = self.log.append_replica(data, at, None)
                at += batch.size()
                self._entries.append(batch)
            index += 1
        self.host.appended(True)

    def _size_at(self, data: bytes, at: i64) -> i64:
        return i64(read_i32_le(data, at + 4))

    # --- snapshots from a leader ----------------------------------------------------------------

    def prepare_install(self, members: list[Copy]) -> None:
        """Give the log up for a leader's snapshot.

        From here on the disk may hold nothing else of the group than its members. Those of its
        beginning could be this one alone, which would then be a majority by itself.
        """
        self.memory.members = members
        self.save_memory(None)
        self.log.reset_for_install()
        # One that came before and is not durable yet is void, too.
        self._taken_over = None

    def take_over(self, index: i64, term: i64, stamp_ms: i64, payload: bytes) -> None:
        """All of a leader's snapshot is here; it takes effect when it is durable."""
        next_message = unwrap(payload).next_message
        self.log.snapshot(index, payload, stamp_ms, term, next_message)
        self._taken_over = (int(index), int(term), payload)
        self._pending_snapshot = b""

    def _install(self, index: i64, term: i64, payload: bytes) -> None:
        """A leader's snapshot is durable in this node's log: go on from there."""
        parts = unwrap(payload)
        self._entries.clear()
        self.raft.snapshot_installed(index, term, parts.members, self.host.monotonic_ms())
        self.sessions = parts.sessions
        self.applied_index = index
        self._committed = index
        self._snapshot_index = index
        self.snapshot_payload = payload
        self.memory.members = parts.members
        self.machine.restore(parts.state)
        self._settle_submissions()
        self._offer()
        self.save_memory(None)
        self._mark()

    def give_up_install(self) -> None:
        """The rest of a leader's snapshot will not come: begin with nothing, as on a new disk.

        What this member ever acknowledged is below that snapshot, which a majority without it has.
        """
        if self.log.incomplete and self._taken_over is None:
            self._begin_empty()

    def begin_as(self, incarnation: i64) -> None:
        """Drop all that is here, and begin as another copy, which others have to bring up."""
        self.memory = Memory(incarnation, [])
        self._committed = 0
        # Written before the log is dropped: entries under a new incarnation do no harm, but an old
        # one without what it acknowledged does (rule 15).
        self.save_memory(None)
        self.log.reset_for_install()
        self._taken_over = None
        self._begin_empty()

    def _begin_empty(self) -> None:
        """Go on without any entry."""
        self.log.begin_empty()
        self._entries.clear()
        self.applied_index = 0
        self._committed = 0
        self._snapshot_index = 0
        self.snapshot_payload = b""
        self.memory.commit = 0
        self.sessions = {}
        self.machine.restore(self.machine.first_state())
        self.raft = self._new_raft(Revived(self.memory))
        self.host.appended(True)
        self.start()

    def _settle_submissions(self) -> None:
        """Tell those whose submissions are part of a snapshot."""
        submissions = self.submissions
        over = True
        while over:
            known = self.sessions.get(submissions.session, 0)
            over = known < 0
            last = ~known if over else known
            while len(submissions) > 0 and submissions.first() <= last:
                self.machine.skipped(submissions.applied(submissions.first()))
            if over:
                # Closed meanwhile. What was not applied before that never was.
                submissions.next_epoch(self.host.session_closed(self))
                self.machine.session_renewed()

    def stop(self) -> None:
        """The group is deleted here: what was submitted will never be applied."""
        self.stopped = True
        for submission in self.submissions.take_all():
            self.machine.abandoned(submission.origin)


@final
class Fetch(BatchReader):
    """Entries on their way from disk to a peer."""

    def __init__(self, member: Member, node: str, first_index: i64, last_index: i64) -> None:
        self._member = member
        self._node = node
        self._first: i64 = first_index
        self._last: i64 = last_index

    def go(self) -> None:
        """Read them."""
        self._member.log.read_entries(self._first, self._last, READ_BYTES, self)

    def batches_read(self, batches: list[Batch], error: BaseException | None) -> None:
        """Hand them on."""
        size: i64 = 0
        for batch in batches:
            size += batch.size()
        self._member.host.pacer().done(size)
        self._member.fetched(self._node, batches, error)
