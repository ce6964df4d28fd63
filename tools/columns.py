"""Writes docs/columns.md: the columns of each list that operators see, from where they are defined.

python tools/columns.py
"""

from __future__ import annotations

import inspect
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from warren.admin.service import rows
from warren.admin.service.rows import Column, Row, columns

PAGE = Path(__file__).resolve().parent.parent / "docs" / "columns.md"

HEAD = """# Columns

What operators see in lists, whatever shows it. Names are RabbitMQ's where it has the column;
`warren queues list` heads two of them with shorter words (`ready`, `unacked`).
Written by `tools/columns.py` from `src/warren/admin/service/rows.py`.
"""

WORDS = {
    str: "text",
    int: "number",
    bool: "true or false",
    list: "list",
    dict: "map",
    type(None): "unknown",
    Any: "anything",
    rows.Listener: "map",
}


def kinds_of_rows() -> list[type[Row]]:
    """Every kind of row, in the order in which they are defined."""
    found = [value for value in vars(rows).values() if inspect.isclass(value)]
    return [kind for kind in found if issubclass(kind, Row) and kind is not Row]


def in_words(kind: Any) -> str:
    """A type as the page has it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(
            "unknown" if part is type(None) else in_words(part) for part in arguments
        )
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    return WORDS[origin or kind]


def line(column: Column) -> str:
    """One column as a row of a table."""
    return f"| `{column.name}` | {in_words(column.type)} | {column.source} |"


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for kind in kinds_of_rows():
        purpose = (inspect.getdoc(kind) or "").splitlines()[0]
        lines = [line(column) for column in columns(kind)]
        parts += [f"## {kind.__name__}\n\n{purpose}\n"]
        parts += ["| column | type | where it comes from |\n|---|---|---|", "\n".join(lines) + "\n"]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
