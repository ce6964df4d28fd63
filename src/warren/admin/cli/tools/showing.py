"""How answers are shown: as text, as tables of three kinds, as JSON, and as Erlang's terms."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from warren.admin.cli.tools.command import AmqpTable, Atoms, Terms, ToolAnswer, ToolRows
from warren.admin.cli.tools.terms import (
    binary,
    in_table,
    rows_as_terms,
    term,
    term_of_typed,
    typed,
)
from warren.admin.printable import escaped, harmless

QUIET_FORMATTERS: Final = ("json", "csv", "json_stream")
"""Those for programs: nothing is said before what they show."""

LINES_ON, LINES_OFF = "\x1b(0", "\x1b(B"
"""From here on letters are lines, as terminals draw them; and no more."""
BOLD, NOT_BOLD = "\x1b[1m", "\x1b[0m"


def cell(value: Any) -> str:
    """A value as a cell of a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, AmqpTable):
        return in_table(value)
    if isinstance(value, Terms):
        if not value:
            return "#{}"
        return (
            "["
            + ", ".join(f"{{{binary(name)}, {term(inner)}}}" for name, inner in value.items())
            + "]"
        )
    if isinstance(value, Atoms | list):
        return "[" + ", ".join(cell(each) for each in value) + "]"
    if isinstance(value, dict):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return escaped(str(value))


def for_json(value: Any) -> Any:
    """A value as JSON shows it."""
    if isinstance(value, AmqpTable):
        return typed(value)
    return "" if value is None else value


def dumped(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def as_table(rows: ToolRows, headed: bool) -> str:
    """A line for each row, with tabs between cells."""
    if not rows.rows:
        return "" if rows.streamed else "\n"
    lines = ["\t".join(rows.columns)] if headed else []
    lines += ["\t".join(cell(value) for value in row) for row in rows.rows]
    return "\n".join(lines) + "\n"


def as_csv(rows: ToolRows, headed: bool) -> str:
    """Every cell within quotes."""
    if not rows.rows:
        return ""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    if headed:
        writer.writerow(rows.columns)
    for row in rows.rows:
        writer.writerow([cell(value) for value in row])
    return out.getvalue()


def as_json(rows: ToolRows) -> str:
    """An array of objects, a line for each."""
    objects = [
        dumped({name: for_json(value) for name, value in zip(rows.columns, row, strict=True)})
        for row in rows.rows
    ]
    return "[\n" + "\n,".join(objects) + ("\n]\n" if objects else "]\n")


def as_erlang(rows: ToolRows) -> str:
    """A list of lists of pairs."""
    return rows_as_terms(list(rows.columns), [list(row) for row in rows.rows]) + "\n"


def framed_cell(value: Any) -> str:
    """A value within frames."""
    if isinstance(value, AmqpTable):
        return ", ".join(
            f"{{{binary(name)},{kind},{term_of_typed(inner)}}}"
            for name, kind, inner in typed(value)
        )
    if isinstance(value, Terms) and value:
        return ", ".join(f"{{{binary(name)},{term(inner)}}}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(cell(each) for each in value)
    return cell(value)


def as_pretty_table(rows: ToolRows) -> str:
    """With frames around the cells."""
    if not rows.rows:
        return "" if rows.streamed else "\n"
    cells = [[framed_cell(value) for value in row] for row in rows.rows]
    widths = [
        max(len(column), *(len(row[at]) for row in cells)) for at, column in enumerate(rows.columns)
    ]

    def frame(left: str, between: str, right: str) -> str:
        lines = between.join("q" * (width + 2) for width in widths)
        return f"{LINES_ON}{left}{lines}{right}{LINES_OFF}"

    def row(values: Sequence[str], mark: Callable[[str], str]) -> str:
        bar = f"{LINES_ON}x{LINES_OFF}"
        inner = [
            f"{bar} {mark(value)}{' ' * (width - len(value))} "
            for value, width in zip(values, widths, strict=True)
        ]
        return "".join(inner) + bar

    lines = [frame("l", "w", "k"), row(rows.columns, lambda text: f"{BOLD}{text}{NOT_BOLD}")]
    for values in cells:
        lines += [frame("t", "n", "u"), row(values, lambda text: text)]
    return "\n".join([*lines, frame("m", "v", "j")]) + "\n"


FORMATTERS: Final = ("table", "pretty_table", "json", "json_stream", "csv", "erlang", "string")
"""Those that an operator may name."""


def shown(output: ToolRows | ToolAnswer, formatter: str, node: str, headed: bool) -> str:
    """What is written to the standard output.

    Args:
        formatter: One of `FORMATTERS`; empty for the one that fits.
        node: Who answered.
        headed: Whether tables have a line with the names of the columns.
    """
    if isinstance(output, ToolAnswer):
        return shown_answer(output, formatter, node)
    chosen = formatter or output.formatter
    headed = headed and output.headed
    if chosen == "json":
        return as_json(output)
    if chosen == "json_stream":
        return "".join(
            dumped({name: for_json(value) for name, value in zip(output.columns, row, strict=True)})
            + "\n"
            for row in output.rows
        )
    if chosen == "csv":
        return as_csv(output, headed)
    if chosen == "erlang":
        return as_erlang(output)
    if chosen == "pretty_table":
        return as_pretty_table(output)
    return as_table(output, headed)


def shown_answer(answer: ToolAnswer, formatter: str, node: str) -> str:
    """What is written of an answer that is no list."""
    if formatter in ("json", "json_stream"):
        value = answer.value
        if value is None:
            value = {"node": node, "result": "ok" if answer.code == 0 else "error"}
            if answer.text:
                value["value" if answer.code == 0 else "message"] = answer.text
        return dumped(value) + "\n"
    if formatter == "erlang" and answer.value is not None:
        return term(answer.value) + "\n"
    return harmless(answer.text).rstrip("\n") + "\n" if answer.text else ""
