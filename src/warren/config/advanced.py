"""`advanced.config`: the Erlang terms by which RabbitMQ is told what its other format cannot say.

    [{rabbit, [{quorum_cluster_size, 5}, {consumer_timeout, 60000}]},
     {ra, [{wal_max_size_bytes, 64000000}]}].

What Warren has of it are numbers, words and truths, each under a key of `rabbitmq.conf`. A comment
begins with `%`.

Source: the guides; Erlang's reference of terms, as far as these files have them.
"""

from __future__ import annotations

import re
from typing import Final

from warren.errors import ConfigError

ADVANCED_SUFFIX: Final = ".config"

KEYS: Final = {
    ("rabbit", "vm_memory_high_watermark"): "vm_memory_high_watermark.relative",
    ("rabbit", "disk_free_limit"): "disk_free_limit.absolute",
    ("rabbit", "log_levels"): "log.level",
    ("ra", "wal_max_size_bytes"): "raft.wal_max_size_bytes",
    ("ra", "segment_max_entries"): "raft.segment_max_entries",
    ("rabbitmq_management", "load_definitions"): "load_definitions",
    ("rabbitmq_prometheus", "return_per_object_metrics"): "prometheus.return_per_object_metrics",
}
"""Keys that have another name there."""
NESTING_MAX: Final = 32
TOKEN: Final = re.compile(
    r"(?P<space>\s+|%[^\n]*)"
    r"|(?P<binary><<\s*\"(?:[^\"\\]|\\.)*\"\s*>>|<<\s*>>)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<quoted>'(?:[^'\\]|\\.)*')"
    r"|(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?)"
    r"|(?P<atom>[a-z][A-Za-z0-9_@]*)"
    r"|(?P<mark>[\[\]{},.|])"
)


class Term:
    """One term: a text for a plain one, or what a list or a tuple holds.

    Attributes:
        line: Where it begins.
    """

    def __init__(self, line: int, text: str | None, parts: list[Term], is_tuple: bool) -> None:
        self.line = line
        self.text = text
        self.parts = parts
        self.is_tuple = is_tuple

    def pair(self) -> tuple[str, Term] | None:
        """The name and the term, for a tuple of these two."""
        if self.is_tuple and len(self.parts) == 2 and self.parts[0].text is not None:
            return self.parts[0].text, self.parts[1]
        return None


class _Reader:
    """Reads the terms of one file."""

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._tokens: list[tuple[str, str, int]] = []
        at, line = 0, 1
        while at < len(text):
            match = TOKEN.match(text, at)
            if match is None:
                raise ConfigError(f"{name}, line {line}: not an Erlang term: {text[at : at + 20]}")
            kind = match.lastgroup or ""
            if kind != "space":
                self._tokens.append((kind, match[0], line))
            line += match[0].count("\n")
            at = match.end()
        self._tokens.append(("end", "the end", line))
        self._at = 0

    def whole(self) -> Term:
        """The one term of the file, with the full stop behind it."""
        found = self._term(0)
        if self._peek()[1] == ".":
            self._at += 1
        if self._peek()[0] != "end":
            raise self._unexpected()
        return found

    def _peek(self) -> tuple[str, str, int]:
        return self._tokens[self._at]

    def _unexpected(self) -> ConfigError:
        _, text, line = self._peek()
        return ConfigError(f"{self._name}, line {line}: {text} is not expected there")

    def _term(self, depth: int) -> Term:
        kind, text, line = self._peek()
        if depth > NESTING_MAX or kind == "end" or (kind == "mark" and text not in "[{"):
            raise self._unexpected()
        self._at += 1
        if kind == "mark":
            return Term(line, None, self._parts("]" if text == "[" else "}", depth), text == "{")
        if kind == "binary":
            text = text[2:-2].strip()
        if kind in ("binary", "string", "quoted"):
            text = re.sub(r"\\(.)", r"\1", text[1:-1])
        return Term(line, text, [], False)

    def _parts(self, end: str, depth: int) -> list[Term]:
        parts: list[Term] = []
        while True:
            if self._peek()[1] == end and not parts:
                break
            parts.append(self._term(depth + 1))
            if self._peek()[1] == end:
                break
            if self._peek()[1] != ",":
                raise self._unexpected()
            self._at += 1
        self._at += 1
        return parts


def advanced_entries(text: str, name: str) -> list[tuple[str, str, int]]:
    """What such a file sets: keys of `rabbitmq.conf`, values, and lines.

    Raises:
        ConfigError: It is not understood, or sets what has no key here; says where.
    """
    whole = _Reader(text, name).whole() if text.strip() else Term(1, None, [], False)
    entries = []
    for application in whole.parts:
        pair = application.pair()
        if whole.is_tuple or pair is None or pair[1].text is not None or pair[1].is_tuple:
            raise ConfigError(
                f"{name}, line {application.line}: expected {{APPLICATION, [{{KEY, VALUE}}, ...]}}"
            )
        for setting in pair[1].parts:
            entries.append(_entry(pair[0], setting, name))
    return entries


def _entry(application: str, setting: Term, name: str) -> tuple[str, str, int]:
    pair = setting.pair()
    if pair is None:
        raise ConfigError(f"{name}, line {setting.line}: expected {{KEY, VALUE}}")
    key, value = pair
    found = KEYS.get((application, key), key if application == "rabbit" else f"{application}.{key}")
    inner = value.pair()
    if inner is not None and inner[0] in ("absolute", "relative", "mem_relative"):
        kind = "absolute" if inner[0] == "absolute" else "relative"
        found, value = f"{key}.{kind}", inner[1]
    if value.text is None:
        raise ConfigError(
            f"{name}, line {setting.line}: {application}.{key} has no number, word or text as its "
            "value; say it in the format of rabbitmq.conf"
        )
    return found, value.text, setting.line
