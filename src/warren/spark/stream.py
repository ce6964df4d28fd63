"""`spark.readStream.format("warren")`: a query that takes what it processes, exactly once.

Spark's offset is `{"<queue>": number of the group's last checkout, "<queue>#incarnation": which
queue of that name it is}`; those of earlier releases have the first alone. One object of this class
lives in a process on the driver for as long as the query runs; `read` alone runs on executors, in
copies that never saw the driver's calls.
"""

from __future__ import annotations

import sys
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
from warren.spark.broker import CheckpointLost, Connect
from warren.spark.checkpoint import CommitWatch, Place, place_in
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
        self._watch: CommitWatch | None = None
        self._unplanned: Place | None = None  # taken in this process, and no task read it so far

    def initialOffset(self) -> Offset:
        """Where a query without a checkpoint begins. May be called more than once.

        Raises:
            CheckpointLost: The group's batches are in another checkpoint, and their ids in a sink.
        """
        place = self._reader().settled()
        settled = place.number
        if settled > 0 and not self._options.new_checkpoint:
            raise CheckpointLost(
                f"group {self._options.group!r} of queue {self._options.queue!r} has settled "
                f"{settled} checkouts, but this query has no checkpoint: its batches would begin "
                "at id 0 again, and a sink that has those skips or replaces them. Use the "
                "checkpoint that the group had, or write to a place that is new and set option "
                "newCheckpoint=true, or take a groupId that is new"
            )
        return self._offset(place)

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
        place = self._place(start)
        if place == self._unplanned:
            self._skipped(place)
        taken = self._reader().take(place, rows_max, bytes_max, self._up_to)
        if taken is None:
            return start
        self._unplanned = taken
        return self._offset(taken)

    def reportLatestOffset(self) -> Offset:
        """What a query's progress shows as the newest: for its lag, `ready` counts what waits."""
        status = self._reader().lag()
        return {self._options.queue: status.settled, "next": status.next, "ready": status.ready}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a logged batch, the same whenever and wherever it is asked for."""
        if start == end:
            return []
        if self._place(end) == self._unplanned:
            self._unplanned = None
        held = self._reader().held(self._place(start), self._place(end))
        if self._options.checkpoint is not None:
            if self._watch is None:
                self._watch = CommitWatch(
                    self._options.checkpoint,
                    self._options.queue,
                    self._reader().settle_committed,
                )
            self._watch.expect(self._place(end))
        runs = [run for checkout in held for run in checkout.runs]
        return plan(self._options, runs, self._reader().epoch())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task's partition, as Arrow batches."""
        complete = self._options.fail_on_data_loss
        return read(self._options, partition, complete, self._connect)

    def commit(self, end: Offset) -> None:
        """Settle: the batch that ends here is in the checkpoint."""
        place = self._place(end)
        if place == self._unplanned:
            self._skipped(place)
        else:
            self._reader().settle(place)

    def stop(self) -> None:
        """Disconnect. Spark does not always call this, and what is open must stay open."""
        if self._watch is not None:
            self._watch.stop()
        if self._group is not None:
            self._group.close()

    def _skipped(self, place: Place) -> None:
        """Give back a batch that Spark committed and never planned, as its sink has that id."""
        self._reader().give_back()
        self._unplanned = None
        print(
            f"warren: checkout {place.number} of queue {self._options.queue!r} went back to it: "
            "the query's sink has a batch with the same id, of another checkpoint, and skipped it",
            file=sys.stderr,
            flush=True,
        )

    def _reader(self) -> GroupReader:
        if self._group is None:
            self._group = GroupReader(self._options, self._connect)
        return self._group

    def _offset(self, place: Place) -> Offset:
        queue = self._options.queue
        if place.incarnation == 0:
            return {queue: place.number}
        return {queue: place.number, f"{queue}#incarnation": place.incarnation}

    def _place(self, offset: Offset) -> Place:
        """What an offset says.

        Raises:
            ConfigError: The checkpoint belongs to another queue.
        """
        place = place_in(offset, self._options.queue)
        if place is None:
            raise ConfigError(
                f"the checkpoint is of {', '.join(offset) or 'nothing'}, not of queue "
                f"{self._options.queue!r}; give each query a checkpointLocation of its own"
            )
        return place


class RefusedReader(DataSourceStreamReader):
    """Stands for a query whose options are wrong, and says so whatever it is asked."""

    def __init__(self, error: ConfigError) -> None:
        self._error = str(error)

    def initialOffset(self) -> Offset:
        """Say what is wrong."""
        raise ConfigError(self._error)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Say what is wrong."""
        raise ConfigError(self._error)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Say what is wrong."""
        raise ConfigError(self._error)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Say what is wrong."""
        raise ConfigError(self._error)

    def stop(self) -> None:
        """There is nothing to end."""
