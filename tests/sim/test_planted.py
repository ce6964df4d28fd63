"""The simulator finds bugs: each planted one makes a seed fail, most of them an early one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import warren
from sim.runner import run_seed
from tests.sim.planted import PLANTED, Mend

SEEDS_MAX = 1_000
OPERATIONS = 300

pytestmark = pytest.mark.skipif(
    warren.COMPILED, reason="bugs are planted in the uncompiled modules"
)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_bug_is_found(
    plant: Callable[[], Mend], record_property: Callable[[str, object], None]
) -> None:
    """Run seeds until one fails, with the bug in place; it has to be one of the first thousand."""
    mend = plant()
    try:
        for seed in range(1, SEEDS_MAX + 1):
            outcome = run_seed(seed, OPERATIONS)
            if outcome.complaint:
                break
    finally:
        mend()
    assert outcome.complaint, f"{SEEDS_MAX} seeds did not find it"
    record_property("found at seed", seed)
    print(f"{plant.__name__}: found at seed {seed}: {outcome.complaint.splitlines()[-1]}")
    assert not run_seed(seed, OPERATIONS).complaint, "mended, the same seed has to pass"
