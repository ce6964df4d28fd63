"""What a queue of any type is to its vhost, its protocols, and the turn of its node.

Nothing here says how a queue keeps its messages. `gathering` is for types that gather what a turn
brings, `fifo_queue` for those of them that have a FIFO machine, and `proxy` stands for a queue that
is on another node.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, final

from mypy_extensions import i64, mypyc_attr, trait

from warren.errors import CorruptRecord
from warren.limits import DUE_COST
from warren.log.batch import Batch
from warren.message.flavours import AMQP091
from warren.pending import PendingReply, PendingRequest
from warren.ports import Work
from warren.queue_types import QueueType
from warren.queues.fifo.config import Limits
from warren.queues.fifo.consumers import Limiter
from warren.queues.fifo.delayed import Retry
from warren.queues.fifo.effects import Delivery
from warren.queues.fifo.live import PART_RUNS
from warren.queues.links import Fetching, Holder, Link
from warren.queues.publishing import PublishRun
from warren.replication.proposals import Throttled

if TYPE_CHECKING:
    from warren.queues.dead_letters import DeadLettering
    from warren.queues.feed import QueueFeed
    from warren.queues.fifo_queue import FifoQueue
    from warren.queues.forwarding import Forwarding
    from warren.queues.paging import Pages
    from warren.queues.table_queue import TableQueue


@mypyc_attr(allow_interpreted_subclasses=True)
class Host(Throttled):
    """The node around a queue.

    Attributes:
        disk_behind: Whether publishers have to wait for the node's disk.
        commands_soft_limit: Messages that may be under way from here to a quorum queue before its
            publishers wait (CFG-02); 0 for no such limit.
        part_runs: So many runs of messages one part of what takes long looks at.
        pages: Where bodies go while memory is short; None if they stay.
    """

    disk_behind: bool = False
    commands_soft_limit: int = 0
    part_runs: int = PART_RUNS
    pages: Pages | None = None

    @abstractmethod
    def queue_dirty(self, queue: Queue) -> None:
        """The queue has something to seal or to dispatch before the turn ends."""
        raise AssertionError("a host defines queue_dirty")

    @abstractmethod
    def now_ms(self) -> int:
        """Wall time for the log, in milliseconds since the epoch."""
        raise AssertionError("a host defines now_ms")

    @abstractmethod
    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""
        raise AssertionError("a host defines monotonic_ms")

    @abstractmethod
    def appended(self, urgent: bool) -> None:
        """The queue appended to the log; somebody waits for that to be durable, if urgent."""
        raise AssertionError("a host defines appended")

    @abstractmethod
    def queue_defers(self, queue: Queue) -> None:
        """The queue keeps settles that nobody waits for; call `flush` a moment later."""
        raise AssertionError("a host defines queue_defers")

    @abstractmethod
    def queue_congested(self, queue: Queue) -> None:
        """Publishers wait for this queue; look after it at each turn and tick."""
        raise AssertionError("a host defines queue_congested")

    @abstractmethod
    def queue_leased(self, queue: Queue) -> None:
        """Something of the queue is for its leader to mind: call `expire_leases` now and then."""
        raise AssertionError("a host defines queue_leased")

    @abstractmethod
    def queue_later(self, queue: Queue, in_ms: i64) -> None:
        """The queue has something to see to: call its `due` after so many milliseconds."""
        raise AssertionError("a host defines queue_later")

    @abstractmethod
    def next_barrier(self) -> i64:
        """The number of the first barrier through the tables' log that is yet to be asked for."""
        raise AssertionError("a host defines next_barrier")

    @abstractmethod
    def tables_known(self, barrier: i64, queue: Queue) -> bool:
        """Whether a barrier has come back, so that the tables here are no older than it is.

        Else it will, and then the queue's `tables_came` is called.
        """
        raise AssertionError("a host defines tables_known")

    @abstractmethod
    def queue_unused(self, queue: Queue) -> None:
        """The last consumer of an auto-delete queue left, or nobody uses the queue for long."""
        raise AssertionError("a host defines queue_unused")

    @abstractmethod
    def queue_left(self, queue: Queue) -> None:
        """The last consumer of this node left an auto-delete queue that is on another one."""
        raise AssertionError("a host defines queue_left")

    @abstractmethod
    def queue_dead_letters(self, dead_lettering: DeadLettering) -> None:
        """Messages of a queue died, and are to go elsewhere: call `carry` in a later turn."""
        raise AssertionError("a host defines queue_dead_letters")

    @abstractmethod
    def queue_forwards(self, forwarding: Forwarding) -> None:
        """The same of those that stay in their queue until they are confirmed."""
        raise AssertionError("a host defines queue_forwards")

    def dead_letter_confirmed(self, queue: Queue) -> None:
        """A dead letter that stayed in its queue until then is where it belongs."""

    @abstractmethod
    def queue_damaged(self, queue: Queue, error: BaseException) -> None:
        """Messages of the queue cannot be read from the disk of this node; `error` says which."""
        raise AssertionError("a host defines queue_damaged")

    @abstractmethod
    def queue_lost(self, queue: Queue, lost: list[tuple[int, int]], error: CorruptRecord) -> None:
        """The queue goes on without messages, ascending pairs; nobody has them."""
        raise AssertionError("a host defines queue_lost")

    @abstractmethod
    def do_in_parts(self, work: Work) -> None:
        """Have something done from the next turn on: of all that is long, one part a turn."""
        raise AssertionError("a host defines do_in_parts")

    @abstractmethod
    def queue_stalled(self, queue: Queue) -> None:
        """Consumers wait for what cannot be read now: call the queue's `retry` a while later."""
        raise AssertionError("a host defines queue_stalled")


