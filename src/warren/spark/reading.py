"""Rows of given message numbers, as Arrow batches: what a Spark task does.

A task knows its rows as runs of message numbers and nothing else. It asks for the record batches
that hold them, keeps the rows that are its own, and counts: a task that cannot account for each of
its rows fails, rather than leave one out.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from warren.errors import CorruptRecord
from warren.spark.broker import Reads, RowsLost, Runs
from warren.spark.columns import to_arrow
from warren.spark.filters import RowFilter
from warren.spark.records import Positions, Stored, parse
from warren.spark.where import Condition

T = TypeVar("T")

#: Bytes asked for at once. An Arrow batch comes out about as large; at 1 KB a row that is 8,000
#: rows, where Spark's cost per batch hardly shows. With twice that, buffers fall to the system at
#: every turn and come back as pages to be cleared, which costs more than it saves.
READ_BYTES: Final = 8 * 1024 * 1024

#: The same for rows that do not go to Spark: a batch costs less there, and a small buffer stays
#: with the process, where a large one comes back from the system as pages to be cleared.
SMALL_READ_BYTES: Final = 2 * 1024 * 1024

#: Foreign messages between two runs up to which they are read through rather than around: they
#: most likely lie in the same record batch.
GAP_MAX: Final = 256


def count_rows(runs: Runs) -> int:
    """How many messages are in these runs."""
    return sum(last - first + 1 for first, last in runs)


def split_shares(
    shares: Sequence[tuple[T, Runs]], rows_max: int, parts_min: int
) -> list[list[tuple[T, list[tuple[int, int]]]]]:
    """Cut runs of several queues into parts of nearly equal size, for one task each.

    Args:
        shares: What each queue has, in any order, not overlapping.
        rows_max: Messages a part may have.
        parts_min: Parts there are at least, if there are that many messages.

    Returns:
        The parts, none of them empty, queue by queue and in the order of message numbers; no parts
        for no messages.
    """
    total = sum(count_rows(runs) for _, runs in shares)
    if total == 0:
        return []
    count = max(-(-total // rows_max), min(parts_min, total))
    parts: list[list[tuple[T, list[tuple[int, int]]]]] = [[] for _ in range(count)]
    part = 0
    room = total // count + (total % count > 0)
    for queue, runs in shares:
        begun = -1  # the part that has runs of this queue already
        for first, last in sorted(runs):
            while first <= last:
                taken = min(room, last - first + 1)
                if begun != part:
                    parts[part].append((queue, []))
                    begun = part
                parts[part][-1][1].append((first, first + taken - 1))
                first += taken
                room -= taken
                if room == 0 and part + 1 < count:
                    part += 1
                    room = total // count + (part < total % count)
    return parts


def spans(runs: Runs) -> Iterator[list[tuple[int, int]]]:
    """Group runs that lie close enough together to be read in one go."""
    near: list[tuple[int, int]] = []
    for run in sorted(runs):
        if near and run[0] - near[-1][1] > GAP_MAX:
            yield near
            near = []
        near.append(run)
    if near:
        yield near


def read_rows(
    tables: Reads,
    queue: str,
    runs: Runs,
    schema: pa.Schema,
    rows_max: int,
    complete: bool,
    bytes_max: int = READ_BYTES,
    where: Condition | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read and decode the messages in `runs`, in the order of their numbers.

    Args:
        bytes_max: What is asked for at once, and about the size of an Arrow batch.
        where: Which of the rows are kept; None keeps all.

    Raises:
        RowsLost, CorruptRecord, UnknownFlavour: As `rows_of`.
    """
    replies = ask(tables, queue, runs, bytes_max)
    yield from rows_of(replies, queue, schema, rows_max, complete, where)


