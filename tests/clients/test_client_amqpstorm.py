"""amqpstorm against the broker: a threaded client with a reader of its own."""

from __future__ import annotations

from collections.abc import Iterator

import amqpstorm
import pytest

from tests.clients.fixtures import Names
from tests.clients.support import BODY_MAX, BODY_SIZES, UNICODE, body_of, eventually


@pytest.fixture
def storm(amqp_address: tuple[str, int], names: Names) -> Iterator[amqpstorm.Channel]:
    """A channel of amqpstorm."""
    host, port = amqp_address
    with amqpstorm.Connection(host, "guest", "guest", port=port, heartbeat=10) as connection:
        yield connection.channel()


@pytest.mark.rule("QQ-03")
def test_publish_get_ack(storm: amqpstorm.Channel, queue: str) -> None:
    storm.confirm_deliveries()
    for size in (*BODY_SIZES, BODY_MAX):
        properties = {"delivery_mode": 2, "headers": {"size": size}}
        assert storm.basic.publish(body_of(size), queue, properties=properties)
        got = storm.basic.get(queue, auto_decode=False)
        assert got is not None
        assert got.body == body_of(size) if size else not got.body
        assert got.properties["headers"] == {"size": size}
        got.ack()


def test_consume_requeue_reject(storm: amqpstorm.Channel, queue: str) -> None:
    for n in range(20):
        storm.basic.publish(str(n), queue)
    storm.basic.qos(prefetch_count=5)
    seen: list[tuple[str, bool]] = []

    def receive(message: amqpstorm.Message) -> None:
        seen.append((message.body, message.redelivered))
        if message.body == "7" and not message.redelivered:
            message.nack(requeue=True)
        elif message.body == "8":
            message.reject(requeue=False)
        else:
            message.ack()

    storm.basic.consume(receive, queue)
    eventually(lambda: storm.process_data_events() or len(seen) >= 21)
    assert sorted(seen, key=lambda s: (int(s[0]), s[1])) == sorted(
        [(str(n), False) for n in range(20)] + [("7", True)], key=lambda s: (int(s[0]), s[1])
    )


def test_returned_message(storm: amqpstorm.Channel) -> None:
    storm.confirm_deliveries()
    with pytest.raises(amqpstorm.AMQPChannelError) as caught:
        storm.basic.publish("x", "nobody", mandatory=True)
        storm.check_for_errors()
    assert caught.value.error_code == 312


def test_unicode(storm: amqpstorm.Channel, names: Names) -> None:
    # The client itself refuses names of queues and exchanges outside ASCII.
    queue, exchange = names.queue(), names.exchange()
    storm.queue.declare(queue, durable=True)
    storm.exchange.declare(exchange, "direct")
    storm.queue.bind(queue, exchange, UNICODE)
    storm.confirm_deliveries()
    assert storm.basic.publish("ü", UNICODE, exchange)
    got = storm.basic.get(queue, no_ack=True)
    assert got is not None and got.body == "ü"


def test_errors(storm: amqpstorm.Channel, names: Names) -> None:
    with pytest.raises(amqpstorm.AMQPChannelError) as caught:
        storm.queue.declare(names.queue(), passive=True)
    assert caught.value.error_code == 404


def test_transaction(storm: amqpstorm.Channel, queue: str) -> None:
    with storm.tx:
        storm.basic.publish("committed", queue)
    got = eventually(lambda: storm.basic.get(queue, no_ack=True))
    assert got.body == "committed"
