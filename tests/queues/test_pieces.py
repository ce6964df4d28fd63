"""Long lists of pieces against plain sets of numbers, and how much of them a command looks at."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.examples import examples
from warren.queues.fifo.pieces import CHUNK_PIECES, Piece, Pieces
from warren.queues.fifo.runs import Run, as_run


def numbers(pieces: list[Piece]) -> list[int]:
    """All keys of some pieces; each is still what it was when it was put in."""
    found = []
    for piece in map(as_run, pieces):
        assert piece.first == piece.key + 7 and piece.count > 0
        found += range(piece.key, piece.key + piece.count)
    return found


class PiecesMachine(RuleBasedStateMachine):
    """Enough pieces for some chunks come, ranges of all sizes go, and some of it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces = Pieces()
        self.model: list[int] = []
        self.gone: list[int] = []
        self.next = 0
        self.frozen: list[tuple[list[list[Piece]], list[int]]] = []

    @rule(
        many=st.sampled_from([1, 3, CHUNK_PIECES - 1, CHUNK_PIECES, 3 * CHUNK_PIECES]),
        gap=st.integers(0, 2),
        count=st.integers(1, 3),
    )
    def push(self, many: int, gap: int, count: int) -> None:
        for _ in range(many):
            first = self.next + gap
            self.next = first + count
            self.pieces.push(Run(first, first + 7, count))
            self.model += range(first, first + count)

    @precondition(lambda self: self.model)
    @rule(more=st.integers(1, 5))
    def grow_tail(self, more: int) -> None:
        tail = self.pieces.tail()
        assert tail is not None
        behind = int(tail.key + tail.count)
        self.pieces.grow_tail(more)
        self.next = max(self.next, behind + more)
        self.model += range(behind, behind + more)

    @rule(many=st.sampled_from([1, 2, 100, 2 * CHUNK_PIECES]), data=st.data())
    def drop(self, many: int, data: st.DataObject) -> None:
        for _ in range(many):
            if not self.model:
                return
            head = self.pieces.head()
            assert head.key == self.model[0]
            count = min(int(head.count), data.draw(st.integers(1, 3)) if many < 9 else 2)
            self.pieces.drop(count)
            del self.model[:count]

    @rule(
        low=st.floats(0, 1),
        size=st.sampled_from([1, 2, 30, CHUNK_PIECES, 5 * CHUNK_PIECES, 100 * CHUNK_PIECES]),
    )
    def take(self, low: float, size: int) -> None:
        first = int(low * self.next)
        taken = self.pieces.take(first, first + size - 1)
        expected = [n for n in self.model if first <= n < first + size]
        assert [n for pieces in taken for n in numbers(pieces)] == expected
        self.model = [n for n in self.model if not first <= n < first + size]
        self.gone = expected

    @rule(step=st.integers(2, 9))
    def thin_out(self, step: int) -> None:
        """All but each so manieth number goes, one by one."""
        for number in self.model[:2_000]:
            if number % step:
                self.pieces.take(number, number)
        self.model = [n for n in self.model[:2_000] if n % step == 0] + self.model[2_000:]

    @precondition(lambda self: self.gone)
    @rule(step=st.sampled_from([1, 2, 7]))
    def put_back(self, step: int) -> None:
        for number in self.gone[::step]:
            before, behind = self.pieces.neighbours(number)
            assert before is None or before.key + before.count <= number
            assert behind is None or behind.key > number
            self.pieces.insert(Run(number, number + 7, 1))
        self.model = sorted(self.model + self.gone[::step])
        self.gone = []

    @rule()
    def take_all(self) -> None:
        assert [n for pieces in self.pieces.take_all() for n in numbers(pieces)] == self.model
        self.model = []
        self.gone = []

    @rule()
    def freeze(self) -> None:
        """Somebody looks at all of it, over many turns; others may look already."""
        self.frozen.append((self.pieces.freeze(), list(self.model)))
        del self.frozen[:-2]

    @invariant()
    def what_is_looked_at_stays_as_it_is(self) -> None:
        for lists, model in self.frozen:
            assert [n for pieces in lists for n in numbers(pieces)] == model

    @invariant()
    def same(self) -> None:
        assert numbers(self.pieces.all()) == self.model
        assert self.pieces.count == len(self.model)
        some = self.model[:: max(1, len(self.model) // 9)]
        there = set(self.model)
        for number in {0, self.next, *some, *(n + 1 for n in some)}:
            assert self.pieces.holds(number) == (number in there)

    @invariant()
    def chunks_are_neither_long_nor_sparse(self) -> None:
        chunks = self.pieces.chunks()
        sizes = [len(chunk.live()) for chunk in chunks]
        assert all(0 < size < 2 * CHUNK_PIECES for size in sizes)
        assert all(c.count == len(numbers(c.live())) for c in chunks)
        # The head of a queue is used up piece by piece, and its tail is not full yet.
        assert all(sum(two) >= CHUNK_PIECES // 4 for two in pairwise(sizes[1:-1]))


TestPieces = PiecesMachine.TestCase
TestPieces.settings = settings(max_examples=examples(60), stateful_step_count=20, deadline=None)
