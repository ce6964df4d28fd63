"""Reader and sink against a real broker, without a JVM."""

from __future__ import annotations

import json
import threading
import time
import uuid

import pyarrow as pa
import pytest

from tests.spark.driver import POINTS, Checkpoint, Killed, Query
from tests.support.broker import Broker
from tests.support.patience import patient
from warren.client import PERSISTENT, Connection, connect
from warren.log.batch import HEADER_BYTES, KIND_ROUND, SECTOR_BYTES
from warren.spark import broker as spark_broker
from warren.spark.batch import QueueReader
from warren.spark.broker import Fenced, RowsLost
from warren.spark.options import read_options, write_options
from warren.spark.queue_rows import read_queue
from warren.spark.sink import publish_rows
from warren.wire.amqp091.errors import ChannelException
from warren.wire.amqp091.properties import Properties


@pytest.fixture(params=["quorum", "classic"])
def queue_kind(request: pytest.FixtureRequest) -> str:
    """Both types of tables."""
    return str(request.param)


def fill(connection: Connection, queue: str, bodies: list[bytes]) -> None:
    assert connection.channel().publish_many("", queue, bodies, PERSISTENT) == []


def count(connection: Connection, queue: str) -> int:
    return connection.channel().queue_declare(queue, passive=True).messages


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def query(broker: Broker, queue: str, disk: Checkpoint, **given: str) -> Query:
    options = {"amqp.uri": broker.url, "subscribe": queue} | given
    return Query(spark_broker.connect, disk, **options)


def browse(broker: Broker, queue: str, **given: str) -> list[dict]:
    options = read_options({"amqp.uri": broker.url, "subscribe": queue} | given, streaming=False)
    reader = QueueReader(options, spark_broker.connect)
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def test_an_empty_queue_is_one_empty_task(broker: Broker, queue: str) -> None:
    options = read_options({"amqp.uri": broker.url, "subscribe": queue}, streaming=False)
    reader = QueueReader(options, spark_broker.connect)
    (partition,) = reader.partitions()
    assert list(reader.read(partition)) == []


def test_browsing_sees_all_and_touches_nothing(
    broker: Broker, connection: Connection, queue: str
) -> None:
    fill(connection, queue, bodies(1_000))
    for _ in range(2):
        rows = browse(broker, queue, minPartitions="3")
        assert [row["value"] for row in rows] == bodies(1_000)
    assert count(connection, queue) == 1_000
    channel = connection.channel()
    delivery = channel.get(queue)
    assert delivery is not None and not delivery.redelivered and delivery.body == b"0"
    assert [row["value"] for row in browse(broker, queue)] == bodies(1_000)[1:]


def test_browsing_between_two_messages_or_two_times(
    broker: Broker, connection: Connection, queue: str
) -> None:
    fill(connection, queue, bodies(400))
    channel = connection.channel()
    for _ in range(130):
        channel.get(queue, no_ack=True)
    first = browse(broker, queue)
    newest = first[-1]["timestamp"]
    end = time.monotonic() + patient(30.0)
    while time.time() < newest.timestamp() + 0.002:
        assert time.monotonic() < end, "time goes on"
        time.sleep(0.001)
    fill(connection, queue, bodies(50))
    later = browse(broker, queue)[len(first) :]
    ends = {
        "startingOffsets": json.dumps({queue: {"0": 200}}),
        "endingOffsets": json.dumps({queue: {"0": 410}}),
    }
    assert [row["offset"] for row in browse(broker, queue, **ends)] == list(range(200, 410))
    split = str(int(later[0]["timestamp"].timestamp() * 1000))
    assert browse(broker, queue, endingTimestamp=split) == first
    assert browse(broker, queue, startingTimestamp=split) == later
    assert browse(broker, queue, startingTimestamp=split, endingTimestamp=split) == []
    rows = read_queue(queue, broker.url, ("offset",), {"endingTimestamp": split})
    assert rows.read_all().num_rows == len(first)


def test_names_properties_and_large_bodies_come_through(
    broker: Broker, connection: Connection, queue: str
) -> None:
    channel = connection.channel()
    channel.queue_bind(queue, "amq.topic", "orders.#")
    properties = Properties(
        content_type="a/b", headers={"n": 5}, delivery_mode=2, priority=3, correlation_id="c",
        reply_to="r", expiration=None, message_id="m", timestamp=1_700_000_000, type_="t",
        user_id="guest", app_id="é",
    ).encode()  # fmt: skip
    large = bytes(range(256)) * 2_000
    channel.confirm_select()
    channel.publish("amq.topic", "orders.fr", large, properties)
    channel.publish("amq.topic", "orders.de", b"", properties)
    assert channel.wait_for_confirms() == []
    first, second = browse(broker, queue, includeHeaders="true")
    assert (first["exchange"], first["key"], first["topic"]) == ("amq.topic", "orders.fr", queue)
    assert (first["value"], second["value"]) == (large, b"")
    assert (first["app_id"], first["type"], first["priority"]) == ("é", "t", 3)
    assert first["headers"] == [{"key": "n", "value": b"5"}]
    assert first["properties_raw"] == second["properties_raw"] == properties


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_driver_resumes_without_a_lost_or_doubled_row(
    broker: Broker, connection: Connection, queue: str, point: str
) -> None:
    fill(connection, queue, bodies(1_000))
    disk = Checkpoint()
    options = {"maxOffsetsPerTrigger": "300", "minPartitions": "2"}
    with pytest.raises(Killed):
        query(broker, queue, disk, **options).run(point, 1)
    query(broker, queue, disk, **options).run()
    assert sorted(disk.rows()) == sorted(bodies(1_000))
    assert [len(rows) for rows in disk.sink.values()] == [300, 300, 300, 100]
    assert count(connection, queue) == 0
    assert browse(broker, queue) == []


