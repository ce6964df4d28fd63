"""Consuming: tags, exclusive access, automatic acks, cancelling, prefetch, priorities, order."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.clients.fixtures import Connect, Names, Raw
from tests.clients.support import UNICODE, Inbox, eventually, get, holds, refused


def fill(channel: BlockingChannel, queue: str, count: int) -> list[bytes]:
    """Publish 0..count-1 and wait until they are ready."""
    bodies = [b"%d" % n for n in range(count)]
    for body in bodies:
        channel.basic_publish("", queue, body)
    holds(channel, queue, count)
    return bodies


@pytest.mark.rule("ACK-01", "ORD-01", "ORD-06", "QQ-04")
def test_deliveries_in_order_and_unsettled(channel: BlockingChannel, queue: str) -> None:
    bodies = fill(channel, queue, 50)
    inbox = Inbox(channel, queue)
    got = inbox.take(50)
    assert [body for _, _, body in got] == bodies
    assert [method.delivery_tag for method, _, _ in got] == list(range(1, 51))
    assert not any(method.redelivered for method, _, _ in got)
    assert {(m.exchange, m.routing_key, m.consumer_tag) for m, _, _ in got} == {
        ("", queue, inbox.tag)
    }
    holds(channel, queue, 0)  # unsettled ones are not ready
    channel.basic_ack(50, multiple=True)
    channel.close()
    with channel.connection.channel() as again:
        holds(again, queue, 0)


@pytest.mark.rule("ACK-02")
def test_automatic_acks(channel: BlockingChannel, connect: Connect, queue: str) -> None:
    bodies = fill(channel, queue, 20)
    connection = connect()
    inbox = Inbox(connection.channel(), queue, auto_ack=True)
    assert [body for _, _, body in inbox.take(20)] == bodies
    connection.close()
    holds(channel, queue, 0)


def test_consumer_tags(channel: BlockingChannel, queue: str) -> None:
    generated = Inbox(channel, queue).tag
    assert generated
    assert Inbox(channel, queue, consumer_tag=UNICODE).tag == UNICODE
    other = channel.connection.channel()
    Inbox(other, queue, consumer_tag=UNICODE)  # another channel, another name space
    channel.basic_cancel(UNICODE)
    Inbox(channel, queue, consumer_tag=UNICODE)


def test_consumer_tag_reused(raw: Raw, queue: str) -> None:
    client = raw().open(channels=[1, 2])
    client.ask(1, "basic.consume", queue=queue, consumer_tag="ü")
    client.ask(2, "basic.consume", queue=queue, consumer_tag="ü")
    reply = client.call(1, "basic.consume", queue=queue, consumer_tag="ü").args
    assert reply["reply_text"] == "NOT_ALLOWED - attempt to reuse consumer tag 'ü'"
    assert (reply["reply_code"], reply["class_id"], reply["method_id"]) == (530, 60, 20)


def test_server_generates_tags(raw: Raw, queue: str) -> None:
    client = raw().open(channels=[1])
    tags = {client.ask(1, "basic.consume", queue=queue).args["consumer_tag"] for _ in range(3)}
    assert len(tags) == 3 and all(tag.startswith("amq.ctag-") for tag in tags)


def test_exclusive_consumer(channel: BlockingChannel, connect: Connect, names: Names) -> None:
    queue = names.queue()
    channel.queue_declare(queue, durable=True)
    first = Inbox(channel, queue, exclusive=True)
    other = connect()
    with refused(403, f"queue '{queue}' in vhost '/' in exclusive use"):
        Inbox(other.channel(), queue)
    channel.basic_cancel(first.tag)
    Inbox(other.channel(), queue)
    with refused(403, "in exclusive use"):
        Inbox(channel, queue, exclusive=True)


def test_cancel_stops_deliveries_and_keeps_unsettled(channel: BlockingChannel, queue: str) -> None:
    fill(channel, queue, 4)
    channel.basic_qos(prefetch_count=2)
    inbox = Inbox(channel, queue)
    (first, _, _), (second, _, _) = inbox.take(2)
    channel.basic_cancel(inbox.tag)
    channel.basic_ack(first.delivery_tag)
    channel.basic_nack(second.delivery_tag, requeue=True)
    holds(channel, queue, 3)
    bodies = {get(channel, queue)[2] for _ in range(3)}
    assert bodies == {b"1", b"2", b"3"}


@pytest.mark.rule("ACK-04", "QQ-05", "ORD-09")
def test_prefetch_per_consumer(channel: BlockingChannel, queue: str) -> None:
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=3)
    one = Inbox(channel, queue)
    channel.basic_qos(prefetch_count=2)
    two = Inbox(channel, queue)
    got = one.take(3) + two.take(2)
    assert one.quiet() and two.quiet()
    channel.basic_ack(got[0][0].delivery_tag)
    assert len(one.take(1)) == 1
    channel.basic_ack(got[3][0].delivery_tag)
    assert len(two.take(1)) == 1
    assert one.quiet() and two.quiet()


@pytest.mark.rule("D-22")
def test_prefetch_over_the_channel(channel: BlockingChannel, names: Names, is_warren: bool) -> None:
    """Classic queues: a global limit is shared by the channel's consumers.

    RabbitMQ 4.3 denies the feature by default and takes it as a limit for each consumer.
    """
    queue = names.queue()
    channel.queue_declare(queue, durable=True)
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=2, global_qos=True)
    one, two = Inbox(channel, queue), Inbox(channel, queue)
    eventually(lambda: channel.connection.process_data_events(0.05) or one.messages)
    one.quiet()
    count = len(one.messages) + len(two.messages)
    assert count == (2 if is_warren else 4)


@pytest.mark.rule("D-22")
@pytest.mark.rule("QQ-24")
def test_no_prefetch_over_the_channel_for_quorum_queues(
    channel: BlockingChannel, names: Names
) -> None:
    """A limit over the channel is one for each consumer of a quorum queue."""
    queue = names.queue()
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=2, global_qos=True)
    one, two = Inbox(channel, queue), Inbox(channel, queue)
    got = one.take(2) + two.take(2)
    assert one.quiet() and two.quiet()
    channel.basic_ack(got[2][0].delivery_tag)
    assert len(two.take(1)) == 1
    assert one.quiet() and two.quiet()


def test_prefetch_does_not_bind_gets_and_automatic_acks(
    channel: BlockingChannel, queue: str
) -> None:
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=1)
    for _ in range(3):
        get(channel, queue, auto_ack=False)
    inbox = Inbox(channel, queue, auto_ack=True)
    assert len(inbox.take(7)) == 7


@pytest.mark.rule("QQ-20", "PRI-06")
def test_consumer_priorities(channel: BlockingChannel, connect: Connect, queue: str) -> None:
    low_channel = connect().channel()
    low = Inbox(low_channel, queue, arguments={"x-priority": -5})
    channel.basic_qos(prefetch_count=3)
    high = Inbox(channel, queue, arguments={"x-priority": 5})
    for n in range(5):
        channel.basic_publish("", queue, b"%d" % n)
    assert [body for _, _, body in high.take(3)] == [b"0", b"1", b"2"]
    assert [body for _, _, body in low.take(2)] == [b"3", b"4"]


@pytest.mark.rule("ORD-08", "ORD-03")
def test_round_robin(channel: BlockingChannel, connect: Connect, queue: str) -> None:
    """Equal consumers share what comes one by one."""
    inboxes = [Inbox(connect().channel(), queue) for _ in range(3)]
    channel.confirm_delivery()
    for n in range(30):
        channel.basic_publish("", queue, b"%d" % n)
    counts = []
    for inbox in inboxes:
        inbox.take(10)
        counts.append(10 + len(inbox.messages))
    assert counts == [10, 10, 10]


@pytest.mark.rule("ORD-05", "ORD-06")
def test_two_publishers_keep_their_own_order(connect: Connect, raw: Raw, queue: str) -> None:
    clients = [raw().open(channels=[1]) for _ in range(2)]
    for start in range(0, 500, 100):
        for name, client in enumerate(clients):
            client.send_bytes(
                b"".join(
                    client.publish_bytes(1, "", queue, b"%d %d" % (name, n))
                    for n in range(start, start + 100)
                )
            )
    inbox = Inbox(connect().channel(), queue, auto_ack=True)
    got = [tuple(map(int, body.split())) for _, _, body in inbox.take(1000)]
    for name in range(2):
        assert [n for who, n in got if who == name] == list(range(500))


def test_queue_deleted_under_a_consumer(
    channel: BlockingChannel, connect: Connect, queue: str
) -> None:
    consumer = connect().channel()
    cancelled: list[str] = []
    consumer.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    inbox = Inbox(consumer, queue)
    channel.queue_delete(queue)
    eventually(lambda: consumer.connection.process_data_events(0.05) or cancelled)
    assert cancelled == [inbox.tag]


def test_consumer_count(channel: BlockingChannel, connect: Connect, queue: str) -> None:
    def count() -> int:
        consumers: int = channel.queue_declare(queue, passive=True).method.consumer_count
        return consumers

    connection = connect()
    Inbox(connection.channel(), queue)
    Inbox(connection.channel(), queue)
    eventually(lambda: count() == 2)
    connection.close()
    eventually(lambda: count() == 0)


def test_consume_nothing(channel: BlockingChannel, names: Names) -> None:
    queue = names.queue()
    with refused(404, f"no queue '{queue}' in vhost '/'"):
        Inbox(channel, queue)


def test_get_counts_down(channel: BlockingChannel, queue: str) -> None:
    fill(channel, queue, 3)
    left = [channel.basic_get(queue, auto_ack=True)[0].message_count for _ in range(3)]
    assert left == [2, 1, 0]
    assert channel.basic_get(queue) == (None, None, None)


@pytest.mark.rule("QQ-04")
def test_purge_and_delete_count_ready_only(channel: BlockingChannel, queue: str) -> None:
    fill(channel, queue, 5)
    method, _, _ = get(channel, queue, auto_ack=False)
    assert channel.queue_purge(queue).method.message_count == 4
    assert channel.queue_purge(queue).method.message_count == 0
    channel.basic_nack(method.delivery_tag, requeue=True)
    holds(channel, queue, 1)
    assert channel.queue_delete(queue).method.message_count == 1
    assert channel.queue_delete(queue).method.message_count == 0  # not there: no error


def test_delete_conditions_of_classic_queues(channel: BlockingChannel, names: Names) -> None:
    queue = names.queue()
    channel.queue_declare(queue, durable=True)
    fill(channel, queue, 1)
    with refused(406, f"queue '{queue}' in vhost '/' not empty"):
        channel.queue_delete(queue, if_empty=True)
    connection = channel.connection
    channel, consumer = connection.channel(), connection.channel()
    inbox = Inbox(consumer, queue, auto_ack=True)
    inbox.take(1)
    with refused(406, f"queue '{queue}' in vhost '/' in use"):
        channel.queue_delete(queue, if_unused=True)
    consumer.basic_cancel(inbox.tag)
    with connection.channel() as last:
        last.queue_delete(queue, if_unused=True, if_empty=True)


def test_large_backlog_to_a_consumer_and_live_publishes(
    channel: BlockingChannel, connect: Connect, raw: Raw, queue: str
) -> None:
    """A backlog and what comes meanwhile arrive as one sequence."""
    client = raw().open(channels=[1])
    total = 6000
    half = [client.publish_bytes(1, "", queue, b"%d" % n) for n in range(total // 2)]
    client.send_bytes(b"".join(half))
    holds(channel, queue, total // 2)
    consumer = connect().channel()
    consumer.basic_qos(prefetch_count=100)
    got: list[bytes] = []

    def receive(_: object, method: object, __: object, body: bytes) -> None:
        got.append(body)
        if len(got) % 50 == 0:
            consumer.basic_ack(method.delivery_tag, multiple=True)  # type: ignore[attr-defined]

    consumer.basic_consume(queue, receive)
    for n in range(total // 2, total):
        client.publish(1, "", queue, b"%d" % n)
    eventually(lambda: consumer.connection.process_data_events(0.1) or len(got) >= total)
    assert got == [b"%d" % n for n in range(total)]
    holds(channel, queue, 0)
