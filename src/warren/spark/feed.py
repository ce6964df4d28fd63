"""An events feed as a table: what became of which messages, a row for each run of them.

The messages of a feed's queue are blocks (docs/formats/feed.md). They are read like those of any
queue, and taken apart here::

    blocks = spark.read.format("warren").option("subscribe", "warren.feed") ... .load()
    events = feed.events(blocks)

or without Spark, from the bodies alone::

    for value in values:
        rows = feed.decode(value)

A row is about `count` messages from `first_offset` on, each `step` behind the one before: positions
that the source has in its column `offset`. With `explode`, it is about the one at `offset`, and
`bytes` is the run's mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from warren.errors import BrokerError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

MAGIC: Final = b"WFB2"
HEAD: Final = Struct("<4sIqqqIIII")
"""Magic, rows, life, number, rows left out, queues, texts, consumers and rows that have bytes; see
docs/formats/feed.md."""
COLUMN: Final = Struct("<qB")
"""A column's base and width."""
NARROW: Final = ("time", "first", "count", "step", "consumer", "queue", "text", "event", "reason")
"""The columns that each row has, in order; the bytes of those that have them follow."""
PUBLISHED: Final = 0
"""The number of the event whose rows have bytes."""
LIFE_CYCLE: Final = 9
"""The number of events that a text names."""

EVENTS: Final = (
    "published",
    "confirmed",
    "delivered",
    "acked",
    "returned",
    "rejected",
    "dead_lettered",
    "dropped",
    "leading",
)
"""What happened, by number."""

REASONS: Final = {
    0: "rejected",
    1: "expired",
    2: "maxlen",
    3: "delivery_limit",
    17: "redelivered",
    18: "requeued",
    19: "gone",
    20: "timeout",
    21: "purged",
    22: "lost",
    23: "unseen",
}
"""Why, by number."""

_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("vhost", "string"),
    ("node", "string"),
    ("life", "long"),
    ("block", "long"),
    ("left_out", "long"),
    ("event", "string"),
    ("time", "timestamp"),
    ("queue", "string"),
    ("incarnation", "long"),
    ("first_offset", "long"),
    ("count", "long"),
    ("step", "long"),
    ("bytes", "long"),
    ("consumer", "long"),
    ("reason", "string"),
    ("detail", "string"),
)
EXPLODED: Final = "offset"
"""What stands for `first_offset`, `count` and `step` where each message has a row."""


class FeedError(BrokerError):
    """Bytes that are no block of a feed, or of one of a later release."""


def columns(explode: bool = False) -> list[tuple[str, str]]:
    """The names of all columns, and what kind each is."""
    if not explode:
        return list(_COLUMNS)
    kept = [column for column in _COLUMNS if column[0] not in ("count", "step")]
    return [(EXPLODED if name == "first_offset" else name, kind) for name, kind in kept]


def spark_schema(explode: bool = False) -> StructType:
    """The schema of `events`."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

    kinds = {"string": StringType(), "long": LongType(), "timestamp": TimestampType()}
    return StructType([StructField(name, kinds[kind]) for name, kind in columns(explode)])


@cache
def arrow_schema(explode: bool = False) -> pa.Schema:
    """The schema of `decode`."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "long": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC")}
    return pa.schema([pa.field(name, kinds[kind]) for name, kind in columns(explode)])


def events(blocks: DataFrame, explode: bool = False, skip_foreign: bool = False) -> DataFrame:
    """What messages of a feed's queue say, for batch and for streaming queries.

    Args:
        blocks: Rows of the source, of which `value` is looked at.
        explode: Whether each message of a run has a row of its own.
        skip_foreign: Whether messages that are no blocks are passed over; else the query fails.
    """

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _decoded((value.as_py() for value in batch.column(0)), explode, skip_foreign)

    return blocks.select("value").mapInArrow(decoded, spark_schema(explode))


def table(values: Iterable[bytes], explode: bool = False, skip_foreign: bool = False) -> pa.Table:
    """What the bodies of a feed's messages say, as one table of Arrow; the rest is as in `events`.

    Raises:
        FeedError: One of them is no block.
    """
    import pyarrow as pa

    batches = list(_decoded(values, explode, skip_foreign))
    return pa.Table.from_batches(batches, schema=arrow_schema(explode))


def _decoded(
    values: Iterable[bytes], explode: bool, skip_foreign: bool
) -> Iterator[pa.RecordBatch]:
    for value in values:
        try:
            yield decode(value, explode)
        except FeedError:
            if not skip_foreign:
                raise


