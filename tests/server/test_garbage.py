"""Cyclic garbage: what is new is looked through in lots, what lives long if memory is short."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from warren.protocols.broker import ALARM_DISK, ALARM_MEMORY
from warren.server.garbage import YOUNG_MAX, Garbage


class Node:
    """What has alarms."""

    def __init__(self) -> None:
        self.alarms = 0

    def own_alarms(self) -> int:
        return self.alarms


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


def test_what_is_new_is_found_in_lots_and_frozen(node: Any) -> None:
    garbage = Garbage(node)
    old = Circle()
    garbage.begin()
    frozen = gc.get_freeze_count()
    new = Circle()
    seen, seen_too = weakref.ref(old), weakref.ref(new)
    del old, new
    # As much as lives on is frozen with the next look, and what does not is gone.
    living: list[list[int]] = []
    while gc.get_count()[1] == 0:
        living.append([])
    assert len(living) <= 2 * YOUNG_MAX
    garbage.look()
    assert gc.get_freeze_count() >= frozen + len(living) // 2
    assert seen_too() is None
    assert seen() is not None


def test_python_never_looks_through_more_than_what_is_new(node: Any) -> None:
    """However much comes between two looks, it is looked through in small lots."""
    garbage = Garbage(node)
    garbage.begin()
    older: list[int] = []

    def heard(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            older.append(info["generation"])

    gc.callbacks.append(heard)
    try:
        living = [[] for _ in range(20 * YOUNG_MAX)]
    finally:
        gc.callbacks.remove(heard)
    assert len(living) == 20 * YOUNG_MAX
    assert len(older) >= 10
    assert set(older) == {0}


def test_what_takes_the_place_of_others_is_looked_through_in_lots_too(node: Any) -> None:
    """Python counts what comes less what goes, and would look through all of it at once."""
    garbage = Garbage(node)
    there: list[list[int]] = [[] for _ in range(10 * YOUNG_MAX)]
    garbage.begin()
    largest = 0
    for at in range(len(there)):
        there[at] = []
        if at % 1_000 == 0:
            garbage.look()
            largest = max(largest, len(gc.get_objects(generation=0)))
    assert gc.get_count()[1] == 0
    assert largest <= YOUNG_MAX + 5_000


def test_all_is_looked_through_once_when_memory_runs_short(node: Any) -> None:
    garbage = Garbage(node)
    for alarms, found in ((ALARM_DISK, False), (ALARM_MEMORY, True), (ALARM_MEMORY, False)):
        old = Circle()
        seen = weakref.ref(old)
        gc.collect()
        gc.freeze()
        del old
        node.alarms = alarms
        garbage.look()
        assert (seen() is None) is found
    node.alarms = 0
    garbage.look()
    node.alarms = ALARM_MEMORY
    garbage.look()
    assert seen() is None
