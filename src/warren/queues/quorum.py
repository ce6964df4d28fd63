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

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.headed_list import HeadedList
from warren.ids import session_of_consumer
from warren.log.batch import KIND_COMMAND, Batch
from warren.log.facts import SIZES
from warren.log.runlist import LiveRuns
from warren.log.source import MessageSource
from warren.message.flavours import AMQP091, delay_in
from warren.message.properties import stored_life
from warren.pending import PendingReply
from warren.ports import Work
from warren.queue_types import QUORUM, QueueType
from warren.queues.admission import Admission
from warren.queues.fifo import commands
from warren.queues.fifo.config import (
    NOT_SET_UP,
    UNRANKED,
    Limits,
    write_dead_letters,
    write_delivery_limit,
    write_expires,
    write_failures,
    write_limits,
    write_message_ttl,
    write_ranking,
    write_retry,
)
from warren.queues.fifo.consumers import Consumer
from warren.queues.fifo.dead_letters import AT_LEAST_ONCE, AT_THEIR_TIME, Dead
from warren.queues.fifo.delayed import Retry
from warren.queues.fifo.effects import Delivery, Reply
from warren.queues.fifo.entry import Encoded, Enqueue, Meta
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.pieces import SPENT_LISTS, LettingGo, Piece
from warren.queues.fifo.sessions import close_sessions
from warren.queues.fifo_queue import USE_MS
from warren.queues.fitting import Publish
from warren.queues.forwarding import Forwarding
from warren.queues.gathering import Gathered
from warren.queues.minding import Minding
from warren.queues.polls import Poll
from warren.queues.publishing import PublishRun
from warren.queues.queue import Counts, Host
from warren.queues.restoring import Restoring, StateRuns
from warren.queues.session_queue import SessionQueue
from warren.queues.settings import LoggedSettings
from warren.queues.silences import Silences
from warren.queues.waiting import Confirming
from warren.replication.machine import Machine
from warren.replication.observer import Observer

if TYPE_CHECKING:
    from warren.queues.feed import QueueFeed

GATHER_BYTES: Final = 16_384
"""Messages of this size are an entry of their own at once: it costs little more than its bytes."""


FORGET_MS: Final = 5_000
"""Without a leader it is looked so often whose messages are to be forgotten."""


@final
class Ahead:
    """What came of an entry that the machine has ahead of the disk.

    Attributes:
        left: What left the queue with it, dead or not, in lists: its bodies are needed.
        dead: What is to go through the dead-letter exchange once the disk has the entry.
        next_death: The number of the next death after it.
    """

    def __init__(self, left: list[list[Piece]], dead: list[Dead], next_death: i64) -> None:
        self.left: list[list[Piece]] = left
        self.dead: list[Dead] = dead
        self.next_death: i64 = next_death


