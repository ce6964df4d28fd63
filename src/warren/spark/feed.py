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

from collections.abc import Iterable, Iterator, Sequence
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
ROWS_MAX: Final = 65_536
"""No block has more rows, nor names more of anything."""
TEXT_BYTES_MAX: Final = 1 << 27
"""Texts of no block take more in a column: a name stands there once, and in each row of a table."""
NUMBER_MAX: Final = 1 << 62
"""No message has a higher number."""
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


PART_ROWS: Final = 65_536
"""Rows of a batch where each message has one: a run may be a purge of a hundred million."""

PART_TEXT_BYTES: Final = 1 << 28
"""What texts of such a batch take at most, unless it is one row."""

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
        FeedError: It is none, or damaged.
    """
    import pyarrow as pa

    try:
        return _decode(value)
    except pa.ArrowException as error:
        text = f"a block of {len(value)} bytes does not fit together: {error}"
        raise FeedError(text) from None


def _decode(value: bytes) -> pa.RecordBatch:
    if len(value) < HEAD.size or value[:3] != MAGIC[:3]:
        raise FeedError(f"{len(value)} bytes of a feed's queue are no block of a feed")
    magic, rows, life, number, left_out, queues, texts, ids, sized = HEAD.unpack_from(value)
    if magic > MAGIC:
        raise NewerFeedError(f"a block is of a later release of Warren: {magic!r}")
    if magic < MAGIC:
        raise FeedError(f"a block is of a layout that no release of Warren wrote: {magic!r}")
    narrow_end = HEAD.size + NARROW.size * (len(COLUMNS) + 1)
    if len(value) < narrow_end:
        raise FeedError(f"a block of {len(value)} bytes is cut off: its head takes {narrow_end}")
    if max(rows, queues, texts - 2, ids, sized) > ROWS_MAX or texts < 2:
        raise FeedError(
            f"a block is damaged: {rows} rows, {queues} queues, {texts} texts, {ids} consumers, "
            f"{sized} rows with bytes"
        )
    narrow = list(NARROW.iter_unpack(value[HEAD.size : narrow_end]))
    if any(width not in WIDTHS for _, width in narrow):
        raise FeedError("a block is damaged: a column has a width that there is not")
    reader = _BlockReader(value, narrow_end)
    incarnations, origins, consumers = (reader.numbers(8, count) for count in (queues, queues, ids))
    told = {
        name: reader.numbers(width, sized if name == "bytes" else rows, base)
        for (base, width), name in zip(narrow, (*COLUMNS, "bytes"), strict=True)
    }
    said = reader.texts(queues + texts)
    return _batch(said, queues, (life, number, left_out), told, incarnations, origins, consumers)


class _BlockReader:
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
    origins: pa.Array,
    consumers: pa.Array,
) -> pa.RecordBatch:
    """The rows of a block as all readers see them.

    Args:
        said: The names of queues, then texts.
        block: Its life, its number, and what was left out.
        told: Its columns.
        incarnations, origins: Of queues, the latter what numbers of messages are counted from.
        consumers: Their ids.

    Raises:
        FeedError: It says what no node does.
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
    sizes = lacking(told["bytes"]).take(pc.if_else(has_bytes, places, pa.scalar(None, pa.int64())))
    why = pa.array([REASONS.get(each) for each in range(256)], pa.string()).take(told["reason"])
    of_all = pa.repeat(pa.scalar(0, pa.int64()), rows)
    none = pa.scalar(None, pa.int64())
    first = pc.add(origins.take(queue), told["first"])
    count = pc.if_else(pc.is_null(queue), none, told["count"])
    step = pc.if_else(pc.is_null(queue), none, told["step"])
    _check_runs(first, count, step)
    return pa.RecordBatch.from_arrays(
        [
            _text_of(texts[:1], of_all),
            _text_of(texts[1:2], of_all),
            *(pa.repeat(pa.scalar(same, pa.int64()), rows) for same in block),
            happened,
            told["time"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC")),
            _text_of(said[:queues], queue),
            incarnations.take(queue),
            first,
            count,
            step,
            sizes,
            consumers.take(lacking(told["consumer"])),
            why,
            _text_of(texts, text),
        ],
        schema=arrow_schema(),
    )


def _check_runs(first: Any, count: Any, step: Any) -> None:
    """See that what rows say of messages can be reckoned with.

    Raises:
        FeedError: Numbers are negative or too high, or of no step.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = pc.add(
        first.cast(pa.float64(), safe=False),
        pc.multiply(count.cast(pa.float64(), safe=False), step.cast(pa.float64(), safe=False)),
    )
    low = pc.or_(pc.less(first, 0), pc.or_(pc.less(count, 0), pc.less(step, 1)))
    if pc.any(pc.or_(low, pc.greater(ends, float(NUMBER_MAX)))).as_py():
        raise FeedError("a block is damaged: rows are about messages that cannot be")


def _text_of(texts: Sequence[str | None], places: Any) -> Any:
    """Texts, by the places that rows have of them.

    Raises:
        FeedError: They would take more memory than what a node says does.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    all_texts = pa.array(texts, pa.string())
    sizes = pc.binary_length(all_texts).cast(pa.int64()).take(places)
    if (pc.sum(sizes).as_py() or 0) > TEXT_BYTES_MAX:
        raise FeedError(f"a block is damaged: its texts take more than {TEXT_BYTES_MAX} bytes")
    return all_texts.take(places)


def _named_in(texts: list[str], places: Any) -> Any:
    """The events that texts name, by the places of texts that rows have."""
    import json

    names: list[str | None] = []
    for text in texts[2:]:
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            said = None
        name = said.get("event") if isinstance(said, dict) else None
        # A node says no halves of surrogates, which Arrow takes no better than other kinds.
        known = isinstance(name, str) and name.isprintable()
        names.append(name if known else None)
    return _text_of([None, None, *names], places)


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
    part_rows = _part_rows(batch)
    for first in range(0, max(total, 1), part_rows):
        numbers = np.arange(first, min(first + part_rows, total))
        places = np.searchsorted(ends, numbers, side="right")
        rows = batch.take(pa.array(places, pa.int64()))
        within = pa.array(numbers - (ends - times)[places], pa.int64())
        ahead = pc.multiply(rows.column("step"), within)
        changed = {
            EXPLODED: pc.add(rows.column("first_offset"), ahead),
            "bytes": pc.divide(rows.column("bytes"), pa.array(times[places], pa.int64())),
        }
        arrays = [
            changed[name] if name in changed else rows.column(name)
            for name, _ in columns(explode=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(explode=True))


def _part_rows(batch: pa.RecordBatch) -> int:
    """How many rows like the widest one of a batch make a part."""
    import pyarrow.compute as pc

    widest = sum(
        pc.max(pc.binary_length(batch.column(name))).as_py() or 0
        for name, kind in columns()
        if kind == "string"
    )
    return max(1, min(PART_ROWS, PART_TEXT_BYTES // max(widest, 1)))
