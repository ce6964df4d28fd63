"""Bugs put into nodes that use queues without holding them; the simulator has to find them."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import CUT, KILL, LOSE, PARTITION, ROT
from tests.sim.planted import Undo, Where, replace
from warren.log.batch import KIND_COMMAND
from warren.queues import polls, quorum
from warren.replication import member, observer, observing
from warren.replication import observing_frames as said
from warren.replication.raft_entries import closed_sessions

OBSERVED: dict[str, Any] = {
    "quorum_queues": 1,
    "classic_queues": 0,
    "transient_queue": False,
    "volatile": False,
    "size": 3,
    "group_size": 1,
    "clients": 3,
    "gap_us": 2_000,
}
"""Two of three nodes hold nothing of the queue."""
FAR: dict[str, Any] = {
    "quorum_queues": 1,
    "classic_queues": 0,
    "groups": False,
    "purges": False,
    "size": 4,
    "group_size": 3,
    "tables_voters": 3,
    "aims": True,
    "far_share": 0.9,
    "cache_bytes": 2_048,
    "wal_max_bytes": 8_192,
    "prefetches": (20,),
    "clients": 3,
    "gap_us": 2_000,
    "small_bytes": 400,
    "burst": 10,
}
"""A bit flips in what clients of a node that holds nothing get next."""
SPREAD = OBSERVED | {"size": 5, "group_size": 3}
POLLED = OBSERVED | {"wal_max_bytes": 8_192, "small_bytes": 400, "burst": 10}


def stays_with_the_lost() -> Undo:
    """An observer takes the silence of a member that it cannot hear for the end."""

    def tick(self: Any, now_ms: int) -> bool:
        self._heard = True
        self._heard_ms = now_ms
        self._leaderless_ms = -1
        return bool(ticked(self, now_ms))

    ticked = observer.Observer.tick
    lost = replace(observer.Observer, "lost", lambda *_: None)
    stuck = replace(observer.Observer, "_is_stuck", lambda *_: False)
    ticks = replace(observer.Observer, "tick", tick)
    linked = replace(observer.Observer, "linked", lambda *_: None)

    def undo() -> None:
        for each in (lost, stuck, ticks, linked):
            each()

    return undo


def applies_again() -> Undo:
    """An observer goes on with another member from an entry that it has applied."""

    def observe(self: Any, node: str) -> bool:
        if self.serving != node and self.applied_index > 1:
            self.applied_index -= 1
            self._applied_term = 0
        return bool(original(self, node))

    original = observer.Observer._observe
    go_together = replace(
        observing.Observing, "_go_together", lambda _, __, watcher: watcher.next_index > 0
    )
    check = replace(observer.Observer, "_check", lambda *_: None)
    observes = replace(observer.Observer, "_observe", observe)

    def undo() -> None:
        for each in (go_together, check, observes):
            each()

    return undo


def shows_another_body() -> Undo:
    """Messages that were read are handed out from where the ones before them were."""

    def read(self: Any, first: int, last: int, max_bytes: int, reader: Any) -> None:
        original(self, max(first - 1, 0), last, max_bytes, reader)

    def cached(self: Any, number: int) -> Any:
        batch = found(self, number)
        if batch is not None and batch.count > 1:
            batch.first += 1
        return batch

    found = observer.Observer.cached
    original = observer.Observer.read
    undone = (
        replace(observer.Observer, "read", read),
        replace(observer.Observer, "cached", cached),
    )

    def undo() -> None:
        for each in undone:
            each()

    return undo


def offers_once() -> Undo:
    """An observer counts on it that what it has offered arrives, and that a new leader has it."""

    def take(self: Any, feed: Any) -> None:
        if self.leader and feed.leader:
            self.leader, self.term = feed.leader, feed.term
        original(self, feed)

    original = observer.Observer._take
    undone = (
        replace(observer.Observer, "_take", take),
        replace(observer.Observer, "_offer_all", observer.Observer._offer),
        replace(observer.Observer, "_is_stuck", lambda *_: False),
    )

    def undo() -> None:
        for each in undone:
            each()

    return undo


def wrong_count() -> Undo:
    """A member says of an entry that it brought one message more than it did."""

    def write(writer: Any, batch: Any) -> None:
        before = len(writer)
        original(writer, batch)
        if batch.count > 1:
            writer[before + 48] = (batch.count + 1) & 0xFF

    original = said.write_entry
    return replace(said, "write_entry", write)


def keeps_its_session() -> Undo:
    """An observer goes on in a session that the others have closed."""

    def apply(self: Any, batch: Any) -> None:
        closed = closed_sessions(batch)
        if self.proposals.session in closed:
            self.machine.sessions_closed(closed, batch.stamp_ms, False)
        else:
            original(self, batch)

    original = observer.Observer._apply_own
    return replace(observer.Observer, "_apply_own", apply)


def skips_an_entry() -> Undo:
    """An observer passes over every tenth entry, if it is a command of another node."""

    def apply(self: Any, batch: Any, origin: Any) -> None:
        observes = isinstance(self.group, observer.Observer)
        if not observes or origin is not None or batch.index % 10 or batch.kind != KIND_COMMAND:
            original(self, batch, origin)

    original = quorum.QuorumQueue.apply
    return replace(quorum.QuorumQueue, "apply", apply)


def counts_no_bytes() -> Undo:
    """An observer takes messages that it gets without their bodies for empty ones."""

    def apply(self: Any, batch: Any) -> None:
        if batch.count > 0:
            batch.payload_size = 0
        original(self, batch)

    original = observer.Observer._apply
    return replace(observer.Observer, "_apply", apply)


def reads_past_damage() -> Undo:
    """A member that cannot read the first message asked for sends those behind it."""
    return replace(observing.BodiesFetch, "_lacks_first", lambda *_: False)


def states_only() -> Undo:
    """No bug: what members have written they send as states, so that observers miss answers."""

    def fetch(self: Any, member: Any, node: str, watcher: Any, applied: int) -> bool:
        watcher.next_index = 0
        return True

    undone = (
        replace(member.Member, "keep_recent", lambda self: self.log.keep_recent(0)),
        replace(observing.Observing, "_fetch_entries", fetch),
    )

    def undo() -> None:
        for each in undone:
            each()

    return undo


def forgets_what_polls_were_given() -> Undo:
    """A poll whose answer a state has swallowed is answered with what its channel has."""
    undone = (states_only(), replace(polls.Polls, "given", lambda *_: None))

    def undo() -> None:
        for each in undone:
            each()

    return undo


def finds_no_answers() -> Undo:
    """A poll whose answer a state has swallowed is told that there was nothing."""
    undone = (states_only(), replace(polls.Polls, "_news", lambda *_: None))

    def undo() -> None:
        for each in undone:
            each()

    return undo


PLANTED: dict[Any, Where] = {
    stays_with_the_lost: Where(4, 200, (KILL, CUT), SPREAD),
    applies_again: Where(4, 200, (KILL, CUT), SPREAD),
    shows_another_body: Where(1, 100, (CUT,), OBSERVED),
    reads_past_damage: Where(3, 300, (ROT, LOSE), FAR),
    offers_once: Where(3, 100, (CUT,), OBSERVED),
    wrong_count: Where(1, 100, (CUT,), OBSERVED),
    skips_an_entry: Where(1, 100, (CUT,), OBSERVED),
    counts_no_bytes: Where(1, 100, (CUT,), OBSERVED),
    forgets_what_polls_were_given: Where(56, 200, (CUT,), POLLED),
    finds_no_answers: Where(56, 200, (CUT,), POLLED),
    keeps_its_session: Where(171, 200, (CUT, PARTITION), OBSERVED),
}
"""With each bug where it shows soon; see `hunt`."""
