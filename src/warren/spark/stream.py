"""`spark.readStream.format("warren")`: a query that takes what it processes, exactly once.

Spark's offset is `{"<queue>": number of the group's last checkout}`. One object of this class lives
in a process on the driver for as long as the query runs; `read` alone runs on executors, in copies
that never saw the driver's calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from warren.errors import ConfigError
from warren.spark.broker import Connect
from warren.spark.group import GroupReader
from warren.spark.options import UNBOUNDED, ReadOptions
from warren.spark.partition import plan, read

Offset = dict[str, Any]


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query over a queue, on behalf of a group."""

    def __init__(self, options: ReadOptions, connect: Connect) -> None:
        self._options = options
        self._connect = connect
        self._group: GroupReader | None = None
        self._up_to = UNBOUNDED  # the highest message number to take; below 0 none at all

    def initialOffset(self) -> Offset:
        """Where a query without a checkpoint begins. May be called more than once."""
        return self._offset(self._reader().settled())

    def getDefaultReadLimit(self) -> ReadLimit:
        """At most `maxOffsetsPerTrigger` rows a batch; `maxBytesPerTrigger` holds beside it."""
        return ReadMaxRows(self._options.rows_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember what is the newest message now; the query ends when it has come this far."""
        self._up_to = self._reader().status().next - 1

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Take the next messages.

        Spark calls this when everything up to `start` is committed, also after the last batch,
        where it does not call `commit` any more: so this settles.
        """
        if isinstance(limit, ReadMaxRows):
            rows_max, bytes_max = limit.max_rows, self._options.bytes_max
        elif isinstance(limit, ReadAllAvailable):  # Trigger.Once
            rows_max, bytes_max = UNBOUNDED, UNBOUNDED
        else:
            raise ConfigError(f"a queue cannot be read with {type(limit).__name__}")
        if self._up_to < 0:
            return start
        number = self._number(start)
        return self._offset(self._reader().take(number, rows_max, bytes_max, self._up_to))

    def reportLatestOffset(self) -> Offset:
        """What a query's progress shows as the newest: for its lag, `ready` counts what waits."""
        status = self._reader().status()
        return {self._options.queue: status.settled, "next": status.next, "ready": status.ready}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a logged batch, the same whenever and wherever it is asked for."""
        if start == end:
            return []
        held = self._reader().held(self._number(start), self._number(end))
        return plan(self._options, [run for checkout in held for run in checkout.runs])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task's partition, as Arrow batches."""
        complete = self._options.fail_on_data_loss
        return read(self._options, partition, complete, self._connect)

    def commit(self, end: Offset) -> None:
        """Settle: the batch that ends here is in the checkpoint."""
        self._reader().settle(self._number(end))

    def stop(self) -> None:
        """Disconnect. Spark does not always call this, and what is open must stay open."""
        if self._group is not None:
            self._group.close()

    def _reader(self) -> GroupReader:
        if self._group is None:
            options = self._options
            self._group = GroupReader(
                options.uri,
                options.queue,
                options.group,
                options.lease_ms,
                options.fail_on_data_loss,
                self._connect,
            )
        return self._group

    def _offset(self, number: int) -> Offset:
        return {self._options.queue: number}

    def _number(self, offset: Offset) -> int:
        """The checkout number in an offset.

        Raises:
            ConfigError: The checkpoint belongs to another queue.
        """
        number = offset.get(self._options.queue)
        if not isinstance(number, int):
            raise ConfigError(
                f"the checkpoint is of {', '.join(offset) or 'nothing'}, not of queue "
                f"{self._options.queue!r}; give each query a checkpointLocation of its own"
            )
        return number
