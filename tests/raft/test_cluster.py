"""A simulated cluster keeps Raft's promises under faults, and replays them."""

from __future__ import annotations

import pytest

import warren
from tests.raft.simulate import run_seed

CHUNK = 30
CHUNKS = 10 if warren.COMPILED else 1
"""The same world runs on both; on plain Python it takes several times as long."""


@pytest.mark.parametrize("first", range(1, CHUNKS * CHUNK + 1, CHUNK))
def test_seeds(first: int) -> None:
    """Safety throughout; then progress, agreement and silence."""
    totals: dict[str, int] = {}
    for seed in range(first, first + CHUNK):
        world, complaint = run_seed(seed)
        assert not complaint, f"seed {seed}: {complaint}"
        for name, count in world.counts.items():
            totals[name] = totals.get(name, 0) + count
    for name, count in totals.items():
        assert count > 0, f"thirty seeds without any {name} prove little"


@pytest.mark.parametrize("seed", (5, 31, 77))
def test_a_seed_replays_line_by_line(seed: int) -> None:
    first, complaint = run_seed(seed, trace=True)
    second, _ = run_seed(seed, trace=True)
    assert not complaint
    assert first.lines == second.lines
    assert len(first.lines) > 10
