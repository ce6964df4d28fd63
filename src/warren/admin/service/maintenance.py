"""Maintenance of a node: it takes no clients and leads nothing, so that it can be stopped quietly.

It lasts until it is revived or stopped: a node that starts takes clients.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Final

from warren.admin.service.caller import Caller
from warren.admin.service.clients import anybody, close, of_users
from warren.admin.service.operation import operation
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.topology import delete_queue
from warren.errors import Refusal
from warren.metadata.tables import NO_OWNER, QueueRecord

DRAINED = "Node was put into maintenance mode"
"""What clients are told that are let go."""
DELETED_AT_ONCE: Final = 100
"""Queues whose deletes are under way together."""


@operation()
async def drain(service: AdminService, caller: Caller) -> None:
    """Take no more clients, close their connections, and give the lead of groups to others."""
    await _let_go(service)


async def _let_go(service: AdminService) -> None:
    await service.host.set_maintenance(True)
    await close(service, list(of_users(service, anybody)), DRAINED)
    if service.node.events.on():
        service.node.events.drained()
    await service.host.hand_over()


@operation()
async def stop_app(service: AdminService, caller: Caller) -> None:
    """Let all clients go, and with them what does not outlive a stop: queues that are not durable.

    As in RabbitMQ, whose application takes such queues with it; `drain` leaves them.
    """
    await _let_go(service)
    for vhost, tables in list(service.machine.vhosts.items()):
        records = await Slices().those(list(tables.queues.values()), partial(_ends, service))
        for at in range(0, len(records), DELETED_AT_ONCE):
            some = records[at : at + DELETED_AT_ONCE]
            deletes = (_delete(service, caller, vhost, record.name) for record in some)
            await asyncio.gather(*deletes)


def _ends(service: AdminService, record: QueueRecord) -> bool:
    """Whether a queue ends with this node's application; an exclusive one does with its client."""
    exclusive = record.exclusive_owner != NO_OWNER
    return not record.durable and not exclusive and record.node == service.own_name


async def _delete(service: AdminService, asker: Caller, vhost: str, name: str) -> None:
    """Delete a queue, if it is there and a majority lets it go: a node stops in any case."""
    with contextlib.suppress(Refusal):
        await delete_queue(service, asker, vhost=vhost, name=name)


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
