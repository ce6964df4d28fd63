"""Filters of lists by name: a part of it, or a regular expression in RabbitMQ's dialect.

RabbitMQ looks for both in any case. Its expressions may say in their midst that case matters or
does not, `keda(?i)-1`, which Python's say of a whole expression or of a group, `keda(?i:-1)`.
What operators set, such as policies, is read as Python reads it: every node has to read it alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from warren.admin.service.sought import SoughtPattern
from warren.metadata.pattern_steps import NESTING_MAX
from warren.metadata.patterns import PatternError

FLAGS: Final = re.compile(r"\(\?([imsx]*(?:-[imsx]+)?)\)")
NAMED: Final = re.compile(r"\(\?<(?=[A-Za-z_])")
COMMENT: Final = re.compile(r"\(\?#[^)]*\)")
CLASS: Final = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]", re.DOTALL)
QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
ESCAPED: Final = re.compile(r"\\.", re.DOTALL)


def name_filter(name: str, use_regex: bool, steps_max: int = 0) -> Callable[[str], bool] | None:
    """What tells whether a list is to have a name; None where it is to have all.

    Args:
        use_regex: Whether `name` is a regular expression. One that is none fits no name, as
            RabbitMQ has it. One that takes too much is refused when it is asked.
        steps_max: What all looks of a request may take; see `SoughtPattern`.
    """
    if not name:
        return None
    if use_regex:
        try:
            return SoughtPattern(f"(?i:{as_python_filter(name)})", steps_max, name).found_in
        except PatternError:
            return nothing
    part = name.lower()
    return lambda each: part in each.lower()


def nothing(name: str) -> bool:
    """The filter that no name fits."""
    return False


def as_python_filter(text: str) -> str:
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
