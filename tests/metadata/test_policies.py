"""Policies: which one counts for a queue, what is taken, what a restart keeps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.metadata.cluster import Cluster
from warren.errors import Refusal
from warren.limits import POLICY_STEPS_MAX
from warren.metadata import policies
from warren.metadata.commands import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteVhost,
    SetPolicy,
)
from warren.metadata.machine import MetadataMachine
from warren.metadata.pattern_steps import STEPS_MAX
from warren.metadata.patterns import WORK, new_pattern
from warren.metadata.policy_checks import NOT_YET, check_clear_policy, check_set_policy
from warren.metadata.policy_keys import BY_NAME
from warren.metadata.tables import PolicyRecord
from warren.queue_types import TYPES
from warren.versions import POLICY_KEYS
from warren.wire.amqp091.table import Table

TARGET = "target-group-size"
LOCATOR = "queue-leader-locator"


def put(
    cluster: Cluster,
    name: str,
    definition: str,
    pattern: str = ".*",
    priority: int = 0,
    apply_to: str = "all",
    operator: bool = False,
) -> None:
    """Set a policy, as an operator would."""
    command = check_set_policy(
        cluster.machine, operator, "/", name, pattern, definition, priority, apply_to
    )
    outcome = cluster.apply(command)
    assert outcome.changed and outcome.policies_changed


def clear(cluster: Cluster, name: str, operator: bool = False) -> None:
    outcome = cluster.apply(check_clear_policy(cluster.machine, operator, "/", name))
    assert outcome.changed and outcome.policies_changed


def value(cluster: Cluster, queue: str, key: str = TARGET, kind: str = "quorum") -> Any:
    return policies.policy_value(cluster.machine.vhosts["/"], queue, kind, key)


def counting(cluster: Cluster, queue: str, kind: str = "quorum") -> str:
    """The name of the user policy that counts."""
    found = policies.policy_of(cluster.machine.vhosts["/"], queue, kind)
    return "" if found is None else found.name


def target(size: int) -> str:
    return f'{{"{TARGET}": {size}}}'


@pytest.mark.rule("ARG-09")
@pytest.mark.rule("ARG-10")
@pytest.mark.rule("ARG-16")
def test_the_highest_priority_of_those_that_match_counts() -> None:
    cluster = Cluster("a")
    assert value(cluster, "orders.eu") is None
    put(cluster, "all", target(1))
    put(cluster, "orders", target(3), "^orders", 7)
    put(cluster, "eu", target(5), r"\.eu$", 9)
    assert value(cluster, "orders.eu") == 5
    assert value(cluster, "orders.us") == 3
    assert value(cluster, "bills") == 1
    # What the others say does not fill gaps: one policy counts.
    put(cluster, "eu", f'{{"{LOCATOR}": "balanced"}}', r"\.eu$", 9)
    assert value(cluster, "orders.eu") is None
    assert value(cluster, "orders.eu", LOCATOR) == "balanced"
    clear(cluster, "eu")
    assert value(cluster, "orders.eu") == 3


def test_of_equals_the_first_by_name_counts() -> None:
    cluster = Cluster("a")
    for name in ("c", "a", "b"):
        put(cluster, name, target(3))
    assert counting(cluster, "q") == "a"
    clear(cluster, "a")
    assert counting(cluster, "q") == "b"


@pytest.mark.rule("ARG-11")
@pytest.mark.parametrize(
    ("apply_to", "quorum", "classic"),
    [
        ("all", True, True),
        ("queues", True, True),
        ("quorum_queues", True, False),
        ("classic_queues", False, True),
        ("streams", False, False),
        ("exchanges", False, False),
    ],
)
def test_what_it_is_for(apply_to: str, quorum: bool, classic: bool) -> None:
    cluster = Cluster("a")
    put(cluster, "p", f'{{"{LOCATOR}": "balanced"}}', apply_to=apply_to)
    assert counting(cluster, "q", "quorum") == ("p" if quorum else "")
    assert counting(cluster, "q", "classic") == ("p" if classic else "")


def test_a_setting_that_means_nothing_to_a_type_keeps_the_whole_policy_from_it() -> None:
    cluster = Cluster("a")
    put(cluster, "both", f'{{"{TARGET}": 3, "{LOCATOR}": "balanced"}}')
    assert value(cluster, "q", LOCATOR, "quorum") == "balanced"
    assert value(cluster, "q", LOCATOR, "classic") is None


@pytest.mark.rule("CMR-10")
@pytest.mark.rule("CMR-11")
def test_an_operator_policy_stands_beside_that_of_users() -> None:
    """The larger figure counts, as in RabbitMQ; each has a name space and priorities of its own."""
    cluster = Cluster("a")
    put(cluster, "p", target(3), priority=100)
    put(cluster, "p", target(5), operator=True)
    assert value(cluster, "q") == 5
    put(cluster, "p", target(7))
    assert value(cluster, "q") == 7
    clear(cluster, "p")
    assert value(cluster, "q") == 5
    clear(cluster, "p", operator=True)
    assert value(cluster, "q") is None


def test_a_snapshot_has_them() -> None:
    cluster = Cluster("a")
    put(cluster, "p", f'{{"{TARGET}": 3, "{LOCATOR}": "balanced"}}', "^q", -4, "quorum_queues")
    put(cluster, "o", target(5), operator=True)
    restored = MetadataMachine()
    restored.restore(cluster.machine.snapshot())
    assert restored.state_hash() == cluster.machine.state_hash()
    tables = restored.vhosts["/"]
    assert policies.policy_value(tables, "q", "quorum", TARGET) == 5
    assert policies.policy_value(tables, "q", "quorum", LOCATOR) == "balanced"
    assert tables.policies["p"].priority == -4


def test_one_that_came_too_late_changes_nothing() -> None:
    cluster = Cluster("a")
    put(cluster, "p", target(3))
    again = check_set_policy(cluster.machine, False, "/", "p", "", target(3), 0, "all")
    gone = check_clear_policy(cluster.machine, False, "/", "p")
    clear(cluster, "p")
    assert not cluster.apply(gone).changed
    cluster.apply(DeleteVhost("/"))
    assert not cluster.apply(again).changed
    assert not cluster.apply(gone).changed


@pytest.mark.parametrize(
    ("definition", "complaint"),
    [
        ("{", "could not parse JSON document: "),
        ("[3]", "definition must be a JSON object: [3]"),
        ("{}", "no policy provided"),
        (
            '{"ha-mood": "all", "x": [null, 1.5, {"y": true}]}',
            '[{<<"ha-mood">>,<<"all">>},{<<"x">>,[null,1.5,#{<<"y">> => true}]}] '
            "are not recognised policy settings",
        ),
        (
            '{"ha-mood": "all", "max-length": -1, "message-ttl": -2}',
            "-1 is not a valid maximum length",
        ),
        ('{"expires": 0}', "0 is not a valid queue expiry"),
        (target(0), "0 is not a valid qq target count value"),
        ('{"target-group-size": true}', "true is not a valid qq target count value"),
        ('{"target-group-size": "3"}', '<<"3">> is not a valid qq target count value'),
        (
            '{"queue-leader-locator": "near"}',
            '<<"near">> is not a valid queue leader locator value',
        ),
        (
            '{"queue-leader-locator": "min-masters"}',
            '<<"min-masters">> is not a valid queue leader locator value',
        ),
        ('{"queue-leader-locator": 3}', "3 is not a valid queue leader locator value"),
        ('{"queue-leader-locator": ["x"]}', '[<<"x">>] is not a valid queue leader locator value'),
    ],
)
def test_a_definition_that_is_not_taken(definition: str, complaint: str) -> None:
    machine = Cluster("a").machine
    with pytest.raises(Refusal) as refused:
        check_set_policy(machine, False, "/", "p", ".*", definition, 0, "all")
    assert refused.value.text.startswith(complaint)


def test_what_else_is_not_taken() -> None:
    machine = Cluster("a").machine

    def refusal(
        vhost: str = "/",
        name: str = "p",
        pattern: str = ".*",
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
        definition: str = target(3),
    ) -> str:
        with pytest.raises(Refusal) as refused:
            check_set_policy(
                machine, operator, vhost, name, pattern, definition, priority, apply_to
            )
        return refused.value.text

    assert refusal(vhost="no") == "vhost 'no' does not exist"
    assert refusal(name="") == "a policy has a name"
    assert refusal(pattern="*").startswith(
        "pattern should be regular expression but is invalid: '*': "
    )
    assert refusal(pattern="x" * 1_025) == "pattern must not exceed 1024 bytes"
    assert refusal(apply_to="topics") == (
        "apply-to 'topics' unrecognised; should be one of: 'queues', 'classic_queues', "
        " 'quorum_queues', 'streams', 'exchanges', or 'all'"
    )
    assert refusal(priority=2**70) == f"priority {2**70} is beyond 2147483647"
    locator = f'{{"{LOCATOR}": "balanced"}}'
    assert refusal(operator=True, definition=locator) == (
        '[{<<"queue-leader-locator">>,<<"balanced">>}] are not recognised policy settings'
    )
    for operator, what in ((False, "policy"), (True, "operator policy")):
        with pytest.raises(Refusal, match=f"there is no {what} 'p' in vhost '/'"):
            check_clear_policy(machine, operator, "/", "p")


def test_nothing_is_both_honoured_and_refused() -> None:
    for each in TYPES.values():
        assert not set(each.policy_keys) & set(NOT_YET)
        assert not set(each.policy_keys) & set(each.foreign_policy_keys)
        assert {*each.policy_keys, *each.foreign_policy_keys} <= set(BY_NAME)


WRONG: dict[str, list[tuple[Any, str]]] = {
    "alternate-exchange": [(5, "5 is not a valid alternate exchange name")],
    "consumer-timeout": [(-1, "-1 is not a valid consumer timeout")],
    "dead-letter-exchange": [(["x"], '[<<"x">>] is not a valid dead letter exchange name')],
    "dead-letter-routing-key": [(True, "true is not a valid dead letter routing key")],
    "dead-letter-strategy": [("x", '<<"x">> is not a valid dead letter strategy')],
    "delayed-retry-min": [
        (0, "0 is not a valid delayed retry minimum delay. Must be a positive integer")
    ],
    "delayed-retry-type": [
        (
            "some",
            '<<"some">> is not a valid delayed retry type. Must be one of: all, failed, returned, '
            "disabled",
        )
    ],
    "delivery-limit": [(1.5, "1.5 is not a valid delivery limit")],
    "expires": [(0, "0 is not a valid queue expiry"), (2**70, f"{2**70} is not a valid queue")],
    "max-age": [("7", '<<"7">> is not a valid max age'), (7, "7 is not a valid max age")],
    "max-in-memory-length": [(-1, "-1 is not a valid maximum memory in bytes")],
    "max-length": [("5", '<<"5">> is not a valid maximum length')],
    "max-length-bytes": [({"a": 1}, '#{<<"a">> => 1} is not a valid maximum length in bytes')],
    "message-ttl": [(None, "null is not a valid message TTL")],
    "overflow": [("", "<<>> is not a valid overflow value")],
    "queue-mode": [("\u00e9", '<<"\u00e9"/utf8>> is not a valid queue-mode value')],
    "queue-version": [(3, "3 is not a valid queue-version value")],
    "stream-filter-size-bytes": [
        (15, "15 is not a valid filter size. Valid range is 16-255"),
    ],
}


@pytest.mark.parametrize("operator", (False, True))
@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"type": "all"}, "delayed-retry-min is required when delayed-retry-type is all"),
        (
            {"type": "failed", "max": 5},
            "delayed-retry-min is required when delayed-retry-type is failed",
        ),
        (
            {"type": "returned", "min": 2, "max": 1},
            "delayed-retry-max (1) must not be smaller than delayed-retry-min (2)",
        ),
        (
            {"min": 9, "max": 8},
            "delayed-retry-max (8) must not be smaller than delayed-retry-min (9)",
        ),
        ({"type": "disabled"}, ""),
        ({"type": "disabled", "max": 7}, ""),
        ({"max": 7}, ""),
        ({"type": "all", "min": 7, "max": 7}, ""),
    ],
)
def test_delays_that_say_no_time_are_refused(
    definition: dict[str, Any], text: str, operator: bool
) -> None:
    machine = Cluster("a").machine
    given = json.dumps({f"delayed-retry-{name}": value for name, value in definition.items()})
    if not text:
        check_set_policy(machine, operator, "/", "p", ".*", given, 0, "all")
        return
    with pytest.raises(Refusal) as refused:
        check_set_policy(machine, operator, "/", "p", ".*", given, 0, "all")
    assert refused.value.text == text


@pytest.mark.parametrize("key", sorted(WRONG))
def test_what_a_key_cannot_be_is_said_in_words_of_rabbitmq(key: str) -> None:
    machine = Cluster("a").machine
    for wrong, text in WRONG[key]:
        with pytest.raises(Refusal) as refused:
            definition = json.dumps({key: wrong})
            check_set_policy(machine, False, "/", "p", ".*", definition, 0, "all")
        assert refused.value.text.startswith(text)


LIMITS = ("expires", "max-length", "max-length-bytes", "message-ttl")
MERGED: list[tuple[str, Any, Any, Any]] = [
    *((key, 5, 7, 5) for key in LIMITS),
    *((key, 7, 5, 5) for key in LIMITS),
    ("delivery-limit", 5, 7, 5),
    ("delivery-limit", -1, 7, 7),
    ("delivery-limit", 5, -1, 5),
    ("delayed-retry-max", 5, 7, 5),
    ("delayed-retry-min", 5, 7, 7),
    ("delayed-retry-type", "all", "failed", "failed"),
    ("overflow", "drop-head", "reject-publish", "reject-publish"),
    ("queue-version", 2, 1, 1),
    (TARGET, 3, 5, 5),
    (TARGET, 5, 3, 5),
]


@pytest.mark.parametrize(("key", "user", "operator", "counts"), MERGED)
def test_of_two_policies_each_key_says_which_counts(
    key: str, user: Any, operator: Any, counts: Any
) -> None:
    assert BY_NAME[key].merged(user, operator) == counts
    assert BY_NAME[key].merged(user, None) == user
    assert BY_NAME[key].merged(None, operator) == operator


OWN: list[tuple[str, Any, Any, Any]] = [
    *((key, 5, 7, 5) for key in (*LIMITS, "consumer-timeout")),
    *((key, 7, 5, 5) for key in (*LIMITS, "consumer-timeout")),
    ("dead-letter-exchange", "policy", "own", "own"),
    ("dead-letter-routing-key", "policy", "own", "own"),
    ("dead-letter-strategy", "at-most-once", "at-least-once", "at-least-once"),
    ("delayed-retry-type", "all", "failed", "all"),
    ("delivery-limit", -1, 7, 7),
    ("delivery-limit", 9, 7, 7),
    ("overflow", "drop-head", "reject-publish", "drop-head"),
    (LOCATOR, "balanced", "client-local", "balanced"),
    (TARGET, 3, 5, 5),
]


@pytest.mark.parametrize(("key", "policy", "own", "counts"), OWN)
def test_of_a_policy_and_an_argument_each_key_says_which_counts(
    key: str, policy: Any, own: Any, counts: Any
) -> None:
    cluster = Cluster("a")
    tables = cluster.machine.vhosts["/"]
    arguments = {BY_NAME[key].argument: own}
    for kind in ("classic", "quorum"):
        assert policies.EffectiveSettings(tables, "q", kind, arguments).value(key) == own
    tables.policies["p"] = PolicyRecord("p", ".*", "quorum_queues", 0, {key: policy})
    effective = policies.EffectiveSettings(tables, "q", "quorum", arguments)
    assert effective.value(key) == counts and effective.by_policy(key) == policy
    if isinstance(counts, str):
        assert effective.text(key) == counts
    else:
        assert effective.number(key, 0) == counts
    assert policies.EffectiveSettings(tables, "q", "classic", arguments).value(key) == own
    nothing = policies.EffectiveSettings(tables, "q", "classic")
    assert (nothing.value(key), nothing.number(key, -7), nothing.text(key)) == (None, -7, "")


@pytest.mark.parametrize(
    ("key", "kinds"),
    [
        ("message-ttl", {"classic", "quorum"}),
        ("queue-mode", {"classic"}),
        ("delivery-limit", {"quorum"}),
        ("dead-letter-strategy", {"quorum"}),
        ("max-in-memory-bytes", {"quorum"}),
        ("max-age", {"stream"}),
        ("max-length-bytes", {"classic", "quorum", "stream"}),
        ("alternate-exchange", {"classic", "quorum", "stream"}),
    ],
)
def test_a_policy_with_a_key_of_other_types_is_not_for_a_type(key: str, kinds: set[str]) -> None:
    tables = Cluster("a").machine.vhosts["/"]
    tables.policies["p"] = PolicyRecord("p", ".*", "all", 0, {key: 1, LOCATOR: "balanced"})
    for kind in TYPES:
        assert (policies.policy_of(tables, "q", kind) is not None) == (kind in kinds)


def exchange(cluster: Cluster, name: str, alternate: str | None = None) -> None:
    arguments: Table = {} if alternate is None else {"alternate-exchange": alternate}
    cluster.apply(DeclareExchange("/", name, "fanout", True, False, False, arguments))


def alternate(name: str) -> str:
    return f'{{"alternate-exchange": "{name}"}}'


def catch_all(cluster: Cluster, *names: str) -> None:
    """Exchanges of these names, each with a queue of the same name."""
    for number, name in enumerate(names, 1):
        exchange(cluster, name)
        cluster.apply(DeclareQueue("/", name, "classic", True, False, 0, {}, number))
        cluster.apply(Bind("/", name, name, False, "", {}, True))


def leads_to(cluster: Cluster, name: str) -> list[str]:
    return cluster.machine.vhosts["/"].router.route(name, "k")


@pytest.mark.rule("ARG-10")
def test_a_policy_gives_exchanges_an_alternate_at_once() -> None:
    cluster = Cluster("a")
    catch_all(cluster, "rest", "other")
    exchange(cluster, "x.one")
    exchange(cluster, "y")
    assert leads_to(cluster, "x.one") == []
    put(cluster, "low", alternate("other"), "^x", 1)
    assert (leads_to(cluster, "x.one"), leads_to(cluster, "y")) == (["other"], [])
    put(cluster, "high", alternate("rest"), "^x", 2, "exchanges")
    assert leads_to(cluster, "x.one") == ["rest"]
    exchange(cluster, "x.new")
    assert leads_to(cluster, "x.new") == ["rest"]
    put(cluster, "high", alternate("rest"), "^y", 2, "exchanges")
    assert (leads_to(cluster, "x.one"), leads_to(cluster, "y")) == (["other"], ["rest"])
    put(cluster, "low", alternate("other"), "^x", 1, "queues")
    assert leads_to(cluster, "x.one") == []
    clear(cluster, "high")
    assert leads_to(cluster, "y") == []


def test_what_an_exchange_was_declared_with_counts_before_its_policy() -> None:
    cluster = Cluster("a")
    catch_all(cluster, "rest", "other")
    exchange(cluster, "declared", "other")
    exchange(cluster, "nowhere", "")
    put(cluster, "p", alternate("rest"))
    assert (leads_to(cluster, "declared"), leads_to(cluster, "nowhere")) == (["other"], [])


def test_an_alternate_by_policy_may_lead_on_and_back() -> None:
    cluster = Cluster("a")
    catch_all(cluster, "rest")
    for name in ("a", "b", "c"):
        exchange(cluster, name)
    put(cluster, "a", alternate("b"), "^a$")
    put(cluster, "b", alternate("c"), "^b$")
    put(cluster, "c", alternate("a"), "^c$")
    assert leads_to(cluster, "a") == []
    put(cluster, "c", alternate("rest"), "^c$")
    assert leads_to(cluster, "a") == ["rest"]


def test_a_node_that_restores_a_snapshot_knows_alternates_by_policy() -> None:
    cluster = Cluster("a")
    catch_all(cluster, "rest")
    exchange(cluster, "x")
    put(cluster, "p", alternate("rest"), "^x")
    restored = MetadataMachine()
    for _ in range(2):
        # The second time routers are in use already.
        restored.restore(cluster.machine.snapshot())
        assert restored.vhosts["/"].router.route("x", "k") == ["rest"]
        clear(cluster, "p")
        restored.restore(cluster.machine.snapshot())
        assert restored.vhosts["/"].router.route("x", "k") == []
        put(cluster, "p", alternate("rest"), "^x")


def test_new_keys_wait_until_all_nodes_know_them() -> None:
    machine = Cluster("a").machine
    for keys, version in (([TARGET, LOCATOR], 1), ([TARGET, "delivery-limit"], 2)):
        earlier = SetPolicy("/", "p", False, "", "all", 0, dict.fromkeys(keys, 1))
        assert earlier.cluster_version() == version
    command = check_set_policy(machine, False, "/", "p", "", alternate("x"), 0, "all")
    assert command.cluster_version() == POLICY_KEYS


def test_patterns_of_all_policies_of_a_vhost_are_bounded_together() -> None:
    """Each queue that is declared is matched with all of them."""
    cluster = Cluster()
    dear = "^(a+b?)+x"
    definition = '{"max-length": 1}'
    cost = new_pattern(dear).cost
    assert cost == STEPS_MAX
    most = POLICY_STEPS_MAX // cost
    for number in range(most):
        put(cluster, f"p{number}", definition, f"{dear}{number}", operator=number % 2 == 0)
    with pytest.raises(Refusal, match=f"{POLICY_STEPS_MAX} at most: use fewer policies"):
        put(cluster, "more", definition, dear)
    # One that is replaced does not count, and others may be of other kinds.
    put(cluster, "p1", definition, f"{dear}y")
    put(cluster, "cheap", definition, "^orders[.]")
    clear(cluster, "p3")
    put(cluster, "more", definition, dear)


def test_what_a_policy_said_of_a_name_is_forgotten_with_it() -> None:
    cluster = Cluster()
    put(cluster, "p", '{"max-length": 1}', "^(q|[0-9]+)+x$")
    assert counting(cluster, "q5x") == "p"
    before = WORK.steps
    assert counting(cluster, "q5x") == "p"
    assert WORK.steps == before
    put(cluster, "p", '{"max-length": 1}', "^(q|[0-9]+)+y$")
    assert counting(cluster, "q5x") == ""
