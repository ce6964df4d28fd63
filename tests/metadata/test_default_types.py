"""Queues declared without a type or with another one; what an `x-local-random` exchange binds."""

from __future__ import annotations

import pytest

from tests.metadata.test_checks import ME, QUORUM, Tables
from warren.errors import Refusal
from warren.metadata import checks
from warren.wire.amqp091.table import Table


@pytest.fixture
def tables() -> Tables:
    return Tables()


@pytest.mark.parametrize(
    ("of_vhost", "of_node", "flags", "kind"),
    [
        ("", "quorum", {}, "quorum"),
        ("", "classic", {}, "classic"),
        ("", "", {}, "classic"),
        ("classic", "quorum", {}, "classic"),
        ("quorum", "classic", {}, "quorum"),
        ("", "quorum", {"durable": False}, "classic"),
        ("", "quorum", {"exclusive": True}, "classic"),
        ("", "quorum", {"auto_delete": True}, "classic"),
    ],
)
def test_queues_without_a_type_have_that_of_their_vhost_or_of_the_node(
    tables: Tables, of_vhost: str, of_node: str, flags: dict[str, bool], kind: str
) -> None:
    """Where a queue of that type cannot be so, it is classic, as with RabbitMQ."""
    tables.machine.vhosts["/"].default_queue_type = of_vhost
    asked = {"durable": True, "exclusive": False, "auto_delete": False} | flags
    given: Table = {"x-any": 1}
    full = checks.with_queue_type(
        tables.machine, "/", **asked, arguments=given, node_default=of_node
    )
    assert given == {"x-any": 1} and full["x-any"] == 1
    tables.queue(full, **asked)
    record = tables.machine.queue("/", "q")
    assert record is not None
    assert (record.kind, record.arguments["x-queue-type"]) == (kind, kind)
    # Declared again, by who names the type and by who does not.
    assert tables.queue(full, **asked) is None
    assert tables.queue({"x-queue-type": kind}, **asked) is None
    named = checks.with_queue_type(
        tables.machine, "/", **asked, arguments={"x-queue-type": "other"}, node_default=of_node
    )
    assert named == {"x-queue-type": "other"}


def test_relaxed_declares_of_a_quorum_queue(tables: Tables) -> None:
    """Its type and flags do not matter then, nor what only one of the types knows; limits do."""
    tables.queue(QUORUM | {"x-max-length": 5, "x-delivery-limit": 3})

    def again(relaxed: bool, durable: bool = True, exclusive: bool = False, **given: int) -> None:
        arguments: Table = {f"x-{name.replace('_', '-')}": value for name, value in given.items()}
        assert not checks.declare_queue(
            tables.machine, "/", "q", durable, exclusive, False, arguments, ME, 9, relaxed=relaxed
        )

    again(True, max_length=5)
    again(True, durable=False, max_length=5, max_priority=4)
    again(True, exclusive=True, max_length=5)
    with pytest.raises(Refusal, match="inequivalent arg 'x-queue-type'.*'classic'.*'quorum'"):
        again(False, max_length=5, delivery_limit=3)
    with pytest.raises(Refusal, match="inequivalent arg 'x-max-length'"):
        again(True, max_length=6)
    with pytest.raises(Refusal, match="inequivalent arg 'x-max-length'"):
        again(True)
    with pytest.raises(Refusal, match="inequivalent arg 'x-delivery-limit'"):
        tables.queue(QUORUM | {"x-max-length": 5})


def test_bindings_of_a_local_random_exchange(tables: Tables) -> None:
    tables.queue()
    tables.queue(QUORUM, name="r")
    kind = "x-local-random"
    tables.apply(checks.declare_exchange(tables.machine, "/", "x", kind, True, False, False, {}))

    def bind(destination: str, to_exchange: bool, key: str) -> None:
        checks.bind(tables.machine, "/", "x", destination, to_exchange, key, {}, ME)

    bind("q", False, "")
    for destination, to_exchange, key, text in (
        ("q", False, "k", "Non empty binding 'k' key not permitted"),
        ("r", False, "", "Queue type rabbit_quorum_queue not valid for this exchange type"),
        ("amq.fanout", True, "", "Destination not found"),
    ):
        with pytest.raises(Refusal, match=text):
            bind(destination, to_exchange, key)