def decode(value: bytes, explode: bool = False) -> pa.RecordBatch:
    """What one block says.

    Raises:
        FeedError: It is none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(value) < HEAD.size or value[:3] != MAGIC[:3]:
        raise FeedError(f"{len(value)} bytes of a feed's queue are no block of a feed")
    magic, rows, life, number, left_out, queues, texts, ids, sized = HEAD.unpack_from(value)
    if magic != MAGIC:
        raise FeedError(f"a block is of another release of Warren: {magic!r}")
    at = HEAD.size + COLUMN.size * (len(NARROW) + 1)
    if len(value) < at or texts < 2 or sized > rows:
        raise FeedError(f"a block of {len(value)} bytes is cut off: its head takes {at}")
    bases = [COLUMN.unpack_from(value, HEAD.size + COLUMN.size * n) for n in range(len(NARROW) + 1)]
    widths = {0: None, 1: pa.uint8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}
    if any(width not in widths for _, width in bases):
        raise FeedError("a block is damaged: a column has a width that there is not")
    lengths_of = [rows] * len(NARROW) + [sized]
    fixed = at + 8 * (2 * queues + ids) + 4 * (queues + texts)
    fixed += sum(count * width for (_, width), count in zip(bases, lengths_of, strict=True))
    if len(value) < fixed:
        raise FeedError(f"a block of {len(value)} bytes is cut off: {fixed} are before its texts")
    buffer = pa.py_buffer(value)

    def next_array(kind: pa.DataType, count: int) -> Any:
        nonlocal at
        size = kind.bit_width // 8 * count
        data = pa.Array.from_buffers(kind, count, [None, buffer.slice(at, size)])
        at += size
        return data

    incarnations = next_array(pa.int64(), queues)
    lowest = next_array(pa.int64(), queues)
    consumers = next_array(pa.int64(), ids)
    told = {}
    for name, (base, width), count in zip((*NARROW, "bytes"), bases, lengths_of, strict=True):
        kind = widths[width]
        told[name] = (
            pa.repeat(pa.scalar(base, pa.int64()), count)
            if kind is None
            else pc.add(next_array(kind, count).cast(pa.int64()), base)
        )
    sizes = Struct(f"<{queues + texts}I").unpack_from(value, at)
    at += 4 * (queues + texts)
    if len(value) < at + sum(sizes):
        raise FeedError(f"a block of {len(value)} bytes is cut off: its texts end later")
    said = []
    for length in sizes:
        said.append(value[at : at + length].decode("utf-8", "replace"))
        at += length
    try:
        return _rows(said, queues, (life, number, left_out), told, incarnations, lowest, consumers, explode)
    except (pa.ArrowInvalid, IndexError, OverflowError) as error:
        raise FeedError(f"a block is damaged: {error}") from None


    batch = pa.RecordBatch.from_arrays(
        [
            *of_all,
            happened,
            times.cast(pa.timestamp("us", tz="UTC")),
            pa.array(said[:queues], pa.string()).take(queue_places),
            incarnations.take(queue_places),
            firsts,
            counts,
            sizes,
            consumers,
            why,
            details,
        ],
        schema=arrow_schema(),
    )
    return _exploded(batch) if explode else batch


def _named_in(texts: list[str], places: Any) -> Any:
    """The events that texts name, by the places of texts that rows have."""
    import json

    import pyarrow as pa

    names = []
    for text in texts[2:]:
        try:
            said = json.loads(text)
        except ValueError:
            said = None
        names.append(said.get("event") if isinstance(said, dict) else None)
    return pa.array([None, None, *names], pa.string()).take(places)


def _exploded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A row for each message; events of no message keep theirs."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = batch.column("count").fill_null(1).to_numpy(zero_copy_only=False)
    times = np.maximum(counts, 1)
    places = np.repeat(np.arange(batch.num_rows), times)
    ends = np.cumsum(times)
    within = np.arange(len(places)) - np.repeat(ends - times, times)
    rows = batch.take(pa.array(places))
    changed = {
        EXPLODED: pc.add(rows.column("first_offset"), pa.array(within, pa.int64())),
        "bytes": pc.divide(rows.column("bytes"), pa.array(np.repeat(times, times), pa.int64())),
    }
    arrays = [
        changed[name] if name in changed else rows.column(name) for name, _ in columns(explode=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(explode=True))
