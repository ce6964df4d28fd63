"""Configuration files as entries, and what of their values stands for something else.

    key = value            # a comment
    key = 'a # in it'      quotes around all of a value keep it as it is
    key = '''it's'''       so do three, also over lines
    key = $(NAME)          what the key NAME of the configuration has, or else the environment
    include conf.d/*.conf  further files, from the folder of this one; there may be none

Source: RabbitMQ's configuration guide, and what RabbitMQ 4.3.6 makes of such files.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from warren.config.advanced import ADVANCED_SUFFIX, advanced_entries
from warren.errors import ConfigError

_END: Final = r"[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)"
"""Behind what a line has: perhaps a comment."""
_BLANK: Final = re.compile(_END)
_INCLUDE: Final = re.compile(r"[ \t]*include[ \t]+([A-Za-z0-9_.*/-]+)" + _END)
_WORD: Final = r"(?:[A-Za-z0-9_-]|\\\.)+"
_SETTING: Final = re.compile(
    rf"[ \t]*({_WORD}(?:\.{_WORD})*)[ \t]*=[ \t]*"
    r"(?:'''((?s:.*?))'''|'([^']*)'|((?!'[^']*'|[ \t])[^#\n]*?))" + _END
)
"""A key, where a backslash has a dot be part of a name; and a value, of which one in quotes may go
over lines. A quote that no other one follows is a letter."""
NESTING_MAX: Final = 16
REFERENCE: Final = re.compile(r"\$\(([^()]*)\)")
ENCRYPTED: Final = "encrypted:"
SECRET_KEYS: Final = ("pass", "password", "secret", "secret_key", "token")
"""Keys that end so have values that no message shows."""


class Source(NamedTuple):
    """Where a value was given, for the text of an error."""

    name: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.name}, line {self.line}" if self.line else self.name


class Entry(NamedTuple):
    """One `key = value` and where it stands.

    Attributes:
        literal: Whether nothing in the value stands for something else.
        any_key: Whether there may be any key, as in `advanced.config`.
    """

    key: str
    value: str
    source: Source
    literal: bool = False
    any_key: bool = False

    @property
    def shown(self) -> str:
        """The entry as messages show it."""
        return f"{self.key} = {'...' if self.key.endswith(SECRET_KEYS) else self.value}"


def parse_lines(text: str, name: str) -> list[Entry]:
    """Cut a configuration file's text into its entries, in order.

    Raises:
        ConfigError: A line is neither empty, nor a comment, nor `key = value`.
    """
    return _entries(text, name, 0)


def _entries(text: str, name: str, depth: int) -> list[Entry]:
    entries = []
    at, line = 0, 1
    while at < len(text):
        source = Source(name, line)
        if match := _BLANK.match(text, at):
            pass
        elif match := _INCLUDE.match(text, at):
            entries += _included(match[1], source, depth)
        elif match := _SETTING.match(text, at):
            value = next(group for group in match.groups()[1:] if group is not None)
            entries.append(Entry(match[1].replace("\\.", "."), value, source))
        else:
            wrong = text[at:].partition("\n")[0].strip()
            raise ConfigError(f"{source}: expected `key = value`, found: {_no_value(wrong)}")
        line += text.count("\n", at, match.end())
        at = match.end()
    return entries


def _no_value(line: str) -> str:
    """A line that is not understood, without what may be a secret."""
    key = line.partition("=")[0].strip()
    return f"{key} = ..." if key.endswith(SECRET_KEYS) else line


def _included(pattern: str, source: Source, depth: int) -> list[Entry]:
    if depth == NESTING_MAX:
        raise ConfigError(f"{source}: include {pattern}: files include each other without an end")
    folder = os.path.dirname(source.name)
    found = sorted(glob.glob(os.path.join(folder, pattern)))
    return [entry for path in found for entry in _file(path, depth + 1)]


def read_file(path: str) -> list[Entry]:
    """The entries of a configuration file, or of all `*.conf` of a folder by their names.

    Raises:
        ConfigError: It cannot be read, or a line is not understood.
    """
    return _file(path, 0)


def _file(path: str, depth: int) -> list[Entry]:
    try:
        if os.path.isdir(path):
            files = sorted(Path(path).glob("*.conf"))
            return [entry for file in files for entry in _file(str(file), depth)]
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise ConfigError(f"configuration file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"configuration file {path}: not UTF-8 at byte {error.start}") from error
    if path.endswith(ADVANCED_SUFFIX):
        return [
            Entry(key, value, Source(path, line), True, True)
            for key, value, line in advanced_entries(text, path)
        ]
    return _entries(text, path, depth)


def substituted(
    entries: Iterable[Entry], environment: Mapping[str, str], errors: list[str], head: str = ""
) -> list[Entry]:
    """The entries with all that `$(NAME)` stands for in place.

    Args:
        errors: Takes what is wrong; entries that it is about are left out.
        head: Only keys that begin so are wanted.
    """
    known = list(entries)
    by_key = {entry.key: entry for entry in known}
    found = []
    for entry in known:
        if not entry.key.startswith(head):
            continue
        try:
            value = entry.value
            if not entry.literal:
                value = _resolved(entry, by_key, environment, ())
            if value.startswith(ENCRYPTED) and entry.key.endswith(SECRET_KEYS):
                raise ConfigError(
                    f"{entry.source}: {entry.key} is encrypted for RabbitMQ, and Warren decrypts "
                    f"nothing: give it from the environment, as {entry.key} = $(NAME)"
                )
            found.append(entry._replace(value=value))
        except ConfigError as error:
            errors.append(str(error))
    return found


def _resolved(
    entry: Entry,
    by_key: Mapping[str, Entry],
    environment: Mapping[str, str],
    within: tuple[str, ...],
) -> str:
    """An entry's value; what the environment has is not looked into any further."""
    if entry.key in within:
        raise ConfigError(
            f"{entry.source}: {entry.key} stands for itself: {' -> '.join((*within, entry.key))}"
        )

    def named(match: re.Match[str]) -> str:
        name = match[1].strip()
        if name in by_key:
            other = by_key[name]
            if other.literal:
                return other.value
            return _resolved(other, by_key, environment, (*within, entry.key))
        if name in environment:
            return environment[name]
        raise ConfigError(
            f"{entry.source}: {entry.key} has {match[0]}, and neither the environment nor the "
            f"configuration has {name or 'a name that is empty'}"
        )

    return REFERENCE.sub(named, entry.value)
