"""A classic queue of another node, as this node's channels see it.

It looks like any other queue, and has no machine. What channels want of it goes over the line to
its node, messages and commands in one row with numbers; what that node hands to consumers comes
back with the bodies, which stay here until they are written to a client. At most a window of them
is under way for each consumer.

A line is either whole or gone: when it goes, everything that was under way over it is void. Then
publishes are nacked, whoever waits gets a 404, and consumers are cancelled, as where the node of a
classic queue is down. While there is no line the queue refuses in the same way; but publishes wait
for one that is about to come. They also wait here while much is on its way to the queue's node, and
commands behind them: what is under way over a link is bounded, and flow control only holds those
who have published already.

Source: MIR-22, B-07.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from warren.errors import NOT_FOUND, Refusal
from warren.log.batch import KIND_MESSAGES, Batch
from warren.message.flavours import AMQP091
from warren.pending import PendingReply, PendingRequest
from warren.queue_types import QueueType
from warren.queues.fifo.consumers import Consumer, Limiter
from warren.queues.fifo.effects import Delivery, Reply
from warren.queues.gathering import GatheringQueue
from warren.queues.lines import Asked, Inbox, Kept, Line, ReceivedMessages, Sent
from warren.queues.links import Fetching, Link
from warren.queues.publishing import PublishRun
from warren.queues.queue import Counts, Host

FLOW_BYTES: Final = 4_194_304
"""With more than this sent and not answered, publishers wait."""

WINDOW_BYTES: Final = 1_048_576
WINDOW_MESSAGES: Final = 16_384
"""So much may be under way to one consumer, handed out and not written to its client."""


@final
class ProxyQueue(GatheringQueue):
    """A queue of another node: passes on what channels want of it, and what comes for them."""

    def __init__(
        self, host: Host, vhost: str, name: str, queue_type: QueueType, durable: bool, line: Line
    ) -> None:
        super().__init__(host, vhost, name, queue_type)
        self.durable: bool = durable
        self.line: Line = line
        self.unsafe_bytes: i64 = 0
        self._held: bool = False
        self._tells_of_deaths: bool = False
        """Whether messages that die there go on elsewhere."""
        self._sequence: i64 = 0
        self._sent: deque[Sent] = deque()
        self._by_sequence: dict[int, Sent] = {}
        self._kept: deque[Kept] = deque()
        """What of the row of this line was not sent yet."""
        self._asked: dict[int, Asked] = {}
        self._attaching: i64 = -1
        self._exclusive: bool = False
        """Whether who is attached next asks to be the only one."""
        self._inboxes: dict[int, Inbox] = {}
        self._holders: dict[int, Consumer] = {}
        """Consumers of this node that may hold messages, for their channels' shared limits."""
        self._at_hand: Batch | None = None
        self._pollers: dict[int, i64] = {}
        """By a channel's id for polling, the id over this line."""
        self._starts: list[int] = []
        """Where the runs begin among the messages that were gathered."""
        self._ready: i64 = 0
        self._consumers: i64 = 0

    # --- while there is no line -----------------------------------------------------------------

    def check_usable(self) -> None:
        """Refuse to be used while there is no line.

        Raises:
            Refusal: `NOT_FOUND`.
        """
        if self.line.number == 0:
            raise Refusal(NOT_FOUND, self.absence())

    def absence(self) -> str:
        """Why it cannot be used."""
        if self.deleted:
            return f"no {self}"
        if self.type.replicated:
            return f"{self} has no member on this node yet"
        durable = "durable " if self.durable else ""
        return f"home node '{self.line.owner}' of {durable}{self} is down or inaccessible"

    def lost(self) -> None:
        """The line is gone, and with it all that was under way."""
        self.halted = False
        self._end()

    def halt(self) -> None:
        """Its node cannot start it: what was asked of it is refused, but it may be deleted."""
        self.halted = True
        self._end()

    def _end(self) -> None:
        links = self._abandon()
        self.links = {}
        for link in links:
            link.cancelled()
        self._answer_all(True)
        self.let_go()

    def give_up(self) -> None:
        """No line has come: what waited for one is refused."""
        self._sequence = 0
        self._answer_all(True)
        self.let_go()

    def go_on(self) -> bool:
        """Send what was kept, as far as the line takes it; whether that was all."""
        while self._kept:
            if self.line.number == 0 or self.line.clogged():
                return False
            kept = self._kept.popleft()
            if kept.count > 0:
                self._send_messages(kept)
            else:
                self.line.send_commands(
                    self.group_id, kept.sequence, kept.first, kept.second, kept.payload
                )
        return True

    def _send_messages(self, kept: Kept) -> None:
        self.line.send_messages(
            self.group_id,
            kept.sequence,
            kept.count,
            kept.first,
            kept.second,
            kept.lengths,
            kept.payload,
            kept.flavour,
            kept.life_ms,
        )

    def _waits(self) -> bool:
        """Whether what is to be sent has to wait."""
        return len(self._kept) > 0 or self.line.number == 0 or self.line.clogged()

    def _keep(self, kept: Kept) -> None:
        self._kept.append(kept)
        self.line.go_on_later(self)

    def close(self) -> None:
        """The queue was deleted; messages that it would have had count as safe (as RabbitMQ)."""
        self._abandon()
        super().close()
        self._answer_all(False)
        self.line.dismiss(self.group_id)

    def _abandon(self) -> list[Link]:
        """Forget the consumers; returns the links of those that are attached."""
        for asked in self._asked.values():
            # Its client learns from the answer.
            self.links.pop(asked.consumer_id, None)
        for consumer in self._holders.values():
            consumer.release(0, consumer.next_mid)
        self._holders = {}
        self._inboxes = {}
        self._pollers = {}
        self._automatic = {}
        self._sequence = 0
        self._held = False
        self._take_commands()
        return list(self.links.values())

    def _answer_all(self, refused: bool) -> None:
        sent = self._sent
        asked = self._asked
        pending = self._pending
        runs = self._forget_messages()
        self._sent = deque()
        self._by_sequence = {}
        self._kept = deque()
        self._asked = {}
        self.unsafe_bytes = 0
        if pending > 0:
            sent.append(Sent(pending, 0, runs, []))
        self._starts = []
        for one in sent:
            self._complete(one, refused or one.refused)
        for question in asked.values():
            question.waiter.abandoned()

    def _complete(self, sent: Sent, refused: bool) -> None:
        if refused and not sent.runs and not self.deleted:
            self.line.dropped(sent.count)
        sent.reject()
        for run in sent.runs:
            if refused:
                run.refused = True
            run.safe()

    # --- for channels ---------------------------------------------------------------------------

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
        """Gather messages, or refuse them."""
        if self.line.number == 0:
            # What comes now is not what was under way, and may wait for another line.
            self.line.settle_loss(self)
        if self.line.number == 0 and not self.deleted and not self.line.coming():
            if run is None:
                self.line.dropped(count)
            else:
                run.refused = True
                run.safe()
        else:
            super().publish(records, lengths, count, persistent, run, flavour, life_ms)
            if run is not None and not self.deleted:
                self._starts.append(int(self._pending - count))

    def new_consumer(self) -> i64:
        """An id that no other consumer in the cluster has."""
        return self.line.new_consumer()

    def admit(self, exclusive: bool) -> bool:
        """Leave it to the queue's node, which knows of all consumers and may refuse one of them."""
        self._exclusive = exclusive
        return True

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
        """Attach a consumer. A channel's shared limit is kept here, not by the queue's machine."""
        if self.line.number == 0:
            waiter.abandoned()
            return
        consumer = Consumer(consumer_id, 0, priority)
        consumer.limiter = limiter
        self._holders[consumer_id] = consumer
        self._inboxes[consumer_id] = Inbox(consumer, link)
        self._attaching = consumer_id
        super().subscribe(link, consumer_id, credit, priority, None, waiter, automatic)
        self._attaching = -1

    def settle(self, consumer_id: i64, first: i64, last: i64) -> None:
        """Message ids of a consumer are done with."""
        self._release(consumer_id, first, last)
        if self.line.number:
            super().settle(consumer_id, first, last)

    def return_(self, consumer_id: i64, first: i64, last: i64, failed: bool) -> None:
        """Message ids of a consumer go back to the queue."""
        self._release(consumer_id, first, last)
        if self.line.number:
            super().return_(consumer_id, first, last, failed)

    def discard(self, consumer_id: i64, first: i64, last: i64, failed: bool) -> None:
        """Message ids of a consumer were rejected for good."""
        self._release(consumer_id, first, last)
        if self.line.number:
            super().discard(consumer_id, first, last, failed)

    def set_dead_letters(self, exchange: str | None, key: str | None, kept: bool = False) -> None:
        """Mind whether its node is to be told why messages are rejected."""
        self._tells_of_deaths = exchange is not None

    def _tells_deaths(self) -> bool:
        return self._tells_of_deaths

    def cancel(self, consumer_id: i64) -> None:
        """A consumer wants no more; what came and was not handed on goes back."""
        inbox = self._inboxes.pop(consumer_id, None)
        if inbox is not None:
            for piece in inbox.pieces:
                delivery = piece.delivery
                self.return_(consumer_id, delivery.mid, delivery.mid + delivery.count - 1, False)
            if inbox.consumer.limiter is None:
                self._holders.pop(consumer_id, None)
        if self.line.number:
            super().cancel(consumer_id)
        else:
            self._unlink(consumer_id)

    def down(self, consumer_id: i64) -> None:
        """A consumer's channel is gone."""
        self._inboxes.pop(consumer_id, None)
        consumer = self._holders.pop(consumer_id, None)
        if consumer is not None:
            consumer.release(0, consumer.next_mid)
        polling = self._pollers.pop(consumer_id, None)
        if self.line.number:
            super().down(consumer_id if polling is None else polling)
        self._unlink(consumer_id)

    def get(self, consumer_id: i64, waiter: PendingRequest) -> None:
        """Ask for one message. Ids of another line must not settle what comes over this one."""
        polling = self._poller(consumer_id, waiter)
        if polling >= 0:
            super().get(polling, waiter)

    def pick(self, consumer_id: i64, number: i64, waiter: PendingRequest) -> None:
        """Ask for one message by its number; a `PollReply` has it, or none if it is not ready."""
        polling = self._poller(consumer_id, waiter)
        if polling >= 0:
            super().pick(polling, number, waiter)

    def _poller(self, consumer_id: i64, waiter: PendingRequest) -> i64:
        """The id of a channel that polls over this line; negative if `waiter` was refused."""
        if self.line.number == 0:
            waiter.abandoned()
            return -1
        known = self._pollers.get(consumer_id)
        if known is not None:
            return known
        try:
            polling = self.new_consumer()
        except Refusal as refusal:
            waiter.refused(refusal)
            return -1
        self._pollers[consumer_id] = polling
        return polling

    def purge(self, waiter: PendingReply) -> None:
        """Drop all ready messages; a `PurgeReply` says how many."""
        if self.line.number == 0:
            waiter.abandoned()
            return
        super().purge(waiter)

    def count(self, waiter: PendingReply) -> None:
        """Ask how many messages and consumers there are; then the counts below are true."""
        if self.line.number == 0:
            waiter.abandoned()
            return
        self._ask(waiter)

    def ready_count(self) -> i64:
        """As of the last answer."""
        return self._ready

    def consumer_count(self) -> i64:
        """As of the last answer."""
        return self._consumers

    def counts(self) -> Counts | None:
        """What it holds, its node knows."""
        return None

    def congested(self) -> bool:
        """Whether the queue's node is behind, or the way there."""
        return self._held or self.unsafe_bytes > FLOW_BYTES

    def pause(self, consumer_id: i64) -> None:
        """Hand a consumer nothing more until `resume`."""
        inbox = self._inboxes.get(consumer_id)
        if inbox is not None:
            inbox.paused = True

    def resume(self, consumer_id: i64) -> None:
        """Go on with a consumer, if it was paused: its client reads again."""
        inbox = self._inboxes.get(consumer_id)
        if inbox is not None and inbox.paused:
            inbox.paused = False
            self._hand_on(inbox)

    def limit(self, consumer_id: i64, limiter: Limiter) -> None:
        """A consumer has a shared limit from now on; what it holds already does not count."""
        inbox = self._inboxes.get(consumer_id)
        if inbox is not None:
            inbox.consumer.limiter = limiter

    def wake(self, consumer_id: i64) -> None:
        """A consumer's shared limit has room again."""
        inbox = self._inboxes.get(consumer_id)
        if inbox is not None:
            self._hand_on(inbox)

    def dispatch(self) -> None:
        """Nothing waits for the end of a turn: what comes is handed on at once."""

    # --- for links ------------------------------------------------------------------------------

    def batch_of(self, number: i64) -> Batch | None:
        """The batch that holds a message that came and is not written yet."""
        batch = self._at_hand
        if batch is not None and batch.first <= number < batch.first + batch.count:
            return batch
        for inbox in self._inboxes.values():
            piece = inbox.current
            if piece is not None:
                batch = piece.batch
                if batch.first <= number < batch.first + batch.count:
                    return batch
        return None

    def fetch(self, number: i64, link: Fetching) -> None:
        """Never needed: what a link was handed is here."""
        raise AssertionError(f"message {number} of {self} is not here")

    # --- what its node says ---------------------------------------------------------------------

    def stored(
        self, sequence: i64, refused: bool, rejected: list[tuple[int, int]] | None = None
    ) -> None:
        """Messages are safe, or could not be taken; told in the order of publishing.

        Args:
            rejected: Those that there was no room for, by their places, where that is not all.
        """
        one = self._by_sequence.pop(sequence, None)
        if one is None:
            return
        one.answered = True
        one.refused = refused
        one.rejected = rejected
        sent = self._sent
        while sent and sent[0].answered:
            one = sent.popleft()
            self.unsafe_bytes -= one.size
            self._complete(one, one.refused)

    def replied(
        self, sequence: i64, reply: Reply, ready: i64, consumers: i64, batch: Batch | None
    ) -> None:
        """An answer; `batch` holds the message that was polled."""
        self._ready = ready
        self._consumers = consumers
        asked = self._asked.pop(sequence, None)
        if asked is not None:
            self._at_hand = batch
            asked.waiter.succeeded(reply)
            self._at_hand = None

    def arrived(self, consumer_id: i64, mid: i64, acquired: i64, batch: Batch, size: i64) -> str:
        """Messages were handed to a consumer; returns why that cannot be, empty if it can."""
        inbox = self._inboxes.get(consumer_id)
        if inbox is None:
            # Cancelled meanwhile: nobody will see these, so nobody can settle them.
            self.return_(consumer_id, mid, mid + batch.count - 1, False)
            return ""
        if mid < inbox.next_mid:
            return f"message {mid} of consumer {consumer_id} comes behind {inbox.next_mid}"
        inbox.next_mid = mid + batch.count
        delivery = Delivery(inbox.consumer, mid, batch.first, batch.count, acquired)
        inbox.pieces.append(ReceivedMessages(delivery, batch, size, batch.count))
        self._hand_on(inbox)
        return ""

    def sent_count(self, sequence: i64) -> i64:
        """How many messages were sent under a number; -1 if they are answered, or given up."""
        one = self._by_sequence.get(sequence)
        return -1 if one is None else one.count

    def hold(self, held: bool) -> None:
        """Publishers are to wait, or no more."""
        self._held = held

    # --- inside ---------------------------------------------------------------------------------

    def _hand_on(self, inbox: Inbox) -> None:
        """Hand to the link what its client takes, and tell the queue's node."""
        consumer = inbox.consumer
        while True:
            piece = inbox.current
            if piece is not None:
                if piece.delivery.count > 0:
                    break
                inbox.current = None
                inbox.owed_count += piece.count
                inbox.owed_bytes += piece.size
            if inbox.paused or not inbox.pieces:
                break
            piece = self._next_piece(inbox)
            if piece is None:
                break
            inbox.current = piece
            delivery = piece.delivery
            self.delivered += delivery.count
            if delivery.acquired > 0:
                self.redelivered += delivery.count
            self._at_hand = piece.batch
            inbox.link.delivered(delivery)
            self._at_hand = None
            if delivery.count > 0:
                inbox.paused = True
        if inbox.owed_bytes * 4 >= WINDOW_BYTES or inbox.owed_count * 4 >= WINDOW_MESSAGES:
            if self.line.number:
                self.line.send_grant(self.group_id, consumer.id, inbox.owed_count, inbox.owed_bytes)
            inbox.owed_count = 0
            inbox.owed_bytes = 0

    def _next_piece(self, inbox: Inbox) -> ReceivedMessages | None:
        """What may be handed on next: as much as the channel's shared limit has room for."""
        piece = inbox.pieces[0]
        consumer = inbox.consumer
        limiter = consumer.limiter
        if limiter is None:
            return inbox.pieces.popleft()
        delivery = piece.delivery
        if limiter.limit > 0 and limiter.limit - limiter.used < delivery.count:
            room = limiter.limit - limiter.used
            if room <= 0:
                return None
            part = Delivery(consumer, delivery.mid, delivery.first, room, delivery.acquired)
            delivery.mid += room
            delivery.first += room
            delivery.count -= room
            piece = ReceivedMessages(part, piece.batch, 0, 0)
            delivery = part
        else:
            inbox.pieces.popleft()
        consumer.next_mid = delivery.mid
        consumer.hold(delivery.first, delivery.count, delivery.acquired, 0)
        return piece

    def _release(self, consumer_id: i64, first: i64, last: i64) -> None:
        """Give room back to a channel's shared limit."""
        consumer = self._holders.get(consumer_id)
        if consumer is not None and consumer.limiter is not None:
            consumer.release(first, last)

    def _seal_messages(self) -> None:
        gathered = self._take_messages()
        sent = Sent(gathered.count, len(gathered.payload), gathered.runs, self._starts)
        self._starts = []
        if self.line.number == 0 and not self.line.coming():
            self._complete(sent, True)
            return
        self._sequence += 1
        self._sent.append(sent)
        self._by_sequence[self._sequence] = sent
        self.unsafe_bytes += sent.size
        self.published += sent.count
        kept = Kept(
            self._sequence,
            sent.count,
            gathered.kind == KIND_MESSAGES,
            len(sent.runs) > 0,
            gathered.lengths,
            gathered.payload,
            gathered.flavour,
            gathered.life_ms,
        )
        if self._waits():
            self._keep(kept)
        else:
            self._send_messages(kept)

    def _seal_commands(self, waiter: PendingReply | None) -> None:
        payload = self._take_commands()
        if self.line.number == 0:
            if waiter is not None:
                waiter.abandoned()
            return
        self._sequence += 1
        if waiter is not None:
            self._asked[self._sequence] = Asked(waiter, self._attaching)
        exclusive = self._attaching >= 0 and self._exclusive
        wanted = waiter is not None
        if self._waits():
            self._keep(Kept(self._sequence, 0, wanted, exclusive, b"", payload))
        else:
            self.line.send_commands(self.group_id, self._sequence, wanted, exclusive, payload)

    def _unlink(self, consumer_id: i64) -> None:
        """Whether an auto-delete queue goes is decided on its node, which is asked then."""
        last = self.links.pop(consumer_id, None) is not None and not self.links
        if last and self.auto_delete and not self.deleted and self.line.number:
            self.host.queue_left(self)
