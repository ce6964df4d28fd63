"""`format("warren")`: queues as tables for batch and streaming queries.

Spark makes objects of these classes anew in several short processes and pickles one of them to the
executors, so constructing one does nothing but check the options. The processes that only look the
source up, or ask for its columns, are started for that alone: what needs Arrow is imported when a
reader or a writer is asked for.
"""

from __future__ import annotations

from pyspark import __version__
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from warren.errors import ConfigError
from warren.spark.options import (
    check_read,
    is_offline,
    is_staged,
    offline_options,
    read_options,
    staged_options,
    table_columns,
    write_options,
    writes_files,
)
from warren.spark.schema import FILE_COLUMNS, spark_schema


def check_spark(version: str = __version__) -> None:
    """See whether this Spark tells a source where a micro-batch begins, as draining needs.

    Raises:
        ConfigError: It is older than 4.2.
    """
    if tuple(int(part) for part in version.split(".")[:2]) < (4, 2):
        raise ConfigError(
            f"draining needs Spark 4.2 or newer: {version} does not tell its Python sources "
            "what is committed. Browsing and writing work"
        )


class WarrenDataSource(DataSource):
    """A queue, or a target for rows that become messages."""

    @classmethod
    def name(cls) -> str:
        """The name by which queries call the source: `format("warren")`."""
        return "warren"

    def schema(self) -> StructType:
        """The columns that a query of a queue gives."""
        given = dict(self.options)
        check_read(given)
        columns = table_columns(given)
        return spark_schema(FILE_COLUMNS if writes_files(given) else columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads a queue once, or a data directory, for `spark.read`."""
        if is_offline(dict(self.options)):
            from warren.spark.offline_batch import DirectoryReader

            return DirectoryReader(offline_options(dict(self.options)))
        from warren.spark.batch import QueueReader
        from warren.spark.broker import connect

        return QueueReader(read_options(dict(self.options), streaming=False), connect)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """What reads a queue for a streaming query, for `spark.readStream`."""
        from warren.spark.broker import connect
        from warren.spark.refused import RefusedReader

        given = dict(self.options)
        try:
            if is_staged(given):
                staged = staged_options(given)
                check_spark()
                from warren.spark.staged_stream import StagedStreamReader

                return StagedStreamReader(staged, connect)
            options = read_options(given, streaming=True)
            check_spark()
            if options.follows:
                from warren.spark.log_stream import LogStreamReader

                return LogStreamReader(options, connect)
        except ConfigError as error:
            return RefusedReader(error)
        from warren.spark.stream import QueueStreamReader

        return QueueStreamReader(options, connect)

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
        return StreamWriter(
            write_options(dict(self.options), streaming=True), schema.fieldNames(), connect
        )
