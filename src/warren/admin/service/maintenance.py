"""Maintenance of a node: it takes no clients and leads nothing, so that it can be stopped quietly.

It lasts until it is revived or stopped: a node that starts takes clients.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from warren.admin.service.caller import Caller
from warren.admin.service.clients import anybody, close, of_users
from warren.admin.service.operation import operation
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.topology import delete_queue
from warren.errors import NO_MAJORITY, TIMED_OUT, Refusal
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

    As in RabbitMQ, whose application takes such queues with it; `drain` leaves them. A node stops
    in any case: where no majority lets one go, it waits for that once and leaves the rest.
    """
    await _let_go(service)
    for vhost, tables in list(service.machine.vhosts.items()):
        records = await Slices().those(list(tables.queues.values()), partial(_ends, service))
        for at in range(0, len(records), DELETED_AT_ONCE):
            some = records[at : at + DELETED_AT_ONCE]
            deletes = (_delete(service, caller, vhost, record.name) for record in some)
            if not all(await asyncio.gather(*deletes)):
                return


def _ends(service: AdminService, record: QueueRecord) -> bool:
    """Whether a queue ends with this node's application; an exclusive one does with its client."""
    exclusive = record.exclusive_owner != NO_OWNER
    return not record.durable and not exclusive and record.node == service.own_name


async def _delete(service: AdminService, asker: Caller, vhost: str, name: str) -> bool:
    """Delete a queue, if it is there; whether a majority was there to let it go."""
    try:
        await delete_queue(service, asker, vhost=vhost, name=name)
    except Refusal as refusal:
        return refusal.kind not in (NO_MAJORITY, TIMED_OUT)
    return True


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
