"""Bugs put on purpose into groups of readers and their checkouts, for the simulator."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import CUT, LOSE
from tests.sim.planted import Undo, Where, replace
from tests.sim.planted_features import QUORUM
from warren.queues.fifo import applying, commands, reading
from warren.queues.fifo.effects import LeaseReply, Reply
from warren.queues.fifo.groups import Group, Readers
from warren.queues.fifo.returning import Strand

READING: dict[str, Any] = QUORUM | {
    "groups": True,
    "eager": True,
    "eager_lease_ms": 200,
    "clients": 1,
    "purges": False,
    "gap_us": 6_000,
}


def takes_settled_ones_again() -> Undo:
    """A retake of the checkout that was settled last hands it out once more."""

    def settle(self: Any, up_to: int) -> Any:
        done = originally_settles(self, up_to)
        if done:
            self.done = done[-1]
        return done

    def retake(fifo: Any, group: Any, number: int) -> Reply:
        done = getattr(group, "done", None)
        if done is not None and done.number == number:
            return LeaseReply(number, done.messages.count, done)
        return originally_retakes(fifo, group, number)

    originally_settles, originally_retakes = Group.settle, reading.retake
    undone = (replace(Group, "settle", settle), replace(reading, "retake", retake))

    def undo() -> None:
        for each in undone:
            each()

    return undo


def forgets_a_row() -> Undo:
    """The first messages that a group gives back are gone."""

    def give_back(fifo: Any, group: Any, lapses: bool) -> None:
        count = group.held()
        fifo.held -= count
        strand = Strand(group.give_up(lapses), count)
        first = strand.next()
        if first is not None:
            fifo.leave([[first]], first.count)
        fifo.come_back([strand], True, -1, delays=False)

    return replace(reading, "_give_back", give_back)


def settles_for_an_old_reader() -> Undo:
    """Who had a group before another one took it may still settle."""

    def apply_reader(fifo: Any, opcode: int, payload: bytes, at: int, now_ms: int) -> Reply:
        if opcode != commands.GROUP_SETTLE:
            return original(fifo, opcode, payload, at, now_ms)
        refusal = Readers.refusal
        known = fifo.readers.groups
        undo = replace(
            Readers,
            "refusal",
            lambda self, name, epoch: None if name in known else refusal(self, name, epoch),
        )
        try:
            return original(fifo, opcode, payload, at, now_ms)
        finally:
            undo()

    original = reading.apply_reader
    return replace(applying, "apply_reader", apply_reader)


def begins_anew() -> Undo:
    """A group that is made anew has the epochs and numbers of the one that was deleted."""
    return replace(Readers, "delete", lambda self, name: self.groups.pop(name, None))


PLANTED: dict[Any, Where] = {
    takes_settled_ones_again: Where(7, 200, (LOSE,), READING),
    forgets_a_row: Where(1, 200, (LOSE,), READING),
    settles_for_an_old_reader: Where(3, 200, (LOSE, CUT), READING),
    begins_anew: Where(1, 200, (LOSE,), READING),
}
"""With each bug where it shows soon; see `hunt`."""
