"""What the memory of a node is for: `memory_breakdown`, and its part of `status`."""

from __future__ import annotations

from typing import Any, Final

from warren.admin.cli.tools.command import (
    DIAGNOSTICS,
    MONITORING,
    TEXT,
    USAGE,
    Output,
    ToolAnswer,
    ToolCommand,
    ToolRows,
    Words,
    WrongWords,
    add,
    says,
)
from warren.admin.cli.tools.session import ToolSession

UNITS: Final = {
    "bytes": 1,
    "kb": 10**3,
    "kib": 2**10,
    "mb": 10**6,
    "mib": 2**20,
    "gb": 10**9,
    "gib": 2**30,
    "tb": 10**12,
    "tib": 2**40,
}
"""Bytes of each unit."""
DEFAULT_UNIT: Final = "gb"


def in_unit(count: int, unit: str) -> str:
    """Bytes as RabbitMQ's tools write them."""
    size = UNITS[unit]
    return f"{count if size == 1 else round(count / size, 4)} {unit}"


def unit_of(words: Words) -> str:
    """The unit that the words ask for."""
    return str(words.options.get("unit", DEFAULT_UNIT)).lower()


def check_unit(words: Words, known: str) -> None:
    """Refuse a unit that is none.

    Args:
        known: Those that are named to the operator.

    Raises:
        WrongWords: It is none.
    """
    unit = str(words.options.get("unit", DEFAULT_UNIT))
    if unit.lower() not in UNITS:
        text = f"\"unit '{unit}' is not supported. Please use one of: {known}\""
        raise WrongWords(f"Error (argument validation): {text}", USAGE)


class MemoryParts:
    """The memory of a node by category, the largest part first.

    Attributes:
        total: All of it, in bytes.
        in_use: What of that is not kept free.
        parts: Name, bytes and percentage of each.
    """

    def __init__(self, told: dict[str, int]) -> None:
        self.total = told["total"]
        parts = [(name, count) for name, count in told.items() if name != "total"]
        shown = sorted(parts, key=lambda part: -part[1])
        whole = max(self.total, 1)
        self.in_use = self.total - told["allocated_unused"]
        self.parts = [(name, count, round(100 * count / whole, 2)) for name, count in shown]

    def lines(self, unit: str, percent: str = "%") -> list[str]:
        """The parts in words."""
        return [
            f"{name}: {in_unit(count, unit)} ({share}{percent})"
            for name, count, share in self.parts
        ]

    def value(self) -> dict[str, Any]:
        """The parts for programs."""
        return {name: {"bytes": count, "percentage": share} for name, count, share in self.parts}


def memory_of(session: ToolSession) -> MemoryParts:
    """What a node says of its memory."""
    return MemoryParts(session.ask("memory_breakdown", {}, dict[str, int]))


def _breakdown(session: ToolSession, words: Words) -> Output:
    found = memory_of(session)
    formatter = words.options.get("formatter")
    if formatter == "csv":
        cells = {
            f"{name}.{kind}": value
            for name, part in found.value().items()
            for kind, value in part.items()
        }
        names = sorted(cells, reverse=True)
        return ToolRows(names, [[cells[name] for name in names]])
    if formatter == "pretty_table":
        return ToolRows(("category", "bytes", "percentage"), found.parts)
    if formatter == "table":
        names = [name for name, _, _ in found.parts]
        parts = [f"#{{bytes => {count}, percentage => {share}}}" for _, count, share in found.parts]
        return ToolRows(names, [parts])
    if formatter == "erlang":
        terms = [
            f"{{{name},#{{bytes => {count},percentage => {share}}}}}"
            for name, count, share in found.parts
        ]
        return ToolAnswer("[" + ",\n ".join(terms) + "]")
    return ToolAnswer("\n".join(found.lines(unit_of(words))), found.value())


add(
    ToolCommand(
        "memory_breakdown",
        (DIAGNOSTICS,),
        "[--unit <unit>] [--timeout <timeout>]",
        MONITORING,
        "Shows what the memory of a node is for",
        _breakdown,
        switches={"unit": TEXT},
        banner=says("Reporting memory breakdown on node {node}..."),
        check=lambda words: check_unit(words, "bytes, mb, gb"),
    ),
)
