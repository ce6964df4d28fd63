"""`mode=staged`: any broker's queue, of either kind, by way of files; without a JVM but for one.

`WARREN_TEST_BROKER=host:port` has the same said of a RabbitMQ, but for what ends brokers.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.spark.driver import POINTS, Checkpoint, Killed, Query
from tests.support.broker import Broker
from tests.support.patience import patient
from warren.client import PERSISTENT, Channel, Connection, connect
from warren.errors import ConfigError, CorruptRecord
from warren.spark import broker as spark_broker
from warren.spark import staged_files
from warren.spark.broker import CheckpointLost, RowsLost, Session
from warren.spark.staged_files import DirectoryInUse, StagingFailed
from warren.spark.staged_stream import StagedStreamReader
from warren.wire.amqp091.errors import ChannelException
from warren.wire.amqp091.properties import Properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=["classic", "quorum"])
def queue(connection: Connection, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh queue."""
    name = f"staged-{uuid.uuid4()}"
    arguments = {"x-queue-type": request.param}
    connection.channel().queue_declare(name, durable=True, arguments=arguments)
    yield name
    connection.channel().queue_delete(name)


def fill(connection: Connection, queue: str, first: int, last: int) -> None:
    """Publish messages with ids."""
    channel = connection.channel()
    channel.confirm_select()
    for number in range(first, last):
        named = Properties(delivery_mode=2, message_id=f"m{number}").encode()
        channel.publish("", queue, b"%d" % number, named)
    assert channel.wait_for_confirms() == []


def count(connection: Connection, queue: str) -> int:
    return connection.channel().queue_declare(queue, passive=True).messages


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def query(broker: Broker, queue: str, folder: Path, disk: Checkpoint, **given: str) -> Query:
    options = {
        "mode": "staged", "amqp.uri": broker.url, "subscribe": queue,
        "stagingDirectory": str(folder),
    }  # fmt: skip
    return Query(spark_broker.connect, disk, **(options | given))


def run(made: Query, kill_at: str | None = None, kill_batch: int = 0) -> None:
    """Run to the end, or until the driver is killed; its process is over then."""
    try:
        made.run(kill_at, kill_batch)
    finally:
        made.reader.stop()


