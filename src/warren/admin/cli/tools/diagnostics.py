"""`rabbitmq-diagnostics`: health checks, and what a node says of itself."""

from __future__ import annotations

import socket
from typing import Any, Final

from warren.admin.cli.tools.command import (
    CONFIGURATION,
    DATA,
    DEPRECATED,
    DIAGNOSTICS,
    MONITORING,
    QUEUES,
    TEXT,
    TRUTH,
    UNAVAILABLE,
    Failure,
    Output,
    ToolAnswer,
    ToolCommand,
    Words,
    add,
    says,
)
from warren.admin.cli.tools.reading import bad
from warren.admin.cli.tools.session import ToolSession
from warren.admin.cli.tools.status import listener_line, listener_value
from warren.admin.compatible import RABBITMQ_VERSION
from warren.admin.service.rows import Health, Status

NO_OP: Final = "This command is DEPRECATED and is a no-op. It will be removed in a future version."


def _alone(session: ToolSession) -> bool:
    """Whether the node is the only one of its cluster."""
    return len(session.ask("status", {}, Status).nodes) == 1


def _health(session: ToolSession, operation: str, asked: dict[str, Any] | None = None) -> Health:
    found: Health = session.ask(operation, asked or {}, Health)
    return found


def _failed(session: ToolSession, text: str, health: Health, bare: bool = False) -> Output:
    """A check that something did not pass."""
    value = {
        "node": session.node,
        "result": "error",
        "message": health.reason or text,
        "details": health.details,
    }
    shown = text if bare else f"Error:\n{text}"
    return ToolAnswer(shown, value, UNAVAILABLE, wrong=True)


def _passed(session: ToolSession, text: str) -> Output:
    return ToolAnswer(text, {"node": session.node, "result": "ok", "message": text})


def _running(session: ToolSession, words: Words) -> Output:
    health = _health(session, "check_running")
    if health.ok:
        text = f"RabbitMQ on node {session.node} is fully booted and running"
        return _passed(session, text)
    text = f"RabbitMQ on node {session.node} is not running or has not fully booted yet"
    return _failed(session, text, health)


def _booting(session: ToolSession, words: Words) -> Output:
    if _health(session, "check_running").ok:
        state = "is fully booted (check with is_running), stopped or has not started booting yet"
    else:
        state = "is booting"
    return ToolAnswer(f"RabbitMQ on node {session.node} {state}")


def _local_alarms(session: ToolSession, words: Words) -> Output:
    health = _health(session, "check_local_alarms")
    if health.ok:
        return _passed(session, f"Node {session.node} reported no local alarms")
    return _failed(session, f"Node {session.node} reported local alarms:{_alarms(health)}", health)


def _all_alarms(session: ToolSession, words: Words) -> Output:
    health = _health(session, "check_alarms")
    if health.ok:
        return _passed(session, f"Node {session.node} reported no alarms, local or clusterwide")
    return _failed(session, f"Node {session.node} reported alarms:{_alarms(health)}", health)


def _alarms(health: Health) -> str:
    return "".join(f"\n{row['resource']} alarm on node {row['node']}" for row in health.details)


def _list_alarms(session: ToolSession, words: Words) -> Output:
    health = _health(session, "check_alarms")
    value = {"node": session.node, "result": "ok", "alarms": health.details}
    if health.ok:
        return ToolAnswer(f"Node {session.node} reported no alarms, local or clusterwide", value)
    return ToolAnswer(f"Node {session.node} reported alarms:{_alarms(health)}", value)


def _connectivity(session: ToolSession, words: Words) -> Output:
    address = str(words.options.get("address", ""))
    health = _health(session, "check_port_connectivity", {"address": address})
    status = session.ask("status", {}, Status)
    numbers = sorted({each.port for each in status.addresses})
    ports = ", ".join(str(port) for port in numbers)
    if health.ok:
        host = session.node.rpartition("@")[2]
        tried = "".join(f"Will connect to {host}:{port}\n" for port in sorted(numbers, key=str))
        return _passed(
            session,
            f"{tried}Successfully connected to ports {ports} on node {session.node} "
            "(using node hostname resolution)",
        )
    lines = [
        f"{row['interface']}:{row['port']} ({row['protocol']}): {row['problem']}"
        for row in health.details
    ]
    text = f"Connection to ports of the following listeners on node {session.node} failed: "
    return _failed(session, "\n".join([text, *lines]), health, bare=True)


def _check_port(words: Words) -> None:
    if not words.arguments[0].isdecimal() or int(words.arguments[0]) == 0:
        raise bad(": Argument must be a positive integer", DATA)


def _port(session: ToolSession, words: Words) -> Output:
    port = int(words.arguments[0])
    health = _health(session, "check_port_listener", {"port": port})
    if health.ok:
        return _passed(session, f"A listener for port {port} is running on node {session.node}.")
    ports = ", ".join(str(each) for each in health.details[0]["ports"])
    text = (
        f"No listener for port {port} is active on node {session.node}. "
        f"Found listeners that use the following ports: {ports}"
    )
    return _failed(session, text, health, bare=True)


