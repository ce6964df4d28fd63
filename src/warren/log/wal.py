"""Group commit: what was gathered since the last write goes out in one write.

One round is in flight at a time. While it is, appends gather for the next. A round is one
`File.write_durable` on the `wal` lane, where headers and checksums are made too, so that the node's
thread only lists what it appends.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from warren.log.batch import (
    HEADER_BYTES,
    KIND_COMMAND,
    KIND_DROP,
    KIND_SNAPSHOT,
    KIND_STATE,
    KIND_TRUNCATE,
    Batch,
    aligned,
    digest_of,
    encode_round,
    identity,
)
from warren.log.files import LogFile, lacks_space
from warren.log.manifest import DIRECTORY, Manifest, log_path
from warren.log.spares import Spares
from warren.log.store import Store
from warren.ports import Disk, Job

if TYPE_CHECKING:
    from warren.log.group import GroupLog

COPY_BYTES_MAX: Final = 4096
"""Up to this size copying a payload is cheaper than one more buffer for the kernel."""


BRIEF_BYTES: Final = 16_384
"""A write of this size takes a disk hardly longer than an empty one."""

BRIEF_BATCH_BYTES: Final = 2_048
"""Nor does a write of so much for each batch take long beside what the node's thread does for so
many batches before and after it (decision 86)."""

BRIEF_BYTES_MAX: Final = 1_048_576
"""More is not brief, however many batches it has."""

GAP_MS_MAX: Final = 500
"""More between two ticks is a stop of this node, which says nothing of the disk."""


def reserve(
    disk: Disk, file: LogFile, needed: i64, ahead: i64, chunk: i64, free_limit: i64
) -> bool:
    """Keep space allocated beyond what is needed now. Blocks.

    Args:
        needed: Size the file is about to have.
        ahead: Bytes to have in reserve.
        chunk: Bytes to allocate at a time.
        free_limit: Free bytes below which the disk counts as full.

    Returns:
        Whether there is space enough; False for a full disk.

    Raises:
        OSError: Any failure but a lack of space.
    """
    if file.reserved - needed < ahead:
        size = chunk
        while file.reserved + size - needed < ahead:
            size += chunk
        try:
            file.handle.allocate(file.reserved, size)
        except OSError as error:
            if not lacks_space(error):
                raise
            return False
        file.reserved += size
    return disk.free_bytes() >= free_limit


def standing(batches: list[Batch]) -> list[Batch]:
    """Those of a round's batches that are not void."""
    return [batch for batch in batches if not batch.void]


def reportable(batches: list[Batch]) -> list[Batch]:
    """Those of a round's batches that the owner of the log knows of."""
    return [batch for batch in batches if not batch.void and batch.kind < KIND_TRUNCATE]


ROUND_BATCHES_MIN: Final = 256
"""Batches that a round takes if there are so many.

What follows when they are durable is done in one turn of the loop. So a round has no more, unless
turns bring more: it then has twice what a turn brings, so that a node that takes in a message for
each of many queues in a turn does not fall behind its disk.
"""

ROUND_STATES_MAX: Final = 256
"""Votes and terms of one round: at a start each of many may make a leader."""