def read_span(
    tables: Reads, queue: str, span: list[tuple[int, int]], bytes_max: int
) -> Iterator[Stored]:
    """The records of a span's messages, and no others.

    Args:
        span: Ascending pairs of the first and the last number.
        bytes_max: What is asked for at once.

    Raises:
        CorruptRecord: The bytes that came are not what they should be.
    """
    for reply in ask(tables, queue, span, bytes_max):
        yield from _records(reply)


class NearRuns:
    """Runs of messages that are read in one go; there may be very many of them.

    Attributes:
        first, last: The first and the last number of all.
        count: How many messages the runs have.
        firsts, lasts: The same of each run, ascending.
    """

    def __init__(self, runs: list[tuple[int, int]]) -> None:
        self.firsts: Positions = np.array([first for first, _ in runs], np.int64)
        self.lasts: Positions = np.array([last for _, last in runs], np.int64)
        self.first = runs[0][0]
        self.last = runs[-1][1]
        self.count = count_rows(runs)


class ReadReply(NamedTuple):
    """What the broker answered when it was asked for messages.

    Attributes:
        span: Of which messages these are; one for all of its replies.
        at: The first number that was asked for.
        following: The first one that this does not answer.
        data: Record batches.
    """

    span: NearRuns
    at: int
    following: int
    data: bytes


def ask(
    tables: Reads, queue: str, runs: Runs, bytes_max: int = READ_BYTES
) -> Generator[ReadReply, None, None]:
    """Ask for all messages of some runs, and for those in between where these are few.

    Raises:
        CorruptRecord: An answer leads no further.
    """
    for near in spans(runs):
        span = NearRuns(near)
        at = span.first
        while at <= span.last:
            following, data = tables.read(queue, at, span.last, bytes_max)
            if following <= at:
                raise CorruptRecord("table.read", 0, f"no way on from message {at}")
            yield ReadReply(span, at, following, data)
            at = following


def rows_of(
    replies: Iterator[ReadReply],
    queue: str,
    schema: pa.Schema,
    rows_max: int,
    complete: bool,
    where: Condition | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """Decode the messages that were asked for, in the order of their numbers.

    Args:
        schema: The columns wanted, from `warren.spark.schema.arrow_schema`.
        rows_max: Rows of one Arrow batch at most.
        complete: Whether a message that is not there any more is an error; if not, it is left out.
        where: Which of the rows are kept, found by the columns that say so before any other column
            is made; None keeps all.

    Raises:
        RowsLost: `complete`, and some are gone.
        CorruptRecord: The bytes that came are not what they should be.
        UnknownFlavour: Some were stored by a later release, in a way that this one cannot read.
    """
    kept = None if where is None else RowFilter(where, queue)
    found = 0
    for reply in replies:
        for stored in _records(reply):
            found += len(stored)
            if kept is not None:
                stored = kept.select(stored)
            for first in range(0, len(stored), rows_max):
                part = stored.part(first, min(first + rows_max, len(stored)))
                yield to_arrow(part, queue, schema)
        span = reply.span
        if reply.following > span.last:
            if complete and found != span.count:
                raise RowsLost(
                    f"{span.count - found} of the messages {span.first} to {span.last} are gone "
                    f"from queue {queue!r}; option failOnDataLoss=false goes on without them"
                )
            found = 0


def _records(reply: ReadReply) -> Iterator[Stored]:
    """Those records of a reply that were wanted."""
    span, at, following, data = reply
    before = -1
    for stored in parse(data):
        numbers: Positions = stored.numbers
        if numbers[0] <= before or (numbers[1:] <= numbers[:-1]).any():
            raise CorruptRecord("table.read", 0, f"messages from {at} on are out of order")
        before = int(numbers[-1])
        run = np.searchsorted(span.firsts, numbers, side="right") - 1
        # What lies before `at` came with earlier reads; what lies before the span has run -1.
        wanted = (numbers >= at) & (numbers < following) & (numbers <= span.lasts[run])
        stored = stored.select(wanted)
        if len(stored):
            yield stored
