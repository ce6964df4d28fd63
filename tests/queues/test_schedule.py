"""Messages of a machine that wait for their time: which go on when, in what order, at what cost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from tests.queues.driver import Driven
from warren.log.batch import KIND_COMMAND, Batch
from warren.node.replay import replay
from warren.queues.fifo import commands
from warren.queues.fifo.config import write_dead_letters
from warren.queues.fifo.dead_letters import AT_LEAST_ONCE, AT_THEIR_TIME
from warren.queues.fifo.machine import DUE_MAX, RETURN_MAX
from warren.queues.fifo.schedule import Schedule
from warren.queues.fifo.sizes import NEVER
from warren.replication.raft_entries import CLOSE, RAFT_SESSION

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enqueue", "enqueue", "pass", "settle", "restore"]),
        st.integers(1, 5),
        st.integers(0, 30),
    ),
    max_size=60,
)


def delaying(return_max: int = RETURN_MAX, due_max: int = DUE_MAX) -> Driven:
    """A machine in which messages wait."""
    queue = Driven(-1)
    fields = BytesWriter()
    write_dead_letters(fields, AT_THEIR_TIME)
    queue.write(lambda out: commands.config(out, fields.getvalue()))
    bounded(queue, return_max, due_max)
    return queue


def bounded(queue: Driven, return_max: int, due_max: int) -> None:
    queue.return_max, queue.due_max = return_max, due_max


def restored(queue: Driven) -> Driven:
    again = Driven(-2)
    again.restore(queue.encode())
    bounded(again, queue.return_max, queue.due_max)
    assert again.encode() == queue.encode()
    return again


def told(queue: Driven) -> list[tuple[int, int]]:
    """Those that may go on: number and death, in the order of the deaths."""
    found: list[tuple[int, int]] = []
    death = 0
    while True:
        run, _ = queue.discards.from_death(death)
        if run is None:
            return found
        found += [(run.first + at, run.key + at) for at in range(run.count)]
        death = run.key + run.count


def settle(queue: Driven, first: int, last: int, now_ms: int) -> None:
    queue.write(lambda out: commands.delivered(out, first, last), now_ms=now_ms)


@given(steps=STEPS, return_max=st.sampled_from([1, 2, RETURN_MAX]), due_max=st.integers(1, 9))
def test_what_is_due_goes_on_in_its_order(
    steps: list[tuple[str, int, int]], return_max: int, due_max: int
) -> None:
    """By a model that knows each message; also behind a snapshot, taken at any point."""
    queues = [delaying(return_max, due_max), delaying(return_max, due_max)]
    wait: list[tuple[int, int]] = []
    on_their_way: list[int] = []
    clock = 1_000
    number = 0
    for what, count, value in steps:
        deaths = told(queues[0])
        for queue in queues:
            if what == "enqueue":
                queue.enqueue(number, count, 10 * count, clock, value)
            elif what == "pass":
                queue.write(commands.go_on, now_ms=clock + value)
            elif what == "settle" and deaths:
                settle(queue, deaths[0][1], deaths[0][1] + count - 1, clock)
        if what == "enqueue":
            wait += [(clock + value, number + at) for at in range(count)]
            number += count
        elif what == "pass":
            clock += value
        elif what == "settle":
            del on_their_way[:count]
        elif what == "restore":
            queues[0] = restored(queues[0])
        unfinished = True
        while unfinished:
            # Each entry has its time, and a machine may come from a snapshot before any of them.
            for queue in queues:
                queue.write(commands.go_on, now_ms=clock)
                queue.dispatch()
            unfinished = queues[1].unfinished()
            if what == "restore":
                queues[0] = restored(queues[0])
        wait.sort()
        now = [each for each, _ in told(queues[0])]
        fresh = now[len(on_their_way) :]
        assert now[: len(on_their_way)] == on_their_way
        assert fresh == [each for _, each in wait[: len(fresh)]]
        assert all(due <= clock for due, _ in wait[: len(fresh)])
        del wait[: len(fresh)]
        on_their_way = now
        if len(on_their_way) < due_max:
            assert not wait or wait[0][0] > clock
        else:
            # What came together goes on together, though that be more than there is room for.
            assert len(on_their_way) < due_max + 5
        assert [told(queue) for queue in queues][0] == told(queues[1])
        assert queues[0].encode() == queues[1].encode()
        for queue in queues:
            assert queue.schedule.count == len(wait)
            assert queue.sizes.count == len(wait) + len(on_their_way)
            room = len(on_their_way) < due_max
            assert queue.next_expiry() == (wait[0][0] if wait and room else NEVER)
    live = {each for first, last in queues[0].live() for each in range(first, last + 1)}
    assert live == {each for _, each in wait} | {*on_their_way}


@given(
    runs=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3)), max_size=60),
    takes=st.lists(st.booleans(), max_size=120),
    fill=st.sampled_from([0, 1_000, 2_100]),
)
def test_a_heap_is_in_order_and_what_it_was_stays(
    runs: list[tuple[int, int]], takes: list[bool], fill: int
) -> None:
    """Whatever comes and goes, across the blocks that it lies in."""
    schedule = Schedule()
    model = [(1_000 + at % 7, 1_000_000 + at, 1) for at in range(fill)]
    for due, first, count in model:
        schedule.add(first, count, due)
    frozen, seen = schedule.frozen(), sorted(model)
    number = 0
    left = list(runs)
    for take in takes:
        if take and model:
            due, first, count = min(model)
            assert (schedule.next_due(), schedule.take()) == (due, (first, count))
            model.remove((due, first, count))
        elif left:
            due, count = left.pop()
            schedule.add(number, count, due)
            model.append((due, number, count))
            number += count
        assert schedule.count == sum(count for _, _, count in model)
    for runs_then, known in ((frozen, seen), (schedule.frozen(), sorted(model))):
        assert known == sorted(
            (runs_then.due(at), runs_then.first(at), runs_then.count(at))
            for at in range(runs_then.size)
        )


def test_a_long_run_is_several_that_go_in_order() -> None:
    schedule = Schedule()
    schedule.add(5, 150_000, 7)
    assert [schedule.take() for _ in range(3)] == [
        (5, 65_536), (65_541, 65_536), (131_077, 18_928),
    ]  # fmt: skip
    assert schedule.count == 0


def test_what_waits_is_not_for_consumers_and_no_other_setting_lets_it_go() -> None:
    queue = delaying()
    queue.enqueue(0, 3, 30, 1_000, 50)
    queue.attach(1, 10, 0)
    queue.dispatch()
    assert queue.deliveries == [] and queue.ready_count() == 0
    fields = BytesWriter()
    write_dead_letters(fields, AT_LEAST_ONCE)
    queue.write(lambda out: commands.config(out, fields.getvalue()))
    queue.dispatch()
    assert queue.schedule.count == 3
    queue.write(commands.purge)
    assert queue.schedule.count == 3


@pytest.mark.parametrize("together", [False, True])
def test_a_million_that_are_due_at_once_take_many_short_steps(together: bool) -> None:
    """Each step does so much at most, whether they share a time or have one each."""
    queue = delaying()
    count = 20_000 if not together else 1_000_000
    if together:
        for number in range(0, count, 1_000):
            queue.enqueue(number, 1_000, 10_000, 1_000, 50)
    else:
        for number in range(count):
            queue.enqueue(number, 1, 10, 1_000, 10 + number * 7_919 % 10_007)
    seen = 0
    steps: list[Any] = []
    queue.write(commands.go_on, now_ms=100_000)
    while seen < count:
        before = queue.discards.count
        queue.dispatch()
        steps.append(queue.discards.count - before)
        if not queue.unfinished():
            assert queue.discards.count <= DUE_MAX + 1_000
            deaths = told(queue)
            seen += len(deaths)
            settle(queue, deaths[0][1], deaths[-1][1], 100_000)
    assert len(steps) >= count // (DUE_MAX + 1_000)
    assert max(steps) <= DUE_MAX + 1_000
    assert queue.sizes.count == queue.leaving.count


def test_a_replay_goes_by_the_same_entries_as_who_applied_them() -> None:
    """What Raft logs for itself says what time it is, and no machine hears of it."""
    queue = delaying()
    queue.enqueue(0, 1, 10, 1_000, 50)
    own = Batch(None, KIND_COMMAND, 3, 1, 0, 0, 5_000, b"", 0, b"", 0, 0, None, RAFT_SESSION, 0)
    replay(queue.fifo, own)
    assert (queue.schedule.count, queue.discards.count) == (1, 0)
    closing = bytes([CLOSE]) + (7).to_bytes(8, "little")
    closed = Batch(
        None, KIND_COMMAND, 4, 1, 0, 0, 5_000, b"", 0, closing, 0, 9, None, RAFT_SESSION, 0
    )
    replay(queue.fifo, closed)
    assert (queue.schedule.count, queue.discards.count) == (0, 1)
