"""Class `table`: queues as tables, for analysis over an ordinary channel.

Reads hand out record batches as they lie in the log; the reader decodes them. A durable checkout
takes messages for a named group, independent of connections; see `warren.queues.fifo.groups`.

Contents of answers, all numbers big-endian: runs are a u32 count, then `i64 first, i64 last` each;
`checkouts-ok` carries, for each checkout, its i64 number and then its runs; `groups-ok`, for each
group, a u8 and so many bytes of its name, then i64 epoch, settled, open checkouts, messages held,
lease in ms, and when it last called and since when its oldest checkout is open in ms since 1970;
`held-ok`, for each checkout, i64 number, messages, and since when it is open; `queues-ok`, for each
queue, a u8 and so many bytes of its name; `messages-ok` runs.

Source: docs/formats/table-class.md; permissions as for `basic.get` (read).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64, u8

from warren.errors import Compacted, CorruptRecord
from warren.limits import READER_GROUPS_MAX, TABLE_READ_BYTES_MAX
from warren.log.listener import RawReader
from warren.log.runlist import PAIR_BYTES
from warren.ports import Work
from warren.queues.fifo.effects import (
    RETURNING,
    SCATTERED,
    UNKNOWN_GROUP,
    AcquireReply,
    FencedReply,
    GoneReply,
    LeaseReply,
    Reply,
)
from warren.queues.fifo.groups import Checkout, Group
from warren.queues.fifo.live import Gathering
from warren.queues.fifo.pieces import Piece, count_of, size_of
from warren.queues.fifo.retaking import LOOKED_AT_MAX
from warren.queues.fifo.runs import pairs_of
from warren.queues.table_queue import TableQueue
from warren.vhost.listing import TableNames
from warren.wire.amqp091 import spec
from warren.wire.amqp091.errors import ChannelException, ConnectionException
from warren.wire.amqp091.frame import (
    long_content_frames,
    write_body_frames,
    write_header_frame,
    write_method_frame,
)

if TYPE_CHECKING:
    from warren.protocols.amqp091.channel import Channel, Pending

FRAMED_BYTES: Final = 1 << 20
"""Of a long answer so much is put into frames in one turn: a millisecond."""

PASSED_ON_BYTES: Final = 1 << 16
"""Frames of so much are handed to the transport as they are, and not gathered with others: that
would copy them three times more."""

ROWS_MAX: Final = 100_000_000
NUMBER_MAX: Final = 1 << 62
"""More than any number in a queue. The wire has 64 bits without a sign, the machine 64 with one."""


_SHOWN: Final = (
    spec.TableStatus,
    spec.TableCheckouts,
    spec.TableGroups,
    spec.TableHeld,
    spec.TableBacklog,
    spec.TableMessages,
)
"""Methods that tell of a queue or its groups, and change nothing."""


def bounded(number: int) -> int:
    """A number from the wire, cut to what the machine can count with."""
    return min(number, NUMBER_MAX)


def handle(channel: Channel, method: spec.Method) -> None:
    """Handle a method of class `table`.

    Raises:
        ChannelException: 404 no such queue, 406 a queue that is not durable, or that is on
            another node only, 403 no permission.
        ConnectionException: 541, this node is being given its copy of the queue anew.
    """
    if isinstance(method, spec.TableRead):
        queue = _queue(channel, method.queue)
        if bounded(method.last) < queue.next_message():
            _read(channel, queue, method)
        else:
            # Another node may have told of rows that this one has yet to hear of.
            queue.catch_up(_wait(channel, queue, method))
    elif isinstance(method, _SHOWN):
        queue = _queue(channel, method.queue)
        queue.when_current(_wait(channel, queue, method))
    elif isinstance(method, spec.TableQueues):
        names = NamesAnswer(channel, TableNames(channel.vhost), method.known)
        if not names.go_on():
            channel.wait(method)
            channel.connection.broker.do_in_parts(names)
    elif isinstance(method, spec.TableIdentify):
        queue = _queue(channel, method.queue)
        channel.send(spec.TableIdentifyOk(int(queue.group_id)))
    elif isinstance(
        method,
        (
            spec.TableAcquire,
            spec.TableCheckout,
            spec.TableSettle,
            spec.TableRelease,
            spec.TableRetake,
            spec.TableDelete,
        ),
    ):
        queue = _queue(channel, method.queue)
        if isinstance(method, spec.TableAcquire) and not method.group:
            raise ChannelException(406, "a group needs a name")
        if isinstance(method, spec.TableAcquire) and not queue.may_acquire(method.group):
            raise ChannelException(
                406,
                f"{queue} has {READER_GROUPS_MAX} groups of readers, which are as many as it may "
                "have: delete one that is needed no more",
            )
        classic = not queue.type.replicated
        if classic or isinstance(method, (spec.TableRetake, spec.TableDelete)):
            channel.vhost.check_groups(classic)
        _ask(channel, queue, method, _wait(channel, queue, method))
    else:
        raise ConnectionException(503, "unimplemented method")


def _ask(channel: Channel, queue: TableQueue, method: spec.Method, pending: Pending) -> None:
    """Have the queue's machine do what a reader wants of a group."""
    if isinstance(method, spec.TableAcquire):
        kept = channel.vhost.keeps_leases()
        queue.acquire(method.group, bounded(method.lease_ms), kept, pending)
    elif isinstance(method, spec.TableCheckout):
        # The machine counts messages: a bound in bytes becomes one in those that are ready here.
        rows = ROWS_MAX if method.max_rows <= 0 else min(method.max_rows, ROWS_MAX)
        if method.max_bytes > 0:
            rows = int(queue.rows_within(bounded(method.max_bytes), rows))
        queue.checkout(
            method.group,
            bounded(method.epoch),
            bounded(method.after),
            rows,
            bounded(method.up_to),
            pending,
        )
    elif isinstance(method, spec.TableSettle):
        queue.settle_leases(method.group, bounded(method.epoch), bounded(method.up_to), pending)
    elif isinstance(method, spec.TableRelease):
        queue.release_leases(method.group, bounded(method.epoch), pending)
    elif isinstance(method, spec.TableRetake):
        queue.retake(method.group, bounded(method.epoch), bounded(method.number), pending)
    elif isinstance(method, spec.TableDelete):
        queue.delete_group(method.group, pending)
    else:
        raise AssertionError(f"{method.NAME} asks no machine")


