"""Clusters of three whose nodes are killed, stopped and started while clients work.

`WARREN_CLUSTER_CYCLES` sets how many leaders are killed.
"""

from __future__ import annotations

import os
import random
import signal

import pytest

from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Cluster, declare, ready, seen_by, wait_s
from tests.cluster.traffic import Consumer, Publisher, all_taken, check_books
from tests.support.patience import patient

CYCLES = int(os.environ.get("WARREN_CLUSTER_CYCLES", "3"))
SEED = int(os.environ.get("WARREN_CLUSTER_SEED", "20261121"))
QUEUE = "orders"
STOP_SECONDS = 2.0


@pytest.mark.timeout(patient(60 + 30 * CYCLES))
def test_killed_leaders(cluster: Cluster) -> None:
    """The node that leads a queue is killed, again and again, under publishers and consumers.

    What was confirmed arrives, nothing is invented, and clients of the other nodes only notice that
    a confirm takes a little longer.
    """
    nodes = cluster.start(3)
    declare(nodes[0], QUEUE)
    publishers: list[Publisher] = []
    consumers: list[Consumer] = []
    for node in nodes:
        seen_by(node, QUEUE)
    for cycle in range(CYCLES):
        leader = cluster.leader(QUEUE, nodes[cycle % 3])
        here = {
            node: (Publisher(node, QUEUE, f"{cycle}{node.name[:2]}"), Consumer(node, QUEUE))
            for node in nodes
        }
        for publisher, consumer in here.values():
            publishers.append(publisher)
            consumers.append(consumer)
            publisher.start()
            consumer.start()
        for publisher, consumer in here.values():
            publisher.goes_on()
            consumer.goes_on()
        leader.broker.kill()
        survivors = [pair for node, pair in here.items() if node is not leader]
        for publisher, consumer in survivors:
            publisher.goes_on()
            consumer.goes_on()
        leader.broker.start()
        for publisher, _ in here.values():
            publisher.stop()
        for publisher, consumer in survivors:
            publisher.check()
            consumer.check()
        eventually(lambda node=leader: ready(node, QUEUE) == 0, WAIT_S)
        for _, consumer in here.values():
            consumer.stop()
    last = Consumer(nodes[0], QUEUE)
    consumers.append(last)
    last.start()
    for node in nodes:
        eventually(lambda node=node: ready(node, QUEUE) == 0, WAIT_S)
    eventually(lambda: all_taken(publishers, consumers), WAIT_S)
    last.stop()
    check_books(publishers, consumers)
    print(sum(len(p.confirmed) for p in publishers), "confirmed in", CYCLES, "cycles")


def test_stopped_leader(cluster: Cluster) -> None:
    """The leader stands still for longer than it is trusted: another one takes its place."""
    nodes = cluster.start(3)
    declare(nodes[0], QUEUE)
    for node in nodes:
        seen_by(node, QUEUE)
    pairs = [(Publisher(node, QUEUE, node.name[:2]), Consumer(node, QUEUE)) for node in nodes]
    for publisher, consumer in pairs:
        publisher.start()
        consumer.start()
        publisher.goes_on()
    leader = cluster.leader(QUEUE, nodes[0])
    os.kill(leader.broker.pid, signal.SIGSTOP)
    try:
        wait_s(STOP_SECONDS)
        for node, (publisher, consumer) in zip(nodes, pairs, strict=True):
            if node is not leader:
                publisher.goes_on()
                consumer.goes_on(20)
    finally:
        os.kill(leader.broker.pid, signal.SIGCONT)
    for publisher, _ in pairs:
        publisher.goes_on()
    for publisher, _ in pairs:
        publisher.stop()
    publishers, consumers = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    eventually(lambda: all_taken(publishers, consumers), WAIT_S)
    for publisher, consumer in pairs:
        publisher.check()
        consumer.check()
        consumer.stop()
    check_books(publishers, consumers)


def test_restarts_in_any_order(cluster: Cluster) -> None:
    """Nodes stop and start one after the other, and then all at once; nothing is lost."""
    dice = random.Random(SEED)
    nodes = cluster.start(3)
    declare(nodes[1], QUEUE)
    seen_by(nodes[0], QUEUE)
    publisher = Publisher(nodes[0], QUEUE, "first")
    publisher.start()
    publisher.goes_on()
    publisher.stop()
    for node in dice.sample(nodes, 3):
        if dice.random() < 0.5:
            assert node.broker.stop() == 0
        else:
            node.broker.kill()
        cluster.settled(up=2)
        other = dice.choice(cluster.others(node))
        again = Publisher(other, QUEUE, f"without-{node.name[:2]}")
        again.start()
        again.goes_on(50)
        again.stop()
        node.broker.start()
        cluster.settled()
    before = ready(nodes[0], QUEUE)
    for node in nodes:
        assert node.broker.stop() == 0
    for node in dice.sample(nodes, 3):
        node.broker.launch()
    for node in nodes:
        node.broker.wait()
    cluster.settled()
    for node in nodes:
        eventually(lambda node=node: ready(node, QUEUE) == before, WAIT_S)
    consumer = Consumer(nodes[2], QUEUE)
    consumer.start()
    consumer.gets(before)
    consumer.stop()
    assert len({body for body, _ in consumer.got}) == before == len(consumer.got)


def test_an_orderly_stop_hands_over(cluster: Cluster) -> None:
    """Before a node ends, others lead what it led, and publishers there wait hardly at all."""
    nodes = cluster.start(3)
    declare(nodes[0], QUEUE)
    seen_by(nodes[1], QUEUE)
    leader = cluster.leader(QUEUE, nodes[1])
    assert leader is nodes[0]
    publisher = Publisher(nodes[1], QUEUE, "p")
    publisher.start()
    publisher.goes_on()
    assert leader.broker.stop() == 0
    publisher.goes_on()
    publisher.stop()
    assert cluster.leader(QUEUE, nodes[1]) is not leader
