"""The names of those queues of a vhost that a client may read as tables, found out in parts."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.metadata.rows import Lot
from warren.metadata.tables import queues_of
from warren.vhost.handle import VhostHandle


@final
class TableNames:
    """A walk through the queues of a vhost; those that come and go meanwhile may be missing.

    Attributes:
        version: Of the cluster's tables when it began. While it stays the same, so do the names.
    """

    def __init__(self, vhost: VhostHandle) -> None:
        self._vhost: VhostHandle = vhost
        self.version: i64 = vhost.tables_version()
        self._lots: list[Lot] = vhost.queue_lots()
        self._next: i64 = 0

    def go_on(self) -> list[str] | None:
        """The names of one part; None behind the last."""
        if self._next >= len(self._lots):
            return None
        lot = self._lots[self._next]
        self._next += 1
        names: list[str] = []
        for record in queues_of(lot):
            kind = record.type
            if record.durable and not kind.delays and self._vhost.may_read(record.name):
                names.append(record.name)
        return names
