"""Permissions: what a user may configure, write and read in a vhost, and with which routing keys.

What changes them is done when the change is in force on this node.
"""

from __future__ import annotations

from collections.abc import Iterator

from warren.admin.service.caller import Caller
from warren.admin.service.operation import operation
from warren.admin.service.rows import (
    PermissionRow,
    TopicPermissionRow,
    UserPermissionRow,
    UserTopicPermissionRow,
)
from warren.admin.service.service import AdminService
from warren.metadata.access_checks import (
    check_clear_permissions,
    check_clear_topic_permissions,
    check_set_permissions,
    check_set_topic_permissions,
    check_user,
    check_vhost,
)
from warren.metadata.tables import VhostRecord


@operation()
async def set_permissions(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    user: str,
    configure: str,
    write: str,
    read: str,
) -> None:
    """Let a user into a vhost, for names that match patterns there.

    Raises:
        Refusal: A pattern is none, there is no such user or vhost, or no majority.
    """
    await service.catch_up()
    await service.change(
        check_set_permissions(service.machine, user, vhost, configure, write, read)
    )


@operation()
async def clear_permissions(
    service: AdminService, caller: Caller, *, vhost: str, user: str
) -> None:
    """Let a user into a vhost no more; its connections stay, and may do nothing there.

    Raises:
        Refusal: There is no such user or vhost, or no majority.
    """
    await service.catch_up()
    await service.change(check_clear_permissions(service.machine, user, vhost))


@operation()
async def list_permissions(
    service: AdminService, caller: Caller, *, vhost: str
) -> list[PermissionRow]:
    """List the users of a vhost, by name.

    Raises:
        Refusal: There is no such vhost.
    """
    tables = check_vhost(service.machine, vhost)
    return [
        PermissionRow(user=row.user, configure=row.configure, write=row.write, read=row.read)
        for _, row in sorted(tables.permissions.items())
    ]


@operation()
async def list_user_permissions(
    service: AdminService, caller: Caller, *, user: str
) -> list[UserPermissionRow]:
    """List the vhosts of a user, by name.

    Raises:
        Refusal: There is no such user.
    """
    check_user(service.machine, user)
    rows = [tables.permissions.get(user) for tables in _vhosts(service)]
    return [
        UserPermissionRow(vhost=row.vhost, configure=row.configure, write=row.write, read=row.read)
        for row in rows
        if row is not None
    ]


@operation()
async def set_topic_permissions(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    user: str,
    exchange: str,
    write: str,
    read: str,
) -> None:
    """Bound the routing keys that a user may publish with to a topic exchange, and bind to it.

    Raises:
        Refusal: A pattern is none, there is no such user, vhost or exchange, or no majority.
    """
    await service.catch_up()
    await service.change(
        check_set_topic_permissions(service.machine, user, vhost, exchange, write, read)
    )


@operation()
async def clear_topic_permissions(
    service: AdminService, caller: Caller, *, vhost: str, user: str, exchange: str = ""
) -> None:
    """Let a user use any routing key again.

    Args:
        exchange: With this exchange; with all of the vhost if it is empty.

    Raises:
        Refusal: There is no such user or vhost, or no majority.
    """
    await service.catch_up()
    await service.change(check_clear_topic_permissions(service.machine, user, vhost, exchange))


@operation()
async def list_topic_permissions(
    service: AdminService, caller: Caller, *, vhost: str
) -> list[TopicPermissionRow]:
    """List the topic permissions of a vhost, by user and exchange.

    Raises:
        Refusal: There is no such vhost.
    """
    tables = check_vhost(service.machine, vhost)
    return [
        TopicPermissionRow(user=row.user, exchange=row.exchange, write=row.write, read=row.read)
        for _, bounds in sorted(tables.topic_permissions.items())
        for _, row in sorted(bounds.items())
    ]


@operation()
async def list_user_topic_permissions(
    service: AdminService, caller: Caller, *, user: str
) -> list[UserTopicPermissionRow]:
    """List the topic permissions of a user, by vhost and exchange.

    Raises:
        Refusal: There is no such user.
    """
    check_user(service.machine, user)
    return [
        UserTopicPermissionRow(
            vhost=tables.name, exchange=row.exchange, write=row.write, read=row.read
        )
        for tables in _vhosts(service)
        for _, row in sorted(tables.topic_permissions.get(user, {}).items())
    ]


def _vhosts(service: AdminService) -> Iterator[VhostRecord]:
    """All vhosts, by name."""
    vhosts = service.machine.vhosts
    return (vhosts[name] for name in sorted(vhosts))
