"""`rabbitmq-queues`: members and leaders of quorum queues."""

from __future__ import annotations

from typing import Any, Final

from warren.admin.cli.tools.command import (
    CLUSTER,
    DATA,
    DIAGNOSTICS,
    MONITORING,
    QUEUES,
    REPLICATION,
    TEXT,
    TRUTH,
    UNAVAILABLE,
    Failure,
    Output,
    ToolCommand,
    ToolRows,
    Words,
    WrongWords,
    add,
    says,
)
from warren.admin.cli.tools.session import ToolSession
from warren.admin.service.rows import LeaderCount, MemberChange, MemberState, MemberStatus, Status
from warren.errors import NOT_FOUND, NOT_IMPLEMENTED
from warren.queue_types import QUORUM

MEMBERSHIPS: Final = ("promotable", "voter", "non_voter")
TYPES: Final = ("all", QUORUM.name)
STRATEGIES: Final = ("all", "even")
MANY_SECONDS: Final = 600.0
PATTERNS: Final = {"vhost_pattern": TEXT, "queue_pattern": TEXT}
MEMBERSHIP: Final = {"membership": TEXT}
ERRORS: Final = {"errors_only": TRUTH}
LAST: Final = "the last node cannot be"
LIMIT: Final = "[--timeout <timeout>]"


def _check_membership(words: Words) -> None:
    kind = words.options.get("membership", "promotable")
    if kind not in MEMBERSHIPS:
        raise WrongWords(
            f"Error (argument validation): \"voter status '{kind}' is not recognised.\""
        )


def _check_grow(words: Words) -> None:
    _check_membership(words)
    strategy = words.arguments[1]
    if strategy not in STRATEGIES:
        raise WrongWords(
            f"Error (argument validation): \"strategy '{strategy}' is not recognised.\""
        )


def _check_count(words: Words) -> None:
    _check_grow(words)
    if not words.arguments[0].isdecimal():
        raise WrongWords("Error (argument validation): node count must be a positive integer.")


def _check_node(session: ToolSession, node: str) -> None:
    """Refuse a node that the cluster does not have.

    Raises:
        WrongWords: It has none of that name.
    """
    status = session.ask("status", {}, Status)
    if node not in [row.name for row in status.nodes]:
        raise WrongWords(f"Error: node {node} is not a member of the cluster")


def _of_queue(
    session: ToolSession, operation: str, asked: dict[str, Any], shape: Any, words: Words
) -> Any:
    """Ask for something of one queue, which has to be there.

    Raises:
        Failure: It is not, or this cannot be.
    """
    queue = words.arguments[0]
    asked = {"vhost": words.vhost, "queue": queue, **asked}
    codes = {NOT_FOUND: DATA, NOT_IMPLEMENTED: UNAVAILABLE}
    try:
        return session.ask(operation, asked, shape, codes)
    except Failure as failure:
        if failure.code == DATA and "queue" in failure.text:
            text = f"queue '{queue}' was not found in virtual host '{words.vhost}'"
            raise Failure(DATA, text, bare=True) from None
        if "is of type" in failure.text:
            raise Failure(UNAVAILABLE, "{:unsupported, :rabbit_classic_queue}") from None
        raise


def _add(session: ToolSession, words: Words) -> Output:
    node = words.arguments[1]
    _check_node(session, node)
    asked = {"node": node, "membership": words.options.get("membership", "promotable")}
    _of_queue(session, "add_member", asked, MemberState, words)
    return None


def _delete(session: ToolSession, words: Words) -> Output:
    node = words.arguments[1]
    status = session.ask("status", {}, Status)
    if node not in [row.name for row in status.nodes]:
        # It has no member there, which is what was wanted.
        _of_queue(session, "quorum_status", {}, list[MemberStatus], words)
        return None
    asked = {"node": node, "force": bool(words.options.get("force"))}
    try:
        _of_queue(session, "delete_member", asked, MemberState, words)
    except Failure as failure:
        if LAST in failure.text:
            raise Failure(failure.code, "last_node") from None
        raise
    return None


def _changes(session: ToolSession, operation: str, asked: dict[str, Any], words: Words) -> Output:
    rows = session.ask(operation, asked, list[MemberChange], seconds=MANY_SECONDS)
    if words.options.get("errors_only"):
        rows = [row for row in rows if not row.ok]
    results = [
        (row.vhost, row.name, row.size, "ok" if row.ok else f"error: {row.problem}") for row in rows
    ]
    return ToolRows(("vhost", "name", "size", "result"), results)


def _patterns(words: Words) -> dict[str, Any]:
    return {name: words.options[name] for name in PATTERNS if name in words.options}


def _grow(session: ToolSession, words: Words) -> Output:
    node, strategy = words.arguments
    _check_node(session, node)
    asked = {
        "node": node,
        "strategy": strategy,
        "membership": words.options.get("membership", "promotable"),
        **_patterns(words),
    }
    return _changes(session, "grow", asked, words)


def _grow_to_count(session: ToolSession, words: Words) -> Output:
    count, strategy = words.arguments
    asked = {
        "count": int(count),
        "strategy": strategy,
        "membership": words.options.get("membership", "promotable"),
        **_patterns(words),
    }
    return _changes(session, "grow_to_count", asked, words)


