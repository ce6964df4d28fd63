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

add(
    ToolCommand(
        "set_policy",
        (CTL,),
        SET_USAGE,
        POLICIES,
        "Creates or replaces a policy",
        lambda session, words: _set(session, words, "set_policy"),
        3,
        3,
        SWITCHES,
        _of_setting("policy"),
    ),
    ToolCommand(
        "clear_policy",
        (CTL,),
        "[--vhost <vhost>] <policy>",
        POLICIES,
        "Removes a policy",
        lambda session, words: _clear(session, words, "clear_policy"),
        1,
        1,
        banner=says('Clearing policy "{0}" on vhost "{vhost}" ...'),
    ),
    ToolCommand(
        "list_policies",
        LISTING,
        LIST_USAGE,
        POLICIES,
        "Lists the policies of a virtual host",
        lambda session, words: _list(session, words, "list_policies"),
        banner=says('Listing policies for vhost "{vhost}" ...'),
    ),
    ToolCommand(
        "set_operator_policy",
        (CTL,),
        SET_USAGE,
        POLICIES,
        "Creates or replaces an operator policy",
        lambda session, words: _set(session, words, "set_operator_policy"),
        3,
        3,
        SWITCHES,
        _of_setting("operator policy override"),
    ),
    ToolCommand(
        "clear_operator_policy",
        (CTL,),
        "[--vhost <vhost>] <policy>",
        POLICIES,
        "Removes an operator policy",
        lambda session, words: _clear(session, words, "clear_operator_policy"),
        1,
        1,
        banner=says('Clearing operator policy "{0}" on vhost "{vhost}" ...'),
    ),
    ToolCommand(
        "list_operator_policies",
        LISTING,
        LIST_USAGE,
        POLICIES,
        "Lists the operator policies of a virtual host",
        lambda session, words: _list(session, words, "list_operator_policies"),
        banner=says('Listing operator policy overrides for vhost "{vhost}" ...'),
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
