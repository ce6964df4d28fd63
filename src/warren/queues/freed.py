"""Messages that have left a queue, until it has let their bodies go."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from warren.queues.fifo.pieces import Piece
from warren.queues.fifo.runs import pairs_of

FREED_MAX: Final = 4_096
"""Runs that left, which are logged or let go of in one turn, but for a last list: about 4 ms."""


@final
@mypyc_attr(acyclic=True)  # Nothing that it refers to leads back to it.
class Freed:
    """The runs of such messages, those first that left first.

    Attributes:
        lists: All of them, in lists that do not change; None where there are none.
        taken_max: See `FREED_MAX`.
    """

    def __init__(self) -> None:
        self.lists: list[list[Piece]] | None = None
        self.taken_max: i64 = FREED_MAX

    def add(self, lists: list[list[Piece]]) -> None:
        """More messages left."""
        if self.lists is None:
            self.lists = list(lists)
        else:
            self.lists.extend(lists)

    def take_lists(self) -> list[list[Piece]]:
        """Take all of them out."""
        lists = self.lists
        self.lists = None
        return lists or []

    def take(self) -> list[tuple[int, int]]:
        """Take some of them out, as pairs of their first and last number."""
        lists = self.lists
        pairs: list[tuple[int, int]] = []
        if lists is None:
            return pairs
        count = 0
        while count < len(lists) and len(pairs) < self.taken_max:
            pairs.extend(pairs_of(lists[count]))
            count += 1
        if count == len(lists):
            self.lists = None
        else:
            del lists[:count]
        return pairs
