"""One Spark task's share of the queues, for batch and for streaming reads."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from warren.errors import BrokerError
from warren.spark.broker import Connect, RowsLost, Runs, refusal_code
from warren.spark.calling import PatientCaller
from warren.spark.group import check_epoch
from warren.spark.options import ReadOptions
from warren.spark.reading import READ_BYTES, read_rows, split_shares
from warren.spark.schema import arrow_schema


class QueueShare(NamedTuple):
    """Messages of one queue.

    Attributes:
        queue: Its name.
        runs: Pairs of their first and last numbers.
        epoch: The one in which the group has to be when they are read; 0 for messages of no group.
    """

    queue: str
    runs: Runs
    epoch: int = 0


class Rows(InputPartition):
    """The messages one task reads, queue by queue.

    Attributes:
        shares: What it has of each queue.
        part, parts: Which of how many tasks of its batch it is, from 0 on.
    """

    def __init__(self, shares: Sequence[QueueShare], part: int, parts: int) -> None:
        super().__init__(None)
        self.shares = list(shares)
        self.part = part
        self.parts = parts


def plan(options: ReadOptions, shares: Sequence[QueueShare]) -> list[InputPartition]:
    """Cut messages into tasks; without messages there is one task without rows.

    Spark puts a partition of its own in the place of an empty list, which no reader knows.
    """
    whole = [(share, share.runs) for share in shares]
    parts = split_shares(whole, options.partition_rows_max, options.partitions_min) or [[]]
    return [
        Rows([share._replace(runs=runs) for share, runs in part], number, len(parts))
        for number, part in enumerate(parts)
    ]


#: What glibc's `mallopt` calls the size from which memory is mapped, and that from which it goes
#: back to the system; the first may be 32 MiB at most.
_MMAP_THRESHOLD: Final = -3
_TRIM_THRESHOLD: Final = -1
_KEPT_BYTES: Final = 64 * 1024 * 1024

_prepared_in = 0


def _prepare_worker() -> None:
    """Have a worker process spend less on its memory, once in each.

    What is imported stays out of garbage collections: Spark's worker collects after each task,
    over all modules there are, some 25 ms of CPU. And up to 64 MiB of memory that is free stay
    with the process. Each batch takes a few blocks of megabytes, which the C library hands back to
    the system and the system clears for the next one: a sixth of all CPU that reading takes.
    """
    global _prepared_in
    if _prepared_in == os.getpid():
        return
    _prepared_in = os.getpid()
    gc.freeze()
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # glibc has it
        library.mallopt(_MMAP_THRESHOLD, _KEPT_BYTES // 2)
        library.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def read(
    options: ReadOptions,
    partition: InputPartition,
    complete: bool,
    connect: Connect,
    bytes_max: int = READ_BYTES,
) -> Generator[pa.RecordBatch, None, None]:
    """Read one task's rows over a connection of its own.

    A connection costs a few milliseconds a task. One kept for the next task would have to be told
    apart from those that a fork or an idle hour broke.

    Args:
        complete: Whether each of the rows has to be there.
        bytes_max: What is asked for at once.

    Raises:
        Fenced: Another query has acquired the group since the task was planned.
        RowsLost: `complete`, and some are gone.
    """
    assert isinstance(partition, Rows), partition
    _prepare_worker()
    caller = PatientCaller(options.uris, options.retry_seconds, connect)
    try:
        for share in partition.shares:
            yield from _read_share(options, share, complete, caller, bytes_max)
    finally:
        caller.close()


def _read_share(
    options: ReadOptions,
    share: QueueShare,
    complete: bool,
    caller: PatientCaller,
    bytes_max: int,
) -> Iterator[pa.RecordBatch]:
    """Read what a task has of one queue."""
    schema = arrow_schema(options.columns)
    try:
        yield from read_rows(
            caller, share.queue, share.runs, schema, options.arrow_rows_max, complete, bytes_max,
            options.where,
        )  # fmt: skip
        if share.epoch:
            # What a later query of the group has settled may lie in the log for a while.
            check_epoch(caller, options, share.queue, share.epoch)
    except BrokerError as error:
        if not options.pattern or refusal_code(error) != 404:
            raise
        # Of the queues that a pattern finds, some go.
        if complete:
            raise RowsLost(
                f"queue {share.queue!r} is gone with messages of a batch that is under way; option "
                "failOnDataLoss=false goes on without them"
            ) from error
