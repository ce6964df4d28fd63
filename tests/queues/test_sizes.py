"""What messages take, against a list that knows each by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.queues.driver import Driven
from warren.queues.fifo.sizes import NEVER, VARIED_MAX, Sizes

BATCHES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 13)), min_size=1, max_size=12)


def shares(count: int, size: int) -> list[int]:
    """What each message of a batch counts for."""
    return [size // count + (at < size % count) for at in range(count)]


@given(batches=BATCHES, gap=st.integers(0, 2), each=st.booleans(), data=st.data())
def test_sizes_are_those_of_each_message(
    batches: list[tuple[int, int]], gap: int, each: bool, data: st.DataObject
) -> None:
    """However many are asked for at a time, and whatever others left before."""
    sizes = Sizes()
    model: dict[int, int] = {}
    number = 0
    for count, size in batches:
        if each and data.draw(st.booleans()):
            sizes.add_each(number, count, size, NEVER)
            model |= dict.fromkeys(range(number, number + count), size)
        else:
            sizes.add(number, count, size)
            model |= dict(zip(range(number, number + count), shares(count, size), strict=True))
        number += count + gap
    while model:
        assert (sizes.count, sizes.bytes) == (len(model), sum(model.values()))
        first = data.draw(st.sampled_from(sorted(model)))
        behind = first + 1
        while behind in model and data.draw(st.booleans()):
            behind += 1
        some = [model[at] for at in range(first, behind)]
        assert sizes.of(first, behind - first) == sum(some)
        for least in (1, sum(some), sum(some) + 1):
            found = sizes.first_of(first, behind - first, least)
            assert 1 <= found <= len(some)
            assert found == len(some) or sum(some[:found]) >= least
            assert found == 1 or sum(some[: found - 1]) < least
        behind = first + sizes.forget(first, behind - first)
        for at in range(first, behind):
            del model[at]
    assert (sizes.count, sizes.bytes) == (0, 0)


def test_messages_of_one_size_are_one_stretch() -> None:
    """A backlog that nobody touched is known by one size, whatever its length."""
    sizes = Sizes()
    for batch in range(1_000):
        sizes.add(32 * batch, 32, 32 * 100)
    assert sum(map(len, sizes.freeze())) == 1
    assert sizes.of(7, 31_000) == 3_100_000


def test_bytes_follow_the_messages() -> None:
    """Ready, held, returned, settled, purged."""
    queue = Driven(20)
    for number, size in enumerate([1, 10, 100, 1_000]):
        queue.enqueue(number, 1, size)
    queue.attach(1, 2, 0)
    queue.dispatch()
    assert (queue.ready.bytes, queue.held_bytes()) == (1_100, 11)
    queue.settle(1, 0, 0)
    queue.dispatch()
    assert (queue.ready.bytes, queue.held_bytes()) == (1_000, 110)
    queue.down(1)
    queue.dispatch()
    assert (queue.ready.bytes, queue.held_bytes()) == (1_110, 0)
    restored = Driven()
    restored.restore(queue.encode())
    assert (restored.ready.bytes, restored.held_bytes()) == (1_110, 0)


def test_sizes_that_vary_share_stretches() -> None:
    """A size of its own costs a message four bytes, and as many equal ones are known by one."""
    sizes = Sizes()
    for number in range(10_000):
        sizes.add_each(number, 1, number % 7, NEVER)
    assert sizes.varied == sum(map(len, sizes.freeze())) == -(-10_000 // VARIED_MAX)
    assert sizes.of(3, 7_000) == 1_000 * sum(range(7))
    for batch in range(100):
        sizes.add_each(10_000 + 100 * batch, 100, 50, NEVER)
    assert sum(map(len, sizes.freeze())) == sizes.varied + 1
    for number in range(10_000):
        assert sizes.forget(number, 1) == 1
    assert sizes.varied == 0 and sizes.bytes == 10_000 * 50


def test_a_stretch_that_begins_to_vary_is_as_it_was_to_who_looks_at_it() -> None:
    sizes = Sizes()
    sizes.add_each(0, 3, 5, NEVER)
    before = sizes.freeze()
    sizes.add_each(3, 2, 6, NEVER)
    assert sizes.varied == 1 and sizes.of(0, 5) == 27
    (stretch,) = before[0]
    assert (stretch.count, stretch.size, stretch.ends) == (3, 5, None)
