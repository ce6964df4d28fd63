"""Bugs put into dead letters on purpose, to show that the simulator finds them."""

from __future__ import annotations

from typing import Any

from librt.strings import BytesWriter

from sim.cluster import world as cluster_world
from sim.cluster.swarm import BLACKOUT, CUT, KILL, LOSE, POWER, TRANSFER
from tests.sim.planted import Undo, Where, leave_out, replace
from warren.node.dead_letters import DeadLetterWorker
from warren.queues import forwarding
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo_queue import FifoQueue
from warren.queues.quorum import QuorumQueue
from warren.replication.member import Member

LETTERS: dict[str, Any] = {
    "letters": "quorum",
    "letters_once": False,
    "letters_limit": -1,
    "letters_source": "quorum",
    "letters_lives": (),
    "letters_most": -1,
    "letters_change": False,
    "groups": False,
    "quorum_queues": 1,
    "classic_queues": 0,
    "renewed": [],
    "exclusive": False,
    "clients": 1,
}

ONCE = LETTERS | {"letters_once": True, "letters_ttl_ms": 0}
HANDED_OVER = ONCE | {
    "clients": 1,
    "size": 3,
    "group_size": 3,
    "gap_us": 1_000,
    "fault_us": 10_000,
    "delay_us": 5_000,
    "reconcile_ms": 0,
}
"""The lead goes to and fro while letters die."""
LIMITED = LETTERS | {"letters_limit": 3, "letters_ttl_ms": 0, "close_share": 0.0}


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

    def look_for_room(self: Any) -> None:
        """That a queue has room again brings nothing back either."""

    undo_wait = replace(forwarding.OutgoingLetter, "wait", wait)
    undo_look = replace(forwarding.Forwarding, "look_for_room", look_for_room)

    def undo() -> None:
        undo_wait()
        undo_look()

    return undo


def left_out_of_snapshots() -> Undo:
    """A snapshot has no dead letters."""
    return leave_out("dead", list)


def lost_alone() -> Undo:
    """Dead letters at most once are handed over if there are several."""

    def hand_over(self: Any) -> None:
        if len(self._records) > 1:
            original(self)
        self._records = []
        self._lengths = BytesWriter()
        self._bytes = 0

    original = DeadLetterWorker._hand_over
    return replace(DeadLetterWorker, "_hand_over", hand_over)


def half_of_the_limit() -> Undo:
    """A message dies when it has failed half as often as it may."""

    def come_back(self: Any, strands: Any, failed: bool, limit: int, *place: Any) -> None:
        original(self, strands, failed, limit // 2 if limit > 0 else limit, *place)

    original = Fifo.come_back
    return replace(Fifo, "come_back", come_back)


def sent_again_by_the_next() -> Undo:
    """A leader sees to what died before it led, whose bodies its log may have let go of."""

    def died(self: Any, dead: Any) -> None:
        if self.proposer().leads():
            FifoQueue._died(self, dead)

    undo = replace(QuorumQueue, "_died", died)
    # The wait for what never comes is most of the run.
    shorten = replace(cluster_world, "EVENTS_MAX", 150_000)

    def both() -> None:
        shorten()
        undo()

    return both


def led_before() -> Undo:
    """Who leads again goes on as if it had never ceased, unless it was asked meanwhile."""
    led: set[int] = set()

    def leads_fully(self: Any) -> bool:
        if not self.leads():
            led.discard(id(self))
            return False
        if original(self):
            led.add(id(self))
        return id(self) in led

    original = Member.leads_fully
    return replace(Member, "leads_fully", leads_fully)


PLANTED = {
    settled_unconfirmed: Where(3, 200, (LOSE, CUT), LETTERS),
    settled_when_sent: Where(4, 250, (KILL, POWER, CUT, TRANSFER), LETTERS),
    given_up: Where(5, 200, (LOSE, CUT), LETTERS),
    left_out_of_snapshots: Where(6, 300, (KILL, POWER), LETTERS | {"wal_max_bytes": 8_192}),
    lost_alone: Where(3, 200, (KILL, TRANSFER), ONCE),
    half_of_the_limit: Where(6, 200, (TRANSFER,), LIMITED),
    led_before: Where(18, 400, (TRANSFER,), HANDED_OVER),
    sent_again_by_the_next: Where(27, 300, (BLACKOUT,), ONCE | {"letters_limit": 0}),
}
"""With each bug where it shows soon; see `hunt`."""
