"""CPU that Spark spends on reading and writing a queue: JVM and Python workers; and the broker's.

    python -m bench.spark [--rows 1000000] [--bytes 1000] [--reps 3] [--uri amqp://...]
                          [--only REGEX] [--python PATH] [--plain]

Without `--uri` a broker is started for the time of the run. CPU seconds are the figure to look at:
wall time is that of a machine which also runs the broker. Each case runs REPS times (3) and prints
every run: in the first ones the JVM compiles and Python imports, which a long query pays once.
The session has what `docs/spark.md` ("Running it") recommends for one machine, and with `--plain`
nothing of it. `--python` names what Spark starts its Python processes with.

Beside the cases of a queue run those of Spark's own file source and sink over the same rows, in
Parquet with zstd. Micro-batches of a few rows show what one costs at least: with Spark's own
source of numbers, with a Python source that does nothing, and with a queue.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import psutil

from demo.run import broker, session
from warren.client import connect
from warren.spark.archive import Archive
from warren.wire.amqp091.properties import Properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

QUEUE = "bench.spark"
TARGET = "bench.spark.target"

#: Micro-batches of the cases that measure one, and rows of each.
SMALL_BATCHES = 60
SMALL_ROWS = 500


def cpu_seconds() -> tuple[float, float]:
    """CPU time of Spark's processes below this one, dead children included, and the broker's."""
    total = broker_seconds = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue
        try:
            if "warren" in child.cmdline() and "server" in child.cmdline():
                broker_seconds += times.user + times.system
                continue
        except psutil.Error:
            # It ended, and nobody has waited for it yet: a query's source process often looks like
            # this when the query is over. Its time counts, or it would be in no figure at all.
            pass
        total += times.user + times.system + times.children_user + times.children_system
    return total, broker_seconds


@contextmanager
def measured(name: str, rows: int) -> Iterator[None]:
    """Print what the block cost."""
    before, began = cpu_seconds(), time.perf_counter()
    yield
    wall, after = time.perf_counter() - began, cpu_seconds()
    cpu, broker_cpu = (late - early for early, late in zip(before, after, strict=True))
    print(
        f"{name:<44}{rows:>10,}{cpu:>9.2f}{broker_cpu:>9.2f}{wall:>9.2f}{rows / cpu:>12,.0f}",
        flush=True,
    )


def fill(uri: str, rows: int, size: int) -> None:
    """A fresh queue with messages as an application would send them."""
    with connect(uri) as connection:
        channel = connection.channel()
        for queue in (QUEUE, TARGET):
            channel.queue_delete(queue)
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
        channel.confirm_select()
        body = b"x" * size
        for number in range(rows):
            properties = Properties(
                content_type="application/json", delivery_mode=2, message_id=f"{number:08d}"
            )
            channel.publish("", QUEUE, body, properties.encode())
            if channel.outstanding() >= 10_000:
                assert not channel.wait_for_confirms()
        assert not channel.wait_for_confirms()


def browse(spark: SparkSession, uri: str, **options: Any) -> None:
    """Aggregate over the queue, so that every row is looked at and none is kept."""
    reader = spark.read.format("warren").option("amqp.uri", uri).option("subscribe", QUEUE)
    reader.options(**options).load().selectExpr("count(*)", "sum(length(value))").collect()


def browse_one_key(spark: SparkSession, uri: str, where: str, pushed: bool) -> None:
    """Count the rows that a condition keeps, which the source is told of or Spark alone."""
    reader = spark.read.format("warren").option("amqp.uri", uri).option("subscribe", QUEUE)
    rows = reader.option("where", where).load() if pushed else reader.load().where(where)
    rows.selectExpr("count(*)", "sum(length(value))").collect()


def run_query(rows: DataFrame, sink: str, scratch: str) -> None:
    """Run a streaming query with Trigger.AvailableNow into a sink that is new."""
    writer = rows.writeStream.option("checkpointLocation", f"{scratch}/c")
    if sink == "archive":
        writer = writer.foreachBatch(Archive(f"{scratch}/archive"))
    else:
        writer = writer.format(sink).option("compression", "zstd")
    if sink == "parquet":
        writer = writer.option("path", f"{scratch}/{sink}")
    writer.trigger(availableNow=True).start().awaitTermination()


def drain(spark: SparkSession, uri: str, sink: str, **options: Any) -> None:
    """Take all messages; for the sink `files` tasks write the files of an archive."""
    reader = spark.readStream.format("warren").option("amqp.uri", uri)
    reader = reader.option("subscribe", QUEUE).option("groupId", "bench")
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as scratch:
        if sink == "files":
            reader, sink = reader.option("archiveDirectory", f"{scratch}/archive"), "archive"
        run_query(reader.options(**options).load(), sink, scratch)


def follow(spark: SparkSession, uri: str) -> None:
    """See all messages as they come, and take none."""
    reader = spark.readStream.format("warren").option("amqp.uri", uri).option("subscribe", QUEUE)
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as scratch:
        run_query(reader.options(mode="log", startingOffsets="earliest").load(), "noop", scratch)


class Files:
    """The rows of the queue as files of Spark's own, 50,000 rows each."""

    def __init__(self, spark: SparkSession, uri: str, folder: Path) -> None:
        self._spark = spark
        self._folder = str(folder / "files")
        reader = spark.read.format("warren").option("amqp.uri", uri).option("subscribe", QUEUE)
        rows = reader.option("maxRecordsPerPartition", 50_000).load()
        rows.write.option("compression", "zstd").parquet(self._folder)

    def read(self) -> None:
        """What `browse` does."""
        rows = self._spark.read.parquet(self._folder)
        rows.selectExpr("count(*)", "sum(length(value))").collect()

    def drain(self, sink: str, files: int) -> None:
        """What `drain` does, in micro-batches of some files."""
        reader = self._spark.readStream.schema(self._spark.read.parquet(self._folder).schema)
        rows = reader.option("maxFilesPerTrigger", files).parquet(self._folder)
        with tempfile.TemporaryDirectory(prefix="warren-bench-") as scratch:
            run_query(rows, sink, scratch)


