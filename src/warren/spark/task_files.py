"""What a task of a drain with `archiveDirectory` does: its rows go into a file, and Spark has one
row that says so."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from warren.spark.ahead import read_ahead
from warren.spark.batch_files import BatchFiles
from warren.spark.broker import Connect
from warren.spark.options import ReadOptions
from warren.spark.partition import Rows, read
from warren.spark.reading import SMALL_READ_BYTES
from warren.spark.schema import FILE_COLUMNS, arrow_schema


def read_into_file(
    options: ReadOptions, partition: InputPartition, complete: bool, connect: Connect
) -> Iterator[pa.RecordBatch]:
    """Read one task's rows into a file that is not public yet; gives the row that names it.

    Args:
        complete: Whether each of the rows has to be there.

    Raises:
        Fenced, RowsLost: As `warren.spark.partition.read`.
        OSError: The disk is full, or the folder is none.
    """
    assert isinstance(partition, Rows) and options.archive is not None, partition
    task = TaskContext.get()
    assert task is not None, "Spark reads inside tasks"
    # Both are the checkpoint's: they are the same in every run of the query.
    query = str(task.getLocalProperty("sql.streaming.queryId"))
    batch = int(str(task.getLocalProperty("streaming.sql.batchId")))
    files = BatchFiles(options.archive, query, batch)
    rows = read_ahead(read(options, partition, complete, connect, SMALL_READ_BYTES))
    file, count = files.write(arrow_schema(options.columns), rows)
    values = (str(file), partition.part, partition.parts, count, file.stat().st_size)
    schema = arrow_schema(FILE_COLUMNS)
    # `pa.array` would import pandas.
    scalars = map(pa.scalar, values, schema.types)
    columns = [pa.repeat(scalar, 1) for scalar in scalars]
    yield pa.RecordBatch.from_arrays(columns, schema=schema)
