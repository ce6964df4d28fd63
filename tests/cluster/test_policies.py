"""`warren policies`, with real nodes: what operators set is in force on all of them, and stays."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Cluster, Node, declare

RECONCILES = (
    "--set",
    "quorum_queue.continuous_membership_reconciliation.enabled=true",
    "--set",
    "quorum_queue.continuous_membership_reconciliation.trigger_interval=100",
)


def row(node: Node, queue: str) -> dict[str, Any]:
    """A queue as `warren cluster status` has it."""
    return next(row for row in node.status()["queues"] if row["name"] == queue)


@pytest.mark.rule("ARG-10", "ARG-11", "CMR-10")
def test_a_policy_grows_queues_and_outlives_a_restart(cluster: Cluster) -> None:
    nodes = cluster.start(3, *RECONCILES)
    for queue in ("orders.eu", "bills"):
        declare(nodes[0], queue, **{"x-quorum-initial-group-size": 1})
    definition = '{"target-group-size": 3}'
    nodes[1].done("policies", "set_policy", "sizes", r"^orders\.", definition, "--priority", "7",
         "--apply-to", "quorum_queues")  # fmt: skip
    eventually(lambda: len(row(nodes[2], "orders.eu")["members"]) == 3, WAIT_S)
    assert row(nodes[2], "orders.eu")["policy"] == "sizes"
    assert row(nodes[2], "bills")["policy"] == ""
    assert len(row(nodes[2], "bills")["members"]) == 1
    nodes[2].done("policies", "set_operator_policy", "floor", "", '{"target-group-size": 2}')
    eventually(lambda: len(row(nodes[0], "bills")["members"]) == 2, WAIT_S)
    status = nodes[0].warren("status").stdout.splitlines()
    assert next(line for line in status if " bills " in line).endswith("operator_policy floor")

    cluster.restart_all()
    cluster.settled()
    expected = {
        "vhost": "/",
        "name": "sizes",
        "pattern": r"^orders\.",
        "apply-to": "quorum_queues",
        "definition": {"target-group-size": 3},
        "priority": 7,
    }
    for node in nodes:
        assert json.loads(node.done("policies", "list_policies", "--json")) == [expected]
    assert "floor" in nodes[0].done("policies", "list_operator_policies")
    nodes[0].done("policies", "clear_policy", "sizes")
    eventually(lambda: nodes[2].done("policies", "list_policies") == "no policies", WAIT_S)
    refused = nodes[0].command("policies", "clear_policy", "sizes")
    assert refused.returncode == 1
    assert refused.stderr == "warren: there is no policy 'sizes' in vhost '/'\n"


@pytest.mark.rule("LEAD-02")
def test_where_leaders_begin(cluster: Cluster) -> None:
    """By the setting, by an argument, and by a policy, which goes before both."""
    nodes = cluster.start(3, "--set", "queue_leader_locator=balanced")
    nodes[0].done(
        "policies", "set_policy", "local", "^local", '{"queue-leader-locator": "client-local"}'
    )
    for number in range(6):
        declare(nodes[0], f"spread-{number}")
    for number in range(3):
        declare(nodes[1], f"local-{number}", **{"x-queue-leader-locator": "balanced"})
        declare(nodes[2], f"argued-{number}", **{"x-queue-leader-locator": "client-local"})
    found = eventually(lambda: led(nodes[0]), WAIT_S)
    assert Counter(name for queue, name in found.items() if "spread" in queue) == {
        node.name: 2 for node in nodes
    }
    assert {name for queue, name in found.items() if "local" in queue} == {nodes[1].name}
    assert {name for queue, name in found.items() if "argued" in queue} == {nodes[2].name}


def led(node: Node) -> dict[str, str]:
    """Who leads which queue; nothing before that is known of all."""
    found = {row["name"]: row["leader"] for row in node.status()["queues"]}
    return found if all(found.values()) else {}


def test_a_minority_changes_nothing(cluster: Cluster) -> None:
    nodes = cluster.start(2)
    wrong = nodes[0].command("policies", "set_policy", "p", "*", '{"target-group-size": 3}')
    assert wrong.returncode == 1 and "should be regular expression" in wrong.stderr
    nodes[1].broker.kill()
    eventually(lambda: not nodes[0].status()["leader"], WAIT_S)
    refused = nodes[0].command("policies", "set_policy", "p", "", '{"target-group-size": 3}')
    assert refused.returncode == 1
    assert "waits for a majority" in refused.stderr
    assert nodes[0].done("policies", "list_policies") == "no policies"
