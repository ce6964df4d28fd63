"""What nodes and their cluster are doing: `status`, `cluster_status`, `environment`, `report`."""

from __future__ import annotations

from typing import Any, Final

from warren.admin.cli.tools.command import (
    CLUSTER,
    COMMANDS,
    CONFIGURATION,
    MONITORING,
    TEXT,
    Output,
    ToolAnswer,
    ToolCommand,
    Words,
    add,
    says,
)
from warren.admin.cli.tools.memory import check_unit, in_unit, memory_of, unit_of
from warren.admin.cli.tools.session import ToolSession
from warren.admin.cli.tools.users import LISTING
from warren.admin.compatible import PRODUCT, RABBITMQ_VERSION
from warren.admin.service.rows import FeatureRow, Listener, NodeStatusRow, Status, VhostRow

NONE: Final = "(none)"
UNITS_NAMED: Final = "bytes, mb, mib, gb, gib, tb, tib"


def listener_line(listener: Listener) -> str:
    """One listener in words."""
    return (
        f"Interface: {listener.interface}, port: {listener.port}, "
        f"protocol: {listener.protocol}, purpose: {listener.purpose}"
    )


def listener_value(node: str, listener: Listener) -> dict[str, Any]:
    """One listener for programs."""
    return {
        "node": node,
        "port": listener.port,
        "protocol": listener.protocol,
        "interface": listener.interface,
        "purpose": listener.purpose,
    }


def sections(parts: list[tuple[str, list[str]]]) -> str:
    """Titles and what stands below them, with empty lines in between."""
    return "\n\n".join(f"{title}\n\n" + "\n".join(lines or [NONE]) for title, lines in parts)


def alarm_lines(status: Status) -> list[str]:
    """The alarms of one node in words."""
    words = {"memory": "Memory alarm", "disk": "Free disk space alarm"}
    return [f"{words[alarm]} on node {status.node}" for alarm in status.alarms]


def _status(session: ToolSession, words: Words) -> Output:
    status = session.ask("status", {}, Status)
    vhosts = session.ask("list_vhosts", {}, list[VhostRow])
    memory = memory_of(session)
    unit = unit_of(words)
    addresses = sorted(status.addresses, key=lambda listener: listener.protocol)
    runtime = [
        f"OS PID: {status.process}",
        "OS: Linux",
        f"Uptime (seconds): {status.uptime_seconds}",
        f"Is under maintenance?: {'true' if status.drained else 'false'}",
        f"Product name: {PRODUCT}",
        f"Product version: {status.version}",
        f"RabbitMQ version: {RABBITMQ_VERSION}",
        f"Cluster version: {status.cluster_version}",
        f"Node name: {status.node}",
    ]
    text = sections(
        [
            ("Runtime", runtime),
            ("Data directory", [f"Node data directory: {status.data_dir}"]),
            ("Alarms", alarm_lines(status)),
            (
                "Memory",
                [
                    f"Total memory used: {in_unit(memory.total, unit)}",
                    "Calculation strategy: rss",
                    f"Memory high watermark: {in_unit(status.memory_limit_bytes, unit)}",
                    "",
                    *memory.lines(unit, " %"),
                ],
            ),
            (
                "Free Disk Space",
                [
                    f"Low free disk space watermark: {in_unit(status.disk_free_limit_bytes, unit)}",
                    f"Free disk space: {in_unit(status.disk_free_bytes, unit)}",
                ],
            ),
            (
                "Totals",
                [
                    f"Connection count: {status.connections}",
                    f"Queue count: {status.queues_count}",
                    f"Virtual host count: {len(vhosts)}",
                ],
            ),
            ("Listeners", [listener_line(each) for each in addresses]),
        ]
    )
    value = {
        "pid": status.process,
        "os": "Linux",
        "uptime": status.uptime_seconds,
        "is_under_maintenance": status.drained,
        "product_name": PRODUCT,
        "product_version": status.version,
        "rabbitmq_version": RABBITMQ_VERSION,
        "data_directory": status.data_dir,
        "raft_data_directory": status.data_dir,
        "alarms": [{"node": status.node, "resource": alarm} for alarm in status.alarms],
        "tags": [],
        "config_files": [],
        "log_files": ["<stderr>"],
        "active_plugins": [],
        "net_ticktime": 60,
        "memory": {
            **{name: count for name, count, _ in memory.parts},
            "total": {"rss": memory.total, "allocated": memory.total, "erlang": memory.in_use},
            "strategy": "rss",
        },
        "vm_memory_calculation_strategy": "rss",
        "vm_memory_high_watermark_setting": {"absolute": status.memory_limit_bytes},
        "vm_memory_high_watermark_limit": status.memory_limit_bytes,
        "disk_free_limit": status.disk_free_limit_bytes,
        "disk_free": status.disk_free_bytes,
        "file_descriptors": {
            "total_used": status.descriptors,
            "total_limit": status.descriptors_max,
        },
        "totals": {
            "connection_count": status.connections,
            "queue_count": status.queues_count,
            "virtual_host_count": len(vhosts),
        },
        "listeners": [listener_value(status.node, each) for each in addresses],
    }
    return ToolAnswer(text, value)


