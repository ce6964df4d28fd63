"""Policies: settings for all queues and exchanges whose names match a pattern, at any time.

One user policy and one operator policy count for a queue: of those that fit it, the one with the
highest priority, and of equals the first by name. A policy with a setting that belongs to other
types of queues alone fits no queue of that type. What the two say, and the queue's arguments, is
put together key by key (`policy_keys`).

Source: ARG-05 to ARG-07, ARG-09 to ARG-11, B-06; `rabbit_policy` of RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import Any, Final, final

from mypy_extensions import i64

from warren.metadata.commands import ClearPolicy, SetPolicy
from warren.metadata.outcome import Outcome
from warren.metadata.policy_keys import BY_NAME
from warren.metadata.tables import PolicyRecord, QueueRecord, VhostRecord
from warren.queue_types import type_of
from warren.routing.alternates import ALTERNATE_EXCHANGE, Alternates
from warren.wire.amqp091.table import Table

APPLY_TO: Final = ("queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all")

EXCHANGES_TOO: Final = ("exchanges", "all")
"""What policies apply to that are for exchanges."""
NO_ARGUMENTS: Final[Table] = {}


@final
class EffectiveSettings:
    """What counts for one queue, whether it exists yet or not.

    Policies are matched once, when this is made: it is for one look at several keys.
    """

    def __init__(
        self, tables: VhostRecord, name: str, kind: str, arguments: Table = NO_ARGUMENTS
    ) -> None:
        """
        Args:
            tables: The queue's vhost.
            kind: The name of its type.
            arguments: As it was declared with.
        """
        self._user: PolicyRecord | None = policy_of(tables, name, kind)
        self._operator: PolicyRecord | None = operator_policy_of(tables, name, kind)
        self._arguments: Table = arguments

    def by_policy(self, key: str) -> Any:
        """What the policies say, one of `policy_keys.KEYS`; None if they say nothing."""
        return BY_NAME[key].merged(_setting(self._user, key), _setting(self._operator, key))

    def value(self, key: str) -> Any:
        """What policies and arguments say together; None if neither says anything."""
        known = BY_NAME[key]
        return known.with_own(self.by_policy(key), self._arguments.get(known.argument))

    def number(self, key: str, default: i64) -> i64:
        """The same, of a key that has numbers."""
        found = self.value(key)
        return i64(found) if isinstance(found, int) else default

    def text(self, key: str) -> str:
        """The same, of a key that has texts; empty if neither says anything."""
        found = self.value(key)
        return found if isinstance(found, str) else ""


def policy_of(tables: VhostRecord, name: str, kind: str) -> PolicyRecord | None:
    """The user policy of a queue, whether it exists yet or not; None if none fits."""
    return _first_fitting(tables.policies, name, kind)


def operator_policy_of(tables: VhostRecord, name: str, kind: str) -> PolicyRecord | None:
    """The operator policy of a queue, likewise; None if none fits."""
    return _first_fitting(tables.operator_policies, name, kind)


def exchange_policy_of(tables: VhostRecord, name: str) -> PolicyRecord | None:
    """The user policy of an exchange; None if none fits."""
    found: PolicyRecord | None = None
    for policy in tables.policies.values():
        if (
            policy.apply_to in EXCHANGES_TOO
            and (found is None or _before(policy, found))
            and policy.matches(name)
        ):
            found = policy
    return found


def policy_value(tables: VhostRecord, name: str, kind: str, key: str) -> Any:
    """What the policies of a queue set a key to; None if they do not.

    Args:
        key: One of `policy_keys.KEYS`.
    """
    return EffectiveSettings(tables, name, kind).by_policy(key)


@final
class PolicyAlternates(Alternates):
    """The alternate exchanges of a vhost by its policies."""

    def __init__(self, tables: VhostRecord) -> None:
        self._tables: VhostRecord = tables

    def alternate(self, exchange: str) -> str:
        """What the policy of an exchange says; empty if it says nothing."""
        if not self._tables.policies:
            return ""
        found = _setting(exchange_policy_of(self._tables, exchange), ALTERNATE_EXCHANGE)
        return found if isinstance(found, str) else ""


def set_policy(vhosts: dict[str, VhostRecord], command: SetPolicy, outcome: Outcome) -> None:
    """Create a policy, or replace it."""
    tables = vhosts.get(command.vhost)
    if tables is not None:
        policies = tables.policies_of(command.operator)
        before = policies.get(command.name)
        outcome.repeated = before is not None and (
            before.pattern,
            before.apply_to,
            before.priority,
            before.definition,
        ) == (command.pattern, command.apply_to, command.priority, command.definition)
        outcome.changed = True
        policies[command.name] = PolicyRecord(
            command.name,
            command.pattern,
            command.apply_to,
            command.priority,
            command.definition,
        )
        tables.router.policies_changed()
        outcome.policies_changed = True


def clear_policy(vhosts: dict[str, VhostRecord], command: ClearPolicy, outcome: Outcome) -> None:
    """Apply `ClearPolicy`: a policy of a vhost is no more."""
    tables = vhosts.get(command.vhost)
    if tables is not None:
        policies = tables.policies_of(command.operator)
        outcome.cleared_policy = policies.pop(command.name, None)
        if outcome.cleared_policy is not None:
            tables.router.policies_changed()
            outcome.changed = True
            outcome.policies_changed = True


def chosen(tables: VhostRecord, policy: PolicyRecord, operator: bool, queue: QueueRecord) -> bool:
    """Whether a queue goes by a policy, or would if the policy, which is gone, were there."""
    if not _fits(policy, queue.name, queue.kind):
        return False
    other = _first_fitting(tables.policies_of(operator), queue.name, queue.kind)
    return other is None or other is policy or _before(policy, other)


def would_count(
    tables: VhostRecord, policy: PolicyRecord, operator: bool, queue: QueueRecord
) -> bool:
    """Whether a queue would go by a policy if it were set, in the place of the one of its name."""
    if not _fits(policy, queue.name, queue.kind):
        return False
    for other in tables.policies_of(operator).values():
        if (
            other.name != policy.name
            and _before(other, policy)
            and _fits(other, queue.name, queue.kind)
        ):
            return False
    return True


def names_of(tables: VhostRecord, queue: QueueRecord) -> tuple[str, str]:
    """The names of a queue's user policy and of its operator policy; empty for none (ARG-15)."""
    user = policy_of(tables, queue.name, queue.kind)
    operator = operator_policy_of(tables, queue.name, queue.kind)
    return "" if user is None else user.name, "" if operator is None else operator.name


def _first_fitting(policies: dict[str, PolicyRecord], name: str, kind: str) -> PolicyRecord | None:
    found: PolicyRecord | None = None
    for policy in policies.values():
        if (found is None or _before(policy, found)) and _fits(policy, name, kind):
            found = policy
    return found


def _fits(policy: PolicyRecord, name: str, kind: str) -> bool:
    queue_type = type_of(kind)
    return (
        not queue_type.delays
        and policy.apply_to in ("all", "queues", queue_type.policies)
        and not any(key in queue_type.foreign_policy_keys for key in policy.definition)
        and policy.matches(name)
    )


def _before(one: PolicyRecord, other: PolicyRecord) -> bool:
    if one.priority != other.priority:
        return one.priority > other.priority
    return one.name < other.name


def _setting(policy: PolicyRecord | None, key: str) -> Any:
    return None if policy is None else policy.definition.get(key)
