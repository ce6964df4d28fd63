"""Nodes, what the whole cluster may use, and its parameters."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from warren.admin.compatible import RABBITMQ_VERSION
from warren.admin.http.answers import NO_CONTENT, PLAIN, HttpAnswer, Text, ok, put
from warren.admin.http.asked import HttpRequest, Resource, needed
from warren.admin.http.errors import bad_request, not_there
from warren.admin.http.fields import counted
from warren.admin.http.paging import listed, narrowed_one
from warren.admin.http.ranges import NO_RANGES, Ranges, detailed
from warren.admin.service import logins, memory_breakdown, node_figures, nodes, parameters
from warren.admin.service.everywhere import ask_all, others
from warren.admin.service.node_figures import NodeFigures, figures_by_node
from warren.admin.service.operation import Operation
from warren.admin.service.rows import (
    DEPRECATED_FEATURES,
    GlobalParameterRow,
    NodeStatusRow,
    ParameterRow,
)
from warren.admin.service.statistics import CHURN, LENGTHS, NODE_GAUGES, VHOST_COUNTERS
from warren.errors import PRECONDITION_FAILED, Refusal

FIRST_CHURN = len(VHOST_COUNTERS) + len(LENGTHS)
FIRST_GAUGE = FIRST_CHURN + len(CHURN)
"""The columns of `NodeFigures.samples` that these begin in."""
NO_FIGURES = NodeFigures()

# --- nodes --------------------------------------------------------------------------------------


def node(
    row: NodeStatusRow, figures: NodeFigures = NO_FIGURES, ranges: Ranges = NO_RANGES
) -> dict[str, Any]:
    """A node as the API shows it; of one that is down only its name is known."""
    if not row.running:
        return {"name": row.name, "type": "disc", "running": False}
    shown = {
        "name": row.name,
        "type": "disc",
        "running": True,
        "being_drained": row.being_drained,
        "partitions": [],
        "rates_mode": "basic",
        "rabbitmq_version": RABBITMQ_VERSION,
        "os_pid": str(row.os_pid),
        "uptime": (row.uptime or 0) * 1_000,
        "mem_used": row.mem_used,
        "mem_limit": row.mem_limit,
        "mem_alarm": "memory" in row.alarms,
        "disk_free": row.disk_free,
        "disk_free_limit": row.disk_free_limit,
        "disk_free_alarm": "disk" in row.alarms,
        "fd_used": row.fd_used,
        "fd_total": row.fd_total,
        "sockets_used": row.connections,
        "sockets_total": row.fd_total,
        "db_dir": row.data_dir,
        "enabled_plugins": ["rabbitmq_management"],
        # Clients insist on these; there are no Erlang processes and no queue of theirs.
        "proc_used": 0,
        "proc_total": 0,
        "run_queue": 0,
        "processors": os.cpu_count() or 1,
    }
    samples = figures.samples
    gauges = ranges.samples("node_stats", samples, FIRST_GAUGE)
    for place, name in enumerate(NODE_GAUGES):
        shown[f"{name}_details"] = detailed(figures.gauge_rates[place], gauges, place)
    churn = ranges.samples("node_stats", samples, FIRST_CHURN)
    shown |= counted(CHURN, figures.churn, figures.churn_rates, churn)
    return shown


async def _nodes(asked: HttpRequest) -> list[dict[str, Any]]:
    ranges = Ranges(asked.query)
    rows = await nodes.list_nodes(asked.service, asked.caller)
    figures = await figures_by_node(asked.service, ranges.spans)
    return [node(row, figures.get(row.name, NO_FIGURES), ranges) for row in rows]


async def all_nodes(asked: HttpRequest) -> HttpAnswer:
    """All nodes of the cluster."""
    return ok(listed(asked, await _nodes(asked)))


async def one_node(asked: HttpRequest) -> HttpAnswer:
    """One node."""
    for row in await _nodes(asked):
        if row["name"] == asked["node"]:
            return ok(narrowed_one(asked, row))
    raise not_there()


# --- what one node alone knows ------------------------------------------------------------------


async def _of_node(asked: HttpRequest, operation: Operation[[], Any], shape: Any) -> Any:
    """What an operation without arguments answers on the node that a path names.

    Raises:
        Problem: There is no such node, or it does not answer.
    """
    service, name = asked.service, asked["node"]
    if name == service.own_name:
        return await operation(service, asked.caller)
    asked.permit(operation)
    answers = await ask_all(service, [name], operation.name, {}, shape)
    if name not in answers.by_node:
        raise not_there()
    return answers.by_node[name]


async def memory(asked: HttpRequest) -> HttpAnswer:
    """What the memory of a node is for, in bytes."""
    parts = await _of_node(asked, memory_breakdown.memory_breakdown, dict[str, int])
    total = parts.pop("total")
    shown: dict[str, Any] = {**dict.fromkeys(memory_breakdown.NOT_APART, 0), **parts}
    shown["strategy"] = "rss"
    in_use = total - parts["allocated_unused"]
    shown["total"] = {"rss": total, "allocated": total, "erlang": in_use}
    return ok(narrowed_one(asked, {"memory": shown}))


async def relative_memory(asked: HttpRequest) -> HttpAnswer:
    """The same in percent, rounded up."""
    parts = await _of_node(asked, memory_breakdown.memory_breakdown, dict[str, int])
    total = parts["total"]
    shown = dict.fromkeys(memory_breakdown.NOT_APART, 0)
    shown |= {name: -(-100 * size // max(total, 1)) for name, size in parts.items()}
    return ok(narrowed_one(asked, {"memory": shown}))


async def login_attempts(asked: HttpRequest) -> HttpAnswer:
    """How many clients of a node said who they are."""
    rows = await _of_node(asked, logins.auth_attempts, list[logins.AttemptRow])
    return ok(listed(asked, [row.cells() for row in rows]))


async def reset_login_attempts(asked: HttpRequest) -> HttpAnswer:
    """Count them anew."""
    await _of_node(asked, logins.reset_auth_attempts, None)
    return NO_CONTENT


async def login_sources(asked: HttpRequest) -> HttpAnswer:
    """The same by addresses, which are not kept, as RabbitMQ does not unless it is told to."""
    await _of_node(asked, logins.auth_attempts, list[logins.AttemptRow])
    return ok([])


async def reset_samples(asked: HttpRequest) -> HttpAnswer:
    """Forget the samples of a node, or of all nodes."""
    service = asked.service
    if "node" in asked.variables:
        await _of_node(asked, node_figures.reset_samples, None)
        return NO_CONTENT
    await node_figures.reset_samples(service, asked.caller)
    await ask_all(service, others(service), node_figures.reset_samples.name, {}, None)
    return NO_CONTENT


# --- feature flags ------------------------------------------------------------------------------


async def feature_flags(asked: HttpRequest) -> HttpAnswer:
    """What not every release knows, and whether the whole cluster may use it."""
    rows = await nodes.list_feature_flags(asked.service, asked.caller)
    return ok(listed(asked, [row.cells() for row in rows]))


async def enable_feature_flag(asked: HttpRequest) -> HttpAnswer:
    """Let the whole cluster use it."""
    try:
        await nodes.enable_feature_flag(asked.service, asked.caller, name=asked["name"])
    except Refusal as refusal:
        if refusal.kind != "NOT_FOUND":
            raise
        raise bad_request("unsupported") from None
    return NO_CONTENT


async def deprecated_features(asked: HttpRequest) -> HttpAnswer:
    """What RabbitMQ deprecates and Warren refuses."""
    await nodes.list_feature_flags(asked.service, asked.caller)
    return ok(listed(asked, [row.cells() for row in DEPRECATED_FEATURES]))


async def deprecated_features_used(asked: HttpRequest) -> HttpAnswer:
    """What of it is in use: nothing, as it is refused."""
    await nodes.list_feature_flags(asked.service, asked.caller)
    return ok([])


async def effective_configuration(asked: HttpRequest) -> HttpAnswer:
    """All settings that are in force on this node, without secrets."""
    found = await nodes.environment(asked.service, asked.caller)
    lines = [f"{key} = {shown_setting(value)}\n" for key, value in sorted(found.items())]
    return HttpAnswer(200, Text("".join(lines)))


def shown_setting(value: object) -> str:
    """A setting as a line has it."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# --- parameters ---------------------------------------------------------------------------------


