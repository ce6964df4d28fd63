"""One queue on the node that leads it: gathers publishes and commands, hands out deliveries.

What differs between the types, when a message counts as enqueued and where its body stays, is in
`quorum`, `classic` and `transient`. Within a turn of the node everything for a queue is gathered;
`seal` makes record batches of it, once.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr, trait

from warren.log.batch import Batch
from warren.queues.fifo import commands
from warren.queues.fifo.consumers import Limiter
from warren.queues.fifo.machine import UNLIMITED, Fifo
from warren.queues.links import Delivery, Link, Waiter
from warren.queues.publishing import PublishRun
from warren.replication.proposals import Throttled

SEAL_BYTES: Final = 262_144
"""A record batch is sealed when its records pass this size, whatever the turn still brings."""

NOT_SETTLED: Final = -1
ALL_IDS: Final = (1 << 62) - 1


@mypyc_attr(allow_interpreted_subclasses=True)
class Host(Throttled):
    """The node around a queue.

    Attributes:
        disk_behind: Whether publishers have to wait for the node's disk.
    """

    disk_behind: bool = False

    def queue_dirty(self, queue: Queue) -> None:
        """The queue has something to seal or to dispatch before the turn ends."""
        raise AssertionError("a host defines queue_dirty")

    def now_ms(self) -> int:
        """Wall time for the log, in milliseconds since the epoch."""
        raise AssertionError("a host defines now_ms")

    def appended(self, urgent: bool) -> None:
        """The queue appended to the log; somebody waits for that to be durable, if urgent."""
        raise AssertionError("a host defines appended")

    def queue_lingers(self, queue: Queue) -> None:
        """The queue keeps settles that nobody waits for; call `hurry` a moment later."""
        raise AssertionError("a host defines queue_lingers")

    def queue_congested(self, queue: Queue) -> None:
        """Publishers wait for this queue; look after it at each turn and tick."""
        raise AssertionError("a host defines queue_congested")

    def queue_leased(self, queue: Queue) -> None:
        """Something of the queue is for its leader to mind: call `expire_groups` now and then."""
        raise AssertionError("a host defines queue_leased")

    def queue_unused(self, queue: Queue) -> None:
        """The last consumer of an auto-delete queue left."""
        raise AssertionError("a host defines queue_unused")

    def queue_damaged(self, queue: Queue, error: BaseException) -> None:
        """Messages of the queue cannot be read from the disk of this node; `error` says which."""
        raise AssertionError("a host defines queue_damaged")

    def queue_stalled(self, queue: Queue) -> None:
        """Consumers wait for what cannot be read now: call the queue's `retry` a while later."""
        raise AssertionError("a host defines queue_stalled")


@trait
class FlowControlled:
    """A connection whose publishes can be held back."""

    def flow_on(self) -> None:
        """A queue that held it back is congested no more."""
        raise AssertionError("a flow-controlled publisher defines flow_on")


