"""What the parts of the log share: the outside world, the files, the groups, the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.log.cache import Cache
from warren.log.config import LogConfig
from warren.log.files import LogFile
from warren.log.lanes import ReadLanes
from warren.log.listener import LogListener
from warren.log.manifest import Manifest
from warren.ports import Disk, Executor
from warren.sharded_dict import ShardedDict

if TYPE_CHECKING:
    from warren.log.group import GroupLog


@final
class Store:
    """The state of one log. Only the node's thread changes it.

    Attributes:
        files: In log order; the last one is the file being written.
        groups: Every group that exists; a dropped one leaves at once.
        rounds: Writes of this life that had something in them.
        next_number: The number for the next file.
        last_round: Number of the last round before the file being written.
        manifest_busy: Whether a change of the manifest is under way; there is one at a time.
        dropping: Dropped groups whose DROP batch is not durable yet.
        version: The cluster version of what the log may hold, as the manifest says durably; 0
            where that is none which 0.1.0 could not read.
        version_due: What it has to say before anything more is written.
        salvaged: Whether messages may be in no file that their groups' snapshots still count.
        looked_upto: Up to which group all were looked through for such; -1 if none was.
        brief_rounds: Whether brief rounds may keep the node's thread.
        failure: What stopped the log for good, or None.
    """

    def __init__(
        self, disk: Disk, executor: Executor, config: LogConfig, listener: LogListener
    ) -> None:
        self.disk = disk
        self.executor = executor
        self.config = config
        self.listener = listener
        self.lanes = ReadLanes(executor)
        self.cache = Cache(config.cache_bytes, config.read_cache_bytes or config.cache_bytes)
        self.files: list[LogFile] = []
        self.groups: ShardedDict[int, GroupLog] = ShardedDict()
        self.salt: i64 = 0
        self.rounds: i64 = 0
        self.next_number: i64 = 1
        self.last_round: i64 = 0
        self.manifest_busy = False
        self.version: i64 = 0
        self.version_due: i64 = 0
        self.dropping: set[int] = set()
        self.salvaged = False
        self.looked_upto: i64 = -1
        self.brief_rounds = False
        self.failure: BaseException | None = None

    def manifest(self, files: list[LogFile]) -> Manifest:
        """The manifest that makes these the log's files, the last one being open."""
        named: list[tuple[int, int]] = []
        for file in files:
            named.append((file.number, file.end if file.closed else 0))
        return Manifest(
            self.salt, self.next_number, int(self.last_round), named, int(self.version_due)
        )

    def published(self, manifest: Manifest) -> None:
        """A manifest is durable."""
        self.version = max(self.version, i64(manifest.version))

    def fail(self, error: BaseException) -> None:
        """Stop for good, and say so once."""
        if self.failure is None:
            self.failure = error
            self.listener.failed(error)
