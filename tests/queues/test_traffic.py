"""Counts of messages: classes of sizes, runs, and bounds on what is remembered."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.queue_types import CLASSIC, QUORUM
from warren.queues import traffic as module
from warren.queues.traffic import SIZE_BOUNDS, ExchangeUse, MessageSizes, PublishedTraffic, Traffic

SIZES = st.one_of(
    st.integers(0, 200),
    st.sampled_from([bound + near for bound in SIZE_BOUNDS for near in (-1, 0, 1)]),
)


@given(st.lists(SIZES, max_size=30))
def test_sizes(sizes: list[int]) -> None:
    """Whatever neighbours a message has, it is in the class that its body belongs to."""
    found = MessageSizes()
    expected = [0] * (len(SIZE_BOUNDS) + 1)
    for number, size in enumerate(sizes):
        found.add(size)
        expected[bisect_left(SIZE_BOUNDS, size)] += 1
        if number % 7 == 0:
            assert found.by_class() == expected
    assert found.by_class() == expected
    assert found.bytes == sum(sizes)


def test_exchanges_past_the_bound_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    if module.__file__.endswith(".py"):
        monkeypatch.setattr(module, "EXCHANGES_MAX", 3)
    traffic = Traffic()
    first = traffic.of_exchange("/", "first")
    assert traffic.of_exchange("/", "first") is first
    most = module.EXCHANGES_MAX
    for number in range(most):
        traffic.of_exchange("/", str(number))
    assert first.forgotten
    assert len(traffic.exchanges) <= most
    assert traffic.of_exchange("/", "first") is not first


def test_what_a_channel_publishes_counts_everywhere() -> None:
    traffic, whole = Traffic(), PublishedTraffic()
    exchange = traffic.of_exchange("/", "orders")
    one, other = ExchangeUse("orders", exchange, whole), ExchangeUse("orders", exchange, whole)
    one.published(3)
    other.published(4)
    other.confirmed(2)
    one.unroutable(1, True)
    one.unroutable(2, False)
    assert (one.own.published, other.own.published) == (3, 4)
    for counts in (exchange.counts, whole):
        assert (counts.published, counts.confirmed) == (7, 2)
        assert (counts.returned, counts.dropped) == (1, 2)


def test_types_have_counts_of_their_own() -> None:
    traffic = Traffic()
    assert traffic.of_type(CLASSIC) is traffic.of_type(CLASSIC)
    assert traffic.of_type(CLASSIC) is not traffic.of_type(QUORUM)
    assert traffic.of_deaths(QUORUM, True) is not traffic.of_deaths(QUORUM, False)
