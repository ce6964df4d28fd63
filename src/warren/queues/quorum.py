"""Quorum queues: nothing counts before a majority of members has it on disk.

Of a sole member that is what it confirms and replies. Consumers of its own node that wait for the
credit of their acks get it ahead of its disk: a crash that loses acks and hand-outs ends their
connections, too, and what they may have seen is then delivered as `redelivered`. Where consumers
have automatic acks, so that messages are delivered once at most, all wait for the disk.

Every member applies what is committed, in log order, and hands out by the same rules; each serves
the consumers of its own node, from the bodies in its own log. So confirms, deliveries and the
credit that an ack gives back all follow the log, and a change of leader is nothing they notice.
What a client asks for is submitted to whoever leads.

Source: QQ-01 to QQ-28, BEH-09, R-01, R-02, R-25 to R-27 and R-29.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.ids import NUMBER_MAX, consumer_of, number_of_consumer, session_of_consumer
from warren.log.batch import KIND_COMMAND, Batch
from warren.log.facts import SIZES
from warren.log.runlist import LiveRuns, RunList
from warren.log.source import MessageSource
from warren.message.flavours import AMQP091, delay_in
from warren.message.properties import stored_life
from warren.pending import PendingResult, Result
from warren.ports import Work
from warren.queue_types import QUORUM, QueueType
from warren.queues.fifo import commands
from warren.queues.fifo.config import (
    NOT_SET_UP,
    UNRANKED,
    Config,
    Limits,
    write_dead_letters,
    write_delivery_limit,
    write_expires,
    write_failures,
    write_limits,
    write_message_ttl,
    write_ranking,
    write_retry,
    write_single_active,
)
from warren.queues.fifo.consumers import TIMED_OUT, Consumer, Limiter
from warren.queues.fifo.dead_letters import AT_LEAST_ONCE, AT_THEIR_TIME, FORGOTTEN, Dead
from warren.queues.fifo.delayed import NO_RETRY, Retry
from warren.queues.fifo.effects import (
    AcquireReply,
    Delivery,
    Effects,
    PurgeReply,
    Reply,
    TimedOut,
)
from warren.queues.fifo.entry import Encoded, Enqueue, Meta
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.pieces import Piece
from warren.queues.fifo.sizes import NEVER
from warren.queues.fifo_queue import USE_MS
from warren.queues.fitting import Publish
from warren.queues.forwarding import Forwarding
from warren.queues.gathering import Gathered
from warren.queues.links import Holder, Link
from warren.queues.numbers import Numbers
from warren.queues.polls import Poll, Polls, gave_up_to
from warren.queues.publishing import PublishRun
from warren.queues.queue import Counts, Host
from warren.queues.table_queue import TableQueue
from warren.replication.machine import Machine, Proposer

PREFETCH_UNLIMITED: Final = 2_000
"""Messages in flight to a consumer without a prefetch limit, as RabbitMQ has it (2.4)."""

LOOKED_AT_A_MS: Final = 64
"""So many consumers of one queue are looked at in a millisecond, on the average of a time."""

GATHER_BYTES: Final = 16_384
"""Messages of this size are an entry of their own at once: it costs little more than its bytes."""


@final
class QuorumQueue(TableQueue, Machine):
    """This node's copy of a quorum queue.

    Attributes:
        numbers: Of this node's consumers in its present session, behind which they stand in ids.
        going_on: Whether an entry is under way that only has the machine hand out more.
        forwarding: Where dead letters go that stay until they are there, if any ever did.
    """

    def __init__(
        self,
        host: Host,
        vhost: str,
        name: str,
        messages: MessageSource,
        group_id: i64,
        fifo: Fifo,
        delivery_limit: i64,
        queue_type: QueueType = QUORUM,
    ) -> None:
        """
        Args:
            messages: This node's log of the queue, or what gets messages from another node's.
            delivery_limit: What it, policies, or else the node have a message survive.
        """
        super().__init__(host, vhost, name, queue_type, fifo, messages, group_id)
        self._delivery_limit: i64 = delivery_limit
        self._message_ttl_ms: i64 = -1
        self._single_active: bool = False
        self._ranking: i64 = UNRANKED
        self._limits: Limits = Limits()
        self._dead_letters: i64 = FORGOTTEN
        self._failures: bool = False
        self._retry: Retry = NO_RETRY
        self.forwarding: Forwarding | None = None
        self._led: bool = False
        """Whether this node, if it leads, has all that was there when it began to."""
        self.group: Proposer | None = None
        self._handed: dict[int, Handed] = {}
        """How far each consumer of this node is whose channel is there.

        Those that are cancelled are among them: the log may be applied anew.
        """
        self.numbers: Numbers = Numbers(NUMBER_MAX)
        self.going_on: bool = False
        self._unsaid: bool = False
        """Whether this node, which led, could not have the log say how the machine is set up."""
        self._setting_up: bool = False
        """Whether this node, which leads, has the log say so before all else."""
        self._renewed: dict[str, tuple[int, int]] = {}
        """By group of readers: its last call in the log's time, and when this node, which leads,
        came to know of it, in monotonic time."""
        self._starving: bool = False
        """Whether the commands gathered settle something for a consumer with little credit."""
        self._awaited: bool = False
        """Whether such commands were submitted since `is_awaited`."""
        self._left: deque[list[list[Piece]]] = deque()
        """What left the queue with each entry that is ahead of the disk: its bodies are needed."""
        self._queued: deque[Publish] = deque()
        """What is published while it is not known whether there is room, in a queue that rejects
        what is too much."""
        self._informed: bool = False
        """Whether the machine has been as far in this life as others were when it was asked."""
        self._submitted: i64 = 0
        """Messages of this node that its machine has not seen."""
        self._submitted_bytes: i64 = 0
        """What their records take."""
        self._terms: dict[int, tuple[int, int, bool]] = {}
        """Credit, priority and whether acks are automatic, of each consumer of this node."""
        self._owners: dict[int, Owner] = {}
        """Who has what consumers of this node hold, and for how long they may."""
        self._polls: Polls = Polls()
        self._purged: i64 = 0
        """What purges of this session had taken when the machine last got a state."""
        self._epochs: dict[str, int] = {}
        """The epoch that each group of readers had then."""
        self._timed_out: list[tuple[int, TimedOut]] = []
        """Of which of them clients are to be told when the turn ends, each behind so many of the
        deliveries."""
        self._missed_time_outs: list[TimedOut] = []
        """Likewise, as far as only a state of this turn says so, which may turn out to be none."""
        self._unproven: dict[int, Consumer] | None = None
        """The consumers before that state."""
        self._forgotten: dict[int, Consumer] | None = None
        """Those of when this node had a state last, while it has none."""
        self._disconnected_ms: i64 = 0
        """For how long nobody may hear a node before what its consumers hold returns."""
        self._suspecting: dict[int, bool] = {}
        """What this node, which leads, said of sessions, and has not come back yet: whether nobody
        hears their nodes."""
        self._locks_planned: i64 = NEVER
        """When this node, which leads, looks whether messages are held for too long, by the log's
        time; `NEVER` if it does not."""

    def unlimited_credit(self) -> i64:
        """A bound stands in for no bound, so that the machine never hands out a whole backlog."""
        return PREFETCH_UNLIMITED

    def new_consumer(self) -> i64:
        """An id that names this node's session, so that all members know whose consumer it is."""
        return consumer_of(self._session(), self.numbers.take())

    def down(self, consumer_id: i64) -> None:
        """A consumer's channel is gone, so that its number may be given again."""
        super().down(consumer_id)
        self._handed.pop(consumer_id, None)
        self._owners.pop(consumer_id, None)
        self._polls.forget(consumer_id)
        if self.current(consumer_id):
            self.numbers.give_back(number_of_consumer(consumer_id))

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
        waiter: PendingResult,
        automatic: bool = False,
    ) -> None:
        """Attach a consumer, and remember how."""
        self._handed[consumer_id] = Handed()
        self._terms[consumer_id] = (credit, priority, automatic)
        super().subscribe(link, consumer_id, credit, priority, limiter, waiter, automatic)

    def held_by(self, consumer_id: i64, holder: Holder, timeout_ms: i64) -> None:
        """Remember who has what is handed to a consumer, and for how long it may."""
        self._owners[consumer_id] = Owner(holder, timeout_ms)

    def _write_attach(self, consumer_id: i64, credit: i64, priority: i64, automatic: bool) -> None:
        """Write the command that a consumer arrives; with automatic acks it holds nothing."""
        owner = self._owners.get(consumer_id)
        if owner is None or owner.timeout_ms < 0 or automatic:
            super()._write_attach(consumer_id, credit, priority, automatic)
        else:
            commands.attach_timed(self._commands, consumer_id, credit, priority, owner.timeout_ms)

    def get(self, consumer_id: i64, waiter: PendingResult) -> None:
        """Ask for one message; a `PollReply` has it, or none."""
        super().get(consumer_id, Poll(self._polls, consumer_id, waiter))

    def purge(self, waiter: PendingResult) -> None:
        """Drop all ready messages; a `PurgeReply` says how many."""
        super().purge(Purge(self, waiter))

    def acquire(self, group: str, lease_ms: i64, waiter: PendingResult) -> None:
        """Have a reader take a group over; the reply has its epoch and its newest lease."""
        super().acquire(group, lease_ms, Acquire(self, group, waiter))

    def acquired(self, group: str) -> Reply | None:
        """What came of an acquire that was applied within a state; None if others came behind."""
        known = self.fifo.groups.get(group)
        if known is None or known.epoch != self._epochs.get(group, 0) + 1:
            return None
        return AcquireReply(known.epoch, known.settled)

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

    def _write_get(self, consumer_id: i64) -> None:
        """Write the command that one message is wanted, to be held for so long."""
        owner = self._owners.get(consumer_id)
        if owner is None or owner.timeout_ms < 0:
            super()._write_get(consumer_id)
        else:
            commands.get_timed(self._commands, consumer_id, owner.timeout_ms)

    def is_complete(self) -> bool:
        """Whether what is not found in the log here is gone, and not only on its way."""
        return self._group().is_complete()

    def leading(self) -> None:
        """A leader sets the machine up, where none before it came to that: messages go by it."""
        self._setting_up = False
        if self.fifo.config.delivery_limit == NOT_SET_UP:
            fields = BytesWriter()
            config = Config(self._delivery_limit, False)
            config.expires_ms = self.expires_ms
            config.message_ttl_ms = self._message_ttl_ms
            config.single_active = self._single_active
            config.set_limits(self._limits)
            config.ranking = self._ranking
            config.dead_letters = self._dead_letters
            config.failures = self._failures
            config.retry = self._retry
            config.encode(fields)
            self._configure(fields)
            self._setting_up = not self._unsaid

    def elected(self) -> None:
        """A leader says what is to be otherwise than the machine was set up."""
        self.going_on = False
        self._unsaid = False
        config = self.fifo.config
        if config.delivery_limit == NOT_SET_UP:
            if not self._setting_up:
                self.leading()
        else:
            # Policies changed while there was no leader, or the one before was gone too soon.
            if config.delivery_limit != self._delivery_limit:
                self._log_delivery_limit()
            if config.expires_ms != self.expires_ms:
                self._log_expires()
            if config.message_ttl_ms != self._message_ttl_ms:
                self._log_message_ttl()
            if self._ranking != UNRANKED and config.ranking == UNRANKED:
                self._log_ranking()
            if self._single_active and not config.single_active:
                self._log_single_active()
            if not config.limits().same(self._limits):
                self._log_limits()
            if config.dead_letters != self._dead_letters:
                self._log_dead_letters()
            if self._failures and not config.failures:
                self._log_failures()
            if not config.retry.same(self._retry):
                self._log_retry()
        self._locks_planned = NEVER
        self._led = True
        self._suspecting = {}
        if self.fifo.suspects:
            self.host.queue_later(self, USE_MS)
        if self.forwarding is not None:
            self.forwarding.anew()
        if self.expires_ms >= 0 or self.fifo.minds_time():
            self.host.queue_later(self, 0)

    def _may_say(self) -> bool:
        """Whether this node leads, and the log says how the machine is set up."""
        known = self._setting_up or self.fifo.config.delivery_limit != NOT_SET_UP
        return known and self._group().leads()

    def set_delivery_limit(self, limit: i64) -> None:
        """Have the log say what policies now have a message survive (POI-05)."""
        # What was asked for last counts, too: it may be on its way into the log.
        changes = limit != self._delivery_limit or limit != self.fifo.config.delivery_limit
        self._delivery_limit = limit
        if changes and self._may_say():
            self._log_delivery_limit()

    def _log_delivery_limit(self) -> None:
        fields = BytesWriter()
        write_delivery_limit(fields, self._delivery_limit)
        self._configure(fields)

    def set_expires(self, expires_ms: i64) -> None:
        """Have the log say for how long the queue may be unused, and the leader mind it."""
        changes = expires_ms != self.expires_ms or expires_ms != self.fifo.config.expires_ms
        self.expires_ms = expires_ms
        if changes and self._may_say():
            self._log_expires()
            if expires_ms >= 0:
                self.host.queue_later(self, expires_ms)

    def _log_expires(self) -> None:
        fields = BytesWriter()
        write_expires(fields, self.expires_ms)
        self._configure(fields)

    def set_message_ttl(self, ttl_ms: i64) -> None:
        """Have the log say after what time messages expire (QQ-11)."""
        config = self.fifo.config
        changes = ttl_ms != self._message_ttl_ms or ttl_ms != config.message_ttl_ms
        self._message_ttl_ms = ttl_ms
        if changes and self._may_say():
            self._log_message_ttl()

    def _log_message_ttl(self) -> None:
        fields = BytesWriter()
        write_message_ttl(fields, self._message_ttl_ms)
        self._configure(fields)

    def set_limits(self, limits: Limits) -> None:
        """Have the log say how much of messages there may be (QL-02)."""
        self._know(SIZES, limits.max_bytes >= 0)
        changes = not self._limits.same(limits) or not self.fifo.config.limits().same(limits)
        self._limits = limits
        if changes and self._may_say():
            self._log_limits()

    def _log_limits(self) -> None:
        fields = BytesWriter()
        write_limits(fields, self._limits)
        self._configure(fields)

    def set_ranking(self, ranking: i64) -> None:
        """Have the log say how messages rank by their priorities, if it says nothing yet (PRI-01).

        It does so once and for ever, whatever the nodes are set up for later.
        """
        self._ranking = ranking
        if ranking != UNRANKED and self.fifo.config.ranking == UNRANKED and self._may_say():
            self._log_ranking()

    def _log_ranking(self) -> None:
        fields = BytesWriter()
        write_ranking(fields, self._ranking)
        self._configure(fields)

    def _minds_priorities(self) -> bool:
        return self._ranking != UNRANKED

    def set_single_active(self) -> None:
        """Have the log say that one consumer at a time is served, with its first entry."""
        self._single_active = True

    def _log_single_active(self) -> None:
        """Say so late: who led first had not heard of it."""
        fields = BytesWriter()
        write_single_active(fields)
        self._configure(fields)

    def set_failures(self) -> None:
        """Have the log say, if it does not yet, that failed deliveries alone count (POI-02)."""
        self._failures = True
        if not self.fifo.config.failures and self._may_say():
            self._log_failures()

    def _log_failures(self) -> None:
        fields = BytesWriter()
        write_failures(fields)
        self._configure(fields)

    def set_retry(self, retry: Retry) -> None:
        """Have the log say what waits of what returns from now on, and for how long."""
        changes = not self._retry.same(retry) or not self.fifo.config.retry.same(retry)
        self._retry = retry
        if changes and self._may_say():
            self._log_retry()

    def _log_retry(self) -> None:
        fields = BytesWriter()
        write_retry(fields, self._retry)
        self._configure(fields)

    def set_disconnected_timeout(self, timeout_ms: i64) -> None:
        """Have what consumers hold return that long after their node was heard last."""
        self._disconnected_ms = timeout_ms
        if self.fifo.suspects:
            self.host.queue_later(self, 0)

    def suspects(self, session: i64) -> bool:
        """Whether the log says that nobody hears a session's node."""
        return int(session) in self.fifo.suspects

    def keeps(self, session: i64) -> bool:
        """As leader, have a session's consumers keep what they hold for as long as they may."""
        since_ms = self.fifo.suspects.get(session, -1)
        if since_ms >= 0:
            return self._group().stamp_ms() - since_ms < self._disconnected_ms
        if self._disconnected_ms <= 0:
            return False
        if self._suspecting.get(session, False):
            return True
        for consumer_id in self.fifo.consumers:
            if session_of_consumer(consumer_id) == session:
                return self._say_suspected(session, True)
        return False

    def heard(self, sessions: list[int]) -> None:
        """As leader, have consumers go on whose nodes are heard again."""
        for session in sessions:
            if int(session) in self.fifo.suspects and self._suspecting.get(session, True):
                self._say_suspected(session, False)

    def suspected(self) -> list[int]:
        """The sessions whose nodes nobody hears, as the log says."""
        return list(self.fifo.suspects)

    def _say_suspected(self, session: i64, suspected: bool) -> bool:
        """Have the log say so; whether it does."""
        out = BytesWriter()
        if suspected:
            commands.suspect(out, session)
        else:
            commands.trust(out, session)
        if not self._group().propose_plain(out.getvalue()):
            return False
        self._suspecting[session] = suspected
        self.host.queue_later(self, USE_MS)
        return True

    def _mind_suspects(self) -> None:
        """As leader, look now and then at the sessions whose nodes nobody hears."""
        suspects = self.fifo.suspects
        if not suspects and True not in self._suspecting.values():
            return
        self._group().mind_sessions()
        wait: i64 = USE_MS
        for since_ms in suspects.values():
            left = since_ms + self._disconnected_ms - self._group().stamp_ms()
            if 0 < left < wait:
                wait = left
        self.host.queue_later(self, wait)

    def _set_deaths(self, dead_letters: i64) -> None:
        """Have the log say what becomes of messages that die (QQ-21)."""
        changes = dead_letters != self._dead_letters
        changes = changes or dead_letters != self.fifo.config.dead_letters
        self._dead_letters = dead_letters
        if changes and self._may_say():
            self._log_dead_letters()

    def set_dead_letters(self, exchange: str | None, key: str | None, kept: bool = False) -> None:
        """Have messages that die here go through an exchange, once or until they are confirmed."""
        if exchange is None or not kept:
            super().set_dead_letters(exchange, key)
            return
        if self.forwarding is None:
            self.forwarding = Forwarding(self)
        self._set_deaths(AT_LEAST_ONCE)
        self.forwarding.aim(exchange, key)

    def set_delays(self, exchange: str) -> None:
        """Have messages wait for their time here, and then go on through an exchange."""
        if self.forwarding is None:
            self.forwarding = Forwarding(self, True)
        self._set_deaths(AT_THEIR_TIME)
        self.forwarding.aim(exchange, None)

    def publish(
        self,
        records: bytes,
        lengths: bytes,
        count: i64,
        persistent: bool,
        run: PublishRun | None,
        flavour: i64 = AMQP091,
        life_ms: i64 = -1,
    ) -> None:
        """Gather messages; those that are to wait here do so for as long as their headers say."""
        if self.type.delays:
            life_ms = stored_life(int(delay_in(flavour, records)))
        super().publish(records, lengths, count, persistent, run, flavour, life_ms)

    def kept_dead(self) -> i64:
        """Dead letters that stay here until they are elsewhere, if this node sees to them."""
        count = self.fifo.discards.count
        return count if count > 0 and self.forwards() else 0

    def forwards(self) -> bool:
        """Whether this node is the one that sees to the dead letters which the queue keeps."""
        if not self._group().leads():
            self._led = False
        return self._led and not self.deleted

    def forwarded(self, first: i64, last: i64) -> None:
        """Dead letters are where they belong, from one death to another."""
        commands.delivered(self._commands, first, last)
        self._command()

    def _log_dead_letters(self) -> None:
        fields = BytesWriter()
        write_dead_letters(fields, self._dead_letters)
        self._configure(fields)

    def _died(self, dead: list[Dead]) -> None:
        """The leader has messages go through the dead-letter exchange, at most once."""
        if self._group().leads():
            super()._died(dead)

    def dead_lettered(self, lists: list[list[Piece]]) -> None:
        """Nothing is to be done: the machine knows them no more."""

    def due(self, now_ms: i64) -> None:
        """As leader, have the queue go if nobody has used it for long, and messages expire."""
        self._locks_planned = NEVER
        if self._group().leads():
            self._mind_use()
            self._mind_expiry()
            self._mind_suspects()
            if self.forwarding is not None:
                self.forwarding.mind()
            if self.fifo.locks_due != NEVER:
                self._mind_locks()

    def _mind_locks(self) -> None:
        """As leader, have what is held for too long return, by an entry that says so.

        Until then nothing is done for a message, and at the time a look at each consumer: most
        have settled what they held by then, and the next look is as much later.
        """
        fifo = self.fifo
        left = fifo.locks_due - self._group().stamp_ms()
        if left <= 0:
            fifo.look_at_locks()
            if fifo.locks_due == NEVER:
                return
            left = fifo.locks_due - self._group().stamp_ms()
            if left <= 0:
                if not self.going_on:
                    out = BytesWriter()
                    commands.time_out(out)
                    self.going_on = self._group().propose_plain(out.getvalue())
                    if self.going_on:
                        return
                left = USE_MS
        self._locks_planned = fifo.locks_due
        # With very many consumers a look is not made for each of them by itself.
        self.host.queue_later(self, max(left, len(fifo.consumers) // LOOKED_AT_A_MS))

    def _mind_expiry(self) -> None:
        """As leader, have the next messages expire or be ready, by an entry of that time."""
        expires_ms = self.fifo.next_expiry()
        if expires_ms == NEVER or self.going_on:
            return
        left = expires_ms - self._group().stamp_ms()
        if left > 0:
            self.host.queue_later(self, left)
        else:
            self._go_on()
            if not self.going_on:
                # It is handing its lead over, and may go on leading all the same.
                self.host.queue_later(self, USE_MS)

    def _mind_use(self) -> None:
        """As leader, have the queue go if nobody has used it for long (QQ-12).

        That is by the time of the log, which every leader of the group goes by. One that leads no
        more without knowing it learns so from an entry, before it deletes what others may use.
        """
        if self.expires_ms < 0:
            return
        left = self._left_ms()
        if left >= 0:
            self.host.queue_later(self, left + 1)
            return
        self.host.queue_later(self, max(self.expires_ms, USE_MS))
        self.catch_up(Expiring(self))

    def expire(self) -> None:
        """Go, if that is still so behind an entry of this leader's."""
        if not self.deleted and self._group().leads() and self._left_ms() < 0:
            self.host.queue_unused(self)

    def _left_ms(self) -> i64:
        """For how long the queue may go on being unused; negative if it is to go."""
        expires_ms = self.fifo.config.expires_ms
        since_ms = self.fifo.unused_since()
        if self.expires_ms < 0 or expires_ms < 0:
            # The log does not say so yet, or is about to take it back.
            return max(self.expires_ms, 0)
        if since_ms < 0:
            return max(expires_ms, USE_MS)
        return since_ms + expires_ms - self._group().stamp_ms()

    def _configure(self, fields: BytesWriter) -> None:
        out = BytesWriter()
        commands.config(out, fields.getvalue())
        # Who is handing its lead over takes nothing, and may go on leading all the same.
        self._unsaid = not self._group().propose_plain(out.getvalue())
        if self._unsaid:
            self.host.queue_leased(self)

    def gone_up_to(self, number: i64) -> i64:
        """The last of the messages from a number on that this queue goes on without; -1 if none."""
        return self._losses.end(number)

    def count(self, waiter: PendingResult) -> None:
        """Count what is here; where nothing is heard of the queue, ask for it first."""
        if self._group().fed():
            super().count(waiter)
        else:
            self.catch_up(waiter)

    def counts(self) -> Counts | None:
        """What it holds, for operators; None where nothing is heard of it."""
        return super().counts() if self._group().fed() else None

    def fed(self) -> bool:
        """Whether the machine here hears of what comes about."""
        return self._group().fed()

    def in_use(self) -> bool:
        """Whether a client of this node has to do with the queue now."""
        if self.links or self._readers or self._pending > 0 or self._pending_commands:
            return True
        if self._queued:
            return True
        if self.held_back:
            return True
        session = self._session()
        for consumer_id in self.fifo.consumers:
            if session_of_consumer(consumer_id) == session:
                return True
        return False

    def pause(self, consumer_id: i64) -> None:
        """Go on: what a consumer is handed is for all members to say, and its link keeps it."""

    def congested(self) -> bool:
        """Whether the disk is behind, or who leads this queue or others of this node's clients."""
        most: i64 = self.host.commands_soft_limit
        if most > 0 and self._submitted + self._pending > most:
            return True
        return super().congested() or self.host.proposals_behind or len(self._queued) > 0

    def consumer_count(self) -> i64:
        """Consumers in the machine, but for those that wait until they are the active one.

        One that was cancelled counts until it has settled all.
        """
        single = self.fifo.single
        waiting = 0 if single is None else single.count_waiting(self.fifo.consumers)
        return len(self.fifo.consumers) - waiting

    def snapshot(self) -> i64:
        """Write the machine's state, as of the last applied entry, into the log."""
        return self._group().snapshot()

    def snapshot_part(self) -> i64:
        """The same in parts."""
        return self._group().snapshot_part()

    def close(self) -> None:
        """The queue was deleted; messages that it would have had count as safe (as RabbitMQ)."""
        super().close()
        for run in self._runs:
            run.safe()
        self._forget_messages()
        self._polls.abandon_missed()
        for publish in self._queued:
            publish.answered()
        self._queued.clear()

    def go_without(self, lost: list[tuple[int, int]], error: CorruptRecord) -> None:
        """Go on without messages that cannot be read here, on the only copy."""
        super().go_without(lost, error)
        self.retry()

    def drop(self, gone: list[tuple[int, int]]) -> None:
        """Have the log say that messages are lost; they are dropped when that is applied."""
        for first, last in gone:
            commands.free(self._commands, i64(first), i64(last))
        self._command()

    def _leased(self) -> bool:
        return self._unsaid or super()._leased()

    def expire_groups(self, now_ms: i64) -> None:
        """The leader minds the leases of readers, and whether the machine has more to hand out.

        A lease is over when it is by the leader's own monotonic time, from when it found it
        renewed, and by the time of the log, which wall clocks make jump, too.
        """
        if not self._group().leads():
            self._renewed = {}
            self._unsaid = False
            return
        if self._unsaid:
            self.elected()
        renewed = self._renewed
        self._renewed = {}
        for group in self.fifo.groups.values():
            if not group.open or group.lease_ms <= 0:
                continue
            seen_ms, found_ms = renewed.get(group.name, (-1, 0))
            if seen_ms != group.seen_ms:
                seen_ms, found_ms = int(group.seen_ms), int(now_ms)
            elif group.lease_ms < min(now_ms - found_ms, self._group().stamp_ms() - seen_ms):
                out = BytesWriter()
                commands.expire(out, group.name, seen_ms)
                self._group().propose_plain(out.getvalue())
            self._renewed[group.name] = (seen_ms, found_ms)
        self._keep_going()

    def settle(self, consumer_id: i64, first: i64, last: i64) -> None:
        """Message ids of a consumer are done with; one with little credit left waits for more."""
        consumer = self.fifo.consumers.get(consumer_id)
        if consumer is not None and consumer.credit < consumer.held:
            self._urgent = True
            self._starving = True
        super().settle(consumer_id, first, last)

    def seal(self) -> None:
        """Submit what was gathered, unless it is better to gather more.

        That is for few messages while something is under way, since an entry costs all members
        much the same whatever its size, and for settles that nobody waits for, which are kept for
        a moment.
        """
        awaited = self._pending_commands and (self._urgent or self.fifo.ready_count() > 0)
        if awaited or self._pending_bytes >= GATHER_BYTES:
            super().seal()
        elif self._group().busy():
            return
        elif self._pending > 0:
            super().seal()
        elif self._pending_commands:
            self.host.queue_defers(self)

    def dispatch(self) -> None:
        """Pass on what the machine handed to consumers of this node."""
        if self._polls.any_missed():
            self._polls.answer_missed(self.fifo, self._session())
        self._keep_going()
        if self.deliveries or self._timed_out:
            self._hand_on_all()
        if self._missed_time_outs:
            missed = self._missed_time_outs
            self._missed_time_outs = []
            for one in missed:
                self._tell_timed_out(one)
        self._unproven = None

    def _hand_on_all(self) -> None:
        """Tell clients what the machine did, in its order.

        A channel hears that it held something for too long before it is given the same again.
        """
        deliveries = self.deliveries
        self.deliveries = []
        timed_out = self._timed_out
        self._timed_out = []
        told = 0
        session = self._session()
        for at, delivery in enumerate(deliveries):
            while told < len(timed_out) and timed_out[told][0] <= at:
                self._tell_timed_out(timed_out[told][1])
                told += 1
            consumer_id = delivery.consumer.id
            if session_of_consumer(consumer_id) == session:
                self._hand_on(consumer_id, delivery)
        for _, one in timed_out[told:]:
            self._tell_timed_out(one)

    def act(self, effects: Effects) -> None:
        """Do what comes of an entry."""
        for one in effects.timed_out:
            self._timed_out.append((len(self.deliveries), one))
        super().act(effects)

    def _tell_timed_out(self, one: TimedOut) -> None:
        """Have a client of this node told what it held for too long, once for each consumer."""
        owner = self._owners.get(one.consumer_id)
        if owner is not None and not owner.told and not self.deleted:
            owner.told = True
            owner.holder.held_too_long(self, one.consumer_id, one.timeout_ms)

    def _keep_going(self) -> None:
        """The leader has the machine hand out more, if the last entry did not come to the end."""
        if self.going_on or self.deleted:
            return
        if self.fifo.unfinished():
            # Who leads may change before it is done.
            self.mind_leases()
            self._go_on()
        elif self.fifo.minds_time() and self._group().leads():
            self._mind_expiry()
        if self.fifo.discards.count > 0 and self.forwarding is not None:
            self.forwarding.go_on()
        due_ms = self.fifo.locks_due
        if (
            due_ms != NEVER
            and (self._locks_planned == NEVER or due_ms < self._locks_planned)
            and self._group().leads()
        ):
            self._mind_locks()

    def _go_on(self) -> None:
        """Log an entry that has the machine go on, if this node leads."""
        out = BytesWriter()
        commands.go_on(out)
        self.going_on = self._group().propose_plain(out.getvalue())

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
        handed.behind = last + 1
        link = self.links.get(consumer_id)
        if link is not None:
            link.delivered(delivery)
        elif not self.deleted:
            # Cancelled meanwhile: nobody will see these, so nobody can settle them.
            self.return_(consumer_id, delivery.mid, last, False)

    # --- the machine ----------------------------------------------------------------------------

    def check_proposal(self, kind: i64, payload: bytes) -> None:
        """Refuse commands that no node would submit."""
        if kind == KIND_COMMAND:
            problem = commands.problem(payload)
            if problem:
                raise CorruptRecord("a proposal to a queue", 0, problem)

    def apply(self, batch: Batch, origin: object | None) -> None:
        """Apply a committed entry, and answer whoever waits for it here."""
        if batch.session == 0:
            # What a leader had to say: that there is more to hand out, mostly.
            self.going_on = False
        reply = self._apply(batch)
        if isinstance(origin, Poll) and session_of_consumer(origin.consumer_id) != batch.session:
            # It was not applied before its session was closed, and found nothing in another one.
            self._polls.miss(origin)
        elif isinstance(origin, PendingResult):
            if self._timed_out and self._unproven is None:
                # The channel that polls may be the one that held too long.
                self._hand_on_all()
            origin.succeeded(reply)
        elif isinstance(origin, Gathered):
            self._seen(origin)
            self._confirm(batch.payload_size, origin.runs)
        self._admit_more()
        self._mark()

    def _seen(self, gathered: Gathered) -> None:
        """The machine has what this node submitted."""
        self._submitted -= gathered.count
        self._submitted_bytes -= len(gathered.payload)
        assert self._submitted >= 0 and self._submitted_bytes >= 0, "it was submitted, and once"

    def _apply(self, batch: Batch) -> Reply:
        fifo = self.fifo
        meta = Meta(batch.stamp_ms, batch.session)
        if batch.kind == KIND_COMMAND:
            start = batch.payload_at
            command = Encoded(batch.payload, start, start + batch.payload_size)
            reply, effects = fifo.apply(meta, command)
            self.act(effects)
            self.mind_leases()
        else:
            size = batch.payload_size
            messages = Enqueue(batch.first, batch.count, size, batch.life_ms, batch.facts)
            reply, effects = fifo.apply(meta, messages)
        self.act(fifo.dispatch())
        return reply

    def is_awaited(self) -> bool:
        """Whether consumers with little credit have settled something.

        Others have messages to go on with, and more at a time when the disk has them. What is
        handed out to consumers with automatic acks is settled by that, and has to be durable first.
        """
        awaited = self._awaited
        self._awaited = False
        return awaited and not self._automatic

    def apply_ahead(self, batch: Batch, origin: object | None) -> bool:
        """Apply an entry that is not durable yet, unless somebody waits for its outcome.

        What a leader says of itself is not worth being ahead.
        """
        if isinstance(origin, PendingResult) or batch.session == 0:
            return False
        self.fifo.reports_freed = True
        self._apply(batch)
        self.fifo.reports_freed = False
        self._left.append(self.freed.take_lists())
        if isinstance(origin, Gathered):
            self._seen(origin)
        self._admit_more()
        self._mark()
        return True

    def caught_up(self, batch: Batch, origin: object | None) -> None:
        """An entry that was applied ahead is durable."""
        self._left.popleft()
        if isinstance(origin, Gathered):
            self._confirm(batch.payload_size, origin.runs)
            self._mark()

    def gather_live(self) -> LiveRuns:
        """Finds out the messages whose bodies the log must keep: also those a crash brings back."""
        left: list[list[Piece]] = []
        for lists in self._left:
            left.extend(lists)
        left.extend(self.not_dead_lettered())
        return self.fifo.gather_live(left, [])

    def sessions_served(self) -> list[int]:
        """The sessions of all consumers that may get more, without asking for it each time."""
        sessions: dict[int, bool] = {}
        for consumer_id, consumer in self.fifo.consumers.items():
            if consumer.active:
                sessions[int(session_of_consumer(consumer_id))] = True
        return list(sessions)

    def doubt(self) -> bytes:
        """The command that all ready messages may have been delivered."""
        out = BytesWriter()
        commands.doubt(out)
        return out.getvalue()

    def state(self) -> bytes:
        """The machine's snapshot."""
        return self.fifo.encode()

    def write_state(self, out: BytesWriter) -> Work:
        """Have that written in parts."""
        return self.fifo.write_state(out)

    def first_state(self) -> bytes:
        """An empty queue, not yet set up."""
        return Fifo(NOT_SET_UP, False).encode()

    def restore(self, state: bytes) -> None:
        """Go on from a leader's snapshot; consumers here get what they missed."""
        before = self.fifo.consumers if self._forgotten is None else self._forgotten
        self._purged = max(self._purged, i64(self.fifo.purged.get(int(self._session()), 0)))
        for group in self.fifo.groups.values():
            self._epochs[group.name] = int(group.epoch)
        try:
            self.fifo.restore(state)
        except (AssertionError, LookupError, OverflowError, ValueError) as error:
            raise CorruptRecord("the state of a queue", 0, f"it is none: {error}") from error
        self._left.clear()
        if self.dead_lettering is not None:
            # Another node led, and their bodies are not here any more.
            self.dead_lettering.forget()
        self.mind_leases()
        self.deliveries = []
        for consumer_id in list(self._handed):
            consumer = self.fifo.consumers.get(consumer_id)
            if consumer is not None:
                for run in consumer.holding():
                    counted = self.fifo.config.counted(run.acquired, run.failed)
                    missed = Delivery(
                        consumer, run.key, run.first, run.count, run.acquired, counted
                    )
                    # At the end of the turn: it may turn out that the state is none.
                    self.deliveries.append(missed)
        if self.fifo.config.delivery_limit != NOT_SET_UP:
            self._find_timed_out(before)
        self._forgotten = None
        if self._unproven is None:
            self._unproven = before
        self._admit_more()
        self._mark()

    def forget(self) -> None:
        """Have nothing for now, and compare the next state with what there was before."""
        forgotten = self._unproven
        if forgotten is None:
            forgotten = self.fifo.consumers if self._forgotten is None else self._forgotten
        kept: dict[int, Consumer] = {}
        for consumer_id in self._owners:
            consumer = forgotten.get(consumer_id)
            if consumer is not None:
                kept[consumer_id] = consumer
        self.restore(self.first_state())
        self._missed_time_outs = []
        self._unproven = None
        self._forgotten = kept

    def _find_timed_out(self, before: dict[int, Consumer]) -> None:
        """Note of whom messages went back within a state.

        It says so of consumers, as long as they have not settled these. Pollers and cancelled
        consumers are forgotten with their last message: it only says what they hold.

        Args:
            before: The consumers as of what this node had last before it.
        """
        for consumer_id, owner in self._owners.items():
            if owner.told:
                continue
            now = self.fifo.consumers.get(consumer_id)
            if now is not None and now.standing == TIMED_OUT and now.locks is not None:
                self._missed_time_outs.append(TimedOut(now.id, now.locks.timeout_ms))
                continue
            was = before.get(consumer_id)
            if was is None or was.locks is None or was.held == 0 or consumer_id in self.links:
                continue
            first = was.lowest()
            behind = gave_up_to(was, now)
            if first < behind and owner.holder.holds(self, consumer_id, first, behind - 1):
                self._missed_time_outs.append(TimedOut(consumer_id, was.locks.timeout_ms))

    def next_message(self) -> i64:
        """The number after the newest message that came."""
        return self.fifo.next_message

    def live_in(self, state: bytes) -> RunList:
        """The messages that live in a snapshot."""
        fifo = Fifo(NOT_SET_UP, False)
        fifo.restore(state)
        return fifo.gather_live([], []).all()

    def sessions_closed(self, sessions: list[int], stamp_ms: i64, lost: bool) -> None:
        """What consumers of these sessions held returns, in order (R-27)."""
        for session in sessions:
            self._suspecting.pop(session, None)
        self.act(close_sessions(self.fifo, sessions, stamp_ms, lost))
        self.act(self.fifo.dispatch())
        self._admit_more()
        self._mark()

    def session_renewed(self) -> None:
        """Attach the consumers of this node anew: late settles for the old ones do nothing."""
        links = self.links
        terms = self._terms
        self.links = {}
        self._handed = {}
        self._terms = {}
        self._automatic = {}
        owners = self._owners
        self._owners = {}
        self._polls.clear()
        self._purged = 0
        self._unproven = None
        self._forgotten = None
        self.numbers.clear()
        for consumer_id, link in links.items():
            credit, priority, automatic = terms[consumer_id]
            renewed = self.new_consumer()
            self.links[renewed] = link
            self._handed[renewed] = Handed()
            self._terms[renewed] = (credit, priority, automatic)
            if automatic:
                self._automatic[renewed] = True
            owner = owners.get(consumer_id)
            if owner is not None:
                self._owners[renewed] = Owner(owner.holder, owner.timeout_ms)
            link.renumbered(renewed)
            allowed = credit if credit > 0 else int(PREFETCH_UNLIMITED)
            self._write_attach(renewed, allowed, priority, automatic)
            # The log has who consumes before anything is handed out, see `sessions_served`.
            self._ask(Renewed())

    def followed(self) -> None:
        """What waits for room goes on: a state may have come before, and no entry behind it."""
        self._admit_more()
        self._mark()

    def skipped(self, origin: object | None) -> None:
        """It is part of a snapshot: applied, but not here."""
        if isinstance(origin, PendingResult):
            origin.missed()
        elif isinstance(origin, Gathered):
            self._seen(origin)
            self._confirm(len(origin.payload), origin.runs)
        self._admit_more()
        self._mark()

    def abandoned(self, origin: object | None) -> None:
        """The queue was deleted; messages that it would have had count as safe (as RabbitMQ)."""
        if isinstance(origin, PendingResult):
            origin.abandoned()
        elif isinstance(origin, Gathered):
            self._confirm(len(origin.payload), origin.runs)

    # --- submitting -----------------------------------------------------------------------------

    def _group(self) -> Proposer:
        group = self.group
        assert group is not None, "a quorum queue has its group before it is used"
        return group

    def _session(self) -> i64:
        return 0 if self.group is None else self.group.session()

    def _may_reject(self, count: i64) -> bool:
        """Whether there may be no room for so many messages more, or that is not known here."""
        if self.deleted:
            return False
        if self._queued:
            return True
        if not self._knows():
            return self._limits.rejects
        config = self.fifo.config
        if not config.rejects or not config.is_limited():
            return False
        counted = self.fifo.limited_count() + self.fifo.coming.count
        room = config.max_length - counted - self._submitted - self._pending
        return self.fifo.blocked or config.max_bytes >= 0 or count > room

    def _admit(self, publish: Publish) -> None:
        """Take or reject messages, now or when it is known whether there is room (QL-04).

        At most one message more than there is room for is under way from here.
        """
        if self._queued:
            self._queued.append(publish)
        elif not self._knows():
            self._queued.append(publish)
            self.catch_up(Informed(self))
        elif not self._admit_some(publish):
            self._queued.append(publish)

    def _knows(self) -> bool:
        """Whether this node knows what the queue holds, as of a moment ago."""
        return self._informed and self._group().fed()

    def informed(self) -> None:
        """The machine is as far as the others were."""
        self._informed = True
        while self._queued and self._admit_some(self._queued[0]):
            self._queued.popleft()

    def _admit_more(self) -> None:
        """The machine has seen something: see to what waits for that."""
        if self._queued and self._knows():
            self.informed()

    def look_after(self) -> None:
        """See to what waits for room, should nothing have come that says there is some."""
        super().look_after()
        self._admit_more()

    def _admit_some(self, publish: Publish) -> bool:
        """Take or reject as many messages of a publish as can be now; whether that was all."""
        fifo = self.fifo
        config = fifo.config
        if fifo.blocked:
            publish.reject(publish.left())
        elif not config.rejects or not config.is_limited():
            self._take_in(publish, publish.left())
        else:
            under_way = self._submitted + self._pending
            ready_bytes = fifo.limited_bytes() + self._submitted_bytes + self._pending_bytes
            ready = fifo.limited_count() + fifo.coming.count + under_way
            count = publish.fitting(config, ready, ready_bytes, True, True)
            if count == 0 and under_way == 0 and not fifo.unfinished():
                # Whether that is too much, the machine says next.
                count = 1
            if count > 0:
                self._take_in(publish, count)
        if publish.left() > 0:
            return False
        publish.answered()
        return True

    def _before_asking(self) -> None:
        if self._pending > 0:
            self._seal_messages()

    def _seal_messages(self) -> None:
        if self._pending_commands:
            # They may be older than the messages: whoever sees those confirmed counts on them.
            self._seal_commands(None)
        gathered = self._take_messages()
        self._submitted += gathered.count
        self._submitted_bytes += len(gathered.payload)
        self._group().submit(
            gathered.kind,
            gathered.count,
            gathered.lengths,
            gathered.payload,
            gathered,
            gathered.flavour,
            gathered.life_ms,
            gathered.facts,
        )

    def _seal_commands(self, waiter: PendingResult | None) -> None:
        self.host.appended(True)
        if self._starving:
            self._starving = False
            self._awaited = True
        self._group().submit(KIND_COMMAND, 0, b"", self._take_commands(), waiter)

    def _unlink(self, consumer_id: i64) -> None:
        self._terms.pop(consumer_id, None)
        super()._unlink(consumer_id)


@final
class Handed:
    """How far a consumer is: all its message ids below `behind` were handed to its channel."""

    def __init__(self) -> None:
        self.behind: i64 = 0


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
class Expiring(PendingResult):
    """Waits until this node's own entry is applied, to look again whether a queue is to go."""

    def __init__(self, queue: QuorumQueue) -> None:
        self._queue: QuorumQueue = queue

    def succeeded(self, result: Result) -> None:
        """It is."""
        self._queue.expire()

    def abandoned(self) -> None:
        """The queue is gone."""

    def missed(self) -> None:
        """It is, within a snapshot: another node leads."""


@final
class Acquire(PendingResult):
    """A reader's acquire of a group that is under way."""

    def __init__(self, queue: QuorumQueue, group: str, waiter: PendingResult) -> None:
        self._queue: QuorumQueue = queue
        self._group: str = group
        self._waiter: PendingResult = waiter

    def succeeded(self, result: Result) -> None:
        """It is done."""
        self._waiter.succeeded(result)

    def abandoned(self) -> None:
        """The queue went away before."""
        self._waiter.abandoned()

    def missed(self) -> None:
        """It is done, and the state has its epoch, unless somebody came behind."""
        reply = self._queue.acquired(self._group)
        if reply is None:
            self._waiter.missed()
        else:
            self._waiter.succeeded(reply)


@final
class Purge(PendingResult):
    """A purge that is under way."""

    def __init__(self, queue: QuorumQueue, waiter: PendingResult) -> None:
        self._queue: QuorumQueue = queue
        self._waiter: PendingResult = waiter

    def succeeded(self, result: Result) -> None:
        """It is done."""
        self._waiter.succeeded(result)

    def abandoned(self) -> None:
        """The queue went away before."""
        self._waiter.abandoned()

    def missed(self) -> None:
        """It is done, and the state says what it took, unless the session was closed since."""
        count = self._queue.purged()
        if count < 0:
            self._waiter.missed()
        else:
            self._waiter.succeeded(PurgeReply(count))


@final
class Informed(PendingResult):
    """Waits until it is known here what the queue holds, for messages that wait for that."""

    def __init__(self, queue: QuorumQueue) -> None:
        self._queue: QuorumQueue = queue

    def succeeded(self, result: Result) -> None:
        """It is."""
        self._queue.informed()

    def abandoned(self) -> None:
        """The queue is gone, and what waits is let go with it."""

    def missed(self) -> None:
        """It is, within a snapshot."""
        self._queue.informed()


@final
class Renewed(PendingResult):
    """Waits until a consumer is attached anew, which nobody has to be told."""

    def succeeded(self, result: Result) -> None:
        """It is."""

    def abandoned(self) -> None:
        """The queue is gone."""

    def missed(self) -> None:
        """It is, within a snapshot."""


def close_sessions(fifo: Fifo, sessions: list[int], now_ms: i64, lost: bool) -> Effects:
    """The consumers of these sessions are gone, says an entry of that time.

    Args:
        lost: Whether nobody hears their nodes, so that no delivery is known to have failed.
    """
    gone: list[int] = []
    for consumer_id in fifo.consumers:
        if session_of_consumer(consumer_id) in sessions:
            gone.append(consumer_id)
    for session in sessions:
        fifo.purged.pop(session, None)
        fifo.suspects.pop(session, None)
    return fifo.down_all(gone, now_ms, not lost)
