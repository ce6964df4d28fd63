"""`spark.read.format("warren")`: a look at queues, which takes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from warren.spark.bounds import messages_within
from warren.spark.broker import Connect
from warren.spark.calling import PatientCaller
from warren.spark.options import ReadOptions
from warren.spark.partition import QueueShare, plan, read
from warren.spark.subscription import Subscription


class QueueReader(DataSourceReader):
    """A batch query over the messages that are ready when it is planned.

    It takes and settles nothing, and sees those between its bounds. Messages that others consume
    between planning and reading may be left out; each one that is read is whole.
    """

    def __init__(self, options: ReadOptions, connect: Connect) -> None:
        self._options = options
        self._connect = connect

    def partitions(self) -> Sequence[InputPartition]:
        """The messages that are ready now, cut into tasks."""
        options = self._options
        caller = PatientCaller(options.uris, options.retry_seconds, self._connect)
        try:
            queues = Subscription(options, caller).names()
            shares = [
                QueueShare(queue, messages_within(caller, options, queue)) for queue in queues
            ]
            return plan(options, shares)
        finally:
            caller.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task's partition, as Arrow batches."""
        return read(self._options, partition, complete=False, connect=self._connect)
