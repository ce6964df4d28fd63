"""CPU that Spark spends on reading and writing a queue: JVM and Python workers, no broker.

    python -m bench.spark [--rows 1000000] [--bytes 1000] [--reps 3] [--uri amqp://...]
                          [--only REGEX] [--python PATH]

Without `--uri` a broker is started for the time of the run. CPU seconds are the figure to look at:
wall time is that of a machine which also runs the broker. Each case runs REPS times (3) and prints
every run: in the first ones the JVM compiles and Python imports, which a long query pays once.
`--python` names what Spark starts its Python processes with (`docs/spark.md`, "Running it").
"""

from __future__ import annotations

import argparse
import re
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
from warren.wire.amqp091.properties import Properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUE = "bench.spark"
TARGET = "bench.spark.target"


def cpu_seconds() -> float:
    """CPU time of all processes below this one that are Spark's, dead children included."""
    total = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue
        try:
            if "warren" in child.cmdline() and "server" in child.cmdline():
                continue
        except psutil.Error:
            # It ended, and nobody has waited for it yet: a query's source process often looks like
            # this when the query is over. Its time counts, or it would be in no figure at all.
            pass
        total += times.user + times.system + times.children_user + times.children_system
    return total


@contextmanager
def measured(name: str, rows: int) -> Iterator[None]:
    """Print what the block cost."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    yield
    cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
    print(f"{name:<44}{rows:>10,}{cpu:>9.2f}{wall:>9.2f}{rows / cpu:>12,.0f}", flush=True)


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


def drain(spark: SparkSession, uri: str, sink: str, **options: Any) -> None:
    """Take all messages, by a streaming query with Trigger.AvailableNow."""
    reader = spark.readStream.format("warren").option("amqp.uri", uri)
    reader = reader.option("subscribe", QUEUE).option("groupId", "bench")
    rows = reader.options(**options).load()
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as scratch:
        writer = rows.writeStream.format(sink).option("checkpointLocation", f"{scratch}/c")
        if sink != "noop":
            writer = writer.option("path", f"{scratch}/{sink}")
        writer.trigger(availableNow=True).start().awaitTermination()


def publish(rows: DataFrame, uri: str) -> None:
    """Write rows to a queue."""
    writer = rows.write.format("warren").option("amqp.uri", uri).option("topic", TARGET)
    writer.mode("append").save()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=1_000)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--uri")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", type=re.compile, default=re.compile(""))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as scratch:
        with broker(given.uri, Path(scratch)) as uri:
            with patch.object(sys, "executable", given.python):
                spark = session()
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
    cases: list[tuple[str, Callable[[], None]]] = [
        ("browse, all columns", lambda: browse(spark, uri)),
        ("browse, value and offset", lambda: browse(spark, uri, columns="value,offset")),
        ("drain to nowhere", lambda: drain(spark, uri, "noop")),
        (
            "drain to nowhere, one batch",
            lambda: drain(
                spark, uri, "noop", maxOffsetsPerTrigger=rows, maxBytesPerTrigger=1 << 40
            ),
        ),
        ("drain to Parquet", lambda: drain(spark, uri, "parquet")),
        ("write with confirms", lambda: publish(written, uri)),
    ]
    print(f"\nsession started: {cpu_seconds():.1f} CPU s; bodies of {given.bytes:,} bytes")
    print(f"{'':<44}{'rows':>10}{'cpu s':>9}{'wall s':>9}{'rows/cpu s':>12}")
    for name, case in cases:
        if given.only.search(name) is None:
            continue
        for number in range(given.reps):
            fill(uri, rows, given.bytes)
            with measured(f"{name}, run {number + 1}", rows):
                case()


if __name__ == "__main__":
    main()
