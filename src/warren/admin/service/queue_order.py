"""The queues of a vhost by name, sorted once for as long as the cluster's tables do not change.

Who turns the pages of a list of 100,000 queues has one page looked at each time, and not all of
them sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from warren.admin.service.slices import Slices
from warren.metadata.machine import MetadataMachine
from warren.metadata.tables import QueueRecord, VhostRecord, queues_of

FITTING_MAX: Final = 8
"""Of so many names that were looked for it is kept which queues fit."""
KEPT_MIN: Final = 500
"""The order of fewer queues is not kept: it is found at once."""

QueueName = tuple[str, str]
"""A vhost, and a queue's name in it."""


class KeptOrder(NamedTuple):
    """The queues of one vhost as they were.

    Attributes:
        tables: The vhost.
        applied: The newest change of the tables then,
        total: and how many queues there were, for a change may take more than one turn.
        records: Those that clients see, by name.
        names: Of each, its vhost and its name.
        fitting: Those that fit what was looked for: by what is in their names, and whether that is
            a regular expression.
    """

    tables: VhostRecord
    applied: int
    total: int
    records: list[QueueRecord]
    names: list[QueueName]
    fitting: dict[tuple[str, bool], list[QueueRecord]]

    async def those(
        self, sought: tuple[str, bool], wanted: Callable[[str], bool]
    ) -> list[QueueRecord]:
        """The queues whose names fit, by name; not to be changed.

        Args:
            sought: What `wanted` goes by.
            wanted: Says of a name whether it fits.
        """
        found = self.fitting.get(sought)
        if found is None:
            found = await Slices().those(self.records, lambda record: wanted(record.name))
            if len(self.fitting) >= FITTING_MAX:
                self.fitting.pop(next(iter(self.fitting)), None)
            self.fitting[sought] = found
        return found


class QueueOrder:
    """The orders that one node keeps."""

    def __init__(self) -> None:
        self._kept: dict[str, KeptOrder] = {}

    async def of(self, machine: MetadataMachine, tables: VhostRecord) -> list[QueueRecord]:
        """The queues of a vhost that clients see, by name; not to be changed."""
        return (await self.with_names(machine, tables)).records

    async def with_names(self, machine: MetadataMachine, tables: VhostRecord) -> KeptOrder:
        """The same with what names them; not to be changed."""
        applied, total = int(machine.applied_index), len(tables.queues)
        kept = self._kept.get(tables.name)
        if (
            kept is not None
            and kept.tables is tables
            and kept.applied == applied
            and kept.total == total
        ):
            return kept
        slices = Slices()
        found: list[QueueRecord] = []
        for lot in list(tables.queue_rows.lots):
            found += filter(_shown, queues_of(lot))
            await slices.breathe()
        records: list[QueueRecord] = []
        names: list[QueueName] = []
        async for record in slices.in_order(found, _name):
            records.append(record)
            names.append((record.vhost, record.name))
        order = KeptOrder(tables, applied, total, records, names, {})
        if total >= KEPT_MIN and machine.applied_index == applied:
            self._kept[tables.name] = order
            for name in [name for name in self._kept if name not in machine.vhosts]:
                del self._kept[name]
        return order


def _shown(record: QueueRecord) -> bool:
    return not record.type.delays


def _name(record: QueueRecord) -> str:
    return record.name
