"""Real Spark against a real broker."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas
import pyarrow.parquet
import pytest

from tests.spark.conftest import FAST, environment
from tests.support.broker import Broker
from tests.support.patience import patient
from warren.client import PERSISTENT, ChannelException, Connection
from warren.client.table import Tables
from warren.queues.feed_block import DROPPED, NO_REASON, PUBLISHED, FeedBlock
from warren.spark import feed
from warren.spark.archive import Archive
from warren.spark.session import LOCAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

QUORUM = {"x-queue-type": "quorum"}
WAIT_SECONDS_MAX = patient(120.0)


def fill(connection: Connection, queue: str, first: int, last: int) -> None:
    bodies = [b"%d" % number for number in range(first, last)]
    assert connection.channel().publish_many("", queue, bodies, PERSISTENT) == []


def count(connection: Connection, queue: str) -> int:
    channel = connection.channel()
    messages = channel.queue_declare(queue, passive=True).messages
    channel.close()
    return messages


def table(spark: SparkSession, broker: Broker, queue: str, **options: Any) -> DataFrame:
    reader = spark.read.format("warren").option("amqp.uri", broker.url)
    return reader.option("subscribe", queue).options(**options).load()


def stream(spark: SparkSession, broker: Broker, queue: str, **options: Any) -> DataFrame:
    reader = spark.readStream.format("warren").option("amqp.uri", broker.url)
    reader = reader.option("subscribe", queue).option("groupId", "g")
    return reader.options(**options).load()


def archive(rows: DataFrame, where: Path, **trigger: Any) -> Any:
    writer = rows.writeStream.format("parquet").option("path", str(where / "table"))
    writer = writer.option("checkpointLocation", str(where / "checkpoint"))
    return writer.trigger(**trigger or {"availableNow": True}).start()


def archived(spark: SparkSession, where: Path) -> list[int]:
    rows = spark.read.parquet(str(where / "table")).selectExpr("cast(value as string)").collect()
    return sorted(int(row[0]) for row in rows)


def wait_until(condition: Any, what: str) -> None:
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < end, f"not in {WAIT_SECONDS_MAX} s: {what}"
        time.sleep(0.05)


def test_spark_finds_the_source_by_itself_and_browsing_touches_nothing(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str
) -> None:
    fill(connection, queue, 0, 5_000)
    before = Tables(connection.channel()).status(queue)
    rows = table(spark, broker, queue, minPartitions=3, arrowBatchRows=700)
    assert rows.rdd.getNumPartitions() == 3
    got = rows.selectExpr("cast(value as string) as v", "offset", "topic", "key").collect()
    assert sorted(int(row.v) for row in got) == list(range(5_000))
    assert {(row.topic, row.key) for row in got} == {(queue, queue)}
    assert Tables(connection.channel()).status(queue) == before
    delivery = connection.channel().get(queue, no_ack=True)
    assert delivery is not None and not delivery.redelivered


def test_queries_that_read_only_a_part(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str
) -> None:
    fill(connection, queue, 0, 100)
    assert len(table(spark, broker, queue).limit(5).collect()) == 5
    lean = table(spark, broker, queue, includeValue="false", includeHeaders="true")
    assert "value" not in lean.columns
    assert lean.where("offset >= 90").count() == 10
    assert lean.selectExpr("max(timestamp) > current_timestamp() - interval 1 hour").head()[0]


def test_blocks_of_an_events_feed_are_rows(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str
) -> None:
    block = FeedBlock("/", "n@h")
    place = block.queue("orders", 7)
    block.row(PUBLISHED, NO_REASON, 1_700_000_000_123, place, 40, 3, 1, 300, -1, -1)
    block.row(DROPPED, 1, 1_700_000_000_456, place, 41, 1, 1, -1, -1, -1)
    body = block.encode(4, 1, 0)
    assert connection.channel().publish_many("", queue, [body], PERSISTENT) == []
    rows = table(spark, broker, queue)
    (published, dropped) = feed.events(rows).orderBy("time").collect()
    assert (published.event, published.first_offset, published["count"]) == ("published", 40, 3)
    assert (dropped.event, dropped.reason, dropped.incarnation) == ("dropped", "expired", 7)
    assert published.time.timestamp() == pytest.approx(1_700_000_000.123, abs=1e-6)
    each = feed.events(rows, explode=True).where("offset = 41").orderBy("time").collect()
    assert [(row.event, row.bytes) for row in each] == [("published", 100), ("dropped", None)]


def test_queries_follow_a_queue_beside_each_other_and_take_nothing(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    fill(connection, queue, 0, 3_000)
    held = connection.channel().get(queue)
    assert held is not None

    def follow(where: Path, **options: Any) -> None:
        reader = spark.readStream.format("warren").option("amqp.uri", broker.url)
        reader = reader.option("subscribe", queue).option("mode", "log")
        rows = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=1_000, **options)
        archive(rows.load(), where).awaitTermination()

    for name in ("one", "two"):
        follow(tmp_path / name)
        assert archived(spark, tmp_path / name) == list(range(3_000))
    fill(connection, queue, 3_000, 3_500)
    follow(tmp_path / "one")
    assert archived(spark, tmp_path / "one") == list(range(3_500))
    assert count(connection, queue) == 3_499
    assert table(spark, broker, queue).count() == 3_499
    assert table(spark, broker, queue, mode="log").count() == 3_500
    connection.channel().queue_purge(queue)
    fill(connection, queue, 3_500, 3_600)
    with pytest.raises(Exception, match="500 messages, 3000 to 3499 first of all, left") as lost:
        follow(tmp_path / "two")
    assert "failOnDataLoss=false" in str(lost.value)
    follow(tmp_path / "one")
    assert archived(spark, tmp_path / "one") == list(range(3_600))
    follow(tmp_path / "two", failOnDataLoss="false")
    assert archived(spark, tmp_path / "two") == [*range(3_000), *range(3_500, 3_600)]


def test_a_query_starts_again_that_was_killed_as_it_logged_its_first_offset(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    fill(connection, queue, 0, 50)
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.fad98f97-903d-4739-8060-d23edef19038.tmp").write_text("v1")
    with pytest.raises(Exception, match="STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY"):
        archive(stream(spark, broker, queue), tmp_path).awaitTermination()
    setting = "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart"
    spark.conf.set(setting, LOCAL[setting])
    try:
        archive(stream(spark, broker, queue), tmp_path).awaitTermination()
    finally:
        spark.conf.unset(setting)
    assert archived(spark, tmp_path) == list(range(50))
    assert count(connection, queue) == 0


def test_an_empty_queue_is_an_empty_table(spark: SparkSession, broker: Broker, queue: str) -> None:
    assert table(spark, broker, queue).count() == 0


def test_pushdown_of_filters_may_be_on_or_off(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str
) -> None:
    fill(connection, queue, 0, 10)
    try:
        for value in ("true", "false"):
            spark.conf.set("spark.sql.python.filterPushdown.enabled", value)
            assert table(spark, broker, queue).where("offset = 3").count() == 1
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_errors_reach_the_user(spark: SparkSession, broker: Broker, queue: str) -> None:
    with pytest.raises(Exception, match="unknown option 'starting'"):
        table(spark, broker, queue, starting="now").count()
    with pytest.raises(Exception, match="no queue 'nowhere'"):
        table(spark, broker, "nowhere").count()


def test_drain_takes_each_row_once_and_settles_the_last_batch(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    fill(connection, queue, 0, 3_000)
    query = archive(stream(spark, broker, queue, maxOffsetsPerTrigger=1_000), tmp_path)
    query.awaitTermination()
    assert [progress["numInputRows"] for progress in query.recentProgress] == [1_000] * 3
    lag = json.loads(query.recentProgress[0]["sources"][0]["latestOffset"])
    assert lag["ready"] == 2_000
    assert archived(spark, tmp_path) == list(range(3_000))
    assert count(connection, queue) == 0
    status = Tables(connection.channel()).status(queue, "g")
    assert (status.ready, status.settled) == (0, 3)

    fill(connection, queue, 3_000, 3_500)
    archive(stream(spark, broker, queue, maxOffsetsPerTrigger=1_000), tmp_path).awaitTermination()
    assert archived(spark, tmp_path) == list(range(3_500))


def test_a_running_query_takes_what_comes_in_queues_that_come_and_go(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    reader = spark.readStream.format("warren").option("amqp.uri", broker.url)
    rows = reader.option("subscribePattern", f"{queue}.*").option("groupId", "g").load()
    query = archive(rows, tmp_path, processingTime="0 seconds")
    channel = connection.channel()
    tables = Tables(connection.channel())

    def settled(name: str, number: int) -> None:
        wait_until(
            lambda: query.exception() or tables.status(name, "g").settled >= number, "settled"
        )

    try:
        for number, (first, name) in enumerate(
            ((0, queue), (100, queue), (200, f"{queue}-later")), start=1
        ):
            channel.queue_declare(name, durable=True, arguments=QUORUM)
            fill(connection, name, first, first + 100)
            settled(name, number if name == queue else 1)
        channel.queue_delete(f"{queue}-later")
        fill(connection, queue, 300, 400)
        settled(queue, 3)
        wait_until(
            lambda: (
                query.exception() or "-later" not in query.lastProgress["sources"][0]["endOffset"]
            ),
            "the queue that is gone is in the offset no more",
        )
    finally:
        query.stop()
    assert query.exception() is None
    assert archived(spark, tmp_path) == list(range(400))


def test_tasks_that_fail_read_the_same_rows_again(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F
    from pyspark.sql.types import LongType

    def fails_at_first(offset: int) -> int:
        from pyspark import TaskContext

        if TaskContext.get().attemptNumber() == 0 and offset % 100 == 99:
            raise RuntimeError("planted")
        return offset

    fill(connection, queue, 0, 400)
    flaky = F.udf(fails_at_first, LongType())
    rows = stream(spark, broker, queue, minPartitions=2).withColumn("checked", flaky("offset"))
    archive(rows.where("checked >= 0"), tmp_path).awaitTermination()
    assert archived(spark, tmp_path) == list(range(400))
    assert count(connection, queue) == 0


def test_batches_that_the_file_sink_skips_come_later(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    """The checkpoint was deleted and the output kept: ids begin at 0, which the sink has."""
    fill(connection, queue, 0, 1_000)
    archive(stream(spark, broker, queue, maxOffsetsPerTrigger=500), tmp_path).awaitTermination()
    shutil.rmtree(tmp_path / "checkpoint")
    fill(connection, queue, 1_000, 2_000)
    with pytest.raises(Exception, match="this query has no checkpoint"):
        archive(stream(spark, broker, queue), tmp_path).awaitTermination()
    shutil.rmtree(tmp_path / "checkpoint")
    rows = stream(spark, broker, queue, maxOffsetsPerTrigger=500, newCheckpoint="true")
    archive(rows, tmp_path).awaitTermination()
    assert archived(spark, tmp_path) == list(range(2_000))
    assert count(connection, queue) == 0


def test_a_second_query_of_a_group_ends_the_first(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    fill(connection, queue, 0, 10)
    rows = stream(spark, broker, queue, newCheckpoint="true")
    first = archive(rows, tmp_path / "first", processingTime="0 seconds")
    tables = Tables(connection.channel())
    wait_until(lambda: tables.status(queue, "g").settled == 1, "the first query settles")
    second = archive(rows, tmp_path / "second", processingTime="0 seconds")
    try:
        fill(connection, queue, 10, 20)
        wait_until(lambda: not first.isActive or not second.isActive, "one of them ends")
    finally:
        first.stop()
        second.stop()
    ended = [query for query in (first, second) if query.exception() is not None]
    assert len(ended) == 1
    assert "another query took over group" in str(ended[0].exception())


def test_batch_writes_arrive_confirmed(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str
) -> None:
    rows = spark.range(2_000).selectExpr("cast(id as string) as value", "'a/b' as content_type")
    writer = rows.repartition(3).write.format("warren").option("amqp.uri", broker.url)
    writer.option("topic", queue).mode("append").save()
    assert count(connection, queue) == 2_000
    got = table(spark, broker, queue).collect()
    assert sorted(int(row.value) for row in got) == list(range(2_000))
    assert len({row.message_id for row in got}) == 2_000
    assert {(row.content_type, row.delivery_mode) for row in got} == {("a/b", 2)}


def test_writes_that_reach_no_queue_fail(spark: SparkSession, broker: Broker) -> None:
    writer = spark.range(5).selectExpr("cast(id as string) as value").write.format("warren")
    writer = writer.option("amqp.uri", broker.url).mode("append")
    with pytest.raises(Exception, match="reached no queue"):
        writer.option("topic", "nowhere").save()


def test_queue_to_queue(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    target = f"{queue}-target"
    connection.channel().queue_declare(target, durable=True, arguments=QUORUM)
    fill(connection, queue, 0, 1_000)
    rows = stream(spark, broker, queue, maxOffsetsPerTrigger=400)
    writer = rows.drop("message_id", "properties_raw").writeStream.format("warren")
    writer = writer.option("amqp.uri", broker.url).option("topic", target)
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()
    got = table(spark, broker, target).collect()
    assert sorted(int(row.value) for row in got) == list(range(1_000))
    assert {row.message_id.rsplit(":", 1)[0] for row in got} == {
        f"{query.id}:{batch}:0" for batch in range(3)
    }
    assert count(connection, queue) == 0
    connection.channel().queue_delete(target)


@pytest.mark.early
def test_tasks_that_fail_or_run_twice_write_their_rows_once(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str
) -> None:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    def fails_at_first(number: int) -> str:
        from pyspark import TaskContext

        if TaskContext.get().attemptNumber() < 2 and number % 25_000 == 24_999:
            raise RuntimeError("planted")
        return str(number)

    rows = spark.range(50_000).repartition(1).selectExpr("id")
    rows = rows.select(F.udf(fails_at_first, StringType())("id").alias("value"))
    writer = rows.write.format("warren").option("amqp.uri", broker.url).option("topic", queue)
    named = {"sinkId": f"sink-{queue}", "batchId": 3}
    once = writer.option("delivery", "exactly-once").mode("append")
    for options in ({}, named, named):
        # The second write with a name is the same as the first, and changes nothing.
        once.options(**options).save()
        got = [int(row.value) for row in table(spark, broker, queue).collect()]
        assert sorted(got) == list(range(50_000))
        if not options:
            connection.channel().queue_purge(queue)
    for name in (f"warren.sink.{named['sinkId']}", f"warren.sink.{named['sinkId']}.batches"):
        connection.channel().queue_delete(name)


def test_an_archive_has_each_batch_once_for_every_reader(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    """Batches that run again, a frozen driver that wakes, and what a crash left change nothing."""
    folder, seen = tmp_path / "archive", []

    def store(rows: DataFrame, batch: int) -> None:
        frozen = rows.limit(1) if batch == 0 else None
        archive(rows, batch)
        archive(rows, batch)
        if frozen is not None:
            archive(frozen, batch)
        seen.append(whole(folder))

    archive = Archive(folder)
    left = folder / "_staging" / "crashed"
    left.mkdir(parents=True)
    (left / "part-0.parquet").touch()
    fill(connection, queue, 0, 1_000)
    rows = stream(spark, broker, queue, maxOffsetsPerTrigger=300)
    writer = rows.writeStream.foreachBatch(store)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert seen == [300, 600, 900, 1_000]
    values = spark.read.parquet(str(folder)).selectExpr("cast(value as string)").collect()
    assert sorted(int(row[0]) for row in values) == list(range(1_000))
    # A new checkpoint has batches of other names.
    fill(connection, queue, 1_000, 1_100)
    rows = stream(spark, broker, queue, newCheckpoint="true")
    writer = rows.writeStream.foreachBatch(archive)
    writer = writer.option("checkpointLocation", str(tmp_path / "other"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert whole(folder) == 1_100


def whole(folder: Path) -> int:
    """Rows that others see in a folder; each has to see the same."""
    counts = {
        pyarrow.parquet.read_table(folder).num_rows,
        len(pandas.read_parquet(folder)),
        sum(pyarrow.parquet.read_metadata(each).num_rows for each in folder.glob("*.parquet")),
    }
    (count,) = counts
    return count


def test_a_batch_is_settled_when_it_is_committed_and_not_an_hour_later(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    fill(connection, queue, 0, 100)
    rows = stream(spark, broker, queue, checkpointLocation=str(tmp_path / "checkpoint"))
    query = archive(rows, tmp_path, processingTime="1 hour")
    try:
        status = Tables(connection.channel()).status
        wait_until(lambda: status(queue, "g").settled == 1, "the batch is settled")
    finally:
        query.stop()
    assert archived(spark, tmp_path) == list(range(100))
    assert count(connection, queue) == 0


# --- a driver that is killed --------------------------------------------------------------------

DRIVER = """
import json, os, sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession

given = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2,4]")
for name, value in given["conf"].items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()

def store(rows, batch):
    rows.write.mode("overwrite").parquet(f"{given['out']}/batch={batch}")
    if batch == given["hang"]:
        Path(given["out"], "hangs").touch()
        threading.Event().wait()

def load(options):
    return spark.readStream.format("warren").options(**options).load().writeStream

def run(writer, name):
    writer = writer.option("checkpointLocation", given["out"] + "-checkpoint-" + name)
    while True:
        try:
            return writer.trigger(availableNow=True).start().awaitTermination()
        except Exception as error:
            # Spark gives a process ten seconds to start, which is little on a machine at its limit.
            if "failed to connect back" not in str(error):
                raise

stored = load(given["stored"]).foreachBatch(store)
storing = threading.Thread(target=run, args=(stored, "stored"), daemon=True)
storing.start()
while storing.is_alive() and not Path(given["out"], "hangs").exists():
    time.sleep(0.05)
run(load(given["moved"]).format("warren").options(**given["to"]), "moved")
storing.join()
Path(given["out"], "done").touch()
"""


def run_driver(given: dict[str, Any], log: Path, program: str = DRIVER) -> subprocess.Popen[bytes]:
    """Start a driver in a session of its own, so that all of its processes die together."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-c", program, json.dumps(given)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, **environment()},
        )


