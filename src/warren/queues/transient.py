"""Classic queues that do not outlive their node: messages and bodies in memory (DUR-02).

While memory is short, bodies that are not delivered soon lie on disk (`paging`).
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.log.batch import KIND_MESSAGES, Batch
from warren.log.facts import SIZES
from warren.pending import PendingReply
from warren.queue_types import CLASSIC
from warren.queues.fifo.config import Limits
from warren.queues.fifo.consumers import Limiter
from warren.queues.fifo.entry import NO_META, Encoded, Enqueue, Meta
from warren.queues.fifo.machine import Fifo
from warren.queues.links import Fetching
from warren.queues.lossy import LossyQueue
from warren.queues.paging import (
    BATCHES_AT_ONCE,
    KEEP_BYTES,
    READ_BYTES,
    PagedBodies,
    PagePlace,
    PageRead,
    PageWrite,
    ResidentBatch,
)
from warren.queues.queue import Counts, Host
from warren.queues.residents import Forgetting, Residents

FLOW_BYTES: Final = 4_194_304
"""With more than this in a queue that is being consumed, its publishers wait for the consumers."""

LET_GO_STEPS: Final = 2_048
"""What is done of letting go of bodies in one turn, a look at a batch being a step."""

EMPTY_STEPS: Final = 4
"""That of a batch of which nothing is left is as much as so many. With the last object of a
megabyte that goes back to the system, a tenth of a millisecond: of messages of many priorities,
those that leave last may each be such an object."""

BATCHES_A_STEP: Final = 8
"""Batches that were let go of before, and of which nothing but their place was left."""


@final
class TransientQueue(LossyQueue):
    """A non-durable or exclusive classic queue.

    Attributes:
        body_bytes: What its bodies take, in memory or on disk.
        resident_bytes: What they take in memory.
        draining: Whether messages were delivered lately.
        lazy: Whether bodies go to disk although there is enough memory (CQ-06).
        noted: Whether `Pages` knows that some may go to disk.
    """

    def __init__(self, host: Host, vhost: str, name: str) -> None:
        super().__init__(host, vhost, name, CLASSIC, Fifo(-1, True, True))
        self.body_bytes: i64 = 0
        self.resident_bytes: i64 = 0
        self._away: i64 = 0
        """Messages whose bodies are on disk alone."""
        self.lazy: bool = False
        self.noted: bool = False
        self.draining: bool = False
        self._delivered_before: i64 = 0
        self._residents: Residents = Residents()
        self._last: ResidentBatch | None = None
        self._left: list[tuple[int, int]] = []
        """Messages that left and are being let go of, as pairs of their first and last number;"""
        self._left_at: i64 = 0
        """the first pair of which that is not done,"""
        self._left_done: i64 = 0
        """and how many messages of this pair are."""
        self._paged: PagedBodies | None = None
        """What is known of its bodies on disk, once some were."""
        self._readers: list[Fetching] = []
        self._wanted: i64 = 0
        """The first message that they wait for."""

    def batch_of(self, number: i64) -> Batch | None:
        """The batch that holds a message, if it is in memory and the message in the queue."""
        resident = self._resident(number)
        return resident.batch if resident is not None and resident.is_here() else None

    def has(self, number: i64) -> bool:
        """Whether a body may be asked for: one of its batch is in the queue."""
        resident = self._resident(number)
        return resident is not None and resident.live > 0 and super().has(number)

    def looked_through(self) -> None:
        """Let go of bodies that came back from disk, unless consumers wait for some."""
        paged = self._paged
        if paged is not None and not self._readers:
            self._let_go_of_those_back(paged)

    def _let_go_of_those_back(self, paged: PagedBodies) -> i64:
        """Have bodies leave memory that came back and are on disk; gives what they took."""
        taken: i64 = 0
        for resident in paged.back:
            if resident.live > 0 and len(resident.batch.payload) > 0:
                self.let_go_of_body(resident)
                taken += resident.batch.payload_size
        paged.back = []
        return taken

    def fetch(self, number: i64, link: Fetching) -> None:
        """Have a message read that is on disk, and some behind it; then all links go on."""
        if not self._readers or number < self._wanted:
            self._wanted = number
        self._readers.append(link)
        self._read()

    def _read(self) -> None:
        paged = self._paged
        pages = self.host.pages
        if not self._readers or self.deleted:
            return
        assert paged is not None and pages is not None, f"{self} has nothing on disk"
        if paged.reading or paged.stalled:
            return
        reading: PageRead | None = None
        for resident in self._residents.some(self._wanted, BATCHES_AT_ONCE):
            place = resident.place
            if resident.live == 0 or place is None or resident.is_here():
                break
            if reading is None:
                reading = PageRead(self, place.file, place.offset)
            elif (
                place.file.path != reading.path
                or place.offset != reading.offset + reading.size
                or reading.size + resident.batch.payload_size > READ_BYTES
            ):
                break
            reading.add(resident, place)
        assert reading is not None, f"message {self._wanted} of {self} is not on disk"
        paged.reading = True
        pages.read(reading)

    def bodies_back(self, reading: PageRead, error: BaseException | None) -> None:
        """A read came back; what is damaged is lost, and nobody has another copy."""
        paged = self._paged
        assert paged is not None, "it was read"
        paged.reading = False
        if self.deleted:
            return
        if error is not None:
            paged.stalled = True
            self.host.queue_damaged(self, error)
            self.host.queue_stalled(self)
            return
        lost: list[tuple[int, int]] = []
        for at, resident in enumerate(reading.residents):
            batch = resident.batch
            if resident.live == 0:
                continue
            if reading.bodies[at]:
                batch.payload = reading.bodies[at]
                self.resident_bytes += batch.payload_size
                self._away -= resident.live
                paged.back.append(resident)
            else:
                lost.append((int(batch.first), int(batch.first + batch.count - 1)))
        if lost:
            self.go_without(lost, reading.damage(lost))
        self._note()
        self._resume_readers()

    def retry(self) -> None:
        """Time has passed: read again what could not be read, as far as it is still wanted.

        What an operator looked at may have left meanwhile: so all who wait ask anew.
        """
        paged = self._paged
        if paged is not None and paged.stalled:
            paged.stalled = False
            self._resume_readers()

    def _resume_readers(self) -> None:
        links = self._readers
        self._readers = []
        for link in links:
            link.resume()

    def drop(self, gone: list[tuple[int, int]]) -> None:
        """Have messages that are lost leave what is ready."""
        self.fifo.free(gone)
        self._mark()

    def page_out(self, writing: PageWrite, room: i64) -> i64:
        """Have bodies leave memory that are not delivered soon; gives how much does, or will.

        Args:
            writing: Takes those that are not on disk yet.
            room: About so much.
        """
        paged = self._paged
        if paged is None:
            paged = PagedBodies()
            self._paged = paged
        taken = self._let_go_of_those_back(paged)
        residents = self._residents
        behind = paged.to
        kept: i64 = 0
        looked: i64 = 0
        for resident in residents.some(0, BATCHES_AT_ONCE):
            if kept >= KEEP_BYTES:
                break
            kept += resident.batch.payload_size
            looked += 1
            behind = max(behind, resident.batch.first + resident.batch.count)
        for resident in residents.some(behind, BATCHES_AT_ONCE - looked):
            if taken >= room or writing.is_full():
                break
            if resident.live > 0 and resident.place is None:
                writing.add(self, resident)
                taken += resident.batch.payload_size
            behind = resident.batch.first + resident.batch.count
        ended = not residents.some(behind, 1)
        paged.to = self.fifo.next_message if ended else behind
        # What was only looked at counts as something: there is more behind it.
        return taken if taken > 0 or ended else 1

    def not_paged(self, resident: ResidentBatch) -> None:
        """A body could not be written: it is looked at again."""
        paged = self._paged
        if paged is not None:
            paged.to = min(paged.to, resident.batch.first)

    def let_go_of_body(self, resident: ResidentBatch) -> None:
        """A body is on disk: memory need not have it."""
        batch = resident.batch
        self.resident_bytes -= batch.payload_size
        self._away += resident.live
        batch.payload = b""

    def _tell_apart(self, counts: Counts) -> None:
        """Nothing survives; what is not on disk alone is in memory."""
        counts.persistent = 0
        counts.persistent_bytes = 0
        counts.resident = max(0, counts.ready + counts.held - self._away)
        counts.resident_bytes = min(counts.bytes, self.resident_bytes)

    def set_lazy(self, lazy: bool) -> None:
        """Have bodies go to disk at any time, or only while memory is short."""
        if lazy != self.lazy:
            pages = self.host.pages
            if pages is not None:
                pages.forget(self)
            self.lazy = lazy
            self._note()

    def _note(self) -> None:
        """Tell where there is more in memory than is delivered soon."""
        if self.resident_bytes > KEEP_BYTES and not self.noted:
            pages = self.host.pages
            if pages is not None:
                pages.note(self)

    def close(self) -> None:
        """The queue was deleted: nobody gets what they wait for, and the disk forgets it."""
        super().close()
        pages = self.host.pages
        if pages is not None:
            pages.forget(self)
        # Where a publisher's route goes may be remembered for long, and with it the queue.
        if self._paged is not None or self._residents.has_more_than(1):
            self.host.do_in_parts(Forgetting(self._residents, pages))
        self._residents = Residents()
        self._last = None
        self._resume_readers()

    def own_body_bytes(self) -> i64:
        """What bodies take in memory."""
        return self.resident_bytes

    def congested(self) -> bool:
        """Whether its consumers are behind, or where it rejects to.

        A queue that nobody drains holds nobody back.
        """
        behind = self.body_bytes > FLOW_BYTES and self.draining
        return behind or self._rejected_too_much()

    def hand_out(self) -> None:
        """Have those who wait get what is ready, but for what is too much for one turn.

        What the machine goes on with for some turns does so once in each, when that ends.
        """
        fifo = self.fifo
        if fifo.sizes.expiring > 0:
            fifo.pass_time(self.machine_ms())
        if self.delivery_count() < fifo.hand_out_max and not fifo.is_behind():
            self.act(fifo.dispatch())

    def dispatch(self) -> None:
        """Hand out what is ready, then let go of what has left."""
        if self.fifo.is_behind():
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
        super().look_after()
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
        self.body_bytes += batch.payload_size
        self.resident_bytes += batch.payload_size
        self._note()
        meta = Meta(self.machine_ms())
        messages = Enqueue(first, count, batch.payload_size, gathered.life_ms, gathered.facts)
        self.act(fifo.apply(meta, messages)[1])
        self.hand_out()
        self.published += count
        if self.feed is not None:
            self.feed.confirmed(first, count)
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
        found = self._residents.find(number)
        if found is not None:
            self._last = found
        return found

    def _let_go(self) -> None:
        """Drop residents all of whose messages have left the queue; so many in one turn."""
        if self.deleted:
            return
        steps: i64 = LET_GO_STEPS
        while steps > 0:
            if self._left_at == len(self._left):
                self._left = self.freed.take()
                self._left_at = 0
                if not self._left:
                    return
            first, last = self._left[self._left_at]
            number = i64(first) + self._left_done
            end = i64(last) + 1
            while number < end and steps > 0:
                resident = self._resident(number)
                assert resident is not None, f"message {number} of {self} left twice"
                batch = resident.batch
                stop = min(end, batch.first + batch.count)
                resident.live -= stop - number
                if self._away > 0 and not resident.is_here():
                    self._away -= stop - number
                number = stop
                steps -= 1
                if resident.live == 0:
                    steps -= EMPTY_STEPS + self._emptied(resident) // BATCHES_A_STEP
            self._left_done = number - i64(first)
            if number == end:
                self._left_at += 1
                self._left_done = 0
        if self._left_at < len(self._left) or self.freed.lists:
            self._mark()

    def _emptied(self, resident: ResidentBatch) -> i64:
        """All messages of a batch left; gives how many batches it took with it."""
        batch = resident.batch
        self.body_bytes -= batch.payload_size
        if resident.is_here():
            self.resident_bytes -= batch.payload_size
        place = resident.place
        if place is not None:
            self._forget(resident, place)
        batch.payload = b""
        batch.lengths = b""
        self._last = None
        return self._residents.emptied(resident)

    def _forget(self, resident: ResidentBatch, place: PagePlace) -> None:
        """A body on disk is not wanted any more."""
        pages = self.host.pages
        assert pages is not None, "it has written it"
        resident.place = None
        pages.let_go(place)
