"""What messages take, against a list that knows each by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.queues.driver import Driven
from warren.queues.fifo.sizes import Sizes

BATCHES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 13)), min_size=1, max_size=12)


def shares(count: int, size: int) -> list[int]:
    """What each message of a batch counts for."""
    return [size // count + (at < size % count) for at in range(count)]


@given(batches=BATCHES, gap=st.integers(0, 2), data=st.data())
def test_sizes_are_those_of_each_message(
    batches: list[tuple[int, int]], gap: int, data: st.DataObject
) -> None:
    """However many are asked for at a time, and whatever others left before."""
    sizes = Sizes()
    model: dict[int, int] = {}
    number = 0
    for count, size in batches:
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
