"""Plays Spark on the driver: the calls of `MicroBatchExecution` on a source, and its checkpoint.

Used by tests without a JVM. A `Query` keeps an offset log and a commit log, calls the reader in the
order Spark does, and dies where it is told to; a new `Query` over the same logs is the restart.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from warren.spark.broker import Connect
from warren.spark.log_stream import LogStreamReader
from warren.spark.options import is_log, is_staged, read_options, staged_options
from warren.spark.staged_stream import StagedStreamReader
from warren.spark.stream import QueueStreamReader

POINTS = ("checked out", "logged", "half written", "written", "committed")


class Killed(Exception):
    """The driver is gone."""


@dataclass
class Checkpoint:
    """What Spark and an idempotent sink keep on disk."""

    offsets: list[dict[str, Any]] = field(default_factory=list)
    commits: int = 0
    start: dict[str, Any] | None = None
    sink: dict[int, list[bytes]] = field(default_factory=dict)
    skips: frozenset[int] = frozenset()

    def rows(self) -> list[bytes]:
        return [row for number in sorted(self.sink) for row in self.sink[number]]


class Query:
    """One run of a query, by a fresh driver."""

    def __init__(self, connect: Connect, disk: Checkpoint, **given: str) -> None:
        self.reader: QueueStreamReader | StagedStreamReader | LogStreamReader
        if is_staged(given):
            self.reader = StagedStreamReader(staged_options(given), connect)
        elif is_log(given):
            options = {"subscribe": "q"} | given
            if "subscribePattern" in given:
                del options["subscribe"]
            self.reader = LogStreamReader(read_options(options, streaming=True), connect)
        else:
            options = {"subscribe": "q", "groupId": "g", "leaseTimeout": "0"} | given
            self.reader = QueueStreamReader(read_options(options, streaming=True), connect)
        self.shipped = pickle.dumps(self.reader)  # the planner's copy, which never saw a call
        self.connect = connect
        self.disk = disk

    def run(self, kill_at: str | None = None, kill_batch: int = 0) -> None:
        """One AvailableNow run; dies at a point of a batch if told to."""
        disk, reader = self.disk, self.reader

        def reached(point: str, batch: int) -> None:
            if kill_at == point and kill_batch == batch:
                raise Killed

        reader.prepareForTriggerAvailableNow()
        if disk.start is None:
            disk.start = reader.initialOffset()
        if len(disk.offsets) > disk.commits:
            self.process(reached)  # straight from the log: neither initialOffset nor latestOffset
        while True:
            start = disk.offsets[-1] if disk.offsets else disk.start
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            reached("checked out", disk.commits)
            if end == start:
                return  # the last batch is never committed to the source
            if disk.offsets:
                reader.commit(start)
            disk.offsets.append(end)
            reached("logged", disk.commits)
            self.process(reached)

    def process(self, reached: Callable[[str, int], None]) -> None:
        disk = self.disk
        number = disk.commits
        if number in disk.skips:  # a file sink that has the id: no task runs, nothing is planned
            disk.commits += 1
            return
        start = disk.offsets[number - 1] if number else disk.start
        rows: list[bytes] = []
        executor = pickle.loads(self.shipped)
        executor._connect = self.connect  # the same broker, not a copy of it
        for partition in self.reader.partitions(start, disk.offsets[number]):
            shipped = pickle.loads(pickle.dumps(partition))
            for arrow in executor.read(shipped):
                rows.extend(arrow["value"].to_pylist())
            reached("half written", number)
        disk.sink[number] = rows
        reached("written", number)
        disk.commits += 1
        reached("committed", number)
