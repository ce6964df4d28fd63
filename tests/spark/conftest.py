"""One Spark session for all tests that need a JVM, made for quick tests, not quick queries.

Beside it what tests with a real broker need: a connection and a queue.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.broker import Broker
from warren.client import Connection, connect
from warren.spark.session import prepare_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAST = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


@pytest.fixture
def connection(broker: Broker) -> Iterator[Connection]:
    """A connection to the shared broker."""
    with connect(broker.url) as connection:
        yield connection


@pytest.fixture
def queue_kind() -> str:
    """The type of queues; modules that prove more than one have a fixture of their own."""
    return "quorum"


@pytest.fixture
def queue(connection: Connection, queue_kind: str) -> Iterator[str]:
    """A fresh durable queue in the shared broker."""
    name = f"spark-{uuid.uuid4()}"
    arguments = {"x-queue-type": queue_kind}
    connection.channel().queue_declare(name, durable=True, arguments=arguments)
    yield name
    connection.channel().queue_delete(name)


def environment() -> dict[str, str]:
    """What a driver's process needs to find this Python and the package under test."""
    import warren

    root = Path(warren.__file__).resolve().parent.parent
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(root),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def quick_environment() -> dict[str, str]:
    """The same for a program that chooses its JVM's options itself: it starts as `FAST` has it.

    Java says on the standard error stream that it was told so.
    """
    return {**environment(), "JDK_JAVA_OPTIONS": FAST["spark.driver.extraJavaOptions"]}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark in local mode, with two threads and tasks that may fail three times."""
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment().items():
            patch.setenv(name, value)
        builder = SparkSession.builder.master("local[2,4]").appName("tests")
        for name, value in FAST.items():
            builder = builder.config(name, value)
        builder = builder.config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        session = builder.config("spark.local.dir", str(scratch)).getOrCreate()
        session.sparkContext.setLogLevel("FATAL")
        prepare_queries(session)
        yield session
        session.stop()
