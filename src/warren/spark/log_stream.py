"""`mode=log`: a streaming query that sees each message as it comes, and takes none.

Spark's offset is, for each queue, `{"<queue>#next": the first message that is not read yet,
"<queue>#incarnation": which queue of that name it is}`. A batch that runs again has the same
messages, as far as the queue still has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from warren.errors import ConfigError
from warren.spark.broker import Connect
from warren.spark.checkpoint import Offset, Place, Places
from warren.spark.following import FollowedQueues
from warren.spark.options import INCARNATION, UNBOUNDED, ReadOptions
from warren.spark.pace import TriggerPace
from warren.spark.partition import plan, read
from warren.spark.stream import rows_and_bytes

#: What a queue's place is kept under in a checkpoint, behind the queue's name.
_NEXT: Final = "#next"


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query that follows queues."""

    def __init__(self, options: ReadOptions, connect: Connect) -> None:
        self._options = options
        self._connect = connect
        self._followed: FollowedQueues | None = None
        self._up_to: dict[str, int] | None = None  # the highest message to read of each queue
        self._pace = TriggerPace(options.rows_min, options.delay_seconds)

    def initialOffset(self) -> Offset:
        """Where a query without a checkpoint begins. May be called more than once."""
        return _offset_of(self._queues().initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """At most `maxOffsetsPerTrigger` rows a batch; `maxBytesPerTrigger` holds beside it."""
        return ReadMaxRows(self._options.rows_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember what is the newest message of each queue now; the query ends when it has come
        this far. Queues that a pattern finds later wait for the next run."""
        self._up_to = self._queues().newest()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Where the next batch ends."""
        rows_max, bytes_max = rows_and_bytes(limit, self._options.bytes_max)
        begin = self._places(start)
        queues = self._queues()
        if self._up_to is None and rows_max < UNBOUNDED:
            if not self._pace.is_due(lambda: queues.waiting(begin)):
                return start
        end = queues.advance(begin, rows_max, bytes_max, self._up_to)
        if end == begin:
            return start
        self._pace.began()
        return _offset_of(end)

    def reportLatestOffset(self) -> Offset:
        """What a query's progress shows as the newest: its lag in messages (`ready`), in `bytes`,
        and in `seconds`, the age of the oldest that comes next."""
        behind = self._queues().behind()
        return {
            **_offset_of(behind.places),
            "ready": behind.rows,
            "bytes": behind.size_bytes,
            "seconds": behind.seconds,
        }

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a logged batch."""
        if start == end:
            return []
        shares = self._queues().shares(self._places(start), self._places(end))
        return plan(self._options, shares)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task's partition, as Arrow batches."""
        return read(self._options, partition, self._options.fail_on_data_loss, self._connect)

    def stop(self) -> None:
        """Disconnect; there is nothing that the broker keeps for this query."""
        if self._followed is not None:
            self._followed.close()

    def _queues(self) -> FollowedQueues:
        if self._followed is None:
            self._followed = FollowedQueues(self._options, self._connect)
        return self._followed

    def _places(self, offset: Offset) -> Places:
        """What an offset says.

        Raises:
            ConfigError: The checkpoint belongs to other queues, or to another mode.
        """
        places: Places = {}
        for name, number in offset.items():
            queue = name.removesuffix(_NEXT)
            if name != queue and type(number) is int:
                places[queue] = Place(number, int(offset.get(queue + INCARNATION, 0)))
        wanted = self._options.queues
        if (wanted and not any(queue in places for queue in wanted)) or (offset and not places):
            raise ConfigError(
                f"the checkpoint is of {', '.join(offset) or 'nothing'}, not of a query with "
                f"mode=log of {', '.join(wanted) or 'these queues'}; give each query a "
                "checkpointLocation of its own"
            )
        return places


def _offset_of(places: Places) -> Offset:
    offset: Offset = {}
    for queue, place in places.items():
        offset[queue + _NEXT] = place.number
        offset[queue + INCARNATION] = place.incarnation
    return offset
