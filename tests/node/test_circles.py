"""What is gone goes at once: queues, channels and connections leave no circles of objects.

Python frees what nothing refers to. Objects that refer to each other stay until its collector has
looked through everything there is, which keeps a node with 100,000 queues for seconds.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.node.pair import Client, Pair
from warren.metadata.commands import (
    ClearParameter,
    ClearPolicy,
    Command,
    DeclareVhost,
    DeleteUser,
    DeleteVhost,
    SetParameter,
    SetPermissions,
    SetPolicy,
    SetTopicPermissions,
    SetUser,
)
from warren.routing.exchange_types import EXCHANGE_TYPES
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame
from warren.wire.amqp091.table import Table

ROUNDS = 3


@pytest.fixture
def garbage() -> Iterator[Callable[[], dict[str, int]]]:
    """Nothing is collected; when called: what of the broker would have to be, by type."""
    for _ in range(2):
        # What other tests left may hold on to more.
        gc.collect()
    gc.disable()
    flags = gc.get_debug()

    def find() -> dict[str, int]:
        gc.garbage.clear()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(flags)
        found = Counter(type(thing).__qualname__ for thing in gc.garbage if is_ours(thing))
        gc.garbage.clear()
        gc.collect()
        return dict(found)

    yield find
    gc.set_debug(flags)
    gc.garbage.clear()
    gc.enable()


def is_ours(thing: Any) -> bool:
    return type(thing).__module__.startswith("warren.")


def living(name: str) -> int:
    """How many objects of a type there are."""
    return sum(type(thing).__qualname__ == name for thing in gc.get_objects())


def submit(pair: Pair, *commands: Command) -> None:
    """Have commands in force."""
    for command in commands:
        pair.a.node.store.submit(command, None)
    pair.settle(5)


def declare_and_bind(client: Client, kind: str) -> None:
    """Have an exchange of a type that leads to a queue `q` and another exchange."""
    arguments: Table = {"alternate-exchange": "amq.fanout"}
    if kind == "x-delayed-message":
        arguments["x-delayed-type"] = "topic"
    client.call(spec.ExchangeDeclare(0, kind, kind, False, True, False, False, False, arguments))
    client.call(spec.QueueBind(0, "q", kind, "1", False, {}))
    client.call(spec.ExchangeBind(0, "amq.fanout", kind, "1", False, {}))


def part(client: Client) -> None:
    """A connection is cut; what the test itself has of it is forgotten."""
    client.vanish()
    del client.end


def use(client: Client, name: str, kind: str) -> None:
    """Do about everything that can be done with a queue."""
    client.declare(name, kind=kind)
    client.call(spec.ConfirmSelect(False))
    for body in (b"one", b"two", b"three"):
        client.publish(name, body)
    client.pair.until(lambda: len(client.acked) == client.published)
    got = client.get(name)
    assert got is not None
    client.ack(got.tag)
    assert client.get(name) is not None
    client.consume(name)
    client.pair.until(lambda: len(client.messages) == 1)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("alone", [True, False])
def test_queues_and_connections_that_are_gone_leave_no_circles(
    kind: str, alone: bool, garbage: Callable[[], dict[str, int]]
) -> None:
    pair = Pair(alone=alone)
    other = pair.a.client()
    garbage()
    before = {name: living(name) for name in ("Replication", "Channel", "Connection", "Fifo")}
    for number in range(ROUNDS):
        client = pair.a.client()
        use(client, f"q{number}", kind)
        part(client)
        other.call(spec.QueueDelete(0, f"q{number}", False, False, False))
        del client
    # Their last records are durable.
    other.declare("last")
    other.call(spec.QueueDelete(0, "last", False, False, False))
    other.methods.clear()
    pair.settle(60)
    for station in pair.stations.values():
        station.node.tick(0)
    assert garbage() == {}
    assert {name: living(name) for name in before} == before


def test_exclusive_queues_leave_no_circles(garbage: Callable[[], dict[str, int]]) -> None:
    pair = Pair(alone=True)
    garbage()
    client = pair.a.client()
    for number in range(ROUNDS):
        client.declare(f"own{number}", durable=False, exclusive=True)
        client.publish(f"own{number}", b"x")
    client.consume("own0")
    part(client)
    del client
    pair.until(lambda: not pair.a.node.metadata.vhosts["/"].queues)
    pair.settle()
    assert garbage() == {}


@pytest.mark.parametrize("way", ["channel", "transaction", "half", "refused", "pending", "orderly"])
def test_channels_leave_no_circles_however_they_end(
    way: str, garbage: Callable[[], dict[str, int]]
) -> None:
    pair = Pair(alone=True)
    pair.a.client().declare("q")
    garbage()
    client = pair.a.client()
    if way == "channel":
        client.call(spec.ChannelClose(200, "", 0, 0))
        client.send(spec.ChannelOpen())
        pair.settle()
    elif way == "transaction":
        client.call(spec.TxSelect())
        client.publish("q", b"x")
        client.call(spec.TxCommit())
        client.publish("q", b"y")
        pair.settle()
    elif way == "half":
        client.publish("q", bytes(200_000))
        del client.outbox[-100_000:]
        pair.settle()
    elif way == "refused":
        client.call(spec.QueueDeclare(0, "none", True, False, False, False, False, {}))
    elif way == "pending":
        pair.a.hold_disk = True
        client.send(spec.QueueDeclare(0, "late", False, True, False, False, False, {}))
        pair.settle()
    elif way == "orderly":
        client.outbox += method_frame(0, spec.ConnectionClose(200, "", 0, 0).encode())
        pair.settle()
    part(client)
    del client
    pair.a.hold_disk = False
    pair.settle()
    assert garbage() == {}


def test_the_collector_finds_whole_nodes() -> None:
    """An object that counts what it refers to more than once would keep them all."""
    gc.collect()
    before = living("Cluster")
    pair = Pair()
    client = pair.a.client()
    client.declare("q", kind="quorum")
    client.publish("q", b"1")
    pair.settle()
    assert living("Cluster") == before + 2
    del pair, client
    gc.collect()
    assert living("Cluster") == before


def test_vhosts_that_are_deleted_leave_no_circles(garbage: Callable[[], dict[str, int]]) -> None:
    """With all that can be in one, and a client that uses it."""
    pair = Pair(alone=True)
    node = pair.a.node
    last = pair.a.client()
    garbage()
    for number in range(ROUNDS):
        name = f"v{number}"
        submit(pair, DeclareVhost(name), SetPermissions("guest", name, ".*", ".*", ".*"))
        other = pair.a.client(vhost=name)
        use(other, "r", "quorum")
        client = pair.a.client(vhost=name)
        use(client, "q", "classic")
        for kind in EXCHANGE_TYPES:
            declare_and_bind(client, kind)
        submit(
            pair,
            SetPolicy(name, "p", False, "^q", "all", 0, {"max-length": 9}),
            SetTopicPermissions("guest", name, "topic", ".*", ".*"),
        )
        node.vhosts.tracer_of(name)
        submit(pair, DeleteVhost(name))
        pair.until(lambda name=name: name not in node.metadata.vhosts)  # type: ignore[misc]
        pair.settle(30)
        part(client)
        part(other)
        del client, other
    # Their last records are durable.
    last.declare("last")
    last.call(spec.QueueDelete(0, "last", False, False, False))
    last.methods.clear()
    pair.settle(60)
    node.tick(0)
    assert garbage() == {}


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_queues_that_are_deleted_under_their_clients_leave_no_circles(
    kind: str, garbage: Callable[[], dict[str, int]]
) -> None:
    """Who published to them, has them consumed and polled goes later."""
    pair = Pair(alone=True)
    other = pair.a.client()
    garbage()
    clients: list[Client] = []
    for number in range(ROUNDS):
        clients.append(pair.a.client())
        use(clients[-1], f"q{number}", kind)
        other.call(spec.QueueDelete(0, f"q{number}", False, False, False))
    pair.settle()
    while clients:
        part(clients.pop())
    other.declare("last")
    other.call(spec.QueueDelete(0, "last", False, False, False))
    other.methods.clear()
    pair.settle(60)
    pair.a.node.tick(0)
    assert garbage() == {}


def test_what_the_tables_have_leaves_no_circles(garbage: Callable[[], dict[str, int]]) -> None:
    """Exchanges of all types with bindings and alternates, users, policies, parameters."""
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q")
    garbage()
    for number in range(ROUNDS):
        submit(
            pair,
            SetPolicy("/", "p", False, "^q", "all", 0, {"max-length": 9}),
            SetPolicy("/", "o", True, "^q", "all", 0, {"max-length": 9}),
            SetUser(f"u{number}", b"h", "argon2id", ["administrator"], False),
            SetPermissions(f"u{number}", "/", ".*", ".*", ".*"),
            SetTopicPermissions(f"u{number}", "/", "topic", ".*", ".*"),
            SetParameter("/", "federation", "f", b"{}"),
            SetParameter("", "", "g", b"1"),
        )
        for kind in EXCHANGE_TYPES:
            declare_and_bind(client, kind)
        for kind in EXCHANGE_TYPES:
            client.call(spec.ExchangeDelete(0, kind, False, False))
        submit(
            pair,
            ClearPolicy("/", "p", False),
            ClearPolicy("/", "o", True),
            DeleteUser(f"u{number}"),
            ClearParameter("/", "federation", "f"),
            ClearParameter("", "", "g"),
        )
    client.methods.clear()
    pair.settle(60)
    pair.a.node.tick(0)
    assert garbage() == {}
