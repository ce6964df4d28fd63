"""The firehose: what passes in a vhost that is traced is told of in `amq.rabbitmq.trace`."""

from __future__ import annotations

from typing import Any

import pytest

import warren
import warren.node.firehose as firehose
from tests.admin.host import answered, service_of
from tests.node.pair import Client, Pair
from warren.admin.service.caller import ADMINISTRATOR, Caller
from warren.admin.service.catalogue import OPERATIONS
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import Table

EXCHANGE = "amq.rabbitmq.trace"


def traced(pair: Pair, key: str = "#", queue: str = "traces") -> Client:
    """A client with a queue that is told of what passes."""
    client = pair.a.client()
    client.declare(queue)
    client.call(spec.QueueBind(0, queue, EXCHANGE, key, False, {}))
    pair.a.node.vhosts.tracer_of("/").on = True
    return client


def told(client: Client, queue: str = "traces") -> list[tuple[str, Table, bytes]]:
    """What was told of so far: routing keys, headers, bodies."""
    client.station.pair.settle()
    found = []
    while (got := client.get(queue)) is not None:
        assert isinstance(got.method, spec.BasicGetOk)
        assert got.method.exchange == EXCHANGE
        found.append((got.method.routing_key, got.headers(), got.body))
        client.ack(got.tag)
    return found


def publish(client: Client, exchange: str, key: str, body: bytes, **properties: Any) -> None:
    method = spec.BasicPublish(0, exchange, key, False, False)
    client.outbox += content_frames(1, method, Properties(**properties).encode(), body, 131_072)


def test_publishes_and_deliveries_are_told_of() -> None:
    pair = Pair(alone=True)
    watcher = traced(pair)
    client = pair.a.client()
    client.declare("q")
    client.call(spec.QueueBind(0, "q", "amq.topic", "a.#", False, {}))
    publish(
        client, "amq.topic", "a.b", b"hi", content_type="text/plain", headers={"CC": ["x"], "n": 5},
        delivery_mode=2, priority=3, timestamp=12_345, message_id="m",
    )  # fmt: skip
    publish(client, "amq.direct", "nowhere", b"lost")
    got = client.get("q")
    assert got is not None and got.body == b"hi"
    client.send(spec.BasicNack(got.tag, False, True))
    again = client.get("q")
    assert again is not None and again.redelivered
    properties = {
        "content_type": "text/plain",
        "headers": {"CC": ["x"], "n": 5},
        "delivery_mode": 2,
        "priority": 3,
        "timestamp": 12_345,
        "message_id": "m",
    }
    name = client.end.name()
    shared = {"node": "a", "vhost": "/", "connection": name, "channel": 1, "user": "guest"}
    of_first = {
        **shared, "exchange_name": "amq.topic", "routing_keys": ["a.b", "x"],
        "properties": properties,
    }  # fmt: skip
    of_lost = {
        **shared, "exchange_name": "amq.direct", "routing_keys": ["nowhere"], "properties": {},
        "routed_queues": [],
    }  # fmt: skip
    assert told(watcher) == [
        ("publish.amq.topic", {**of_first, "routed_queues": ["q"]}, b"hi"),
        ("publish.amq.direct", of_lost, b"lost"),
        ("deliver.q", {**of_first, "redelivered": 0}, b"hi"),
        ("deliver.q", {**of_first, "redelivered": 1}, b"hi"),
    ]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_consumers_are_told_of_in_whole_runs(kind: str) -> None:
    pair = Pair(alone=True)
    watcher = traced(pair, "deliver.#")
    client = pair.a.client()
    client.declare("q", kind=kind)
    client.publish_confirmed("q", 20)
    client.consume("q")
    pair.until(lambda: len(client.messages) == 20)
    found = told(watcher)
    assert [body for _, _, body in found] == [b"%d" % (n + 1) for n in range(20)]
    assert {key for key, _, _ in found} == {"deliver.q"}


def test_what_tells_is_not_told_of() -> None:
    pair = Pair(alone=True)
    watcher = traced(pair)
    client = pair.a.client()
    client.declare("q")
    client.publish_confirmed("q", 1)
    # To take it is a delivery of the exchange's own.
    assert [key for key, _, _ in told(watcher)] == ["publish."]
    assert told(watcher) == []


