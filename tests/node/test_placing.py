"""A queue has the members that it was declared with, whatever nodes come."""

from __future__ import annotations

from tests.node.pair import Pair
from warren.metadata.commands import AddNode, DeclareQueue
from warren.metadata.tables import NO_OWNER
from warren.protocols.broker import Settings
from warren.wire.amqp091.table import Table


def declare(pair: Pair, name: str) -> None:
    """On `b`, with members on the nodes that it knows of just now."""
    node = pair.b.node
    arguments: Table = {"x-queue-type": "quorum"}
    group_id = node.placing.new_group()
    command = DeclareQueue("/", name, "quorum", True, False, NO_OWNER, arguments, group_id, "b")
    node.placing.place(command)
    node.store.submit(command, None)


def test_a_node_comes_while_a_queue_is_declared() -> None:
    pair = Pair()
    pair.a.node.store.submit(AddNode("c", b"c" * 16, "c", 1, 7), None)
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


def test_members_are_on_other_hosts_and_serve_their_own_zone() -> None:
    hosts = {"a": ("h1", "x"), "b": ("h1", "x"), "c": ("h2", "y"), "d": ("h3", "z")}
    hosts["e"] = ("h4", "y")

    def configure(settings: Settings) -> None:
        settings.host_label, settings.zone = hosts[settings.node_name]

    pair = Pair(configure=configure)
    pair.minds_seconds = True
    for name in ("c", "d", "e"):
        pair.add(name)
    nodes = pair.a.node.metadata.nodes
    pair.until(lambda: all(nodes[name].zone == hosts[name][1] for name in hosts))
    declared = pair.a.client()
    for number in range(6):
        declared.declare(f"q{number}", kind="quorum", size=3)
        members = {row.node for row in pair.a.record(f"q{number}").members}
        assert "b" not in members and {"a", "d"} < members
    pair.until(lambda: pair.b.knows("q5"))
    for number in range(6):
        pair.b.client().publish_confirmed(f"q{number}", 1)
        observer = pair.b.node.observers.observer(pair.b.record(f"q{number}").group_id)
        assert observer is not None and observer.serving == "a"
