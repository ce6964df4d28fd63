"""Rows that an option `where` keeps: where they can lie in a queue, and which of some they are.

What is planned are the messages that may be wanted, by queue, number and time. What is read of
them is looked at in the task, over the columns that decide, before any other column is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warren.spark.columns import to_arrow
from warren.spark.records import Stored
from warren.spark.schema import arrow_schema, arrow_type
from warren.spark.where import (
    LONG_MAX,
    AllOf,
    ColumnTest,
    Condition,
    Literal,
    columns_of,
    is_true,
)

Kept = npt.NDArray[np.bool_]

#: Pairs of a first and a last number, ascending and apart from each other.
Ranges = list[tuple[int, int]]

#: Numbers that messages can have.
_EVERYWHERE: Final[Ranges] = [(0, LONG_MAX)]

_COMPARE: Final[Mapping[str, Callable[[pa.Array, pa.Scalar], pa.Array]]] = {
    "=": pc.equal,
    "<=>": pc.equal,
    "<>": pc.not_equal,
    "not <=>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def constants_of(queue: str) -> dict[str, Literal]:
    """The columns that have the same value in each row of one queue of a broker."""
    return {"topic": queue, "partition": 0, "timestampType": 1}


def possible_ranges(
    condition: Condition, constants: Mapping[str, Literal], first_at: Callable[[int], int]
) -> Ranges:
    """Numbers of messages of one queue outside which no row is kept.

    Args:
        constants: Columns that have the same value in each row of this queue.
        first_at: The number of the first message that the broker took at a time, in milliseconds
            since 1970, or later.
    """
    if not isinstance(condition, ColumnTest):
        found = [possible_ranges(part, constants, first_at) for part in condition.parts]
        if not isinstance(condition, AllOf):
            return united([each for ranges in found for each in ranges])
        ranges = _EVERYWHERE
        for each in found:
            ranges = overlap(ranges, each)
        return ranges
    if condition.column in constants:
        return _EVERYWHERE if is_true(condition, constants[condition.column]) else []
    if condition.column == "offset":
        return _numbers_of(condition)
    if condition.column == "timestamp":
        return _numbers_at(condition, first_at)
    return _EVERYWHERE


def overlap(one: Iterable[tuple[int, int]], other: Iterable[tuple[int, int]]) -> Ranges:
    """The numbers that are in both of two lists of ranges."""
    ours, theirs = sorted(one), sorted(other)
    found: Ranges = []
    at = upto = 0
    while at < len(ours) and upto < len(theirs):
        first = max(ours[at][0], theirs[upto][0])
        last = min(ours[at][1], theirs[upto][1])
        if first <= last:
            found.append((first, last))
        if ours[at][1] < theirs[upto][1]:
            at += 1
        else:
            upto += 1
    return found


def united(some: Iterable[tuple[int, int]]) -> Ranges:
    """The numbers that are in one of some ranges, which may overlap."""
    found: Ranges = []
    for first, last in sorted(some):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        elif first <= last:
            found.append((first, last))
    return found


def _numbers_of(test: ColumnTest) -> Ranges:
    """The numbers of which a test of `offset` is true, which is never null."""
    values = [value for value in test.values if isinstance(value, int)]
    if test.operation == "is null":
        return []
    if test.operation in ("=", "<=>", "in"):
        return overlap(_EVERYWHERE, united([(value, value) for value in values]))
    if test.operation in ("<", "<="):
        return overlap(_EVERYWHERE, [(0, values[0] - (test.operation == "<"))])
    if test.operation in (">", ">="):
        return overlap(_EVERYWHERE, [(values[0] + (test.operation == ">"), LONG_MAX)])
    return _EVERYWHERE


def _numbers_at(test: ColumnTest, first_at: Callable[[int], int]) -> Ranges:
    """Numbers outside which a test of `timestamp` is not true; it is never null.

    The broker's times are whole milliseconds, and those of a test microseconds: from a time on
    begins with the first millisecond that is not before it. Each border costs a search, so that of
    a list the earliest and the latest time count.
    """
    values = [value for value in test.values if isinstance(value, int)]
    if test.operation == "is null":
        return []
    if test.operation in ("=", "<=>", "in"):
        whole = [value // 1000 for value in values if value % 1000 == 0]
        return united([(first_at(min(whole)), first_at(max(whole) + 1) - 1)] if whole else [])
    if test.operation in ("<", ">="):
        border = first_at(-(-values[0] // 1000))
    elif test.operation in ("<=", ">"):
        border = first_at(values[0] // 1000 + 1)
    else:
        return _EVERYWHERE
    kept = (0, border - 1) if test.operation in ("<", "<=") else (border, LONG_MAX)
    return overlap(_EVERYWHERE, [kept])


class RowFilter:
    """Tells which records of a queue a condition keeps."""

    def __init__(self, condition: Condition, queue: str) -> None:
        self._condition = condition
        self._queue = queue
        self._schema = arrow_schema(columns_of(condition))

    def select(self, stored: Stored) -> Stored:
        """Those of some records that are kept, sharing the bytes.

        Raises:
            CorruptRecord, UnknownFlavour: As `warren.spark.columns.to_arrow`.
        """
        rows = to_arrow(stored, self._queue, self._schema)
        return stored.select(kept_rows(self._condition, rows, len(stored)))


def filtered(condition: Condition, rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a batch that are kept, with the columns of a schema."""
    kept = kept_rows(condition, rows, rows.num_rows)
    columns = pa.RecordBatch.from_arrays(
        [rows.column(name) for name in schema.names], schema=schema
    )
    if kept.all():
        return columns
    where = np.flatnonzero(kept)
    numbers = pa.Array.from_buffers(pa.int64(), len(where), [None, pa.py_buffer(where)])
    return columns.take(numbers)


