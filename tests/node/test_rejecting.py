"""Queues that reject publishes where there is no room: `x-overflow`, and `overflow` in policies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.pair import Client, Pair
from tests.node.test_length_limits import KINDS, NAME, declare, drained
from warren.metadata.commands import ClearPolicy, SetPolicy
from warren.queues.fitting import Publish
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames

REJECTS = {"x-overflow": "reject-publish"}


def confirming(pair: Pair, name: str) -> Client:
    client = pair.stations[name].client()
    client.call(spec.ConfirmSelect(False))
    return client


def answered(client: Client) -> tuple[list[int], list[int]]:
    """What is acked and what is nacked, once all is."""
    pair = client.pair
    pair.until(lambda: len(client.acked) + len(client.nacked) == client.published)
    return sorted(client.acked), sorted(client.nacked)


def publish(client: Client, count: int) -> tuple[list[int], list[int]]:
    for _ in range(count):
        client.publish(NAME, b"%d" % (client.published + 1))
    return answered(client)


def three(**arguments: Any) -> Pair:
    """Nodes a, b and c, and a quorum queue with a member on each that rejects publishes."""
    pair = Pair()
    pair.add("c")
    arguments = {"x-queue-type": "quorum", **REJECTS, **arguments}
    client = pair.a.client()
    ok = client.call(spec.QueueDeclare(0, NAME, False, True, False, False, False, arguments))
    assert isinstance(ok, spec.QueueDeclareOk)
    stations = list(pair.stations.values())
    pair.until(lambda: all(station.knows(NAME) for station in stations))
    return pair


@pytest.mark.rule("QL-02", "QL-03")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["a", "b"])
@pytest.mark.parametrize("limit", [{"x-max-length": 3}, {"x-max-length-bytes": 3}])
def test_what_there_is_no_room_for_is_nacked(kind: str, where: str, limit: dict[str, int]) -> None:
    """Of what comes at once, too; a quorum queue takes one message more (QL-03)."""
    pair = Pair()
    if kind == "quorum" and "x-max-length-bytes" in limit:
        limit = {"x-max-length-bytes": 12}
    assert isinstance(declare(pair.a.client(), kind, **limit, **REJECTS), spec.QueueDeclareOk)
    client = confirming(pair, where)
    taken = 4 if kind == "quorum" else 3
    assert publish(client, 9) == (list(range(1, taken + 1)), list(range(taken + 1, 10)))
    assert publish(client, 2)[1] == list(range(taken + 1, 12))
    assert drained(client) == [b"%d" % number for number in range(1, taken + 1)]
    pair.settle(20)
    assert publish(client, 1)[0][-1] == 12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["a", "b"])
def test_some_of_a_batch_are_nacked_by_their_size(kind: str, where: str) -> None:
    """A classic queue takes a small message behind one that was too large."""
    pair = Pair()
    most = 22 if kind == "quorum" else 10
    declare(pair.a.client(), kind, **{"x-max-length-bytes": most}, **REJECTS)
    client = confirming(pair, where)
    for size in (4, 7, 3, 9, 0, 3, 1):
        client.publish(NAME, bytes(size))
    acked, _ = answered(client)
    assert acked == ([1, 2, 3] if kind == "quorum" else [1, 3, 5, 6])


@pytest.mark.parametrize("kind", KINDS)
def test_one_queue_of_several_rejects(kind: str) -> None:
    pair = Pair(alone=True)
    client = confirming(pair, "a")
    declare(client, kind, **{"x-max-length": 0}, **REJECTS)
    client.declare("other")
    for name in (NAME, "other"):
        ok = client.call(spec.QueueBind(0, name, "amq.fanout", "", False, {}))
        assert isinstance(ok, spec.QueueBindOk)
    client.publish(NAME, b"")
    if kind == "quorum":
        answered(client)
    for _ in range(2):
        client.send(spec.BasicPublish(0, "amq.fanout", "", True, False))
        client.outbox += client_content(b"x")
        client.published += 1
    acked, nacked = answered(client)
    assert nacked == ([2, 3] if kind == "quorum" else [1, 2, 3])
    assert int(pair.a.queue("other").counts().ready) == 2


def client_content(body: bytes) -> bytes:
    """The header and body frames of a publish."""
    method = spec.BasicPublish(0, "", "", False, False)
    whole = content_frames(1, method, b"\x00\x00", body, 131_072)
    return whole[8 + int.from_bytes(whole[3:7], "big") :]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["a", "b"])
def test_without_confirms_it_is_dropped(kind: str, where: str) -> None:
    pair = Pair()
    declare(pair.a.client(), kind, **{"x-max-length": 2}, **REJECTS)
    client = pair.stations[where].client()
    for number in range(6):
        client.publish(NAME, b"%d" % number)
    pair.settle(30)
    assert len(drained(client)) == (3 if kind == "quorum" else 2)


@pytest.mark.rule("QL-04")
@pytest.mark.parametrize("where", ["a", "b", "c"])
def test_a_full_quorum_queue_is_full_until_four_fifths(where: str) -> None:
    pair = three(**{"x-max-length": 10})
    client = confirming(pair, where)
    assert len(publish(client, 30)[0]) == 11
    other = pair.b.client()
    for _ in range(2):
        got = other.get(NAME)
        assert got is not None
        other.ack(got.tag)
    pair.settle(20)
    assert len(publish(client, 3)[0]) == 11, "nine are above four fifths"
    got = other.get(NAME)
    assert got is not None
    pair.settle(20)
    assert len(publish(client, 9)[0]) == 11 + 3, "what is out does not count"


def test_publishers_of_all_nodes_go_little_beyond() -> None:
    """Each node has one message more under way than there is room for, at most."""
    pair = three(**{"x-max-length": 20})
    clients = [confirming(pair, name) for name in ("a", "b", "c") for _ in range(2)]
    for _ in range(40):
        for client in clients:
            client.publish(NAME, b"x")
    pair.until(lambda: all(len(c.acked) + len(c.nacked) == 40 for c in clients))
    taken = sum(len(client.acked) for client in clients)
    stations = pair.stations.values()
    pair.until(lambda: all(s.queue(NAME).ready_count() == taken for s in stations))
    # Until it is known that the others' are there, each has room for all.
    assert 21 <= taken <= 3 * 21
    assert all(station.queue(NAME).fifo.blocked for station in stations)


def test_who_leads_next_and_a_node_that_starts_know_it() -> None:
    pair = three(**{"x-max-length": 5})
    client = confirming(pair, "b")
    assert len(publish(client, 9)[0]) == 6
    leader = next(s for s in pair.stations.values() if s.queue(NAME).group.leads())
    others = [station for station in pair.stations.values() if station is not leader]
    leader.kill()
    pair.until(lambda: any(s.queue(NAME).group.leads() for s in others))
    client = confirming(pair, others[0].name)
    assert publish(client, 2) == ([], [1, 2])
    leader.start()
    pair.until(lambda: leader.node.ready)
    client = confirming(pair, leader.name)
    assert publish(client, 1) == ([], [1])


def test_a_node_that_begins_to_use_a_full_queue_is_told_right_away() -> None:
    """Nothing that comes before it knows is taken."""
    pair = Pair()
    declare(pair.a.client(), "quorum", **{"x-max-length": 2}, **REJECTS)
    assert len(publish(confirming(pair, "a"), 5)[0]) == 3
    assert publish(confirming(pair, "b"), 4) == ([], [1, 2, 3, 4])


def test_what_waits_for_a_queue_that_is_deleted_counts_as_safe() -> None:
    pair = Pair()
    declare(pair.a.client(), "quorum", **{"x-max-length": 2}, **REJECTS)
    client = confirming(pair, "b")
    publish(client, 1)
    pair.withheld_group = int(pair.a.record(NAME).group_id)
    pair.withheld["b", "a"] = []
    for _ in range(5):
        client.publish(NAME, b"x")
    pair.settle(10)
    assert len(client.acked) == 1 and not client.nacked
    assert len(pair.b.queue(NAME).admission.queued) > 0
    ok = pair.a.client().call(spec.QueueDelete(0, NAME, False, False, False))
    assert isinstance(ok, spec.QueueDeleteOk)
    assert answered(client) == ([1, 2, 3, 4, 5, 6], [])


@pytest.mark.parametrize("kind", KINDS)
def test_policies_say_so_at_once(kind: str) -> None:
    """A policy counts before the argument, and an operator's before both; without limits all go."""
    pair = Pair(alone=True)
    client = confirming(pair, "a")
    declare(client, kind, **{"x-max-length": 3, "x-overflow": "drop-head"})
    more = 1 if kind == "quorum" else 0

    def policy(operator: bool, **definition: Any) -> None:
        pair.a.node.store.submit(SetPolicy("/", "p", operator, ".*", "queues", 0, definition), None)
        pair.settle(20)

    assert publish(client, 5)[1] == []
    policy(False, overflow="reject-publish")
    assert len(publish(client, 2)[1]) == 2 - more
    policy(True, overflow="drop-head")
    assert len(publish(client, 2)[1]) == 2 - more
    policy(True, overflow="reject-publish")
    assert len(publish(client, 2)[1]) == 4 - 2 * more
    for operator in (False, True):
        pair.a.node.store.submit(ClearPolicy("/", "p", operator), None)
    pair.settle(20)
    assert len(publish(client, 5)[1]) == 4 - 2 * more
    assert int(pair.a.queue(NAME).counts().ready) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_higher_limit_or_none_lets_publishers_go_on(kind: str) -> None:
    pair = Pair(alone=True)
    client = confirming(pair, "a")
    definition: dict[str, Any] = {"max-length": 2, "overflow": "reject-publish"}
    declare(client, kind)
    for limit in (2, 9, None):
        if limit is None:
            del definition["max-length"]
        else:
            definition["max-length"] = limit
        pair.a.node.store.submit(SetPolicy("/", "p", False, ".*", "queues", 0, definition), None)
        pair.settle(20)
        nacked = len(client.nacked)
        publish(client, 12)
        assert (len(client.nacked) > nacked) == (limit is not None)
    assert int(pair.a.queue(NAME).counts().ready) == 9 + 12 + (1 if kind == "quorum" else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_consumers_make_room(kind: str) -> None:
    """What goes to those who wait does not count, however much comes at once."""
    pair = Pair(alone=True)
    declare(pair.a.client(), kind, **{"x-max-length": 1}, **REJECTS)
    consumer = pair.a.client()
    assert isinstance(consumer.consume(NAME), spec.BasicConsumeOk)
    client = confirming(pair, "a")
    assert publish(client, 20)[1] == []
    assert len(consumer.bodies()) == 20


@pytest.mark.parametrize("kind", KINDS)
def test_a_transaction_ends_with_what_could_be_done(kind: str) -> None:
    """As in RabbitMQ: a classic queue's rejection closes the channel, a quorum queue's does not."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, kind, **{"x-max-length": 0}, **REJECTS)
    if kind == "quorum":
        client.publish(NAME, b"one more")
        pair.settle(20)
    client.declare("other")
    client.call(spec.TxSelect())
    for name in ("other", NAME, "other"):
        client.publish(name, b"x")
    ended = client.call(spec.TxCommit())
    if kind == "quorum":
        assert isinstance(ended, spec.TxCommitOk)
    else:
        assert isinstance(ended, spec.ChannelClose)
        assert (ended.reply_code, ended.reply_text) == (
            406,
            "PRECONDITION_FAILED - partial tx completion",
        )
    assert int(pair.a.queue("other").counts().ready) == 2


def test_what_waits_goes_on_when_a_node_hears_of_the_queue_again() -> None:
    """An observer that missed entries goes on from a snapshot, which is no entry of its own."""
    pair = Pair()
    declare(pair.a.client(), "quorum", **{"x-max-length": 2}, **REJECTS)
    client = confirming(pair, "b")
    assert publish(client, 4)[0] == [1, 2, 3]
    queue = pair.b.queue(NAME)
    queue.admission.queued.append(Publish(b"", b"", 0, True, None))
    state = queue.state()
    queue.restore(state)
    assert not queue.admission.queued
    queue.admission.queued.append(Publish(b"", b"", 0, True, None))
    queue.look_after()
    assert not queue.admission.queued


def test_what_waits_is_answered_behind_a_state_that_nothing_follows() -> None:
    """Its node was told of entries that it misses, and got a state in their place."""
    pair = Pair()
    pair.minds_seconds = True
    declare(pair.a.client(), "quorum", **{"x-max-length": 1}, **REJECTS)
    client = confirming(pair, "b")
    assert publish(client, 1) == ([1], [])
    leading = pair.a.node.cluster.members[int(pair.a.queue(NAME).group_id)]
    pair.a.node.cluster.feed_reads_max = 0
    pair.blocked.add(("a", "b"))
    pair.cut("a", "b")
    # So that whoever is back is not fed from memory.
    leading.log.keep_recent(0)
    index = int(leading.applied_index)
    for _ in range(4):
        client.publish(NAME, b"x")
    pair.until(lambda: int(leading.applied_index) > index)
    pair.settle()
    pair.blocked.clear()
    assert answered(client) == ([1, 2], [3, 4, 5])
