"""Figures as people read them: grouped digits, units, times."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

import msgspec

NOT_KNOWN: Final = "—"
WORDS_MAX: Final = 500
"""Characters of a table on one line."""
BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def count(value: Any) -> str:
    """A whole number with its digits in groups."""
    return NOT_KNOWN if not isinstance(value, (int, float)) else f"{value:,.0f}"


def rate(value: Any) -> str:
    """So many a second."""
    if not isinstance(value, (int, float)):
        return NOT_KNOWN
    # A counter that began anew is no negative rate.
    value = max(float(value), 0.0)
    return f"{value:,.0f}/s" if value >= 100 or value == 0 else f"{value:,.1f}/s"


def size(value: Any) -> str:
    """Bytes in the unit that makes them short."""
    if not isinstance(value, (int, float)):
        return NOT_KNOWN
    amount = float(value)
    for unit in BYTE_UNITS:
        if abs(amount) < 1_024 or unit == BYTE_UNITS[-1]:
            break
        amount /= 1_024
    return f"{amount:,.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:,.1f} {unit}"


def size_rate(value: Any) -> str:
    """So many bytes a second."""
    return NOT_KNOWN if not isinstance(value, (int, float)) else f"{size(max(value, 0))}/s"


def clock(seconds: float, with_day: bool = False) -> str:
    """A time of day in UTC, of seconds since 1970; with its day where that is not plain."""
    when = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return when.strftime("%d %b %H:%M" if with_day else "%H:%M") + " UTC"


def duration(seconds: Any) -> str:
    """A time span in its two largest units."""
    if not isinstance(seconds, (int, float)):
        return NOT_KNOWN
    left = int(max(seconds, 0))
    words: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, length)
        if amount or (unit == "s" and not words):
            words.append(f"{amount} {unit}")
    return " ".join(words[:2])


def moment(milliseconds: Any) -> str:
    """A time of day in UTC, of milliseconds since 1970."""
    if not isinstance(milliseconds, (int, float)):
        return NOT_KNOWN
    try:
        when = datetime.datetime.fromtimestamp(milliseconds / 1_000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return NOT_KNOWN
    return when.strftime("%Y-%m-%d %H:%M:%S UTC")


def value(given: Any) -> str:
    """A value of a table as JSON would have it, texts without quotes."""
    if isinstance(given, str):
        return given
    try:
        return msgspec.json.encode(given).decode()
    except (UnicodeEncodeError, TypeError, msgspec.ValidationError):
        return str(given)


def words_of(values: Mapping[str, Any]) -> str:
    """A table on one line, cut where it is long."""
    said = ", ".join(f"{key}: {value(item)}"[:WORDS_MAX] for key, item in values.items())
    return said if len(said) <= WORDS_MAX else f"{said[:WORDS_MAX]}…"


def percent(part: Any, whole: Any) -> int | None:
    """How much of a whole something is, from 0 to 100; None if it is not known."""
    if not isinstance(part, (int, float)) or not isinstance(whole, (int, float)) or whole <= 0:
        return None
    return max(0, min(100, round(100 * part / whole)))
