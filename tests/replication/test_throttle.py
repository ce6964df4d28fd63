"""Reads for peers that are far behind: how many may go in a time."""

from __future__ import annotations

import pytest

from warren.replication.throttle import BURST_BYTES, BYTES_PER_MS, READ_BYTES, Throttle

TICK_MS = 50


class Read:
    """Ends when it is told to."""

    def __init__(self, throttle: Throttle, size: int, begun: list[Read]) -> None:
        self.throttle = throttle
        self.size = size
        self.begun = begun

    def go(self) -> None:
        self.begun.append(self)


def read_all(sizes: list[int], seconds: int, written_per_ms: int = 0) -> list[int]:
    """Want all of it at once; gives the bytes read up to each second. Reads end at once."""
    throttle = Throttle(0)
    begun: list[Read] = []
    for size in sizes:
        throttle.want(Read(throttle, size, begun).go)
    total = 0
    seen = []
    for now in range(0, 1_000 * seconds + 1, TICK_MS):
        throttle.tick(now, now * written_per_ms)
        while begun:
            read = begun.pop(0)
            total += read.size
            throttle.done(read.size)
        if now and now % 1_000 == 0:
            seen.append(total)
    return seen


@pytest.mark.parametrize("size", [READ_BYTES, READ_BYTES // 3, 2 * READ_BYTES])
def test_long_reads_are_held_to_a_pace(size: int) -> None:
    seen = read_all([size] * (400_000_000 // size), 5)
    for second, total in enumerate(seen, 1):
        wanted = second * 1_000 * BYTES_PER_MS
        assert wanted - BURST_BYTES - size <= total <= wanted + BURST_BYTES + size


def test_the_pace_is_above_that_of_what_is_new() -> None:
    """Else a peer would fall further behind the longer it is sent what it misses."""
    written = 3 * BYTES_PER_MS
    (total, _) = read_all([READ_BYTES] * 400, 2, written)
    assert 1.8 * 1_000 * written <= total <= 2.2 * 1_000 * written
    assert read_all([READ_BYTES] * 400, 1, BYTES_PER_MS // 4) == read_all([READ_BYTES] * 400, 1)


def test_many_groups_with_little_to_read_do_not_wait() -> None:
    (total,) = read_all([1_000] * 5_000, 1)
    assert total == 5_000_000
    throttle = Throttle(0)
    begun: list[Read] = []
    for _ in range(1_000):
        throttle.want(Read(throttle, 100, begun).go)
    ended = 0
    while begun:
        throttle.done(begun.pop().size)
        ended += 1
    assert ended == 1_000, "without any time passing"


def test_reads_begin_in_order_and_one_at_least() -> None:
    throttle = Throttle(0)
    begun: list[Read] = []
    reads = [Read(throttle, 50 * READ_BYTES, begun) for _ in range(4)]
    for read in reads:
        throttle.want(read.go)
    assert begun == reads[:2]
    # One that was far longer than it should be is paid for before the next begins.
    throttle.done(50 * READ_BYTES)
    throttle.tick(TICK_MS, 0)
    assert begun == reads[:2]
    throttle.tick(1_300, 0)
    assert begun == reads[:3]
