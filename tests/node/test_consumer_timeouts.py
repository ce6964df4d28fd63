"""Consumers of quorum queues that hold messages for too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.node.pair import Client, Got, Pair, Station, sealed
from tests.node.test_transfer import offer
from warren.metadata.commands import SetPolicy
from warren.node.cluster import transfer
from warren.raft.effects import AcceptSnapshot
from warren.replication import kinds
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

NAME = "q"
SHORT_MS = 2_000


def declare(client: Client, **more: Any) -> spec.Method:
    arguments: Table = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1, **more}
    return client.call(spec.QueueDeclare(0, NAME, False, True, False, False, False, arguments))


def consume(client: Client, tag: str, timeout_ms: int | None = None) -> spec.Method:
    arguments: Table = {} if timeout_ms is None else {"x-consumer-timeout": timeout_ms}
    return client.call(spec.BasicConsume(0, NAME, tag, False, False, False, False, arguments))


def cancelled(client: Client) -> bool:
    return isinstance(client.methods[-1], spec.BasicCancel)


def closed(client: Client) -> bool:
    return bool(client.methods) and isinstance(client.methods[-1], spec.ChannelClose)


@pytest.mark.rule("D-13")
@pytest.mark.rule("CT-03", "CT-11", "CT-13")
@pytest.mark.parametrize("where", ["a", "b"])
def test_the_consumer_is_cancelled_and_another_one_gets_its_messages(where: str) -> None:
    """On the queue's node, and on one that holds nothing of the queue."""
    pair = Pair()
    assert isinstance(declare(pair.a.client()), spec.QueueDeclareOk)
    pair.until(lambda: pair.b.knows(NAME))
    slow, other = pair.stations[where].client(), pair.a.client()
    consume(slow, "slow", SHORT_MS)
    pair.a.client().publish_confirmed(NAME, 2)
    pair.until(lambda: len(slow.messages) == 2)
    consume(other, "other", 60_000)
    pair.until(lambda: cancelled(slow))
    pair.until(lambda: other.bodies() == [b"1", b"2"])
    assert all(got.redelivered for got in other.messages)
    slow.ack(2, True)
    other.ack(2, True)
    pair.settle(20)
    counts = pair.a.queue(NAME).counts()
    assert (int(counts.ready), int(counts.held), int(counts.consumers)) == (0, 0, 1)
    assert cancelled(slow), "its channel is open, and late acks are passed over"


@pytest.mark.rule("CT-15")
def test_only_what_is_held_for_too_long_returns() -> None:
    pair = Pair(alone=True)
    client, publisher = pair.a.client(), pair.a.client()
    declare(client)
    consume(client, "c", SHORT_MS)
    publisher.publish_confirmed(NAME, 1)
    pair.until(lambda: len(client.messages) == 1)
    since = pair.clock.monotonic_ms()
    pair.until(lambda: pair.clock.monotonic_ms() - since > SHORT_MS // 2)
    publisher.publish_confirmed(NAME, 1)
    pair.until(lambda: cancelled(client))
    counts = pair.a.queue(NAME).counts()
    assert (int(counts.ready), int(counts.held)) == (1, 1)
    client.ack(2)
    pair.until(lambda: pair.a.queue(NAME).counts().held == 0)


@pytest.mark.rule("D-20")
@pytest.mark.rule("CT-04", "CT-05", "CT-06", "CT-07", "CT-09")
@pytest.mark.parametrize(
    ("own", "argument", "policy", "wanted"),
    [
        (None, None, None, 1_800_000),
        (None, None, 7_000, 7_000),
        (None, 6_000, 7_000, 6_000),
        (None, 7_000, 6_000, 6_000),
        (9_000, 6_000, 7_000, 9_000),
        (5_000, 6_000, 7_000, 5_000),
    ],
)
def test_what_counts(
    own: int | None, argument: int | None, policy: int | None, wanted: int
) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, **({} if argument is None else {"x-consumer-timeout": argument}))
    if policy is not None:
        set_timeout(pair, policy)
    consume(client, "c", own)
    consumers = list(pair.a.queue(NAME).fifo.consumers.values())
    assert [int(consumer.locks.timeout_ms) for consumer in consumers] == [wanted]