def _cluster_status(session: ToolSession, words: Words) -> Output:
    status = session.ask("status", {}, Status)
    rows = session.ask("list_nodes", {}, list[NodeStatusRow])
    flags = session.ask("list_feature_flags", {}, list[FeatureRow])
    running = [row for row in rows if row.running]
    maintenance = {
        row.name: "under maintenance" if row.being_drained else "not under maintenance"
        for row in running
    }
    alarms = [f"{alarm} alarm on node {row.name}" for row in running for alarm in row.alarms]
    listening = [
        f"Node: {row.name}, {text[0].lower()}{text[1:]}"
        for row in running
        for text in map(listener_line, row.listeners)
    ]
    text = sections(
        [
            ("Basics", [f"Cluster name: {status.cluster_name}"]),
            ("Disk Nodes", [row.name for row in rows]),
            ("Running Nodes", [row.name for row in running]),
            (
                "Versions",
                [
                    f"{row.name}: RabbitMQ {RABBITMQ_VERSION} ({PRODUCT} {row.version})"
                    for row in running
                ],
            ),
            (
                "Maintenance status",
                [f"Node: {name}, status: {state}" for name, state in maintenance.items()],
            ),
            ("Alarms", alarms),
            ("Network Partitions", []),
            ("Listeners", listening),
            ("Feature flags", [f"Flag: {row.name}, state: {row.state}" for row in flags]),
        ]
    )
    value = {
        "cluster_name": status.cluster_name,
        "cluster_tags": [],
        "disk_nodes": [row.name for row in rows],
        "ram_nodes": [],
        "running_nodes": [row.name for row in running],
        "partitions": {},
        "alarms": [
            {"node": row.name, "resource": alarm} for row in running for alarm in row.alarms
        ],
        "maintenance_status": maintenance,
        "versions": {
            row.name: {
                "rabbitmq_name": "RabbitMQ",
                "rabbitmq_version": RABBITMQ_VERSION,
                "product_name": PRODUCT,
                "product_version": row.version,
            }
            for row in running
        },
        "listeners": {
            row.name: [listener_value(row.name, each) for each in row.listeners] for row in running
        },
        "feature_flags": [row.cells() for row in flags],
    }
    return ToolAnswer(text, value)


def _environment(session: ToolSession, words: Words) -> Output:
    settings = session.ask("environment", {}, dict[str, Any])
    return ToolAnswer("\n".join(f"{key} = {value}" for key, value in settings.items()), settings)


def _report(session: ToolSession, words: Words) -> Output:
    """What the lists and statuses say, one after the other."""
    from warren.admin.cli.tools.showing import shown

    parts: list[str] = []

    def one(name: str, vhost: str | None = None) -> None:
        command = COMMANDS[name]
        options = dict(words.options) if vhost is None else {**words.options, "vhost": vhost}
        asked = Words([], options, [])
        assert command.banner is not None, "what is reported says what it is"
        output = command.run(session, asked)
        assert output is not None, "it lists something"
        parts.append(command.banner(session, asked) + "\n" + shown(output, "", session.node, True))

    for name in ("status", "cluster_status", "environment", "list_connections", "list_channels"):
        one(name)
    for row in session.ask("list_vhosts", {}, list[VhostRow]):
        for name in (
            *("list_queues", "list_exchanges", "list_bindings", "list_permissions"),
            *("list_policies", "list_parameters"),
        ):
            one(name, row.name)
    one("list_global_parameters")
    return ToolAnswer("\n".join(parts))


add(
    ToolCommand(
        "status",
        LISTING,
        "[--unit <unit>] [--timeout <timeout>]",
        MONITORING,
        "Shows what a node is doing",
        _status,
        switches={"unit": TEXT},
        banner=says("Status of node {node} ..."),
        check=lambda words: check_unit(words, UNITS_NAMED),
    ),
    ToolCommand(
        "cluster_status",
        LISTING,
        "[--timeout <timeout>]",
        CLUSTER,
        "Shows the nodes of the cluster",
        _cluster_status,
        banner=says("Cluster status of node {node} ..."),
    ),
    ToolCommand(
        "environment",
        LISTING,
        "[--timeout <timeout>]",
        CONFIGURATION,
        "Shows the settings of a node",
        _environment,
        banner=says("Application environment of node {node} ..."),
    ),
    ToolCommand(
        "report",
        LISTING,
        "[--timeout <timeout>]",
        MONITORING,
        "Shows all that helps to find what is wrong",
        _report,
        banner=says("Reporting server status of node {node} ..."),
    ),
)
