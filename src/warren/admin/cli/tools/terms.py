"""Values as Erlang writes them, which RabbitMQ's tools show in many places."""

from __future__ import annotations

import re
from typing import Any, Final

from warren.admin.cli.tools.command import AmqpTable, Atom, Atoms, Terms
from warren.admin.printable import escaped

BARE_ATOM: Final = re.compile(r"[a-z][a-zA-Z0-9_@]*")
WIDTH: Final = 80


def amqp_type(value: Any) -> str:
    """The type of AMQP 0-9-1 that a plain value most likely came with."""
    if value is None:
        return "void"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "long"
    if isinstance(value, float):
        return "double"
    if isinstance(value, list):
        return "array"
    return "table" if isinstance(value, dict) else "longstr"


def typed(table: dict[str, Any]) -> list[list[Any]]:
    """A table with the types of its values, as JSON shows it."""
    return [[name, amqp_type(value), _typed(value)] for name, value in table.items()]


def _typed(value: Any) -> Any:
    if isinstance(value, dict):
        return typed(value)
    if isinstance(value, list):
        return [[amqp_type(each), _typed(each)] for each in value]
    return value


def in_table(table: dict[str, Any]) -> str:
    """A table of AMQP 0-9-1 as a cell of a list: `[{"x-max-length",5}]`."""
    return (
        "["
        + ",".join(f'{{"{escaped(name)}",{_in_table(value)}}}' for name, value in table.items())
        + "]"
    )


def _in_table(value: Any) -> str:
    if isinstance(value, dict):
        return in_table(value)
    if isinstance(value, list):
        return "[" + ",".join(_in_table(each) for each in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{escaped(value)}"' if isinstance(value, str) else str(value)


def atom(text: str) -> str:
    """A word as an atom."""
    return text if BARE_ATOM.fullmatch(text) else "'" + escaped(text).replace("'", "\\'") + "'"


def binary(text: str) -> str:
    """A text as a binary."""
    if not text:
        return "<<>>"
    shown = escaped(text.replace("\\", "\\\\").replace('"', '\\"'))
    suffix = "" if shown.isascii() else "/utf8"
    return f'<<"{shown}"{suffix}>>'


def term(value: Any) -> str:
    """Any value on one line, as `~p` has it."""
    if value is None or value == "" and isinstance(value, str):
        return "''"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Atom):
        return atom(value)
    if isinstance(value, str):
        return binary(value)
    if isinstance(value, Atoms):
        return "[" + ",".join(atom(word) for word in value) + "]"
    if isinstance(value, AmqpTable):
        cells = [
            f"{{{binary(name)},{kind},{term_of_typed(inner)}}}"
            for name, kind, inner in typed(value)
        ]
        return "[" + ",".join(cells) + "]"
    if isinstance(value, Terms):
        if not value:
            return "#{}"
        cells = [f"{{{binary(name)},{term(inner)}}}" for name, inner in value.items()]
        return "[" + ",".join(cells) + "]"
    if isinstance(value, dict):
        cells = [f"{binary(name)} => {term(inner)}" for name, inner in value.items()]
        return "#{" + ",".join(cells) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(term(each) for each in value) + "]"
    return str(value)


def term_of_typed(value: Any) -> str:
    """What `typed` made, as a term."""
    if isinstance(value, list):
        inner = []
        for each in value:
            if len(each) == 3:
                inner.append(f"{{{binary(each[0])},{each[1]},{term_of_typed(each[2])}}}")
            else:
                inner.append(f"{{{each[0]},{term_of_typed(each[1])}}}")
        return "[" + ",".join(inner) + "]"
    return term(value)


def rows_as_terms(columns: list[str], rows: list[list[Any]]) -> str:
    """Rows as lists of pairs, a line for each row, or for each pair where that is too long."""
    shown = []
    for row in rows:
        pairs = [
            f"{{{atom(name)},{term(value)}}}" for name, value in zip(columns, row, strict=True)
        ]
        line = ",".join(pairs)
        shown.append(f"[{line}]" if len(line) < WIDTH - 3 else "[" + ",\n  ".join(pairs) + "]")
    return "[" + ",\n ".join(shown) + "]"
