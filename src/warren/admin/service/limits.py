"""Limits: how many connections, channels and queues a user or a vhost may have.

What changes them is done when the change is in force on this node.
"""

from __future__ import annotations

from typing import Any

from warren.admin.service.caller import Caller
from warren.admin.service.operation import operation
from warren.admin.service.rows import UserLimitsRow, VhostLimitsRow
from warren.admin.service.service import AdminService
from warren.metadata.access_checks import (
    OF_USERS,
    USER_LIMITS,
    check_clear_user_limits,
    check_limits,
    check_user,
    check_user_limits,
    check_vhost,
    check_vhost_limits,
)
from warren.metadata.commands import SetVhostLimits


def check_limits_of_user(limits: dict[str, Any]) -> None:
    """Refuse limits that no user has, before anything else is changed that comes with them.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    check_limits(OF_USERS, USER_LIMITS, limits)


@operation()
async def set_user_limits(
    service: AdminService, caller: Caller, *, user: str, definition: str
) -> None:
    """Set limits of a user; those that are not given stay.

    Args:
        definition: A JSON object; a negative limit is none.

    Raises:
        Refusal: There is no such user, these are no limits, or there is no majority.
    """
    await service.catch_up()
    await service.change(check_user_limits(service.machine, user, definition))


@operation()
async def clear_user_limits(
    service: AdminService, caller: Caller, *, user: str, limit: str
) -> None:
    """Take a limit of a user away.

    Args:
        limit: Its name, or `all`.

    Raises:
        Refusal: There is no such user or limit, or no majority.
    """
    await service.catch_up()
    await service.change(check_clear_user_limits(service.machine, user, limit))


@operation()
async def list_user_limits(
    service: AdminService, caller: Caller, *, user: str | None = None
) -> list[UserLimitsRow]:
    """List the limits of a user, or of all users that have some.

    Raises:
        Refusal: There is no such user.
    """
    users = service.machine.users
    if user is not None:
        check_user(service.machine, user)
        return [UserLimitsRow(user=user, limits=dict(users[user].limits))]
    return [
        UserLimitsRow(user=name, limits=dict(row.limits))
        for name, row in sorted(users.items())
        if row.limits
    ]


@operation()
async def set_vhost_limits(
    service: AdminService, caller: Caller, *, vhost: str, definition: str
) -> None:
    """Set the limits of a vhost, in the place of those that it has.

    Args:
        definition: A JSON object; a negative limit is none.

    Raises:
        Refusal: There is no such vhost, these are no limits, or there is no majority.
    """
    await service.catch_up()
    await service.change(check_vhost_limits(service.machine, vhost, definition))


@operation()
async def clear_vhost_limits(service: AdminService, caller: Caller, *, vhost: str) -> None:
    """Take all limits of a vhost away.

    Raises:
        Refusal: There is no such vhost, or no majority.
    """
    await service.catch_up()
    check_vhost(service.machine, vhost)
    await service.change(SetVhostLimits(vhost, {}))


@operation()
async def list_vhost_limits(
    service: AdminService, caller: Caller, *, vhost: str | None = None
) -> list[VhostLimitsRow]:
    """List the limits of a vhost, or of all vhosts that have some.

    Raises:
        Refusal: There is no such vhost.
    """
    if vhost is not None:
        tables = check_vhost(service.machine, vhost)
        return [VhostLimitsRow(vhost=vhost, limits=dict(tables.limits))]
    return [
        VhostLimitsRow(vhost=name, limits=dict(tables.limits))
        for name, tables in sorted(service.machine.vhosts.items())
        if tables.limits
    ]
