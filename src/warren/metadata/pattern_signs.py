"""Signs of RabbitMQ's regular expressions that Python's have otherwise, or not at all.

RabbitMQ's may say in their midst that case matters or does not, `keda(?i)-1`, which Python's say of
a whole expression or of a group, `keda(?i:-1)`. They quote text between `\\Q` and `\\E`, and name
groups by `(?<name>`.
"""

from __future__ import annotations

import re
from typing import Final

from warren.metadata.pattern_steps import NESTING_MAX

FLAGS: Final = re.compile(r"\(\?([imsx]*(?:-[imsx]+)?)\)")
NAMED: Final = re.compile(r"\(\?<(?=[A-Za-z_])")
COMMENT: Final = re.compile(r"\(\?#[^)]*\)")
CLASS: Final = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]", re.DOTALL)
QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
ESCAPED: Final = re.compile(r"\\.", re.DOTALL)


class PatternError(ValueError):
    """What is no regular expression, or one that could not be matched in bounded time."""


def with_python_flags(text: str) -> str:
    """An expression whose flags are those of groups.

    A flag holds until its group ends, its further alternatives included.

    Raises:
        PatternError: A set, a comment or a group is not closed, or was not opened; or too many
            flags hold at once. Each character is looked at once.
    """
    out: list[str] = []
    groups: list[list[str]] = [[]]
    """Of each group that is open, the innermost last: flags that were said in it."""
    at = 0
    while at < len(text):
        found = _piece(text, at, out, groups)
        if found is None:
            out.append(_sign(text[at], groups))
        at = found.end() if found else at + 1
    return "".join(out) + ")" * len(groups[-1])


def _piece(text: str, at: int, out: list[str], groups: list[list[str]]) -> re.Match[str] | None:
    """Write what begins here and is longer than a character; None if nothing does."""
    if found := QUOTED.match(text, at):
        out.append(re.escape(found[1]))
    elif found := ESCAPED.match(text, at) or COMMENT.match(text, at) or CLASS.match(text, at):
        out.append(found[0])
    elif text[at] == "[" or text.startswith("(?#", at):
        raise PatternError(f"what begins at {at} is not closed")
    elif found := FLAGS.match(text, at):
        if found[1]:
            if sum(map(len, groups)) >= NESTING_MAX:
                raise PatternError(f"more than {NESTING_MAX} flags within each other")
            groups[-1].append(f"(?{found[1]}:")
            out.append(groups[-1][-1])
    elif found := NAMED.match(text, at):
        groups.append([])
        out.append("(?P<")
    return found


def _sign(sign: str, groups: list[list[str]]) -> str:
    """What one character comes to that is no part of a longer sign."""
    flags = groups[-1]
    if sign == "|":
        return ")" * len(flags) + "|" + "".join(flags)
    if sign == "(":
        groups.append([])
        if len(groups) > NESTING_MAX:
            raise PatternError(f"more than {NESTING_MAX} groups within each other")
    elif sign == ")":
        groups.pop()
        if not groups:
            raise PatternError("a group ends that was not opened")
        return ")" * len(flags) + ")"
    return sign
