"""Does the simulator find planted bugs? `python -m tests.sim.hunt` prints which seed does.

Needs Warren uncompiled: `WARREN_PURE=1 PYTHONPATH=src`. Names of bugs limit it to those.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

from sim.runner import run_seed
from tests.sim import planted, planted_cluster, planted_raft
from tests.sim.planted import Mend

SEEDS_MAX = 1_000
OPERATIONS = 300

STALE = ("AttributeError", "NameError", "TypeError", "ImportError")
"""What a plant raises that no longer fits the code, and then proves nothing."""


class Find(NamedTuple):
    """A seed that fails with the bug in place, and what it complains of."""

    seed: int
    complaint: str


def hunt(plant: Callable[[], Mend], seeds: Iterable[int], cluster: bool) -> Find | None:
    """Run seeds until one fails, with the bug in place; without it the same seed has to pass.

    Raises:
        AssertionError: The bug was not what made it fail, or does not fit the code any more.
    """
    mend = plant()
    try:
        for seed in seeds:
            complaint = run_seed(seed, OPERATIONS, cluster).complaint
            if complaint:
                break
        else:
            return None
    finally:
        mend()
    last = complaint.strip().splitlines()[-1]
    assert not last.startswith(STALE), complaint
    assert not run_seed(seed, OPERATIONS, cluster).complaint, "mended, the same seed has to pass"
    return Find(seed, last)


def main() -> None:
    """Hunt each bug from the first seed on, and print a row a bug."""
    names = sys.argv[1:]
    for plants, cluster in (
        (planted.PLANTED, False),
        (planted_cluster.PLANTED, True),
        (planted_raft.PLANTED, True),
        (planted_cluster.RARE, True),
        (planted_raft.RARE, True),
    ):
        for plant in plants:
            if not names or plant.__name__ in names:
                found = hunt(plant, range(1, SEEDS_MAX + 1), cluster)
                what = "not found" if found is None else f"{found.seed}: {found.complaint[:150]}"
                print(f"{plant.__name__}: {what}", flush=True)


if __name__ == "__main__":
    main()
