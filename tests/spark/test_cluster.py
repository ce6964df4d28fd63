"""Queries and sinks while nodes of a cluster die: real processes, without a JVM."""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.clients.support import eventually
from tests.cluster.nodes import Cluster, Node, declare, ready
from tests.spark.driver import Checkpoint, Query
from tests.support.balancer import Balancer
from tests.support.broker import Broker, free_port
from tests.support.patience import patient
from warren.client import PERSISTENT, connect
from warren.spark import broker as spark_broker
from warren.spark.finalising import finalise
from warren.spark.options import write_options
from warren.spark.staging import stage_rows

pytestmark = pytest.mark.process

WAIT_S = patient(60.0)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that run, for all tests here: what ends one starts it again."""
    yield from made_cluster(tmp_path_factory.mktemp("cluster"))


def made_cluster(folder: Path) -> Iterator[Cluster]:
    """Three nodes that run until this goes on."""
    if Broker.from_environment() is not None:
        pytest.skip("needs processes of its own")
    # What a dead node had comes back after a second, and not after a minute.
    settings = folder / "warren.conf"
    settings.write_text("consumer_disconnected_timeout = 1000\n")
    made: list[Broker] = []

    def make(*options: str) -> Broker:
        made.append(Broker(free_port(), folder / f"broker-{len(made)}", options=list(options)))
        return made[-1]

    cluster = Cluster(make, folder)
    cluster.start(3, "--config", str(settings))
    yield cluster
    for broker in made:
        broker.kill()


def addresses(cluster: Cluster, first: Node) -> str:
    """The option `amqp.uri` with all nodes, one of them before the others."""
    return ",".join(node.broker.url for node in [first, *cluster.others(first)])


def restart(cluster: Cluster, node: Node) -> None:
    node.broker.launch()
    node.broker.wait()
    cluster.settled()


ROWS = 6_000


def filled(cluster: Cluster) -> str:
    """A queue with `ROWS` messages."""
    queue = f"drained-{uuid.uuid4()}"
    declare(cluster.nodes[0], queue)
    with connect(cluster.nodes[0].broker.url) as connection:
        bodies = [b"%d" % number for number in range(ROWS)]
        assert connection.channel().publish_many("", queue, bodies, PERSISTENT) == []
    return queue


def classic(node: Node) -> str:
    """A classic queue of a node with `ROWS` messages."""
    queue = f"classic-{uuid.uuid4()}"
    with connect(node.broker.url) as connection:
        channel = connection.channel()
        arguments = {"x-queue-type": "classic", "x-queue-leader-locator": "client-local"}
        channel.queue_declare(queue, durable=True, arguments=arguments)
        bodies = [b"%d" % number for number in range(ROWS)]
        assert channel.publish_many("", queue, bodies, PERSISTENT) == []
    return queue


def drained(queue: str, uri: str, trouble: Callable[[], object]) -> list[int]:
    """Drain a queue in three batches, with trouble while a task of the second one reads."""
    query = Query(
        spark_broker.connect,
        Checkpoint(),
        **{"amqp.uri": uri, "subscribe": queue, "retryTimeout": "60s"},
        maxOffsetsPerTrigger="2500",
        minPartitions="2",
        arrowBatchRows="100",
    )
    reader, limit = query.reader, query.reader.getDefaultReadLimit()
    ends, got, made = [reader.initialOffset()], [], False
    while True:
        following = reader.latestOffset(ends[-1], limit)
        if following == ends[-1]:
            break
        for partition in reader.partitions(ends[-1], following):
            for number, arrow in enumerate(pickle.loads(query.shipped).read(partition)):
                if len(ends) == 2 and number == 1 and not made:
                    made = True
                    trouble()
                got += arrow["value"].to_pylist()
        ends.append(following)
    assert made
    assert len(ends) == 4, "three batches"
    reader.stop()
    return sorted(map(int, got))


def test_the_leader_of_a_queue_dies_in_the_middle_of_a_batch(cluster: Cluster) -> None:
    queue = filled(cluster)
    leader = cluster.leader(queue, cluster.nodes[0])
    got = drained(queue, addresses(cluster, leader), leader.broker.kill)
    assert got == list(range(ROWS))
    restart(cluster, leader)
    eventually(lambda: ready(leader, queue) == 0, WAIT_S)


@pytest.mark.parametrize("balanced", [False, True])
def test_the_node_of_a_classic_queue_is_killed_in_the_middle_of_a_batch(
    cluster: Cluster, balanced: bool
) -> None:
    """The query finds that node behind others, and goes on when it is there again."""
    home = cluster.nodes[1]
    queue = classic(home)
    balancer = Balancer([node.broker.port for node in cluster.nodes])
    uri = balancer.url if balanced else addresses(cluster, cluster.nodes[0])

    def trouble() -> None:
        home.broker.kill()
        home.broker.launch()

    try:
        assert drained(queue, uri, trouble) == list(range(ROWS))
    finally:
        balancer.close()
    cluster.settled()
    assert ready(home, queue) == 0


def test_a_balancer_and_all_nodes_that_restart_in_the_middle_of_a_batch(cluster: Cluster) -> None:
    """Through one address, behind which each connection is another node's."""
    queue = filled(cluster)
    balancer = Balancer([node.broker.port for node in cluster.nodes])

    def trouble() -> None:
        assert balancer.cut()
        cluster.restart_all()

    try:
        assert drained(queue, balancer.url, trouble) == list(range(ROWS))
        assert balancer.tried >= 4
    finally:
        balancer.close()
    cluster.settled()
    eventually(lambda: ready(cluster.nodes[0], queue) == 0, WAIT_S)


def test_a_node_dies_while_rows_are_moved_exactly_once(cluster: Cluster) -> None:
    """The one that the driver is connected to, which has a transaction under way."""
    target, sink, rows = f"target-{uuid.uuid4()}", uuid.uuid4().hex, 12_000
    declare(cluster.nodes[0], target)
    dying, watching, _ = cluster.nodes
    eventually(lambda: ready(watching, target) == 0, WAIT_S)
    options = write_options(
        {
            "amqp.uri": addresses(cluster, dying),
            "topic": target,
            "delivery": "exactly-once",
            "retryTimeout": "60s",
        }
    )
    arrow = pa.RecordBatch.from_pylist([{"value": b"%d" % number} for number in range(rows)])
    connected = spark_broker.connect
    staged = stage_rows(iter([arrow]), options, f"{sink}:0:0", sink, 0, True, connected)
    failed: list[BaseException] = []

    def move() -> None:
        try:
            finalise([staged], sink, 0, True, options, connected)
        except BaseException as error:
            failed.append(error)

    driver = threading.Thread(target=move)
    driver.start()
    with connect(watching.broker.url) as connection:
        channel = connection.channel()
        eventually(lambda: channel.queue_declare(target, passive=True).messages >= 1_000, WAIT_S)
        dying.broker.kill()
        driver.join(WAIT_S)
        assert not driver.is_alive() and not failed, failed
        channel.consume(target, no_ack=True)
        got: list[bytes] = []
        while deliveries := channel.receive(10_000, 5.0 if len(got) < rows else 0.2):
            got += [delivery.body for delivery in deliveries]
    assert sorted(map(int, got)) == list(range(rows))
    restart(cluster, dying)
