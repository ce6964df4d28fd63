"""The log of one node: the front of this package."""

from __future__ import annotations

from array import array
from typing import final

from mypy_extensions import i64

from warren.log.batch import KIND_DROP, Batch
from warren.log.cache import Cache
from warren.log.compact import Compactor
from warren.log.config import LogConfig
from warren.log.group import GroupLog
from warren.log.listener import LogListener, Replayer
from warren.log.recovery import Recovery
from warren.log.salvage import ForgetJob, NoteJob
from warren.log.spares import Spares
from warren.log.store import Store
from warren.log.wal import Wal
from warren.ports import Disk, Executor
from warren.versions import SAID_BY_LOGS


@final
class Log:
    """All groups' entries, messages and snapshots, on one disk.

    Not safe for use from several threads: everything here, and every call to the listener, happens
    on the node's thread. `recover` comes first.
    """

    def __init__(
        self, disk: Disk, executor: Executor, config: LogConfig, listener: LogListener
    ) -> None:
        self._store = Store(disk, executor, config, listener)
        self._wal: Wal | None = None
        self._spares = Spares(self._store)
        self._compactor = Compactor(self._store, self._spares)

    def recover(self, replayer: Replayer) -> None:
        """Read the directory, or begin a new one, and replay it. Blocks.

        Raises:
            StorageError: The directory cannot be used; nothing in it was changed.
            OSError: The disk failed.
        """
        assert self._wal is None, "a log recovers once"
        self._wal = Recovery(self._store, replayer).run(self._spares)
        self._wal.keeper = self._compactor

    def _writer(self) -> Wal:
        wal = self._wal
        assert wal is not None, "the log has to recover first"
        return wal

    def group(self, group_id: int, create: bool = True) -> GroupLog:
        """The log of a group.

        Args:
            group_id: 1 to 2^63 - 1; the id of a dropped group is never used again.
            create: Whether to begin the log if there is none; else that is an error.
        """
        found = self._store.groups.get(group_id)
        if found is None:
            assert create, "there is no such group"
            assert group_id > 0, "group ids are positive"
            found = GroupLog(self._store, self._writer(), group_id)
            self._store.groups[group_id] = found
        return found

    def group_ids(self) -> array[int]:
        """Every group there is."""
        return array("q", self._store.groups)

    def has_group(self, group_id: int) -> bool:
        """Whether there is such a group."""
        return group_id in self._store.groups

    def drop(self, group_id: int) -> None:
        """Delete a group and all it holds. Durable with the next round."""
        store = self._store
        group = store.groups.pop(group_id)
        assert group is not None, "there is no such group"
        group.dropped = True
        store.dropping.add(group_id)
        store.cache.forget(group.share.recent)
        store.cache.forget(group.share.read_back)
        self._writer().gather(
            Batch(group, KIND_DROP, group.last_index, 0, 0, 0, 0, b"", 0, b"", 0, 0, None)
        )

    @property
    def salvaged(self) -> bool:
        """Whether messages may be in no file of which nothing else says that they are lost.

        So it is from a start over damage that hides what was there, in later lives too, until
        `looked_through`.
        """
        return self._store.salvaged

    @property
    def looked_upto(self) -> int:
        """Up to which group all were looked through for those, in earlier lives; -1 for none."""
        return int(self._store.looked_upto)

    def note_looked(self, upto: int) -> None:
        """All groups up to one were looked through, and what came of it is durable."""
        self._store.executor.submit("compact", NoteJob(self._store, upto))

    def looked_through(self) -> None:
        """What no file has is known now, and what says so is durable: forget the damage."""
        self._store.executor.submit("compact", ForgetJob(self._store))

    @property
    def version(self) -> int:
        """The cluster version of what may be appended; 0 where every release can read it."""
        return int(self._store.version_due)

    def use_version(self, version: int) -> bool:
        """From now on, what is appended may be of a cluster version (`warren.versions`).

        The manifest says so before anything that is appended behind this is written, so that a
        release which could not read it refuses the directory by name. Returns whether it is news.
        """
        if version < SAID_BY_LOGS or version <= self._store.version_due:
            return False
        self._store.version_due = version
        return True

    def allow_brief_rounds(self, allowed: bool) -> None:
        """Whether a brief round may keep the node's thread: not where other nodes wait for it."""
        self._store.brief_rounds = allowed

    @property
    def cache(self) -> Cache:
        """What bounds the messages in memory, also those that other nodes' logs have."""
        return self._store.cache

    @property
    def full(self) -> bool:
        """Whether publishes have to be refused for lack of space."""
        return self._writer().full

    @property
    def written_bytes(self) -> i64:
        """How much was written and synced in this life, for the pace of what may wait."""
        return self._writer().written_bytes

    @property
    def waiting_bytes(self) -> i64:
        """How much was appended and is not durable yet."""
        return self._writer().waiting_bytes

    @property
    def stalled_ms(self) -> i64:
        """How long the write under way has taken, as of the newest tick; 0 if there is none."""
        return self._writer().stalled_ms

    @property
    def size_bytes(self) -> i64:
        """Size of all files."""
        size: i64 = 0
        for file in self._store.files:
            size += file.end
        return size

    @property
    def round_number(self) -> i64:
        """Number of the newest durable round of writes; counts on from one life to the next."""
        return self._writer().round_number

    @property
    def idle(self) -> bool:
        """Whether nothing is gathered and no write is under way."""
        return self._writer().idle

    def cached_bytes(self) -> int:
        """What bodies that are kept in memory take there."""
        return int(self._store.cache.size_bytes)

    def set_disk_free_limit(self, limit_bytes: int) -> None:
        """Count the disk as full from now on when less than this is free."""
        self._store.config.disk_free_limit_bytes = limit_bytes
        self._writer().free_limit = limit_bytes

    def flush(self, awaited: bool = True) -> None:
        """Start writing what was appended, unless a write is under way, which does so itself.

        Args:
            awaited: Whether a client waits for it; else it never keeps the node's thread.
        """
        self._writer().flush(awaited)

    def tick(self, now_ms: i64) -> None:
        """Look after space and old files; to be called about ten times a second.

        Args:
            now_ms: Monotonic time.
        """
        self._store.lanes.tick(now_ms)
        self._writer().tick(now_ms)
        self._compactor.tick(now_ms)

    @property
    def has_work(self) -> bool:
        """Whether there is something to go on with before the next tick."""
        return self._compactor.has_work

    def go_on(self) -> None:
        """Do the next part of what one turn does not all of, if `has_work`."""
        self._compactor.go_on()

    def wind_down(self) -> None:
        """Begin no more background work, and cut short what is under way; before `close`."""
        self._compactor.cancel()
        self._spares.cancel()

    def close(self) -> None:
        """Write and sync what was appended, then close all files. Blocks.

        The executor has to be drained and stopped before. Raises `OSError`.
        """
        self._spares.cancel()
        self._writer().close()
        self._spares.close()
        for file in self._store.files:
            file.handle.close()