def _shrink(session: ToolSession, words: Words) -> Output:
    asked = {"node": words.arguments[0], "force": bool(words.options.get("force"))}
    return _changes(session, "shrink", asked, words)


def _check_types(words: Words) -> None:
    kind = words.arguments[0]
    if kind not in TYPES:
        known = ", ".join(TYPES)
        raise Failure(UNAVAILABLE, f"type {kind} is not supported. Try one of {known}.")


def _rebalance(session: ToolSession, words: Words) -> Output:
    asked = {"type": words.arguments[0], **_patterns(words)}
    rows = session.ask("rebalance", asked, list[LeaderCount], seconds=MANY_SECONDS)
    counts = [(row.node, row.queues) for row in rows]
    return ToolRows(("Node name", "Number of quorum queues"), counts, "pretty_table")


def _transfer(session: ToolSession, words: Words) -> Output:
    _of_queue(session, "transfer_leadership", {"node": words.arguments[1]}, None, words)
    return None


def _status(session: ToolSession, words: Words) -> Output:
    rows = _of_queue(session, "quorum_status", {}, list[MemberStatus], words)
    columns = list(rows[0].cells())
    return ToolRows(columns, [list(row.cells().values()) for row in rows], "pretty_table")


def _alone(session: ToolSession, words: Words) -> Output:
    _of_queue(session, "force_shrink_member_to_current_member", {}, MemberState, words)
    return None


def _reclaim(session: ToolSession, words: Words) -> Output:
    # Nothing waits to be collected; but the queue has to be there.
    _of_queue(session, "quorum_status", {}, list[MemberStatus], words)
    return None


add(
    ToolCommand(
        "add_member",
        (QUEUES,),
        f"[--vhost <vhost>] <queue> <node> [--membership <promotable|voter>] {LIMIT}",
        REPLICATION,
        "Adds a member of a quorum queue on a node",
        _add,
        2,
        2,
        MEMBERSHIP,
        says("Adding a member for queue {0} on node {1}..."),
        _check_membership,
    ),
    ToolCommand(
        "delete_member",
        (QUEUES,),
        f"[--vhost <vhost>] <queue> <node> [--force] {LIMIT}",
        REPLICATION,
        "Removes the member of a quorum queue on a node",
        _delete,
        2,
        2,
        {"force": TRUTH},
        says("Removing a replica of queue {0} on node {1}..."),
    ),
    ToolCommand(
        "force_shrink_member_to_current_member",
        (QUEUES,),
        f"[--vhost <vhost>] <queue> {LIMIT}",
        REPLICATION,
        "Has a quorum queue without a leader go on with the copy on the target node alone. What "
        "other members had confirmed and that copy does not have is lost",
        _alone,
        1,
        1,
        {},
        says("Shrinking queue {0} to its member on the target node..."),
    ),
    ToolCommand(
        "grow",
        (QUEUES,),
        "<node> <all | even> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] "
        "[--membership <promotable|voter>]",
        CLUSTER,
        "Adds members on a node to all quorum queues that match",
        _grow,
        2,
        2,
        {**PATTERNS, **MEMBERSHIP, **ERRORS},
        says("Growing {1} queues on {0}..."),
        _check_grow,
    ),
    ToolCommand(
        "grow_to_count",
        (QUEUES,),
        "<node_count> <all | even> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] "
        "[--membership <promotable|voter>]",
        CLUSTER,
        "Adds members to quorum queues until each has so many",
        _grow_to_count,
        2,
        2,
        {**PATTERNS, **MEMBERSHIP, **ERRORS},
        says("Growing {1} quorum queues on {0} nodes..."),
        _check_count,
    ),
    ToolCommand(
        "shrink",
        (QUEUES,),
        "<node> [--errors-only] [--force]",
        CLUSTER,
        "Removes all members on a node",
        _shrink,
        1,
        1,
        {**ERRORS, "force": TRUTH},
        says("Shrinking queues on {0}..."),
    ),
    ToolCommand(
        "rebalance",
        (QUEUES,),
        "< all | quorum | stream > [--vhost-pattern <pattern>] [--queue-pattern <pattern>]",
        CLUSTER,
        "Spreads the leaders of quorum queues over the nodes",
        _rebalance,
        1,
        1,
        PATTERNS,
        says("Re-balancing leaders of {0} queues..."),
        _check_types,
    ),
    ToolCommand(
        "transfer_leadership",
        (QUEUES,),
        "[--vhost <vhost>] <queue> <node>",
        REPLICATION,
        "Moves the leader of a quorum queue to another member",
        _transfer,
        2,
        2,
        banner=says("Transferring leadership of quorum queue {0} to node {1}..."),
    ),
    ToolCommand(
        "quorum_status",
        (QUEUES, DIAGNOSTICS),
        "[--vhost <vhost>] <queue>",
        MONITORING,
        "Shows how far each member of a quorum queue is",
        _status,
        1,
        1,
        banner=says("Status of queue {0} on node {node} ..."),
    ),
    ToolCommand(
        "reclaim_quorum_memory",
        (QUEUES, DIAGNOSTICS),
        "[--vhost <vhost>] <queue>",
        REPLICATION,
        "Does nothing: memory of quorum queues is reclaimed by itself",
        _reclaim,
        1,
        1,
        banner=says("Will garbage collect quorum queue {0} ..."),
    ),
)
