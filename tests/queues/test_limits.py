"""How many ready messages a machine keeps: the first are dropped, some in a turn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from tests.queues.driver import NOW_MS, Driven, waiting
from tests.queues.test_delayed import all_wait
from tests.queues.test_scattered import SIZES
from warren.queues.fifo import commands
from warren.queues.fifo.config import write_max_bytes, write_max_length, write_rejects


def most(value: int) -> bytes:
    """The fields of a CONFIG with the limit only."""
    out = BytesWriter()
    write_max_length(out, value)
    return out.getvalue()


def limited(value: int, keeps_place: bool = False, reports: bool = False) -> Driven:
    queue = Driven(20, keeps_place, reports)
    queue.write(lambda out: commands.config(out, most(value)))
    return queue


def numbers(queue: Any) -> list[int]:
    returned, fresh = waiting(queue.fifo)
    return [n for first, last, _, _ in returned + fresh for n in range(first, last + 1)]


@given(
    batches=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    value=st.integers(0, 8),
    steps=st.integers(1, 3),
)
def test_the_newest_are_kept_whatever_they_come_in(
    batches: list[int], value: int, steps: int
) -> None:
    queue = limited(value)
    queue.return_max = steps
    came = 0
    for count in batches:
        queue.enqueue(came, count)
        came += count
        queue.dispatch()
        again = Driven(-2)
        again.restore(queue.encode())
        assert again.encode() == queue.encode()
        again.return_max = steps
        for each in (queue, again):
            each.dispatch()
            while each.unfinished():
                each.dispatch()
        assert numbers(queue) == numbers(again) == list(range(max(0, came - value), came))
    assert queue.dropped == max(0, came - value)


def test_what_is_out_does_not_count_and_what_returns_does() -> None:
    queue = limited(2)
    queue.enqueue(0, 2)
    queue.attach(1, 2, 0)
    queue.dispatch()
    queue.enqueue(2, 2)
    queue.dispatch()
    assert numbers(queue) == [2, 3] and queue.held_count() == 2
    queue.down(1)
    queue.dispatch()
    assert numbers(queue) == [2, 3], "what returned was before them"


def test_those_who_wait_come_first() -> None:
    queue = limited(0)
    queue.attach(1, 3, 0)
    queue.dispatch()
    queue.enqueue(0, 5)
    queue.dispatch()
    assert sum(int(each.count) for each in queue.deliveries) == 3
    assert numbers(queue) == [] and queue.dropped == 2


@pytest.mark.parametrize("keeps_place", [False, True])
def test_what_returns_to_a_full_classic_queue_is_dropped_before_it_is_had_again(
    keeps_place: bool,
) -> None:
    queue = limited(1, keeps_place, keeps_place)
    queue.attach(1, 9, 0)
    queue.dispatch()
    queue.enqueue(0, 3)
    queue.dispatch()
    queue.deliveries.clear()
    queue.entry(lambda out: commands.return_(out, 1, 0, 2, False))
    handed = [n for d in queue.deliveries for n in range(int(d.first), int(d.first + d.count))]
    assert handed == ([2] if keeps_place else [0, 1, 2])
    assert queue.dropped == (2 if keeps_place else 0)


def test_a_lower_limit_counts_at_once_and_none_keeps_all() -> None:
    queue = limited(9)
    queue.enqueue(0, 9)
    queue.entry(lambda out: commands.config(out, most(4)))
    assert numbers(queue) == [5, 6, 7, 8]
    queue.entry(lambda out: commands.config(out, most(-1)))
    queue.enqueue(9, 20)
    queue.dispatch()
    assert len(numbers(queue)) == 24


@pytest.mark.parametrize("reports", [False, True])
def test_a_replay_of_a_classic_queue_drops_nothing(reports: bool) -> None:
    """Of four messages three were settled, while one was out: that one is not to go for them."""
    queue = limited(3, True, reports)
    queue.enqueue(0, 4)
    queue.dispatch()
    assert numbers(queue) == ([1, 2, 3] if reports else [0, 1, 2, 3])
    queue.entry(lambda out: commands.free(out, 1, 3))
    assert numbers(queue) == ([] if reports else [0])


def test_messages_that_return_are_awaited() -> None:
    """Nothing is dropped before all that is on its way back is there."""
    queue = limited(3)
    queue.return_max = 2
    for number in range(3):
        queue.enqueue(2 * number, 1)
    queue.attach(1, 9, 0)
    queue.dispatch()
    queue.enqueue(20, 2, now_ms=NOW_MS)
    queue.cancel(1)
    queue.down(1)
    while queue.unfinished():
        queue.dispatch()
    assert numbers(queue) == [4, 20, 21]


@pytest.mark.rule("QL-04")
@pytest.mark.parametrize("by_bytes", [False, True])
def test_publishers_are_let_on_at_four_fifths(by_bytes: bool) -> None:
    """Of messages or of bytes: one more is too much still."""
    queue = Driven(20)
    out = BytesWriter()
    (write_max_bytes if by_bytes else write_max_length)(out, 100 if by_bytes else 10)
    write_rejects(out, True)
    queue.write(lambda to: commands.config(to, out.getvalue()))
    for number in range(11):
        queue.enqueue(number, 1, 10)
    queue.dispatch()
    assert queue.blocked
    for left in (10, 9, 8):
        queue.get(1)
        queue.dispatch()
        assert queue.ready_count() == left and queue.blocked == (left > 8)


@pytest.mark.rule("QL-02")
def test_bytes_of_what_waits_to_return_count() -> None:
    fifo = all_wait(SIZES[0])
    out = BytesWriter()
    write_max_bytes(out, fifo.delayed.bytes)
    fifo.write(lambda to: commands.config(to, out.getvalue()))
    fifo.dispatch()
    assert fifo.delayed.count == SIZES[0] and fifo.dropped == 0
    fifo.enqueue(int(fifo.next_message), 1, 1)
    fifo.dispatch()
    assert (fifo.ready_count(), fifo.delayed.count, fifo.dropped) == (0, SIZES[0], 1)
