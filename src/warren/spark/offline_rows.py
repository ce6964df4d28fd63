"""Queues of a data directory as Arrow record batches: no broker is needed, and none may use it.

    rows = read_directory("/backups/node-1", "orders")
    rows.read_pandas()

The columns are those of a queue of a broker, and what became of each message besides. What cannot
be read is told in rows of its own, of state `damaged`: each is about the messages from `offset` to
`last_offset`, or, where these are null, about something of the queue or of the whole directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from warren.client.table import Batches
from warren.errors import ConfigError, StorageError
from warren.offline.directory import DataDirectory, StoredQueue, open_directory
from warren.offline.states import DAMAGED, LIVE, MessageRun
from warren.spark.columns import to_arrow
from warren.spark.filters import filtered
from warren.spark.options import OfflineOptions, offline_options
from warren.spark.reading import READ_BYTES, read_span, spans
from warren.spark.records import Positions, Stored
from warren.spark.schema import COLUMNS, OFFLINE_COLUMNS, arrow_schema
from warren.spark.where import Condition, Literal, columns_of, may_be_true

#: Names of queues in an error that lists them.
_NAMES_MAX: Final = 20


@dataclass
class Part:
    """Some messages of one queue, or what is wrong with it.

    Attributes:
        group_id: The queue's incarnation; 0 for what concerns the whole directory.
        runs: Its messages.
        damage: What cannot be read, as far as that is known before anything is.
    """

    group_id: int
    runs: list[MessageRun]
    damage: list[MessageRun]


def choose(directory: DataDirectory, options: OfflineOptions) -> list[StoredQueue]:
    """The queues that are to be read: of those that are named, the ones that may have rows to keep.

    Raises:
        ConfigError: There is none of that name.
    """
    queues = [
        queue
        for queue in directory.queues
        if (options.vhost is None or queue.vhost == options.vhost)
        and (queue.name == options.queue if options.queue else options.gone or not queue.deleted)
    ]
    if options.queue and not queues:
        names = [f"{queue.name!r} in vhost {queue.vhost!r}" for queue in directory.queues]
        more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
        where = "" if options.vhost is None else f" in vhost {options.vhost!r}"
        raise ConfigError(
            f"{options.directory} has no queue {options.queue!r}{where} that is kept on disk; "
            f"it has: {', '.join(names[:_NAMES_MAX]) or 'none'}{more}"
        )
    if options.where is None:
        return queues
    return [queue for queue in queues if _may_have_rows(queue, options.where)]


def _may_have_rows(queue: StoredQueue, where: Condition) -> bool:
    """Whether rows of a queue, those about its damage included, can be kept."""
    constants: dict[str, Literal] = {
        "topic": queue.name, "vhost": queue.vhost, "incarnation": queue.group_id, "partition": 0,
    }  # fmt: skip
    return may_be_true(where, constants)


def plan_parts(directory: DataDirectory, options: OfflineOptions) -> list[list[Part]]:
    """What is to be read, cut into tasks of about equal size; at least one."""
    queues = [(queue, queue.runs(options.gone)) for queue in choose(directory, options)]
    total = sum(run.last - run.first + 1 for _, runs in queues for run in runs)
    rows_max = min(options.partition_rows_max, max(1, -(-total // options.partitions_min)))
    problems = [MessageRun(-1, -1, DAMAGED, problem) for problem in directory.problems]
    tasks = [[Part(0, [], problems)]]
    room = rows_max
    for queue, runs in queues:
        tasks[-1].append(Part(queue.group_id, [], queue.damage))
        for run in runs:
            while run.first <= run.last:
                if room == 0:
                    tasks.append([Part(queue.group_id, [], [])])
                    room = rows_max
                last = min(run.last, run.first + room - 1)
                tasks[-1][-1].runs.append(replace(run, last=last))
                room -= last - run.first + 1
                run = replace(run, first=last + 1)
    return tasks


def read_parts(
    directory: DataDirectory, parts: Sequence[Part], options: OfflineOptions
) -> Iterator[pa.RecordBatch]:
    """Read the rows of one task.

    Raises:
        StorageError: The directory is another one than when the task was planned.
    """
    where, schema = options.where, arrow_schema(options.columns)
    if where is None:
        yield from _part_rows(directory, parts, schema, options.arrow_rows_max)
        return
    whole = arrow_schema(columns_of(where).union(options.columns))
    for rows in _part_rows(directory, parts, whole, options.arrow_rows_max):
        kept = filtered(where, rows, schema)
        if kept.num_rows:
            yield kept


def _part_rows(
    directory: DataDirectory, parts: Sequence[Part], schema: pa.Schema, rows_max: int
) -> Iterator[pa.RecordBatch]:
    """As `read_parts`, with all rows."""
    queues = {queue.group_id: queue for queue in directory.queues}
    for part in parts:
        queue = queues.get(part.group_id)
        if queue is None and part.group_id:
            raise StorageError(
                f"{directory.path} has no log of group {part.group_id} any more: it was changed "
                "while it was read"
            )
        if part.damage:
            yield _damaged(queue, part.damage, schema)
        if queue is not None and part.runs:
            yield from _QueueRows(queue, part.runs, schema, rows_max).read()


def read_directory(
    directory: str,
    queue: str | None = None,
    columns: Sequence[str] = OFFLINE_COLUMNS,
    options: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """Read the messages of a queue, or of all queues, of a data directory that no node uses.

    Args:
        directory: The data directory of a node that does not run, or a copy of one.
        columns: Which columns; docs/spark.md has all of them.
        options: Further ones of docs/spark.md, such as `vhost` or `includeGone`.

    Raises:
        ConfigError: An option is wrong, or there is no such queue.
        StorageError: A node uses it, it is of a later release, or nothing of it can be read.
    """
    given = {"dataDirectory": directory, "columns": ",".join(columns), **(options or {})}
    if queue is not None:
        given["subscribe"] = queue
    read = offline_options(given)
    with open_directory(read.directory) as opened:
        tasks = plan_parts(opened, read)
    schema = arrow_schema(read.columns)
    return pa.RecordBatchReader.from_batches(schema, _all_rows(read, tasks))


def _all_rows(options: OfflineOptions, tasks: list[list[Part]]) -> Iterator[pa.RecordBatch]:
    with open_directory(options.directory) as directory:
        for parts in tasks:
            yield from read_parts(directory, parts, options)


class _Reads:
    """Reads a queue's record batches from files, and notes what was wrong with them."""

    def __init__(self, queue: StoredQueue) -> None:
        self._queue = queue
        self.damage: list[MessageRun] = []

    def read(self, queue: str, first: int, last: int, bytes_max: int) -> Batches:
        """As `warren.client.table.Tables.read`, of the queue that this is about."""
        raw = self._queue.read(first, last, bytes_max)
        if raw.damage is not None:
            self.damage.append(MessageRun(first, raw.following - 1, DAMAGED, str(raw.damage)))
        return Batches(raw.following, raw.data)


