"""Sets of characters such as `[[:alnum:]_]`, which RabbitMQ's patterns know and Python's do not.

Python reads `[[:alnum:]` as a set of the characters `[`, `:`, `a` and so on, without a word, so
that a permission or a policy would be for other names than with RabbitMQ.
"""

from __future__ import annotations

from typing import Final

CLASSES: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
"""By name: what stands in a set of Python's for it. They are of ASCII, as in RabbitMQ."""


def as_python(text: str) -> str:
    """A pattern whose sets name classes of characters, as Python has it; any other as it is.

    A class that there is not stays as it stands: `unknown_class` tells.
    """
    return _read(text)[0]


def unknown_class(text: str) -> str:
    """The first class that a pattern names and that there is not, as it stands; empty if none."""
    return _read(text)[1]


def _read(text: str) -> tuple[str, str]:
    """The pattern as Python has it, and the first class that there is not."""
    if "[:" not in text:
        return text, ""
    unknown = ""
    out: list[str] = []
    at = 0
    inside = False
    while at < len(text):
        if text[at] == "\\":
            out.append(text[at : at + 2])
            at += 2
        elif not inside:
            inside = text[at] == "["
            out.append(text[at])
            at += 1
            if inside:
                # A bracket that is the first in a set is one of its characters.
                for first in ("^", "]"):
                    if text[at : at + 1] == first:
                        out.append(first)
                        at += 1
        elif text[at : at + 2] == "[:" and ":]" in text[at:]:
            end = text.index(":]", at)
            name = text[at + 2 : end]
            if name not in CLASSES and not unknown:
                unknown = f"[:{name}:]"
            out.append(CLASSES.get(name, f"\\[:{name}:"))
            at = end + 2 if name in CLASSES else end + 1
        else:
            inside = text[at] != "]"
            out.append("\\[" if text[at] == "[" else text[at])
            at += 1
    return "".join(out), unknown
