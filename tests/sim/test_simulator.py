"""The simulator on the node as it is: nothing is broken, and every kind of trouble was met."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import warren
from sim.runner import Outcome, missing, run_seeds, trace

ROOT = Path(__file__).resolve().parent.parent.parent
SEEDS = 150 if warren.COMPILED else 30
OPERATIONS = 300


@pytest.mark.early
@pytest.mark.rule("QQ-27", "DUR-03", "DUR-04", "ORD-04", "ORD-06", "ORD-09", "ACK-04")
def test_seeds() -> None:
    """No promise is broken in any of the seeds, which compiled are enough to meet all there is."""
    complaints: list[str] = []

    def report(outcome: Outcome) -> None:
        if outcome.complaint:
            again = f"python -m sim --seed {outcome.seed} --operations {OPERATIONS}"
            complaints.append(f"{again}: {outcome.complaint}")

    counts = run_seeds(range(1, SEEDS + 1), OPERATIONS, 1, report)
    assert not complaints, "\n".join(complaints)
    if warren.COMPILED:
        assert not missing(counts)


@pytest.mark.parametrize("seed", [41, 47, 116])
def test_a_seed_replays(seed: int) -> None:
    """The same seed gives the same events, line by line."""
    first, complaint = trace(seed, OPERATIONS)
    second, _ = trace(seed, OPERATIONS)
    assert not complaint
    assert len(first) > 100
    assert first == second


def test_a_seed_replays_in_another_process() -> None:
    """Nothing of a run depends on this process, such as the order of its sets and dictionaries."""
    lines, _ = trace(42, OPERATIONS)
    for hash_seed in ("1", "2"):
        result = subprocess.run(
            [sys.executable, "-m", "sim", "--seed", "42", "--operations", str(OPERATIONS)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout.splitlines() == [*lines, "all was well"]
