"""The FIFO machine under quorum and classic queues.

Deterministic and without I/O: the same commands in the same order give the same state, the same
replies and the same effects. A message is its number, its share of its batch's bytes, and how often
it came back; bodies stay in the log.

    apply(meta, command) -> reply, effects      for each entry, in the order of the log
    dispatch() -> effects                       behind it: who waits is handed what is ready

A consumer settles by its own message ids, so what it was handed must be the same wherever the
log is replayed: in a replicated queue `dispatch` is part of applying an entry, and a snapshot keeps
whose turn it is.

Messages that return, by whatever command, leave whoever held them at once. They are made ready
again some runs with each entry, and nothing is handed out until all are; likewise what left is
forgotten: an entry costs much the same however scattered they lie.

What the bytes of commands say is read in `applying`. What a snapshot has of it is in `snapshot`;
docs/formats/queue-state.md has its fields.

Source: B-02 to B-04 (rabbit_fifo), POI-01 to POI-12; docs/formats/table-class.md for groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.ids import session_of_consumer
from warren.message.dead_letters import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from warren.ports import Work
from warren.queues.feed_block import GONE, LOST, PURGED, REQUEUED, UNSEEN
from warren.queues.fifo import commands, snapshot
from warren.queues.fifo.applying import apply_commands
from warren.queues.fifo.config import FAIR, UNRANKED, Config
from warren.queues.fifo.consumers import QUIESCING, TIMED_OUT, Consumer
from warren.queues.fifo.dead_letters import AT_THEIR_TIME, FORGOTTEN, Dead
from warren.queues.fifo.delayed import Delayed
from warren.queues.fifo.discards import Discards
from warren.queues.fifo.effects import (
    DONE,
    NO_EFFECTS,
    Delivery,
    Effects,
    Reply,
    TimedOut,
)
from warren.queues.fifo.entry import Encoded, Enqueue, LoggedCommand, Meta
from warren.queues.fifo.groups import Checkout, Group, Readers
from warren.queues.fifo.live import PART_RUNS, Gathering
from warren.queues.fifo.locks import Locks
from warren.queues.fifo.pieces import Piece, Pieces, opened
from warren.queues.fifo.ready import AMONG_DEAD, AT_HEAD, BY_NUMBER, NO_PLACE, Ready
from warren.queues.fifo.restoring import StateReader
from warren.queues.fifo.returning import Leaving, Return, Returning, Strand
from warren.queues.fifo.room import is_blocked, is_over
from warren.queues.fifo.runs import Run, RunQueue, as_run, disjoint
from warren.queues.fifo.schedule import Schedule
from warren.queues.fifo.service import ServiceQueue
from warren.queues.fifo.sessions import mark_suspected
from warren.queues.fifo.single import SingleActive
from warren.queues.fifo.sizes import NEVER, Sizes
from warren.queues.fifo.timeouts import next_due, settled_late

if TYPE_CHECKING:
    from warren.queues.feed import QueueFeed

UNLIMITED: Final = commands.CREDIT_MAX

HAND_OUT_MAX: Final = 4_096
"""Deliveries that one `dispatch` makes: about 4 ms. All members have to stop at the same one, so
another number is another version of the machine."""

SHARE_MAX: Final = 32
"""Messages that a consumer of a classic queue gets at a time, where a great many are ready."""

SHARE_BITS: Final = 8
"""So that consumers still get equal shares: a turn is this power of two's part of what is ready."""

RETURN_MAX: Final = 4_096
"""Runs that one entry makes ready again, and stretches of runs that left which it forgets: about 4
ms. All members stop at the same, as above."""

DUE_MAX: Final = 4_096
"""Messages whose time has come that are kept as dead at a time: the others wait on where they take
less memory. All members stop at the same, as above."""


