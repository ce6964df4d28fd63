"""Who of this node's clients holds what a quorum queue has handed out, and for how long they may.

What is held for too long returns by an entry of the leader's (`minding`), and the machine says of
whom. The channel that held it is told once. A node that takes over a state has not seen who it was:
that is found out from what it had before, and from what consumers hold now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.queues.fifo.consumers import TIMED_OUT, Consumer
from warren.queues.fifo.effects import TimedOut
from warren.queues.links import Holder
from warren.queues.polls import gave_up_to

if TYPE_CHECKING:
    from warren.queues.fifo_queue import FifoQueue


@final
class Owner:
    """Who has what a consumer holds.

    Attributes:
        timeout_ms: For how long it may hold a message; negative for ever.
        told: Whether it was told that it held some for too long.
    """

    def __init__(self, holder: Holder, timeout_ms: i64) -> None:
        self.holder: Holder = holder
        self.timeout_ms: i64 = timeout_ms
        self.told: bool = False


@final
class Holders:
    """The holders of one queue's messages on this node, by the consumers that got them."""

    def __init__(self) -> None:
        self._owners: dict[int, Owner] = {}
        self._timed_out: list[tuple[int, TimedOut]] = []
        """Who held messages for too long: clients of this node are told when the turn ends, each
        behind so many of the turn's deliveries."""
        self._missed: list[TimedOut] = []
        """Likewise, as far as only a state of this turn says so, which may turn out to be none."""

    def add(self, consumer_id: i64, holder: Holder, timeout_ms: i64) -> None:
        """Remember who has what is handed to a consumer, and for how long it may."""
        self._owners[consumer_id] = Owner(holder, timeout_ms)

    def remove(self, consumer_id: i64) -> None:
        """A consumer's channel is gone."""
        self._owners.pop(consumer_id, None)

    def timeout_ms(self, consumer_id: i64) -> i64:
        """For how long a consumer may hold a message; negative for ever."""
        owner = self._owners.get(consumer_id)
        return -1 if owner is None else owner.timeout_ms

    def take_all(self) -> dict[int, Owner]:
        """Everybody who is known, and is forgotten with that: all consumers get other ids."""
        owners = self._owners
        self._owners = {}
        return owners

    def known(self, consumers: dict[int, Consumer]) -> dict[int, Consumer]:
        """Those of some consumers who have a holder here."""
        found: dict[int, Consumer] = {}
        for consumer_id in self._owners:
            consumer = consumers.get(consumer_id)
            if consumer is not None:
                found[consumer_id] = consumer
        return found

    def timed_out(self, handed: int, timed_out: list[TimedOut]) -> None:
        """Consumers held messages for too long, behind so many of this turn's deliveries."""
        for one in timed_out:
            self._timed_out.append((handed, one))

    def any_timed_out(self) -> bool:
        """Whether an entry of this turn said so of some consumers."""
        return len(self._timed_out) > 0

    def take_timed_out(self) -> list[tuple[int, TimedOut]]:
        """These, each with the number of deliveries before it."""
        timed_out = self._timed_out
        self._timed_out = []
        return timed_out

    def any_missed(self) -> bool:
        """Whether a state said so of some."""
        return len(self._missed) > 0

    def take_missed(self) -> list[TimedOut]:
        """Those of whom only a state said so."""
        missed = self._missed
        self._missed = []
        return missed

    def tell(self, queue: FifoQueue, one: TimedOut) -> None:
        """Have a client of this node told what it held for too long, once for each consumer."""
        owner = self._owners.get(one.consumer_id)
        if owner is not None and not owner.told and not queue.deleted:
            owner.told = True
            owner.holder.held_too_long(queue, one.consumer_id, one.timeout_ms)

    def find_timed_out(self, queue: FifoQueue, before: dict[int, Consumer]) -> None:
        """Note of whom messages went back within a state.

        It says so of consumers, as long as they have not settled these and their session goes on.
        Pollers and cancelled consumers are forgotten with their last message: it only says what
        they hold.

        Args:
            before: The consumers as of what this node had last before it.
        """
        for consumer_id, owner in self._owners.items():
            if owner.told:
                continue
            now = queue.fifo.consumers.get(consumer_id)
            if now is not None and now.standing == TIMED_OUT and now.locks is not None:
                self._missed.append(TimedOut(now.id, now.locks.timeout_ms))
                continue
            was = before.get(consumer_id)
            if was is None or was.locks is None or was.held == 0:
                continue
            first = was.lowest()
            if consumer_id not in queue.links:
                behind = gave_up_to(was, now)
            elif now is None:
                # Its session was closed, so the state does not say; this node's clock does.
                behind = was.locks.due_behind(i64(queue.host.now_ms()), was.next_mid)
            else:
                continue
            if first < behind and owner.holder.holds(queue, consumer_id, first, behind - 1):
                self._missed.append(TimedOut(consumer_id, was.locks.timeout_ms))
