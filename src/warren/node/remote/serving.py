"""The queues' node of a line: clients of another node as publishers and consumers of a queue here.

See `remote` for what a line is. The row of numbers of each queue on a line has no gaps.

When a line goes, what its consumers held returns in parts, and nothing is said of them any more;
the next line from the same node is open when all of it is done.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, final

from librt.strings import (
    BytesWriter,
    read_i64_be,
    read_i64_le,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i32, i64

from warren.errors import CorruptRecord, Refusal
from warren.ids import first_session, life_of
from warren.limits import TURN_LINE_QUEUES_MAX
from warren.log.batch import Batch
from warren.node.early import BYTES_MAX, FRAMES_MAX, EarlyFrame, EarlyFrames
from warren.node.remote import frames as line_frames
from warren.pending import PendingRequest, Result
from warren.ports import Work
from warren.queues.fifo import commands
from warren.queues.fifo.effects import Delivery, PollReply, PurgeReply, Reply
from warren.queues.links import IN_EXCLUSIVE_USE, Fetching, Link
from warren.queues.proxy import WINDOW_BYTES, WINDOW_MESSAGES
from warren.queues.publishing import Publisher, PublishRun
from warren.queues.queue import FlowControlled, Queue
from warren.replication import frames, kinds
from warren.sharded_dict import ShardedDict

if TYPE_CHECKING:
    from warren.node.remote.proxying import Remotes

PART_BYTES: Final = 262_144
"""A frame of deliveries takes no further message when it has this size."""
BACKLOG_BYTES: Final = 8_388_608
"""With more than this queued for a node, its consumers are sent nothing."""
EARLY_MS: Final = 10_000
"""How long frames are kept for a queue that this node has not heard of yet."""
ANSWERED_LATER: Final = (
    commands.ATTACH,
    commands.ATTACH_AUTO,
    commands.GET,
    commands.PICK,
    commands.PURGE,
)


@final
class Served:
    """The line from another node to the queues of this one.

    Attributes:
        number: Of the last line that this node heard of.
        is_open: Whether it is in use.
        stalled: Links that wait for what is queued for that node to be sent.
    """

    def __init__(self, remotes: Remotes, front: str) -> None:
        self.remotes: Remotes = remotes
        self.front: str = front
        self.number: i64 = 0
        self.is_open: bool = False
        self.stalled: list[RemoteLink] = []
        self._queues: ShardedDict[int, ServedQueue] = ShardedDict()
        self._early: EarlyFrames = EarlyFrames()
        self._newest: i64 = 0
        """Number of the newest line that the present link from the front brought."""
        self._asked: i64 = 0
        """That of the line that is opened when all of the last one is void."""
        self._leaving: list[ServedQueue] = []
        """Queues of the last line whose consumers are here still."""

    def greeted(self) -> None:
        """The link from the front is new: nothing of an older line can come any more."""
        self._newest = 0
        self._asked = 0

    def open(self, number: i64) -> None:
        """The front begins anew."""
        if number <= self._newest or self.remotes.stopping:
            return
        self.close()
        if self._leaving:
            self._asked = number
            return
        cluster = self.remotes.cluster
        opened = line_frames.line_head(kinds.OPENED, 0, number).getvalue()
        if cluster.session and cluster.send(self.front, [opened]):
            self.number = number
            self._newest = number
            self.is_open = True

    def close(self) -> None:
        """All that was under way is void: what the front's consumers held returns."""
        self.is_open = False
        self._asked = 0
        self._early.clear()
        self.stalled = []
        if len(self._queues) == 0:
            return
        assert not self._leaving, "no line is open before the last one is void"
        self._leaving = self._queues.move().values()
        self._leaving.reverse()
        if not self.leave(TURN_LINE_QUEUES_MAX):
            self.remotes.loop.do_in_parts(VanishingConsumers(self))

    def leave(self, room: i64) -> bool:
        """Have some consumers of the last line vanish; whether none is left."""
        leaving = self._leaving
        while leaving and room > 0:
            room -= leaving[-1].leave(room)
            if leaving[-1].closed:
                leaving.pop()
        if leaving:
            return False
        if self._asked:
            asked = self._asked
            self._asked = 0
            self.open(asked)
        return True

    def leave_all(self) -> None:
        """Have all of them vanish, before this node stops."""
        while not self.leave(TURN_LINE_QUEUES_MAX):
            pass

    def fail(self) -> None:
        """Something cannot be done for the front: have it begin anew."""
        self.close()
        self.say_closed(self.number)

    def say_closed(self, number: i64) -> None:
        """Tell the front that a line is gone."""
        self._say_closed(0, number)

    def _say_closed(self, group_id: i64, number: i64) -> None:
        closed = line_frames.line_head(kinds.CLOSED, group_id, number).getvalue()
        self.remotes.cluster.send(self.front, [closed])

    def received(self, frame: bytes, kind: i64) -> None:
        """The front says something.

        Raises:
            CorruptRecord: It cannot be understood.
        """
        number = read_i64_le(frame, frames.HEAD_BYTES)
        if kind == kinds.OPEN:
            self.open(number)
        elif kind == kinds.CLOSE:
            if number == self.number:
                self.close()
        elif number != self.number or not self.is_open:
            self.say_closed(number)
        else:
            self._about_queue(frame, kind)

    def _about_queue(self, frame: bytes, kind: i64) -> None:
        group_id = int(frames.group_of(frame))
        served = self._queues.get(group_id)
        if served is None:
            queue = self.remotes.owned.get(group_id)
            if queue is None:
                if group_id in self.remotes.halted:
                    # Nobody else tells the front, and its clients wait.
                    self._say_closed(group_id, self.number)
                elif group_id not in self.remotes.gone:
                    until = self.remotes.loop.monotonic_ms() + EARLY_MS
                    # The frame that makes it too much may be a large one, and is kept.
                    many = self._early.size_bytes > BYTES_MAX or self._early.count >= FRAMES_MAX
                    self._early.keep(group_id, EarlyFrame(self.front, frame, until))
                    if many:
                        self.fail()
                return
            served = ServedQueue(self, queue)
            self._queues[group_id] = served
        served.received(frame, kind)

    def started(self, group_id: i64) -> None:
        """This node has heard of a queue."""
        for entry in self._early.take(group_id):
            if self.is_open:
                self._about_queue(entry.frame, entry.frame[0])

    def stopped(self, group_id: i64) -> None:
        """A queue is deleted; the front finds out by itself."""
        served = self._queues.pop(int(group_id))
        if served is not None:
            served.close()

    def tick(self, now: i64) -> None:
        """Mind frames whose queue did not come."""
        if self._early.drop("", now):
            self.fail()

    def send(self, message: list[bytes]) -> None:
        """Send to the front."""
        # Without a link the line is about to be told that it is gone.
        self.remotes.cluster.send(self.front, message)

    def go_on(self) -> None:
        """Let links that wait for the way to be free try again."""
        if self.clogged():
            return
        stalled = self.stalled
        self.stalled = []
        for link in stalled:
            link.go_on()

    def clogged(self) -> bool:
        """Whether too much is queued for the front's node."""
        return self.remotes.cluster.peers.backlog_bytes(self.front) > BACKLOG_BYTES


