"""Bugs put into messages that wait on purpose, to show that the simulator finds them."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import CUT, KILL, LOSE, POWER, TRANSFER
from tests.sim.planted import Undo, Where, leave_out, replace
from tests.sim.planted_dead_letters import settled_when_sent
from warren.node import replay
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.schedule import Schedule
from warren.queues.fifo.sessions import close_sessions
from warren.replication.raft_entries import RAFT_SESSION, are_lost, closed_sessions

DELAYS: dict[str, Any] = {
    "delays": "quorum",
    "letters": "",
    "groups": False,
    "quorum_queues": 1,
    "classic_queues": 0,
    "renewed": [],
    "exclusive": False,
    "clients": 1,
}


def too_soon() -> Undo:
    """A message waits for half of its time."""

    def add(self: Any, first: int, count: int, due_ms: int) -> None:
        fifo_ms = now[0]
        original(self, first, count, fifo_ms + (due_ms - fifo_ms) // 2)

    def enqueue(self: Any, messages: Any) -> None:
        now[0] = self.now_ms
        enqueued(self, messages)

    now = [0]
    original = Schedule.add
    enqueued = Fifo.enqueue
    undo = replace(Schedule, "add", add)
    undo_too = replace(Fifo, "enqueue", enqueue)

    def both() -> None:
        undo()
        undo_too()

    return both


def delays_left_out_of_snapshots() -> Undo:
    """A snapshot has no messages that wait."""
    return leave_out("scheduled", lambda: Schedule().frozen())


def taken_further_by_rafts_entries() -> Undo:
    """A replay has what is due go on with an entry that is Raft's alone, unlike the others."""

    def other(fifo: Any, batch: Any, witness: Any) -> None:
        if batch.session != RAFT_SESSION:
            original(fifo, batch, witness)
            return
        close_sessions(fifo, closed_sessions(batch), batch.stamp_ms, are_lost(batch))
        fifo.dispatch()

    original = replay.replay
    return replace(replay, "replay", other)


def gone_when_sent() -> Undo:
    """A message has left its exchange when it is sent on."""
    return settled_when_sent()


PLANTED = {
    too_soon: Where(1, 200, (LOSE,), DELAYS),
    delays_left_out_of_snapshots: Where(1, 300, (KILL, POWER), DELAYS | {"wal_max_bytes": 8_192}),
    taken_further_by_rafts_entries: Where(10, 250, (KILL, TRANSFER), DELAYS),
    gone_when_sent: Where(21, 250, (KILL, POWER, CUT, TRANSFER), DELAYS),
}
"""With each bug where it shows soon; see `hunt`."""
