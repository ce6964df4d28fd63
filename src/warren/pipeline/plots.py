"""Plots of series over time, as what a template draws: shapes in SVG, words in HTML.

Shapes are stretched to the room there is, and words keep their size, on phones, too. A series has a
colour and a pattern of its own by its place, which the style sheet gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

WIDTH: Final = 600.0
HEIGHT: Final = 160.0
"""Of a drawing in its own units."""

#: Slots of a plot at most: more would be thinner than a pixel of a phone.
_SLOTS_MAX: Final = 90

#: How long a slot may be, in minutes.
_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 240, 720, 1440, 2880, 10_080, 43_200)

SERIES_MAX: Final = 6
"""Series with a colour of their own."""

Words = Callable[[float], str]


class Unit(NamedTuple):
    """What values are of.

    Attributes:
        words: A value as people read it.
        base: How far apart the units of `words` are.
    """

    words: Words
    base: float = 10.0


class Axis(NamedTuple):
    """The horizontal axis of plots: slots of time.

    Attributes:
        first_ms: Where the first one begins, in milliseconds since 1970.
        minutes: How long each is.
        slots: How many.
    """

    first_ms: int
    minutes: int
    slots: int

    def slot(self, ms: int) -> int:
        """In which one a time is."""
        return min(max((ms - self.first_ms) // (self.minutes * 60_000), 0), self.slots - 1)

    def label(self, slot: int) -> str:
        """When a slot begins, as exactly as its length asks for."""
        when = datetime.fromtimestamp(self.first_ms / 1000, UTC).timestamp()
        moment = datetime.fromtimestamp(when + slot * self.minutes * 60, UTC)
        return f"{moment:%d %b}" if self.minutes >= 1440 else f"{moment:%d %b %H:%M}"

    @property
    def step(self) -> str:
        """The length of a slot in words."""
        for unit, length in (("day", 1440), ("hour", 60), ("minute", 1)):
            if self.minutes % length == 0:
                count = self.minutes // length
                return unit if count == 1 else f"{count} {unit}s"
        raise AssertionError(self.minutes)


class PlotSeries(NamedTuple):
    """Values by slot; None where nothing is known."""

    name: str
    values: list[float | None]


class PlotMark(NamedTuple):
    """One shape: a bar or a line.

    Attributes:
        series: The place of the series, from 1.
        path: Of SVG.
    """

    series: int
    path: str


class Hit(NamedTuple):
    """A stripe that says what is in a slot to those who point at it."""

    x: float
    width: float
    text: str


class Plot(NamedTuple):
    """A plot as a template draws it.

    Attributes:
        title: What it shows.
        note: How to read it; may be empty.
        kind: `bars` or `lines`.
        marks: Its shapes.
        hits: What its slots say.
        levels: What stands at the vertical axis, from the top down.
        times: What stands at the horizontal axis.
        names: Its series, in the order of their places, each with a sum or a maximum in words.
        rows: All values in words, by slot: the same for those who read tables.
        label: All of it in a sentence.
    """

    title: str
    note: str
    kind: str
    marks: list[PlotMark]
    hits: list[Hit]
    levels: list[str]
    times: list[str]
    names: list[tuple[str, str]]
    rows: list[tuple[str, list[str]]]
    label: str


def axis_of(first_ms: int, last_ms: int) -> Axis:
    """Slots of a round length that hold two times and all between."""
    minutes = (last_ms - first_ms) // 60_000 + 1
    step = next((one for one in _STEPS if minutes / one <= _SLOTS_MAX - 1), _STEPS[-1])
    length = step * 60_000
    begin = first_ms - first_ms % length
    return Axis(begin, step, int((last_ms - begin) // length) + 1)


def ceiling(value: float, base: float = 10.0) -> float:
    """The round number that an axis ends with.

    Args:
        base: 1024 for bytes, whose units are that far apart.
    """
    if value <= 0:
        return 1.0
    unit = 1.0
    while base > 10 and value > unit * base:
        unit *= base
    power = unit * 10.0 ** math.floor(math.log10(value / unit))
    return next(
        factor * power for factor in (1, 2, 3, 4, 5, 6, 8, 10) if value <= factor * power * 1.000001
    )


def bars(title: str, note: str, axis: Axis, series: Sequence[PlotSeries], unit: Unit) -> Plot:
    """Series stacked on each other, a bar for each slot."""
    heights = [sum(one.values[slot] or 0.0 for one in series) for slot in range(axis.slots)]
    top = ceiling(max(heights, default=0.0), unit.base)
    width = WIDTH / axis.slots
    gap = min(width * 0.15, 2.0)
    marks: list[PlotMark] = []
    floors = [0.0] * axis.slots
    for place, one in enumerate(series, 1):
        parts: list[str] = []
        for slot, value in enumerate(one.values):
            if value:
                y = HEIGHT - (floors[slot] + value) / top * HEIGHT
                x, h = slot * width + gap / 2, value / top * HEIGHT
                parts.append(f"M{x:.1f} {y:.2f}h{width - gap:.1f}v{h:.2f}h{gap - width:.1f}z")
                floors[slot] += value
        marks.append(PlotMark(place, "".join(parts)))
    totals = [(one.name, unit.words(sum(value or 0.0 for value in one.values))) for one in series]
    return _plot(title, note, "bars", axis, series, marks, top, totals, unit)


def lines(title: str, note: str, axis: Axis, series: Sequence[PlotSeries], unit: Unit) -> Plot:
    """A line for each series, broken where nothing is known."""
    known = [value for one in series for value in one.values if value is not None]
    top = ceiling(max(known, default=0.0), unit.base)
    width = WIDTH / axis.slots
    marks = [PlotMark(place, _line(one, top, width)) for place, one in enumerate(series, 1)]
    peaks = [
        (
            one.name,
            f"up to {unit.words(max((v for v in one.values if v is not None), default=0.0))}",
        )
        for one in series
    ]
    return _plot(title, note, "lines", axis, series, marks, top, peaks, unit)


def _line(series: PlotSeries, top: float, width: float) -> str:
    """A path through the middles of slots; a value between gaps is a dash as wide as its slot."""
    path: list[str] = []
    begun = False
    for slot, value in enumerate(series.values):
        if value is None:
            begun = False
            continue
        y = HEIGHT - value / top * HEIGHT
        after = series.values[slot + 1] if slot + 1 < len(series.values) else None
        if begun:
            path.append(f"L{(slot + 0.5) * width:.1f} {y:.2f}")
        elif after is None:
            path.append(f"M{slot * width:.1f} {y:.2f}h{width:.1f}")
        else:
            path.append(f"M{(slot + 0.5) * width:.1f} {y:.2f}")
        begun = after is not None
    return "".join(path)


def _plot(
    title: str,
    note: str,
    kind: str,
    axis: Axis,
    series: Sequence[PlotSeries],
    marks: list[PlotMark],
    top: float,
    totals: list[tuple[str, str]],
    unit: Unit,
) -> Plot:
    width = WIDTH / axis.slots
    hits: list[Hit] = []
    rows: list[tuple[str, list[str]]] = []
    for slot in range(axis.slots):
        values = [one.values[slot] for one in series]
        if any(value is not None and (value or kind == "lines") for value in values):
            said = ["–" if value is None else unit.words(value) for value in values]
            when = axis.label(slot)
            told = ", ".join(f"{one.name} {text}" for one, text in zip(series, said, strict=True))
            hits.append(Hit(round(slot * width, 2), round(width, 2), f"{when} UTC: {told}"))
            rows.append((when, said))
    middle = axis.label(axis.slots // 2) if axis.slots > 2 else ""
    times = [axis.label(0), middle, axis.label(axis.slots)]
    told = ", ".join(f"{name} {value}" for name, value in totals)
    label = f"{title}, {times[0]} to {times[-1]} UTC by {axis.step}: {told}"
    levels = [unit.words(top), unit.words(top / 2), unit.words(0.0)]
    return Plot(title, note, kind, marks, hits, levels, times, totals, rows, label)
