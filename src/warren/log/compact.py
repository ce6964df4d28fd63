"""Getting rid of what is dead: closed files are deleted, or rewritten with what still lives.

A closed file may go once every group with entries in it has a durable snapshot that covers them.
What lives in it then is messages that their owner names, the newest snapshots and states, DROP
batches of groups that other files still hold, and tombstones that keep void what earlier files
hold. Files with nothing alive are deleted; neighbours with little
alive are rewritten into one, grouped by group; files that are mostly alive stay as they are. So a
queue whose consumers keep up writes a message once, and a message that no consumer takes pins
nothing else.

A new list of files takes effect with the manifest; until then a rewritten file is nothing but a
leftover.

There may be hundreds of thousands of groups in a file, so all of them are never looked at in one
go: a look goes on with the next turn. What it has seen of a group in a closed file stays true until
it ends, or errs on the safe side: what lives there only gets less, and where a group is deleted or
reset meanwhile, nothing lived in the file if that should not become durable. What a rewrite takes
along is looked at once more, and what is known of a group's messages does not outlive the snapshot
that covered them; see `Runs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.log import sidecar
from warren.log.copying import Copier, CopyPart
from warren.log.extents import Extents, Tombstone
from warren.log.files import LogFile, lacks_space
from warren.log.group import GroupLog, newest_snapshot, newest_state
from warren.log.manifest import DIRECTORY, Manifest, log_path, sidecar_path
from warren.log.runlist import NO_RUNS, LiveRuns, RunList
from warren.log.spares import Spares
from warren.log.store import Store
from warren.log.wal import FileKeeper
from warren.ports import Job

SMALL_SHARE: Final = 8
"""A file below this part of the roll-over size is worth merging with its neighbours."""

GAIN_SHARE: Final = 64
"""A rewrite has to free at least this part of the roll-over size."""

UNCHANGED_FACTOR: Final = 12
"""Where nothing is written, the log is looked through this much less often."""

GROUPS_PER_MS: Final = 10
"""No look begins sooner than that many groups, which the one before looked at, take: some hundredth
of a core looks at files, however many groups they have."""

ASKED_FACTOR: Final = 8
"""At most so many times `groups_at_once` are asked for a snapshot between two ticks: all of these
are written, and what clients wait for is written by the same disk."""

SMALL_FILES_MAX: Final = 4
"""This many small neighbours are merged even if nothing in them is dead."""


@final
class SidecarJob(Job):
    """Writes the index of a closed file."""

    def __init__(self, compactor: Compactor, file: LogFile) -> None:
        self._compactor = compactor
        self.file = file

    def run(self) -> None:
        store = self._compactor.store
        sidecar.store(store.disk, self.file, store.salt)
        # Without it, damage in this file would be anybody's at the next start.
        store.disk.sync_directory(DIRECTORY)

    def done(self, error: BaseException | None) -> None:
        self._compactor.sidecar_done(self, error)


@final
class CompactJob(Job):
    """Writes what lives in some files to a new one.

    Attributes:
        whole: Whether it came to the end.
        product: The new file; None where nothing that lives was found, as in files that lack just
            those messages since a disk was damaged.
    """

    def __init__(
        self, compactor: Compactor, sources: list[LogFile], number: i64, copier: Copier
    ) -> None:
        self._compactor = compactor
        self.sources = sources
        self._number: i64 = number
        self.copier = copier
        self.whole = False
        self.product: LogFile | None = None

    def run(self) -> None:
        disk = self._compactor.store.disk
        path = log_path(self._number)
        handle = disk.open(path, create=True)
        file = LogFile(self._number, path, handle)
        try:
            self.copier.run(file)
            self.whole = not self.copier.cancelled
            if self.whole and file.end > 0:
                handle.sync()
                file.closed = True
                sidecar.store(disk, file, self._compactor.store.salt)
                file.has_sidecar = True
                disk.sync_directory(DIRECTORY)
                self.product = file
        except (OSError, CorruptRecord):
            handle.close()
            disk.remove(path)
            disk.remove(sidecar_path(self._number))
            raise
        if self.product is None:
            handle.close()
            disk.remove(path)

    def done(self, error: BaseException | None) -> None:
        self._compactor.copied(self, error)


@final
class ManifestJob(Job):
    """Makes a new list of files the log's."""

    def __init__(
        self,
        compactor: Compactor,
        manifest: Manifest,
        sources: list[LogFile],
        product: LogFile | None,
    ) -> None:
        self._compactor = compactor
        self.manifest = manifest
        self.sources = sources
        self.product = product
        self.published = False

    def run(self) -> None:
        disk = self._compactor.store.disk
        try:
            self.manifest.draft(disk)
        except OSError as error:
            if lacks_space(error):
                return
            raise
        self.manifest.publish(disk)
        self.published = True

    def done(self, error: BaseException | None) -> None:
        self._compactor.committed(self, error)


