"""The FIFO machine under quorum and classic queues.

Deterministic and without I/O: the same commands in the same order give the same state, the same
deliveries and the same replies. A message is its number; bodies stay in the log. Deliveries
gather in `deliveries` until the node that leads the queue takes them; elsewhere they are dropped.

A consumer settles by its own message ids, so what it was handed must be the same wherever the
log is replayed: `dispatch` is part of applying an entry, and a snapshot keeps whose turn it is.

Messages that return, by whatever command, leave whoever held them at once. They are made ready
again some runs with each entry, and nothing is handed out until all are: an entry costs much the
same however scattered they lie.

What a snapshot has of it is written by `snapshot`; docs/formats/queue-state.md has its fields.

Source: B-02 to B-04 (rabbit_fifo), POI-01 to POI-12; docs/formats/table-class.md for groups.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.ports import Work
from warren.queues.fifo import commands
from warren.queues.fifo.consumers import Consumer, Limiter, Turns
from warren.queues.fifo.groups import Checkout, Group, decode_group
from warren.queues.fifo.live import PART_RUNS, Gathering
from warren.queues.fifo.pieces import SPENT_LISTS, Piece
from warren.queues.fifo.returning import Return, Strand, decode_return
from warren.queues.fifo.runs import Run, RunQueue, common, merge_pairs, pairs_of
from warren.queues.fifo.snapshot import ACTIVE, AUTOMATIC, VERSION, DurableWriter, StateWriter
from warren.queues.links import Delivery, Reply
from warren.replication.machine import COUNTER_BITS

UNLIMITED: Final = commands.CREDIT_MAX

NOT_SET_UP: Final = -2
"""The delivery limit of a machine that nobody has set up yet: none, for as long as that lasts."""

HAND_OUT_MAX: Final = 4_096
"""Deliveries that one `dispatch` makes: about 4 ms. All members have to stop at the same one, so
another number is another version of the machine."""

SHARE_MAX: Final = 32
"""Messages that a consumer of a classic queue gets at a time, where a great many are ready."""

SHARE_BITS: Final = 8
"""So that consumers still get equal shares: a turn is this power of two's part of what is ready."""

RETURN_MAX: Final = 4_096
"""Runs that one entry makes ready again: about 4 ms. All members stop at the same, as above."""

FREED_MAX: Final = 4_096
"""Runs that left, which are logged or let go of in one turn, but for a last list: about 4 ms."""

OK: Final = 0
FENCED: Final = 1
UNKNOWN_GROUP: Final = 2
MALFORMED: Final = 3


