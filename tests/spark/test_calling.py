"""Calls that are made again: where a broker says that another node would do, the next is asked."""

from __future__ import annotations

from typing import Any

import pytest

from warren.spark.broker import BrokerAway, Session
from warren.spark.calling import PatientCaller
from warren.wire.amqp091.errors import ChannelException

NODES = ["amqp://a", "amqp://b", "amqp://c"]


class SpreadQueues:
    """Three nodes; each answers for the queues that are on it.

    Attributes:
        homes: By queue, where it is.
        dialled: Where connections went, in order.
    """

    def __init__(self, homes: dict[str, str]) -> None:
        self.homes = homes
        self.dialled: list[str] = []

    def connect(self, uri: str) -> Session:
        self.dialled.append(uri)
        at: Any = (self, uri)
        return Session(at, at, lambda: None, lambda: at)


def ask(queue: str) -> Any:
    def asked(tables: Any) -> str:
        nodes, uri = tables
        if nodes.homes[queue] != uri:
            raise ChannelException(406, f"queue '{queue}' is on another node: ask that node")
        return str(uri)

    return asked


def test_the_node_that_has_the_queue_is_found_at_once_and_stays() -> None:
    nodes = SpreadQueues({"q": "amqp://c", "r": "amqp://a"})
    caller = PatientCaller(NODES, 0.0, nodes.connect)
    for _ in range(3):
        assert caller.call(ask("q")) == "amqp://c"
    assert nodes.dialled == NODES
    assert caller.call(ask("r")) == "amqp://a"
    assert nodes.dialled == [*NODES, "amqp://a"]
    assert caller.call(ask("q")) == "amqp://c"


def test_all_are_asked_before_it_is_said_that_none_answers() -> None:
    nodes = SpreadQueues({"q": "amqp://down"})
    caller = PatientCaller(NODES, 0.0, nodes.connect)
    with pytest.raises(BrokerAway, match="is on another node"):
        caller.call(ask("q"))
    assert nodes.dialled == NODES
    brief = PatientCaller(NODES, 60.0, nodes.connect, seeks=False)
    with pytest.raises(ChannelException, match="is on another node"):
        brief.call(ask("q"))
    assert nodes.dialled == NODES * 2
