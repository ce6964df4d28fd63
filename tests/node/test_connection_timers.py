"""Connections are told of their times, in order, however many ask and are gone before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warren.node.timers import ConnectionTimers


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30)), max_size=60))
def test_all_whose_time_has_come_are_told(steps: list[tuple[int, int]]) -> None:
    timers = ConnectionTimers()
    planned: dict[int, int] = {}
    now = 0
    for identity, (delay, passes) in enumerate(steps, 1):
        timers.plan(identity, now + delay)
        planned[identity] = now + delay
        now += passes
        told = []
        while one := timers.take(now):
            told.append(one)
        times = [planned.pop(each) for each in told]
        assert times == sorted(times)
        assert all(time <= now for time in times)
        assert all(time > now for time in planned.values())
