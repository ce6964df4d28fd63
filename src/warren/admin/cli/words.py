"""How the command `warren` reads its words: no abbreviations, and help with wrong ones.

Options that every action of a command takes may stand before the action or after it.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn

INTERRUPTED: Final = 130
"""The exit status after Ctrl-C, as shells have it: 128 and the signal's number."""

COLUMNS = 80
"""Help and refusals keep to this width, whatever the terminal has."""


class Help(argparse.RawDescriptionHelpFormatter):
    """Help texts of at most `COLUMNS` columns, whose examples stay as they are."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=COLUMNS - 1)


class Parser(argparse.ArgumentParser):
    """A parser that takes words only as they are, and helps with wrong ones."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", Help)
        if options.get("description"):
            options["description"] = wrapped(options["description"])
        super().__init__(**options)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; an unknown word is refused here, where the options are known that there are."""
        if self._subparsers is not None:
            self._look_ahead(sys.argv[1:] if args is None else args)
        words, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(self._unknown(rest))
        return words, rest

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, then how it is right, and end with exit status 2."""
        self.exit(2, f"{self.prog}: {message}\n{self.format_usage()}more: {self.prog} --help\n")

    def _look_ahead(self, args: Sequence[str]) -> None:
        """Refuse an unknown option before its value is taken for the action and refused as that."""
        actions = [action.choices for action in self._actions if action.nargs == argparse.PARSER]
        for word in args:
            if word == "--" or any(word in (choices or ()) for choices in actions):
                return
            if word.startswith("--") and word.partition("=")[0] not in self._option_string_actions:
                self.error(self._unknown([word]))

    def _unknown(self, rest: list[str]) -> str:
        options = [name for name in self._option_string_actions if name.startswith("--")]
        for word in rest:
            if word.startswith("-"):
                name = word.partition("=")[0]
                return f"unknown option {name}{meant(name, options)}"
        return f"unexpected: {' '.join(rest)}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            hint = meant(str(value), known) or f"; it is one of {', '.join(known)}"
            raise argparse.ArgumentError(action, f"{value!r} is unknown{hint}")


def meant(word: str, known: Iterable[str]) -> str:
    """What was probably meant by a wrong word, as the end of a sentence; may be empty."""
    names = list(known)
    near = [name for name in names if len(word) > 2 and name.startswith(word)]
    if not near:
        # Takes a while to load, which the right words need not wait for.
        import difflib

        near = difflib.get_close_matches(word, names, 1, 0.6)
    return f": did you mean {near[0]}?" if near else ""


def wrapped(text: str, indent: str = "") -> str:
    """A text in lines of at most `COLUMNS` columns."""
    return textwrap.fill(
        text, COLUMNS - 1, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def examples(*lines: str) -> str:
    """Examples for the end of a help text; in a pair, the second line explains the first."""
    return "examples:\n" + "\n".join(f"  {line}" for line in lines)


class Shared:
    """Options that a command and each of its actions take.

    A value given behind the action wins; one that is given nowhere is None.
    """

    def __init__(self) -> None:
        self._options: list[tuple[tuple[str, ...], dict[str, Any]]] = []

    def add(self, *names: str, default: Any = None, **options: Any) -> None:
        """Define one, in the words of `argparse`."""
        self._options.append((names, {**options, "default": default}))

    def give(self, parser: argparse.ArgumentParser, inner: bool) -> None:
        """Have a parser take them.

        Args:
            inner: Whether it is an action's, which leaves alone what the command was given.
        """
        group = parser.add_argument_group("which node to ask, and how")
        for names, options in self._options:
            if inner:
                options = {**options, "default": argparse.SUPPRESS}
            group.add_argument(*names, **options)


Checked = Callable[[Callable[[str], Any]], Callable[[str], Any]]


def checked(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser of the configuration, with its refusals in argparse's form."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: allowed is {error}") from None

    return convert
