"""A drain whose tasks write the files of an archive, on real Spark with a real broker."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas
import pyarrow.parquet as pq
import pytest

from tests.spark.conftest import FAST
from tests.spark.test_jvm import QUORUM, count, fill, kill_driver, run_driver, stream, wait_until
from tests.support.broker import Broker
from warren.client import Connection
from warren.client.table import Tables
from warren.spark.archive import Archive
from warren.spark.queue_rows import read_queue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def run(rows: DataFrame, store: Any, checkpoint: Path) -> list[dict[str, Any]]:
    """Archive what there is now; gives the query's progress."""
    writer = rows.writeStream.foreachBatch(store).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [json.loads(progress.json) for progress in query.recentProgress]


def seen(folder: Path) -> list[int]:
    """The numbers that all readers see."""
    if not list(folder.glob("*.parquet")):
        return []
    found = [
        pq.read_table(folder, columns=["value"])["value"].to_pylist(),
        pandas.read_parquet(folder, columns=["value"])["value"].tolist(),
        [
            value
            for file in folder.glob("*.parquet")
            for value in pq.read_table(file, columns=["value"])["value"].to_pylist()
        ],
    ]
    numbers = [sorted(int(value) for value in values) for values in found]
    assert numbers[0] == numbers[1] == numbers[2]
    return numbers[0]


def staged(folder: Path) -> list[Path]:
    return list((folder / "_files").iterdir())


