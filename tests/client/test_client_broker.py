"""The client against a running broker.

`WARREN_TEST_BROKER=host:port` runs these against another one, such as a real RabbitMQ.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.support.broker import Broker
from warren.client import PERSISTENT, Connection, Delivery, connect
from warren.client.channel import Channel
from warren.client.table import Tables
from warren.wire.amqp091.errors import ChannelException, ConnectionException
from warren.wire.amqp091.properties import Properties

KINDS = ["classic", "quorum"]


@pytest.fixture
def connection(broker: Broker) -> Iterator[Connection]:
    with connect(broker.url, "client test") as opened:
        yield opened


@pytest.fixture(params=KINDS)
def queue(connection: Connection, request: pytest.FixtureRequest) -> Iterator[str]:
    """A durable queue of each type."""
    name = f"client.{request.param}.{uuid.uuid4().hex}"
    channel = connection.channel()
    counts = channel.queue_declare(name, durable=True, arguments={"x-queue-type": request.param})
    assert counts == (name, 0, 0)
    yield name
    connection.channel().queue_delete(name)


def receive(channel: Channel, count: int) -> list[Delivery]:
    """This many deliveries."""
    deliveries: list[Delivery] = []
    while len(deliveries) < count:
        batch = channel.receive(count - len(deliveries), 10)
        assert batch, f"only {len(deliveries)} of {count} deliveries"
        deliveries += batch
    return deliveries


def test_publish_many_and_consume(connection: Connection, queue: str) -> None:
    channel = connection.channel()
    bodies = [b"%d" % number for number in range(25_000)]
    assert channel.publish_many("", queue, bodies, PERSISTENT) == []
    channel.qos(500)
    tag = channel.consume(queue)
    seen: list[bytes] = []
    while len(seen) < len(bodies):
        batch = channel.receive(1000, 10)
        assert batch
        seen += [delivery.body for delivery in batch]
        channel.ack(batch[-1].delivery_tag, multiple=True)
    assert seen == bodies
    channel.cancel(tag)
    assert channel.receive(1, 0) == []
    assert connection.channel().queue_declare(queue, passive=True).messages == 0


def test_get_and_settle(connection: Connection, queue: str) -> None:
    channel = connection.channel()
    properties = Properties(
        content_type="text/plain",
        headers={"text": "é", "number": 7, "list": [True, None]},
        delivery_mode=2,
        message_id="m",
        timestamp=1_700_000_000,
    )
    channel.publish_many("", queue, [b"one", b"", b"x" * 1_000_000], properties.encode())
    first = channel.get(queue)
    assert first is not None
    assert (first.body, first.redelivered, first.remaining) == (b"one", False, 2)
    assert (first.exchange, first.routing_key) == ("", queue)
    # RabbitMQ sorts headers by name.
    assert first.decoded().headers == properties.headers
    assert (first.decoded().message_id, first.decoded().delivery_mode) == ("m", 2)
    assert first.decoded().timestamp == 1_700_000_000
    channel.reject(first.delivery_tag)
    again = receive_one(channel, queue)
    assert (again.body, again.redelivered) == (b"one", True)
    channel.ack(again.delivery_tag)
    assert receive_one(channel, queue).body == b""
    last = receive_one(channel, queue)
    assert last.body == b"x" * 1_000_000
    channel.nack(last.delivery_tag, multiple=True, requeue=False)
    assert channel.get(queue) is None


def receive_one(channel: Channel, queue: str) -> Delivery:
    """One message by `get`."""
    delivery = channel.get(queue)
    assert delivery is not None
    return delivery


def test_exchanges_and_returns(connection: Connection, queue: str) -> None:
    channel = connection.channel()
    exchange = f"client.{uuid.uuid4().hex}"
    channel.exchange_declare(exchange, "topic", durable=True)
    channel.queue_bind(queue, exchange, "orders.#")
    assert channel.publish_many(exchange, "orders.new", [b"in"]) == []
    assert channel.publish_many(exchange, "else", [b"out"], mandatory=True) == []
    returned = channel.returned.pop()
    assert (returned.code, returned.text, returned.body) == (312, "NO_ROUTE", b"out")
    assert (returned.exchange, returned.routing_key) == (exchange, "else")
    assert receive_one(channel, queue).body == b"in"
    channel.queue_unbind(queue, exchange, "orders.#")
    assert channel.publish_many(exchange, "orders.new", [b"lost"]) == []
    channel.exchange_delete(exchange)
    assert channel.get(queue) is None


def test_purge_and_delete(connection: Connection) -> None:
    channel = connection.channel()
    counts = channel.queue_declare(exclusive=True)
    assert counts.name.startswith("amq.gen-")
    channel.publish_many("", counts.name, [b"x"] * 5)
    assert channel.queue_purge(counts.name) == 5
    channel.publish_many("", counts.name, [b"x"] * 3)
    assert channel.queue_delete(counts.name) == 3


def test_errors_have_the_brokers_code_and_text(connection: Connection, broker: Broker) -> None:
    channel = connection.channel()
    with pytest.raises(ChannelException) as caught:
        channel.queue_declare("client.none", passive=True)
    error = caught.value
    assert str(error) == "NOT_FOUND - no queue 'client.none' in vhost '/'"
    assert (error.code, error.class_id, error.method_id) == (404, 50, 10)
    channel = connection.channel()
    channel.confirm_select()
    channel.publish("client.nowhere", "k", b"x")
    with pytest.raises(ChannelException, match="no exchange 'client.nowhere'"):
        channel.wait_for_confirms()
    with pytest.raises(ConnectionException) as refused:
        connect(broker.url.replace("guest:guest", "guest:wrong"))
    assert refused.value.code == 403
    with pytest.raises(ConnectionException) as unknown:
        connect(broker.url.replace("%2F", "client-none"))
    assert unknown.value.code == 530


def test_a_cancelled_consumer_is_told(connection: Connection) -> None:
    channel = connection.channel()
    name = channel.queue_declare(auto_delete=False, exclusive=True).name
    tag = channel.consume(name)
    connection.channel().queue_delete(name)
    with pytest.raises(Exception, match=f"'{tag}'"):
        channel.receive(1, 10)


def test_tables(connection: Connection, broker: Broker) -> None:
    """Acquire, check out, read, settle and release, on a queue of our own."""
    if not broker.ours:
        pytest.skip("class table is Warren's own")
    channel = connection.channel()
    queue = f"client.table.{uuid.uuid4().hex}"
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    channel.publish_many("", queue, [b"row %d" % number for number in range(100)])
    tables = Tables(connection.channel())
    status = tables.status(queue)
    assert status.ready == 100
    assert sum(last - first + 1 for first, last in status.runs) == 100
    acquired = tables.acquire(queue, "g", 60_000)
    assert acquired.settled == 0
    taken = tables.checkout(queue, "g", acquired.epoch, 0, 60, 0, status.next - 1)
    assert taken.messages == 60
    assert sum(last - first + 1 for first, last in taken.runs) == 60
    assert tables.status(queue, "g").ready == 40
    held = tables.checkouts(queue, "g", 0, taken.number)
    assert [(each.number, each.runs) for each in held] == [(taken.number, taken.runs)]
    first, last = taken.runs[0][0], taken.runs[-1][1]
    batches = tables.read(queue, first, last, 1 << 20)
    assert b"row 0" in batches.data
    assert b"row 59" in batches.data
    assert batches.next > last
    tables.settle(queue, "g", acquired.epoch, taken.number)
    assert tables.checkouts(queue, "g", 0, taken.number) == []
    again = tables.acquire(queue, "g", 60_000)
    assert again.epoch > acquired.epoch
    assert again.settled == taken.number
    rest = tables.checkout(queue, "g", again.epoch, taken.number, 0, 0, status.next - 1)
    assert rest.messages == 40
    tables.release(queue, "g", again.epoch)
    assert tables.status(queue, "g").ready == 40
    with pytest.raises(ChannelException, match="fenced") as caught:
        tables.settle(queue, "g", acquired.epoch, 1)
    assert caught.value.code == 406
    assert channel.queue_delete(queue) == 40
