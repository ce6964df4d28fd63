"""Does the simulator find bugs? Each planted one has to be found, and be gone once it is mended."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import pytest

import warren
from tests.sim import (
    planted,
    planted_cluster,
    planted_dead_letters,
    planted_delays,
    planted_features,
    planted_limits,
    planted_observers,
    planted_raft,
    planted_retries,
)
from tests.sim.hunt import SEEDS_MAX, hunt
from tests.sim.planted import Undo

pytestmark = pytest.mark.skipif(
    warren.COMPILED,
    reason="bugs are planted in the uncompiled modules",
)

IN_CLUSTERS = {
    **planted_cluster.PLANTED,
    **planted_observers.PLANTED,
    **planted_dead_letters.PLANTED,
    **planted_delays.PLANTED,
    **planted_features.PLANTED,
    **planted_limits.PLANTED,
    **planted_raft.PLANTED,
    **planted_retries.PLANTED,
}


@pytest.mark.parametrize("plant", planted.PLANTED, ids=lambda plant: plant.__name__)
def test_planted_bug_is_found(plant: Callable[[], Undo]) -> None:
    """A bug in one node: the seed that found it last, else one of the first thousand."""
    where = planted.PLANTED[plant]
    found = hunt(plant, chain([where.seed], range(1, SEEDS_MAX + 1)), False, where)
    assert found is not None, f"{SEEDS_MAX} seeds did not find it"


@pytest.mark.parametrize("plant", IN_CLUSTERS, ids=lambda plant: plant.__name__)
def test_planted_bug_of_clusters_is_found(plant: Callable[[], Undo]) -> None:
    """The same for a bug between nodes."""
    where = IN_CLUSTERS[plant]
    found = hunt(plant, chain([where.seed], range(1, SEEDS_MAX + 1)), True, where)
    assert found is not None, f"{SEEDS_MAX} seeds did not find it"
