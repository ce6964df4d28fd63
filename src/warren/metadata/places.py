"""Where the queues of a vhost live, as its tables say."""

from __future__ import annotations

from typing import final

from warren.metadata.tables import VhostRecord
from warren.routing.places import Places


@final
class TablePlaces(Places):
    """Which queues of a vhost live on one node."""

    def __init__(self, tables: VhostRecord, node: str) -> None:
        self._tables: VhostRecord = tables
        self._node: str = node

    def here(self, queue: str) -> bool:
        """Whether a queue that exists lives on the node, or no cluster is known."""
        record = self._tables.queues.get(queue)
        return record is not None and record.node in ("", self._node)