@final
class VanishingConsumers(Work):
    """Has the consumers of a line that is gone vanish, in parts."""

    def __init__(self, served: Served) -> None:
        self._served: Served = served

    def go_on(self) -> bool:
        """Have some more vanish; whether these were the last."""
        return self._served.leave(TURN_LINE_QUEUES_MAX)


@final
class ServedQueue(Publisher, FlowControlled):
    """One queue of this node, used over a line."""

    def __init__(self, line: Served, queue: Queue) -> None:
        self.line: Served = line
        self.queue: Queue = queue
        self.closed: bool = False
        self._group_id: i64 = queue.group_id
        self._sequence: i64 = 0
        self._consumers: dict[int, RemoteLink | None] = {}
        """Consumers of the front's channels; None for those that poll."""
        self._stored: BytesWriter | None = None
        self._held: bool = False

    def head(self, kind: i64) -> BytesWriter:
        """The beginning of a frame about this queue."""
        return line_frames.line_head(kind, self._group_id, self.line.number)

    def over(self) -> bool:
        """Whether nothing is to be said any more: the line or the queue is gone."""
        return self.closed or not self.line.is_open

    def close(self) -> None:
        """The queue is gone."""
        while not self.closed:
            self.leave(TURN_LINE_QUEUES_MAX)

    def leave(self, room: i64) -> i64:
        """Have some consumers vanish, with as many as there is room for; how much that took.

        `closed` says then whether those were all.
        """
        taken: i64 = 1
        consumers = self._consumers
        for consumer_id in list(islice(consumers, room)):
            taken += 1
            link = consumers.pop(consumer_id)
            if link is not None:
                # What was sent over the line may have been seen.
                link.close(not self.queue.deleted)
            if not self.queue.deleted:
                self.queue.vanished(consumer_id)
        self.closed = not consumers
        return taken

    def received(self, frame: bytes, kind: i64) -> None:
        """The front wants something.

        Raises:
            CorruptRecord: It cannot be understood.
        """
        frames.need(frame, line_frames.LINE_BYTES + 9)
        if kind == kinds.GRANT:
            frames.need(frame, line_frames.LINE_BYTES + 24)
            link = self._consumers.get(int(line_frames.number_at(frame, 0)))
            count, size = line_frames.number_at(frame, 1), line_frames.number_at(frame, 2)
            if link is not None and not link.granted(count, size):
                raise CorruptRecord("a frame of a node", 0, "more room than was taken")
            return
        sequence = line_frames.number_at(frame, 0)
        if sequence != self._sequence + 1:
            # A link brings everything or breaks, so this is not a matter of chance.
            self.line.remotes.loop.log_warning(
                f"node {self.line.front} sent {self.queue} {sequence} behind {self._sequence}"
            )
            self.line.fail()
            return
        self._sequence = sequence
        flags: i64 = frame[line_frames.LINE_BYTES + 8]
        at: i64 = line_frames.LINE_BYTES + 9
        if kind == kinds.MESSAGES:
            self._publish(frame, at, sequence, flags)
        elif kind == kinds.COMMANDS:
            self._command(frame, at, sequence, flags)

    # --- messages -------------------------------------------------------------------------------

    def _publish(self, frame: bytes, at: i64, sequence: i64, flags: i64) -> None:
        life_ms: i64 = -1
        if flags & line_frames.EXPIRING:
            life_ms = frames.life_at(frame, at)
            at += 4
        payload_at = frames.records_at(frame, at)
        count = frames.count_at(frame, at)
        if count < 1:
            raise CorruptRecord("a frame of a node", 0, "messages without any")
        frames.check_records(frame, at, payload_at)
        queue = self.queue
        if flags & line_frames.CONFIRMS and self.line.remotes.refuses(queue.group_id):
            self._answer(sequence, True)
            return
        run = PublishRun(self, sequence, 1, 1)
        persistent = flags & line_frames.PERSISTENT != 0
        records = frame[payload_at : frames.end_of(frame)]
        flavour = frames.flavour_at(frame, at)
        lengths = frame[at + 4 : payload_at]
        if not queue.deleted:
            # It is the front's client that published, and the front has counted it.
            queue.published -= count
        queue.keep_order()
        queue.publish(records, lengths, count, persistent, run, flavour, life_ms)
        if queue.congested() and not self._held and not self.over():
            self._held = True
            self._hold(True)
            queue.hold_back(self)

    def settled(self, run: PublishRun) -> None:
        """The queue has messages where they belong."""
        if not self.over():
            self._answer(run.first, run.refused, run.rejected)

    def _answer(
        self, sequence: i64, refused: bool, rejected: list[tuple[int, int]] | None = None
    ) -> None:
        stored = self._stored
        if stored is None:
            stored = self.head(kinds.STORED)
            self._stored = stored
            self.line.remotes.answer_later(self)
        write_i64_le(stored, sequence)
        if refused or rejected is None:
            stored.append(line_frames.REFUSED if refused else 0)
            return
        stored.append(line_frames.REJECTED)
        write_i32_le(stored, i32(len(rejected)))
        for first, count in rejected:
            write_i32_le(stored, i32(first))
            write_i32_le(stored, i32(count))

    def flush(self) -> None:
        """Send the answers of this turn."""
        stored = self._stored
        self._stored = None
        if stored is not None and not self.over():
            self.line.send([stored.getvalue()])

    def flow_on(self) -> None:
        """The queue is congested no more."""
        self._held = False
        if not self.over():
            self._hold(False)

    def _hold(self, held: bool) -> None:
        writer = self.head(kinds.HOLD)
        writer.append(1 if held else 0)
        self.line.send([writer.getvalue()])

    # --- commands -------------------------------------------------------------------------------

    def _command(self, frame: bytes, at: i64, sequence: i64, flags: i64) -> None:
        """Do what `queues.fifo.commands` says; the last one is what the front waits for."""
        queue = self.queue
        end = frames.end_of(frame)
        asked = RemoteWaiter(self, sequence)
        opcode: i64 = 0
        while at < end:
            opcode = frame[at]
            at += 1
            if opcode == commands.PURGE:
                queue.purge(asked)
                continue
            frames.need(frame, at + 8)
            consumer_id = read_i64_be(frame, at)
            known = int(consumer_id) in self._consumers
            at += 8
            if opcode == commands.GET:
                self._polls(consumer_id)
                queue.get(consumer_id, asked)
            elif opcode == commands.CANCEL or opcode == commands.DOWN:
                if known:
                    self._leave(consumer_id, opcode == commands.DOWN)
            else:
                frames.need(frame, at + 16)
                first = read_i64_be(frame, at)
                last = read_i64_be(frame, at + 8)
                at += 16
                if opcode == commands.ATTACH or opcode == commands.ATTACH_AUTO:
                    if known:
                        raise CorruptRecord("a frame of a node", 0, "a consumer comes twice")
                    if not 0 < first <= commands.CREDIT_MAX:
                        raise CorruptRecord("a frame of a node", 0, f"a credit of {first}")
                    self._check_new(consumer_id)
                    exclusive = flags & line_frames.EXCLUSIVE != 0
                    automatic = opcode == commands.ATTACH_AUTO
                    self._attach(consumer_id, first, last, exclusive, automatic, asked)
                elif first > last and opcode != commands.PICK:
                    raise CorruptRecord("a frame of a node", 0, "messages from last to first")
                elif opcode == commands.RETURN:
                    frames.need(frame, at + 1)
                    if known:
                        queue.return_(consumer_id, first, last, frame[at] == 1)
                    at += 1
                elif opcode == commands.SETTLE:
                    if known:
                        queue.settled -= last - first + 1
                        queue.settle(consumer_id, first, last)
                elif opcode == commands.DISCARD or opcode == commands.REJECT:
                    if known:
                        queue.discard(consumer_id, first, last, opcode == commands.REJECT)
                elif opcode == commands.PICK:
                    # How long it may be held is for queues of several nodes to say.
                    self._polls(consumer_id)
                    asked.picks = True
                    queue.pick(consumer_id, first, asked)
                else:
                    raise CorruptRecord("a frame of a node", 0, f"opcode {opcode}")
        if flags & line_frames.WANTED and opcode not in ANSWERED_LATER:
            # Only the counts are wanted, as of now.
            queue.count(asked)

    def _polls(self, consumer_id: i64) -> None:
        """A channel of the front polls.

        Raises:
            CorruptRecord: It consumes, or is none of the front's.
        """
        if int(consumer_id) not in self._consumers:
            self._check_new(consumer_id)
            self._consumers[consumer_id] = None
        elif self._consumers[consumer_id] is not None:
            raise CorruptRecord("a frame of a node", 0, "a consumer polls")

    def _check_new(self, consumer_id: i64) -> None:
        """Check that the front may have given a consumer its id.

        Raises:
            CorruptRecord: It is none of its own: a consumer of another node may have it.
        """
        life = life_of(consumer_id)
        cluster = self.line.remotes.cluster
        if life <= 0 or cluster.session_of_another(first_session(life), self.line.front):
            raise CorruptRecord("a frame of a node", 0, f"consumer {consumer_id} is not its own")

    def _attach(
        self,
        consumer_id: i64,
        credit: i64,
        priority: i64,
        exclusive: bool,
        automatic: bool,
        asked: RemoteWaiter,
    ) -> None:
        queue = self.queue
        if not queue.admit(exclusive):
            asked.succeeded(Reply(IN_EXCLUSIVE_USE))
            return
        link = RemoteLink(self, consumer_id)
        self._consumers[consumer_id] = link
        queue.subscribe(link, consumer_id, credit, priority, None, asked, automatic)

    def _leave(self, consumer_id: i64, down: bool) -> None:
        queue = self.queue
        link = self._consumers[consumer_id]
        if link is not None:
            link.close(not down)
        if down:
            del self._consumers[consumer_id]
            queue.down(consumer_id)
        else:
            queue.cancel(consumer_id)

    def reply(self, sequence: i64, reply: Reply) -> BytesWriter:
        """The beginning of an answer."""
        queue = self.queue
        writer = self.head(kinds.REPLY)
        write_i64_le(writer, sequence)
        write_i64_le(writer, reply.code)
        purged = reply.count if isinstance(reply, PurgeReply) else 0
        for count in (purged, queue.ready_count(), queue.consumer_count()):
            write_i64_le(writer, min(count, i64(line_frames.COUNT_MAX)))
        return writer


