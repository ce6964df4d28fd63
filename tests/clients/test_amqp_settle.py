"""Settling deliveries: ack, nack, reject, recover; what comes back, in which order, how marked."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.clients.fixtures import Connect, Raw
from tests.clients.support import Inbox, get, holds, refused


def hold(channel: BlockingChannel, queue: str, count: int) -> list[int]:
    """Publish messages 0..count-1 and get them all unsettled; return their tags."""
    for n in range(count):
        channel.basic_publish("", queue, b"%d" % n)
    holds(channel, queue, count)
    return [get(channel, queue, auto_ack=False)[0].delivery_tag for _ in range(count)]


def rest(channel: BlockingChannel, queue: str, count: int) -> list[tuple[bytes, bool]]:
    """Take what is ready: bodies and their redelivered flags."""
    holds(channel, queue, count)
    got = [get(channel, queue) for _ in range(count)]
    return [(body, method.redelivered) for method, _, body in got]


@pytest.mark.rule("QQ-28", "QQ-04")
def test_ack_one_and_many(channel: BlockingChannel, queue: str) -> None:
    tags = hold(channel, queue, 6)
    channel.basic_ack(tags[3])
    channel.basic_ack(tags[2], multiple=True)
    channel.basic_nack(tags[5], multiple=True, requeue=True)
    assert rest(channel, queue, 2) == [(b"4", True), (b"5", True)]


def test_ack_all_with_zero(channel: BlockingChannel, queue: str) -> None:
    hold(channel, queue, 3)
    channel.basic_ack(0, multiple=True)
    channel.basic_ack(0, multiple=True)  # nothing left: no error
    channel.close()
    with channel.connection.channel() as again:
        holds(again, queue, 0)


@pytest.mark.rule("ORD-07", "ACK-01")
def test_requeued_come_first_and_marked(channel: BlockingChannel, queue: str) -> None:
    for n in range(4):
        channel.basic_publish("", queue, b"%d" % n)
    holds(channel, queue, 4)
    tags = [get(channel, queue, auto_ack=False)[0].delivery_tag for _ in range(2)]
    channel.basic_nack(tags[1], multiple=True, requeue=True)
    assert rest(channel, queue, 4) == [(b"0", True), (b"1", True), (b"2", False), (b"3", False)]


@pytest.mark.parametrize("way", ["reject", "nack"])
def test_one_requeued_or_dropped(channel: BlockingChannel, queue: str, way: str) -> None:
    tags = hold(channel, queue, 2)
    settle = channel.basic_reject if way == "reject" else channel.basic_nack
    settle(tags[0], requeue=True)
    settle(tags[1], requeue=False)
    assert rest(channel, queue, 1) == [(b"0", True)]
    holds(channel, queue, 0)


def test_recover(channel: BlockingChannel, queue: str) -> None:
    hold(channel, queue, 3)
    channel.basic_recover(requeue=True)
    assert rest(channel, queue, 3) == [(b"0", True), (b"1", True), (b"2", True)]


def test_recover_redelivers_to_the_consumer(channel: BlockingChannel, queue: str) -> None:
    channel.basic_publish("", queue, b"x")
    inbox = Inbox(channel, queue)
    assert not inbox.take(1)[0][0].redelivered
    channel.basic_recover(requeue=True)
    method, _, body = inbox.take(1)[0]
    assert (method.redelivered, body) == (True, b"x")


@pytest.mark.rule("ORD-03", "ACK-01")
@pytest.mark.parametrize("end", ["channel", "connection", "socket"])
def test_unsettled_return_when_the_consumer_goes(
    connect: Connect, raw: Raw, queue: str, end: str
) -> None:
    channel = connect().channel()
    for n in range(5):
        channel.basic_publish("", queue, b"%d" % n)
    holds(channel, queue, 5)
    client = raw().open(channels=[1])
    client.ask(1, "basic.consume", queue=queue)
    deliveries = [client.expect(1, "basic.deliver") for _ in range(5)]
    client.send(1, "basic.ack", delivery_tag=deliveries[1].args["delivery_tag"])
    client.ask(1, "basic.qos", prefetch_count=1)  # the ack has been read
    if end == "channel":
        client.ask(1, "channel.close", reply_code=200)
    elif end == "connection":
        client.close()
    else:
        client.socket.close()
    assert rest(channel, queue, 4) == [(b"0", True), (b"2", True), (b"3", True), (b"4", True)]


@pytest.mark.parametrize("way", ["ack", "ack many", "nack", "reject", "twice"])
def test_unknown_delivery_tag(channel: BlockingChannel, queue: str, way: str) -> None:
    tag = hold(channel, queue, 1)[0]
    if way == "twice":
        channel.basic_ack(tag)
    unknown = tag if way == "twice" else 99
    with refused(406, f"unknown delivery tag {unknown}"):
        if way in ("ack", "twice"):
            channel.basic_ack(unknown)
        elif way == "ack many":
            channel.basic_ack(unknown, multiple=True)
        elif way == "nack":
            channel.basic_nack(unknown)
        else:
            channel.basic_reject(unknown)
        channel.queue_declare(queue, passive=True)  # settling has no answer: look for the close


def test_tags_belong_to_their_channel(channel: BlockingChannel, queue: str) -> None:
    tag = hold(channel, queue, 1)[0]
    other = channel.connection.channel()
    with refused(406, f"unknown delivery tag {tag}"):
        other.basic_ack(tag)
        other.queue_declare(queue, passive=True)
    channel.basic_ack(tag)
    holds(channel, queue, 0)


@pytest.mark.rule("POI-01", "D-17")
def test_quorum_queues_count_attempts(channel: BlockingChannel, queue: str, kind: str) -> None:
    """How often a message came back is one count, and how often its delivery failed another."""
    channel.basic_publish("", queue, b"x")
    seen = []
    for step in ("nack", "reject", "reject"):
        method, props, _ = get(channel, queue, auto_ack=False)
        headers = props.headers or {}
        seen.append((headers.get("x-acquired-count"), headers.get("x-delivery-count")))
        (channel.basic_nack if step == "nack" else channel.basic_reject)(
            method.delivery_tag, requeue=True
        )
    headers = get(channel, queue)[1].headers or {}
    seen.append((headers.get("x-acquired-count"), headers.get("x-delivery-count")))
    if kind == "quorum":
        assert seen == [(None, None), (1, None), (2, 1), (3, 2)]
    else:
        assert seen == [(None, None)] * 4


@pytest.mark.rule("POI-03", "D-04")
def test_quorum_queue_drops_after_twenty_failures(
    channel: BlockingChannel, queue: str, kind: str
) -> None:
    channel.basic_publish("", queue, b"poison")
    for _ in range(21):
        channel.basic_reject(get(channel, queue, auto_ack=False)[0].delivery_tag, requeue=True)
    if kind == "quorum":
        holds(channel, queue, 0)
        assert channel.basic_get(queue)[0] is None
    else:
        assert get(channel, queue)[2] == b"poison"


def test_requeue_storm(channel: BlockingChannel, queue: str) -> None:
    """Nothing is lost or doubled when a whole prefetch goes back again and again."""
    total = 300
    for n in range(total):
        channel.basic_publish("", queue, b"%d" % n)
    holds(channel, queue, total)
    for _ in range(5):
        client_channel = channel.connection.channel()
        inbox = Inbox(client_channel, queue)
        inbox.take(total)
        client_channel.basic_cancel(inbox.tag)
        client_channel.basic_nack(0, multiple=True, requeue=True)
        holds(client_channel, queue, total)
        client_channel.close()
    got = rest(channel, queue, total)
    assert sorted(int(body) for body, _ in got) == list(range(total))
    assert all(redelivered for _, redelivered in got)
