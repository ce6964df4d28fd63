"""Does the simulator find bugs? Each planted one has to be found, and be gone once it is mended."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

import warren
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
from tests.sim.complaints import COMPLAINTS, Complaint, complaint_of
from tests.sim.hunt import SEEDS_MAX, hunt
from tests.sim.planted import Undo, Where

pytestmark = pytest.mark.skipif(
    warren.COMPILED,
    reason="bugs are planted in the uncompiled modules",
)

IN_CLUSTERS = {
    **planted_cluster.PLANTED,
    **planted_observers.PLANTED,
    **planted_dead_letters.PLANTED,
    **planted_delays.PLANTED,
    **planted_expiring.PLANTED,
    **planted_features.PLANTED,
    **planted_feeds.PLANTED,
    **planted_forced.PLANTED,
    **planted_groups.PLANTED,
    **planted_hops.PLANTED,
    **planted_limits.PLANTED,
    **planted_policies.PLANTED,
    **planted_raft.PLANTED,
    **planted_retries.PLANTED,
    **planted_vhosts.PLANTED,
    **planted_weak.PLANTED,
}

MIXED = {
    plant: (seed, cluster, complaint_of(plant))
    for cluster, seeds in (
        (
            False,
            {
                planted.skipped_sync: 3,
                planted.rejected_is_confirmed: 10,
                planted.settles_neighbour: 12,
                planted.no_redelivered: 20,
                planted.spurious_nack: 12,
                planted.snapshot_ahead: 8,
                planted.unfenced: 18,
                planted.ignored_limit: 1,
            },
        ),
        (
            True,
            {
                planted_cluster.failed_writes_are_good: 4,
                planted_cluster.early_apply: 1,
                planted_cluster.confirms_at_submit: 1,
                planted_cluster.stamps_by_wall: 2,
                planted_cluster.unchecked_sequence: 2,
                planted_cluster.returns_unmarked: 3,
                planted_raft.half_is_enough: 1,
            },
        ),
    )
    for plant, seed in seeds.items()
} | {planted_cluster.returns_out_of_order: (27, False, Complaint("checkers.order", "behind #"))}
"""Bugs that runs show as they are drawn: the seed, whether it is a cluster, and the complaint."""
MIXED_SEEDS_MAX = 60


def find(plant: Callable[[], Undo], where: Where, cluster: bool) -> None:
    """Hunt a bug by the seed that found it last, else by one of the first thousand.

    It has to cause the complaint that is its own.

    A seed that finds it no more is told as a warning, with one that does: `Where` is to have that.
    """
    named = complaint_of(plant)
    if hunt(plant, [where.seed], cluster, where, named) is not None:
        return
    found = hunt(plant, range(1, SEEDS_MAX + 1), cluster, where, named)
    assert found is not None, f"{SEEDS_MAX} seeds did not find it"
    warnings.warn(
        f"STORED SEED {where.seed} DOES NOT FIND {plant.__name__} ANY MORE: store {found.seed}",
        stacklevel=2,
    )


@pytest.mark.parametrize("plant", planted.PLANTED, ids=lambda plant: plant.__name__)
def test_planted_bug_is_found(plant: Callable[[], Undo]) -> None:
    """A bug in one node is found, and its seed passes without it."""
    find(plant, planted.PLANTED[plant], False)


@pytest.mark.parametrize("plant", IN_CLUSTERS, ids=lambda plant: plant.__name__)
def test_planted_bug_of_clusters_is_found(plant: Callable[[], Undo]) -> None:
    """The same for a bug between nodes."""
    find(plant, IN_CLUSTERS[plant], True)


def test_each_planted_bug_has_a_complaint_of_its_own() -> None:
    """The table of complaints has every bug, and nothing else."""
    names = {plant.__name__ for plant in (*planted.PLANTED, *IN_CLUSTERS)}
    assert set(COMPLAINTS) == names
    assert len(names) == len(planted.PLANTED) + len(IN_CLUSTERS), "two bugs share a name"


@pytest.mark.parametrize("plant", MIXED, ids=lambda plant: plant.__name__)
def test_planted_bug_is_found_in_the_mix(plant: Callable[[], Undo]) -> None:
    """Runs as `make sim` draws them find it, without being told where it shows."""
    seed, cluster, named = MIXED[plant]
    if hunt(plant, [seed], cluster, None, named) is None:
        found = hunt(plant, range(1, MIXED_SEEDS_MAX + 1), cluster, None, named)
        assert found is not None, f"{MIXED_SEEDS_MAX} seeds did not find it"
        warnings.warn(
            f"STORED SEED {seed} DOES NOT FIND {plant.__name__} ANY MORE: store {found.seed}",
            stacklevel=1,
        )