def ask_again(pending: Pending) -> None:
    """See to a method that was done within a state, so that nobody here has seen what came of it.

    What only waited for the queue to be heard of has that now. Of a group that still has the epoch
    of the reader, the state says what came of it. An acquire, of which the queue could not tell, is
    done once more, as if it had come only now; so is a retake whose messages are ready, since it
    met some on their way back.
    """
    queue = None if pending.queue is None else pending.queue.as_table()
    assert queue is not None, "the queue was asked as a table"
    request = pending.request
    if queue.deleted:
        pending.abandoned()
    elif isinstance(request, spec.TableCheckout):
        epoch, after = bounded(request.epoch), bounded(request.after)
        pending.succeeded(queue.lease_in_state(request.group, epoch, after))
    elif isinstance(request, (spec.TableSettle, spec.TableRelease)):
        pending.succeeded(queue.refusal_in_state(request.group, bounded(request.epoch)) or Reply())
    elif isinstance(request, spec.TableRetake):
        epoch, number = bounded(request.epoch), bounded(request.number)
        reply = queue.retake_in_state(request.group, epoch, number)
        if reply is None:
            _ask(pending.channel, queue, request, pending)
        else:
            pending.succeeded(reply)
    elif isinstance(request, spec.TableAcquire):
        _ask(pending.channel, queue, request, pending)
    else:
        pending.succeeded(Reply())


