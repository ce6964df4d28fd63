"""The commands `warren users`, `vhosts`, `permissions` and `limits`: who may do what, and how much.

Names and words are those of `rabbitmqctl`; `--json` and `--hashing-algorithm` are ours. The node
asked is found as by `warren cluster`.
"""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from typing import Any

from warren.admin.cli.queues import table
from warren.admin.cli.words import Parser, examples
from warren.admin.service import rows

USER_EXAMPLES = examples(
    "warren users add_user app --data-dir data        # asks for the password",
    "warren users set_user_tags app monitoring --data-dir data",
    "warren permissions set_permissions app '^app-' '.*' '.*' --data-dir data",
)
VHOST_EXAMPLES = examples(
    "warren vhosts add_vhost orders --default-queue-type quorum \\",
    "    --data-dir data",
    "warren permissions set_permissions -p orders app '.*' '.*' '.*' \\",
    "    --data-dir data",
)
PERMISSION_EXAMPLES = examples(
    "warren permissions set_permissions app '^app-' '.*' '^app-' --data-dir data",
    "warren permissions set_topic_permissions app amq.topic '^{username}[.]' '.*' \\",
    "    --data-dir data",
)
LIMIT_EXAMPLES = examples(
    "warren limits set_user_limits app '{\"max-connections\": 10}' --data-dir data",
    "warren limits set_vhost_limits -p orders '{\"max-queues\": 500}' --data-dir data",
)

ASKED = (
    "name",
    "password",
    "password_hash",
    "hashing_algorithm",
    "tags",
    "description",
    "default_queue_type",
    "protected_from_deletion",
    "vhost",
    "user",
    "exchange",
    "configure",
    "write",
    "read",
    "definition",
    "limit",
)
"""Words of these commands that go to the node as they are, where they are given."""

SHAPES: dict[str, Any] = {
    "list_users": list[rows.UserRow],
    "list_vhosts": list[rows.VhostRow],
    "list_permissions": list[rows.PermissionRow],
    "list_user_permissions": list[rows.UserPermissionRow],
    "list_topic_permissions": list[rows.TopicPermissionRow],
    "list_user_topic_permissions": list[rows.UserTopicPermissionRow],
    "list_user_limits": list[rows.UserLimitsRow],
    "list_vhost_limits": list[rows.VhostLimitsRow],
}
"""What each list answers with."""


class Actions:
    """The actions of one command, as they are defined."""

    def __init__(self, command: Parser) -> None:
        self._actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
        self.made: list[Parser] = []

    def add(self, name: str, text: str, *words: str, of_vhost: bool = False) -> Parser:
        """Define one.

        Args:
            words: What it takes, in order.
            of_vhost: Whether it is about one vhost.
        """
        sentence = f"{text[0].upper()}{text[1:]}."
        added: Parser = self._actions.add_parser(name, help=text, description=sentence)
        for word in words:
            added.add_argument(word, metavar=word.upper())
        if of_vhost:
            added.add_argument("-p", "--vhost", default="/", help="the vhost (default: /)")
        self.made.append(added)
        return added


def add_user_actions(command: Parser) -> list[Parser]:
    """Define the words of `warren users`; the parsers of its actions."""
    actions = Actions(command)
    for name, text in (
        ("add_user", "create a user"),
        ("change_password", "give a user another password"),
    ):
        action = actions.add(name, text, "name")
        action.add_argument(
            "password", metavar="PASSWORD", nargs="?", help="asked for where it is left out"
        )
        action.add_argument(
            "--pre-hashed-password",
            action="store_true",
            help="PASSWORD is a salted hash, in Base64",
        )
        action.add_argument(
            "--hashing-algorithm",
            metavar="NAME",
            help="of such a hash (default: rabbit_password_hashing_sha256)",
        )
    actions.add("clear_password", "let a user log in by no password any more", "name")
    actions.add("delete_user", "delete a user, and close its connections", "name")
    actions.add("set_user_tags", "give a user tags, in the place of those it has", "name")
    actions.made[-1].add_argument("tags", metavar="TAG", nargs="*")
    action = actions.add("authenticate_user", "see whether a password is a user's", "name")
    action.add_argument("password", metavar="PASSWORD", nargs="?")
    actions.add("list_users", "list users and their tags")
    return actions.made


