"""Policies: which one counts for a queue, what is taken, what a restart keeps."""

from __future__ import annotations

from typing import Any

import pytest

from tests.metadata.cluster import Cluster
from warren.errors import Refusal
from warren.metadata import policies
from warren.metadata.commands import DeleteVhost
from warren.metadata.machine import MetadataMachine
from warren.metadata.policy_checks import NOT_YET, check_clear_policy, check_set_policy
from warren.queue_types import TYPES

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
        ("{}", "no policy provided: the definition is empty"),
        ('{"ha-mood": "all"}', "'ha-mood' is not a recognised policy setting"),
        ('{"message-ttl": 1}', "policy key 'message-ttl' is not supported yet"),
        (target(0), "0 is not a valid qq target count value: "),
        ('{"target-group-size": true}', "true is not a valid qq target count value: "),
        ('{"target-group-size": "3"}', '"3" is not a valid qq target count value: '),
        ('{"queue-leader-locator": "near"}', '"near" is not a valid queue leader locator value: '),
        (
            '{"queue-leader-locator": "min-masters"}',
            '"min-masters" is not a valid queue leader locator value: ',
        ),
        ('{"queue-leader-locator": 3}', "3 is not a valid queue leader locator value: "),
        ('{"queue-leader-locator": ["x"]}', '["x"] is not a valid queue leader locator value: '),
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
    assert refusal(apply_to="topics") == (
        "apply-to 'topics' unrecognised; should be one of: 'queues', 'classic_queues', "
        "'quorum_queues', 'streams', 'exchanges', or 'all'"
    )
    assert refusal(priority=2**70) == f"priority {2**70} is beyond 2147483647"
    locator = f'{{"{LOCATOR}": "balanced"}}'
    assert refusal(operator=True, definition=locator) == (
        "'queue-leader-locator' is not a recognised setting of operator policies"
    )
    for operator, what in ((False, "policy"), (True, "operator policy")):
        with pytest.raises(Refusal, match=f"there is no {what} 'p' in vhost '/'"):
            check_clear_policy(machine, operator, "/", "p")


def test_nothing_is_both_honoured_and_refused() -> None:
    for each in TYPES.values():
        assert not set(each.policy_keys) & set(NOT_YET)
