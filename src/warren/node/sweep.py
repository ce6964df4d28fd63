"""Something that is done with all of a kind, however many there are, some of them in each turn."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from mypy_extensions import i64

from warren.node.loop import Loop
from warren.ports import Work

T = TypeVar("T")


class Sweep(Work, Generic[T]):
    """A part of a node that sees to each thing of a list, a bounded number of them in a turn."""

    def __init__(self, loop: Loop, at_once: i64) -> None:
        """Prepare a sweep with nothing to see to.

        Args:
            loop: Whose turns the sweep goes on in.
            at_once: So many things are seen to in one turn.
        """
        self._loop: Loop = loop
        self._at_once: i64 = at_once
        self._left: list[T] = []
        """Those that are yet to be seen to, the next one last."""
        self._under_way: bool = False

    def begin(self, things: list[T]) -> None:
        """See to these from the next turn on, and to no more of those that were left.

        The list is the sweep's own from here on.
        """
        self._take(things)
        if things and not self._under_way:
            self._under_way = True
            self._loop.do_in_parts(self)

    def begin_now(self, things: list[T]) -> None:
        """Begin with these like `begin`, and see to the first of them before this returns.

        While the sweep is under way it goes on in its turn, with them.
        """
        self._take(things)
        if not self._under_way:
            # What sees to one of them may begin the sweep again.
            self._under_way = True
            if not self.go_on():
                self._loop.do_in_parts(self)

    def _take(self, things: list[T]) -> None:
        things.reverse()
        self._left = things

    def go_on(self) -> bool:
        """See to some more; whether these were the last."""
        room = self._at_once
        while self._left and room > 0:
            room -= 1
            self.see_to(self._left.pop())
        self._under_way = len(self._left) > 0
        return not self._under_way

    @abstractmethod
    def see_to(self, thing: T) -> None:
        """Do what is to be done with one of them."""
