"""Exchanges of type `x-delayed-message`: messages wait until their time, and then go on."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Got, Pair
from warren.metadata.commands import DeleteVhost, SetPolicy
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import (
    Byte,
    Short,
    SignedInt,
    Table,
    Timestamp,
    UnsignedByte,
    Value,
)

KINDS = ("classic", "quorum")


def exchange(
    client: Client, name: str = "x", kind: str = "direct", **arguments: Value
) -> spec.Method:
    table: Table = {"x-delayed-type": kind, **arguments}
    return client.call(
        spec.ExchangeDeclare(0, name, "x-delayed-message", False, True, False, False, False, table)
    )


def bound(client: Client, queue: str, kind: str, name: str = "x", key: str = "k") -> None:
    """A queue that messages with a key come to."""
    client.declare(queue, kind=kind)
    assert isinstance(client.call(spec.QueueBind(0, queue, name, key, False, {})), spec.QueueBindOk)


def publish(
    client: Client,
    body: bytes,
    delay: Value = None,
    name: str = "x",
    key: str = "k",
    mandatory: bool = False,
    expiration: str | None = None,
    **headers: Value,
) -> None:
    """Publish, for the first time after turning confirms on."""
    if not client.published:
        client.call(spec.ConfirmSelect(False))
    client.published += 1
    table: Table = dict(headers)
    if delay is not None:
        table["x-delay"] = delay
    properties = Properties()
    properties.headers = table
    properties.delivery_mode = 2
    properties.expiration = expiration
    method = spec.BasicPublish(0, name, key, mandatory, False)
    client.outbox += content_frames(1, method, properties.encode(), body, 131_072)


def confirmed(client: Client) -> None:
    client.pair.until(lambda: len(client.acked) == client.published)


def pass_time(pair: Pair, time_ms: int) -> None:
    """Let so much time pass, in small steps."""
    end = pair.clock.monotonic_ms() + time_ms
    pair.minds_seconds = True
    pair.until(lambda: pair.clock.monotonic_ms() >= end)


def drained(client: Client, queue: str) -> list[Got]:
    """All messages that a queue has."""
    found: list[Got] = []
    while (got := client.get(queue)) is not None:
        found.append(got)
    return found


def test_a_message_waits_for_its_time_and_says_that_it_did() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    assert isinstance(exchange(client), spec.ExchangeDeclareOk)
    bound(client, "q", "classic")
    publish(client, b"later", 3_000)
    publish(client, b"sooner", 1_000)
    publish(client, b"now")
    confirmed(client)
    assert [got.body for got in drained(client, "q")] == [b"now"]
    pass_time(pair, 1_100)
    assert [(got.body, got.headers()) for got in drained(client, "q")] == [
        (b"sooner", {"x-delay": -1_000})
    ]
    pass_time(pair, 2_000)
    assert [got.body for got in drained(client, "q")] == [b"later"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_goes_on_when_it_is_due_and_what_came_first_goes_first(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    exchange(client)
    bound(client, "q", kind)
    delays = (400, 200, 400, 300, 200)
    for number, delay in enumerate(delays):
        publish(client, b"%d" % number, delay)
    confirmed(client)
    assert drained(client, "q") == []
    client.consume("q", no_ack=True)
    pass_time(pair, 1_000)
    assert client.bodies() == [b"1", b"4", b"3", b"0", b"2"]


@pytest.mark.parametrize(
    ("value", "waits"),
    [
        (UnsignedByte(200), 200), (Byte(100), 100), (Short(500), 500), (SignedInt(500), 500),
        (500.9, 500), ("500", 500), (b"500", 500), (0, 0), (-500, 0), (True, 0), ("soon", 0),
        ("", 0), (1 << 32, 0), ((1 << 32) - 1, -1), (float("inf"), 0), (float("nan"), 0),
        (Timestamp(500), 0), ([500], 0), ({"a": 500}, 0), ("9" * 400, 0), (1e300, 0),
    ],
)  # fmt: skip
def test_what_a_header_may_say(value: Value, waits: int) -> None:
    """What is no number, or too large, is not delayed at all; what was delayed says so."""
    pair = Pair(alone=True)
    client = pair.a.client()
    exchange(client)
    bound(client, "q", "classic")
    publish(client, b"1", value)
    confirmed(client)
    got = drained(client, "q")
    if waits == 0:
        assert len(got) == 1
        return
    assert got == []
    pass_time(pair, 700)
    assert [each.headers() for each in drained(client, "q")] == (
        [{"x-delay": -waits}] if waits > 0 else []
    )


def test_routes_are_those_of_the_time_at_which_it_goes_on() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    exchange(client, kind="topic")
    bound(client, "old", "classic", key="a.*")
    publish(client, b"1", 500, key="a.b")
    publish(client, b"2", 500, key="b.b")
    confirmed(client)
    client.call(spec.QueueUnbind(0, "old", "x", "a.*", {}))
    bound(client, "new", "quorum", key="a.#")
    pass_time(pair, 700)
    assert drained(client, "old") == []
    assert [(got.body, got.method.routing_key) for got in drained(client, "new")] == [(b"1", "a.b")]
    # What had no route is gone, and holds up nothing.
    queue = pair.a.queue("amq.delayed.x")
    assert queue.counts().delayed == 0 and queue.forwarding.underway() == 0


def test_headers_copies_and_properties_are_as_they_were() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    exchange(client)
    for queue in ("k", "cc", "bcc"):
        bound(client, queue, "classic", key=queue)
    publish(client, b"1", 100, CC=["cc"], BCC=["bcc"], other="o")
    confirmed(client)
    pass_time(pair, 300)
    for queue in ("k", "cc", "bcc"):
        (got,) = drained(client, queue)
        assert got.headers() == {"x-delay": -100, "CC": ["cc"], "other": "o"}
        assert (got.method.exchange, got.method.routing_key) == ("x", "k")


def test_its_own_expiration_counts_from_when_it_is_in_a_queue() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    exchange(client)
    bound(client, "q", "classic")
    bound(client, "r", "quorum")
    publish(client, b"1", 2_000, expiration="1000")
    confirmed(client)
    pass_time(pair, 2_200)
    declared = client.declare("q", passive=True)
    assert isinstance(declared, spec.QueueDeclareOk) and declared.message_count == 1
    pass_time(pair, 1_500)
    assert drained(client, "q") == [] and drained(client, "r") == []


def test_what_waits_is_routed_for_who_asks_whether_it_can_be() -> None:
    """It does not come back though it is mandatory, and the alternate exchange is for later."""
    pair = Pair(alone=True)
    client = pair.a.client()
    client.call(spec.ExchangeDeclare(0, "y", "fanout", False, True, False, False, False, {}))
    bound(client, "rest", "classic", name="y")
    exchange(client, **{"alternate-exchange": "y"})
    publish(client, b"later", 300, mandatory=True)
    publish(client, b"now", mandatory=True)
    confirmed(client)
    assert client.messages == []
    assert [got.body for got in drained(client, "rest")] == [b"now"]
    pass_time(pair, 500)
    assert [got.body for got in drained(client, "rest")] == [b"later"]


def test_what_comes_through_other_exchanges_waits_too() -> None:
    """From an exchange bound to it, and as a dead letter; once only."""
    pair = Pair(alone=True)
    client = pair.a.client()
    exchange(client, kind="fanout")
    bound(client, "q", "classic")
    client.call(spec.ExchangeDeclare(0, "y", "fanout", False, True, False, False, False, {}))
    client.call(spec.ExchangeBind(0, "x", "y", "", False, {}))
    publish(client, b"bound", 300, name="y")
    dies: Table = {"x-dead-letter-exchange": "x", "x-message-ttl": SignedInt(100)}
    client.call(spec.QueueDeclare(0, "dies", False, True, False, False, False, dies))
    publish(client, b"dead", 1_000, name="", key="dies")
    confirmed(client)
    pass_time(pair, 500)
    assert [got.body for got in drained(client, "q")] == [b"bound"]
    pass_time(pair, 1_000)
    (got,) = drained(client, "q")
    assert got.body == b"dead" and got.headers()["x-delay"] == -1_000
    assert "x-death" in got.headers()


def test_a_target_without_room_gets_it_later() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    exchange(client)
    full: Table = {"x-max-length": SignedInt(1), "x-overflow": "reject-publish"}
    client.call(spec.QueueDeclare(0, "q", False, True, False, False, False, full))
    client.call(spec.QueueBind(0, "q", "x", "k", False, {}))
    for number in range(3):
        publish(client, b"%d" % number, 200)
    confirmed(client)
    seen: list[bytes] = []
    for _ in range(8):
        pass_time(pair, 2_000)
        seen.extend(got.body for got in drained(client, "q"))
    assert sorted(seen) == [b"0", b"1", b"2"]


def test_deleting_the_exchange_forgets_what_waits() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    exchange(client)
    bound(client, "q", "classic")
    publish(client, b"1", 300)
    confirmed(client)
    group = pair.a.record("amq.delayed.x").group_id
    client.call(spec.ExchangeDelete(0, "x", False, False))
    assert not pair.a.knows("amq.delayed.x")
    pair.settle()
    assert not pair.a.node.log.has_group(int(group))
    exchange(client)
    client.call(spec.QueueBind(0, "q", "x", "k", False, {}))
    publish(client, b"2", 300)
    confirmed(client)
    pass_time(pair, 600)
    assert [got.body for got in drained(client, "q")] == [b"2"]


def test_an_exchange_goes_by_itself_and_a_vhost_with_all() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    table: Table = {"x-delayed-type": "direct"}
    client.call(
        spec.ExchangeDeclare(0, "x", "x-delayed-message", False, True, True, False, False, table)
    )
    bound(client, "q", "classic")
    client.call(spec.QueueDelete(0, "q", False, False, False))
    pair.settle()
    assert not pair.a.knows("amq.delayed.x")
    assert "x" not in pair.a.node.metadata.vhosts["/"].exchanges
    exchange(client)
    bound(client, "q", "classic")
    assert pair.a.node.metadata.vhosts["/"].stores == 1
    pair.a.node.store.submit(DeleteVhost("/"), None)
    pair.until(lambda: "/" not in pair.a.node.metadata.vhosts)
    pair.settle()


def test_clients_cannot_use_what_messages_wait_in() -> None:
    """Not by its name, nor by a binding or the default exchange."""
    pair = Pair(alone=True)
    client = pair.a.client()
    exchange(client)
    bound(client, "q", "classic")
    publish(client, b"1", 60_000)
    name = "amq.delayed.x"
    publish(client, b"past", 60_000, name="", key=name, mandatory=True)
    confirmed(client)
    assert [got.body for got in client.messages] == [b"past"]
    client.messages.clear()
    for method, code in (
        (spec.QueueDeclare(0, name, True, True, False, False, False, {}), 404),
        (spec.QueueDeclare(0, name, False, True, False, False, False, {}), 403),
        (spec.QueueBind(0, name, "x", "k", False, {}), 404),
        (spec.BasicConsume(0, name, "", False, False, False, False, {}), 404),
        (spec.BasicGet(0, name, False), 404),
        (spec.QueuePurge(0, name, False), 404),
    ):
        answer = client.call(method)
        assert isinstance(answer, spec.ChannelClose) and answer.reply_code == code, method
    deleted = client.call(spec.QueueDelete(0, name, False, False, False))
    assert isinstance(deleted, spec.QueueDeleteOk) and deleted.message_count == 0
    assert pair.a.queue(name).counts().delayed == 1
    typed: Table = {"x-queue-type": "delayed"}
    answer = client.call(spec.QueueDeclare(0, "r", False, True, False, False, False, typed))
    assert isinstance(answer, spec.ChannelClose) and "unsupported queue type" in answer.reply_text


def test_policies_are_not_for_what_messages_wait_in() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    exchange(client)
    bound(client, "q", "classic")
    limits = {"max-length": 1, "message-ttl": 50, "expires": 100}
    for operator in (False, True):
        pair.a.node.store.submit(SetPolicy("/", "p", operator, ".*", "all", 1, limits), None)
    for number in range(3):
        publish(client, b"%d" % number, 400)
    confirmed(client)
    client.consume("q", no_ack=True)
    pass_time(pair, 600)
    assert sorted(client.bodies()) == [b"0", b"1", b"2"]


def test_what_was_confirmed_waits_on_through_a_crash() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    exchange(client)
    bound(client, "q", "classic")
    for number, delay in enumerate((5_000, 3_000, 100)):
        publish(client, b"%d" % number, delay)
    confirmed(client)
    pair.a.kill()
    pair.clock.advance(1_000)
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    client = pair.a.client()
    pass_time(pair, 300)
    assert [got.body for got in drained(client, "q")] == [b"2"]
    pass_time(pair, 5_000)
    assert [got.body for got in drained(client, "q")] == [b"1", b"0"]


def test_a_snapshot_has_what_waits() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    exchange(client)
    bound(client, "q", "classic")
    for number in range(50):
        publish(client, b"%d" % number, 1_000 + 37 * number % 500)
    confirmed(client)
    pair.a.queue("amq.delayed.x").snapshot()
    pair.settle()
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    assert pair.a.queue("amq.delayed.x").counts().delayed == 50
    client = pair.a.client()
    pass_time(pair, 2_500)
    found = [int(got.body) for got in drained(client, "q")]
    assert found == sorted(range(50), key=lambda number: (37 * number % 500, number))


@pytest.mark.parametrize("left_over", [True, False])
def test_another_node_goes_on_with_what_waits_when_one_is_lost(left_over: bool) -> None:
    """With and without messages that the node had begun to send on."""
    pair = Pair()
    for name in ("c", "d"):
        pair.add(name)
    client = pair.a.client()
    exchange(client)
    pair.until(lambda: all(each.knows("amq.delayed.x") for each in pair.stations.values()))
    other = next(
        pair.stations[name] for name in "bcd" if pair.a.record("amq.delayed.x").member_on(name)
    )
    holder = other.client()
    bound(holder, "q", "quorum")
    # A node without a copy of what messages wait in publishes, too.
    beside = next(
        each
        for each in pair.stations.values()
        if not each.record("amq.delayed.x").member_on(each.name)
    )
    publishers = [client, holder, beside.client()]
    for at, publisher in enumerate(publishers):
        for number in range(5):
            publish(publisher, b"%d.%d" % (at, number), 3_000 + 10 * number)
        confirmed(publisher)
    leader = next(
        each
        for each in pair.stations.values()
        if each.record("amq.delayed.x").member_on(each.name)
        and each.node.cluster.members[int(each.record("amq.delayed.x").group_id)].raft.is_leader
    )
    if left_over:
        pass_time(pair, 3_020)
    leader.kill()
    survivor = next(each for each in (other, beside, pair.b, pair.a) if each is not leader)
    pair.minds_seconds = True
    pass_time(pair, 12_000)
    reader = survivor.client()
    reader.consume("q", no_ack=True)
    pass_time(pair, 3_000)
    assert {*reader.bodies()} == {b"%d.%d" % (at, number) for at in range(3) for number in range(5)}


def leading(pair: Pair, name: str) -> None:
    """Have a node lead what messages wait in."""
    group_id = int(pair.a.record("amq.delayed.x").group_id)
    members = {at: each.node.cluster.members[group_id] for at, each in pair.stations.items()}
    while not members[name].raft.is_leader:
        for at, station in pair.stations.items():
            if members[at].raft.is_leader:
                station.node.queue_members.transfer(group_id, name)
        pair.settle()


@pytest.mark.parametrize(("leads_before", "others"), [(True, False), (False, False), (False, True)])
def test_a_leader_with_older_tables_drops_nothing_that_has_a_route(
    leads_before: bool, others: bool
) -> None:
    """A queue was bound before the publish, which the leader's node has not heard of yet.

    Args:
        leads_before: Whether that node has led since before the queue was bound.
        others: Whether there is a queue that it knows.
    """
    pair = Pair()
    pair.add("c")
    client = pair.a.client()
    exchange(client)
    if others:
        bound(client, "old", "quorum")
    pair.until(lambda: all(each.knows("amq.delayed.x") for each in pair.stations.values()))
    leading(pair, "b" if leads_before else "a")
    publish(client, b"0", 1)
    confirmed(client)
    pass_time(pair, 500)
    assert pair.b.queue("amq.delayed.x").counts().delayed == 0
    pair.withheld = {("a", "b"): [], ("c", "b"): []}
    bound(client, "q", "quorum")
    publish(client, b"1", 1_000)
    confirmed(client)
    leading(pair, "b")
    pass_time(pair, 1_500)
    assert not pair.b.knows("q")
    pair.release()
    pass_time(pair, 3_000)
    assert [got.body for got in drained(client, "q")] == [b"1"]
    if others:
        assert [got.body for got in drained(client, "old")] == [b"0", b"1"]
    # What nobody is to have goes, as ever.
    client.call(spec.QueueUnbind(0, "q", "x", "k", {}))
    publish(client, b"2", 1, key="nowhere")
    confirmed(client)
    pass_time(pair, 1_000)
    assert pair.b.queue("amq.delayed.x").ready_count() == 0
    assert pair.b.queue("amq.delayed.x").kept_dead() == 0


def test_time_counts_from_when_it_came_to_a_leader_that_had_stood_still() -> None:
    """What its node did last was two seconds before; it takes the message first of all."""
    pair = Pair()
    pair.add("c")
    client = pair.a.client()
    exchange(client)
    bound(client, "q", "quorum")
    pair.until(lambda: all(each.knows("amq.delayed.x") for each in pair.stations.values()))
    leading(pair, "b")
    publish(client, b"0", 1)
    confirmed(client)
    pass_time(pair, 500)
    pair.clock.advance(2_000)
    publish(client, b"1", 3_000)
    client.exchange()
    pair.turn(pair.a)
    assert pair.carry("a", "b") > 0
    confirmed(client)
    pass_time(pair, 2_500)
    assert [got.body for got in drained(client, "q")] == [b"0"]
    pass_time(pair, 1_000)
    assert [got.body for got in drained(client, "q")] == [b"1"]
