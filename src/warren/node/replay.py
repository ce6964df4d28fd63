"""What the log brings back at start-up, before the node knows whose it is."""

from __future__ import annotations

from typing import final

from warren.log.batch import Batch
from warren.log.listener import Replayer
from warren.node.tables import METADATA_GROUP
from warren.queues.classic import CLEAN
from warren.queues.fifo import Fifo
from warren.queues.logged import replay


@final
class NodeReplayer(Replayer):
    """Rebuilds machines from the log.

    Attributes:
        machines: Queue machines by group.
        seen: Messages and bytes replayed, by group.
        clean: Groups whose newest entry is an orderly stop's snapshot.
        tables_state, tables_entries: What the log holds of the cluster's tables.
    """

    def __init__(self) -> None:
        self.machines: dict[int, Fifo] = {}
        self.clean: dict[int, bool] = {}
        self.seen: dict[int, tuple[int, int]] = {}
        self.tables_state: bytes = b""
        self.tables_entries: list[tuple[int, bytes]] = []

    def snapshot(self, group_id: int, index: int, state: bytes) -> None:
        """A group's newest snapshot."""
        if group_id == METADATA_GROUP:
            self.tables_state = state
            return
        fifo = Fifo(-1, False)
        fifo.restore(state)
        self.machines[group_id] = fifo
        self.clean[group_id] = state[1] & CLEAN != 0

    def entry(self, batch: Batch) -> None:
        """An entry behind it."""
        group = batch.group
        assert group is not None
        if group.id == METADATA_GROUP:
            end = batch.payload_at + batch.payload_size
            self.tables_entries.append((int(batch.index), batch.payload[batch.payload_at : end]))
            return
        fifo = self.machines.get(group.id)
        if fifo is None:
            fifo = Fifo(-1, False)
            self.machines[group.id] = fifo
        self.clean[group.id] = False
        replay(fifo, batch)
        if batch.count > 0:
            messages, size = self.seen.get(group.id, (0, 0))
            self.seen[group.id] = (messages + int(batch.count), size + int(batch.payload_size))