def test_nothing_is_told_of_another_vhost_or_when_it_is_off() -> None:
    pair = Pair(alone=True)
    watcher = traced(pair)
    client = pair.a.client()
    client.declare("q")
    pair.a.node.vhosts.tracer_of("/").on = False
    pair.a.node.vhosts.tracer_of("other").on = True
    client.publish_confirmed("q", 3)
    assert told(watcher) == []
    pair.a.node.vhosts.tracer_of("/").on = True
    client.publish_confirmed("q", 1)
    assert len(told(watcher)) == 1


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_too_much_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firehose, "BACKLOG_BYTES_MAX", 1)
    pair = Pair(alone=True)
    watcher = traced(pair)
    client = pair.a.client()
    client.declare("q")
    client.declare("r")
    # Runs of one read: all but the first wait behind it.
    for name in ("q", "r", "q", "r"):
        publish(client, "", name, b"x")
    client.call(spec.BasicQos(0, 0, False))
    assert len(told(watcher)) + pair.a.node.firehose.missed == 4
    assert pair.a.node.firehose.missed > 0
    (warning,) = [text for text in pair.a.warnings if "traced" in text]
    assert "vhost '/'" in warning


def test_headers_that_would_be_too_large_are_left_out() -> None:
    pair = Pair(alone=True)
    watcher = traced(pair, "publish.#")
    client = pair.a.client()
    client.declare("q")
    publish(client, "", "q", b"body", headers={"much": "x" * 128_000}, message_id="m")
    ((_, headers, body),) = told(watcher)
    assert (headers["properties"], body) == ({"message_id": "m"}, b"body")


def test_what_a_bcc_names_counts_and_is_shown() -> None:
    pair = Pair(alone=True)
    watcher = traced(pair)
    client = pair.a.client()
    client.declare("q")
    client.declare("hidden")
    publish(client, "", "q", b"x", headers={"CC": ["nowhere"], "BCC": ["hidden"]})
    assert client.get("hidden") is not None
    published, delivered = told(watcher)
    for _, headers, _ in (published, delivered):
        assert headers["routing_keys"] == ["q", "nowhere", "hidden"]
        assert headers["properties"] == {"headers": {"CC": ["nowhere"]}}
    assert sorted(str(name) for name in _list(published[1]["routed_queues"])) == ["hidden", "q"]


def test_what_is_published_and_got_over_http_is_told_of() -> None:
    pair = Pair(alone=True)
    watcher = traced(pair)
    watcher.declare("q")
    service = service_of(pair)
    message = {"vhost": "/", "exchange": "", "routing_key": "q", "body": b"one"}
    caller = Caller("guest", frozenset([ADMINISTRATOR]))

    def ask(name: str, arguments: dict[str, Any]) -> None:
        async def asked() -> None:
            await OPERATIONS[name].asked(service, caller, arguments)

        answered(pair, asked)

    ask("publish_message", message)
    for fate in ("returned", "settled"):
        ask("get_messages", {"vhost": "/", "queue": "q", "fate": fate})
    found = told(watcher)
    assert [(key, body) for key, _, body in found] == [
        ("publish.", b"one"), ("deliver.q", b"one"), ("deliver.q", b"one"),
    ]  # fmt: skip
    assert [headers.get("redelivered") for _, headers, _ in found] == [None, 0, 1]
    assert {headers["user"] for _, headers, _ in found} == {"guest"}


def test_direct_replies_are_told_of() -> None:
    pair = Pair(alone=True)
    watcher = traced(pair)
    client, server = pair.a.client(), pair.a.client()
    client.call(spec.BasicConsume(0, "amq.rabbitmq.reply-to", "t", False, True, False, False, {}))
    client.declare("requests")
    publish(client, "", "requests", b"request", reply_to="amq.rabbitmq.reply-to")
    request = server.get("requests")
    assert request is not None
    properties = told(watcher)[0][1]["properties"]
    assert isinstance(properties, dict)
    address = str(properties["reply_to"])
    publish(server, "", address, b"reply")
    published, delivered = told(watcher)
    assert (published[0], published[2]) == ("publish.", b"reply")
    assert published[1]["routing_keys"] == published[1]["routed_queues"] == [address]
    assert published[1]["connection"] == server.end.name()
    assert (delivered[0], delivered[2]) == (f"deliver.{address}", b"reply")
    assert delivered[1]["connection"] == client.end.name()
    assert (delivered[1]["channel"], delivered[1]["redelivered"]) == (1, 0)


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value
