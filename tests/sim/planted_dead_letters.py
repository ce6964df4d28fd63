"""Bugs put into dead letters at least once on purpose, to show that the simulator finds them."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import CUT, KILL, LOSE, POWER, TRANSFER
from tests.sim.planted import Undo, Where, leave_out, replace
from warren.queues import forwarding

LETTERS: dict[str, Any] = {
    "letters": "quorum",
    "groups": False,
    "quorum_queues": 1,
    "classic_queues": 0,
    "renewed": [],
    "exclusive": False,
    "clients": 1,
}


def settled_unconfirmed() -> Undo:
    """A dead letter leaves its queue whatever the queues answer that it was sent to."""

    def answered(self: Any, outgoing: Any, confirmed: bool) -> None:
        original(self, outgoing, True)

    original = forwarding.Forwarding.answered
    return replace(forwarding.Forwarding, "answered", answered)


def settled_when_sent() -> Undo:
    """A dead letter leaves its queue when it is sent."""

    def send(self: Any, *message: Any) -> None:
        original(self, *message)
        self._forwarding.queue.forwarded(self.death, self.death)

    original = forwarding.OutgoingLetter.send
    return replace(forwarding.OutgoingLetter, "send", send)


def given_up() -> Undo:
    """What was refused once is not tried again."""

    def wait(self: Any, now_ms: int) -> int:
        self.again_ms = 1 << 60
        return 1 << 40

    return replace(forwarding.OutgoingLetter, "wait", wait)


def left_out_of_snapshots() -> Undo:
    """A snapshot has no dead letters."""
    return leave_out("dead", list)


PLANTED = {
    settled_unconfirmed: Where(3, 200, (LOSE, CUT), LETTERS),
    settled_when_sent: Where(4, 250, (KILL, POWER, CUT, TRANSFER), LETTERS),
    given_up: Where(3, 200, (LOSE, CUT), LETTERS),
    left_out_of_snapshots: Where(6, 300, (KILL, POWER), LETTERS | {"wal_max_bytes": 8_192}),
}
"""With each bug where it shows soon; see `hunt`."""
