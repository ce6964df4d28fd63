"""The command `warren policies`: settings for queues by their names, as `rabbitmqctl` has them.

Names and words are RabbitMQ's; `--json` is ours. The node asked is found as by `warren cluster`.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from warren.server.queues_command import table


def add_actions(command: argparse.ArgumentParser) -> None:
    """Define the words of the command."""
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, text: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
        added.add_argument("-p", "--vhost", default="/", help="the policy's vhost (default: /)")
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
        listing = action(f"list_{what}", f"{text} of a vhost")
        listing.add_argument("--json", action="store_true", help="as JSON, for programs")


def run(words: argparse.Namespace) -> int:
    """Do what the words say; returns the exit status: 0 done, 1 refused, 2 wrong words."""
    from warren.server.cluster_command import put

    asked = {name: value for name, value in vars(words).items() if name in ASKED}
    state, answer = put(words, ["policies", words.action, asked])
    if state == 0 and answer is not None:
        print(json.dumps(answer, indent=1) if words.json else listed(answer))
    return state


ASKED = ("vhost", "name", "pattern", "definition", "priority", "apply_to")
"""Words of the command that go to the node as they are."""


def listed(rows: list[dict[str, Any]]) -> str:
    """Policies as a table."""
    if not rows:
        return "no policies"
    return table([{**row, "definition": json.dumps(row["definition"])} for row in rows])
