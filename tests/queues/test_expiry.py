"""When messages of a machine expire: at the heads only, by the time of the log, some in a turn."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from tests.queues.driver import Driven, waiting
from warren.queues.fifo import commands
from warren.queues.fifo.config import write_message_ttl
from warren.queues.fifo.sizes import NEVER, TIME_MAX, TIMES_MAX, Sizes

LIVES = st.one_of(st.just(-1), st.integers(0, 40), st.sampled_from([TIME_MAX + 50, 10**11]))
BATCHES = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([10, 10, 20, 13]), LIVES, st.integers(0, 9)),
    min_size=1,
    max_size=20,
)


def ttl(value: int) -> bytes:
    """The fields of a CONFIG with the time to live only."""
    out = BytesWriter()
    write_message_ttl(out, value)
    return out.getvalue()


def with_ttl(value: int, limit: int = 20) -> Driven:
    queue = Driven(limit)
    queue.write(lambda out: commands.config(out, ttl(value)))
    return queue


def numbers(queue: Any) -> list[int]:
    """What is ready, in its order."""
    returned, fresh = waiting(queue.fifo)
    return [n for first, last, _, _ in returned + fresh for n in range(first, last + 1)]


def restored(queue: Driven) -> Driven:
    again = Driven(-2)
    again.restore(queue.encode())
    assert again.encode() == queue.encode()
    return again


def at(queue: Driven, now_ms: int) -> list[int]:
    """What is ready when it is so late, all that has to be done by then done."""
    queue.write(commands.go_on, now_ms=now_ms)
    queue.dispatch()
    while queue.unfinished():
        queue.dispatch()
    return numbers(queue)


@given(batches=BATCHES, now=st.integers(0, 60), data=st.data())
def test_times_are_those_of_each_message(
    batches: list[tuple[int, int, int, int]], now: int, data: st.DataObject
) -> None:
    sizes = Sizes()
    model: list[int] = []
    clock = 1
    for count, size, life, passes in batches:
        clock += passes
        expires = NEVER if life < 0 else clock + max(life, 1)
        sizes.add(len(model), count, size * count, expires)
        model += [expires] * count
    assert [sizes.expiry(number) for number in range(len(model))] == model
    first = data.draw(st.integers(0, len(model) - 1))
    at = first
    while at < len(model) and (step := sizes.expired(at, len(model) - at, now)):
        at += step
    expired = [NEVER < expires <= now for expires in model[first:]]
    assert at - first == (expired + [False]).index(False)


@given(batches=BATCHES, now=st.integers(0, 100), limit=st.integers(1, 3))
def test_what_expires_is_what_has_at_the_head(
    batches: list[tuple[int, int, int, int]], now: int, limit: int
) -> None:
    """By a model that looks at one message after the other, also behind a snapshot."""
    queue = with_ttl(50)
    queue.return_max = limit
    model: list[tuple[int, int]] = []
    clock = 1_000
    for count, size, life, passes in batches:
        clock += passes
        first = len(model)
        expires = clock + max(1, min(50, life) if life >= 0 else 50)
        queue.enqueue(first, count, size * count, clock, life)
        model += [(number, expires) for number in range(first, first + count)]
    again = restored(queue)
    again.return_max = limit
    late = clock + now
    while model and model[0][1] <= late:
        del model[0]
    for each in (queue, again):
        assert at(each, late) == [number for number, _ in model]
        assert each.next_expiry() == (model[0][1] if model else NEVER)
        assert each.sizes.count == len(model)
    assert restored(queue).encode() == again.encode()


def test_of_queue_and_message_the_shorter_time_counts_and_others_stay() -> None:
    queue = with_ttl(100)
    queue.enqueue(0, 1, 10, 1_000, 500)
    queue.enqueue(1, 1, 10, 1_000, 30)
    queue.enqueue(2, 1, 10, 1_000)
    assert at(queue, 1_030) == [0, 1, 2]
    assert at(queue, 1_099) == [0, 1, 2]
    assert at(queue, 1_100) == []
    assert queue.dropped == 3


def test_a_new_time_to_live_is_for_what_comes_from_then_on() -> None:
    queue = with_ttl(100)
    queue.enqueue(0, 1, 10, 1_000)
    queue.write(lambda out: commands.config(out, ttl(-1)))
    queue.enqueue(1, 1, 10, 1_000)
    queue.write(lambda out: commands.config(out, ttl(10)))
    queue.enqueue(2, 1, 10, 1_000)
    assert at(queue, 1_050) == [0, 1, 2]
    assert at(queue, 9_000) == [1, 2]


def test_without_any_time_to_live_a_consumer_that_waits_gets_it() -> None:
    queue = with_ttl(0)
    queue.attach(1, 1, 0)
    queue.dispatch()
    queue.enqueue(0, 2, 20, 2_000)
    queue.dispatch()
    assert [int(each.first) for each in queue.deliveries] == [0]
    assert at(queue, 2_000) == [1]
    assert at(queue, 2_001) == []
    assert queue.held_count() == 1


def test_what_is_out_stays_out_and_goes_when_it_returns_to_the_head() -> None:
    queue = with_ttl(100)
    queue.enqueue(0, 3, 30, 1_000)
    queue.attach(1, 2, 0)
    queue.dispatch()
    assert at(queue, 1_500) == [] and queue.held_count() == 2
    queue = restored(queue)
    queue.write(lambda out: commands.return_(out, 1, 0, 0, True), now_ms=1_600)
    queue.dispatch()
    assert queue.ready_count() == 0 and queue.held_count() == 1
    queue.write(lambda out: commands.settle(out, 1, 1, 1), now_ms=1_600)
    queue.dispatch()
    assert (queue.held_count(), queue.dropped) == (0, 2)


def test_in_a_classic_queue_a_returned_message_expires_in_its_place() -> None:
    queue = Driven(-1, True, True)
    queue.enqueue(0, 1, 10, 1_000)
    queue.enqueue(1, 1, 10, 1_000, 50)
    assert queue.get(7) is not None and queue.get(7) is not None
    queue.write(lambda out: commands.return_(out, 7, 1, 1, False), now_ms=1_010)
    queue.dispatch()
    assert at(queue, 1_040) == [1]
    queue.write(lambda out: commands.return_(out, 7, 0, 0, False), now_ms=1_045)
    assert at(queue, 1_100) == [0, 1]
    assert queue.get(8) is not None
    assert at(queue, 1_200) == []
    assert [tuple(map(int, pair)) for pair in queue.freed.take()] == [(1, 1)]


@pytest.mark.parametrize("how", ["snapshot", "log"])
def test_a_classic_queue_that_comes_back_has_one_head_still(how: str) -> None:
    """A machine that a start makes learns only then what it is the machine of."""
    queue = Driven(-1, True, True)
    fields = BytesWriter()
    queue.fifo.config.encode(fields)
    if how == "log":
        queue = Driven(-1, False, True)
        queue.write(lambda out: commands.config(out, fields.getvalue()))
    queue.enqueue(0, 1, 10, 1_000)
    assert queue.get(7) is not None
    queue.enqueue(1, 1, 10, 1_000, 50)
    queue.write(lambda out: commands.return_(out, 7, 0, 0, False))
    if how == "snapshot":
        queue = restored(queue)
    assert at(queue, 2_000) == [0, 1]
    assert queue.next_expiry() == NEVER


@pytest.mark.parametrize("how", ["get", "checkout"])
def test_nothing_that_expired_is_handed_to_those_who_ask(how: str) -> None:
    queue = with_ttl(10)
    queue.enqueue(0, 5, 50, 1_000)
    queue.enqueue(5, 1, 10, 2_000)
    if how == "get":
        reply = queue.write(lambda out: commands.get(out, 7), now_ms=2_000)
        assert int(reply.delivery.first) == 5
    else:
        queue.write(lambda out: commands.acquire(out, "g", 0))
        reply = queue.write(lambda out: commands.checkout(out, "g", 1, 0, 9, -1), now_ms=2_000)
        assert int(reply.count) == 1


@pytest.mark.parametrize("keeps_place", [False, True])
@pytest.mark.parametrize("consumers", [1, 2])
def test_nothing_that_expired_behind_others_is_handed_out(
    keeps_place: bool, consumers: int
) -> None:
    """Each message that comes to the head is looked at, also of those that are of one size."""
    queue = Driven(-1 if keeps_place else 20, keeps_place, keeps_place)
    for number in range(12):
        queue.enqueue(number, 1, 10, 1_000, 50 if number % 3 else -1)
    for consumer in range(consumers):
        queue.attach(consumer + 1, 9, 0)
    assert at(queue, 2_000) == []
    handed = [(int(each.first), int(each.count)) for each in queue.deliveries]
    assert handed == [(0, 1), (3, 1), (6, 1), (9, 1)]
    assert queue.dropped == 8


def test_a_reader_gets_nothing_that_expired_behind_others() -> None:
    queue = Driven(20)
    for number, life in enumerate((-1, -1, 50, 50, -1)):
        queue.enqueue(number, 1, 10, 1_000, life)
    queue.write(lambda out: commands.acquire(out, "g", 0))
    counts = []
    for after in (0, 1):
        reply = queue.write(
            lambda out, after=after: commands.checkout(out, "g", 1, after, 9, -1), now_ms=2_000
        )
        counts.append(int(reply.count))
    assert counts == [2, 1] and queue.dropped == 2


def test_so_many_expire_in_a_turn_and_nothing_is_handed_out_before_they_have() -> None:
    queue = with_ttl(10)
    for number in range(40):
        # Each is a stretch by itself.
        queue.enqueue(number, 1, number, 1_000)
    queue.enqueue(40, 1, 5, 2_000)
    queue.return_max = 15
    queue.attach(1, 9, 0)
    queue.write(commands.go_on, now_ms=2_000)
    assert queue.write(lambda out: commands.get(out, 7), now_ms=2_000).delivery is None
    left = []
    while queue.ready.count:
        queue.dispatch()
        left.append(int(queue.ready.count))
        assert queue.unfinished() == (left[-1] > 0)
    assert left == [26, 11, 0]
    assert [int(each.first) for each in queue.deliveries] == [40]


def test_a_purge_leaves_nothing_that_expires() -> None:
    queue = with_ttl(10)
    queue.enqueue(0, 50, 500, 1_000)
    queue.return_max = 1
    queue.write(commands.purge, now_ms=5_000)
    assert at(queue, 5_000) == [] and queue.next_expiry() == NEVER and not queue.unfinished()


def test_memory_is_for_batches_and_goes_with_them() -> None:
    """A stretch has so many times at most, and is gone when all of its messages are."""
    queue = with_ttl(1_000_000)
    for number in range(3 * TIMES_MAX):
        queue.enqueue(number, 1, 10, 1_000 + number)
    stretches = queue.sizes.freeze()
    assert sum(map(len, stretches)) == 3
    assert int(queue.sizes.expiring) == 3
    queue.attach(1, 10_000, 0)
    queue.dispatch()
    queue.settle(1, 1, 3 * TIMES_MAX - 1)
    queue.dispatch()
    assert int(queue.sizes.expiring) == 2, "the first one and the newest"


def test_a_state_says_of_no_time_where_there_is_none() -> None:
    """An earlier release can read it."""
    queue = Driven(20)
    queue.enqueue(0, 3)
    assert queue.encode()[0] == 3
    queue.write(lambda out: commands.config(out, ttl(5)))
    queue.enqueue(3, 3)
    assert queue.encode()[0] == 5
    assert at(restored(queue), 9_000) == [0, 1, 2, 3, 4, 5]


@pytest.mark.rule("QL-01")
def test_a_message_that_expires_takes_a_few_bytes_more() -> None:
    """Even if each came by itself, with a time of its own; those that came together share it."""
    took: dict[str, float] = {}
    for kind, count, life_ms in (("none", 1, -1), ("own", 1, 5_000), ("shared", 20, 5_000)):
        queue = Driven(20)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(0, 20_000, count):
            life = life_ms + number if life_ms >= 0 else -1
            queue.enqueue(number, count, 10 * count, 1_000 + 7 * number, life)
        took[kind] = (tracemalloc.get_traced_memory()[0] - before) / 20_000
        tracemalloc.stop()
    assert took["own"] - took["none"] <= 16
    assert took["shared"] - took["none"] <= 2
