"""The command `warren queues`: queues, and members and leaders of quorum queues.

Names and words are those of `rabbitmq-queues`; `list`, `--force` and `--json` are ours. The node
asked is found as by `warren cluster`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from warren.admin.cli.words import Parser, checked, examples
from warren.admin.printable import escaped
from warren.admin.service.rows import (
    LeaderCount,
    MemberChange,
    MemberState,
    MemberStatus,
    QueueRow,
    Status,
)
from warren.config import config
from warren.errors import BrokerError
from warren.queue_types import QUORUM

WAIT_SECONDS = 120.0
"""A node answers much earlier, even if not all came about; only many leaders take long to move."""

MEMBERSHIPS = ("promotable", "voter", "non_voter")

EXAMPLES = examples(
    "warren queues list --data-dir data",
    "warren queues quorum_status orders --data-dir data",
    "warren queues grow n4@host4 all --queue-pattern '^orders' --data-dir data",
)


def add_actions(command: Parser) -> list[Parser]:
    """Define the words of the command; the parsers of its actions."""
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    node = checked(config.parse_node_name)
    made: list[Parser] = []

    def action(name: str, text: str) -> Parser:
        sentence = f"{text[0].upper()}{text[1:]}."
        added: Parser = actions.add_parser(name, help=text, description=sentence)
        made.append(added)
        return added

    def of_queue(name: str, text: str, where: str) -> Parser:
        added = action(name, text)
        added.add_argument("-p", "--vhost", default="/", help="the queue's vhost (default: /)")
        added.add_argument("queue", metavar="QUEUE")
        if where:
            added.add_argument("node", metavar="NODE", type=node, help=where)
        return added

    listing = action("list", "show queues: messages, consumers, leader and members")
    listing.add_argument("-p", "--vhost", help="only queues of this vhost (default: of all)")
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
    rebalance.add_argument("type", choices=("all", QUORUM.name), help="which types of queues")
    of_queue("quorum_status", "show how far each copy of a queue is", "")
    for each in (grow, grow_to, rebalance):
        each.add_argument("--queue-pattern", metavar="REGEX", default=".*", help="of their names")
        each.add_argument("--vhost-pattern", metavar="REGEX", default=".*", help="of their vhosts")
    for each in (add, grow, grow_to):
        each.add_argument(
            "--membership",
            choices=MEMBERSHIPS,
            default=MEMBERSHIPS[0],
            help="voter: it is an error if the new member does not vote soon; "
            "non_voter: it holds the queue and never votes (default: promotable)",
        )
    for each in (grow, grow_to, shrink):
        each.add_argument("--errors-only", action="store_true", help="list only what went wrong")
    for each in (delete, shrink):
        each.add_argument(
            "--force", action="store_true", help="even where a queue loses its quorum by it"
        )
    return made


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
    from warren.admin.cli.asking import builtins, put, show

    asked = {name: value for name, value in vars(words).items() if name in ASKED and value}
    if words.action == "list":
        return list_queues(words, asked)
    shape = SHAPES[words.action]
    state, answer = put(words, words.action, asked, shape, WAIT_SECONDS)
    if state:
        return state
    if shape in (None, MemberState):
        text = told(words, answer)
        show(words, text, text)
        return 0
    rows = [builtins(row) for row in answer]
    done = True
    if shape == list[MemberChange]:
        done = all(row.ok for row in answer)
        rows = [changed(row) for row in answer if not words.errors_only or not row.ok]
    rows = [{name: "" if value is None else value for name, value in row.items()} for row in rows]
    show(words, rows, table(rows))
    return int(not done)


SHAPES: dict[str, Any] = {
    "add_member": MemberState,
    "delete_member": MemberState,
    "transfer_leadership": None,
    "grow": list[MemberChange],
    "grow_to_count": list[MemberChange],
    "shrink": list[MemberChange],
    "rebalance": list[LeaderCount],
    "quorum_status": list[MemberStatus],
}
"""What each action is answered with."""

LATER = "and it votes once it has caught up"


def told(words: argparse.Namespace, state: MemberState | None) -> str:
    """What became of one queue, in a sentence."""
    queue, node = f"queue '{words.queue}' in vhost '{words.vhost}'", f"node '{words.node}'"
    if state is None:
        return f"{queue} is led by {node}"
    if words.action == "delete_member":
        return f"{queue} has no member on {node}{' any more' if state.changed else ''}"
    kind = "member" if state.votes else "member that does not vote"
    if state.changed:
        return f"{queue} has a {kind} on {node}{f', {LATER}' if state.later else ''}"
    return f"{queue} has a {kind} on {node} already"


def changed(row: MemberChange) -> dict[str, Any]:
    """What became of one queue of many, as RabbitMQ's `grow` and `shrink` list it."""
    problem = f"error: {row.problem}"
    result = {"ok": "ok", "later": LATER}.get(row.result, problem)
    size = "?" if row.size is None else row.size
    return {"vhost": row.vhost, "name": row.name, "size": size, "result": result}


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


def list_queues(words: argparse.Namespace, asked: dict[str, Any]) -> int:
    """Show queues; what a classic queue holds is asked of the node that it is on."""
    from warren.admin.cli.asking import Contact, find_node, put_to, show

    try:
        contact = find_node(words)
    except BrokerError as error:
        print(f"warren: {error}", file=sys.stderr)
        return 2
    state, rows = put_to(contact, "list_queues", asked, list[QueueRow], WAIT_SECONDS)
    if state:
        return state
    unknown = {row.leader for row in rows if row.messages_ready is None and row.leader}
    if unknown:
        state, status = put_to(contact, "status", {}, Status)
        if state:
            return state
        addresses = {row.name: row.address for row in status.nodes if row.running}
        counts: dict[tuple[str, str], QueueRow] = {}
        for name in sorted(unknown & addresses.keys()):
            host, _, port = addresses[name].rpartition(":")
            there = Contact(host, int(port), contact.secret, contact.tls)
            own = {**asked, "own": True}
            state, found = put_to(there, "list_queues", own, list[QueueRow], WAIT_SECONDS)
            counts.update({(row.vhost, row.name): row for row in found or []})
        rows = [counts.get((row.vhost, row.name), row) for row in rows]
    show(words, [for_programs(row) for row in rows], table([in_columns(row) for row in rows]))
    return 0


SHOWN = {"messages_ready": "ready", "messages_unacknowledged": "unacked"}
"""What columns are called here where that is another name than the column's own."""


def for_programs(row: QueueRow) -> dict[str, Any]:
    """A queue as `--json` shows it."""
    return {SHOWN.get(name, name): value for name, value in row.cells().items()}


LISTED = (
    *("vhost", "name", "type", "messages_ready", "messages_unacknowledged", "consumers"),
    *("leader", "members"),
)
"""Columns of the table."""


def in_columns(row: QueueRow) -> dict[str, Any]:
    """A queue as a line of the table; what is not known is a dash."""
    cells = row.cells()
    shown = {name: cells[name] for name in LISTED}
    shown["members"] = " ".join(row.members)
    return {
        SHOWN.get(name, name): "-" if value in (None, "") else value
        for name, value in shown.items()
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows with the same keys as columns, under a line with the keys."""
    if not rows:
        return "no queues"
    lines = [list(rows[0]), *([escaped(str(value)) for value in row.values()] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
