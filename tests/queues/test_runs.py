"""Runs of message numbers against plain lists of them."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from librt.strings import BytesWriter, write_i32_be

from warren.queues.fifo.cursor import Cursor
from warren.queues.fifo.pieces import CHUNK_PIECES, Piece, count_of, opened, pack_of
from warren.queues.fifo.runs import Run, RunQueue, as_run, encode_runs, merge_pairs

Numbered = tuple[int, int]


class RunQueueMachine(RuleBasedStateMachine):
    """A run queue that is pushed to in ascending order, as a queue's is."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = RunQueue()
        self.model: list[Numbered] = []
        self.next = 0
        self.frozen: list[tuple[list[list[Piece]], list[Numbered]]] = []

    @rule(gap=st.integers(0, 2), count=st.integers(1, 6), acquired=st.integers(0, 1))
    def push(self, gap: int, count: int, acquired: int) -> None:
        self._push(gap, count, acquired)

    def _push(self, gap: int, count: int, acquired: int) -> None:
        first = self.next + gap
        self.next = first + count
        self.queue.push(first, first + count - 1, acquired)
        self.model += [(first + at, acquired) for at in range(count)]

    @precondition(lambda self: len(self.model) < 8 * CHUNK_PIECES)
    @rule(gap=st.sampled_from([1, 2, 1 << 40]), most=st.sampled_from([0, 1, 3, 255, 256]))
    def push_many(self, gap: int, most: int) -> None:
        """Some chunks of runs come, which may be far behind what was before."""
        self.next += gap
        for number in range(3 * CHUNK_PIECES):
            self._push(1, 1, 0 if number % 5 else most)

    @precondition(lambda self: self.model)
    @rule(runs=st.sampled_from([9, CHUNK_PIECES, 2 * CHUNK_PIECES]))
    def take_many(self, runs: int) -> None:
        for _ in range(runs):
            if self.model:
                head = self.queue.head()
                count = int(head.count)
                taken = [(head.first + at, head.acquired) for at in range(count)]
                self.queue.take(count)
                assert taken == self.model[:count]
                del self.model[:count]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def strike_some(self, data: st.DataObject) -> None:
        gone = data.draw(st.sets(st.sampled_from(self.model), max_size=3))
        self.queue.strike(sorted((number, number) for number, _ in gone))
        self.model = [item for item in self.model if item not in gone]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        head = self.queue.head()
        assert (head.first, head.acquired) == self.model[0]
        count = data.draw(st.integers(1, int(head.count)))
        self.queue.take(count)
        del self.model[:count]

    @rule(data=st.data(), count=st.integers(0, 12))
    def remove(self, data: st.DataObject, count: int) -> None:
        first = data.draw(st.integers(0, self.next + 1))
        self.queue.remove(first, first + count)
        self.model = [item for item in self.model if not first <= item[0] <= first + count]

    @rule(gone=st.sets(st.integers(0, 120), max_size=5))
    def strike(self, gone: set[int]) -> None:
        """Numbers that nobody has any more, wherever they are."""
        pairs = [(number, number) for number in sorted(gone)]
        self.queue.strike(pairs)
        self.model = [item for item in self.model if item[0] not in gone]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def take_and_return(self, data: st.DataObject) -> None:
        """Some of the head leaves and comes back to where it was."""
        head = self.queue.head()
        first, acquired = int(head.first), int(head.acquired)
        count = data.draw(st.integers(1, int(head.count)))
        self.queue.take(count)
        self.queue.insert(Run(first, first, count, acquired + 1))
        self.model[:count] = [(first + at, acquired + 1) for at in range(count)]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def take_some_out_and_return_them(self, data: st.DataObject) -> None:
        """Numbers from anywhere leave, and come back together, in any order."""
        chosen = data.draw(st.lists(st.sampled_from(self.model), max_size=6, unique=True))
        for number, _ in chosen:
            self.queue.remove(number, number)
        again = data.draw(st.integers(0, 2))
        for number, _ in chosen:
            self.queue.insert(Run(number, number, 1, again))
        moved = {number for number, _ in chosen}
        self.model = [(n, again if n in moved else acquired) for n, acquired in self.model]

    @invariant()
    def neighbours_are_joined(self) -> None:
        """What an insertion touches is as short as if it had been pushed in order."""
        runs = self.queue.quadruples()
        for (_, last, *before), (first, _, *behind) in pairwise(runs):
            assert last + 1 < first or before != behind

    @rule()
    def clear(self) -> None:
        self.queue.clear()
        self.model = []

    @rule()
    def restore(self) -> None:
        out = BytesWriter()
        lists = self.queue.freeze()
        write_i32_be(out, count_of(lists))
        for pieces in lists:
            encode_runs(out, pieces)
        out.write(b"behind")
        restored = RunQueue()
        cursor = Cursor(out.getvalue())
        cursor.room = 3
        for _ in restored.read(cursor):
            assert cursor.room == 0
            cursor.room = 3
        at = cursor.at
        assert out.getvalue()[int(at) :] == b"behind"
        self.queue = restored

    @rule()
    def freeze(self) -> None:
        """Somebody looks at all of it, over many turns."""
        self.frozen.append((self.queue.freeze(), list(self.model)))

    @invariant()
    def what_is_looked_at_stays_as_it_is(self) -> None:
        for lists, model in self.frozen:
            runs = [as_run(piece) for pieces in lists for piece in opened(pieces)]
            found = [(r.first + at, r.acquired) for r in runs for at in range(r.count)]
            assert found == model
            assert all(run.key == run.first for run in runs)

    @invariant()
    def same(self) -> None:
        runs = self.queue.quadruples()
        assert [(n, a) for first, last, a, _ in runs for n in range(first, last + 1)] == self.model
        assert self.queue.count == len(self.model)
        assert self.queue.pairs() == [run[:2] for run in runs]


