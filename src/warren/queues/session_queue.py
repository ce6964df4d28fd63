"""Queues whose machine runs on several nodes, as the clients of one of them use it.

Consumers are named after the session of their node, so that every machine knows whose they are and
each node serves its own. Once a session is over its consumers are attached anew, in the next one.
What clients have seen, and what they asked for, is remembered here: entries may be applied again
after a start, and a leader's state may take the place of entries that would have said more.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.ids import NUMBER_MAX, consumer_of, number_of_consumer, session_of_consumer
from warren.log.source import MessageSource
from warren.pending import PendingReply, PendingRequest
from warren.queue_types import QueueType
from warren.queues.acquires import Acquire, Acquires
from warren.queues.fifo import commands
from warren.queues.fifo.consumers import Limiter
from warren.queues.fifo.effects import Delivery, Effects
from warren.queues.fifo.machine import Fifo
from warren.queues.holders import Holders
from warren.queues.links import Holder, Link
from warren.queues.numbers import Numbers
from warren.queues.polls import Poll, Polls
from warren.queues.queue import Host
from warren.queues.table_queue import TableQueue
from warren.queues.waiting import Applied, Purge
from warren.replication.machine import Proposer

PREFETCH_UNLIMITED: Final = 2_000
"""Messages in flight to a consumer without a prefetch limit, as RabbitMQ has it (2.4)."""


class SessionQueue(TableQueue):
    """The clients that one node has of such a queue.

    Attributes:
        group: The way into the queue's log; None before it has one.
        numbers: Of this node's consumers in its present session, behind which they stand in ids.
        holders: Who of this node's clients has what it handed out.
    """

    def __init__(
        self,
        host: Host,
        vhost: str,
        name: str,
        queue_type: QueueType,
        fifo: Fifo,
        messages: MessageSource,
        group_id: i64,
    ) -> None:
        super().__init__(host, vhost, name, queue_type, fifo, messages, group_id)
        self.group: Proposer | None = None
        self.numbers: Numbers = Numbers(NUMBER_MAX)
        self.holders: Holders = Holders()
        self._handed: dict[int, Handed] = {}
        """How far each consumer of this node is whose channel is there.

        Those that are cancelled are among them: the log may be applied anew.
        """
        self._terms: dict[int, tuple[int, int, bool]] | None = None
        """Credit, priority and whether acks are automatic, of each consumer of this node."""
        self._polls: Polls = Polls()
        self._purged: i64 = 0
        """What purges of this session had taken when the machine last got a state."""
        self._acquires: Acquires | None = None
        """Of a queue that has had readers."""

    def proposer(self) -> Proposer:
        """The way into the queue's log."""
        group = self.group
        assert group is not None, "a quorum queue has its group before it is used"
        return group

    def log_ms(self) -> i64:
        """The time of the newest entry; if this node leads, that of the next one."""
        now_ms: i64 = self.fifo.now_ms
        group = self.group
        if group is not None and group.leads():
            return max(now_ms, group.stamp_ms())
        return now_ms

    def _session(self) -> i64:
        return 0 if self.group is None else self.group.session()

    # --- consumers ------------------------------------------------------------------------------

    def unlimited_credit(self) -> i64:
        """A bound stands in for no bound, so that the machine never hands out a whole backlog."""
        return PREFETCH_UNLIMITED

    def new_consumer(self) -> i64:
        """An id that names this node's session, so that all members know whose consumer it is."""
        return consumer_of(self._session(), self.numbers.take())

    def current(self, consumer_id: i64) -> bool:
        """Whether this node's session is still the one that a consumer is named after."""
        return session_of_consumer(consumer_id) == self._session()

    def subscribe(
        self,
        link: Link,
        consumer_id: i64,
        credit: i64,
        priority: i64,
        limiter: Limiter | None,
        waiter: PendingReply,
        automatic: bool = False,
    ) -> None:
        """Attach a consumer, and remember how."""
        if self._terms is None:
            self._terms = {}
        self._handed[consumer_id] = Handed()
        self._terms[consumer_id] = (credit, priority, automatic)
        super().subscribe(link, consumer_id, credit, priority, limiter, waiter, automatic)

    def held_by(self, consumer_id: i64, holder: Holder, timeout_ms: i64) -> None:
        """Remember who has what is handed to a consumer, and for how long it may."""
        self.holders.add(consumer_id, holder, timeout_ms)

    def down(self, consumer_id: i64) -> None:
        """A consumer's channel is gone, so that its number may be given again."""
        super().down(consumer_id)
        self._handed.pop(consumer_id, None)
        self.holders.remove(consumer_id)
        self._polls.forget(consumer_id)
        if self.current(consumer_id):
            self.numbers.give_back(number_of_consumer(consumer_id))

    def pause(self, consumer_id: i64) -> None:
        """Go on: what a consumer is handed is for all members to say, and its link keeps it."""

    def consumer_count(self) -> i64:
        """Consumers in the machine, but for those that wait until they are the active one.

        One that was cancelled counts until it has settled all. Clients are told so, as RabbitMQ
        tells them of quorum queues; operators are told of all.
        """
        single = self.fifo.single
        waiting = 0 if single is None else single.count_waiting(self.fifo.consumers)
        return len(self.fifo.consumers) - waiting

    def _attached_count(self) -> i64:
        """Consumers in the machine, whether they are served or wait."""
        return len(self.fifo.consumers)

    def _has_consumers(self) -> bool:
        """Whether the machine knows of a consumer in this node's session."""
        session = self._session()
        for consumer_id in self.fifo.consumers:
            if session_of_consumer(consumer_id) == session:
                return True
        return False

    def _attach_anew(self) -> None:
        """Attach the consumers of this node in its next session.

        Late settles for the old ones do nothing.
        """
        links = self.links
        terms = self._terms
        self.links = {}
        self._handed = {}
        self._terms = {}
        self._automatic = {}
        owners = self.holders.take_all()
        self._polls.clear()
        self._purged = 0
        self.numbers.clear()
        for consumer_id, link in links.items():
            assert terms is not None, "each link has its terms"
            credit, priority, automatic = terms[consumer_id]
            renewed = self.new_consumer()
            self.links[renewed] = link
            self._handed[renewed] = Handed()
            self._terms[renewed] = (credit, priority, automatic)
            if automatic:
                self._automatic[renewed] = True
            owner = owners.get(consumer_id)
            if owner is not None:
                self.holders.add(renewed, owner.holder, owner.timeout_ms)
            link.renumbered(renewed)
            allowed = credit if credit > 0 else int(PREFETCH_UNLIMITED)
            self._write_attach(renewed, allowed, priority, automatic)
            # The log has who consumes before anything is handed out, see `sessions_served`.
            self._ask(Applied())

    def _write_attach(self, consumer_id: i64, credit: i64, priority: i64, automatic: bool) -> None:
        """Write the command that a consumer arrives; with automatic acks it holds nothing."""
        timeout_ms = self.holders.timeout_ms(consumer_id)
        if timeout_ms < 0 or automatic:
            super()._write_attach(consumer_id, credit, priority, automatic)
        else:
            commands.attach_timed(self._writer(), consumer_id, credit, priority, timeout_ms)

    def close(self) -> None:
        """The queue was deleted: nobody holds anything of it any more."""
        super().close()
        # Channels remember where their last message went, and with it the queue.
        self.holders.take_all()

    def _unlink(self, consumer_id: i64) -> None:
        if self._terms is not None:
            self._terms.pop(consumer_id, None)
        super()._unlink(consumer_id)

    # --- answers --------------------------------------------------------------------------------

    def get(self, consumer_id: i64, waiter: PendingRequest) -> None:
        """Ask for one message; a `PollReply` has it, or none."""
        super().get(consumer_id, Poll(self._polls, consumer_id, waiter))

    def pick(self, consumer_id: i64, number: i64, waiter: PendingRequest) -> None:
        """Ask for one message by its number; a `PollReply` has it, or none if it is not ready."""
        super().pick(consumer_id, number, Poll(self._polls, consumer_id, waiter))

    def _write_get(self, consumer_id: i64) -> None:
        """Write the command that one message is wanted, to be held for so long."""
        timeout_ms = self._hold_ms(consumer_id)
        if timeout_ms < 0:
            super()._write_get(consumer_id)
        else:
            commands.get_timed(self._writer(), consumer_id, timeout_ms)

    def _hold_ms(self, consumer_id: i64) -> i64:
        """How long a channel that polls may hold a message; negative for any time."""
        return self.holders.timeout_ms(consumer_id)

    def purge(self, waiter: PendingReply) -> None:
        """Drop all ready messages; a `PurgeReply` says how many."""
        super().purge(Purge(self, waiter))

    def purged(self) -> i64:
        """How many messages purges took that were applied within a state; -1 if it does not say.

        Of several purges the first is told of all.
        """
        total = self.fifo.purged.get(int(self._session()), -1)
        if total < 0:
            return -1
        before = self._purged
        self._purged = total
        return total - before

    def acquire(self, group: str, lease_ms: i64, kept: bool, waiter: PendingReply) -> None:
        """Have a reader take a group over; the reply has its epoch and its newest lease."""
        if self._acquires is None:
            self._acquires = Acquires()
        super().acquire(group, lease_ms, kept, Acquire(self._acquires, group, waiter))

    # --- deliveries -----------------------------------------------------------------------------

    def act(self, effects: Effects) -> None:
        """Do what comes of an entry."""
        if effects.timed_out:
            self.holders.timed_out(self.delivery_count(), effects.timed_out)
        super().act(effects)

    def _hand_on_all(self) -> None:
        """Tell clients what the machine did, in its order.

        A channel hears that it held something for too long before it is given the same again.
        """
        deliveries = self.deliveries or []
        self.deliveries = None
        timed_out = self.holders.take_timed_out()
        told = 0
        session = self._session()
        for at, delivery in enumerate(deliveries):
            while told < len(timed_out) and timed_out[told][0] <= at:
                self.holders.tell(self, timed_out[told][1])
                told += 1
            consumer_id = delivery.consumer.id
            if session_of_consumer(consumer_id) == session:
                self._hand_on(consumer_id, delivery)
        for _, one in timed_out[told:]:
            self.holders.tell(self, one)

    def _hand_on(self, consumer_id: i64, delivery: Delivery) -> None:
        handed = self._handed.get(consumer_id)
        if handed is None:
            # Its channel is gone: what it was handed returns with the entry that says so.
            return
        last = delivery.mid + delivery.count - 1
        # What the client has seen is not shown again when the log is applied anew.
        known = handed.behind - delivery.mid
        if known > 0:
            if known >= delivery.count:
                return
            delivery.mid += known
            delivery.first += known
            delivery.count -= known
        self.delivered += delivery.count
        if delivery.acquired > 0:
            self.redelivered += delivery.count
        handed.behind = last + 1
        link = self.links.get(consumer_id)
        if link is not None:
            link.delivered(delivery)
        elif not self.deleted:
            # Cancelled meanwhile: nobody will see these, so nobody can settle them.
            self.return_(consumer_id, delivery.mid, last, False)


@final
class Handed:
    """How far a consumer is: all its message ids below `behind` were handed to its channel."""

    def __init__(self) -> None:
        self.behind: i64 = 0