@final
class RoundJob(Job):
    """Writes one round, all that was gathered, and syncs it.

    Attributes:
        manifest: What has to be durable before, where the round may be of a newer version than the
            manifest says.
        published: Whether it is.
    """

    def __init__(self, wal: Wal, batches: list[Batch], number: i64) -> None:
        self.wal = wal
        store = wal.store
        outdated = store.version < store.version_due
        self.manifest = store.manifest(store.files) if outdated else None
        self.published = False
        self.batches = batches
        self.number: i64 = number
        self.size: i64 = HEADER_BYTES
        for batch in batches:
            self.size += batch.size()
        beside: i64 = min(BRIEF_BATCH_BYTES * len(batches), BRIEF_BYTES_MAX)
        small = self.size <= BRIEF_BYTES or self.size <= beside
        self.brief = small and store.brief_rounds and not outdated and wal.awaited
        self.file = wal.file
        self.start: i64 = wal.file.end
        self.end: i64 = 0
        self.written = False
        self.looked = False
        """Whether space was looked for, and `space` says something."""
        self.ahead: i64 = wal.ahead()
        self.space = True

    def run(self) -> None:
        wal = self.wal
        file = self.file
        size = self.size
        self.end = aligned(self.start + size)
        if file.reserved - self.end < self.ahead:
            self.looked = True
            self.space = reserve(
                wal.store.disk, file, self.end, self.ahead, wal.chunk, wal.free_limit
            )
            if file.reserved < self.end:
                return
        if self.manifest is not None and not self._publish(self.manifest):
            return
        heads: list[bytes] = []
        for batch in self.batches:
            heads.append(batch.encode_head())
        # The file is durable up to where this round starts: there is no other in flight.
        start = self.start
        own = identity(wal.store.salt, file.number)
        # Views of what others have, too: a copy of much would hold up the node's thread.
        buffers: list[Any] = []
        writer = BytesWriter()
        writer.write(encode_round(start, self.number, own, start, size, digest_of(heads)))
        for place, batch in enumerate(self.batches):
            writer.write(heads[place])
            if batch.payload_size <= COPY_BYTES_MAX:
                writer.write(batch.body())
            else:
                buffers.append(writer.getvalue())
                writer = BytesWriter()
                buffers.append(batch.view())
        writer.write(bytes(self.end - self.start - size))
        if len(writer) > 0:
            buffers.append(writer.getvalue())
        file.handle.write_durable(buffers, self.start)
        self.written = True

    def _publish(self, manifest: Manifest) -> bool:
        """Have the manifest say of which version this round is; False if there is no space."""
        disk = self.wal.store.disk
        try:
            manifest.draft(disk)
        except OSError as error:
            if lacks_space(error):
                return False
            raise
        manifest.publish(disk)
        self.published = True
        return True

    def done(self, error: BaseException | None) -> None:
        self.wal.round_done(self, error)


@final
class RollJob(Job):
    """Close the file being written and begin a new one."""

    def __init__(self, wal: Wal, number: i64, spare: LogFile | None, manifest: Manifest) -> None:
        self.wal = wal
        self.number: i64 = number
        self.spare = spare
        self.manifest = manifest
        self.file: LogFile | None = None

    def run(self) -> None:
        wal = self.wal
        disk = wal.store.disk
        file = self.spare if self.spare is not None else self._create(disk)
        if file is None:
            return
        try:
            self.manifest.draft(disk)
        except OSError as error:
            if not lacks_space(error):
                raise
            # Nothing names the new file. The old one grows on until there is space.
            if self.spare is None:
                file.handle.close()
                disk.remove(file.path)
            return
        self.manifest.publish(disk)
        self.file = file
        wal.file.handle.truncate(wal.file.end)

    def _create(self, disk: Disk) -> LogFile | None:
        """A new file with some space, durable by name; None if there is no space."""
        path = log_path(self.number)
        try:
            handle = disk.open(path, create=True)
        except OSError as error:
            if lacks_space(error):
                return None
            raise
        file = LogFile(self.number, path, handle)
        if not reserve(disk, file, 0, self.wal.chunk, self.wal.chunk, 0):
            handle.close()
            disk.remove(path)
            return None
        handle.sync()
        disk.sync_directory(DIRECTORY)
        return file

    def done(self, error: BaseException | None) -> None:
        self.wal.roll_done(self, error)


@final
class SpaceJob(Job):
    """Look whether there is space, between rounds."""

    def __init__(self, wal: Wal) -> None:
        self.wal = wal
        self.ahead: i64 = wal.ahead()
        self.space = True

    def run(self) -> None:
        wal = self.wal
        self.space = reserve(
            wal.store.disk, wal.file, wal.file.end, self.ahead, wal.chunk, wal.free_limit
        )

    def done(self, error: BaseException | None) -> None:
        self.wal.space_done(self, error)


