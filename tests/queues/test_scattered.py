"""What one entry costs a queue whose messages lie in as many runs as there are messages.

Counted in lines of Python that run, which are the steps of a turn when nothing is compiled; in a
compiled build nothing of it is seen, and what is checked is the result alone.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import partial
from random import Random
from types import FrameType
from typing import Any

import pytest
from librt.strings import BytesWriter

import warren
from tests.queues.driver import Driven, size_of
from warren.ports import Work
from warren.protocols.amqp091.unsettled import TagRun, Unsettled
from warren.queues.fifo import commands
from warren.queues.fifo.consumers import Consumer
from warren.queues.fifo.effects import LeaseReply
from warren.queues.fifo.live import Gathering
from warren.queues.fifo.pieces import (
    CHUNK_PIECES,
    SHARES_MAX,
    SPENT_LISTS,
    LettingGo,
    Piece,
    count_of,
)
from warren.queues.fifo.restoring import StateReader
from warren.queues.fifo.runs import Run, RunQueue
from warren.queues.freed import FREED_MAX
from warren.queues.gathering import ALL_IDS
from warren.queues.queue import Host
from warren.queues.restoring import StateRuns
from warren.queues.transient import TransientQueue

SIZES = (800, 8_000)
PART = 100

KINDS = {"quorum": (20, False), "unlimited": (-1, False), "classic": (-1, True)}

Write = Callable[[BytesWriter], None]


def steps(act: Callable[[], object]) -> int:
    """How many lines run while something is done."""
    count = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return line

    before = sys.gettrace()
    # A collection runs what others have hung on to it, at any line.
    gc.disable()
    sys.settrace(line)
    try:
        act()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def scattered(kind: str, size: int) -> Driven:
    """A queue with every second number only."""
    fifo = Driven(*KINDS[kind], kind == "classic")
    for number in range(size):
        fifo.enqueue(2 * number, 1)
    fifo.return_max = PART
    return fifo


def handed_out(fifo: Driven, *consumers: int) -> None:
    """All is held by these consumers, who took turns and want no more."""
    for consumer in consumers:
        fifo.attach(consumer, ALL_IDS, 0)
    while fifo.ready_count() > 0:
        fifo.dispatch()
        fifo.deliveries.clear()
    for consumer in consumers:
        fifo.cancel(consumer)


def numbers(fifo: Driven) -> list[int]:
    """All that is ready, in order; no two runs of it touch."""
    runs = fifo.ready.quadruples()
    assert all(first == last for first, last, _, _ in runs)
    return [run[0] for run in runs]


def entry(fifo: Driven, *writes: Write) -> None:
    """One entry of the log with some commands."""
    fifo.entry(*writes)


def costs(fifo: Driven, *writes: Write) -> int:
    """The dearest entry, until all is done: that with the commands, or one that has it go on."""
    dearest = steps(lambda: entry(fifo, *writes))
    # One of the others, whose parts are the same.
    if fifo.unfinished():
        dearest = max(dearest, steps(lambda: entry(fifo, commands.go_on)))
    while fifo.unfinished():
        entry(fifo, commands.go_on)
    return dearest


SEARCH_LINES = 5
"""A step of the search for the size of a run's messages, of which ten times as many take three to
four steps more."""


def no_more(small: int, large: int) -> bool:
    """Whether ten times the runs cost the same, but for a look at each chunk and longer searches.

    To look at each of the others would cost more lines than that, were it one line each.
    """
    return large <= small + 4 * SEARCH_LINES * PART + 60 * SIZES[1] // CHUNK_PIECES


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("failed", [False, True])
def test_returns(kind: str, failed: bool) -> None:
    """`basic.nack` of all, in as many commands as there are consumers."""
    found = []
    for size in SIZES:
        fifo = scattered(kind, size)
        handed_out(fifo, 1)
        found.append(costs(fifo, lambda out: commands.return_(out, 1, 0, ALL_IDS, failed)))
        assert numbers(fifo) == list(range(0, 2 * size, 2))
        assert fifo.held_count() == 0 and fifo.ready_count() == size
    assert no_more(*found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("write", [commands.settle, commands.discard])
def test_settles(kind: str, write: Callable[[BytesWriter, int, int, int], None]) -> None:
    found = []
    for size in SIZES:
        fifo = scattered(kind, size)
        handed_out(fifo, 1)
        # The first and the last stay: the rest is cut out of the middle.
        found.append(costs(fifo, lambda out, last=size - 2: write(out, 1, 1, last)))
        assert fifo.live() == [(0, 0), (2 * size - 2, 2 * size - 2)]
        assert fifo.consumers[1].held == 2
        assert count_of(fifo.freed.lists or []) == (size - 2 if kind == "classic" else 0)
    assert no_more(*found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("consumers", [1, 3])
def test_consumers_that_are_gone(kind: str, consumers: int) -> None:
    """One after the other, as when their connection closes, and all at once, with their node."""
    downs: list[Write] = [lambda out, c=c: commands.down(out, c) for c in range(consumers)]
    for writes in (downs, [commands.reset]):
        found = []
        for size in SIZES:
            fifo = scattered(kind, size)
            handed_out(fifo, *range(consumers))
            found.append(costs(fifo, *writes))
            expected = range(0, 2 * size, 2)
            if kind == "classic" or consumers == 1 or writes is not downs:
                assert numbers(fifo) == list(expected)
            else:
                assert numbers(fifo) == [
                    n for c in range(consumers) for n in expected[c::consumers]
                ]
            assert not fifo.consumers
        assert no_more(*found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("midway", [False, True])
def test_purges(kind: str, midway: bool) -> None:
    """Of what is ready, and of what is on its way back to be."""
    found = []
    for size in SIZES:
        fifo = scattered(kind, size)
        if midway:
            handed_out(fifo, 1)
            fifo.enqueue(3 * size, 1)
            entry(fifo, lambda out: commands.return_(out, 1, 0, ALL_IDS, False))
        count = fifo.ready_count()
        assert count == size + midway
        found.append(costs(fifo, commands.purge))
        assert fifo.ready_count() == 0 and not fifo.live() and not fifo.unfinished()
        freed = 0
        while fifo.freed.lists:
            part = len(fifo.freed.take())
            assert part < FREED_MAX + 2 * CHUNK_PIECES
            freed += part
        assert freed == (count if kind == "classic" else 0)
    assert no_more(*found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("midway", [False, True])
def test_what_may_have_been_handed_out(kind: str, midway: bool) -> None:
    """After a crash; also what is on its way back, and nothing that comes later."""
    found = []
    for size in SIZES:
        fifo = scattered(kind, size)
        if midway:
            handed_out(fifo, 1)
            entry(fifo, lambda out: commands.return_(out, 1, 0, ALL_IDS, False))
            fifo.enqueue(3 * size, 1)
            assert fifo.returning()
        found.append(costs(fifo, commands.doubt))
        fifo.enqueue(3 * size + 1, 1)
        counters = {first: acquired for first, _, acquired, _ in fifo.ready.quadruples()}
        assert counters.pop(3 * size + 1) == 0
        assert len(counters) == size + midway and set(counters.values()) == {1}
    assert no_more(*found)


@pytest.mark.parametrize("kind", ["quorum", "unlimited"])
@pytest.mark.parametrize("write", [commands.group_release, commands.group_settle])
def test_readers(kind: str, write: Callable[..., None]) -> None:
    """What a group holds in one checkout is settled or given back."""
    arguments = (1,) if write is commands.group_release else (1, 1)
    found = []
    for size in SIZES:
        fifo = scattered(kind, size)
        fifo.acquire("g")
        reply = fifo.checkout("g", 1, 0, size)
        assert isinstance(reply, LeaseReply) and reply.count == size
        found.append(costs(fifo, lambda out: write(out, "g", *arguments)))
        assert fifo.held_count() == 0
        left = size if write is commands.group_release else 0
        assert numbers(fifo) == list(range(0, 2 * left, 2))
    assert no_more(*found)


def test_what_is_past_its_limit_goes_in_parts() -> None:
    found = []
    for size in SIZES:
        fifo = scattered("quorum", size)
        fifo.config.delivery_limit = 0
        handed_out(fifo, 1)
        found.append(costs(fifo, lambda out: commands.return_(out, 1, 0, ALL_IDS, True)))
        assert fifo.dropped == size and fifo.ready_count() == 0 and not fifo.live()
    assert no_more(*found)


# --- between two parts --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_overtakes_what_returns(kind: str) -> None:
    """Consumers wait until all is back; then they get it in order."""
    fifo = scattered(kind, 5 * PART)
    handed_out(fifo, 1)
    entry(fifo, lambda out: commands.return_(out, 1, 0, ALL_IDS, False))
    assert fifo.unfinished() and fifo.ready_count() == 5 * PART
    entry(fifo, lambda out: commands.attach(out, 2, ALL_IDS, 0))
    got: list[int] = []
    while fifo.unfinished():
        entry(fifo, commands.go_on)
        got += [int(delivery.first) for delivery in fifo.deliveries]
        fifo.deliveries.clear()
    assert got == list(range(0, 10 * PART, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_who_polls_does_not_wait(kind: str) -> None:
    """What is back already is there for `basic.get`, the first of it first."""
    fifo = scattered(kind, 5 * PART)
    handed_out(fifo, 1)
    entry(fifo, lambda out: commands.return_(out, 1, 0, ALL_IDS, False))
    for number in range(5 * PART):
        delivery = fifo.get(7)
        assert delivery is not None and delivery.first == 2 * number and delivery.acquired == 1
        fifo.dispatch()
    assert fifo.get(7) is None


def unjoined(kind: str, size: int) -> Driven:
    """One consumer holds numbers that follow each other, under ids that do not."""
    fifo = scattered(kind, 0)
    for first in (0, 2 * size):
        fifo.sizes.add(first, size, 10 * size)
    for number in range(size):
        fifo.ready.push(number, 1, 10)
        fifo.ready.push(2 * size + number, 1, 10)
    fifo.next_message = 3 * size
    handed_out(fifo, 1)
    for mid in range(1, 2 * size, 2):
        fifo.settle(1, mid, mid)
    return fifo


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("consumers", [1, 3])
def test_a_machine_restored_between_two_parts_is_the_same(kind: str, consumers: int) -> None:
    """Whichever part it is restored after, it ends each of the rest as the others do."""
    size = 7 * PART
    if consumers == 1:
        lived = unjoined(kind, size)
    else:
        lived = scattered(kind, size)
        handed_out(lived, *range(1, consumers + 1))
    lived.down_all(list(lived.consumers))
    lived.dispatch()
    restored = Driven()
    parts = 0
    while lived.unfinished():
        state = lived.encode()
        restored.restore(state)
        restored.return_max = PART
        assert restored.encode() == state
        assert restored.ready_count() == lived.ready_count() and restored.live() == lived.live()
        for fifo in (lived, restored):
            entry(fifo, commands.go_on)
        assert restored.encode() == lived.encode()
        parts += 1
    assert parts == 6
    assert lived.ready.count == size


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_nobody_has_are_dropped_wherever_they_are(kind: str) -> None:
    """Ready, in whatever order they came back, or in a classic queue on their way back."""
    fifo = scattered(kind, 0)
    for number in range(6 * PART):
        fifo.enqueue(number, 1)
    handed_out(fifo, 1, 2)
    for consumer in (2, 1):
        fifo.down(consumer)
    while kind != "classic" and fifo.returning():
        entry(fifo, commands.go_on)

    def free(out: BytesWriter) -> None:
        commands.free(out, 2 * PART, 3 * PART - 1)
        commands.free(out, PART, 2 * PART + 5)
        commands.free(out, 5 * PART, 5 * PART - 1)

    entry(fifo, free)
    assert not fifo.returning()
    left = [n for n in range(6 * PART) if not PART <= n < 3 * PART]
    runs = fifo.ready.quadruples()
    found = [n for first, last, _, _ in runs for n in range(first, last + 1)]
    assert found == (left if kind == "classic" else left[1::2] + left[::2])
    while fifo.unfinished():
        entry(fifo, commands.go_on)
    assert fifo.ready.bytes == sum(map(size_of, left)) and fifo.held_bytes() == 0


@pytest.mark.parametrize("kind", ["quorum", "unlimited"])
def test_what_nobody_has_is_not_dropped_of_what_is_on_its_way_back(kind: str) -> None:
    """That would cost a turn what the queue holds; it is ready in parts, as without it."""
    spent: list[int] = []
    for size in SIZES:
        fifo = scattered(kind, size)
        handed_out(fifo, 1)
        fifo.down(1)
        coming = fifo.coming.count
        assert coming > PART

        def free(out: BytesWriter, size: int = size) -> None:
            commands.free(out, 0, 4 * size)

        spent.append(steps(lambda fifo=fifo, free=free: fifo.write(free)))
        assert fifo.coming.count == coming, "it is on its way still"
        while fifo.unfinished():
            entry(fifo, commands.go_on)
        assert fifo.ready.count == coming
    assert spent[1] < 2 * spent[0] + 100


@pytest.mark.skipif(warren.COMPILED, reason="lines are counted in uncompiled code only")
@pytest.mark.parametrize("kind", ["quorum", "unlimited"])
def test_what_nobody_has_is_looked_for_where_it_may_be(kind: str) -> None:
    """Of those that are packed it is known where they are, and the others are looked at once.

    None of them is looked at for each entry that names some that are lost.
    """
    firsts, others = [], []
    for size in SIZES:
        fifo = scattered(kind, size)
        handed_out(fifo, 1, 2)
        for consumer in (2, 1):
            fifo.down(consumer)
            while fifo.unfinished():
                entry(fifo, commands.go_on)

        def free(out: BytesWriter, low: int) -> None:
            for number in range(low, low + 40, 2):
                commands.free(out, number, number)

        found: list[int] = []
        for low in range(0, 400, 40):
            write: Write = partial(free, low=low)
            found.append(steps(partial(fifo.write, write)))
        firsts.append(found[0])
        others.append(max(found[1:]))
        left = [n for n in range(0, 2 * size, 2) if n >= 400]
        assert sorted(first for first, _, _, _ in fifo.ready.quadruples()) == left
        assert fifo.ready.count == len(left) and fifo.ready.bytes == sum(map(size_of, left))
        # What comes since then is found, too.
        fifo.enqueue(4 * size, 3)
        fifo.write(lambda out, size=size: commands.free(out, 4 * size + 1, 4 * size + 1))
        assert fifo.ready.count == len(left) + 2
    # An entry opens the pack that has them; a look at all others is three lines for each of them.
    assert no_more(*firsts) and no_more(others[0] + PACK_LINES, others[1])


def test_striking_numbers_looks_once_however_many_stretches_are_gone() -> None:
    """Against a plain list, in any order of the runs, with somebody who looks at them meanwhile."""
    dice = Random(7)
    for _ in range(60):
        queue = RunQueue()
        plain: list[int] = []
        firsts = list(range(0, 9_000, 9))
        dice.shuffle(firsts)
        for first in firsts[: dice.randrange(900)]:
            count = dice.randrange(1, 9)
            queue.push(first, first + count - 1)
            plain.extend(range(first, first + count))
        seen = queue.freeze()
        looked = [n for pieces in seen for run in pieces for n in span(run)]
        cuts = sorted(dice.sample(range(9_100), 2 * dice.randrange(1, 200)))
        gone = list(zip(cuts[::2], cuts[1::2], strict=True))
        taken = queue.strike(gone)
        away = {n for first, last in gone for n in range(first, last + 1)}
        assert [n for pieces in taken for run in pieces for n in span(run)] == [
            n for n in plain if n in away
        ]
        left = [n for n in plain if n not in away]
        assert [n for first, last in queue.pairs() for n in range(first, last + 1)] == left
        assert queue.count == len(left)
        assert [n for pieces in seen for run in pieces for n in span(run)] == looked
        queue.push(10_000, 10_000)
        assert queue.pairs()[-1][1] == 10_000


def span(piece: Piece) -> range:
    """The numbers of a piece."""
    return range(piece.key, piece.key + piece.count)


# --- a channel ----------------------------------------------------------------------------------


class NoHost(Host):
    """A host that is never asked for anything."""


def test_tags_of_one_consumer_are_settled_together() -> None:
    """Every second tag was acked; an ack of all the others is one run of ids for its queue."""
    queue = TransientQueue(NoHost(), "/", "q")
    found = []
    for size in SIZES:
        unsettled = Unsettled()
        unsettled.next_tag = 2 * size + 1
        unsettled.add(2 * size, queue, 1, 0)
        for tag in range(2, 2 * size, 2):
            unsettled.take(tag, tag)

        def ack(unsettled: Unsettled = unsettled, size: int = size) -> None:
            (span,) = unsettled.spans(2 * size - 3)
            assert (span.mid, span.count) == (0, 2 * size - 3)
            unsettled.take(0, 2 * size - 3)

        found.append(steps(ack))
        assert unsettled.count() == 2
    assert no_more(*found)


SPAN_LINES_MAX = 60
"""To join what a consumer has in a chunk. A look at each run of the chunk takes ten times this."""


@pytest.mark.parametrize("cut", [1, 4_001])
def test_tags_of_consumers_that_take_turns_are_settled_for_the_cost_of_chunks(cut: int) -> None:
    """An ack of all, or up to a tag somewhere in a chunk, when every second one was acked."""
    consumers = 3
    queue = TransientQueue(NoHost(), "/", "q")
    sizes = (20_000, 40_000)
    found = []
    for size in sizes:
        unsettled = Unsettled()
        for tag in range(1, size + 1):
            unsettled.next_tag += 1
            unsettled.add(1, queue, tag % consumers, tag // consumers)
        for tag in range(2, size, 2):
            unsettled.take(tag, tag)
        last = size - cut
        spans: list[TagRun] = []
        found.append(steps(lambda it=unsettled, to=spans, last=last: to.extend(it.spans(last))))
        assert {int(span.consumer_id) for span in spans} == set(range(consumers))
        for span in spans:
            assert (
                span.mid <= consumers
                and last - 2 * consumers < consumers * (span.mid + span.count) <= last + consumers
            )
        assert len(unsettled.take(0, last)) <= size // CHUNK_PIECES + 1
        assert unsettled.count() == cut // 2 + 1
    more = (sizes[1] - sizes[0]) // CHUNK_PIECES + 1
    assert found[1] <= found[0] + more * consumers * SPAN_LINES_MAX


@pytest.mark.parametrize("cut", [1, 4_001])
def test_tags_of_very_many_consumers_are_settled_for_the_cost_of_these(cut: int) -> None:
    """More than a chunk keeps count of; and however many runs there are, a few marks do."""
    consumers = SHARES_MAX + 7
    queue = TransientQueue(NoHost(), "/", "q")
    found = []
    for size in (20_000, 60_000):
        unsettled = Unsettled()
        unsettled.marks.runs_min = 512
        unsettled.marks.clear()
        for tag in range(1, size + 1):
            unsettled.next_tag += 1
            unsettled.add(1, queue, tag % consumers, tag // consumers)
        for tag in range(2, size, 2):
            unsettled.take(tag, tag)
        last = size - cut
        spans: list[TagRun] = []
        found.append(steps(lambda it=unsettled, to=spans, last=last: to.extend(it.spans(last))))
        assert {int(span.consumer_id) for span in spans} == set(range(consumers))
        for span in spans:
            end = consumers * (span.mid + span.count)
            assert last - 2 * consumers < end <= last + consumers
        unsettled.take(0, last)
        assert unsettled.count() == cut // 2 + 1
        assert {int(span.consumer_id) for span in unsettled.spans(size)} <= set(range(consumers))
    assert max(found) < size, "less than a line of Python for each run"


def test_a_consumer_gives_up_a_range_for_the_cost_of_its_chunks() -> None:
    found = []
    for size in SIZES:
        consumer = Consumer(1, ALL_IDS, 0)
        for number in range(size):
            consumer.hold(2 * number, 1, 0, 0)
        found.append(steps(lambda it=consumer, last=size - 9: it.release(9, last)))
        assert consumer.held == 17
    assert no_more(*found)


# --- what is looked at in parts -----------------------------------------------------------------


PART_LINES_MAX = 20 * (PART + 2 * CHUNK_PIECES)
"""A part ends with the list in which it is enough. All that there is takes some five times this."""
PACK_LINES = 20 * CHUNK_PIECES
"""To pack a chunk of what was pushed, or to look into one and open it, takes no more."""


def dearest(work: Work, between: Callable[[], object] = lambda: None) -> int:
    """Lines of the longest part of some work; what is done between two parts does not count."""
    longest = 0
    through: list[bool] = []
    while not any(through):
        longest = max(longest, steps(lambda: through.append(work.go_on())))
        between()
    return longest


def tangled(kind: str, size: int) -> Driven:
    """A queue of which everybody has something: it is ready, held, checked out and coming back."""
    fifo = scattered(kind, size)
    fifo.part_runs = PART
    fifo.acquire("group")
    fifo.checkout("group", 1, 0, size // 5)
    for consumer in (1, 2, 3):
        fifo.attach(consumer, size // 5, 0)
    for _ in range(size // 1_000 + 1):
        fifo.dispatch()
        fifo.deliveries.clear()
    fifo.down_all([1, 3])
    assert fifo.returning() and fifo.ready.count > 0 and fifo.consumers[2].held == size // 5
    return fifo


class Bustle:
    """Commands of all kinds, one after the other, which change what is being looked at."""

    def __init__(self, fifo: Driven) -> None:
        self.fifo = fifo
        self.random = Random(1)

    def __call__(self) -> None:
        fifo = self.fifo
        there = int(fifo.next_message)
        at = self.random.randrange(there)
        choice = self.random.randrange(8)
        if choice == 0:
            fifo.enqueue(there, 3)
            fifo.transient.push(there, there + 1)
        elif choice == 1:
            fifo.settle(2, at // 10, at // 10 + self.random.choice([0, 5, 700]))
        elif choice == 2:
            fifo.return_(2, at // 10, at // 10 + self.random.choice([0, 5, 700]), True)
        elif choice == 3:
            fifo.settle(2, 0, at // 20)
        elif choice == 4:
            fifo.get(9)
        elif choice == 5:
            fifo.attach(2 if 2 not in fifo.consumers else 4, 50, 0)
        elif choice == 6:
            fifo.write(lambda out: commands.group_settle(out, "group", 1, 1))
        else:
            fifo.checkout("group", 1, 7, 9)
        fifo.dispatch()
        fifo.deliveries.clear()


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_is_written_in_parts(kind: str) -> None:
    """It is the one of the moment in which that began, whatever happens meanwhile."""
    found = []
    begun = []
    for size in SIZES:
        fifo = tangled(kind, size)
        state = fifo.encode()
        out = BytesWriter()
        begun.append(steps(lambda it=fifo: it.write_state(BytesWriter())))
        found.append(dearest(fifo.write_state(out), Bustle(fifo)))
        assert out.getvalue() == state
        assert fifo.encode() != state
    assert no_more(*begun) and max(found) <= PART_LINES_MAX


@pytest.mark.parametrize("kind", KINDS)
def test_what_lives_is_found_out_in_parts(kind: str) -> None:
    found = []
    begun = []
    for size in SIZES:
        fifo = tangled(kind, size)
        live = fifo.live()
        assert live == [(number, number) for number in range(0, 2 * size, 2)]
        begun.append(steps(lambda it=fifo: it.gather_live([], [])))
        gathering = fifo.gather_live([], [])
        found.append(dearest(gathering, Bustle(fifo)))
        assert gathering.runs.pairs() == live
        assert fifo.live() != live
    assert no_more(*begun) and max(found) <= PART_LINES_MAX


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_is_read_in_parts(kind: str) -> None:
    """So is what lives in it, of which nothing is left behind to be let go of at once."""
    found = []
    all_lines = 0
    for size in SIZES:
        fifo = tangled(kind, size)
        state = fifo.encode()
        again = fifo.anew()
        found.append(dearest(StateReader(again, state)))
        assert again.encode() == state
        whole = fifo.anew()
        all_lines = steps(lambda it=whole, was=state: it.restore(was))
        live = StateRuns(fifo.anew(), state)
        found.append(dearest(live))
        assert live.runs.pairs() == fifo.live()
        spent = again.lists()
        assert count_of(spent) >= 2 * size
        for pieces in spent:
            assert len(pieces) <= 2 * CHUNK_PIECES
    # Whose message it is, is looked for among the sizes.
    assert max(found) <= 2 * PART_LINES_MAX
    assert all_lines > 20 * PART_LINES_MAX or warren.COMPILED


def test_numbers_in_no_order_are_put_in_order() -> None:
    """Runs that touch are one, wherever they were."""
    random = Random(7)
    numbers = [n for n in range(3 * SIZES[0]) if n % 100]
    random.shuffle(numbers)
    queue = RunQueue()
    for number in numbers:
        queue.add(Run(number, number, 1))
    for parts in (7, PART, 10_000):
        gathering = Gathering(queue.freeze(), [], [[(9_000, 9_005)], [(9_006, 9_009)]], parts)
        expected = [(n, n + 98) for n in range(1, 3 * SIZES[0], 100)]
        expected.append((9_000, 9_009))
        assert gathering.all().pairs() == expected


def test_a_classic_queues_snapshot_is_written_in_parts() -> None:
    """What no group had is ready in it; numbers of transient messages that live no more go."""
    found = []
    for size in SIZES:
        fifo = tangled("classic", size)
        fifo.transient.push(0, size)
        live = [n for first, last in fifo.live() for n in range(first, last + 1)]
        held = fifo.groups["group"].open[0].messages.quadruples()
        had = {n for first, last, _, _ in held for n in range(first, last + 1)}
        out = BytesWriter()
        begun = int(fifo.next_message)
        writer = fifo.write_durable(out)
        found.append(dearest(writer, Bustle(fifo)))
        restored = Driven()
        restored.restore(out.getvalue())
        assert restored.ready.quadruples() == [(n, n, 0, 0) for n in live if n not in had]
        assert restored.groups["group"].open[0].messages.quadruples() == held
        assert restored.config.keeps_place and restored.next_message == begun
        assert not restored.consumers and not restored.coming.count
        transient = [n for n in live if n <= size]
        assert restored.transient.pairs() == [(n, n) for n in transient]
        came = [n for first, last in fifo.transient.pairs() for n in range(first, last + 1)]
        assert came[: len(transient)] == transient
        assert len(came) > len(transient) and min(came[len(transient) :]) >= begun
    assert max(found) <= PART_LINES_MAX + PACK_LINES


def test_lists_that_nobody_needs_go_in_parts() -> None:
    lists = [[Piece(number, 1)] for number in range(3 * SPENT_LISTS + 1)]
    work = LettingGo(lists)
    left = []
    while not work.go_on():
        left.append(len(lists))
    assert left == [2 * SPENT_LISTS + 1, SPENT_LISTS + 1, 1] and not lists


@pytest.mark.parametrize("ranked", [False, True], ids=["alike", "ranked"])
def test_what_was_picked_goes_back_between_its_neighbours(ranked: bool) -> None:
    """A classic queue has them where they were, whatever was before them and stayed."""
    fifo = Driven(keeps_place=True)
    if ranked:
        fifo.rank()
    fifo.enqueue(0, 6)
    for number in (4, 2, 1):
        picked = fifo.write(lambda out, number=number: commands.pick(out, 7, number, -1)).delivery
        assert picked is not None and picked.first == number
    fifo.entry(lambda out: commands.return_(out, 7, 0, 1, True))
    fifo.enqueue(6, 1)
    fifo.entry(lambda out: commands.return_(out, 7, 2, 2, True))
    order = [fifo.get(8) for _ in range(7)]
    assert [each and each.first for each in order] == [0, 1, 2, 3, 4, 5, 6]
    fifo.check()
