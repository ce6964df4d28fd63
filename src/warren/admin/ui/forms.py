"""Forms: what a browser sent, field by field, and the typed rows of arguments and policies."""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from warren.admin.http.multipart import fields_of, is_multipart
from warren.admin.ui.names import unpacked
from warren.admin.ui.wrong import Wrong

FIELDS_MAX: Final = 2_000
LIST_CHARACTERS_MAX: Final = 262_144
"""Of a list as JSON: no table holds more."""
AT_ONCE_BYTES: Final = 65_536
"""Larger forms are read on a thread."""
STRING, NUMBER, BOOLEAN, LIST = "string", "number", "boolean", "list"
TYPES: Final = ((STRING, "String"), (NUMBER, "Number"), (BOOLEAN, "Boolean"), (LIST, "List"))
"""The types that a value may be given."""
INTEGER_BITS: Final = 63


class TypedRow(NamedTuple):
    """One row of a form: a key, the type of its value, and the value as it was typed."""

    key: str
    type: str
    text: str


class SentForm:
    """A form as it was sent.

    Attributes:
        fields: Names and values, in order.
    """

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self.fields = fields
        self._last = dict(fields)

    def __contains__(self, name: str) -> bool:
        return name in self._last

    def text(self, name: str, default: str = "") -> str:
        """A field as it was typed."""
        return self._last.get(name, default)

    def name(self, field: str) -> str:
        """A field that a choice of names filled in."""
        return unpacked(self._last.get(field, ""))

    def truth(self, name: str) -> bool:
        """Whether a box is ticked, or a choice says so."""
        return self._last.get(name, "") in ("true", "on")

    def number(self, field: str, title: str, default: int | None = None) -> int:
        """A field with a whole number.

        Raises:
            Wrong: It has none.
        """
        text = self.text(field).strip().replace(",", "")
        if not text and default is not None:
            return default
        return whole_number(title, text)

    def all(self, name: str) -> list[str]:
        """The values of all fields of this name."""
        return [value for field, value in self.fields if field == name]

    def rows(self, prefix: str = "arg") -> list[TypedRow]:
        """The typed rows, empty ones left out."""
        columns = (self.all(f"{prefix}-{what}") for what in ("key", "type", "value"))
        rows = [TypedRow(*row) for row in zip(*columns, strict=False)]
        return [row for row in rows if row.key.strip() or row.text]

    def table(self, prefix: str = "arg") -> dict[str, Any]:
        """The typed rows as a table.

        Raises:
            Wrong: A row has no key, or a value that is not of its type.
        """
        table: dict[str, Any] = {}
        for row in self.rows(prefix):
            key = row.key.strip()
            if not key:
                raise Wrong(400, f"The value “{row.text}” has no key: name one, or empty the row.")
            if key in table:
                raise Wrong(400, f"The key “{key}” is there twice: keep one of the rows.")
            table[key] = typed_value(row)
        return table


def typed_value(row: TypedRow) -> Any:
    """What a row says, as a value of its type.

    Raises:
        Wrong: It is none.
    """
    text = row.text.strip()
    if row.type == NUMBER:
        return number(row.key, text)
    if row.type == BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise Wrong(400, f"{row.key}: a Boolean is true or false, not “{text}”.")
        return text.lower() == "true"
    if row.type == LIST:
        return _list(row.key, text)
    return row.text


def _list(key: str, text: str) -> list[Any]:
    if not text.startswith("["):
        return [item.strip() for item in text.split(",") if item.strip()]
    if len(text) > LIST_CHARACTERS_MAX:
        raise Wrong(400, f"{key}: a list has at most {LIST_CHARACTERS_MAX} characters.")
    try:
        value = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError) as error:
        raise Wrong(400, f"{key}: this is no list in JSON: {error}.") from None
    return list(value)


def number(title: str, text: str) -> int | float:
    """A text as a number, whole if it has no fraction.

    Raises:
        Wrong: It is none.
    """
    try:
        value = float(text)
    except ValueError:
        raise Wrong(400, f"{title}: a Number is needed, not “{text}”.") from None
    if not math.isfinite(value):
        raise Wrong(400, f"{title}: “{text}” is no finite number.")
    if value.is_integer() and "." not in text and "e" not in text.lower():
        return whole_number(title, text)
    return value


def whole_number(title: str, text: str) -> int:
    """A text as a whole number of 64 bits.

    Raises:
        Wrong: It is none.
    """
    try:
        value = int(text) if len(text) <= 20 else 1 << 64
    except ValueError:
        raise Wrong(400, f"{title}: a whole number is needed, not “{text}”.") from None
    if not -(1 << INTEGER_BITS) <= value < 1 << INTEGER_BITS:
        raise Wrong(400, f"{title}: a number has at most 64 bits.")
    return value


def typed_row(key: str, value: Any) -> TypedRow:
    """A value as a row that a form shows to be changed."""
    if isinstance(value, bool):
        return TypedRow(key, BOOLEAN, "true" if value else "false")
    if isinstance(value, (int, float)):
        return TypedRow(key, NUMBER, str(value))
    if isinstance(value, (list, dict)):
        return TypedRow(key, LIST, msgspec.json.encode(value).decode())
    return TypedRow(key, STRING, str(value))


async def read_form(body: bytes, content_type: str) -> SentForm:
    """What a browser sent.

    Raises:
        Wrong: It is no form, or one with too many fields.
    """
    reader = _multipart if is_multipart(content_type) else _encoded
    try:
        if len(body) <= AT_ONCE_BYTES:
            return reader(body, content_type)
        return await asyncio.to_thread(reader, body, content_type)
    except ValueError:
        raise Wrong(400, "This form has too many fields, or is broken.") from None


def _encoded(body: bytes, content_type: str) -> SentForm:
    text = body.decode("ascii")
    return SentForm(parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS_MAX))


def _multipart(body: bytes, content_type: str) -> SentForm:
    """A form with a file."""
    fields = fields_of(body, content_type, FIELDS_MAX)
    return SentForm([(name, content.decode("utf-8", "replace")) for name, content in fields])