def _protocol(session: ToolSession, words: Words) -> Output:
    protocol = words.arguments[0]
    health = _health(session, "check_protocol_listener", {"protocol": protocol})
    if health.ok:
        text = f"A listener for protocol {protocol} is running on node {session.node}."
        return _passed(session, text)
    known = ", ".join(health.details[0]["protocols"])
    text = (
        f"No listener for protocol {protocol} is active on node {session.node}. "
        f"Found listeners for the following protocols: {known}"
    )
    return _failed(session, text, health)


def _vhosts(session: ToolSession, words: Words) -> Output:
    health = _health(session, "check_virtual_hosts")
    if health.ok:
        return _passed(session, f"Node {session.node} reported all vhosts as running")
    names = "".join(f"\n{row['name']}" for row in health.details)
    text = f"Some virtual hosts on node {session.node} are down:{names}"
    return _failed(session, text, health)


def _critical(session: ToolSession, words: Words) -> Output:
    if _alone(session):
        return _passed(
            session,
            f"Node {session.node} seems to be the only one in a single node cluster, "
            "the check does not apply",
        )
    health = _health(session, "check_if_node_is_quorum_critical")
    if health.ok:
        text = f"Node {session.node} reported no queues/streams with minimum quorum"
        return _passed(session, text)
    names = "\n".join(row["readable_name"] for row in health.details)
    text = (
        f"Node {session.node} reported queues/streams that would lose their quorum "
        f"if node {session.node} is stopped:\n{names}"
    )
    return _failed(session, text, health)


def _leaderless(session: ToolSession, words: Words) -> Output:
    everywhere = bool(words.options.get("across_all_vhosts"))
    asked = {
        "vhost": "" if everywhere else words.vhost,
        "queue_pattern": words.arguments[0],
    }
    health = _health(session, "check_for_quorum_queues_without_an_elected_leader", asked)
    if health.ok:
        return _passed(
            session,
            f"Node {session.node} reported all quorum queue as having responsive leader replicas",
        )
    names = "\n".join(row["readable_name"] for row in health.details)
    text = f"Node {session.node} reported quorum queues without an elected leader:\n{names}"
    return _failed(session, text, health)


def _of_leaderless(session: ToolSession, words: Words) -> str:
    if words.options.get("across_all_vhosts"):
        where = "across all vhosts"
    else:
        where = f"in vhost {words.vhost}"
    pattern = words.arguments[0]
    return f"Checking leader replicas of quorum queues matching '{pattern}' {where} ..."


def _syncing(session: ToolSession, words: Words) -> Output:
    operation = "check_if_new_quorum_queue_replicas_have_finished_initial_sync"
    health = _health(session, operation)
    if health.ok:
        return _passed(session, f"Node {session.node} reported no queues with promotable replicas")
    names = "\n".join(row["readable_name"] for row in health.details)
    text = f"Node {session.node} reported queues with promotable replicas:\n{names}"
    return _failed(session, text, health)


def _metadata(session: ToolSession, words: Words) -> Output:
    status = session.ask("status", {}, Status)
    if status.leader:
        text = f"Metadata store on node {session.node} has completed its initialization"
        return _passed(session, text)
    text = f"Metadata store on node {session.node} has not yet finished initializing"
    return _failed(session, text, Health(ok=False, reason=status.problem))


def _listeners(session: ToolSession, words: Words) -> Output:
    status = session.ask("status", {}, Status)
    addresses = sorted(status.addresses, key=lambda each: each.protocol)
    value = {
        "node": session.node,
        "result": "ok",
        "listeners": [listener_value(session.node, each) for each in addresses],
    }
    return ToolAnswer("\n".join(listener_line(each) for each in addresses), value)


def _version(session: ToolSession, words: Words) -> Output:
    session.ask("status", {}, Status)
    value = {"node": session.node, "result": "ok", "value": RABBITMQ_VERSION}
    return ToolAnswer(RABBITMQ_VERSION, value)


def _log(session: ToolSession, words: Words) -> Output:
    session.ask("status", {}, Status)
    return ToolAnswer("<stderr>", {"node": session.node, "result": "ok", "paths": ["<stderr>"]})


def _peers(session: ToolSession, words: Words) -> Output:
    status = session.ask("status", {}, Status)
    names = [row.name for row in status.nodes]
    return ToolAnswer("\n".join(names), {"node": session.node, "result": "ok", "peers": names})


def _resolve(session: ToolSession, words: Words) -> Output:
    name = words.arguments[0]
    family = socket.AF_INET6 if words.options.get("address_family") == "IPv6" else socket.AF_INET
    try:
        found = socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)
    except OSError as error:
        raise Failure(UNAVAILABLE, f"{name} cannot be resolved: {error.strerror}") from None
    return ToolAnswer("\n".join(dict.fromkeys(str(row[4][0]) for row in found)))


def _no_op(session: ToolSession, words: Words) -> Output:
    return ToolAnswer(NO_OP)


def _no_mirrors(session: ToolSession, words: Words) -> Output:
    return ToolAnswer(f"{NO_OP}\nok")


WITH_TIMEOUT: Final = "[--timeout <timeout>]"


