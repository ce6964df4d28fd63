"""`spark.readStream.format("warren")`: a query that takes what it processes, exactly once.

Spark's offset is, for each queue, `{"<queue>": number of the group's last checkout,
"<queue>#incarnation": which queue of that name it is}`; those of earlier releases have the first
alone. One object of this class lives in a process on the driver for as long as the query runs;
`read` alone runs on executors, in copies that never saw the driver's calls.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

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
from warren.spark.checkpoint import CommitWatch, Offset, Places, offset_of, places_in, shown
from warren.spark.draining import DrainedQueues
from warren.spark.options import UNBOUNDED, ReadOptions
from warren.spark.pace import TriggerPace
from warren.spark.partition import plan, read
from warren.spark.task_files import read_into_file


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query over queues, on behalf of a group in each."""

    def __init__(self, options: ReadOptions, connect: Connect) -> None:
        self._options = options
        self._connect = connect
        self._drained: DrainedQueues | None = None
        self._up_to: dict[str, int] | None = None  # the highest message to take of each queue
        self._watch: CommitWatch | None = None
        self._pace = TriggerPace(options.rows_min, options.delay_seconds)
        # What this process has taken, where that begins and ends, while no task has read it.
        self._unplanned: tuple[Places, Places] | None = None

    def initialOffset(self) -> Offset:
        """Where a query without a checkpoint begins. May be called more than once.

        Raises:
            CheckpointLost: The group's batches are in another checkpoint, and their ids in a sink.
        """
        places = self._queues().settled()
        for queue, place in places.items():
            if place.number > 0 and not self._options.new_checkpoint:
                raise CheckpointLost(
                    f"group {self._options.group!r} of queue {queue!r} has settled "
                    f"{place.number} checkouts, but this query has no checkpoint: its batches "
                    "would begin at id 0 again, and a sink that has those skips or replaces them. "
                    "Use the checkpoint that the group had, or write to a place that is new and "
                    "set option newCheckpoint=true, or take a groupId that is new"
                )
        return offset_of(places)

    def getDefaultReadLimit(self) -> ReadLimit:
        """At most `maxOffsetsPerTrigger` rows a batch; `maxBytesPerTrigger` holds beside it."""
        return ReadMaxRows(self._options.rows_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember what is the newest message of each queue now; the query ends when it has come
        this far. Queues that a pattern finds later wait for the next run."""
        self._up_to = self._queues().newest()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Take the next messages.

        Spark calls this when everything up to `start` is committed, also after the last batch,
        where it does not call `commit` any more: so this settles.
        """
        rows_max, bytes_max = rows_and_bytes(limit, self._options.bytes_max)
        begin = self._places(start)
        self._see_skipped(begin)
        queues = self._queues()
        if self._up_to is None and rows_max < UNBOUNDED and not self._pace.is_due(queues.waiting):
            queues.settle(begin)
            return start
        end = queues.take(begin, rows_max, bytes_max, self._up_to)
        if end == begin:
            return start
        self._pace.began()
        if _gained(begin, end):
            self._unplanned = begin, end
        return offset_of(end)

    def reportLatestOffset(self) -> Offset:
        """What a query's progress shows as the newest: its lag in messages (`ready`), in `bytes`,
        and in `seconds`, the age of the oldest that comes next."""
        lags = self._queues().lags()
        offset: Offset = {queue: lag.settled for queue, lag in lags.items()}
        for lag in lags.values():
            if len(lags) == 1:
                offset["next"] = lag.next
            if lag.size_bytes >= 0:
                offset["bytes"] = offset.get("bytes", 0) + lag.size_bytes
                offset["seconds"] = max(offset.get("seconds", 0), lag.seconds)
        return {**offset, "ready": sum(lag.rows for lag in lags.values())}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a logged batch, the same whenever and wherever it is asked for."""
        if start == end:
            return []
        begin, behind = self._places(start), self._places(end)
        if self._unplanned is not None and self._unplanned[1] == behind:
            self._unplanned = None
        held = self._queues().held(begin, behind)
        if self._options.checkpoint is not None:
            if self._watch is None:
                self._watch = CommitWatch(self._options.checkpoint, self._settle_committed)
            self._watch.expect(end)
        return plan(self._options, held)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task's partition, as Arrow batches, or into a file."""
        complete = self._options.fail_on_data_loss
        if self._options.archive is not None:
            return read_into_file(self._options, partition, complete, self._connect)
        return read(self._options, partition, complete, self._connect)

    def commit(self, end: Offset) -> None:
        """Settle: the batch that ends here is in the checkpoint."""
        places = self._places(end)
        if not self._see_skipped(places):
            self._queues().settle(places)

    def stop(self) -> None:
        """Disconnect. Spark does not always call this, and what is open must stay open."""
        if self._watch is not None:
            self._watch.stop()
        if self._drained is not None:
            self._drained.close()

    def _see_skipped(self, committed: Places) -> bool:
        """Give back a batch that Spark committed and never planned, as its sink has that id.

        Returns:
            Whether it was such a batch.
        """
        if self._unplanned is None or self._unplanned[1] != committed:
            return False
        begin, end = self._unplanned
        self._unplanned = None
        taken = _gained(begin, end)
        self._queues().give_back(taken)
        print(
            f"warren: {shown(offset_of(taken))} back in the queue: the query's sink has a batch "
            "with the same id, of another checkpoint, and skipped it",
            file=sys.stderr,
            flush=True,
        )
        return True

    def _settle_committed(self, end: Offset) -> None:
        self._queues().settle_committed(places_in(end))

    def _queues(self) -> DrainedQueues:
        if self._drained is None:
            self._drained = DrainedQueues(self._options, self._connect)
        return self._drained

    def _places(self, offset: Offset) -> Places:
        """What an offset says.

        Raises:
            ConfigError: The checkpoint belongs to other queues.
        """
        places = places_in(offset)
        wanted = self._options.queues
        if wanted and not any(queue in places for queue in wanted):
            named = f"queue {wanted[0]!r}" if len(wanted) == 1 else f"any of {', '.join(wanted)}"
            raise ConfigError(
                f"the checkpoint is of {', '.join(offset) or 'nothing'}, not of {named}; give each "
                "query a checkpointLocation of its own"
            )
        return places


def _gained(begin: Places, end: Places) -> Places:
    """Where a batch ends in those queues that it has something of."""
    return {queue: place for queue, place in end.items() if place != begin.get(queue)}


def rows_and_bytes(limit: ReadLimit, bytes_max: int) -> tuple[int, int]:
    """How many rows and bytes a micro-batch may have, by what Spark says.

    Args:
        bytes_max: What the query itself says of bytes.

    Raises:
        ConfigError: Spark's limit is of another kind.
    """
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows, bytes_max
    if isinstance(limit, ReadAllAvailable):  # Trigger.Once
        return UNBOUNDED, UNBOUNDED
    raise ConfigError(f"a queue cannot be read with {type(limit).__name__}")