def add_vhost_actions(command: Parser) -> list[Parser]:
    """Define the words of `warren vhosts`; the parsers of its actions."""
    actions = Actions(command)
    for name, text in (
        ("add_vhost", "create a vhost"),
        ("update_vhost_metadata", "change properties of a vhost"),
    ):
        action = actions.add(name, text, "name")
        action.add_argument("--description", metavar="TEXT", help="what it is for")
        action.add_argument(
            "--tags", metavar="TAG,TAG", type=separated, help="with commas between them"
        )
        action.add_argument(
            "--default-queue-type",
            metavar="TYPE",
            help="of queues that are declared without one",
        )
        if name == "update_vhost_metadata":
            action.add_argument(
                "--protected-from-deletion",
                metavar="BOOLEAN",
                type=truth,
                help="true: it cannot be deleted",
            )
    actions.add("delete_vhost", "delete a vhost with all that is in it", "name")
    actions.add("list_vhosts", "list vhosts and their properties")
    return actions.made


def add_permission_actions(command: Parser) -> list[Parser]:
    """Define the words of `warren permissions`; the parsers of its actions."""
    actions = Actions(command)
    names = ("configure", "write", "read")
    actions.add(
        "set_permissions", "let a user into a vhost, by patterns", "user", *names, of_vhost=True
    )
    actions.add("clear_permissions", "let a user into a vhost no more", "user", of_vhost=True)
    actions.add("list_permissions", "list the users of a vhost", of_vhost=True)
    actions.add("list_user_permissions", "list the vhosts of a user", "user")
    actions.add(
        "set_topic_permissions",
        "bound the routing keys that a user may use with a topic exchange",
        "user",
        "exchange",
        "write",
        "read",
        of_vhost=True,
    )
    action = actions.add(
        "clear_topic_permissions", "let a user use any routing key again", "user", of_vhost=True
    )
    action.add_argument("exchange", metavar="EXCHANGE", nargs="?", help="only with this one")
    actions.add("list_topic_permissions", "list the topic permissions of a vhost", of_vhost=True)
    actions.add("list_user_topic_permissions", "list the topic permissions of a user", "user")
    return actions.made


def add_limit_actions(command: Parser) -> list[Parser]:
    """Define the words of `warren limits`; the parsers of its actions."""
    actions = Actions(command)
    for what in ("user", "vhost"):
        of_vhost = what == "vhost"
        whose = () if of_vhost else ("user",)
        actions.add(
            f"set_{what}_limits", f"set limits of a {what}", *whose, "definition", of_vhost=of_vhost
        )
        which = () if of_vhost else ("user", "limit")
        actions.add(
            f"clear_{what}_limits", f"take limits of a {what} away", *which, of_vhost=of_vhost
        )
        action = actions.add(f"list_{what}_limits", f"list limits of a {what}")
        only = action.add_mutually_exclusive_group()
        default = "/" if of_vhost else "guest"
        flags = ("-p", "--vhost") if of_vhost else ("--user",)
        only.add_argument(
            *flags, default=default, metavar="NAME", help=f"its name (default: {default})"
        )
        only.add_argument(
            "--global",
            dest=what,
            action="store_const",
            const=None,
            help=f"of all {what}s that have some",
        )
    return actions.made


def run(words: argparse.Namespace) -> int:
    """Do what the words say; returns the exit status: 0 done, 1 refused, 2 wrong words."""
    from warren.admin.cli.asking import builtins, put, show

    asked = {
        name: value for name, value in vars(words).items() if name in ASKED and value is not None
    }
    if words.action in ("add_user", "change_password", "authenticate_user"):
        if "password" not in asked:
            asked["password"] = typed_password()
        if getattr(words, "pre_hashed_password", False):
            asked["password_hash"] = asked.pop("password")
    shape = SHAPES.get(words.action)
    state, answer = put(words, words.action, asked, shape)
    if state == 0 and shape is not None:
        show(words, builtins(answer), listed(answer))
    return state


def listed(answer: list[rows.Row]) -> str:
    """Rows as a table; of lists and maps what is in them."""
    if not answer:
        return "none"
    return table([{name: shown(value) for name, value in row.cells().items()} for row in answer])


def shown(value: Any) -> Any:
    """A cell of such a table."""
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    return json.dumps(value) if isinstance(value, dict | bool) else value


def typed_password() -> str:
    """A password that is not among the words: asked for, or a line of the standard input."""
    if sys.stdin.isatty():
        return getpass.getpass("Password: ")
    return sys.stdin.readline().rstrip("\r\n")


def separated(text: str) -> list[str]:
    """Words with commas between them."""
    return [word.strip() for word in text.split(",") if word.strip()]


def truth(text: str) -> bool:
    """Reads `true` or `false`."""
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r}: allowed is true or false")
    return text == "true"
