"""The sink over a broker in memory: a task succeeds only with every row confirmed."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from tests.spark.fake import FakeBroker
from warren.errors import ConfigError
from warren.spark.broker import Unconfirmed
from warren.spark.options import write_options
from warren.spark.sink import publish_rows
from warren.spark.source import WarrenDataSource

ROWS = StructType([StructField("value", BinaryType())])


def batches(*sizes: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"value": [b"x"] * size}) for size in sizes]


def test_all_rows_of_a_task_are_published_under_their_own_names() -> None:
    broker = FakeBroker()
    queue = broker.queue("q")
    done = publish_rows(iter(batches(2, 3)), write_options({"topic": "q"}), "j:0:1", broker.connect)
    assert done.rows == 5
    assert len(queue.ready) == 5
    for row in range(5):
        assert f"j:0:1:{row}".encode() in queue.messages[row]
    assert broker.open_connections == 0


def test_a_row_that_no_queue_takes_fails_the_task() -> None:
    broker = FakeBroker()
    with pytest.raises(Unconfirmed, match="2 messages reached no queue.*key 'nobody'"):
        publish_rows(iter(batches(2)), write_options({"topic": "nobody"}), "p", broker.connect)
    assert broker.open_connections == 0
    lenient = write_options({"topic": "nobody", "mandatory": "false"})
    assert publish_rows(iter(batches(2)), lenient, "p", broker.connect).rows == 2


def test_a_refused_row_fails_the_task() -> None:
    broker = FakeBroker()
    broker.queue("q")
    broker.refuses = [2]
    with pytest.raises(Unconfirmed, match="refused 1 messages"):
        publish_rows(iter(batches(3)), write_options({"topic": "q"}), "p", broker.connect)


def test_writers_travel_and_all_attempts_of_a_job_agree_on_its_name() -> None:
    writer = WarrenDataSource({"topic": "q"}).writer(ROWS, overwrite=False)
    one, other = pickle.loads(pickle.dumps(writer)), pickle.loads(pickle.dumps(writer))
    assert one._job == other._job


def test_overwriting_is_refused() -> None:
    source = WarrenDataSource({"topic": "q"})
    with pytest.raises(ConfigError, match="cannot be overwritten"):
        source.writer(ROWS, overwrite=True)
    with pytest.raises(ConfigError, match="cannot be overwritten"):
        source.streamWriter(ROWS, overwrite=True)


def test_making_sources_and_writers_connects_to_nothing() -> None:
    nowhere = {"amqp.uri": "amqp://127.0.0.1:1/"}
    source = WarrenDataSource(nowhere | {"subscribe": "q"})
    assert source.schema().fieldNames()[:2] == ["key", "value"]
    pickle.loads(pickle.dumps(source.reader(source.schema())))
    grouped = WarrenDataSource(nowhere | {"subscribe": "q", "groupId": "g"})
    pickle.loads(pickle.dumps(grouped.streamReader(grouped.schema())))
    WarrenDataSource(nowhere | {"topic": "q"}).streamWriter(ROWS, overwrite=False)


def test_unknown_columns_are_refused_before_a_task_starts() -> None:
    columns = StructType([*ROWS.fields, StructField("colour", BinaryType())])
    with pytest.raises(ConfigError, match="'colour' has no place"):
        WarrenDataSource({"topic": "q"}).writer(columns, overwrite=False)
