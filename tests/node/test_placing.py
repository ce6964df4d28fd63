"""A queue has the members that it was declared with, whatever nodes come."""

from __future__ import annotations

from tests.node.pair import Pair
from warren.metadata.commands import AddNode, DeclareQueue
from warren.metadata.tables import NO_OWNER
from warren.wire.amqp091.table import Table


def declare(pair: Pair, name: str) -> None:
    """On `b`, with members on the nodes that it knows of just now."""
    tables = pair.b.node.tables
    arguments: Table = {"x-queue-type": "quorum"}
    group_id = tables.new_group()
    command = DeclareQueue("/", name, "quorum", True, False, NO_OWNER, arguments, group_id, "b")
    tables.place(command)
    tables.submit(command, None)


def test_a_node_comes_while_a_queue_is_declared() -> None:
    pair = Pair()
    pair.a.node.tables.submit(AddNode("c", b"c" * 16, "c", 1, 7), None)
    declare(pair, "q")
    pair.until(lambda: pair.a.knows("q"))
    pair.settle()
    assert [(row.node, row.voter) for row in pair.a.record("q").members] == [
        ("a", True),
        ("b", True),
    ]


def test_a_node_that_comes_gets_no_copy_and_takes_clients() -> None:
    """It uses the queues that are there through the nodes that hold them."""
    pair = Pair()
    declare(pair, "q")
    pair.until(lambda: pair.a.knows("q"))
    c = pair.add("c")
    c.client().publish_confirmed("q", 3)
    assert [row.node for row in pair.a.record("q").members] == ["a", "b"]
    assert not c.node.log.has_group(int(pair.a.record("q").group_id))
