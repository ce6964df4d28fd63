"""Transactions, confirm mode and direct reply-to."""

from __future__ import annotations

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.clients.fixtures import Connect, Names, Raw
from tests.clients.support import Inbox, depth, eventually, get, holds, refused


def test_commit_publishes_all_or_rollback_none(channel: BlockingChannel, queue: str) -> None:
    channel.tx_select()
    for n in range(3):
        channel.basic_publish("", queue, b"%d" % n)
    assert depth(channel, queue) == 0
    channel.tx_commit()
    holds(channel, queue, 3)
    channel.basic_publish("", queue, b"never")
    channel.tx_rollback()
    channel.tx_commit()
    assert depth(channel, queue) == 3
    assert [get(channel, queue)[2] for _ in range(3)] == [b"0", b"1", b"2"]


def test_closing_rolls_back(connect: Connect, channel: BlockingChannel, queue: str) -> None:
    other = connect()
    transacted = other.channel()
    transacted.tx_select()
    transacted.basic_publish("", queue, b"never")
    transacted.close()
    other.close()
    channel.basic_publish("", queue, b"only")
    holds(channel, queue, 1)
    assert get(channel, queue)[2] == b"only"


def test_acks_wait_for_the_commit(connect: Connect, channel: BlockingChannel, queue: str) -> None:
    for n in range(2):
        channel.basic_publish("", queue, b"%d" % n)
    holds(channel, queue, 2)
    transacted = connect().channel()
    transacted.tx_select()
    first = get(transacted, queue, auto_ack=False)[0].delivery_tag
    second = get(transacted, queue, auto_ack=False)[0].delivery_tag
    transacted.basic_ack(first)
    transacted.tx_commit()
    transacted.basic_ack(second)
    transacted.tx_rollback()
    transacted.close()  # the second was never acknowledged
    holds(channel, queue, 1)
    method, _, body = get(channel, queue)
    assert (body, method.redelivered) == (b"1", True)


def test_returns_come_at_the_commit(raw: Raw) -> None:
    client = raw().open(channels=[1])
    client.ask(1, "tx.select")
    client.publish(1, "", "nobody", b"x", mandatory=True)
    replies = {client.call(1, "tx.commit").name, client.next(1).name}
    assert replies == {"basic.return", "tx.commit-ok"}


def test_modes_exclude_each_other(channel: BlockingChannel) -> None:
    connection = channel.connection
    channel.confirm_delivery()
    with refused(406, "cannot switch from confirm to tx mode"):
        channel.tx_select()
    channel = connection.channel()
    channel.tx_select()
    with refused(406, "cannot switch from tx to confirm mode"):
        channel.confirm_delivery()
    with refused(406, "channel is not transactional"):
        connection.channel().tx_commit()
    with refused(406, "channel is not transactional"):
        connection.channel().tx_rollback()


def test_commit_is_all_in_order(channel: BlockingChannel, queue: str) -> None:
    """A large transaction arrives whole and in order."""
    channel.tx_select()
    sent = [b"%d" % n for n in range(500)]
    for body in sent:
        channel.basic_publish("", queue, body)
    channel.tx_commit()
    holds(channel, queue, 500)
    channel.close()
    with channel.connection.channel() as reader:
        assert [m[2] for m in Inbox(reader, queue, auto_ack=True).take(500)] == sent


def test_direct_reply_to(connect: Connect, names: Names, channel: BlockingChannel) -> None:
    requests = names.queue()
    channel.queue_declare(requests, durable=True)
    client = connect().channel()
    replies = Inbox(client, "amq.rabbitmq.reply-to", auto_ack=True)
    for n in range(3):
        client.basic_publish(
            "", requests, b"%d" % n,
            pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id=str(n)),
        )  # fmt: skip
    for _ in range(3):
        _, props, body = get(channel, requests)
        assert props.reply_to.startswith("amq.rabbitmq.reply-to.")
        channel.queue_declare(props.reply_to, passive=True)
        channel.basic_publish(
            "", props.reply_to, b"re " + body,
            pika.BasicProperties(correlation_id=props.correlation_id),
        )  # fmt: skip
    got = replies.take(3)
    assert [(p.correlation_id, body) for _, p, body in got] == [
        ("0", b"re 0"), ("1", b"re 1"), ("2", b"re 2"),
    ]  # fmt: skip


def test_reply_to_someone_gone(connect: Connect, names: Names, channel: BlockingChannel) -> None:
    requests = names.queue()
    channel.queue_declare(requests, durable=True)
    connection = connect()
    client = connection.channel()
    Inbox(client, "amq.rabbitmq.reply-to", auto_ack=True)
    client.basic_publish("", requests, b"?", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    address = get(channel, requests)[1].reply_to
    connection.close()

    def gone() -> bool:
        probe = channel.connection.channel()
        try:
            probe.queue_declare(address, passive=True)
        except pika.exceptions.ChannelClosedByBroker as reply:
            return bool(reply.reply_code == 404)
        probe.close()
        return False

    eventually(gone)
    channel.basic_publish("", address, b"to nobody")
    channel.queue_declare(requests, passive=True)  # the channel lives


def test_reply_to_needs_its_consumer(channel: BlockingChannel) -> None:
    connection = channel.connection
    properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
    with refused(406, "fast reply consumer does not exist"):
        channel.basic_publish("", "anything", b"?", properties)
        channel.queue_declare("anything", passive=True)
    with refused(406, "reply consumer cannot acknowledge"):
        Inbox(connection.channel(), "amq.rabbitmq.reply-to", auto_ack=False)
