"""Would the simulator notice a node that goes on with an older copy of its disk?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import warren
from sim.cluster import swarm
from sim.cluster.world import ClusterWorld
from sim.model import Violation
from tests.sim.planted import Undo, replace
from warren.metadata import machine
from warren.metadata.tables import NodeRecord
from warren.node.cluster.membership import Membership

pytestmark = pytest.mark.skipif(
    warren.COMPILED,
    reason="bugs are planted in the uncompiled modules",
)

OPERATIONS = 250
SEEDS_MAX = 30


def unheeded_rounds() -> Undo:
    """What a node said is durable is not held against a copy of the same life."""
    return replace(Membership, "_heard_round", lambda *_: 0)


def unheeded_lives() -> Undo:
    """Nor are the lives that a directory knows."""
    return replace(Membership, "_is_outdated", lambda *_: False)


def kept_copies() -> Undo:
    """A node that begins anew counts as before in the queues that it has copies of."""

    def replace_node(nodes: Any, index: Any, command: Any, outcome: Any) -> None:
        node = nodes.get(command.name)
        if node is not None and node.uid == command.former_uid:
            nodes[command.name] = NodeRecord(
                command.name, command.uid, command.host, command.port, command.incarnation
            )
            outcome.changed = outcome.nodes_changed = True

    return replace(machine, "replace_node", replace_node)


def complaint_of(seed: int) -> str:
    """What is wrong with a run in which a disk is put back, if it comes to that."""
    world = ClusterWorld(seed, OPERATIONS)
    world.faults.faults = {swarm.RESTORE: 3, swarm.KILL: 1, swarm.CUT: 1, swarm.LOSE: 1}
    try:
        world.run()
    except Violation as error:
        return str(error)
    return ""


PLANTED = {unheeded_rounds: 2, unheeded_lives: 3, kept_copies: 3}
"""With each bug the first seed that found it, last time somebody looked."""


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_an_older_disk_in_use_is_found(plant: Callable[[], Undo]) -> None:
    """Each way of going on with it is found, and without it the same seed passes."""
    undo = plant()
    try:
        seeds = (seed for seed in (PLANTED[plant], *range(1, SEEDS_MAX)) if complaint_of(seed))
        found = next(seeds, None)
    finally:
        undo()
    assert found is not None, f"{SEEDS_MAX} seeds did not find it"
    assert not complaint_of(found)