def set_timeout(pair: Pair, timeout_ms: int) -> None:
    """Have a policy say how long consumers may hold a message."""
    definition = {"consumer-timeout": timeout_ms}
    pair.a.node.store.submit(SetPolicy("/", "p", False, ".*", "queues", 0, definition), None)
    pair.settle(20)


@pytest.mark.rule("CT-06", "CT-15")
@pytest.mark.parametrize(
    ("before", "after", "cancels"), [(60_000, SHORT_MS, False), (SHORT_MS, 60_000, True)]
)
def test_a_policy_that_changes_is_for_consumers_that_come_later(
    before: int, after: int, cancels: bool
) -> None:
    """What a consumer holds, and what it is handed yet, has the time it began with: RabbitMQ's."""
    pair = Pair(alone=True)
    client, publisher = pair.a.client(), pair.a.client()
    declare(client)
    set_timeout(pair, before)
    consume(client, "c")
    publisher.publish_confirmed(NAME, 1)
    pair.until(lambda: len(client.messages) == 1)
    set_timeout(pair, after)
    publisher.publish_confirmed(NAME, 1)
    since = pair.clock.monotonic_ms()
    pair.until(lambda: cancelled(client) or pair.clock.monotonic_ms() - since > 4 * SHORT_MS)
    assert cancelled(client) is cancels
    later = pair.a.client()
    client.ack(2, True)
    consume(later, "later")
    consumers = pair.a.queue(NAME).fifo.consumers
    assert int(consumers[max(consumers)].locks.timeout_ms) == after


@pytest.mark.rule("CT-06", "CT-15")
@pytest.mark.parametrize("where", ["a", "b"])
def test_each_get_has_the_time_that_counts_when_it_comes(where: str) -> None:
    """A policy made it shorter between two gets of one channel: the second is closed for, alone."""
    pair = Pair()
    declare(pair.a.client())
    set_timeout(pair, 60_000)
    pair.until(lambda: pair.b.knows(NAME))
    pair.a.client().publish_confirmed(NAME, 3)
    client, settles = pair.stations[where].client(), pair.stations[where].client()
    assert client.get(NAME) is not None
    assert settles.get(NAME) is not None
    set_timeout(pair, SHORT_MS)
    assert client.get(NAME) is not None
    pair.until(lambda: closed(client))
    assert f"Timeout value used: {SHORT_MS} ms" in client.methods[-1].reply_text
    pair.until(lambda: pair.a.queue(NAME).ready_count() == 2)
    assert not closed(settles), "it has its minute"


@pytest.mark.rule("CT-08")
def test_a_node_says_what_counts_where_nobody_else_does() -> None:
    pair = Pair(
        alone=True, configure=lambda settings: setattr(settings, "consumer_timeout_ms", SHORT_MS)
    )
    client, publisher = pair.a.client(), pair.a.client()
    declare(client)
    consume(client, "c")
    publisher.publish_confirmed(NAME, 1)
    pair.until(lambda: cancelled(client))
    assert pair.a.queue(NAME).ready_count() == 1


@pytest.mark.rule("CT-19")
def test_a_message_is_held_for_long_and_nothing_has_to_renew_that() -> None:
    """Other brokers take a message back after a minute, or five at most, that nobody renews."""
    pair = Pair(alone=True)
    client, other = pair.a.client(), pair.a.client()
    declare(client)
    consume(client, "c")
    pair.a.client().publish_confirmed(NAME, 1)
    pair.until(lambda: len(client.messages) == 1)
    consume(other, "other")
    for _ in range(29):
        pair.clock.advance(60_000)
        pair.settle(4)
    assert not cancelled(client) and not other.messages
    client.ack(1)
    pair.until(lambda: pair.a.queue(NAME).counts().held == 0)
    assert pair.a.queue(NAME).ready_count() == 0


