"""Maintenance of a node: it takes no clients and leads nothing, so that it can be stopped quietly.

It lasts until it is revived or stopped: a node that starts takes clients.
"""

from __future__ import annotations

from warren.admin.service.caller import Caller
from warren.admin.service.clients import anybody, close, of_users
from warren.admin.service.operation import operation
from warren.admin.service.service import AdminService

DRAINED = "Node was put into maintenance mode"
"""What clients are told that are let go."""


@operation()
async def drain(service: AdminService, caller: Caller) -> None:
    """Take no more clients, close their connections, and give the lead of groups to others."""
    await service.host.set_maintenance(True)
    await close(service, list(of_users(service, anybody)), DRAINED)
    if service.node.events.on():
        service.node.events.drained()
    await service.host.hand_over()


@operation()
async def revive(service: AdminService, caller: Caller) -> None:
    """Take clients again."""
    await service.host.set_maintenance(False)
    if service.node.events.on():
        service.node.events.revived()


@operation()
async def suspend_listeners(service: AdminService, caller: Caller) -> None:
    """Take no more clients; those that are here stay."""
    await service.host.set_maintenance(True)


@operation()
async def resume_listeners(service: AdminService, caller: Caller) -> None:
    """Take clients again."""
    await service.host.set_maintenance(False)
