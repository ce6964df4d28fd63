"""What the end of a long backlog costs: no part of it more than a part, however long it was.

Each message has a size, a priority and a time to live of its own, so that none goes with another.
"""

from __future__ import annotations

import gc
import struct
import tracemalloc

import pytest
from librt.strings import BytesWriter

import warren
from tests.queues.test_scattered import steps
from warren.log.batch import KIND_MESSAGES, Batch
from warren.log.facts import PRIORITIES, SIZES
from warren.queues.fifo.config import FAIR, STRICT, Limits
from warren.queues.fifo.entry import Enqueue
from warren.queues.fifo.machine import Fifo
from warren.queues.lost import DROPPED_MAX
from warren.queues.paging import ResidentBatch
from warren.queues.residents import BLOCK_BATCHES, SPENT_BLOCKS, Forgetting, Residents

KINDS = ("quorum", "classic")
PART = 100
COUNTS = (2_000, 8_000)
LIFE_MS = 60_000
SPREAD = 977
WAYS = ("purge", "expire", "drop")

BACKLOG = 50_000 if warren.COMPILED else 10_000
RANKED_BACKLOG = 50_000 if warren.COMPILED else 30_000
"""Long enough that what there is but once costs next to nothing of each."""

SHARED_BYTES_MAX = 10 if warren.COMPILED else 11
"""Of one that comes alone and shares all but the millisecond in which it came; what is not compiled
has larger objects."""
OWN_BYTES_MAX = 20
"""Of a message with a time to live and a size of its own."""
RANKED_BYTES_MAX = 40
"""Of one with a priority of its own, too, so that no two of a rank follow each other."""

LOST_FROM = 25_600
LOST_LINES_MAX = 45
"""Lines for each run of a backlog, to look at all of them, and to open chunks and go through."""


def filled(
    kind: str,
    count: int,
    batch: int,
    own: bool = True,
    ranked: bool = True,
    part: int = PART,
    ranks: int = 10,
) -> Fifo:
    """A machine with a backlog, in batches of so many messages."""
    fifo = Fifo(-1, kind == "classic", kind == "classic")
    if ranked and kind == "classic":
        fifo.config.max_priority = ranks
    elif ranked:
        fifo.config.ranking = FAIR if ranks == 10 else STRICT
    fifo.rank()
    fifo.return_max = part
    for first in range(0, count, batch):
        some = range(first, first + batch)
        sizes = [100 + (at * 13 % SPREAD if own else 0) for at in some]
        given = [at * 7 % ranks if ranked else 0 for at in some]
        facts = struct.pack(f"<I{batch}I", SIZES | PRIORITIES, *sizes) + bytes(given)
        fifo.pass_time(fifo.now_ms + 1)
        life_ms = LIFE_MS + (first % SPREAD if own else 0)
        fifo.enqueue(Enqueue(first, batch, sum(sizes), life_ms, facts))
        fifo.dispatch()
    assert fifo.ready.count == count
    return fifo


def begin(fifo: Fifo, way: str) -> None:
    """Have all messages leave in one way, but for those that a limit leaves."""
    if way == "purge":
        fifo.purge()
    elif way == "expire":
        fifo.pass_time(fifo.now_ms + LIFE_MS + SPREAD)
    else:
        fifo.config.set_limits(Limits(1, -1, False))


def parts(fifo: Fifo, way: str) -> list[int]:
    """How far each entry takes it, from the first to the one behind which nothing is left to do."""
    begin(fifo, way)
    found: list[int] = []
    while not found or fifo.unfinished():
        fifo.steps = 0
        fifo.dispatch()
        found.append(int(fifo.steps))
    return found


@pytest.mark.rule("RES-01")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_end_comes_in_parts(kind: str, way: str) -> None:
    for count in COUNTS:
        fifo = filled(kind, count, 1)
        found = parts(fifo, way)
        left = 1 if way == "drop" else 0
        assert fifo.ready.count == fifo.sizes.count == left
        # Some runs leave, and some that left are forgotten.
        assert max(found) <= 2 * PART
        assert len(found) >= count // (256 * PART)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_between_two_parts_goes_on_alike(kind: str, way: str) -> None:
    """Whoever gets it within a long end is where the others are, behind each entry."""
    fifo = filled(kind, 2_000, 1)
    begin(fifo, way)
    fifo.dispatch()
    between = 0
    while fifo.unfinished():
        between += 1
        other = fifo.anew()
        other.restore(fifo.encode())
        other.pass_time(fifo.now_ms)
        fifo.dispatch()
        other.dispatch()
        assert other.encode() == fifo.encode()
    assert between > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_of_sizes_and_times_of_their_own_comes_in_parts(kind: str) -> None:
    """A stretch of these is as long to write as many runs."""
    fifo = filled(kind, 140_000, 10, ranked=False, part=4_096)
    out = BytesWriter()
    work = fifo.write_state(out)
    longest, before = 0, len(out)
    over = False
    while not over:
        over = work.go_on()
        longest = max(longest, len(out) - before)
        before = len(out)
    assert out.getvalue() == fifo.encode()
    assert longest < len(out) * 2 // 3, "a chunk of stretches at a time"


