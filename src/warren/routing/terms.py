"""AMQP values as RabbitMQ's error texts print them: type names and Erlang terms."""

from __future__ import annotations

from decimal import Decimal as Exact
from typing import Final

from warren.wire.amqp091.table import (
    Byte,
    Decimal,
    Float,
    Short,
    SignedInt,
    Table,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
    Value,
)

#: Types that RabbitMQ takes for an integer argument.
INTEGER_TYPES: Final = (
    "byte",
    "short",
    "signedint",
    "long",
    "unsignedbyte",
    "unsignedshort",
    "unsignedint",
)

BIG_FLOAT: Final = float(1 << 53)
"""From here on not every integer is a float, and Erlang writes none without an exponent."""

_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def type_name(value: object) -> str:
    """RabbitMQ's name of the field type that a `Value` was read from.

    The parameter is an `object` here and below, because compiled code forgets the class of what it
    takes as `int`.
    """
    typed = value
    if value is None:
        return "void"
    if isinstance(value, str):
        return "longstr"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return _integer_type(typed)
    if isinstance(value, float):
        return "float" if isinstance(value, Float) else "double"
    if isinstance(value, bytes):
        return "binary"
    if isinstance(value, Decimal):
        return "decimal"
    return "array" if isinstance(value, list) else "table"


def _integer_type(value: object) -> str:
    if isinstance(value, SignedInt):
        return "signedint"
    if isinstance(value, Timestamp):
        return "timestamp"
    if isinstance(value, Byte):
        return "byte"
    if isinstance(value, UnsignedByte):
        return "unsignedbyte"
    if isinstance(value, Short):
        return "short"
    if isinstance(value, UnsignedShort):
        return "unsignedshort"
    if isinstance(value, UnsignedInt):
        return "unsignedint"
    return "long"


def is_integer_type(value: object) -> bool:
    """Whether a `Value` has one of `INTEGER_TYPES`."""
    return type_name(value) in INTEGER_TYPES


def text_term(text: str) -> str:
    """An Erlang string: what a reason made by formatting looks like in an error text."""
    return '"' + "".join([_ESCAPES.get(letter, letter) for letter in text]) + '"'


def readable(data: bytes) -> str:
    """Bytes that a client sent as a name, in an error text: as Latin-1 where they are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def atom_term(text: str) -> str:
    """An Erlang atom, in quotes where it needs them."""
    return text if text.isalnum() and text[0].islower() else f"'{text}'"


def binary_term(text: str) -> str:
    """An Erlang binary that is text."""
    if not text:
        return "<<>>"
    return f"<<{text_term(text)}{'' if text.isascii() else '/utf8'}>>"


def term(value: Value) -> str:
    """A value as an Erlang term."""
    if value is None:
        return "undefined"
    if isinstance(value, str):
        return binary_term(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float_term(value)
    if isinstance(value, bytes):
        return _bytes_term(value)
    if isinstance(value, Decimal):
        return f"{{{value.scale},{value.value}}}"
    if isinstance(value, list):
        return "[" + ",".join([f"{{{type_name(item)},{term(item)}}}" for item in value]) + "]"
    return _table_term(value)


def _float_term(value: float) -> str:
    """The shortest digits that say it, in the shorter one of two ways: `100.0`, `6.0e4`, `0.01`."""
    plain = format(Exact(repr(value)), "f")
    sign = "-" if plain.startswith("-") else ""
    whole, _, part = plain.lstrip("-").partition(".")
    digits = (whole + part).strip("0")
    if not digits:
        return sign + "0.0"
    # Where the point is, counted from the first digit.
    point = len(whole.lstrip("0")) or len(part.lstrip("0")) - len(part)
    if 0 < point < len(digits):
        return f"{sign}{digits[:point]}.{digits[point:]}"
    zeros = -point if point <= 0 else point - len(digits)
    exponent = str(point - 1)
    if abs(value) < BIG_FLOAT and zeros + 2 <= len(exponent) + (3 if len(digits) == 1 else 2):
        return f"{sign}0.{'0' * zeros}{digits}" if point <= 0 else f"{sign}{digits}{'0' * zeros}.0"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}e{exponent}"


def _bytes_term(value: bytes) -> str:
    try:
        return binary_term(value.decode())
    except UnicodeDecodeError:
        return f"<<{text_term(value.decode('latin-1'))}>>"


def _table_term(table: Table) -> str:
    entries = [
        f"{{{binary_term(name)},{type_name(value)},{term(value)}}}" for name, value in table.items()
    ]
    return "[" + ",".join(entries) + "]"


def quoted(value: Value) -> str:
    """A value inside an `inequivalent arg` text: strings as they are."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return term(value)
