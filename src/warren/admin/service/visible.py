"""What a user sees of vhosts: those that it may enter, and what is in them.

RabbitMQ's lists over all vhosts leave out what is in others, for administrators, too.
"""

from __future__ import annotations

from warren.admin.service.caller import MANAGEMENT, Caller, check_entrance, vhosts_of
from warren.admin.service.operation import operation
from warren.admin.service.policies import policy_rows
from warren.admin.service.rows import PolicyRow
from warren.admin.service.service import AdminService
from warren.metadata.tables import VhostRecord


@operation(MANAGEMENT)
async def visible_vhost(service: AdminService, caller: Caller, *, vhost: str) -> None:
    """See that a caller may enter a vhost.

    Raises:
        Refusal: `NOT_FOUND`, there is none, or none for them.
    """
    check_entrance(service.machine, caller, vhost)


@operation(MANAGEMENT)
async def visible_policies(
    service: AdminService, caller: Caller, *, vhost: str | None = None
) -> list[PolicyRow]:
    """List the policies of one vhost, or of all that the caller may enter.

    Raises:
        Refusal: `NOT_FOUND`, there is no such vhost, or none for them.
    """
    return _policies(vhosts_of(service.machine, caller, vhost), False)


@operation(MANAGEMENT)
async def visible_operator_policies(
    service: AdminService, caller: Caller, *, vhost: str | None = None
) -> list[PolicyRow]:
    """List operator policies in the same way.

    Raises:
        Refusal: `NOT_FOUND`, there is no such vhost, or none for them.
    """
    return _policies(vhosts_of(service.machine, caller, vhost), True)


def _policies(vhosts: list[VhostRecord], operator: bool) -> list[PolicyRow]:
    return [row for tables in vhosts for row in policy_rows(tables, operator)]