def cost_of(kind: str, batch: int, own: bool, ranked: bool = False) -> float:
    """Bytes of memory that a message takes in a machine."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        count = RANKED_BACKLOG if ranked else BACKLOG
        fifo = filled(kind, count, batch, own, ranked, part=4_096)
        gc.collect()
        cost = (tracemalloc.get_traced_memory()[0] - before) / count
        assert fifo.ready.count == count
        return cost
    finally:
        tracemalloc.stop()


@pytest.mark.rule("RES-01")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 10])
def test_a_waiting_message_takes_some_bytes_of_memory(kind: str, batch: int) -> None:
    assert cost_of(kind, batch, own=False) <= SHARED_BYTES_MAX
    assert cost_of(kind, batch, own=True) <= OWN_BYTES_MAX


@pytest.mark.rule("RES-01")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 10])
def test_a_priority_of_its_own_takes_some_bytes_more(kind: str, batch: int) -> None:
    assert cost_of(kind, batch, own=True, ranked=True) <= RANKED_BYTES_MAX


@pytest.mark.skipif(warren.COMPILED, reason="lines are counted in uncompiled code only")
@pytest.mark.rule("RES-01")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_lost_is_looked_for_once_in_a_backlog_of_many_priorities(kind: str) -> None:
    """Where each stretch lies in another chunk, and where one takes as many as an entry may."""
    fifo = filled(kind, LOST_FROM, 100, ranks=32)
    apart = LOST_FROM // DROPPED_MAX
    gone = [(number, number) for number in range(0, apart * DROPPED_MAX, apart)]
    assert steps(lambda: fifo.free(gone)) <= LOST_FROM * LOST_LINES_MAX
    assert fifo.ready.count == LOST_FROM - DROPPED_MAX
    pairs = [(first, last) for first, last, _, _ in fifo.ready.quadruples()]
    assert not any(first <= low <= last for first, last in pairs for low, _ in gone[::16])


def resident(number: int) -> ResidentBatch:
    """A batch of two messages."""
    return ResidentBatch(
        Batch(None, KIND_MESSAGES, 0, 0, 2 * number, 2, 0, b"", 0, b"", 0, 0, None)
    )


@pytest.mark.parametrize("step", [1, 3, 10])
def test_batches_go_block_by_block_in_whatever_order_they_empty(step: int) -> None:
    """What is found and what follows is the same as if each were looked for."""
    count = 4 * BLOCK_BATCHES
    residents = Residents()
    all_of_them = [resident(number) for number in range(count)]
    for each in all_of_them:
        residents.append(each)
    for start in range(step):
        for number in range(start, count, step):
            each = all_of_them[number]
            assert residents.find(2 * number + 1) is each
            each.live = 0
            residents.emptied(each)
            if number % 64 == 0:
                live = [one for one in all_of_them if one.live > 0]
                kept = residents.all()
                assert [one for one in kept if one.live > 0] == live
                assert len(kept) <= 2 * len(live)
                assert (
                    residents.some(number, 9)
                    == [one for one in kept if one.batch.first + 2 > number][:9]
                )
    assert residents.all() == []
    residents.append(all_of_them[-1])
    assert residents.find(2 * count - 1) is all_of_them[-1]


def test_batches_of_a_deleted_queue_go_in_parts() -> None:
    residents = Residents()
    for number in range(3 * SPENT_BLOCKS * BLOCK_BATCHES):
        residents.append(resident(number))
    work = Forgetting(residents, None)
    left = []
    over = False
    while not over:
        over = work.go_on()
        left.append(len(residents.all()) // BLOCK_BATCHES)
    assert left == [2 * SPENT_BLOCKS, SPENT_BLOCKS, 0]
