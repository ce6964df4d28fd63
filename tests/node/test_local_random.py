"""An exchange that keeps messages on the node that they came to (`x-local-random`)."""

from __future__ import annotations

from tests.node.pair import Client, Pair
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames


def publish(client: Client, count: int) -> None:
    """Publish so many messages with confirms, which are to come back if nothing takes them."""
    client.call(spec.ConfirmSelect(False))
    for number in range(count):
        method = spec.BasicPublish(0, "x", f"k{number}", True, False)
        client.outbox += content_frames(1, method, b"\x10\x00\x02", b"%d" % number, 131_072)
    client.pair.until(lambda: len(client.acked) == count)


def test_each_node_passes_messages_to_its_own_queues() -> None:
    pair = Pair()
    clients = {"a": pair.a.client(), "b": pair.b.client()}
    exchange = spec.ExchangeDeclare(0, "x", "x-local-random", False, True, False, False, False, {})
    assert isinstance(clients["a"].call(exchange), spec.ExchangeDeclareOk)
    pair.until(lambda: "x" in pair.b.node.metadata.vhosts["/"].exchanges)
    for name, durable in (("a1", True), ("a2", False), ("b1", True)):
        client = clients[name[0]]
        client.declare(name, durable=durable, auto_delete=False)
        bound = client.call(spec.QueueBind(0, name, "x", "", False, {}))
        assert isinstance(bound, spec.QueueBindOk)
    pair.settle()
    publish(clients["a"], 40)
    publish(clients["b"], 30)
    held = {}
    for name in ("a1", "a2", "b1"):
        client = clients[name[0]]
        declared = client.declare(name, passive=True)
        assert isinstance(declared, spec.QueueDeclareOk)
        held[name] = declared.message_count
    assert held["a1"] > 0 and held["a2"] > 0
    assert (held["a1"] + held["a2"], held["b1"]) == (40, 30)
    # What has no queue here comes back, though another node has one.
    clients["b"].call(spec.QueueDelete(0, "b1", False, False, False))
    publish_again = pair.b.client()
    publish(publish_again, 5)
    assert [type(got.method) for got in publish_again.messages] == [spec.BasicReturn] * 5


def test_tables_that_a_node_starts_from_say_where_queues_are() -> None:
    """The order of what a restart finds, and a snapshot, do not matter."""
    pair = Pair(alone=True)
    client = pair.a.client()
    client.call(
        spec.ExchangeDeclare(0, "x", "x-local-random", False, True, False, False, False, {})
    )
    client.declare("q")
    client.call(spec.QueueBind(0, "q", "x", "", False, {}))
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    client = pair.a.client()
    publish(client, 3)
    declared = client.declare("q", passive=True)
    assert isinstance(declared, spec.QueueDeclareOk) and declared.message_count == 3
