"""The data directory of a node that does not run: its queues, and what is in them.

    with open_directory("/backups/node-1") as directory:
        for queue in directory.queues:
            print(queue.vhost, queue.name, queue.runs())

It is recovered as a start of the node would recover it, over a `DiskView`, so that nothing on disk
changes. What is damaged is told and left out, whatever it is; a start may be stricter.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from warren.config.identity import NODE_FILE, read_identity
from warren.errors import CorruptRecord, StorageError
from warren.log.batch import Batch
from warren.log.config import LogConfig
from warren.log.group import GroupLog
from warren.log.listener import LogListener, RawReader
from warren.log.log import Log
from warren.log.manifest import DIRECTORY, MANIFEST_PATH, load, log_path
from warren.log.runlist import NO_RUNS, KnownRuns, LiveRuns
from warren.metadata import encoding
from warren.metadata.machine import MetadataMachine
from warren.metadata.tables import QueueRecord
from warren.node.replay import NodeReplayer, replay
from warren.node.store import METADATA_GROUP
from warren.offline.states import (
    DAMAGED,
    DROPPED,
    GONE,
    UNKNOWN,
    LeavingWitness,
    MessageRun,
    in_doubt,
    live_runs,
    pairs,
    without,
)
from warren.offline.tail import missing_end
from warren.offline.view import DiskView
from warren.ports import Job
from warren.queue_types import CLASSIC, QUORUM
from warren.queues.fifo.config import NOT_SET_UP
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.runs import disjoint
from warren.replication.raft_entries import RAFT_SESSION
from warren.versions import NEWEST, too_new

LOCK_FILE: Final = "lock"
"""A node that runs holds a lock on it."""

KEPT_MAX: Final = 2
"""Directories that a process remembers when they are not read."""

Stamp = tuple[tuple[str, int, int], ...]


class _Jobs:
    """Runs blocking work when it is asked to, one after the other."""

    def __init__(self) -> None:
        self._waiting: deque[Job] = deque()

    def submit(self, lane: str, job: Job) -> None:
        """Take a job."""
        self._waiting.append(job)

    def run(self) -> None:
        """Run all jobs, and those that these bring about."""
        while self._waiting:
            job = self._waiting.popleft()
            error: BaseException | None = None
            try:
                job.run()
            except (OSError, StorageError) as raised:
                error = raised
            job.done(error)


class _NoOwner(LogListener):
    """Stands where a node is: a log that is only read has no owner."""

    def persisted(self, batches: list[Batch]) -> None:
        """Nothing is appended."""

    def snapshot_wanted(self, group_id: int) -> None:
        """No file is to go."""

    def live_runs(self, group_id: int) -> LiveRuns:
        """No file is rewritten, so this is not asked."""
        return KnownRuns(NO_RUNS)

    def disk_full(self, full: bool) -> None:
        """Nothing is written."""

    def damaged(self, error: CorruptRecord) -> None:
        """Whoever reads is told."""

    def failed(self, error: BaseException) -> None:
        """A view does not fail to write."""
        raise error


class RawMessages(RawReader):
    """Record batches of one queue, as they lie in the log.

    Attributes:
        data: Whole batches back to back, as `warren.log.batch` draws them.
        following: The number to ask for next.
        damage: Why some are missing; None if nothing is wrong with the files.
    """

    def __init__(self) -> None:
        self.data = b""
        self.following = 0
        self.damage: BaseException | None = None

    def raw_read(self, data: bytes, next_message: int, error: BaseException | None) -> None:
        """Keep what was read."""
        self.data = data
        self.following = next_message
        self.damage = error
        if isinstance(error, CorruptRecord) and error.lost and not data:
            # Nothing is whole as far as was looked, and that is not to the end.
            self.following = error.lost[-1][1] + 1


class StoredQueue:
    """One queue of a directory.

    Attributes:
        vhost, name: As the tables name it; `group <number>` in no vhost where they do not.
        kind: Its type.
        group_id: Its incarnation: a queue that was deleted and declared again has another one.
        deleted: Whether whole tables do not name it: it was deleted, and its log not yet.
        damage: What is wrong with it: messages that are lost, or all of it with number -1.
    """

    def __init__(
        self,
        directory: DataDirectory,
        group: GroupLog,
        record: QueueRecord | None,
        kind: str,
        deleted: bool,
    ) -> None:
        self.vhost = "" if record is None else record.vhost
        self.name = f"group {group.id}" if record is None else record.name
        self.kind = kind
        self.group_id = int(group.id)
        self.deleted = deleted
        self.damage: list[MessageRun] = []
        self._directory = directory
        self._group = group

    def runs(self, gone: bool = False) -> list[MessageRun]:
        """What is known of its messages, in the order of their numbers.

        Args:
            gone: Whether those are wanted, too, that left; their bodies may not be there any more.
        """
        live = self._directory.live_of(self.group_id)
        if live is None:
            why = "; ".join(run.reason for run in self.damage)
            live = self._in_files(UNKNOWN, why)
        if not gone:
            return live
        there = pairs(live)
        left = self._directory.left_of(self.group_id)
        left = without(sorted(left, key=lambda run: run.first), there)
        known = disjoint(there + [(run.first, run.last) for run in left])
        rest = without(self._in_files(GONE, ""), known)
        return sorted(live + left + rest, key=lambda run: run.first)

    def _in_files(self, state: str, reason: str) -> list[MessageRun]:
        """All numbers of messages that the log's files may have, as one run."""
        places = [place for place in self._group.places if place.size > 0]
        first = min((int(place.first_message) for place in places), default=0)
        behind = max((int(place.next_message) for place in places), default=0)
        return [MessageRun(first, behind - 1, state, reason)] if first < behind else []

    def counts(self) -> dict[str, int]:
        """How many live messages are in which state."""
        found: Counter[str] = Counter()
        for run in self.runs():
            found[run.state] += run.last - run.first + 1
        return dict(found)

    def read(self, first: int, last: int, bytes_max: int) -> RawMessages:
        """Read record batches with the messages `first` to `last`, about so many bytes of them."""
        return self._directory.read(self._group, first, last, bytes_max)


