"""Classic queues between nodes: the lines over which they are used from every node.

A *line* goes from a node with clients, its front, to a node with queues. It uses the links of both
directions and lives until one of them breaks or either node believes the other one to be down; then
each side drops what was under way, in parts where that is of many queues, and the front opens
another line with a higher number. Frames of a line that is no more are ignored. `queues.proxy` has
what that means to channels; here are the lines, and what the queue's node does: it is a publisher
and a consumer like those of its own clients.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, final

from librt.strings import (
    read_i32_le,
    read_i64_le,
    write_i64_le,
)
from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.limits import TURN_LINE_QUEUES_MAX
from warren.log.batch import KIND_MESSAGES, Batch, life_code, write_checksum
from warren.metadata.machine import MetadataMachine
from warren.node.identities import Counter
from warren.node.loop import Loop
from warren.node.queues import LocalQueues
from warren.node.remote import frames as line_frames
from warren.node.remote.serving import EARLY_MS, Served, ServedQueue
from warren.ports import Work
from warren.protocols.broker import ALARM_DISK
from warren.queues.fifo.consumers import Consumer
from warren.queues.fifo.effects import OK, Delivery, PollReply, PurgeReply, Reply
from warren.queues.lines import Line
from warren.queues.proxy import ProxyQueue
from warren.queues.queue import Queue
from warren.replication import frames, kinds
from warren.replication.feeding import BACKLOG_BYTES
from warren.sharded_dict import ShardedDict

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster

FOR_QUEUES_NODE: Final = (
    kinds.OPEN,
    kinds.CLOSE,
    kinds.MESSAGES,
    kinds.COMMANDS,
    kinds.GRANT,
)
"""What a front says; the rest is for fronts."""

WARN_MS: Final = 60_000
"""Lost messages that no client waits for are told of at most so often for each node."""
OPEN_AGAIN_MS: Final = 1_000
"""A line that was not answered for so long is opened under another number."""
COMING_MS: Final = 5_000
"""Publishes wait so long for a line to a node that is up; then they are refused."""
"""Consumers' ids begin with the session, and leave room for as many as one life may see."""


# --- the front ----------------------------------------------------------------------------------


@final
class LosingQueues(Work):
    """Tells the queues of another node, in parts, that the line there is gone."""

    def __init__(self, front: Front) -> None:
        self._front: Front = front

    def go_on(self) -> bool:
        """Tell some more; whether these were the last."""
        return self._front.lose_some()


@final
class ResumingQueues(Work):
    """Has queues of another node that waited send what they keep, or refuse it, in parts."""

    def __init__(self, front: Front) -> None:
        self._front: Front = front

    def go_on(self) -> bool:
        """Have some more do so; whether these were the last."""
        return self._front.go_on_some()


