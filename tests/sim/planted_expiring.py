"""Bugs put on purpose into queues that expire, that reject to an exchange, or go by priorities."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import KILL, LOSE
from tests.sim.planted import Undo, Where, replace
from tests.sim.planted_features import QUORUM
from warren.queues.dead_letters import DeadLettering
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.ready import Ready
from warren.queues.fifo_queue import FifoQueue
from warren.queues.minding import Minding

IDLE: dict[str, Any] = QUORUM | {"expires_ms": 600, "clients": 1}
SPILLING: dict[str, Any] = QUORUM | {"spills": "quorum", "spills_most": 1, "clients": 1}


def consumers_use_nothing() -> Undo:
    """A quorum queue goes although somebody consumes it."""

    def unused_since(self: Any) -> Any:
        consumers, self.consumers = self.consumers, {}
        try:
            return original(self)
        finally:
            self.consumers = consumers

    original = Fifo.unused_since
    return replace(Fifo, "unused_since", unused_since)


def used_ones_go() -> Undo:
    """A classic queue goes although somebody consumes it."""

    def due(self: Any, now_ms: int) -> None:
        links, self.links = self.links, {}
        try:
            original(self, now_ms)
        finally:
            self.links = links

    original = FifoQueue.due
    return replace(FifoQueue, "due", due)


def goes_early() -> Undo:
    """A quorum queue goes when half of its time is over."""

    def left_ms(self: Any, queue: Any) -> int:
        return int(original(self, queue)) - max(0, queue.fifo.config.expires_ms // 2)

    original = Minding._left_ms
    return replace(Minding, "_left_ms", left_ms)


def stays() -> Undo:
    """A quorum queue stays, however long nobody uses it."""
    return replace(Minding, "is_unused", lambda self, queue: False)


def queued_and_rejected() -> Undo:
    """What a full queue rejects to its exchange is queued as well."""

    def reject(self: Any, publish: Any, count: int) -> None:
        if not self.rejects_to_exchange:
            original(self, publish, count)
            return
        records, lengths = publish.records_of(count)
        self.dead_lettering.add_rejected(records, lengths, count, publish.flavour)
        self.take_in(publish, count)
        self._seal_messages()

    original = FifoQueue._reject
    return replace(FifoQueue, "_reject", reject)


def rejected_twice() -> Undo:
    """What a full queue rejects goes to its exchange twice."""

    def add_rejected(self: Any, *rejected: Any) -> None:
        original(self, *rejected)
        original(self, *rejected)

    original = DeadLettering.add_rejected
    return replace(DeadLettering, "add_rejected", add_rejected)


def rejected_nowhere() -> Undo:
    """What a full queue rejects goes nowhere."""
    return replace(DeadLettering, "add_rejected", lambda self, *rejected: None)


def lower_first() -> Undo:
    """Where the highest priority is to go first always, the lowest does."""

    def rank(self: Any, classic: bool, fair: bool, base: int) -> None:
        original(self, classic, fair, base if classic or fair else ~base)

    original = Ready.rank
    return replace(Ready, "rank", rank)


RANKED: dict[str, Any] = QUORUM | {"priorities": (0, 3, 5, 9), "retry_ms": 0, "fanout": False}

PLANTED: dict[Any, Where] = {
    lower_first: Where(35, 200, (LOSE,), RANKED | {"strict": True, "window": 500}),
    consumers_use_nothing: Where(1, 150, (LOSE,), IDLE | {"expiring": "quorum"}),
    used_ones_go: Where(1, 150, (LOSE,), IDLE | {"expiring": "classic"}),
    goes_early: Where(1, 150, (LOSE, KILL), IDLE | {"expiring": "quorum", "expires_ms": 2_000}),
    stays: Where(1, 150, (LOSE,), IDLE | {"expiring": "quorum"}),
    queued_and_rejected: Where(1, 150, (LOSE,), SPILLING),
    rejected_twice: Where(1, 150, (LOSE,), SPILLING),
    rejected_nowhere: Where(1, 150, (LOSE,), SPILLING),
}
"""With each bug where it shows soon; see `hunt`."""
