"""One group's log: append, snapshot, truncate, and read by message number or by index."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.log.batch import (
    BATCH_BYTES_MAX,
    HEADER_BYTES,
    KIND_COMMAND,
    KIND_DROP,
    KIND_MESSAGES,
    KIND_RESET,
    KIND_SNAPSHOT,
    KIND_STATE,
    KIND_TRANSIENT,
    KIND_TRUNCATE,
    Batch,
    Header,
)
from warren.log.cache import Share
from warren.log.entries import EntriesJob
from warren.log.extents import NOWHERE, Extents, Tombstone
from warren.log.files import LogFile
from warren.log.listener import BatchReader, GroupOwner, RawReader
from warren.log.live import LiveJob
from warren.log.reading import ReadJob
from warren.log.runlist import RunList
from warren.log.source import MessageSource
from warren.log.store import Store
from warren.log.tail import Tail
from warren.log.wal import Wal
from warren.term_runs import TermRuns

STATE_BYTES_MAX: Final = 65_536
"""A group's state is copied whenever its file is rewritten, so it has to be small."""


@final
class GroupLog(MessageSource):
    """The log of one queue, or of another Raft group.

    Attributes:
        id: The group; ids are never used twice.
        owner: The node's own object for this group, to get from a batch to it.
        last_index: Index of the newest entry appended.
        persisted_index: Index of the newest durable entry.
        snapshot_index: Index of the newest durable snapshot, -1 if there is none.
        state_number: Number of the newest durable state, 0 if there is none.
        next_message: The number the next message gets.
        written_messages: The number after the newest durable message.
        stamp_ms: The latest wall time that any entry or snapshot here ever had.
        dropped: Whether the group has been deleted.
        unfit: Whether damage keeps the group from being used; what it has is kept as it is.
        incomplete: Whether the group was emptied for a leader's snapshot that is not durable yet.
        unwritten: Entries and snapshots that count and are not durable yet.
        places: Where its batches lie, in log order.
        share: Its part of the cache.
    """

    def __init__(self, store: Store, wal: Wal, group_id: i64) -> None:
        self.id: i64 = group_id
        self.owner: GroupOwner | None = None
        self.last_index: i64 = 0
        self.persisted_index: i64 = 0
        self.snapshot_index: i64 = -1
        self.state_number: i64 = 0
        self.next_message: i64 = 0
        self.written_messages: i64 = 0
        self.stamp_ms: i64 = 0
        self.dropped = False
        self.incomplete = False
        self.unfit = False
        self.unwritten: i64 = 0
        self.places: list[Extents] = []
        self.share = Share()
        self._cuts: list[int] | None = None
        """The lowest index that each truncation or reset of this life made void, in order."""
        self.store = store
        self._wal = wal
        self._tail: Tail | None = None
        self._terms = TermRuns()
        self._states: i64 = 0
        """States appended, durable or not."""
        self._marks: list[Batch] | None = None
        """Tombstones that are not durable yet."""

    # --- what a leader does, and the only member of a group -------------------------------------

    def append(
        self,
        kind: i64,
        term: i64,
        stamp_ms: i64,
        count: i64,
        lengths: bytes,
        payload: bytes,
        origin: object | None,
        session: i64 = 0,
        sequence: i64 = 0,
        flavour: i64 = 0,
        life_ms: i64 = -1,
        facts: bytes = b"",
    ) -> Batch:
        """Add an entry; it is on its way to disk with the next `Log.flush`.

        Args:
            kind: KIND_MESSAGES, KIND_TRANSIENT or KIND_COMMAND.
            term: Raft term of the entry, not below `last_term`.
            stamp_ms: The leader's wall time.
            count: Number of messages; 0 for a command.
            lengths: Bytes of each record, as `count` little-endian u32.
            payload: The records back to back, or the command.
            origin: Handed back with the batch when it is persisted.
            session: Which life of which node proposed the entry, 0 for none.
            sequence: Its number within that session and group.
            flavour: What the records are; the log keeps it, and asks no more.
            life_ms: After what time they expire; negative for never. Likewise.
            facts: What is known of each of them (`warren.log.facts`); empty if nothing is.

        Returns:
            The batch, with its index and the number of its first message.
        """
        assert KIND_MESSAGES <= kind <= KIND_COMMAND, "snapshots and drops have their own ways"
        assert (count == 0) == (kind == KIND_COMMAND) and len(lengths) == 4 * count
        assert not self.dropped and not self.incomplete, "the group takes no entries"
        size: i64 = len(payload)
        assert HEADER_BYTES + 4 * count + len(facts) + size <= BATCH_BYTES_MAX
        batch = Batch(
            self,
            kind,
            self.last_index + 1,
            term,
            self.next_message,
            count,
            stamp_ms,
            lengths,
            0,
            payload,
            0,
            size,
            origin,
            session,
            sequence,
            flavour,
            life_ms,
            facts,
        )
        self._take(batch)
        return batch

    def _take(self, batch: Batch) -> None:
        """Make a batch the newest entry."""
        if batch.term != self._terms.last_term:
            assert batch.term > self._terms.last_term, "terms never fall along a log"
            self._terms.note(batch.index, batch.term)
        self.last_index = batch.index
        self.stamp_ms = max(self.stamp_ms, batch.stamp_ms)
        if batch.count > 0:
            self.next_message = batch.first + batch.count
            self.share.recent.push(batch)
        if self._tail is not None:
            self._tail.push(batch)
        self._wal.gather(batch)

    def snapshot(
        self, index: i64, state: bytes, stamp_ms: i64, term: i64 = 0, next_message: i64 = -1
    ) -> Batch:
        """Add a snapshot: the machine's state, without bodies, after applying up to `index`.

        Once it is persisted, entries up to `index` are needed no more, but for the messages that
        `LogListener.live_runs` names.

        Args:
            index: The last entry applied.
            state: The machine's state.
            stamp_ms: Wall time.
            term: Term of that entry; looked up if it is 0. Needed after `reset_for_install`,
                where the snapshot, once it is durable, makes the group whole.
            next_message: The number of the first message after the snapshot; likewise.
        """
        assert not self.dropped, "a deleted group takes no snapshot"
        assert HEADER_BYTES + len(state) <= BATCH_BYTES_MAX
        if self.incomplete:
            assert index > 0 and term > 0 and next_message >= 0, "a leader's snapshot says these"
        else:
            assert 0 <= index <= self.last_index, "a snapshot covers entries that were appended"
            if term == 0:
                term = self._terms.at(index)
            if next_message < 0:
                next_message = self.next_message
                if self._tail is not None and self._tail.knows(index + 1):
                    # Entries behind the snapshot, and their messages, may be truncated yet.
                    next_message = self._tail.first_of(index + 1)
        self.stamp_ms = max(self.stamp_ms, stamp_ms)
        return self._control(
            KIND_SNAPSHOT, index, term, next_message, stamp_ms, state, None, self._states
        )

    def save_state(self, payload: bytes, origin: object | None) -> Batch:
        """Add what consensus has to remember of itself: opaque, and the newest counts.

        Reported by `LogListener.persisted`; handed to `Replayer.state` at the next start. Neither
        truncating nor resetting touches it.
        """
        assert not self.dropped, "a deleted group has no state"
        assert len(payload) <= STATE_BYTES_MAX, "a state is small"
        self._states += 1
        return self._control(KIND_STATE, self._states, 0, 0, 0, payload, origin)

    def _control(
        self,
        kind: i64,
        index: i64,
        term: i64,
        first: i64,
        stamp_ms: i64,
        payload: bytes,
        origin: object | None,
        states: i64 = 0,
    ) -> Batch:
        size: i64 = len(payload)
        batch = Batch(
            self, kind, index, term, first, 0, stamp_ms, b"", 0, payload, 0, size, origin, 0, states
        )  # fmt: skip
        self._wal.gather(batch)
        return batch

    # --- what a follower does -------------------------------------------------------------------

    def append_replica(self, data: bytes, at: i64, origin: object | None) -> Batch:
        """Add an entry that the leader sent, exactly as it is.

        Args:
            data: Encoded batches back to back. A batch that makes up most of the buffer keeps it.
            at: Where the one to add starts; the next one starts `size()` bytes later.
            origin: Handed back with the batch when it is persisted.

        Raises:
            CorruptRecord: There is no whole batch of this group, or it is not the next entry.
        """
        batch = self.received_entry(data, at)
        batch.origin = origin
        self.append_received(batch)
        return batch

    def received_entry(self, data: bytes, at: i64) -> Batch:
        """An entry that the leader sent, checked by itself and not added yet.

        Raises:
            CorruptRecord: There is no whole entry of this group.
        """
        batch = self._received(data, at, None)
        if batch.kind > KIND_COMMAND:
            raise CorruptRecord(self._replica_path(), at, "this is no entry")
        return batch

    def append_received(self, batch: Batch) -> None:
        """Add what `received_entry` gave.

        Raises:
            CorruptRecord: It is not the next entry.
        """
        assert not self.dropped and not self.incomplete, "the group takes no entries"
        problem = ""
        if batch.index != self.last_index + 1:
            problem = f"entry {batch.index} does not follow entry {self.last_index}"
        elif batch.first != self.next_message:
            problem = f"message {batch.first} comes where {self.next_message} belongs"
        elif batch.term < self._terms.last_term:
            problem = f"term {batch.term} comes behind term {self._terms.last_term}"
        if problem:
            raise CorruptRecord(self._replica_path(), 0, problem)
        self._take(batch)

    def _replica_path(self) -> str:
        return f"batches received for group {self.id}"

    def _received(self, data: bytes, at: i64, origin: object | None) -> Batch:
        header = Header()
        problem = header.load(data, at, len(data))
        if not problem:
            if header.group != self.id:
                problem = f"the batch is of group {header.group}"
            elif not header.checksum_holds(data, at):
                problem = "the checksum does not match"
            elif (header.count == 0) != (header.kind > KIND_TRANSIENT) or header.kind == 0:
                problem = "kind and count contradict each other"
        if problem:
            raise CorruptRecord(self._replica_path(), at, problem)
        if 2 * header.size < len(data):
            # Do not let a small batch keep a large buffer in memory.
            data = data[at : at + header.size]
            at = 0
        batch = header.batch(self, data, at)
        batch.origin = origin
        return batch

    def truncate_from(self, index: i64) -> None:
        """Make the entries from an index on void, durable or not; at once, and for good.

        That is durable itself no later than the next entry. Until then a crash may bring back what
        was durable before.
        """
        assert not self.dropped and not self.incomplete, "the group has no entries"
        assert self.snapshot_index < index <= self.last_index + 1, "a snapshot is never truncated"
        if index > self.last_index:
            return
        tail = self._tail
        assert tail is not None and tail.knows(index), "keep_recent was not called in time"
        next_message = tail.first_of(index)
        self._mark(KIND_TRUNCATE, index, 0, next_message)
        tail.cut(index)
        self.last_index = index - 1
        self.persisted_index = min(self.persisted_index, index - 1)
        self.next_message = next_message
        self.written_messages = min(self.written_messages, next_message)
        self.share.recent.cut(next_message)
        self.share.read_back.cut(next_message)

    def reset_for_install(self) -> None:
        """Make all entries and snapshots void, to take over a leader's snapshot.

        What follows is `store_live` for the messages that live in it, then `snapshot`. Until that
        is durable the group is incomplete: a start finds it so, and empty.
        """
        self._reset(True)

    def begin_empty(self) -> None:
        """Give up taking over a snapshot: the group is whole, without any entry."""
        assert self.incomplete, "only behind reset_for_install"
        self._reset(False)

    def _reset(self, opens: bool) -> None:
        assert not self.dropped, "a deleted group is gone"
        self._mark(KIND_RESET, 0, 1 if opens else 0, 0)
        self.incomplete = opens
        self.unfit = False
        self.last_index = 0
        self.persisted_index = 0
        self.snapshot_index = -1
        self.next_message = 0
        self.written_messages = 0
        if self._tail is not None:
            self._tail.restart(1)
        self.store.cache.forget(self.share.recent)
        self.store.cache.forget(self.share.read_back)

    def _mark(self, kind: i64, index: i64, term: i64, next_message: i64) -> None:
        """Make what has an index or a higher one void."""
        self._wal.make_void(self, index)
        self._keep_mark(self._control(kind, index, term, next_message, 0, b"", None))
        if self._cuts is None:
            self._cuts = []
        self._cuts.append(index)
        self._terms.cut(index)
        self.conceal()

    def store_live(self, data: bytes, at: i64) -> Batch:
        """Add a message batch that lives in the snapshot being taken over, as it is.

        Batches come in ascending order; of one entry there may be several.

        Raises:
            CorruptRecord: There is no whole message batch of this group.
        """
        assert not self.dropped and self.incomplete, "only behind reset_for_install"
        batch = self._received(data, at, None)
        if batch.kind > KIND_TRANSIENT or batch.first < self.next_message:
            raise CorruptRecord(self._replica_path(), at, "this is no further message batch")
        self.next_message = batch.first + batch.count
        self._terms.note(batch.index, batch.term)
        self._wal.gather(batch)
        return batch

    # --- what is there --------------------------------------------------------------------------

    @property
    def last_term(self) -> i64:
        """Term of the newest entry, 0 if there never was one."""
        return self._terms.last_term

    def term_at(self, index: i64) -> i64:
        """Term of an entry from the newest snapshot on; 0 for index 0, -1 above `last_index`."""
        return self._terms.at(index) if index <= self.last_index else -1

    def message_at(self, index: i64) -> i64:
        """The number the next message had before an entry; -1 if that is not known any more."""
        if index == self.last_index + 1:
            return self.next_message
        tail = self._tail
        return -1 if tail is None or not tail.knows(index) else tail.first_of(index)

    def keep_recent(self, limit_bytes: i64) -> None:
        """Keep entries in memory, for a group with several members; see `recent`.

        Args:
            limit_bytes: Size up to which durable entries are kept; others are kept in any case.
        """
        if self._tail is None:
            self._tail = Tail(self.last_index + 1)
        self._tail.limit_bytes = limit_bytes
        self._tail.trim(self.persisted_index)

    def recent(self, index: i64) -> Batch | None:
        """An entry, if `keep_recent` still has it in memory."""
        return None if self._tail is None else self._tail.find(index)

    def cached(self, number: i64) -> Batch | None:
        """The batch that holds a message, if it is in memory."""
        return self.share.find(number)

    def messages_end(self) -> i64:
        """The number that the next message gets."""
        return self.next_message

    def given_up(self) -> bool:
        """Whether the group was emptied for a leader's snapshot that is not durable yet."""
        return self.incomplete

    def read_share_bytes(self) -> i64:
        """How much `read` may bring into memory now without driving out what others read."""
        return self.store.cache.read_share_bytes()

    def read(self, first: i64, last: i64, max_bytes: i64, reader: BatchReader) -> None:
        """Fetch the batches that hold the messages `first` to `last`, both included.

        The reader is called later, from the executor, once: with batches of about `max_bytes`
        in all, at least one if any is left. They are kept in the cache.
        """
        ReadJob(self, first, last, max_bytes, reader, None).start()

    def read_raw(self, first: i64, last: i64, max_bytes: i64, reader: RawReader) -> None:
        """As `read`, for the bytes of the batches; they do not enter the cache.

        If the group was deleted or reset meanwhile, the error is `Compacted`.
        """
        ReadJob(self, first, last, max_bytes, None, reader).start()

    def read_entries(
        self, first_index: i64, last_index: i64, max_bytes: i64, reader: BatchReader
    ) -> None:
        """Fetch entries of all kinds by index, both ends included, in order and without a hole.

        The reader is called later, from the executor, once: with about `max_bytes` in all, at
        least one entry if there is one. `Batch.encoded` gives an entry's bytes. Entries that are
        not durable are among them if `keep_recent` was called. Those that a snapshot covers cannot
        be had: the error is `Compacted`.
        """
        EntriesJob(self, first_index, last_index, max_bytes, reader).start()

    def read_live(self, runs: RunList, first: i64, max_bytes: i64, reader: RawReader) -> None:
        """Fetch the messages of some runs only, as encoded batches, for `store_live`.

        The reader is called later, from the executor, once; `next_message` says where to go on.
        Messages that were settled since are left out. If the group was deleted or reset
        meanwhile, the error is `Compacted`.

        Args:
            runs: The messages that live in a snapshot.
            first: Those before it are left out.
            max_bytes: About how much; at least one batch if any is left.
            reader: Who wants them.
        """
        LiveJob(self, runs, first, max_bytes, reader).start()

    # --- for the log's other parts --------------------------------------------------------------

    def written(self, batch: Batch, file: LogFile, offset: i64, max_span: i64) -> None:
        """A batch of this group is durable, at this place. For the WAL only."""
        kind = batch.kind
        if kind == KIND_DROP:
            file.drops.append(self.id)
            self.store.dropping.discard(self.id)
            return
        if self.places and self.places[-1].file is file:
            extents = self.places[-1]
        else:
            extents = file.extents(self.id)
            self.places.append(extents)
            self.conceal()
        if kind >= KIND_SNAPSHOT:
            self._control_written(batch, extents, offset)
            return
        count = batch.count
        extents.add(
            kind, batch.index, batch.term, batch.first, count, offset, batch.size(), max_span
        )
        if batch.void:
            return
        if count > 0:
            self.written_messages = batch.first + count
        if self.incomplete:
            return
        self.persisted_index = batch.index
        if self._tail is not None:
            self._tail.trim(batch.index)
        # A deleted group's batches are indexed all the same: it is back if the machine stops
        # before the DROP batch is durable.
        if count > 0 and not self.dropped:
            self.store.cache.admit(batch, self.share.recent)

    def let_go(self) -> None:
        """The group is deleted for good, and all that was written of it was reported.

        What refers to it, and it to that, would otherwise stay until Python's collector finds it.
        """
        self.owner = None
        self._tail = None
        self._marks = None

    def _control_written(self, batch: Batch, extents: Extents, offset: i64) -> None:
        if batch.kind == KIND_STATE:
            extents.add_state(batch.index, offset, batch.size())
            self.state_number = batch.index
        elif batch.kind == KIND_SNAPSHOT:
            extents.add_snapshot(batch.index, offset, batch.size())
            if batch.void or batch.index <= self.snapshot_index:
                return
            self.snapshot_index = batch.index
            if self.incomplete:
                self._installed(batch)
            elif self._tail is not None:
                self._tail.forget_to(batch.index)
        else:
            extents.cut(Tombstone(batch.index, batch.first, offset, batch.term > 0))
            # One tombstone may make another superfluous that was found missing at start-up.
            marks = self._marks
            assert marks is not None, "it is one of them"
            while marks.pop(0) is not batch:
                pass
            self.conceal()

    def _installed(self, snapshot: Batch) -> None:
        self.incomplete = False
        self.last_index = snapshot.index
        self.persisted_index = snapshot.index
        self.next_message = snapshot.first
        self.written_messages = snapshot.first
        self._terms.know(snapshot.index, snapshot.term)
        if self._tail is not None:
            self._tail.restart(snapshot.index + 1)

    def conceal(self) -> None:
        """Tell the extents of every file what the tombstones after them make void."""
        index: i64 = NOWHERE
        next_message: i64 = NOWHERE
        for batch in self._marks or []:
            index = min(index, batch.index)
            next_message = min(next_message, batch.first)
        at: i64 = len(self.places)
        while at > 0:
            at -= 1
            place = self.places[at]
            if place.hidden_from != index:
                place.hide(index, next_message)
            for tombstone in place.tombstones or []:
                index = min(index, tombstone.index)
                next_message = min(next_message, tombstone.next_message)

    def _keep_mark(self, tombstone: Batch) -> None:
        if self._marks is None:
            self._marks = []
        self._marks.append(tombstone)

    @property
    def tombstones_pending(self) -> bool:
        """Whether anything is void only by tombstones that are not durable yet."""
        marks = self._marks
        return marks is not None and len(marks) > 0 and not marks[-1].void

    def cut_count(self) -> i64:
        """How many truncations and resets there were in this life."""
        return 0 if self._cuts is None else len(self._cuts)

    def lowest_cut(self, seen: i64) -> i64:
        """The lowest index made void since there had been so many truncations and resets."""
        lowest: i64 = NOWHERE
        cuts = self._cuts
        if cuts is not None:
            for at in range(seen, i64(len(cuts))):
                lowest = min(lowest, i64(cuts[at]))
        return lowest

    def recovered(self, extents: Extents) -> None:
        """What one file holds of this group, in log order. For recovery only."""
        self.places.append(extents)
        for tombstone in extents.tombstones or []:
            if tombstone.index == 0:
                self.snapshot_index = -1
                self.incomplete = tombstone.opens
        if extents.snapshot_offset >= 0:
            # Of snapshots in one file, those before a RESET are not noted.
            self.incomplete = False
            if extents.snapshot_index > self.snapshot_index:
                self.snapshot_index = extents.snapshot_index
        if extents.state_number > self.state_number:
            self.state_number = extents.state_number
            self._states = extents.state_number

    def begin_replay(self, snapshot: Batch | None) -> None:
        """Begin with a snapshot; its later entries follow, or all there are. For recovery only."""
        if self.incomplete:
            # What came of the snapshot counts for nothing, as if there were another RESET. Each
            # start finds it so: it need not be written.
            reset = Batch(self, KIND_RESET, 0, 1, 0, 0, 0, b"", 0, b"", 0, 0, None)
            reset.void = True
            self._keep_mark(reset)
        self.conceal()
        for place in self.places:
            self._terms.merge(place.terms, place.hidden_from)
            if place.size > 0:
                self.next_message = max(self.next_message, place.next_message)
        if snapshot is not None:
            self.last_index = snapshot.index
            self.persisted_index = snapshot.index
            self.next_message = max(self.next_message, snapshot.first)
            self._terms.know(snapshot.index, snapshot.term)
            self.stamp_ms = max(self.stamp_ms, snapshot.stamp_ms)
        self.written_messages = self.next_message
        if self.state_number > 0:
            self._tail = Tail(self.last_index + 1)

    def gap_before(self, index: i64) -> None:
        """Entries before this index are lost; it is the next one. For recovery only."""
        self.last_index = index - 1
        self.persisted_index = index - 1
        if self._tail is not None:
            self._tail.restart(index)

    def replayed(self, batch: Batch) -> bool:
        """Note the next entry; False if it is not the next. For recovery only."""
        if batch.index != self.last_index + 1:
            return False
        self.last_index = batch.index
        self.persisted_index = batch.index
        self.stamp_ms = max(self.stamp_ms, batch.stamp_ms)
        if self._tail is not None:
            self._tail.note(batch.first)
        return True


def newest_snapshot(group: GroupLog) -> Extents | None:
    """Where the newest durable snapshot of a group lies."""
    newest: Extents | None = None
    for extents in group.places:
        if extents.has_snapshot and extents.snapshot_index == group.snapshot_index:
            newest = extents
    return newest


def newest_state(group: GroupLog) -> Extents | None:
    """Where the newest durable state of a group lies."""
    newest: Extents | None = None
    for extents in group.places:
        if extents.state_offset >= 0 and extents.state_number == group.state_number:
            newest = extents
    return newest
