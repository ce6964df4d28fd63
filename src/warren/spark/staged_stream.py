"""`mode=staged`: a streaming query that takes messages of a broker that is not Warren.

Such a broker has no checkouts, so the driver consumes: each trigger it puts what comes into files
(`staged_files`) and acknowledges it when it is on the disk. Spark's offset is, as
`{"<queue>": number}`, how many messages were staged before; tasks read the files, which all hosts
of Spark have to see under the same path. A message that was acknowledged is staged once; one that
was staged while its acknowledgement was lost comes again, and is told by its `message_id`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from warren.errors import ConfigError
from warren.spark.broker import CheckpointLost, Connect, RowsLost
from warren.spark.checkpoint import Offset
from warren.spark.columns import to_arrow
from warren.spark.options import UNBOUNDED, StagedOptions
from warren.spark.reading import split_shares
from warren.spark.schema import arrow_schema
from warren.spark.staged_files import StagedFile, StagingDirectory, staged_files, stored_in
from warren.spark.staging_consumer import StagingConsumer
from warren.spark.stream import rows_and_bytes


class StagedPart(NamedTuple):
    """Messages of one file.

    Attributes:
        path: Of the file.
        first, last: The numbers of the messages.
    """

    path: str
    first: int
    last: int


class StagedRows(InputPartition):
    """The messages one task reads, file by file."""

    def __init__(self, parts: Sequence[StagedPart]) -> None:
        super().__init__(None)
        self.parts = list(parts)


class StagedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query over one queue of any broker that speaks AMQP 0-9-1."""

    def __init__(self, options: StagedOptions, connect: Connect) -> None:
        self._options = options
        self._connect = connect
        self._directory: StagingDirectory | None = None
        self._consumer: StagingConsumer | None = None
        self._up_to = UNBOUNDED  # the number of the first message that a run does not take

    def initialOffset(self) -> Offset:
        """Where a query without a checkpoint begins.

        Raises:
            CheckpointLost: Another checkpoint counts the batches of this directory.
        """
        committed = self._open().committed
        if committed > 0 and not self._options.new_checkpoint:
            raise CheckpointLost(
                f"{self._options.folder} has {committed} messages that are done with, but this "
                "query has no checkpoint: its batches would begin at id 0 again, and a sink that "
                "has those skips or replaces them. Use the checkpoint that belongs to the "
                "directory, or write to a place that is new and set option newCheckpoint=true"
            )
        return {self._options.queue: committed}

    def getDefaultReadLimit(self) -> ReadLimit:
        """At most `maxOffsetsPerTrigger` rows a batch; `maxBytesPerTrigger` holds beside it."""
        return ReadMaxRows(self._options.rows_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember how much there is now; the query ends when it has come this far."""
        self._up_to = self._open().next + self._consuming().ready()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Stage the next messages, and let go of those that Spark is done with."""
        rows_max, bytes_max = rows_and_bytes(limit, self._options.bytes_max)
        directory = self._open()
        begin = self._number(start)
        if begin > directory.next:
            raise RowsLost(
                f"the checkpoint is at message {begin}, and {self._options.folder} has staged "
                f"{directory.next}: it is not the directory that belongs to the checkpoint"
            )
        directory.commit(begin)
        if directory.next == begin:
            # Else some were staged whose end no checkpoint has: they come first, by themselves.
            some_left = begin < self._up_to < UNBOUNDED
            self._consuming().stage(min(rows_max, self._up_to - begin), bytes_max, some_left)
        return {self._options.queue: directory.next}

    def reportLatestOffset(self) -> Offset:
        """What a query's progress shows as the newest, with the messages that wait as `ready`."""
        ready = 0 if self._consumer is None else self._consumer.waiting
        return {self._options.queue: self._open().next, "ready": ready}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a logged batch, the same whenever and wherever it is asked for.

        Raises:
            RowsLost: Files of it are not there.
        """
        begin, behind = self._number(start), self._number(end)
        if begin == behind:
            return []
        shares: list[tuple[StagedFile, list[tuple[int, int]]]] = []
        at = begin
        for file in staged_files(self._options.folder):
            if file.last < at or file.first >= behind:
                continue
            if file.first > at:
                break
            last = min(file.last, behind - 1)
            shares.append((file, [(at, last)]))
            at = last + 1
        if at < behind:
            raise RowsLost(
                f"messages {at} to {behind - 1} of the checkpoint's batch are not in "
                f"{self._options.folder}"
            )
        parts = split_shares(shares, self._options.partition_rows_max, self._options.partitions_min)
        return [
            StagedRows([StagedPart(str(file.path), *run) for file, runs in part for run in runs])
            for part in parts
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task's partition, as Arrow batches.

        Raises:
            RowsLost: A file is not there.
            CorruptRecord: One is damaged.
        """
        assert isinstance(partition, StagedRows), partition
        schema = arrow_schema(self._options.columns)
        rows_max = self._options.arrow_rows_max
        for part in partition.parts:
            for stored in stored_in(Path(part.path)):
                numbers = stored.numbers
                stored = stored.select((numbers >= part.first) & (numbers <= part.last))
                for first in range(0, len(stored), rows_max):
                    some = stored.part(first, min(first + rows_max, len(stored)))
                    yield to_arrow(some, self._options.queue, schema)

    def commit(self, end: Offset) -> None:
        """Let go of what the checkpoint has done with."""
        self._open().commit(self._number(end))

    def stop(self) -> None:
        """Disconnect, which gives back what was not staged, and leave the directory."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        if self._directory is not None:
            self._directory.close()
            self._directory = None

    def _number(self, offset: Offset) -> int:
        """What an offset says.

        Raises:
            ConfigError: The checkpoint belongs to another queue, or to another mode.
        """
        number = offset.get(self._options.queue)
        if type(number) is not int or len(offset) != 1:
            raise ConfigError(
                f"the checkpoint is of {', '.join(offset) or 'nothing'}, not of staged messages of "
                f"queue {self._options.queue!r}; give each query a checkpointLocation of its own"
            )
        return number

    def _open(self) -> StagingDirectory:
        if self._directory is None:
            self._directory = StagingDirectory(self._options.folder, self._options.queue)
        return self._directory

    def _consuming(self) -> StagingConsumer:
        if self._consumer is None:
            self._consumer = StagingConsumer(self._options, self._open(), self._connect)
        return self._consumer
