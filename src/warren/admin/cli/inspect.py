"""The command `warren inspect`: the queues in the data directory of a node that does not run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any, Final

from warren.admin.cli.client import complain
from warren.admin.cli.words import Parser, examples
from warren.admin.printable import escaped

HEAD: Final = ("vhost", "queue", "type", "incarnation", "ready", "unacked", "other", "damage")
STATES: Final = ("ready", "unacked")
"""The states of messages that have a column of their own."""


def add_command(commands: Any) -> None:
    """Define its words."""
    command: Parser = commands.add_parser(
        "inspect",
        help="list the queues in the data directory of a node that does not run",
        description="List the queues in the data directory of a node that does not run, or in a "
        "copy of one, and what is damaged. Nothing is changed there, and no broker is asked. What "
        "is in them: 'warren archive QUEUE DIR --offline DATA_DIR', or Spark (docs/spark.md).",
        epilog=examples(
            "warren inspect /var/lib/warren/rabbit@host",
            "warren inspect /backups/node-1 --json",
        ),
    )
    command.set_defaults(run=run)
    command.add_argument("directory", metavar="DATA_DIR")
    command.add_argument("--json", action="store_true", help="print a line of JSON for each queue")


def run(words: argparse.Namespace) -> int:
    """List; returns the exit status: 0 all is whole, 1 something is damaged or nothing is known."""
    from warren.errors import StorageError
    from warren.offline.directory import open_directory

    try:
        with open_directory(words.directory) as directory:
            problems = list(directory.problems)
            found: list[dict[str, Any]] = [
                {
                    "vhost": queue.vhost,
                    "name": queue.name,
                    "type": queue.kind,
                    "incarnation": queue.group_id,
                    "deleted": queue.deleted,
                    "messages": queue.counts(),
                    "damage": [run.reason for run in queue.damage],
                }
                for queue in directory.queues
            ]
    except StorageError as error:
        return complain(str(error), 1)
    if words.json:
        for each in found:
            print(json.dumps(each))
    else:
        show(found)
    for problem in problems:
        complain(f"damaged: {problem}", 1)
    for each in found:
        for damage in each["damage"]:
            complain(f"damaged: queue {each['name']!r}: {damage}", 1)
    return 1 if problems or any(each["damage"] for each in found) else 0


def show(found: list[dict[str, Any]]) -> None:
    """Print a line for each queue."""
    lines: list[tuple[str, ...]] = [HEAD]
    for each in found:
        counts: Mapping[str, int] = each["messages"]
        other = sum(count for state, count in counts.items() if state not in STATES)
        name = escaped(each["name"]) + (" (deleted)" if each["deleted"] else "")
        numbers = [counts.get(state, 0) for state in STATES]
        cells = (escaped(each["vhost"]), name, each["type"], each["incarnation"], *numbers, other)
        lines.append((*map(str, cells), "yes" if each["damage"] else "no"))
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEAD))]
    for line in lines:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )
