"""Every node gets a copy of every quorum queue, however changes of members overtake each other."""

from __future__ import annotations

from tests.node.pair import Pair
from warren.metadata.commands import AddNode, DeclareQueue, SetMembers
from warren.metadata.member_checks import delete_member
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
    pair.until(lambda: pair.a.node.tables.machine.queue("/", "q") is not None)
    pair.until(lambda: len(pair.a.record("q").members) == 3)
    assert [row.voter for row in pair.a.record("q").members] == [True, True, False]


def test_a_node_comes_while_an_operator_changes_the_members() -> None:
    pair = Pair()
    declare(pair, "q")
    pair.until(lambda: pair.a.node.tables.machine.queue("/", "q") is not None)
    queue = pair.a.record("q")
    command = delete_member(queue, "b", ["a", "b"], False)
    assert isinstance(command, SetMembers)
    pair.a.node.tables.submit(AddNode("c", b"c" * 16, "c", 1, 7), None)
    pair.a.node.tables.submit(command, None)
    pair.until(lambda: len(pair.a.record("q").members) == 3)
    assert [row.voter for row in pair.a.record("q").members] == [True, False, False]


def test_clients_come_to_a_node_that_has_copies_of_all_quorum_queues() -> None:
    """They would be told that queues are not there which they have used on other nodes."""
    pair = Pair()
    declare(pair, "q")
    pair.until(lambda: pair.a.node.tables.machine.queue("/", "q") is not None)
    c = pair.add("c")
    queue = pair.a.record("q")
    without = [row for row in queue.members if row.node != "c"]
    pair.until(lambda: c.node.ready)
    pair.a.node.tables.submit(SetMembers(queue.group_id, "/", "q", without, queue.revision), None)

    def here() -> bool:
        there = c.node.tables.machine.queue("/", "q")
        return there is not None and there.member_on("c") is not None

    pair.until(lambda: not here())
    assert not c.node.ready
    pair.until(here)
    pair.until(lambda: c.node.ready)