@final
class QuorumQueue(SessionQueue, Machine):
    """This node's copy of a quorum queue.

    Attributes:
        settings: How it is to be set up, and what the log says of that.
        minding: What it sees to as time passes, as leader.
        silences: Whose nodes nobody hears, as far as it said so.
        admission: What waits for room in it, if it rejects what is too much.
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
        self.settings: LoggedSettings = LoggedSettings(delivery_limit)
        self.minding: Minding = Minding()
        self.silences: Silences = Silences()
        self.admission: Admission = Admission()
        self.forwarding: Forwarding | None = None
        self._starving: bool = False
        """Whether the commands gathered settle something for a consumer with little credit."""
        self._awaited: bool = False
        """Whether such commands were submitted since `is_awaited`."""
        self._ordered: bool = False
        """Whether the messages that come now may not be before the commands gathered."""
        self._ahead: HeadedList[Ahead] = HeadedList()
        """What came of each entry that is ahead of the disk."""
        self._died_ahead: list[Dead] | None = None
        """What died with the entry that is being applied ahead of the disk; None if none is."""
        self._safe_deaths: i64 = 0
        """While some are: the number of the first death that the disk does not have."""
        self._submitted: i64 = 0
        """Messages of this node that its machine has not seen."""
        self._submitted_bytes: i64 = 0
        """What their records take."""
        self._unproven: dict[int, Consumer] | None = None
        """The consumers before the state that this turn brought."""
        self._restoring: Restoring | None = None
        """Another machine, for when a state comes into force."""
        self._forgotten: dict[int, Consumer] | None = None
        """Those of when this node had a state last, while it has none."""

    # --- how it is set up -------------------------------------------------------------------------

    def leading(self, next_message: i64) -> None:
        """A leader sets the machine up, where none before it came to that: messages go by it."""
        self.settings.lead(self, next_message)

    def elected(self) -> None:
        """A leader says what is to be otherwise than the machine was set up."""
        self.minding.going_on = False
        self.settings.catch_up(self)
        self.minding.anew()
        self.silences.anew()
        if self.fifo.suspects:
            self.host.queue_later(self, USE_MS)
        if self.forwarding is not None:
            self.forwarding.anew()
        if self.expires_ms >= 0 or self.fifo.minds_time():
            self.host.queue_later(self, 0)
        if self.feed is not None:
            self.fifo.feed = self.feed
            self.feed.leading(self.fifo.next_message)

    def set_feed(self, feed: QueueFeed | None) -> None:
        """Have the leader tell what becomes of messages, once it has all that there was before."""
        if self.proposer().leads_fully():
            super().set_feed(feed)
        else:
            self.feed = feed
            self.fifo.feed = None

    def _mind_feed(self) -> None:
        """An entry is about to be applied: one member tells of it, the leader."""
        self.fifo.feed = self.feed if self.proposer().leads_fully() else None

    def tables_came(self) -> None:
        """A leader says what policies want otherwise, by tables that are new enough now."""
        if self.proposer().leads():
            self.settings.catch_up(self)

    def set_delivery_limit(self, limit: i64) -> None:
        """Have the log say what policies now have a message survive (POI-05)."""
        fields = BytesWriter()
        write_delivery_limit(fields, limit)
        self.settings.want(self, fields)

    def set_expires(self, expires_ms: i64) -> None:
        """Have the log say for how long the queue may be unused, and the leader mind it."""
        self.expires_ms = expires_ms
        fields = BytesWriter()
        write_expires(fields, expires_ms)
        if self.settings.want(self, fields) and expires_ms >= 0:
            self.host.queue_later(self, expires_ms)

    def set_message_ttl(self, ttl_ms: i64) -> None:
        """Have the log say after what time messages expire (QQ-11)."""
        fields = BytesWriter()
        write_message_ttl(fields, ttl_ms)
        self.settings.want(self, fields)

    def set_limits(self, limits: Limits) -> None:
        """Have the log say how much of messages there may be (QL-02)."""
        self._know(SIZES, limits.max_bytes >= 0)
        fields = BytesWriter()
        write_limits(fields, limits)
        self.settings.want(self, fields)

    def set_ranking(self, ranking: i64) -> None:
        """Have the log say how messages rank by their priorities, if it says nothing yet (PRI-01).

        It does so once and for ever, whatever the nodes are set up for later.
        """
        fields = BytesWriter()
        write_ranking(fields, ranking)
        self.settings.want(self, fields)

    def _minds_priorities(self) -> bool:
        return self.settings.wanted.ranking != UNRANKED

    def set_single_active(self) -> None:
        """Have the log say that one consumer at a time is served, with its first entry.

        Where whoever led first had not heard of it, the next leader says so.
        """
        self.settings.wanted.single_active = True

    def set_failures(self) -> None:
        """Have the log say, if it does not yet, that failed deliveries alone count (POI-02)."""
        fields = BytesWriter()
        write_failures(fields)
        self.settings.want(self, fields)

    def set_retry(self, retry: Retry) -> None:
        """Have the log say what waits of what returns from now on, and for how long."""
        fields = BytesWriter()
        write_retry(fields, retry)
        self.settings.want(self, fields)

    def _set_deaths(self, dead_letters: i64) -> None:
        """Have the log say what becomes of messages that die (QQ-21)."""
        fields = BytesWriter()
        write_dead_letters(fields, dead_letters)
        self.settings.want(self, fields)

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

    def set_disconnected_timeout(self, timeout_ms: i64) -> None:
        """Have what consumers hold return that long after their node was heard last."""
        self.silences.timeout_ms = timeout_ms
        if self.fifo.suspects:
            self.host.queue_later(self, 0)

    # --- publishes --------------------------------------------------------------------------------

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
        """Gather messages; those that are to wait here do so for as long as their headers say."""
        if self.type.delays:
            life_ms = stored_life(int(delay_in(flavour, records)))
        super().publish(records, lengths, count, persistent, run, flavour, life_ms, noted)

    def _may_reject(self, count: i64) -> bool:
        """Whether there may be no room for so many messages more, or that is not known here."""
        return self.admission.may_reject(self, count)

    def is_full(self) -> bool:
        """Whether it is known here that one more message would be rejected for want of room."""
        return self.fifo.blocked and not self.deleted and self.proposer().fed()

    def _admit(self, publish: Publish) -> None:
        """Take or reject messages, now or when it is known whether there is room (QL-04)."""
        self.admission.admit(self, publish)

    def informed(self) -> None:
        """The machine is as far as the others were."""
        self.admission.informed(self)

    def _admit_more(self) -> None:
        """The machine has seen something: see to what waits for that."""
        self.admission.admit_more(self)

    def look_after(self) -> None:
        """See to what waits for room, should nothing have come that says there is some."""
        super().look_after()
        self._admit_more()

    def congested(self) -> bool:
        """Whether the disk is behind, its dead letters are, or who leads this queue or others."""
        most: i64 = self.host.commands_soft_limit
        if most > 0 and self.under_way() > most:
            return True
        if self.admission.waits() or self._dead_letters_wait():
            return True
        if super().congested():
            return True
        host = self.host
        if not (host.proposals_behind or host.unled_behind):
            return False
        return host.proposals_behind if self.proposer().has_leader() else host.unled_behind

    def _dead_letters_wait(self) -> bool:
        """Whether dead letters are to get on that stay here until they are confirmed elsewhere."""
        forwarding = self.forwarding
        return forwarding is not None and self.forwards() and forwarding.catching_up()

    # --- submitting -------------------------------------------------------------------------------

    def settle(self, consumer_id: i64, first: i64, last: i64) -> None:
        """Message ids of a consumer are done with; one with little credit left waits for more."""
        consumer = self.fifo.consumers.get(consumer_id)
        if consumer is not None and consumer.credit < consumer.held:
            self._urgent = True
            self._starving = True
        super().settle(consumer_id, first, last)

    def keep_order(self) -> None:
        """Have what was settled so far be no later in the log than the messages that come now."""
        self._ordered = self._pending_commands

    def drop(self, gone: list[tuple[int, int]]) -> None:
        """Have the log say that messages are lost; they are dropped when that is applied."""
        for first, last in gone:
            commands.free(self._writer(), i64(first), i64(last))
        self._command()

    def seal(self) -> None:
        """Submit what was gathered, unless it is better to gather more.

        That is for few messages while something is under way, since an entry costs all members
        much the same whatever its size, and for settles that nobody waits for, which are kept for
        a moment, also where messages come meanwhile.
        """
        awaited = self._pending_commands and (self._urgent or self.fifo.ready_count() > 0)
        if awaited or self._pending_bytes() >= GATHER_BYTES:
            super().seal()
        elif self.proposer().busy():
            return
        else:
            if self._pending > 0:
                self._seal_messages()
            if self._pending_commands:
                self.host.queue_defers(self)

    def _before_asking(self) -> None:
        if self._pending > 0:
            self._seal_messages()

    def _seal_messages(self) -> None:
        if self._pending_commands and (self._ordered or self._urgent):
            # They may be older than the messages: a client that publishes on the channel on which
            # it acks counts on its acks when it sees the messages confirmed.
            self._seal_commands(None)
        gathered = self._take_messages()
        self._submitted += gathered.count
        self._submitted_bytes += len(gathered.payload)
        self.proposer().submit(
            gathered.kind,
            gathered.count,
            gathered.lengths,
            gathered.payload,
            gathered,
            gathered.flavour,
            gathered.life_ms,
            gathered.facts,
        )
        if not self.stuck and not self.proposer().has_leader():
            self.stuck = True
            self.host.queue_later(self, FORGET_MS)

    def _forget_gone(self) -> None:
        """Without a leader, forget messages of which none was offered and all publishers are gone.

        A publisher that comes again publishes again: each time would be kept.
        """
        group = self.proposer()
        if group.has_leader() or self.deleted:
            self.stuck = False
            return
        self.host.queue_later(self, FORGET_MS)
        gone: dict[int, None] = {}
        forgotten: list[Gathered] = []
        for proposal in group.unoffered():
            origin = proposal.origin
            if isinstance(origin, Gathered) and origin.is_nobodys():
                gone[int(proposal.sequence)] = None
                forgotten.append(origin)
        if gone:
            group.give_up(gone)
            for gathered in forgotten:
                self._seen(gathered)
                self._confirm(len(gathered.payload), [])

    def _seal_commands(self, waiter: PendingReply | None) -> None:
        self.host.appended(True)
        if self._starving:
            self._starving = False
            self._awaited = True
        self._ordered = False
        self.proposer().submit(KIND_COMMAND, 0, b"", self._take_commands(), waiter)

    def under_way(self) -> i64:
        """Messages of this node that the machine has not seen, what is gathered with them."""
        return self._submitted + self._pending

    def under_way_bytes(self) -> i64:
        """What their records take."""
        return self._submitted_bytes + self._pending_bytes()

    # --- the machine ------------------------------------------------------------------------------

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
            self.minding.going_on = False
        reply = self._apply(batch)
        if isinstance(origin, Poll) and session_of_consumer(origin.consumer_id) != batch.session:
            # It was not applied before its session was closed, and found nothing in another one.
            self._polls.miss(origin)
        elif isinstance(origin, PendingReply):
            if self.holders.any_timed_out() and self._unproven is None:
                # The channel that polls may be the one that held too long.
                self._hand_on_all()
            origin.succeeded(reply)
        elif isinstance(origin, Gathered):
            self._seen(origin)
            self._confirm(batch.payload_size, origin.runs)
        if batch.count > 0 and self.fifo.feed is not None:
            self.fifo.feed.confirmed(batch.first, batch.count)
        self._admit_more()
        self._mark()

    def _seen(self, gathered: Gathered) -> None:
        """The machine has what this node submitted."""
        self._submitted -= gathered.count
        self._submitted_bytes -= len(gathered.payload)
        assert self._submitted >= 0 and self._submitted_bytes >= 0, "it was submitted, and once"

    def _apply(self, batch: Batch) -> Reply:
        fifo = self.fifo
        if self.feed is not None:
            self._mind_feed()
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

    def take_steps(self) -> i64:
        """How far the machine went on with what is long."""
        steps = self.fifo.steps
        self.fifo.steps = 0
        return steps

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
        if isinstance(origin, PendingReply) or batch.session == 0:
            return False
        discards = self.fifo.discards
        if self._ahead.size() == 0:
            self._safe_deaths = discards.next_death
        dead: list[Dead] = []
        self._died_ahead = dead
        self.fifo.reports_freed = True
        self._apply(batch)
        self.fifo.reports_freed = False
        self._died_ahead = None
        self._ahead.append(Ahead(self.freed.take_lists(), dead, discards.next_death))
        if isinstance(origin, Gathered):
            self._seen(origin)
        self._admit_more()
        self._mark()
        return True

    def caught_up(self, batch: Batch, origin: object | None) -> None:
        """An entry that was applied ahead is durable: what died with it may go elsewhere."""
        ahead = self._ahead.at(0)
        self._ahead.drop(1)
        if ahead.dead:
            self._died(ahead.dead)
        if ahead.next_death > self._safe_deaths:
            self._safe_deaths = ahead.next_death
            if self.forwarding is not None:
                self.forwarding.go_on()
        if batch.count > 0 and self.fifo.feed is not None:
            self.fifo.feed.confirmed(batch.first, batch.count)
        if isinstance(origin, Gathered):
            self._confirm(batch.payload_size, origin.runs)
            self._mark()

    def gather_live(self) -> LiveRuns:
        """Finds out the messages whose bodies the log must keep: also those a crash brings back."""
        left: list[list[Piece]] = []
        for at in range(self._ahead.size()):
            left.extend(self._ahead.at(at).left)
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

    def ready(self, state: bytes) -> Work:
        """Read a state into another machine, which takes its turns."""
        restoring = Restoring(self.fifo.anew(), state)
        self._restoring = restoring
        return restoring

    def restore(self, state: bytes) -> None:
        """Go on from a leader's snapshot; consumers here get what they missed."""
        self._go_on_with(self._restored(state), False)

    def restore_older(self, state: bytes) -> None:
        """The same; what consumers had since counts for nothing."""
        self._go_on_with(self._restored(state), True)

    def take_machine(self, other: QuorumQueue) -> None:
        """Go on with the machine of the same queue that another one here has, which is farther."""
        fifo = other.fifo
        other.fifo = fifo.anew()
        self._go_on_with(fifo, False)

    def _restored(self, state: bytes) -> Fifo:
        """The machine with a state, as far as possible read before.

        Raises:
            CorruptRecord: It is none.
        """
        restoring = self._restoring
        self._restoring = None
        if restoring is None or restoring.state != state:
            restoring = Restoring(self.fifo.anew(), state)
        return restoring.all()

    def _go_on_with(self, fifo: Fifo, older: bool) -> None:
        """Another machine stands for the queue from now on, as of another entry of its log."""
        known = self.fifo.consumers if self._forgotten is None else self._forgotten
        before: dict[int, Consumer] = {} if older else known
        self._purged = max(self._purged, i64(self.fifo.purged.get(int(self._session()), 0)))
        if self._acquires is not None:
            self._acquires.state_comes(self.fifo)
        spent = self.fifo.lists()
        self.fifo = fifo
        if len(spent) > SPENT_LISTS:
            self.host.do_in_parts(LettingGo(spent))
        self._ahead.clear()
        if self.dead_lettering is not None:
            # Another node led, and their bodies are not here any more.
            self.dead_lettering.forget()
        self.mind_leases()
        missing: list[Delivery] = []
        for consumer_id, handed in self._handed.items():
            consumer = self.fifo.consumers.get(consumer_id)
            if consumer is not None:
                for run in consumer.holding(handed.behind):
                    counted = self.fifo.config.counted(run.acquired, run.failed)
                    missed = Delivery(
                        consumer, run.key, run.first, run.count, run.acquired, counted
                    )
                    # At the end of the turn: it may turn out that the state is none.
                    missing.append(missed)
        self.deliveries = missing
        if self.fifo.config.delivery_limit != NOT_SET_UP:
            self._find_timed_out(before)
        self._forgotten = None
        if self._unproven is None:
            self._unproven = known
        self._admit_more()
        self._mark()

    def forget(self) -> None:
        """Have nothing for now, and compare the next state with what there was before."""
        forgotten = self._unproven
        if forgotten is None:
            forgotten = self.fifo.consumers if self._forgotten is None else self._forgotten
        kept = self.holders.known(forgotten)
        self.restore(self.first_state())
        self.holders.take_missed()
        self._unproven = None
        self._forgotten = kept

    def _find_timed_out(self, before: dict[int, Consumer]) -> None:
        """Note of whom messages went back within a state."""
        self.holders.find_timed_out(self, before)

    def next_message(self) -> i64:
        """The number after the newest message that came."""
        return self.fifo.next_message

    def live_in(self, state: bytes) -> LiveRuns:
        """Finds out the messages that live in a snapshot."""
        return StateRuns(self.fifo.anew(), state)

    def sessions_closed(self, sessions: list[int], stamp_ms: i64, lost: bool) -> None:
        """What consumers of these sessions held returns, in order (R-27)."""
        self.silences.closed(sessions)
        if self.feed is not None:
            self._mind_feed()
        self.act(close_sessions(self.fifo, sessions, stamp_ms, lost))
        self.act(self.fifo.dispatch())
        self._admit_more()
        self._mark()

    def session_renewed(self) -> None:
        """Attach the consumers of this node anew: late settles for the old ones do nothing.

        Those that held messages for too long before that are told now: their identities are over.
        """
        for _, late in self.holders.take_timed_out():
            self.holders.tell(self, late)
        for late in self.holders.take_missed():
            self.holders.tell(self, late)
        self._unproven = None
        self._forgotten = None
        self._attach_anew()

    def followed(self) -> None:
        """What waits for room goes on: a state may have come before, and no entry behind it."""
        self._admit_more()
        self._mark()

    def skipped(self, origin: object | None) -> None:
        """It is part of a snapshot: applied, but not here."""
        if isinstance(origin, PendingReply):
            origin.missed()
        elif isinstance(origin, Gathered):
            self._seen(origin)
            self._confirm(len(origin.payload), origin.runs)
        self._admit_more()
        self._mark()

    def abandoned(self, origin: object | None) -> None:
        """The queue was deleted; messages that it would have had count as safe (as RabbitMQ)."""
        if isinstance(origin, PendingReply):
            origin.abandoned()
        elif isinstance(origin, Gathered):
            self._confirm(len(origin.payload), origin.runs)

    # --- what comes of it -------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Pass on what the machine handed to consumers of this node."""
        if self._polls.any_missed():
            self._polls.answer_missed(self.fifo, self._session())
        if self._acquires is not None and self._acquires.any_missed():
            self._acquires.answer_missed(self.fifo)
        self.minding.keep_going(self)
        if self.deliveries or self.holders.any_timed_out():
            self._hand_on_all()
        if self.holders.any_missed():
            for one in self.holders.take_missed():
                self.holders.tell(self, one)
        self._unproven = None

    def _died(self, dead: list[Dead]) -> None:
        """The leader has messages go through the dead-letter exchange, at most once.

        What died before it led may have gone there, and its log need not have the bodies any more:
        a node that starts again applies such entries once more. What died ahead of the disk may be
        back after a crash, so it waits.
        """
        if self._died_ahead is not None:
            self._died_ahead.extend(dead)
        elif self.forwards():
            super()._died(dead)

    def dead_lettered(self, lists: list[list[Piece]]) -> None:
        """Nothing is to be done: the machine knows them no more."""

    def kept_dead(self) -> i64:
        """Dead letters that stay here until they are elsewhere, if this node sees to them."""
        count = self.fifo.discards.count
        return count if count > 0 and self.forwards() else 0

    def safe_deaths(self) -> i64:
        """The number of the first death that no other queue is to hear of yet."""
        return self._safe_deaths if self._ahead.size() > 0 else self.fifo.discards.next_death

    def forwards(self) -> bool:
        """Whether this node is the one that sees to the dead letters which the queue keeps."""
        return not self.deleted and self.proposer().leads_fully()

    def forwarded(self, first: i64, last: i64) -> None:
        """Dead letters are where they belong, from one death to another."""
        commands.delivered(self._writer(), first, last)
        self._command()

    # --- time -------------------------------------------------------------------------------------

    def due(self, now_ms: i64) -> None:
        """As leader, have the queue go if nobody has used it for long, and messages expire."""
        if self.stuck:
            self._forget_gone()
        self.minding.due(self)

    def is_overdue(self) -> bool:
        """What is left goes on by entries of the log, which may take long to be committed."""
        return False

    def expire(self) -> None:
        """Go, if that is still so behind an entry of this leader's."""
        if not self.deleted and self.proposer().leads() and self.minding.is_unused(self):
            self.host.queue_unused(self)

    def _leased(self) -> bool:
        return self.settings.unsaid or super()._leased()

    def expire_groups(self, now_ms: i64) -> None:
        """The leader minds the leases of readers, and whether the machine has more to hand out."""
        if not self.proposer().leads():
            self.minding.forget_leases()
            self.settings.unsaid = False
            return
        if self.settings.unsaid and self.proposer().leads_fully():
            self.settings.catch_up(self)
        self.minding.mind_leases(self, now_ms)
        self.minding.keep_going(self)

    # --- nodes that nobody hears ------------------------------------------------------------------

    def suspects(self, session: i64) -> bool:
        """Whether the log says that nobody hears a session's node."""
        return int(session) in self.fifo.suspects

    def keeps(self, session: i64) -> bool:
        """As leader, have a session's consumers keep what they hold for as long as they may."""
        return self.silences.keeps(self, session)

    def heard(self, sessions: list[int]) -> None:
        """As leader, have consumers go on whose nodes are heard again."""
        self.silences.heard(self, sessions)

    def suspected(self) -> list[int]:
        """The sessions whose nodes nobody hears, as the log says."""
        return list(self.fifo.suspects)

    # --- for the node -----------------------------------------------------------------------------

    def is_complete(self) -> bool:
        """Whether what is not found in the log here is gone, and not only on its way."""
        return self.proposer().is_complete()

    def fed(self) -> bool:
        """Whether the machine here hears of what comes about."""
        return self.proposer().fed()

    def when_current(self, waiter: PendingReply) -> None:
        """Have a leader ask whether it leads still; what is said elsewhere goes through the log.

        So does what is said while the machine is ahead of the disk: it waits at a question.
        """
        group = self.proposer()
        if group.leads_fully() and self._ahead.size() == 0:
            group.confirm_lead(Confirming(self, waiter))
        else:
            self.catch_up(waiter)

    def count(self, waiter: PendingReply) -> None:
        """Count what is here; where nothing is heard of the queue, ask for it first."""
        if self.proposer().fed():
            super().count(waiter)
        else:
            self.catch_up(waiter)

    def counts(self) -> Counts | None:
        """What it holds, for operators; None where nothing is heard of it."""
        return super().counts() if self.proposer().fed() else None

    def in_use(self) -> bool:
        """Whether a client of this node has to do with the queue now."""
        if self.links or self._readers or self._pending > 0 or self._pending_commands:
            return True
        if self.held_back or self.admission.waits():
            return True
        return self._has_consumers()

    def snapshot(self) -> i64:
        """Write the machine's state, as of the last applied entry, into the log."""
        return self.proposer().snapshot()

    def snapshot_part(self) -> i64:
        """The same in parts."""
        return self.proposer().snapshot_part()

    def damaged(self, error: BaseException) -> None:
        """Messages cannot be read; at a node without a copy those are passed over that nobody has.

        There it is the only copy's node that says so, and has them leave what is ready.
        """
        if isinstance(error, CorruptRecord) and error.lost and isinstance(self.messages, Observer):
            self.note_lost(error.lost)
        else:
            super().damaged(error)

    def go_without(self, lost: list[tuple[int, int]], error: CorruptRecord) -> None:
        """Go on without messages that cannot be read here, on the only copy."""
        super().go_without(lost, error)
        self.retry()

    def close(self) -> None:
        """The queue was deleted; messages that it would have had count as safe (as RabbitMQ)."""
        super().close()
        for run in self._forget_messages():
            run.safe()
        self._polls.abandon_missed()
        if self._acquires is not None:
            self._acquires.abandon_missed()
        self.admission.close()
        # It refers to its queue; letters that are on their way know it themselves.
        self.forwarding = None
