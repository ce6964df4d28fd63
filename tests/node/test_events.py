"""What happens on a node is told of in `amq.rabbitmq.event`, while that exchange is there."""

from __future__ import annotations

import pytest

import warren
import warren.node.events as events
from tests.node.pair import Client, Pair
from warren.metadata.commands import (
    ClearPolicy,
    DeclareExchange,
    SetPermissions,
    SetPolicy,
    SetUser,
    SetVhost,
)
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

EXCHANGE = "amq.rabbitmq.event"
QUEUE = "events"
GUEST: Table = {"user_who_performed_action": "guest"}
BROKER: Table = {"user_who_performed_action": "rmq-internal"}


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
        "destination_kind": "queue", "routing_key": "k", "arguments": [], **GUEST,
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
        "auto_delete": False, "exclusive": False, "leader": "a", "members": ["a"], **GUEST,
    }  # fmt: skip
    assert found[2][1] == found[3][1] == binding
    assert found[4][1] == {**GUEST, "name": "q", "vhost": "/", "type": "rabbit_classic_queue"}
    assert found[5][1] == {**GUEST, "name": "e", "vhost": "/"}


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
        *("channel.closed", "connection.closed"),
        *("user.authentication.failure", "connection.closed"),
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
    assert found["user.created"] == {"name": "u", **BROKER}
    assert found["user.tags.set"] == {"name": "u", "tags": ["monitoring"], **BROKER}
    assert found["permission.created"] == {
        "user": "u", "vhost": "/", "configure": "a", "write": "b", "read": "c", **BROKER,
    }  # fmt: skip
    vhost = found["vhost.created"]
    assert (vhost["name"], vhost["description"], vhost["tracing"]) == ("v", "d", False)
    assert found["policy.set"] == {
        "name": "p", "vhost": "/", "pattern": "^a", "apply-to": "all", "priority": 0,
        "definition": {"max-length": 5}, **BROKER,
    }  # fmt: skip
    assert found["alarm.set"] == {"source": "disk", "node": "a"} == found["alarm.cleared"]


@pytest.mark.parametrize("node_type", ["", "quorum"])
def test_a_new_vhost_says_of_which_type_its_queues_are(node_type: str) -> None:
    """Its own, or else the one that is configured."""

    def configure(settings: Settings) -> None:
        settings.default_queue_type = node_type

    pair = Pair(alone=True, configure=configure)
    watcher = watched(pair)
    for name, properties in (("own", {"default_queue_type": "classic"}), ("other", {})):
        pair.a.node.store.submit(SetVhost(name, True, dict(properties)), None)
    pair.settle()
    types = {
        headers["name"]: headers["default_queue_type"]
        for key, headers in told(watcher)
        if key == "vhost.created"
    }
    assert types == {"own": "classic", "other": node_type or "classic"}


def test_a_user_that_is_set_anew_has_another_password() -> None:
    pair = Pair(alone=True)
    watcher = watched(pair)
    pair.a.node.store.submit(SetUser("guest", b"other", "sha256", [], False), None)
    assert told(watcher) == [
        ("user.password.changed", {"name": "guest", **BROKER}),
        ("user.tags.set", {"name": "guest", "tags": [], **BROKER}),
    ]


def test_consumers_that_come_and_go_are_told_of() -> None:
    pair = Pair(alone=True)
    watcher = watched(pair, "consumer.#")
    client = pair.a.client()
    channel = f"{client.end.name()} (1)"
    client.declare("q")
    client.declare("gone")
    client.call(spec.BasicQos(0, 7, False))
    client.call(spec.BasicConsume(0, "q", "t", False, True, False, False, {"x-priority": 5}))
    shared = {
        "consumer_tag": "t", "queue": "q", "vhost": "/", "channel": channel,
        "user_who_performed_action": "guest",
    }  # fmt: skip
    ((key, begun),) = told(watcher)
    assert key == "consumer.created"
    (argument,) = begun.pop("arguments")  # type: ignore[misc]
    assert str(argument).startswith('{<<"x-priority">>,') and str(argument).endswith(",5}")
    assert begun == {**shared, "ack_required": False, "exclusive": False, "prefetch_count": 0}
    client.call(spec.BasicCancel("t", False))
    assert told(watcher) == [("consumer.deleted", shared)]
    client.call(spec.BasicConsume(0, "q", "u", False, False, True, False, {}))
    ((_, begun),) = told(watcher)
    assert (begun["ack_required"], begun["exclusive"], begun["prefetch_count"]) == (True, True, 7)
    # One that is refused has not begun, and is not gone.
    other = pair.a.client()
    other.send(spec.BasicConsume(0, "q", "v", False, False, False, False, {}))
    assert told(watcher) == []
    # So has one whose queue is deleted, or whose connection is gone.
    client.call(spec.BasicConsume(0, "gone", "w", False, False, False, False, {}))
    client.call(spec.QueueDelete(0, "gone", False, False, False))
    client.vanish()
    assert [(key, headers["consumer_tag"]) for key, headers in told(watcher)] == [
        ("consumer.created", "w"), ("consumer.deleted", "w"), ("consumer.deleted", "u"),
    ]  # fmt: skip