def write_delivery(
    writer: BytesWriter, consumer_id: i64, delivery: Delivery, batch: Batch, count: i64
) -> None:
    """The first messages of a delivery, all of them in one batch."""
    position = delivery.first - batch.first
    write_i64_le(writer, consumer_id)
    write_i64_le(writer, delivery.mid)
    write_i64_le(writer, delivery.first)
    write_i64_le(writer, delivery.acquired)
    frames.write_count(writer, count, batch.flavour)
    lengths_at = batch.lengths_at + 4 * position
    writer.write(batch.lengths[lengths_at : lengths_at + 4 * count])
    writer.write(batch.payload[batch.offset(position) : batch.offset(position + count)])


@final
class RemoteWaiter(PendingRequest):
    """Waits for an answer of a queue, for a client at the other end of a line.

    Attributes:
        picks: Whether one message is asked for by its number, and no other will do.
    """

    def __init__(self, served: ServedQueue, sequence: i64) -> None:
        self.picks: bool = False
        self._served: ServedQueue = served
        self._sequence: i64 = sequence

    def succeeded(self, result: Result) -> None:
        """Send it, with the message if there is one."""
        assert isinstance(result, Reply), "a queue was asked"
        served = self._served
        if served.over():
            return
        delivery = result.delivery if isinstance(result, PollReply) else None
        if delivery is None:
            served.line.send([served.reply(self._sequence, result).getvalue()])
        else:
            Polled(served, self._sequence, result, delivery, self.picks).resume()

    def abandoned(self) -> None:
        """The front finds out by itself that the queue was deleted."""

    def missed(self) -> None:
        """No leader's state takes the place of commands: lines lead to queues of one node."""
        raise AssertionError("a queue of one node has seen what came of each command")

    def refused(self, refusal: Refusal) -> None:
        """Stop the node: a queue that is here hands out to all who ask."""
        raise AssertionError("a queue that is here refuses nobody")


