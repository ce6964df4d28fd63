"""What a node has counted of logins, its samples of rates, and its environment."""

from __future__ import annotations

from typing import Any, Final

from warren.admin.cli.tools.command import (
    CONFIGURATION,
    CTL,
    DIAGNOSTICS,
    MONITORING,
    OPERATIONS,
    TRUTH,
    Output,
    ToolAnswer,
    ToolCommand,
    ToolRows,
    Words,
    add,
    says,
)
from warren.admin.cli.tools.session import ToolSession

COLUMNS: Final = ("protocol", "auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded")


def _attempts(session: ToolSession, words: Words) -> Output:
    rows: list[dict[str, Any]] = []
    if not words.options.get("by_source"):
        rows = session.ask("auth_attempts", {}, list[dict[str, Any]])
    if str(words.options.get("formatter", "")).startswith("json"):
        return ToolAnswer(value={"node": session.node, "result": "ok", "attempts": rows})
    if not rows:
        text = f"Node {session.node} reported no authentication attempt stats"
        return ToolAnswer(text)
    return ToolRows(COLUMNS, [[row[name] for name in COLUMNS] for row in rows])


def _reset_attempts(session: ToolSession, words: Words) -> Output:
    session.ask("reset_auth_attempts", {}, None)
    return None


def _reset_samples(session: ToolSession, words: Words) -> Output:
    if words.options.get("all"):
        session.ask("reset_all_samples", {}, None)
    else:
        session.ask("reset_samples", {}, None)
    return None


def _of_samples(session: ToolSession, words: Words) -> str:
    if words.options.get("all"):
        return "Resetting statistics database in all nodes"
    return f"Resetting statistics database on node {session.node}"


def _environment(session: ToolSession, words: Words) -> Output:
    variables = session.ask("os_env", {}, dict[str, str])
    text = "\n".join(f"{name}={value}" for name, value in variables.items())
    return ToolAnswer(text, {"node": session.node, "result": "ok", "variables": variables})


add(
    ToolCommand(
        "list_node_auth_attempt_stats",
        (CTL, DIAGNOSTICS),
        "[--by-source]",
        MONITORING,
        "Lists how many clients of a node said who they are; not by their addresses",
        _attempts,
        switches={"by_source": TRUTH},
        banner=says('Listing authentication\n attempts for node "{node}" ...'),
    ),
    ToolCommand(
        "reset_node_auth_attempt_metrics",
        (DIAGNOSTICS,),
        "",
        MONITORING,
        "Counts anew how many clients of a node say who they are",
        _reset_attempts,
        banner=says("Reset auth attempt metrics on node {node} ..."),
    ),
    ToolCommand(
        "reset_stats_db",
        (CTL,),
        "[--all]",
        OPERATIONS,
        "Forgets the samples from which rates are made",
        _reset_samples,
        switches={"all": TRUTH},
        banner=_of_samples,
    ),
    ToolCommand(
        "os_env",
        (DIAGNOSTICS,),
        "[--timeout <timeout>]",
        CONFIGURATION,
        "Lists variables of the environment that a node may go by, without secrets",
        _environment,
        banner=says("Listing RabbitMQ-specific environment variables defined on node {node}..."),
    ),
)
