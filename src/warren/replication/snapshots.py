"""A member's snapshots: those it takes of its machine, and a leader's that replaces its log.

Both are records of its own log, and count when they are durable. `node/cluster/transfer.py` brings
a leader's from node to node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.log.batch import Batch
from warren.ports import Work
from warren.raft.messages import SnapshotOffer
from warren.replication.growing import Growing
from warren.replication.wrapping import Unwrapping, Wrapped, wrap_head

if TYPE_CHECKING:
    from warren.replication.member import Member


@final
class Laggard:
    """A peer that is being sent what the next snapshot would take away.

    Attributes:
        position: How far it is, in entries and bytes of a snapshot.
        moved_at, begun_at: What this node's log had written in this life when the peer last got on,
            and when it was first waited for.
        bound: How much more than at the beginning may be written until it has all.
    """

    def __init__(self, position: i64, written: i64, bound: i64) -> None:
        self.position: i64 = position
        self.moved_at: i64 = written
        self.begun_at: i64 = written
        self.bound: i64 = bound


@final
class Draft:
    """One that is being written, of the state at one entry.

    Attributes:
        index: That entry's.
        next_message: The number of the first message behind it.
        members: Those of the group as of that entry.
        writing: Writes it.
    """

    def __init__(self, member: Member) -> None:
        assert not member.is_ahead(), "the state is that at an entry that is committed"
        self.index: i64 = member.applied_index
        self.next_message: i64 = member.next_message()
        self.members = member.raft.config_at(self.index).members
        out = wrap_head(self.next_message, self.members, member.sessions)
        self.writing = Growing(out, member.machine.write_state(out))
        member.proceed()


@final
class TakenOver:
    """A leader's snapshot that is all here and not in force.

    Attributes:
        payload: Its own bytes, once it is taken apart.
        unwrapping: Takes it apart; None if that is done.
        readying: Makes the machine ready for it then; None before, and if that is done.
        logged: Whether the log has it.
    """

    def __init__(self, index: i64, term: i64, stamp_ms: i64, unwrapping: Unwrapping) -> None:
        self.index: i64 = index
        self.term: i64 = term
        self.stamp_ms: i64 = stamp_ms
        self.payload: bytes = b""
        self.parts: Wrapped = unwrapping.parts
        self.unwrapping: Unwrapping | None = unwrapping
        self.readying: Work | None = None
        self.logged: bool = False

    def go_on(self, member: Member) -> bool:
        """Do the next part of what comes before the log has it; whether that was the last."""
        unwrapping = self.unwrapping
        if unwrapping is not None:
            if not unwrapping.go_on():
                return False
            self.payload = unwrapping.payload
            self.unwrapping = None
            self.readying = member.machine.ready(self.parts.state)
        readying = self.readying
        if readying is not None and not readying.go_on():
            return False
        self.readying = None
        return True


@final
class Snapshots:
    """Those of one member, which methods are handed: nothing here refers to it.

    Attributes:
        payload: The newest durable one, for peers that need it; empty if there is none.
    """

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self._index: i64 = 0
        """Of the newest one that this member has taken or taken over."""
        self._pending = b""
        """The one of `_index` that is not durable yet."""
        self._taken_over: TakenOver | None = None
        self._laggards: dict[str, Laggard] | None = None
        self._draft: Draft | None = None

    # --- its own --------------------------------------------------------------------------------

    def take(self, member: Member, at_once: bool = False) -> i64:
        """Write the machine's state into the log, so that older entries can go.

        Args:
            member: Whose.
            at_once: Even if a peer is being brought up from the one before.

        Returns:
            Bytes written; 0 if it cannot be done now.
        """
        self._draft = None
        size = self.take_part(member, at_once)
        while size < 0:
            size = self.take_part(member, at_once)
        return size

    def take_part(self, member: Member, at_once: bool = False) -> i64:
        """The same in parts, of the state at the first; -1 if there is more to do."""
        draft = self._draft
        if draft is None:
            if not self._may_be_taken(member, at_once):
                return 0
            draft = Draft(member)
            self._draft = draft
        if not draft.writing.go_on():
            return -1
        self._draft = None
        payload = draft.writing.value
        member.log.snapshot(draft.index, payload, member.stamp_ms(), 0, draft.next_message)
        self._index = draft.index
        self._pending = payload
        self._laggards = None
        member.hard_state.members = draft.members
        member.save_hard_state(None, False)
        return len(payload)

    def _may_be_taken(self, member: Member, at_once: bool) -> bool:
        if member.machine.unfinished():
            return False
        applied = member.applied_index
        # Right behind a start the machine may have what Raft does not know to be committed yet;
        # the log asks again.
        if member.log.incomplete or not 0 < applied <= member.raft.commit_index:
            return False
        if member.is_ahead():
            # The log asks again, and by then the disk has what the machine has.
            member.halt()
            return False
        waits = not at_once and self._somebody_catches_up(member)
        return not waits or member.host.short_of_disk()

    def _somebody_catches_up(self, member: Member) -> bool:
        """Whether a peer is being sent what the next snapshot would take away.

        It would have to begin anew with that one, and under load never come to an end. A peer that
        does not get on, whatever the reason, is not waited for when much was written meanwhile;
        nor is one that gets on so slowly that it is sent less than is written.
        """
        raft = member.raft
        host = member.host
        written = host.written_bytes()
        known = self._laggards
        laggards: dict[str, Laggard] = {}
        waits = False
        for copy in raft.members:
            index = raft.sends_next(copy.node)
            # That it is in memory yet does not help: Raft offers nothing that a snapshot covers.
            if not 0 <= index <= member.applied_index:
                continue
            position = index + host.sent_bytes(member, copy.node)
            laggard = known.get(copy.node) if known is not None else None
            if laggard is None:
                # What is read for peers is twice what is written: it has all of the log by then.
                bound = max(host.pinned_bytes_max(), 2 * host.log_bytes())
                laggard = Laggard(position, written, bound)
            elif position != laggard.position:
                laggard.position = position
                laggard.moved_at = written
            laggards[copy.node] = laggard
            stuck = written - laggard.moved_at > host.pinned_bytes_max()
            if not stuck and written - laggard.begun_at <= laggard.bound:
                waits = True
        self._laggards = laggards if laggards else None
        return waits

    def persisted(self, member: Member, batch: Batch) -> None:
        """A snapshot is durable."""
        taken = self._taken_over
        if taken is not None:
            if taken.logged and batch.index == taken.index:
                self._taken_over = None
                self._install(member, taken)
        elif self._pending and batch.index == self._index:
            self.payload = self._pending
            self._pending = b""
            member.raft.compacted(batch.index)

    # --- a leader's -----------------------------------------------------------------------------

    def go_on(self, member: Member) -> None:
        """Write a leader's snapshot that is here into the log, when the machine is ready for it.

        Until then the log is given up still, as while that comes: nothing is taken for what is
        lost, and no message of the snapshot for one that may go.
        """
        taken = self._taken_over
        if taken is None or taken.logged or member.stopped:
            return
        if not taken.go_on(member):
            member.host.apply_later(member)
            return
        taken.logged = True
        member.log.snapshot(
            taken.index, taken.payload, taken.stamp_ms, taken.term, taken.parts.next_message
        )
        member.host.appended(True)

    def prepare_install(self, member: Member, offer: SnapshotOffer) -> None:
        """Give the log up for a leader's snapshot.

        From here on the disk may hold nothing of the group, and next an older snapshot of another
        leader, by whose members this one could be a majority by itself. Until its log reaches as
        far as this snapshot, it neither stands nor votes for who has less (R-20).
        """
        self._draft = None
        member.observing.end(member)
        member.raft.give_up_log(offer.snapshot_term, offer.index)
        member.hard_state.members = offer.members
        member.hard_state.floor_term = member.raft.state.floor_term
        member.hard_state.floor_index = member.raft.state.floor_index
        member.save_hard_state(None)
        member.log.reset_for_install()
        # One that came before and is not durable yet is void, too.
        self._taken_over = None

    def take_over(
        self, member: Member, index: i64, term: i64, stamp_ms: i64, unwrapping: Unwrapping
    ) -> None:
        """All of a leader's snapshot is here; it takes effect when it is durable."""
        self._taken_over = TakenOver(index, term, stamp_ms, unwrapping)
        self._pending = b""
        self._draft = None
        self.go_on(member)

    def _install(self, member: Member, taken: TakenOver) -> None:
        """A leader's snapshot is durable in this node's log: go on from there."""
        now_ms = member.host.monotonic_ms()
        member.raft.snapshot_installed(taken.index, taken.term, taken.parts.members, now_ms)
        self._index = taken.index
        self.payload = taken.payload
        member.go_on_from(taken.index, taken.parts)

    def is_whole(self) -> bool:
        """Whether all of a leader's snapshot is here, and only not in force yet."""
        return self._taken_over is not None

    def give_up_install(self, member: Member) -> None:
        """The rest of a leader's snapshot will not come: begin with nothing, as on a new disk.

        What this member ever acknowledged is below that snapshot, which a majority without it has.
        """
        if member.log.incomplete and self._taken_over is None:
            member.begin_empty()

    def forget(self) -> None:
        """The log begins with nothing."""
        self._index = 0
        self._draft = None
        self.payload = b""
        self._taken_over = None
