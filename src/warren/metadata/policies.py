"""Policies: settings for all queues whose names match a pattern, which may change at any time.

One user policy and one operator policy count for a queue: of those that fit it, the one with the
highest priority, and of equals the first by name. A policy with a setting that means nothing to a
type of queue fits no queue of that type.

Source: ARG-09 to ARG-11, B-06; `rabbit_policy` and `rabbit_policies` of RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import Any, Final

from warren.metadata.commands import ClearPolicy, SetPolicy
from warren.metadata.outcome import Outcome
from warren.metadata.tables import PolicyRecord, QueueRecord, VhostRecord
from warren.queue_types import DELIVERY_LIMIT, TARGET_GROUP_SIZE, type_of

OPERATOR_KEYS: Final = (DELIVERY_LIMIT, TARGET_GROUP_SIZE)
"""What operator policies may set."""

APPLY_TO: Final = ("queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all")


def policy_of(tables: VhostRecord, name: str, kind: str) -> PolicyRecord | None:
    """The user policy of a queue, whether it exists yet or not; None if none fits."""
    return _first_fitting(tables.policies, name, kind)


def operator_policy_of(tables: VhostRecord, name: str, kind: str) -> PolicyRecord | None:
    """The operator policy of a queue, likewise; None if none fits."""
    return _first_fitting(tables.operator_policies, name, kind)


def policy_value(tables: VhostRecord, name: str, kind: str, key: str) -> Any:
    """What the policies of a queue set a key to; None if they do not.

    Args:
        key: One of the policy keys of a type (`queue_types`).
    """
    user = _setting(policy_of(tables, name, kind), key)
    operator = _setting(operator_policy_of(tables, name, kind), key)
    if user is None or operator is None:
        return operator if user is None else user
    if key == DELIVERY_LIMIT and user >= 0 and operator >= 0:
        return min(user, operator)
    # Of limits a negative one is none, so that the larger one is the stricter.
    return max(user, operator)


def set_policy(vhosts: dict[str, VhostRecord], command: SetPolicy, outcome: Outcome) -> None:
    """Create a policy, or replace it."""
    tables = vhosts.get(command.vhost)
    if tables is not None:
        tables.policies_of(command.operator)[command.name] = PolicyRecord(
            command.name,
            command.pattern,
            command.apply_to,
            command.priority,
            command.definition,
        )
        outcome.changed = True
        outcome.policies_changed = True


def clear_policy(vhosts: dict[str, VhostRecord], command: ClearPolicy, outcome: Outcome) -> None:
    """Apply `ClearPolicy`: a policy of a vhost is no more."""
    tables = vhosts.get(command.vhost)
    if tables is not None:
        policies = tables.policies_of(command.operator)
        if policies.pop(command.name, None) is not None:
            outcome.changed = True
            outcome.policies_changed = True


def names_of(tables: VhostRecord, queue: QueueRecord) -> tuple[str, str]:
    """The names of a queue's user policy and of its operator policy; empty for none (ARG-15)."""
    user = policy_of(tables, queue.name, queue.kind)
    operator = operator_policy_of(tables, queue.name, queue.kind)
    return "" if user is None else user.name, "" if operator is None else operator.name


def _first_fitting(policies: dict[str, PolicyRecord], name: str, kind: str) -> PolicyRecord | None:
    found: PolicyRecord | None = None
    for policy in policies.values():
        if _fits(policy, name, kind) and (found is None or _before(policy, found)):
            found = policy
    return found


def _fits(policy: PolicyRecord, name: str, kind: str) -> bool:
    queue_type = type_of(kind)
    return (
        policy.apply_to in ("all", "queues", queue_type.policies)
        and all(key in queue_type.policy_keys for key in policy.definition)
        and policy.matches(name)
    )


def _before(one: PolicyRecord, other: PolicyRecord) -> bool:
    if one.priority != other.priority:
        return one.priority > other.priority
    return one.name < other.name


def _setting(policy: PolicyRecord | None, key: str) -> Any:
    return None if policy is None else policy.definition.get(key)
