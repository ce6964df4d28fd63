"""Bugs put into queues of one and two voters, to show that the simulator finds them."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import LOSE
from tests.sim.planted import Undo, Where, replace
from tests.sim.planted_features import QUORUM
from warren.node.cluster.stranded import StrandedGroups
from warren.queues.logged import LoggedQueue
from warren.queues.quorum import QuorumQueue
from warren.replication.observer import Observer


def waits_for_the_other() -> Undo:
    """One of two voters waits for the other one, although that is gone for good."""
    return replace(StrandedGroups, "tick", lambda *_: None)


def waits_for_what_is_gone() -> Undo:
    """A node without a copy asks on for messages that the only copy's node says are gone."""
    return replace(QuorumQueue, "damaged", LoggedQueue.damaged)


def numbers_go_on() -> Undo:
    """A node goes on with the numbers that it had in a group whose only copy went back."""
    return replace(Observer, "_went_back", lambda *_: False)


WEAK: dict[str, Any] = QUORUM | {"weak": True, "clients": 1, "size": 3, "reconcile_ms": 0}

PLANTED: dict[Any, Where] = {
    waits_for_the_other: Where(4, 20, (LOSE,), WEAK),
    waits_for_what_is_gone: Where(8, 20, (LOSE,), WEAK),
    numbers_go_on: Where(5, 20, (LOSE,), WEAK),
}
"""With each bug where it shows soon; see `hunt`."""
