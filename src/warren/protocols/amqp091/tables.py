"""Class `table`: queues as tables, for analysis over an ordinary channel.

Reads hand out record batches as they lie in the log; the reader decodes them. A durable checkout
takes messages for a named group, independent of connections; see `warren.queues.groups`.

Contents of answers, all numbers big-endian: runs are a u32 count, then `i64 first, i64 last` each;
`checkouts-ok` carries, for each checkout, its i64 number and then its runs.

Source: docs/formats/table-class.md; permissions as for `basic.get` (read).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.errors import ChannelException, ConnectionException
from warren.limits import TABLE_READ_BYTES_MAX
from warren.log.listener import RawReader
from warren.queues import commands
from warren.queues.fifo import FENCED, UNKNOWN_GROUP
from warren.queues.links import Reply
from warren.queues.quorum import QuorumQueue
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames

if TYPE_CHECKING:
    from warren.protocols.amqp091.channel import Channel, Pending

ROWS_MAX: Final = 100_000_000
NUMBER_MAX: Final = 1 << 62
"""More than any number in a queue. The wire has 64 bits without a sign, the machine 64 with one."""


def bounded(number: int) -> int:
    """A number from the wire, cut to what the machine can count with."""
    return min(number, NUMBER_MAX)


def handle(channel: Channel, method: spec.Method) -> None:
    """Handle a method of class `table`.

    Raises:
        ChannelException: 404 no such queue, 406 not a quorum queue, 403 no permission.
        ConnectionException: 541, this node is being given its copy of the queue anew.
    """
    if isinstance(method, spec.TableRead):
        queue = _queue(channel, method.queue)
        if bounded(method.last) < queue.fifo.next_message:
            _read(channel, queue, method)
        else:
            # Another node may have told of rows that this one has yet to hear of. An empty command
            # is answered when it has everything that was there before.
            _ask(channel, queue, method, BytesWriter())
    elif isinstance(method, spec.TableStatus):
        _status(channel, _queue(channel, method.queue), method.group)
    elif isinstance(method, spec.TableCheckouts):
        _checkouts(channel, _queue(channel, method.queue), method)
    elif isinstance(method, spec.TableAcquire):
        queue = _queue(channel, method.queue)
        if not method.group:
            raise ChannelException(406, "a group needs a name")
        out = BytesWriter()
        commands.acquire(out, method.group, bounded(method.lease_ms))
        _ask(channel, queue, method, out)
    elif isinstance(method, spec.TableCheckout):
        queue = _queue(channel, method.queue)
        out = BytesWriter()
        # The machine counts messages; a bound in bytes becomes one in messages of mean size.
        by_bytes = bounded(method.max_bytes) // max(1, queue.mean_message_bytes())
        rows = ROWS_MAX if method.max_rows <= 0 else min(method.max_rows, ROWS_MAX)
        if method.max_bytes > 0:
            rows = min(rows, max(1, int(by_bytes)))
        commands.checkout(
            out,
            method.group,
            bounded(method.epoch),
            bounded(method.after),
            rows,
            bounded(method.up_to),
        )
        _ask(channel, queue, method, out)
    elif isinstance(method, spec.TableSettle):
        queue = _queue(channel, method.queue)
        out = BytesWriter()
        commands.group_settle(out, method.group, bounded(method.epoch), bounded(method.up_to))
        _ask(channel, queue, method, out)
    elif isinstance(method, spec.TableRelease):
        queue = _queue(channel, method.queue)
        out = BytesWriter()
        commands.group_release(out, method.group, bounded(method.epoch))
        _ask(channel, queue, method, out)
    else:
        raise ConnectionException(503, "unimplemented method")


def answer(channel: Channel, request: spec.Method, reply: Reply, pending: Pending) -> None:
    """Send the answer to a method that went through the queue's machine.

    Raises:
        ChannelException: 406, the group is unknown or another reader has acquired it.
        ConnectionException: 541, this node is being given its copy of the queue anew.
    """
    if reply.code == UNKNOWN_GROUP:
        raise ChannelException(406, "unknown group: acquire it first")
    if reply.code == FENCED:
        raise ChannelException(
            406, f"fenced: another reader acquired this group (its epoch is {reply.a})"
        )
    queue = pending.queue
    assert isinstance(queue, QuorumQueue)
    if isinstance(request, spec.TableRead):
        _read(channel, queue, request)
    elif isinstance(request, spec.TableAcquire):
        channel.send(spec.TableAcquireOk(int(reply.a), int(reply.b)))
    elif isinstance(request, spec.TableCheckout):
        checkout = reply.checkout
        pairs = [] if checkout is None else checkout.messages.pairs()
        size = int(reply.b * queue.mean_message_bytes())
        out = BytesWriter()
        _write_runs(out, pairs)
        _send_with(channel, spec.TableCheckoutOk(int(reply.a), int(reply.b), size), out.getvalue())
    elif isinstance(request, spec.TableSettle):
        channel.send(spec.TableSettleOk())
    elif isinstance(request, spec.TableRelease):
        channel.send(spec.TableReleaseOk())
    else:
        raise AssertionError(f"no answer to {request.NAME}")


@final
class TableReader(RawReader):
    """Waits for the batches that a `table.read` asked for."""

    def __init__(self, channel: Channel, pending: Pending) -> None:
        self._channel: Channel = channel
        self._pending: Pending = pending

    def raw_read(self, data: bytes, next_message: int, error: BaseException | None) -> None:
        """Send them."""
        channel = self._channel
        if not channel.is_open():
            return
        if error is not None:
            channel.refused(ConnectionException(541, f"the log could not be read: {error}"))
            return
        _send_with(channel, spec.TableReadOk(next_message), data)
        channel.go_on()


def _queue(channel: Channel, name: str) -> QuorumQueue:
    queue = channel.session.queue_for(name, "read")
    if not isinstance(queue, QuorumQueue):
        raise ChannelException(406, f"{queue} is no quorum queue and cannot be read as a table")
    return queue


def _read(channel: Channel, queue: QuorumQueue, method: spec.TableRead) -> None:
    if not queue.whole():
        raise ConnectionException(541, f"{queue} is being copied to this node: read again")
    limit = min(max(method.max_bytes, 1), TABLE_READ_BYTES_MAX)
    reader = TableReader(channel, channel.wait(method))
    queue.log.read_raw(bounded(method.first), bounded(method.last), limit, reader)


def _ask(channel: Channel, queue: QuorumQueue, method: spec.Method, out: BytesWriter) -> None:
    pending = channel.wait(method)
    pending.queue = queue
    queue.ask(out.getvalue(), pending)


def _status(channel: Channel, queue: QuorumQueue, group_name: str) -> None:
    fifo = queue.fifo
    pairs = fifo.ready_pairs()
    group = fifo.groups.get(group_name)
    settled = 0 if group is None else int(group.settled)
    first = pairs[0][0] if pairs else int(fifo.next_message)
    out = BytesWriter()
    _write_runs(out, pairs)
    method = spec.TableStatusOk(first, int(fifo.next_message), int(fifo.ready_count()), settled)
    _send_with(channel, method, out.getvalue())


def _checkouts(channel: Channel, queue: QuorumQueue, method: spec.TableCheckouts) -> None:
    group = queue.fifo.groups.get(method.group)
    out = BytesWriter()
    count = 0
    if group is not None:
        for checkout in group.open:
            if method.after < checkout.number <= method.up_to:
                count += 1
                write_i64_be(out, checkout.number)
                _write_runs(out, checkout.messages.pairs())
    _send_with(channel, spec.TableCheckoutsOk(count), out.getvalue())


def _write_runs(out: BytesWriter, pairs: list[tuple[int, int]]) -> None:
    write_i32_be(out, i32(len(pairs)))
    for first, last in pairs:
        write_i64_be(out, i64(first))
        write_i64_be(out, i64(last))


def _send_with(channel: Channel, method: spec.Method, content: bytes) -> None:
    """Send a method with content and without properties."""
    output = channel.connection.output
    output.buffer.write(
        content_frames(channel.number, method, b"\x00\x00", content, output.frame_max)
    )
    output.touch()