@final
class Runs:
    """The live messages of a group when it was first looked at.

    Of those that the newest durable snapshot covered then, no others can be live later, unless the
    group began anew. Its owner may not have had what came after that, although it lies in a file.

    Attributes:
        live: Finds them out.
        through: Whether it has.
        snapshot_index: What the newest durable snapshot covered.
        cuts: How often the group had been truncated or reset.
    """

    def __init__(self, live: LiveRuns, snapshot_index: i64, cuts: i64) -> None:
        self.live = live
        self.through = False
        self.snapshot_index: i64 = snapshot_index
        self.cuts: i64 = cuts


@final
class Compactor(FileKeeper):
    """Decides what happens to closed files. One job at a time, on the `compact` lane."""

    def __init__(self, store: Store, spares: Spares) -> None:
        self.store = store
        self._spares = spares
        self._busy = False
        self._due = True
        self._looked_ms: i64 = 0
        self._now_ms: i64 = 0
        self._sidecars_after_ms: i64 = 0
        """No sidecar is written before, since there was no space for the last one."""
        self._copier: Copier | None = None
        self._sources: list[LogFile] = []
        self._product: LogFile | None = None
        self._waiting = False
        """Whether sources and product wait for their manifest."""
        self._looking: Iterator[None] | None = None
        """A look under way; the next step is the next part of it."""
        self._leaving: Iterator[None] | None = None
        """Likewise, what is left to do when files have left the log."""
        self._seen: i64 = 0
        """Groups looked at in this part."""
        self._looked_groups: i64 = 0
        """Groups looked at in the newest look."""
        self._asked: i64 = 0
        """Groups asked for a snapshot since the newest tick."""
        self._known: dict[int, Runs] = {}
        """What is live, of groups that the look under way has come to. Forgotten in parts, too."""
        self._pins = False
        """Whether the newest look found a file that has to stay for now."""
        self._looked_at_round: i64 = -1
        """What had been written when it began."""

    def rolled(self, old: LogFile) -> None:
        """A file is complete: the next look asks its groups for snapshots."""
        self._due = True

    def snapshots_moved(self) -> None:
        """Older files may be dispensable now."""
        self._due = True

    def cancel(self) -> None:
        """Let a rewrite under way end soon, without effect; no other begins."""
        while self._leaving is not None:
            self.go_on()
        self._looking = None
        self._busy = True
        if self._copier is not None:
            self._copier.cancelled = True

    @property
    def has_work(self) -> bool:
        """Whether there is something to go on with before the next tick."""
        if self.store.failure is not None:
            return False
        if self._leaving is not None:
            return True
        if self._looking is None:
            return len(self._known) > 0
        return not self._busy and self._asked < ASKED_FACTOR * self.store.config.groups_at_once

    def go_on(self) -> None:
        """Do the next part of what one turn does not all of, if `has_work`."""
        self._seen = 0
        if self._leaving is not None:
            if next(self._leaving, self) is self:
                self._leaving = None
        elif self._looking is not None:
            if next(self._looking, self) is self:
                self._looking = None
        else:
            for _ in range(min(len(self._known), self.store.config.groups_at_once)):
                self._known.popitem()

    def tick(self, now_ms: i64) -> None:
        """Go on with what waits, or look for something to do."""
        self._asked = 0
        if self._waiting:
            self._commit()
        if self.has_work:
            self.go_on()
            return
        if self._busy or self._looking is not None or self.store.failure is not None:
            return
        self._now_ms = now_ms
        for file in self.store.files:
            if now_ms < self._sidecars_after_ms:
                break
            if file.closed and not file.has_sidecar:
                self._busy = True
                self.store.executor.submit("compact", SidecarJob(self, file))
                return
        pause = self._looked_groups // GROUPS_PER_MS
        interval = max(self.store.config.compact_interval_ms, pause)
        if not self._pins and self._looked_at_round == self.store.rounds:
            # Nothing was settled since, or it was by a commit that other members told of.
            interval *= UNCHANGED_FACTOR
        wanted = pause if self._due else interval
        if now_ms - self._looked_ms >= wanted or now_ms < self._looked_ms:
            self._due = False
            self._pins = False
            self._looked_ms = now_ms
            self._looked_at_round = self.store.rounds
            self._looked_groups = 0
            self._looking = self._survey()
            self.go_on()

    def _enough(self) -> bool:
        """Whether this part ends with the group now looked at."""
        self._looked_groups += 1
        self._seen += 1
        return self._seen >= self.store.config.groups_at_once

    def sidecar_done(self, job: SidecarJob, error: BaseException | None) -> None:
        """An index is written, or could not be for lack of space; then again a while later."""
        self._busy = False
        if error is None:
            job.file.has_sidecar = True
        elif lacks_space(error):
            self._sidecars_after_ms = self._now_ms + self.store.config.compact_interval_ms
        else:
            self.store.fail(error)

    # --- what lives -----------------------------------------------------------------------------

    def _ask_snapshot(self, group_id: int, extents: Extents) -> bool:
        """Ask a group for a snapshot if no durable one covers its entries here; whether so."""
        group = self.store.groups.get(group_id)
        if group is None or not extents.has_entries_behind(group.snapshot_index):
            return False
        if not group.incomplete:
            self._asked += 1
            self.store.listener.snapshot_wanted(group_id)
        return True

    def _pinned(self, group_id: int, extents: Extents) -> bool:
        """Whether the file has to stay as it is for now because of a group in it."""
        group = self.store.groups.get(group_id)
        if group_id in self.store.dropping or (
            group is not None and (group.tombstones_pending or group.unfit)
        ):
            # What is void only by a batch that is not durable may count again, and of a group that
            # cannot be used nobody knows what lives.
            return True
        return self._ask_snapshot(group_id, extents)

    def _runs(self, group_id: int, files: list[LogFile]) -> RunList:
        """The live messages of a group in some files, perhaps as they were a moment ago."""
        found = self._known_runs(group_id, files)
        assert found.through, "they are found out before they are needed"
        return found.live.runs

    def _finds_out(self, group_id: int, files: list[LogFile]) -> bool:
        """Find out some more of what lives of a group, if that matters for some files.

        Returns:
            Whether there is more to find out, in the next part of the look.
        """
        if group_id not in self.store.groups:
            return False
        matters = False
        for file in files:
            extents = file.groups.get(group_id)
            if extents is not None and extents.message_count > 0 and extents.size > 0:
                matters = True
        if not matters:
            return False
        found = self._known_runs(group_id, files)
        if not found.through:
            found.through = found.live.go_on()
        return not found.through

    def _known_runs(self, group_id: int, files: list[LogFile]) -> Runs:
        """What is known, or begins to be, of a group's live messages in some files."""
        group = self.store.groups.get(group_id)
        snapshot_index: i64 = -1
        cuts: i64 = 0
        if group is not None:
            snapshot_index = group.snapshot_index
            cuts = group.cut_count()
        found = self._known.get(group_id)
        if found is not None and found.snapshot_index != snapshot_index:
            # To find out takes a while where it is much, and snapshots may come faster.
            for file in files:
                extents = file.groups.get(group_id)
                if extents is not None and extents.has_entries_behind(found.snapshot_index):
                    found = None
                    break
        if found is None or found.cuts != cuts:
            found = Runs(self.store.listener.live_runs(group_id), snapshot_index, cuts)
            self._known[group_id] = found
        return found

    def _live_bytes(
        self,
        file: LogFile,
        group_id: int,
        extents: Extents,
    ) -> i64:
        """What lives of a group in a file."""
        group = self.store.groups.get(group_id)
        if group is None:
            return 0
        live: i64 = 0
        if extents is newest_snapshot(group):
            live += extents.snapshot_size
        if extents is newest_state(group):
            live += extents.state_size
        if extents.tombstones:
            live += len(self._tombstones_needed(group, extents, [file]))
        if extents.message_count > 0 and extents.size > 0:
            count = overlap(
                self._runs(group_id, [file]), extents.first_message, extents.next_message
            )
            # Rounded up: one live message of many small ones must not count as nothing.
            live += (count * extents.message_bytes + extents.message_count - 1) // (
                extents.message_count
            )
        return live

    def _drop_needed(self, group_id: int, sources: list[LogFile]) -> bool:
        """Whether batches of a dropped group remain when these files are gone."""
        for file in self.store.files:
            if file not in sources and group_id in file.groups:
                return True
        return False

    def _tombstones_needed(
        self, group: GroupLog, extents: Extents, sources: list[LogFile]
    ) -> list[Tombstone]:
        """The tombstones of a file without which something would count again once these go."""
        needed: list[Tombstone] = []
        for tombstone in extents.tombstones or []:
            if group.incomplete and tombstone.opens:
                needed.append(tombstone)
                continue
            for file in self.store.files:
                if file is extents.file:
                    break
                earlier = file.groups.get(int(group.id))
                if file not in sources and earlier is not None and earlier.answers_to(tombstone):
                    needed.append(tombstone)
                    break
        return needed

    # --- what to do -----------------------------------------------------------------------------

    def _survey(self) -> Iterator[None]:
        """Delete what is dead; if nothing is, rewrite what is worth it."""
        roll_at = self.store.config.wal_max_size_bytes
        share = self.store.config.live_share_percent
        dead: list[LogFile] = []
        run: list[LogFile] = []
        best: list[LogFile] = []
        run_live: i64 = 0
        run_sparse = False
        for file in [file for file in self.store.files if file.closed]:
            movable = True
            live: i64 = 0
            sparse = False
            for lot in file.groups.key_lots():
                for group_id in lot:
                    extents = file.groups[group_id]
                    pinned = self._pinned(group_id, extents)
                    while not pinned and movable and self._finds_out(group_id, [file]):
                        yield
                        pinned = self._pinned(group_id, extents)
                    if pinned:
                        # The others are asked for their snapshots all the same.
                        movable = False
                        self._pins = True
                    elif movable:
                        live += self._live_bytes(file, group_id, extents)
                    if self._enough():
                        yield
            if movable:
                for group_id in file.drops:
                    if self._drop_needed(group_id, [file]):
                        live += 1
                    if self._enough():
                        yield
                if live == 0:
                    dead.append(file)
                    continue
                # A damaged file keeps what lives in it, until nothing does.
                movable = not file.damaged
                gain = file.end - live
                sparse = live * 100 < file.end * share and gain * GAIN_SHARE >= roll_at
                movable = movable and (sparse or file.end * SMALL_SHARE < roll_at)
            if not movable or run_live + live > roll_at:
                run = []
                run_live = 0
                run_sparse = False
            if movable:
                run.append(file)
                run_live += live
                run_sparse = run_sparse or sparse
                if (run_sparse or len(run) >= SMALL_FILES_MAX) and len(run) > len(best):
                    best = list(run)
        if dead:
            self._begin_commit(dead, None)
        elif best:
            parts: list[CopyPart] = []
            for number in range(len(best)):
                for lot in best[number].groups.key_lots():
                    for group_id in lot:
                        # A group is taken from all files together, in its turn in the first.
                        if not is_in(group_id, best[:number]):
                            while self._finds_out(group_id, best):
                                yield
                            if not self._take_parts(group_id, best, parts):
                                self._due = True
                                return
                        if self._enough():
                            yield
            drops: list[int] = []
            for file in best:
                for group_id in file.drops:
                    if self._drop_needed(group_id, best):
                        drops.append(group_id)
                    if self._enough():
                        yield
            if parts or drops:
                self._rewrite(best, parts, drops)
            else:
                # What lived in them was settled while they were looked at.
                self._begin_commit(best, None)

    def _take_parts(
        self,
        group_id: int,
        sources: list[LogFile],
        parts: list[CopyPart],
    ) -> bool:
        """Note what a rewrite takes of a group; False if something pins it by now."""
        for file in sources:
            extents = file.groups.get(group_id)
            if extents is not None and self._pinned(group_id, extents):
                return False
        group = self.store.groups.get(group_id)
        if group is None:
            return True
        newest = newest_snapshot(group)
        for file in sources:
            extents = file.groups.get(group_id)
            if extents is None:
                continue
            runs = NO_RUNS
            if extents.message_count > 0 and extents.size > 0:
                runs = self._runs(group_id, sources)
            tombstones = self._tombstones_needed(group, extents, sources)
            with_snapshot = extents is newest
            with_state = extents is newest_state(group)
            if (
                with_snapshot
                or with_state
                or tombstones
                or overlap(runs, extents.first_message, extents.next_message) > 0
            ):
                parts.append(CopyPart(extents, runs, with_snapshot, with_state, tombstones))
        return True

    def _rewrite(self, sources: list[LogFile], parts: list[CopyPart], drops: list[int]) -> None:
        """Begin to write a file that takes the place of some."""
        store = self.store
        number = store.next_number
        store.next_number += 1
        copier = Copier(parts, drops, store.salt, store.config.extent_bytes_max)
        self._copier = copier
        self._busy = True
        store.executor.submit("compact", CompactJob(self, sources, number, copier))

    def copied(self, job: CompactJob, error: BaseException | None) -> None:
        """A rewritten file is durable, or could not be made."""
        self._busy = False
        self._copier = None
        if isinstance(error, CorruptRecord):
            for file in job.sources:
                if file.path == error.path:
                    file.damaged = True
            part = job.copier.part
            if part is not None:
                error.group_id = int(part.extents.group_id)
                error.lost = list(job.copier.sought)
            self.store.listener.damaged(error)
        elif error is not None:
            if not lacks_space(error):
                self.store.fail(error)
        elif job.whole:
            self._begin_commit(job.sources, job.product)

    def _begin_commit(self, sources: list[LogFile], product: LogFile | None) -> None:
        self._busy = True
        self._sources = sources
        self._product = product
        self._waiting = True
        self._commit()

    def _commit(self) -> None:
        """Change the manifest, unless another change is under way; `tick` tries again."""
        store = self.store
        if store.manifest_busy or store.failure is not None:
            return
        self._waiting = False
        store.manifest_busy = True
        manifest = store.manifest(self._files_after())
        store.executor.submit("wal", ManifestJob(self, manifest, self._sources, self._product))

    def _files_after(self) -> list[LogFile]:
        """The log's files with the product in the place of its sources."""
        files: list[LogFile] = []
        placed = self._product is None
        for file in self.store.files:
            if file not in self._sources:
                files.append(file)
            elif not placed and self._product is not None:
                files.append(self._product)
                placed = True
        return files

    def committed(self, job: ManifestJob, error: BaseException | None) -> None:
        """The new list of files is durable, or there was no space to write it."""
        store = self.store
        store.manifest_busy = False
        if error is not None:
            store.fail(error)
            return
        if not job.published:
            self._waiting = True
            return
        store.published(job.manifest)
        store.files = self._files_after()
        self._leaving = self._let_go()
        self.go_on()

    def _let_go(self) -> Iterator[None]:
        """Have no group find anything in files that have left the log, and close those."""
        store = self.store
        for source in self._sources:
            entry = source.groups.take_any()
            while entry is not None:
                group_id = entry[0]
                group = store.groups.get(group_id)
                if group is not None:
                    group.places = [
                        file.groups[group_id] for file in store.files if group_id in file.groups
                    ]
                    group.conceal()
                if self._enough():
                    yield
                entry = source.groups.take_any()
        self._spares.retire(self._sources)
        self._sources = []
        self._product = None
        self._busy = False
        self._due = True


def is_in(group_id: int, files: list[LogFile]) -> bool:
    """Whether any of some files has something of a group."""
    for file in files:
        if group_id in file.groups:
            return True
    return False


def overlap(runs: RunList, first: i64, behind: i64) -> i64:
    """How many numbers of runs lie in first..behind - 1."""
    count: i64 = 0
    at = runs.find(first)
    while at < runs.size and runs.first(at) < behind:
        count += min(runs.last(at) + 1, behind) - max(runs.first(at), first)
        at += 1
    return count
