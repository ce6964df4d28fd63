"""Vhosts: names of queues and exchanges that others do not see.

What changes them is done when the change is in force on this node.
"""

from __future__ import annotations

from typing import Any

from warren.admin.service.caller import Caller
from warren.admin.service.operation import operation
from warren.admin.service.rows import VhostRow
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.metadata.access_checks import (
    check_add_vhost,
    check_delete_vhost,
    check_update_vhost,
    check_vhost,
)
from warren.metadata.commands import DeclareExchange, DeleteExchange
from warren.metadata.vhosts import DEFAULT_QUEUE_TYPE, DESCRIPTION, PROTECTED, TAGS
from warren.node.events import EVENT_EXCHANGE


@operation()
async def add_vhost(
    service: AdminService,
    caller: Caller,
    *,
    name: str,
    description: str = "",
    tags: list[str] = [],  # noqa: B006 - it is read only
    default_queue_type: str | None = None,
) -> None:
    """Create a vhost; one that is there already stays as it is.

    Args:
        default_queue_type: The type of queues that are declared without one.

    Raises:
        Refusal: It cannot be called so, a property is wrong, or there is no majority.
    """
    await service.catch_up()
    properties = _properties(description or None, tags or None, default_queue_type, None)
    command = check_add_vhost(service.machine, name, properties)
    if command is not None:
        await service.change(command)


@operation()
async def update_vhost_metadata(
    service: AdminService,
    caller: Caller,
    *,
    name: str,
    description: str | None = None,
    tags: list[str] | None = None,
    default_queue_type: str | None = None,
    protected_from_deletion: bool | None = None,
) -> None:
    """Change properties of a vhost; those that are not given stay.

    Raises:
        Refusal: There is no such vhost, a property is wrong, or there is no majority.
    """
    await service.catch_up()
    properties = _properties(description, tags, default_queue_type, protected_from_deletion)
    await service.change(check_update_vhost(service.machine, name, properties))


@operation()
async def set_tracing(service: AdminService, caller: Caller, *, vhost: str, on: bool) -> None:
    """Have what clients of this node publish to a vhost and are given told of, or no more.

    It ends with the node's process, as with RabbitMQ.

    Raises:
        Refusal: There is no such vhost.
    """
    check_vhost(service.machine, vhost)
    service.node.vhosts.tracer_of(vhost).on = on


@operation()
async def set_event_exchange(service: AdminService, caller: Caller, *, on: bool) -> None:
    """Have what happens on the cluster's nodes told of in the event exchange, or no more.

    Raises:
        Refusal: There is no default vhost, or no majority.
    """
    await service.catch_up()
    vhost = service.node.settings.default_vhost
    check_vhost(service.machine, vhost)
    if on:
        await service.change(DeclareExchange(vhost, EVENT_EXCHANGE, "topic", True, False, True, {}))
    else:
        await service.change(DeleteExchange(vhost, EVENT_EXCHANGE, False, True))


@operation()
async def event_exchange(service: AdminService, caller: Caller) -> bool:
    """Say whether what happens is told of in the event exchange."""
    return service.node.events.exchange_on()


@operation()
async def delete_vhost(service: AdminService, caller: Caller, *, name: str) -> None:
    """Delete a vhost with all that is in it, and close the connections to it.

    Raises:
        Refusal: There is none of that name, it is protected, or there is no majority.
    """
    await service.catch_up()
    await service.change(check_delete_vhost(service.machine, name))


@operation()
async def list_vhosts(service: AdminService, caller: Caller) -> list[VhostRow]:
    """List all vhosts, by name."""
    slices = Slices()
    rows: list[VhostRow] = []
    for name in sorted(service.machine.vhosts):
        tables = service.machine.vhosts.get(name)
        if tables is not None:
            rows.append(
                VhostRow(
                    name=name,
                    description=tables.description,
                    tags=list(tables.tags),
                    default_queue_type=service.default_queue_type(tables),
                    protected_from_deletion=tables.protected,
                    tracing=service.node.vhosts.tracer_of(name).on,
                )
            )
        await slices.breathe()
    return rows


def _properties(
    description: str | None,
    tags: list[str] | None,
    default_queue_type: str | None,
    protected: bool | None,
) -> dict[str, Any]:
    """Those properties that are given, by their names."""
    given = {
        DESCRIPTION: description,
        TAGS: tags,
        DEFAULT_QUEUE_TYPE: default_queue_type,
        PROTECTED: protected,
    }
    return {name: value for name, value in given.items() if value is not None}
