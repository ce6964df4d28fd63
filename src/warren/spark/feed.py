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
NARROW: Final = Struct("<qB")
"""The base and the width of a column."""
WIDTHS: Final = (0, 1, 2, 4, 8)
COLUMNS: Final = ("time", "first", "count", "step", "consumer", "queue", "text", "event", "reason")
"""What each row has, in order; `bytes` follow, of the rows of one event."""
ROWS_MAX: Final = 1 << 20
"""No block has more rows."""
PUBLISHED: Final = 0
"""The number of the event that has bytes."""
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
        FeedError: It is none, or damaged.
    """
    import pyarrow as pa

    if len(value) < HEAD.size or value[:3] != MAGIC[:3]:
        raise FeedError(f"{len(value)} bytes of a feed's queue are no block of a feed")
    magic, rows, life, number, left_out, queues, texts, ids, sized = HEAD.unpack_from(value)
    if magic != MAGIC:
        raise FeedError(f"a block is of another release of Warren: {magic!r}")
    narrow_end = HEAD.size + NARROW.size * (len(COLUMNS) + 1)
    if len(value) < narrow_end:
        raise FeedError(f"a block of {len(value)} bytes is cut off: its head takes {narrow_end}")
    if rows > ROWS_MAX or sized > rows or texts < 2:
        raise FeedError(f"a block is damaged: {rows} rows, {sized} with bytes, {texts} texts")
    narrow = list(NARROW.iter_unpack(value[HEAD.size : narrow_end]))
    if any(width not in WIDTHS for _, width in narrow):
        raise FeedError("a block is damaged: a column has a width that there is not")
    reader = _Reader(value, narrow_end)
    incarnations, lowest, consumers = (reader.numbers(8, count) for count in (queues, queues, ids))
    told = {
        name: reader.numbers(width, sized if name == "bytes" else rows, base)
        for (base, width), name in zip(narrow, (*COLUMNS, "bytes"), strict=True)
    }
    said = reader.texts(queues + texts)
    try:
        batch = _batch(
            said, queues, (life, number, left_out), told, incarnations, lowest, consumers
        )
        return _exploded(batch) if explode else batch
    except (pa.ArrowInvalid, IndexError) as error:
        raise FeedError(f"a block is damaged: {error}") from None


class _Reader:
    """The parts of a block, one after the other."""

    def __init__(self, value: bytes, at: int) -> None:
        import pyarrow as pa

        self._value = value
        self._buffer = pa.py_buffer(value)
        self._at = at

    def numbers(self, width: int, count: int, base: int = 0) -> pa.Array:
        """So many numbers of a width, each counted from a base."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if width == 0:
            return pa.repeat(pa.scalar(base, pa.int64()), count)
        kind = {1: pa.uint8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}[width]
        data = pa.Array.from_buffers(kind, count, [None, self._next(width * count)])
        return pc.add(data.cast(pa.int64()), pa.scalar(base, pa.int64()))

    def texts(self, count: int) -> list[str]:
        """So many texts, behind their sizes."""
        sizes = Struct(f"<{count}I").unpack(self._next(4 * count))
        return [str(self._next(size), "utf-8", "replace") for size in sizes]

    def _next(self, size: int) -> pa.Buffer:
        if len(self._value) - self._at < size:
            raise FeedError(f"a block of {len(self._value)} bytes is cut off at {self._at}")
        part = self._buffer.slice(self._at, size)
        self._at += size
        return part


def _batch(
    said: list[str],
    queues: int,
    block: tuple[int, int, int],
    told: dict[str, pa.Array],
    incarnations: pa.Array,
    lowest: pa.Array,
    consumers: pa.Array,
) -> pa.RecordBatch:
    """The rows of a block as all readers see them.

    Args:
        said: The names of queues, then texts.
        block: Its life, its number, and what was left out.
        told: Its columns.
        incarnations, lowest: Of queues, the latter what numbers of messages are counted from.
        consumers: Their ids.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    def lacking(data: pa.Array) -> pa.Array:
        """Nothing for what a row does not have."""
        return pc.if_else(pc.less(data, 0), pa.scalar(None, data.type), data)

    rows = len(told["time"])
    texts = said[queues:]
    queue, text = lacking(told["queue"]), lacking(told["text"])
    kinds = told["event"]
    named = pa.array([*EVENTS, None], pa.string())
    happened = named.take(pc.min_element_wise(kinds, len(EVENTS)))
    if pc.any(pc.equal(kinds, LIFE_CYCLE)).as_py():
        happened = pc.coalesce(happened, _named_in(texts, text))
    has_bytes = pc.equal(kinds, PUBLISHED)
    places = pc.subtract(pc.cumulative_sum(has_bytes.cast(pa.int64())), 1)
    sizes = told["bytes"].take(pc.if_else(has_bytes, places, pa.scalar(None, pa.int64())))
    why = pa.array([REASONS.get(each) for each in range(256)], pa.string()).take(told["reason"])
    of_all = ((texts[0], pa.string()), (texts[1], pa.string()), *((n, pa.int64()) for n in block))
    return pa.RecordBatch.from_arrays(
        [
            *(pa.repeat(pa.scalar(same, kind), rows) for same, kind in of_all),
            happened,
            told["time"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC")),
            pa.array(said[:queues], pa.string()).take(queue),
            incarnations.take(queue),
            pc.add(lowest.take(queue), told["first"]),
            lacking(told["count"]),
            pc.if_else(pc.is_null(queue), pa.scalar(None, pa.int64()), told["step"]),
            sizes,
            consumers.take(lacking(told["consumer"])),
            why,
            pa.array(texts, pa.string()).take(text),
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
    ahead = pc.multiply(rows.column("step"), pa.array(within, pa.int64()))
    changed = {
        EXPLODED: pc.add(rows.column("first_offset"), ahead),
        "bytes": pc.divide(rows.column("bytes"), pa.array(np.repeat(times, times), pa.int64())),
    }
    arrays = [
        changed[name] if name in changed else rows.column(name) for name, _ in columns(explode=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(explode=True))
