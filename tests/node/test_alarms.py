"""Alarms of one node block the publishers of all nodes, as RabbitMQ's do (R-38)."""

from __future__ import annotations

from tests.node.pair import Client, Pair, Station
from warren.metadata.commands import RemoveNode
from warren.node.alarms import TOLD_AT_ONCE
from warren.node.cluster.dispatch import PARTING_MS
from warren.wire.amqp091 import spec

LIMIT_BYTES = 1_000


def with_clients() -> tuple[Pair, Client, Client, Client]:
    """Nodes a, b and c with a publisher each, on a classic queue of a."""
    pair = Pair()
    third = pair.add("c")
    near = pair.a.client()
    near.declare("q")
    pair.until(lambda: all(s.knows("q") for s in stations(pair)))
    clients = near, pair.b.client(), third.client()
    for client in clients:
        client.call(spec.ConfirmSelect(False))
        client.publish("q", b"first")
        pair.until(lambda: clients[0].acked | clients[1].acked | clients[2].acked == {1})
    pair.until(lambda: all(client.acked == {1} for client in clients))
    return pair, *clients


def stations(pair: Pair) -> list[Station]:
    return list(pair.stations.values())


def low_on_memory(station: Station, low: bool) -> None:
    """The node is told how much memory it uses."""
    station.node.settings.memory_limit_bytes = LIMIT_BYTES
    station.node.tick(LIMIT_BYTES + 1 if low else 0)


def test_an_alarm_of_one_node_blocks_publishers_of_all_until_it_is_over() -> None:
    pair, near, far, third = with_clients()
    low_on_memory(pair.b, True)
    for client in (near, far, third):
        client.publish("q", b"late")
    pair.until(lambda: near.held and far.held and third.held)
    pair.until(lambda: near.blocked == far.blocked == third.blocked == ["low on memory"])
    consumer = pair.a.client()
    consumer.consume("q", no_ack=True)
    pair.settle()
    assert consumer.bodies() == [b"first"] * 3
    newcomer = third.station.client()
    newcomer.publish("q", b"of a client that came later")
    pair.until(lambda: newcomer.blocked == ["low on memory"])
    low_on_memory(pair.b, False)
    pair.until(lambda: all(client.acked == {1, 2} for client in (near, far, third)))
    pair.until(lambda: len(consumer.messages) == 7)
    pair.until(lambda: near.blocked == far.blocked == third.blocked == ["low on memory", ""])


def test_publishers_are_told_once_however_many_alarms_there_are() -> None:
    pair, near, far, third = with_clients()
    low_on_memory(pair.b, True)
    pair.until(lambda: near.blocked == ["low on memory"])
    pair.b.node.disk_full(True)
    low_on_memory(pair.a, True)
    pair.settle()
    low_on_memory(pair.b, False)
    pair.settle()
    low_on_memory(pair.a, False)
    third.publish("q", b"while the disk of b is full")
    pair.settle()
    assert third.held and third.acked == {1}
    assert [client.blocked for client in (near, far, third)] == [["low on memory"]] * 3
    pair.b.node.disk_full(False)
    pair.until(lambda: third.acked == {1, 2})
    pair.until(lambda: near.blocked == far.blocked == third.blocked == ["low on memory", ""])


def test_a_node_that_is_gone_takes_its_alarms_with_it() -> None:
    pair, near, _, third = with_clients()
    low_on_memory(pair.b, True)
    pair.until(lambda: near.blocked == third.blocked == ["low on memory"])
    pair.b.kill()
    pair.until(lambda: near.blocked == third.blocked == ["low on memory", ""])


def test_a_node_that_starts_again_without_its_alarm_is_believed() -> None:
    pair, near, _, third = with_clients()
    low_on_memory(pair.b, True)
    pair.until(lambda: near.blocked == third.blocked == ["low on memory"])
    pair.b.kill()
    pair.b.start()
    pair.until(lambda: near.blocked == third.blocked == ["low on memory", ""])


def test_only_the_node_whose_disk_is_full_refuses() -> None:
    """It tells its own clients by a nack that nothing more can be stored; others wait."""
    pair, near, far, _ = with_clients()
    pair.a.node.disk_full(True)
    pair.until(lambda: far.blocked == ["low on disk"])
    near.publish("q", b"no room")
    far.publish("q", b"waits")
    pair.until(lambda: near.nacked == {2})
    pair.settle()
    assert far.held and not far.nacked
    pair.a.node.disk_full(False)
    pair.until(lambda: far.acked == {1, 2})


def test_a_node_that_is_removed_takes_its_alarms_with_it_at_once() -> None:
    pair, near, _, third = with_clients()
    low_on_memory(pair.b, True)
    pair.until(lambda: near.blocked == third.blocked == ["low on memory"])
    began = pair.clock.monotonic_ms()
    pair.a.node.store.submit(RemoveNode("b", True), None)
    pair.until(lambda: near.blocked == third.blocked == ["low on memory", ""])
    assert pair.clock.monotonic_ms() - began < PARTING_MS // 2


def test_many_clients_are_told_some_at_a_time() -> None:
    """However many there are, and each of them once for each edge."""
    pair = Pair(alone=True)
    publishers = [pair.a.client() for _ in range(150)]
    publishers[0].declare("q")
    for client in publishers:
        client.call(spec.ConfirmSelect(False))
        client.publish("q", b"first")
    pair.until(lambda: all(client.acked == {1} for client in publishers))
    node = pair.a.node
    for low, said in ((True, "low on memory"), (False, "")):
        low_on_memory(pair.a, low)
        heard: list[int] = []
        while not heard or heard[-1] < len(publishers):
            node.turn()
            for client in publishers:
                client.exchange()
            heard.append(sum(client.blocked[-1:] == [said] for client in publishers))
            assert heard[-1] - sum(heard[-2:-1]) <= 2 * TOLD_AT_ONCE
        assert len(heard) > 1
    assert all(client.blocked == ["low on memory", ""] for client in publishers)
