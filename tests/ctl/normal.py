"""What two brokers say at the same step, without what differs from run to run."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

OVERVIEW = "Available commands:"
DIAGNOSTICS = "\n\nMost common reasons"
PIDS = re.compile(r"<r5890-1@localhost[.\d]*>")
HASHES = re.compile(r"^[A-Za-z0-9+/]{48,}={0,2}$", re.MULTILINE)
CLIENTS = re.compile(r"(?<=127\.0\.0\.1:)\d+(?= -> 127\.0\.0\.1:)")
"""The port that a client has connected from."""
WRAPPED = re.compile(r",\n\s+")
VARIABLES = re.compile(r"^(RABBITMQ|WARREN)_\w+=.*\n?", re.MULTILINE)
MEMORY = ("memory_breakdown", "rabbitmqctl status")
"""Parts of the names of commands that list what memory is used for."""

FIGURES = {
    "OS PID": "a process has another each time",
    "Uptime (seconds)": "time goes by",
    "Erlang processes": "of a runtime that changes by itself",
    "Scheduler run queue": "of a moment",
    "Total memory used": "of a moment",
    "Memory high watermark": "a part of the memory of the machine",
    "Memory high watermark setting": "a part of the memory of the machine",
    "Free disk space": "of the machine",
    "Total CPU cores available cluster-wide": "of the machine",
    "pid": "a process has another each time",
    "uptime": "time goes by",
    "memory": "of a moment",
    "processes": "of a runtime that changes by itself",
    "run_queue": "of a moment",
    "cpu_cores": "of the machine",
    "total_used": "descriptors of a moment",
    "total_limit": "descriptors that the machine allows",
    "disk_free": "of the machine",
    "bytes": "of a moment",
    "percentage": "of a moment",
    "Snapshot Index": "when a snapshot is taken is each broker's own affair",
    "Machine Version": "the machines are two",
}
"""What differs from run to run, from machine to machine or by the broker: names of lines, of keys
and of columns whose numbers are taken as 0, with the reason."""

OF_MACHINE = {"vm_memory_high_watermark_limit", "absolute", "disk_free_limit"}
"""Keys whose numbers are parts of the memory of the machine, unless they are round."""
FIGURE = re.compile(rf"^({'|'.join(re.escape(name) for name in FIGURES)}): .*$", re.MULTILINE)
PARTS = re.compile(r"^(\w+): [\d.]+ (gb|bytes) \([\d.]+ ?%\)$", re.MULTILINE)
"""Parts of the memory: what a node uses it for is of a moment."""
COLUMNS = (
    *("Node Name", "Raft State", "Membership", "Last Log Index", "Last Written", "Last Applied"),
    *("Commit Index", "Snapshot Index", "Term", "Machine Version"),
)
"""Of a table of members."""


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
        if value.isdigit():
            # A port, and no part of another number.
            out, err = (re.sub(rf"(?<!\d){value}(?!\d)", name, text) for text in (out, err))
        else:
            out, err = out.replace(value, name), err.replace(value, name)
    return Said(code, _out(words, out), _plain(err))


def _out(words: str, out: str) -> Any:
    if "json" in words or "export_definitions -" in words:
        try:
            value = json.loads(out)
        except ValueError:
            return _plain(out)
        if " list_" in words or "export_definitions" in words:
            value = _in_order(value)
        return _without_figures(value)
    if "os_env" in words:
        out = VARIABLES.sub("", out)
    text = _plain(out)
    if "--formatter erlang" in words:
        return re.sub(r"\s+", "", text)
    if "pretty_table" not in words and any(part in words for part in (" list_", "connectivity")):
        # In which order things are listed means nothing.
        text = "\n".join(sorted(text.split("\n")))
    if any(part in words for part in MEMORY):
        # The largest part is the first one, whichever that is.
        text = "\n".join(sorted(PARTS.sub(r"\1: 0 \2", text).split("\n"))).strip("\n")
    if "quorum_status" in words:
        text = "\n".join(_row(line) for line in text.split("\n"))
    return FIGURE.sub(r"\1: 0", text)


def _row(line: str) -> str:
    """A row of a table of members, without the cells of columns that differ."""
    cells = line.split("\x1b(0x\x1b(B")
    if len(cells) == len(COLUMNS) + 2 and "Node Name" not in line:
        for at, name in enumerate(COLUMNS, 1):
            if name in FIGURES:
                cells[at] = re.sub(r"\d+", "0", cells[at])
    return "\x1b(0x\x1b(B".join(cells)


def _in_order(value: Any) -> Any:
    """Lists in an order that is always the same, without salted hashes."""
    if isinstance(value, dict):
        return {name: _in_order(each) for name, each in value.items()}
    if isinstance(value, list):
        found = [_in_order(each) for each in value]
        return sorted(found, key=lambda each: json.dumps(each, sort_keys=True))
    return HASHES.sub("HASH", value) if isinstance(value, str) else value


def _without_figures(value: Any, masked: bool = False) -> Any:
    """A value with 0 for each number below a name of `FIGURES`."""
    if isinstance(value, dict):
        return {
            name: _without_figures(each, masked or name in FIGURES or _is_of_machine(name, each))
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_without_figures(each, masked) for each in value]
    return 0 if masked and isinstance(value, int | float) and not isinstance(value, bool) else value


def _is_of_machine(name: str, value: Any) -> bool:
    return name in OF_MACHINE and isinstance(value, int) and value % 1_000_000 != 0


def _plain(text: str) -> str:
    for ending in (OVERVIEW, DIAGNOSTICS):
        text = text.partition(ending)[0]
    text = WRAPPED.sub(",", HASHES.sub("HASH", PIDS.sub("PID", text)))
    return CLIENTS.sub("PORT", text).strip("\n")
