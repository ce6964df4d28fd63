"""Queues to tables and to another queue on real Spark, while everything dies in turn.

Each run has a fault of the failure table at a time of its own, in a cluster of three nodes behind a
balancer, and ends when the queries do: then every row is in the tables once, that of a query which
follows a queue among them, as Spark and as pyarrow read them, and in the other queue once. A driver
is kept for the next run unless the fault ends it.
For `make long-spark`, which says by `WARREN_SPARK_RUNS` how many runs there are; the seed that a
failure names is `WARREN_SPARK_SEED`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pyarrow.parquet as pq
import pytest

from tests.cluster.nodes import Cluster
from tests.spark.conftest import FAST, environment
from tests.spark.test_cluster import made_cluster
from tests.support.balancer import Balancer
from tests.support.patience import patient
from warren.client import PERSISTENT, connect
from warren.client.table import Tables
from warren.spark.queue_rows import read_queue
from warren.spark.session import LOCAL

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif("WARREN_SPARK_RUNS" not in os.environ, reason="for `make long-spark`"),
]

QUORUM = {"x-queue-type": "quorum"}
RUN_SECONDS_MAX = patient(300.0)
FREEZE_SECONDS = 4.0

#: A driver that is killed as it logs the first offset of a query is to start it again.
RESTARTS: Final = "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart"
CONF: Final = {**FAST, RESTARTS: LOCAL[RESTARTS]}

#: Runs jobs, one JSON a line on standard input; says what came of each on standard output.
DRIVER: Final = """
import json, os, sys
from pyspark.sql import SparkSession
from warren.spark.archive import Archive
from warren.spark.session import prepare_queries

conf = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2,4]")
for name, value in conf.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
assert prepare_queries(spark)

def load(options):
    return spark.readStream.format("warren").options(**options).load()

def started(writer, name, job):
    writer = writer.option("checkpointLocation", f"{job['out']}/{name}-checkpoint")
    return writer.trigger(availableNow=True).start()

for line in sys.stdin:
    job = json.loads(line)
    table = job["out"] + "/table"
    try:
        stored = load(job["stored"]).writeStream.foreachBatch(Archive(table))
        moved = load(job["moved"]).drop("message_id", "properties_raw").writeStream
        moved = moved.format("warren").options(**job["to"])
        followed = load(job["followed"]).writeStream.foreachBatch(Archive(job["out"] + "/followed"))
        queries = [started(stored, "stored", job), started(moved, "moved", job)]
        queries.append(started(followed, "followed", job))
        for query in queries:
            query.awaitTermination()
        files = [f"{table}/{name}" for name in os.listdir(table) if name.endswith(".parquet")]
        rows = spark.read.parquet(*files).selectExpr("cast(value as string) as v")
        counted = [rows.count(), rows.distinct().count()]
        answer = {"job": job["number"], "counted": counted, "sink": str(queries[1].id)}
    except Exception as error:
        for query in spark.streams.active:
            query.stop()
        answer = {"job": job["number"], "error": str(error)[:4000]}
    print(json.dumps(answer), flush=True)
