"""Health checks: what each finds, and rows that say more where something is wrong.

Source: `rabbitmq-diagnostics` of RabbitMQ 4.3.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from warren.admin.service.caller import MANAGEMENT, Caller
from warren.admin.service.everywhere import ask_all, others
from warren.admin.service.inquiries import leaders_of
from warren.admin.service.operation import operation
from warren.admin.service.rows import Health, Status
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.sought import pattern
from warren.admin.service.status import status_of
from warren.errors import NOT_FOUND, Refusal
from warren.metadata.access_checks import check_vhost
from warren.metadata.member_checks import voters
from warren.metadata.tables import QueueRecord

CONNECT_SECONDS = 2.0
LISTED_MAX = 1_000
"""Queues that an answer names."""
ALL_VHOSTS = "across_all_vhosts"

TITLES = {
    "amqp": ("amqp091", "amqp0.9.1", "amqp0-9-1", "amqp0_9_1"),
    "amqp/ssl": ("amqps",),
    "clustering": ("cli", "distribution"),
    "clustering/ssl": ("cli/ssl", "cli/tls", "distribution/ssl", "distribution/tls"),
    "http": ("http1", "http1.1", "http_api", "management", "management_ui", "ui"),
    "http/web-mqtt": ("webmqtt", "web-mqtt", "web_mqtt"),
    "http/web-stomp": ("webstomp", "web-stomp", "web_stomp"),
    "mqtt": ("mqtt3.1", "mqtt3.1.1", "mqtt31", "mqtt311", "mqtt3_1", "mqtt3_1_1"),
    "mqtt/ssl": ("mqtts", "mqtt+tls", "mqtt+ssl"),
    "stomp/ssl": ("stomps", "stomp+tls", "stomp+ssl"),
}
PROTOCOLS = {title: protocol for protocol, titles in TITLES.items() for title in titles}
"""What operators call protocols, and what listeners do."""


@operation(MANAGEMENT)
async def check_running(service: AdminService, caller: Caller) -> Health:
    """See whether this node serves clients."""
    return _running(service)


@operation(MANAGEMENT)
async def check_local_alarms(service: AdminService, caller: Caller) -> Health:
    """See whether this node is short of anything."""
    return alarms_of({service.own_name: await status_of(service)})


@operation(MANAGEMENT)
async def check_alarms(service: AdminService, caller: Caller) -> Health:
    """See whether any node of the cluster is short of anything."""
    answers = await ask_all(service, others(service), "status", {}, Status)
    return alarms_of({service.own_name: await status_of(service), **answers.by_node})


@operation(MANAGEMENT)
async def check_port_connectivity(
    service: AdminService, caller: Caller, *, address: str = ""
) -> Health:
    """Connect to each port that this node listens on.

    Args:
        address: There, in place of the address that it listens on.
    """

    async def problem(host: str, port: int) -> str:
        try:
            connecting = asyncio.open_connection(host, port)
            _, writer = await asyncio.wait_for(connecting, CONNECT_SECONDS)
        except (OSError, TimeoutError) as error:
            return str(error) or "no answer in time"
        writer.close()
        return ""

    details: list[dict[str, Any]] = []
    for listener in service.host.state().addresses:
        host = address or listener.interface
        if host in ("[::]", "0.0.0.0", "::"):
            host = "127.0.0.1"
        found = await problem(host, listener.port)
        if found:
            details.append({**msgspec.to_builtins(listener), "problem": found})
    if not details:
        return Health(ok=True)
    return Health(ok=False, reason="connections to these listeners failed", details=details)


@operation(MANAGEMENT)
async def check_port_listener(service: AdminService, caller: Caller, *, port: int) -> Health:
    """See whether this node listens on a port."""
    ports = sorted({listener.port for listener in service.host.state().addresses})
    if port in ports:
        return Health(ok=True)
    return Health(
        ok=False,
        reason=f"no active listener on port {port}",
        details=[{"missing": port, "ports": ports}],
    )


@operation(MANAGEMENT)
async def check_protocol_listener(
    service: AdminService, caller: Caller, *, protocol: str
) -> Health:
    """See whether this node listens for a protocol, or for all of several.

    Args:
        protocol: Names that operators have for them, with commas between.
    """
    known = sorted({listener.protocol for listener in service.host.state().addresses})
    named = [PROTOCOLS.get(name, name) for name in protocol.lower().split(",")]
    missing = sorted({name for name in named if name not in known})
    if not missing:
        return Health(ok=True)
    return Health(
        ok=False,
        reason=f"no active listener for protocol {protocol}",
        details=[{"missing": missing, "protocols": known}],
    )


@operation(MANAGEMENT)
async def check_node(service: AdminService, caller: Caller, *, node: str = "") -> Health:
    """See whether a node serves clients and is short of nothing: RabbitMQ's oldest check.

    Args:
        node: Empty for this one.

    Raises:
        Refusal: `NOT_FOUND`, the cluster has no such node.
    """
    wanted = node or service.own_name
    if wanted not in service.machine.nodes:
        raise Refusal(NOT_FOUND, f"no node '{wanted}' in the cluster")
    if wanted == service.own_name:
        found = _running(service)
        return alarms_of({wanted: await status_of(service)}) if found.ok else found
    answers = await ask_all(service, [wanted], "status", {}, Status)
    if wanted not in answers.by_node:
        return Health(ok=False, reason=f"node {wanted} does not answer")
    return alarms_of(answers.by_node)


@operation(MANAGEMENT)
async def check_virtual_hosts(service: AdminService, caller: Caller) -> Health:
    """See whether all vhosts can be used on this node."""
    down = [name for name, tables in service.machine.vhosts.items() if tables.going]
    if not down:
        return Health(ok=True)
    return Health(
        ok=False,
        reason="some virtual hosts are being deleted",
        details=[{"name": name} for name in down],
    )


@operation(MANAGEMENT)
async def check_if_node_is_quorum_critical(service: AdminService, caller: Caller) -> Health:
    """See whether a quorum queue, or the metadata, would lose its majority without this node."""
    own = service.own_name
    running = frozenset(service.members.running())
    critical = await Slices().those(
        service.members.queues(),
        lambda queue: is_critical([row.node for row in queue.members if row.voter], own, running),
    )
    details = [queue_detail(queue) for queue in critical[:LISTED_MAX]]
    if is_critical(service.members.tables_voters(), own, running):
        details.append(
            {
                "name": "metadata",
                "readable_name": "cluster metadata",
                "type": "metadata",
                "virtual_host": "",
            }
        )
    if not details or len(service.machine.nodes) == 1:
        return Health(ok=True)
    reason = "There are quorum queues that would lose their quorum if the target node is shut down"
    return Health(ok=False, reason=reason, details=details)


@operation(MANAGEMENT)
async def check_for_quorum_queues_without_an_elected_leader(
    service: AdminService, caller: Caller, *, vhost: str = "", queue_pattern: str = ".*"
) -> Health:
    """See whether all quorum queues have a leader.

    Args:
        vhost: Only those of this one; empty for all.

    Raises:
        Refusal: There is no such vhost, or the pattern is no regular expression.
    """
    if vhost:
        check_vhost(service.machine, vhost)
    names = pattern(queue_pattern)
    found = await Slices().those(
        service.members.queues(),
        lambda queue: (
            vhost in ("", queue.vhost) and not queue.type.delays and names.found_in(queue.name)
        ),
    )
    leaders = await leaders_of(service, found)
    lacking = [queue for queue in found if int(queue.group_id) not in leaders]
    if not lacking:
        return Health(ok=True)
    return Health(
        ok=False,
        reason="There are quorum queues without an elected leader",
        details=[queue_detail(queue) for queue in lacking[:LISTED_MAX]],
    )


@operation(MANAGEMENT)
async def check_if_new_quorum_queue_replicas_have_finished_initial_sync(
    service: AdminService, caller: Caller
) -> Health:
    """See whether all members on this node that are to vote do so."""
    own = service.own_name
    members = service.members

    def still_syncs(queue: QueueRecord) -> bool:
        member = queue.member_on(own)
        return member is not None and member.voter and own not in members.voting(queue)

    found = await Slices().those(members.queues(), still_syncs)
    if not found:
        return Health(ok=True)
    return Health(
        ok=False,
        reason="There are quorum queues whose new replicas have not finished their initial sync",
        details=[queue_detail(queue) for queue in found[:LISTED_MAX]],
    )


@operation(MANAGEMENT)
async def check_below_node_connection_limit(service: AdminService, caller: Caller) -> Health:
    """See whether this node may have one more connection."""
    most = service.node.settings.connections_max
    count = len(service.node.connections)
    if most < 0 or count < most:
        return Health(ok=True)
    reason = f"node connection limit is reached: {count} of {most}"
    return Health(ok=False, reason=reason, details=[{"current": count, "limit": most}])


@operation(MANAGEMENT)
async def check_ready_to_serve_clients(service: AdminService, caller: Caller) -> Health:
    """See whether this node takes clients: it has started, and is not in maintenance."""
    if not service.node.ready:
        return Health(ok=False, reason="the node has not started fully yet")
    if service.host.state().drained:
        return Health(ok=False, reason="the node is in maintenance")
    most = service.node.settings.connections_max
    if 0 <= most <= len(service.node.connections):
        return Health(ok=False, reason=f"node connection limit ({most}) is reached")
    return Health(ok=True)


def _running(service: AdminService) -> Health:
    """Whether this node serves clients."""
    if service.node.ready:
        return Health(ok=True)
    return Health(ok=False, reason=f"node {service.own_name} has not started fully yet")


def alarms_of(told: dict[str, Status]) -> Health:
    """What nodes say of their alarms."""
    details = [
        {"node": node, "resource": alarm, "alarm": True}
        for node, status in told.items()
        for alarm in status.alarms
    ]
    if not details:
        return Health(ok=True)
    return Health(ok=False, reason="resource alarms are in effect", details=details)


def is_critical(nodes: list[str], own: str, running: frozenset[str]) -> bool:
    """Whether voters on some nodes have a majority only with one more node, which runs."""
    if own not in nodes:
        return False
    up = [node for node in nodes if node in running]
    return len(up) <= len(nodes) // 2 + 1


def queue_detail(queue: QueueRecord) -> dict[str, Any]:
    """A queue as checks list it."""
    return {
        "name": queue.name,
        "readable_name": f"queue '{queue.name}' in vhost '{queue.vhost}'",
        "type": queue.kind,
        "virtual_host": queue.vhost,
        "members": voters(queue),
    }
