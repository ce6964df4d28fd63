"""Nodes and their cluster: what they are doing, settings of one at run time, and their end."""

from __future__ import annotations

import time
from typing import Any, Final

from warren.admin.cli.tools.command import (
    CLUSTER,
    CONFIGURATION,
    CTL,
    DATA,
    DIAGNOSTICS,
    FLAGS,
    MONITORING,
    NODES,
    OPERATIONS,
    SOFTWARE,
    TEMPORARY,
    TRUTH,
    UNAVAILABLE,
    UPGRADE,
    UPGRADES,
    USAGE,
    Failure,
    NodeDown,
    Output,
    ToolAnswer,
    ToolCommand,
    ToolRows,
    Words,
    add,
    says,
)
from warren.admin.cli.tools.reading import bad
from warren.admin.cli.tools.session import ToolSession
from warren.admin.cli.tools.users import LISTING
from warren.admin.cli.tools.vhosts import check_columns, chosen
from warren.admin.service.rows import FeatureRow, Health, Status
from warren.config.config import parse_size
from warren.errors import NOT_FOUND

START_SECONDS: Final = 300.0
POLL_SECONDS: Final = 0.5
GIGABYTE: Final = 1_000_000_000
NONE: Final = "(none)"
FLAG_COLUMNS: Final = (*("name", "state", "stability", "provided_by", "desc", "doc_url"),)
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "none")


# --- waiting ------------------------------------------------------------------------------------


def _await_startup(session: ToolSession, words: Words) -> Output:
    limit = words.timeout(START_SECONDS)
    over = time.monotonic() + limit
    while True:
        try:
            if session.ask("check_running", {}, Health, seconds=limit or START_SECONDS).ok:
                return None
        except NodeDown:
            session.forget()
        if limit and time.monotonic() > over:
            text = f"timed out while waiting for node {session.node} to start"
            raise Failure(TEMPORARY, text)
        time.sleep(POLL_SECONDS)


def _check_count(words: Words) -> None:
    if not words.arguments[0].isdecimal() or int(words.arguments[0]) < 1:
        raise bad(": count of nodes must be a positive number", DATA)


def _await_nodes(session: ToolSession, words: Words) -> Output:
    limit = words.timeout(START_SECONDS)
    over = time.monotonic() + limit
    while True:
        status = session.ask("status", {}, Status)
        if sum(row.running for row in status.nodes) >= int(words.arguments[0]):
            return None
        if limit and time.monotonic() > over:
            raise Failure(
                SOFTWARE,
                "Error: timed out while waiting. Not enough nodes joined "
                f"{session.node}'s cluster.",
            )
        time.sleep(min(POLL_SECONDS, max(limit, POLL_SECONDS)))


def _of_awaiting(session: ToolSession, words: Words) -> str:
    return (
        f"Will wait for at least {words.arguments[0]} nodes to join the cluster of "
        f"{session.node}. Timeout: {int(words.timeout(START_SECONDS))} seconds."
    )


def _ping(session: ToolSession, words: Words) -> Output:
    limit = words.timeout(60.0)
    try:
        session.ask("status", {}, Status)
    except NodeDown:
        raise Failure(
            UNAVAILABLE,
            f"Failed to connect and authenticate to {session.node} in {int(limit * 1000)} ms",
        ) from None
    return ToolAnswer("Ping succeeded")


def _of_ping(session: ToolSession, words: Words) -> str:
    return (
        f"Will ping {session.node}. This only checks if the OS process is running and registered "
        f"with epmd. Timeout: {int(words.timeout(60.0) * 1000)} ms."
    )


# --- settings -----------------------------------------------------------------------------------


def size_of(text: str) -> int | None:
    """Bytes, with a unit or without; None if it is no size."""
    try:
        return parse_size(text)
    except ValueError:
        return None