@pytest.mark.rule("CT-03", "CT-14")
def test_the_next_one_is_active() -> None:
    """Who held a message for too long gets no other, and a queue with one consumer goes on."""
    pair = Pair(alone=True)
    client, other, publisher = pair.a.client(), pair.a.client(), pair.a.client()
    declare(client, **{"x-single-active-consumer": True})
    consume(client, "c", SHORT_MS)
    publisher.publish_confirmed(NAME, 1)
    pair.until(lambda: len(client.messages) == 1)
    pair.until(lambda: cancelled(client))
    consume(other, "other", 60_000)
    pair.until(lambda: other.bodies() == [b"1"])
    publisher.publish_confirmed(NAME, 1)
    pair.until(lambda: len(other.messages) == 2)
    assert len(client.messages) == 1


def test_a_get_that_is_not_settled_closes_its_channel() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, **{"x-consumer-timeout": SHORT_MS})
    client.publish_confirmed(NAME, 1)
    assert client.get(NAME) is not None
    pair.until(lambda: isinstance(client.methods[-1], spec.ChannelClose))
    assert f"Timeout value used: {SHORT_MS} ms" in client.methods[-1].reply_text
    pair.until(lambda: pair.a.queue(NAME).ready_count() == 1)


def test_a_cluster_of_two_releases_has_none() -> None:
    pair = Pair(configure=lambda settings: setattr(settings, "cluster_version_max", 3))
    client = pair.a.client()
    declare(client)
    assert isinstance(consume(client, "c"), spec.BasicConsumeOk)
    assert [c.locks for c in pair.a.queue(NAME).fifo.consumers.values()] == [None]
    refused = consume(client, "timed", 5_000)
    assert isinstance(refused, spec.ChannelClose)
    assert "this needs cluster version 4" in refused.reply_text


def cut_off(pair: Pair, until: Callable[[], bool]) -> None:
    """What comes of the queue on `a` until then node `b` hears of as a state."""
    leading = pair.a.node.cluster.members[int(pair.a.record(NAME).group_id)]
    leading.log.keep_recent(0)
    pair.withheld_group = int(leading.group_id)
    pair.withheld["a", "b"] = []
    pair.until(until)
    index = int(leading.applied_index)
    leading.snapshot()
    pair.until(lambda: int(leading.log.snapshot_index) >= index)
    pair.withheld.clear()
    pair.cut("a", "b")


def polled(count: int) -> tuple[Pair, Client]:
    """A client of `b`, which holds nothing of the queue, with so many messages of three."""
    pair = Pair()
    declare(pair.a.client(), **{"x-consumer-timeout": SHORT_MS})
    pair.a.client().publish_confirmed(NAME, 3)
    pair.until(lambda: pair.b.knows(NAME))
    client = pair.b.client()
    for _ in range(count):
        assert client.get(NAME) is not None
    return pair, client


@pytest.mark.rule("CT-11")
@pytest.mark.parametrize("acked", (False, True))
def test_a_get_whose_node_gets_a_state_closes_its_channel_all_the_same(acked: bool) -> None:
    """Of two messages the client may have acked the first one."""
    pair, client = polled(2)
    if acked:
        client.ack(1)
    cut_off(pair, lambda: pair.a.queue(NAME).counts().held == 0)
    pair.until(lambda: len(client.methods) > 0)
    (closing,) = client.methods
    assert isinstance(closing, spec.ChannelClose)
    assert f"Timeout value used: {SHORT_MS} ms" in closing.reply_text
    assert pair.a.queue(NAME).ready_count() == 3 - acked


