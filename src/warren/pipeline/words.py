"""Figures as people read them in a report."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def count(value: float) -> str:
    """A whole number with its digits in groups; a small one may have a fraction."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.1f}"


def size(value: float) -> str:
    """Bytes in the unit that makes them short."""
    for unit in _UNITS:
        if abs(value) < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{value:,.0f} {unit}" if unit == "B" or value >= 100 else f"{value:,.1f} {unit}"


def span(milliseconds: float) -> str:
    """How long something took, in one unit."""
    if milliseconds < 1000:
        return f"{milliseconds:,.0f} ms"
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if milliseconds >= 2 * length:
            return f"{milliseconds / length:,.1f} {unit}"
    return f"{milliseconds / 1000:,.1f} s"


def moment(value: datetime | None) -> str:
    """A time in UTC to the second; a dash for none."""
    return "–" if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def moment_ms(milliseconds: int) -> str:
    """The same of milliseconds since 1970; a dash for 0."""
    return moment(datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None)


def share(part: float, whole: float) -> str:
    """A part in per cent; one that is there is not said to be none, or all."""
    if not whole:
        return "–"
    found = 100 * part / whole
    if 0 < found < 1:
        return "< 1 %"
    if 99 < found < 100:
        return "> 99 %"
    return f"{found:.0f} %"
