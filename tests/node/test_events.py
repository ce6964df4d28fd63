"""What happens on a node is told of in `amq.rabbitmq.event`, while that exchange is there."""

from __future__ import annotations

import pytest

import warren
import warren.node.events as events
from tests.node.pair import Client, Pair
from warren.metadata.commands import (
    DeclareExchange,
    SetPermissions,
    SetPolicy,
    SetUser,
    SetVhost,
)
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

EXCHANGE = "amq.rabbitmq.event"
QUEUE = "events"


def watched(pair: Pair, key: str = "#") -> Client:
    """A client with a queue that is told of what happens."""
    store = pair.a.node.store
    store.submit(DeclareExchange("/", EXCHANGE, "topic", True, False, True, {}), None)
    pair.until(pair.a.node.events.on)
    client = pair.a.client()
    client.declare(QUEUE)
    client.call(spec.QueueBind(0, QUEUE, EXCHANGE, key, False, {}))
    told(client)
    return client


def told(client: Client) -> list[tuple[str, Table]]:
    """What was told of so far, without when it was."""
    client.pair.settle(40)
    found = []
    while (got := client.get(QUEUE)) is not None:
        assert isinstance(got.method, spec.BasicGetOk)
        assert (got.method.exchange, got.body) == (EXCHANGE, b"")
        headers = got.headers()
        assert isinstance(headers.pop("timestamp_in_ms"), int)
        found.append((got.method.routing_key, headers))
        client.ack(got.tag)
    return found


def test_topology_is_told_of_with_rabbitmqs_keys_and_headers() -> None:
    pair = Pair(alone=True)
    watcher = watched(pair)
    watcher.call(spec.QueueDeclare(0, "q", False, True, False, False, False, {"x-max-length": 10}))
    watcher.call(spec.ExchangeDeclare(0, "e", "fanout", False, True, False, False, False, {}))
    watcher.call(spec.QueueBind(0, "q", "e", "k", False, {}))
    watcher.call(spec.QueueUnbind(0, "q", "e", "k", {}))
    watcher.call(spec.QueueDelete(0, "q", False, False, False))
    watcher.call(spec.ExchangeDelete(0, "e", False, False))
    binding: Table = {
        "vhost": "/", "source_name": "e", "source_kind": "exchange", "destination_name": "q",
        "destination_kind": "queue", "routing_key": "k", "arguments": [],
    }  # fmt: skip
    found = told(watcher)
    assert [key for key, _ in found] == [
        *("queue.created", "exchange.created", "binding.created", "binding.deleted"),
        *("queue.deleted", "exchange.deleted"),
    ]
    created = found[0][1]
    arguments = created.pop("arguments")
    assert isinstance(arguments, list)
    (argument,) = [str(text) for text in arguments if "max-length" in str(text)]
    assert argument.startswith('{<<"x-max-length">>,') and argument.endswith(",10}")
    assert created == {
        "name": "q", "vhost": "/", "type": "rabbit_classic_queue", "durable": True,
        "auto_delete": False, "exclusive": False,
    }  # fmt: skip
    assert found[2][1] == found[3][1] == binding
    assert found[4][1] == {"name": "q", "vhost": "/", "type": "rabbit_classic_queue"}
    assert found[5][1] == {"name": "e", "vhost": "/"}


def test_clients_that_come_and_go_are_told_of() -> None:
    pair = Pair(alone=True)
    watcher = watched(pair)
    client = pair.a.client()
    name = client.end.name()
    client.vanish()
    refused = pair.a.caller(password="wrong")
    pair.settle(40)
    refused.vanish()
    found = told(watcher)
    assert [key for key, _ in found] == [
        *("user.authentication.success", "connection.created", "channel.created"),
        *("channel.closed", "connection.closed", "user.authentication.failure"),
    ]
    opened, channel = found[1][1], found[2][1]
    assert (opened["name"], opened["user"], opened["vhost"]) == (name, "guest", "/")
    assert (opened["node"], opened["protocol"]) == ("a", "{0,9,1}")
    assert (channel["number"], channel["name"]) == (1, f"{name} (1)")
    assert found[4][1]["name"] == name
    assert found[5][1]["name"] == "guest"


def test_users_rights_vhosts_policies_and_alarms_are_told_of() -> None:
    pair = Pair(alone=True)
    watcher = watched(pair)
    node = pair.a.node
    node.store.submit(SetUser("u", b"hash", "sha256", ["monitoring"], False), None)
    node.store.submit(SetPermissions("u", "/", "a", "b", "c"), None)
    node.store.submit(SetVhost("v", True, {"description": "d"}), None)
    node.store.submit(SetPolicy("/", "p", False, "^a", "all", 0, {"max-length": 5}), None)
    pair.settle()
    node.disk_full(True)
    node.disk_full(False)
    found = dict(told(watcher))
    assert found["user.created"] == {"name": "u"}
    assert found["permission.created"] == {
        "user": "u", "vhost": "/", "configure": "a", "write": "b", "read": "c",
    }  # fmt: skip
    assert found["vhost.created"] == {"name": "v", "description": "d"}
    assert found["policy.set"] == {
        "name": "p", "vhost": "/", "pattern": "^a", "apply-to": "all", "priority": 0,
        "definition": {"max-length": 5},
    }  # fmt: skip
    assert found["alarm.set"] == {"source": "disk", "node": "a"} == found["alarm.cleared"]


def test_a_change_is_told_of_once_in_a_cluster() -> None:
    pair = Pair()
    watcher = watched(pair, "queue.#")
    pair.b.client().declare("of-b")
    assert [(key, headers["name"]) for key, headers in told(watcher)] == [("queue.created", "of-b")]


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_many_connections_that_close_at_once_are_told_of_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "TURN_EVENTS", 3)
    monkeypatch.setattr(events, "WAITING_MAX", 10)
    pair = Pair(alone=True)
    watcher = watched(pair, "connection.closed")
    clients = [pair.a.client() for _ in range(12)]
    told(watcher)
    missed = pair.a.node.events.missed
    for client in clients:
        client.vanish()
    # One for each connection and for each channel; those that wait are bounded.
    assert pair.a.node.events.missed - missed == 14
    assert len(told(watcher)) == 5
    assert [text for text in pair.a.warnings if "left out" in text]


def test_nothing_is_told_of_without_the_exchange() -> None:
    pair = Pair(alone=True)
    pair.a.client().declare("q")
    assert not pair.a.node.events.on()
