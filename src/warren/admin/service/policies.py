"""Settings of queues by their names: policies of users, and those of operators above them.

What changes a policy is done when the change is in force on this node.
"""

from __future__ import annotations

from warren.admin.service.caller import POLICYMAKER, Caller
from warren.admin.service.operation import operation
from warren.admin.service.rows import PolicyRow
from warren.admin.service.service import AdminService
from warren.errors import NOT_FOUND, Refusal
from warren.metadata.policy_checks import check_clear_policy, check_set_policy
from warren.metadata.tables import VhostRecord


@operation(POLICYMAKER, of_vhost=True)
async def set_policy(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    name: str,
    pattern: str,
    definition: str,
    priority: int = 0,
    apply_to: str = "all",
) -> None:
    """Create or replace a policy.

    Args:
        definition: Settings by key, a JSON object.

    Raises:
        Refusal: Something of it is wrong, or there is no majority.
    """
    await _set(service, False, vhost, name, pattern, definition, priority, apply_to)


@operation(POLICYMAKER, of_vhost=True)
async def clear_policy(service: AdminService, caller: Caller, *, vhost: str, name: str) -> None:
    """Remove a policy.

    Raises:
        Refusal: There is none of that name, or no majority.
    """
    await _clear(service, False, vhost, name)


@operation(POLICYMAKER, of_vhost=True)
async def list_policies(service: AdminService, caller: Caller, *, vhost: str) -> list[PolicyRow]:
    """List the policies of a vhost as RabbitMQ does, those of low priority first.

    Raises:
        Refusal: There is no such vhost.
    """
    return _listed(service, False, vhost)


@operation()
async def set_operator_policy(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    name: str,
    pattern: str,
    definition: str,
    priority: int = 0,
    apply_to: str = "all",
) -> None:
    """Create or replace an operator policy; see `set_policy`.

    Raises:
        Refusal: Something of it is wrong, or there is no majority.
    """
    await _set(service, True, vhost, name, pattern, definition, priority, apply_to)


@operation()
async def clear_operator_policy(
    service: AdminService, caller: Caller, *, vhost: str, name: str
) -> None:
    """Remove an operator policy.

    Raises:
        Refusal: There is none of that name, or no majority.
    """
    await _clear(service, True, vhost, name)


@operation()
async def list_operator_policies(
    service: AdminService, caller: Caller, *, vhost: str
) -> list[PolicyRow]:
    """List the operator policies of a vhost, those of low priority first.

    Raises:
        Refusal: There is no such vhost.
    """
    return _listed(service, True, vhost)


async def _set(
    service: AdminService,
    operator: bool,
    vhost: str,
    name: str,
    pattern: str,
    definition: str,
    priority: int,
    apply_to: str,
) -> None:
    service.check_majority()
    await service.change(
        check_set_policy(
            service.machine, operator, vhost, name, pattern, definition, priority, apply_to
        )
    )


async def _clear(service: AdminService, operator: bool, vhost: str, name: str) -> None:
    service.check_majority()
    await service.change(check_clear_policy(service.machine, operator, vhost, name))


def _listed(service: AdminService, operator: bool, vhost: str) -> list[PolicyRow]:
    tables = service.machine.vhosts.get(vhost)
    if tables is None:
        raise Refusal(NOT_FOUND, f"vhost '{vhost}' does not exist")
    return policy_rows(tables, operator)


def policy_rows(tables: VhostRecord, operator: bool) -> list[PolicyRow]:
    """The policies of a vhost, those of low priority first."""
    policies = tables.policies_of(operator).values()
    return [
        PolicyRow(
            vhost=tables.name,
            name=row.name,
            pattern=row.pattern,
            apply_to=row.apply_to,
            definition=row.definition,
            priority=int(row.priority),
        )
        for row in sorted(policies, key=lambda row: (row.priority, row.name))
    ]
