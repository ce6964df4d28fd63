"""A cluster of three in which a disk hangs, while all processes and links are well."""

from __future__ import annotations

from pathlib import Path

from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Cluster, Node, declare, seen_by
from tests.cluster.traffic import Consumer, Publisher, all_taken, check_books
from tests.support.hanging import can_hang

QUEUE = "orders"


def switch(node: Node) -> Path:
    """Its disk hangs while this file exists."""
    return node.folder.with_suffix(".hang")


def new(cluster: Cluster, name: str, *options: str) -> Node:
    """A node whose disk can hang, not started yet."""
    node = cluster.new(name, *options)
    can_hang(node.broker.prefix, node.broker.environment, switch(node))
    return node


def test_a_leader_whose_disk_hangs(cluster: Cluster) -> None:
    """Others lead in its place, nothing confirmed is lost, and it answers all along."""
    first = new(cluster, "n1")
    first.broker.start()
    others = [new(cluster, name, "--join", first.contact) for name in ("n2", "n3")]
    for node in others:
        node.broker.launch()
    for node in others:
        node.broker.wait()
    cluster.settled()
    declare(first, QUEUE)
    for node in cluster.nodes:
        seen_by(node, QUEUE)
    leader = cluster.leader(QUEUE, first)
    others = cluster.others(leader)
    publishers = [Publisher(node, QUEUE, node.name[:2]) for node in (*others, leader)]
    consumers = [Consumer(node, QUEUE) for node in others]
    for thread in (*publishers, *consumers):
        thread.start()
    for publisher in publishers:
        publisher.goes_on()
    switch(leader).touch()
    eventually(lambda: cluster.leader(QUEUE, others[0]) is not leader, WAIT_S)
    for publisher in publishers[:2]:
        publisher.goes_on()
    for consumer in consumers:
        consumer.goes_on()
    # Its loop goes on, and answers.
    assert len(leader.status()["nodes"]) == 3
    switch(leader).unlink()
    publishers[2].goes_on()
    for publisher in publishers:
        publisher.stop()
    eventually(lambda: all_taken(publishers, consumers), WAIT_S)
    for consumer in consumers:
        consumer.check()
        consumer.stop()
    check_books(publishers, consumers)
