"""Bugs put on purpose into what policies change of queues that are in use, for the simulator."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import CUT, LOSE
from tests.sim.planted import Undo, Where, replace
from tests.sim.planted_features import QUORUM
from warren.queues.fifo.machine import Fifo

GOVERNED: dict[str, Any] = QUORUM | {"governed": "quorum", "clients": 1}


def forgets_what_it_keeps() -> Undo:
    """Dead letters that are kept until they have arrived go when any setting changes."""

    def configure(self: Any, fields: bytes, at: int, end: int) -> None:
        original(self, fields, at, end)
        if self.discards.count > 0:
            self._drop_discards()

    original = Fifo.configure
    return replace(Fifo, "configure", configure)


PLANTED: dict[Any, Where] = {
    forgets_what_it_keeps: Where(6, 100, (LOSE, CUT), GOVERNED),
}
"""With each bug where it shows soon; see `hunt`."""
