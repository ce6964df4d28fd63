"""How the log of one node is configured: sizes, limits and reserves."""

from __future__ import annotations

from typing import Final, final

from warren.limits import DISK_WAITING_BYTES_MAX

MEBIBYTE: Final = 1024 * 1024


@final
class LogConfig:
    """Settings of one node's log; sizes in bytes.

    Attributes:
        wal_max_size_bytes: Size at which the file being written is closed for a new one.
        cache_bytes: Newest bodies kept in memory, for the whole node.
        read_cache_bytes: The same for those that were read back; 0 for as much.
        reserve_bytes: Space allocated ahead, so that a full disk is met before it hurts.
        disk_free_limit_bytes: Free space below which the disk counts as full.
        live_share_percent: A closed file with a smaller share of live bytes is rewritten.
        compact_interval_ms: Least time between two looks for files to rewrite or delete.
        space_interval_ms: Least time between two looks at the disk's free space.
        extent_bytes_max: Bytes that looking for one batch may have to read.
        groups_at_once: Groups of closed files that one turn looks at.
        round_bytes_max: Size at which one gathered write takes no further batch.
        waiting_bytes_max: More than this not durable yet, and the disk counts as behind.
        pinned_bytes_max: Written while a peer that does not get on keeps entries from going.
        salt: A random number drawn once for a new directory; existing ones keep their own.
    """

    def __init__(
        self,
        wal_max_size_bytes: int = 64 * MEBIBYTE,
        cache_bytes: int = 8 * MEBIBYTE,
        reserve_bytes: int = 16 * MEBIBYTE,
        disk_free_limit_bytes: int = 50_000_000,
        live_share_percent: int = 50,
        compact_interval_ms: int = 5_000,
        space_interval_ms: int = 1_000,
        extent_bytes_max: int = 256 * 1024,
        round_bytes_max: int = 32 * MEBIBYTE,
        waiting_bytes_max: int = DISK_WAITING_BYTES_MAX,
        pinned_bytes_max: int = 512 * MEBIBYTE,
        salt: int = 0,
        read_cache_bytes: int = 0,
        groups_at_once: int = 64,
    ) -> None:
        assert wal_max_size_bytes > 0 and reserve_bytes > 0 and extent_bytes_max > 0
        assert groups_at_once > 0
        assert 0 <= live_share_percent <= 100
        assert 0 <= salt < 1 << 63, "the salt is 63 bits"
        self.wal_max_size_bytes = wal_max_size_bytes
        self.cache_bytes = cache_bytes
        self.read_cache_bytes = read_cache_bytes
        self.reserve_bytes = reserve_bytes
        self.disk_free_limit_bytes = disk_free_limit_bytes
        self.live_share_percent = live_share_percent
        self.compact_interval_ms = compact_interval_ms
        self.space_interval_ms = space_interval_ms
        self.extent_bytes_max = extent_bytes_max
        self.round_bytes_max = round_bytes_max
        self.waiting_bytes_max = waiting_bytes_max
        self.pinned_bytes_max = pinned_bytes_max
        self.salt = salt
        self.groups_at_once = groups_at_once