def _check(name: str, text: str, run: Any, banner: str, **options: Any) -> ToolCommand:
    """A health check without arguments."""
    tools = options.pop("tools", (DIAGNOSTICS,))
    return ToolCommand(
        name, tools, WITH_TIMEOUT, MONITORING, text, run, banner=says(banner), **options
    )


add(
    _check(
        "check_running",
        "Sees whether a node serves clients",
        _running,
        "Checking if RabbitMQ is running on node {node} ...",
        at_once=True,
    ),
    _check(
        "is_running",
        "Sees whether a node serves clients",
        _running,
        "Asking node {node} for its status ...",
    ),
    _check(
        "is_booting",
        "Sees whether a node is on its way to serve clients",
        _booting,
        "Asking node {node} for its boot status ...",
    ),
    _check(
        "check_local_alarms",
        "Sees whether a node is short of memory or disk",
        _local_alarms,
        "Asking node {node} to report any local resource alarms ...",
    ),
    _check(
        "check_alarms",
        "Sees whether any node is short of memory or disk",
        _all_alarms,
        "Asking node {node} to report any local resource alarms ...",
    ),
    _check(
        "alarms",
        "Lists what nodes are short of",
        _list_alarms,
        "Asking node {node} to report any known resource alarms ...",
    ),
    _check(
        "check_port_connectivity",
        "Connects to each port that a node listens on",
        _connectivity,
        "Testing TCP connections to all active listeners on node {node} "
        "using hostname resolution ...",
        switches={"address": TEXT},
    ),
    ToolCommand(
        "check_port_listener",
        (DIAGNOSTICS,),
        "<port> [--timeout <timeout>]",
        MONITORING,
        "Sees whether a node listens on a port",
        _port,
        1,
        1,
        banner=says("Asking node {node} if there's an active listener on port {0} ..."),
        check=_check_port,
    ),
    ToolCommand(
        "check_protocol_listener",
        (DIAGNOSTICS,),
        "<protocol> [--timeout <timeout>]",
        MONITORING,
        "Sees whether a node listens for a protocol",
        _protocol,
        1,
        1,
        banner=says("Asking node {node} if there's an active listener for protocol {0} ..."),
    ),
    _check(
        "check_virtual_hosts",
        "Sees whether all virtual hosts can be used",
        _vhosts,
        "Checking if all vhosts are running on node {node} ...",
    ),
    _check(
        "check_if_node_is_quorum_critical",
        "Sees whether a quorum queue needs this node for its majority",
        _critical,
        "Checking if node {node} is critical for quorum of any queues/streams ...",
        tools=(QUEUES, DIAGNOSTICS),
    ),
    ToolCommand(
        "check_for_quorum_queues_without_an_elected_leader",
        (DIAGNOSTICS,),
        "[--vhost <vhost>] [--across-all-vhosts] <pattern>",
        MONITORING,
        "Sees whether quorum queues have a leader",
        _leaderless,
        1,
        1,
        {"across_all_vhosts": TRUTH},
        _of_leaderless,
    ),
    _check(
        "check_if_new_quorum_queue_replicas_have_finished_initial_sync",
        "Sees whether all members on this node vote",
        _syncing,
        "Checking if node {node} runs promotable replicas of any queues ...",
        tools=(QUEUES, DIAGNOSTICS),
    ),
    _check(
        "check_if_metadata_store_is_initialized",
        "Sees whether the metadata has a leader",
        _metadata,
        "Checking if metadata store on node {node} has finished initializing ...",
    ),
    _check(
        "check_if_metadata_store_is_initialized_with_data",
        "Sees whether the metadata has a leader",
        _metadata,
        "Checking if metadata store on node {node} has finished initializing ...",
    ),
    _check(
        "listeners",
        "Lists where a node listens",
        _listeners,
        "Asking node {node} to report its protocol listeners ...",
    ),
    _check(
        "server_version",
        "Shows which RabbitMQ a node is like",
        _version,
        "Asking node {node} for its RabbitMQ version...",
    ),
    _check(
        "log_location",
        "Shows where a node logs: to its standard error stream",
        _log,
        "Log file location(s) on node {node} ...",
    ),
    _check(
        "discover_peers",
        "Lists the nodes of the cluster",
        _peers,
        "Discovering peers nodes ...",
    ),
    ToolCommand(
        "resolve_hostname",
        (DIAGNOSTICS,),
        "<hostname> [--address-family <ipv4 | ipv6>]",
        CONFIGURATION,
        "Resolves a name on this machine",
        _resolve,
        1,
        1,
        {"address_family": TEXT, "offline": TRUTH},
        says("Asking node {node} to resolve hostname {0} to IPv4 addresses..."),
    ),
    ToolCommand(
        "check_if_node_is_mirror_sync_critical",
        (QUEUES, DIAGNOSTICS),
        "",
        DEPRECATED,
        "Does nothing",
        _no_mirrors,
    ),
    ToolCommand(
        "node_health_check",
        ("rabbitmqctl", DIAGNOSTICS),
        "",
        DEPRECATED,
        "Does nothing",
        _no_op,
    ),
)
