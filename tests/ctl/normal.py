"""What two brokers say at the same step, without what differs from run to run."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

OVERVIEW = "Available commands:"
DIAGNOSTICS = "\n\nMost common reasons"
NUMBERS = re.compile(r"(?<![\w.-])\d{5,}(?![\w.])")
PIDS = re.compile(r"<r5890-1@localhost[.\d]*>")
HASHES = re.compile(r"^[A-Za-z0-9+/]{48,}={0,2}$", re.MULTILINE)
FIGURES = re.compile(r"(?<=: )(\d+(\.\d+)?|NUMBER)(?= gb$|$)", re.MULTILINE)
PARTS = re.compile(r"(?<=[ (])\d+(\.\d+)?(?=[ %])")
WRAPPED = re.compile(r",\n\s+")
VARIABLES = re.compile(r"^(RABBITMQ|WARREN)_\w+=.*\n?", re.MULTILINE)
OF_MEMORY = ("memory_breakdown", "rabbitmqctl status")
MEASURED = ("status", "environment", "memory_breakdown")
"""Parts of the names of commands that show what is measured."""


class Said(NamedTuple):
    """What a tool said.

    Attributes:
        code: Its exit code.
        out: What it wrote to its standard output: text, or the value of JSON.
        err: What it wrote to its standard error stream.
    """

    code: int
    out: Any
    err: str


def normal(words: str, code: int, out: str, err: str, known: dict[str, str]) -> Said:
    """What a tool said, as it is compared.

    Args:
        words: The step.
        known: What paths and ports stand for.
    """
    for value, name in known.items():
        out, err = out.replace(value, name), err.replace(value, name)
    return Said(code, _out(words, out), _plain(err))


def _out(words: str, out: str) -> Any:
    measured = any(part in words for part in MEASURED)
    if "json" in words or "export_definitions -" in words:
        try:
            value = json.loads(out)
        except ValueError:
            return _plain(out)
        if " list_" in words or "export_definitions" in words:
            value = _in_order(value)
        return _without_figures(value) if measured else value
    if any(part in words for part in OF_MEMORY):
        out = PARTS.sub("0", out)
    if "os_env" in words:
        out = VARIABLES.sub("", out)
    text = _plain(out)
    if "--formatter erlang" in words:
        return re.sub(r"\s+", "", text)
    if "pretty_table" not in words and any(part in words for part in (" list_", "connectivity")):
        # In which order things are listed means nothing.
        text = "\n".join(sorted(text.split("\n")))
    if any(part in words for part in OF_MEMORY):
        # The largest part is the first one, whichever that is.
        text = "\n".join(sorted(text.split("\n"))).strip("\n")
    if measured:
        text = re.sub(r"\b\d+\b", "0", text) if "quorum" in words else FIGURES.sub("0", text)
    return text


def _in_order(value: Any) -> Any:
    """Lists in an order that is always the same, without salted hashes."""
    if isinstance(value, dict):
        return {name: _in_order(each) for name, each in value.items()}
    if isinstance(value, list):
        found = [_in_order(each) for each in value]
        return sorted(found, key=lambda each: json.dumps(each, sort_keys=True))
    return HASHES.sub("HASH", value) if isinstance(value, str) else value


def _without_figures(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_figures(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_figures(each) for each in value]
    return 0 if isinstance(value, int | float) and not isinstance(value, bool) else value


def _plain(text: str) -> str:
    for ending in (OVERVIEW, DIAGNOSTICS):
        text = text.partition(ending)[0]
    text = WRAPPED.sub(",", HASHES.sub("HASH", PIDS.sub("PID", text)))
    return NUMBERS.sub("NUMBER", text).strip("\n")
