"""Classic queues used from another node than their own."""

from __future__ import annotations

from tests.node.pair import Client, Pair
from warren.wire.amqp091 import spec

HOME_DOWN = "home node 'a' of durable queue 'q' in vhost '/' is down or inaccessible"


def with_queue(name: str = "q") -> tuple[Pair, Client]:
    """A queue on node `a`, and a client of node `b`."""
    pair = Pair()
    owner = pair.a.client()
    assert isinstance(owner.declare(name), spec.QueueDeclareOk)
    pair.until(lambda: name in pair.b.node.tables.vhosts["/"].queues)
    return pair, pair.b.client()


def closed(answer: spec.Method, code: int, text: str) -> None:
    assert isinstance(answer, spec.ChannelClose)
    assert answer.reply_code == code
    assert text in answer.reply_text


def confirming(client: Client) -> Client:
    assert isinstance(client.call(spec.ConfirmSelect(False)), spec.ConfirmSelectOk)
    return client


# --- its node is down ---------------------------------------------------------------------------


def test_all_use_is_404_while_the_home_node_is_down() -> None:
    pair, client = with_queue()
    pair.a.kill()
    pair.until(lambda: pair.b.node.remotes.line("a").number == 0)
    closed(client.declare("q", passive=True), 404, HOME_DOWN)
    closed(client.declare("q"), 404, HOME_DOWN)
    closed(client.consume("q"), 404, HOME_DOWN)
    closed(client.call(spec.BasicGet(0, "q", False)), 404, HOME_DOWN)
    closed(client.call(spec.QueuePurge(0, "q", False)), 404, HOME_DOWN)
    closed(client.call(spec.QueueDelete(0, "q", False, False, False)), 404, HOME_DOWN)


def test_publishes_are_nacked_while_the_home_node_is_down() -> None:
    pair, client = with_queue()
    pair.a.kill()
    pair.until(lambda: pair.b.node.remotes.line("a").number == 0)
    confirming(client)
    for number in range(3):
        client.publish("q", b"%d" % number)
    pair.until(lambda: client.nacked == {1, 2, 3})
    assert not client.acked


def test_publishes_without_confirms_are_dropped_with_one_warning_a_minute() -> None:
    pair, client = with_queue()
    pair.a.kill()
    pair.until(lambda: pair.b.node.remotes.line("a").number == 0)
    for number in range(5):
        client.publish("q", b"%d" % number)
        pair.settle(1)
    told = [text for text in pair.b.warnings if "dropped" in text]
    assert len(told) == 1
    pair.clock.advance(60_000)
    client.publish("q", b"again")
    pair.settle(2)
    told = [text for text in pair.b.warnings if "dropped" in text]
    assert len(told) == 2
    assert told[1].startswith("5 messages")
