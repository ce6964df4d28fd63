"""One Spark task's share of a queue, for batch and for streaming reads."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from warren.spark.broker import Connect, Runs
from warren.spark.calling import PatientCaller
from warren.spark.group import check_epoch
from warren.spark.options import ReadOptions
from warren.spark.reading import read_rows, split_runs
from warren.spark.schema import arrow_schema


class Rows(InputPartition):
    """The messages one task reads.

    Attributes:
        runs: Pairs of their first and last numbers.
        epoch: The one in which the group has to be when they are read; 0 for messages of no group.
    """

    def __init__(self, runs: Sequence[tuple[int, int]], epoch: int = 0) -> None:
        super().__init__(None)
        self.runs = list(runs)
        self.epoch = epoch


def plan(options: ReadOptions, runs: Runs, epoch: int = 0) -> list[InputPartition]:
    """Cut messages into tasks; without messages there is one task without rows.

    Spark puts a partition of its own in the place of an empty list, which no reader knows.
    """
    parts = split_runs(runs, options.partition_rows_max, options.partitions_min)
    return [Rows(part, epoch) for part in parts or [[]]]


_frozen_in = 0


def _spare_the_collector() -> None:
    """Keep what is imported out of garbage collections, once in a worker process.

    Spark's worker collects after each task, over all modules there are: some 25 ms of CPU.
    """
    global _frozen_in
    if _frozen_in != os.getpid():
        _frozen_in = os.getpid()
        gc.freeze()


def read(
    options: ReadOptions, partition: InputPartition, complete: bool, connect: Connect
) -> Iterator[pa.RecordBatch]:
    """Read one task's rows over a connection of its own.

    A connection costs a few milliseconds a task. One kept for the next task would have to be told
    apart from those that a fork or an idle hour broke.

    Args:
        complete: Whether each of the rows has to be there.

    Raises:
        Fenced: Another query has acquired the group since the task was planned.
    """
    assert isinstance(partition, Rows), partition
    _spare_the_collector()
    caller = PatientCaller(options.uris, options.retry_seconds, connect)
    try:
        yield from read_rows(
            caller,
            options.queue,
            partition.runs,
            arrow_schema(options.columns),
            options.arrow_rows_max,
            complete,
        )
        if partition.runs and partition.epoch:
            # What a later query of the group has settled may lie in the log for a while.
            check_epoch(caller, options, partition.epoch)
    finally:
        caller.close()