def test_queues_that_go_by_a_policy_are_told_of() -> None:
    pair = Pair(alone=True)
    watcher = watched(pair, "#.policy.#")
    watcher.declare("q1")
    watcher.declare("q2", kind="quorum")
    watcher.declare("other")
    submit = pair.a.node.store.submit
    low = {"max-length": 5}
    submit(SetPolicy("/", "low", False, "^q", "queues", 3, low), None)
    said: Table = {"apply-to": "queues", "definition": low, "pattern": "^q", "priority": 3}
    said.update({"vhost": "/", **BROKER})
    updated = [
        ("queue.policy.updated", {**said, "name": "q1", "type": "rabbit_classic_queue"}),
        ("queue.policy.updated", {**said, "name": "q2", "type": "rabbit_quorum_queue"}),
    ]
    assert _by_queue(told(watcher)) == updated
    # Of two policies the one of higher priority is in force: the other one changes nothing.
    submit(SetPolicy("/", "high", False, "^q1", "all", 9, {"max-length": 6}), None)
    told(watcher)
    submit(SetPolicy("/", "low", False, "^q", "queues", 3, {"max-length": 7}), None)
    _, later = updated[1]
    now: Table = {**later, "definition": {"max-length": 7}}
    assert _by_queue(told(watcher)) == [("queue.policy.updated", now)]
    # What is set as it is changes nothing.
    submit(SetPolicy("/", "low", False, "^q", "queues", 3, {"max-length": 7}), None)
    assert told(watcher) == []
    submit(ClearPolicy("/", "low", False), None)
    gone: Table = {"name": "q2", "vhost": "/", "type": "rabbit_quorum_queue", **BROKER}
    assert _by_queue(told(watcher)) == [("queue.policy.cleared", gone)]
    submit(ClearPolicy("/", "high", False), None)
    assert [headers["name"] for _, headers in _by_queue(told(watcher))] == ["q1"]


def test_an_operators_policy_is_a_parameter_too() -> None:
    pair = Pair(alone=True)
    watcher = watched(pair, "#")
    pair.a.node.store.submit(SetPolicy("/", "p", True, "^a", "all", 1, {"expires": 9}), None)
    pair.a.node.store.submit(ClearPolicy("/", "p", True), None)
    rest = {"apply-to": "all", "definition": {"expires": 9}, "pattern": "^a", "priority": 1}
    name = {"name": "p", "vhost": "/", **BROKER}
    assert told(watcher) == [
        ("parameter.set", {**name, "component": "operator_policy", "value": rest}),
        ("policy.set", {**name, **rest}),
        ("parameter.cleared", {**name, "component": "operator_policy"}),
        ("operator.policy.cleared", name),
    ]


def _by_queue(found: list[tuple[str, Table]]) -> list[tuple[str, Table]]:
    """Those of queues, which are told of in any order."""
    return sorted(
        ((key, headers) for key, headers in found if key.startswith("queue.")),
        key=lambda each: str(each[1]["name"]),
    )


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_more_queues_than_can_wait_are_told_of_a_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "TURN_EVENTS", 2)
    monkeypatch.setattr(events, "WAITING_MAX", 6)
    monkeypatch.setattr(events, "CHANGES_MAX", 1)
    pair = Pair(alone=True)
    watcher = watched(pair, "queue.policy.#")
    for number in range(30):
        watcher.declare(f"q{number:02}")
        pair.settle(10)
    missed = pair.a.node.events.missed
    submit = pair.a.node.store.submit
    submit(SetPolicy("/", "p", False, "^q", "queues", 0, {"max-length": 9}), None)
    submit(SetPolicy("/", "z", False, "^q", "queues", 0, {"max-length": 9}), None)
    found: list[str] = []
    for _ in range(20):
        found += [str(headers["name"]) for _, headers in told(watcher)]
    assert sorted(found) == [f"q{number:02}" for number in range(30)]
    # The second change came while the first was told of.
    assert pair.a.node.events.missed == missed + 1


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


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_what_comes_to_many_queues_is_told_of_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "TURN_COPIES", 10)
    pair = Pair(alone=True)
    watcher = watched(pair, "queue.#")
    for number in range(9):
        watcher.declare(f"more{number}")
        watcher.call(spec.QueueBind(0, f"more{number}", EXCHANGE, "queue.#", False, {}))
    told(watcher)
    node_events, messages = pair.a.node.events, pair.a.node.own_messages
    for number in range(5):
        node_events.add("queue.created", {"name": f"q{number}"})
    parts: list[int] = []
    while node_events.waiting():
        before = messages.copies
        node_events.go_on()
        parts.append(int(messages.copies - before))
    assert parts == [10, 10, 10, 10, 10]


def test_nothing_is_told_of_without_the_exchange() -> None:
    pair = Pair(alone=True)
    pair.a.client().declare("q")
    assert not pair.a.node.events.on()
