"""What a node is doing, and who else is in its cluster."""

from __future__ import annotations

import asyncio

import msgspec

from warren.admin.service.caller import MONITORING, Caller
from warren.admin.service.operation import operation
from warren.admin.service.rows import NodeRow, Status
from warren.admin.service.service import AdminService, free_bytes, what_it_waits_for
from warren.metadata.parameters import CLUSTER_NAME
from warren.protocols.broker import ALARM_DISK, ALARM_MEMORY

ALARMS = ((ALARM_MEMORY, "memory"), (ALARM_DISK, "disk"))


@operation(MONITORING)
async def status(service: AdminService, caller: Caller) -> Status:
    """Show the cluster as this node sees it, and what this node is doing."""
    return await status_of(service)


async def status_of(service: AdminService) -> Status:
    """What this node knows."""
    node, machine, members = service.node, service.machine, service.members
    process = service.host.state()
    # A disk may take its time, which clients do not wait for.
    free = await asyncio.to_thread(free_bytes, process.data_dir)
    up = members.running()
    leader = members.tables_leader()
    raised = int(node.alarms())
    return Status(
        cluster=machine.cluster_id.hex(),
        cluster_version=machine.version,
        node=service.own_name,
        leader=leader,
        problem="" if leader else f"waits {what_it_waits_for(members.tables_majority())}",
        nodes=[
            NodeRow(
                name=row.name,
                address=f"{row.host}:{row.port}",
                running=row.name in up,
                cluster_version=row.version,
                host=row.host_label,
                zone=row.zone,
            )
            for row in machine.nodes.values()
        ],
        connections=len(node.connections),
        queues_count=sum(int(each.queues_of_clients()) for each in machine.vhosts.values()),
        alarms=[name for bit, name in ALARMS if raised & bit],
        memory_limit_bytes=int(node.settings.memory_limit_bytes),
        disk_free_limit_bytes=int(node.settings.log.disk_free_limit_bytes),
        **msgspec.structs.asdict(process),
        disk_free_bytes=free,
        cluster_name=cluster_name(service),
    )


def cluster_name(service: AdminService) -> str:
    """What operators call the cluster; the first node's name where they said nothing."""
    value = service.machine.parameters.get(("", "", CLUSTER_NAME))
    if value is not None:
        name = msgspec.json.decode(value)
        if isinstance(name, str):
            return name
    return next(iter(service.machine.nodes), service.own_name)
