"""Samples of figures over time, in bounded memory: what charts are drawn from.

A sample is noted only where a figure changed. The older samples are, the fewer of them are kept:
what is older than a level's age goes on to the next one, which keeps the last of each of its longer
steps. A queue that was busy for an hour costs 19 KB, one at which nothing happened costs nothing.

Source: `sample_retention_policies` of RabbitMQ 4.3.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterator
from typing import Final, NamedTuple

Policy = tuple[tuple[int, int], ...]
"""Pairs of seconds: how old samples become, and how far apart they are at least."""
GLOBAL: Final[Policy] = ((605, 5), (3_660, 60), (29_400, 600), (86_400, 1_800))
"""For what there is little of: the cluster, vhosts, nodes."""
BASIC: Final[Policy] = ((605, 5), (3_600, 60))
"""For queues, exchanges and connections."""
DETAILED: Final[Policy] = ((605, 5),)
"""For channels."""

MOMENTS_MAX: Final = 501
"""So many samples are told at a time."""

Values = tuple[int, ...]


class SampleRange(NamedTuple):
    """Moments at which samples are wanted, in seconds since the epoch.

    Attributes:
        first, last: The oldest and the newest one, which `step` divides.
        step: From one to the next.
    """

    first: int
    last: int
    step: int

    @property
    def moments(self) -> range:
        """All of them, from the oldest on."""
        return range(self.first, self.last + 1, self.step)[-MOMENTS_MAX:]


class SampleSeries:
    """Some figures over time."""

    __slots__ = ("_levels", "_policy", "_width")

    def __init__(self, columns: int, policy: Policy) -> None:
        """Begin with no sample.

        Args:
            columns: How many figures there are.
        """
        self._width = columns + 1
        self._policy = policy
        self._levels: list[array[int]] = [array("q") for _ in policy]

    def __len__(self) -> int:
        return sum(len(level) for level in self._levels) // self._width

    def add(self, now: int, values: Values) -> None:
        """Note what the figures are at a moment, in seconds since the epoch."""
        newest, width = self._levels[0], self._width
        if newest and newest[-width] > now:
            self._forget_after(now)
        if newest and tuple(newest[1 - width :]) == values:
            return
        self._take(0, array("q", (now, *values)))
        for place, (age, _) in enumerate(self._policy):
            self._pass_on(place, now - age)

    def _take(self, place: int, row: array[int]) -> None:
        """Have a sample on a level, in the place of one that was within the same step."""
        level, step = self._levels[place], self._policy[place][1]
        if level and level[-self._width] // step == row[0] // step:
            level[-self._width :] = row
        else:
            level.extend(row)

    def _forget_after(self, now: int) -> None:
        """The clock was set back: samples of moments that are yet to come would hide new ones."""
        for level in self._levels:
            while level and level[-self._width] > now:
                del level[-self._width :]

    def _pass_on(self, place: int, oldest: int) -> None:
        """Have a level pass samples from before a moment to the next one, which are dropped at
        the end but for the newest of them: it is what the figures were at that moment."""
        level, width = self._levels[place], self._width
        end = 0
        while end < len(level) and level[end] < oldest:
            end += width
        if place + 1 == len(self._policy):
            end -= width
        else:
            for at in range(0, end, width):
                self._take(place + 1, level[at : at + width])
        if end > 0:
            del level[:end]

    def _rows(self) -> Iterator[tuple[int, Values]]:
        width = self._width
        for level in reversed(self._levels):
            for at in range(0, len(level), width):
                yield level[at], tuple(level[at + 1 : at + width])

    def at(self, span: SampleRange) -> list[Values]:
        """What the figures were at some moments; before the first sample, what that says."""
        rows = self._rows()
        time, values = next(rows)
        upcoming = next(rows, None)
        found: list[Values] = []
        for moment in span.moments:
            while upcoming is not None and upcoming[0] <= moment:
                time, values = upcoming
                upcoming = next(rows, None)
            found.append(values)
        return found


class SampleStore:
    """The samples of many things of one kind, of which only some have any.

    A thing has samples from when its figures change first, while there is room; and from when it is
    asked for, in the place of the thing that has been asked for least lately.
    """

    def __init__(self, columns: int, policy: Policy, most: int) -> None:
        """Begin with none.

        Args:
            columns: How many figures each thing has.
            most: How many things may have samples at a time.
        """
        self._columns = columns
        self._policy = policy
        self._most = most
        self._series: dict[object, SampleSeries] = {}

    def __len__(self) -> int:
        return len(self._series)

    def note(self, thing: object, now: int, before: Values, values: Values) -> None:
        """Note what a thing's figures are, and were when they were looked at before."""
        series = self._series.get(thing)
        if series is None:
            if values == before or len(self._series) >= self._most:
                return
            series = self._begin(thing, now, before)
        series.add(now, values)

    def wanted(self, thing: object, now: int, values: Values) -> None:
        """Keep samples of a thing from now on, since it is asked for."""
        series = self._series.pop(thing, None)
        if series is not None:
            self._series[thing] = series
            return
        if len(self._series) >= self._most:
            del self._series[next(iter(self._series))]
        self._begin(thing, now, values)

    def at(self, thing: object, span: SampleRange, values: Values) -> list[Values]:
        """What a thing's figures were at some moments.

        Args:
            values: What they are now, for a thing without samples.
        """
        series = self._series.get(thing)
        if series is None:
            return [values] * len(span.moments)
        return series.at(span)

    def keep(self, there: Container[object]) -> None:
        """Forget the things that are no more."""
        for thing in [thing for thing in self._series if thing not in there]:
            del self._series[thing]

    def _begin(self, thing: object, now: int, values: Values) -> SampleSeries:
        """Begin with what a thing's figures were before now: a step earlier, so that what they
        come to within this step does not take its place."""
        series = self._series[thing] = SampleSeries(self._columns, self._policy)
        series.add(now - self._policy[0][1], values)
        return series
