"""Policies of users and of operators."""

from __future__ import annotations

from typing import Any, Final

from warren.admin.cli.tools.command import (
    CTL,
    DATA,
    DIAGNOSTICS,
    POLICIES,
    TEXT,
    TRUTH,
    WHOLE,
    Failure,
    Output,
    Terms,
    ToolCommand,
    ToolRows,
    Words,
    add,
    says,
)
from warren.admin.cli.tools.session import ToolSession
from warren.admin.cli.tools.users import LISTING, as_text
from warren.admin.service.rows import PolicyRow, QueueRow

COLUMNS: Final = ("vhost", "name", "pattern", "apply-to", "definition", "priority")
SWITCHES: Final = {"priority": WHOLE, "apply_to": TEXT}
NO_JSON: Final = "could not parse JSON document"
ABSENT: Final = "Parameter does not exist"


def _set(session: ToolSession, words: Words, operation: str) -> Output:
    name, pattern, definition = words.arguments
    asked: dict[str, Any] = {
        "vhost": words.vhost,
        "name": name,
        "pattern": pattern,
        "definition": definition,
        "priority": words.options.get("priority", 0),
        "apply_to": words.options.get("apply_to", "all"),
    }
    try:
        session.ask(operation, asked, None)
    except Failure as failure:
        if failure.bare:
            raise
        text = failure.text
        if text.startswith(NO_JSON):
            raise Failure(failure.code, f"C{text[1:]}") from None
        raise Failure(failure.code, f"Validation failed\n\n{text}\n") from None
    return None


def _clear(session: ToolSession, words: Words, operation: str) -> Output:
    try:
        session.ask(operation, {"vhost": words.vhost, "name": words.arguments[0]}, None)
    except Failure as failure:
        if failure.text.startswith("there is no "):
            raise Failure(failure.code, ABSENT) from None
        raise
    return None


def _list(session: ToolSession, words: Words, operation: str) -> Output:
    rows = session.ask(operation, {"vhost": words.vhost}, list[PolicyRow])
    return ToolRows(COLUMNS, [_row(row, as_text(row.definition)) for row in rows])


def _row(row: PolicyRow, definition: Any) -> list[Any]:
    return [row.vhost, row.name, row.pattern, row.apply_to, definition, row.priority]


def _matching(session: ToolSession, words: Words) -> Output:
    """The policies whose names fit a queue; the node says which of them counts."""
    name = words.arguments[0]
    rows = session.ask("list_queues", {"vhost": words.vhost}, list[QueueRow])
    queue = next((row for row in rows if row.name == name), None)
    if queue is None:
        raise Failure(DATA, "Object (queue, stream, exchange, etc) was not found", bare=True)
    policies = session.ask("list_policies", {"vhost": words.vhost}, list[PolicyRow])
    found = [row for row in policies if row.name == queue.policy]
    return ToolRows(COLUMNS, [_row(row, Terms(row.definition)) for row in found], "pretty_table")


def _of_setting(what: str) -> Any:
    def banner(session: ToolSession, words: Words) -> str:
        name, pattern, definition = words.arguments
        priority = words.options.get("priority", 0)
        return (
            f'Setting {what} "{name}" for pattern "{pattern}" to "{definition}" with priority '
            f'"{priority}" for vhost "{words.vhost}" ...'
        )

    return banner


SET_USAGE: Final = (
    "[--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] "
    "<name> <pattern> <definition>"
)
LIST_USAGE: Final = "[--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]"


def _commands(kind: str, what: str, setting: str, listing: str) -> tuple[ToolCommand, ...]:
    """The commands for policies of one kind, which say what they do in RabbitMQ's words.

    Args:
        kind: As names of commands have it, and its plural.
        what: As texts call it.
    """
    one, _, many = kind.partition(" ")
    article = "an" if what.startswith("o") else "a"
    return (
        ToolCommand(
            f"set_{one}",
            (CTL,),
            SET_USAGE,
            POLICIES,
            f"Creates or replaces {article} {what}",
            lambda session, words: _set(session, words, f"set_{one}"),
            3,
            3,
            SWITCHES,
            _of_setting(setting),
        ),
        ToolCommand(
            f"clear_{one}",
            (CTL,),
            "[--vhost <vhost>] <policy>",
            POLICIES,
            f"Removes {article} {what}",
            lambda session, words: _clear(session, words, f"clear_{one}"),
            1,
            1,
            banner=says(f'Clearing {what} "{{0}}" on vhost "{{vhost}}" ...'),
        ),
        ToolCommand(
            f"list_{many}",
            LISTING,
            LIST_USAGE,
            POLICIES,
            f"Lists the {what.replace('policy', 'policies')} of a virtual host",
            lambda session, words: _list(session, words, f"list_{many}"),
            banner=says(f'Listing {listing} for vhost "{{vhost}}" ...'),
        ),
    )


add(
    *_commands("policy policies", "policy", "policy", "policies"),
    *_commands(
        "operator_policy operator_policies",
        "operator policy",
        "operator policy override",
        "operator policy overrides",
    ),
    ToolCommand(
        "list_policies_that_match",
        (DIAGNOSTICS,),
        "[--vhost <vhost>] <queue>",
        POLICIES,
        "Shows the policy that counts for a queue",
        _matching,
        1,
        1,
        {"object_type": TEXT, "all": TRUTH},
        says("Listing policies that match queue '{0}' in vhost '{vhost}' ..."),
    ),
)
