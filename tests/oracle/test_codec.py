"""What the rig reads from the wire is what pika reads there, whose codec is made from the spec.

The rig has a codec of its own (`tests/clients/raw.py`), which keeps the type letters of tables and
lets a script say what no client would. Warren's codec takes no part in comparing.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pika.data
import pika.spec
import pytest

from tests.clients.raw import (
    BY_NUMBER,
    METHODS,
    PROPERTIES,
    Reader,
    Typed,
    decode_properties,
    encode_method,
    encode_properties,
    encode_table,
    plain,
)

RENAMED = {"global": "global_qos"}
UNKNOWN_TO_PIKA = {"connection.update-secret", "connection.update-secret-ok"}
SAMPLES: dict[str, list[Any]] = {
    "o": [0, 255], "h": [0, 65535], "l": [0, 2**32 - 1], "L": [0, 2**63 + 1], "b": [False, True],
    "s": ["", "é" * 127], "S": ["", "x" * 300], "F": [{}, {"a": 1, "b": {"c": [True, None]}}],
}  # fmt: skip
TABLE: dict[str, tuple[Any, Any]] = {
    "t": (True, True),
    "b": (Typed("b", -128), -128),
    "B": (Typed("B", 255), 255),
    "s": (Typed("s", -32768), -32768),
    "u": (Typed("u", 65535), 65535),
    "I": (Typed("I", -(2**31)), -(2**31)),
    "i": (Typed("i", 2**32 - 1), 2**32 - 1),
    "l": (Typed("l", -(2**63)), -(2**63)),
    "f": (Typed("f", -4.0), -4),
    "d": (Typed("d", 2.0**40), 2**40),
    "D": (Typed("D", (2, 314)), decimal.Decimal("3.14")),
    "S": ("über", "über"),
    "x": (Typed("x", b"\x00\xff"), b"\x00\xff"),
    "T": (
        Typed("T", 1_700_000_000),
        datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC),
    ),
    "V": (None, None),
    "F": ({"x": {"y": "z"}}, {"x": {"y": "z"}}),
    "A": ([True, "two", None, []], [True, "two", None, []]),
}
"""By type letter: what the rig is given, and what pika, which drops fractions, makes of it."""


def of_pika(name: str) -> Any:
    """Pika's class for a method."""
    number = METHODS[name][0] << 16 | METHODS[name][1]
    return pika.spec.methods[number]


@pytest.mark.parametrize("name", sorted(set(METHODS) - UNKNOWN_TO_PIKA))
@pytest.mark.parametrize("which", [0, 1], ids=["least", "most"])
def test_methods(name: str, which: int) -> None:
    """Each method, with its least and its greatest arguments, is the same bytes to both."""
    signature = [item.rsplit(":", 1) for item in METHODS[name][2].split()]
    values = {key: SAMPLES[letter][which] for key, letter in signature}
    payload = encode_method(name, values)
    theirs = of_pika(name)()
    theirs.decode(payload, 4)
    seen = {key.replace("_", ""): value for key, value in vars(theirs).items()}
    for key, letter in signature:
        if key == "ticket":
            continue
        found = seen[RENAMED.get(key, key).replace("_", "")]
        wanted = values[key]
        if letter == "S" and isinstance(found, bytes):
            found = found.decode()
        assert found == wanted, key
    reader = Reader(payload)
    assert BY_NUMBER[reader.unpack(">H"), reader.unpack(">H")][0] == name
    read = {key: reader.read(letter) for key, letter in signature}
    assert reader.at == len(payload)
    assert {key: plain(value) for key, value in read.items()} == {
        key: value.encode() if letter == "S" else value
        for (key, letter), value in zip(signature, values.values(), strict=True)
    }


def test_tables() -> None:
    """Every type of field is to pika what it is to the rig, which knows its letter too."""
    encoded = encode_table({letter: ours for letter, (ours, _) in TABLE.items()})
    theirs, end = pika.data.decode_table(encoded, 0)
    assert end == len(encoded)
    assert theirs == {letter: wanted for letter, (_, wanted) in TABLE.items()}
    assert [Reader(encoded).table()[letter].tag for letter in TABLE] == list(TABLE)


def test_properties() -> None:
    """Every property is to pika what it is to the rig, alone and beside all others."""
    values: dict[str, Any] = {
        key: {"s": key, "o": 7, "L": 1_700_000_000, "F": {"h": 1}}[letter]
        for key, letter in PROPERTIES
    }
    for properties in [values, {}, *({key: value} for key, value in values.items())]:
        payload = encode_properties(5, properties)
        theirs = pika.spec.BasicProperties()
        theirs.decode(payload, 12)
        assert {k: v for k, v in vars(theirs).items() if v is not None} == properties
        size, ours = decode_properties(payload)
        assert (size, {key: plain(value) for key, value in ours.items()}) == (5, properties)