def rows(reader: StagedStreamReader, first: int, last: int, queue: str) -> list[dict[str, Any]]:
    return [
        row
        for partition in reader.partitions({queue: first}, {queue: last})
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def test_names_properties_and_bodies_come_through(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    large = bytes(range(256)) * 2_000
    properties = Properties(
        app_id="é", type_="t", priority=3, message_id="m", headers={"n": 5}
    ).encode()
    channel = connection.channel()
    channel.confirm_select()
    channel.queue_bind(queue, "amq.topic", f"{queue}.#")
    channel.publish("amq.topic", f"{queue}.fr", large, properties)
    channel.publish("", queue, b"")
    assert channel.wait_for_confirms() == []
    made = query(broker, queue, tmp_path, Checkpoint(), includeHeaders="true")
    run(made)
    found = rows(made.reader, 0, 2, queue)
    assert [row["offset"] for row in found] == [0, 1]
    first, second = sorted(found, key=lambda row: len(row["value"]), reverse=True)
    assert (first["exchange"], first["key"], first["topic"]) == ("amq.topic", f"{queue}.fr", queue)
    assert (second["exchange"], second["key"]) == ("", queue)
    assert (first["value"], second["value"]) == (large, b"")
    assert (first["app_id"], first["type"], first["priority"]) == ("é", "t", 3)
    assert first["headers"] == [{"key": "n", "value": b"5"}] and second["headers"] is None
    assert first["properties_raw"] == properties


def test_an_empty_queue_is_no_batch(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    disk = Checkpoint()
    run(query(broker, queue, tmp_path, disk))
    assert disk.sink == {} and disk.start == {queue: 0}


def test_batches_keep_to_their_limits(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    fill(connection, queue, 0, 5_000)
    disk = Checkpoint()
    run(query(broker, queue, tmp_path, disk, maxOffsetsPerTrigger="2300"))
    assert disk.rows() == bodies(5_000)
    sizes = [len(batch) for batch in disk.sink.values()]
    assert max(sizes) <= 2_300 and sum(sizes) == 5_000, "how many come at once is the broker's"
    assert count(connection, queue) == 0


def staged(reader: StagedStreamReader, queue: str, count: int) -> list[int]:
    """Have a reader stage so many messages; gives the ends of its triggers."""
    ends = [reader.initialOffset()[queue]]
    end = time.monotonic() + patient(30)
    while ends[-1] < count and time.monotonic() < end:
        at = reader.latestOffset({queue: ends[-1]}, reader.getDefaultReadLimit())
        ends.append(at[queue])
    assert ends[-1] == count
    return ends


def test_tasks_have_limits(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    fill(connection, queue, 0, 50)
    options = {"minPartitions": "3", "maxRecordsPerPartition": "20"}
    reader = query(broker, queue, tmp_path, Checkpoint(), **options).reader
    staged(reader, queue, 50)
    parts = reader.partitions({queue: 0}, {queue: 50})
    assert len(parts) == 3
    for first, last in ((0, 50), (7, 8), (13, 41)):
        values = [row["value"] for row in rows(reader, first, last, queue)]
        assert values == bodies(50)[first:last]
    reader.stop()


def test_bytes_have_limits(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    """Many are out of small messages, and few of large ones."""
    fill(connection, queue, 0, 4_000)
    large = [bytes(200_000)] * 100
    assert connection.channel().publish_many("", queue, large, PERSISTENT) == []
    reader = query(broker, queue, tmp_path, Checkpoint(), maxBytesPerTrigger="1000000").reader
    ends = staged(reader, queue, 4_100)
    late = [behind - first for first, behind in pairwise(ends) if first >= 4_000]
    assert late and max(late) == 5
    reader.stop()


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("batch", [0, 1])
def test_a_killed_driver_resumes_without_a_lost_or_doubled_row(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path, point: str, batch: int
) -> None:
    fill(connection, queue, 0, 1_000)
    disk = Checkpoint()
    options = {"maxOffsetsPerTrigger": "300", "minPartitions": "2"}
    with pytest.raises(Killed):
        run(query(broker, queue, tmp_path, disk, **options), point, batch)
    fill(connection, queue, 1_000, 1_100)
    run(query(broker, queue, tmp_path, disk, **options))
    run(query(broker, queue, tmp_path, disk, **options))
    assert sorted(disk.rows(), key=int) == bodies(1_100)
    assert count(connection, queue) == 0


def test_what_is_done_with_goes_in_a_while(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(staged_files, "_KEPT_ROWS", 500)
    fill(connection, queue, 0, 2_000)
    reader = query(broker, queue, tmp_path, Checkpoint(), maxOffsetsPerTrigger="100").reader
    staged(reader, queue, 2_000)
    reader.commit({queue: 2_000})
    left = staged_files.staged_files(tmp_path)
    assert left[0].first <= 1_500 <= left[0].last and left[-1].last == 1_999
    assert sum(file.last - file.first + 1 for file in left) == 2_000 - left[0].first
    reader.stop()


class Deaf:
    """A channel whose owner dies before it acknowledges for the `last`th time."""

    def __init__(self, channel: Any, last: int) -> None:
        self._channel = channel
        self._left = last

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def ack(self, tag: int, multiple: bool) -> None:
        self._left -= 1
        if self._left == 0:
            raise Killed
        self._channel.ack(tag, multiple=multiple)


def dying(made: Query, last: int) -> Query:
    """Have the driver of a query die in the middle of a trigger."""

    def open_(uri: str) -> Session:
        session = spark_broker.connect(uri)
        return session._replace(open=lambda: cast("Channel", Deaf(session.open(), last)))

    made.reader._connect = open_
    return made


@pytest.mark.parametrize("last", [1, 2])
def test_what_was_staged_and_not_acknowledged_is_told_by_its_id(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path, last: int
) -> None:
    fill(connection, queue, 0, 5_000)
    disk = Checkpoint()
    with pytest.raises(Killed):
        run(dying(query(broker, queue, tmp_path, disk), last))
    run(query(broker, queue, tmp_path, disk))
    run(query(broker, queue, tmp_path, disk))
    assert sorted(disk.rows(), key=int) == bodies(5_000)
    assert count(connection, queue) == 0


def test_without_an_id_it_comes_twice_and_is_not_lost(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    """Two messages may be equal in all they have: none of them is taken for the other."""
    assert connection.channel().publish_many("", queue, [b"same"] * 10, PERSISTENT) == []
    disk = Checkpoint()
    with pytest.raises(Killed):
        run(dying(query(broker, queue, tmp_path, disk), 1))
    run(query(broker, queue, tmp_path, disk))
    run(query(broker, queue, tmp_path, disk))
    assert disk.rows() == [b"same"] * 20


def test_the_same_id_with_another_body_is_another_message(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    fill(connection, queue, 0, 3)
    disk = Checkpoint()
    run(query(broker, queue, tmp_path, disk))
    channel = connection.channel()
    channel.confirm_select()
    channel.publish("", queue, b"more", Properties(message_id="m1").encode())
    channel.publish("", queue, b"1", Properties(message_id="m1", delivery_mode=2).encode())
    assert channel.wait_for_confirms() == []
    run(query(broker, queue, tmp_path, disk))
    assert disk.rows() == [*bodies(3), b"more", b"1"], "neither of them was delivered before"


def test_a_broker_that_is_killed_meanwhile(private_broker: Broker, tmp_path: Path) -> None:
    with connect(private_broker.url) as connection:
        connection.channel().queue_declare("q", durable=True)
        fill(connection, "q", 0, 4_500)
    reader = query(private_broker, "q", tmp_path, Checkpoint()).reader
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    private_broker.restart(kill=True)
    with connect(private_broker.url) as connection:
        fill(connection, "q", 4_500, 5_000)
    staged(reader, "q", 5_000)
    assert reader.latestOffset({"q": 5_000}, reader.getDefaultReadLimit()) == {"q": 5_000}
    values = [row["value"] for row in rows(reader, 0, 5_000, "q")]
    reader.stop()
    assert sorted(values, key=int) == bodies(5_000)


def test_a_queue_that_goes_ends_the_query(
    broker: Broker, connection: Connection, tmp_path: Path
) -> None:
    name = f"staged-{uuid.uuid4()}"
    made = query(broker, name, tmp_path, Checkpoint())
    with pytest.raises(ChannelException, match=f"no queue '{name}'"):
        run(made)
    connection.channel().queue_declare(name)
    reader = query(broker, name, tmp_path, Checkpoint()).reader
    start = reader.initialOffset()
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
    connection.channel().queue_delete(name)
    with pytest.raises(ChannelException, match=f"no queue '{name}'"):
        reader.latestOffset(start, reader.getDefaultReadLimit())
    connection.channel().queue_declare(name)
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
    connection.channel().queue_delete(name)
    connection.channel().queue_declare(name)
    fill(connection, name, 0, 3)
    staged(reader, name, 3)
    reader.stop()
    connection.channel().queue_delete(name)


def test_a_directory_belongs_to_one_query(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "of somebody.tmp").touch()
    unused = query(broker, queue, tmp_path, Checkpoint()).reader
    unused.initialOffset()
    unused.stop()
    with pytest.raises(ConfigError, match=f"has messages of queue '{queue}', not of 'other'"):
        query(broker, "other", tmp_path, Checkpoint()).reader.initialOffset()
    assert (tmp_path / "of somebody.tmp").exists()
    fill(connection, queue, 0, 10)
    monkeypatch.setattr(staged_files, "_LOCK_SECONDS", 0.1)
    disk = Checkpoint()
    first = query(broker, queue, tmp_path, disk)
    first.run()
    with pytest.raises(DirectoryInUse, match="a stagingDirectory of its own"):
        query(broker, queue, tmp_path, Checkpoint()).reader.initialOffset()
    first.reader.stop()
    with pytest.raises(CheckpointLost, match="10 messages that are done with"):
        run(query(broker, queue, tmp_path, Checkpoint()))
    fill(connection, queue, 10, 15)
    anew = Checkpoint()
    run(query(broker, queue, tmp_path, anew, newCheckpoint="true"))
    assert anew.rows() == bodies(15)[10:]


def test_what_does_not_fit_the_checkpoint_is_refused(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    fill(connection, queue, 0, 10)
    reader = query(broker, queue, tmp_path / "a", Checkpoint()).reader
    staged(reader, queue, 10)
    start, end = {queue: 0}, {queue: 10}
    limit = reader.getDefaultReadLimit()
    other = query(broker, queue, tmp_path / "b", Checkpoint()).reader
    with pytest.raises(RowsLost, match="not the directory that belongs to the checkpoint"):
        other.latestOffset(end, limit)
    other.stop()
    for wrong in ({"else": 3}, {queue: 3, f"{queue}#incarnation": 4}, {}):
        with pytest.raises(ConfigError, match="a checkpointLocation of its own"):
            reader.latestOffset(wrong, limit)
    file = min((tmp_path / "a").glob("*.staged"))
    (partition,) = reader.partitions(start, end)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptRecord, match=f"{file}: damaged at byte 0: wrong checksum"):
        list(reader.read(partition))
    file.unlink()
    with pytest.raises(RowsLost, match="each host that runs tasks needs the directory"):
        list(reader.read(partition))
    with pytest.raises(RowsLost, match="messages 0 to 9 of the checkpoint's batch are not in"):
        reader.partitions(start, end)
    reader.stop()


def test_a_disk_that_takes_nothing_ends_the_query_and_nothing_is_acknowledged(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    fill(connection, queue, 0, 10)
    reader = query(broker, queue, tmp_path / "gone", Checkpoint()).reader
    start = reader.initialOffset()
    shutil.rmtree(tmp_path / "gone")
    with pytest.raises(StagingFailed, match="cannot be written: No such file or directory"):
        reader.latestOffset(start, reader.getDefaultReadLimit())
    reader.stop()
    disk = Checkpoint()
    run(query(broker, queue, tmp_path / "other", disk))
    assert disk.rows() == bodies(10)


@pytest.mark.spark
def test_spark_takes_a_classic_queue_into_an_archive(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    """Two runs, the second of which goes on where the first ended."""
    for last in (700, 1_000):
        fill(connection, queue, last - 300 if last > 700 else 0, last)
        reader = spark.readStream.format("warren").option("amqp.uri", broker.url)
        reader = reader.option("subscribe", queue).option("mode", "staged")
        staged = reader.option("stagingDirectory", str(tmp_path / "staged"))
        taken = staged.option("maxOffsetsPerTrigger", "400").load()
        writer = taken.selectExpr("CAST(value AS string)", "offset").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        running = writer.trigger(availableNow=True).start(str(tmp_path / "table"))
        assert running.awaitTermination(int(patient(120)))
        table = spark.read.parquet(str(tmp_path / "table")).orderBy("offset").collect()
        assert [row.value for row in table] == [str(number) for number in range(last)]
    assert count(connection, queue) == 0
