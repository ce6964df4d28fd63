"""Takes messages out of a queue, one by one, for who is no consumer: operators who look into it.

What was taken is held until it is settled, goes back, or dies, all at once and in the end; if the
queue cannot be reached any more, it goes back by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

from warren.errors import NOT_FOUND, Refusal
from warren.message.envelope import Envelope
from warren.message.flavours import envelope_of
from warren.pending import PendingRequest, Result
from warren.queues.fifo.effects import Delivery, PollReply
from warren.queues.links import Fetching
from warren.queues.queue import Queue
from warren.vhost.handle import VhostHandle
from warren.vhost.peeking import uncounted_failures
from warren.vhost.tracing import Redeliveries


@final
class TakenMessage:
    """One message that was taken.

    Attributes:
        message: Its record; it shares memory with the batch that it came in.
        redelivered: Whether it was handed out before.
        acquired: How often it came back.
        failed: How often deliveries of it failed.
        left: Messages that were ready in the queue behind it.
    """

    def __init__(
        self, message: Envelope, redelivered: bool, acquired: i64, failed: i64, left: i64
    ) -> None:
        self.message: Envelope = message
        self.redelivered: bool = redelivered
        self.acquired: i64 = acquired
        self.failed: i64 = failed
        self.left: i64 = left


@final
class Taker(Fetching):
    """Takes messages of one queue; asked for one at a time.

    Attributes:
        taken: The message that was asked for last; None if none was ready.
        refusal: Why it could not be; None if it could.
        held: How many are held.
        handle, user: Through which, and for whom, what is taken is told of where the vhost is
            traced; None for never.
    """

    def __init__(self, queue: Queue, automatic: bool, told: Callable[[], None]) -> None:
        """Begin to hold nothing.

        Args:
            automatic: Whether messages are settled as they are taken.
            told: Called when there is an answer to `ask`.

        Raises:
            Refusal: The queue cannot be reached.
        """
        self.taken: TakenMessage | None = None
        self.refusal: Refusal | None = None
        self.held: i64 = 0
        self.handle: VhostHandle | None = None
        self.user: str = ""
        self._queue: Queue = queue
        self._automatic: bool = automatic
        self._told: Callable[[], None] = told
        self._consumer_id: i64 = queue.new_consumer()
        self._holder_id: i64 = self._consumer_id
        """Who holds what was taken: over a line to another node it has an id of its own."""
        self._ids: list[int] = []
        self._delivery: Delivery | None = None
        self._number: i64 = -1

    def ask(self, number: i64 = -1) -> None:
        """Ask for the next message, or for that of a number, wherever it lies."""
        self.taken = None
        self._number = number
        self._poll()

    def _poll(self) -> None:
        queue = self._queue
        if not queue.current(self._consumer_id):
            # What it held is back in its queue.
            self._ids = []
            self.held = 0
            try:
                self._consumer_id = queue.new_consumer()
            except Refusal as refusal:
                self.refused(refusal)
                return
        if self._number >= 0:
            queue.pick(self._consumer_id, self._number, Taking(self))
        else:
            queue.get(self._consumer_id, Taking(self))

    def answered(self, delivery: Delivery | None) -> None:
        """The queue has given a message, or has none."""
        if delivery is None:
            self._queue.polled_empty += 1
            self._told()
            return
        self._delivery = delivery
        self.resume()

    def resume(self) -> None:
        """Look at the message if it is in memory, or have it read first."""
        delivery = self._delivery
        queue = self._queue
        if delivery is None:
            return
        if queue.deleted:
            self.refused(Refusal(NOT_FOUND, f"no {queue}"))
            return
        batch = queue.batch_of(delivery.first)
        if batch is None:
            if queue.pass_over(delivery):
                # This one is gone: whichever comes next will do.
                self._delivery = None
                self._poll()
            else:
                queue.fetch(delivery.first, self)
            return
        self._delivery = None
        position = delivery.first - batch.first
        start = batch.offset(position)
        end = start + batch.length(position)
        message = envelope_of(batch.flavour, batch.payload, start, end)
        failed = delivery.failed + uncounted_failures(batch, message)
        again = delivery.acquired + failed > 0
        self._holder_id = delivery.consumer.id
        queue.delivered += 1
        if again:
            queue.redelivered += 1
        if self._automatic:
            queue.polled_automatic += 1
            queue.settle(self._holder_id, delivery.mid, delivery.mid)
        else:
            queue.polled += 1
            self._ids.append(int(delivery.mid))
            self.held += 1
        left = queue.ready_count()
        handle = self.handle
        if handle is not None and handle.tracer.on:
            size = int(end - start).to_bytes(4, "little")
            record = batch.payload[start:end]
            before = Redeliveries(delivery.acquired, failed, True, queue.type.shows_delivery_counts)
            # RabbitMQ opens a connection with one channel for each request.
            handle.trace_delivered(self.user, 1, queue.name, batch.flavour, record, size, before)
        self.taken = TakenMessage(message, again, delivery.acquired, failed, left)
        self._told()

    def refused(self, refusal: Refusal) -> None:
        """There is no way to the queue, or it is gone."""
        self._delivery = None
        self.refusal = refusal
        self._told()

    def asked_in_vain(self) -> None:
        """The answer was lost: ask anew."""
        self._poll()

    def give_back(self, failed: bool) -> None:
        """Have what is held go back to the queue.

        Args:
            failed: Whether its deliveries failed.
        """
        for first, last in self._runs():
            self._queue.return_(self._holder_id, first, last, failed)

    def settle_last(self) -> None:
        """Settle the message that was taken last: it is safe elsewhere; the others stay held.

        Raises:
            Refusal: It is not held any more, and back in its queue.
        """
        if not self._ids or not self._queue.current(self._consumer_id):
            raise Refusal(NOT_FOUND, f"{self._queue} was out of reach, and has the message again")
        mid = self._ids.pop()
        self.held -= 1
        self._queue.settle(self._holder_id, mid, mid)

    def discard(self) -> None:
        """Have what is held be dead."""
        for first, last in self._runs():
            self._queue.discard(self._holder_id, first, last, False)

    def end(self) -> None:
        """Take nothing any more; what is still held goes back."""
        if self._queue.current(self._consumer_id):
            self._queue.down(self._consumer_id)

    def _runs(self) -> list[tuple[int, int]]:
        """What is held, as ascending runs of ids; from now on it is not."""
        runs: list[tuple[int, int]] = []
        if not self._queue.current(self._consumer_id):
            self._ids = []
        for mid in self._ids:
            if runs and runs[-1][1] + 1 == mid:
                runs[-1] = (runs[-1][0], mid)
            else:
                runs.append((mid, mid))
        self._ids = []
        self.held = 0
        return runs


@final
class Taking(PendingRequest):
    """Waits for one message."""

    def __init__(self, taker: Taker) -> None:
        self._taker: Taker = taker

    def succeeded(self, result: Result) -> None:
        """The queue has answered."""
        # A queue on another node says that there is none by a reply without more.
        self._taker.answered(result.delivery if isinstance(result, PollReply) else None)

    def refused(self, refusal: Refusal) -> None:
        """It cannot be done."""
        self._taker.refused(refusal)

    def abandoned(self) -> None:
        """The queue is gone."""
        self._taker.refused(Refusal(NOT_FOUND, "the queue is gone or cannot be reached"))

    def missed(self) -> None:
        """It was done, and its answer is not known here."""
        self._taker.asked_in_vain()