@final
class Front(Line):
    """This node's line to a node with queues.

    Attributes:
        queues: The queues of that node, by group.
    """

    def __init__(self, remotes: Remotes, owner: str, used: bool) -> None:
        super().__init__(owner)
        self.queues: ShardedDict[int, ProxyQueue] = ShardedDict()
        self._remotes: Remotes = remotes
        self._used: bool = used
        """Whether there is ever to be a line."""
        self._missed_ms: i64 = remotes.loop.monotonic_ms()
        """When there was none first, while the other node is up."""
        self._waiting: dict[int, ProxyQueue] = {}
        """Queues that keep what they have to send, by group."""
        self._concerned: ShardedDict[int, None] = ShardedDict()
        """Groups of queues that have used the line, or waited for one, since there was none."""
        self._losing: ShardedDict[int, None] = ShardedDict()
        """Groups of those that are still to hear that it is gone: until then there is none."""
        self._resuming: bool = False
        """Whether further turns see to what waits."""
        self._opening: i64 = 0
        self._asked_ms: i64 = 0
        self._dropped: i64 = 0
        self._warned_ms: i64 = -WARN_MS
        self._holed: bool = False
        """Whether something of the row of this line could not be sent."""

    def open(self) -> None:
        """Have a line, if that can be."""
        remotes = self._remotes
        cluster = remotes.cluster
        now: i64 = remotes.loop.monotonic_ms()
        if self._dropped:
            self._warn(now)
        if self._holed:
            self.close()
        if self._waiting:
            self._go_on()
        if len(self._losing) > 0:
            return
        if not cluster.session or cluster.detector.suspected(self.owner):
            self._missed_ms = now
        if self.number or (self._opening and now - self._asked_ms < OPEN_AGAIN_MS):
            return
        if cluster.session and not cluster.detector.suspected(self.owner):
            number = remotes.new_number()
            opening = line_frames.line_head(kinds.OPEN, 0, number).getvalue()
            if cluster.send(self.owner, [opening]):
                self._opening = number
                self._asked_ms = now

    def coming(self) -> bool:
        """Whether the other node is up, and the line has not been missing for long."""
        cluster = self._remotes.cluster
        return (
            self._used
            and not self._remotes.stopping
            and not cluster.detector.suspected(self.owner)
            and self._remotes.loop.monotonic_ms() - self._missed_ms < COMING_MS
        )

    def clogged(self) -> bool:
        """Whether too much is queued for the other node."""
        return self._remotes.cluster.peers.backlog_bytes(self.owner) > BACKLOG_BYTES

    def go_on_later(self, queue: ProxyQueue) -> None:
        """Let a queue try again with the next tick, or as soon as there is a line."""
        self._waiting[int(queue.group_id)] = queue
        self._concerned[int(queue.group_id)] = None

    def _go_on(self) -> None:
        """Let queues send what they keep, or refuse it."""
        if not self._resuming:
            # A queue that goes on may come back here.
            self._resuming = True
            if not self.go_on_some():
                self._remotes.loop.do_in_parts(ResumingQueues(self))

    def go_on_some(self) -> bool:
        """Let some of them do so; whether there are no more for now."""
        more = self._resume_some()
        self._resuming = more
        return not more

    def _resume_some(self) -> bool:
        """Let some of them do so; whether the next may, too, in another turn."""
        waiting = self._waiting
        if self.number == 0 and self.coming():
            return False
        for group_id in list(islice(waiting, TURN_LINE_QUEUES_MAX)):
            queue = waiting.get(group_id)
            if queue is None:
                continue
            if self.number:
                # Whose turn it is and cannot send all goes on first.
                if not queue.go_on():
                    return False
                waiting.pop(group_id, None)
            else:
                del waiting[group_id]
                self._remotes.loop.needs_turn = True
                queue.give_up()
        return len(waiting) > 0

    def close(self) -> None:
        """The line is gone."""
        self._opening = 0
        self._holed = False
        number = self.number
        if number:
            self._missed_ms = self._remotes.loop.monotonic_ms()
            self._waiting = {}
            self.number = 0
            # Where it is not the link that broke, the queues' node may not know.
            ended = line_frames.line_head(kinds.CLOSE, 0, number).getvalue()
            self._send([ended])
            assert len(self._losing) == 0, "there is no line before all have heard of the last one"
            self._losing = self._concerned.move()
            if not self.lose_some():
                self._remotes.loop.do_in_parts(LosingQueues(self))

    def lose_some(self) -> bool:
        """Tell some queues that the line is gone; whether all have heard of it."""
        for group_id in self._losing.some(TURN_LINE_QUEUES_MAX):
            if group_id in self._losing:
                del self._losing[group_id]
                found = self.queues.get(group_id)
                if found is not None:
                    found.lost()
        return len(self._losing) == 0

    def settle_loss(self, queue: ProxyQueue) -> None:
        """Have a queue that is about to be used hear first that the line is gone."""
        group_id = int(queue.group_id)
        if group_id in self._losing:
            del self._losing[group_id]
            queue.lost()

    def received(self, frame: bytes, kind: i64) -> None:
        """The queues' node says something.

        Raises:
            CorruptRecord: It cannot be understood.
        """
        number = read_i64_le(frame, frames.HEAD_BYTES)
        if kind == kinds.OPENED:
            if number == self._opening:
                self._opening = 0
                self.number = number
                self._remotes.lines_opened += 1
                self._go_on()
            return
        group_id = int(frames.group_of(frame))
        if kind == kinds.CLOSED and group_id == 0:
            if number == self._opening or number == self.number:
                self.close()
            return
        queue = self.queues.get(group_id)
        if number != self.number or queue is None:
            return
        if kind == kinds.CLOSED:
            self._concerned[group_id] = None
            queue.halt()
        elif kind == kinds.DELIVER:
            self._arrived(queue, frame)
        elif kind == kinds.STORED:
            _stored(queue, frame)
        elif kind == kinds.REPLY:
            self._replied(queue, frame)
        elif kind == kinds.HOLD:
            frames.need(frame, line_frames.LINE_BYTES + 1)
            queue.hold(frame[line_frames.LINE_BYTES] != 0)

    def _arrived(self, queue: ProxyQueue, frame: bytes) -> None:
        batch = _batch_in(frame, line_frames.LINE_BYTES)
        problem = queue.arrived(
            line_frames.number_at(frame, 0),
            line_frames.number_at(frame, 1),
            line_frames.number_at(frame, 3),
            batch,
            batch.payload_size,
        )
        if problem:
            raise CorruptRecord("a frame of a node", 0, problem)

    def _replied(self, queue: ProxyQueue, frame: bytes) -> None:
        at: i64 = line_frames.LINE_BYTES + 40
        frames.need(frame, at)
        code = line_frames.number_at(frame, 1)
        for position in range(2, 5):
            if not 0 <= line_frames.number_at(frame, position) <= line_frames.COUNT_MAX:
                raise CorruptRecord("a frame of a node", 0, "a count of messages is none")
        # Only the answer to a purge says a number.
        reply = PurgeReply(line_frames.number_at(frame, 2)) if code == OK else Reply(code)
        batch: Batch | None = None
        if frames.end_of(frame) > at:
            batch = _batch_in(frame, at)
            consumer = Consumer(read_i64_le(frame, at), 0, 0)
            mid = read_i64_le(frame, at + 8)
            acquired = read_i64_le(frame, at + 24)
            if code == OK:
                reply = PollReply(Delivery(consumer, mid, batch.first, 1, acquired))
        queue.replied(
            line_frames.number_at(frame, 0),
            reply,
            line_frames.number_at(frame, 3),
            line_frames.number_at(frame, 4),
            batch,
        )

    # For its queues.

    def dismiss(self, group_id: i64) -> None:
        """A queue is deleted."""
        self.queues.pop(int(group_id))
        self._waiting.pop(int(group_id), None)

    def new_consumer(self) -> i64:
        """Give an id that no other consumer of the node has."""
        return self._remotes.new_consumer()

    def send_messages(
        self,
        group_id: i64,
        sequence: i64,
        count: i64,
        persistent: bool,
        confirms: bool,
        lengths: bytes,
        payload: bytes,
        flavour: i64 = 0,
        life_ms: i64 = -1,
    ) -> None:
        """Messages for a queue."""
        self._concerned[int(group_id)] = None
        writer = line_frames.line_head(kinds.MESSAGES, group_id, self.number)
        write_i64_le(writer, sequence)
        flags = (line_frames.PERSISTENT if persistent else 0) | (
            line_frames.CONFIRMS if confirms else 0
        )
        if life_ms < 0:
            writer.append(flags)
        else:
            writer.append(flags | line_frames.EXPIRING)
            write_checksum(writer, life_code(life_ms))
        frames.write_count(writer, count, flavour)
        self._send([writer.getvalue(), lengths, payload])

    def send_commands(
        self, group_id: i64, sequence: i64, wanted: bool, exclusive: bool, payload: bytes
    ) -> None:
        """Commands for a queue."""
        self._concerned[int(group_id)] = None
        writer = line_frames.line_head(kinds.COMMANDS, group_id, self.number)
        write_i64_le(writer, sequence)
        flags = (line_frames.WANTED if wanted else 0) | (line_frames.EXCLUSIVE if exclusive else 0)
        writer.append(flags)
        self._send([writer.getvalue(), payload])

    def send_grant(self, group_id: i64, consumer_id: i64, count: i64, size: i64) -> None:
        """Room in a consumer's window."""
        writer = line_frames.line_head(kinds.GRANT, group_id, self.number)
        write_i64_le(writer, consumer_id)
        write_i64_le(writer, count)
        write_i64_le(writer, size)
        self._send([writer.getvalue()])

    def _send(self, message: list[bytes]) -> None:
        # Without a link the line is about to be told that it is gone.
        if not self._remotes.cluster.send(self.owner, message):
            self._holed = self.number > 0

    def dropped(self, count: i64) -> None:
        """Messages without confirms are lost; told of now and then."""
        self._dropped += count
        self._warn(self._remotes.loop.monotonic_ms())

    def _warn(self, now: i64) -> None:
        if now - self._warned_ms >= WARN_MS:
            self._warned_ms = now
            self._remotes.loop.log_warning(
                f"{self._dropped} messages without confirms for queues of node {self.owner} "
                "are dropped: it is down or inaccessible"
            )
            self._dropped = 0