@final
class Polled(Fetching):
    """One polled message on its way to a front."""

    def __init__(
        self,
        served: ServedQueue,
        sequence: i64,
        reply: Reply,
        delivery: Delivery,
        picked: bool,
    ) -> None:
        self._served: ServedQueue = served
        self._sequence: i64 = sequence
        self._reply: Reply = reply
        self._delivery: Delivery = delivery
        self._picked: bool = picked

    def resume(self) -> None:
        """Send the message if it is in memory, or read it first."""
        served = self._served
        if served.over() or served.queue.deleted:
            return
        batch = served.queue.batch_of(self._delivery.first)
        if batch is None:
            if served.queue.pass_over(self._delivery):
                if self._picked:
                    served.line.send([served.reply(self._sequence, PollReply(None)).getvalue()])
                    return
                # This one is gone: the front asked for whichever comes next.
                asked = RemoteWaiter(served, self._sequence)
                served.queue.get(self._delivery.consumer.id, asked)
            else:
                served.queue.fetch(self._delivery.first, self)
            return
        writer = served.reply(self._sequence, self._reply)
        write_delivery(writer, self._delivery.consumer.id, self._delivery, batch, 1)
        served.line.send([writer.getvalue()])


@final
class RemoteLink(Link):
    """A consumer behind a line: sends what its window takes, and keeps the rest as numbers."""

    def __init__(self, served: ServedQueue, consumer_id: i64) -> None:
        self.closed: bool = False
        self._served: ServedQueue = served
        self._consumer_id: i64 = consumer_id
        self._parked: list[Delivery] = []
        self._away_bytes: i64 = 0
        self._away: i64 = 0
        self._fetching: bool = False

    def delivered(self, delivery: Delivery) -> None:
        """Send messages on, or keep the delivery until there is room."""
        queue = self._served.queue
        # The front counts what its clients are given.
        queue.delivered -= delivery.count
        if delivery.acquired > 0:
            queue.redelivered -= delivery.count
        if self._parked or not self._send(delivery):
            self._parked.append(delivery)
            self._served.queue.pause(self._consumer_id)

    def resume(self) -> None:
        """What was not in memory is there now."""
        self._fetching = False
        self.go_on()

    def granted(self, count: i64, size: i64) -> bool:
        """The front has so much less to keep; False if it was never sent that."""
        if not 0 <= count <= self._away or not 0 <= size <= self._away_bytes:
            return False
        self._away -= count
        self._away_bytes -= size
        self.go_on()
        return True

    def go_on(self) -> None:
        """Send what waits; when nothing does, the consumer takes part again."""
        if self.closed:
            return
        done = 0
        for delivery in self._parked:
            if not self._send(delivery):
                break
            done += 1
        if done:
            del self._parked[:done]
        if self._parked:
            return
        self._served.queue.resume(self._consumer_id)

    def renumbered(self, consumer_id: i64) -> None:
        """Classic queues, which are all that is served so, keep the ids of consumers."""
        raise AssertionError(f"consumer {self._consumer_id} of a classic queue was renumbered")

    def cancelled(self) -> None:
        """The queue was deleted; the front finds out by itself."""
        self.closed = True
        self._parked.clear()

    def close(self, give_back: bool) -> None:
        """The consumer is gone; what it was handed but never sent goes back."""
        self.closed = True
        parked = self._parked
        self._parked = []
        if give_back:
            for delivery in parked:
                last = delivery.mid + delivery.count - 1
                self._served.queue.return_(self._consumer_id, delivery.mid, last, False)

    def _send(self, delivery: Delivery) -> bool:
        """Send what can be sent; True if that was all of it."""
        served = self._served
        line = served.line
        if not line.is_open:
            # It returns when this consumer's turn has come to vanish.
            return False
        while delivery.count > 0:
            if self._away_bytes >= WINDOW_BYTES or self._away >= WINDOW_MESSAGES:
                return False
            if line.clogged():
                if self not in line.stalled:
                    line.stalled.append(self)
                return False
            batch = served.queue.batch_of(delivery.first)
            if batch is None:
                if served.queue.pass_over(delivery):
                    continue
                if not self._fetching:
                    self._fetching = True
                    served.queue.fetch(delivery.first, self)
                return False
            count = _part(batch, delivery)
            writer = served.head(kinds.DELIVER)
            position = delivery.first - batch.first
            size = batch.offset(position + count) - batch.offset(position)
            write_delivery(writer, self._consumer_id, delivery, batch, count)
            line.send([writer.getvalue()])
            delivery.first += count
            delivery.mid += count
            delivery.count -= count
            self._away += count
            self._away_bytes += size
        return True


def _part(batch: Batch, delivery: Delivery) -> i64:
    """How many messages of a delivery, all in one batch, make up one frame."""
    position = delivery.first - batch.first
    most = min(delivery.count, batch.count - position)
    start = batch.offset(position)
    if batch.offset(position + most) - start <= PART_BYTES:
        return most
    count: i64 = 1
    while batch.offset(position + count) - start < PART_BYTES:
        count += 1
    return count
