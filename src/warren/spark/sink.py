"""`df.write` and `df.writeStream`: rows are published, and a task succeeds when all are confirmed.

Delivery is at least once, if nothing else is said: a task that fails and is retried publishes its
rows again, under the same message ids. Nothing is left for the driver to commit. With
`delivery=exactly-once` tasks stage their rows, and the driver has those of one attempt of each task
published once (`finalising`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from warren.spark.broker import Connect, Publishing, Unconfirmed
from warren.spark.calling import PatientCaller
from warren.spark.finalising import finalise, forget
from warren.spark.options import WriteOptions
from warren.spark.outgoing import check_columns, messages
from warren.spark.staging import Staged, stage_rows


class Published(WriterCommitMessage):
    """How many rows a task published."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class StagedTask(WriterCommitMessage):
    """What a task has staged."""

    def __init__(self, staged: Staged) -> None:
        self.staged = staged


def attempts_of(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """What the tasks that Spark committed have staged."""
    return [one.staged for one in messages if isinstance(one, StagedTask)]


def publish_rows(
    batches: Iterator[pa.RecordBatch],
    options: WriteOptions,
    id_prefix: str,
    connect: Connect,
) -> Published:
    """Publish all rows of a task and wait until the broker has confirmed them.

    Raises:
        Unconfirmed: The broker refused or returned a message.
        BrokerError, OSError: The channel or the connection is gone.
    """
    caller = PatientCaller(options.uris, options.retry_seconds, connect)
    rows = 0
    try:
        session = caller.connected()
        session.channel.confirm_select()
        for batch in batches:
            for exchange, key, properties, body in messages(batch, options, id_prefix, rows):
                session.channel.publish(exchange, key, body, properties, options.mandatory)
            rows += batch.num_rows
            _confirmed(session.channel)
    finally:
        caller.close()
    return Published(rows)


def _confirmed(channel: Publishing) -> None:
    """Wait for the confirms of everything published.

    Raises:
        Unconfirmed: Not all were taken over by a queue.
    """
    refused = channel.wait_for_confirms()
    if channel.returned:
        one = channel.returned[0]
        raise Unconfirmed(
            f"{len(channel.returned)} messages reached no queue, the first by exchange "
            f"{one.exchange!r} and key {one.routing_key!r}: {one.code} {one.text}; "
            "option mandatory=false allows that"
        )
    if refused:
        raise Unconfirmed(f"the broker refused {len(refused)} messages; its log says why")


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of one `df.write` as messages."""

    def __init__(self, options: WriteOptions, columns: Sequence[str], connect: Connect) -> None:
        check_columns(columns, options)
        self._options = options
        self._connect = connect
        # Made once on the driver and shipped, so that all attempts of a task agree on it.
        self._job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish or stage one task's rows, and wait until the broker has them safe."""
        task = TaskContext.get()
        assert task is not None, "Spark writes inside tasks"
        options = self._options
        sink = options.sink or self._job
        prefix = f"{sink}:{options.batch}:{task.partitionId()}"
        if not options.exactly_once:
            return publish_rows(iterator, options, prefix, self._connect)
        lasting = bool(options.sink)
        return StagedTask(
            stage_rows(iterator, options, prefix, sink, options.batch, lasting, self._connect)
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Have what was staged published."""
        options = self._options
        if options.exactly_once:
            staged = attempts_of(messages)
            sink = options.sink or self._job
            lasting = bool(options.sink)
            finalise(staged, sink, options.batch, lasting, options, self._connect)
            if not lasting:
                forget(sink, options, self._connect)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop what was staged; of a write with a name the next run does."""
        if self._options.exactly_once and not self._options.sink:
            forget(self._job, self._options, self._connect)


class StreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query; one object writes one micro-batch."""

    def __init__(self, options: WriteOptions, columns: Sequence[str], connect: Connect) -> None:
        check_columns(columns, options)
        self._options = options
        self._connect = connect

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish or stage one task's rows of one micro-batch."""
        task = TaskContext.get()
        assert task is not None, "Spark writes inside tasks"
        # Both are the checkpoint's: they are the same in every run of the query.
        query = str(task.getLocalProperty("sql.streaming.queryId"))
        batch = int(str(task.getLocalProperty("streaming.sql.batchId")))
        prefix = f"{query}:{batch}:{task.partitionId()}"
        if not self._options.exactly_once:
            return publish_rows(iterator, self._options, prefix, self._connect)
        return StagedTask(
            stage_rows(iterator, self._options, prefix, query, batch, True, self._connect)
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Have what was staged published, unless the batch is known already."""
        if self._options.exactly_once:
            staged = attempts_of(messages)
            if staged:
                finalise(staged, staged[0].sink, batchId, True, self._options, self._connect)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Leave what was staged: the next batch that is decided drops it."""