@trait
class FlowControlled:
    """A connection whose publishes can be held back."""

    @abstractmethod
    def flow_on(self) -> None:
        """A queue that held it back is congested no more."""

    def is_over(self) -> bool:
        """Whether it has ended, so that nothing of it is held back any more."""
        return False


@final
class Counts:
    """What a queue holds.

    Attributes:
        ready: Messages that are ready for delivery.
        held: Messages handed out and not settled.
        dead: Messages that died and stay until they are elsewhere.
        delayed: Messages that wait before they are ready again, or until they may go on.
        consumers: How many there are, as far as the queue counts them.
        bytes: What all of these take.
        ready_bytes: What those take that are ready.
        persistent, persistent_bytes: Those of the ready and held that survive a restart, and what
            they take; both negative where it would take long to find that out.
        resident, resident_bytes: The same of those whose bodies the queue has in memory itself.
    """

    def __init__(
        self,
        ready: i64,
        held: i64,
        consumers: i64,
        dead: i64 = 0,
        delayed: i64 = 0,
        bytes: i64 = 0,
        ready_bytes: i64 = 0,
    ) -> None:
        self.ready: i64 = ready
        self.held: i64 = held
        self.dead: i64 = dead
        self.delayed: i64 = delayed
        self.consumers: i64 = consumers
        self.bytes: i64 = bytes
        self.ready_bytes: i64 = ready_bytes
        self.persistent: i64 = ready + held
        self.persistent_bytes: i64 = bytes
        self.resident: i64 = 0
        self.resident_bytes: i64 = 0