class _QueueRows:
    """Reads some messages of one queue, with what became of them."""

    def __init__(
        self, queue: StoredQueue, runs: list[MessageRun], schema: pa.Schema, rows_max: int
    ) -> None:
        self._queue = queue
        self._runs = runs
        self._schema = schema
        self._rows_max = rows_max
        self._plain = arrow_schema({"offset", *schema.names}.intersection(COLUMNS))
        self._firsts = np.array([run.first for run in runs], np.int64)
        self._lasts = np.array([run.last for run in runs], np.int64)
        self._states = pa.array([run.state for run in runs], pa.string())
        self._reasons = pa.array([run.reason or None for run in runs], pa.string())
        self._acquired = pa.array([run.acquired for run in runs], pa.int32())
        self._failed = pa.array([run.failed for run in runs], pa.int32())

    def read(self) -> Iterator[pa.RecordBatch]:
        """All of it; what cannot be read comes behind what lies near it."""
        for span in spans([(run.first, run.last) for run in self._runs]):
            reads = _Reads(self._queue)
            found: list[Positions] = []
            undecoded: list[MessageRun] = []
            try:
                for stored in read_span(reads, self._queue.name, span, READ_BYTES):
                    found.append(stored.numbers)
                    for first in range(0, len(stored), self._rows_max):
                        part = stored.part(first, min(first + self._rows_max, len(stored)))
                        yield from self._decoded(part, undecoded)
            except StorageError as error:
                reads.damage.append(MessageRun(span[0][0], span[-1][1], DAMAGED, str(error)))
            missing = self._missing(span, np.concatenate([np.empty(0, np.int64), *found]), reads)
            if missing or undecoded:
                yield _damaged(self._queue, [*missing, *undecoded], self._schema)

    def _decoded(self, stored: Stored, undecoded: list[MessageRun]) -> Iterator[pa.RecordBatch]:
        """Rows of what can be decoded; where one record cannot, the others still are."""
        try:
            plain = to_arrow(stored, self._queue.name, self._plain)
        except StorageError as error:
            half = len(stored) // 2
            if half == 0:
                number = int(stored.numbers[0])
                undecoded.append(MessageRun(number, number, DAMAGED, str(error)))
                return
            yield from self._decoded(stored.part(0, half), undecoded)
            yield from self._decoded(stored.part(half, len(stored)), undecoded)
            return
        columns = dict(zip(plain.schema.names, plain.columns, strict=True))
        columns |= self._known(stored.numbers)
        yield pa.RecordBatch.from_arrays(
            [columns[name] for name in self._schema.names], schema=self._schema
        )

    def _known(self, numbers: Positions) -> dict[str, pa.Array]:
        """What became of messages, as columns."""
        rows = len(numbers)
        which = pa.array(np.searchsorted(self._firsts, numbers, side="right") - 1)
        zeros = pa.array(np.zeros(rows, np.int64))
        return {
            "vhost": pa.array([self._queue.vhost]).take(zeros),
            "incarnation": pa.array([self._queue.group_id]).take(zeros),
            "state": self._states.take(which),
            "reason": self._reasons.take(which),
            "acquired_count": self._acquired.take(which),
            "delivery_count": self._failed.take(which),
            "last_offset": pa.array(numbers),
        }

    def _missing(
        self, span: list[tuple[int, int]], found: Positions, reads: _Reads
    ) -> list[MessageRun]:
        """Messages of a span that no file has, although they are in their queue.

        Of one that is not, files may have nothing any more; it is missed where they are damaged.
        """
        missing: list[MessageRun] = []
        low = int(np.searchsorted(self._firsts, span[0][0]))
        for run in self._runs[low:]:
            if run.first > span[-1][1]:
                break
            for first, last in _gaps(found, run.first, run.last):
                near = [
                    damage
                    for damage in reads.damage
                    if damage.first <= last and damage.last >= first
                ]
                if run.state in LIVE:
                    why = "; ".join(damage.reason for damage in near) or "no file of the log has it"
                    missing.append(MessageRun(first, last, DAMAGED, why))
                    continue
                for damage in near:
                    low_end, high_end = max(first, damage.first), min(last, damage.last)
                    missing.append(MessageRun(low_end, high_end, DAMAGED, damage.reason))
        return missing


