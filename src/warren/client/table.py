"""Class `table`: a queue read as a table, for a group of readers with durable checkouts.

Contents of the answers, all numbers big-endian::

    runs      = u32 count, count x (i64 first, i64 last)         message numbers, both included
    checkout-ok, status-ok, messages-ok: runs
    checkouts-ok: for each open checkout i64 number, then its runs
    read-ok: record batches as they lie in the log
    groups-ok: for each group u8 and so many bytes of its name, seven i64 in the order of
        `GroupState`, whose age is told by since when the checkout is open, 0 for unknown
    held-ok: for each open checkout i64 number, messages, and since when it is open, likewise
    queues-ok: for each queue u8 and so many bytes of its name

Apart from `acquire`, each call may be repeated without a further effect.
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.client.channel import Channel
from warren.wire.amqp091 import spec
from warren.wire.amqp091.errors import ConnectionException

Runs = list[tuple[int, int]]

_RUN_BYTES: Final[i64] = 16
_GROUP_BYTES: Final[i64] = 56
_HELD_BYTES: Final[i64] = 24
_U32: Final[i64] = 0xFFFFFFFF


class Acquired(NamedTuple):
    """A group taken over: its new epoch, and the number of the last checkout settled in it."""

    epoch: int
    settled: int


class Checkout(NamedTuple):
    """Messages that a group has taken under one number.

    Attributes:
        number: The checkout's number; the caller's `after` if there was nothing to take.
        messages: How many it holds.
        size_bytes: Their size, estimated.
        runs: Which they are.
    """

    number: int
    messages: int
    size_bytes: int
    runs: Runs


class OpenCheckout(NamedTuple):
    """A checkout that is not settled."""

    number: int
    runs: Runs


class Batches(NamedTuple):
    """Record batches, and the message number at which to continue reading."""

    next: int
    data: bytes


class Status(NamedTuple):
    """A queue as a group sees it.

    Attributes:
        first: The first message there is.
        next: The number the next message will get.
        ready: How many messages are ready.
        settled: The group's last settled checkout; 0 before the first.
        runs: The ready messages.
    """

    first: int
    next: int
    ready: int
    settled: int
    runs: Runs


class Retaken(NamedTuple):
    """What came of a retake.

    Attributes:
        rows: Messages of the checkout, which is open; 0 if it is not.
        gone: Messages that left the queue or were with others since, for which nothing was taken.
        runs: The checkout's, or those that are gone.
    """

    rows: int
    gone: int
    runs: Runs


class GroupState(NamedTuple):
    """A group of readers of a queue.

    Attributes:
        name: What it is called.
        epoch: Grows with each `acquire`.
        settled: The number of the last checkout that is settled; 0 before the first.
        open: How many checkouts are not settled.
        held: The messages in those.
        lease_ms: They go back after so long without a call; 0 for never.
        called_ms: When it last called, in milliseconds since 1970.
        oldest_ms: For how long its oldest checkout has been open, by the time of the queue's log;
            -1 if there is none, or it was taken before the nodes kept that.
    """

    name: str
    epoch: int
    settled: int
    open: int
    held: int
    lease_ms: int
    called_ms: int
    oldest_ms: int


class HeldCheckout(NamedTuple):
    """A checkout that is not settled, without what is in it.

    Attributes:
        age_ms: For how long it has been open, by the time of the queue's log; -1 if that is not
            known: it was taken before the nodes kept it.
    """

    number: int
    messages: int
    age_ms: int


class Held(NamedTuple):
    """What a group has settled, and what it has not."""

    settled: int
    open: list[HeldCheckout]


class Backlog(NamedTuple):
    """What waits in a queue.

    Attributes:
        first: The message that is handed out next; `next` if none is ready.
        next: The number the next message will get.
        ready: How many messages are ready.
        size_bytes: What those take.
        settled: The group's last settled checkout; 0 before the first.
        now_ms: The time of the queue's log, in milliseconds since 1970.
    """

    first: int
    next: int
    ready: int
    size_bytes: int
    settled: int
    now_ms: int


class Kept(NamedTuple):
    """Messages that are in a queue, those that consumers or groups hold among them.

    Attributes:
        first: The first message there is; `next` if there is none.
        end: All messages before this number are told of, from where it was asked on.
        next: The number the next message will get.
        rows: How many messages are in `runs`.
        size_bytes: What those take.
        now_ms: The time of the queue's log, in milliseconds since 1970.
        runs: Which they are.
    """

    first: int
    end: int
    next: int
    rows: int
    size_bytes: int
    now_ms: int
    runs: Runs


class Names(NamedTuple):
    """The queues of a vhost that the caller may read as tables.

    Attributes:
        version: For the next call; while it stays the same, so do the names.
        names: In no order; None if they are those that the caller knows.
    """

    version: int
    names: list[str] | None


@final
class Tables:
    """The calls of class `table`, on a channel of its own.

    Errors are those of a channel's calls; 406 if another reader acquired the group, the group is
    unknown, or the queue cannot be read as a table.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def acquire(self, queue: str, group: str, lease_ms: int) -> Acquired:
        """Take a group over; every older epoch of it is refused from now on."""
        reply = self._channel.call(spec.TableAcquire(queue=queue, group=group, lease_ms=lease_ms))
        if not isinstance(reply, spec.TableAcquireOk):
            raise _unexpected(reply)
        return Acquired(reply.epoch, reply.settled)

    def checkout(
        self,
        queue: str,
        group: str,
        epoch: int,
        after: int,
        rows_max: int,
        bytes_max: int,
        up_to: int,
    ) -> Checkout:
        """The lowest open checkout above `after`, made from ready messages if there is none.

        Args:
            rows_max, bytes_max: Bounds of a new checkout; 0 for none.
            up_to: The highest message number to take.
        """
        reply = self._channel.call(
            spec.TableCheckout(
                queue=queue,
                group=group,
                epoch=epoch,
                after=after,
                max_rows=rows_max,
                max_bytes=bytes_max,
                up_to=up_to,
            )
        )
        if not isinstance(reply, spec.TableCheckoutOk):
            raise _unexpected(reply)
        runs = decode_runs(self._channel.reply_content())
        return Checkout(reply.number, reply.count, reply.bytes, runs)

    def checkouts(self, queue: str, group: str, after: int, up_to: int) -> list[OpenCheckout]:
        """The open checkouts with `after` < number <= `up_to`, in order."""
        reply = self._channel.call(
            spec.TableCheckouts(queue=queue, group=group, after=after, up_to=up_to)
        )
        if not isinstance(reply, spec.TableCheckoutsOk):
            raise _unexpected(reply)
        return decode_checkouts(self._channel.reply_content(), reply.count)

    def read(self, queue: str, first: int, last: int, bytes_max: int) -> Batches:
        """Record batches holding messages from `first` on, not beyond `last`."""
        reply = self._channel.call(
            spec.TableRead(queue=queue, first=first, last=last, max_bytes=bytes_max)
        )
        if not isinstance(reply, spec.TableReadOk):
            raise _unexpected(reply)
        return Batches(reply.next, self._channel.reply_content())

    def settle(self, queue: str, group: str, epoch: int, up_to: int) -> None:
        """Remove the messages of all checkouts up to a number for good."""
        reply = self._channel.call(
            spec.TableSettle(queue=queue, group=group, epoch=epoch, up_to=up_to)
        )
        if not isinstance(reply, spec.TableSettleOk):
            raise _unexpected(reply)

    def release(self, queue: str, group: str, epoch: int) -> None:
        """Give all open checkouts of a group back to the queue."""
        reply = self._channel.call(spec.TableRelease(queue=queue, group=group, epoch=epoch))
        if not isinstance(reply, spec.TableReleaseOk):
            raise _unexpected(reply)

    def retake(self, queue: str, group: str, epoch: int, number: int) -> Retaken:
        """Have a checkout be open again that its group had when its lease ran out.

        Brokers before it close the connection; 540 or so where not all nodes know of it.
        """
        reply = self._channel.call(
            spec.TableRetake(queue=queue, group=group, epoch=epoch, number=number)
        )
        if not isinstance(reply, spec.TableRetakeOk):
            raise _unexpected(reply)
        runs = decode_runs(self._channel.reply_content())
        return Retaken(reply.count, reply.gone, runs)

    def delete(self, queue: str, group: str) -> None:
        """Have a group be gone; what it holds goes back to the queue."""
        reply = self._channel.call(spec.TableDelete(queue=queue, group=group))
        if not isinstance(reply, spec.TableDeleteOk):
            raise _unexpected(reply)

    def identify(self, queue: str) -> int:
        """What tells a queue from one of the same name that was before it; never 0."""
        reply = self._channel.call(spec.TableIdentify(queue=queue))
        if not isinstance(reply, spec.TableIdentifyOk):
            raise _unexpected(reply)
        return reply.incarnation

    def groups(self, queue: str) -> list[GroupState]:
        """All groups of a queue, with nothing changed. Brokers before it close the connection."""
        reply = self._channel.call(spec.TableGroups(queue=queue))
        if not isinstance(reply, spec.TableGroupsOk):
            raise _unexpected(reply)
        return decode_groups(self._channel.reply_content(), reply.count, reply.now_ms)

    def held(self, queue: str, group: str) -> Held:
        """The open checkouts of a group in order, with nothing changed; see `groups`."""
        reply = self._channel.call(spec.TableHeld(queue=queue, group=group))
        if not isinstance(reply, spec.TableHeldOk):
            raise _unexpected(reply)
        open_ = decode_held(self._channel.reply_content(), reply.count, reply.now_ms)
        return Held(reply.settled, open_)

    def backlog(self, queue: str, group: str = "") -> Backlog:
        """What waits, with nothing changed. Brokers before it close the connection."""
        reply = self._channel.call(spec.TableBacklog(queue=queue, group=group))
        if not isinstance(reply, spec.TableBacklogOk):
            raise _unexpected(reply)
        return Backlog(
            reply.first, reply.next, reply.ready, reply.bytes, reply.settled, reply.now_ms
        )

    def messages(
        self, queue: str, first: int, last: int, rows_max: int = 0, bytes_max: int = 0
    ) -> Kept:
        """The messages that are in a queue. Brokers before it close the connection.

        Args:
            first, last: The lowest and the highest number that is asked for.
            rows_max, bytes_max: Bounds of what is told of, one message at least; 0 for none.
        """
        reply = self._channel.call(
            spec.TableMessages(
                queue=queue, first=first, last=last, max_rows=rows_max, max_bytes=bytes_max
            )
        )
        if not isinstance(reply, spec.TableMessagesOk):
            raise _unexpected(reply)
        runs = decode_runs(self._channel.reply_content())
        return Kept(
            reply.first, reply.end, reply.next, reply.count, reply.bytes, reply.now_ms, runs
        )

    def queues(self, known: int = 0) -> Names:
        """The queues that can be read. Brokers before it close the connection.

        Args:
            known: The version of the names that the caller has; 0 for none.
        """
        reply = self._channel.call(spec.TableQueues(known=known))
        if not isinstance(reply, spec.TableQueuesOk):
            raise _unexpected(reply)
        names = decode_names(self._channel.reply_content(), reply.count)
        return Names(reply.version, None if known and reply.version == known else names)

    def status(self, queue: str, group: str = "") -> Status:
        """What a queue and a group hold, with nothing changed; no group if `group` is empty."""
        reply = self._channel.call(spec.TableStatus(queue=queue, group=group))
        if not isinstance(reply, spec.TableStatusOk):
            raise _unexpected(reply)
        runs = decode_runs(self._channel.reply_content())
        return Status(reply.first, reply.next, reply.ready, reply.settled, runs)