def _stored(queue: ProxyQueue, frame: bytes) -> None:
    """Messages are safe, or could not be taken, or some of them.

    Raises:
        CorruptRecord: The frame is cut off, or says what cannot be.
    """
    at: i64 = line_frames.LINE_BYTES
    end = frames.end_of(frame)
    while at < end:
        frames.need(frame, at + 9)
        sequence = read_i64_le(frame, at)
        told: i64 = frame[at + 8]
        at += 9
        if told > line_frames.REJECTED:
            raise CorruptRecord("a frame of a node", int(at), f"{told} becomes of messages")
        if told == line_frames.REJECTED:
            rejected, at = _rejected_in(frame, at, queue.sent_count(sequence))
            queue.stored(sequence, False, rejected)
        else:
            queue.stored(sequence, told == line_frames.REFUSED)


def _rejected_in(frame: bytes, at: i64, most: i64) -> tuple[list[tuple[int, int]], i64]:
    """Which messages there was no room for, and where that ends.

    Args:
        most: How many there were; negative if that is not known any more.

    Raises:
        CorruptRecord: The frame is cut off, or names others.
    """
    frames.need(frame, at + 4)
    stretches = i64(read_i32_le(frame, at)) & 0xFFFF_FFFF
    at += 4
    frames.need(frame, at + 8 * stretches)
    rejected: list[tuple[int, int]] = []
    for _ in range(stretches):
        first = i64(read_i32_le(frame, at)) & 0xFFFF_FFFF
        count = i64(read_i32_le(frame, at + 4)) & 0xFFFF_FFFF
        if count == 0 or 0 <= most < first + count:
            raise CorruptRecord("a frame of a node", int(at), "messages are rejected that are none")
        rejected.append((int(first), int(count)))
        at += 8
    return rejected, at


