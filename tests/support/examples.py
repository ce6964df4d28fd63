"""How many examples a property test draws that has a number of its own."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100
"""What Hypothesis draws unless it is told otherwise."""

UNCOMPILED = 30
"""What it draws of plain Python, which takes several times as long: all is drawn compiled, too."""


def is_long() -> bool:
    """Whether the profile in force looks for faults for as long as it takes (`make long`)."""
    return settings.default.max_examples > USUAL


def examples(count: int) -> int:
    """So many, or so many times as many as the profile in force wants (`tests/conftest.py`)."""
    return count * settings.default.max_examples // USUAL


def chosen(count: int, long: int) -> int:
    """One number in most runs, and another one where faults are looked for."""
    return long if is_long() else count
