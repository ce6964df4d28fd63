"""`format("warren")`: queues as tables for batch and streaming queries.

Spark makes objects of these classes anew in several short processes and pickles one of them to the
executors, so constructing one does nothing but check the options. The processes that only look the
source up, or ask for its columns, are started for that alone: what needs Arrow is imported when a
reader or a writer is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from warren.errors import ConfigError
from warren.spark.options import read_options, table_columns, write_options
from warren.spark.schema import spark_schema

if TYPE_CHECKING:
    from warren.spark.stream import QueueStreamReader


class WarrenDataSource(DataSource):
    """A queue, or a target for rows that become messages."""

    @classmethod
    def name(cls) -> str:
        """The name by which queries call the source: `format("warren")`."""
        return "warren"

    def schema(self) -> StructType:
        """The columns that a query of a queue gives."""
        return spark_schema(table_columns(dict(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads a queue once, for `spark.read`."""
        from warren.spark.batch import QueueReader
        from warren.spark.broker import connect

        return QueueReader(read_options(dict(self.options), streaming=False), connect)

    def streamReader(self, schema: StructType) -> QueueStreamReader:
        """What reads a queue for a streaming query, for `spark.readStream`."""
        from warren.spark.broker import connect
        from warren.spark.stream import QueueStreamReader

        return QueueStreamReader(read_options(dict(self.options), streaming=True), connect)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """What publishes the rows of a table, for `df.write`."""
        from warren.spark.broker import connect
        from warren.spark.sink import BatchWriter

        if overwrite:
            raise ConfigError("a queue cannot be overwritten; use .mode('append')")
        return BatchWriter(write_options(dict(self.options)), schema.fieldNames(), connect)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """What publishes the rows of a streaming query, for `df.writeStream`."""
        from warren.spark.broker import connect
        from warren.spark.sink import StreamWriter

        if overwrite:
            raise ConfigError("a queue cannot be overwritten; use .outputMode('append')")
        return StreamWriter(write_options(dict(self.options)), schema.fieldNames(), connect)
