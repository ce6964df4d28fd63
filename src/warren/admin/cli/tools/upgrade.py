"""`rabbitmq-upgrade`: maintenance of a node, and what has to be so before it is stopped."""

from __future__ import annotations

import time
from typing import Any, Final

from warren.admin.cli.tools.command import (
    TEMPORARY,
    UPGRADE,
    UPGRADES,
    Failure,
    Output,
    ToolAnswer,
    ToolCommand,
    Words,
    add,
    says,
)
from warren.admin.cli.tools.session import ToolSession
from warren.admin.service.rows import Health, LeaderCount, Status

WAIT_SECONDS: Final = 120.0
POLL_SECONDS: Final = 1.0
MANY_SECONDS: Final = 600.0


def _drain(session: ToolSession, words: Words) -> Output:
    session.ask("drain", {}, None)
    return None


def _revive(session: ToolSession, words: Words) -> Output:
    session.ask("revive", {}, None)
    return None


def _await(session: ToolSession, words: Words) -> Output:
    if len(session.ask("status", {}, Status).nodes) == 1:
        return ToolAnswer(
            "Target node seems to be the only one in a single node cluster, "
            "the command does not apply"
        )
    limit = words.timeout(WAIT_SECONDS)
    over = time.monotonic() + limit
    while True:
        health = session.ask("check_if_node_is_quorum_critical", {}, Health)
        if health.ok:
            return None
        if limit and time.monotonic() > over:
            names = ", ".join(row["readable_name"] for row in health.details)
            text = f"time is up before no quorum queue needs this node any more: {names}"
            raise Failure(TEMPORARY, text)
        time.sleep(min(POLL_SECONDS, max(limit, POLL_SECONDS)))


def _of_awaiting(session: ToolSession, words: Words) -> str:
    seconds = int(words.timeout(WAIT_SECONDS))
    return (
        "Will wait for a quorum + 1 of nodes to be online for all quorum queues and streams for "
        f"{seconds} seconds..."
    )


def _post(session: ToolSession, words: Words) -> Output:
    print("Rebalancing queue leaders...", flush=True)
    rows = session.ask("rebalance", {"type": "all"}, list[LeaderCount], seconds=MANY_SECONDS)
    value: Any = [{"Node name": row.node, "Number of quorum queues": row.queues} for row in rows]
    return ToolAnswer("\n".join(f"{row.node}: {row.queues} quorum queues" for row in rows), value)


add(
    ToolCommand(
        "drain",
        (UPGRADE,),
        "",
        UPGRADES,
        "Lets all clients go, and leads no queue, so that the node can be stopped",
        _drain,
        banner=says(
            "Will put node {node} into maintenance mode. "
            "The node will no longer serve any client traffic!"
        ),
    ),
    ToolCommand(
        "revive",
        (UPGRADE,),
        "",
        UPGRADES,
        "Takes clients again",
        _revive,
        banner=says(
            "Will put node {node} back into regular operating mode. "
            "The node will again serve client traffic and host primary queue replicas."
        ),
    ),
    ToolCommand(
        "await_online_quorum_plus_one",
        (UPGRADE,),
        "[--timeout <timeout>]",
        UPGRADES,
        "Waits until all quorum queues can do without this node",
        _await,
        banner=_of_awaiting,
        at_once=True,
    ),
    ToolCommand(
        "post_upgrade",
        (UPGRADE,),
        "",
        UPGRADES,
        "Spreads the leaders of quorum queues over the nodes",
        _post,
        banner=says("Executing post upgrade tasks..."),
        at_once=True,
    ),
)
