"""Scrapes of a real broker: paths, filters, hostile names, who may ask, and what may be asked."""

from __future__ import annotations

import base64
import socket
import time
from collections.abc import Callable
from urllib.parse import quote

import pika
import pytest

from tests.metrics.conftest import Scraped
from tests.metrics.traffic import PUBLISHED, TYPES, connect
from tests.support.broker import Broker
from tests.support.patience import patient

pytestmark = pytest.mark.process


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/metrics/bogus", 404, "Unknown Registry"),
        ("/metrics/per-object/more", 404, ""),
        ("/", 404, ""),
        ("/metrics/detailed?family=queue_metrics&queue=(", 400, "Invalid 'queue' regex"),
        ("/metrics/detailed?queue=a&queue=b", 400, "Only one 'queue' query parameter is allowed"),
        (f"/metrics/detailed?queue={'a' * 2_001}", 400, "'queue' regex too long"),
        ("/metrics/detailed?" + "&".join(["family=x"] * 1_001), 400, "too many fields"),
    ],
)
def test_paths_that_are_none(scraped: Scraped, path: str, status: int, text: str) -> None:
    found, headers, body = scraped.ask(path)
    assert (found, headers["allow"]) == (status, "HEAD, GET, OPTIONS")
    assert text in body and bool(text) == bool(body)


def test_methods_and_types(scraped: Scraped) -> None:
    """As RabbitMQ 4.3 answers them."""
    assert scraped.ask("/metrics", "POST")[0] == 405
    assert scraped.ask("/metrics", "DELETE")[0] == 405
    assert scraped.ask("/metrics", "OPTIONS")[0] == 200
    assert scraped.ask("/metrics", "HEAD")[0] == 204
    assert scraped.ask("/metrics", accept="application/json")[0] == 406
    assert scraped.ask("/metrics/", accept="text/plain;version=0.0.4;q=0.5,*/*;q=0.1")[0] == 200


def test_counts_of_a_client(make_scraped: Callable[..., Scraped]) -> None:
    """What a client did is what it reads, and stays when it is gone."""
    scraped = make_scraped()
    count = 250
    before = scraped.scrape()
    assert before["rabbitmq_global_messages_received_total"].value() == 0
    connection = connect(scraped.broker.port)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", durable=True, arguments={"x-queue-type": "quorum"})
    for number in range(count):
        channel.basic_publish("", "orders", b"x" * number)
    taken = 0
    for method, _, _ in channel.consume("orders", inactivity_timeout=patient(20.0)):
        assert method is not None
        channel.basic_ack(method.delivery_tag)
        taken += 1
        if taken == count:
            break
    channel.cancel()
    open_ones = scraped.scrape()
    assert open_ones["rabbitmq_connections"].value() == 1
    assert open_ones["rabbitmq_channels"].value() == 1
    assert open_ones["rabbitmq_queues"].value() == 1
    connection.close()
    over = time.monotonic() + patient(20.0)
    after = scraped.scrape()
    while (
        after["rabbitmq_connections"].value() != 0 or after["rabbitmq_queue_messages"].value() != 0
    ):
        assert time.monotonic() < over
        after = scraped.scrape()
    for name, value in {
        "received": count,
        "received_confirm": count,
        "routed": count,
        "confirmed": count,
        "delivered": count,
        "delivered_consume_manual_ack": count,
        "acknowledged": count,
        "redelivered": 0,
        "unroutable_dropped": 0,
    }.items():
        family = after[f"rabbitmq_global_messages_{name}_total"]
        assert family.value(protocol="amqp091") == value, name
    assert after["rabbitmq_connections_opened_total"].value() == 1
    assert after["rabbitmq_connections_closed_total"].value() == 1
    assert after["rabbitmq_channels_opened_total"].value() == 1
    assert after["rabbitmq_channels_closed_total"].value() == 1
    assert after["rabbitmq_queues_created_total"].value() == 1
    sizes = {
        sample.labels.get("le", sample.name): sample.value
        for sample in after["rabbitmq_message_size_bytes"].samples
    }
    assert sizes["100"] == 101 and sizes["1000"] == sizes["+Inf"] == count
    assert sizes["rabbitmq_message_size_bytes_sum"] == sum(range(count))
    assert sizes["rabbitmq_message_size_bytes_count"] == count


def test_logins_are_counted(make_scraped: Callable[..., Scraped]) -> None:
    scraped = make_scraped()
    connect(scraped.broker.port).close()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(scraped.broker.port, "wrong")
    found = scraped.scrape()
    assert found["rabbitmq_auth_attempts_total"].value(protocol="amqp091") == 2
    assert found["rabbitmq_auth_attempts_succeeded_total"].value() == 1
    assert found["rabbitmq_auth_attempts_failed_total"].value() == 1


