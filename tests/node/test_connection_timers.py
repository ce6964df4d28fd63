"""Connections are told of their times, in order, however many ask and are gone before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warren.node.timers import ConnectionTimers


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30)), max_size=60))
def test_all_whose_time_has_come_are_told(steps: list[tuple[int, int]]) -> None:
    timers = ConnectionTimers()
    planned: list[tuple[int, int]] = []
    now = 0
    for identity, (delay, passes) in enumerate(steps, 1):
        timers.plan(identity, now + delay)
        planned.append((now + delay, identity))
        now += passes
        told = []
        while identity_told := timers.take(now):
            told.append(identity_told)
        due = [entry for entry in planned if entry[0] <= now]
        assert sorted(told) == sorted(entry[1] for entry in due)
        planned = [entry for entry in planned if entry[0] > now]
