"""What the log of a node brings about there."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from warren.errors import CorruptRecord
from warren.log.batch import Batch
from warren.log.listener import LogListener
from warren.log.runlist import LiveRuns

if TYPE_CHECKING:
    from warren.node.node import Node


@final
class NodeLogListener(LogListener):
    """The log's way to its node."""

    def __init__(self, node: Node) -> None:
        self._node: Node = node

    def persisted(self, batches: list[Batch]) -> None:
        """Batches are durable."""
        self._node.persisted(batches)

    def snapshot_wanted(self, group_id: int) -> None:
        """A group's snapshot is due."""
        self._node.want_snapshot(group_id)

    def live_runs(self, group_id: int) -> LiveRuns:
        """Messages of a group that are still needed."""
        return self._node.hosting.live(group_id)

    def disk_full(self, full: bool) -> None:
        """Space ran out, or is back."""
        self._node.disk_full(full)

    def damaged(self, error: CorruptRecord) -> None:
        """Have queues looked after that have something in a closed file, which is damaged."""
        self._node.repairs.found(error)

    def failed(self, error: BaseException) -> None:
        """The log cannot go on."""
        self._node.fail(error)
