"""kombu against the broker: what Celery stands on (py-amqp, AMQPLAIN or PLAIN, SimpleQueue)."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import kombu
import pytest
from amqp.exceptions import NotFound

from tests.clients.fixtures import Names
from tests.clients.support import BODY_SIZES, UNICODE, WAIT_S, body_of


@pytest.fixture
def connection(amqp_address: tuple[str, int], names: Names) -> Iterator[kombu.Connection]:
    """A kombu connection."""
    host, port = amqp_address
    with kombu.Connection(
        f"amqp://guest:guest@{host}:{port}//", transport_options={"confirm_publish": True}
    ) as opened:
        yield opened


def declared(names: Names, kind: str, channel: object) -> kombu.Queue:
    """An exchange with a queue bound to it."""
    queue = kombu.Queue(
        names.queue(),
        kombu.Exchange(names.exchange(), "direct", durable=True),
        routing_key="work",
        durable=True,
        queue_arguments={"x-queue-type": kind},
    )
    queue(channel).declare()
    return queue


@pytest.mark.rule("QQ-03")
def test_tasks_as_celery_sends_them(connection: kombu.Connection, names: Names, kind: str) -> None:
    queue = declared(names, kind, connection.default_channel)
    producer = connection.Producer(serializer="json")
    for n in range(10):
        producer.publish(
            {"task": "add", "args": [n, n]},
            exchange=queue.exchange,
            routing_key="work",
            headers={"id": str(n), "nested": {"a": [1, 2]}, "none": None},
            correlation_id=str(n),
            priority=0,
            delivery_mode=2,
        )
    got = []

    def receive(body: object, message: kombu.Message) -> None:
        got.append((body, message.headers["id"], message.headers["nested"]))
        message.ack()

    with connection.Consumer(queue, callbacks=[receive], prefetch_count=4):
        while len(got) < 10:
            connection.drain_events(timeout=WAIT_S)
    assert got == [({"task": "add", "args": [n, n]}, str(n), {"a": [1, 2]}) for n in range(10)]


def test_bodies(connection: kombu.Connection, names: Names, kind: str) -> None:
    queue = declared(names, kind, connection.default_channel)
    producer = connection.Producer()
    bound = queue(connection.default_channel)
    for size in BODY_SIZES:
        producer.publish(
            body_of(size), exchange=queue.exchange, routing_key="work",
            content_type="application/octet-stream", content_encoding="binary",
        )  # fmt: skip
        message = bound.get()
        assert message is not None and (message.body or b"") == body_of(size)
        message.ack()


def test_simple_queue_and_requeue(connection: kombu.Connection, names: Names) -> None:
    simple = connection.SimpleQueue(names.queue())
    names.exchange(simple.queue.exchange.name)
    simple.put({"n": 1})
    message = simple.get(timeout=WAIT_S)
    message.requeue()
    message = simple.get(timeout=WAIT_S)
    assert (message.payload, message.delivery_info["redelivered"]) == ({"n": 1}, True)
    message.reject()
    with pytest.raises(simple.Empty):
        simple.get(block=False)
    simple.close()


def test_event_queues_of_celery(connection: kombu.Connection, names: Names) -> None:
    """pidbox and events: transient, auto-delete, not exclusive, with expiry left out."""
    exchange = kombu.Exchange(names.exchange(), "fanout", durable=False, auto_delete=True)
    queue = kombu.Queue(names.queue(), exchange, durable=False, auto_delete=True)
    seen: list[object] = []

    def receive(body: object, message: kombu.Message) -> None:
        seen.append(body)

    with connection.Consumer(queue, callbacks=[receive], no_ack=True):
        connection.Producer().publish("ping", exchange=exchange)
        while not seen:
            connection.drain_events(timeout=WAIT_S)
    assert seen == ["ping"]


def test_global_qos_as_celery_sets_it(connection: kombu.Connection, names: Names) -> None:
    """Celery calls basic.qos again and again with global set."""
    queue = declared(names, "classic", connection.default_channel)
    channel = connection.default_channel
    got: list[object] = []
    consumer = connection.Consumer(queue, callbacks=[lambda body, message: got.append(message)])
    channel.basic_qos(0, 1, True)
    with consumer:
        channel.basic_qos(0, 4, True)
        for n in range(4):
            connection.Producer().publish(n, exchange=queue.exchange, routing_key="work")
        while len(got) < 1:
            connection.drain_events(timeout=WAIT_S)


def test_unicode_and_missing(connection: kombu.Connection, names: Names) -> None:
    simple = connection.SimpleQueue(names.queue(names.exchange(UNICODE)))
    simple.put("ü")
    assert simple.get(timeout=WAIT_S).payload == "ü"
    simple.close()
    with pytest.raises(NotFound):
        connection.channel().queue_declare("t-nothing-there", passive=True)


def test_heartbeat_of_py_amqp(amqp_address: tuple[str, int]) -> None:
    host, port = amqp_address
    with kombu.Connection(f"amqp://guest:guest@{host}:{port}//", heartbeat=2) as connection:
        connection.connect()
        for _ in range(6):
            with pytest.raises(socket.timeout):
                connection.drain_events(timeout=0.5)
            connection.heartbeat_check()
        connection.default_channel.basic_qos(0, 1, False)


def test_rejected_tasks_die_and_delayed_ones_come_back(
    connection: kombu.Connection, names: Names, kind: str
) -> None:
    """A consumer that rejects; tasks that wait in a queue without consumers until they expire."""
    channel = connection.default_channel

    def declared(dead_letters: kombu.Queue | None = None) -> kombu.Queue:
        arguments = {"x-queue-type": kind}
        if dead_letters is not None:
            arguments["x-dead-letter-exchange"] = ""
            arguments["x-dead-letter-routing-key"] = dead_letters.name
        queue = kombu.Queue(names.queue(), durable=True, queue_arguments=arguments)
        queue(channel).declare()
        return queue

    dead = declared()
    work = declared(dead)
    later = declared(work)
    got: list[kombu.Message] = []

    def receive(body: object, message: kombu.Message) -> None:
        got.append(message)
        if body == "bad":
            message.reject()
        else:
            message.ack()

    producer = connection.Producer()
    with connection.Consumer(work, callbacks=[receive]):
        producer.publish("bad", routing_key=work.name)
        producer.publish("later", routing_key=later.name, expiration=0.2)
        while len(got) < 2:
            connection.drain_events(timeout=WAIT_S)
    assert {message.payload for message in got} == {"bad", "later"}
    for message in got:
        if message.payload == "later":
            assert message.headers["x-death"][0]["reason"] == "expired"
            assert message.headers["x-death"][0]["original-expiration"] == "200"
    end: kombu.Message | None = None
    with connection.SimpleQueue(dead) as simple:
        end = simple.get(timeout=WAIT_S)
        end.ack()
    assert end.payload == "bad"
    assert end.headers["x-death"][0]["reason"] == "rejected"
