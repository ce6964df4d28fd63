"""Bugs put on purpose into limits, priorities, times to live and routes, for the simulator."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import KILL, LOSE, POWER
from tests.sim.planted import Undo, Where, replace
from tests.sim.planted_dead_letters import LETTERS
from tests.sim.planted_features import QUORUM
from warren.message.dead_letters import EXPIRED, REJECTED
from warren.protocols.amqp091.replies import DirectReplies
from warren.protocols.amqp091.transactions import Transaction
from warren.queues.fifo import machine
from warren.queues.fifo.consumers import Consumer
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.restoring import StateReader
from warren.queues.fifo.sizes import Sizes
from warren.routing.router import Router
from warren.vhost.handle import VhostHandle

FULL = QUORUM | {"most": 6, "most_bytes": -1, "drops": True, "delays": "", "retry_ms": 0}
REJECTING = FULL | {"drops": False}


def expires_early() -> Undo:
    """A message expires in half of its time."""

    def enqueue(self: Any, messages: Any) -> None:
        messages.life_ms //= 2 if messages.life_ms > 0 else 1
        original(self, messages)

    original = Fifo.enqueue
    return replace(Fifo, "enqueue", enqueue)


def expires_by_arrival_elsewhere() -> Undo:
    """A message's time counts from the first entry of the queue, not from its own."""

    def add_each(self: Any, first: int, count: int, size: int, expires: int, rank: int) -> None:
        original(self, first, count, size, earlier(self, expires), rank)

    def add(self: Any, first: int, count: int, size: int, expires: int, *rank: int) -> None:
        first_of[id(self)] = min(first_of.get(id(self), expires), expires) if expires > 0 else 0
        plain(self, first, count, size, earlier(self, expires), *rank)

    def earlier(self: Any, expires: int) -> int:
        if expires <= 0:
            return expires
        known = first_of.get(id(self), 0)
        return known if 0 < known < expires else expires

    first_of: dict[int, int] = {}
    original = Sizes.add_each
    plain = Sizes.add
    undo, undo_too = replace(Sizes, "add_each", add_each), replace(Sizes, "add", add)

    def both() -> None:
        undo()
        undo_too()

    return both


def tells_another_reason() -> Undo:
    """What expired is said to have been rejected."""

    def die(self: Any, lists: Any, count: int, reason: int, failed: int) -> None:
        original(self, lists, count, REJECTED if reason == EXPIRED else reason, failed)

    original = Fifo._die
    return replace(Fifo, "_die", die)


def one_too_many() -> Undo:
    """A queue that drops its first messages keeps one more than it may."""

    def is_over(fifo: Any) -> bool:
        over = bool(original(fifo))
        held = fifo.ready.count + fifo.delayed.count
        return over and not (not fifo.config.rejects and held == fifo.config.max_length + 1)

    original = machine.is_over
    return replace(machine, "is_over", is_over)


def one_more_behind_a_snapshot() -> Undo:
    """A limit is one more in a machine that is restored."""

    def begin(self: Any) -> int:
        version = original(self)
        if self._fifo.config.max_length >= 0:
            self._fifo.config.max_length += 1
        return int(version)

    original = StateReader._begin
    return replace(StateReader, "_begin", begin)


def never_has_room_again() -> Undo:
    """A queue that was full once goes on telling publishers that it is."""

    def is_blocked(fifo: Any, overdue: bool) -> bool:
        return bool(fifo.blocked or original(fifo, overdue))

    original = machine.is_blocked
    return replace(machine, "is_blocked", is_blocked)


def returns_count_for_nothing() -> Undo:
    """What returned does not count for the limit."""

    def is_over(fifo: Any) -> bool:
        config = fifo.config
        fresh = fifo.ready.count - fifo.ready._returned.count
        if config.rejects or config.max_length < 0:
            return bool(original(fifo))
        return bool(fresh + fifo.delayed.count > config.max_length)

    original = machine.is_over
    return replace(machine, "is_over", is_over)


def purges_what_is_held() -> Undo:
    """A purge takes what consumers hold, too."""

    def purge(self: Any) -> int:
        for consumer in list(self.consumers.values()):
            self.settle(consumer.id, 0, consumer.next_mid)
        return int(original(self))

    original = Fifo.purge
    return replace(Fifo, "purge", purge)


def leads_nowhere() -> Undo:
    """What an exchange cannot route does not go to its alternate."""
    return replace(Router, "_alternate", lambda self, node: "")


def answers_somebody() -> Undo:
    """A direct reply goes to the channel that began to take them first."""

    def resolve(self: Any, exchange: str, key: str, mandatory: bool) -> Any:
        route = original(self, exchange, key, mandatory)
        if route.reply is not None and self._host.replies:
            route.reply = next(iter(self._host.replies.values()))
        return route

    original = VhostHandle.resolve
    return replace(VhostHandle, "resolve", resolve)


def answers_twice() -> Undo:
    """A direct reply comes twice."""

    def replied(self: Any, record: bytes) -> bool:
        original(self, record)
        return bool(original(self, record))

    original = DirectReplies.replied
    return replace(DirectReplies, "replied", replied)


def address_outlives_its_channel() -> Undo:
    """What is published to the address of a channel that is gone goes to the next of its number."""
    return replace(VhostHandle, "forget_reply", lambda self, address: None)


def favours_nobody() -> Undo:
    """A consumer's priority counts for nothing."""

    def init(self: Any, consumer_id: int, credit: int, priority: int) -> None:
        original(self, consumer_id, credit, 0)

    original = Consumer.__init__
    return replace(Consumer, "__init__", init)


def rolls_nothing_back() -> Undo:
    """What is rolled back is published all the same."""
    return replace(Transaction, "roll_back", Transaction.commit)


ROUTED = QUORUM | {"quorum_queues": 2, "fanout": True, "alternates": True, "most_bytes": -1}
TALKING = QUORUM | {"replies": True, "close_share": 0.05}
CLEARED = QUORUM | {"purges": True, "clear_share": 0.5, "most": -1, "letters": ""}
LIVING = LETTERS | {"letters_ttl_ms": 0, "letters_lives": (2_000,), "letters_most": -1}

PLANTED: dict[Any, Where] = {
    expires_early: Where(4, 200, (LOSE,), LIVING),
    expires_by_arrival_elsewhere: Where(3, 200, (LOSE,), LIVING),
    tells_another_reason: Where(1, 200, (LOSE,), LETTERS | {"letters_ttl_ms": 50}),
    one_too_many: Where(2, 200, (LOSE,), FULL),
    one_more_behind_a_snapshot: Where(1, 300, (KILL, POWER), FULL | {"wal_max_bytes": 8_192}),
    never_has_room_again: Where(2, 200, (LOSE,), REJECTING),
    returns_count_for_nothing: Where(2, 200, (LOSE,), FULL),
    purges_what_is_held: Where(1, 300, (LOSE,), CLEARED),
    rolls_nothing_back: Where(10, 300, (LOSE,), QUORUM),
    leads_nowhere: Where(3, 200, (LOSE,), ROUTED),
    answers_somebody: Where(1, 200, (LOSE,), TALKING),
    answers_twice: Where(1, 200, (LOSE,), TALKING),
    address_outlives_its_channel: Where(2, 300, (LOSE,), TALKING),
    favours_nobody: Where(1, 200, (LOSE,), TALKING),
}
"""With each bug where it shows soon; see `hunt`."""