class DataDirectory:
    """A data directory, recovered in memory.

    Attributes:
        path: Where it lies.
        problems: What is wrong with it that is no single queue's matter, in words.
        queues: All that have a log here, by vhost and name.
    """

    def __init__(self, path: Path) -> None:
        """
        Raises:
            StorageError: It is none, is of a later release, or is damaged so that nothing is known.
        """
        self.path = path
        self.problems: list[str] = []
        self._jobs = _Jobs()
        self._witness = LeavingWitness()
        view = DiskView(path)
        self._complete(view)
        cut = missing_end(DiskView(path), load(view))
        self._replayer = NodeReplayer(self._node_name(), True, True, self._witness)
        self._log = Log(view, self._jobs, LogConfig(), _NoOwner())
        self._log.recover(self._replayer)
        self.problems += [str(doubt) for doubt in self._replayer.doubts]
        if cut is not None:
            self.problems.append(cut)
        self.queues = self._find_queues()

    def _complete(self, view: DiskView) -> None:
        """Have an empty file stand in for each that is missing, so that the others can be read."""
        if not view.exists(MANIFEST_PATH):
            raise StorageError(
                f"{self.path} is no data directory of a node: it has no {MANIFEST_PATH}"
            )
        for number, _ in load(view).files:
            if not view.exists(log_path(number)):
                view.open(log_path(number), create=True)
                self.problems.append(f"{log_path(number)} is missing")

    def _node_name(self) -> str:
        """Whose directory it is; empty if that is not known."""
        try:
            identity = read_identity(str(self.path))
        except StorageError as error:
            self.problems.append(str(error))
            return ""
        if identity is None:
            self.problems.append(
                f"file '{NODE_FILE}' is missing: of quorum queues it is not known which entries "
                "are committed"
            )
            return ""
        return identity.name

    # --- tables ---------------------------------------------------------------------------------

    def _find_queues(self) -> list[StoredQueue]:
        replayer = self._replayer
        records = self._records()
        whole = not self.problems and METADATA_GROUP not in replayer.holes
        queues: list[StoredQueue] = []
        for group_id in self._log.group_ids():
            if group_id == METADATA_GROUP:
                continue
            record = records.get(group_id)
            kind = QUORUM.name if group_id in replayer.groups else CLASSIC.name
            group = self._log.group(group_id, False)
            if record is not None:
                kind = record.kind
            queue = StoredQueue(self, group, record, kind, whole and record is None)
            self._note_damage(queue, group)
            queues.append(queue)
        return sorted(queues, key=lambda queue: (queue.vhost, queue.name, queue.group_id))

    def _note_damage(self, queue: StoredQueue, group: GroupLog) -> None:
        replayer = self._replayer
        error = replayer.damaged.get(queue.group_id)
        if error is not None:
            queue.damage.append(MessageRun(-1, -1, DAMAGED, str(error)))
        if group.incomplete:
            why = "this copy was about to be replaced by its leader's"
            queue.damage.append(MessageRun(-1, -1, DAMAGED, why))
        for loss in replayer.losses:
            if loss.group_id != queue.group_id:
                continue
            for first, last in loss.lost or [(-1, -1)]:
                queue.damage.append(MessageRun(first, last, DAMAGED, f"entries are lost: {loss}"))

    def _records(self) -> dict[int, QueueRecord]:
        """Which queue each group of the log is, by the tables.

        What is not known to be committed names queues, too, but takes no name away.

        Raises:
            StorageError: They are of a later release.
        """
        replayer = self._replayer
        machine = MetadataMachine()
        if replayer.tables_state:
            machine.restore(replayer.tables_state)
        if self._apply(machine, replayer.tables_entries):
            found = _by_group(machine)
            recovered = replayer.groups.get(METADATA_GROUP)
            pending = [] if recovered is None else recovered.pending
            entries = [(int(b.index), b.body()) for b in pending if b.session != RAFT_SESSION]
            self._apply(machine, entries)
        else:
            found = {}
        return _by_group(machine) | found

    def _apply(self, machine: MetadataMachine, entries: list[tuple[int, bytes]]) -> bool:
        """Apply entries to the tables; whether all fitted."""
        fitted = True
        try:
            for index, payload in entries:
                machine.apply(index, encoding.decode(payload))
        except (AssertionError, LookupError, CorruptRecord) as error:
            self.problems.append(f"the tables do not fit together: {error!r}")
            fitted = False
        if machine.version > NEWEST:
            raise StorageError(too_new(str(self.path), machine.version, NEWEST))
        return fitted

    # --- queues ---------------------------------------------------------------------------------

    def live_of(self, group_id: int) -> list[MessageRun] | None:
        """The live messages of a queue; None where its state is lost."""
        replayer = self._replayer
        if group_id in replayer.damaged:
            return None
        recovered = replayer.groups.get(group_id)
        fifo = replayer.machines.get(group_id)
        if fifo is None:
            fifo = Fifo(NOT_SET_UP, False)
        if fifo.transient.count > 0:
            # They do not survive a restart.
            fifo.all_back()
            transient = fifo.transient.pairs()
            fifo.free(transient)
            fifo.transient.clear()
            self._witness.left.setdefault(group_id, []).extend(
                MessageRun(first, last, DROPPED, "transient") for first, last in transient
            )
        live = live_runs(fifo)
        if recovered is None or not recovered.pending:
            return live
        after = fifo.anew()
        after.restore(fifo.encode())
        for batch in recovered.pending:
            replay(after, batch)
        return in_doubt(live, live_runs(after))

    def left_of(self, group_id: int) -> list[MessageRun]:
        """The messages of a queue of which it is known how they left."""
        return self._witness.left.get(group_id, [])

    def read(self, group: GroupLog, first: int, last: int, bytes_max: int) -> RawMessages:
        """Read record batches of a group."""
        reader = RawMessages()
        group.read_raw(first, last, bytes_max, reader)
        self._jobs.run()
        return reader


