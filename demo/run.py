"""Orders through a queue into Spark, and the proof that none was lost or doubled.

    python -m demo.run [--uri amqp://...] [--orders orders.csv] [--out DIRECTORY]

Without `--uri` a broker of its own is started and ended again. Without `--orders` the demonstration
takes the Online Retail data if it lies where the project keeps it, and else a small sample.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import warren
from demo.orders import Order, read_orders, revenue_by_country
from warren.client import Connection, connect
from warren.spark.session import LOCAL, prepare_queries, python_launcher

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE = Path(__file__).resolve().parent
REAL_ORDERS = HERE.parent.parent / "shared" / "data" / "online_retail.csv"
SAMPLE = HERE / "orders.csv"

QUEUE = "demo.orders"
EXCHANGE = "demo.shop"
BATCH_ROWS = 500
START_SECONDS_MAX = 30.0


def say(text: str = "") -> None:
    """Print at once, between what Spark prints."""
    print(text, flush=True)


def main() -> int:
    """Run the demonstration; 0 if everything adds up."""
    parser = argparse.ArgumentParser(prog="python -m demo.run", description=__doc__)
    parser.add_argument("--uri", default=os.environ.get("WARREN_URI"), help="a running broker")
    parser.add_argument(
        "--orders",
        type=Path,
        default=os.environ.get("WARREN_ORDERS"),
        help="CSV file with the columns of demo/orders.csv",
    )
    parser.add_argument("--out", type=Path, help="keep the archive in this new directory")
    given = parser.parse_args()
    path = Path(given.orders) if given.orders else REAL_ORDERS if REAL_ORDERS.exists() else SAMPLE
    if given.out is not None:
        given.out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="warren-demo-") as scratch:
        with broker(given.uri, Path(scratch)) as uri:
            return demonstrate(uri, path, (given.out or Path(scratch)).resolve())


@contextmanager
def broker(uri: str | None, scratch: Path) -> Iterator[str]:
    """A broker to talk to: the one at `uri`, or one that lives as long as this block."""
    if uri is not None:
        say(f"broker    {uri}")
        yield uri
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    uri = f"amqp://guest:guest@127.0.0.1:{port}/"
    command = [sys.executable, "-m", "warren", "server", "--bind", "127.0.0.1"]
    command += ["--port", str(port), "--data-dir", str(scratch / "broker")]
    with (scratch / "broker.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for(uri, process, scratch / "broker.log")
        say(f"broker    {uri} (started for this demonstration)")
        yield uri
    finally:
        process.terminate()
        process.wait()


def wait_for(uri: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when the broker answers; SystemExit if it ends or takes too long."""
    end = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            connect(uri).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"the broker did not start:\n{log.read_text()}") from None
            time.sleep(0.02)


def demonstrate(uri: str, path: Path, out: Path) -> int:
    """Publish, archive, report, prove."""
    orders = read_orders(path)
    lines = sum(len(order.lines) for order in orders)
    say(f"orders    {len(orders):,} with {lines:,} lines from {path.name}")
    with connect(uri) as connection:
        declare(connection)
        half = len(orders) // 2
        publish(connection, orders[:half])
        spark = session()
        try:
            archive(spark, uri, out)
            publish(connection, orders[half:])
            archive(spark, uri, out)
            rows = spark.read.parquet(str(out / "archive")).cache()
            report(rows)
            return prove(connection, rows, orders)
        finally:
            spark.stop()
            clear(connection)


def declare(connection: Connection) -> None:
    """A quorum queue for all orders of the shop, empty."""
    clear(connection)
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, "topic", durable=True)
    channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_bind(QUEUE, EXCHANGE, "order.#")
    channel.close()


def clear(connection: Connection) -> None:
    """Remove what the demonstration made."""
    channel = connection.channel()
    channel.queue_delete(QUEUE)
    channel.exchange_delete(EXCHANGE)
    channel.close()


