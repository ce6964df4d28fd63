"""Does the simulator find planted bugs? `python -m tests.sim.hunt` prints which seed does.

Needs Warren uncompiled: `WARREN_PURE=1 PYTHONPATH=src`. Names of bugs limit it to those.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from sim.__main__ import OPERATIONS
from sim.cast import limit_queues
from sim.cluster.world import ClusterWorld
from sim.runner import run_seed
from sim.swarm import DISK_FAILS
from sim.world import World
from tests.sim import (
    planted,
    planted_cluster,
    planted_dead_letters,
    planted_delays,
    planted_expiring,
    planted_features,
    planted_feeds,
    planted_forced,
    planted_groups,
    planted_hops,
    planted_limits,
    planted_observers,
    planted_policies,
    planted_raft,
    planted_retries,
    planted_vhosts,
    planted_weak,
)
from tests.sim.complaints import COMPLAINTS, Complaint
from tests.sim.planted import Undo, Where

SEEDS_MAX = 1_000

PLAIN = {
    "favours": False,
    "alternates": False,
    "replies": False,
    "most_bytes": -1,
    "drops": False,
    "strict": False,
    "expiring": "",
    "spills": "",
    "governed": "",
}
"""What came to be drawn after most bugs were planted: without it their seeds find them still."""

LATEST = {
    "governed_varies": False,
    "eager": False,
    "told": "",
    "quits": False,
    "hops": "",
}
"""Likewise, for all of them."""

LATEST_OF_CLUSTERS: dict[str, Any] = {
    "many": 0,
    "strands": False,
    "weak": False,
    "forced": False,
}

STALE = ("AttributeError", "NameError", "TypeError", "ImportError")
"""What a plant raises that no longer fits the code, and then proves nothing."""


class Find(NamedTuple):
    """A seed that fails with the bug in place, who complains, and of what."""

    seed: int
    complaint: str
    checker: str


def hunt(
    plant: Callable[[], Undo],
    seeds: Iterable[int],
    cluster: bool,
    where: Where | None,
    named: Complaint | None = None,
) -> Find | None:
    """Run seeds until one fails, with the bug in place; without it the same seed has to pass.

    Args:
        where: How a run differs from what its seed draws; None for not at all, as in `make sim`.
        named: Only this complaint counts: others may be those of a checker that is wrong.

    Raises:
        AssertionError: The bug was not what made it fail, or does not fit the code any more.
    """

    def direct(world: World | ClusterWorld) -> None:
        if where is None:
            return
        if where.faults and isinstance(world, ClusterWorld):
            world.faults.faults = dict.fromkeys(where.faults, 3)
        elif where.faults:
            world.options.troubles = dict.fromkeys(where.faults, 3)
        elif isinstance(world, ClusterWorld):
            world.faults.faults.pop(DISK_FAILS, None)
        else:
            world.options.troubles.pop(DISK_FAILS, None)
        plain = {} if plant in planted_limits.PLANTED else PLAIN
        latest = LATEST | LATEST_OF_CLUSTERS if cluster else LATEST
        for name, value in (latest | plain | where.options).items():
            options: Any = world.options
            if isinstance(world, ClusterWorld) and hasattr(world.faults, name):
                options = world.faults
            assert hasattr(options, name), name
            setattr(options, name, value)
        # They were made with what was drawn.
        limit_queues(world.queues, world.options, world.clustered)

    operations = OPERATIONS if where is None else where.operations
    undo = plant()
    try:
        for seed in seeds:
            outcome = run_seed(seed, operations, cluster, direct)
            if outcome.complaint:
                last = outcome.complaint.strip().splitlines()[-1]
                assert not last.startswith(STALE), outcome.complaint
                found = Find(seed, last, outcome.checker)
                if named is None or named.is_of(found.checker, found.complaint):
                    break
        else:
            return None
    finally:
        undo()
    mended = run_seed(seed, operations, cluster, direct).complaint
    assert not mended, f"mended, the same seed has to pass: {mended}"
    return found


def main() -> None:
    """Hunt each bug from the first seed on, and print a row a bug."""
    names = sys.argv[1:]
    for plants, cluster in (
        (planted.PLANTED, False),
        (planted_cluster.PLANTED, True),
        (planted_observers.PLANTED, True),
        (planted_dead_letters.PLANTED, True),
        (planted_delays.PLANTED, True),
        (planted_expiring.PLANTED, True),
        (planted_features.PLANTED, True),
        (planted_feeds.PLANTED, True),
        (planted_forced.PLANTED, True),
        (planted_groups.PLANTED, True),
        (planted_hops.PLANTED, True),
        (planted_limits.PLANTED, True),
        (planted_policies.PLANTED, True),
        (planted_raft.PLANTED, True),
        (planted_retries.PLANTED, True),
        (planted_vhosts.PLANTED, True),
        (planted_weak.PLANTED, True),
        (planted_cluster.RARE, True),
        (planted_raft.RARE, True),
    ):
        for plant in plants:
            if not names or plant.__name__ in names:
                where = plants[plant] if isinstance(plants, dict) else Where()
                began = time.process_time()
                named = COMPLAINTS.get(plant.__name__)
                found = hunt(plant, range(1, SEEDS_MAX + 1), cluster, where, named)
                took = time.process_time() - began
                what = "not found" if found is None else f"{found.seed}: {found.complaint[:120]}"
                print(f"{plant.__name__}: {what} ({took:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
