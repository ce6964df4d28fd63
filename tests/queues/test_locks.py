"""Messages that consumers hold for too long, in the machine: who gets them, and what is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.queues.driver import Driven
from warren.queues.fifo import commands

TIMEOUT_MS = 1_000
NUMBERS = st.sets(st.integers(0, 11))


def attach(queue: Driven, consumer_id: int, credit: int, now_ms: int) -> None:
    queue.write(
        lambda out: commands.attach_timed(out, consumer_id, credit, 0, TIMEOUT_MS), now_ms=now_ms
    )
    queue.dispatch()


@given(
    gaps=st.lists(st.integers(0, 300), min_size=1, max_size=12), settled=st.sets(st.integers(0, 11))
)
def test_each_message_returns_at_its_time(gaps: list[int], settled: set[int]) -> None:
    """Never before its time, at most a 256th of it later; a restored machine does the same."""
    queue = Driven(20)
    now_ms = 10_000
    attach(queue, 1, 100, now_ms)
    taken: dict[int, int] = {}
    for mid, gap in enumerate(gaps):
        now_ms += gap
        queue.enqueue(mid, 1, now_ms=now_ms)
        queue.dispatch()
        taken[mid] = now_ms
    for mid in settled & set(taken):
        queue.settle(1, mid, mid)
        queue.dispatch()
        del taken[mid]
    while taken:
        queue.look_at_locks()
        # A log's time never goes back.
        due_ms = now_ms = max(now_ms, int(queue.locks_due))
        first = min(taken.values())
        assert first + TIMEOUT_MS <= queue.locks_due <= first + TIMEOUT_MS + TIMEOUT_MS // 256
        again = Driven(-2)
        again.restore(queue.encode())
        for each in (queue, again):
            each.write(commands.time_out, now_ms=due_ms)
            each.dispatch()
        assert again.encode() == queue.encode()
        held = {int(run.key) + n for run in queue.consumers[1].holding() for n in range(run.count)}
        assert held < set(taken)
        assert all(taken[mid] + TIMEOUT_MS > due_ms - TIMEOUT_MS // 256 for mid in held)
        taken = {mid: at for mid, at in taken.items() if mid in held}


@pytest.mark.rule("CT-16")
def test_it_is_served_again_when_it_has_settled_what_was_late() -> None:
    """Other consumers have the messages meanwhile, and a restored machine knows who was late."""
    queue = Driven(20)
    queue.enqueue(0, 3, now_ms=1_000)
    attach(queue, 1, 2, 1_000)
    queue.deliveries = []
    queue.write(commands.time_out, now_ms=2_100)
    queue.dispatch()
    assert queue.deliveries == [], "who was late gets nothing"
    again = Driven(-2)
    again.restore(queue.encode())
    for each in (queue, again):
        each.settle(1, 0, 0)
        each.dispatch()
        assert each.deliveries == []
        each.settle(1, 1, 1)
        each.dispatch()
        assert sum(int(d.count) for d in each.deliveries) == 2
        assert [int(d.acquired) for d in each.deliveries][:1] == [1]


def test_it_may_be_late_again() -> None:
    queue = Driven(20)
    now_ms = 1_000
    attach(queue, 1, 1, now_ms)
    for mid in range(3):
        queue.enqueue(mid, 1, now_ms=now_ms)
        queue.dispatch()
        now_ms += 2 * TIMEOUT_MS
        queue.write(commands.time_out, now_ms=now_ms)
        queue.dispatch()
        late = queue.fifo.consumers[1].next_mid - 1
        # Messages that came back are settled too late, and then once more as what they are.
        queue.settle(1, late, late)
        queue.dispatch()
        again = queue.fifo.consumers[1].next_mid - 1
        assert again == late + 1
        queue.settle(1, again, again)
        queue.dispatch()
        now_ms += 1
    assert queue.fifo.ready_count() == 0