@final
class Fifo:
    """Ready, returned and held messages of one queue.

    Attributes:
        config: The settings in force.
        reports_freed: Whether effects name the messages that left.
        next_message: Number of the next message to be enqueued.
        used_ms: When a consumer or a reader last did something, in the log's time; where the queue
            may expire, at least when that was said.
        dropped: Messages so far that left without a consumer having settled them: at the delivery
            limit, expired, for want of room, or with a consumer whose acks are automatic and which
            may not have seen them.
        sizes: The bytes of all messages here.
        ready: What waits for a consumer.
        held: Messages that consumers or groups hold.
        coming: Messages on their way back, by the commands that returned them.
        delayed: Messages that came back, and wait before they are ready again.
        leaving: Messages that left, and are not forgotten yet.
        schedule: Messages that wait for their time.
        discards: Messages that died and stay until they are elsewhere.
        blocked: Whether whatever is published is to be rejected, for want of room.
        transient: Numbers of messages that do not survive a restart.
        consumers: By their ids.
        suspects: The sessions whose nodes nobody hears, and since when, in the log's time.
        locks_due: No message is held for too long before this time; `NEVER` if none may be.
        timed_out: Who held messages for too long, and is in no effects yet.
        now_ms: The time of the log, or of a queue of one node: that of the newest entry.
        single: Who is active, where one consumer at a time is served; else None.
        readers, groups: The groups of readers; by their names.
        hand_out_max: See `HAND_OUT_MAX`.
        return_max: See `RETURN_MAX`.
        due_max: See `DUE_MAX`.
        part_runs: See `PART_RUNS`.
        feed: Is told what becomes of messages; None where nobody wants to know. No state depends on
            it.
        steps: How many times in all `dispatch` took a run further, whatever for; a turn's, until
            its owner begins to count anew. No state depends on it.
    """

    def __init__(self, delivery_limit: i64, keeps_place: bool, reports_freed: bool = False) -> None:
        self.config: Config = Config(delivery_limit, keeps_place)
        self.reports_freed: bool = reports_freed
        self.next_message: i64 = 0
        self.dropped: i64 = 0
        self.used_ms: i64 = 0
        self.hand_out_max: i64 = HAND_OUT_MAX
        self.return_max: i64 = RETURN_MAX
        self.due_max: i64 = DUE_MAX
        self.part_runs: i64 = PART_RUNS
        self.feed: QueueFeed | None = None
        self.steps: i64 = 0
        self.clear()

    def clear(self) -> None:
        """Hold nothing: no messages, no consumers, no groups."""
        self.sizes: Sizes = Sizes()
        self.ready: Ready = Ready(self.sizes, self.config.keeps_place)
        self.held: i64 = 0
        self.coming: Returning = Returning()
        self.delayed: Delayed = Delayed(self.sizes)
        self.leaving: Leaving = Leaving()
        self.schedule: Schedule = Schedule()
        self.discards: Discards = Discards(self.sizes)
        self.purged: dict[int, int] = {}
        self.transient: RunQueue = RunQueue()
        self.consumers: dict[int, Consumer] = {}
        self.readers: Readers = Readers()
        self.groups: dict[str, Group] = self.readers.groups
        self.service: ServiceQueue = ServiceQueue()
        self.single: SingleActive | None = None
        self.blocked: bool = False
        self.suspects: dict[int, int] = {}
        self.locks_due: i64 = NEVER
        self.timed_out: list[TimedOut] = []
        self._deliveries: list[Delivery] = []
        """What was handed out and is in no effects yet."""
        self._freed: list[list[Piece]] = []
        """What left and is in no effects yet."""
        self._dead: list[Dead] = []
        """What died and is in no effects yet."""
        self._returned_now: i64 = 0
        """Runs that were made ready again since the last `dispatch`."""
        self._forgotten_now: i64 = 0
        """Stretches of runs that were forgotten since then."""
        self.now_ms: i64 = 0
        self._expired_now: i64 = 0
        """How many times messages were taken that expired, or that there is no room for, since the
        last `dispatch`."""
        self._overdue: bool = False
        """Whether there are more of them; nothing is handed out before what expired has gone."""
        self._at_once: bool = False
        """Whether messages without any time to live came to a classic queue since all who wait had
        theirs: until then they have not expired."""
        self._came_back: bool = False
        """Whether messages came back to a classic queue for which there may be no room."""

    # Entries. `dispatch` follows each batch of them.

    def apply(self, meta: Meta, command: LoggedCommand) -> tuple[Reply, Effects]:
        """Apply an entry of the log; replies to the last command in it.

        Consumers come only in the session that they are named after, if the entry has one: what
        waited while that was closed is submitted again in the next, and would bring back consumers
        that are known to no node any more.

        What no node writes ends the batch for every member at the same place, and its reply is
        `MALFORMED`: such a thing is refused where it comes in, unless a leader lies.
        """
        if meta.stamp_ms > self.now_ms:
            self.now_ms = meta.stamp_ms
        if isinstance(command, Enqueue):
            self.enqueue(command)
            return DONE, NO_EFFECTS
        assert isinstance(command, Encoded), "an entry has messages or commands"
        if self.feed is not None:
            self.feed.note_time()
        reply = apply_commands(self, meta, command)
        return reply, self._effects()

    def dispatch(self) -> Effects:
        """Hand ready messages to consumers with room, one at a time in turn.

        A consumer that is alone at the highest priority takes whole runs, and where hundreds wait
        in a classic queue each takes some at a time. However many messages and consumers there are,
        one call stops behind so many deliveries; `unfinished` then says that another one is called
        for. Before, some of what is on its way back is made ready, and some of what left is
        forgotten.
        """
        if self.coming.count > 0:
            self._bring_back()
        if self.delayed.count > 0:
            self._end_waits()
        self.steps += self._returned_now
        self._returned_now = 0
        if self.leaving.count > 0:
            steps = self.return_max - self._forgotten_now
            self.steps += steps - self.leaving.forget(self.sizes, steps)
            self._forgotten_now = self.return_max
        self._overdue = False
        self.hand_out()
        if self._at_once and not self._waited_for():
            self._at_once = False
            if self.config.max_length == 0 and not self.config.rejects:
                # For want of room a message goes when it comes, even if it expires at that moment.
                self._make_room()
            self.expire()
        if self.config.is_limited() and not self.config.rejects:
            self.blocked = False
            self._make_room()
        elif self.blocked or self.config.rejects:
            self.blocked = is_blocked(self, self._overdue)
        self.steps += self._expired_now + len(self._deliveries)
        # Nothing that a snapshot does not have goes on to the next entry.
        self._forgotten_now = 0
        self._expired_now = 0
        self.check()
        return self._effects()

    def rank(self) -> None:
        """Have messages keep their places and go by their priorities, where the settings say so."""
        config = self.config
        self.ready.keeps_place = config.keeps_place
        if config.keeps_place:
            if config.max_priority > 0:
                self.ready.rank(True, False, 0)
        elif config.ranking != UNRANKED:
            self.ready.rank(False, config.ranking == FAIR, config.base())

    def pass_time(self, now_ms: i64) -> None:
        """Mind that it is so late in a queue of one node, whose entries need not say."""
        if now_ms > self.now_ms:
            self.now_ms = now_ms

    def down_all(self, consumer_ids: list[int], now_ms: i64, failed: bool = True) -> Effects:
        """Several consumers are gone at once: what they held returns, in order.

        Args:
            failed: Whether their deliveries failed.
            now_ms: The log's time of the entry that says so.
        """
        self.pass_time(now_ms)
        strands: list[Strand] = []
        for consumer_id in consumer_ids:
            strand = self._take_back(consumer_id)
            if strand is not None:
                strands.append(strand)
        self.come_back(strands, failed, self.config.delivery_limit)
        return self._effects()

    def unfinished(self) -> bool:
        """Whether something is to come back, to go or to be forgotten, or a consumer can have a
        message.

        Else `dispatch` has nothing to do.
        """
        return (
            self.coming.count > 0
            or self.leaving.count > 0
            or self._overdue
            or self.delayed.is_due(self.now_ms)
            or (self.ready.count > 0 and self.service.any())
        )

    def _waited_for(self) -> bool:
        """Whether somebody is to be handed what is ready, and the last part was full."""
        return self.coming.count > 0 or (self.ready.count > 0 and self.service.any())

    def overdue(self) -> bool:
        """Whether messages have to leave whose time has come, and the next part goes on with it."""
        return self._overdue

    def returning(self) -> bool:
        """Whether messages are on their way back, and nothing is handed out before they are."""
        return self.coming.count > 0

    def is_behind(self) -> bool:
        """Whether each `dispatch` goes on with what is long, whatever it was called for."""
        return self.coming.count > 0 or self.leaving.count > 0 or self._overdue

    def check(self) -> None:
        """What has to hold behind every entry, as far as it costs nothing to look."""
        live = self.ready.count + self.coming.count + self.held + self.discards.count
        live += self.delayed.count + self.schedule.count
        assert self.sizes.count == live + self.leaving.count, "each message is at one place"
        assert self.sizes.bytes >= self.ready.bytes, "what is ready is a part of all there is"
        assert self.held >= 0, "no more is settled than was handed out"

    def _effects(self) -> Effects:
        """Give away what is to be done."""
        if not self._deliveries and not self._freed and not self.timed_out and not self._dead:
            return NO_EFFECTS
        effects = Effects(self._deliveries, self._freed, self.timed_out)
        if self.timed_out:
            self.timed_out = []
        self._deliveries = []
        if self._freed:
            self._freed = []
        if self._dead:
            effects.dead = self._dead
            self._dead = []
        return effects

    # What each command does.

    def configure(self, fields: bytes, at: i64, end: i64) -> None:
        """The settings are others from now on, says a CONFIG."""
        lasted = self.config.expires_ms < 0
        self.config.change(fields, at, end, self.next_message == 0)
        self.rank()
        if self.discards.count > 0 and not self.config.keeps_dead():
            # As in RabbitMQ, they go nowhere (DL-15).
            self._drop_discards()
        if lasted:
            self.used_ms = self.now_ms
        if self.config.single_active and self.single is None:
            self.serve_one()

    def enqueue(self, messages: Enqueue) -> None:
        """Messages arrive."""
        first = messages.first
        count = messages.count
        assert first >= self.next_message and count > 0, "message numbers ascend"
        if self.feed is not None:
            self.feed.published(first, count, messages.bytes, self.now_ms)
        if self.config.dead_letters == AT_THEIR_TIME:
            self.sizes.add(first, count, messages.bytes, NEVER)
            self.schedule.add(first, count, self.now_ms + max(messages.life_ms, 0))
            self.next_message = first + count
            return
        life_ms = self.config.message_ttl_ms
        if 0 <= messages.life_ms and (life_ms < 0 or messages.life_ms < life_ms):
            life_ms = messages.life_ms
        expires_ms: i64 = NEVER
        if life_ms == 0:
            # They are there for those who wait at this very time: of a classic queue until these
            # had what is ready, and of a quorum queue until the log's time goes on.
            self._at_once = self.config.keeps_place
            life_ms = 0 if self._at_once else 1
        if life_ms >= 0:
            expires_ms = max(1, self.now_ms + life_ms)
        if messages.facts:
            self._add_each(messages, expires_ms)
        else:
            self.sizes.add(first, count, messages.bytes, expires_ms)
            self.ready.push(first, count, messages.bytes)
        self.next_message = first + count

    def _add_each(self, messages: Enqueue, expires_ms: i64) -> None:
        """Take in messages that are known each by itself."""
        config = self.config
        looked: i64 = 0
        at: i64 = 0
        while at < messages.count:
            size = messages.size(at)
            rank = config.rank(messages.priority(at))
            failed = messages.failures(at)
            behind = at + 1
            while (
                behind < messages.count
                and messages.size(behind) == size
                and config.rank(messages.priority(behind)) == rank
                and messages.failures(behind) == failed
            ):
                behind += 1
            first = messages.first + at
            self.sizes.add_each(first, behind - at, size, expires_ms, rank)
            self.ready.push(first, behind - at, (behind - at) * size, rank, failed)
            at = behind
            if at < messages.count and config.rank(messages.priority(at)) != rank:
                self._serve_as_they_come(at - looked)
                looked = at

    def _serve_as_they_come(self, most: i64) -> None:
        """Hand out what came so far: a message of another rank behind it does not go before it.

        Whoever waits has each message as it comes, as in RabbitMQ, though several came together.

        Args:
            most: No more than came by then; whoever is behind with others is so afterwards.
        """
        if self.service.any():
            self.hand_out(most)

    def attach(
        self, consumer_id: i64, credit: i64, priority: i64, automatic: bool, timeout_ms: i64
    ) -> None:
        """A consumer arrives; one of the same id, as no node would have it, is gone first."""
        if consumer_id in self.consumers:
            self.down(consumer_id)
        consumer = Consumer(consumer_id, credit, priority)
        consumer.automatic = automatic
        if timeout_ms >= 0:
            consumer.locks = Locks(timeout_ms)
        mark_suspected(self, consumer)
        self.consumers[consumer_id] = consumer
        if self.single is None:
            self.service.wake(consumer)
        else:
            self.single.attached(consumer)

    def serve_one(self) -> None:
        """From now on one consumer at a time is served; in a queue that is new, nearly always."""
        self.config.single_active = True
        self.single = SingleActive(not self.config.keeps_place)
        for consumer in self.consumers.values():
            # One that held messages for too long waits for its turn when it has settled these.
            if consumer.active and consumer.standing != TIMED_OUT:
                self.service.leave(consumer)
                self.single.attached(consumer)

    def cancel(self, consumer_id: i64) -> None:
        """A consumer gets nothing more; it is forgotten when all it holds is settled."""
        consumer = self.consumers.get(consumer_id)
        if consumer is not None:
            consumer.active = False
            self.service.leave(consumer)
            if self.single is not None:
                self.single.left(consumer)
            if consumer.locks is not None:
                consumer.locks.late = Pieces()
            if consumer.held == 0:
                self._forget_consumer(consumer_id)

    def down(self, consumer_id: i64) -> None:
        """A consumer is gone: its messages return in order, as failed deliveries.

        Those of one with automatic acks are settled.
        """
        strand = self._take_back(consumer_id)
        if strand is not None:
            self.come_back([strand], True, self.config.delivery_limit)

    def settle(self, consumer_id: i64, first: i64, last: i64) -> None:
        """Messages are done with."""
        consumer = self.consumers.get(consumer_id)
        if consumer is not None:
            held = consumer.held
            taken = consumer.release(first, last)
            count = held - consumer.held
            self.held -= count
            if self.feed is not None:
                self.feed.acked(consumer, taken)
            self.leave(taken, count)
            self.gave_up(consumer, count)
            if consumer.standing == TIMED_OUT:
                settled_late(self, consumer, first, last)

    def discard(self, consumer_id: i64, first: i64, last: i64, failed: bool) -> None:
        """Messages were rejected for good."""
        consumer = self.consumers.get(consumer_id)
        if consumer is not None:
            held = consumer.held
            taken = consumer.release(first, last)
            count = held - consumer.held
            self.held -= count
            if self.feed is not None:
                self.feed.rejected(consumer_id, taken)
            if self.config.keeps_dead():
                self.come_back([Strand(taken, count)], failed, -1, AMONG_DEAD)
            else:
                self._die(taken, count, REJECTED, 1 if failed else 0)
            self.gave_up(consumer, count)
            if consumer.standing == TIMED_OUT:
                settled_late(self, consumer, first, last)

    def return_(self, consumer_id: i64, first: i64, last: i64, failed: bool) -> None:
        """Messages go back, each with its counters up; dropped past the delivery limit."""
        consumer = self.consumers.get(consumer_id)
        if consumer is not None:
            held = consumer.held
            taken = consumer.release(first, last)
            count = held - consumer.held
            self.held -= count
            if self.feed is not None:
                self.feed.returned(consumer_id, taken, REQUEUED)
            place = self.config.place(True)
            self.come_back([Strand(taken, count)], failed, self.config.delivery_limit, place)
            self.gave_up(consumer, count)
            if consumer.standing == TIMED_OUT:
                settled_late(self, consumer, first, last)

    def look_at_locks(self) -> None:
        """Find out when the next message will have been held for too long."""
        self.locks_due = next_due(self.consumers, self.now_ms)

    def get(self, consumer_id: i64, timeout_ms: i64) -> Delivery | None:
        """One message for a consumer that polls, or None if none is ready.

        It does not wait for what is on its way back.
        """
        self.used_ms = self.now_ms
        if self.sizes.expiring > 0 and not self.expire():
            return None
        if self.ready.count == 0:
            return None
        delivery = self._hold(self._poller(consumer_id, timeout_ms), 1)
        if self.config.keeps_place and self.sizes.expiring > 0:
            # What stands at the head now does not count any more, as in RabbitMQ.
            self.expire()
        return delivery

    def pick(self, consumer_id: i64, number: i64, timeout_ms: i64) -> Delivery | None:
        """One message by its number for a consumer that polls; None if it is not ready.

        Others stay as they are, and where they are.
        """
        self.used_ms = self.now_ms
        if self.sizes.expiring > 0 and not self.expire():
            return None
        if not self.sizes.has(number) or self.ready.living(number, 1, self.now_ms) == 0:
            return None
        run = self.ready.take_one(number, self.config.keeps_place)
        if run is None:
            return None
        consumer = self._poller(consumer_id, timeout_ms)
        return self._held_by(consumer, number, 1, run.acquired, run.failed)

    def _poller(self, consumer_id: i64, timeout_ms: i64) -> Consumer:
        """The consumer of a channel that polls."""
        consumer = self.consumers.get(consumer_id)
        if consumer is None:
            consumer = Consumer(consumer_id, 0, 0)
            if timeout_ms >= 0:
                consumer.locks = Locks(timeout_ms)
            mark_suspected(self, consumer)
            self.consumers[consumer_id] = consumer
        elif consumer.active:
            # As no node would have it: who polls under this id is not served beside that.
            self.service.leave(consumer)
            if self.single is not None:
                self.single.left(consumer)
        consumer.active = False
        return consumer

    def purge(self) -> i64:
        """All ready messages go, those that wait to be, and all dead letters; returns how many.

        What waits for its time stays: no client can ask for it.
        """
        count = self.ready_count() + self.delayed.count
        lists = self.ready.take_all() + self.coming.lists() + self.delayed.take_all()
        if self.feed is not None:
            self.feed.dropped(lists, PURGED)
        self.leave(lists, count)
        self.coming = Returning()
        return count + self._drop_discards()

    def _drop_discards(self) -> i64:
        """The dead letters that are here go nowhere; returns how many there were."""
        count = self.discards.count
        lists = self.discards.take_all()
        if self.feed is not None:
            self.feed.dropped(lists, PURGED)
        self.leave(lists, count)
        return count

    def reset(self) -> None:
        """All consumers were on a node that restarted: what they held returns, in order."""
        strands: list[Strand] = []
        for consumer_id in list(self.consumers):
            strand = self._take_back(consumer_id)
            if strand is not None:
                strands.append(strand)
        self.come_back(strands, True, self.config.delivery_limit)
        self._deliveries.clear()

    def free(self, gone: list[tuple[int, int]]) -> None:
        """Ready messages left a classic queue, at whose recovery all are; or no copy has them.

        In a quorum queue runs are in any order. Those are looked at that lie with one that is gone,
        and all of them the first time: 500,000 in some milliseconds. An entry has so many stretches
        as a turn may drop (`queues.lost`). What is on its way back by then is ready later all the
        same, and is passed over when it is handed out, as what is held is.

        Args:
            gone: The first and the last number of each stretch of them.
        """
        before = self.ready.count
        taken = self.ready.remove(disjoint(gone), self.config.keeps_place)
        if self.feed is not None:
            self.feed.dropped(taken, LOST)
        self._forget_soon(taken, before - self.ready.count)

    # How messages go from one place to another.

    def hand_out(self, most: i64 = 0) -> None:
        """Hand out what is ready, unless something has to come back first.

        Args:
            most: At most so many deliveries; 0 for `hand_out_max`.
        """
        if self.single is not None and self.single.stale:
            self.single.choose(self.consumers, self.service)
        if self.coming.count > 0 or self.delayed.is_due(self.now_ms):
            return
        if self.schedule.count > 0 and not self._fall_due():
            return
        if self._came_back:
            # As in RabbitMQ, what returns there has to find room before anybody is served.
            self._drop_excess()
            if self._overdue:
                return
            self._came_back = False
        if self.sizes.expiring > 0 and not self.expire():
            return
        ready = self.ready
        service = self.service
        expiring = self.sizes.expiring > 0
        if self.feed is not None:
            self.feed.note_time()
        for _ in range(self.hand_out_max if most == 0 else most):
            if ready.count == 0:
                return
            consumer = service.next()
            if consumer is None:
                return
            count: i64 = 1
            if service.alone():
                count = min(ready.head().count, consumer.room())
            elif self.config.keeps_place and ready.count >> SHARE_BITS > 1:
                share = min(SHARE_MAX, ready.count >> SHARE_BITS)
                count = min(ready.head().count, consumer.room(), share)
            if expiring and count > 1:
                count = max(1, self.sizes.living(ready.head().first, count, self._expiry_ms()))
            self._deliveries.append(self._hold(consumer, count))
            assert consumer.credit >= 0, "a consumer was handed more than it has credit for"
            service.served(consumer)
            if expiring and not self.expire():
                return

    def expire(self) -> bool:
        """Have expired messages leave that nothing stands before; whether these were all.

        Those behind others stay, and count, until it is their turn (QQ-11).
        """
        if self.config.dead_letters != FORGOTTEN and self._replays():
            return True
        while self.ready.count > 0:
            if self._expired_now >= self.return_max:
                self._overdue = NEVER < self.ready.next_expiry() <= self._expiry_ms()
                return not self._overdue
            run = self.ready.take_expired(self._expiry_ms())
            if run is None:
                return True
            self._expired_now += 1
            self.dropped += run.count
            self._die([[run]], run.count, EXPIRED, 0)
        return True

    def _expiry_ms(self) -> i64:
        """Messages have expired that were to be gone by then."""
        return self.now_ms - 1 if self._at_once else self.now_ms

    def _fall_due(self) -> bool:
        """Have messages die whose time has come; False if this goes on with the next entry."""
        while self._has_due() and self.schedule.next_due() <= self.now_ms:
            if self._expired_now >= self.return_max:
                self._overdue = True
                return False
            self._expired_now += 1
            first, count = self.schedule.take()
            self._keep_dead(Run(first, first, count), EXPIRED, 0)
        return True

    def _has_due(self) -> bool:
        """Whether messages wait for their time, and may die when it comes."""
        return self.schedule.count > 0 and self.discards.count < self.due_max

    def _make_room(self) -> None:
        """Drop the first ready messages, where there are more than there may be (QL-02).

        Where none is ready, those go that wait to be next: they count, too. Consumers who wait come
        first, and what is out does not count. A classic queue's log does not say who held what, so
        that its replay keeps all: when the queue goes on, it is known what has left.
        """
        if self.coming.count > 0 or self._overdue or self.delayed.is_due(self.now_ms):
            return
        if self.ready.count > 0 and self.service.any():
            return
        self._drop_excess()

    def _drop_excess(self) -> None:
        """The same, whoever waits."""
        ready = self.ready
        delayed = self.delayed
        config = self.config
        if self._replays():
            return
        while self._is_over():
            over: i64 = 0
            excess: i64 = 0
            if config.max_length >= 0:
                over = ready.count + delayed.count - config.max_length
            if config.max_bytes >= 0:
                excess = ready.bytes + delayed.bytes - config.max_bytes
            if self._expired_now >= self.return_max:
                self._overdue = True
                return
            self._expired_now += 1
            head = ready.head() if ready.count > 0 else delayed.head()
            count = min(head.count, max(over, 0))
            if excess > 0:
                count = max(count, self.sizes.first_of(head.first, head.count, excess))
            gone = Run(head.first, head.first, count, head.acquired, head.failed)
            if ready.count > 0:
                ready.take(head.first, count)
            else:
                delayed.take(head.first, count)
            self.dropped += count
            self._die([[gone]], count, MAXLEN, 0)

    def _is_over(self) -> bool:
        """Whether there is more than there may be."""
        return is_over(self)

    def limited_count(self) -> i64:
        """Messages that count where publishes are rejected: dead letters do, too (DL-09)."""
        return self.ready.count + self.delayed.count + self.discards.count

    def limited_bytes(self) -> i64:
        """What these take."""
        return self.ready.bytes + self.delayed.bytes + self.discards.bytes

    def _replays(self) -> bool:
        """Whether a classic queue comes back, whose log does not say who held what."""
        return self.config.keeps_place and not self.reports_freed

    def next_expiry(self) -> i64:
        """When messages expire next that nothing stands before, or are due; `NEVER` if none are."""
        found: i64 = NEVER if self.sizes.expiring == 0 else self.ready.next_expiry()
        if self.delayed.count > 0 and (found == NEVER or self.delayed.due_ms() < found):
            found = self.delayed.due_ms()
        if self._has_due():
            found = max(self.schedule.next_due(), 1)
        return found

    def minds_time(self) -> bool:
        """Whether any message expires, or waits for a time."""
        return self.sizes.expiring > 0 or self.delayed.count > 0 or self.schedule.count > 0

    def _hold(self, consumer: Consumer, count: i64) -> Delivery:
        """A consumer holds the next messages, at most those of the first run."""
        run = self.ready.head()
        number, acquired, failed = run.first, run.acquired, run.failed
        self.ready.take(number, count)
        return self._held_by(consumer, number, count, acquired, failed)

    def _held_by(
        self, consumer: Consumer, number: i64, count: i64, acquired: i64, failed: i64
    ) -> Delivery:
        """A consumer holds messages that are ready no more."""
        self.held += count
        mid = consumer.hold(number, count, acquired, failed)
        if self.feed is not None:
            self.feed.delivered(consumer, number, count, acquired > 0)
        locks = consumer.locks
        if locks is not None and locks.wants_mark(self.now_ms):
            due = locks.mark(mid, self.now_ms, consumer.lowest())
            if self.locks_due == NEVER or due < self.locks_due:
                self.locks_due = due
        counted = self.config.counted(acquired, failed)
        return Delivery(consumer, mid, number, count, acquired, counted)

    def _take_back(self, consumer_id: i64) -> Strand | None:
        """Forget a consumer; returns what it held and may be delivered again."""
        consumer = self.consumers.get(consumer_id)
        if consumer is None:
            return None
        self._forget_consumer(consumer_id)
        consumer.active = False
        self.service.leave(consumer)
        if self.single is not None:
            self.single.left(consumer)
        count = consumer.held
        taken = consumer.release(0, consumer.next_mid)
        self.held -= count
        if not consumer.automatic:
            if self.feed is not None:
                self.feed.returned(consumer_id, taken, GONE)
            return Strand(taken, count) if count > 0 else None
        self.dropped += count
        if self.feed is not None:
            self.feed.dropped(taken, UNSEEN)
        self.leave(taken, count)
        return None

    def gave_up(self, consumer: Consumer, count: i64) -> None:
        """A consumer settled or returned so many messages, and may have more for them."""
        if not consumer.active and consumer.held == 0:
            self._forget_consumer(consumer.id)
        self.service.gave_up(consumer, count)
        ends = consumer.standing == QUIESCING or consumer.suspected
        if ends and consumer.held == 0 and self.single is not None:
            self.single.stale = True

    def _forget_consumer(self, consumer_id: i64) -> None:
        """A consumer uses the queue no more."""
        self.consumers.pop(consumer_id, None)
        self.used_ms = self.now_ms

    def _die(self, lists: list[list[Piece]], count: i64, reason: i64, failed: i64) -> None:
        """Messages left the queue, and may be for another one.

        Args:
            failed: How often a delivery of them failed beyond what their runs say.
        """
        config = self.config
        kept = config.keeps_dead()
        if self.feed is not None and not kept:
            self.feed.died(lists, reason, config.dead_letters != FORGOTTEN)
        if config.dead_letters == FORGOTTEN or count == 0:
            self.leave(lists, count)
            return
        if kept:
            for pieces in lists:
                for piece in opened(pieces):
                    self._keep_dead(as_run(piece), reason, failed)
            return
        self._dead.append(Dead(reason, lists, count, failed))
        if config.keeps_place:
            # Their bodies are needed until they are routed.
            self._forget_soon(lists, count)
        else:
            self.leave(lists, count)

    def _keep_dead(self, run: Run, reason: i64, failed: i64) -> None:
        """Messages died, and stay until they are elsewhere."""
        if self.feed is not None:
            self.feed.dead(run.first, run.count, reason)
        self.discards.add(run.first, run.count, reason, run.acquired, run.failed + failed)

    def leave(self, lists: list[list[Piece]], count: i64) -> None:
        """Messages left the queue for good."""
        if self.reports_freed and count > 0:
            self._freed.extend(lists)
        self._forget_soon(lists, count)

    def _forget_soon(self, lists: list[list[Piece]], count: i64) -> None:
        """Forget the sizes of messages that left: mostly at once, else with later entries."""
        steps = self.return_max - self._forgotten_now
        self._forgotten_now += steps - self.leaving.add(lists, count, self.sizes, steps)

    def come_back(
        self,
        strands: list[Strand],
        failed: bool,
        limit: i64,
        place: i64 = NO_PLACE,
        delays: bool = True,
    ) -> None:
        """Messages return, behind all that return already; those past their limit are dropped."""
        if not strands:
            return
        config = self.config
        if place == NO_PLACE:
            place = config.place(False)
        delays = delays and config.retry.delays(failed)
        if delays and place != BY_NUMBER and place != AMONG_DEAD:
            retry = config.retry
            work = Return(strands, failed, place, limit, config.failures, True, retry, self.now_ms)
        else:
            work = Return(strands, failed, place, limit, config.failures)
        if work.count > 0:
            self.coming.add(work)
            self._bring_back()

    def _bring_back(self) -> None:
        """Make messages on their way back ready, as many runs as there may be in one go."""
        coming = self.coming
        while coming.count > 0 and self._returned_now < self.return_max:
            work = coming.first()
            run = coming.next()
            if run is None:
                continue
            self._returned_now += 1
            # The run may be looked at as it was.
            acquired = run.acquired + 1
            failed = run.failed + 1 if work.failed else run.failed
            if work.place == AMONG_DEAD:
                if self.config.keeps_dead():
                    self._keep_dead(run, REJECTED, 1 if work.failed else 0)
                else:
                    self.leave([[run]], run.count)
            elif 0 <= work.limit < (failed if work.failures else acquired):
                self.dropped += run.count
                self._die([[run]], run.count, DELIVERY_LIMIT, 1 if work.failed else 0)
            else:
                back = Run(run.first, run.first, run.count, acquired, failed)
                if work.delayed:
                    self.delayed.put(back, work.retry.due_ms(work.since_ms, failed))
                else:
                    self.ready.put_back(back, work.place)
                    config = self.config
                    if config.keeps_place and not config.rejects and config.is_limited():
                        self._came_back = True

    def _end_waits(self) -> None:
        """Make messages ready that have waited long enough, as many runs as above in all."""
        delayed = self.delayed
        while self._returned_now < self.return_max and delayed.is_due(self.now_ms):
            self._returned_now += 1
            run = delayed.head()
            back = Run(run.first, run.first, run.count, run.acquired, run.failed)
            delayed.take(run.first, run.count)
            self.ready.put_back(back, AT_HEAD)

    def all_back(self) -> None:
        """Make all messages on their way back ready: at recovery, where a turn may be long."""
        while self.coming.count > 0:
            self._returned_now = 0
            self._bring_back()
        self._returned_now = 0

    def keep_held(self, messages: RunQueue) -> None:
        """Have messages that a group of readers took survive a restart, whatever they were sent as.

        Their bodies are in the log, and the entry that says who has them is behind these.
        """
        if self.transient.count > 0:
            for run in messages.runs():
                self.transient.remove(run.first, run.first + run.count - 1)

    def put_in_order(self) -> None:
        """At a classic queue's recovery, have what returns later on find its place by number.

        Consumers get from the front, so that what returns was before all that never left. Of those
        before a crash the log knows nothing, but of the groups of readers that had what came behind
        it: all that is before such messages counts as returned.
        """
        bound: i64 = 0
        for group in self.groups.values():
            for checkout in group.open:
                for run in checkout.messages.runs():
                    bound = max(bound, run.first + run.count)
        self.ready.return_first(bound)

    def count_as_delivered(self) -> None:
        """After a crash it is not known which messages were delivered: all may have been.

        Those that consumers hold or that are on their way back were, and are counted so later.
        """
        self.ready.count_as_delivered(self.next_message)

    # What there is.

    def ready_count(self) -> i64:
        """Messages ready for delivery, or on their way back to be (MET-04)."""
        return self.ready.count + self.coming.count

    def unused_since(self) -> i64:
        """Since when nobody uses it, in the log's time; -1 if somebody does.

        Whoever holds messages does, and a consumer whether it gets any or not, unless nobody hears
        its node.
        """
        if self.suspects:
            for consumer in self.consumers.values():
                if not consumer.suspected:
                    return -1
        elif self.consumers:
            return -1
        return -1 if self.readers.any_open() else self.used_ms

    def held_count(self) -> i64:
        """Messages delivered or checked out, and not settled."""
        return self.held

    def held_bytes(self) -> i64:
        """What they take; with it what is on its way back, or has left and is not forgotten yet."""
        return self.sizes.bytes - self.ready.bytes - self.delayed.bytes

    def live(self) -> list[tuple[int, int]]:
        """Numbers of all messages whose bodies are still needed, sorted and merged."""
        return self.gather_live([], []).all().pairs()

    def gather_ready(self) -> Gathering:
        """Finds out the numbers of all messages that are ready now."""
        return Gathering(self._unheld(), [], [], self.part_runs)

    def gather_unconsumed(self) -> Gathering:
        """Finds out the numbers of all messages that are here and that no consumer holds."""
        lists = self._unheld() + self.delayed.freeze() + self.discards.freeze()
        checkouts: list[Checkout] = []
        for group in self.groups.values():
            checkouts.extend(group.open)
        return Gathering(lists, checkouts, [], self.part_runs, self.schedule.frozen())

    def gather_kept(self) -> Gathering:
        """Finds out the numbers of all messages that are in the queue, held by consumers or not."""
        lists = self._unheld() + self.delayed.freeze()
        for consumer in self.consumers.values():
            lists.extend(consumer.freeze())
        checkouts: list[Checkout] = []
        for group in self.groups.values():
            checkouts.extend(group.open)
        return Gathering(lists, checkouts, [], self.part_runs, self.schedule.frozen())

    def gather_live(self, left: list[list[Piece]], more: list[list[tuple[int, int]]]) -> Gathering:
        """Finds out the numbers of all messages whose bodies are needed now.

        Args:
            left, more: Messages that left and are needed all the same.
        """
        lists = self._unheld() + self.delayed.freeze() + self.discards.freeze() + left
        for consumer in self.consumers.values():
            lists.extend(consumer.freeze())
        checkouts: list[Checkout] = []
        for group in self.groups.values():
            checkouts.extend(group.open)
        return Gathering(lists, checkouts, more, self.part_runs, self.schedule.frozen())

    def gather_unread(self) -> Gathering:
        """Finds out the numbers of all messages here that no group of readers has now."""
        lists = self._unheld() + self.delayed.freeze() + self.discards.freeze()
        for consumer in self.consumers.values():
            lists.extend(consumer.freeze())
        return Gathering(lists, [], [], self.part_runs, self.schedule.frozen())

    def lists(self) -> list[list[Piece]]:
        """All runs and stretches here, of a machine that is not used any more."""
        lists = self._unheld() + self.delayed.freeze() + self.discards.freeze()
        lists += self.leaving.lists() + self.transient.freeze() + self.sizes.freeze()
        for consumer in self.consumers.values():
            lists.extend(consumer.freeze())
        for group in self.groups.values():
            for checkout in [*group.open, *group.lapsed]:
                lists.extend(checkout.messages.freeze())
        return lists

    def _unheld(self) -> list[list[Piece]]:
        """What is ready now, or on its way back to be, in lists that do not change."""
        return self.ready.freeze() + self.coming.lists()

    # Snapshots.

    def encode(self, flags: i64 = 0) -> bytes:
        """The whole state, without bodies; `flags` is the owner's."""
        snapshot.trim_transient(self)
        out = BytesWriter()
        writer = snapshot.StateWriter(self, flags, out)
        while not writer.go_on():
            pass
        return out.getvalue()

    def write_state(self, out: BytesWriter) -> Work:
        """Have the whole state, as it is now, appended in parts; nothing else is meanwhile."""
        return snapshot.StateWriter(self, 0, out)

    def write_durable(self, out: BytesWriter) -> snapshot.DurableWriter:
        """Likewise without consumers, as a restart will see it: what they hold is ready."""
        return snapshot.DurableWriter(self, out)

    def restore(self, data: bytes) -> None:
        """Read what `encode` wrote; what was here before is void.

        Raises:
            ValueError: A version this build does not know.
        """
        self.clear()
        reader = StateReader(self, data)
        while not reader.go_on():
            pass

    def anew(self) -> Fifo:
        """An empty machine that does as much at a time as this one."""
        fifo = Fifo(self.config.delivery_limit, self.config.keeps_place, self.reports_freed)
        fifo.hand_out_max = self.hand_out_max
        fifo.return_max = self.return_max
        fifo.due_max = self.due_max
        fifo.part_runs = self.part_runs
        return fifo

    def restored(self) -> None:
        """All of a state was read: find out what follows from it."""
        if self.suspects:
            for consumer in self.consumers.values():
                consumer.suspected = int(session_of_consumer(consumer.id)) in self.suspects
        if self.config.single_active:
            self.single = SingleActive(not self.config.keeps_place)
            self.single.restored(self.consumers)
        self._overdue = not self.config.rejects and self._is_over()
        self.look_at_locks()
        self.check()
