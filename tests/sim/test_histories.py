"""What clients of simulated nodes see, written down, shows what the simulator's checkers find."""

from __future__ import annotations

from pathlib import Path

import pytest

import warren
from sim.history.recorder import record
from sim.history.serial import check
from sim.history.verdict import Verdict
from tests.sim.planted import PLANTED, classic_confirms_at_append

SEEDS = range(1, 17)


def recorded(folder: Path, seeds: range) -> tuple[Verdict, list[str]]:
    """What a history says, and what the simulator did."""
    outcomes = record(folder, seeds, 300)
    return check(folder), [each.complaint for each in outcomes if each.complaint]


def test_a_history_of_nodes_that_keep_their_promises(tmp_path: Path) -> None:
    verdict, complaints = recorded(tmp_path / "history", SEEDS)
    assert verdict.good and not complaints, (verdict.text(), complaints)
    assert verdict.confirmed > 100 and verdict.redelivered > 50


@pytest.mark.skipif(warren.COMPILED, reason="bugs are planted in plain Python")
def test_a_history_shows_a_planted_bug(tmp_path: Path) -> None:
    seed = PLANTED[classic_confirms_at_append].seed
    undo = classic_confirms_at_append()
    try:
        verdict, complaints = recorded(tmp_path / "history", range(seed, seed + 1))
    finally:
        undo()
    assert len(verdict.lost) > 0
    assert complaints[0].startswith(f"{len(verdict.lost)} confirmed messages of queue ")