def parameter(row: ParameterRow) -> dict[str, Any]:
    """A parameter as the API shows it."""
    return row.cells()


async def _parameters(asked: HttpRequest, vhost: str = "") -> list[ParameterRow]:
    return await parameters.list_parameters(
        asked.service,
        asked.caller,
        vhost=vhost,
        component=asked.variables.get("component", ""),
    )


async def all_parameters(asked: HttpRequest) -> HttpAnswer:
    """Parameters of all vhosts, or those of one component."""
    return ok([parameter(row) for row in await _parameters(asked)])


async def parameters_of_vhost(asked: HttpRequest) -> HttpAnswer:
    """Those of one component in one vhost."""
    return ok([parameter(row) for row in await _parameters(asked, asked["vhost"])])


async def one_parameter(asked: HttpRequest) -> HttpAnswer:
    """One of them."""
    for row in await _parameters(asked, asked["vhost"]):
        if row.name == asked["name"]:
            return ok(parameter(row))
    raise not_there()


async def put_parameter(asked: HttpRequest) -> HttpAnswer:
    """Set one of them."""
    (value,) = needed(asked.document(), "value")
    before = {row.name for row in await _parameters(asked, asked["vhost"])}
    try:
        await parameters.set_parameter(
            asked.service,
            asked.caller,
            vhost=asked["vhost"],
            component=asked["component"],
            name=asked["name"],
            value=msgspec.json.encode(value).decode(),
        )
    except Refusal as refusal:
        if refusal.kind != PRECONDITION_FAILED:
            raise
        raise bad_request(refusal.text) from None
    return put(asked["name"] not in before)


