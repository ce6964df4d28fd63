"""A queue as Arrow record batches, without Spark: for pandas, Polars, DuckDB and what reads Arrow.

    rows = read_queue("orders")            # a look, which takes nothing
    rows.read_pandas()                     # or polars.from_arrow(rows), or duckdb.sql("from rows")

    with Drain("orders", "archiver") as drain:
        while (batch := drain.take()) is not None:
            store(batch.number, batch.read())   # durably, and for each number once
            drain.settle(batch)

It needs pyarrow and numpy: `pip install 'warren-broker[arrow]'`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from types import TracebackType

import pyarrow as pa

from warren.spark.ahead import read_ahead
from warren.spark.bounds import messages_within
from warren.spark.broker import Connect, Runs, connect
from warren.spark.calling import PatientCaller
from warren.spark.checkpoint import Place
from warren.spark.group import GroupReader
from warren.spark.leases import LeaseKeeper
from warren.spark.options import UNBOUNDED, URI_DEFAULT, ReadOptions, one_queue, read_options
from warren.spark.reading import SMALL_READ_BYTES, ReadReply, ask, count_rows, rows_of
from warren.spark.schema import COLUMNS, arrow_schema


def read_queue(
    queue: str,
    uri: str = URI_DEFAULT,
    columns: Sequence[str] = COLUMNS,
    options: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """Read the messages that are ready now, in order; none is taken, and none counts as delivered.

    Args:
        queue: A durable queue.
        columns: Which columns; docs/spark.md has all of them.
        options: Further ones of docs/spark.md, such as `amqp.user`.

    Raises:
        ConfigError: An option is wrong.
        BrokerError: The broker refused, or is away for longer than `retryTimeout`.
    """
    given = {"amqp.uri": uri, **one_queue(queue), "columns": ",".join(columns)}
    read = read_options({**given, **(options or {})}, streaming=False)
    caller = PatientCaller(read.uris, read.retry_seconds, connect)
    try:
        runs = messages_within(caller, read, queue)
    finally:
        caller.close()
    schema = arrow_schema(read.columns)
    return pa.RecordBatchReader.from_batches(schema, _rows(read, runs, False, connect))


class DrainedBatch:
    """Messages that a group has taken under one number, which says for good which they are.

    Attributes:
        number: Of this group's checkouts, ascending.
        rows: How many messages.
        runs: Their numbers in the queue, as pairs of the first and the last.
        schema: Of what `read` gives.
    """

    def __init__(self, place: Place, runs: Runs, options: ReadOptions, connect: Connect) -> None:
        self.place = place
        self.number = place.number
        self.runs = runs
        self.rows = count_rows(runs)
        self.schema = arrow_schema(options.columns)
        self._options = options
        self._connect = connect

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the messages, as often as needed until they are settled.

        Raises:
            RowsLost: Some are gone: another reader of the group has settled them.
        """
        return _rows(self._options, self.runs, True, self._connect)


class Drain:
    """Takes a queue's messages batch by batch on behalf of a group, each to be stored once.

    A batch that was taken and not settled comes again, with the same number and the same messages,
    whatever ended the program. One program has a group at a time: the later ends the earlier.
    """

    def __init__(
        self,
        queue: str,
        group: str,
        uri: str = URI_DEFAULT,
        after: Place | None = None,
        options: Mapping[str, str] | None = None,
        connect: Connect = connect,
    ) -> None:
        """Remember what to take; nothing is connected yet.

        Args:
            after: What was stored last: it is settled, and the next batch is the one behind it.
                None goes on behind what the group has settled.
            options: Further ones of docs/spark.md, such as `maxOffsetsPerTrigger`.

        Raises:
            ConfigError: An option is wrong.
        """
        given = {"amqp.uri": uri, **one_queue(queue), "groupId": group, **(options or {})}
        self._options = read_options(given, streaming=True)
        self._connect = connect
        self._caller = PatientCaller(self._options.uris, self._options.retry_seconds, connect)
        self._leases = LeaseKeeper(self._options, connect)
        self._group = GroupReader(self._options, queue, self._caller, self._leases)
        self._after = after

    def __enter__(self) -> Drain:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def incarnation(self) -> int:
        """What tells the queue from others that had its name."""
        return self._group.incarnation()

    def waiting(self) -> tuple[int, int]:
        """How many messages are ready, and the number of the newest that there is."""
        backlog = self._group.backlog()
        return backlog.ready, backlog.next - 1

    def take(self, up_to: int = UNBOUNDED) -> DrainedBatch | None:
        """The next batch; None if nothing is there. What was settled last is settled by then.

        Args:
            up_to: Take no message with a higher number.

        Raises:
            Fenced: Another program has the group.
            RowsLost: The group cannot go on behind `after`.
        """
        if self._after is None:
            self._after = self._group.settled()
        if up_to < 0:
            self._group.settle(self._after)
            return None
        options = self._options
        taken = self._group.take(self._after, options.rows_max, options.bytes_max, up_to)
        if taken is None:
            return None
        held = self._group.held(self._after, taken.place)
        runs = [run for checkout in held for run in checkout.runs]
        return DrainedBatch(taken.place, runs, options, self._connect)

    def settle(self, batch: DrainedBatch) -> None:
        """Have the broker drop the messages of a batch, and of those before: it is stored."""
        self._group.settle(batch.place)
        self._after = batch.place

    def check(self) -> None:
        """See whether this program still has the group.

        Raises:
            Fenced: Another one has it.
        """
        self._group.check()

    def close(self) -> None:
        """Disconnect. What is not settled stays taken, for the next program of the group."""
        self._leases.stop()
        self._caller.close()


def _rows(
    options: ReadOptions, runs: Runs, complete: bool, connect: Connect
) -> Iterator[pa.RecordBatch]:
    """Read rows, some ahead of who asks; meanwhile another thread waits for the broker."""
    replies = read_ahead(_ask(options, runs, connect))
    schema = arrow_schema(options.columns)
    rows = rows_of(replies, options.queue, schema, options.arrow_rows_max, complete, options.where)
    return read_ahead(rows)


def _ask(options: ReadOptions, runs: Runs, connect: Connect) -> Generator[ReadReply, None, None]:
    """Ask for messages on a connection of its own."""
    caller = PatientCaller(options.uris, options.retry_seconds, connect)
    try:
        yield from ask(caller, options.queue, runs, SMALL_READ_BYTES)
    finally:
        caller.close()


__all__ = ["DrainedBatch", "Drain", "Place", "read_queue"]