def kill_driver(driver: subprocess.Popen[bytes]) -> None:
    """SIGKILL for the driver, its JVM and its Python workers: a session of its own."""
    try:
        os.killpg(driver.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    driver.wait()


def test_drivers_that_are_killed_lose_and_double_nothing(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    """One query stores batches, and one moves rows to another queue exactly once.

    The first driver is killed between two batches of the one and while tasks of the other stage
    rows, the second, which has the settings for one machine, while it moves those of a later batch;
    the third comes to the end.
    """
    target, source, rows = f"{queue}-target", f"{queue}-source", 12_000
    for name in (target, source):
        connection.channel().queue_declare(name, durable=True, arguments=QUORUM)
    fill(connection, queue, 0, 1_000)
    fill(connection, source, 0, rows)
    out, log = tmp_path / "out", tmp_path / "driver.log"
    out.mkdir()
    checkpoint = tmp_path / "out-checkpoint-moved" / "metadata"

    def options(name: str, **more: str) -> dict[str, str]:
        return {"amqp.uri": broker.url, "subscribe": name, "groupId": "g", **more}

    given = {
        "out": str(out),
        "stored": options(queue, maxOffsetsPerTrigger="300"),
        "moved": options(source, maxOffsetsPerTrigger="5000", minPartitions="2"),
        "to": {"amqp.uri": broker.url, "topic": target, "delivery": "exactly-once"},
    }

    def sink() -> str:
        return f"warren.sink.{json.loads(checkpoint.read_text())['id']}"

    def staged() -> bool:
        if not checkpoint.exists():
            return False
        try:
            return Tables(connection.channel()).status(sink()).next > 0
        except ChannelException:
            return False

    def run(hang: int, reached: Any, what: str, conf: dict[str, str] = FAST) -> None:
        driver = run_driver(given | {"conf": conf, "hang": hang}, log)
        try:
            wait_until(lambda: driver.poll() is not None or reached(), what)
            assert driver.poll() is None or (out / "done").exists(), log.read_text()[-4_000:]
        finally:
            kill_driver(driver)

    run(1, lambda: (out / "hangs").exists() and staged(), "one hangs, the other stages rows")
    status = Tables(connection.channel()).status(queue, "g")
    assert (status.settled, status.ready) == (1, 400), "batch 0 is settled, batch 1 is not"
    # What comes between the runs belongs to no logged batch.
    fill(connection, queue, 1_000, 1_100)
    (out / "hangs").unlink()
    moved = "rows of the second batch are moved"
    run(-1, lambda: count(connection, target) > 6_000, moved, LOCAL | FAST)
    run(-1, (out / "done").exists, "the last run")

    stored = spark.read.parquet(str(out)).selectExpr("cast(value as string)", "batch").collect()
    assert sorted(int(row[0]) for row in stored) == list(range(1_100))
    assert {row.batch for row in stored} == {0, 1, 2, 3}
    assert count(connection, queue) == 0
    assert Tables(connection.channel()).status(queue, "g").settled == 4
    got = [int(row.value) for row in table(spark, broker, target).collect()]
    assert sorted(got) == list(range(rows))
    assert count(connection, source) == 0
    for name in (target, source, sink(), f"{sink()}.batches"):
        connection.channel().queue_delete(name)
