"""How words are read: options anywhere among them, as RabbitMQ's tools take them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from warren.admin.cli.tools.command import (
    COMMANDS,
    NOT_BUILT,
    NUMBER,
    TEXT,
    TRUTH,
    WHOLE,
    ToolCommand,
    Words,
    WrongWords,
)

GLOBAL_SWITCHES: Final = {
    "node": TEXT,
    "quiet": TRUTH,
    "silent": TRUTH,
    "longnames": TRUTH,
    "timeout": NUMBER,
    "vhost": TEXT,
    "formatter": TEXT,
    "printer": TEXT,
    "file": TEXT,
    "help": TRUTH,
    "dry_run": TRUTH,
    "table_headers": TRUTH,
    "no_table_headers": TRUTH,
    "erlang_cookie": TEXT,
    "script_name": TEXT,
    "data_dir": TEXT,
    "contact": TEXT,
    "secret_file": TEXT,
    "config": TEXT,
}
"""Options that all commands take. The last four are Warren's: they say which node is asked."""
GLOBAL_ALIASES: Final = {
    "n": "node",
    "q": "quiet",
    "s": "silent",
    "l": "longnames",
    "t": "timeout",
    "p": "vhost",
    "?": "help",
}
FOR_EVER: Final = "infinity"


class ReadWords(NamedTuple):
    """Words that were read.

    Attributes:
        name: Of the command; empty if there is none.
        command: It; None if it is not known.
        words: What it is given.
        invalid: Options that are none, each with its value.
    """

    name: str
    command: ToolCommand | None
    words: Words
    invalid: list[tuple[str, str]]


def read(argv: list[str], tool: str) -> ReadWords:
    """ReadWords the words of a tool; the command is the first word that is no option."""
    name = command_name(argv)
    command = COMMANDS.get(name)
    if command is not None and tool not in command.tools:
        command = None
    switches, aliases = dict(GLOBAL_SWITCHES), dict(GLOBAL_ALIASES)
    if command is not None:
        switches.update(command.switches)
        aliases.update(command.aliases)
    arguments, options, invalid = _parse(argv, switches, aliases)
    words = Words(arguments[1:], options, argv)
    return ReadWords(arguments[0] if arguments else "", command, words, invalid)


def command_name(argv: list[str]) -> str:
    """The first word that is neither an option nor the value of one."""
    arguments, _, _ = _parse(argv, GLOBAL_SWITCHES, GLOBAL_ALIASES)
    return arguments[0] if arguments else ""


def check(command: ToolCommand, found: ReadWords) -> None:
    """Refuse words that the command does not take.

    Raises:
        WrongWords: It does not.
    """
    if command.section == NOT_BUILT:
        # Whatever it is given, it is not there.
        return
    if found.invalid:
        shown = "\n".join(f"{name} : {value}" for name, value in found.invalid)
        raise WrongWords(f"Error (argument validation): Invalid options for this command:\n{shown}")
    count = len(found.words.arguments)
    if count < command.least:
        raise WrongWords("Error (argument validation): not enough arguments.")
    if 0 <= command.most < count:
        raise WrongWords("Error (argument validation): too many arguments.")
    if command.check is not None:
        command.check(found.words)


def bad(text: str, code: int) -> WrongWords:
    """An argument that is wrong in itself."""
    return WrongWords(f"Error (argument validation): Bad argument{text}", code)


def _parse(
    argv: list[str], switches: dict[str, str], aliases: dict[str, str]
) -> tuple[list[str], dict[str, Any], list[tuple[str, str]]]:
    """Tell options from other words."""
    arguments: list[str] = []
    options: dict[str, Any] = {}
    invalid: list[tuple[str, str]] = []
    at = 0
    while at < len(argv):
        word = argv[at]
        at += 1
        if word == "--":
            return arguments + argv[at:], options, invalid
        if not word.startswith("-") or word == "-" or word[1:2].isdigit():
            arguments.append(word)
            continue
        shown, joined, value = word.partition("=")
        long = word.startswith("--")
        name = shown[2:].replace("-", "_") if long else aliases.get(shown[1:], "")
        kind = switches.get(name)
        if kind is None:
            invalid.append((shown, value))
            continue
        if kind == TRUTH:
            options[name] = value != "false"
            continue
        if not joined:
            if at >= len(argv):
                invalid.append((shown, ""))
                continue
            value = argv[at]
            at += 1
        try:
            options[name] = _value(kind, value)
        except ValueError:
            invalid.append((shown, value))
    return arguments, options, invalid


def _value(kind: str, text: str) -> Any:
    if kind == WHOLE:
        return int(text)
    if kind == NUMBER:
        number = 0.0 if text == FOR_EVER else float(text)
        if not 0 <= number < float("inf"):
            raise ValueError(text)
        return number
    return text
