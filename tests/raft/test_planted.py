"""The simulated cluster finds bugs: each one planted, within a bounded number of seeds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import warren
from tests.raft.planted import BUGS, Undo
from tests.raft.simulate import run_seed
from tests.raft.world import Swarm

pytestmark = pytest.mark.skipif(warren.COMPILED, reason="compiled code cannot be broken")


@pytest.mark.parametrize(
    "plant, first, seeds, tune", BUGS, ids=lambda value: getattr(value, "__name__", "")
)
def test_planted_bug_is_found(
    plant: Callable[[], Undo], first: int, seeds: int, tune: Callable[[Swarm], None] | None
) -> None:
    undo = plant()
    try:
        found = any(run_seed(seed, tune=tune)[1] for seed in range(first, first + seeds))
    finally:
        undo()
    assert found, f"{plant.__name__} was not found in {seeds} seeds from {first} on"


@pytest.mark.parametrize("tune", sorted({t for _, _, _, t in BUGS if t}, key=lambda t: t.__name__))
def test_the_worlds_of_planted_bugs_are_sound(tune: Callable[[Swarm], None]) -> None:
    """Without a bug, nothing is found in them."""
    for seed in range(1, 6):
        complaint = run_seed(seed, tune=tune)[1]
        assert not complaint, f"seed {seed}: {complaint}"