def _unexpected(reply: spec.Method) -> ConnectionException:
    return ConnectionException(505, f"got {reply.NAME}, which answers something else")


def _malformed() -> ConnectionException:
    return ConnectionException(502, "malformed content in an answer of class table")


def decode_runs(data: bytes) -> Runs:
    """Read runs that fill `data`; `ConnectionException` 502 if they do not."""
    runs: Runs = []
    if _read_runs(data, 0, runs) != len(data):
        raise _malformed()
    return runs


def decode_checkouts(data: bytes, count: int) -> list[OpenCheckout]:
    """Read `count` checkouts that fill `data`; `ConnectionException` 502 if they do not."""
    checkouts: list[OpenCheckout] = []
    offset: i64 = 0
    for _ in range(count):
        if len(data) - offset < 8:
            raise _malformed()
        number = int(read_i64_be(data, offset))
        runs: Runs = []
        offset = _read_runs(data, offset + 8, runs)
        checkouts.append(OpenCheckout(number, runs))
    if offset != len(data):
        raise _malformed()
    return checkouts


def decode_groups(data: bytes, count: int, now_ms: int) -> list[GroupState]:
    """Read `count` groups that fill `data`; `ConnectionException` 502 if they do not.

    Args:
        now_ms: The time of the queue's log.
    """
    groups: list[GroupState] = []
    at: i64 = 0
    for _ in range(count):
        end = at + 1 + i64(data[at]) if at < len(data) else i64(len(data))
        if end + _GROUP_BYTES > len(data):
            raise _malformed()
        name = data[at + 1 : end].decode("utf-8", "replace")
        numbers = [int(read_i64_be(data, end + 8 * each)) for each in range(6)]
        numbers.append(_age(int(read_i64_be(data, end + 48)), now_ms))
        groups.append(GroupState(name, *numbers))
        at = end + _GROUP_BYTES
    if at != len(data):
        raise _malformed()
    return groups


