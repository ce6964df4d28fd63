"""What became of each message of a queue, as far as its log tells.

A queue's machine says where its live messages are. Of those that left, the entries behind the
newest snapshot say how, in a replicated queue's log; a classic queue's says only that they left.
What an entry does that is not known to be committed may or may not be so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from warren.log.batch import KIND_COMMAND, Batch
from warren.message.dead_letters import REASONS
from warren.node.replay import Witness
from warren.queues.fifo import commands
from warren.queues.fifo.effects import Effects
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.pieces import Piece, opened
from warren.queues.fifo.runs import as_run, merge_pairs, pairs_of

READY: Final = "ready"
"""It waits for a consumer."""
UNACKED: Final = "unacked"
"""A consumer or a group of readers holds it."""
DELAYED: Final = "delayed"
"""It waits for a time, before it is ready or goes on."""
DEAD_LETTERED: Final = "dead-lettered"
"""It died, and goes through the dead-letter exchange, or went."""
ACKED: Final = "acked"
"""It was settled."""
PURGED: Final = "purged"
"""It was ready when the queue was purged."""
DROPPED: Final = "dropped"
"""It left without anybody having settled it, and went nowhere."""
GONE: Final = "gone"
"""It left, and what is left of the log does not say how."""
UNKNOWN: Final = "unknown"
"""What became of it is not known here."""
DAMAGED: Final = "damaged"
"""It cannot be read."""

LIVE: Final = frozenset({READY, UNACKED, DELAYED, DEAD_LETTERED})
"""What a message may be that is in its queue."""

_LEAVES: Final = {
    commands.SETTLE: (ACKED, ""),
    commands.GROUP_SETTLE: (ACKED, ""),
    commands.PURGE: (PURGED, ""),
    commands.DISCARD: (DROPPED, "rejected"),
    commands.REJECT: (DROPPED, "rejected"),
    commands.DELIVERED: (DEAD_LETTERED, "it is elsewhere"),
    commands.FREE: (DROPPED, "no file had it"),
    commands.RETURN: (DROPPED, "delivery_limit"),
    commands.DOWN: (DROPPED, "delivery_limit"),
    commands.TIME_OUT: (DROPPED, "delivery_limit"),
    commands.CONFIG: (DROPPED, "its queue keeps dead letters no more"),
}
"""How messages leave a queue by a command, where they do."""


@dataclass(frozen=True, slots=True)
class MessageRun:
    """Messages with consecutive numbers of which the same is known.

    Attributes:
        first, last: Their numbers, both included.
        state: One of the constants above.
        reason: What else is known of it, in words; may be empty.
        acquired: How often each of them came back to the queue.
        failed: How often a delivery of each failed.
    """

    first: int
    last: int
    state: str
    reason: str = ""
    acquired: int = 0
    failed: int = 0


def live_runs(fifo: Fifo) -> list[MessageRun]:
    """All messages that are in a queue, in the order of their numbers."""
    runs = [
        MessageRun(first, last, READY, "", acquired, failed)
        for first, last, acquired, failed in fifo.ready.quadruples()
    ]
    runs += _runs(fifo.coming.lists(), READY, "on its way back")
    runs += _runs(fifo.delayed.freeze(), DELAYED, "it came back")
    schedule = fifo.schedule.frozen()
    for at in range(schedule.size):
        first = int(schedule.first(at))
        last = first + int(schedule.count(at)) - 1
        runs.append(MessageRun(first, last, DELAYED, "its time has not come"))
    for reason, lists in zip(REASONS, fifo.discards.by_reason(), strict=True):
        runs += _runs(lists, DEAD_LETTERED, reason)
    for consumer in fifo.consumers.values():
        how = "a consumer has it for good" if consumer.automatic else "a consumer has it"
        runs += _runs(consumer.freeze(), UNACKED, how)
    for group in fifo.groups.values():
        for checkout in group.open:
            how = f"group {group.name} has it in checkout {checkout.number}"
            runs += _runs(checkout.messages.freeze(), UNACKED, how)
    return sorted(runs, key=lambda run: run.first)


def _runs(lists: Iterable[list[Piece]], state: str, reason: str) -> Iterator[MessageRun]:
    for pieces in lists:
        for piece in opened(pieces):
            run = as_run(piece)
            last = int(run.first + run.count - 1)
            yield MessageRun(
                int(run.first), last, state, reason, int(run.acquired), int(run.failed)
            )


def pairs(runs: Iterable[MessageRun]) -> list[tuple[int, int]]:
    """The numbers in some runs, ascending and merged."""
    return merge_pairs([(run.first, run.last) for run in runs])


def without(runs: Iterable[MessageRun], taken: list[tuple[int, int]]) -> list[MessageRun]:
    """What is left of ascending runs when numbers are taken out.

    Args:
        taken: Ascending pairs of the first and the last number.
    """
    left: list[MessageRun] = []
    at = 0
    for run in runs:
        first = run.first
        while at < len(taken) and taken[at][1] < first:
            at += 1
        place = at
        while place < len(taken) and taken[place][0] <= run.last:
            low, high = taken[place]
            if first < low:
                left.append(replace(run, first=first, last=low - 1))
            first = high + 1
            place += 1
        if first <= run.last:
            left.append(replace(run, first=first))
    return left


def in_doubt(before: list[MessageRun], after: list[MessageRun]) -> list[MessageRun]:
    """All messages of a queue whose last entries are not known to be committed.

    Args:
        before: What is there without those entries.
        after: What is there with them.
    """
    settled = without(before, pairs(after))
    published = without(after, pairs(before))
    doubts = [
        replace(run, state=UNKNOWN, reason="it leaves by an entry that may not be committed")
        for run in settled
    ]
    doubts += [
        replace(run, state=UNKNOWN, reason="it came with an entry that may not be committed")
        for run in published
    ]
    return sorted(without(before, pairs(doubts)) + doubts, key=lambda run: run.first)


class LeavingWitness(Witness):
    """Notes which messages left replicated queues, and how.

    Attributes:
        left: By group, in the order in which they left.
    """

    def __init__(self) -> None:
        self.left: dict[int, list[MessageRun]] = {}

    def applied(self, batch: Batch, commanded: Effects, dispatched: Effects) -> None:
        """Note what left with an entry."""
        if commanded.freed or commanded.dead:
            self._note(batch, commanded, *_how(batch))
        if dispatched.freed or dispatched.dead:
            self._note(batch, dispatched, DROPPED, "expired, no room, or delivery_limit")

    def _note(self, batch: Batch, effects: Effects, state: str, reason: str) -> None:
        left = self.left.setdefault(int(batch.group_id), [])
        dead: list[tuple[int, int]] = []
        for death in effects.dead or []:
            for pieces in death.lists:
                for first, last in pairs_of(pieces):
                    dead.append((first, last))
                    left.append(MessageRun(first, last, DEAD_LETTERED, REASONS[death.reason]))
        freed = [
            MessageRun(first, last, state, reason)
            for pieces in effects.freed
            for first, last in pairs_of(pieces)
        ]
        freed.sort(key=lambda run: run.first)
        left += without(freed, merge_pairs(dead))


def _how(batch: Batch) -> tuple[str, str]:
    """How messages leave by an entry's commands; where these differ, it is one of those ways."""
    if batch.kind != KIND_COMMAND or batch.session < 0:
        return GONE, "its consumer was gone"
    payload = batch.body()
    ways: set[tuple[str, str]] = set()
    at, end = 0, len(payload)
    while 0 <= at < end:
        way = _LEAVES.get(payload[at])
        if way is not None:
            ways.add(way)
        at = int(commands.command_end(payload, at, end))
    if len(ways) == 1:
        return ways.pop()
    return GONE, " or ".join(sorted(f"{state} {why}".strip() for state, why in ways))