def kept_rows(condition: Condition, rows: pa.RecordBatch, count: int) -> Kept:
    """Which rows are kept.

    Args:
        rows: Has the columns that decide.
        count: How many rows it has, which it does not know where no column decides.
    """
    if isinstance(condition, ColumnTest):
        return _tested(condition, rows.column(condition.column))
    every = isinstance(condition, AllOf)
    kept: Kept = np.full(count, every)
    for part in condition.parts:
        if every:
            kept &= kept_rows(part, rows, count)
        else:
            kept |= kept_rows(part, rows, count)
    return kept


def _tested(test: ColumnTest, column: pa.Array) -> Kept:
    """Of which values of a column a test is true."""
    if test.operation == "is null":
        return _flags(pc.is_null(column))
    if test.operation == "is not null":
        return _flags(pc.is_valid(column))
    if test.operation in ("like", "not like"):
        found = pc.match_like(column, str(test.values[0]))
        return _flags(found if test.operation == "like" else pc.invert(found))
    if test.kind in ("int", "long", "timestamp"):
        column = column.cast(pa.int64())
    values = _literals(test)
    if test.operation in ("in", "not in"):
        found = _flags(pc.is_in(column, value_set=values))
        return found if test.operation == "in" else ~found & _flags(pc.is_valid(column))
    true = _flags(_COMPARE[test.operation](column, values[0]))
    return true | _flags(pc.is_null(column)) if test.operation == "not <=>" else true


def _literals(test: ColumnTest) -> pa.Array:
    """The values of a test as a column, without pandas, which `pa.array` imports."""
    if test.kind in ("int", "long", "timestamp"):
        numbers = np.array(test.values, np.int64)
        return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
    texts = [value.encode() if isinstance(value, str) else value for value in _bytes(test.values)]
    borders = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int32)
    buffers = [None, pa.py_buffer(borders), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(arrow_type(test.kind), len(texts), buffers)


def _bytes(values: Sequence[Any]) -> list[str | bytes]:
    """Values that are text or bytes."""
    assert all(isinstance(value, str | bytes) for value in values), values
    return list(values)


def _flags(column: pa.Array) -> Kept:
    """A column of truth values as numpy has it; null is false."""
    numbers = column.cast(pa.uint8())
    values = np.frombuffer(numbers.buffers()[1] or b"", np.uint8, len(numbers), numbers.offset)
    if not numbers.null_count:
        return values.astype(np.bool_)
    return values.astype(np.bool_) & _flags(pc.is_valid(numbers))
