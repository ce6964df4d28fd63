"""The command `warren feed`: events feeds of vhosts, which have no model in RabbitMQ's tools.

The node asked is found as by `warren cluster`.
"""

from __future__ import annotations

import argparse

from warren.admin.cli.queues import table
from warren.admin.cli.words import Parser, checked, examples
from warren.admin.service.rows import FeedRow

EXAMPLES = examples(
    "warren feed enable --data-dir data",
    "warren feed enable -p orders --pattern '^eu[.]' --data-dir data",
    "warren feed list --data-dir data",
    "warren feed disable -p orders --data-dir data",
)

OPERATIONS = {"enable": "enable_feed", "disable": "disable_feed", "list": "list_feeds"}
ASKED = ("vhost", "queue", "pattern", "max_bytes", "max_age_s")
"""Words of the command that go to the node as they are, where they are given."""


def add_actions(command: Parser) -> list[Parser]:
    """Define the words of the command; the parsers of its actions."""
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    enable: Parser = actions.add_parser(
        "enable",
        help="tell what becomes of messages in a vhost's feed",
        description="Tell what becomes of the messages of a vhost's queues in a queue, which is "
        "made if it is not there.",
    )
    enable.add_argument("--queue", metavar="NAME", help="of the feed (default: warren.feed)")
    enable.add_argument(
        "--pattern", metavar="REGEX", help="names of queues that are told of (default: all)"
    )
    enable.add_argument(
        "--max-bytes",
        type=checked(_at_least_one),
        metavar="N",
        help="what the queue keeps, if it is made (default: 1 GiB)",
    )
    enable.add_argument(
        "--max-age",
        type=checked(_at_least_one),
        metavar="SECONDS",
        dest="max_age_s",
        help="for how long, likewise (default: 7 days)",
    )
    disable: Parser = actions.add_parser(
        "disable",
        help="tell no more of a vhost",
        description="Tell no more of a vhost; the feed's queue stays, with what it has.",
    )
    for action in (enable, disable):
        action.add_argument("-p", "--vhost", default="/", help="the vhost (default: /)")
    listing: Parser = actions.add_parser(
        "list", help="show the feeds", description="Show the events feeds of all vhosts."
    )
    listing.add_argument("-p", "--vhost", help="that of this vhost alone")
    return [enable, disable, listing]


def run(words: argparse.Namespace) -> int:
    """Do what the words say; returns the exit status: 0 done, 1 refused, 2 wrong words."""
    from warren.admin.cli.asking import builtins, put, show

    asked = {
        name: value for name, value in vars(words).items() if name in ASKED and value is not None
    }
    listing = words.action == "list"
    state, rows = put(words, OPERATIONS[words.action], asked, list[FeedRow] if listing else None)
    if state == 0 and listing:
        text = table([row.cells() for row in rows]) if rows else "no events feeds"
        show(words, builtins(rows), text)
    return state


def _at_least_one(text: str) -> int:
    """A number of 1 or more.

    Raises:
        ValueError: It is none.
    """
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    if number < 1:
        raise ValueError("a number of 1 or more")
    return number
