"""What messages cost that come back and wait, however many they are and wherever they lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from tests.queues.driver import NOW_MS, Driven
from tests.queues.test_scattered import (
    PART,
    PART_LINES_MAX,
    SIZES,
    Bustle,
    dearest,
    handed_out,
    no_more,
    numbers,
    scattered,
    steps,
)
from warren.queues.fifo import commands
from warren.queues.fifo.config import write_retry
from warren.queues.fifo.delayed import ALL, DELAY_MS_MAX, Retry
from warren.queues.gathering import ALL_IDS

HOUR_MS = 3_600_000
TIMES_MAX = 2_050
"""So many times there are at most for messages that wait for as long."""


def delaying(fifo: Driven, least: int, most: int) -> None:
    """What returns to a queue from now on waits."""
    out = BytesWriter()
    write_retry(out, Retry(ALL, least, most))
    fifo.write(lambda to: commands.config(to, out.getvalue()))


def all_wait(size: int) -> Driven:
    """A queue of which every second message waits for an hour, all for the same one."""
    fifo = scattered("quorum", size)
    delaying(fifo, HOUR_MS, HOUR_MS)
    handed_out(fifo, 1)
    fifo.entry(lambda out: commands.return_(out, 1, 0, ALL_IDS, True))
    while fifo.unfinished():
        fifo.entry(commands.go_on)
    assert fifo.delayed.count == size and fifo.ready_count() == 0
    return fifo


def at(fifo: Driven, now_ms: int) -> None:
    """An entry of this time."""
    fifo.write(commands.go_on, now_ms=now_ms)
    fifo.dispatch()


def test_what_is_due_at_once_is_ready_in_parts() -> None:
    """Nothing is handed out before all is ready, and then it goes in its order."""
    dearest = []
    for size in SIZES:
        found = []
        fifo = all_wait(size)
        due = int(fifo.delayed.due_ms())
        at(fifo, due - 1)
        assert fifo.delayed.count == size and not fifo.unfinished()
        fifo.attach(2, ALL_IDS, 0)
        entries = 0
        while fifo.delayed.count > 0:
            before = fifo.delayed.count
            cost = steps(lambda it=fifo, when=due: at(it, when))
            assert before - fifo.delayed.count == PART
            entries += 1
            assert bool(fifo.deliveries) == (fifo.delayed.count == 0)
            if not fifo.deliveries:
                found.append(cost)
        assert entries == size // PART
        while fifo.unfinished():
            at(fifo, due)
        assert [d.first for d in fifo.deliveries] == list(range(0, 2 * size, 2))
        dearest.append(max(found))
    assert no_more(*dearest)


@pytest.mark.parametrize("midway", (False, True))
def test_a_purge_of_what_waits_costs_the_same_for_more(midway: bool) -> None:
    """Also of what is half ready."""
    found = []
    for size in SIZES:
        fifo = all_wait(size)
        if midway:
            at(fifo, int(fifo.delayed.due_ms()))
        found.append(steps(lambda it=fifo: it.entry(commands.purge)))
        while fifo.unfinished():
            fifo.entry(commands.go_on)
        assert fifo.sizes.count == fifo.sizes.bytes == 0 and not fifo.live()
    assert no_more(*found)


def test_a_state_is_written_in_parts() -> None:
    found = []
    begun = []
    for size in SIZES:
        fifo = all_wait(size)
        fifo.part_runs = PART
        state = fifo.encode()
        out = BytesWriter()
        begun.append(steps(lambda it=fifo: it.write_state(BytesWriter())))
        found.append(dearest(fifo.write_state(out), Bustle(fifo)))
        assert out.getvalue() == state
        restored = Driven()
        restored.restore(state)
        assert restored.encode() == state
    assert no_more(*begun) and max(found) <= PART_LINES_MAX


def test_messages_that_return_one_after_the_other_share_their_times() -> None:
    """However many wait for an hour, there are some thousand times; none is early."""
    fifo = scattered("quorum", 6_000)
    delaying(fifo, HOUR_MS, HOUR_MS)
    handed_out(fifo, 1)
    for number in range(6_000):
        now = NOW_MS + number * HOUR_MS // 6_000
        fifo.write(lambda out, it=number: commands.return_(out, 1, it, it, True), now_ms=now)
        fifo.dispatch()
    assert len(fifo.delayed.by_time()) <= TIMES_MAX
    assert fifo.delayed.count == 6_000
    for number in range(0, 6_000, 500):
        now = NOW_MS + number * HOUR_MS // 6_000 + HOUR_MS
        at(fifo, now - 1)
        assert 2 * number not in numbers(fifo)
        at(fifo, now + HOUR_MS // 1_024)
        while fifo.unfinished():
            at(fifo, now + HOUR_MS // 1_024)
        assert 2 * number in numbers(fifo)


@given(
    least=st.integers(1, DELAY_MS_MAX),
    most=st.integers(1, DELAY_MS_MAX),
    failed=st.integers(0, 2**31 - 1),
    since=st.integers(0, 2**42),
)
def test_how_long_a_message_waits(least: int, most: int, failed: int, since: int) -> None:
    """The shortest time for each failure, up to the longest one, and hardly more."""
    delay = min(most, least * max(1, failed))
    due = int(Retry(ALL, least, most).due_ms(since, failed))
    assert 0 <= due - since - delay <= delay // 1_024
