"""Bugs put into what operators do by force, to show that the simulator finds them."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import LOSE
from tests.sim.planted import Undo, Where, replace
from tests.sim.planted_features import QUORUM
from warren.metadata import member_checks
from warren.node.cluster.stranded import StrandedGroups


def lost_leader_leads_on() -> Undo:
    """Who was named as leader last leads, although it is gone for good."""
    return replace(StrandedGroups, "_leader", lambda _, __, member: member.raft.leader)


def forced_unasked() -> Undo:
    """A member goes without which its queue has no majority, and nobody has said --force."""
    return replace(member_checks, "majority_lost", lambda *_: "")


FORCED: dict[str, Any] = QUORUM | {"forced": True, "clients": 1, "reconcile_ms": 0}

PLANTED: dict[Any, Where] = {
    lost_leader_leads_on: Where(1, 20, (LOSE,), FORCED | {"size": 5}),
    forced_unasked: Where(1, 20, (LOSE,), FORCED | {"size": 3}),
}
"""With each bug where it shows soon; see `hunt`."""
