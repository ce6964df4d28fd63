"""Long lists of pieces against plain sets of numbers, and how much of them a command looks at."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.examples import examples
from warren.queues.fifo.pieces import CHUNK_PIECES, Piece, Pieces, opened, pack_of
from warren.queues.fifo.runs import Run, as_run


def numbers(pieces: list[Piece], ahead: int) -> list[int]:
    """All keys of some pieces; each is still what it was when it was put in."""
    found = []
    for piece in map(as_run, opened(pieces)):
        assert piece.first == piece.key + ahead and piece.count > 0
        found += range(piece.key, piece.key + piece.count)
    return found


class PiecesMachine(RuleBasedStateMachine):
    """Enough pieces for some chunks come, ranges of all sizes go, and some of it returns."""

    AHEAD = 7
    """What a piece says beside its key is so much more than that."""
    PACKS = False
    LOOKS = 9
    """Places in which it is looked up behind each step what is there."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces = Pieces(packs=self.PACKS)
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
            self.pieces.push(Run(first, first + self.AHEAD, count))
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
        assert self._all_in(taken) == expected
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
            self.pieces.insert(Run(number, number + self.AHEAD, 1))
        self.model = sorted(self.model + self.gone[::step])
        self.gone = []

    @rule()
    def take_all(self) -> None:
        assert self._all_in(self.pieces.take_all()) == self.model
        self.model = []
        self.gone = []

    @rule()
    def freeze(self) -> None:
        """Somebody looks at all of it, over many turns; others may look already."""
        self.frozen.append((self.pieces.freeze(), list(self.model)))
        del self.frozen[:-2]

    def _all_in(self, lists: list[list[Piece]]) -> list[int]:
        return [number for pieces in lists for number in numbers(pieces, self.AHEAD)]

    @invariant()
    def what_is_looked_at_stays_as_it_is(self) -> None:
        for lists, model in self.frozen:
            assert self._all_in(lists) == model

    @invariant()
    def same(self) -> None:
        assert numbers(self.pieces.all(), self.AHEAD) == self.model
        assert self.pieces.count == len(self.model)
        some = self.model[:: max(1, len(self.model) // self.LOOKS)]
        there = set(self.model)
        for number in {0, self.next, *some, *(n + 1 for n in some)}:
            assert self.pieces.holds(number) == (number in there)

    @invariant()
    def chunks_are_neither_long_nor_sparse(self) -> None:
        chunks = self.pieces.chunks()
        sizes = [int(chunk.size()) for chunk in chunks]
        assert sizes == [len(opened(chunk.live())) for chunk in chunks]
        assert all(0 < size < 2 * CHUNK_PIECES for size in sizes)
        assert all(c.count == len(numbers(c.live(), self.AHEAD)) for c in chunks)
        # The head of a queue is used up piece by piece, and its tail is not full yet.
        assert all(sum(two) >= CHUNK_PIECES // 4 for two in pairwise(sizes[1:-1]))


class PackedMachine(PiecesMachine):
    """The same where full chunks are packed, and are looked into as rarely as can be."""

    AHEAD = 0
    PACKS = True
    LOOKS = 1

    @rule()
    def strike(self) -> None:
        """Some numbers go that lie anywhere."""
        gone = self.model[:: max(1, len(self.model) // 3)]
        found = self.pieces.strike([(number, number) for number in gone])
        assert self._all_in(found) == gone
        self.model = [number for number in self.model if number not in gone]


TestPieces = PiecesMachine.TestCase
TestPieces.settings = settings(max_examples=examples(60), stateful_step_count=20, deadline=None)
TestPacked = PackedMachine.TestCase
TestPacked.settings = TestPieces.settings


def test_what_nobody_works_on_is_packed() -> None:
    """All of a long list but its end, until somebody takes from it, or looks for something."""
    pieces = Pieces(packs=True)
    for number in range(10 * CHUNK_PIECES):
        pieces.push(Run(2 * number, 2 * number, 1))

    def packed() -> list[bool]:
        return [pack_of(chunk.live()) is not None for chunk in pieces.chunks()]

    assert packed() == [True] * 9 + [False]
    assert pieces.head().key == 0
    assert pieces.holds(2 * (5 * CHUNK_PIECES + 1))
    assert not pieces.holds(2 * (5 * CHUNK_PIECES + 1) + 1)
    assert packed() == [False] + [True] * 4 + [False] + [True] * 3 + [False]
    odd = [(2 * number + 1, 2 * number + 1) for number in range(8 * CHUNK_PIECES)]
    assert pieces.strike(odd) == []
    assert packed() == [False] + [True] * 4 + [False] + [True] * 3 + [False]
