"""`format("warren")`: queues as tables for batch and streaming queries.

Spark makes objects of these classes anew in several short processes and pickles one of them to the
executors, so constructing one does nothing but check the options.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from warren.errors import ConfigError
from warren.spark.broker import Connect, connect
from warren.spark.options import ReadOptions, read_options, table_columns, write_options
from warren.spark.partition import plan, read
from warren.spark.schema import spark_schema
from warren.spark.sink import BatchWriter, StreamWriter
from warren.spark.stream import QueueStreamReader


class WarrenDataSource(DataSource):
    """A queue, or a target for rows that become messages."""

    @classmethod
    def name(cls) -> str:
        """What queries call it."""
        return "warren"

    def schema(self) -> StructType:
        """The columns of a queue."""
        return spark_schema(table_columns(dict(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        return QueueReader(read_options(dict(self.options), streaming=False), connect)

    def streamReader(self, schema: StructType) -> QueueStreamReader:
        """For `spark.readStream`."""
        return QueueStreamReader(read_options(dict(self.options), streaming=True), connect)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write`."""
        if overwrite:
            raise ConfigError("a queue cannot be overwritten; use .mode('append')")
        return BatchWriter(write_options(dict(self.options)), schema.fieldNames(), connect)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """For `df.writeStream`."""
        if overwrite:
            raise ConfigError("a queue cannot be overwritten; use .outputMode('append')")
        return StreamWriter(write_options(dict(self.options)), schema.fieldNames(), connect)


class QueueReader(DataSourceReader):
    """A batch query over the messages that are ready when it is planned.

    It takes and settles nothing. Messages that others consume between planning and reading may be
    left out; each one that is read is whole.
    """

    def __init__(self, options: ReadOptions, connect: Connect) -> None:
        self._options = options
        self._connect = connect

    def partitions(self) -> Sequence[InputPartition]:
        """The messages that are ready now, cut into tasks."""
        session = self._connect(self._options.uri)
        try:
            return plan(self._options, session.tables.status(self._options.queue).runs)
        finally:
            session.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One task's rows."""
        return read(self._options, partition, complete=False, connect=self._connect)