def answer(channel: Channel, request: spec.Method, reply: Reply, pending: Pending) -> None:
    """Send the answer to a method that went through the queue's machine.

    Raises:
        ChannelException: 406, the group is unknown or another reader has acquired it.
        ConnectionException: 541, this node is being given its copy of the queue anew.
    """
    if reply.code == UNKNOWN_GROUP:
        raise ChannelException(406, "unknown group: acquire it first, or again if it was deleted")
    if isinstance(reply, FencedReply):
        raise ChannelException(
            406, f"fenced: another reader acquired this group (its epoch is {reply.epoch})"
        )
    queue = None if pending.queue is None else pending.queue.as_table()
    assert queue is not None, "the queue was asked as a table"
    if isinstance(request, spec.TableRead):
        _read(channel, queue, request)
    elif isinstance(request, _SHOWN):
        _show(channel, queue, request)
    elif isinstance(request, spec.TableAcquire):
        assert isinstance(reply, AcquireReply)
        channel.send(spec.TableAcquireOk(int(reply.epoch), int(reply.settled)))
    elif isinstance(request, spec.TableCheckout):
        assert isinstance(reply, LeaseReply)
        checkout = reply.checkout
        lists = [] if checkout is None else checkout.messages.freeze()
        count = int(reply.count)
        size = int(queue.bytes_of(lists))
        out = BytesWriter()
        write_i32_be(out, i32(count_of(lists)))
        for pieces in lists:
            _write_runs(out, pieces)
        _send_with(channel, spec.TableCheckoutOk(int(reply.number), count, size), out.getvalue())
    elif isinstance(request, spec.TableSettle):
        channel.send(spec.TableSettleOk())
    elif isinstance(request, spec.TableRelease):
        channel.send(spec.TableReleaseOk())
    elif isinstance(request, spec.TableDelete):
        channel.send(spec.TableDeleteOk())
    elif isinstance(request, spec.TableRetake):
        _retaken(channel, queue, request, reply)
    else:
        raise AssertionError(f"no answer to {request.NAME}")


def _retaken(channel: Channel, queue: TableQueue, request: spec.TableRetake, reply: Reply) -> None:
    """Send the answer to a retake, or ask once more while messages are still on their way back.

    Raises:
        ChannelException: 406, so much is ready that nothing is looked for in it.
    """
    if reply.code == RETURNING:
        # Each entry has more of them be ready.
        _ask(channel, queue, request, _wait(channel, queue, request))
        return
    if reply.code == SCATTERED:
        raise ChannelException(
            406,
            f"checkout {request.number} cannot be looked for: what is ready lies in more than "
            f"{LOOKED_AT_MAX} runs",
        )
    out = BytesWriter()
    if isinstance(reply, GoneReply):
        write_i32_be(out, i32(len(reply.gone)))
        gone = 0
        for first, last in reply.gone:
            write_i64_be(out, i64(first))
            write_i64_be(out, i64(last))
            gone += last - first + 1
        _send_with(channel, spec.TableRetakeOk(0, gone), out.getvalue())
        return
    assert isinstance(reply, LeaseReply)
    checkout = reply.checkout
    lists = [] if checkout is None else checkout.messages.freeze()
    write_i32_be(out, i32(count_of(lists)))
    for pieces in lists:
        _write_runs(out, pieces)
    _send_with(channel, spec.TableRetakeOk(int(reply.count), 0), out.getvalue())


@final
class TableReader(RawReader):
    """Waits for the batches that a `table.read` asked for.

    What is damaged on the disk is not read again and again: up to there a read is answered as any
    other, and one that begins there as if the messages had been settled, once the queue goes on
    without them. Until then another member may have them.
    """

    def __init__(
        self, channel: Channel, pending: Pending, queue: TableQueue, first: i64, limit: i64
    ) -> None:
        self._channel: Channel = channel
        self._pending: Pending = pending
        self._queue: TableQueue = queue
        self._first: i64 = first
        self._limit: i64 = limit
        pending.queue = queue

    def raw_read(self, data: bytes, next_message: int, error: BaseException | None) -> None:
        """Send them."""
        channel = self._channel
        if not channel.is_open():
            return
        if isinstance(error, Compacted):
            if self._queue.deleted:
                self._pending.abandoned()
            else:
                channel.refused(_copied(self._queue))
            return
        if isinstance(error, CorruptRecord) and error.lost and not self._queue.deleted:
            hole: i64 = error.lost[0][0]
            if hole > self._first:
                self._queue.read_raw(self._first, hole - 1, self._limit, self)
                return
            gone = self._queue.gone_up_to(self._first)
            if gone >= 0:
                data, next_message, error = b"", int(gone) + 1, None
            else:
                self._queue.damaged(error)
        if error is not None:
            channel.refused(ConnectionException(541, f"the log could not be read: {error}"))
            return
        _send_with(channel, spec.TableReadOk(next_message), data)
        channel.sent()


def _queue(channel: Channel, name: str) -> TableQueue:
    node = channel.vhost.table_elsewhere(name)
    if node:
        raise ChannelException(406, f"queue '{name}' is on node '{node}': ask that node")
    queue = channel.vhost.queue_for(name, "read")
    table = queue.as_table()
    if table is None:
        raise ChannelException(
            406,
            f"{queue} is not durable and cannot be read as a table: what goes with its node can "
            "have no checkouts; declare it durable, or have Spark read it with mode=staged",
        )
    return table


def _read(channel: Channel, queue: TableQueue, method: spec.TableRead) -> None:
    if not queue.is_complete():
        raise _copied(queue)
    limit = min(max(method.max_bytes, 1), TABLE_READ_BYTES_MAX)
    first = bounded(method.first)
    reader = TableReader(channel, channel.wait(method), queue, first, limit)
    queue.read_raw(first, bounded(method.last), limit, reader)


def _copied(queue: TableQueue) -> ConnectionException:
    """What a read is told whose copy of the queue is not whole, or was given up under it."""
    return ConnectionException(541, f"{queue} is being copied to this node: read again")


def _wait(channel: Channel, queue: TableQueue, method: spec.Method) -> Pending:
    pending = channel.wait(method)
    pending.queue = queue
    return pending


def _show(channel: Channel, queue: TableQueue, method: spec.Method) -> None:
    """Answer a method that tells of a queue or its groups as they are here."""
    answer: PartedAnswer
    if isinstance(method, spec.TableStatus):
        answer = StatusAnswer(channel, queue, method.group)
    elif isinstance(method, spec.TableCheckouts):
        checkouts = queue.leases(method.group, bounded(method.after), bounded(method.up_to))
        answer = Listing(channel, checkouts, queue.part_runs())
    elif isinstance(method, spec.TableGroups):
        answer = GroupsAnswer(channel, queue)
    elif isinstance(method, spec.TableHeld):
        answer = HeldAnswer(channel, queue, method.group)
    elif isinstance(method, spec.TableMessages):
        answer = MessagesAnswer(channel, queue, method)
    else:
        assert isinstance(method, spec.TableBacklog), method.NAME
        channel.send(
            spec.TableBacklogOk(
                int(queue.next_ready()),
                int(queue.next_message()),
                int(queue.ready_count()),
                int(queue.ready_bytes()),
                int(queue.settled_lease(method.group)),
                int(queue.log_ms()),
            )
        )
        return
    if not answer.go_on():
        channel.wait(method)
        channel.connection.broker.do_in_parts(answer)


@final
class Content(Work):
    """Puts a long answer into frames; it is sent at the end, as nothing may come in between."""

    def __init__(self, channel: Channel, method: spec.Method, content: bytes) -> None:
        writer = BytesWriter()
        write_method_frame(writer, channel.number, method.encode())
        write_header_frame(writer, channel.number, b"\x00\x00", len(content), method.CLASS_ID)
        self._channel: Channel = channel
        self._content: bytes = content
        self._at: i64 = 0
        self._parts: list[bytes] = [writer.getvalue()]

    def go_on(self) -> bool:
        """Put some more of it into frames, or send them; whether it was sent."""
        channel = self._channel
        content = self._content
        output = channel.connection.output
        end = min(self._at + FRAMED_BYTES, i64(len(content)))
        writer = BytesWriter()
        write_body_frames(writer, channel.number, content[self._at : end], output.frame_max)
        self._parts.append(writer.getvalue())
        self._at = end
        if end < len(content):
            return False
        for part in self._parts:
            output.buffer.write(part)
        output.touch()
        return True


class PartedAnswer(Work):
    """An answer that is found out in parts; it is sent at the end, as `Content` is."""

    def __init__(self, channel: Channel) -> None:
        self._channel: Channel = channel
        self._content: Content | None = None
        self._waited: bool = False

    @abstractmethod
    def _found(self) -> Content | None:
        """Find out more; the whole answer once it is there."""
        raise AssertionError("an answer defines _found")

    def go_on(self) -> bool:
        """Do the next part; whether the answer was sent, or nobody waits for it any more."""
        channel = self._channel
        if not channel.is_open():
            return True
        if self._content is None:
            self._content = self._found()
        if self._content is None or not self._content.go_on():
            self._waited = True
            return False
        if self._waited:
            channel.sent()
        return True

    def failed(self, error: Exception) -> None:
        """End the connection."""
        self._channel.failed(error)


