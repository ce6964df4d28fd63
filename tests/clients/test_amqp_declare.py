"""Declaring queues: what they are, again, passively, exclusively, and what is refused."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.clients.fixtures import Connect, Names, Raw
from tests.clients.support import UNICODE, Inbox, eventually, get, holds, refused

QUORUM = {"x-queue-type": "quorum"}


def gone(connect: Connect, queue: str) -> bool:
    """Whether a queue is not there."""
    channel = connect().channel()
    try:
        channel.queue_declare(queue, passive=True)
    except ChannelClosedByBroker as reply:
        assert reply.reply_code == 404
        return True
    channel.connection.close()
    return False


@pytest.mark.rule("PROP-06", "PROP-07", "QQ-02", "QQ-03")
def test_declare_again_changes_nothing(channel: BlockingChannel, queue: str, kind: str) -> None:
    for body in (b"1", b"2"):
        channel.basic_publish("", queue, body)
    holds(channel, queue, 2)
    reply = channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    assert (reply.method.queue, reply.method.message_count) == (queue, 2)
    assert reply.method.consumer_count == 0


@pytest.mark.rule("PROP-01", "PROP-08")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"durable": False}, 406),
        ({"auto_delete": True}, 406),
        ({"arguments": {"x-queue-type": "other"}}, 406),
        ({"exclusive": True}, 405),
    ],
)
def test_declare_otherwise_is_refused(
    channel: BlockingChannel, queue: str, kind: str, change: dict[str, object], code: int
) -> None:
    if "arguments" in change:
        change = {"arguments": {"x-queue-type": "quorum" if kind == "classic" else "classic"}}
    wanted = {"durable": True, "arguments": {"x-queue-type": kind}, **change}
    text = "PRECONDITION_FAILED - " if code == 406 else "cannot obtain exclusive access"
    with refused(code, text):
        channel.queue_declare(queue, **wanted)


def test_passive_declare_of_nothing(channel: BlockingChannel, names: Names) -> None:
    queue = names.queue()
    with refused(404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"):
        channel.queue_declare(queue, passive=True)


@pytest.mark.rule("NAME-03")
def test_reserved_prefix(channel: BlockingChannel) -> None:
    with refused(403, "queue name 'amq.mine' contains reserved prefix 'amq.*'"):
        channel.queue_declare("amq.mine")


@pytest.mark.rule("NAME-01", "NAME-04", "NAME-05")
def test_server_named_and_remembered(channel: BlockingChannel) -> None:
    first = channel.queue_declare("", exclusive=True).method.queue
    second = channel.queue_declare("", exclusive=True).method.queue
    assert first != second and first.startswith("amq.gen-") and second.startswith("amq.gen-")
    channel.queue_bind("", "amq.direct", first)
    channel.basic_publish("amq.direct", first, b"to the last named")
    assert get(channel, second)[2] == b"to the last named"


@pytest.mark.rule("NAME-07", "QQ-06", "QQ-08", "DUR-07")
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"durable": False}, "invalid property 'non-durable' for queue"),
        ({"exclusive": True}, "invalid property 'exclusive-owner' for queue"),
        ({"auto_delete": True}, "invalid property 'auto-delete' for queue"),
        ({"queue": ""}, "Cannot declare a server-named queue for type"),
    ],
)
def test_what_a_quorum_queue_cannot_be(
    channel: BlockingChannel, names: Names, options: dict[str, object], text: str
) -> None:
    wanted = {"queue": names.queue(), "durable": True, **options}
    with refused(406, text):
        channel.queue_declare(arguments=QUORUM, **wanted)


@pytest.mark.rule("NAME-02")
def test_unicode_name(channel: BlockingChannel, names: Names, kind: str) -> None:
    queue = names.queue(UNICODE)
    reply = channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    assert reply.method.queue == UNICODE
    channel.basic_publish("", queue, b"x")
    method, _, _ = get(channel, queue)
    assert method.routing_key == UNICODE


@pytest.mark.rule("PROP-03", "DUR-11", "DUR-12")
def test_exclusive_belongs_to_its_connection(connect: Connect, names: Names) -> None:
    queue = names.queue()
    owner = connect()
    owner.channel().queue_declare(queue, exclusive=True)
    owner.channel().queue_declare(queue, exclusive=True)  # the same connection may
    other = connect()
    text = f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}'"
    with refused(405, text):
        other.channel().basic_consume(queue, lambda *_: None)
    with refused(405, text):
        other.channel().queue_purge(queue)
    with refused(405, text):
        other.channel().queue_delete(queue)
    owner.close()
    eventually(lambda: gone(connect, queue))


@pytest.mark.rule("DUR-12", "PROP-03")
def test_exclusive_goes_when_the_socket_breaks(connect: Connect, names: Names, raw: Raw) -> None:
    queue = names.queue()
    owner = raw().open(channels=[1])
    owner.ask(1, "queue.declare", queue=queue, exclusive=True)
    owner.socket.close()  # no close handshake
    eventually(lambda: gone(connect, queue))


@pytest.mark.rule("PROP-04", "DUR-09", "DUR-10")
@pytest.mark.parametrize("end", ["cancel", "channel", "connection"])
def test_auto_delete(connect: Connect, names: Names, end: str) -> None:
    queue = names.queue()
    connection = connect()
    channel = connection.channel()
    channel.queue_declare(queue, durable=True, auto_delete=True)
    channel.basic_get(queue)  # a get is no consumer
    assert not gone(connect, queue)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    channel.basic_cancel(first.tag)
    assert not gone(connect, queue)
    if end == "cancel":
        channel.basic_cancel(second.tag)
    elif end == "channel":
        channel.close()
    else:
        connection.close()
    eventually(lambda: gone(connect, queue))


def test_transient_non_exclusive_is_accepted(channel: BlockingChannel, names: Names) -> None:
    """Celery and Kombu declare such queues."""
    queue = names.queue()
    channel.queue_declare(queue, durable=False)
    channel.basic_publish("", queue, b"x")
    assert get(channel, queue)[2] == b"x"


def test_nowait_declares(names: Names, kind: str, raw: Raw) -> None:
    client, queue = raw().open(channels=[1]), names.queue()
    arguments = {"x-queue-type": kind}
    client.send(1, "queue.declare", queue=queue, durable=True, nowait=True, arguments=arguments)
    client.send(1, "queue.bind", queue=queue, exchange="amq.direct", routing_key=queue, nowait=True)
    assert client.ask(1, "queue.declare", queue=queue, passive=True).args["queue"] == queue
    client.send(1, "queue.purge", queue=queue, nowait=True)
    client.send(1, "queue.delete", queue=queue, nowait=True)
    reply = client.call(1, "queue.declare", queue=queue, passive=True)
    assert reply.args["reply_code"] == 404