def _batch_in(frame: bytes, at: i64) -> Batch:
    """The messages of a delivery at an offset of a frame, without a copy.

    Raises:
        CorruptRecord: The frame is cut off, or says what cannot be.
    """
    payload_at = frames.records_at(frame, at + 32)
    count = frames.count_at(frame, at + 32)
    flavour = frames.flavour_at(frame, at + 32)
    first = read_i64_le(frame, at + 16)
    if count < 1:
        raise CorruptRecord("a frame of a node", 0, "a delivery of nothing")
    for offset in range(8, 32, 8):
        if not 0 <= read_i64_le(frame, at + offset) <= line_frames.NUMBER_MAX:
            raise CorruptRecord("a frame of a node", 0, "a delivery has a number that cannot be")
    frames.check_records(frame, at + 32, payload_at)
    size = frames.end_of(frame) - payload_at
    return Batch(
        None, KIND_MESSAGES, 0, 0, first, count, 0, frame, at + 36, frame, payload_at, size, None,
        0, 0, flavour,
    )  # fmt: skip


# --- both ---------------------------------------------------------------------------------------


@final
class Remotes:
    """All lines of a node, to queues of others and from others to its own.

    Attributes:
        owned: The classic queues of this node, by group.
        halted: Groups of those that cannot be used, since their log is damaged.
        gone: Groups of those that were deleted, so that what comes for them late is no riddle.
        loop, cluster: Of the node, for its lines.
        stopping: Whether this node serves no other one any more.
        lines_opened: How many lines to other nodes' queues there have been.
    """

    def __init__(
        self, loop: Loop, metadata: MetadataMachine, queues: LocalQueues, cluster: Cluster
    ) -> None:
        self.loop: Loop = loop
        self.cluster: Cluster = cluster
        self._metadata: MetadataMachine = metadata
        self._queues: LocalQueues = queues
        self.owned: ShardedDict[int, Queue] = ShardedDict()
        self.halted: dict[int, None] = {}
        self.gone: dict[int, i64] = {}
        self.stopping: bool = False
        self.lines_opened: i64 = 0
        self._fronts: dict[str, Front] = {}
        self._served: dict[str, Served] = {}
        self._answering: list[ServedQueue] = []
        self._lines: Counter = Counter("lines to other nodes")
        self._consumers: Counter = Counter("consumers of other nodes' queues")

    def new_number(self) -> i64:
        """A line's. Those of 2^32 lines before are long over."""
        return self._lines.take_round(self.cluster.session)

    def new_consumer(self) -> i64:
        """Give an id that no consumer of this node has had.

        Raises:
            Refusal: `EXHAUSTED`, this life of the node has no more.
        """
        return self._consumers.take(self.cluster.session)

    def line(self, owner: str) -> Front:
        """The line to a node."""
        front = self._fronts.get(owner)
        if front is None:
            front = Front(self, owner, True)
            self._fronts[owner] = front
        return front

    def no_line(self, owner: str) -> Front:
        """For a queue that is not used over a line, wherever it is."""
        return Front(self, owner, False)

    def _serving(self, front: str) -> Served:
        served = self._served.get(front)
        if served is None:
            served = Served(self, front)
            self._served[front] = served
        return served

    # Queues.

    def fronts(self, queue: ProxyQueue) -> None:
        """A classic queue is known to be on another node."""
        self.line(queue.line.owner).queues[int(queue.group_id)] = queue

    def started(self, queue: Queue) -> None:
        """A classic queue is here."""
        self.owned[int(queue.group_id)] = queue
        for served in self._served.values():
            served.started(queue.group_id)

    def halt(self, queue: Queue) -> None:
        """Have all who ask for a classic queue of this node told that it cannot be used."""
        self.halted[int(queue.group_id)] = None
        for served in self._served.values():
            served.started(queue.group_id)

    def stopped(self, queue: Queue) -> None:
        """A queue is deleted; other nodes that use it over lines may not know yet."""
        group_id = int(queue.group_id)
        halted = group_id in self.halted
        if halted:
            del self.halted[group_id]
        if halted or self.owned.pop(group_id) is not None:
            self.gone[group_id] = self.loop.monotonic_ms() + 6 * EARLY_MS
            for served in self._served.values():
                served.stopped(group_id)

    def refuses(self, group_id: i64) -> bool:
        """Whether the disk is full and a queue's messages would go there."""
        return self.loop.alarms() & ALARM_DISK != 0 and group_id in self._queues.logged

    # Links.

    def linked(self, peer: str) -> None:
        """The link to a node is up."""
        served = self._serving(peer)
        if served.number and not served.is_open:
            served.say_closed(served.number)
        self.line(peer).open()

    def greeted(self, peer: str) -> None:
        """A node has a new link to this one."""
        self._serving(peer).greeted()

    def broken(self, peer: str) -> None:
        """A link with a node broke, or the node is down."""
        self.loop.needs_turn = True
        served = self._serving(peer)
        if served.is_open:
            # Where it is not the link that broke, the front may not know.
            served.fail()
        self.line(peer).close()

    def received(self, peer: str, frame: bytes) -> None:
        """A node says something about queues.

        Raises:
            CorruptRecord: It cannot be understood.
        """
        frames.need(frame, line_frames.LINE_BYTES)
        self.loop.needs_turn = True
        kind: i64 = frame[0]
        if kind in FOR_QUEUES_NODE:
            self._serving(peer).received(frame, kind)
        else:
            self.line(peer).received(frame, kind)

    def shut_down(self) -> None:
        """The node stops: what consumers of other nodes hold returns before it is written down."""
        self.stopping = True
        for served in self._served.values():
            if served.is_open:
                served.fail()
            served.leave_all()

    # Time.

    def answer_later(self, served: ServedQueue) -> None:
        """Have answers sent at the end of the turn."""
        self._answering.append(served)

    def work(self) -> None:
        """Send what the turn has brought."""
        if self._answering:
            answering = self._answering
            self._answering = []
            for served in answering:
                served.flush()

    def tick(self) -> None:
        """Open lines that are missing; called every 50 ms or so."""
        now = self.loop.monotonic_ms()
        own = self.cluster.name
        for name in self._metadata.nodes:
            if name != own:
                self.line(name).open()
        for line in self._served.values():
            line.tick(now)
            if line.stalled:
                line.go_on()
        over: list[int] = []
        for group_id, until_ms in self.gone.items():
            # They went in this order.
            if until_ms > now:
                break
            over.append(group_id)
        for group_id in over:
            del self.gone[group_id]