class Queue:
    """What all queue types share.

    Attributes:
        name, vhost: As declared; `str(queue)` is how reply texts name it.
        kind: `quorum` or `classic`.
        auto_delete: Whether it goes with its last consumer.
        fifo: The machine.
        links: Consumers of this node by id.
        exclusive_consumer: Whether its only consumer asked to be the only one.
        published, delivered: Messages so far, for metrics.
        held_back: Publishers that wait until this queue is congested no more.
        lingers: Whether the node is going to call `hurry`.
    """

    def __init__(self, host: Host, vhost: str, name: str, kind: str, fifo: Fifo) -> None:
        self.host: Host = host
        self.vhost: str = vhost
        self.name: str = name
        self.kind: str = kind
        self.auto_delete: bool = False
        self.group_id: i64 = 0
        self.fifo: Fifo = fifo
        self.links: dict[int, Link] = {}
        self.exclusive_consumer: bool = False
        self.deleted: bool = False
        self.dirty: bool = False
        self.published: i64 = 0
        self.delivered: i64 = 0
        self.held_back: list[FlowControlled] = []
        self.lingers: bool = False
        self._next_consumer: i64 = 1
        self._automatic: dict[int, bool] = {}
        """Consumers of this node whose acks are automatic."""
        self._parts: list[bytes] = []
        self._lengths: list[bytes] = []
        self._runs: list[PublishRun] = []
        self._pending: i64 = 0
        self._pending_bytes: i64 = 0
        self._persistent: bool = True
        self._commands: BytesWriter = BytesWriter()
        self._pending_commands: bool = False
        self._urgent: bool = False
        """Whether somebody waits for the pending commands."""
        self._run_consumer: i64 = 0
        self._run_first: i64 = 0
        self._run_behind: i64 = 0
        self._run_end: i64 = NOT_SETTLED
        """Where among the pending commands the newest settle ends, which may yet grow."""

    # For channels.

    def publish(
        self, records: bytes, lengths: bytes, count: i64, persistent: bool, run: PublishRun | None
    ) -> None:
        """Gather `count` message records, back to back, with their sizes as u32 each.

        Args:
            records: The frames of each publish as they came.
            lengths: Little-endian sizes of the records.
            count: At least 1.
            persistent: Whether the messages asked to survive a restart.
            run: Told when they are safe; None where nobody waits.

        A deleted queue, to which a transaction may still hold a route, takes nothing.
        """
        if self.deleted:
            if run is not None:
                run.safe()
            return
        if self._pending > 0 and (
            persistent != self._persistent or self._pending_bytes > SEAL_BYTES
        ):
            self._seal_messages()
        self._persistent = persistent
        self._parts.append(records)
        self._lengths.append(lengths)
        self._pending += count
        self._pending_bytes += len(records)
        if run is not None:
            self._runs.append(run)
        if not self.dirty:
            self.dirty = True
            self.host.queue_dirty(self)

    def subscribe(
        self,
        link: Link,
        consumer_id: i64,
        credit: i64,
        priority: i64,
        limiter: Limiter | None,
        waiter: Waiter,
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
        self._before_asking()
        self.links[consumer_id] = link
        if credit <= 0:
            credit = self.unlimited_credit()
        commands.attach(self._commands, consumer_id, credit, priority, automatic)
        if automatic:
            self._automatic[int(consumer_id)] = True
        self._ask(waiter)
        self._adopt(consumer_id, limiter)

    def current(self, consumer_id: i64) -> bool:
        """Whether a consumer's id is still good; else its channel has to take a new one."""
        return True

    def unlimited_credit(self) -> i64:
        """Credit of a consumer without a prefetch limit."""
        return UNLIMITED

    def settle(self, consumer_id: i64, first: i64, last: i64) -> None:
        """Message ids of a consumer are done with."""
        out = self._commands
        if (
            len(out) == self._run_end
            and consumer_id == self._run_consumer
            and first == self._run_behind
        ):
            out.truncate(self._run_end - commands.SETTLE_BYTES)
        else:
            self._run_consumer = consumer_id
            self._run_first = first
        commands.settle(out, consumer_id, self._run_first, last)
        self._run_behind = last + 1
        self._run_end = len(out)
        self._pending_commands = True
        self._mark()

    def return_(self, consumer_id: i64, first: i64, last: i64, failed: bool) -> None:
        """Message ids of a consumer go back to the queue."""
        commands.return_(self._commands, consumer_id, first, last, failed)
        self._command()

    def discard(self, consumer_id: i64, first: i64, last: i64) -> None:
        """Message ids of a consumer were rejected for good."""
        commands.discard(self._commands, consumer_id, first, last)
        self._command()

    def cancel(self, consumer_id: i64) -> None:
        """A consumer wants no more; it may still settle what it holds."""
        commands.cancel(self._commands, consumer_id)
        self._command()
        self._unlink(consumer_id)

    def down(self, consumer_id: i64) -> None:
        """A consumer's channel is gone; what it was not sent is for others."""
        if self._automatic.pop(int(consumer_id), False):
            # What it was sent it has settled before.
            commands.return_(self._commands, consumer_id, 0, ALL_IDS, True)
        commands.down(self._commands, consumer_id)
        self._command()
        self._unlink(consumer_id)

    def vanished(self, consumer_id: i64) -> None:
        """A consumer is gone, and nobody knows what it has seen of what it was handed."""
        self._automatic.pop(int(consumer_id), None)
        self.down(consumer_id)

    def get(self, consumer_id: i64, waiter: Waiter) -> None:
        """Ask for one message; the reply's delivery is None if there is none."""
        self._before_asking()
        commands.get(self._commands, consumer_id)
        self._ask(waiter)

    def purge(self, waiter: Waiter) -> None:
        """Drop all ready messages; the reply's `a` is how many."""
        self._before_asking()
        commands.purge(self._commands)
        self._ask(waiter)

    def ask(self, command: bytes, waiter: Waiter) -> None:
        """Submit an encoded command that wants an answer."""
        self._before_asking()
        self._commands.write(command)
        self._ask(waiter)

    def congested(self) -> bool:
        """Whether publishers should wait a moment, because what they sent is not done with."""
        raise AssertionError("a queue type defines congested")

    def hold_back(self, publisher: FlowControlled) -> None:
        """Tell a publisher when the congestion is over."""
        if publisher not in self.held_back:
            self.held_back.append(publisher)
            self.host.queue_congested(self)

    def let_go(self) -> None:
        """The congestion is over."""
        publishers = self.held_back
        self.held_back = []
        for publisher in publishers:
            publisher.flow_on()

    def new_consumer(self) -> i64:
        """An id for a consumer or for a channel that polls."""
        consumer_id = self._next_consumer
        self._next_consumer += 1
        return consumer_id

    # For links.

    def batch_of(self, number: i64) -> Batch | None:
        """The batch that holds a message, if it is in memory."""
        raise AssertionError("a queue type defines batch_of")

    def fetch(self, number: i64, link: Link) -> None:
        """Read ahead from a message on; `link.resume` is called when it is in memory."""
        raise AssertionError("a queue type defines fetch")

    def pass_over(self, delivery: Delivery) -> bool:
        """Settle what is lost of a delivery's next messages; whether there was such."""
        return False

    def hand_out(self) -> None:
        """Have those who wait get what is ready, before it is counted; what can be done at once."""

    # For the node.

    def seal(self) -> None:
        """Make batches of what was gathered, and submit or apply them."""
        if self._pending > 0:
            self._seal_messages()
        if self._pending_commands:
            self._seal_commands(None)

    def hurry(self) -> None:
        """Seal in this turn what was kept for a moment."""
        if self._pending_commands and not self.deleted:
            self._urgent = True
            self._mark()

    def dispatch(self) -> None:
        """Pass on what the machine handed out."""
        fifo = self.fifo
        if fifo.deliveries:
            deliveries = fifo.deliveries
            fifo.deliveries = []
            for delivery in deliveries:
                self.delivered += delivery.count
                link = self.links.get(delivery.consumer.id)
                if link is not None:
                    link.delivered(delivery)
                elif not self.deleted:
                    # Cancelled meanwhile: nobody will see these, so nobody can settle them.
                    last = delivery.mid + delivery.count - 1
                    self.return_(delivery.consumer.id, delivery.mid, last, False)
        if fifo.unfinished() and not self.deleted:
            # The next turn goes on: this one has cost enough.
            self._mark()

    def persisted(self, batch: Batch) -> None:
        """A batch of this queue is durable."""
        raise AssertionError("a queue type defines persisted")

    def live(self) -> list[tuple[int, int]]:
        """Message numbers whose bodies the log must keep."""
        return self.fifo.live()

    def close(self) -> None:
        """The queue was deleted: consumers are told, and whoever waits is let go."""
        self.deleted = True
        self.let_go()
        links = self.links
        self.links = {}
        for link in links.values():
            link.cancelled()

    def absence(self) -> str:
        """What whoever asks is told when the queue cannot be used any more."""
        return f"no {self}"

    def ready_count(self) -> i64:
        """Messages ready for delivery, as declare-ok reports them (MET-05)."""
        return self.fifo.ready_count()

    def consumer_count(self) -> i64:
        """Consumers attached now."""
        return len(self.links)

    def wake(self, consumer_id: i64) -> None:
        """A consumer's shared limit has room again."""
        consumer = self.fifo.consumers.get(consumer_id)
        if consumer is not None:
            self.fifo.wake(consumer)
            self._mark()

    def _seal_messages(self) -> None:
        raise AssertionError("a queue type defines _seal_messages")

    def _seal_commands(self, waiter: Waiter | None) -> None:
        raise AssertionError("a queue type defines _seal_commands")

    def _adopt(self, consumer_id: i64, limiter: Limiter | None) -> None:
        """Give a new consumer its channel's shared limit; types without one ignore it."""

    def _mark(self) -> None:
        if not self.dirty:
            self.dirty = True
            self.host.queue_dirty(self)

    def _command(self) -> None:
        self._pending_commands = True
        self._urgent = True
        self._mark()

    def _before_asking(self) -> None:
        """A command that somebody waits for is about to be written."""

    def _ask(self, waiter: Waiter) -> None:
        """Seal everything so far with the command just written, which `waiter` waits for."""
        if self._pending > 0:
            self._seal_messages()
        self._seal_commands(waiter)
        self._mark()

    def _take_commands(self) -> bytes:
        payload = self._commands.getvalue()
        self._commands = BytesWriter()
        self._run_end = NOT_SETTLED
        self._pending_commands = False
        self._urgent = False
        return payload

    def _unlink(self, consumer_id: i64) -> None:
        if self.links.pop(consumer_id, None) is not None and not self.links:
            self.exclusive_consumer = False
            if self.auto_delete and not self.deleted:
                self.host.queue_unused(self)

    def __str__(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"