def test_an_archive_has_what_the_queue_had_row_for_row(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    fill(connection, queue, 0, 1_000)
    before = read_queue(queue, broker.url).read_all()
    wanted = {"archiveDirectory": str(folder), "columns": ",".join(before.column_names)}
    rows = stream(spark, broker, queue, maxOffsetsPerTrigger=300, **wanted)
    assert rows.columns == ["staged_file", "part", "parts", "rows", "bytes"]
    progress = run(rows, Archive(folder), tmp_path / "checkpoint")
    assert [each["numInputRows"] for each in progress] == [1] * 4, "Spark has a row for each file"
    assert len(list(folder.glob("*.parquet"))) == 4 and not staged(folder)
    # Tasks share the next ones, and they come beside the first.
    fill(connection, queue, 1_000, 1_100)
    more = read_queue(queue, broker.url).read_all()
    rows = stream(spark, broker, queue, minPartitions=3, **wanted)
    run(rows, Archive(folder), tmp_path / "checkpoint")
    assert len(list(folder.glob("*.parquet"))) == 4 + 1 + 3 and not staged(folder)
    assert count(connection, queue) == 0
    got = pq.read_table(folder).sort_by("offset")
    for part, (first, last) in ((before, (0, 1_000)), (more, (1_000, 1_100))):
        assert got.slice(first, last - first).to_pylist() == part.to_pylist()
    assert seen(folder) == list(range(1_100))
    by_spark = spark.read.parquet(str(folder)).orderBy("offset").collect()
    assert [row.asDict() for row in by_spark[:3]] == [
        {**row, "timestamp": by_spark[at].timestamp} for at, row in enumerate(got[:3].to_pylist())
    ]
    assert [int(row.value) for row in by_spark] == list(range(1_100))


def test_batches_that_run_again_and_tasks_that_fail_change_nothing(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    folder, found = tmp_path / "archive", []
    archive = Archive(folder)

    def store(rows: DataFrame, batch: int) -> None:
        def fail_once(batches: Any) -> Any:
            from pyspark import TaskContext

            yield from batches
            assert TaskContext.get().attemptNumber() > 0, "planted"

        rows.count()
        archive(rows.mapInArrow(fail_once, rows.schema), batch)
        archive(rows, batch)
        archive(rows.limit(1), batch)
        found.append(seen(folder))

    fill(connection, queue, 0, 1_000)
    more = {"maxOffsetsPerTrigger": 400, "minPartitions": 2, "archiveDirectory": str(folder)}
    run(stream(spark, broker, queue, **more), store, tmp_path / "checkpoint")
    assert found == [list(range(400)), list(range(800)), list(range(1_000))]
    assert not staged(folder)
    # A new checkpoint has batches of other names, and those may be of messages.
    fill(connection, queue, 1_000, 1_100)
    rows = stream(spark, broker, queue, newCheckpoint="true")
    run(rows, archive, tmp_path / "other")
    assert seen(folder) == list(range(1_100)) and count(connection, queue) == 0


def test_frames_that_an_archive_cannot_publish_settle_nothing(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    fill(connection, queue, 0, 100)
    rows = stream(spark, broker, queue, archiveDirectory=str(folder), minPartitions=2)
    with pytest.raises(Exception, match="option archiveDirectory has to name the archive's folder"):
        run(rows, Archive(tmp_path / "another"), tmp_path / "checkpoint")
    with pytest.raises(Exception, match="batch 0 lacks files of its tasks"):
        run(rows.where("part = 0"), Archive(folder), tmp_path / "checkpoint")
    assert Tables(connection.channel()).status(queue, "g").settled == 0
    assert not list(tmp_path.glob("**/*-0000000000.parquet"))
    run(rows, Archive(folder), tmp_path / "checkpoint")
    assert seen(folder) == list(range(100)) and count(connection, queue) == 0
    with pytest.raises(Exception, match="'archiveDirectory' does not go with spark.read"):
        reader = spark.read.format("warren").option("subscribe", queue).option("groupId", "g")
        reader.option("archiveDirectory", str(folder)).load().count()


def test_several_queues_share_files(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    folder, other = tmp_path / "archive", f"{queue}-other"
    connection.channel().queue_declare(other, durable=True, arguments=QUORUM)
    fill(connection, queue, 0, 100)
    fill(connection, other, 100, 150)
    reader = spark.readStream.format("warren").option("amqp.uri", broker.url)
    reader = reader.option("subscribePattern", f"{queue}.*").option("groupId", "g")
    rows = reader.option("archiveDirectory", str(folder)).load()
    run(rows, Archive(folder), tmp_path / "checkpoint")
    (file,) = folder.glob("*.parquet")
    table = pq.read_table(file)
    assert sorted(set(table["topic"].to_pylist())) == [queue, other]
    assert seen(folder) == list(range(150))
    connection.channel().queue_delete(other)


#: Archives until it is done, or is killed as it would make its next link.
DRIVER = """
import json, os, signal, sys
from pathlib import Path
from pyspark.sql import SparkSession
from warren.spark.archive import Archive

given = json.loads(sys.argv[1])
link, left = os.link, given["links"]

def counted(*names, **more):
    global left
    left -= 1
    if left < 0:
        os.killpg(0, signal.SIGKILL)
    link(*names, **more)

os.link = counted
builder = SparkSession.builder.master("local[2,4]")
for name, value in given["conf"].items():
    builder = builder.config(name, value)
rows = builder.getOrCreate().readStream.format("warren").options(**given["options"]).load()
writer = rows.writeStream.foreachBatch(Archive(given["options"]["archiveDirectory"]))
while True:
    try:
        query = writer.option("checkpointLocation", given["checkpoint"])
        query.trigger(availableNow=True).start().awaitTermination()
        break
    except Exception as error:
        # Spark gives a process ten seconds to start, which is little on a machine at its limit.
        if "failed to connect back" not in str(error):
            raise
"""


def test_drivers_that_are_killed_between_two_links_lose_and_double_nothing(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    """Before a batch is decided, and once and once more before all of it is public."""
    folder, log = tmp_path / "archive", tmp_path / "driver.log"
    fill(connection, queue, 0, 1_000)
    options = {"amqp.uri": broker.url, "subscribe": queue, "groupId": "g"}
    options |= {"archiveDirectory": str(folder), "maxOffsetsPerTrigger": "300"}
    # Batches of 300 rows have a link that decides and one for each part; what runs again after it
    # was decided has as many as were decided on.
    for links, parts, public in ((0, 3, 0), (2, 2, 150), (1, 3, 300), (3, 3, 500), (999, 2, 1_000)):
        given = {
            "conf": FAST,
            "links": links,
            "options": options | {"minPartitions": str(parts)},
            "checkpoint": str(tmp_path / "checkpoint"),
        }
        driver = run_driver(given, log, DRIVER)
        try:
            wait_until(lambda driver=driver: driver.poll() is not None, f"done with {links} links")
        finally:
            if driver.poll() is None:
                kill_driver(driver)
        wanted = 0 if links == 999 else -signal.SIGKILL
        assert driver.returncode == wanted, log.read_text()[-4_000:]
        rows = seen(folder)
        assert len(set(rows)) == len(rows) == public
    assert rows == list(range(1_000)) and count(connection, queue) == 0
    assert not staged(folder)
