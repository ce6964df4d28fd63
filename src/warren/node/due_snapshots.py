"""The snapshots that the log has asked for: some are written in each turn, another turn goes on."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.limits import TURN_SNAPSHOT_BYTES_MAX, TURN_SNAPSHOTS_MAX
from warren.node.queues import LocalQueues
from warren.node.store import METADATA_GROUP, MetadataStore


@final
class DueSnapshots:
    """Those of one node.

    Attributes:
        groups: Whose they are, in the order in which they are served.
    """

    def __init__(self, store: MetadataStore, queues: LocalQueues) -> None:
        self.groups: dict[int, None] = {}
        self._store: MetadataStore = store
        self._queues: LocalQueues = queues

    def write(self) -> None:
        """Write some of them."""
        size: i64 = 0
        served: list[int] = []
        for group_id in self.groups:
            if len(served) >= TURN_SNAPSHOTS_MAX or size >= TURN_SNAPSHOT_BYTES_MAX:
                break
            served.append(group_id)
            if group_id == METADATA_GROUP:
                size += self._store.snapshot()
            else:
                queue = self._queues.logged.get(group_id)
                if queue is not None and not queue.deleted:
                    written = queue.snapshot_part()
                    if written < 0:
                        # It goes on in the next turn.
                        served.pop()
                        break
                    size += written
        if len(served) == len(self.groups):
            self.groups = {}
        else:
            for group_id in served:
                del self.groups[group_id]