def share_of(text: str) -> float | None:
    """A number with a point; None if it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def _check_disk(words: Words) -> None:
    arguments = words.arguments
    fine = len(arguments) == 1 and size_of(arguments[0]) is not None
    if len(arguments) == 2:
        share = share_of(arguments[1])
        fine = arguments[0] == "mem_relative" and share is not None and share >= 0
    if not fine:
        raise bad(".", DATA)


def _set_disk(session: ToolSession, words: Words) -> Output:
    arguments = words.arguments
    if len(arguments) == 2:
        asked: dict[str, Any] = {"mem_relative": share_of(arguments[1])}
    else:
        asked = {"bytes": size_of(arguments[0])}
    session.ask("set_disk_free_limit", asked, int)
    return None


def _of_disk(session: ToolSession, words: Words) -> str:
    arguments = words.arguments
    if len(arguments) == 2:
        what = f"{arguments[1]} times the total RAM"
    else:
        what = f"{arguments[0]} bytes"
    return f"Setting disk free limit on {session.node} to {what} ..."


def _check_memory(words: Words) -> None:
    arguments = words.arguments
    if len(arguments) == 2:
        if arguments[0] != "absolute" or size_of(arguments[1]) is None:
            raise bad(".", DATA)
        return
    share = share_of(arguments[0])
    if share is None:
        raise bad(".", DATA)
    if not 0.0 <= share <= 1.0:
        raise bad(": The threshold should be a fraction between 0.0 and 1.0", DATA)


def _set_memory(session: ToolSession, words: Words) -> Output:
    arguments = words.arguments
    if len(arguments) == 2:
        asked: dict[str, Any] = {"absolute": size_of(arguments[1])}
    else:
        asked = {"relative": share_of(arguments[0])}
    session.ask("set_vm_memory_high_watermark", asked, int)
    return None


def _of_memory(session: ToolSession, words: Words) -> str:
    arguments = words.arguments
    what = f"{arguments[1]} bytes" if len(arguments) == 2 else arguments[0]
    return f"Setting memory threshold on {session.node} to {what} ..."


def _check_level(words: Words) -> None:
    if words.arguments[0] not in LEVELS:
        raise bad(f": level {words.arguments[0]} is not known", DATA)


def _set_level(session: ToolSession, words: Words) -> Output:
    session.ask("set_log_level", {"level": words.arguments[0]}, None)
    return None


def _flags(session: ToolSession, words: Words) -> Output:
    columns = chosen(words) or ["name", "state"]
    rows = session.ask("list_feature_flags", {}, list[FeatureRow])
    return ToolRows(columns, [[getattr(row, name) for name in columns] for row in rows])


def _check_flags(words: Words) -> None:
    check_columns(FLAG_COLUMNS, chosen(words))


def _enable(session: ToolSession, words: Words) -> Output:
    name = words.arguments[0]
    try:
        session.ask("enable_feature_flag", {"name": name}, None, {NOT_FOUND: USAGE})
    except Failure as failure:
        if failure.code == USAGE:
            text = f"This feature flag is not supported by node {session.node}"
            raise Failure(USAGE, text) from None
        raise
    return None


def _of_enabling(session: ToolSession, words: Words) -> str:
    name = words.arguments[0]
    what = "all feature flags" if name == "all" else f'feature flag "{name}"'
    return f"Enabling {what} ..."


# --- coming and going ---------------------------------------------------------------------------


def _forget(session: ToolSession, words: Words) -> Output:
    node = words.arguments[0]
    try:
        session.ask("forget_node", {"node": node}, None)
    except Failure as failure:
        if "is not in the cluster" in failure.text:
            text = '{:not_a_cluster_node, ~c"The node selected is not in the cluster."}'
            raise Failure(failure.code, text) from None
        raise
    return None


def _stop(session: ToolSession, words: Words) -> Output:
    session.ask("stop", {}, None)
    return None


def _shutdown(session: ToolSession, words: Words) -> Output:
    session.ask("stop", {}, None)
    over = time.monotonic() + (words.timeout(START_SECONDS) or START_SECONDS)
    while time.monotonic() < over:
        try:
            session.ask("status", {}, Status)
        except NodeDown:
            return None
        time.sleep(POLL_SECONDS)
    raise Failure(TEMPORARY, f"node {session.node} has not stopped in time")


def _simple(operation: str) -> Any:
    def run(session: ToolSession, words: Words) -> Output:
        session.ask(operation, {}, None)
        return None

    return run


def _target_size(session: ToolSession, words: Words) -> Output:
    session.ask("status", {}, Status)
    return ToolAnswer(f"Target cluster size has been reached on node {session.node}")


def _nothing(session: ToolSession, words: Words) -> Output:
    session.ask("status", {}, Status)
    return None


add(
    ToolCommand(
        "await_startup",
        (CTL,),
        "[--timeout <timeout>]",
        NODES,
        "Waits until a node serves clients",
        _await_startup,
    ),
    ToolCommand(
        "await_online_nodes",
        (CTL,),
        "<count> [--timeout <timeout>]",
        CLUSTER,
        "Waits until so many nodes of the cluster run",
        _await_nodes,
        1,
        1,
        banner=_of_awaiting,
        check=_check_count,
        at_once=True,
    ),
    ToolCommand(
        "ping",
        LISTING,
        "[--timeout <timeout>]",
        MONITORING,
        "Sees whether a node can be asked",
        _ping,
        banner=_of_ping,
        at_once=True,
    ),
    ToolCommand(
        "set_disk_free_limit",
        (CTL,),
        "<disk_limit> | mem_relative <fraction>",
        CONFIGURATION,
        "Has publishers wait below so much free disk space",
        _set_disk,
        1,
        2,
        banner=_of_disk,
        check=_check_disk,
    ),
    ToolCommand(
        "set_vm_memory_high_watermark",
        (CTL,),
        "<fraction> | absolute <value>",
        CONFIGURATION,
        "Has publishers wait above so much memory",
        _set_memory,
        1,
        2,
        banner=_of_memory,
        check=_check_memory,
    ),
    ToolCommand(
        "set_log_level",
        (CTL,),
        "[<category>] <log_level>",
        CONFIGURATION,
        "Says what is logged from now on",
        _set_level,
        1,
        1,
        banner=says('Setting log level to "{0}" ...'),
        check=_check_level,
    ),
    ToolCommand(
        "list_feature_flags",
        LISTING,
        "[<column> ...] [--timeout <timeout>]",
        FLAGS,
        "Lists what not every release knows",
        _flags,
        0,
        -1,
        banner=says("Listing feature flags ..."),
        check=_check_flags,
    ),
    ToolCommand(
        "enable_feature_flag",
        (CTL,),
        "[--opt-in] <all | feature_flag>",
        FLAGS,
        "Lets the cluster use what all its nodes know",
        _enable,
        1,
        1,
        {"opt_in": TRUTH, "experimental": TRUTH},
        _of_enabling,
    ),
    ToolCommand(
        "forget_cluster_node",
        (CTL,),
        "[--offline] <existing_cluster_member_node>",
        CLUSTER,
        "Removes a node that will not come back",
        _forget,
        1,
        1,
        {"offline": TRUTH},
        says("Removing node {0} from the cluster"),
    ),
    ToolCommand(
        "stop",
        (CTL,),
        "[<pidfile>]",
        NODES,
        "Ends a node in good order",
        _stop,
        0,
        1,
        {"idempotent": TRUTH},
        says("Stopping and halting node {node} ..."),
    ),
    ToolCommand(
        "shutdown",
        (CTL,),
        "[--wait]",
        NODES,
        "Ends a node in good order, and waits until it has ended",
        _shutdown,
        0,
        0,
        {"wait": TRUTH},
        says("Shutting down RabbitMQ node {node} ..."),
    ),
    ToolCommand(
        "stop_app",
        (CTL,),
        "",
        NODES,
        "Lets all clients go, and leads no queue: the node stays in its cluster",
        _simple("stop_app"),
        banner=says("Stopping rabbit application on node {node} ..."),
    ),
    ToolCommand(
        "start_app",
        (CTL,),
        "",
        NODES,
        "Takes clients again",
        _simple("revive"),
        banner=says("Starting node {node} ..."),
    ),
    ToolCommand(
        "suspend_listeners",
        (CTL,),
        "",
        OPERATIONS,
        "Takes no more clients; those that are here stay",
        _simple("suspend_listeners"),
        banner=says(
            "Will suspend client connection listeners on node {node}. "
            "The node will no longer accept client connections!"
        ),
    ),
    ToolCommand(
        "resume_listeners",
        (CTL,),
        "",
        OPERATIONS,
        "Takes clients again",
        _simple("resume_listeners"),
        banner=says(
            "Will resume client connection listeners on node {node}. "
            "The node will now accept client connections"
        ),
    ),
    ToolCommand(
        "has_reached_target_cluster_size",
        (CTL, DIAGNOSTICS, UPGRADE),
        "",
        UPGRADES,
        "Sees whether the cluster has as many nodes as it is to have",
        _target_size,
        banner=says("Checking if target cluster size has been reached on node {node} ..."),
    ),
    ToolCommand(
        "force_gc",
        (CTL,),
        "",
        OPERATIONS,
        "Does nothing: memory is collected by itself",
        _nothing,
        banner=says("Will ask all processes on node {node} to schedule a full sweep GC"),
    ),
)