def test_detailed_answers_what_is_asked_for(scraped: Scraped) -> None:
    about = {"rabbitmq_build_info", "rabbitmq_identity_info"}
    telemetry = {"telemetry_scrape_duration_seconds", "telemetry_scrape_size_bytes"}
    assert set(scraped.scrape("/metrics/detailed")) == about | telemetry
    assert set(scraped.scrape("/metrics/detailed?family=nothing")) == about | telemetry
    path = "/metrics/detailed?family=queue_coarse_metrics&family=vhost_status"
    ready = "rabbitmq_detailed_queue_messages_ready"
    found = scraped.scrape(path)
    assert {sample.labels["queue"] for sample in found[ready].samples} == {*TYPES, "graves"}
    assert found["rabbitmq_cluster_vhost_status"].value(vhost="/") == 1
    one = scraped.scrape(f"{path}&queue=^qu")
    assert [sample.labels["queue"] for sample in one[ready].samples] == ["quorum"]
    assert [sample.labels["queue"] for sample in one["rabbitmq_detailed_queue_info"].samples] == [
        "quorum"
    ]
    assert not scraped.scrape(f"{path}&vhost=elsewhere")[ready].samples
    both = scraped.scrape(f"{path}&vhost=elsewhere&vhost={quote('/', safe='')}")
    assert both[ready].labels() == found[ready].labels()


def test_per_object_adds_up(scraped: Scraped) -> None:
    """Of channels that are all open, the objects' samples are what `/metrics` adds up."""
    whole, parts = scraped.scrape(), scraped.scrape("/metrics/per-object")
    for name in (
        "rabbitmq_channel_messages_published_total",
        "rabbitmq_channel_messages_delivered_ack_total",
        "rabbitmq_channel_get_ack_total",
        "rabbitmq_exchange_messages_confirmed_total",
        "rabbitmq_queue_messages",
        "rabbitmq_queue_messages_unacked_bytes",
        "rabbitmq_channel_consumers",
        "rabbitmq_connection_channels",
    ):
        assert parts[name].value() == whole[name].value() > 0, name
    orders = parts["rabbitmq_channel_messages_published_total"].value(exchange="orders")
    assert orders >= PUBLISHED


def test_hostile_names(make_scraped: Callable[..., Scraped]) -> None:
    """Whatever a queue is called, the text stays one that can be read.

    There are no ends of lines in names: brokers take them out.
    """
    scraped = make_scraped()
    names = ['a"} 1 evil 2', "back\\slash\\", "n\\n", "é☃" * 40, "a" * 255, "tab\t{}"]
    connection = connect(scraped.broker.port)
    channel = connection.channel()
    for name in names:
        channel.queue_declare(name)
        channel.exchange_declare(name)
        channel.basic_publish(name, "", b"")
    found = scraped.scrape("/metrics/per-object")
    for family, label in (
        ("rabbitmq_queue_messages", "queue"),
        ("rabbitmq_channel_messages_published_total", "exchange"),
        ("rabbitmq_exchange_messages_published_total", "exchange"),
    ):
        assert {sample.labels[label] for sample in found[family].samples} == set(names)
    detailed = scraped.scrape("/metrics/detailed?family=exchange_bindings&family=exchange_names")
    samples = detailed["rabbitmq_cluster_exchange_name"].samples
    assert set(names) <= {sample.labels["exchange"] for sample in samples}
    connection.close()


def test_scrapes_of_those_who_may_monitor(make_scraped: Callable[..., Scraped]) -> None:
    scraped = make_scraped(
        "--set",
        "prometheus.authentication.enabled=true",
        "--set",
        "prometheus.return_per_object_metrics=true",
        "--set",
        "prometheus.path=/figures",
    )
    status, headers, _ = scraped.ask("/figures")
    assert (status, headers["www-authenticate"]) == (401, 'Basic realm="RabbitMQ Prometheus"')
    assert scraped.ask("/figures", authorization=basic("guest", "wrong"))[0] == 401
    assert scraped.ask("/metrics", authorization=basic("guest", "guest"))[0] == 404
    status, _, text = scraped.ask("/figures", authorization=basic("guest", "guest"))
    assert status == 200 and 'rabbitmq_endpoint="per-object"' in text


def test_too_many_scrapes_at_once(make_scraped: Callable[..., Scraped]) -> None:
    """Those who do not take their answers hold up some of the others, and not the broker."""
    scraped = make_scraped()
    connection = connect(scraped.broker.port)
    channel = connection.channel()
    for number in range(2_000):
        channel.queue_declare(f"{number:05}" + "x" * 200)
    slow = []
    statuses = []
    for _ in range(12):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.settimeout(patient(20.0))
        sock.connect((scraped.broker.host, int(scraped.broker.metrics)))
        sock.sendall(b"GET /metrics/per-object HTTP/1.1\r\nhost: x\r\n\r\n")
        slow.append(sock)
        statuses.append(sock.recv(12))
    assert statuses.count(b"HTTP/1.1 200") == 4
    assert statuses.count(b"HTTP/1.1 503") == 8
    assert scraped.ask("/metrics")[0] == 503
    channel.basic_publish("", "nowhere", b"")
    for sock in slow:
        sock.close()
    over = time.monotonic() + patient(20.0)
    while scraped.ask("/metrics")[0] != 200:
        assert time.monotonic() < over
    connection.close()


def test_a_broker_without_metrics(make_broker: Callable[..., Broker]) -> None:
    """Switched off, it says nothing of them; clients come as ever."""
    broker = make_broker()
    broker.start()
    assert "metrics are answered" not in broker.log_text()
    connect(broker.port).close()
