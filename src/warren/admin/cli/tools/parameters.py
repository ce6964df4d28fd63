"""Runtime parameters of vhosts and of the whole cluster, and the cluster's name."""

from __future__ import annotations

from typing import Final

from warren.admin.cli.tools.command import (
    CONFIGURATION,
    CTL,
    PARAMETERS,
    Output,
    ToolCommand,
    ToolRows,
    Words,
    add,
    says,
)
from warren.admin.cli.tools.session import ToolSession
from warren.admin.cli.tools.users import LISTING, as_text
from warren.admin.service.rows import GlobalParameterRow, ParameterRow

LIST_USAGE: Final = "[--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]"


def _set(session: ToolSession, words: Words) -> Output:
    component, name, value = words.arguments
    asked = {"vhost": words.vhost, "component": component, "name": name, "value": value}
    session.ask("set_parameter", asked, None)
    return None


def _clear(session: ToolSession, words: Words) -> Output:
    component, name = words.arguments
    asked = {"vhost": words.vhost, "component": component, "name": name}
    session.ask("clear_parameter", asked, None)
    return None


def _list(session: ToolSession, words: Words) -> Output:
    rows = session.ask("list_parameters", {"vhost": words.vhost}, list[ParameterRow])
    return ToolRows(
        ("component", "name", "value"),
        [(row.component, row.name, as_text(row.value)) for row in rows],
    )


def _set_global(session: ToolSession, words: Words) -> Output:
    name, value = words.arguments
    session.ask("set_global_parameter", {"name": name, "value": value}, None)
    return None


def _clear_global(session: ToolSession, words: Words) -> Output:
    session.ask("clear_global_parameter", {"name": words.arguments[0]}, None)
    return None


def _list_global(session: ToolSession, words: Words) -> Output:
    rows = session.ask("list_global_parameters", {}, list[GlobalParameterRow])
    return ToolRows(("name", "value"), [(row.name, as_text(row.value)) for row in rows])


def _name(session: ToolSession, words: Words) -> Output:
    session.ask("set_cluster_name", {"name": words.arguments[0]}, None)
    return None


add(
    ToolCommand(
        "set_parameter",
        (CTL,),
        "[--vhost <vhost>] <component_name> <name> <value>",
        PARAMETERS,
        "Sets a runtime parameter of a virtual host",
        _set,
        3,
        3,
        banner=says(
            'Setting runtime parameter "{1}" for component "{0}" to "{2}" in vhost "{vhost}" ...'
        ),
    ),
    ToolCommand(
        "clear_parameter",
        (CTL,),
        "[--vhost <vhost>] <component_name> <name>",
        PARAMETERS,
        "Removes a runtime parameter of a virtual host",
        _clear,
        2,
        2,
        banner=says('Clearing runtime parameter "{1}" for component "{0}" on vhost "{vhost}" ...'),
    ),
    ToolCommand(
        "list_parameters",
        LISTING,
        LIST_USAGE,
        PARAMETERS,
        "Lists the runtime parameters of a virtual host",
        _list,
        banner=says('Listing runtime parameters for vhost "{vhost}" ...'),
    ),
    ToolCommand(
        "set_global_parameter",
        (CTL,),
        "<name> <value>",
        PARAMETERS,
        "Sets a runtime parameter of the whole cluster",
        _set_global,
        2,
        2,
        banner=says('Setting global runtime parameter "{0}" to "{1}" ...'),
    ),
    ToolCommand(
        "clear_global_parameter",
        (CTL,),
        "<name>",
        PARAMETERS,
        "Removes a runtime parameter of the whole cluster",
        _clear_global,
        1,
        1,
        banner=says('Clearing global runtime parameter "{0}" ...'),
    ),
    ToolCommand(
        "list_global_parameters",
        LISTING,
        "[--timeout <timeout>]",
        PARAMETERS,
        "Lists the runtime parameters of the whole cluster",
        _list_global,
        banner=says("Listing global runtime parameters ..."),
    ),
    ToolCommand(
        "set_cluster_name",
        (CTL,),
        "<name>",
        CONFIGURATION,
        "Names the cluster",
        _name,
        1,
        1,
        banner=says("Setting cluster name to {0} ..."),
    ),
)