@mypyc_attr(allow_interpreted_subclasses=True)
class FileKeeper:
    """Who follows the life of files."""

    @abstractmethod
    def rolled(self, old: LogFile) -> None:
        """A file is complete; a new one is being written."""

    @abstractmethod
    def snapshots_moved(self) -> None:
        """A round with snapshots or drops is durable: older files may be dispensable now."""


@final
class Wal:
    """The end of the log where batches are written.

    Attributes:
        file: The file being written.
        round_number: Number of the newest durable round.
        written_bytes: Size of all rounds of this life.
        waiting_bytes: Size of what was gathered and is not durable yet.
        awaited: Whether a client waits for what the next round writes.
        full: Whether publishes have to be refused for lack of space.
    """

    def __init__(self, store: Store, spares: Spares, file: LogFile, round_number: i64) -> None:
        self.store = store
        self.spares = spares
        self.keeper: FileKeeper | None = None
        self.file = file
        self.round_number: i64 = round_number
        self.written_bytes: i64 = 0
        self.waiting_bytes: i64 = 0
        self.chunk: i64 = store.config.reserve_bytes
        self.free_limit: i64 = store.config.disk_free_limit_bytes
        self.full = False
        self._round_bytes_max: i64 = store.config.round_bytes_max
        self._roll_at: i64 = store.config.wal_max_size_bytes
        self._replace_at: i64 = 1
        """Size at which a file that was only allocated gives way to a spare."""
        self._max_span: i64 = store.config.extent_bytes_max
        self._gathered: list[Batch] = []
        self._came: i64 = 0
        """How many were gathered in this turn."""
        self._coming: i64 = 0
        """How many a turn brings, the last ones together."""
        self._in_flight: list[Batch] = []
        self._busy = False
        self.awaited = False
        self._wanted = False
        """Whether another round has to follow the one in flight."""
        self._starved = False
        """Whether a round waits for space; only `tick` tries again."""
        self._held = False
        """Whether a round waits for a change of the manifest that is under way."""
        self._sealed = True
        """Whether the newest round is an empty one, so that all before it is vouched for."""
        self._written_since_tick = False
        self._closing = False
        self._space_checked_ms: i64 = 0
        self._ticked_ms: i64 = 0
        self._seen_ms: i64 = -1
        """At which tick the job under way was first seen; -1 if it is newer."""

    @property
    def idle(self) -> bool:
        """Whether nothing is gathered and no write is under way."""
        return not self._busy and not self._gathered

    @property
    def stalled_ms(self) -> i64:
        """How long the write under way has been seen to be, as of the newest tick."""
        return self._ticked_ms - self._seen_ms if self._busy and self._seen_ms >= 0 else 0

    def ahead(self) -> i64:
        """Bytes to keep reserved in the file being written: a spare is reserve enough."""
        return 0 if self.spares.any else self.chunk

    def gather(self, batch: Batch) -> None:
        """Take a batch for the next round."""
        if batch.kind <= KIND_SNAPSHOT:
            group = batch.group
            assert group is not None
            group.unwritten += 1
        self._gathered.append(batch)
        self._came += 1
        self.waiting_bytes += batch.size()

    def make_void(self, group: GroupLog, index: i64) -> None:
        """Have a group's entries from an index on count no more; with index 0 snapshots, too.

        Those gathered are not written at all; those in flight are, but are not reported.
        """
        if group.unwritten == 0:
            # Very many groups may be cut in a turn, each with all that the others have gathered.
            return
        newest = KIND_SNAPSHOT if index == 0 else KIND_COMMAND
        for batch in self._in_flight:
            if batch.group is group and batch.kind <= newest and batch.index >= index:
                if not batch.void:
                    group.unwritten -= 1
                batch.void = True
        kept: list[Batch] = []
        for batch in self._gathered:
            if batch.group is group and batch.kind <= newest and batch.index >= index:
                batch.void = True
                group.unwritten -= 1
                self.waiting_bytes -= batch.size()
            else:
                kept.append(batch)
        self._gathered = kept

    def flush(self, awaited: bool) -> None:
        """Start a round with what a turn gathered, after the one in flight if there is one.

        Args:
            awaited: Whether a client waits for what was gathered; else its round is not brief.
        """
        if self._came > 0:
            self._coming = max(self._came, self._coming * 3 // 4)
            self._came = 0
        if self._starved or not self._gathered or self.store.failure is not None:
            return
        self.awaited = self.awaited or awaited
        if self._busy:
            self._wanted = True
            return
        self._held = self._waits_for_manifest()
        if self._held:
            return
        if self._roll_due() and not self._closing and not self.store.manifest_busy:
            self._roll()
        else:
            self._start_round(self._take())

    def _waits_for_manifest(self) -> bool:
        """Whether a round would have to change the manifest, which is being changed.

        Once or twice in the life of a data directory; `tick` tries again.
        """
        store = self.store
        return store.version < store.version_due and store.manifest_busy and not self._closing

    def _roll_due(self) -> bool:
        return self.file.end >= self._roll_at or (
            self.spares.any and not self.file.prepared and self.file.end >= self._replace_at
        )

    def _take(self) -> list[Batch]:
        size: i64 = 0
        taken: i64 = 0
        states = 0
        most = max(ROUND_BATCHES_MIN, 2 * self._coming)
        for batch in self._gathered:
            if size >= self._round_bytes_max or taken >= most:
                break
            if batch.kind == KIND_STATE:
                states += 1
                if states > ROUND_STATES_MAX:
                    break
            size += batch.size()
            taken += 1
        if taken == len(self._gathered):
            batches = self._gathered
            self._gathered = []
        else:
            batches = self._gathered[:taken]
            self._gathered = self._gathered[taken:]
            self._wanted = True
        return batches

    def _start_round(self, batches: list[Batch]) -> None:
        self._in_flight = batches
        job = RoundJob(self, batches, self.round_number + 1)
        self.awaited = self.awaited and len(self._gathered) > 0
        if job.manifest is not None:
            self.store.manifest_busy = True
        if self._closing:
            self._busy = True
            job.run()
            job.done(None)
        else:
            self._begin(job)

    def _begin(self, job: Job) -> None:
        self._busy = True
        self._seen_ms = -1
        self.store.executor.submit("wal", job)

    def round_done(self, job: RoundJob, error: BaseException | None) -> None:
        """A round is durable, found no space, or failed."""
        self._busy = False
        self._in_flight = []
        if job.manifest is not None:
            self.store.manifest_busy = False
            if job.published:
                self.store.published(job.manifest)
        if self.store.failure is not None:
            return
        if error is not None:
            self.store.fail(error)
            return
        if not job.written:
            for batch in job.batches:
                if batch.void:
                    self.waiting_bytes -= batch.size()
            self._gathered = standing(job.batches) + self._gathered
            self._starved = True
            self._note_space(False)
            return
        if job.looked:
            self._note_space(job.space)
        self.round_number = job.number
        if job.batches:
            self.store.rounds += 1
        self.written_bytes += job.size
        self.waiting_bytes -= job.size - HEADER_BYTES
        self.file.end = job.end
        self._sealed = not job.batches
        self._written_since_tick = True
        place: i64 = job.start + HEADER_BYTES
        moved = False
        silent = False
        dropped: list[GroupLog] = []
        for batch in job.batches:
            group = batch.group
            assert group is not None
            group.written(batch, self.file, place, self._max_span)
            place += batch.size()
            if batch.kind <= KIND_SNAPSHOT and not batch.void:
                group.unwritten -= 1
            if batch.kind >= KIND_SNAPSHOT:
                moved = moved or batch.kind != KIND_STATE
                silent = silent or batch.kind >= KIND_TRUNCATE
                if batch.kind == KIND_DROP:
                    dropped.append(group)
            silent = silent or batch.void
        reported = reportable(job.batches) if silent else job.batches
        if reported:
            self.store.listener.persisted(reported)
        for group in dropped:
            group.let_go()
        if moved and self.keeper is not None:
            self.keeper.snapshots_moved()
        self.spares.prepare(self.file)
        if self._wanted:
            self._wanted = False
            self.flush(False)

    def _roll(self) -> None:
        store = self.store
        spare = self.spares.take()
        if spare is not None:
            number = spare.number
        else:
            number = store.next_number
            store.next_number += 1
        manifest = store.manifest(store.files)
        manifest.files[-1] = (self.file.number, self.file.end)
        manifest.files.append((number, 0))
        manifest.last_round = int(self.round_number)
        store.manifest_busy = True
        self._begin(RollJob(self, number, spare, manifest))

    def roll_done(self, job: RollJob, error: BaseException | None) -> None:
        """A new file has begun, or there is no space for one."""
        self._busy = False
        self.store.manifest_busy = False
        if error is not None:
            self.store.fail(error)
            return
        if job.file is None:
            if job.spare is not None:
                self.spares.give_back(job.spare)
            # The next attempt is made when the file has grown by another chunk.
            self._roll_at = self.file.end + self.chunk
            self._replace_at = self._roll_at
            self._note_space(False)
        else:
            self.store.published(job.manifest)
            old = self.file
            old.closed = True
            self.store.last_round = job.manifest.last_round
            self.file = job.file
            self.store.files.append(job.file)
            self._roll_at = self.store.config.wal_max_size_bytes
            self._replace_at = 1
            if self.keeper is not None:
                self.keeper.rolled(old)
        self.flush(False)

    def tick(self, now_ms: i64) -> None:
        """Look after space, and vouch for the last round when nothing follows it."""
        gap = now_ms - self._ticked_ms
        self._ticked_ms = now_ms
        if self._seen_ms < 0 or not 0 <= gap <= GAP_MS_MAX:
            self._seen_ms = now_ms
        if self._busy or self.store.failure is not None:
            self._written_since_tick = False
            return
        due = now_ms - self._space_checked_ms >= self.store.config.space_interval_ms
        if due or now_ms < self._space_checked_ms:
            self._space_checked_ms = now_ms
            self._begin(SpaceJob(self))
        elif self._waits_for_manifest():
            pass
        elif self._held:
            self.flush(False)
        elif not self._sealed and not self._written_since_tick and not self._gathered:
            self._start_round([])
        self._written_since_tick = False

    def space_done(self, job: SpaceJob, error: BaseException | None) -> None:
        """The disk was asked for its free space."""
        self._busy = False
        if error is not None:
            self.store.fail(error)
            return
        if not job.space and self.spares.release():
            # Asked again once their space is free.
            self._space_checked_ms = 0
        else:
            self._starved = False
            self._note_space(job.space)
        self.flush(False)

    def _note_space(self, space: bool) -> None:
        if self.full == space:
            self.full = not space
            self.store.listener.disk_full(self.full)

    def close(self) -> None:
        """Write what is gathered, vouch for it, and give reserved space back. Blocks.

        No job may be under way. Raises `OSError`.
        """
        assert not self._busy, "the executor has to be stopped before the log is closed"
        if self.store.failure is not None:
            return
        self._closing = True
        self._starved = False
        while self._gathered and not self._starved:
            self._start_round(self._take())
        if not self._sealed and not self._starved:
            self._start_round([])
        self.file.handle.truncate(self.file.end)
        self.file.handle.sync()
