"""A list that is used up from the front: what waits in a row, the oldest first.

A `deque` finds an element in its middle slowly, and a list closes the gap after each element that
leaves its front. This one leaves the gap open and closes it when it is the larger half, so that an
element is moved once at the most on average.

     0           head               len(items)
     +-----------+------------------+
     | gone      | place 0, 1, ...  |
     +-----------+------------------+

An empty one has no list at all: there are some in each queue, and most of them are empty.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar, final

from mypy_extensions import i64

Item = TypeVar("Item")

SLACK_MIN: Final = 64
"""Empty places at the front that are always tolerated: closing a gap costs some 100 ns."""


@final
class HeadedList(Generic[Item]):
    """Elements in a row, by place; dropping the first one changes the places of all others."""

    def __init__(self) -> None:
        self._items: list[Item | None] | None = None
        self._head: i64 = 0

    def size(self) -> i64:
        """How many elements there are."""
        items = self._items
        return 0 if items is None else len(items) - self._head

    def append(self, item: Item) -> None:
        """Put an element behind all others."""
        items = self._items
        if items is None:
            self._items = [item]
        else:
            items.append(item)

    def at(self, place: i64) -> Item:
        """The element at a place, from 0; there must be one."""
        assert place >= 0, "places are counted from the first element"
        items = self._items
        assert items is not None, "there is an element"
        item = items[self._head + place]
        assert item is not None, "nothing is behind the head that was dropped"
        return item

    def pop_first(self) -> Item:
        """Take the first element out; there must be one."""
        item = self.at(0)
        self.drop(1)
        return item

    def drop(self, count: i64) -> None:
        """Let go of so many of the first elements, at most all."""
        if count == self.size():
            self.clear()
            return
        items = self._items
        behind = self._head + count
        assert items is not None and self._head <= behind < len(items), "no more than there is"
        if behind > SLACK_MIN and 2 * behind > len(items):
            del items[:behind]
            self._head = 0
            return
        for at in range(self._head, behind):
            items[at] = None
        self._head = behind

    def cut(self, place: i64) -> None:
        """Let go of the elements from a place on, which may be behind the last."""
        assert place >= 0, "places are counted from the first element"
        if place == 0:
            self.clear()
        elif self._items is not None:
            del self._items[self._head + place :]

    def remove(self, place: i64) -> None:
        """Take out one element, which changes the places of those behind it."""
        assert 0 <= place < self.size() and self._items is not None, "there is an element"
        del self._items[self._head + place]

    def clear(self) -> None:
        """Let go of all elements."""
        self._items = None
        self._head = 0
