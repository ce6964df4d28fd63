"""Cyclic garbage: what is new is looked through in lots, what lives long only now and then."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from warren.server.garbage import GONE_MIN, OLDER, YOUNG_MAX, Garbage


class Node:
    """What counts queues and connections."""

    def __init__(self) -> None:
        self.gone = 0
        self.queues = 0

    def present(self) -> int:
        return self.queues


class Circle:
    """Something that refers to itself."""

    def __init__(self) -> None:
        self.self: Circle | None = self


@pytest.fixture
def node() -> Iterator[Any]:
    before = gc.get_threshold()
    yield Node()
    gc.set_threshold(*before)
    gc.unfreeze()


def test_what_is_new_is_found_in_lots_and_what_is_old_when_much_has_gone(node: Any) -> None:
    garbage = Garbage(node)
    old = Circle()
    garbage.begin()
    frozen = gc.get_freeze_count()
    new = Circle()
    seen, seen_too = weakref.ref(old), weakref.ref(new)
    del old, new
    # As much as lives on is frozen with the next look, and what does not is gone.
    living: list[list[int]] = []
    while gc.get_count()[2] == 0:
        living.append([])
    assert len(living) <= 2 * YOUNG_MAX * (OLDER + 2)
    garbage.look()
    assert gc.get_freeze_count() >= frozen + len(living) // 2
    assert seen_too() is None
    assert seen() is not None
    node.gone = GONE_MIN - 1
    garbage.look()
    assert seen() is not None
    node.gone = GONE_MIN
    garbage.look()
    assert seen() is None


def test_of_many_queues_many_have_to_go(node: Any) -> None:
    node.queues = 100 * GONE_MIN
    garbage = Garbage(node)
    old = Circle()
    seen = weakref.ref(old)
    garbage.begin()
    del old
    node.gone = 25 * GONE_MIN - 1
    garbage.look()
    assert seen() is not None
    node.gone = 25 * GONE_MIN
    garbage.look()
    assert seen() is None
    # Counted from there on.
    node.gone += 25 * GONE_MIN - 1
    again = Circle()
    seen = weakref.ref(again)
    gc.collect()
    gc.freeze()
    del again
    garbage.look()
    assert seen() is not None
