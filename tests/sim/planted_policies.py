"""Bugs put on purpose into what policies change of queues that are in use, for the simulator."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import CLOCK, CUT, KILL, LOSE, STOP
from tests.sim.planted import Undo, Where, replace
from tests.sim.planted_features import QUORUM
from warren.log.log_clock import LogClock
from warren.message.dead_letters import EXPIRED
from warren.metadata.policy_keys import BY_NAME, MAX
from warren.queue_types import CONSUMER_TIMEOUT
from warren.queues.fifo import applying, timeouts
from warren.queues.fifo.config import Config
from warren.queues.fifo.delayed import Retry
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.restoring import StateReader
from warren.queues.fifo.runs import Run
from warren.queues.fifo_queue import FifoQueue
from warren.queues.quorum import QuorumQueue

GOVERNED: dict[str, Any] = QUORUM | {"governed": "quorum", "clients": 1}
GOVERNED_CLASSIC = GOVERNED | {"governed": "classic", "wal_max_bytes": 8_192}
VARIED: dict[str, Any] = {"governed_varies": True}
"""With what came to be said later."""
STRICT: dict[str, Any] = {"delivery_limit": 0, "own_limit": False}
"""What fails once dies."""
UNCACHED: dict[str, Any] = {"cache_bytes": 64}
"""What dies is read from disk again."""
RANKED: dict[str, Any] = {
    "quorum_queues": 1,
    "classic_queues": 1,
    "groups": False,
    "purges": False,
    "renewed": [],
    "exclusive": False,
    "letters": "",
    "delays": "",
    "most": -1,
    "fanout": False,
    "priorities": (0, 3, 5, 9),
    "wal_max_bytes": 8_192,
    "window": 500,
}


def forgets_what_it_keeps() -> Undo:
    """Dead letters that are kept until they have arrived go when any setting changes."""

    def configure(self: Any, fields: bytes, at: int, end: int) -> None:
        original(self, fields, at, end)
        if self.discards.count > 0:
            self._drop_discards()

    original = Fifo.configure
    return replace(Fifo, "configure", configure)


def loses_what_is_under_way() -> Undo:
    """Dead letters at most once that are under way go when they are to arrive at least once."""

    def set_dead_letters(
        self: Any, exchange: str | None, key: str | None, kept: bool = False
    ) -> None:
        if kept and self.dead_lettering is not None:
            self.dead_lettering.forget()
        original(self, exchange, key, kept)

    original = QuorumQueue.set_dead_letters
    return replace(QuorumQueue, "set_dead_letters", set_dead_letters)


def forgets_priorities() -> Undo:
    """A classic queue that is restored from a snapshot has no priorities any more."""

    def begin(self: Any) -> int:
        version = original(self)
        self._fifo.config.max_priority = 0
        self._fifo.rank()
        return int(version)

    original = StateReader._begin
    return replace(StateReader, "_begin", begin)


def lives_change_nothing() -> Undo:
    """A time to live that a policy says later is not that of what comes from then on."""

    def change(self: Any, data: bytes, at: int, end: int, new: bool) -> None:
        ttl_ms = self.message_ttl_ms
        original(self, data, at, end, new)
        if not new:
            self.message_ttl_ms = ttl_ms

    original = Config.change
    return replace(Config, "change", change)


def lives_change_all() -> Undo:
    """A time to live that a policy says ends what was there before, too."""

    def configure(self: Any, fields: bytes, at: int, end: int) -> None:
        before = self.config.message_ttl_ms
        original(self, fields, at, end)
        if 0 <= self.config.message_ttl_ms != before:
            while self.ready.count > 0:
                head = self.ready.head()
                gone = Run(head.first, head.first, head.count, head.acquired, head.failed)
                self.ready.take(head.first, head.count)
                self._die([[gone]], gone.count, EXPIRED, 0)

    original = Fifo.configure
    return replace(Fifo, "configure", configure)


def one_more_by_policy() -> Undo:
    """A limit that changes by policy is one more in a machine that was restored."""

    def restored(self: Any) -> None:
        original(self)
        self.config.behind = True

    def set_limits(self: Any, limits: Any) -> None:
        sets(self, limits)
        if getattr(self, "behind", False) and self.max_length >= 0:
            self.max_length += 1

    original = Fifo.restored
    sets = Config.set_limits
    undone = (replace(Fifo, "restored", restored), replace(Config, "set_limits", set_limits))

    def undo() -> None:
        for each in undone:
            each()

    return undo


def one_less_in_the_log() -> Undo:
    """A limit that the log of a quorum queue changes is one less in members that were restored."""

    def restored(self: Any) -> None:
        original(self)
        self.config.behind = True

    def change(self: Any, data: bytes, at: int, end: int, new: bool) -> None:
        most = self.max_length
        changes(self, data, at, end, new)
        if getattr(self, "behind", False) and self.max_length > 0 and self.max_length != most:
            self.max_length -= 1

    original = Fifo.restored
    changes = Config.change
    undone = (replace(Fifo, "restored", restored), replace(Config, "change", change))

    def undo() -> None:
        for each in undone:
            each()

    return undo


def comes_again_early() -> Undo:
    """What is to wait before it comes again waits half of the time."""

    def due_ms(self: Any, since_ms: int, failed: int) -> int:
        return since_ms + (original(self, since_ms, failed) - since_ms) // 2

    original = Retry.due_ms
    return replace(Retry, "due_ms", due_ms)


def holds_for_the_longer() -> Undo:
    """Of the consumer timeouts of a policy and an argument the longer one counts."""
    return replace(BY_NAME[CONSUMER_TIMEOUT], "with_argument", MAX)


def fails_in_time() -> Undo:
    """A delivery that was held for too long counts as one that failed."""

    def time_out(fifo: Any) -> None:
        come_back = fifo.come_back
        fifo.come_back = lambda strands, failed, limit: come_back(strands, True, limit)
        try:
            original(fifo)
        finally:
            del fifo.come_back

    original = timeouts.time_out
    return replace(applying, "time_out", time_out)


def rejects_to_exchange_for_good() -> Undo:
    """What a full queue rejects goes to its exchange although the policy that said so is gone."""

    def set_rejects(self: Any, rejects_to_exchange: bool) -> None:
        original(self, rejects_to_exchange or self.rejects_to_exchange)

    original = FifoQueue.set_rejects_to_exchange
    return replace(FifoQueue, "set_rejects_to_exchange", set_rejects)


def stands_still_behind_a_jump() -> Undo:
    """Time does not go on in a log that a clock was ahead of, until the clock has caught up."""
    return replace(LogClock, "stamp", lambda self, newest_ms, now_ms: newest_ms)


PLANTED: dict[Any, Where] = {
    stands_still_behind_a_jump: Where(15, 100, (CLOCK,), GOVERNED_CLASSIC),
    forgets_what_it_keeps: Where(23, 100, (LOSE, CUT), GOVERNED),
    loses_what_is_under_way: Where(4, 100, (LOSE, CUT), GOVERNED | UNCACHED),
    forgets_priorities: Where(25, 200, (KILL, STOP), RANKED),
    lives_change_nothing: Where(5, 100, (LOSE,), GOVERNED),
    lives_change_all: Where(13, 100, (LOSE,), GOVERNED),
    one_more_by_policy: Where(5, 100, (KILL,), GOVERNED_CLASSIC),
    one_less_in_the_log: Where(1, 100, (KILL,), GOVERNED | {"wal_max_bytes": 8_192}),
    comes_again_early: Where(6, 100, (LOSE,), GOVERNED),
    holds_for_the_longer: Where(17, 100, (LOSE,), GOVERNED | VARIED),
    fails_in_time: Where(17, 100, (LOSE,), GOVERNED | VARIED | STRICT),
    rejects_to_exchange_for_good: Where(11, 100, (LOSE,), GOVERNED_CLASSIC | VARIED),
}
"""With each bug where it shows soon; see `hunt`."""
