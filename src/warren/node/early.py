"""Frames about groups that this node has not heard of yet: they are kept for a while."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

FRAMES_MAX: Final = 4_096
BYTES_MAX: Final = 16_777_216
"""Kept of all that came over one way, together; whose it is says what becomes of more."""


@final
class EarlyFrame:
    """A frame about a group that may be about to come.

    Attributes:
        node: Who sent it.
        until_ms: When it is not worth keeping any more, in monotonic time.
    """

    def __init__(self, node: str, frame: bytes, until_ms: i64) -> None:
        self.node: str = node
        self.frame: bytes = frame
        self.until_ms: i64 = until_ms


@final
class EarlyFrames:
    """All that are kept, in their order for each group.

    Attributes:
        count, size_bytes: How many they are, and their size.
    """

    def __init__(self) -> None:
        self.count: i64 = 0
        self.size_bytes: i64 = 0
        self._by_group: dict[int, list[EarlyFrame]] = {}

    def has_room_for(self, frame: bytes) -> bool:
        """Whether the bounds hold with one more."""
        return self.count < FRAMES_MAX and self.size_bytes + len(frame) <= BYTES_MAX

    def keep(self, group_id: i64, entry: EarlyFrame) -> None:
        """Keep one behind those of its group."""
        kept = self._by_group.get(int(group_id))
        if kept is None:
            kept = []
            self._by_group[int(group_id)] = kept
        kept.append(entry)
        self.count += 1
        self.size_bytes += len(entry.frame)

    def take(self, group_id: i64) -> list[EarlyFrame]:
        """Those of a group, which is here now; they are not kept any more."""
        taken = self._by_group.pop(int(group_id), None)
        if taken is None:
            return []
        self._discount(taken)
        return taken

    def drop(self, node: str, now_ms: i64) -> bool:
        """Drop what a node sent, or was kept for long enough; whether there was such."""
        dropped = False
        for group_id, entries in list(self._by_group.items()):
            gone = [entry for entry in entries if entry.node == node or entry.until_ms <= now_ms]
            if not gone:
                continue
            dropped = True
            self._discount(gone)
            left = [entry for entry in entries if entry.node != node and entry.until_ms > now_ms]
            if left:
                self._by_group[group_id] = left
            else:
                del self._by_group[group_id]
        return dropped

    def clear(self) -> None:
        """Drop all frames that are kept."""
        self._by_group = {}
        self.count = 0
        self.size_bytes = 0

    def _discount(self, entries: list[EarlyFrame]) -> None:
        self.count -= len(entries)
        for entry in entries:
            self.size_bytes -= len(entry.frame)
        assert self.count >= 0 and self.size_bytes >= 0, "what goes was counted"
