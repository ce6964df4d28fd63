"""The command `warren completion`: a script by which a shell completes the words of `warren`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from warren.admin.cli.words import examples


class Known(NamedTuple):
    """The words that may follow some words.

    Attributes:
        path: The commands before, as `queues list`; empty for none.
        actions: Commands, with what they do.
        options: Options, with what they mean.
        choices: What else may stand there.
    """

    path: str
    actions: dict[str, str]
    options: dict[str, str]
    choices: list[str]


def known_words(parser: argparse.ArgumentParser, path: str = "") -> Iterator[Known]:
    """All commands below a parser, itself first."""
    actions: dict[str, str] = {}
    options: dict[str, str] = {}
    choices: list[str] = []
    below: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below.update(action.choices)
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            actions.update({name: helps.get(name, "") for name in action.choices})
        elif action.option_strings:
            options[action.option_strings[-1]] = action.help or ""
        elif action.choices:
            choices += [str(choice) for choice in action.choices]
    yield Known(path, actions, options, choices)
    for name, one in below.items():
        yield from known_words(one, f"{path} {name}".strip())


def bash(known: list[Known]) -> str:
    """A script for bash."""
    cases = "\n".join(
        f'    "{words.path}") all="{" ".join([*words.actions, *words.choices, *words.options])}" ;;'
        for words in known
    )
    return f"""_warren() {{
  local all path= word known
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$word" in -*) continue ;; esac
    known="${{path:+$path }}$word"
    case "$known" in
    {"|".join(f'"{words.path}"' for words in known if words.path)}) path="$known" ;;
    esac
  done
  case "$path" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$all" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _warren warren
"""


def zsh(known: list[Known]) -> str:
    """A script for zsh, which takes that for bash."""
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash(known)}"


def fish(known: list[Known]) -> str:
    """A script for fish."""
    lines = []
    for words in known:
        first, _, second = words.path.partition(" ")
        seen = [f"__fish_seen_subcommand_from {part}" for part in (first, second) if part]
        if not words.path:
            seen = ["__fish_use_subcommand"]
        elif words.actions:
            seen.append(f"not __fish_seen_subcommand_from {' '.join(words.actions)}")
        when = f"complete -c warren -n {_quoted('; and '.join(seen))}"
        for name, text in words.actions.items():
            lines.append(f"{when} -f -a {name} -d {_quoted(text)}")
        for name in words.choices:
            lines.append(f"{when} -f -a {name}")
        for name, text in words.options.items():
            if name.startswith("--"):
                lines.append(f"{when} -l {name[2:]} -d {_quoted(text)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    plain = text.replace("%%", "%").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{plain}'"


SHELLS: Final[dict[str, Callable[[list[Known]], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}


def add_command(commands: Any, whole: argparse.ArgumentParser) -> None:
    """Define its words.

    Args:
        whole: The parser of all words.
    """
    command = commands.add_parser(
        "completion",
        help="print a script by which a shell completes words",
        description="Print a script by which a shell completes the words of this command.",
        epilog=examples(
            "warren completion bash > ~/.warren-words && source ~/.warren-words",
            "warren completion fish > ~/.config/fish/completions/warren.fish",
        ),
    )
    command.add_argument("shell", choices=list(SHELLS))
    command.set_defaults(run=partial(run, whole))


def run(whole: argparse.ArgumentParser, words: argparse.Namespace) -> int:
    """Print the script."""
    print(SHELLS[words.shell](list(known_words(whole))), end="")
    return 0
