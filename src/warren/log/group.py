"""One group's log: append, snapshot, and read by message number."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.log.batch import (
    BATCH_BYTES_MAX,
    HEADER_BYTES,
    KIND_COMMAND,
    KIND_DROP,
    KIND_MESSAGES,
    KIND_SNAPSHOT,
    Batch,
)
from warren.log.cache import Share
from warren.log.files import Extents, LogFile
from warren.log.listener import BatchReader, RawReader
from warren.log.reading import ReadJob
from warren.log.store import Store
from warren.log.wal import Wal


@final
class GroupLog:
    """The log of one queue, or of another Raft group.

    Attributes:
        id: The group; ids are never used twice.
        owner: The node's own object for this group, to get from a batch to it.
        last_index: Index of the newest entry appended.
        persisted_index: Index of the newest durable entry.
        snapshot_index: Index of the newest durable snapshot, -1 if there is none.
        next_message: The number the next message gets.
        written_messages: The number behind the newest durable message.
        dropped: Whether the group has been deleted.
        places: Where its batches lie, in log order.
        share: Its part of the cache.
    """

    def __init__(self, store: Store, wal: Wal, group_id: i64) -> None:
        self.id: i64 = group_id
        self.owner: object | None = None
        self.last_index: i64 = 0
        self.persisted_index: i64 = 0
        self.snapshot_index: i64 = -1
        self.next_message: i64 = 0
        self.written_messages: i64 = 0
        self.dropped = False
        self.places: list[Extents] = []
        self.share = Share()
        self.store = store
        self._wal = wal

    def append(
        self,
        kind: i64,
        term: i64,
        stamp_ms: i64,
        count: i64,
        lengths: bytes,
        payload: bytes,
        origin: object | None,
    ) -> Batch:
        """Add an entry; it is on its way to disk with the next `Log.flush`.

        Args:
            kind: KIND_MESSAGES, KIND_TRANSIENT or KIND_COMMAND.
            term: Raft term of the entry.
            stamp_ms: The leader's wall time.
            count: Number of messages; 0 for a command.
            lengths: Bytes of each record, as `count` little-endian u32.
            payload: The records back to back, or the command.
            origin: Handed back with the batch when it is persisted.

        Returns:
            The batch, with its index and the number of its first message.
        """
        assert KIND_MESSAGES <= kind <= KIND_COMMAND, "snapshots and drops have their own ways"
        assert (count == 0) == (kind == KIND_COMMAND) and len(lengths) == 4 * count
        assert not self.dropped, "a deleted group takes no entries"
        size: i64 = len(payload)
        assert HEADER_BYTES + 4 * count + size <= BATCH_BYTES_MAX
        self.last_index += 1
        batch = Batch(
            self,
            kind,
            self.last_index,
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
        )
        if count > 0:
            self.next_message += count
            self.share.recent.push(batch)
        self._wal.gather(batch)
        return batch

    def snapshot(self, index: i64, state: bytes, stamp_ms: i64, term: i64 = 0) -> Batch:
        """Add a snapshot: the machine's state, without bodies, after applying up to `index`.

        Once it is persisted, entries up to `index` are needed no more, but for the messages that
        `LogListener.live_runs` names.
        """
        assert 0 <= index <= self.last_index, "a snapshot covers entries that were appended"
        assert not self.dropped, "a deleted group takes no snapshot"
        assert HEADER_BYTES + len(state) <= BATCH_BYTES_MAX
        batch = Batch(
            self,
            KIND_SNAPSHOT,
            index,
            term,
            self.next_message,
            0,
            stamp_ms,
            b"",
            0,
            state,
            0,
            len(state),
            None,
        )
        self._wal.gather(batch)
        return batch

    def cached(self, number: i64) -> Batch | None:
        """The batch that holds a message, if it is in memory."""
        return self.share.find(number)

    def read(self, first: i64, last: i64, max_bytes: i64, reader: BatchReader) -> None:
        """Fetch the batches that hold the messages `first` to `last`, both included.

        The reader is called later, from the executor, once: with batches of about `max_bytes`
        in all, at least one if any is left. They are kept in the cache.
        """
        ReadJob(self, first, last, max_bytes, reader, None).start()

    def read_raw(self, first: i64, last: i64, max_bytes: i64, reader: RawReader) -> None:
        """As `read`, for the bytes of the batches; they do not enter the cache."""
        ReadJob(self, first, last, max_bytes, None, reader).start()

    def written(self, batch: Batch, file: LogFile, offset: i64, max_span: i64) -> None:
        """A batch of this group is durable, at this place. For the WAL only."""
        if batch.kind == KIND_DROP:
            file.drops.append(self.id)
            self.store.dropping.discard(self.id)
            return
        if self.places and self.places[-1].file is file:
            extents = self.places[-1]
        else:
            extents = file.extents(self.id)
            self.places.append(extents)
        size = batch.size()
        if batch.kind == KIND_SNAPSHOT:
            extents.add_snapshot(batch.index, offset, size)
            if batch.index > self.snapshot_index:
                self.snapshot_index = batch.index
            return
        extents.add(batch.kind, batch.index, batch.first, batch.count, offset, size, max_span)
        self.persisted_index = batch.index
        if batch.count > 0:
            self.written_messages = batch.first + batch.count
        # A deleted group's batches are indexed all the same: it is back if the machine stops
        # before the DROP batch is durable.
        if batch.count > 0 and not self.dropped:
            self.store.cache.admit(batch, self.share.recent)

    def recovered(self, extents: Extents) -> None:
        """What one file holds of this group, in log order. For recovery only."""
        self.places.append(extents)
        if extents.snapshot_offset >= 0 and extents.snapshot_index > self.snapshot_index:
            self.snapshot_index = extents.snapshot_index
        if extents.next_message > self.next_message:
            self.next_message = extents.next_message
            self.written_messages = extents.next_message

    def begin_replay(self, snapshot: Batch | None) -> None:
        """Entries behind the snapshot follow, or all there are. For recovery only."""
        if snapshot is not None:
            self.last_index = snapshot.index
            self.persisted_index = snapshot.index
            self.next_message = max(self.next_message, snapshot.first)

    def replayed(self, batch: Batch) -> bool:
        """Note the next entry; False if it is not the next. For recovery only."""
        if batch.index != self.last_index + 1:
            return False
        self.last_index = batch.index
        self.persisted_index = batch.index
        return True
