"""Executors in processes of their own, one of which dies.

Two JVMs more take half a minute to start: this is for `make long`, which sets `WARREN_EXECUTORS`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.conftest import FAST, environment
from tests.support.broker import Broker
from tests.support.patience import patient
from warren.client import PERSISTENT, Connection

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif("WARREN_EXECUTORS" not in os.environ, reason="runs in `make long`"),
]

ROWS = 4_000
SECONDS_MAX = patient(300)

EXECUTORS = {"spark.executor.memory": "600m", "spark.task.maxFailures": "4"}

#: A task of the second batch ends its executor. (A second attempt beside a first one that is slow
#: would need a second host: Spark runs no two of them on one.)
DRIVER = """
import json, os, signal, sys, time
from pathlib import Path
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.types import StringType

given = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local-cluster[2,1,700]")
for name, value in given["conf"].items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
out = Path(given["out"])
folder = given["out"]

def troubled(value):
    if int(value) == 2500:
        try:
            Path(folder, "killed").touch(exist_ok=False)
        except FileExistsError:
            return value
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
        os.kill(int(daemon[1]), signal.SIGKILL)
        time.sleep(60)
    return value

rows = spark.readStream.format("warren").options(**given["from"]).load()
value = F.udf(troubled, StringType())(F.expr("cast(value as string)"))
query = rows.select(value.alias("value")).writeStream.format("warren").options(**given["to"])
query = query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
query.start().awaitTermination()
(out / "done").touch()
"""


def test_a_lost_executor_doubles_and_loses_nothing(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    import pyspark

    target = f"{queue}-target"
    channel = connection.channel()
    channel.queue_declare(target, durable=True, arguments={"x-queue-type": "quorum"})
    bodies = [b"%d" % number for number in range(ROWS)]
    assert channel.publish_many("", queue, bodies, PERSISTENT) == []
    given = {
        "conf": FAST | EXECUTORS,
        "out": str(tmp_path),
        "from": {"amqp.uri": broker.url, "subscribe": queue, "groupId": "g",
                 "maxOffsetsPerTrigger": "2000", "minPartitions": "4"},
        "to": {"amqp.uri": broker.url, "topic": target, "delivery": "exactly-once"},
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, json.dumps(given)],
        env={**os.environ, **environment(), "SPARK_HOME": str(Path(pyspark.__file__).parent),
             "SPARK_WORKER_DIR": str(tmp_path / "work")},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )  # fmt: skip
    assert (tmp_path / "done").exists(), done.stdout[-2_000:] + done.stderr[-6_000:]
    assert (tmp_path / "killed").exists(), "an executor died"
    channel.consume(target, no_ack=True)
    got: list[bytes] = []
    while deliveries := channel.receive(10_000, 5.0 if len(got) < ROWS else 0.2):
        got += [delivery.body for delivery in deliveries]
    assert sorted(got, key=int) == bodies
    assert channel.queue_declare(queue, passive=True).messages == 0
    checkpoint = json.loads((tmp_path / "checkpoint" / "metadata").read_text())
    for name in (target, f"warren.sink.{checkpoint['id']}"):
        channel.queue_delete(name)
    channel.queue_delete(f"warren.sink.{checkpoint['id']}.batches")
