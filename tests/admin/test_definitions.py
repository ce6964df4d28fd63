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
from warren.admin.service.vhosts import list_vhosts
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


HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


def test_server_named_queues_are_left_out_and_all_else_is_made(pair: Pair) -> None:
    """RabbitMQ 4.3 makes all but them; its own export has their bindings, which go with them."""
    named = {"name": "amq.gen-ocgMAGymvlpq7QrHjRciaQ", "vhost": "/", "durable": False}
    to_orders = {"source": "amq.topic", "vhost": "/", "destination": "orders", "routing_key": "o"}
    done = imported(
        pair,
        {
            "queues": [
                {**named, "arguments": {"x-queue-type": "classic"}},
                {"name": "orders", "vhost": "/"},
                {"name": "mqtt-subscription-aqos0", "vhost": "/", "type": "rabbit_mqtt_qos0_queue"},
            ],
            "bindings": [{**to_orders, "destination": named["name"]}, to_orders],
        },
    )
    assert done.skipped == [
        f"queue '{named['name']}' in vhost '/': "
        "the broker alone gives names that begin with 'amq.'",
        "queue 'mqtt-subscription-aqos0' in vhost '/': queues of type 'rabbit_mqtt_qos0_queue' "
        "are not here",
        f"binding of exchange 'amq.topic' in vhost '/': queue '{named['name']}' was left out",
    ]
    tables = service_of(pair).machine.vhosts["/"]
    assert list(tables.queues) == ["orders"]
    (binding,) = tables.exchanges["amq.topic"].bound.values()
    assert binding.destination == "orders"


def test_all_that_is_wrong_is_said_and_all_else_is_made(pair: Pair) -> None:
    given: dict[str, Any] = {
        "queues": [
            {"name": "a", "vhost": "/", "arguments": {"x-max-length": "many"}},
            {"name": "b", "vhost": "none"},
            {"name": "c", "vhost": "/"},
        ],
        "exchanges": [{"name": "e", "vhost": "/", "type": "none"}],
        "bindings": [{"source": "amq.topic", "vhost": "/", "destination": "c"}],
    }
    with pytest.raises(Refusal) as refused:
        imported(pair, given)
    said = refused.value.text.split("; ")
    assert [text.partition(":")[0] for text in said] == [
        "exchange 'e' in vhost '/'",
        "queue 'a' in vhost '/'",
        "queue 'b' in vhost 'none'",
    ]
    tables = service_of(pair).machine.vhosts["/"]
    assert list(tables.queues) == ["c"]
    assert len(tables.exchanges["amq.topic"].bound) == 1


def test_no_queue_is_made_before_what_says_what_it_is(pair: Pair) -> None:
    """Its policy could not be set, and it would stay without: it is only looked at."""
    policy = {"vhost": "/", "name": "p", "pattern": "(", "definition": {"max-length": 1}}
    good, bad = {"name": "q", "vhost": "/"}, {"name": "r", "vhost": "/"}
    given: dict[str, Any] = {
        "parameters": [{"component": "policy", "vhost": "/", "name": "limit", "value": policy}],
        "policies": [policy],
        "queues": [good, {**bad, "arguments": {"x-expires": -1}}],
        "exchanges": [{"name": "e", "vhost": "/", "type": "none"}],
    }
    with pytest.raises(Refusal) as refused:
        imported(pair, given)
    said = refused.value.text.split("; ")
    assert said[0] == ("parameter 'limit' in vhost '/': policies may not be set using this method")
    assert [text.partition(":")[0] for text in said[1:]] == [
        "policy 'p' in vhost '/'",
        "exchange 'e' in vhost '/'",
        "queue 'r' in vhost '/'",
    ]
    assert not service_of(pair).machine.vhosts["/"].queues


