"""0.1.0 itself beside this release: its nodes are upgraded under load, and the way back is refused.

It is taken from this repository's history and runs uncompiled. Where nodes of both are in one
cluster, what one logs the other applies: the same histories go through the machines of both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pika
import pytest

from tests.clients.support import eventually
from tests.cluster import traffic
from tests.cluster.nodes import QUORUM, WAIT_S, Cluster, Node, ready, seen_by
from tests.cluster.traffic import Consumer, Publisher, all_taken, check_books
from tests.conftest import ROOT
from tests.support.broker import Broker
from warren.versions import NEWEST, SAID_BY_LOGS

NAMES = ("v0.1.0", "c374c5701a7d8ba13d9ad9c07988782f6fa672d7")
"""Its tag and its commit: clones may have no tags."""
REFUSED = "format 'warren-log 4' is not one this version reads"
TAKEN = ("src", "tests/queues/driver.py")
QUEUE = "orders"
MESSAGES = 20
HISTORIES = 40
MACHINES = Path(__file__).with_name("former_machines.py")

Environment = dict[str, str]


@pytest.fixture(scope="session")
def former(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """What makes a broker one of 0.1.0."""
    for name in NAMES:
        found = subprocess.run(["git", "archive", name, *TAKEN], cwd=ROOT, capture_output=True)
        if found.returncode == 0:
            folder = tmp_path_factory.mktemp("former")
            subprocess.run(["tar", "x", "-C", str(folder)], input=found.stdout, check=True)
            return {"PYTHONPATH": f"{folder / 'src'}:{folder}", "WARREN_PURE": "1"}
    pytest.skip("needs the history of this repository as far back as 0.1.0")


def connected(broker: Broker, user: str = "guest") -> pika.BlockingConnection:
    """A connection of a user whose password is its name."""
    login = pika.PlainCredentials(user, user)
    where = pika.ConnectionParameters(broker.host, broker.port, credentials=login, heartbeat=0)
    return pika.BlockingConnection(where)


def start_as(node: Node, environment: Environment, kill: bool) -> None:
    """End a node, and start it with another release."""
    if kill:
        node.broker.kill()
    else:
        assert node.broker.stop() == 0
    node.broker.environment = environment
    node.broker.start()


def refuse(brokers: list[Broker], former: Environment) -> None:
    """0.1.0 does not start on these data directories, says why, and changes nothing."""
    for broker in brokers:
        broker.environment = former
        process = broker.launch()
        assert process.wait(WAIT_S) == 2, broker.log_text()
        said = broker.log_text().splitlines()[-1]
        assert REFUSED in said and "start the version that wrote it" in said, said
        broker.kill()
        broker.environment = {}


def test_a_cluster_is_upgraded_under_load_and_has_no_way_back_then(
    cluster: Cluster,
    make_broker: Callable[..., Broker],
    former: Environment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(traffic, "WINDOW", 20)

    def make(*options: str) -> Broker:
        return make_broker(*options, environment=former)

    monkeypatch.setattr(cluster, "_make", make)
    nodes = cluster.start(4)
    connection = nodes[0].connect()
    channel = connection.channel()
    # One node is no member of the queue.
    arguments = {**QUORUM, "x-quorum-initial-group-size": 3}
    channel.queue_declare(QUEUE, durable=True, arguments=arguments)
    connection.close()
    for node in nodes:
        seen_by(node, QUEUE)
    publishers: list[Publisher] = []
    consumers: list[Consumer] = []

    def begin(on: list[Node]) -> tuple[list[Publisher], list[Consumer]]:
        new = [Publisher(node, QUEUE, f"p{len(publishers) + at}") for at, node in enumerate(on)]
        takers = [Consumer(node, QUEUE) for node in on]
        for each in [*new, *takers]:
            each.start()
        publishers.extend(new)
        consumers.extend(takers)
        return new, takers

    def end(new: list[Publisher], takers: list[Consumer]) -> None:
        for publisher in new:
            publisher.stop()
        eventually(lambda: all_taken(publishers, consumers), WAIT_S)
        for consumer in takers:
            consumer.stop()
        check_books(publishers, consumers)

    for at, node in enumerate([nodes[3], nodes[1], nodes[2], nodes[0]]):
        new, takers = begin(cluster.others(node))
        for publisher in new:
            publisher.goes_on(20)
        start_as(node, {}, kill=at % 2 == 0)
        for publisher in new:
            publisher.goes_on(20)
        end(new, takers)
        if at == 0:
            # Nothing is on its disk yet that 0.1.0 could not read.
            start_as(node, former, kill=False)
            start_as(node, {}, kill=True)
            assert node.status()["cluster_version"] == SAID_BY_LOGS - 1
            node.done("users", "add_user", "late", "late")
            node.done("permissions", "set_permissions", "late", ".*", ".*", ".*")
            for each in nodes:
                eventually(lambda each=each: connected(each.broker, "late"), WAIT_S).close()

    def versions() -> set[int]:
        return {node.status()["cluster_version"] for node in nodes}

    eventually(lambda: versions() == {NEWEST}, WAIT_S)
    new, takers = begin(nodes)
    for publisher in new:
        publisher.goes_on(20)
    end(new, takers)
    connection = nodes[0].connect()
    channel = connection.channel()
    channel.confirm_delivery()
    for number in range(MESSAGES):
        properties = pika.BasicProperties(delivery_mode=2, priority=number % 9)
        channel.basic_publish("", QUEUE, b"", properties)
    connection.close()
    brokers = [node.broker for node in nodes]
    for broker in brokers:
        broker.stop()
    refuse(brokers, former)
    for broker in brokers:
        broker.launch()
    for broker in brokers:
        broker.wait()
    assert ready(nodes[3], QUEUE) == MESSAGES


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_node_has_no_way_back(
    make_broker: Callable[..., Broker], former: Environment, kill: bool
) -> None:
    """Whatever was in use, and however the node ended."""
    broker = make_broker(environment=former)
    broker.start()
    facts = {
        "plain": pika.BasicProperties(delivery_mode=2),
        "priority": pika.BasicProperties(delivery_mode=2, priority=7),
        "expiration": pika.BasicProperties(delivery_mode=2, expiration="9999999"),
    }
    kinds = ("quorum", "classic")
    for environment in (former, {}):
        broker.environment = environment
        broker.restart(kill=kill)
        connection = connected(broker)
        channel = connection.channel()
        channel.confirm_delivery()
        for kind in kinds:
            channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
            for name in facts if environment is not former else ["plain"]:
                channel.basic_publish("", kind, name.encode(), facts[name])
        connection.close()
    broker.kill() if kill else broker.stop()
    refuse([broker], former)
    broker.start()
    connection = connected(broker)
    channel = connection.channel()
    for kind in kinds:
        found = channel.queue_declare(kind, passive=True).method.message_count
        assert found == 1 + len(facts)
    connection.close()


@pytest.mark.parametrize("machine", ["queues", "tables"])
def test_a_log_comes_to_the_same_state_in_both(former: Environment, machine: str) -> None:
    """As long as there is nothing in it that 0.1.0 does not know."""
    command = [sys.executable, str(MACHINES), machine, str(HISTORIES)]
    own = {"PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{ROOT}"}
    there, here = (
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
            timeout=WAIT_S,
        ).stdout.splitlines()
        for environment in (former, own)
    )
    assert len(there) >= HISTORIES
    for one, other in zip(there, here, strict=True):
        assert one == other