"""

#: What a query may end with when a part of it was killed: it is started again, as its user would.
PASSING: Final = (
    "failed to connect back",
    "no broker at",
    "Python worker exited unexpectedly",
    "SparkException: Python",
    "Connection reset",
    "Broken pipe",
    "EOFException",
    "Error while",
    "SocketException",
    # The end of what a killed process sent, which Java has no words for.
    "terminated with exception:  SQLSTATE",
)


class Driver:
    """A Spark driver in a session of its own, so that all of its processes die together."""

    def __init__(self, folder: Path) -> None:
        self._answers = folder / f"answers-{uuid.uuid4().hex}"
        self._log = folder / "driver.log"
        with self._log.open("ab") as log, self._answers.open("wb") as answers:
            self._process = subprocess.Popen(
                [sys.executable, "-c", DRIVER, json.dumps(CONF)],
                stdin=subprocess.PIPE,
                stdout=answers,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **environment()},
            )
        self._read = 0

    def submit(self, job: dict[str, Any]) -> None:
        """Have it run a job."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any] | None:
        """The next answer; None if there is none yet."""
        lines = self._answers.read_text().splitlines(keepends=True)[self._read :]
        if not lines or not lines[0].endswith("\n"):
            assert self.running, self._log.read_text()[-4_000:]
            return None
        self._read += 1
        found: dict[str, Any] = json.loads(lines[0])
        return found

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all of its processes."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass
        if number == signal.SIGKILL:
            self._process.wait()

    def workers(self) -> list[psutil.Process]:
        """The Python processes that Spark has started; they come and go."""
        found = []
        for child in psutil.Process(self._process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "python" in child.name():
                    found.append(child)
        return found


class Stage:
    """What all runs have in common.

    Attributes:
        cluster, balancer: The brokers, and the address that queries know.
        folder: Place for tables and checkpoints.
        driver: The one that runs, or None.
        random: Decides what is left to chance.
    """

    def __init__(self, cluster: Cluster, balancer: Balancer, folder: Path, seed: int) -> None:
        self.cluster = cluster
        self.balancer = balancer
        self.folder = folder
        self.driver: Driver | None = None
        self.random = random.Random(seed)

    def the_driver(self) -> Driver:
        """The one that runs, or a new one."""
        if self.driver is None:
            self.driver = Driver(self.folder)
        return self.driver

    # --- faults ---------------------------------------------------------------------------------

    def nothing(self) -> None:
        """A run that nothing happens to."""

    def driver_killed(self) -> None:
        """Driver, JVM and workers are gone."""
        assert self.driver is not None
        self.driver.signal(signal.SIGKILL)
        self.driver = None

    def driver_frozen(self) -> None:
        """The driver stands still for a while, and goes on."""
        assert self.driver is not None
        self.driver.signal(signal.SIGSTOP)
        time.sleep(FREEZE_SECONDS)
        self.driver.signal(signal.SIGCONT)

    def worker_killed(self) -> None:
        """A Python process of Spark's is gone: a task's, or the source's."""
        assert self.driver is not None
        workers = self.driver.workers()
        if workers:
            with suppress(psutil.NoSuchProcess):
                self.random.choice(workers).kill()

    def leader_killed(self) -> None:
        """A node is gone for a second."""
        node = self.random.choice(self.cluster.nodes)
        node.broker.kill()
        time.sleep(1.0)
        node.broker.launch()
        node.broker.wait()

    def leader_frozen(self) -> None:
        """A node stands still for a while, and goes on."""
        node = self.random.choice(self.cluster.nodes)
        os.kill(node.broker.pid, signal.SIGSTOP)
        time.sleep(FREEZE_SECONDS)
        os.kill(node.broker.pid, signal.SIGCONT)

    def all_restarted(self) -> None:
        """All nodes die at once and start."""
        self.cluster.restart_all()

    def away(self, seconds: float) -> None:
        """No node runs for some time."""
        for node in self.cluster.nodes:
            node.broker.kill()
        time.sleep(seconds)
        for node in self.cluster.nodes:
            node.broker.launch()
        for node in self.cluster.nodes:
            node.broker.wait()

    def balancer_cut(self) -> None:
        """All connections break, three times."""
        for _ in range(3):
            self.balancer.cut()
            time.sleep(0.3)

    def faults(self) -> list[Callable[[], None]]:
        """All of them; what comes more than once comes more often."""
        return [
            *[self.driver_killed] * 3,
            *[self.worker_killed] * 2,
            *[self.leader_killed] * 3,
            self.driver_frozen,
            self.leader_frozen,
            self.all_restarted,
            self.balancer_cut,
            self.away_1_s,
            self.nothing,
        ]

    def away_1_s(self) -> None:
        """No node runs for a second."""
        self.away(1.0)

    def away_30_s(self) -> None:
        """No node runs for half a minute."""
        self.away(30.0)

    def away_5_min(self) -> None:
        """No node runs for five minutes."""
        self.away(300.0)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    yield from made_cluster(tmp_path_factory.mktemp("cluster"))


def test_whatever_dies_each_row_arrives_once(cluster: Cluster, tmp_path: Path) -> None:
    runs = int(os.environ["WARREN_SPARK_RUNS"])
    seed = int(os.environ.get("WARREN_SPARK_SEED", "0")) or random.SystemRandom().getrandbits(32)
    print(f"\nseed {seed}, {runs} runs", flush=True)
    balancer = Balancer([node.broker.port for node in cluster.nodes])
    stage = Stage(cluster, balancer, tmp_path, seed)
    done: Counter[str] = Counter()
    try:
        for number in range(runs):
            fault = stage.random.choice(stage.faults())
            # The long ones come once each, at the end of many runs.
            if runs >= 20 and number == runs - 1:
                fault = stage.away_30_s
            if runs >= 100 and number == runs - 2:
                fault = stage.away_5_min
            by_tasks = stage.random.random() < 0.5
            began = time.monotonic()
            starts = one_run(stage, number, fault, by_tasks)
            done[fault.__name__] += 1
            took = time.monotonic() - began
            how = ", files by tasks" if by_tasks else ""
            print(f"run {number}: {fault.__name__}{how}, {starts} starts, {took:.0f} s", flush=True)
    finally:
        balancer.close()
        if stage.driver is not None:
            stage.driver.signal(signal.SIGKILL)
    print(f"seed {seed}: {dict(done)}", flush=True)


def one_run(stage: Stage, number: int, fault: Callable[[], None], by_tasks: bool) -> int:
    """Read rows of three queues with a fault; returns how often the queries were started.

    Args:
        by_tasks: Whether the tasks that read write the table's files.
    """
    chance = stage.random
    rows = chance.randrange(500, 6_000)
    batch = chance.randrange(rows // 6, rows // 2)
    name, out = f"run-{number}", stage.folder / f"run-{number}"
    kinds = ("stored", "moved", "followed", "target")
    stored, moved, followed, target = (f"{name}-{kind}" for kind in kinds)
    bodies = [b"%d" % each for each in range(rows)]
    with connect(stage.balancer.url) as connection:
        for queue in (stored, moved, followed, target):
            connection.channel().queue_declare(queue, durable=True, arguments=QUORUM)
        for queue in (stored, moved, followed):
            assert connection.channel().publish_many("", queue, bodies, PERSISTENT) == []

    def options(queue: str) -> dict[str, str]:
        more = {"maxOffsetsPerTrigger": str(batch), "minPartitions": "2", "retryTimeout": "10m"}
        if queue == followed:
            more |= {"mode": "log", "startingOffsets": "earliest"}
        else:
            more["groupId"] = "g"
        return {"amqp.uri": stage.balancer.url, "subscribe": queue, **more}

    to = {"amqp.uri": stage.balancer.url, "topic": target, "delivery": "exactly-once"}
    job = {
        "number": number,
        "out": str(out),
        "stored": options(stored) | ({"archiveDirectory": f"{out}/table"} if by_tasks else {}),
        "moved": options(moved),
        "followed": options(followed),
        "to": {**to, "retryTimeout": "10m"},
    }
    starts = 1
    # A JVM that has just begun needs some time to have something to lose.
    late = 3.0 if stage.driver is not None else 15.0
    stage.the_driver().submit(job)
    struck_at = time.monotonic() + chance.choice([0.0, chance.uniform(0.0, late)])
    struck = False
    end = time.monotonic() + RUN_SECONDS_MAX + (300.0 if fault == stage.away_5_min else 0.0)
    while True:
        if not struck and time.monotonic() >= struck_at:
            struck = True
            fault()
            if stage.driver is None:
                starts += 1
                stage.the_driver().submit(job)
        answer = stage.the_driver().answer()
        if answer is not None and "error" not in answer:
            break
        if answer is not None:
            assert any(text in answer["error"] for text in PASSING), answer["error"]
            starts += 1
            stage.the_driver().submit(job)
        assert time.monotonic() < end, f"run {number}, {fault.__name__}: not done"
        time.sleep(0.05)
    if not struck:
        fault()
    assert answer["counted"] == [rows, rows], (answer["counted"], rows)
    for table in ("table", "followed"):
        archived = pq.read_table(out / table, columns=["value"])["value"].to_pylist()
        assert sorted(archived, key=int) == bodies, table
    got = read_queue(target, stage.balancer.url, columns=("value",)).read_all()["value"].to_pylist()
    assert sorted(got, key=int) == bodies
    with connect(stage.balancer.url) as connection:
        for queue in (stored, moved):
            assert Tables(connection.channel()).status(queue).ready == 0
        assert Tables(connection.channel()).status(followed).ready == rows
        for queue in (stored, moved, followed, target):
            connection.channel().queue_delete(queue)
        for queue in (f"warren.sink.{answer['sink']}", f"warren.sink.{answer['sink']}.batches"):
            connection.channel().queue_delete(queue)
    shutil.rmtree(out)
    return starts
