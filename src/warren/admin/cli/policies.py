"""The command `warren policies`: settings for queues by their names, as `rabbitmqctl` has them.

Names and words are RabbitMQ's; `--json` is ours. The node asked is found as by `warren cluster`.
"""

from __future__ import annotations

import argparse
import json

from warren.admin.cli.queues import table
from warren.admin.cli.words import Parser, examples
from warren.admin.service.rows import PolicyRow

EXAMPLES = examples(
    "warren policies list_policies --data-dir data",
    "warren policies set_policy five '^orders' '{\"target-group-size\": 5}' \\",
    "    --apply-to quorum_queues --data-dir data",
)


def add_actions(command: Parser) -> list[Parser]:
    """Define the words of the command; the parsers of its actions."""
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    made: list[Parser] = []

    def action(name: str, text: str) -> Parser:
        sentence = f"{text[0].upper()}{text[1:]}."
        added: Parser = actions.add_parser(name, help=text, description=sentence)
        added.add_argument("-p", "--vhost", default="/", help="the policy's vhost (default: /)")
        made.append(added)
        return added

    for what, text in (("policy", "a policy"), ("operator_policy", "an operator policy")):
        setting = action(f"set_{what}", f"create or replace {text}")
        setting.add_argument("name", metavar="NAME")
        setting.add_argument("pattern", metavar="PATTERN", help="of the names it is for (regex)")
        setting.add_argument("definition", metavar="DEFINITION", help="settings, a JSON object")
        setting.add_argument(
            "--priority", type=int, default=0, help="the highest one counts (default: 0)"
        )
        setting.add_argument(
            "--apply-to",
            default="all",
            help="queues, classic_queues, quorum_queues, streams, exchanges or all (default: all)",
        )
        action(f"clear_{what}", f"remove {text}").add_argument("name", metavar="NAME")
    for what, text in (("policies", "policies"), ("operator_policies", "operator policies")):
        action(f"list_{what}", f"show the {text} of a vhost")
    return made


def run(words: argparse.Namespace) -> int:
    """Do what the words say; returns the exit status: 0 done, 1 refused, 2 wrong words."""
    from warren.admin.cli.asking import builtins, put, show

    asked = {name: value for name, value in vars(words).items() if name in ASKED}
    listing = words.action.startswith("list")
    state, rows = put(words, words.action, asked, list[PolicyRow] if listing else None)
    if state == 0 and listing:
        show(words, builtins(rows), listed(rows))
    return state


ASKED = ("vhost", "name", "pattern", "definition", "priority", "apply_to")
"""Words of the command that go to the node as they are."""


def listed(rows: list[PolicyRow]) -> str:
    """Policies as a table."""
    if not rows:
        return "no policies"
    return table([{**row.cells(), "definition": json.dumps(row.definition)} for row in rows])
