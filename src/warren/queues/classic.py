"""Durable classic queues: messages are there at once, and confirmed when they are on disk.

Everything is applied when it is appended. The log holds the messages and the numbers that left;
consumers are not in it, since none outlives the node. A persistent message is confirmed once it is
durable; a transient one at once, and it is dropped at recovery (DUR-03, DUR-04). Its body goes
through the log all the same, so that a long queue needs no memory.

Groups of readers outlive the node, so what they do is in the log, too. It is applied at once and
answered when it is durable. Which messages a checkout has is told by their numbers: a replay finds
others ready, since it knows of no consumers. A transient message that a group takes is persistent.

After an orderly stop a message comes back with `redelivered` if it was delivered before; after a
crash all do, since nobody knows which were.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be
from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.log.batch import KIND_COMMAND, KIND_MESSAGES, Batch
from warren.log.facts import SIZES
from warren.log.group import GroupLog
from warren.log.listener import GroupOwner
from warren.log.runlist import LiveRuns
from warren.pending import PendingReply
from warren.queue_types import CLASSIC
from warren.queues.fifo import commands
from warren.queues.fifo.config import (
    Limits,
    write_dead_letters,
    write_limits,
    write_message_ttl,
)
from warren.queues.fifo.consumers import Limiter
from warren.queues.fifo.effects import UNKNOWN_GROUP, FencedReply, LeaseReply, Reply
from warren.queues.fifo.entry import NO_META, Encoded, Enqueue, Meta
from warren.queues.fifo.groups import Checkout
from warren.queues.fifo.live import Gathering
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.runs import common, merge_pairs
from warren.queues.fifo.snapshot import DurableWriter
from warren.queues.gathering import Gathered
from warren.queues.lease_clock import LeaseClock
from warren.queues.queue import Counts, Host
from warren.queues.table_queue import TableQueue
from warren.replication.growing import Growing

TERM: Final = 1
"""The term of a log that one node writes; nothing ever contests it."""

UNWRITTEN_BYTES_MAX: Final = 65_536
"""More than this does not wait for others to be written with."""

TOLD_APART_MAX: Final = 1_024
"""Messages of a queue that are looked at to find out how many of them survive a restart."""

CLEAN: Final = 1
"""Flag of a snapshot that was taken at an orderly stop: its counters are exact."""


@final
class UndurableRemoval:
    """Messages that left the queue with a log entry that is not durable yet."""

    def __init__(self, index: i64, pairs: list[tuple[int, int]]) -> None:
        self.index: i64 = index
        self.pairs: list[tuple[int, int]] = pairs


@final
class ClassicDraft:
    """A snapshot of what is live now, behind everything appended, that is written in parts."""

    def __init__(self, log: GroupLog, fifo: Fifo) -> None:
        self.index: i64 = log.last_index
        self.next_message: i64 = log.next_message
        out = BytesWriter()
        self.writer: DurableWriter = fifo.write_durable(out)
        self.writing: Growing = Growing(out, self.writer)


@final
class GroupCall:
    """A call of a reader that was answered by the machine, and waits for its entry to be durable.

    Attributes:
        index: The entry's.
    """

    def __init__(self, index: i64, reply: Reply, waiter: PendingReply) -> None:
        self.index: i64 = index
        self.reply: Reply = reply
        self.waiter: PendingReply = waiter


@final
class ClassicQueue(TableQueue, GroupOwner):
    """A durable classic queue on this node."""

    def __init__(self, host: Host, vhost: str, name: str, log: GroupLog, fifo: Fifo) -> None:
        super().__init__(host, vhost, name, CLASSIC, fifo, log, log.id)
        self.log: GroupLog = log
        fifo.reports_freed = True
        self._leaving: list[UndurableRemoval] | None = None
        self._draft: ClassicDraft | None = None
        """A snapshot that is being written."""
        self._calls: list[GroupCall] | None = None
        """Readers that wait for the disk, in the order of their entries."""
        self._leases: LeaseClock | None = None
        """Of a queue that has had readers in this life of its node."""
        self._durable: i64 = log.next_message
        """The number behind the last message that is on the disk."""

    def persisted(self, batch: Batch) -> None:
        """Confirm what is now durable, and let go of what has durably left."""
        if batch.count > 0:
            self._durable = batch.first + batch.count
            runs = batch.origin
            batch.origin = None
            assert isinstance(runs, list)
            if self.feed is not None and batch.kind == KIND_MESSAGES:
                self.feed.confirmed(batch.first, batch.count)
            self._confirm(batch.payload_size, runs)
            return
        leaving = self._leaving
        while leaving and leaving[0].index <= batch.index:
            del leaving[0]
        calls = self._calls
        if calls and calls[0].index <= batch.index:
            self._calls = [call for call in calls if call.index > batch.index]
            for call in calls:
                if call.index <= batch.index:
                    call.waiter.succeeded(call.reply)

    def live(self) -> list[tuple[int, int]]:
        """What a restart could still bring back: a message stays until its leaving is durable."""
        return self._gather().all().pairs()

    def gather_live(self) -> LiveRuns:
        """The same, to be found out in parts."""
        return self._gather()

    def _gather(self) -> Gathering:
        leaving = [leaving.pairs for leaving in self._leaving or []]
        return self.fifo.gather_live((self.freed.lists or []) + self.not_dead_lettered(), leaving)

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
        """Hand out what is ready now, and log more of what left."""
        if self.deleted:
            # What returned when its last consumer went is of no use to anybody, nor to the log.
            super().dispatch()
            return
        if self.fifo.is_behind():
            self.act(self.fifo.dispatch())
        else:
            self.hand_out()
        super().dispatch()
        if self.fifo.sizes.expiring > 0:
            self._mind_expiry()
        if self.freed.lists:
            self._log_freed()

    def configure(self) -> None:
        """Log how the machine is set up, as a new group's first entry."""
        fields = BytesWriter()
        self.fifo.config.encode(fields)
        commands.config(self._writer(), fields.getvalue())
        self._append_commands(self._take_commands(), True)

    def set_message_ttl(self, ttl_ms: i64) -> None:
        """Have messages expire after so long, and the log say so for another life."""
        if ttl_ms != self.fifo.config.message_ttl_ms:
            self.fifo.config.message_ttl_ms = ttl_ms
            fields = BytesWriter()
            write_message_ttl(fields, ttl_ms)
            self._say(fields)

    def set_limits(self, limits: Limits) -> None:
        """Have the first messages dropped where there are too many, likewise."""
        self._know(SIZES, limits.max_bytes >= 0)
        if not self.fifo.config.limits().same(limits):
            self.fifo.config.set_limits(limits)
            fields = BytesWriter()
            write_limits(fields, limits)
            self._say(fields)
            self._mark()

    def _set_deaths(self, dead_letters: i64) -> None:
        """Have the machine say what dies, or not, likewise."""
        if dead_letters != self.fifo.config.dead_letters:
            self.fifo.config.dead_letters = dead_letters
            fields = BytesWriter()
            write_dead_letters(fields, dead_letters)
            self._say(fields)

    def _say(self, fields: BytesWriter) -> None:
        """Log settings that are in force."""
        out = BytesWriter()
        commands.config(out, fields.getvalue())
        self._append_commands(out.getvalue(), True)

    def snapshot(self) -> i64:
        """Write what is live, behind everything appended; gives its size in bytes."""
        if self._draft is not None:
            self._finish_draft()
        return self._finish_draft()

    def snapshot_part(self) -> i64:
        """The same in parts, of what is live at the first; -1 if there is more to do."""
        draft = self._draft
        if draft is None:
            draft = ClassicDraft(self.log, self.fifo)
            self._draft = draft
        if not draft.writing.go_on():
            return -1
        self._draft = None
        state = draft.writing.value
        self.log.snapshot(draft.index, state, self.machine_ms(), 0, draft.next_message)
        return len(state)

    def _finish_draft(self) -> i64:
        """Write all parts that are left of a snapshot, or all of a new one."""
        size = self.snapshot_part()
        while size < 0:
            size = self.snapshot_part()
        return size

    def snapshot_clean(self) -> None:
        """The same at an orderly stop, when all consumers are gone."""
        if self._draft is not None:
            self._finish_draft()
        self.log.snapshot(self.log.last_index, self.fifo.encode(CLEAN), self.machine_ms())

    def recovered(self, clean: bool) -> None:
        """Drop the transient messages; without an orderly stop, count the rest as delivered.

        From now on messages may be delivered, so the orderly stop's snapshot must not be the
        newest entry for another recovery. The node waits for that before clients may come.
        """
        fifo = self.fifo
        fifo.all_back()
        fifo.put_in_order()
        transient = fifo.transient.pairs()
        if transient:
            fifo.free(transient)
        for first, last in transient:
            commands.free(self._writer(), i64(first), i64(last))
        fifo.transient.clear()
        if clean:
            commands.reset(self._writer())
        payload = self._take_commands()
        if payload:
            self._append_commands(payload, True)
            self._mark()
        if not clean:
            fifo.count_as_delivered()
        if fifo.sizes.expiring > 0:
            self._mark()

    # Tables, and groups of readers.

    def is_complete(self) -> bool:
        """No other node has messages for it."""
        return True

    def when_current(self, waiter: PendingReply) -> None:
        """Answer at once if all that was published is there, else when what was gathered is."""
        if self._pending == 0:
            waiter.succeeded(Reply())
        else:
            self.catch_up(waiter)

    def safe_messages(self) -> i64:
        """After a crash, numbers of messages that were not on the disk are given once more."""
        return self._durable

    def log_ms(self) -> i64:
        """The time of the next entry."""
        return self.machine_ms()

    def newest_ms(self) -> i64:
        """The latest time that the machine or the log knows of, also from before a restart."""
        return max(self.fifo.now_ms, self.log.stamp_ms)

    def _ask_machine(self, group: str, command: bytes, waiter: PendingReply) -> None:
        """Apply a group's command at once, log what came of it, and answer when that is durable.

        What was refused has changed nothing, and is answered at once.
        """
        self._use()
        self._before_asking()
        if self._pending_commands:
            self._seal_commands(None)
        before = self._open_checkouts(group)
        leaving = self._settled_by(group, command)
        stamp_ms = self.log_ms()
        reply = self._apply_alone(command, stamp_ms)
        self._mark()
        if isinstance(reply, FencedReply) or reply.code == UNKNOWN_GROUP:
            waiter.succeeded(reply)
            return
        opcode = command[0]
        if opcode == commands.CHECKOUT or opcode == commands.RETAKE:
            taken: Checkout | None = None
            if isinstance(reply, LeaseReply) and self._open_checkouts(group) > before:
                taken = reply.checkout
            command = self._taken(group, taken)
        index = self._log_reader(command, stamp_ms, True)
        if leaving:
            self._leave_with(index, merge_pairs(leaving))
        if self._calls is None:
            self._calls = []
        self._calls.append(GroupCall(index, reply, waiter))
        self.mind_leases()

    def _open_checkouts(self, group: str) -> int:
        """How many checkouts a group has open."""
        known = self.fifo.groups.get(group)
        return 0 if known is None else len(known.open)

    def _settled_by(self, group: str, command: bytes) -> list[tuple[int, int]]:
        """The messages that leave with a settle, in whatever order, if it is not refused."""
        known = self.fifo.groups.get(group)
        pairs: list[tuple[int, int]] = []
        if known is not None and command[0] == commands.GROUP_SETTLE:
            for checkout in known.between(0, read_i64_be(command, 9)):
                pairs.extend(checkout.messages.pairs())
        return pairs

    def _apply_alone(self, command: bytes, stamp_ms: i64) -> Reply:
        """Apply a command of a group, as of a time."""
        fifo = self.fifo
        # The entry itself says what was settled: no other need say that it left.
        settles = command[0] == commands.GROUP_SETTLE
        if settles:
            fifo.reports_freed = False
        reply, effects = fifo.apply(Meta(stamp_ms), Encoded(command, 0, len(command)))
        if settles:
            fifo.reports_freed = True
        self.act(effects)
        return reply

    def _taken(self, group: str, checkout: Checkout | None) -> bytes:
        """The command for the log that a group has a checkout now; or that it called, for None."""
        out = BytesWriter()
        if checkout is None:
            commands.taken(out, group, 0, 0, [])
            return out.getvalue()
        self.fifo.keep_held(checkout.messages)
        if self._draft is not None:
            self._draft.writer.kept.extend(checkout.messages.pairs())
        lists = checkout.messages.freeze()
        commands.taken(out, group, checkout.number, checkout.opened_ms, lists)
        return out.getvalue()

    def _log_reader(self, command: bytes, stamp_ms: i64, urgent: bool) -> i64:
        """Log a command of a group, as of the time that it was applied at; gives the index."""
        self.host.appended(urgent)
        return self.log.append(KIND_COMMAND, TERM, stamp_ms, 0, b"", command, None).index

    def expire_groups(self, now_ms: i64) -> None:
        """Give back what readers hold beyond their leases, and log that they are over.

        Args:
            now_ms: Monotonic time.
        """
        if self.deleted:
            return
        if self._leases is None:
            self._leases = LeaseClock()
        stamp_ms = self.log_ms()
        for name, seen_ms in self._leases.over(self.reader_groups(), now_ms, stamp_ms):
            self._before_asking()
            out = BytesWriter()
            commands.expire(out, name, i64(seen_ms))
            command = out.getvalue()
            self._apply_alone(command, stamp_ms)
            self._log_reader(command, stamp_ms, False)
            self._mark()

    def close(self) -> None:
        """The queue was deleted: readers that wait are let go, too."""
        super().close()
        calls = self._calls
        self._calls = None
        for call in calls or []:
            call.waiter.abandoned()

    def damaged(self, error: BaseException) -> None:
        """Go on without the messages that are lost; nobody else has them."""
        if not isinstance(error, CorruptRecord):
            super().damaged(error)
            return
        self.go_without(error.lost, error)

    def drop(self, gone: list[tuple[int, int]]) -> None:
        """Have messages that are lost leave, and log that at once."""
        self.fifo.free(gone)
        out = BytesWriter()
        for first, last in gone:
            commands.free(out, i64(first), i64(last))
        self._append_commands(out.getvalue(), False)
        self._mark()

    def _before_asking(self) -> None:
        """What was published before is there before."""
        if self._pending > 0:
            self._seal_messages()
        else:
            self.hand_out()

    def _starts_write(self, gathered: Gathered) -> bool:
        """Whether a publisher waits for their confirms, or much of this queue is not written."""
        confirmed = len(gathered.runs) > 0 and gathered.kind == KIND_MESSAGES
        return confirmed or self.unwritten_bytes > UNWRITTEN_BYTES_MAX

    def _seal_messages(self) -> None:
        if self._pending_commands:
            self._seal_commands(None)
        gathered = self._take_messages()
        runs = gathered.runs
        if gathered.kind != KIND_MESSAGES:
            gathered.runs = []
        batch = self.log.append(
            gathered.kind,
            TERM,
            self.machine_ms(),
            gathered.count,
            gathered.lengths,
            gathered.payload,
            gathered.runs,
            flavour=gathered.flavour,
            life_ms=gathered.life_ms,
            facts=gathered.facts,
        )
        messages = Enqueue(batch.first, batch.count, batch.payload_size, batch.life_ms, batch.facts)
        self.act(self.fifo.apply(Meta(batch.stamp_ms), messages)[1])
        if batch.kind != KIND_MESSAGES:
            self.fifo.transient.push(batch.first, batch.first + batch.count - 1)
            if self.feed is not None:
                self.feed.confirmed(batch.first, batch.count)
            for run in runs:
                run.safe()
        self.hand_out()

    def _seal_commands(self, waiter: PendingReply | None) -> None:
        payload = self._take_commands()
        reply, effects = self.fifo.apply(NO_META, Encoded(payload, 0, len(payload)))
        self.act(effects)
        self.mind_leases()
        self._log_freed()
        if waiter is not None:
            waiter.succeeded(reply)

    def _log_freed(self) -> None:
        """Log which numbers left, neighbours together; so many at a time, in the order given up.

        After a crash the rest of what left scattered is there again, like all whose entry was not
        durable yet.
        """
        pairs = merge_pairs(self.freed.take())
        if not pairs:
            return
        if self.freed.lists:
            self._mark()
        out = BytesWriter()
        for first, last in pairs:
            commands.free(out, i64(first), i64(last))
        self._leave_with(self._append_commands(out.getvalue(), False).index, pairs)

    def _leave_with(self, index: i64, pairs: list[tuple[int, int]]) -> None:
        """Keep the bodies of messages until the entry is durable by which they left."""
        if self._leaving is None:
            self._leaving = []
        self._leaving.append(UndurableRemoval(index, pairs))

    def _append_commands(self, payload: bytes, urgent: bool) -> Batch:
        """One record batch of encoded commands; unless urgent, nobody waits for it."""
        self.host.appended(urgent)
        return self.log.append(KIND_COMMAND, TERM, self.machine_ms(), 0, b"", payload, None)

    def _tell_apart(self, counts: Counts) -> None:
        """Find out what survives a restart, where all does or there is little to look at."""
        fifo = self.fifo
        noted = fifo.transient.count
        if noted == 0 and self._draft is None:
            return
        if (
            self._draft is not None
            or fifo.sizes.count > TOLD_APART_MAX
            or fifo.transient.count_of_first(TOLD_APART_MAX) < noted
        ):
            counts.persistent = -1
            counts.persistent_bytes = -1
            return
        for first, last in common(fifo.live(), merge_pairs(fifo.transient.pairs())):
            count = last - first + 1
            counts.persistent -= count
            counts.persistent_bytes -= fifo.sizes.of(first, count)

    def _adopt(self, consumer_id: i64, limiter: Limiter | None) -> None:
        self.fifo.consumers[consumer_id].limiter = limiter
