"""Runs one of RabbitMQ's tools: reads its words, does what they name, shows what came of it."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from typing import Final

from warren.admin.cli.output import while_read
from warren.admin.cli.tools import (
    absent,
    certificates,
    clients,
    definitions,
    deprecated,
    diagnostics,
    evaluating,
    figures,
    joining,
    lists,
    members,
    memory,
    nodes,
    parameters,
    peeking,
    permissions,
    plugins,
    policies,
    status,
    upgrade,
    users,
    vhosts,
)
from warren.admin.cli.tools.command import (
    COMMANDS,
    CTL,
    DIAGNOSTICS,
    DONE,
    PLUGINS,
    QUEUES,
    SECTIONS,
    STREAMS,
    UNAVAILABLE,
    UPGRADE,
    USAGE,
    Failure,
    NodeDown,
    Output,
    ToolAnswer,
    ToolCommand,
    Words,
    WrongWords,
)
from warren.admin.cli.tools.reading import ReadWords, check, read
from warren.admin.cli.tools.session import ToolSession
from warren.admin.cli.tools.showing import FORMATTERS, QUIET_FORMATTERS, shown
from warren.admin.cli.words import INTERRUPTED
from warren.admin.compatible import RABBITMQ_VERSION
from warren.admin.printable import harmless
from warren.errors import BrokerError

GROUPS: Final = (
    users,
    vhosts,
    permissions,
    policies,
    parameters,
    lists,
    clients,
    members,
    peeking,
    memory,
    status,
    nodes,
    joining,
    definitions,
    diagnostics,
    certificates,
    figures,
    deprecated,
    evaluating,
    upgrade,
    plugins,
    absent,
)
"""The groups of commands, which are in the table once they are imported."""

HELP: Final = ("help", "version", "autocomplete")
NEAR: Final = 0.75
"""How much alike two words are of which one may have been meant by the other."""


def rabbitmqctl() -> int:
    """The tool `rabbitmqctl`; returns the exit code."""
    return main(CTL, sys.argv[1:])


def rabbitmq_queues() -> int:
    """The tool `rabbitmq-queues`; returns the exit code."""
    return main(QUEUES, sys.argv[1:])


def rabbitmq_diagnostics() -> int:
    """The tool `rabbitmq-diagnostics`; returns the exit code."""
    return main(DIAGNOSTICS, sys.argv[1:])


def rabbitmq_upgrade() -> int:
    """The tool `rabbitmq-upgrade`; returns the exit code."""
    return main(UPGRADE, sys.argv[1:])


def rabbitmq_plugins() -> int:
    """The tool `rabbitmq-plugins`; returns the exit code."""
    return main(PLUGINS, sys.argv[1:])


def rabbitmq_streams() -> int:
    """The tool `rabbitmq-streams`, for queues that there are not yet; returns the exit code."""
    return main(STREAMS, sys.argv[1:])


def main(tool: str, argv: Sequence[str]) -> int:
    """Run a tool; returns the exit code."""
    try:
        return while_read(lambda: _run(tool, read(list(argv), tool)), DONE)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(tool: str, found: ReadWords) -> int:
    name, words = found.name, found.words
    if name in HELP or words.options.get("help") or not name:
        return _help(tool, name, words)
    command = found.command
    if command is None:
        return _unknown(tool, name)
    try:
        check(command, found)
        formatter = str(words.options.get("formatter", ""))
        if formatter and formatter not in FORMATTERS:
            raise WrongWords(
                f"Error (argument validation): formatter {formatter} is not known; it is one of "
                f"{', '.join(FORMATTERS)}"
            )
        return _do(tool, ToolSession(tool, words), command, words, formatter)
    except BrokerError as error:
        # Of a data directory that is none, for one.
        _complain(f"Error:\n{error}")
        return UNAVAILABLE
    except Failure as failure:
        _complain(f"Error:\n{failure.text}")
        return failure.code
    except WrongWords as wrong:
        given = " ".join(words.given)
        _complain(f"{wrong.text}\nArguments given:\n\t{given}\n\nUsage\n\n{usage(tool, command)}")
        return wrong.code


def _do(tool: str, session: ToolSession, command: ToolCommand, words: Words, formatter: str) -> int:
    options = words.options
    silent = bool(options.get("silent"))
    quiet = silent or bool(options.get("quiet")) or formatter in QUIET_FORMATTERS
    headed = not silent and not options.get("no_table_headers")
    headed = headed and options.get("table_headers", True) is not False
    banner = "" if quiet or command.banner is None else command.banner(session, words)
    if banner and command.at_once:
        print(banner, flush=True)
    try:
        output = command.run(session, words)
    except NodeDown as down:
        _complain(session.down(str(down)))
        return UNAVAILABLE
    except Failure as failure:
        if banner and not command.at_once:
            print(banner, flush=True)
        _complain(failure.text if failure.bare else f"Error:\n{failure.text}")
        return failure.code
    if banner and not command.at_once:
        print(banner)
    return _show(session, output, formatter, headed)


def _show(session: ToolSession, output: Output, formatter: str, headed: bool) -> int:
    """Write what came of a command; returns the exit code."""
    if output is None:
        if formatter in ("json", "json_stream"):
            sys.stdout.write(shown(ToolAnswer(), formatter, session.node, headed))
        sys.stdout.flush()
        return DONE
    if isinstance(output, ToolAnswer) and output.wrong and not formatter:
        sys.stdout.flush()
        _complain(output.text)
        return output.code
    sys.stdout.write(shown(output, formatter, session.node, headed))
    sys.stdout.flush()
    return output.code if isinstance(output, ToolAnswer) else DONE


def _complain(text: str) -> None:
    """Write to the standard error stream."""
    sys.stdout.flush()
    print(harmless(text), file=sys.stderr)


# --- help ---------------------------------------------------------------------------------------


def _help(tool: str, name: str, words: Words) -> int:
    if name == "version" or (not name and "version" in words.given):
        print(RABBITMQ_VERSION)
        return DONE
    if name == "autocomplete":
        start = words.arguments[0] if words.arguments else ""
        print("\n".join(each for each in of_tool(tool) if each.startswith(start)))
        return DONE
    if not name and not words.options.get("help"):
        _complain(overview(tool))
        return USAGE
    wanted = words.arguments[0] if name == "help" and words.arguments else name
    if wanted in ("", "help"):
        print(overview(tool))
        return DONE
    command = of_tool(tool).get(wanted)
    if command is None:
        _complain(f"Error:\n\nCommand '{wanted}' not found.")
        return USAGE
    print(f"\nUsage\n\n{usage(tool, command)}\n\n{command.text}.\n")
    return DONE


def _unknown(tool: str, name: str) -> int:
    known = list(of_tool(tool))
    near = difflib.get_close_matches(name, known, 1, NEAR)
    near = near or [each for each in known if len(name) > 2 and each.startswith(name)]
    if near:
        _complain(f"\nCommand '{name}' not found. \nDid you mean '{near[0]}'? \n")
    else:
        _complain(f"\nCommand '{name}' not found. \n{overview(tool)}")
    return USAGE


def of_tool(tool: str) -> dict[str, ToolCommand]:
    """The commands of a tool, by name."""
    return {name: command for name, command in sorted(COMMANDS.items()) if tool in command.tools}


def usage(tool: str, command: ToolCommand) -> str:
    """How a command is written."""
    words = f" {command.usage}" if command.usage else ""
    return f"{tool} [--node <node>] [--longnames] [--quiet] {command.name}{words}"


def overview(tool: str) -> str:
    """All commands of a tool, by section."""
    commands = of_tool(tool)
    width = max((len(name) for name in commands), default=0)
    lines = [
        "",
        "Usage",
        "",
        f"{tool} [--node <node>] [--timeout <timeout>] [--longnames] [--quiet] <command> "
        "[<command options>]",
        "",
        "Available commands:",
        "",
    ]
    for section in SECTIONS:
        of_section = [each for each in commands.values() if each.section == section]
        if of_section:
            lines += [f"{section}:", ""]
            lines += [f"   {each.name.ljust(width)}  {each.text}" for each in of_section]
            lines.append("")
    lines.append(f"Use '{tool} help <command>' to learn more about a specific command")
    return "\n".join(lines)
