"""Vhosts, their properties and limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from warren.admin.cli.tools.command import (
    CTL,
    DATA,
    DIAGNOSTICS,
    TEXT,
    TRUTH,
    VHOSTS,
    Atoms,
    Failure,
    Output,
    ToolAnswer,
    ToolCommand,
    ToolRows,
    Words,
    WrongWords,
    add,
    says,
)
from warren.admin.cli.tools.reading import bad
from warren.admin.cli.tools.session import ToolSession
from warren.admin.cli.tools.users import LISTING, as_text
from warren.admin.service.rows import VhostLimitsRow, VhostRow
from warren.errors import NOT_FOUND, PRECONDITION_FAILED
from warren.queue_types import CLASSIC, QUORUM, STREAM, find_by_any_name

COLUMNS: Final = (
    *("cluster_state", "default_queue_type", "description", "metadata", "name"),
    *("protected_from_deletion", "tags", "tracing"),
)
METADATA: Final = {
    "description": TEXT,
    "tags": TEXT,
    "default_queue_type": TEXT,
    "protected_from_deletion": TEXT,
}
WRONG: Final = {NOT_FOUND: DATA, PRECONDITION_FAILED: DATA}


def check_columns(known: tuple[str, ...], columns: list[str]) -> None:
    """Refuse columns that a list does not have.

    Raises:
        WrongWords: It does not.
    """
    unknown = [column for column in columns if column not in known]
    if unknown:
        names = ",".join(unknown)
        raise WrongWords(f"Error (argument validation): Info key(s) {names} are not supported")


def chosen(words: Words) -> list[str]:
    """The columns that are named, each once; they may have commas between them."""
    named = [part for word in words.arguments for part in word.replace(",", " ").split()]
    return list(dict.fromkeys(named))


def _check_columns(words: Words) -> None:
    check_columns(COLUMNS, chosen(words))


def _check_type(words: Words) -> None:
    kind = words.options.get("default_queue_type")
    if kind is not None and find_by_any_name(kind) is None:
        known = ", ".join((QUORUM.name, STREAM.name, CLASSIC.name))
        raise bad(f": Default queue type must be one of: {known}. Provided: {kind}", DATA)


def _check_update(words: Words) -> None:
    _check_type(words)
    if not any(name in words.options for name in METADATA):
        raise WrongWords("Error (argument validation): not enough arguments.")


def properties(words: Words) -> dict[str, Any]:
    """The properties of a vhost that are given."""
    found: dict[str, Any] = {}
    for name in METADATA:
        value = words.options.get(name)
        if value is None:
            continue
        if name == "tags":
            value = [tag.strip() for tag in value.split(",") if tag.strip()]
        elif name == "protected_from_deletion":
            value = value == "true"
        found[name] = value
    return found


def _add(session: ToolSession, words: Words) -> Output:
    asked = {"name": words.arguments[0], **properties(words)}
    asked.pop("protected_from_deletion", None)
    session.ask("add_vhost", asked, None, WRONG)
    return None


def _update(session: ToolSession, words: Words) -> Output:
    asked = {"name": words.arguments[0], **properties(words)}
    session.ask("update_vhost_metadata", asked, None, WRONG)
    return None


def _set_tags(session: ToolSession, words: Words) -> Output:
    asked = {"name": words.arguments[0], "tags": words.arguments[1:]}
    try:
        session.ask("update_vhost_metadata", asked, None, WRONG)
    except Failure as failure:
        if not failure.bare:
            raise
        raise Failure(DATA, f'Virtual host "{words.arguments[0]}" does not exist') from None
    return None


def _protect(session: ToolSession, words: Words) -> Output:
    asked = {"name": words.arguments[0], "protected_from_deletion": True}
    session.ask("update_vhost_metadata", asked, None, WRONG)
    return None


def _unprotect(session: ToolSession, words: Words) -> Output:
    asked = {"name": words.arguments[0], "protected_from_deletion": False}
    session.ask("update_vhost_metadata", asked, None, WRONG)
    return None


def _delete(session: ToolSession, words: Words) -> Output:
    session.ask("delete_vhost", {"name": words.arguments[0]}, None, WRONG)
    return None


def _list(session: ToolSession, words: Words) -> Output:
    columns = chosen(words) or ["name"]
    rows = session.ask("list_vhosts", {}, list[VhostRow])
    return ToolRows(columns, [[_cell(session, row, column) for column in columns] for row in rows])


def _cell(session: ToolSession, row: VhostRow, column: str) -> Any:
    kind = row.default_queue_type
    if column == "tags":
        return Atoms(row.tags)
    if column == "default_queue_type":
        return kind
    if column == "metadata":
        return {"description": row.description, "tags": row.tags, "default_queue_type": kind}
    if column == "cluster_state":
        return {session.node: "running"}
    return getattr(row, column)


def _set_limits(session: ToolSession, words: Words) -> Output:
    asked = {"vhost": words.vhost, "definition": words.arguments[0]}
    session.ask("set_vhost_limits", asked, None)
    return None


def _clear_limits(session: ToolSession, words: Words) -> Output:
    session.ask("clear_vhost_limits", {"vhost": words.vhost}, None)
    return None


def _limits(session: ToolSession, words: Words) -> Output:
    everywhere = bool(words.options.get("global"))
    asked = {"vhost": None if everywhere else words.vhost}
    rows = session.ask("list_vhost_limits", asked, list[VhostLimitsRow])
    if everywhere:
        return ToolRows(("vhost", "limits"), [(row.vhost, as_text(row.limits)) for row in rows])
    text = as_text(rows[0].limits) if rows[0].limits else ""
    return ToolAnswer(text or "\n", {"node": session.node, "result": "ok", "value": text})


def _of_limits(session: ToolSession, words: Words) -> str:
    if words.options.get("global"):
        return "Listing limits for all vhosts ..."
    return f'Listing limits for vhost "{words.vhost}" ...'


def _of_tracing(what: str) -> Callable[[ToolSession, Words], str]:
    def banner(session: ToolSession, words: Words) -> str:
        return f'{what} tracing for vhost "{words.vhost}" ...'

    return banner


def _of_tags(session: ToolSession, words: Words) -> str:
    tags = ", ".join(words.arguments[1:])
    return f'Setting tags for virtual host "{words.arguments[0]}" to [{tags}] ...'


def _trace_on(session: ToolSession, words: Words) -> Output:
    session.ask("set_tracing", {"vhost": words.vhost, "on": True}, None, WRONG)
    return ToolAnswer(f"Trace enabled for vhost {words.vhost}")


def _trace_off(session: ToolSession, words: Words) -> Output:
    session.ask("set_tracing", {"vhost": words.vhost, "on": False}, None, WRONG)
    return ToolAnswer(f"Trace disabled for vhost {words.vhost}")


def _restart(session: ToolSession, words: Words) -> Output:
    rows = session.ask("list_vhosts", {}, list[VhostRow])
    if words.vhost not in [row.name for row in rows]:
        raise Failure(DATA, f"Virtual host '{words.vhost}' does not exist", bare=True)
    return ToolAnswer(f"Vhost '{words.vhost}' is already running on node '{session.node}'")


def _reconcile(session: ToolSession, words: Words) -> Output:
    # Each node has all vhosts as soon as it has the metadata.
    session.ask("list_vhosts", {}, list[VhostRow])
    return None


ADD_USAGE: Final = (
    '<vhost> [--description <description> --tags "<tag1>,<tag2>,<...>" '
    "--default-queue-type <quorum|classic|stream>]"
)
UPDATE_USAGE: Final = (
    '<vhost> [--description=<description>] [--tags="<tag1>,<tag2>,<...>"] '
    "[--default-queue-type=<quorum|classic|stream>] [--protected-from-deletion=<true|false>]"
)

add(
    ToolCommand(
        "add_vhost",
        (CTL,),
        ADD_USAGE,
        VHOSTS,
        "Creates a virtual host",
        _add,
        1,
        1,
        METADATA,
        says('Adding vhost "{0}" ...'),
        _check_type,
    ),
    ToolCommand(
        "update_vhost_metadata",
        (CTL,),
        UPDATE_USAGE,
        VHOSTS,
        "Changes properties of a virtual host",
        _update,
        1,
        1,
        METADATA,
        says('Updating metadata of vhost "{0}" ...'),
        _check_update,
    ),
    ToolCommand(
        "set_vhost_tags",
        (CTL,),
        "<vhost> <tag> [...]",
        VHOSTS,
        "Gives a virtual host tags, in the place of those before",
        _set_tags,
        1,
        -1,
        banner=_of_tags,
    ),
    ToolCommand(
        "enable_vhost_deletion_protection",
        (CTL,),
        "<vhost>",
        VHOSTS,
        "Has a virtual host not be deleted",
        _protect,
        1,
        1,
        banner=says('Protecting virtual host "{0}" from removal by updating its metadata...'),
    ),
    ToolCommand(
        "disable_vhost_deletion_protection",
        (CTL,),
        "<vhost>",
        VHOSTS,
        "Lets a virtual host be deleted again",
        _unprotect,
        1,
        1,
        banner=says(
            'Removing deletion protection from virtual host "{0}" by updating its metadata...'
        ),
    ),
    ToolCommand(
        "delete_vhost",
        (CTL,),
        "<vhost>",
        VHOSTS,
        "Deletes a virtual host with all that is in it",
        _delete,
        1,
        1,
        banner=says('Deleting vhost "{0}" ...'),
    ),
    ToolCommand(
        "list_vhosts",
        LISTING,
        "[--no-table-headers] [<column> ...] [--timeout <timeout>]",
        VHOSTS,
        "Lists virtual hosts",
        _list,
        0,
        -1,
        banner=says("Listing vhosts ..."),
        check=_check_columns,
    ),
    ToolCommand(
        "set_vhost_limits",
        (CTL,),
        "[--vhost <vhost>] <definition>",
        VHOSTS,
        "Sets the limits of a virtual host",
        _set_limits,
        1,
        1,
        banner=says('Setting vhost limits to "{0}" for vhost "{vhost}" ...'),
    ),
    ToolCommand(
        "clear_vhost_limits",
        (CTL,),
        "[--vhost <vhost>]",
        VHOSTS,
        "Takes the limits of a virtual host away",
        _clear_limits,
        banner=says('Clearing vhost "{vhost}" limits ...'),
    ),
    ToolCommand(
        "list_vhost_limits",
        (CTL, DIAGNOSTICS),
        "[--vhost <vhost>] [--global] [--no-table-headers]",
        VHOSTS,
        "Lists limits of virtual hosts",
        _limits,
        switches={"global": TRUTH},
        banner=_of_limits,
    ),
    ToolCommand(
        "trace_on",
        (CTL,),
        "[--vhost <vhost>]",
        VHOSTS,
        "Has messages of a virtual host traced on the node, in amq.rabbitmq.trace",
        _trace_on,
        banner=_of_tracing("Starting"),
    ),
    ToolCommand(
        "trace_off",
        (CTL,),
        "[--vhost <vhost>]",
        VHOSTS,
        "Has messages of a virtual host traced no more on the node",
        _trace_off,
        banner=_of_tracing("Stopping"),
    ),
    ToolCommand(
        "restart_vhost",
        (CTL,),
        "[--vhost <vhost>]",
        VHOSTS,
        "Sees that a virtual host runs: with Warren they all do",
        _restart,
        banner=says("Trying to restart vhost '{vhost}' on node '{node}' ..."),
    ),
    ToolCommand(
        "reconcile_vhosts",
        (CTL,),
        "",
        VHOSTS,
        "Sees that virtual hosts are on all nodes: with Warren they are",
        _reconcile,
        banner=says(
            "Will try to initiate virtual host reconciliation on all reachable cluster nodes..."
        ),
    ),
)
