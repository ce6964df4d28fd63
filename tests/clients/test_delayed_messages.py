"""Messages that wait in an exchange of type `x-delayed-message`, as pika sends and gets them."""

from __future__ import annotations

import time

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.clients.fixtures import Connect, Names
from tests.clients.support import eventually
from tests.support.broker import Broker


def delaying(channel: BlockingChannel, exchange: str, queue: str, kind: str) -> None:
    """An exchange whose messages wait, with a queue bound to it."""
    channel.exchange_declare(
        exchange, "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}
    )
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    channel.queue_bind(queue, exchange, "k")
    channel.confirm_delivery()


def publish(channel: BlockingChannel, exchange: str, body: bytes, delay: int | str) -> None:
    """Publish a message that waits; it is confirmed, and does not come back."""
    properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay})
    channel.basic_publish(exchange, "k", body, properties, mandatory=True)


def test_messages_come_when_they_are_due(connect: Connect, names: Names, kind: str) -> None:
    channel = connect().channel()
    exchange, queue = names.exchange(), names.queue()
    delaying(channel, exchange, queue, kind)
    began = time.monotonic()
    publish(channel, exchange, b"later", 900)
    publish(channel, exchange, b"sooner", "300")
    publish(channel, exchange, b"now", -1)
    found: list[tuple[bytes, int, float]] = []

    def next_one() -> bool:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            found.append((body, properties.headers["x-delay"], time.monotonic() - began))
        return len(found) == 3

    eventually(next_one, 30)
    assert [(body, delay) for body, delay, _ in found] == [
        (b"now", -1), (b"sooner", -300), (b"later", -900),
    ]  # fmt: skip
    assert found[1][2] >= 0.29 and found[2][2] >= 0.89


def test_they_wait_on_through_a_kill(private_broker: Broker, kind: str) -> None:
    def opened() -> BlockingChannel:
        parameters = pika.ConnectionParameters(private_broker.host, private_broker.port)
        return pika.BlockingConnection(parameters).channel()

    channel = opened()
    delaying(channel, "x", "q", kind)
    for number in range(20):
        publish(channel, "x", b"%d" % number, 4_000 - 100 * number)
    private_broker.restart(kill=True)
    channel = opened()
    found: list[bytes] = []

    def next_one() -> bool:
        method, _, body = channel.basic_get("q", auto_ack=True)
        if method is not None:
            found.append(body)
        return len(set(found)) == 20

    eventually(next_one, 60)
    assert set(found) == {b"%d" % number for number in range(20)}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": 5}, "'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": "no-such"}, "unknown exchange type 'no-such'"),
        ({"x-delayed-type": "x-delayed-message"}, "can't be used for 'x-delayed-type'"),
        ({"x-delayed-type": "x-recent-history"}, "is not supported yet"),
        ({"x-delayed-type": "x-consistent-hash", "hash-property": "none"}, "Unsupported property"),
    ],
)
def test_what_such_an_exchange_cannot_be(
    connect: Connect, names: Names, arguments: dict[str, object], text: str
) -> None:
    channel = connect().channel()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.exchange_declare(names.exchange(), "x-delayed-message", arguments=arguments)
    assert caught.value.reply_code == 406 and text in caught.value.reply_text
