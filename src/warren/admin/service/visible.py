"""What a user sees of vhosts: those that it may enter, and what is in them.

RabbitMQ's lists over all vhosts leave out what is in others, for administrators, too.
"""

from __future__ import annotations

from typing import Final

from warren.admin.service.caller import ADMINISTRATOR, LOCAL, MANAGEMENT, MONITORING, Caller
from warren.admin.service.operation import operation
from warren.admin.service.policies import policy_rows
from warren.admin.service.rows import PolicyRow
from warren.admin.service.service import AdminService
from warren.errors import NOT_FOUND, Refusal
from warren.metadata.tables import VhostRecord

NO_VHOST: Final = "vhost_not_found"
NOT_SEEN: Final = "Not Found"
"""What is said of vhosts that there are not, and of those that are none of a user's business."""


def vhosts_of(service: AdminService, caller: Caller) -> list[VhostRecord]:
    """The vhosts that a caller may enter, by name; an operator may enter all."""
    vhosts = service.machine.vhosts
    return [vhosts[name] for name in sorted(vhosts) if may_enter(vhosts[name], caller)]


def may_enter(tables: VhostRecord, caller: Caller) -> bool:
    """Whether a caller has permissions in a vhost."""
    return caller == LOCAL or caller.name in tables.permissions


def vhosts_seen(service: AdminService, caller: Caller) -> list[VhostRecord]:
    """The vhosts that are shown to a caller: all to those who monitor."""
    vhosts = service.machine.vhosts
    all_of_them = ADMINISTRATOR in caller.tags or MONITORING in caller.tags
    return [
        vhosts[name] for name in sorted(vhosts) if all_of_them or may_enter(vhosts[name], caller)
    ]


def check_entrance(service: AdminService, caller: Caller, vhost: str) -> VhostRecord:
    """A vhost that a caller has permissions in.

    Raises:
        Refusal: `NOT_FOUND`, there is none, or none for them.
    """
    tables = service.machine.vhosts.get(vhost)
    if tables is None:
        raise Refusal(NOT_FOUND, NO_VHOST)
    if not may_enter(tables, caller):
        raise Refusal(NOT_FOUND, NOT_SEEN)
    return tables


@operation(MANAGEMENT)
async def visible_vhost(service: AdminService, caller: Caller, *, vhost: str) -> None:
    """See that a caller may enter a vhost.

    Raises:
        Refusal: `NOT_FOUND`, there is none, or none for them.
    """
    check_entrance(service, caller, vhost)


@operation(MANAGEMENT)
async def visible_policies(
    service: AdminService, caller: Caller, *, vhost: str | None = None
) -> list[PolicyRow]:
    """List the policies of one vhost, or of all that the caller may enter.

    Raises:
        Refusal: `NOT_FOUND`, there is no such vhost, or none for them.
    """
    return _policies(service, caller, False, vhost)


@operation(MANAGEMENT)
async def visible_operator_policies(
    service: AdminService, caller: Caller, *, vhost: str | None = None
) -> list[PolicyRow]:
    """List operator policies in the same way.

    Raises:
        Refusal: `NOT_FOUND`, there is no such vhost, or none for them.
    """
    return _policies(service, caller, True, vhost)


def _policies(
    service: AdminService, caller: Caller, operator: bool, vhost: str | None
) -> list[PolicyRow]:
    if vhost is not None:
        return policy_rows(check_entrance(service, caller, vhost), operator)
    return [row for tables in vhosts_of(service, caller) for row in policy_rows(tables, operator)]
