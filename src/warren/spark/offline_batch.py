"""`spark.read` of a data directory: its queues, or one of them, without a broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from warren.offline.directory import open_directory
from warren.spark.offline_rows import Part, plan_parts, read_parts
from warren.spark.options import OfflineOptions


class DirectoryRows(InputPartition):
    """What one task reads.

    Attributes:
        parts: Messages of queues.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__(None)
        self.parts = list(parts)


class DirectoryReader(DataSourceReader):
    """A batch query over a data directory, which no node may use meanwhile.

    Each task recovers the directory for itself, in memory, once in a worker process; so it has to
    be there on each host that runs tasks.
    """

    def __init__(self, options: OfflineOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """The messages that are there, cut into tasks."""
        with open_directory(self._options.directory) as directory:
            return [DirectoryRows(parts) for parts in plan_parts(directory, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task's partition, as Arrow batches."""
        assert isinstance(partition, DirectoryRows), partition
        with open_directory(self._options.directory) as directory:
            yield from read_parts(directory, partition.parts, self._options)
