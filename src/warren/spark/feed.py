"""An events feed as a table: what became of which messages, a row for each run of them.

The messages of a feed's queue are blocks (docs/formats/feed.md). They are read like those of any
queue, and taken apart here::

    blocks = spark.read.format("warren").option("subscribe", "warren.feed") ... .load()
    events = feed.events(blocks)

or without Spark, from the bodies alone::

    for value in values:
        rows = feed.decode(value)

A row is about `count` messages from `first_offset` on, the positions that the source has in its
column `offset`; with `explode`, it is about the one at `offset`, and `bytes` is the run's mean.
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

MAGIC: Final = b"WFB1"
HEAD: Final = Struct("<4sIqqqII")
"""Magic, rows, life, number, rows left out, queues, texts; see docs/formats/feed.md."""
LONGS: Final = 5
"""Columns of 8 bytes a row."""
INTS: Final = 2
"""Columns of 4 bytes a row."""
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
    ("bytes", "long"),
    ("consumer", "long"),
    ("reason", "string"),
    ("detail", "string"),
)
EXPLODED: Final = "offset"
"""What stands for `first_offset` and `count` where each message has a row."""


PART_ROWS: Final = 65_536
"""Rows of a batch where each message has one: a run may be a purge of a hundred million."""

BLOCK_MESSAGES_MAX: Final = 1 << 32
"""No block is about more messages than this; one that says so was not written by a node."""


class FeedError(BrokerError):
    """Bytes that are no block of a feed."""


class NewerFeedError(FeedError):
    """A block of a later release: it says something, but not to this one."""


def columns(explode: bool = False) -> list[tuple[str, str]]:
    """The names of all columns, and what kind each is."""
    if not explode:
        return list(_COLUMNS)
    kept = [column for column in _COLUMNS if column[0] != "count"]
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
        skip_foreign: Whether messages that are no blocks are passed over; else the query fails. It
            does in any case at blocks of a later release.
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
            batch = decode(value)
            if explode:
                yield from _exploded(batch)
            else:
                yield batch
        except NewerFeedError:
            raise
        except FeedError:
            if not skip_foreign:
                raise


def decode(value: bytes) -> pa.RecordBatch:
    """What one block says, a row for each run.

    Raises:
        FeedError: It is none.
    """
    import pyarrow as pa

    try:
        return _decode(value)
    except pa.ArrowException as error:
        text = f"a block of {len(value)} bytes does not fit together: {error}"
        raise FeedError(text) from None


def _decode(value: bytes) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(value) < HEAD.size or value[:3] != MAGIC[:3]:
        raise FeedError(f"{len(value)} bytes of a feed's queue are no block of a feed")
    magic, rows, life, number, left_out, queues, texts = HEAD.unpack_from(value)
    if magic != MAGIC:
        raise NewerFeedError(f"a block is of a later release of Warren: {magic!r}")
    names = queues + texts
    fixed = HEAD.size + rows * (8 * LONGS + 4 * INTS + 2) + 8 * queues + 4 * names
    if len(value) < fixed or texts < 2:
        raise FeedError(f"a block of {len(value)} bytes is cut off: {fixed} are before its texts")
    buffer = pa.py_buffer(value)
    at = HEAD.size

    def column(kind: pa.DataType, count: int) -> Any:
        nonlocal at
        size = kind.bit_width // 8 * count
        data = pa.Array.from_buffers(kind, count, [None, buffer.slice(at, size)])
        at += size
        return data

    def lacking(data: Any) -> Any:
        """Nothing for what a row does not have."""
        return pc.if_else(pc.less(data, 0), pa.scalar(None, data.type), data)

    times = column(pa.timestamp("ms", tz="UTC"), rows)
    firsts, counts, sizes, consumers = (lacking(column(pa.int64(), rows)) for _ in range(4))
    queue_places = lacking(column(pa.int32(), rows))
    text_places = lacking(column(pa.int32(), rows))
    incarnations = column(pa.int64(), queues)
    kinds = column(pa.uint8(), rows)
    reasons = column(pa.uint8(), rows)
    lengths = Struct(f"<{names}I").unpack_from(value, at)
    at += 4 * names
    if len(value) < at + sum(lengths):
        raise FeedError(f"a block of {len(value)} bytes is cut off: its texts end later")
    said = []
    for length in lengths:
        said.append(value[at : at + length].decode("utf-8", "replace"))
        at += length
    told = pa.array(said[queues:], pa.string())
    details = told.take(text_places)
    named = pa.array([*EVENTS, None], pa.string())
    happened = named.take(pc.min_element_wise(kinds, len(EVENTS)).cast(pa.int32()))
    if pc.any(pc.equal(kinds, LIFE_CYCLE)).as_py():
        happened = pc.coalesce(happened, _named_in(said[queues:], text_places))
    why = pa.array([REASONS.get(each) for each in range(256)], pa.string()).take(
        reasons.cast(pa.int32())
    )
    vhost, node = said[queues], said[queues + 1]
    of_all = [
        pa.array([same] * rows, kind)
        for same, kind in (
            (vhost, pa.string()),
            (node, pa.string()),
            (life, pa.int64()),
            (number, pa.int64()),
            (left_out, pa.int64()),
        )
    ]
    return pa.RecordBatch.from_arrays(
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


def _named_in(texts: list[str], places: Any) -> Any:
    """The events that texts name, by the places of texts that rows have."""
    import json

    import pyarrow as pa

    names = []
    for text in texts[2:]:
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            said = None
        name = said.get("event") if isinstance(said, dict) else None
        names.append(name if isinstance(name, str) else None)
    return pa.array([None, None, *names], pa.string()).take(places)


def _exploded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A row for each message, in parts, at least one; events of no message keep theirs.

    Raises:
        FeedError: It is about more messages than there can be.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = batch.column("count").fill_null(1).to_numpy(zero_copy_only=False)
    times = np.maximum(counts, 1)
    if times.sum(dtype=np.float64) > BLOCK_MESSAGES_MAX:
        raise FeedError(f"a block is about more than {BLOCK_MESSAGES_MAX} messages")
    ends = np.cumsum(times)
    total = int(ends[-1]) if len(ends) else 0
    for first in range(0, max(total, 1), PART_ROWS):
        numbers = np.arange(first, min(first + PART_ROWS, total))
        places = np.searchsorted(ends, numbers, side="right")
        rows = batch.take(pa.array(places, pa.int64()))
        within = pa.array(numbers - (ends - times)[places], pa.int64())
        changed = {
            EXPLODED: pc.add(rows.column("first_offset"), within),
            "bytes": pc.divide(rows.column("bytes"), pa.array(times[places], pa.int64())),
        }
        arrays = [
            changed[name] if name in changed else rows.column(name)
            for name, _ in columns(explode=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(explode=True))