@pytest.mark.parametrize("point", POINTS)
def test_checkouts_survive_a_killed_broker(
    private_broker: Broker, point: str, queue_kind: str
) -> None:
    with connect(private_broker.url) as connection:
        connection.channel().queue_declare(
            "q", durable=True, arguments={"x-queue-type": queue_kind}
        )
        fill(connection, "q", bodies(1_000))
    disk = Checkpoint()
    with pytest.raises(Killed):
        query(private_broker, "q", disk, maxOffsetsPerTrigger="300").run(point, 1)
    private_broker.restart(kill=True)
    query(private_broker, "q", disk, maxOffsetsPerTrigger="300").run()
    assert sorted(disk.rows()) == sorted(bodies(1_000))


def test_transient_messages_in_a_batch_outlive_a_killed_broker(private_broker: Broker) -> None:
    """Those of a classic queue, of which the others go."""
    with connect(private_broker.url) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True, arguments={"x-queue-type": "classic"})
        assert channel.publish_many("", "q", bodies(1_000)) == []
    disk = Checkpoint()
    with pytest.raises(Killed):
        query(private_broker, "q", disk, maxOffsetsPerTrigger="300").run("logged", 0)
    private_broker.restart(kill=True)
    private_broker.restart()
    query(private_broker, "q", disk, maxOffsetsPerTrigger="300").run()
    assert disk.rows() == bodies(300)


def test_what_is_checked_out_outlives_purge_expiry_and_length_limits(
    broker: Broker, connection: Connection, queue_kind: str
) -> None:
    """Also if the driver is killed meanwhile."""
    queue = f"limited-{uuid.uuid4()}"
    channel = connection.channel()
    limits: dict[str, object] = {"x-message-ttl": int(patient(0.5) * 1_000), "x-max-length": 5}
    limits["x-queue-type"] = queue_kind
    channel.queue_declare(queue, durable=True, arguments=limits)
    fill(connection, queue, bodies(5))
    disk = Checkpoint()
    reader = query(broker, queue, disk).reader
    start = reader.initialOffset()
    taken = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert taken[queue] == 1
    # Too many for the queue; then what is ready goes; then more comes, and expires.
    fill(connection, queue, [b"x"] * 8)
    assert count(connection, queue) == 5
    assert channel.queue_purge(queue) == 5
    fill(connection, queue, [b"y"] * 2)
    end = time.monotonic() + patient(30.0)
    while channel.queue_declare(queue, passive=True).messages > 0:
        assert time.monotonic() < end, "messages expire"
        time.sleep(0.02)
    reader.stop()
    reader = query(broker, queue, disk).reader
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == taken
    executor = query(broker, queue, disk).reader
    (partition,) = reader.partitions(start, taken)
    got = [row for rows in executor.read(partition) for row in rows["value"].to_pylist()]
    assert got == bodies(5)
    reader.commit(taken)
    assert reader.latestOffset(taken, reader.getDefaultReadLimit()) == taken
    reader.stop()
    channel.queue_delete(queue)


def test_a_query_outlives_a_restarted_broker(private_broker: Broker, queue_kind: str) -> None:
    with connect(private_broker.url) as connection:
        connection.channel().queue_declare(
            "q", durable=True, arguments={"x-queue-type": queue_kind}
        )
        fill(connection, "q", bodies(10))
    disk = Checkpoint()
    running = query(private_broker, "q", disk)
    reader, limit = running.reader, running.reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    private_broker.restart(kill=True)
    (partition,) = reader.partitions({"q": 0}, end)
    assert [share.runs for share in partition.shares] == [[(0, 9)]]
    assert reader.latestOffset(end, limit) == end


def test_an_idle_query_outlives_a_broker_that_is_away(
    private_broker: Broker, queue_kind: str
) -> None:
    with connect(private_broker.url) as connection:
        connection.channel().queue_declare(
            "q", durable=True, arguments={"x-queue-type": queue_kind}
        )
        fill(connection, "q", bodies(10))
    running = query(private_broker, "q", Checkpoint())
    reader, limit = running.reader, running.reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    reader.partitions({"q": 0}, end)
    private_broker.stop()
    answers: list[object] = []
    asking = threading.Thread(target=lambda: answers.append(reader.latestOffset(end, limit)))
    asking.start()
    asking.join(1.0)
    assert asking.is_alive(), "it waits for the broker"
    private_broker.start()
    asking.join(patient(60))
    assert answers == [end]
    with connect(private_broker.url) as connection:
        fill(connection, "q", [b"more"])
    deadline = time.monotonic() + patient(20)
    while reader.latestOffset(end, limit) == end:
        assert time.monotonic() < deadline, "what came later is not taken"


