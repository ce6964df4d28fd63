"""Bugs put into what only some queues have, to show that the simulator finds them."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import CUT, KILL, LOSE
from tests.sim.planted import Undo, Where, replace
from tests.sim.planted_dead_letters import LETTERS
from tests.sim.planted_observers import OBSERVED
from warren.message.dead_letters import EXPIRED
from warren.queues import quorum
from warren.queues.acquires import Acquires
from warren.queues.fifo.consumers import SERVED, WAITING
from warren.queues.fifo.effects import AcquireReply
from warren.queues.fifo.locks import Locks
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.parts import TURN, Parts
from warren.queues.fifo.single import SingleActive
from warren.queues.holders import Holders
from warren.replication.proposals import Load

QUORUM: dict[str, Any] = {
    "quorum_queues": 1,
    "classic_queues": 0,
    "groups": False,
    "renewed": [],
    "exclusive": False,
    "letters": "",
    "most": -1,
    "most_bytes": -1,
    "clients": 3,
    "gap_us": 2_000,
}
TIMED = QUORUM | {"timeout_ms": 200, "prefetches": (3, 20), "settlings": {"ack": 1}}
STATES: dict[str, Any] = {"recent_bytes": 500, "feed_reads": 0}
"""What observers miss they get as states."""
READERS = OBSERVED | STATES | {"groups": True, "reader_weight": 12, "renewed": []}


def untold() -> Undo:
    """Nobody is told that messages went back which were held for too long."""

    return replace(Holders, "tell", lambda *_: None)


def untold_by_states() -> Undo:
    """Nobody is told that where a state brings it."""
    return replace(quorum.QuorumQueue, "_find_timed_out", lambda *_: None)


def too_early() -> Undo:
    """Messages go back in an eighth of the time that they may be held."""

    def init(self: Any, timeout_ms: int) -> None:
        original(self, timeout_ms // 8)

    original = Locks.__init__
    return replace(Locks, "__init__", init)


def several_active() -> Undo:
    """A queue that is to serve one consumer at a time serves all that come."""

    def choose(self: Any, consumers: Any, service: Any) -> None:
        original(self, consumers, service)
        for consumer in consumers.values():
            if consumer.standing == WAITING and consumer.active:
                consumer.standing = SERVED
                service.wake(consumer)

    original = SingleActive.choose
    return replace(SingleActive, "choose", choose)


def forgets_whose_turn() -> Undo:
    """A snapshot does not say how many messages of the higher level have gone."""

    def add(self: Any, tag: int, data: bytes) -> None:
        if tag != TURN:
            original(self, tag, data)

    original = Parts._add
    return replace(Parts, "_add", add)


def expired_are_lost() -> Undo:
    """What expires is not kept until it is elsewhere."""

    def die(self: Any, lists: Any, count: int, reason: int, failed: int) -> None:
        if reason == EXPIRED:
            self.leave(lists, count)
        else:
            original(self, lists, count, reason, failed)

    original = Fifo._die
    return replace(Fifo, "_die", die)


def shares_an_epoch() -> Undo:
    """A reader whose acquire a state has swallowed goes on with whatever epoch that has."""

    def answer_missed(self: Any, fifo: Any) -> None:
        missed, self._missed = self._missed, []
        for acquire in missed:
            known = fifo.groups.get(acquire.group)
            if known is None:
                acquire.waiter.missed()
            else:
                acquire.waiter.succeeded(AcquireReply(known.epoch, known.settled))

    return replace(Acquires, "answer_missed", answer_missed)


def one_account() -> Undo:
    """What groups without a leader keep holds up publishers to all others, too."""
    more, less = Load.more, Load.less
    undo_more = replace(Load, "more", lambda load, size, led: more(load, size, True))
    undo_less = replace(Load, "less", lambda load, size, led: less(load, size, True))

    def undo() -> None:
        undo_more()
        undo_less()

    return undo


PLANTED: dict[Any, Where] = {
    one_account: Where(1, 60, (LOSE,), QUORUM | {"strands": True, "clients": 1}),
    untold: Where(1, 200, (LOSE,), TIMED),
    untold_by_states: Where(5, 300, (CUT, LOSE), TIMED | STATES | {"group_size": 1, "size": 3}),
    too_early: Where(1, 200, (LOSE,), TIMED | {"timeout_ms": 3_000}),
    several_active: Where(4, 200, (LOSE,), QUORUM | {"single_active": True, "timeout_ms": 0}),
    forgets_whose_turn: Where(
        17, 300, (KILL, CUT), QUORUM | STATES | {"priorities": (0, 9), "wal_max_bytes": 8_192}
    ),
    expired_are_lost: Where(1, 200, (LOSE, CUT), LETTERS | {"letters_ttl_ms": 50}),
    shares_an_epoch: Where(10, 300, (CUT,), READERS),
}
"""With each bug where it shows soon; see `hunt`."""
