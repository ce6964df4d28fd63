"""Filters of lists by name: a part of it, or a regular expression in RabbitMQ's dialect.

RabbitMQ looks for both in any case.
"""

from __future__ import annotations

from collections.abc import Callable

from warren.admin.service.sought import SoughtPattern
from warren.metadata.pattern_signs import PatternError, with_python_flags


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
            return SoughtPattern(f"(?i:{with_python_flags(name)})", steps_max, name).found_in
        except PatternError:
            return nothing
    part = name.lower()
    return lambda each: part in each.lower()


def nothing(name: str) -> bool:
    """The filter that no name fits."""
    return False
