"""Messages that expire: by a queue's `x-message-ttl`, by policies, by their own `expiration`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.pair import Client, Pair
from warren.limits import TURN_DUE_WORK_MAX
from warren.log.batch import KIND_COMMAND, Batch
from warren.metadata.commands import ClearPolicy, SetPolicy
from warren.node.replay import replay
from warren.queues.fifo.entry import Enqueue, Meta
from warren.queues.fifo.machine import Fifo
from warren.replication.raft_entries import RAFT_SESSION
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.table import Table

NAME = "q"
TTL = 500
KINDS = ["classic", "transient", "quorum"]


def declare(client: Client, kind: str, ttl: int = TTL, name: str = NAME) -> None:
    arguments: Table = {"x-queue-type": "quorum" if kind == "quorum" else "classic"}
    if ttl >= 0:
        arguments["x-message-ttl"] = ttl
    if kind == "quorum":
        arguments["x-quorum-initial-group-size"] = 1
    durable = kind != "transient"
    ok = client.call(spec.QueueDeclare(0, name, False, durable, False, False, False, arguments))
    assert isinstance(ok, spec.QueueDeclareOk)


def ready(client: Client, name: str = NAME) -> int:
    """What a passive declare counts."""
    ok = client.declare(name, passive=True)
    assert isinstance(ok, spec.QueueDeclareOk)
    return ok.message_count


def pass_time(pair: Pair, milliseconds: int) -> None:
    end = pair.clock.monotonic_ms() + milliseconds
    pair.until(lambda: pair.clock.monotonic_ms() >= end)


def set_policy(pair: Pair, definition: dict[str, Any], operator: bool = False) -> None:
    command = SetPolicy("/", "p", operator, ".*", "queues", 0, definition)
    pair.a.node.store.submit(command, None)
    pair.settle()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["a", "b"])
def test_messages_go_when_their_time_is_over(kind: str, where: str) -> None:
    """Whoever publishes, and nobody has to ask for that."""
    pair = Pair()
    declare(pair.a.client(), kind)
    client = pair.stations[where].client()
    client.publish_confirmed(NAME, 5)
    pass_time(pair, TTL // 2)
    client.publish_confirmed(NAME, 5)
    assert ready(client) == 10
    pass_time(pair, TTL * 3 // 4)
    counts = pair.a.queue(NAME).counts()
    assert (int(counts.ready), ready(client)) == (5, 5)
    got = client.get(NAME)
    assert got is not None and got.body == b"6"
    pass_time(pair, TTL)
    assert ready(client) == 0 and client.get(NAME) is None
    # What is out stays out, and goes when it comes back.
    assert int(pair.a.queue(NAME).counts().held) == 1
    client.send(spec.BasicReject(got.tag, True))
    pair.settle()
    assert client.get(NAME) is None
    assert int(pair.a.queue(NAME).counts().held) == 0


@pytest.mark.parametrize("kind", ["classic", "transient"])
def test_a_turn_has_messages_of_few_queues_expire(kind: str) -> None:
    """Where those of many have the same time: the next turns go on, and no tick has to come."""
    pair = Pair(alone=True)
    client = pair.a.client()
    names = [f"q{number}" for number in range(24)]
    for name in names:
        declare(client, kind, 60_000, name)
        for _ in range(1_000):
            client.publish(name, b"")
    pair.until(lambda: all(ready(client, name) == 1_000 for name in names))
    queues = [pair.a.queue(name) for name in names]
    pair.clock.advance(61_000_000_000)
    pair.a.node.tick_log()
    gone: list[int] = []
    before = 0
    for _ in range(40):
        pair.a.node.turn()
        dropped = sum(int(queue.fifo.dropped) for queue in queues)
        gone.append(dropped - before)
        before = dropped
        assert pair.a.node.needs_turn or dropped == 24_000
    assert sum(gone) == 24_000 and max(gone) <= TURN_DUE_WORK_MAX + 1_000


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_restart_changes_nothing(kind: str) -> None:
    """Times are kept in snapshots, and follow from the log."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, kind, 3_000)
    client.publish_confirmed(NAME, 3)
    pass_time(pair, 1_000)
    pair.a.queue(NAME).snapshot()
    client.publish_confirmed(NAME, 2)
    pass_time(pair, 300)
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    client = pair.a.client()
    assert ready(client) == 5
    pass_time(pair, 1_300)
    assert ready(client) == 5
    pass_time(pair, 500)
    assert ready(client) == 2
    pass_time(pair, 1_000)
    assert ready(client) == 0