TestRunQueue = RunQueueMachine.TestCase


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("times", [(0, 0), (3, 0), (0, 2), (255, 255)])
def test_packed_runs_are_what_they_were(order: int, times: tuple[int, int]) -> None:
    """Whatever order they are in, how long they are, and how often they came back or failed."""
    queue = RunQueue()
    expected = []
    for number in range(4 * CHUNK_PIECES):
        first = (1 << 50) + order * number * (1 << 22)
        last = first + number
        some = times if number in (200, CHUNK_PIECES + 1) else (0, 0)
        queue.push(first, last, *some)
        expected.append((first, last, *some))
    assert all(pack_of(pieces) for pieces in queue.freeze()[:-1])
    assert queue.quadruples() == expected
    for first, last, acquired, failed in expected:
        head = queue.head()
        assert (head.first, head.count) == (first, last - first + 1)
        assert (head.acquired, head.failed) == (acquired, failed)
        queue.take(head.count)
    assert queue.count == 0


@pytest.mark.parametrize(
    "large", [(0, 0, 256, 0), (0, 0, 0, 256), (0, 1 << 31, 0, 0), (1 << 31, 0, 0, 0)]
)
def test_what_is_too_large_for_a_pack_is_not_packed(large: tuple[int, int, int, int]) -> None:
    """It stays as it is, and what lies in other chunks is packed all the same."""
    ahead, longer, acquired, failed = large
    queue = RunQueue()
    expected = []
    first = 0
    for number in range(4 * CHUNK_PIECES):
        first += 2
        last = first
        times = (0, 0)
        if number == CHUNK_PIECES + 9:
            first += ahead
            last = first + longer
            times = (acquired, failed)
        queue.push(first, last, *times)
        expected.append((first, last, *times))
        first = last
    packs = [pack_of(pieces) is not None for pieces in queue.freeze()]
    assert packs == [True, False, True, False]
    assert queue.quadruples() == expected


def test_a_return_looks_at_its_neighbours_only() -> None:
    """Every second message is in the queue, in a run of its own; one comes back among them.

    Sorting what is there for each that returns would cost more than a look at all of it does.
    """
    held, returns = 64_000, 50
    queue = RunQueue()
    for number in range(held):
        queue.push(2 * number, 2 * number)
    began = time.process_time()
    for number in range(returns):
        queue.insert(Run(0, held + 1 + 2 * number, 1, 1))
    returned = time.process_time()
    for _ in range(returns):
        queue.pairs()
    assert returned - began < time.process_time() - returned


def test_a_backlog_is_one_run() -> None:
    """However many messages come one by one, they cost one run."""
    queue = RunQueue()
    for number in range(10_000):
        queue.push(number, number)
    assert queue.quadruples() == [(0, 9_999, 0, 0)]


@given(st.sets(st.integers(0, 60)), st.randoms())
def test_merge_pairs(numbers: set[int], random: object) -> None:
    """Pairs in any order become ascending ones that do not touch."""
    merged = merge_pairs([(number, number) for number in numbers])
    assert [n for first, last in merged for n in range(first, last + 1)] == sorted(numbers)
    assert all(merged[at][1] + 1 < merged[at + 1][0] for at in range(len(merged) - 1))
