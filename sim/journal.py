"""Every entry that a node's log ever held, gathered from its files before they go.

A full replay of these entries has to give the machine that recovery builds from a snapshot and the
entries behind it.
"""

from __future__ import annotations

from typing import final

from sim.disk import SimFile
from warren.log.batch import KIND_COMMAND, KIND_MESSAGES, KIND_TRANSIENT, Batch, Header
from warren.log.files import LogFile
from warren.log.reading import walk
from warren.node.node import Node
from warren.node.replay import replay
from warren.queues.fifo.config import NOT_SET_UP
from warren.queues.fifo.machine import Fifo

Entries = dict[int, Batch]


def scan(file: LogFile) -> list[Batch]:
    """The entries in a log file, in order."""
    return [batch for _, batch in placed(file)]


def placed(file: LogFile) -> list[tuple[int, Batch]]:
    """The entries in a log file, in order, and where each begins."""
    handle = file.handle
    assert isinstance(handle, SimFile)
    data = handle.content(file.end)
    header = Header()
    found: list[tuple[int, Batch]] = []
    at = walk(data, 0, 0, header, file.path) if data else -1
    while at >= 0:
        if header.kind in (KIND_MESSAGES, KIND_TRANSIENT, KIND_COMMAND):
            found.append((int(at), header.batch(None, data, at)))
        at = walk(data, 0, at + header.size, header, file.path)
    return found


@final
class Journal:
    """See the module's head."""

    def __init__(self) -> None:
        self._groups: dict[int, Entries] = {}
        self._scanned: set[int] = set()

    def gather(self, node: Node) -> None:
        """Take the entries of files that were closed since the last call.

        Has to be called between the closing of a file and its removal; compaction needs more than
        one tick in between. What compaction writes repeats entries that are known by then.
        """
        for file in node.log._store.files:
            if file.closed and file.number not in self._scanned:
                self._scanned.add(file.number)
                self._take(scan(file), self._groups)

    def replayed(self, node: Node, group_id: int, index: int) -> Fifo | None:
        """The machine of a group by replaying its first `index` entries; None if any is missing."""
        fresh: dict[int, Entries] = {}
        for file in node.log._store.files:
            if not file.closed:
                self._take(scan(file), fresh)
        known = self._groups.get(group_id, {})
        newest = fresh.get(group_id, {})
        fifo = Fifo(NOT_SET_UP, False)
        for at in range(1, index + 1):
            batch = newest.get(at) or known.get(at)
            if batch is None:
                return None
            replay(fifo, batch)
        return fifo

    @staticmethod
    def _take(batches: list[Batch], groups: dict[int, Entries]) -> None:
        for batch in batches:
            groups.setdefault(int(batch.group_id), {}).setdefault(int(batch.index), batch)
