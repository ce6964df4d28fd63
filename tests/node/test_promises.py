"""What a quorum queue promises, by which way, and what it does not."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair, Station, three_with_messages
from tests.node.test_at_least_once import keeping
from tests.node.test_dead_letters import DLX, KEY, declare, ready, reject
from warren.metadata.commands import RemoveNode
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

BODIES = [b"1", b"2", b"3", b"4", b"5"]


def last_index(station: Station, name: str) -> int:
    """How far a node's copy of a queue's log reaches."""
    return int(station.node.cluster.members[group(station, name)].log.last_index)


def group(station: Station, name: str) -> int:
    """The group that a queue's members are."""
    return int(station.record(name).group_id)


def hold(pair: Pair, source: str, targets: str) -> None:
    """Have links bring nothing for now."""
    pair.deaf |= {(source, target) for target in targets}


@pytest.mark.rule("LEAD-01")
@pytest.mark.parametrize("operation", ["publish", "get", "ack"])
def test_every_operation_passes_the_leader_first(operation: str) -> None:
    """A client of a follower's node: a follower's log has nothing before the leader's has it."""
    pair = three_with_messages("q")
    client = pair.b.client()
    if operation == "ack":
        got = client.get("q")
        assert got is not None
    pair.settle()
    before = {name: last_index(each, "q") for name, each in pair.stations.items()}
    assert len(set(before.values())) == 1

    def send() -> None:
        if operation == "publish":
            client.publish("q", b"more")
        elif operation == "get":
            client.send(spec.BasicGet(0, "q", False))
        else:
            client.ack(got.tag)

    # It does not reach the leader, and nobody acts on it.
    hold(pair, "b", "ac")
    send()
    for _ in range(10):
        pair.step()
    assert {name: last_index(each, "q") for name, each in pair.stations.items()} == before
    # The leader has it, and followers have not.
    pair.deaf = set()
    hold(pair, "a", "bc")
    pair.until(lambda: last_index(pair.a, "q") > before["a"])
    assert (
        last_index(pair.b, "q") == before["b"]
        and last_index(pair.stations["c"], "q") == before["c"]
    )
    assert not client.messages[1 if operation == "ack" else 0 :]
    # Then they have it, in the leader's order.
    pair.deaf = set()
    pair.until(lambda: len({last_index(each, "q") for each in pair.stations.values()}) == 1)
    assert last_index(pair.b, "q") > before["b"]


@pytest.mark.rule("BEH-11")
def test_nothing_is_promised_of_what_was_not_confirmed() -> None:
    """What reached the leader alone is gone with it, and its publisher was told nothing."""
    pair = three_with_messages("q")
    publisher = pair.a.client()
    publisher.call(spec.ConfirmSelect(False))
    before = last_index(pair.a, "q")
    hold(pair, "a", "bc")
    publisher.publish("q", b"unconfirmed")
    pair.until(lambda: last_index(pair.a, "q") > before)
    pair.settle(5)
    assert not publisher.acked and not publisher.nacked
    pair.a.kill()
    pair.deaf = set()
    other = pair.b.client()
    pair.until(lambda: bool(pair.b.node.cluster.members[group(pair.b, "q")].raft.leader))
    other.publish_confirmed("q", 1)
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    found = []
    while (got := other.get("q")) is not None:
        found.append(got.body)
    assert found == [b"1", b"2", b"3", b"4", b"5", b"1"]


@pytest.mark.rule("BEH-13")
def test_what_an_operator_deletes_is_not_covered() -> None:
    """A node is forgotten: what it alone had goes, and a queue with other members keeps all."""
    pair = three_with_messages("ours")
    client = pair.stations["c"].client()
    client.declare("mine", kind="quorum", size=1)
    client.publish_confirmed("mine", 5)
    pair.stations["c"].kill()
    pair.a.node.store.submit(RemoveNode("c", True), None)
    pair.until(lambda: not pair.a.knows("mine"))
    assert len(pair.a.record("ours").members) == 2
    reader = pair.a.client()
    assert [got.body for got in iter(lambda: reader.get("ours"), None)] == BODIES


@pytest.mark.rule("QQ-16")
def test_limits_of_what_is_in_memory_are_taken_and_limit_nothing() -> None:
    """Clients written for RabbitMQ before 3.10 declare them; nothing is dropped or refused."""
    pair = Pair(alone=True)
    client = pair.a.client()
    more: Table = {"x-max-in-memory-length": 1, "x-max-in-memory-bytes": 1}
    assert isinstance(declare(client, "q", "quorum", **more), spec.QueueDeclareOk)
    client.publish_confirmed("q", 5)
    assert ready(pair.a, "q") == 5
    assert [got.body for got in iter(lambda: client.get("q"), None)] == BODIES


@pytest.mark.rule("DL-08")
def test_safe_dead_letters_cost_memory_and_entries_of_the_log() -> None:
    """A dead letter stays in its queue, with what that knows of it, and is settled by an entry."""
    pair = Pair(alone=True)
    pair.minds_seconds = True
    client = pair.a.client()
    keeping(client, "kept")
    sent = {DLX: "", KEY: "dead"}
    assert isinstance(declare(client, "sent", "quorum", **sent), spec.QueueDeclareOk)
    for name in ("kept", "sent"):
        for number in range(5):
            client.publish(name, b"%d" % number)
        pair.until(lambda name=name: ready(pair.a, name) == 5)
        reject(client, name, 5)
    pair.settle()
    held = {name: pair.a.queue(name).fifo for name in ("kept", "sent")}
    assert (held["kept"].sizes.count, held["sent"].sizes.count) == (5, 0)
    assert held["kept"].sizes.bytes > 0
    # They wait for a route. Once there is one they leave by entries of the log.
    before = {name: last_index(pair.a, name) for name in held}
    assert isinstance(declare(client, "dead", "quorum"), spec.QueueDeclareOk)
    pair.until(lambda: held["kept"].sizes.count == 0)
    assert last_index(pair.a, "kept") > before["kept"]
    assert last_index(pair.a, "sent") == before["sent"]


@pytest.mark.rule("DL-17")
def test_a_classic_queue_cannot_have_safe_dead_letters() -> None:
    """They go through the memory of its node: an end at that moment takes them along."""
    pair = Pair()
    target, source = pair.a.client(), pair.b.client()
    refused = declare(
        source, "q", **{DLX: "", KEY: "dead", "x-dead-letter-strategy": "at-least-once"}
    )
    assert isinstance(refused, spec.ChannelClose)
    assert refused.reply_code == 406 and "x-dead-letter-strategy" in refused.reply_text
    assert isinstance(declare(target, "dead", "quorum"), spec.QueueDeclareOk)
    assert isinstance(declare(source, "q", **{DLX: "", KEY: "dead"}), spec.QueueDeclareOk)
    source.publish_confirmed("q", 1)
    pair.until(lambda: pair.b.queue("q").counts().ready == 1)
    # It dies, its queue lets go of it, and its node ends before the target has it.
    hold(pair, "b", "a")
    got = source.get("q")
    assert got is not None
    source.send(spec.BasicReject(got.tag, False))
    pair.settle()
    pair.b.kill()
    pair.deaf = set()
    pair.b.start()
    pair.until(lambda: pair.b.node.ready)
    again = pair.b.client()
    assert again.get("q") is None and again.get("dead") is None
