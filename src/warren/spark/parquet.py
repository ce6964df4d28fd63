"""Rows of queues as Parquet: how all files of archives are laid out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

#: Rows and bytes of a row group, whichever comes first: it is in memory until it is written, and
#: memory that is asked for anew costs more than what larger groups save.
_GROUP_ROWS: Final = 128 * 1024
_GROUP_BYTES: Final = 16 * 1024 * 1024

#: Columns whose values repeat; among bodies a look for repeats costs and gives little.
_REPEATING: Final = (
    *("key", "topic", "partition", "timestampType", "exchange", "content_type"),
    *("content_encoding", "type", "app_id", "user_id", "reply_to", "priority", "delivery_mode"),
    *("properties_raw", "vhost", "incarnation", "state", "reason", "acquired_count"),
    *("delivery_count", "dead_letter"),
)

#: Columns whose least and greatest values say nothing, and may be long: each page would have them.
_OPAQUE: Final = ("value", "headers", "properties_raw")


def write_rows(file: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """Write record batches into a new Parquet file; says every now and then how many rows it has.

    It is whole when nothing more is said.
    """
    with pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in schema.names if name in _REPEATING],
        write_statistics=[name for name in schema.names if name not in _OPAQUE],
    ) as writer:
        rows = 0
        for group in _grouped(batches):
            writer.write_table(group, row_group_size=_GROUP_ROWS)
            rows += group.num_rows
            yield rows


def _grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Put record batches together until they make a row group."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)
