"""Definitions: what is exported can be imported elsewhere, and is the same there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.admin.host import answered, service_of
from tests.node.pair import Pair
from warren.admin.service import definitions as service
from warren.admin.service.caller import LOCAL
from warren.admin.service.rows import Imported
from warren.errors import PRECONDITION_FAILED, Refusal

OF_RABBITMQ: dict[str, Any] = {
    "rabbit_version": "4.3.0",
    "users": [
        {
            "name": "app",
            "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": "monitoring,policymaker",
            "limits": {"max-connections": 5},
        }
    ],
    "vhosts": [
        {
            "name": "orders",
            "metadata": {
                "description": "for orders",
                "tags": ["a"],
                "default_queue_type": "quorum",
            },
        }
    ],
    "permissions": [
        {"user": "app", "vhost": "orders", "configure": "^c", "write": ".*", "read": ".*"}
    ],
    "topic_permissions": [
        {"user": "app", "vhost": "orders", "exchange": "amq.topic", "write": "^a", "read": "^b"}
    ],
    "parameters": [
        {
            "vhost": "orders",
            "component": "vhost-limits",
            "name": "limits",
            "value": {"max-queues": 50},
        },
        {
            "vhost": "orders",
            "component": "operator_policy",
            "name": "guard",
            "value": {
                "pattern": ".*",
                "apply-to": "queues",
                "definition": {"max-length": 1000},
                "priority": 1,
            },
        },
        {"vhost": "orders", "component": "shovel", "name": "s", "value": {"src-uri": "amqp://"}},
    ],
    "global_parameters": [
        {"name": "cluster_name", "value": "eu-1"},
        {"name": "internal_cluster_id", "value": "rabbitmq-cluster-id-x"},
    ],
    "policies": [
        {
            "vhost": "orders",
            "name": "p",
            "pattern": "^q",
            "apply-to": "quorum_queues",
            "definition": {"delivery-limit": 3},
            "priority": 7,
        }
    ],
    "queues": [
        {"name": "q1", "vhost": "orders", "durable": True, "auto_delete": False, "arguments": {}},
        {
            "name": "c1",
            "vhost": "orders",
            "durable": True,
            "auto_delete": True,
            "arguments": {"x-queue-type": "classic", "x-max-length": 5},
        },
    ],
    "exchanges": [
        {
            "name": "e",
            "vhost": "orders",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {"alternate-exchange": "f"},
        },
        {
            "name": "f",
            "vhost": "orders",
            "type": "fanout",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {},
        },
    ],
    "bindings": [
        {
            "source": "e",
            "vhost": "orders",
            "destination": "q1",
            "destination_type": "queue",
            "routing_key": "a.#",
            "arguments": {"n": 1},
        },
        {
            "source": "f",
            "vhost": "orders",
            "destination": "e",
            "destination_type": "exchange",
            "routing_key": "",
            "arguments": {},
        },
    ],
}
"""As a RabbitMQ 4.3 writes them."""


@pytest.fixture
def pair() -> Pair:
    return Pair(alone=True)


def imported(pair: Pair, given: dict[str, Any], vhost: str = "") -> Imported:
    async def ask() -> Imported:
        return await service.import_definitions(
            service_of(pair), LOCAL, definitions=json.loads(json.dumps(given)), vhost=vhost
        )

    return answered(pair, ask)


def exported(pair: Pair, vhost: str = "") -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        return await service.export_definitions(service_of(pair), LOCAL, vhost=vhost)

    found: dict[str, Any] = json.loads(json.dumps(answered(pair, ask)))
    return found


def test_what_rabbitmq_exports_is_there_after_an_import(pair: Pair) -> None:
    done = imported(pair, OF_RABBITMQ)
    assert done.counts["queues"] == 2 and done.counts["bindings"] == 2
    assert done.skipped == ["parameter 's' in vhost 'orders': component shovel not found"]
    machine = service_of(pair).machine
    app = machine.users["app"]
    assert (app.tags, app.limits) == (["monitoring", "policymaker"], {"max-connections": 5})
    tables = machine.vhosts["orders"]
    assert (tables.description, tables.default_queue_type) == ("for orders", "quorum")
    assert tables.limits == {"max-queues": 50}
    assert (tables.queues["q1"].kind, tables.queues["c1"].kind) == ("quorum", "classic")
    assert tables.queues["c1"].auto_delete and tables.queues["c1"].arguments["x-max-length"] == 5
    assert tables.policies["p"].priority == 7
    assert tables.operator_policies["guard"].definition == {"max-length": 1000}
    assert tables.topic_permissions["app"]["amq.topic"].write == "^a"
    assert tables.exchanges["e"].alternate() == "f"
    (binding,) = tables.exchanges["e"].bound.values()
    assert (binding.destination, binding.routing_key) == ("q1", "a.#")


@pytest.mark.rule("QQ-31")
def test_definitions_with_mirrored_queues_are_taken_when_they_are_changed_as_advised(
    pair: Pair,
) -> None:
    """As docs/migrating.md says; before that they are refused by name."""
    policy: dict[str, Any] = {
        "vhost": "/",
        "name": "mirrored",
        "pattern": "^orders",
        "apply-to": "queues",
        "definition": {"ha-mode": "exactly", "ha-params": 2, "max-length": 9},
        "priority": 0,
    }
    queue = {
        "vhost": "/",
        "name": "orders",
        "durable": True,
        "auto_delete": False,
        "arguments": {"x-queue-mode": "lazy"},
    }
    given: dict[str, Any] = {"policies": [policy], "queues": [queue]}
    with pytest.raises(Refusal, match="ha-mode"):
        imported(pair, given)
    for key in [key for key in policy["definition"] if key.startswith("ha-")]:
        del policy["definition"][key]
    queue["arguments"] = {"x-queue-type": "quorum", "x-queue-mode": "lazy"}
    with pytest.raises(Refusal, match="orders"):
        imported(pair, given)
    queue["arguments"] = {"x-queue-type": "quorum"}
    imported(pair, given)
    tables = service_of(pair).machine.vhosts["/"]
    assert tables.queues["orders"].kind == "quorum"
    assert tables.policies["mirrored"].definition == {"max-length": 9}


def test_what_is_exported_makes_another_broker_the_same(pair: Pair) -> None:
    imported(pair, OF_RABBITMQ)
    first = exported(pair)
    assert first["original_cluster_name"] == "eu-1"
    other = Pair(alone=True)
    imported(other, first)
    assert exported(other) == first
    # And once more to where everything is already: it changes nothing.
    imported(other, first)
    assert exported(other) == first


def test_what_rabbitmq_made_of_them_comes_back_the_same(pair: Pair) -> None:
    """A RabbitMQ 4.3 imported what Warren had exported, and exported this."""
    recorded = Path(__file__).with_name("definitions-rabbitmq-4.3.json")
    given = json.loads(recorded.read_text("utf-8"))
    assert imported(pair, given).skipped == []
    other = Pair(alone=True)
    imported(other, {**OF_RABBITMQ, "parameters": OF_RABBITMQ["parameters"][:2]})
    found, expected = exported(pair), exported(other)

    def rows(of: dict[str, Any], kind: str) -> list[str]:
        return sorted(
            json.dumps(row, sort_keys=True)
            for row in of[kind]
            if row.get("name") not in ("guest", "/")
        )

    for kind in ("vhosts", "users", "topic_permissions", "policies", "queues", "bindings"):
        assert rows(found, kind) == rows(expected, kind), kind


def test_one_vhost_goes_to_another(pair: Pair) -> None:
    imported(pair, OF_RABBITMQ)
    part = exported(pair, "orders")
    assert "users" not in part and "vhost" not in part["queues"][0]
    imported(pair, {"vhosts": [{"name": "copy"}]})
    imported(pair, part, "copy")
    assert exported(pair, "copy") == part


@pytest.mark.parametrize(
    ("kind", "item", "text"),
    [
        ("users", {"name": "u", "password_hash": "?"}, "user 'u': Could not Base64 decode"),
        ("users", "u", "users of the definitions: Expected `object`"),
        ("vhosts", {"name": ""}, "vhost '': vhost cannot be an empty string"),
        ("queues", {"name": "q", "vhost": "none"}, "queue 'q' in vhost 'none': Virtual host"),
        (
            "queues",
            {"name": "q", "vhost": "/", "arguments": {"x-max-length": "many"}},
            "queue 'q' in vhost '/': invalid arg 'x-max-length'",
        ),
        (
            "exchanges",
            {"name": "e", "vhost": "/", "type": "none"},
            "exchange 'e' in vhost '/': unknown exchange type 'none'",
        ),
        (
            "bindings",
            {"source": "none", "vhost": "/", "destination": "q"},
            "binding of exchange 'none' in vhost '/': no exchange 'none'",
        ),
        (
            "policies",
            {"name": "p", "vhost": "/", "pattern": "*", "definition": {"max-length": 1}},
            "policy 'p' in vhost '/': pattern should be regular expression",
        ),
    ],
)
def test_what_is_wrong_is_named(pair: Pair, kind: str, item: Any, text: str) -> None:
    with pytest.raises(Refusal) as refused:
        imported(pair, {kind: [item]})
    assert refused.value.text.startswith(text), refused.value.text


LONG = "n" * 256
LONG_TEXT = "x" * 140_000


@pytest.mark.parametrize(
    ("kind", "item", "text"),
    [
        ("queues", {"name": LONG}, "the name of a queue has at most 255 bytes"),
        ("exchanges", {"name": LONG}, "the name of an exchange has at most 255 bytes"),
        (
            "bindings",
            {"source": "amq.topic", "destination": "q", "routing_key": LONG},
            "a routing key has at most 255 bytes",
        ),
        (
            "policies",
            {"name": LONG, "pattern": "", "definition": {"max-length": 1}},
            "the name of a policy has at most 255 bytes",
        ),
        (
            "policies",
            {"name": "p", "pattern": "", "definition": {"dead-letter-exchange": LONG_TEXT}},
            "the definition of a policy has at most 65536 bytes",
        ),
        (
            "queues",
            {"name": "q2", "arguments": {"x": LONG_TEXT}},
            "its arguments take more than 131072 bytes",
        ),
    ],
)
def test_what_no_client_could_declare_is_refused(
    pair: Pair, kind: str, item: dict[str, Any], text: str
) -> None:
    item = {"vhost": "/", **item}
    if kind == "bindings":
        imported(pair, {"queues": [{"name": "q", "vhost": "/"}]})
        item["destination_type"] = "queue"
    with pytest.raises(Refusal) as refused:
        imported(pair, {kind: [item]})
    assert refused.value.kind == PRECONDITION_FAILED
    assert refused.value.text.endswith(text)
    assert len(refused.value.text) < 1_000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "Expected `object`, got `null`"),
        ("{}", "Expected `object`, got `str`"),
        ([1], "Expected `object`, got `array`"),
        ({}, "Object missing required field `pattern`"),
        ({"pattern": 1, "definition": {}}, "Expected `str`, got `int` - at `$.pattern`"),
        ({"pattern": ".*", "definition": []}, "Expected `object`, got `array` - at `$.definition`"),
    ],
)
def test_an_operator_policy_is_an_object(pair: Pair, value: Any, text: str) -> None:
    item = {"vhost": "/", "component": "operator_policy", "name": "p", "value": value}
    with pytest.raises(Refusal) as refused:
        imported(pair, {"parameters": [item]})
    assert refused.value.kind == PRECONDITION_FAILED
    assert refused.value.text == f"parameter 'p' in vhost '/': its value: {text}"


def test_an_operator_policy_is_that_of_its_parameter(pair: Pair) -> None:
    """What the value says of a name or a vhost is no part of a policy."""
    value = {"pattern": ".*", "definition": {"max-length": 3}, "name": "other", "vhost": "else"}
    item = {"vhost": "/", "component": "operator_policy", "name": "p", "value": value}
    imported(pair, {"parameters": [item]})
    assert list(pair.a.node.metadata.vhosts["/"].policies_of(True)) == ["p"]


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"tags": 5}, "Expected `str | array | null`, got `int`"),
        ({"description": []}, "Expected `str | null`, got `array`"),
        (5, "Expected `object`, got `int`"),
    ],
)
def test_metadata_of_a_vhost_are_an_object(pair: Pair, metadata: Any, text: str) -> None:
    with pytest.raises(Refusal) as refused:
        imported(pair, {"vhosts": [{"name": "v", "metadata": metadata}]})
    assert refused.value.kind == PRECONDITION_FAILED
    assert text in refused.value.text and "metadata" in refused.value.text
    assert "v" not in pair.a.node.metadata.vhosts


@pytest.mark.parametrize("value", [None, 5, "many", [1], {"max-queues": "many"}])
def test_limits_of_a_vhost_are_an_object(pair: Pair, value: Any) -> None:
    item = {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": value}
    with pytest.raises(Refusal, match="parameter 'limits' in vhost '/': "):
        imported(pair, {"parameters": [item]})


def test_deep_arguments_are_refused(pair: Pair) -> None:
    deep: Any = {}
    for _ in range(100):
        deep = {"a": deep}
    queue = {"name": "q", "vhost": "/", "arguments": deep}
    with pytest.raises(Refusal) as refused:
        imported(pair, {"queues": [queue]})
    assert refused.value.kind == PRECONDITION_FAILED and "nested too deeply" in refused.value.text