def test_faults_of_shape_are_all_said_and_change_nothing(pair: Pair) -> None:
    given = {
        "vhosts": [{"name": "v"}, {"name": 5}, "text"],
        "users": {},
        "queues": [{"name": "q", "durable": "yes"}],
    }
    with pytest.raises(Refusal) as refused:
        imported(pair, given)
    assert refused.value.text.split("; ") == [
        "users of the definitions: a list is expected",
        "vhosts of the definitions: Expected `str`, got `int` - at `$[1].name`",
        "vhosts of the definitions: Expected `object`, got `str` - at `$[2]`",
        "queues of the definitions: Expected `bool`, got `str` - at `$[0].durable`",
    ]
    assert "v" not in service_of(pair).machine.vhosts


def test_what_is_said_of_what_is_wrong_is_bounded(pair: Pair) -> None:
    rows = [{"name": "n" * 100_000, "vhost": "v" * 100_000} for _ in range(200)]
    with pytest.raises(Refusal) as refused:
        imported(pair, {"queues": rows})
    assert refused.value.text.endswith("; and 180 more that cannot be")
    assert len(refused.value.text) < 25_000


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("rabbit_quorum_queue", "quorum"),
        ("rabbit_classic_queue", "classic"),
        ("quorum", "quorum"),
        ("undefined", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_the_type_of_a_vhosts_queues_may_be_a_module_of_rabbitmq(
    pair: Pair, said: str | None, kind: str
) -> None:
    for _ in range(2):
        imported(pair, {"vhosts": [{"name": "v", "metadata": {"default_queue_type": said}}]})
        assert service_of(pair).machine.vhosts["v"].default_queue_type == kind
    if kind:
        imported(pair, {"queues": [{"name": "q", "vhost": "v"}]})
        assert service_of(pair).machine.vhosts["v"].queues["q"].kind == kind


@pytest.mark.parametrize(
    ("version", "scheme"),
    [
        ({"rabbit_version": "3.5.7"}, "rabbit_password_hashing_md5"),
        ({"rabbitmq_version": "3.0.0"}, "rabbit_password_hashing_md5"),
        ({"rabbit_version": "3.6.0"}, "rabbit_password_hashing_sha256"),
        ({"rabbit_version": "4.3.6", "rabbitmq_version": 5}, "rabbit_password_hashing_sha256"),
        ({}, "rabbit_password_hashing_sha256"),
    ],
)
def test_hashes_are_those_of_the_release_that_wrote_them(
    pair: Pair, version: dict[str, Any], scheme: str
) -> None:
    imported(pair, {**version, "users": [{"name": "u", "password_hash": HASH, "tags": "a,b"}]})
    user = service_of(pair).machine.users["u"]
    assert (user.hash_scheme, user.tags) == (scheme, ["a", "b"])


def test_users_as_releases_have_written_them(pair: Pair) -> None:
    """Limits that are not named stay, as with RabbitMQ; rights beside a name are of new users."""
    everything = {"configure": "^a", "write": "^b", "read": "^c"}
    row = {"name": "u", "password_hash": HASH, "limits": {"max-connections": 5}}
    user = {**row, "administrator": True, "permissions": {"/": everything}}
    imported(pair, {"users": [user]})
    machine = service_of(pair).machine
    assert machine.users["u"].tags == ["administrator"]
    assert machine.vhosts["/"].permissions["u"].write == "^b"
    for limits, left in (
        (None, {"max-connections": 5}),
        ({}, {"max-connections": 5}),
        ({"max-channels": 7}, {"max-connections": 5, "max-channels": 7}),
    ):
        said = {} if limits is None else {"limits": limits}
        imported(pair, {"users": [{"name": "u", "password_hash": HASH, "tags": [], **said}]})
        assert machine.users["u"].limits == left


@pytest.mark.parametrize(
    ("user", "text"),
    [
        ({"password_hash": HASH}, "tags_not_present"),
        (
            {"password": "p", "password_hash": "", "tags": ""},
            "both password and password_hash are provided",
        ),
    ],
)
def test_users_that_rabbitmq_takes_for_a_mistake(
    pair: Pair, user: dict[str, Any], text: str
) -> None:
    with pytest.raises(Refusal) as refused:
        imported(pair, {"users": [{"name": "u", **user}]})
    assert refused.value.text == f"user 'u': {text}"


def test_a_vhost_is_traced_where_definitions_say_so(pair: Pair) -> None:
    tracers = service_of(pair).node.vhosts
    for on in (True, False):
        imported(pair, {"vhosts": [{"name": "v", "tracing": on}]})
        assert tracers.tracer_of("v").on is on


def test_definitions_of_one_vhost_say_nothing_of_what_is_of_none(pair: Pair) -> None:
    """RabbitMQ passes it over, and has all else in that vhost, whatever it says of its own."""
    imported(pair, {"vhosts": [{"name": "v"}, {"name": "w"}]})
    imported(
        pair,
        {
            "users": [{"name": "u", "password": "p", "tags": "administrator"}],
            "vhosts": [{"name": "x"}],
            "permissions": [
                {"user": "guest", "vhost": "v", "configure": "", "write": "", "read": ""}
            ],
            "global_parameters": [{"name": "g", "value": 1}],
            "queues": [{"name": "q", "vhost": "w"}],
            "policies": [
                {"name": "p", "vhost": "w", "pattern": "", "definition": {"max-length": 1}}
            ],
        },
        "v",
    )
    machine = service_of(pair).machine
    assert "u" not in machine.users and "x" not in machine.vhosts
    assert not machine.vhosts["v"].permissions and ("", "", "g") not in machine.parameters
    assert list(machine.vhosts["v"].queues) == ["q"] and not machine.vhosts["w"].queues
    assert list(machine.vhosts["v"].policies) == ["p"]


def test_an_export_has_what_can_be_made_again(pair: Pair) -> None:
    """Transient exchanges and queues and their bindings, as RabbitMQ's; no internal exchanges.

    What leads from or to those is left out, too, so that an export can always be imported.
    """
    ends = [(source, target) for source in ("t", "i", "amq.topic") for target in ("t", "d")]
    imported(
        pair,
        {
            "vhosts": [{"name": "v"}],
            "exchanges": [
                {"name": "t", "vhost": "v", "type": "topic", "durable": False},
                {"name": "i", "vhost": "v", "type": "topic", "internal": True},
            ],
            "queues": [
                {"name": "t", "vhost": "v", "durable": False},
                {"name": "d", "vhost": "v"},
            ],
            "bindings": [
                *({"source": source, "vhost": "v", "destination": to} for source, to in ends),
                {"source": "t", "vhost": "v", "destination": "i", "destination_type": "exchange"},
            ],
        },
    )
    found = exported(pair, "v")
    assert [(row["name"], row["durable"]) for row in found["queues"]] == [("t", False), ("d", True)]
    assert [(row["name"], row["durable"]) for row in found["exchanges"]] == [("t", False)]
    assert {(row["source"], row["destination"]) for row in found["bindings"]} == {
        (source, target) for source, target in ends if source != "i"
    }
    imported(pair, {"vhosts": [{"name": "w"}]})
    assert imported(pair, found, "w").skipped == []
    assert exported(pair, "w") == found


@pytest.mark.parametrize("of_the_node", ["", "quorum"])
def test_vhosts_say_which_type_their_queues_have(pair: Pair, of_the_node: str) -> None:
    """Where they have none of their own, it is the node's (`default_queue_type`)."""
    admin = service_of(pair)
    pair.a.node.settings.default_queue_type = of_the_node
    imported(pair, {"vhosts": [{"name": "v", "metadata": {"default_queue_type": "classic"}}]})

    async def ask() -> dict[str, str]:
        rows = await list_vhosts(admin, LOCAL)
        return {row.name: row.default_queue_type for row in rows}

    assert answered(pair, ask) == {"/": of_the_node or "classic", "v": "classic"}
