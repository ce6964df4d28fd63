"""The command `warren queues`: members and leaders of quorum queues, as `rabbitmq-queues` has them.

Names and words are RabbitMQ's; `--force` and `--json` are ours. The node asked is found as by
`warren cluster`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any

from warren.server import config

WAIT_SECONDS = 120.0
"""A node answers much earlier, even if not all came about; only many leaders take long to move."""

MEMBERSHIPS = ("promotable", "voter", "non_voter")

Checked = Callable[[Callable[[str], Any]], Callable[[str], Any]]


def add_actions(command: argparse.ArgumentParser, checked: Checked) -> None:
    """Define the words of the command."""
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    node = checked(config.parse_node_name)

    def action(name: str, text: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
        return added

    def of_queue(name: str, text: str, where: str) -> argparse.ArgumentParser:
        added = action(name, text)
        added.add_argument("-p", "--vhost", default="/", help="the queue's vhost (default: /)")
        added.add_argument("queue", metavar="QUEUE")
        if where:
            added.add_argument("node", metavar="NODE", type=node, help=where)
        return added

    add = of_queue("add_member", "have a node hold a queue and vote", "gets the member")
    delete = of_queue("delete_member", "have a node vote no more in a queue", "loses the member")
    of_queue("transfer_leadership", "move a queue's leader to another member", "is to lead")
    grow = action("grow", "add members on a node to many queues")
    grow.add_argument("node", metavar="NODE", type=node, help="gets the members")
    grow_to = action("grow_to_count", "add members until queues have so many")
    grow_to.add_argument(
        "count", metavar="COUNT", type=checked(positive), help="of members of each queue"
    )
    for each in (grow, grow_to):
        each.add_argument(
            "strategy",
            choices=("all", "even"),
            help="to all queues, or to those with an even number of members",
        )
    shrink = action("shrink", "remove all members on a node")
    shrink.add_argument("node", metavar="NODE", type=node, help="loses its members")
    rebalance = action("rebalance", "spread leaders over the nodes; members stay where they are")
    rebalance.add_argument("type", choices=("all", "quorum"), help="which types of queues")
    status = of_queue("quorum_status", "how far each copy of a queue is", "")
    for each in (grow, grow_to, rebalance):
        each.add_argument("--queue-pattern", metavar="REGEX", default=".*", help="of their names")
        each.add_argument("--vhost-pattern", metavar="REGEX", default=".*", help="of their vhosts")
    for each in (add, grow, grow_to):
        each.add_argument(
            "--membership",
            choices=MEMBERSHIPS,
            default=MEMBERSHIPS[0],
            help="voter: it is an error if the new member does not vote soon; "
            "non_voter: a copy that never votes (default: promotable)",
        )
    for each in (grow, grow_to, shrink):
        each.add_argument("--errors-only", action="store_true", help="list only what went wrong")
    for each in (delete, shrink):
        each.add_argument(
            "--force", action="store_true", help="even where a queue loses its quorum by it"
        )
    for each in (grow, grow_to, shrink, rebalance, status):
        each.add_argument("--json", action="store_true", help="as JSON, for programs")


def positive(text: str) -> int:
    """A number above zero.

    Raises:
        ValueError: It is none; says what is allowed.
    """
    if not text.isdecimal() or int(text) == 0:
        raise ValueError("a number above zero")
    return int(text)


def run(words: argparse.Namespace) -> int:
    """Do what the words say; returns the exit status: 0 done, 1 refused, 2 wrong words.

    Where many queues are asked for, 1 says that one of them at least went wrong.
    """
    from warren.server.cluster_command import put

    asked = {name: value for name, value in vars(words).items() if name in ASKED}
    state, answer = put(words, ["queues", words.action, asked], WAIT_SECONDS)
    if state:
        return state
    if isinstance(answer, str):
        print(answer)
        return 0
    wrong = any(not row.pop("ok", True) for row in answer)
    if "errors_only" in words and words.errors_only:
        answer = [row for row in answer if row["result"].startswith("error")]
    print(json.dumps(answer, indent=1) if words.json else table(answer))
    return int(wrong)


ASKED = (
    "vhost",
    "queue",
    "node",
    "strategy",
    "type",
    "vhost_pattern",
    "queue_pattern",
    "force",
    "membership",
    "count",
)
"""Words of the command that go to the node as they are."""


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows with the same keys as columns, under a line with the keys."""
    if not rows:
        return "no queues"
    lines = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