def test_a_queue_made_anew_is_told_from_the_one_before(
    broker: Broker, connection: Connection, queue: str, queue_kind: str
) -> None:
    fill(connection, queue, bodies(10))
    disk = Checkpoint()
    query(broker, queue, disk).run()
    connection.channel().queue_delete(queue)
    connection.channel().queue_declare(queue, durable=True, arguments={"x-queue-type": queue_kind})
    fill(connection, queue, [b"new %d" % number for number in range(100)])
    with pytest.raises(RowsLost, match="made anew"):
        query(broker, queue, disk).run()
    query(broker, queue, disk, failOnDataLoss="false").run()
    assert disk.rows()[10:] == [b"new %d" % number for number in range(100)]
    assert count(connection, queue) == 0


def test_consumers_do_not_get_what_is_checked_out(
    broker: Broker, connection: Connection, queue: str
) -> None:
    fill(connection, queue, bodies(10))
    disk = Checkpoint()
    with pytest.raises(Killed):
        query(broker, queue, disk, maxOffsetsPerTrigger="4").run("logged", 0)
    channel = connection.channel()
    assert channel.queue_purge(queue) == 6
    assert channel.get(queue) is None
    query(broker, queue, disk).run()
    assert disk.rows() == bodies(4)


def test_a_second_query_fences_the_first(
    broker: Broker, connection: Connection, queue: str
) -> None:
    fill(connection, queue, bodies(10))
    first, second = query(broker, queue, Checkpoint()), query(broker, queue, Checkpoint())
    limit = first.reader.getDefaultReadLimit()
    end = first.reader.latestOffset({queue: 0}, limit)
    assert second.reader.latestOffset({queue: 0}, limit) == end
    for each in (first, second):
        each.reader.partitions({queue: 0}, end)
    with pytest.raises(Fenced):
        first.reader.commit(end)
    second.reader.commit(end)
    assert browse(broker, queue) == []


def test_a_queue_that_does_not_outlive_its_broker_is_no_table(
    broker: Broker, connection: Connection
) -> None:
    name = f"spark-{uuid.uuid4()}"
    connection.channel().queue_declare(name, durable=False)
    with pytest.raises(ChannelException, match="is not durable and cannot be read as a table"):
        browse(broker, name)
    connection.channel().queue_delete(name)


def test_written_rows_are_confirmed_persistent_and_named(
    broker: Broker, connection: Connection, queue: str
) -> None:
    rows = pa.RecordBatch.from_pydict({"value": bodies(500)})
    options = write_options({"amqp.uri": broker.url, "topic": queue})
    assert publish_rows(iter([rows, rows]), options, "job:0:7", spark_broker.connect).rows == 1_000
    got = browse(broker, queue)
    assert [row["value"] for row in got] == bodies(500) * 2
    assert [row["message_id"] for row in got] == [f"job:0:7:{row}" for row in range(1_000)]
    assert {row["delivery_mode"] for row in got} == {2}


def test_an_idle_query_leaves_the_brokers_log_alone(
    private_broker: Broker, queue_kind: str
) -> None:
    """Spark asks an idle source a hundred times a second; that must not cost disk space."""
    with connect(private_broker.url) as connection:
        connection.channel().queue_declare(
            "q", durable=True, arguments={"x-queue-type": queue_kind}
        )
        fill(connection, "q", bodies(3))
    running = query(private_broker, "q", Checkpoint())
    limit = running.reader.getDefaultReadLimit()
    end = running.reader.latestOffset({"q": 0}, limit)
    running.reader.partitions({"q": 0}, end)
    assert running.reader.latestOffset(end, limit) == end
    before = at_rest(private_broker)
    for _ in range(200):
        assert running.reader.latestOffset(end, limit) == end
    assert written(private_broker) == before


def at_rest(broker: Broker) -> bytes:
    """The newest log file once an empty round closes it, which an idle log writes by itself."""
    deadline = time.monotonic() + patient(20)
    while time.monotonic() < deadline:
        data = written(broker)
        start = (len(data.rstrip(b"\0")) - 1) // SECTOR_BYTES * SECTOR_BYTES
        kind, size = data[start + 12], int.from_bytes(data[start + 56 : start + 64], "little")
        if data[start : start + 4] == b"WRB1" and kind == KIND_ROUND and size == HEADER_BYTES:
            return data
        time.sleep(0.01)
    raise AssertionError("the log does not come to rest")


def written(broker: Broker) -> bytes:
    """What is in the broker's newest log file."""
    assert broker.data_dir is not None
    return max((broker.data_dir / "log").glob("*.log")).read_bytes()
