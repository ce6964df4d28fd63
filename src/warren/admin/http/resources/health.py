"""Health checks: 200 where all is well, else 503 with what is wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from warren.admin.http.answers import HttpAnswer, ok
from warren.admin.http.asked import Handler, HttpRequest, Resource
from warren.admin.http.errors import bad_request
from warren.admin.service import health, visible
from warren.admin.service.certificates import check_certificate_expiration
from warren.admin.service.rows import EXPIRY_UNITS, Health

WITHIN_DIGITS_MAX = 6


def shown(found: Health, key: str = "errors") -> HttpAnswer:
    """What a check found, with its details under a key."""
    if found.ok:
        return ok({"status": "ok"})
    body: dict[str, Any] = {"status": "failed", "reason": found.reason}
    if found.details:
        body[key] = found.details
    return HttpAnswer(503, body)


def checked(check: Callable[..., Awaitable[Health]], key: str = "errors") -> Handler:
    """A resource that makes one check without arguments."""

    async def answered(asked: HttpRequest) -> HttpAnswer:
        return shown(await check(asked.service, asked.caller), key)

    return answered


async def quorum_critical(asked: HttpRequest) -> HttpAnswer:
    """Whether this node cannot be stopped without loss of a majority."""
    if len(asked.service.machine.nodes) == 1:
        await health.check_running(asked.service, asked.caller)
        return ok({"status": "ok", "reason": "single node cluster"})
    found = await health.check_if_node_is_quorum_critical(asked.service, asked.caller)
    return shown(found, "queues")


async def port_listener(asked: HttpRequest) -> HttpAnswer:
    """Whether this node listens on a port."""
    text = asked["port"]
    if not text.isdecimal() or len(text) > 5:
        raise bad_request("Invalid port")
    port = int(text)
    found = await health.check_port_listener(asked.service, asked.caller, port=port)
    if found.ok:
        return ok({"status": "ok", "port": port})
    return HttpAnswer(503, {"status": "failed", "reason": "No active listener", **found.details[0]})


async def protocol_listener(asked: HttpRequest) -> HttpAnswer:
    """Whether this node listens for protocols, which have commas between them."""
    found = await health.check_protocol_listener(
        asked.service, asked.caller, protocol=asked["protocols"]
    )
    if found.ok:
        known = sorted({row.protocol for row in asked.service.host.state().addresses})
        return ok({"status": "ok", "protocols": known})
    return HttpAnswer(503, {"status": "failed", "reason": "No active listener", **found.details[0]})


async def node(asked: HttpRequest) -> HttpAnswer:
    """Whether a node serves clients and is short of nothing, as old probes ask."""
    return shown(
        await health.check_node(asked.service, asked.caller, node=asked.variables.get("node", "")),
        "alarms",
    )


async def certificate_expiration(asked: HttpRequest) -> HttpAnswer:
    """Whether no certificate expires soon, of listeners that have one."""
    if asked["unit"] not in EXPIRY_UNITS:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    if not asked["within"].isdecimal():
        raise bad_request("Invalid expiration value.")
    if len(asked["within"]) > WITHIN_DIGITS_MAX:
        raise bad_request("Invalid expiration value.")
    unit: Any = asked["unit"]
    found = await check_certificate_expiration(
        asked.service, asked.caller, within=int(asked["within"]), unit=unit
    )
    for row in found.details:
        del row["purpose"]
    return shown(found, "expired")


async def without_leaders(asked: HttpRequest) -> HttpAnswer:
    """Whether all quorum queues have a leader."""
    vhost = asked.variables.get("vhost", "")
    if vhost and vhost not in asked.service.machine.vhosts:
        return shown(await health.check_running(asked.service, asked.caller))
    found = await health.check_for_quorum_queues_without_an_elected_leader(
        asked.service,
        asked.caller,
        vhost=vhost,
        queue_pattern=asked.variables.get("pattern", ".*"),
    )
    return shown(found, "queues")


async def aliveness(asked: HttpRequest) -> HttpAnswer:
    """Whether a vhost can be entered: as RabbitMQ 4 does, it publishes nothing any more."""
    await visible.visible_vhost(asked.service, asked.caller, vhost=asked["vhost"])
    return ok({"status": "ok"})


LEADERLESS = "/api/health/checks/quorum-queues-without-elected-leaders"
RESOURCES = [
    Resource("/api/aliveness-test/{vhost}", get=aliveness),
    Resource("/api/healthchecks/node", get=node),
    Resource("/api/healthchecks/node/{node}", get=node),
    Resource("/api/health/checks/alarms", get=checked(health.check_alarms, "alarms")),
    Resource("/api/health/checks/local-alarms", get=checked(health.check_local_alarms, "alarms")),
    Resource("/api/health/checks/node-is-quorum-critical", get=quorum_critical),
    Resource("/api/health/checks/port-listener/{port}", get=port_listener),
    Resource("/api/health/checks/protocol-listener/{protocols}", get=protocol_listener),
    Resource(
        "/api/health/checks/virtual-hosts",
        get=checked(health.check_virtual_hosts, "virtual-hosts"),
    ),
    Resource(
        "/api/health/checks/certificate-expiration/{within}/{unit}", get=certificate_expiration
    ),
    Resource(f"{LEADERLESS}/all-vhosts", get=without_leaders),
    Resource(f"{LEADERLESS}/all-vhosts/pattern/{{pattern}}", get=without_leaders),
    Resource(f"{LEADERLESS}/vhost/{{vhost}}", get=without_leaders),
    Resource(f"{LEADERLESS}/vhost/{{vhost}}/pattern/{{pattern}}", get=without_leaders),
    Resource(
        "/api/health/checks/below-node-connection-limit",
        get=checked(health.check_below_node_connection_limit),
    ),
    Resource(
        "/api/health/checks/ready-to-serve-clients",
        get=checked(health.check_ready_to_serve_clients),
    ),
    Resource("/api/health/checks/is-in-service", get=checked(health.check_ready_to_serve_clients)),
    Resource("/api/health/checks/metadata-store/initialized", get=checked(health.check_running)),
    Resource(
        "/api/health/checks/metadata-store/initialized/with-data",
        get=checked(health.check_running),
    ),
]
