"""Checkers of what a cluster's run ends with, each with a history that it has to complain of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sim.cluster.weak import WeakGroup
from sim.model import Violation


def weak(kept: set[int], got: list[int]) -> WeakGroup:
    """A queue of which some messages were confirmed, and some came out."""
    world: Any = SimpleNamespace(seed=1)
    group = WeakGroup(world)
    group.kept = set(kept)
    hand: Any = SimpleNamespace(got=got)
    group.check(hand)
    return group


def test_a_weak_queue_gives_out_what_it_has_once() -> None:
    group = weak({1, 2, 3}, [2, 1, 3])
    group.check_rest(0)
    with pytest.raises(Violation, match="message 2 of weak came out, which was gone"):
        weak({1, 2, 3}, [2, 2])
    with pytest.raises(Violation, match="message 4 of weak came out, which was gone or never was"):
        weak({1, 2, 3}, [4])


def test_a_weak_queue_loses_no_more_than_it_says() -> None:
    group = weak({1, 2, 3}, [1])
    group.check_rest(2)
    with pytest.raises(Violation, match="2 messages of weak are lost"):
        group.check_rest(1)