@final
class StatusAnswer(PartedAnswer):
    """Answers `table.status`, as of when it came."""

    def __init__(self, channel: Channel, queue: TableQueue, group: str) -> None:
        super().__init__(channel)
        self._next: i64 = queue.next_message()
        self._ready: i64 = queue.ready_count()
        self._settled: i64 = queue.settled_lease(group)
        self._gathering: Gathering = queue.gather_ready()

    def _found(self) -> Content | None:
        """Look at more of what is ready."""
        if not self._gathering.go_on():
            return None
        runs = self._gathering.runs
        first = runs.first(0) if runs.size > 0 else self._next
        out = BytesWriter()
        write_i32_be(out, i32(runs.size))
        method = spec.TableStatusOk(
            int(first), int(self._next), int(self._ready), int(self._settled)
        )
        return Content(self._channel, method, out.getvalue() + runs.data)


@final
class MessagesAnswer(PartedAnswer):
    """Answers `table.messages`, as of when it came, up to its bounds."""

    def __init__(self, channel: Channel, queue: TableQueue, method: spec.TableMessages) -> None:
        super().__init__(channel)
        self._queue: TableQueue = queue
        self._next: i64 = queue.safe_messages()
        self._now_ms: i64 = queue.log_ms()
        self._gathering: Gathering = queue.gather_kept()
        self._part: i64 = queue.part_runs()
        self._run: i64 = -1
        """The run that is looked at next; -1 before they are gathered."""
        self._first: i64 = bounded(method.first)
        self._last: i64 = min(bounded(method.last), self._next - 1)
        self._rows: i64 = bounded(method.max_rows) or NUMBER_MAX
        self._bytes: i64 = bounded(method.max_bytes) or NUMBER_MAX
        self._count: i64 = 0
        self._size: i64 = 0
        self._end: i64 = max(self._first, self._last + 1)
        self._runs: BytesWriter = BytesWriter()

    def _found(self) -> Content | None:
        """Gather what there is, then look at more of what is asked for."""
        if self._run < 0:
            if not self._gathering.go_on():
                return None
            self._run = self._gathering.runs.find(self._first)
        runs = self._gathering.runs
        done: i64 = 0
        while self._run < runs.size and runs.first(self._run) <= self._last:
            if done >= self._part:
                return None
            done += 1
            if not self._take(runs.first(self._run), runs.last(self._run)):
                break
            self._run += 1
        out = BytesWriter()
        write_i32_be(out, i32(len(self._runs) // PAIR_BYTES))
        first = min(runs.first(0), self._next) if runs.size > 0 else self._next
        method = spec.TableMessagesOk(
            int(first),
            int(self._end),
            int(self._next),
            int(self._count),
            int(self._size),
            int(self._now_ms),
        )
        return Content(self._channel, method, out.getvalue() + self._runs.getvalue())

    def _take(self, low: i64, high: i64) -> bool:
        """Take of a run what is asked for; whether the bounds leave room for more."""
        first = max(low, self._first)
        wanted = min(high, self._last) - first + 1
        count = min(wanted, self._rows - self._count)
        size = 0 if count == 0 else self._queue.size_of(first, count)
        if size > self._bytes - self._size:
            count = self._queue.count_within(first, count, self._bytes - self._size)
            if self._count == 0:
                count = max(count, 1)
            size = 0 if count == 0 else self._queue.size_of(first, count)
        if count > 0:
            write_i64_be(self._runs, first)
            write_i64_be(self._runs, first + count - 1)
            self._count += count
            self._size += size
        if count < wanted:
            self._end = first + count
            return False
        return True


@final
class Listing(PartedAnswer):
    """Answers `table.checkouts`."""

    def __init__(self, channel: Channel, checkouts: list[Checkout], part_runs: i64) -> None:
        super().__init__(channel)
        self._count: int = len(checkouts)
        self._part_runs: i64 = part_runs
        checkouts.reverse()
        self._checkouts: list[Checkout] = checkouts
        self._lists: list[list[Piece]] = []
        """What is left of the checkout that is being written."""
        self._out: BytesWriter = BytesWriter()

    def _found(self) -> Content | None:
        """Write more of them."""
        out = self._out
        done: i64 = 0
        while self._checkouts or self._lists:
            if done >= self._part_runs:
                return None
            done += 1
            if self._lists:
                pieces = self._lists.pop()
                done += size_of(pieces)
                _write_runs(out, pieces)
                continue
            checkout = self._checkouts.pop()
            self._lists = checkout.messages.freeze()
            self._lists.reverse()
            write_i64_be(out, checkout.number)
            write_i32_be(out, i32(count_of(self._lists)))
        return Content(self._channel, spec.TableCheckoutsOk(self._count), out.getvalue())


@final
class GroupsAnswer(PartedAnswer):
    """Answers `table.groups`."""

    def __init__(self, channel: Channel, queue: TableQueue) -> None:
        super().__init__(channel)
        self._groups: list[Group] = queue.reader_groups()
        self._now_ms: i64 = queue.log_ms()
        self._part: i64 = queue.part_runs()
        self._next: i64 = 0
        self._out: BytesWriter = BytesWriter()

    def _found(self) -> Content | None:
        """Write more of them."""
        out = self._out
        done: i64 = 0
        while self._next < len(self._groups):
            if done >= self._part:
                return None
            group = self._groups[self._next]
            self._next += 1
            done += 1 + len(group.open)
            _write_name(out, group.name)
            write_i64_be(out, group.epoch)
            write_i64_be(out, group.settled)
            write_i64_be(out, i64(len(group.open)))
            write_i64_be(out, group.held())
            write_i64_be(out, group.lease_ms)
            write_i64_be(out, group.seen_ms)
            write_i64_be(out, group.oldest_ms())
        method = spec.TableGroupsOk(len(self._groups), int(self._now_ms))
        return Content(self._channel, method, out.getvalue())


@final
class HeldAnswer(PartedAnswer):
    """Answers `table.held`."""

    def __init__(self, channel: Channel, queue: TableQueue, group: str) -> None:
        super().__init__(channel)
        self._checkouts: list[Checkout] = queue.leases(group, 0, NUMBER_MAX)
        self._settled: i64 = queue.settled_lease(group)
        self._now_ms: i64 = queue.log_ms()
        self._part: i64 = queue.part_runs()
        self._next: i64 = 0
        self._out: BytesWriter = BytesWriter()

    def _found(self) -> Content | None:
        """Write more of them."""
        out = self._out
        count: i64 = len(self._checkouts)
        end = min(count, self._next + self._part)
        while self._next < end:
            checkout = self._checkouts[self._next]
            self._next += 1
            write_i64_be(out, checkout.number)
            write_i64_be(out, checkout.messages.count)
            write_i64_be(out, checkout.opened_ms)
        if end < count:
            return None
        method = spec.TableHeldOk(int(count), int(self._settled), int(self._now_ms))
        return Content(self._channel, method, out.getvalue())


@final
class NamesAnswer(PartedAnswer):
    """Answers `table.queues`; with no names where the caller knows what there is."""

    def __init__(self, channel: Channel, names: TableNames, known: int) -> None:
        super().__init__(channel)
        self._names: TableNames = names
        self._is_known: bool = known == int(names.version)
        self._count: int = 0
        self._out: BytesWriter = BytesWriter()

    def _found(self) -> Content | None:
        """Write more of them."""
        if not self._is_known:
            more = self._names.go_on()
            if more is not None:
                for name in more:
                    _write_name(self._out, name)
                self._count += len(more)
                return None
        method = spec.TableQueuesOk(self._count, int(self._names.version))
        return Content(self._channel, method, self._out.getvalue())


def _write_name(out: BytesWriter, text: str) -> None:
    name = text.encode()
    out.append(u8(len(name)))
    out.write(name)


def _write_runs(out: BytesWriter, pieces: list[Piece]) -> None:
    for first, last in pairs_of(pieces):
        write_i64_be(out, i64(first))
        write_i64_be(out, i64(last))


def _send_with(channel: Channel, method: spec.Method, content: bytes) -> None:
    """Send a method with content and without properties."""
    output = channel.connection.output
    frames = long_content_frames(channel.number, method, content, output.frame_max)
    if len(frames) >= PASSED_ON_BYTES:
        output.pass_on(frames)
        return
    output.buffer.write(frames)
    output.touch()