async def delete_parameter(asked: HttpRequest) -> HttpAnswer:
    """Remove one of them."""
    await parameters.clear_parameter(
        asked.service,
        asked.caller,
        vhost=asked["vhost"],
        component=asked["component"],
        name=asked["name"],
    )
    return NO_CONTENT


def global_parameter(row: GlobalParameterRow) -> dict[str, Any]:
    """A parameter of the whole cluster as the API shows it."""
    return row.cells()


async def global_parameters(asked: HttpRequest) -> HttpAnswer:
    """Parameters of the whole cluster."""
    rows = await parameters.list_global_parameters(asked.service, asked.caller)
    return ok([global_parameter(row) for row in rows])


async def one_global_parameter(asked: HttpRequest) -> HttpAnswer:
    """One of them."""
    for row in await parameters.list_global_parameters(asked.service, asked.caller):
        if row.name == asked["name"]:
            return ok(global_parameter(row))
    raise not_there()


async def put_global_parameter(asked: HttpRequest) -> HttpAnswer:
    """Set one of them."""
    (value,) = needed(asked.document(), "value")
    rows = await parameters.list_global_parameters(asked.service, asked.caller)
    await parameters.set_global_parameter(
        asked.service,
        asked.caller,
        name=asked["name"],
        value=msgspec.json.encode(value).decode(),
    )
    return put(asked["name"] not in {row.name for row in rows})


async def delete_global_parameter(asked: HttpRequest) -> HttpAnswer:
    """Remove one of them."""
    await parameters.clear_global_parameter(asked.service, asked.caller, name=asked["name"])
    return NO_CONTENT


RESOURCES = [
    Resource("/api/nodes", get=all_nodes),
    Resource("/api/nodes/{node}", get=one_node),
    Resource("/api/nodes/{node}/memory", get=memory),
    Resource("/api/nodes/{node}/memory/relative", get=relative_memory),
    Resource("/api/auth/attempts/{node}", get=login_attempts, delete=reset_login_attempts),
    Resource("/api/auth/attempts/{node}/source", get=login_sources, delete=reset_login_attempts),
    Resource("/api/reset", delete=reset_samples),
    Resource("/api/reset/{node}", delete=reset_samples),
    Resource("/api/feature-flags", get=feature_flags),
    Resource("/api/feature-flags/{name}/enable", put=enable_feature_flag),
    Resource("/api/deprecated-features", get=deprecated_features),
    Resource("/api/deprecated-features/used", get=deprecated_features_used),
    Resource("/api/config/effective", get=effective_configuration, media=PLAIN),
    Resource("/api/parameters", get=all_parameters),
    Resource("/api/parameters/{component}", get=all_parameters),
    Resource("/api/parameters/{component}/{vhost}", get=parameters_of_vhost),
    Resource(
        "/api/parameters/{component}/{vhost}/{name}",
        get=one_parameter,
        put=put_parameter,
        delete=delete_parameter,
    ),
    Resource("/api/global-parameters", get=global_parameters),
    Resource(
        "/api/global-parameters/{name}",
        get=one_global_parameter,
        put=put_global_parameter,
        delete=delete_global_parameter,
    ),
]