def _gaps(found: Positions, first: int, last: int) -> list[tuple[int, int]]:
    """The numbers from one to another that are not among some ascending ones."""
    some = found[np.searchsorted(found, first) : np.searchsorted(found, last, side="right")]
    borders = np.concatenate([[first - 1], some, [last + 1]])
    holes = np.flatnonzero(np.diff(borders) > 1)
    return [(int(borders[at]) + 1, int(borders[at + 1]) - 1) for at in holes]


def _damaged(
    queue: StoredQueue | None, damage: list[MessageRun], schema: pa.Schema
) -> pa.RecordBatch:
    """Rows that tell what cannot be read."""
    rows = len(damage)
    told: dict[str, list[Any]] = {
        "partition": [0] * rows,
        "offset": [None if run.first < 0 else run.first for run in damage],
        "last_offset": [None if run.last < 0 else run.last for run in damage],
        "state": [run.state for run in damage],
        "reason": [run.reason for run in damage],
    }
    if queue is not None:
        told["topic"] = [queue.name] * rows
        told["vhost"] = [queue.vhost] * rows
        told["incarnation"] = [queue.group_id] * rows
    arrays = [
        pa.array(told[field.name], field.type) if field.name in told else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


__all__ = ["Part", "choose", "plan_parts", "read_directory", "read_parts"]
