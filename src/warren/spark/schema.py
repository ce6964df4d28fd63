"""The columns of a queue as a table: one list, from which Spark's and Arrow's schema both come.

Names and the first seven columns are those of Spark's Kafka source, so that queries carry over;
then come the exchange and the AMQP properties under their own names. Spark compares the Arrow
schema of what a reader yields with its own exactly, so both are made from one place.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType


@cache
def _spark_kinds() -> dict[str, DataType]:
    """Each kind of column as Spark names it. Programs that read by Arrow alone have no Spark."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    return {
        "string": StringType(),
        "binary": BinaryType(),
        "int": IntegerType(),
        "long": LongType(),
        "timestamp": TimestampType(),
        "headers": ArrayType(
            StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        ),
    }


@cache
def _arrow_kinds() -> dict[str, pa.DataType]:
    """Each kind of column as Arrow names it. A process that needs Spark's schema alone has no use
    for the time that importing Arrow takes."""
    import pyarrow as pa

    return {
        "string": pa.string(),
        "binary": pa.binary(),
        "int": pa.int32(),
        "long": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "headers": pa.list_(
            pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
        ),
    }


_COLUMNS: Final = (
    ("key", "string"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "long"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
    ("headers", "headers"),
    ("exchange", "string"),
    ("message_id", "string"),
    ("correlation_id", "string"),
    ("content_type", "string"),
    ("content_encoding", "string"),
    ("type", "string"),
    ("app_id", "string"),
    ("user_id", "string"),
    ("reply_to", "string"),
    ("priority", "int"),
    ("delivery_mode", "int"),
    ("expiration", "string"),
    ("producer_timestamp", "timestamp"),
    ("properties_raw", "binary"),
    ("dead_letter", "int"),
)


#: What is known of a message in a data directory besides (`warren.offline.states`).
_OFFLINE_COLUMNS: Final = (
    ("vhost", "string"),
    ("incarnation", "long"),
    ("state", "string"),
    ("reason", "string"),
    ("acquired_count", "int"),
    ("delivery_count", "int"),
    ("last_offset", "long"),
)


#: What a drain says of files that its tasks wrote.
_FILE_COLUMNS: Final = (
    ("staged_file", "string"),
    ("part", "int"),
    ("parts", "int"),
    ("rows", "long"),
    ("bytes", "long"),
)


#: All columns of a queue of a broker, in their order.
COLUMNS: Final = tuple(name for name, _ in _COLUMNS)

#: All columns of a queue of a data directory, in their order.
OFFLINE_COLUMNS: Final = COLUMNS + tuple(name for name, _ in _OFFLINE_COLUMNS)

#: All columns of a drain whose tasks write files, in their order.
FILE_COLUMNS: Final = tuple(name for name, _ in _FILE_COLUMNS)


def _chosen(columns: Collection[str]) -> list[tuple[str, str]]:
    """Some of the columns, each with its kind, in their order."""
    known = (*_COLUMNS, *_OFFLINE_COLUMNS, *_FILE_COLUMNS)
    return [(name, kind) for name, kind in known if name in columns]


def column_kinds(columns: Collection[str]) -> dict[str, str]:
    """The kind of each of some columns, in their order."""
    return dict(_chosen(columns))


def spark_schema(columns: Collection[str]) -> StructType:
    """The schema of a table with some of the columns, as Spark has it."""
    from pyspark.sql.types import StructField, StructType

    kinds = _spark_kinds()
    return StructType([StructField(name, kinds[kind]) for name, kind in _chosen(columns)])


def arrow_schema(columns: Collection[str]) -> pa.Schema:
    """The same schema as Spark expects it of Arrow batches."""
    import pyarrow as pa

    kinds = _arrow_kinds()
    return pa.schema([pa.field(name, kinds[kind]) for name, kind in _chosen(columns)])


def arrow_type(kind: str) -> pa.DataType:
    """Arrow's type of one kind of column."""
    return _arrow_kinds()[kind]
