"""Bugs put into dead letters that come back, to show that the simulator finds them."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import LOSE, TRANSFER
from tests.sim.planted import Undo, Where, replace
from tests.sim.planted_features import QUORUM
from warren.message.dead_letters import DeadLetter
from warren.node.dead_letters import DeadLetterWorker

HOPS: dict[str, Any] = QUORUM | {"clients": 1, "close_share": 0.0}


def goes_round() -> Undo:
    """What dies goes where it came from, whether anybody rejected it or not."""
    return replace(DeadLetter, "goes_round", lambda *_: False)


def goes_round_at_least_once() -> Undo:
    """At-least-once letters are not looked at for circles."""
    return goes_round()


def hops_twice() -> Undo:
    """A dead letter goes on twice, at most once."""

    def gather(self: Any, record: bytes, letter: Any, flavour: int) -> None:
        original(self, record, letter, flavour)
        original(self, record, letter, flavour)

    original = DeadLetterWorker._gather
    return replace(DeadLetterWorker, "_gather", gather)


PLANTED: dict[Any, Where] = {
    goes_round: Where(1, 150, (LOSE,), HOPS | {"hops": "at-most-once", "hops_rounds": True}),
    goes_round_at_least_once: Where(
        1, 150, (LOSE,), HOPS | {"hops": "at-least-once", "hops_rounds": True}
    ),
    hops_twice: Where(1, 150, (LOSE, TRANSFER), HOPS | {"hops": "at-most-once"}),
}
"""With each bug where it shows soon; see `hunt`."""
