"""Bugs put on purpose into messages that wait before they come again, and into silences."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import CUT, KILL, PARTITION, POWER
from tests.sim.planted import Undo, Where, leave_out, replace
from warren.queues.fifo.machine import Fifo
from warren.queues.quorum import QuorumQueue

RETRIES: dict[str, Any] = {
    "retry_ms": 500,
    "letters": "",
    "delays": "",
    "most": -1,
    "groups": False,
    "quorum_queues": 1,
    "classic_queues": 0,
    "renewed": [],
    "exclusive": False,
    "clients": 2,
    "settlings": {"ack": 3, "reject": 5, "nack": 3},
}


def retries_left_out_of_snapshots() -> Undo:
    """A snapshot has no messages that wait before they come again."""
    return leave_out("delayed", list)


def nobody_looks() -> Undo:
    """A leader does not mind when messages have waited."""
    return replace(Fifo, "next_expiry", lambda self: 0)


def never_heard_again() -> Undo:
    """A node that is heard again stays suspected."""
    return replace(QuorumQueue, "heard", lambda self, sessions: None)


PLANTED = {
    retries_left_out_of_snapshots: Where(1, 300, (KILL, POWER), RETRIES | {"wal_max_bytes": 8_192}),
    nobody_looks: Where(3, 200, (CUT,), RETRIES),
    never_heard_again: Where(73, 200, (PARTITION,), RETRIES),
}
"""With each bug where it shows soon; see `hunt`."""