class Queue:
    """One queue, as channels and the node use it; a type defines what is abstract here.

    Within a turn of the node, what channels want of a queue is gathered. At the end of the turn the
    node calls `seal` and then `dispatch` of each queue that asked for it (`Host.queue_dirty`).

    Attributes:
        name, vhost: As declared; `str(queue)` is how reply texts name it.
        type: What queues of its type can do.
        auto_delete: Whether it goes with its last consumer.
        group_id: Its incarnation: a queue deleted and declared again has another one.
        halted: Whether it is known that its node cannot start it, so that it can only be deleted.
        dirty: Whether the node is going to call `seal` and `dispatch`.
        published, delivered: Messages so far, for metrics; those that were asked for one by one are
            among the delivered.
        redelivered: Those of the delivered that had come back.
        automatic: Those of the delivered that were settled as they were sent.
        polled, polled_automatic, polled_empty: Messages that were asked for one by one, to be
            settled or not, and how often there was none.
        settled: Messages that consumers were done with, by themselves or as they were sent.
        held_back: Publishers that wait until this queue is congested no more.
        deferring: Whether the node is going to call `flush`.
        expires_ms: For how long it may be unused before it goes; negative for ever.
        feed: Is told what becomes of its messages; None where nobody wants to know.
        stuck: Whether its messages may wait for a leader: each is to say whose it is.
    """

    def __init__(self, host: Host, vhost: str, name: str, queue_type: QueueType) -> None:
        self.host: Host = host
        self.vhost: str = vhost
        self.name: str = name
        self.type: QueueType = queue_type
        self.auto_delete: bool = False
        self.group_id: i64 = 0
        self.deleted: bool = False
        self.halted: bool = False
        self.dirty: bool = False
        self.published: i64 = 0
        self.delivered: i64 = 0
        self.redelivered: i64 = 0
        self.automatic: i64 = 0
        self.polled: i64 = 0
        self.polled_automatic: i64 = 0
        self.polled_empty: i64 = 0
        self.settled: i64 = 0
        self.held_back: list[FlowControlled] | None = None
        self.stuck: bool = False
        self.deferring: bool = False
        self.expires_ms: i64 = -1
        self.feed: QueueFeed | None = None

    # For publishers.

    @abstractmethod
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
        """Take `count` message records, back to back, with their sizes as u32 each.

        Args:
            records: Each message as it came, all of them of one flavour.
            lengths: Little-endian sizes of the records.
            count: At least 1.
            persistent: Whether the messages asked to survive a restart.
            run: Told when they are safe; None where nobody waits.
            flavour: As what they are stored, for `message`.
            life_ms: After what time they expire, by themselves; negative for never. It can be
                written down, see `message.properties.stored_life`.
            noted: Whether records may say that deliveries failed in queues before.

        A deleted queue, to which a transaction may still hold a route, takes nothing.
        """

    @abstractmethod
    def congested(self) -> bool:
        """Whether publishers should wait a moment, because what they sent is not done with."""

    def hold_back(self, publisher: FlowControlled) -> None:
        """Tell a publisher when the congestion is over."""
        if self.held_back is None:
            self.held_back = []
        if publisher not in self.held_back:
            self.held_back.append(publisher)
            self.host.queue_congested(self)

    def let_go(self) -> None:
        """The congestion is over."""
        publishers = self.held_back
        if publishers is None:
            return
        self.held_back = None
        for publisher in publishers:
            publisher.flow_on()

    # For consumers.

    @abstractmethod
    def new_consumer(self) -> i64:
        """An id for a consumer or for a channel that polls."""

    def current(self, consumer_id: i64) -> bool:
        """Whether a consumer's id is still good; else its channel has to take a new one."""
        return True

    def held_by(self, consumer_id: i64, holder: Holder, timeout_ms: i64) -> None:
        """Say who has what a consumer, or a channel that polls, is handed, and for how long it may.

        It is told if that was too long, where the type minds that.

        Args:
            timeout_ms: Negative for ever.
        """

    @abstractmethod
    def admit(self, exclusive: bool) -> bool:
        """Let one more consumer of this node come, as the only one if `exclusive`.

        False where there is one that wants to be alone, or this one does and is not.
        """

    @abstractmethod
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
        """Attach a consumer. `waiter` is answered before its first delivery.

        Args:
            consumer_id: From `new_consumer`.
            credit: Its prefetch limit in messages; 0 for none.
            priority: Higher ones are served first.
            limiter: Shared limit of its channel, where the type honours one.
            automatic: Whether what it was handed is settled, not returned, if its node is gone.
        """

    @abstractmethod
    def settle(self, consumer_id: i64, first: i64, last: i64) -> None:
        """Message ids of a consumer are done with."""

    def keep_order(self) -> None:
        """Have what was settled so far be no later in the log than the messages that come now.

        For clients who may count on their acks once they see such messages confirmed.
        """

    @abstractmethod
    def return_(self, consumer_id: i64, first: i64, last: i64, failed: bool) -> None:
        """Message ids of a consumer go back to the queue."""

    @abstractmethod
    def discard(self, consumer_id: i64, first: i64, last: i64, failed: bool) -> None:
        """Message ids of a consumer were rejected for good; `failed` is whether deliveries did."""

    @abstractmethod
    def cancel(self, consumer_id: i64) -> None:
        """A consumer wants no more; it may still settle what it holds."""

    @abstractmethod
    def down(self, consumer_id: i64) -> None:
        """A consumer's channel is gone; what it was not sent is for others."""

    def vanished(self, consumer_id: i64) -> None:
        """A consumer is gone, and nobody knows what it has seen of what it was handed."""
        self.down(consumer_id)

    @abstractmethod
    def pause(self, consumer_id: i64) -> None:
        """Hand a consumer nothing more until `resume`: its link cannot pass on what it has.

        A type that cannot do that goes on, and the link keeps what comes.
        """

    @abstractmethod
    def resume(self, consumer_id: i64) -> None:
        """Go on with a consumer, if it was paused."""

    @abstractmethod
    def limit(self, consumer_id: i64, limiter: Limiter) -> None:
        """A consumer that is there has a shared limit from now on, where the type honours one."""

    @abstractmethod
    def wake(self, consumer_id: i64) -> None:
        """A consumer's shared limit has room again."""

    @abstractmethod
    def get(self, consumer_id: i64, waiter: PendingRequest) -> None:
        """Ask for one message; a `PollReply` has it, or none."""

    @abstractmethod
    def pick(self, consumer_id: i64, number: i64, waiter: PendingRequest) -> None:
        """Ask for one message by its number; a `PollReply` has it, or none if it is not ready."""

    @abstractmethod
    def purge(self, waiter: PendingReply) -> None:
        """Drop all ready messages; a `PurgeReply` says how many."""

    # For links.

    @abstractmethod
    def batch_of(self, number: i64) -> Batch | None:
        """The batch that holds a message, if it is in memory."""

    @abstractmethod
    def fetch(self, number: i64, link: Fetching) -> None:
        """Read ahead from a message on; `link.resume` is called when it is in memory."""

    def pass_over(self, delivery: Delivery) -> bool:
        """Settle what is lost of a delivery's next messages; whether there was such."""
        return False

    # Counts.

    @abstractmethod
    def count(self, waiter: PendingReply) -> None:
        """Have the two counts below be true when `waiter` is answered, which may be at once."""

    @abstractmethod
    def ready_count(self) -> i64:
        """Messages ready for delivery, as declare-ok reports them (MET-05)."""

    @abstractmethod
    def consumer_count(self) -> i64:
        """Consumers attached now."""

    @abstractmethod
    def counts(self) -> Counts | None:
        """What it holds, for operators; None where only another node knows."""

    def own_body_bytes(self) -> i64:
        """What bodies take that the queue itself has in memory, and not the log's cache."""
        return 0

    def standing(self, consumer_id: i64) -> str:
        """How a consumer of this node stands, in RabbitMQ's words for its activity."""
        return "up"

    def as_fifo(self) -> FifoQueue | None:
        """The queue as operators look into it; None if its messages are not on this node."""
        return None

    def as_table(self) -> TableQueue | None:
        """The queue as class `table` reads it; None if it cannot be read so on this node."""
        return None

    # For the node.

    @abstractmethod
    def seal(self) -> None:
        """Make batches of what was gathered, and submit or apply them."""

    @abstractmethod
    def dispatch(self) -> None:
        """Hand deliveries to the links of consumers."""

    @abstractmethod
    def flush(self) -> None:
        """Seal in this turn what was kept for a moment."""

    def look_after(self) -> None:
        """Note whether messages leave; called about once a second while publishers wait."""
        if self.held_back is not None:
            self.held_back = [each for each in self.held_back if not each.is_over()]

    def expire_leases(self, now_ms: i64) -> bool:
        """Give back what is held beyond its lease; whether there is more to mind later on.

        Called now and then, once the queue has told its host that it has such (`queue_leased`).

        Args:
            now_ms: Monotonic time.
        """
        return False

    def set_delivery_limit(self, limit: i64) -> None:
        """Policies set the queue's delivery limit; where none counts, that is of no meaning."""

    def set_expires(self, expires_ms: i64) -> None:
        """Have the queue go when it is unused for so long; negative for never.

        Who knows who uses a queue sees to it: where it only stands for one, nothing is to be done.
        """

    def set_message_ttl(self, ttl_ms: i64) -> None:
        """Have messages expire that come from now on, after so long; negative for never.

        As above, where the queue is.
        """

    def set_disconnected_timeout(self, timeout_ms: i64) -> None:
        """Have what consumers hold return that long after their node was heard last; likewise."""

    def set_retry(self, retry: Retry) -> None:
        """Have what returns from now on wait before it is ready again; only some types do."""

    def set_limits(self, limits: Limits) -> None:
        """Have the first ready messages dropped where there are more than these say.

        As above.
        """

    def set_rejects_to_exchange(self, rejects_to_exchange: bool) -> None:
        """Have publishes that it rejects go through its dead-letter exchange, in a classic queue.

        As above.
        """

    def set_lazy(self, lazy: bool) -> None:
        """Have bodies leave memory at any time, where the type keeps them there until it is short.

        It is so of classic queues that do not outlive their node; others have them on disk anyway.
        """

    def set_max_priority(self, max_priority: i64) -> None:
        """Have messages go by their priorities, up to this one; 0 if they have none.

        As above, and before the first message comes.
        """

    def set_failures(self) -> None:
        """Have failed deliveries alone count towards a quorum queue's delivery limit."""

    def set_ranking(self, ranking: i64) -> None:
        """Have messages rank by their priorities, in a quorum queue where they do not do so yet.

        Args:
            ranking: One of the kinds of `warren.queues.fifo.config`.
        """

    def set_delays(self, exchange: str) -> None:
        """Have messages wait here for their time, and then go on through an exchange.

        As above.
        """

    def set_single_active(self) -> None:
        """Have one consumer at a time be served; the queue was declared so, and stays so.

        As above.
        """

    def set_dead_letters(self, exchange: str | None, key: str | None, kept: bool = False) -> None:
        """Have messages that die here go through an exchange; None for none.

        As above.

        Args:
            key: With this routing key; None for their own.
            kept: Whether they stay until they are elsewhere, where the type can do that.
        """

    def set_feed(self, feed: QueueFeed | None) -> None:
        """Tell from now on what becomes of messages, or no more: as above, where the queue is."""

    def kept_dead(self) -> i64:
        """Dead letters that stay here until they are elsewhere, and that this node sees to."""
        return 0

    def tables_came(self) -> None:
        """The tables here are as new as the queue had to have them (`Host.tables_known`)."""

    def due(self, now_ms: i64) -> None:
        """See to what the queue has asked to be called for (`queue_later`).

        Args:
            now_ms: Monotonic time.
        """

    def is_full(self) -> bool:
        """Whether it is known here that one more message would be rejected for want of room."""
        return False

    def due_cost(self) -> i64:
        """What a call of `due` takes of a turn at most, about; see `TURN_DUE_WORK_MAX`."""
        return DUE_COST

    def is_overdue(self) -> bool:
        """Whether the last call of `due` has left something that the next turns go on with."""
        return False

    def retry(self) -> None:
        """Read again what could not be read, which the host was told of (`queue_stalled`)."""

    def close(self) -> None:
        """The queue was deleted: consumers are told, and whoever waits is let go."""
        self.deleted = True
        self.let_go()

    def check_usable(self) -> None:
        """Refuse to be used while there is no way to what it holds.

        Raises:
            Refusal: `NOT_FOUND`, with the text of `absence`.
        """

    def absence(self) -> str:
        """What whoever asks is told when the queue cannot be used any more."""
        return f"no {self}"

    def _mark(self) -> None:
        if not self.dirty:
            self.dirty = True
            self.host.queue_dirty(self)

    def __str__(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"
