"""Classic queues that do not outlive their node: messages and bodies in memory (DUR-02)."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.headed_list import SLACK_MIN, HeadedList
from warren.log.batch import KIND_MESSAGES, Batch
from warren.log.facts import SIZES
from warren.pending import PendingReply
from warren.queue_types import CLASSIC
from warren.queues.fifo.config import Limits
from warren.queues.fifo.consumers import Limiter
from warren.queues.fifo.entry import NO_META, Encoded, Enqueue, Meta
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo_queue import FifoQueue
from warren.queues.links import Fetching
from warren.queues.queue import Host

FLOW_BYTES: Final = 4_194_304
"""With more than this in a queue that is being consumed, its publishers wait for the consumers."""


@final
class ResidentBatch:
    """A batch in memory and how many of its messages are still in the queue."""

    def __init__(self, batch: Batch) -> None:
        self.batch: Batch = batch
        self.live: i64 = batch.count


@final
class TransientQueue(FifoQueue):
    """A non-durable or exclusive classic queue.

    Attributes:
        resident_bytes: Memory that its bodies take.
        draining: Whether messages were delivered lately.
    """

    def __init__(self, host: Host, vhost: str, name: str) -> None:
        super().__init__(host, vhost, name, CLASSIC, Fifo(-1, True, True))
        self.resident_bytes: i64 = 0
        self.draining: bool = False
        self._delivered_before: i64 = 0
        self._residents: HeadedList[ResidentBatch] = HeadedList()
        self._empty: i64 = 0
        self._last: ResidentBatch | None = None

    def batch_of(self, number: i64) -> Batch | None:
        """The batch that holds a message; None only for a message that has left."""
        resident = self._resident(number)
        return None if resident is None else resident.batch

    def fetch(self, number: i64, link: Fetching) -> None:
        """Never needed: a message that is in the queue is in memory."""
        raise AssertionError(f"message {number} of {self} is not in memory")

    def congested(self) -> bool:
        """Whether its consumers are behind, or where it rejects to.

        A queue that nobody drains holds nobody back.
        """
        behind = self.resident_bytes > FLOW_BYTES and self.draining
        return behind or self._rejected_too_much()

    def hand_out(self) -> None:
        """Have those who wait get what is ready, but for what is too much for one turn."""
        fifo = self.fifo
        if fifo.sizes.expiring > 0:
            fifo.pass_time(self.host.now_ms())
        if len(self.deliveries) < fifo.hand_out_max and not fifo.returning():
            self.act(fifo.dispatch())

    def dispatch(self) -> None:
        """Hand out what is ready, then let go of what has left."""
        if self.fifo.returning():
            self.act(self.fifo.dispatch())
        else:
            self.hand_out()
        before = self.delivered
        super().dispatch()
        if self.fifo.sizes.expiring > 0:
            self._mind_expiry()
        if self.delivered != before:
            self.draining = True
        self._let_go()

    def set_message_ttl(self, ttl_ms: i64) -> None:
        """Have messages expire after so long that come from now on."""
        self.fifo.config.message_ttl_ms = ttl_ms

    def set_limits(self, limits: Limits) -> None:
        """Have the first messages dropped where there are too many."""
        self._know(SIZES, limits.max_bytes >= 0)
        self.fifo.config.set_limits(limits)
        self._mark()

    def _set_deaths(self, dead_letters: i64) -> None:
        """Have the machine say what dies, or not."""
        self.fifo.config.dead_letters = dead_letters

    def look_after(self) -> None:
        """Note whether messages leave; called about once a second."""
        self.draining = self.delivered != self._delivered_before
        self._delivered_before = self.delivered

    def _before_asking(self) -> None:
        """What was published before is there before."""
        if self._pending > 0:
            self._seal_messages()
        else:
            self.hand_out()

    def _seal_messages(self) -> None:
        if self._pending_commands:
            self._seal_commands(None)
        fifo = self.fifo
        first = fifo.next_message
        gathered = self._take_messages()
        count = gathered.count
        batch = Batch(
            None,
            KIND_MESSAGES,
            0,
            0,
            first,
            count,
            0,
            gathered.lengths,
            0,
            gathered.payload,
            0,
            len(gathered.payload),
            None,
            0,
            0,
            gathered.flavour,
            gathered.life_ms,
            gathered.facts,
        )
        self._residents.append(ResidentBatch(batch))
        self.resident_bytes += batch.payload_size
        meta = Meta(self.host.now_ms())
        messages = Enqueue(first, count, batch.payload_size, gathered.life_ms, gathered.facts)
        self.act(fifo.apply(meta, messages)[1])
        self.hand_out()
        self.published += count
        for run in gathered.runs:
            run.safe()

    def _seal_commands(self, waiter: PendingReply | None) -> None:
        payload = self._take_commands()
        reply, effects = self.fifo.apply(NO_META, Encoded(payload, 0, len(payload)))
        self.act(effects)
        if waiter is not None:
            waiter.succeeded(reply)

    def _adopt(self, consumer_id: i64, limiter: Limiter | None) -> None:
        self.fifo.consumers[consumer_id].limiter = limiter

    def _resident(self, number: i64) -> ResidentBatch | None:
        last = self._last
        if last is not None:
            batch = last.batch
            if batch.first <= number < batch.first + batch.count:
                return last
        residents = self._residents
        low: i64 = 0
        high = residents.size()
        while low < high:
            middle = (low + high) // 2
            batch = residents.at(middle).batch
            if batch.first + batch.count <= number:
                low = middle + 1
            else:
                high = middle
        if low == residents.size() or residents.at(low).batch.first > number:
            return None
        self._last = residents.at(low)
        return self._last

    def _let_go(self) -> None:
        """Drop residents all of whose messages have left the queue."""
        for number, last in self.freed.take():
            end = last + 1
            while number < end:
                resident = self._resident(number)
                assert resident is not None, f"message {number} of {self} left twice"
                batch = resident.batch
                stop = min(end, batch.first + batch.count)
                resident.live -= stop - number
                number = stop
                if resident.live == 0:
                    self.resident_bytes -= batch.payload_size
                    batch.payload = b""
                    batch.lengths = b""
                    self._empty += 1
                    self._last = None
        if self._empty > 0:
            self._tidy()
        if self.freed.lists:
            self._mark()

    def _tidy(self) -> None:
        """Forget empty batches: those in front at once, those between when they are many."""
        residents = self._residents
        while residents.size() > 0 and residents.at(0).live == 0:
            residents.drop(1)
            self._empty -= 1
        if self._empty > SLACK_MIN and self._empty * 2 > residents.size():
            self._residents = HeadedList()
            for place in range(residents.size()):
                resident = residents.at(place)
                if resident.live > 0:
                    self._residents.append(resident)
            self._empty = 0
