"""What a node answers operators about policies: `warren policies`.

A request is `["policies", action, {...}]`, with the words of the command by name; see `Asked`. What
changes a policy is answered when the change is in force on this node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from warren.errors import ClusterError
from warren.metadata.commands import Command
from warren.metadata.outcome import Change, Outcome
from warren.metadata.policy_checks import check_clear_policy, check_set_policy

if TYPE_CHECKING:
    from warren.node.node import Node


class Asked(msgspec.Struct, kw_only=True):
    """The words of any command; each action uses some."""

    vhost: str = "/"
    name: str = ""
    pattern: str = ""
    definition: str = ""
    priority: int = 0
    apply_to: str = "all"


Action = Literal[
    "set_policy",
    "clear_policy",
    "list_policies",
    "set_operator_policy",
    "clear_operator_policy",
    "list_operator_policies",
]


class PolicyOperators:
    """Answers for one node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def answer(self, action: str, words: dict[str, Any], reply: Callable[[Any], None]) -> None:
        """Do what is asked, and reply when it is done.

        Raises:
            ClusterError: It cannot be done; says why.
            ValueError: There is no such action, or it has no such words.
        """
        kind = msgspec.convert(action, Action)
        asked = msgspec.convert(words, Asked)
        operator = "operator" in kind
        if kind.startswith("list"):
            reply(self._list(asked.vhost, operator))
            return
        if not self._node.queue_members.tables_leader():
            raise ClusterError(f"{self._node.queue_members.no_majority()}: nothing can be changed")
        command = self._command(kind, asked, operator)
        self._node.tables.submit(command, InForce(reply))

    def _command(self, kind: str, asked: Asked, operator: bool) -> Command:
        machine = self._node.tables.machine
        if kind.startswith("clear"):
            return check_clear_policy(machine, operator, asked.vhost, asked.name)
        return check_set_policy(
            machine,
            operator,
            asked.vhost,
            asked.name,
            asked.pattern,
            asked.definition,
            asked.priority,
            asked.apply_to,
        )

    def _list(self, vhost: str, operator: bool) -> list[dict[str, Any]]:
        """Policies as RabbitMQ lists them, those of low priority first."""
        tables = self._node.tables.machine.vhosts.get(vhost)
        if tables is None:
            raise ClusterError(f"vhost '{vhost}' does not exist")
        policies = tables.policies_of(operator).values()
        return [
            {
                "vhost": vhost,
                "name": row.name,
                "pattern": row.pattern,
                "apply-to": row.apply_to,
                "definition": row.definition,
                "priority": int(row.priority),
            }
            for row in sorted(policies, key=lambda row: (row.priority, row.name))
        ]


class InForce(Change):
    """An operator waits for a policy to be in force."""

    def __init__(self, reply: Callable[[Any], None]) -> None:
        self._reply = reply

    def applied(self, outcome: Outcome) -> None:
        """It is."""
        self._reply(None)