def decode_held(data: bytes, count: int, now_ms: int) -> list[HeldCheckout]:
    """Read `count` checkouts that fill `data`; `ConnectionException` 502 if they do not.

    Args:
        now_ms: The time of the queue's log.
    """
    if count * int(_HELD_BYTES) != len(data):
        raise _malformed()
    held: list[HeldCheckout] = []
    at: i64 = 0
    while at < len(data):
        opened_ms = int(read_i64_be(data, at + 16))
        held.append(
            HeldCheckout(
                int(read_i64_be(data, at)),
                int(read_i64_be(data, at + 8)),
                _age(opened_ms, now_ms),
            )
        )
        at += _HELD_BYTES
    return held


def decode_names(data: bytes, count: int) -> list[str]:
    """Read `count` names that fill `data`; `ConnectionException` 502 if they do not."""
    names: list[str] = []
    at: i64 = 0
    while at < len(data):
        end = at + 1 + i64(data[at])
        if end > len(data):
            raise _malformed()
        names.append(data[at + 1 : end].decode("utf-8", "replace"))
        at = end
    if len(names) != count:
        raise _malformed()
    return names


def _age(since_ms: int, now_ms: int) -> int:
    """For how long something has been so; -1 if that is not known."""
    return max(now_ms - since_ms, 0) if since_ms > 0 else -1


def _read_runs(data: bytes, offset: i64, runs: Runs) -> i64:
    """Append the runs that start at `offset`; gives where they end."""
    if len(data) - offset < 4:
        raise _malformed()
    count = i64(read_i32_be(data, offset)) & _U32
    offset += 4
    if count * _RUN_BYTES > len(data) - offset:
        raise _malformed()
    for _ in range(count):
        runs.append((int(read_i64_be(data, offset)), int(read_i64_be(data, offset + 8))))
        offset += _RUN_BYTES
    return offset
