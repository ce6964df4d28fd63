"""How much there may be in the tables, which every node of the cluster has in memory.

The node that wants a change checks it before it is logged. What is logged is applied, and what is
there stays, however much that is: bounds may differ by node and by release.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from mypy_extensions import i64

from warren.errors import PRECONDITION_FAILED, Refusal
from warren.limits import DEFINITION_BYTES_MAX, DEFINITION_BYTES_SHORT
from warren.metadata.changes import binding_key
from warren.metadata.commands import (
    Bind,
    Command,
    DeclareDelayed,
    DeclareExchange,
    DeclareQueue,
    DeclareVhost,
    SetParameter,
    SetPermissions,
    SetPolicy,
    SetTopicPermissions,
    SetUser,
    SetUserTags,
    SetVhost,
)
from warren.metadata.machine import MetadataMachine
from warren.metadata.vhosts import DESCRIPTION, TAGS
from warren.metadata.weights import (
    ACCESS_BYTES,
    BINDING_BYTES,
    EXCHANGE_BYTES,
    POLICY_BYTES,
    QUEUE_BYTES,
    VHOST_BYTES,
    weight_of,
    weight_of_table,
    weight_of_texts,
)


@final
class Growth:
    """What a change adds to the tables.

    Attributes:
        what: What it sets, for an error.
        own: What its arguments, definition or texts take in memory, in bytes.
        total: With all else, less what it is in the place of.
    """

    def __init__(self, what: str, own: i64, total: i64) -> None:
        self.what: str = what
        self.own: i64 = own
        self.total: i64 = total


@final
class TablesRoom:
    """Of one node."""

    def __init__(self, machine: MetadataMachine) -> None:
        self._machine: MetadataMachine = machine
        self._known: i64 = -1
        """What there was when it was last counted, and"""
        self._since: i64 = 0
        """what this node has wanted since."""

    def count_anew(self) -> None:
        """Count what there is before the next check; to be called about once a second."""
        self._known = -1

    def check(self, command: Command, most: i64, short_of_memory: bool) -> None:
        """Refuse what there is no room for.

        Args:
            most: How much there may be, in bytes.
            short_of_memory: Whether there is an alarm for it: what is large has to wait then.

        Raises:
            Refusal: `PRECONDITION_FAILED`.
        """
        growth = growth_of(self._machine, command)
        if growth is None or growth.total <= 0:
            return
        what = growth.what
        takes = f"{what} would take {growth.own} bytes of memory on each node"
        if growth.own > DEFINITION_BYTES_MAX:
            text = f"{takes}, and {DEFINITION_BYTES_MAX} is the most: shorten it"
            raise Refusal(PRECONDITION_FAILED, text)
        if short_of_memory and growth.own > DEFINITION_BYTES_SHORT:
            text = f"memory is short, and {takes}: try again when the alarm is over"
            raise Refusal(PRECONDITION_FAILED, text)
        if self._known < 0:
            self._known = weight_of_tables(self._machine)
            self._since = 0
        if self._known + self._since + growth.total > most:
            text = f"there is no room for {what}: all definitions may take {most} bytes of memory"
            advice = "delete some, or raise cluster.metadata_max_bytes"
            raise Refusal(PRECONDITION_FAILED, f"{text}; {advice}")
        self._since += growth.total


def weight_of_tables(machine: MetadataMachine) -> i64:
    """What all rows take in memory."""
    weight: i64 = ACCESS_BYTES * i64(len(machine.users))
    for value in machine.parameters.values():
        weight += ACCESS_BYTES + i64(len(value))
    for tables in machine.vhosts.values():
        weight += tables.weight + ACCESS_BYTES * i64(len(tables.permissions))
        weight += weight_of_texts([tables.description])
        for bounds in tables.topic_permissions.values():
            weight += ACCESS_BYTES * i64(len(bounds))
        for policy in tables.policies.values():
            weight += policy.weight
        for policy in tables.operator_policies.values():
            weight += policy.weight
    return weight


def growth_of(machine: MetadataMachine, command: Command) -> Growth | None:
    """What a change adds; None for what is no definition."""
    if isinstance(command, Bind):
        return _of_binding(machine, command)
    if isinstance(command, DeclareQueue):
        own = weight_of_table(command.arguments) if len(command.arguments) > 1 else 0
        there = machine.queue(command.vhost, command.name) is not None
        return _new("the arguments of a queue", own, QUEUE_BYTES, there)
    if isinstance(command, DeclareExchange):
        own = weight_of_table(command.arguments)
        there = machine.exchange(command.vhost, command.name) is not None
        return _new("the arguments of an exchange", own, EXCHANGE_BYTES, there)
    if isinstance(command, DeclareDelayed):
        own = weight_of_table(command.arguments)
        there = machine.exchange(command.vhost, command.name) is not None
        return _new("the arguments of an exchange", own, EXCHANGE_BYTES + QUEUE_BYTES, there)
    if isinstance(command, SetPolicy):
        return _of_policy(machine, command)
    if isinstance(command, SetParameter):
        before = machine.parameters.get((command.vhost, command.component, command.name))
        own = i64(len(command.value))
        less: i64 = 0 if before is None else ACCESS_BYTES + i64(len(before))
        return Growth("a parameter", own, ACCESS_BYTES + own - less)
    return _of_administration(machine, command)


def _new(what: str, own: i64, base: i64, there: bool) -> Growth:
    return Growth(what, own, 0 if there else base + own)


def _of_binding(machine: MetadataMachine, command: Bind) -> Growth:
    own = weight_of_table(command.arguments)
    source = machine.exchange(command.vhost, command.source)
    there = source is not None and (
        binding_key(
            command.destination, command.to_exchange, command.routing_key, command.arguments
        )
        in source.bound
    )
    return _new("the arguments of a binding", own, BINDING_BYTES, there)


def _of_policy(machine: MetadataMachine, command: SetPolicy) -> Growth:
    definition: object = command.definition
    own = weight_of(definition)
    tables = machine.vhosts.get(command.vhost)
    before = None if tables is None else tables.policies_of(command.operator).get(command.name)
    less: i64 = 0 if before is None else before.weight
    return Growth("the definition of a policy", own, POLICY_BYTES + own - less)


def _of_administration(machine: MetadataMachine, command: Command) -> Growth | None:
    """The same of what says who may do what, and of vhosts."""
    if isinstance(command, SetUser):
        there = command.name in machine.users
        return _new("the tags of a user", weight_of_texts(command.tags), ACCESS_BYTES, there)
    if isinstance(command, SetUserTags):
        return _new("the tags of a user", weight_of_texts(command.tags), 0, False)
    if isinstance(command, DeclareVhost):
        return _new("a vhost", 0, VHOST_BYTES, command.name in machine.vhosts)
    if isinstance(command, SetVhost):
        said: list[str] = _texts(command.properties.get(DESCRIPTION))
        said += _texts(command.properties.get(TAGS))
        base: i64 = 0 if command.name in machine.vhosts else VHOST_BYTES
        return Growth("what is said of a vhost", weight_of_texts(said), base)
    if isinstance(command, (SetPermissions, SetTopicPermissions)):
        tables = machine.vhosts.get(command.vhost)
        there = (
            isinstance(command, SetPermissions)
            and tables is not None
            and command.user in tables.permissions
        )
        return _new("permissions", 0, ACCESS_BYTES, there)
    return None


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, Iterable) else []
