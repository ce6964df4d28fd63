"""Exchanges and bindings: who gets a message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.clients.fixtures import Names
from tests.clients.support import UNICODE, refused

Bind = Callable[..., str]


@pytest.fixture
def bound(channel: BlockingChannel, names: Names) -> Bind:
    """Declares a queue and binds it."""

    def bind(exchange: str, key: str = "", arguments: Mapping[str, Any] | None = None) -> str:
        queue = names.queue()
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, exchange, key, arguments=arguments)
        return queue

    return bind


def declared(channel: BlockingChannel, names: Names, kind: str, **options: Any) -> str:
    """Declare an exchange with a fresh name."""
    exchange = names.exchange()
    channel.exchange_declare(exchange, kind, **options)
    return exchange


def reached(
    channel: BlockingChannel,
    queues: Mapping[str, str],
    exchange: str,
    key: str = "",
    headers: Mapping[str, Any] | None = None,
) -> set[str]:
    """Publish with a confirm; return the labels of the queues that got exactly one copy."""
    if not getattr(channel, "confirming", False):
        channel.confirm_delivery()
        channel.confirming = True
    channel.basic_publish(exchange, key, b"x", pika.BasicProperties(headers=headers))
    counts = {
        label: channel.queue_purge(queue).method.message_count for label, queue in queues.items()
    }
    assert set(counts.values()) <= {0, 1}, counts
    return {label for label, count in counts.items() if count}


@pytest.mark.rule("PROP-09")
def test_default_exchange(channel: BlockingChannel, queue: str) -> None:
    queues = {"q": queue}
    assert reached(channel, queues, "", queue) == {"q"}
    assert reached(channel, queues, "", queue + ".") == set()


@pytest.mark.rule("PROP-09")
def test_direct(channel: BlockingChannel, names: Names, bound: Bind) -> None:
    exchange = declared(channel, names, "direct")
    queues = {"a": bound(exchange, "k"), "b": bound(exchange, "k"), "c": bound(exchange, "other")}
    assert reached(channel, queues, exchange, "k") == {"a", "b"}
    assert reached(channel, queues, exchange, "K") == set()
    channel.queue_bind(queues["c"], exchange, "k")
    assert reached(channel, queues, exchange, "k") == {"a", "b", "c"}
    channel.queue_unbind(queues["a"], exchange, "k")
    assert reached(channel, queues, exchange, "k") == {"b", "c"}
    channel.queue_unbind(queues["a"], exchange, "k")  # not there any more: no error


@pytest.mark.rule("PROP-09")
def test_fanout_to_both_types(channel: BlockingChannel, names: Names, queue: str) -> None:
    exchange = declared(channel, names, "fanout")
    channel.queue_bind(queue, exchange, "ignored")
    assert reached(channel, {"q": queue}, exchange, "whatever") == {"q"}
    channel.queue_delete(queue)
    assert reached(channel, {}, exchange) == set()


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("stock.usd.nyse", {"#", "stock.#", "*.usd.*", "stock.usd.nyse", "#.nyse"}),
        ("stock", {"#", "stock.#", "*"}),
        ("stock.usd", {"#", "stock.#", "*.*"}),
        ("", {"#", ""}),
        ("a.b.c.d", {"#", "a.#.d"}),
        ("a.d", {"#", "*.*", "a.#.d"}),
        ("..", {"#"}),
        (".", {"#", "*.*"}),
    ],
)
def test_topic(
    channel: BlockingChannel, names: Names, bound: Bind, key: str, wanted: set[str]
) -> None:
    exchange = declared(channel, names, "topic")
    patterns = ("#", "stock.#", "*.usd.*", "stock.usd.nyse", "#.nyse", "*", "*.*", "", "a.#.d")
    queues = {pattern: bound(exchange, pattern) for pattern in patterns}
    assert reached(channel, queues, exchange, key) == wanted


def test_topic_unbind_leaves_the_others(
    channel: BlockingChannel, names: Names, bound: Bind
) -> None:
    exchange = declared(channel, names, "topic")
    queues = {"star": bound(exchange, "a.*"), "hash": bound(exchange, "a.#")}
    channel.queue_bind(queues["star"], exchange, "#")
    assert reached(channel, queues, exchange, "a.b") == {"star", "hash"}
    channel.queue_unbind(queues["star"], exchange, "#")
    assert reached(channel, queues, exchange, "a.b.c") == {"hash"}
    channel.queue_unbind(queues["star"], exchange, "a.*")
    assert reached(channel, queues, exchange, "a.b") == {"hash"}


def test_headers(channel: BlockingChannel, names: Names, bound: Bind) -> None:
    exchange = declared(channel, names, "headers")
    queues = {
        "all": bound(exchange, "", {"x-match": "all", "a": 1, "b": "two"}),
        "any": bound(exchange, "", {"x-match": "any", "a": 1, "b": "two"}),
        "default": bound(exchange, "", {"a": 1}),
        "present": bound(exchange, "", {"c": None}),
        "with x": bound(exchange, "", {"x-match": "any-with-x", "x-y": 1}),
    }
    assert reached(channel, queues, exchange, "", {"a": 1, "b": "two"}) == {
        "all", "any", "default",
    }  # fmt: skip
    assert reached(channel, queues, exchange, "", {"b": "two"}) == {"any"}
    assert reached(channel, queues, exchange, "", {"a": "1"}) == set()
    assert reached(channel, queues, exchange, "", {"c": True}) == {"present"}
    assert reached(channel, queues, exchange, "", {"x-y": 1}) == {"with x"}
    assert reached(channel, queues, exchange, "", None) == set()


def test_exchange_to_exchange_delivers_once(
    channel: BlockingChannel, names: Names, bound: Bind
) -> None:
    first = declared(channel, names, "topic")
    second = declared(channel, names, "direct")
    third = declared(channel, names, "fanout")
    channel.exchange_bind(second, first, "#")
    channel.exchange_bind(third, first, "a.*")
    channel.exchange_bind(first, third)  # a ring
    queue = bound(second, "a.b")
    channel.queue_bind(queue, third)
    queues = {"q": queue, "other": bound(second, "c")}
    assert reached(channel, queues, first, "a.b") == {"q"}
    assert reached(channel, queues, first, "c") == {"other"}
    channel.exchange_unbind(second, first, "#")
    assert reached(channel, queues, first, "c") == set()
    assert reached(channel, queues, first, "a.b") == {"q"}


@pytest.mark.parametrize(
    "exchange", ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"]
)
def test_predeclared_exchanges(channel: BlockingChannel, bound: Bind, exchange: str) -> None:
    channel.exchange_declare(exchange, passive=True)
    arguments = {"unique to this test": 1}
    queues = {"q": bound(exchange, "unique.to.this.test", arguments)}
    assert reached(channel, queues, exchange, "unique.to.this.test", arguments) == {"q"}
    with refused(403, f"deletion of system exchange '{exchange}' in vhost '/' not allowed"):
        channel.exchange_delete(exchange)


@pytest.mark.rule("NAME-02")
def test_unicode_names(channel: BlockingChannel, names: Names) -> None:
    exchange, queue = names.exchange(UNICODE), names.queue(UNICODE)
    channel.exchange_declare(exchange, "topic", durable=True)
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, exchange, UNICODE)
    assert reached(channel, {"q": queue}, exchange, UNICODE) == {"q"}


def test_exchange_deleted_with_bindings(
    channel: BlockingChannel, names: Names, bound: Bind
) -> None:
    exchange = declared(channel, names, "direct")
    queue = bound(exchange, "k")
    channel.exchange_delete(exchange)
    channel.exchange_declare(exchange, "direct")
    assert reached(channel, {"q": queue}, exchange, "k") == set()


def test_queue_deleted_with_bindings(channel: BlockingChannel, names: Names, bound: Bind) -> None:
    exchange = declared(channel, names, "direct")
    queue = bound(exchange, "k")
    channel.queue_delete(queue)
    channel.queue_declare(queue, durable=True)
    assert reached(channel, {"q": queue}, exchange, "k") == set()
    channel.exchange_delete(exchange, if_unused=True)


def test_auto_delete_exchange_chain(channel: BlockingChannel, names: Names, bound: Bind) -> None:
    source = declared(channel, names, "fanout")
    exchange = declared(channel, names, "fanout", auto_delete=True)
    channel.exchange_bind(exchange, source)
    queue = bound(exchange)
    channel.queue_delete(queue)
    with refused(404, f"no exchange '{exchange}' in vhost '/'"):
        channel.exchange_declare(exchange, passive=True)


def test_many_bindings_of_one_queue(channel: BlockingChannel, names: Names, bound: Bind) -> None:
    """A message reaches a queue once however many of its bindings match."""
    exchange = declared(channel, names, "topic")
    queue = bound(exchange, "#")
    for number in range(200):
        channel.queue_bind(queue, exchange, f"*.{number}")
        channel.queue_bind(queue, exchange, f"k.{number}")
    assert reached(channel, {"q": queue}, exchange, "k.77") == {"q"}
