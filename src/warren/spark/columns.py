"""Arrow columns out of a block of records, a whole column at a time.

Strings and bodies are slices of the block's bytes. Arrow's variable-length layout wants its values
back to back, so a column is made in two steps: an array over the block's own bytes whose elements
are, by turns, a wanted slice and the gap after it; then Arrow's `take` of every second element,
which copies at the speed of memory.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warren.client import ConnectionException
from warren.errors import CorruptRecord, UnknownFlavour
from warren.message.flavours import AMQP091
from warren.spark.records import Block, Positions, Stored
from warren.spark.schema import arrow_type
from warren.wire.amqp091.table import Table, Value, decode_table

Mask = npt.NDArray[np.bool_]

#: Kafka's name for "the broker's clock, when the message was taken".
_LOG_APPEND_TIME: Final = 1

#: The last second Python and SQL can name (end of 9999); later ones are another unit by mistake.
LAST_SECOND: Final = 253_402_300_799

_SHORTSTR: Final = "shortstr"
_TABLE: Final = "table"
_OCTET: Final = "octet"
_SECONDS: Final = "seconds"

_COLUMN_KINDS: Final = {
    _SHORTSTR: "string",
    _TABLE: "headers",
    _OCTET: "int",
    _SECONDS: "timestamp",
}

#: Properties in wire order with the bit that announces each.
_PROPERTIES: Final = (
    ("content_type", 15, _SHORTSTR),
    ("content_encoding", 14, _SHORTSTR),
    ("headers", 13, _TABLE),
    ("delivery_mode", 12, _OCTET),
    ("priority", 11, _OCTET),
    ("correlation_id", 10, _SHORTSTR),
    ("reply_to", 9, _SHORTSTR),
    ("expiration", 8, _SHORTSTR),
    ("message_id", 7, _SHORTSTR),
    ("producer_timestamp", 6, _SECONDS),
    ("type", 5, _SHORTSTR),
    ("user_id", 4, _SHORTSTR),
    ("app_id", 3, _SHORTSTR),
    ("cluster_id", 2, _SHORTSTR),
)


def to_arrow(stored: Stored, queue: str, schema: pa.Schema) -> pa.RecordBatch:
    """Decode records.

    Args:
        stored: What to decode.
        queue: The queue's name, for the column `topic`.
        schema: Says which columns are wanted; from `warren.spark.schema.arrow_schema`.

    Raises:
        CorruptRecord: A record is not a well-formed publish.
        UnknownFlavour: The records are of a flavour that this release cannot decode.
    """
    if stored.flavour != AMQP091:
        which = f"messages {stored.numbers[0]} to {stored.numbers[-1]} of queue {queue!r}"
        raise UnknownFlavour(stored.flavour, which)
    block = Block(stored)
    rows = len(stored)
    wanted = set(schema.names)
    exchanges, exchanges_end, keys, keys_end = block.routing()
    columns = _properties(block, wanted)
    if "key" in wanted:
        columns["key"] = _strings(block, keys, keys_end, None)
    if "value" in wanted:
        columns["value"] = _bodies(block)
    if "topic" in wanted:
        columns["topic"] = _repeated(queue, rows)
    if "partition" in wanted:
        columns["partition"] = _numbers(np.zeros(rows, np.int32), "int", None)
    if "offset" in wanted:
        columns["offset"] = _numbers(block.numbers, "long", None)
    if "timestamp" in wanted:
        columns["timestamp"] = _numbers(block.stamps_ms * 1000, "timestamp", None)
    if "timestampType" in wanted:
        log_append = np.full(rows, _LOG_APPEND_TIME, np.int32)
        columns["timestampType"] = _numbers(log_append, "int", None)
    if "exchange" in wanted:
        columns["exchange"] = _strings(block, exchanges, exchanges_end, None)
    if "dead_letter" in wanted:
        columns["dead_letter"] = _numbers(block.dead().astype(np.int32), "int", None)
    if "properties_raw" in wanted:
        columns["properties_raw"] = _slices(block, block.properties - 2, block.properties_end, None)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _numbers(values: npt.NDArray[Any], kind: str, present: Mask | None) -> pa.Array:
    """A column of numbers, in the place of `pa.array`, which imports pandas to know its kinds.

    Args:
        values: Contiguous, of the width that Arrow's type for `kind` has.
        present: Where not, the column is null.
    """
    valid = None
    if present is not None and not present.all():
        valid = pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(
        arrow_type(kind), len(values), [valid, pa.py_buffer(np.ascontiguousarray(values))]
    )


def _repeated(text: str, rows: int) -> pa.StringArray:
    """A column of the same text, without pandas like `_numbers`."""
    encoded = text.encode()
    borders = np.arange(rows + 1, dtype=np.int32) * np.int32(len(encoded))
    buffers = [None, pa.py_buffer(borders), pa.py_buffer(encoded * rows)]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def _slices(
    block: Block, starts: Positions, ends: Positions, present: Mask | None
) -> pa.BinaryArray:
    """The block's bytes from each start to its end; null where not `present`.

    Raises:
        CorruptRecord: The slices overlap, are not in order, or leave the block.
    """
    rows = len(starts)
    if rows == 0:
        return pa.nulls(0, pa.binary())
    borders = np.empty(2 * rows, np.int64)
    borders[0::2] = starts
    borders[1::2] = ends
    if (borders[1:] < borders[:-1]).any() or borders[0] < 0 or borders[-1] > len(block.data):
        raise CorruptRecord("table.read", 0, "a value lies outside its record")
    offsets = pa.py_buffer(borders.astype(np.int32))
    both = pa.Array.from_buffers(
        pa.binary(), 2 * rows - 1, [None, offsets, pa.py_buffer(block.data)]
    )
    return both.take(_numbers(np.arange(0, 2 * rows, 2), "long", present))


def _strings(
    block: Block, starts: Positions, ends: Positions, present: Mask | None
) -> pa.StringArray:
    """`_slices` as text; bytes that are not UTF-8 become U+FFFD (`properties_raw` keeps them)."""
    values = _slices(block, starts, ends, present)
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if v is None else v.decode("utf-8", "replace") for v in values.to_pylist()],
            pa.string(),
        )


def _bodies(block: Block) -> pa.BinaryArray:
    """The column `value`: bodies, joined where they were cut over several frames."""
    if block.whole.all():
        empty = block.body_sizes == 0
        starts = np.where(empty, block.ends, block.bodies)
        return _slices(block, starts, starts + block.body_sizes, None)
    return pa.array([block.body(row) for row in range(len(block))], pa.binary())


def _properties(block: Block, wanted: set[str]) -> dict[str, pa.Array]:
    """The wanted property columns, found by walking the properties of all rows side by side.

    Raises:
        CorruptRecord: The properties of a row do not fill their frame.
    """
    rows = len(block)
    at = block.properties
    columns: dict[str, pa.Array] = {}
    for name, bit, kind in _PROPERTIES:
        present = (block.flags >> bit) & 1 == 1
        if not present.any():
            if name in wanted:
                columns[name] = pa.nulls(rows, arrow_type(_COLUMN_KINDS[kind]))
            continue
        if kind == _SHORTSTR:
            starts, ends = block.strings(at)
            starts = np.where(present, starts, at)
            after = np.where(present, ends, at)
            if name in wanted:
                columns[name] = _strings(block, starts, after, present)
        elif kind == _TABLE:
            starts = np.where(present, at + 4, at)
            after = np.where(present, starts + block.u32(at), at)
            if name in wanted:
                columns[name] = _headers(block, starts, after, present)
        elif kind == _OCTET:
            after = at + present
            if name in wanted:
                columns[name] = _numbers(block.view_at(at).astype(np.int32), "int", present)
        else:
            after = at + 8 * present
            if name in wanted:
                columns[name] = _timestamps(block.u64(at), present)
        at = after
    if not (at == block.properties_end).all():
        bad = int(np.argmin(at == block.properties_end))
        raise CorruptRecord(
            "table.read", int(block.headers[bad]), f"message {block.numbers[bad]}: bad properties"
        )
    return columns


def _timestamps(seconds: Positions, present: Mask) -> pa.TimestampArray:
    """Seconds since the epoch as timestamps; null where there are none, or not of this world."""
    sane = present & (seconds >= 0) & (seconds <= LAST_SECOND)
    micros = np.where(sane, seconds, 0) * 1_000_000
    return _numbers(micros, "timestamp", sane)


def _headers(block: Block, starts: Positions, ends: Positions, present: Mask) -> pa.ListArray:
    """The column `headers`; a table seen before in the block is not decoded again.

    Raises:
        CorruptRecord: A table cannot be read, although the broker took it.
    """
    seen: dict[bytes, list[dict[str, Any]]] = {}
    values: list[list[dict[str, Any]] | None] = []
    for start, end, there in zip(starts.tolist(), ends.tolist(), present.tolist(), strict=True):
        if not there:
            values.append(None)
            continue
        encoded = block.data[start:end]
        entries = seen.get(encoded)
        if entries is None:
            try:
                table = decode_table(encoded, 0, len(encoded))
            except ConnectionException as error:
                raise CorruptRecord("table.read", start, error.text) from error
            entries = shown_headers(table)
            seen[encoded] = entries
        values.append(entries)
    return pa.array(values, arrow_type("headers"))


def shown_headers(table: Table) -> list[dict[str, Any]]:
    """A table of headers as a row of the column `headers`."""
    return [
        {"key": shown_text(name), "value": header_bytes(value)} for name, value in table.items()
    ]


def shown_text(name: str) -> str:
    """A text of a message as columns have it."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def header_bytes(value: Value) -> bytes | None:
    """A header's value as Kafka knows headers: bytes.

    Strings and byte arrays stay as they are; numbers, booleans, lists and tables are written as
    JSON, with what JSON has no form for as text. `properties_raw` keeps the exact types.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return value
    return json.dumps(value, default=_as_text, ensure_ascii=False).encode("utf-8", "replace")


def _as_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
