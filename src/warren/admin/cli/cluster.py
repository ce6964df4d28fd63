"""The command `warren cluster`: nodes and who leads what; a node leaves, or is forgotten."""

from __future__ import annotations

import argparse

from warren.admin.cli.words import Parser, checked, examples
from warren.admin.service.rows import QueueRow, Status
from warren.config import config

LEAVE_SECONDS = 60.0
"""A node that leaves first sees to it that no queue counts it any more."""

EXAMPLES = examples(
    "warren cluster status --data-dir data",
    "warren cluster --contact host2:25672 --secret-file secret status --json",
    "warren cluster forget n3@host3 --data-dir data",
)


def add_actions(command: Parser) -> list[Parser]:
    """Define the words of the command; the parsers of its actions."""
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    status = actions.add_parser(
        "status",
        help="nodes, and which of them leads which queue",
        description="Show the nodes of the cluster, and which of them leads which queue.",
    )
    forget = actions.add_parser(
        "forget",
        help="remove a node that will not come back",
        description="Remove a node that will not come back from the cluster.",
    )
    forget.add_argument("name", metavar="NODE", type=checked(config.parse_node_name))
    leave = actions.add_parser(
        "leave",
        help="have the asked node leave its cluster and stop",
        description="Have the asked node leave its cluster and stop.",
    )
    for action in (forget, leave):
        action.add_argument(
            "--force",
            action="store_true",
            help="even where quorum queues lose their last voting member or their majority",
        )
    return [status, forget, leave]


def run(words: argparse.Namespace) -> int:
    """Do what the words say; returns the exit status: 0 done, 1 refused, 2 wrong words."""
    from warren.admin.cli.asking import builtins, put, show
    from warren.admin.cli.queues import for_programs

    if words.action == "forget":
        state, _ = put(words, "forget_node", {"node": words.name, "force": words.force}, None)
        return state
    if words.action == "leave":
        state, _ = put(words, "leave", {"force": words.force}, None, LEAVE_SECONDS)
        return state
    state, status = put(words, "status", {}, Status)
    if state:
        return state
    state, queues = put(words, "list_queues", {}, list[QueueRow])
    if state == 0:
        answer = {**builtins(status), "queues": [for_programs(row) for row in queues]}
        show(words, answer, describe(status, queues))
    return state


def describe(status: Status, queues: list[QueueRow]) -> str:
    """A status in words: a line for each node and each queue."""
    lines = [
        f"cluster {status.cluster}, version {status.cluster_version}, "
        f"as node {status.node} sees it",
        *nodes(status),
    ]
    for queue in queues:
        where = f"leader {queue.leader or '-'}"
        if queue.members:
            voters = [node for node in queue.members if node not in queue.learners]
            where += f"  voters {' '.join(voters)}"
        if queue.learners:
            where += f"  learners {' '.join(queue.learners)}"
        if queue.policy:
            where += f"  policy {queue.policy}"
        if queue.operator_policy:
            where += f"  operator_policy {queue.operator_policy}"
        lines.append(f"queue  {queue.vhost}  {queue.name}  {queue.type}  {where}")
    return "\n".join(lines)


def nodes(status: Status) -> list[str]:
    """The nodes of a status, a line each, and before them whether the cluster works."""
    lines = [f"NO MAJORITY  {status.problem}"] if status.problem else []
    for node in status.nodes:
        state = "running" if node.running else "down"
        leads = " leads" if node.name == status.leader else ""
        known = node.cluster_version
        newer = "" if known == status.cluster_version else f"  knows version {known}"
        labels = f"  host {node.host}" if node.host else ""
        labels += f"  zone {node.zone}" if node.zone else ""
        lines.append(f"node  {node.name}  {node.address}  {state}{leads}{newer}{labels}")
    return lines
