"""Start-up: find the log's files, check them, rebuild the index, replay what machines need.

Nothing on disk is changed before everything has been read and found whole; a directory that cannot
be used is left exactly as it was.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.errors import CorruptRecord, StorageError
from warren.log import sidecar
from warren.log.batch import (
    KIND_COMMAND,
    KIND_SNAPSHOT,
    KIND_STATE,
    SECTOR_BYTES,
    Batch,
    Header,
)
from warren.log.extents import is_void
from warren.log.files import LogFile
from warren.log.group import GroupLog, newest_snapshot, newest_state
from warren.log.listener import Replayer
from warren.log.manifest import (
    DIRECTORY,
    MANIFEST_DRAFT_PATH,
    MANIFEST_PATH,
    SALVAGE_PATH,
    Manifest,
    load,
    log_path,
)
from warren.log.salvage import NOTHING, Salvage, note, noted
from warren.log.scan import Indexer, Scan, Visitor
from warren.log.spares import Spares
from warren.log.store import Store
from warren.log.wal import Wal
from warren.sharded_dict import ShardedDict

FIRST_NUMBER: Final = 1


def is_numbered(name: str, suffix: str) -> bool:
    """Whether a name is one that the log gives to its files."""
    stem = name[: -len(suffix)]
    return name.endswith(suffix) and len(stem) >= 8 and stem.isascii() and stem.isdigit()


@final
class Recovery:
    """Brings the log back to life at one start: reads its files, and replays what they hold."""

    def __init__(self, store: Store, replayer: Replayer) -> None:
        self._store = store
        self._replayer = replayer
        self._leftovers: list[str] = []
        self._dropped: set[int] = set()
        self._round_number: i64 = 0
        self._last_round: i64 = -1
        self._torn = False
        self._doubt: CorruptRecord | None = None
        """Damage that hides what was there."""
        self._begun: str = ""
        """The path of a file that was begun."""
        self._salvaged: list[LogFile] = []
        """Files that were indexed by what is whole of them."""

    def run(self, spares: Spares) -> Wal:
        """Bring the log to life.

        Args:
            spares: Where the files to come are made ready.

        Raises:
            StorageError: The directory cannot be used; nothing in it was changed.
            OSError: The disk failed.
        """
        store = self._store
        store.disk.make_directory(DIRECTORY)
        names = store.disk.list(DIRECTORY)
        if "MANIFEST" in names:
            self._open(load(store.disk), names)
        else:
            self._create(names)
        newest = store.files[-1]
        try:
            if newest in self._salvaged:
                self._follow(newest)
            wal = Wal(store, spares, store.files[-1], self._round_number)
            self._build_groups(wal)
            self._replay()
            self._replayer.complete()
        except BaseException:
            self._close()
            raise
        self._repair(newest)
        return wal

    def _close(self) -> None:
        for file in self._store.files:
            file.handle.close()
        self._store.files = []
        self._store.groups = ShardedDict()
        if self._begun:
            self._store.disk.remove(self._begun)

    def _create(self, names: list[str]) -> None:
        """Begin a new log, where a crash of an earlier attempt may have left files."""
        store = self._store
        disk = store.disk
        path = log_path(FIRST_NUMBER)
        for name in names:
            full = f"{DIRECTORY}/{name}"
            if full == path:
                handle = disk.open(path)
                head = handle.read(0, SECTOR_BYTES)
                handle.close()
                if not head.strip(b"\0"):
                    continue
            elif full == MANIFEST_DRAFT_PATH:
                continue
            raise StorageError(
                f"{DIRECTORY}/: {name} is there but {MANIFEST_PATH} is not; this is no log, or a "
                "damaged one: restore it from a copy, or start in an empty directory"
            )
        disk.sync_directory("")
        file = LogFile(FIRST_NUMBER, path, disk.open(path, create=True))
        file.handle.sync()
        disk.sync_directory(DIRECTORY)
        store.files.append(file)
        store.next_number = FIRST_NUMBER + 1
        store.salt = store.config.salt
        manifest = store.manifest(store.files)
        manifest.draft(disk)
        manifest.publish(disk)

    def _open(self, manifest: Manifest, names: list[str]) -> None:
        store = self._store
        store.salt = manifest.salt
        store.next_number = manifest.next_number
        store.last_round = manifest.last_round
        store.version = manifest.version
        store.version_due = manifest.version
        self._check_names(manifest, names)
        try:
            for number, size in manifest.files:
                path = log_path(number)
                file = LogFile(number, path, store.disk.open(path))
                store.files.append(file)
                file.closed = size > 0
                self._load(file, size)
        except BaseException:
            self._close()
            raise

    def _check_names(self, manifest: Manifest, names: list[str]) -> None:
        """Tell the files of the log from leftovers of a crash and from foreign ones."""
        expected: set[str] = set()
        for number, _ in manifest.files:
            name = f"{number:08d}"
            if f"{name}.log" not in names:
                raise StorageError(
                    f"{log_path(number)} is missing, which {MANIFEST_PATH} names; put it back, or "
                    "restore the whole directory from a copy"
                )
            expected.add(f"{name}.log")
            expected.add(f"{name}.idx")
        for name in names:
            if name == "MANIFEST" or name in expected:
                continue
            if f"{DIRECTORY}/{name}" == SALVAGE_PATH:
                self._store.salvaged = True
                self._store.looked_upto = noted(self._store.disk)
                continue
            if name != "MANIFEST.tmp" and not (
                is_numbered(name, ".log") or is_numbered(name, ".idx")
            ):
                raise StorageError(f"{DIRECTORY}/{name} is not a file of the log; move it away")
            self._leftovers.append(f"{DIRECTORY}/{name}")

    def _load(self, file: LogFile, size: i64) -> None:
        """Rebuild a file's index by reading it."""
        store = self._store
        present = file.handle.size_bytes()
        scan = Scan(file, store.salt, Indexer(file, store.config.extent_bytes_max), True)
        if not file.closed:
            self._load_newest(file, scan, present)
            return
        file.end = size
        if sidecar.load(store.disk, file, store.salt):
            # Whatever has happened to the file, what was in it is known.
            file.has_sidecar = True
            file.damaged = present < size
            return
        try:
            if present < size:
                raise CorruptRecord(file.path, present, f"the file ends before byte {size}")
            scan.run(size)
            if scan.end != size:
                raise CorruptRecord(file.path, scan.bad_at, scan.problem)
        except CorruptRecord as error:
            self._salvage(file, error, size)

    def _load_newest(self, file: LogFile, scan: Scan, present: i64) -> None:
        store = self._store
        file.reserved = present
        try:
            scan.run(present)
        except CorruptRecord as error:
            salvage = self._salvage(file, error, present)
            file.end = salvage.end
            self._round_number = max(salvage.round_number, store.last_round)
            self._last_round = salvage.last_round
            return
        file.end = scan.end
        self._round_number = max(scan.round_number, store.last_round)
        self._last_round = scan.last_round
        self._torn = scan.torn

    def _salvage(self, file: LogFile, error: CorruptRecord, size: i64) -> Salvage:
        """Rebuild the index of a file that is damaged by what is whole of it.

        Raises:
            CorruptRecord: The node does not go on without knowing what was there.
        """
        self._replayer.doubtful(error)
        if self._doubt is None:
            self._doubt = error
        store = self._store
        file.groups = ShardedDict()
        file.drops = []
        indexer = Indexer(file, store.config.extent_bytes_max)
        indexer.gaps = True
        salvage = Salvage(file, store.salt, indexer)
        salvage.run(0, size)
        file.damaged = True
        # What is whole counts from now on as all that there was.
        file.has_sidecar = True
        self._salvaged.append(file)
        return salvage

    def _follow(self, damaged: LogFile) -> None:
        """Begin a new file after a damaged one, which grows no more; no manifest names it yet."""
        store = self._store
        number = store.next_number
        path = log_path(number)
        while path in self._leftovers:
            number += 1
            path = log_path(number)
        store.next_number = number + 1
        handle = store.disk.open(path, create=True)
        self._begun = path
        damaged.closed = True
        store.last_round = self._round_number
        store.files.append(LogFile(number, path, handle))

    def _build_groups(self, wal: Wal) -> None:
        store = self._store
        for file in store.files:
            for group_id in file.drops:
                self._dropped.add(group_id)
        for file in store.files:
            for group_id, extents in file.groups.items():
                if group_id in self._dropped:
                    continue
                group = store.groups.get(group_id)
                if group is None:
                    group = GroupLog(store, wal, group_id)
                    store.groups[group_id] = group
                group.recovered(extents)

    def _replay(self) -> None:
        """Give every machine its state and its snapshot, then the entries after it."""
        store = self._store
        visitor = _Entries(store, self._replayer)
        visitor.damage = self._doubt
        if visitor.damage is None and store.salvaged:
            # Of what is lost since then no file may tell.
            visitor.damage = CorruptRecord(SALVAGE_PATH, 0, "a start went on over damage")
        for group_id in sorted(store.groups):
            group = store.groups[group_id]
            try:
                state = self._read_state(group)
                snapshot = self._read_snapshot(group)
            except CorruptRecord as error:
                group.begin_replay(None)
                give_up(group, self._replayer, error)
                continue
            if state is not None:
                visitor.limits[group_id] = self._replayer.state(group_id, state.body())
            group.begin_replay(snapshot)
            if snapshot is not None:
                visitor.behind[group_id] = int(snapshot.first)
                self._replayer.snapshot(group_id, group.snapshot_index, snapshot.body())
        for file in store.files:
            visitor.file = file
            for group_id, extents in file.groups.items():
                found = store.groups.get(group_id)
                if found is not None and extents.has_entries_behind(found.snapshot_index):
                    self._scan(file, visitor)
                    break
        visitor.finish()

    def _scan(self, file: LogFile, visitor: _Entries) -> None:
        """Hand on the entries in a file, as far as they are whole."""
        store = self._store
        # Files whose index came from a sidecar have not been verified yet.
        scan = Scan(file, store.salt, visitor, file.has_sidecar)
        try:
            scan.run(file.end)
            if scan.end == file.end:
                return
            raise CorruptRecord(file.path, scan.bad_at, scan.problem)
        except CorruptRecord as error:
            if visitor.failed or not file.has_sidecar:
                # Without a sidecar nobody knows what was there.
                raise
            file.damaged = True
            visitor.damage = error
            Salvage(file, store.salt, visitor).run(scan.end, file.end)

    def _read_snapshot(self, group: GroupLog) -> Batch | None:
        newest = newest_snapshot(group)
        if newest is None:
            return None
        offset = newest.snapshot_offset
        snapshot = _read_one(group, newest.file, offset, newest.snapshot_size, KIND_SNAPSHOT)
        if snapshot.sequence > group.state_number:
            raise _state_lost(group, newest.file, offset)
        return snapshot

    def _read_state(self, group: GroupLog) -> Batch | None:
        newest = newest_state(group)
        if newest is None:
            return None
        return _read_one(group, newest.file, newest.state_offset, newest.state_size, KIND_STATE)

    def _repair(self, newest: LogFile) -> None:
        """Make what was read durable, and forget what was not whole."""
        disk = self._store.disk
        handle = newest.handle
        # The process before may have ended behind a rename, or at a failed sync of it: until the
        # names are durable a crash could bring back a manifest without what is written from here
        # on, and with files that are removed below.
        disk.sync_directory(DIRECTORY)
        if self._salvaged:
            note(disk, str(self._doubt))
            self._store.salvaged = True
            self._store.looked_upto = NOTHING
        if self._torn or newest.closed:
            handle.truncate(newest.end)
            newest.reserved = newest.end
            handle.sync()
        if self._last_round >= 0:
            # A failed or missing sync may have left the last round in the page cache only, and
            # marked clean. Nothing vouches for it but a second write.
            size = newest.end - self._last_round
            data = handle.read(self._last_round, size)
            # Of its padding the end may be missing, and the file is to be as long as it is said.
            handle.write_durable([data, bytes(size - len(data))], self._last_round)
            newest.reserved = max(newest.reserved, newest.end)
        handle.sync()
        if self._salvaged:
            self._keep_salvaged()
        for path in self._leftovers:
            disk.remove(path)
        if self._leftovers:
            disk.sync_directory(DIRECTORY)

    def _keep_salvaged(self) -> None:
        """Note what was found in damaged files, so that the next start knows."""
        store = self._store
        for file in self._salvaged:
            sidecar.store(store.disk, file, store.salt)
        store.files[-1].handle.sync()
        store.disk.sync_directory(DIRECTORY)
        manifest = store.manifest(store.files)
        manifest.draft(store.disk)
        manifest.publish(store.disk)


