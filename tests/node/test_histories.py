"""Exchanges that keep recent messages, on nodes that start again, and in clusters."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair
from tests.node.test_at_least_once import jump, keeping, kept
from tests.node.test_dead_letters import declare as declare_queue
from tests.node.test_dead_letters import reject
from warren.errors import CorruptRecord
from warren.limits import RECENT_MESSAGE_BYTES_MAX, RECENT_TOTAL_BYTES_MAX
from warren.log.batch import KIND_COMMAND
from warren.metadata.commands import KeepRecent
from warren.metadata.encoding import encode
from warren.node.histories import UNDER_WAY_MAX
from warren.queues.forwarding import RETRY_MS_MAX
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames


def declare(client: Client, name: str = "x", kind: str = "x-recent-history") -> None:
    declared = spec.ExchangeDeclare(0, name, kind, False, True, False, False, False, {})
    assert isinstance(client.call(declared), spec.ExchangeDeclareOk)


def publish(client: Client, *bodies: bytes, exchange: str = "x") -> None:
    """Publish, and wait for the confirms."""
    if not client.published:
        client.call(spec.ConfirmSelect(False))
    method = spec.BasicPublish(0, exchange, "k", False, False)
    for body in bodies:
        client.published += 1
        client.outbox += content_frames(1, method, b"\x10\x00\x02", body, 131_072)
    client.pair.until(lambda: len(client.acked) == client.published)


def bound(client: Client, name: str, exchange: str = "x", kind: str = "classic") -> list[bytes]:
    """Bind a new queue, and empty it."""
    client.declare(name, kind=kind)
    assert isinstance(
        client.call(spec.QueueBind(0, name, exchange, "", False, {})), spec.QueueBindOk
    )
    client.pair.settle(20)
    bodies = []
    while got := client.get(name):
        bodies.append(got.body)
        client.ack(got.tag)
    return bodies


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_queue_on_any_node_gets_what_any_node_was_sent(kind: str) -> None:
    pair = Pair()
    first, second = pair.a.client(), pair.b.client()
    declare(first)
    pair.settle(20)
    publish(first, b"1", b"2")
    publish(second, b"3")
    pair.settle(20)
    assert bound(first, "q", kind=kind) == [b"1", b"2", b"3"]
    assert bound(second, "r", kind=kind) == [b"1", b"2", b"3"]
    publish(second, b"4")
    assert bound(second, "s", kind=kind) == [b"1", b"2", b"3", b"4"]


def test_they_survive_the_nodes_that_had_them() -> None:
    pair = Pair()
    client = pair.a.client()
    declare(client)
    publish(client, b"1", b"2")
    pair.settle(20)
    for station in (pair.a, pair.b):
        station.kill()
    for station in (pair.a, pair.b):
        station.start()
    pair.until(lambda: pair.a.node.ready and pair.b.node.ready)
    assert bound(pair.b.client(), "q") == [b"1", b"2"]


def test_what_one_exchange_gave_another_may_keep() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client)
    declare(client, "y")
    declare(client, "source", "fanout")
    for target in ("x", "y"):
        bind = spec.ExchangeBind(0, target, "source", "", False, {})
        assert isinstance(client.call(bind), spec.ExchangeBindOk)
    publish(client, b"1", exchange="source")
    assert bound(client, "q", "x") == bound(client, "r", "y") == [b"1"]


@pytest.mark.rule("DL-02", "DL-11")
@pytest.mark.parametrize("is_full", [False, True])
def test_a_dead_letter_that_is_tried_again_is_kept_once(is_full: bool) -> None:
    """It has no route for a while, or a queue that has no room: both are tried again and again."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client)
    keeping(client, "from", exchange="x")
    if is_full:
        declare_queue(client, "full", **{"x-max-length": 0, "x-overflow": "reject-publish"})
        client.call(spec.QueueBind(0, "full", "x", "", False, {}))
    client.publish_confirmed("from", 2)
    reject(client, "from", 2)
    for _ in range(5):
        jump(pair, RETRY_MS_MAX)
    assert kept(pair.a, "from") == 2
    assert bound(client, "late") == [b"1", b"2"]
    for _ in range(2):
        jump(pair, RETRY_MS_MAX)
    # What was bound got what the exchange had kept, and gets what is on its way besides.
    again = [client.get("late") for _ in range(2)]
    assert [got.body for got in again if got] == [b"1", b"2"]
    assert kept(pair.a, "from") == (2 if is_full else 0)
    assert bound(client, "later") == [b"1", b"2"]


def test_a_transaction_is_kept_when_it_is_committed() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client)
    client.call(spec.TxSelect())
    method = spec.BasicPublish(0, "x", "k", False, False)
    for body, end in ((b"undone", spec.TxRollback()), (b"done", spec.TxCommit())):
        client.outbox += content_frames(1, method, b"\x00\x00", body, 131_072)
        client.call(end)
    assert bound(client, "q") == [b"done"]


def test_a_leader_takes_no_messages_that_are_none() -> None:
    pair = Pair()
    declare(pair.a.client())
    pair.settle(20)
    forged = encode(KeepRecent("/", "x", [b"no record"], 0))
    with pytest.raises(CorruptRecord, match="a message that is none"):
        pair.a.node.store.check_proposal(KIND_COMMAND, forged)


def test_without_a_leader_no_more_waits_than_would_be_kept() -> None:
    pair = Pair()
    client = pair.a.client()
    for number in range(20):
        declare(client, f"x{number}")
    pair.settle(20)
    pair.b.kill()
    histories = pair.a.node.vhosts._histories
    record = bytes(RECENT_MESSAGE_BYTES_MAX)
    for _ in range(2):
        for number in range(20):
            histories.keep("/", f"x{number}", [b"0", record, record, bytes(len(record) + 1)] * 3)
            for _ in range(10):
                histories.keep("/", f"x{number}", [b"1"])
                histories.flush("/", f"x{number}")
        pair.settle(2)
    known = histories._known.values()
    waiting = sum(history.waiting_bytes + sum(history.under_way) for history in known)
    assert waiting == histories._bytes <= RECENT_TOTAL_BYTES_MAX
    assert max(len(history.under_way) for history in known) == UNDER_WAY_MAX
    pair.b.start()
    pair.until(lambda: not histories._known)
    assert histories._bytes == 0
    tables = pair.b.node.metadata.vhosts["/"]
    pair.until(lambda: tables.exchanges["x0"].recent_bytes > 0)