def _by_group(machine: MetadataMachine) -> dict[int, QueueRecord]:
    found: dict[int, QueueRecord] = {}
    for vhost in machine.vhosts.values():
        for record in vhost.queues.values():
            if record.group_id > 0:
                found[int(record.group_id)] = record
    return found


_kept: dict[Path, tuple[Stamp, DataDirectory]] = {}
"""What this process has recovered, with what the files were like."""


@contextmanager
def open_directory(path: str | Path) -> Iterator[DataDirectory]:
    """Read a data directory; no node can start on it meanwhile.

    What was recovered is remembered for the next time, as long as no file has changed.

    Raises:
        StorageError: It is none, a node uses it, it is of a later release, or it is damaged so that
            nothing is known of it.
    """
    path = Path(path).absolute()
    lock = _lock(path)
    try:
        stamp = _stamp(path)
        kept = _kept.pop(path, None)
        directory = kept[1] if kept is not None and kept[0] == stamp else DataDirectory(path)
        _kept[path] = (stamp, directory)
        while len(_kept) > KEPT_MAX:
            del _kept[next(iter(_kept))]
        yield directory
    except OSError as error:
        raise StorageError(f"{error.filename or path}: {error.strerror or error}") from error
    finally:
        if lock >= 0:
            os.close(lock)


def _lock(path: Path) -> int:
    """Keep nodes from starting on a directory; -1 where it has no lock that a node would take.

    Raises:
        StorageError: A node has it, or it cannot be looked at.
    """
    try:
        lock = os.open(path / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        if path.is_dir():
            return -1
        raise StorageError(f"{path} is no directory") from None
    except OSError as error:
        raise StorageError(f"{path / LOCK_FILE}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise StorageError(
            f"{path} is used by a node that runs: stop it, or read a copy of the directory"
        ) from None
    except OSError:
        # A file system without locks: no node would start here.
        pass
    return lock


def _stamp(path: Path) -> Stamp:
    """What changes when a node has used a directory."""
    files = [path / NODE_FILE]
    if (path / DIRECTORY).is_dir():
        files += sorted((path / DIRECTORY).iterdir())
    found: list[tuple[str, int, int]] = []
    for file in files:
        if file.exists():
            status = file.stat()
            found.append((file.name, status.st_size, status.st_mtime_ns))
    return tuple(found)