def publish(connection: Connection, orders: list[Order]) -> None:
    """Publish orders, each to the key of its country, and wait until all are confirmed.

    Raises:
        SystemExit: The broker did not take all of them.
    """
    started = time.perf_counter()
    channel = connection.channel()
    channel.confirm_select()
    for order in orders:
        key = f"order.{order.country.lower().replace(' ', '-')}"
        channel.publish(EXCHANGE, key, order.body(), order.properties(), mandatory=True)
    refused = channel.wait_for_confirms()
    if refused or channel.returned:
        raise SystemExit(f"{len(refused) + len(channel.returned)} orders were not taken")
    channel.close()
    took = time.perf_counter() - started
    say(f"publish   {len(orders):,} orders, each confirmed on disk, in {took:.2f} s")


def session(tuned: bool = True) -> SparkSession:
    """A small local Spark that finds this Python, and the package it runs from.

    Args:
        tuned: Whether it has what `docs/spark.md` recommends for one machine.
    """
    source = str(Path(warren.__file__).resolve().parent.parent)
    os.environ["PYSPARK_PYTHON"] = python_launcher() if tuned else sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Spark 4.3 warns of pandas 3, which its own tests do not cover yet and which is not used here.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    from pyspark.sql import SparkSession

    started = time.perf_counter()
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        **(LOCAL if tuned else {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}),
    }
    builder = SparkSession.builder.master("local[2,4]").appName("warren demo")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    prepare_queries(spark)
    say(f"spark     {spark.version}, ready in {time.perf_counter() - started:.1f} s")
    return spark


def archive(spark: SparkSession, uri: str, out: Path) -> None:
    """Drain what is in the queue now into Parquet files, and end.

    Run again, the query goes on where its checkpoint says it was.
    """
    started = time.perf_counter()
    reader = spark.readStream.format("warren").option("amqp.uri", uri)
    reader = reader.option("subscribe", QUEUE).option("groupId", "archive")
    messages = reader.option("maxOffsetsPerTrigger", BATCH_ROWS).load()
    writer = messages.writeStream.format("parquet").option("path", str(out / "archive"))
    writer = writer.option("checkpointLocation", str(out / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    batches = [int(progress["numInputRows"]) for progress in query.recentProgress]
    took = time.perf_counter() - started
    say(
        f"archive   {sum(batches):,} messages into Parquet in {len(batches)} micro-batches, "
        f"in {took:.1f} s"
    )


def report(rows: DataFrame) -> None:
    """Print revenue per country."""
    from demo.report import order_lines
    from demo.report import revenue_by_country as table

    say()
    say(f"{'country':<22}{'orders':>8}{'lines':>8}{'revenue':>14}")
    for row in table(order_lines(rows)).collect():
        say(f"{row.country:<22}{row.orders:>8,}{row.lines:>8,}{row.revenue:>14,.2f}")
    say()


def prove(connection: Connection, rows: DataFrame, orders: list[Order]) -> int:
    """Compare the archive with what was published, and print each finding.

    Returns:
        0 if all is as it should be, else 1.
    """
    from demo.report import lost_and_doubled, order_lines
    from demo.report import revenue_by_country as table

    ids = rows.sparkSession.createDataFrame(
        [(order.invoice,) for order in orders], "message_id string"
    )
    wrong = lost_and_doubled(rows, ids).collect()
    lost = sum(max(0, row.published - row.archived) for row in wrong)
    doubled = sum(max(0, row.archived - row.published) for row in wrong)
    channel = connection.channel()
    left = channel.queue_declare(QUEUE, passive=True).messages
    channel.close()
    revenue = {row.country: Decimal(row.revenue) for row in table(order_lines(rows)).collect()}
    checks = [
        (f"{len(orders):,} confirmed, {rows.count():,} archived", rows.count() == len(orders)),
        (f"{lost} lost, {doubled} doubled or unknown, by message id", not wrong),
        (f"{left} left in the queue", left == 0),
        (
            "revenue equals that of the CSV file, to the last digit",
            revenue == revenue_by_country(orders),
        ),
    ]
    for text, holds in checks:
        say(f"{'ok  ' if holds else 'BAD '}      {text}")
    return 0 if all(holds for _, holds in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
