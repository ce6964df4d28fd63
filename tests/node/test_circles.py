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
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame

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
