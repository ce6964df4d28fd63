"""The base of queues with a FIFO machine on this node: it hands out what the machine says.

What differs between the types, when a message counts as enqueued and where its body stays, is in
`quorum`, `classic` and `transient`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.limits import DUE_COST
from warren.log.facts import PRIORITIES
from warren.log.log_clock import LogClock
from warren.message.flavours import AMQP091
from warren.pending import PendingReply, PendingRequest
from warren.queue_types import QueueType
from warren.queues.dead_letters import REJECTED_BYTES_MAX, DeadLettering
from warren.queues.fifo.consumers import TIMED_OUT, WAITING, Consumer, Limiter
from warren.queues.fifo.dead_letters import AT_MOST_ONCE, FORGOTTEN, Dead
from warren.queues.fifo.effects import Delivery, Effects, Reply
from warren.queues.fifo.live import Gathering
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.pieces import Piece
from warren.queues.fifo.sizes import NEVER
from warren.queues.fitting import Publish
from warren.queues.freed import Freed
from warren.queues.gathering import GatheringQueue
from warren.queues.publishing import PublishRun
from warren.queues.queue import Counts, Host

if TYPE_CHECKING:
    from warren.queues.feed import QueueFeed

USE_MS: Final = 1_000
"""A queue that expires is looked at again after this time at the earliest, while it is used."""


class FifoQueue(GatheringQueue):
    """A queue whose messages, consumers and groups of readers are kept by a `Fifo`.

    Attributes:
        fifo: The machine.
        deliveries: What it has handed out and is passed on when the turn ends, if there is such.
        freed: What has left it, where it reports that.
        dead_lettering: What died in it and is on its way elsewhere, if it has ever had such.
        rejects_to_exchange: Whether publishes that it rejects go through its dead-letter exchange.
    """

    def __init__(
        self, host: Host, vhost: str, name: str, queue_type: QueueType, fifo: Fifo
    ) -> None:
        super().__init__(host, vhost, name, queue_type)
        self.fifo: Fifo = fifo
        self.deliveries: list[Delivery] | None = None
        self.freed: Freed = Freed()
        self.dead_lettering: DeadLettering | None = None
        self.rejects_to_exchange: bool = False
        self._used_ms: i64 = 0
        """When a queue that may expire was last used, in monotonic time."""
        self._clock: LogClock | None = None
        """Of a queue of this node whose time a wall clock was behind."""

    def set_max_priority(self, max_priority: i64) -> None:
        """Have messages go by their priorities, from the queue's beginning on (CQ-08)."""
        if max_priority > 0 and not self.type.replicated:
            self._know(PRIORITIES, True)
            if self.fifo.next_message == 0:
                self.fifo.config.max_priority = max_priority
                self.fifo.rank()

    def set_single_active(self) -> None:
        """Have one consumer at a time be served; where several may be it is too late for that."""
        if self.fifo.single is None:
            self.fifo.serve_one()

    def admit(self, exclusive: bool) -> bool:
        """Let one more consumer come; none is exclusive where they take turns at being active."""
        if self.fifo.config.single_active:
            return not exclusive
        return super().admit(exclusive)

    def set_expires(self, expires_ms: i64) -> None:
        """Have the queue go when it is unused for so long; that counts from now on."""
        if expires_ms == self.expires_ms:
            return
        self.expires_ms = expires_ms
        if expires_ms >= 0:
            self._use()
            self.host.queue_later(self, expires_ms)

    def due(self, now_ms: i64) -> None:
        """Go if nobody has used the queue for long (DUR-08), and have messages expire."""
        if self.fifo.sizes.expiring > 0:
            self._mark()
        if self.expires_ms < 0:
            return
        if self.links or self.fifo.readers.any_open():
            self.host.queue_later(self, max(self.expires_ms, USE_MS))
            return
        left = self._used_ms + self.expires_ms - now_ms
        if left > 0:
            self.host.queue_later(self, left)
        else:
            self.host.queue_unused(self)

    def due_cost(self) -> i64:
        """What a call of `due` takes of a turn at most, with what it brings about."""
        fifo = self.fifo
        if not fifo.minds_time():
            return DUE_COST
        count = fifo.ready.count + fifo.delayed.count + fifo.schedule.count
        return DUE_COST + min(count, fifo.return_max)

    def is_overdue(self) -> bool:
        """Whether more messages have expired than one turn has leave."""
        return self.fifo.overdue()

    def _mind_expiry(self) -> None:
        """In a queue of this node, have the next messages expire when it is time."""
        expires_ms = self.fifo.next_expiry()
        if expires_ms != NEVER:
            self.host.queue_later(self, max(1, expires_ms - self.machine_ms()))

    def machine_ms(self) -> i64:
        """In a queue of this node, the time that its machine goes by; it never goes back."""
        wall_ms: i64 = self.host.now_ms()
        newest_ms = self.newest_ms()
        if wall_ms >= newest_ms:
            return wall_ms
        if self._clock is None:
            self._clock = LogClock()
        return self._clock.stamp(newest_ms, self.host.monotonic_ms())

    def newest_ms(self) -> i64:
        """The latest time that the machine, or a log of it, knows of."""
        return self.fifo.now_ms

    def _use(self) -> None:
        """Somebody uses the queue, or has used it until now."""
        if self.expires_ms >= 0:
            self._used_ms = self.host.monotonic_ms()

    def get(self, consumer_id: i64, waiter: PendingRequest) -> None:
        """Ask for one message; a `PollReply` has it, or none."""
        self._use()
        super().get(consumer_id, waiter)

    def pick(self, consumer_id: i64, number: i64, waiter: PendingRequest) -> None:
        """Ask for one message by its number; a `PollReply` has it, or none if it is not ready."""
        self._use()
        super().pick(consumer_id, number, waiter)

    def publish(
        self,
        records: bytes,
        lengths: bytes,
        count: i64,
        persistent: bool,
        run: PublishRun | None,
        flavour: i64 = AMQP091,
        life_ms: i64 = -1,
        noted: bool = False,
    ) -> None:
        """Gather message records, or reject those that there is no room for."""
        if self._may_reject(count):
            self._admit(Publish(records, lengths, count, persistent, run, flavour, life_ms, noted))
        else:
            super().publish(records, lengths, count, persistent, run, flavour, life_ms, noted)

    def _may_reject(self, count: i64) -> bool:
        """Whether there may be no room for so many messages more."""
        config = self.fifo.config
        if not config.rejects or not config.is_limited() or self.deleted:
            return False
        room = config.max_length - self.fifo.ready_count() - self._pending
        return config.max_bytes >= 0 or count > room

    def is_full(self) -> bool:
        """Whether one more message would be rejected for want of room."""
        config = self.fifo.config
        if not config.rejects or self.deleted:
            return False
        return (0 <= config.max_length <= self.fifo.ready_count()) or (
            0 <= config.max_bytes <= self.fifo.ready.bytes
        )

    def _admit(self, publish: Publish) -> None:
        """Take what there is room for now, behind all that came before, and reject the rest.

        What consumers wait for leaves room for more, so that it is looked at again behind it.
        """
        config = self.fifo.config
        if self._pending > 0:
            self._seal_messages()
        elif self._pending_commands:
            self._seal_commands(None)
        self.hand_out()
        while publish.left() > 0:
            ready = self.fifo.ready
            count = publish.fitting(config, self.fifo.ready_count(), ready.bytes, False, False)
            if count == 0:
                full = 0 <= config.max_length <= self.fifo.ready_count()
                self._reject(publish, publish.left() if full else 1)
            else:
                self.take_in(publish, count)
                self._seal_messages()
        publish.answered()

    def _reject(self, publish: Publish, count: i64) -> None:
        """Reject the next so many messages, which may be for another queue."""
        dead_lettering = self.dead_lettering
        if self.rejects_to_exchange and self._tells_deaths() and dead_lettering is not None:
            records, lengths = publish.records_of(count)
            dead_lettering.add_rejected(records, lengths, count, publish.flavour)
        publish.reject(count)

    def _rejected_too_much(self) -> bool:
        """Whether publishers wait for what was rejected and is on its way elsewhere."""
        dead_lettering = self.dead_lettering
        return dead_lettering is not None and dead_lettering.rejected_bytes > REJECTED_BYTES_MAX

    def take_in(self, publish: Publish, count: i64) -> None:
        """Take so many of the next messages of a publish."""
        records, lengths = publish.take(count)
        super().publish(
            records,
            lengths,
            count,
            publish.persistent,
            publish.run,
            publish.flavour,
            publish.life_ms,
            publish.noted,
        )

    def act(self, effects: Effects) -> None:
        """Do what comes of an entry, in this turn or when it ends."""
        if effects.deliveries:
            if self.deliveries:
                self.deliveries.extend(effects.deliveries)
            else:
                self.deliveries = effects.deliveries
        if effects.freed:
            self.freed.add(effects.freed)
        dead = effects.dead
        if dead is not None:
            self._died(dead)

    def _died(self, dead: list[Dead]) -> None:
        """Messages are to go through the dead-letter exchange."""
        dead_lettering = self.dead_lettering
        if dead_lettering is not None and not self.deleted:
            dead_lettering.add(dead)

    def dead_lettered(self, lists: list[list[Piece]]) -> None:
        """Messages that died have gone elsewhere: their bodies are not needed any more."""
        if self.fifo.reports_freed:
            self.freed.add(lists)
            self._mark()

    def gone_up_to(self, number: i64) -> i64:
        """The last of the messages from a number on that this queue goes on without; -1 if none."""
        return -1

    def delivery_count(self) -> i64:
        """How many deliveries are to be passed on when the turn ends."""
        deliveries = self.deliveries
        return 0 if deliveries is None else len(deliveries)

    def not_dead_lettered(self) -> list[list[Piece]]:
        """What died and has not gone elsewhere, in lists that do not change."""
        return [] if self.dead_lettering is None else self.dead_lettering.lists()

    def set_dead_letters(self, exchange: str | None, key: str | None, kept: bool = False) -> None:
        """Have messages that die here from now on go through an exchange."""
        if exchange is not None:
            if self.dead_lettering is None:
                self.dead_lettering = DeadLettering(self)
            self.dead_lettering.aim(exchange, key)
        self._set_deaths(FORGOTTEN if exchange is None else AT_MOST_ONCE)

    def set_feed(self, feed: QueueFeed | None) -> None:
        """Tell from now on what becomes of messages, or no more."""
        self.feed = feed
        self.fifo.feed = feed
        if feed is not None:
            feed.leading(self.fifo.next_message)

    def set_rejects_to_exchange(self, rejects_to_exchange: bool) -> None:
        """Have publishes that are rejected from now on go through the dead-letter exchange."""
        self.rejects_to_exchange = rejects_to_exchange

    @abstractmethod
    def _set_deaths(self, dead_letters: i64) -> None:
        """Have the machine say what dies, or not."""

    def _tells_deaths(self) -> bool:
        return self.fifo.config.dead_letters != FORGOTTEN

    def count(self, waiter: PendingReply) -> None:
        """Take in what was gathered, and have those who wait get what is ready.

        A declare asks for that, so that it counts as a use.
        """
        self._use()
        self.seal()
        self.hand_out()
        waiter.succeeded(Reply())

    def hand_out(self) -> None:
        """Have those who wait get what is ready, before it is counted; what can be done at once."""

    def ready_count(self) -> i64:
        """Messages ready for delivery, as declare-ok reports them (MET-05)."""
        return self.fifo.ready_count()

    # For operators who look into it.

    def as_fifo(self) -> FifoQueue | None:
        """The queue itself."""
        return self

    def ready_in_order(self) -> list[list[Piece]]:
        """The messages that are ready, as of now, in lists that do not change."""
        return self.fifo.ready.freeze()

    def fifo_consumers(self) -> list[Consumer]:
        """The consumers there are now."""
        return list(self.fifo.consumers.values())

    def gather_unconsumed(self) -> Gathering:
        """Finds out the messages that no consumer holds, as of now, in parts."""
        return self.fifo.gather_unconsumed()

    def is_doubted(self, number: i64) -> bool:
        """Whether a message that is ready may have been handed out in another life of the node."""
        return number < self.fifo.ready.doubted

    def not_ready_count(self) -> i64:
        """Messages that ever came and are not ready: more once some have left."""
        return self.fifo.next_message - self.fifo.ready.count

    def has(self, number: i64) -> bool:
        """Whether a body may be asked for; where it is false, the message has left the queue."""
        return self.fifo.sizes.has(number)

    def looked_through(self) -> None:
        """Operators have looked at bodies, which need not stay in memory for that."""

    def counts(self) -> Counts | None:
        """What it holds, for operators."""
        dead = self.fifo.discards.count
        delayed = self.fifo.delayed.count + self.fifo.schedule.count
        if self.type.delays:
            # They did not die: their time came.
            delayed += dead
            dead = 0
        counts = Counts(
            self.ready_count(),
            self.fifo.held_count(),
            self._attached_count(),
            dead,
            delayed,
            self.fifo.sizes.bytes,
            self.fifo.ready.bytes,
        )
        self._tell_apart(counts)
        return counts

    def _attached_count(self) -> i64:
        """Consumers, those that wait for their turn at being active among them."""
        return self.consumer_count()

    def _tell_apart(self, counts: Counts) -> None:
        """Count what survives a restart, and what is in memory: here it is all, and nothing."""

    def standing(self, consumer_id: i64) -> str:
        """How a consumer stands, in RabbitMQ's words for its activity."""
        consumer = self.fifo.consumers.get(consumer_id)
        if consumer is None:
            return "up"
        if consumer.suspected:
            return "suspected_down"
        if consumer.standing == TIMED_OUT:
            return "timeout"
        if self.fifo.single is None:
            return "up"
        return "waiting" if consumer.standing == WAITING else "single_active"

    def pause(self, consumer_id: i64) -> None:
        """Hand a consumer nothing more until `resume`."""
        consumer = self.fifo.consumers.get(consumer_id)
        if consumer is not None:
            consumer.paused = True

    def resume(self, consumer_id: i64) -> None:
        """Go on with a consumer, if it was paused."""
        consumer = self.fifo.consumers.get(consumer_id)
        if consumer is not None and consumer.paused:
            consumer.paused = False
            self.fifo.service.wake(consumer)
            self._mark()

    def limit(self, consumer_id: i64, limiter: Limiter) -> None:
        """A consumer has a shared limit from now on, under which it holds what it holds."""
        consumer = self.fifo.consumers.get(consumer_id)
        if consumer is not None:
            consumer.limiter = limiter
            limiter.used += consumer.held

    def wake(self, consumer_id: i64) -> None:
        """A consumer's shared limit has room again."""
        consumer = self.fifo.consumers.get(consumer_id)
        if consumer is not None:
            self.fifo.service.wake(consumer)
            self._mark()

    def close(self) -> None:
        """The queue was deleted: its machine serves nobody."""
        super().close()
        self.fifo.service.disband()

    def dispatch(self) -> None:
        """Pass on what the machine handed out."""
        if self.deliveries:
            deliveries = self.deliveries
            self.deliveries = None
            for delivery in deliveries:
                self.delivered += delivery.count
                if delivery.acquired > 0:
                    self.redelivered += delivery.count
                link = self.links.get(delivery.consumer.id)
                if link is not None:
                    link.delivered(delivery)
                elif not self.deleted:
                    # Cancelled meanwhile: nobody will see these, so nobody can settle them.
                    last = delivery.mid + delivery.count - 1
                    self.return_(delivery.consumer.id, delivery.mid, last, False)
        if self.fifo.unfinished() and not self.deleted:
            # The next turn goes on: this one has cost enough.
            self._mark()

    def _unlink(self, consumer_id: i64) -> None:
        if consumer_id in self.links:
            self._use()
        super()._unlink(consumer_id)

    def live(self) -> list[tuple[int, int]]:
        """Message numbers whose bodies the log must keep."""
        return self.fifo.live()
