"""Hypothesis strategies for everything that the AMQP 0-9-1 codec carries."""

from __future__ import annotations

import math
import struct
from typing import Any

from hypothesis import strategies as st

from warren.wire.amqp091 import spec
from warren.wire.amqp091.properties import Properties
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


def _text(bytes_max: int) -> st.SearchStrategy[str]:
    """Text as it comes off the wire: any bytes, those outside UTF-8 as lone surrogates."""
    clean = st.text(max_size=bytes_max // 4)
    any_bytes = st.binary(max_size=bytes_max).map(
        lambda data: data.decode("utf-8", "surrogateescape")
    )
    return clean.filter(lambda text: not _has_surrogates(text)) | any_bytes


def _has_surrogates(text: str) -> bool:
    return any(0xD800 <= ord(letter) <= 0xDFFF for letter in text)


def _single(value: float) -> Float:
    return Float(struct.unpack(">f", struct.pack(">f", value))[0])


shortstrs = _text(255)
utf8_shortstrs = st.text(max_size=63).filter(lambda text: not _has_surrogates(text))

scalars: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**7), 2**7 - 1).map(Byte),
    st.integers(0, 2**8 - 1).map(UnsignedByte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(0, 2**16 - 1).map(UnsignedShort),
    st.integers(-(2**31), 2**31 - 1).map(SignedInt),
    st.integers(0, 2**32 - 1).map(UnsignedInt),
    st.integers(0, 2**64 - 1).map(Timestamp),
    st.floats(allow_nan=False),
    st.floats(width=32, allow_nan=False).map(_single),
    st.builds(Decimal, st.integers(0, 255), st.integers(0, 2**32 - 1)),
    _text(300),
    st.binary(max_size=300),
)
values: st.SearchStrategy[Value] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(shortstrs, inner, max_size=5),
    max_leaves=12,
)
tables: st.SearchStrategy[Table] = st.dictionaries(shortstrs, values, max_size=6)

properties = st.builds(
    Properties,
    content_type=st.none() | shortstrs,
    content_encoding=st.none() | shortstrs,
    headers=st.none() | tables,
    delivery_mode=st.none() | st.integers(0, 255),
    priority=st.none() | st.integers(0, 255),
    correlation_id=st.none() | shortstrs,
    reply_to=st.none() | shortstrs,
    expiration=st.none() | shortstrs,
    message_id=st.none() | shortstrs,
    timestamp=st.none() | st.integers(0, 2**64 - 1),
    type_=st.none() | shortstrs,
    user_id=st.none() | shortstrs,
    app_id=st.none() | shortstrs,
    cluster_id=st.none() | shortstrs,
)

# Arguments by method and name whose width the Python type does not tell.
_NARROW = {
    "octet": {("connection.start", "version_major"), ("connection.start", "version_minor")},
    "short": {
        ("basic.qos", "prefetch_count"),
        ("basic.return", "reply_code"),
        ("connection.tune", "channel_max"),
        ("connection.tune", "heartbeat"),
        ("connection.tune-ok", "channel_max"),
        ("connection.tune-ok", "heartbeat"),
    },
    "long": {
        ("basic.qos", "prefetch_size"),
        ("basic.get-ok", "message_count"),
        ("connection.tune", "frame_max"),
        ("connection.tune-ok", "frame_max"),
        ("queue.declare-ok", "message_count"),
        ("queue.declare-ok", "consumer_count"),
        ("queue.purge-ok", "message_count"),
        ("queue.delete-ok", "message_count"),
    },
}
_SHORT_NAMES = {"ticket", "reserved_1", "reply_code", "class_id", "method_id"}


def argument(method: type[spec.Method], name: str, default: object) -> st.SearchStrategy[Any]:
    """Values for one argument of a method, judged by its default and, for numbers, its name."""
    if isinstance(default, bool):
        return st.booleans()
    if isinstance(default, dict):
        return tables
    if isinstance(default, str):
        return shortstrs if method.HAS_CONTENT else utf8_shortstrs
    if isinstance(default, bytes):
        return st.binary(max_size=400)
    assert isinstance(default, int)
    place = (method.NAME, name)
    if place in _NARROW["octet"]:
        return st.integers(0, 2**8 - 1)
    if place in _NARROW["short"] or name in _SHORT_NAMES:
        return st.integers(0, 2**16 - 1)
    if place in _NARROW["long"]:
        return st.integers(0, 2**32 - 1)
    return st.integers(0, 2**64 - 1)


def argument_names(method: type[spec.Method]) -> list[str]:
    """A method's arguments. Both ways of running list them, as slots or as descriptors."""
    return sorted(
        name
        for name, member in vars(method).items()
        if not name.startswith("_")
        and type(member).__name__ in {"member_descriptor", "getset_descriptor"}
    )


@st.composite
def methods(draw: st.DrawFn) -> spec.Method:
    """Any method with any arguments."""
    kind = draw(st.sampled_from(spec.METHODS))
    method = kind()
    for name in argument_names(kind):
        setattr(method, name, draw(argument(kind, name, getattr(method, name))))
    return method


def same(left: object, right: object) -> bool:
    """Equal in value and in type, all the way down; two NaNs are the same."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return left == right