def _read_one(group: GroupLog, file: LogFile, offset: i64, size: i64, kind: i64) -> Batch:
    """A control batch that the index names."""
    data = file.read(offset, size)
    header = Header()
    problem = header.load(data, 0, len(data))
    if not problem:
        if not header.checksum_holds(data, 0):
            problem = "the checksum does not match"
        elif header.kind != kind or header.group != group.id:
            problem = "this is not the batch that the index names"
    if problem:
        raise CorruptRecord(file.path, offset, problem)
    return header.batch(group, data, 0)


def _state_lost(group: GroupLog, file: LogFile, offset: i64) -> CorruptRecord:
    """What stands there was written by a group with a newer state than is left."""
    reason = f"what consensus remembered of group {group.id} is lost"
    return CorruptRecord(file.path, int(offset), reason)


def give_up(group: GroupLog, replayer: Replayer, error: CorruptRecord) -> None:
    """Leave a group as it is that cannot be replayed, if the node can do without it.

    Raises:
        CorruptRecord: The node cannot, and its start is given up.
    """
    error.group_id = int(group.id)
    replayer.unfit(int(group.id), error)
    group.unfit = True


@final
class _Entries(Visitor):
    """Hands the entries after the snapshots to the replayer.

    Attributes:
        file: The file being read.
        limits: For some groups, the index up to which entries are replayed, or -1.
        behind: By group, the number after the last message that the replayer knows of.
        damage: What is wrong with the files read so far, so that entries may be missing.
        failed: Whether there can be no start, whatever else is whole.
    """

    def __init__(self, store: Store, replayer: Replayer) -> None:
        self._store = store
        self._replayer = replayer
        self.file: LogFile | None = None
        self.limits: dict[int, int] = {}
        self.behind: dict[int, int] = {}
        self.damage: CorruptRecord | None = None
        self.failed = False

    def batch(self, header: Header, data: bytes, at: i64, offset: i64) -> None:
        if header.kind > KIND_COMMAND:
            return
        group = self._store.groups.get(header.group)
        if group is None or group.unfit or header.index <= group.snapshot_index:
            return
        file = self.file
        assert file is not None
        extents = file.extents(group.id)
        if is_void(extents.tombstones, extents.hidden_from, header.index, offset):
            return
        if header.session != 0 and group.state_number == 0:
            give_up(group, self._replayer, _state_lost(group, file, offset))
            return
        batch = header.batch(group, data, at)
        if not group.replayed(batch):
            if self.damage is None:
                self.failed = True
                raise CorruptRecord(
                    file.path, offset, f"entry {batch.index} of group {group.id} is out of order"
                )
            self._missing(group, batch.index, batch.first)
            if group.unfit or not group.replayed(batch):
                return
        if batch.count > 0:
            self.behind[group.id] = int(batch.first + batch.count)
        limit = self.limits.get(group.id, -1)
        if limit >= 0 and batch.index > limit:
            return
        if header.kind == KIND_COMMAND:
            batch.detach()
        else:
            batch.strip()
        self._replayer.entry(batch)

    def _missing(self, group: GroupLog, index: i64, first: i64) -> None:
        """Entries before this index, with messages up to this number, are damaged."""
        error = self.damage
        assert error is not None, "entries are missed where there is damage"
        try:
            counted = group.state_number > 0 and not self._replayer.alone(int(group.id))
            if counted or index <= group.last_index:
                give_up(group, self._replayer, error)
                return
            before = self.behind.get(group.id, 0)
            self._replayer.lost(int(group.id), before, int(first) - 1, error)
        except CorruptRecord:
            self.failed = True
            raise
        group.gap_before(index)

    def finish(self) -> None:
        """All files were read: say what is missing at the ends of groups."""
        if self.damage is None:
            return
        for group_id in sorted(self._store.groups):
            group = self._store.groups[group_id]
            newest: i64 = group.snapshot_index
            for place in group.places:
                newest = max(newest, place.last_index)
            if not group.unfit and newest > group.last_index:
                self._missing(group, newest + 1, group.next_message)