def publish(rows: DataFrame, uri: str) -> None:
    """Write rows to a queue."""
    writer = rows.write.format("warren").option("amqp.uri", uri).option("topic", TARGET)
    writer.mode("append").save()


def write_files(rows: DataFrame) -> None:
    """Write rows to files."""
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as scratch:
        rows.write.option("compression", "zstd").parquet(f"{scratch}/files")


def batches_begun(query: StreamingQuery) -> int:
    """How many micro-batches a query has begun."""
    progress: Any = query.lastProgress
    return 0 if progress is None else int(progress["batchId"])


def small_batches(spark: SparkSession, uri: str) -> None:
    """How long micro-batches of a few rows take, one after the other, those of three sources."""
    spark.dataSource.register(idle_source())
    queue = {"amqp.uri": uri, "subscribe": QUEUE, "groupId": "small"}
    sources: list[tuple[str, dict[str, Any]]] = [
        ("rate-micro-batch", {"rowsPerBatch": SMALL_ROWS}),
        ("idle", {}),
        ("warren", {**queue, "maxOffsetsPerTrigger": SMALL_ROWS}),
    ]
    for name, options in sources:
        rows = spark.readStream.format(name).options(**options).load()
        with tempfile.TemporaryDirectory(prefix="warren-bench-") as scratch:
            writer = rows.writeStream.format("noop").option("checkpointLocation", scratch)
            query = writer.trigger(processingTime="0 seconds").start()
            try:
                end = time.monotonic() + 60
                while batches_begun(query) < SMALL_BATCHES:
                    if time.monotonic() > end or query.exception() is not None:
                        raise SystemExit(f"{name}: {query.exception() or 'stands still'}")
                    time.sleep(0.1)
                times = [
                    each["durationMs"]["triggerExecution"]
                    for each in query.recentProgress
                    if each["numInputRows"] == SMALL_ROWS and each["batchId"] >= 10
                ]
            finally:
                query.stop()
        middle, best = statistics.median(times), min(times)
        print(f"micro-batches of {SMALL_ROWS} rows, {name:<18} p50 {middle:.0f} ms, min {best} ms")