@pytest.mark.parametrize("more", (False, True))
def test_a_channel_that_settles_in_time_stays_open(more: bool) -> None:
    """Its ack is within the state, perhaps with another poll whose ids begin anew."""
    pair, client = polled(1)
    client.ack(1)
    since = pair.clock.monotonic_ms()
    polls = [spec.BasicGet(0, NAME, False)] * more

    def over() -> bool:
        passed = pair.clock.monotonic_ms() - since
        if polls and passed > SHORT_MS // 2:
            client.send(polls.pop())
        return passed > SHORT_MS * 5 // 4

    cut_off(pair, over)
    pair.until(lambda: len(client.messages) == more)
    for got in client.messages:
        assert got.body == b"2"
        client.ack(got.tag)
    pair.until(lambda: pair.a.queue(NAME).counts().held == 0)
    pair.settle(20)
    assert not client.methods


def drops_its_state(pair: Pair, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Node `b` is fed something that is damaged, and so has nothing of the queue any more."""
    damaged: list[bytes] = []

    def damage(message: bytes) -> bytes:
        if message[0] == kinds.FEED and b"WRB1" in message and not damaged:
            damaged.append(message)
            meanwhile()
            at = message.index(b"WRB1") + 40
            first = int.from_bytes(message[at : at + 8], "little") + 1
            return sealed(message[:at] + first.to_bytes(8, "little") + message[at + 8 : -4])
        return message

    pair.damage["a", "b"] = damage
    pair.a.client().publish_confirmed(NAME, 1)
    pair.until(lambda: len(pair.refused) == 1)


def test_a_state_that_is_dropped_closes_no_channel() -> None:
    """Its node has nothing for a moment; nothing went back."""
    pair, client = polled(1)
    drops_its_state(pair)
    pair.until(lambda: pair.b.queue(NAME).counts() is not None)
    client.ack(1)
    pair.until(lambda: pair.a.queue(NAME).counts().held == 0)
    assert not client.methods


@pytest.mark.rule("CT-11")
def test_what_times_out_while_its_node_has_no_state_closes_its_channel_all_the_same() -> None:
    """What the next state says is compared with the last one that the node had."""
    pair, client = polled(1)

    def withhold() -> None:
        pair.withheld_group = int(pair.a.record(NAME).group_id)
        pair.withheld["a", "b"] = []

    drops_its_state(pair, withhold)
    assert pair.b.queue(NAME).counts() is None, "it does not say that the queue is empty"
    pair.until(lambda: pair.a.queue(NAME).counts().held == 0)
    pair.withheld.clear()
    pair.cut("a", "b")
    pair.until(lambda: len(client.methods) > 0)
    (closing,) = client.methods
    assert isinstance(closing, spec.ChannelClose)
    assert f"Timeout value used: {SHORT_MS} ms" in closing.reply_text


def begins_with_nothing(pair: Pair) -> None:
    """The copy on `c` gave its log up for a snapshot, no more of which comes; it hears nothing."""
    group_id = int(pair.a.record(NAME).group_id)
    member = pair.stations["c"].node.cluster.members[group_id]
    pair.withheld_group = group_id
    pair.withheld["a", "c"] = []
    transfers = pair.stations["c"].node.cluster.transfers
    given = offer(member, "a", "c", int(member.log.last_index) + 9)
    transfers.accept(member, AcceptSnapshot(given))
    assert member.log.incomplete
    lost = transfer.snapshot_frame(group_id, transfer.LOST, given.index).getvalue()
    transfers.received("a", member, sealed(lost))
    assert not member.log.incomplete and member.applied_index == 0


def holding_on_a_copy(timeout_ms: int) -> tuple[Pair, Client, Got]:
    """Three nodes with a copy each; a client of `c` holds one of three messages.

    The node `b` has a snapshot of what was before that.
    """
    pair = Pair()
    c = pair.add("c")
    arguments = {"x-consumer-timeout": timeout_ms, "x-quorum-initial-group-size": 3}
    declare(pair.a.client(), **arguments)
    pair.a.client().publish_confirmed(NAME, 3)
    pair.until(lambda: c.knows(NAME) and c.queue(NAME).ready_count() == 3)
    snapshot_on(pair.b)
    client = c.client()
    got = client.get(NAME)
    assert got is not None
    group_id = int(pair.a.record(NAME).group_id)
    members = [station.node.cluster.members[group_id] for station in pair.stations.values()]
    pair.until(lambda: len({int(member.applied_index) for member in members}) == 1)
    return pair, client, got


def snapshot_on(station: Station) -> None:
    """Have a copy snapshot what it has, and hand out no entries from before."""
    member = station.node.cluster.members[int(station.record(NAME).group_id)]
    member.log.keep_recent(0)
    index = int(member.applied_index)
    member.snapshot()
    station.pair.until(lambda: int(member.log.snapshot_index) >= index)


@pytest.mark.rule("CT-11")
def test_what_times_out_while_a_copy_has_nothing_closes_its_channel_all_the_same() -> None:
    pair, client, _ = holding_on_a_copy(SHORT_MS)
    begins_with_nothing(pair)
    pair.until(lambda: pair.a.queue(NAME).counts().held == 0)
    snapshot_on(pair.a)
    pair.a.client().publish_confirmed(NAME, 1)
    pair.withheld.clear()
    pair.cut("a", "c")
    pair.until(lambda: len(client.methods) > 0)
    (closing,) = client.methods
    assert isinstance(closing, spec.ChannelClose)
    assert f"Timeout value used: {SHORT_MS} ms" in closing.reply_text


def test_an_older_state_closes_no_channel() -> None:
    """A copy that has nothing gets one from before a client got its message."""
    pair, client, got = holding_on_a_copy(3_600_000)
    begins_with_nothing(pair)
    group_id = int(pair.a.record(NAME).group_id)
    pair.a.node.queue_members.transfer(group_id, "b")
    leading = pair.b.node.cluster.members[group_id]
    pair.until(leading.leads)
    pair.withheld.clear()
    pair.cut("a", "c")
    member = pair.stations["c"].node.cluster.members[group_id]
    pair.until(lambda: member.applied_index == leading.applied_index > 0)
    client.ack(got.tag)
    pair.until(lambda: pair.a.queue(NAME).counts().held == 0)
    assert not client.methods


@pytest.mark.rule("CT-11")
def test_what_times_out_while_its_body_is_fetched_closes_its_channel_all_the_same() -> None:
    """The client has not seen it, and must not get it any more."""
    pair, client = polled(0)
    group_id = int(pair.a.record(NAME).group_id)
    pair.b.client().declare(NAME, passive=True, kind="quorum", size=1)
    bodies: list[bytes] = []

    def lost(message: bytes) -> bytes:
        if message[0] == kinds.BODIES:
            bodies.append(message)
            # The same message as if it had been asked of somebody else.
            return sealed(message[:9] + bytes(8) + message[17:-4])
        return message

    pair.damage["a", "b"] = lost
    client.send(spec.BasicGet(0, NAME, False))
    pair.until(lambda: len(bodies) > 0)
    cut_off(pair, lambda: pair.a.queue(NAME).counts().held == 0)
    assert group_id == pair.withheld_group
    pair.until(lambda: len(client.methods) > 0)
    (closing,) = client.methods
    assert isinstance(closing, spec.ChannelClose)
    assert f"Timeout value used: {SHORT_MS} ms" in closing.reply_text
    del pair.damage["a", "b"]
    pair.settle(200)
    assert not client.messages


def test_a_channel_is_told_before_it_is_given_the_same_again() -> None:
    """By another consumer of its own: the first one was cancelled, and cannot be once more."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client)
    consume(client, "first", SHORT_MS)
    pair.a.client().publish_confirmed(NAME, 1)
    pair.until(lambda: len(client.messages) == 1)
    assert isinstance(client.call(spec.BasicCancel("first", False)), spec.BasicCancelOk)
    consume(client, "second", 60_000)
    pair.until(lambda: isinstance(client.methods[-1], spec.ChannelClose))
    assert client.methods[-1].reply_code == 406
    assert client.bodies() == [b"1"], "what comes back was not given to it"
    pair.until(lambda: pair.a.queue(NAME).counts().ready == 1)
    assert pair.a.queue(NAME).counts().consumers == 0