@final
class Fifo:
    """Ready, returned and held messages of one queue.

    Attributes:
        delivery_limit: Returns a message survives; negative for no limit (POI-03, POI-04), and
            `NOT_SET_UP` until CONFIG has come.
        keeps_place: Whether a returned message goes back to exactly where it was (classic
            queues); otherwise to the head, behind earlier returns, or, without a limit, to the
            back (POI-11, POI-12).
        next_message: Number of the next message to be enqueued.
        dropped: Messages so far that left without anybody having settled them: at the delivery
            limit, or with a consumer whose acks are automatic and which may not have seen them.
        freed: Runs that left the queue, if `reports_freed`; whoever reads a list removes it.
        coming: Messages on their way back, by the commands that returned them.
        hand_out_max: See `HAND_OUT_MAX`.
        return_max: See `RETURN_MAX`.
        freed_max: See `FREED_MAX`.
        part_runs: See `PART_RUNS`.
    """

    def __init__(self, delivery_limit: i64, keeps_place: bool, reports_freed: bool = False) -> None:
        self.delivery_limit: i64 = delivery_limit
        self.keeps_place: bool = keeps_place
        self.reports_freed: bool = reports_freed
        self.freed: list[list[Piece]] = []
        self.next_message: i64 = 0
        self.dropped: i64 = 0
        self.ready: RunQueue = RunQueue()
        self.returned: RunQueue = RunQueue()
        self.transient: RunQueue = RunQueue()
        self.consumers: dict[int, Consumer] = {}
        self.groups: dict[str, Group] = {}
        self.deliveries: list[Delivery] = []
        self.coming: deque[Return] = deque()
        self.hand_out_max: i64 = HAND_OUT_MAX
        self.return_max: i64 = RETURN_MAX
        self.freed_max: i64 = FREED_MAX
        self.part_runs: i64 = PART_RUNS
        self._coming_count: i64 = 0
        self._returned_now: i64 = 0
        """Runs that were made ready again since the last `dispatch`."""
        self._spent: list[list[Piece]] = []
        """What nobody needs any more, to be let go of in parts."""
        self._turns: Turns = Turns()
        self._limited: dict[int, list[Consumer]] = {}
        """By the identity of a shared limit that was used up: whose turn it was, in that order."""

    # Commands. `dispatch` follows each batch of them.

    def enqueue(self, first: i64, count: i64) -> None:
        """Messages `first..first+count-1` arrive."""
        self.ready.push(first, first + count - 1)
        self.next_message = first + count

    def attach(
        self, consumer_id: i64, credit: i64, priority: i64, automatic: bool = False
    ) -> Consumer:
        """A consumer arrives.

        Args:
            credit: `UNLIMITED` for one without a prefetch limit.
            automatic: Whether it acknowledges by being sent a message, so that what it was handed
                does not return when it is gone: it comes at most once.

        One that is there already, as no node would have it, is gone first.
        """
        if consumer_id in self.consumers:
            self.down(consumer_id)
        consumer = Consumer(consumer_id, credit, priority)
        consumer.automatic = automatic
        self.consumers[consumer_id] = consumer
        self.wake(consumer)
        return consumer

    def cancel(self, consumer_id: i64) -> None:
        """A consumer gets nothing more; it is forgotten when all it holds is settled."""
        consumer = self.consumers.get(consumer_id)
        if consumer is not None:
            consumer.active = False
            self._leave(consumer)
            if consumer.held == 0:
                del self.consumers[consumer_id]

    def down(self, consumer_id: i64) -> None:
        """A consumer is gone: its messages return in order, as failed deliveries.

        Those of one with automatic acks are settled.
        """
        strand = self._take_back(consumer_id)
        if strand is not None:
            self._come_back([strand], True, False)

    def settle(self, consumer_id: i64, first: i64, last: i64) -> i64:
        """Messages are done with; returns how many were held under these ids."""
        consumer = self.consumers.get(consumer_id)
        if consumer is None:
            return 0
        held = consumer.held
        self._free(consumer.release(first, last))
        count = held - consumer.held
        self._credit(consumer, count)
        return count

    def return_(self, consumer_id: i64, first: i64, last: i64, failed: bool) -> None:
        """Messages go back, each with its counters up; dropped past the delivery limit."""
        consumer = self.consumers.get(consumer_id)
        if consumer is None:
            return
        held = consumer.held
        taken = consumer.release(first, last)
        count = held - consumer.held
        self._come_back([Strand(taken, count)], failed, False)
        self._credit(consumer, count)

    def discard(self, consumer_id: i64, first: i64, last: i64) -> None:
        """Messages were rejected for good; without a dead letter exchange they are dropped."""
        self.settle(consumer_id, first, last)

    def get(self, consumer_id: i64) -> Delivery | None:
        """One message for a consumer that polls, or None if none is ready.

        It does not wait for what is on its way back.
        """
        source = self.returned if self.returned.count > 0 else self.ready
        if source.count == 0:
            return None
        consumer = self.consumers.get(consumer_id)
        if consumer is None:
            consumer = Consumer(consumer_id, 0, 0)
            self.consumers[consumer_id] = consumer
        consumer.active = False
        run = source.head()
        number, acquired, failed = run.first, run.acquired, run.failed
        source.take(1)
        mid = consumer.hold(number, 1, acquired, failed)
        return Delivery(consumer, mid, number, 1, acquired)

    def purge(self) -> i64:
        """All ready messages go; returns how many there were."""
        count = self.ready_count()
        self._free(self.returned.take_all())
        self._free(self.ready.take_all())
        for work in self.coming:
            self._free(work.lists())
        self.coming.clear()
        self._coming_count = 0
        return count

    def reset(self) -> None:
        """All consumers were on a node that restarted: what they held returns, in order."""
        self.down_all(list(self.consumers))
        self.deliveries.clear()

    def down_all(self, consumer_ids: list[int]) -> None:
        """Several consumers are gone at once: what they held returns, in order."""
        strands: list[Strand] = []
        for consumer_id in consumer_ids:
            strand = self._take_back(consumer_id)
            if strand is not None:
                strands.append(strand)
        self._come_back(strands, True, False)

    def free(self, first: i64, last: i64) -> None:
        """Messages left a classic queue, at whose recovery all are ready; or nobody has them."""
        self._all_back()
        if self.keeps_place:
            self.ready.remove(first, last)
            self.returned.remove(first, last)
        else:
            self.ready.strike(first, last)
            self.returned.strike(first, last)

    def acquire(self, name: str, lease_ms: i64, now_ms: i64) -> Reply:
        """A reader takes a group over; replies epoch and number of the last settled checkout."""
        group = self.groups.get(name)
        if group is None:
            group = Group(name)
            self.groups[name] = group
        group.epoch += 1
        group.lease_ms = lease_ms
        group.seen_ms = now_ms
        return Reply(OK, group.epoch, group.settled)

    def checkout(
        self, name: str, epoch: i64, after: i64, rows_max: i64, up_to: i64, now_ms: i64
    ) -> Reply:
        """Replies the lowest open checkout above `after`, or takes a new one.

        A new one holds at most `rows_max` messages, none with a number above `up_to` (negative:
        no bound). Nothing to take: number `after` and count 0.
        """
        reply = Reply()
        group = self._group(name, epoch, now_ms, reply)
        if group is None:
            return reply
        checkout = group.first_open(after)
        if checkout is None:
            checkout = Checkout(group.last + 1)
            for queue in (self.returned, self.ready):
                while queue.count > 0 and checkout.messages.count < rows_max:
                    run = queue.head()
                    count = run.count
                    if up_to >= 0:
                        if run.first > up_to:
                            break
                        if up_to < run.first + count - 1:
                            count = up_to - run.first + 1
                    count = min(count, rows_max - checkout.messages.count)
                    checkout.messages.push(
                        run.first, run.first + count - 1, run.acquired, run.failed
                    )
                    queue.take(count)
            if checkout.messages.count == 0:
                reply.a = after
                return reply
            group.last = checkout.number
            group.open.append(checkout)
        reply.a = checkout.number
        reply.b = checkout.messages.count
        reply.checkout = checkout
        return reply

    def group_settle(self, name: str, epoch: i64, up_to: i64, now_ms: i64) -> Reply:
        """A reader is done with all checkouts up to a number; repeating it changes nothing."""
        reply = Reply()
        group = self._group(name, epoch, now_ms, reply)
        if group is not None:
            for checkout in group.settle(up_to):
                self._free(checkout.messages.freeze())
        return reply

    def group_release(self, name: str, epoch: i64, now_ms: i64) -> Reply:
        """A reader gives all its open checkouts back, as failed deliveries."""
        reply = Reply()
        group = self._group(name, epoch, now_ms, reply)
        if group is not None:
            self._give_back(group)
        return reply

    def expire(self, name: str, seen_ms: i64, now_ms: i64) -> None:
        """A group's lease ran out: what it holds returns and its reader is fenced.

        Nothing happens if the group was heard of after `seen_ms`, so this may be said more than
        once, and of a lease that was renewed when the log had not got so far here.
        """
        group = self.groups.get(name)
        if group is None or group.seen_ms != seen_ms:
            return
        if 0 < group.lease_ms < now_ms - seen_ms:
            group.epoch += 1
            group.lease_ms = 0
            self._give_back(group)

    def apply(self, payload: bytes, at: i64, end: i64, now_ms: i64, session: i64 = 0) -> Reply:
        """Apply a command batch from the log; replies to the last command in it.

        Consumers come only in the session that they are named after, if the batch has one: what
        waited while that was closed is submitted again in the next, and would bring back consumers
        that nobody knows any more.

        What no node writes ends the batch for every member at the same place, and its reply is
        `MALFORMED`: such a thing is refused where it comes in, unless a leader lies.
        """
        reply = Reply()
        start = at
        while at < end:
            behind = commands.command_end(payload, at, end)
            if behind < 0:
                return Reply(MALFORMED)
            opcode: i64 = payload[at]
            at += 1
            if opcode == commands.SETTLE:
                self.settle(
                    read_i64_be(payload, at),
                    read_i64_be(payload, at + 8),
                    read_i64_be(payload, at + 16),
                )
            elif opcode == commands.RETURN:
                self.return_(
                    read_i64_be(payload, at),
                    read_i64_be(payload, at + 8),
                    read_i64_be(payload, at + 16),
                    payload[at + 24] == 1,
                )
            elif opcode == commands.DISCARD:
                self.discard(
                    read_i64_be(payload, at),
                    read_i64_be(payload, at + 8),
                    read_i64_be(payload, at + 16),
                )
            elif opcode == commands.ATTACH or opcode == commands.ATTACH_AUTO:
                if session == 0 or read_i64_be(payload, at) >> COUNTER_BITS == session:
                    self.attach(
                        read_i64_be(payload, at),
                        read_i64_be(payload, at + 8),
                        read_i64_be(payload, at + 16),
                        opcode == commands.ATTACH_AUTO,
                    )
            elif opcode == commands.CANCEL:
                self.cancel(read_i64_be(payload, at))
            elif opcode == commands.DOWN:
                self.down(read_i64_be(payload, at))
            elif opcode == commands.GET:
                reply = Reply()
                if at > start + 1:
                    # Whoever waits in line was there before, and this batch may have made room.
                    self._hand_out()
                if session == 0 or read_i64_be(payload, at) >> COUNTER_BITS == session:
                    reply.delivery = self.get(read_i64_be(payload, at))
            elif opcode == commands.PURGE:
                if at > start + 1:
                    self._hand_out()
                reply = Reply(OK, self.purge())
            elif opcode == commands.RESET:
                self.reset()
            elif opcode == commands.GO_ON:
                # What it is for is the dispatch that follows every entry.
                pass
            elif opcode == commands.FREE:
                self.free(read_i64_be(payload, at), read_i64_be(payload, at + 8))
            elif opcode == commands.CONFIG:
                self.keeps_place = payload[at] == 1
                self.delivery_limit = read_i64_be(payload, at + 1)
            else:
                reply = self._apply_group(opcode, payload, at, now_ms)
            at = behind
        return reply

    def dispatch(self) -> None:
        """Hand ready messages to consumers with room, one at a time in turn.

        A consumer that is alone at the highest priority takes whole runs, and where hundreds wait
        in a classic queue each takes some at a time. However many messages and consumers there are,
        one call stops behind so many deliveries; `unfinished` then says that another one is called
        for. Before, some of what is on its way back is made ready.
        """
        if self._coming_count > 0:
            self._bring_back()
        self._returned_now = 0
        self._hand_out()

    def _hand_out(self) -> None:
        """Hand out what is ready, unless something has to come back first."""
        if self._coming_count > 0:
            return
        turns = self._turns
        for _ in range(self.hand_out_max):
            source = self.returned if self.returned.count > 0 else self.ready
            if source.count == 0:
                return
            consumer = turns.next()
            if consumer is None:
                return
            room = consumer.room()
            if room <= 0:
                if consumer.willing():
                    self._limit(consumer)
                continue
            run = source.head()
            number, acquired, failed = run.first, run.acquired, run.failed
            count: i64 = 1
            if turns.alone():
                count = min(run.count, room)
            elif self.keeps_place and source.count >> SHARE_BITS > 1:
                count = min(run.count, room, SHARE_MAX, source.count >> SHARE_BITS)
            source.take(count)
            mid = consumer.hold(number, count, acquired, failed)
            self.deliveries.append(Delivery(consumer, mid, number, count, acquired))
            if consumer.willing():
                turns.add(consumer)

    def unfinished(self) -> bool:
        """Whether something is to come back, or somebody in line can have a message.

        Else `dispatch` has nothing to do.
        """
        return self._coming_count > 0 or (self.ready_count() > 0 and self._turns.any())

    def returning(self) -> bool:
        """Whether messages are on their way back, and nothing is handed out before they are."""
        return self._coming_count > 0

    def take_freed(self) -> list[tuple[int, int]]:
        """Some of the messages that left, as pairs, those first that left first."""
        freed = self.freed
        pairs: list[tuple[int, int]] = []
        count = 0
        while count < len(freed) and len(pairs) < self.freed_max:
            pairs.extend(pairs_of(freed[count]))
            count += 1
        del freed[:count]
        return pairs

    def let_go(self) -> bool:
        """Forget some of what nobody needs any more; whether there is more of it."""
        if self._spent:
            del self._spent[-SPENT_LISTS:]
        return len(self._spent) > 0

    def wake(self, consumer: Consumer) -> None:
        """A consumer may have room again, and so may those that share its limit."""
        if consumer.limiter is not None:
            self._wake_limited(consumer.limiter)
        if not consumer.limited and consumer.willing():
            self._turns.add(consumer)

    def _wake_limited(self, limiter: Limiter) -> None:
        """Those who wait for room in a shared limit stand in line again, if there is some."""
        if not limiter.used_up():
            for consumer in self._limited.pop(id(limiter), []):
                consumer.limited = False
                if consumer.willing():
                    self._turns.add(consumer)

    def _limit(self, consumer: Consumer) -> None:
        """A consumer waits until there is room in its shared limit."""
        consumer.limited = True
        key = id(consumer.limiter)
        line = self._limited.get(key)
        if line is None:
            self._limited[key] = [consumer]
        else:
            line.append(consumer)

    def _leave(self, consumer: Consumer) -> None:
        """A consumer that goes gives up its place in line."""
        self._turns.remove(consumer)
        if consumer.limited:
            consumer.limited = False
            key = id(consumer.limiter)
            line = self._limited[key]
            line.remove(consumer)
            if not line:
                del self._limited[key]

    def count_as_delivered(self) -> None:
        """After a crash nobody knows which messages were delivered: all may have been."""
        self._all_back()
        for queue in (self.returned, self.ready):
            runs = queue.quadruples()
            queue.clear()
            for first, last, acquired, failed in runs:
                queue.push(first, last, max(acquired, 1), failed)

    # What there is.

    def ready_count(self) -> i64:
        """Messages ready for delivery, or on their way back to be (MET-04)."""
        return self.ready.count + self.returned.count + self._coming_count

    def held_count(self) -> i64:
        """Messages delivered or checked out, and not settled."""
        total: i64 = 0
        for consumer in self.consumers.values():
            total += consumer.held
        for group in self.groups.values():
            total += group.held()
        return total

    def _unheld(self) -> list[list[Piece]]:
        """What is ready now, or on its way back to be, in lists that do not change."""
        lists = self.ready.freeze() + self.returned.freeze()
        for work in self.coming:
            lists.extend(work.lists())
        return lists

    def live(self) -> list[tuple[int, int]]:
        """Numbers of all messages whose bodies are still needed, sorted and merged."""
        return self.gather_live([], []).all().pairs()

    def gather_ready(self) -> Gathering:
        """Finds out the numbers of all messages that are ready now."""
        return Gathering(self._unheld(), [], [], self.part_runs)

    def gather_live(self, left: list[list[Piece]], more: list[list[tuple[int, int]]]) -> Gathering:
        """Finds out the numbers of all messages whose bodies are needed now.

        Args:
            left, more: Messages that left and are needed all the same.
        """
        lists = self._unheld() + left
        for consumer in self.consumers.values():
            lists.extend(consumer.freeze())
        checkouts: list[Checkout] = []
        for group in self.groups.values():
            checkouts.extend(group.open)
        return Gathering(lists, checkouts, more, self.part_runs)

    def line(self) -> list[Consumer]:
        """The consumers with room, in the order of their turns."""
        return self._turns.order()

    # Snapshots.

    def encode(self, flags: i64 = 0) -> bytes:
        """The whole state, without bodies; `flags` is the owner's."""
        self._trim_transient()
        out = BytesWriter()
        writer = StateWriter(self, flags, out)
        while not writer.go_on():
            pass
        return out.getvalue()

    def write_state(self, out: BytesWriter) -> Work:
        """Have the whole state, as it is now, appended in parts; nothing else is meanwhile."""
        return StateWriter(self, 0, out)

    def write_durable(self, out: BytesWriter) -> Work:
        """Likewise all live messages as ready and no consumers, as a restart will see them."""
        return DurableWriter(self, out)

    def restore(self, data: bytes) -> None:
        """Read what `encode` wrote; what was here before is void.

        Raises:
            ValueError: A version this build does not know.
        """
        version = data[0]
        if not 1 <= version <= VERSION:
            raise ValueError(
                f"queue snapshot of version {version}; this build reads 1 to {VERSION}"
            )
        self.keeps_place = data[2] == 1
        self.delivery_limit = read_i64_be(data, 3)
        self.next_message = read_i64_be(data, 11)
        self.dropped = read_i64_be(data, 19)
        self.ready = RunQueue()
        self.returned = RunQueue()
        self.transient = RunQueue()
        self.consumers = {}
        self.groups = {}
        self.coming = deque()
        self._coming_count = 0
        self._returned_now = 0
        self._turns = Turns()
        at = self.returned.decode(data, 27)
        at = self.ready.decode(data, at)
        at = self.transient.decode(data, at)
        consumers: i64 = i64(read_i32_be(data, at))
        at += 4
        for _ in range(consumers):
            consumer = Consumer(
                read_i64_be(data, at), read_i64_be(data, at + 8), read_i64_be(data, at + 16)
            )
            credit = consumer.credit
            consumer.active = data[at + 24] & ACTIVE != 0
            consumer.automatic = data[at + 24] & AUTOMATIC != 0
            next_mid = read_i64_be(data, at + 25)
            segments: i64 = i64(read_i32_be(data, at + 33))
            at += 37
            for _ in range(segments):
                consumer.next_mid = read_i64_be(data, at)
                consumer.hold(
                    read_i64_be(data, at + 8),
                    read_i64_be(data, at + 16),
                    i64(read_i32_be(data, at + 24)),
                    i64(read_i32_be(data, at + 28)),
                )
                at += 32
            consumer.next_mid = next_mid
            consumer.credit = credit
            self.consumers[consumer.id] = consumer
        line: i64 = i64(read_i32_be(data, at))
        at += 4
        for _ in range(line):
            self._turns.add(self.consumers[read_i64_be(data, at)])
            at += 8
        groups: i64 = i64(read_i32_be(data, at))
        at += 4
        for _ in range(groups):
            group, at = decode_group(data, at)
            self.groups[group.name] = group
        if version == 1:
            return
        works: i64 = i64(read_i32_be(data, at))
        at += 4
        for _ in range(works):
            work, at = decode_return(data, at)
            self.coming.append(work)
            self._coming_count += work.count

    def _apply_group(self, opcode: i64, payload: bytes, at: i64, now_ms: i64) -> Reply:
        """The commands of analytical readers."""
        name_at = at + i64(commands.FIELD_BYTES[opcode])
        end = name_at + 4 + i64(read_i32_be(payload, name_at))
        name = payload[name_at + 4 : end].decode()
        if opcode == commands.ACQUIRE:
            return self.acquire(name, read_i64_be(payload, at), now_ms)
        if opcode == commands.GROUP_RELEASE:
            return self.group_release(name, read_i64_be(payload, at), now_ms)
        if opcode == commands.GROUP_SETTLE:
            epoch, up_to = read_i64_be(payload, at), read_i64_be(payload, at + 8)
            return self.group_settle(name, epoch, up_to, now_ms)
        if opcode == commands.EXPIRE:
            self.expire(name, read_i64_be(payload, at), now_ms)
            return Reply()
        assert opcode == commands.CHECKOUT, opcode
        return self.checkout(
            name,
            read_i64_be(payload, at),
            read_i64_be(payload, at + 8),
            read_i64_be(payload, at + 16),
            read_i64_be(payload, at + 24),
            now_ms,
        )

    def _take_back(self, consumer_id: i64) -> Strand | None:
        """Forget a consumer; returns what it held and may be delivered again."""
        consumer = self.consumers.pop(consumer_id, None)
        if consumer is None:
            return None
        consumer.active = False
        self._leave(consumer)
        count = consumer.held
        held = consumer.release(0, consumer.next_mid)
        if not consumer.automatic:
            return Strand(held, count) if count > 0 else None
        self.dropped += count
        self._free(held)
        return None

    def _free(self, lists: list[list[Piece]]) -> None:
        """Messages left the queue for good."""
        if self.reports_freed:
            self.freed.extend(lists)
        elif len(lists) > SPENT_LISTS:
            self._spent.extend(lists)

    def _group(self, name: str, epoch: i64, now_ms: i64, reply: Reply) -> Group | None:
        """A group for the reader that has it; None, and `reply` says why, for any other."""
        group = self.groups.get(name)
        if group is None:
            reply.code = UNKNOWN_GROUP
            return None
        if group.epoch != epoch:
            reply.code = FENCED
            reply.a = group.epoch
            return None
        group.seen_ms = now_ms
        return group

    def _give_back(self, group: Group) -> None:
        """Return everything a group holds; its checkout numbers are not used again."""
        count = group.held()
        lists: list[list[Piece]] = []
        for checkout in group.open:
            lists.extend(checkout.messages.freeze())
        group.open = []
        self._come_back([Strand(lists, count)], True, True)

    def _come_back(self, strands: list[Strand], failed: bool, spared: bool) -> None:
        """Messages return, behind all that return already; those past their limit are dropped."""
        if not strands:
            return
        work = Return(strands, failed, spared)
        if work.count > 0:
            self._coming_count += work.count
            self.coming.append(work)
            self._bring_back()

    def _bring_back(self) -> None:
        """Make messages on their way back ready, as many runs as there may be in one go."""
        coming = self.coming
        while self._coming_count > 0 and self._returned_now < self.return_max:
            work = coming[0]
            run = work.next()
            if run is not None:
                self._returned_now += 1
                self._coming_count -= run.count
                # Somebody may look at the run as it was.
                acquired = run.acquired + 1
                failed = run.failed + 1 if work.failed else run.failed
                if 0 <= self.delivery_limit < acquired and not work.spared:
                    self.dropped += run.count
                    self._free([[run]])
                else:
                    self._put_back(Run(run.first, run.first, run.count, acquired, failed))
            if work.count == 0:
                coming.popleft()

    def _all_back(self) -> None:
        """Make all messages on their way back ready: at recovery, where a turn may be long."""
        while self._coming_count > 0:
            self._returned_now = 0
            self._bring_back()
        self._returned_now = 0

    def _put_back(self, run: Run) -> None:
        """Make returned messages ready again, where this queue's type wants them."""
        if self.keeps_place:
            self.returned.insert(run)
        elif self.delivery_limit < 0:
            self.ready.add(run)
        else:
            self.returned.add(run)

    def _credit(self, consumer: Consumer, count: i64) -> None:
        """A consumer gave up `count` messages."""
        limiter = consumer.limiter
        if not consumer.active:
            if consumer.held == 0:
                self.consumers.pop(consumer.id, None)
            if limiter is not None:
                self._wake_limited(limiter)
            return
        consumer.credit += count
        if limiter is None or limiter.limit == 0:
            self.wake(consumer)
        elif consumer.line is None and not consumer.limited and consumer.willing():
            # Its channel is going to wake all that share the limit, in other queues, too.
            self._limit(consumer)

    def _trim_transient(self) -> None:
        """Forget transient numbers that are no longer live."""
        if self.transient.count == 0:
            return
        pairs = merge_pairs(self.transient.pairs())
        self.transient.clear()
        for first, last in common(self.live(), pairs):
            self.transient.push(first, last)