def test_all_members_expire_the_same_behind_another_leader() -> None:
    pair = Pair()
    pair.minds_seconds = True
    pair.add("c")
    client = pair.a.client()
    arguments: Table = {"x-queue-type": "quorum", "x-message-ttl": 3_000}
    client.call(spec.QueueDeclare(0, NAME, False, True, False, False, False, arguments))
    client.publish_confirmed(NAME, 7)
    pair.until(lambda: all(s.queue(NAME).ready_count() == 7 for s in pair.stations.values()))
    leader = next(s for s in pair.stations.values() if s.queue(NAME).group.leads())
    leader.kill()
    others = [s for s in pair.stations.values() if s.alive]
    begin = pair.clock.monotonic_ms()
    pair.until(lambda: all(s.queue(NAME).ready_count() == 0 for s in others))
    assert 2_500 <= pair.clock.monotonic_ms() - begin <= 3_500
    one, other = (s.queue(NAME).fifo for s in others)
    pair.until(lambda: bool(one.encode() == other.encode()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_counts_for_what_comes_from_then_on(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, kind, -1)
    client.publish_confirmed(NAME, 1)
    set_policy(pair, {"message-ttl": 900})
    set_policy(pair, {"message-ttl": TTL}, operator=True)
    client.publish_confirmed(NAME, 1)
    pair.a.node.store.submit(ClearPolicy("/", "p", False), None)
    pair.a.node.store.submit(ClearPolicy("/", "p", True), None)
    pair.settle()
    client.publish_confirmed(NAME, 1)
    pass_time(pair, 2 * TTL)
    # The one behind the first stays until it is the head, and goes at once then.
    assert ready(client) == 3
    got = [client.get(NAME), client.get(NAME)]
    assert [each.body for each in got if each is not None] == [b"1", b"3"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_message_of_a_queue_expires(kind: str) -> None:
    """It may come before its queue has said anything but that it is there."""
    pair = Pair(alone=True)
    client = pair.a.client()
    arguments: Table = {"x-queue-type": "classic" if kind == "transient" else kind}
    arguments["x-message-ttl"] = 0
    client.send(
        spec.QueueDeclare(0, NAME, False, kind != "transient", False, False, True, arguments)
    )
    client.publish(NAME, b"1")
    client.publish(NAME, b"2")
    pair.settle(20)
    assert ready(client) == 0 and client.get(NAME) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_that_waits_gets_what_may_not_wait(kind: str) -> None:
    pair = Pair()
    declare(pair.a.client(), kind, 0)
    client = pair.b.client()
    client.consume(NAME)
    for number in range(3):
        client.publish(NAME, b"%d" % number)
        pair.settle()
    assert client.bodies() == [b"0", b"1", b"2"]


@pytest.mark.rule("QQ-11")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["a", "b"])
def test_of_queue_and_message_the_shorter_time_counts(kind: str, where: str) -> None:
    pair = Pair()
    declare(pair.a.client(), kind, 4_000)
    declare(pair.a.client(), kind, -1, "plain")
    client = pair.stations[where].client()
    for persistent in (True, False):
        for name, expiration in (
            (NAME, "1500"),
            (NAME, "9000"),
            ("plain", "3000"),
            ("plain", None),
        ):
            client.publish(name, b"x", persistent, expiration)
    pair.until(lambda: (ready(client), ready(client, "plain")) == (4, 4))
    pass_time(pair, 1_700)
    # The third stands behind one that lives longer.
    assert (ready(client), ready(client, "plain")) == (3, 4)
    pass_time(pair, 1_300)
    assert (ready(client), ready(client, "plain")) == (3, 3)
    pass_time(pair, 900)
    assert (ready(client), ready(client, "plain")) == (0, 3)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_message_s_own_time_is_in_the_log(kind: str) -> None:
    """And in the bytes that members send each other; nothing but the header says so."""
    pair = Pair(alone=kind == "classic")
    client = pair.a.client()
    if kind == "classic":
        declare(client, kind, -1)
    else:
        pair.minds_seconds = True
        pair.add("c")
        client.call(
            spec.QueueDeclare(0, NAME, False, True, False, False, False, {"x-queue-type": kind})
        )
    client.call(spec.ConfirmSelect(False))
    for number in range(10):
        client.publish(NAME, b"%d" % number, True, "2500")
    client.publish(NAME, b"stays", True, "315360000000")
    pair.until(lambda: len(client.acked) == 11)
    begin = pair.clock.monotonic_ms()
    for station in list(pair.stations.values()):
        station.kill()
    for station in pair.stations.values():
        station.start()
    pair.until(lambda: all(station.node.ready for station in pair.stations.values()))
    client = pair.a.client()
    pair.until(lambda: ready(client) == 11)
    pair.until(lambda: ready(client) == 1)
    assert 2_300 <= pair.clock.monotonic_ms() - begin <= 3_500
    for station in pair.stations.values():
        pair.until(lambda station=station: station.queue(NAME).ready_count() == 1)
    # Ten years, in whole seconds.
    expires = int(pair.a.queue(NAME).fifo.next_expiry()) - pair.clock.wall_ms()
    assert abs(expires - 315_360_000_000) < 10_000
    got = client.get(NAME)
    assert got is not None and got.body == b"stays"


def test_messages_of_a_transaction_expire_from_its_commit_on() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "classic", -1)
    client.call(spec.TxSelect())
    client.publish(NAME, b"1", True, "400")
    pass_time(pair, 600)
    client.call(spec.TxCommit())
    assert ready(client) == 1
    pass_time(pair, 600)
    assert ready(client) == 0


def test_a_cluster_of_two_releases_has_none() -> None:
    pair = Pair(configure=lambda settings: setattr(settings, "cluster_version_max", 3))
    client = pair.a.client()
    client.declare(NAME)
    client.publish(NAME, b"1", True, "400")
    pair.until(lambda: len(client.methods) > 1)
    refused = client.methods[-1]
    assert isinstance(refused, spec.ChannelClose)
    assert "this needs cluster version 4" in refused.reply_text
    arguments: Table = {"x-message-ttl": 5}
    refused = client.call(spec.QueueDeclare(0, "r", False, True, False, False, False, arguments))
    assert isinstance(refused, spec.ChannelClose)
    assert SetPolicy("/", "p", False, "", "all", 0, {"message-ttl": 1}).cluster_version() == 4


def test_recent_messages_of_an_exchange_expire_in_the_queues_that_get_them() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    arguments: Table = {"x-recent-history-length": 5}
    client.call(
        spec.ExchangeDeclare(
            0, "x", "x-recent-history", False, True, False, False, False, arguments
        )
    )
    text = b"\x01\x00\x03400"
    method = spec.BasicPublish(0, "x", "k", False, False)
    client.outbox += content_frames(1, method, text, b"1", 131_072)
    pass_time(pair, 600)
    client.declare(NAME)
    assert isinstance(client.call(spec.QueueBind(0, NAME, "x", "", False, {})), spec.QueueBindOk)
    pair.until(lambda: ready(client) == 1)
    pair.until(lambda: ready(client) == 0)


def test_a_start_passes_no_time_with_entries_that_the_machine_was_not_told_of() -> None:
    """A member that runs has nothing expire with the first entry of a leader, or other members."""
    fifo = Fifo(-1, False)
    fifo.apply(Meta(1_000), Enqueue(0, 3, 300, 50))
    before = fifo.encode()
    own = Batch(None, KIND_COMMAND, 2, 2, 3, 0, 9_000, b"", 0, b"", 0, 0, None, RAFT_SESSION)
    replay(fifo, own)
    assert fifo.encode() == before
    fifo.apply(Meta(9_000), Enqueue(3, 1, 100, 50))
    fifo.dispatch()
    assert fifo.ready_count() == 1


def turn(pair: Pair, client: Client) -> None:
    """Have a node do what a client asked for, in no time."""
    client.exchange()
    for _ in range(5):
        pair.a.node.turn()
        client.exchange()


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("kind", ["classic", "transient"])
def test_without_time_to_live_only_who_is_ready_gets_a_message(kind: str, own: bool) -> None:
    """All others die at once, as in RabbitMQ's classic queues, and not a moment later."""
    pair = Pair(alone=True)
    client = pair.a.client()
    arguments: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    if not own:
        arguments["x-message-ttl"] = 0
    client.declare("dead")
    durable = kind == "classic"
    client.call(spec.QueueDeclare(0, NAME, False, durable, False, False, False, arguments))
    expiration = "0" if own else None
    began = pair.clock.monotonic_ms()
    client.publish(NAME, b"1", expiration=expiration)
    client.publish(NAME, b"2", expiration=expiration)
    turn(pair, client)
    assert pair.clock.monotonic_ms() == began
    assert (ready_here(pair, NAME), ready_here(pair, "dead")) == (0, 2)
    client.qos(1)
    client.consume(NAME)
    for body in (b"3", b"4"):
        client.publish(NAME, body, expiration=expiration)
    turn(pair, client)
    assert client.bodies() == [b"3"], "there was room for one"
    assert (ready_here(pair, NAME), ready_here(pair, "dead")) == (0, 3)
    # What waits behind another message dies when it is its turn.
    if own:
        client.publish(NAME, b"5")
        client.publish(NAME, b"6", expiration=expiration)
        turn(pair, client)
        assert (ready_here(pair, NAME), ready_here(pair, "dead")) == (2, 3)
        client.ack(client.messages[0].tag)
        turn(pair, client)
        assert client.bodies() == [b"3", b"5"]
        assert (ready_here(pair, NAME), ready_here(pair, "dead")) == (0, 4)


def ready_here(pair: Pair, name: str) -> int:
    return int(pair.a.queue(name).counts().ready)


@pytest.mark.parametrize("kind", ["classic", "transient"])
def test_all_who_are_ready_get_messages_without_time_to_live(kind: str) -> None:
    """However many there are: more than one part of a hand-out."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, kind, 0)
    queue = pair.a.queue(NAME)
    queue.fifo.hand_out_max = 3
    for _ in range(10):
        client.consume(NAME)
    client.qos(0)
    for number in range(25):
        client.publish(NAME, b"%d" % number)
    pair.until(lambda: len(client.messages) == 25)
    assert sorted(client.bodies(), key=int) == [b"%d" % number for number in range(25)]


def test_what_expires_next_in_a_quorum_queue_counts_for_who_holds_what_was_before_it() -> None:
    """The answer to `basic.get` says so, as RabbitMQ's; behind it those messages go."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "quorum", -1)
    client.publish(NAME, b"1")
    client.publish(NAME, b"2", expiration="0")
    pair.until(lambda: ready(client) == 2)
    got = client.get(NAME)
    assert got is not None and isinstance(got.method, spec.BasicGetOk)
    assert (got.body, got.method.message_count) == (b"1", 1)
    assert ready(client) == 0


@pytest.mark.parametrize("kind", ["classic", "transient"])
def test_without_any_room_messages_go_for_want_of_that(kind: str) -> None:
    """Even those that expire as they come: dead letters say which was first."""
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("dead")
    arguments: Table = {
        "x-max-length": 0,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    durable = kind == "classic"
    ok = client.call(spec.QueueDeclare(0, NAME, False, durable, False, False, False, arguments))
    assert isinstance(ok, spec.QueueDeclareOk)
    for number in range(2):
        client.publish(NAME, b"%d" % number, expiration="0")
    pair.until(lambda: ready_here(pair, "dead") == 2)
    for body in (b"0", b"1"):
        got = client.get("dead")
        assert got is not None and got.body == body
        assert got.headers()["x-first-death-reason"] == "maxlen"