def idle_source() -> type:
    """A Python source with a batch of the same rows each time."""
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    class Reader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:
            return {"batch": 0}

        def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
            return {"batch": start["batch"] + 1}

        def partitions(self, start: Any, end: Any) -> list[InputPartition]:
            return [InputPartition(0)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"number": list(range(SMALL_ROWS))})

        def commit(self, end: Any) -> None:
            pass

    class Idle(DataSource):
        @classmethod
        def name(cls) -> str:
            return "idle"

        def schema(self) -> str:
            return "number long"

        def streamReader(self, schema: Any) -> Reader:
            return Reader()

    return Idle


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=1_000)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--uri")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--only", type=re.compile, default=re.compile(""))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as scratch:
        with broker(given.uri, Path(scratch)) as uri:
            with patch.object(sys, "executable", given.python):
                spark = session(tuned=not given.plain)
            try:
                run(spark, uri, given)
            finally:
                spark.stop()


def run(spark: SparkSession, uri: str, given: argparse.Namespace) -> None:
    """All measurements that are asked for."""
    rows = given.rows
    written = spark.range(rows).selectExpr(
        f"repeat('x', {given.bytes}) as value", "cast(id as string) as message_id"
    )
    one, newest = "message_id LIKE '%00'", f"offset >= {max(0, rows - 10_000)}"
    whole = {"maxOffsetsPerTrigger": rows, "maxBytesPerTrigger": 1 << 40}
    cases: list[tuple[str, Callable[[], None]]] = [
        ("browse, all columns", lambda: browse(spark, uri)),
        ("browse, value and offset", lambda: browse(spark, uri, columns="value,offset")),
        ("browse, one in a hundred", lambda: browse_one_key(spark, uri, one, False)),
        ("browse, one in a hundred, by where", lambda: browse_one_key(spark, uri, one, True)),
        ("browse, the newest 10,000, by where", lambda: browse_one_key(spark, uri, newest, True)),
        ("drain to nowhere", lambda: drain(spark, uri, "noop")),
        (
            "drain to nowhere, 50,000",
            lambda: drain(spark, uri, "noop", maxOffsetsPerTrigger=50_000),
        ),
        ("drain to nowhere, one batch", lambda: drain(spark, uri, "noop", **whole)),
        ("follow to nowhere", lambda: follow(spark, uri)),
        ("drain to Parquet", lambda: drain(spark, uri, "parquet")),
        (
            "drain to Parquet, 50,000",
            lambda: drain(spark, uri, "parquet", maxOffsetsPerTrigger=50_000),
        ),
        ("drain to Archive", lambda: drain(spark, uri, "archive")),
        ("drain to Archive by tasks", lambda: drain(spark, uri, "files")),
        (
            "drain to Archive by tasks, 50,000",
            lambda: drain(spark, uri, "files", maxOffsetsPerTrigger=50_000),
        ),
        ("write with confirms", lambda: publish(written, uri)),
        ("write to files", lambda: write_files(written)),
    ]
    print(f"\nsession started: {cpu_seconds()[0]:.1f} CPU s; bodies of {given.bytes:,} bytes")
    print(f"{'':<44}{'rows':>10}{'cpu s':>9}{'broker':>9}{'wall s':>9}{'rows/cpu s':>12}")
    for name, case in cases:
        if given.only.search(name) is None:
            continue
        for number in range(given.reps):
            fill(uri, rows, given.bytes)
            with measured(f"{name}, run {number + 1}", rows):
                case()
    if given.only.search("files"):
        with tempfile.TemporaryDirectory(prefix="warren-bench-") as scratch:
            fill(uri, rows, given.bytes)
            files = Files(spark, uri, Path(scratch))
            for name, case in (
                ("files, read", files.read),
                ("files to nowhere", lambda: files.drain("noop", 2)),
                ("files to Parquet", lambda: files.drain("parquet", 2)),
                ("files to Parquet, 50,000", lambda: files.drain("parquet", 1)),
            ):
                for number in range(given.reps):
                    with measured(f"{name}, run {number + 1}", rows):
                        case()
    if given.only.search("micro-batches"):
        fill(uri, SMALL_ROWS * (SMALL_BATCHES + 20), given.bytes)
        small_batches(spark, uri)


if __name__ == "__main__":
    main()
