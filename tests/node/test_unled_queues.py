"""Quorum queues without a leader: what they keep is bounded, and holds up nobody else."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair, Station
from tests.node.test_leading_again import drained
from warren.metadata.commands import DeclareExchange
from warren.node.events import EVENT_EXCHANGE
from warren.protocols.broker import Settings
from warren.queues.quorum import FORGET_MS
from warren.wire.amqp091 import spec

MOST = 1 << 20
BODY = bytes(100_000)


def apart() -> Pair:
    """Three nodes; `stuck` has members on b and c alone, of which c is gone; `healthy` has one.

    Everything is published on b, which holds both.
    """

    def configure(settings: Settings) -> None:
        settings.log.waiting_bytes_max = MOST

    pair = Pair(configure=configure)
    pair.add("c")
    client = pair.b.client()
    client.declare("healthy", kind="quorum", size=1)
    for name in ("stuck", "stuck2"):
        client.declare(name, kind="quorum", size=1)
        pair.until(lambda name=name: pair.a.knows(name))
        pair.add_member(name, "c")
        pair.until(lambda name=name: voters(pair.b, name) == 2)
    pair.stations["c"].kill()
    pair.until(lambda: not led(pair.b, "stuck") and not led(pair.b, "stuck2"))
    return pair


def voters(station: Station, name: str) -> int:
    member = station.node.cluster.members.get(int(station.record(name).group_id))
    return 0 if member is None else sum(1 for each in member.raft.members if each.voter)


def led(station: Station, name: str) -> bool:
    return bool(station.queue(name).proposer().has_leader())


def kept_bytes(station: Station, name: str) -> int:
    group = station.queue(name).proposer()
    return sum(len(proposal.payload) for proposal in group.unoffered())


def fill(pair: Pair, confirms: bool) -> list[Client]:
    """Clients publish to a queue without a leader until its publishers are held."""
    clients = []
    for _ in range(40):
        client = pair.b.client()
        if confirms:
            client.call(spec.ConfirmSelect(False))
        clients.append(client)
        client.publish("stuck", BODY)
        pair.settle(3)
        if pair.b.queue("stuck").congested():
            return clients
    raise AssertionError("nothing bounds what is kept")


def test_publishers_to_a_queue_without_a_majority_hold_up_no_others() -> None:
    pair = apart()
    fill(pair, True)
    assert pair.b.queue("stuck2").congested(), "they share a bound"
    assert not pair.b.queue("healthy").congested()
    client = pair.b.client()
    client.publish_confirmed("healthy", 20)
    assert not client.held


@pytest.mark.parametrize("confirms", [True, False])
def test_what_nobody_took_is_forgotten_when_its_publishers_are_gone(confirms: bool) -> None:
    pair = apart()
    stayed = pair.b.client()
    stayed.call(spec.ConfirmSelect(False))
    stayed.publish("stuck", b"stayed")
    pair.settle()
    clients = fill(pair, confirms)
    for client in clients:
        client.vanish()
    pair.settle(FORGET_MS // 10 + 50)
    assert kept_bytes(pair.b, "stuck") < 1_000
    assert not pair.b.queue("stuck").congested()
    assert pair.b.queue("stuck").held_back in (None, [])
    pair.stations["c"].start()
    pair.until(lambda: stayed.acked == {1})
    assert drained(pair.b.client(), "stuck") == [b"stayed"]


def test_what_a_leader_may_have_taken_is_kept_though_its_publisher_is_gone() -> None:
    """It is perhaps in the log already, and comes once in any case."""
    pair = apart()
    pair.stations["c"].start()
    pair.until(lambda: led(pair.b, "stuck"))
    pair.settle(20)
    publisher = pair.b.client()
    for link in (("b", "c"), ("c", "b")):
        pair.deaf.add(link)
    publisher.publish("stuck", b"perhaps")
    pair.settle(3)
    publisher.vanish()
    pair.until(lambda: not led(pair.b, "stuck"))
    pair.settle(FORGET_MS // 10 + 50)
    pair.deaf.clear()
    pair.until(lambda: led(pair.b, "stuck"))
    pair.settle(20)
    assert drained(pair.b.client(), "stuck") == [b"perhaps"]


def bind_tracing(pair: Pair) -> Client:
    client = pair.b.client()
    client.call(spec.QueueBind(0, "stuck", "amq.rabbitmq.trace", "#", False, {}))
    pair.b.node.vhosts.tracer_of("/").on = True
    return client


def test_the_firehose_leaves_out_what_a_queue_without_a_leader_does_not_take() -> None:
    pair = apart()
    client = bind_tracing(pair)
    client.declare("q")
    for _ in range(40):
        client.publish("q", BODY)
        pair.settle(2)
    assert kept_bytes(pair.b, "stuck") < 2 * MOST
    left_out = pair.b.node.own_messages.left_out
    assert left_out > 10
    said = [text for text in pair.b.warnings if "takes no more" in text]
    assert len(said) == 1 and "'stuck'" in said[0]
    pair.stations["c"].start()
    pair.until(lambda: not pair.b.queue("stuck").congested())
    client.publish("q", b"told of")
    pair.settle()
    assert pair.b.node.own_messages.left_out == left_out
    assert drained(client, "stuck")[-1] == b"told of"


def test_events_are_left_out_likewise() -> None:
    pair = apart()
    exchange = DeclareExchange("/", EVENT_EXCHANGE, "topic", True, False, True, {})
    pair.b.node.store.submit(exchange, None)
    pair.settle()
    client = pair.b.client()
    client.call(spec.QueueBind(0, "stuck", EVENT_EXCHANGE, "queue.#", False, {}))
    fill(pair, True)
    kept = kept_bytes(pair.b, "stuck")
    for number in range(5):
        client.declare(f"q{number}")
    pair.settle()
    assert pair.b.node.own_messages.left_out >= 5
    assert kept_bytes(pair.b, "stuck") == kept
