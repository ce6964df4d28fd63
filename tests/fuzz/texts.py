"""JSON as a fuzzer writes it: also what no encoder would."""

from __future__ import annotations

from typing import Any

from tests.fuzz.drawing import Draw

SURROGATE = '"\\ud800"'
NUMBERS = (
    *("0", "-0", "1", "-1", "1.0", "1e3", "1e400", "-1e400", "1e-400", "0.1", "127", "128"),
    *("2147483647", "2147483648", "4294967295", "4294967296", "4611686018427387904"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    *("-9223372036854775809", "18446744073709551615", "18446744073709551616", "1" + "0" * 400),
    *("NaN", "Infinity", "01", "1.", "+1", "0x10"),
)  # fmt: skip
TEXTS = (
    *('""', '"a"', '"\\u0000"', '"\\ud800"', '"\\udfff\\ud800"', '"\\ud83d\\udc07"', '"ü日🐇"'),
    *('".*"', '"("', '"[[:foo:]]"', '"(?i)a"', '"all"', '"5"', '"true"', '"/"', '"\t"', '"\\q"'),
)  # fmt: skip
OTHERS = ("null", "true", "false", "[]", "{}", "[1,2]", '{"a":1}', "", "nul", "'a'", "[[[]]]")
DEPTHS = (10, 500, 20_000)


class Fragment(str):
    """Text that stands in JSON as it is."""


def written(value: Any) -> str:
    """JSON of a value, in which fragments stand as they are."""
    if isinstance(value, Fragment):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{written(k)}:{written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(written, value)) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\0", "\\u0000")
    return f'"{escaped}"'


def odd(draw: Draw) -> Fragment:
    """A fragment that is likely to be wrong where it stands."""
    way = draw.count(0, 9)
    if way < 4:
        return Fragment(draw.one(NUMBERS))
    if way < 7:
        return Fragment(draw.one(TEXTS))
    if way < 9:
        return Fragment(draw.one(OTHERS))
    depth = draw.one(DEPTHS)
    opening, closing = draw.one((("[", "]"), ('{"a":', "}")))
    return Fragment(opening * depth + draw.one(("1", '""')) + closing * draw.one((depth, 0)))


def changed(draw: Draw, value: Any) -> Any:
    """A value in which one thing, anywhere, is odd, missing or doubled."""
    if isinstance(value, dict) and value and draw.chance(0.85):
        keys = list(value)
        key = draw.one(keys)
        way = draw.count(0, 5)
        if way == 0:
            return {name: value[name] for name in keys if name != key}
        if way == 1:
            again = Fragment(f"{written(value[key])},{written(key)}:{written(odd(draw))}")
            return {**value, key: again}
        if way == 2:
            return {**value, Fragment(draw.one((SURROGATE, '"\\u0000"', '"x"', "1"))): odd(draw)}
        return {**value, key: changed(draw, value[key])}
    if isinstance(value, list) and value and draw.chance(0.8):
        at = draw.count(0, len(value) - 1)
        return [*value[:at], changed(draw, value[at]), *value[at + 1 :]]
    return odd(draw)


def damaged(draw: Draw, text: bytes) -> bytes:
    """Bytes that were JSON before: cut, joined, behind a mark, in another encoding."""
    way = draw.count(0, 7)
    if way == 0:
        return text[: draw.count(0, len(text))]
    if way == 1:
        return text + draw.one((b"x", b"\0", b"{}", text))
    if way == 2:
        return b"\xef\xbb\xbf" + text
    if way == 3:
        return text.decode("utf-8", "replace").encode("utf-16")
    if way == 4:
        at = draw.count(0, len(text))
        return text[:at] + draw.one((b"\xff", b"\xed\xa0\x80", b"\0", b"\n")) + text[at:]
    if way == 5:
        return draw.bytes(100)
    return b"" if way == 6 else b" " * 5_000 + text
