"""Samples of figures: which are kept, for how long, and how much memory that takes."""

from __future__ import annotations

import random
import time
from bisect import bisect_right

import pytest

from tests.admin.host import answered, service_of
from tests.node.pair import Pair
from warren.admin.service.history import (
    BASIC,
    DETAILED,
    GLOBAL,
    MOMENTS_MAX,
    Policy,
    SampleRange,
    SampleSeries,
    SampleStore,
)

BEGIN = 1_700_000_000


def test_figures_stay_what_they_were_until_they_change() -> None:
    series = SampleSeries(2, BASIC)
    for second, values in ((0, (1, 10)), (5, (1, 10)), (10, (2, 10)), (30, (3, 7))):
        series.add(BEGIN + second, values)
    assert len(series) == 3
    told = series.at(SampleRange(BEGIN - 5, BEGIN + 35, 5))
    assert told == [(1, 10)] * 3 + [(2, 10)] * 4 + [(3, 7)] * 2


@pytest.mark.parametrize("policy", [GLOBAL, BASIC, DETAILED])
def test_samples_are_as_old_and_as_far_apart_as_is_said(policy: Policy) -> None:
    """However long figures change, a chart of each level shows what they were, within its step."""
    series = SampleSeries(1, policy)
    last = BEGIN + 2 * policy[-1][0]
    for now in range(BEGIN, last + 1, 5):
        series.add(now, (now,))
    assert len(series) <= sum(age // step + 2 for age, step in policy)
    for age, step in policy:
        span = SampleRange(last - last % step - age, last - last % step, step)
        for moment, (value,) in zip(span.moments, series.at(span), strict=True):
            assert moment - step <= value <= moment, (age, step, moment)


def test_samples_at_any_times_are_the_last_ones_of_their_steps() -> None:
    """Compared with a list of all that was ever noted."""
    rng = random.Random(20261124)
    for _ in range(20):
        series, noted = SampleSeries(1, BASIC), [(BEGIN, 0)]
        series.add(BEGIN, (0,))
        now, value = BEGIN, 0
        for _ in range(rng.randrange(1, 1_500)):
            now += rng.randrange(1, 30)
            value += rng.randrange(2)
            series.add(now, (value,))
            noted.append((now, value))
        times = [moment for moment, _ in noted]
        span = SampleRange(now - 600, now, 5)
        for moment, (told,) in zip(span.moments, series.at(span), strict=True):
            known = noted[max(0, bisect_right(times, moment) - 1)][1]
            # Two changes within one step of five seconds are one.
            soon = noted[max(0, bisect_right(times, moment + 5) - 1)][1]
            earlier = noted[max(0, bisect_right(times, moment - 5) - 1)][1]
            assert earlier <= told <= soon and (told == known or soon > earlier)


def test_a_clock_that_is_set_back_mixes_nothing_up() -> None:
    series = SampleSeries(1, BASIC)
    for now, value in ((BEGIN, 1), (BEGIN - 500, 2), (BEGIN + 10, 3)):
        series.add(now, (value,))
    assert series.at(SampleRange(BEGIN - 5, BEGIN + 10, 5)) == [(2,), (2,), (2,), (3,)]


@pytest.mark.parametrize("jump", [3_600, 365 * 86_400])
def test_a_clock_that_was_ahead_hides_nothing_that_comes_after_it(jump: int) -> None:
    """As of a machine that begins with a wrong time, and hears the right one later."""
    series = SampleSeries(1, GLOBAL)
    for at in range(0, 50, 5):
        series.add(BEGIN + at, (at,))
    for at in range(50, 100, 5):
        series.add(BEGIN + jump + at, (at,))
    for at in range(100, 200, 5):
        series.add(BEGIN + at, (at,))
    assert series.at(SampleRange(BEGIN + 100, BEGIN + 195, 5)) == [(v,) for v in range(100, 200, 5)]
    (before,) = series.at(SampleRange(BEGIN + 95, BEGIN + 95, 5))
    assert before <= (45,), "what it said of the time between is not known to be of it"


def test_only_what_changes_or_is_asked_for_has_samples() -> None:
    histories = SampleStore(1, BASIC, 2)
    for second in range(0, 20, 5):
        for thing in ("idle", "first", "second", "third"):
            before, now = (second - 5, second) if thing != "idle" else (0, 0)
            histories.note(thing, BEGIN + second, (before,), (now,))
    assert len(histories) == 2
    span = SampleRange(BEGIN, BEGIN + 15, 5)
    assert histories.at("first", span, (15,)) == [(0,), (5,), (10,), (15,)]
    # There was no room for it: it is what it is now.
    assert histories.at("third", span, (15,)) == [(15,)] * 4
    histories.wanted("first", BEGIN + 15, (15,))
    histories.wanted("third", BEGIN + 15, (15,))
    histories.note("third", BEGIN + 20, (15,), (20,))
    assert histories.at("third", SampleRange(BEGIN + 15, BEGIN + 20, 5), (20,)) == [(15,), (20,)]
    assert histories.at("first", span, (15,))[0] == (0,), "it was asked for more lately"
    assert histories.at("second", span, (15,)) == [(15,)] * 4
    histories.keep({"third"})
    assert len(histories) == 1


def test_what_is_asked_for_in_the_step_of_a_change_was_as_before() -> None:
    histories = SampleStore(1, BASIC, 1)
    histories.wanted("asked", BEGIN, (0,))
    histories.note("asked", BEGIN, (0,), (10,))
    assert histories.at("asked", SampleRange(BEGIN - 10, BEGIN, 5), (10,)) == [(0,), (0,), (10,)]


def test_a_span_has_a_bounded_number_of_moments() -> None:
    assert len(SampleRange(0, 1 << 60, 1).moments) == MOMENTS_MAX


def test_busy_queues_cost_what_is_documented() -> None:
    """19 KB each; a hundred thousand of them together no more than a thousand."""
    histories = SampleStore(12, BASIC, 1_000)
    for second in range(0, 2 * BASIC[-1][0], 5):
        for queue in range(3):
            values = (second + 1,) * 12
            histories.note(queue, BEGIN + second, (second - 4,) * 12, values)
    series = histories._series[0]
    taken = sum(level.buffer_info()[1] * level.itemsize for level in series._levels)
    assert 15_000 < taken < 19_000
    for queue in range(3, 100_000):
        histories.note(queue, BEGIN, (0,) * 12, (1,) * 12)
    assert len(histories) == 1_000


def test_samples_are_of_the_steps_that_they_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer ends up to a millisecond early or late: two samples are never of one step."""
    pair = Pair(alone=True)
    service = service_of(pair)
    moments = []
    for moment in (BEGIN + 0.0008, BEGIN + 4.9996, BEGIN + 9.9991):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        answered(pair, service.statistics.sample)
        moments.append(service.statistics.moment)
    assert moments == [BEGIN, BEGIN + 5, BEGIN + 10]
