"""A broker in memory: messages laid out as record batches, and the operations of class `table`.

It follows the documented rules, not the broker's code: each test over it says what the data source
makes of a broker that keeps those rules. Faults are planted by `breaks`, one per coming call, and
by `refuses`, numbers in the publish sequence.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from itertools import groupby

from warren.client import Channel
from warren.client.messages import Returned
from warren.client.table import (
    Acquired,
    Backlog,
    Batches,
    Checkout,
    Held,
    HeldCheckout,
    Kept,
    Names,
    OpenCheckout,
    Retaken,
    Status,
)
from warren.log.batch import FORMAT_VERSION
from warren.spark.broker import Session
from warren.wire.amqp091.errors import ChannelException, ConnectionException
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import Properties, decode_properties
from warren.wire.amqp091.spec import BasicPublish

NOTHING = Properties()
STAMP_MS = 1_700_000_000_000


def record(
    body: bytes,
    key: str = "",
    exchange: str = "",
    properties: Properties = NOTHING,
    frame_max: int = 131_072,
    channel: int = 1,
) -> bytes:
    """A message as the log keeps it: the frames of its publish."""
    method = BasicPublish(exchange=exchange, routing_key=key, mandatory=False, immediate=False)
    return content_frames(channel, method, properties.encode(), body, frame_max)


def batch(
    first: int,
    records: list[bytes],
    stamp_ms: int = STAMP_MS,
    kind: int = 1,
    flavour: int = 0,
) -> bytes:
    """A record batch, drawn in docs/formats/record-batch.md."""
    lengths = b"".join(struct.pack("<I", len(r)) for r in records)
    payload = b"".join(records)
    head = struct.pack(
        "<BBHQQQQIIqqq",
        kind,
        flavour,
        FORMAT_VERSION,
        7,
        3,
        1,
        first,
        len(records),
        0,
        stamp_ms,
        0,
        0,
    )
    tail = head + lengths + payload
    return struct.pack("<III", 0x31425257, 12 + len(tail), zlib.crc32(tail)) + tail


@dataclass
class FakeGroup:
    epoch: int = 0
    settled: int = 0
    last: int = 0
    open: dict[int, list[int]] = field(default_factory=dict)
    lapsed: dict[int, list[int]] = field(default_factory=dict)

    def lapse(self, queue: FakeQueue) -> None:
        """The lease runs out."""
        self.epoch += 1
        self.lapsed, self.open = self.open, {}
        queue.ready = sorted(queue.ready + [n for rows in self.lapsed.values() for n in rows])


@dataclass
class FakeQueue:
    """Messages by number; `ready` in order, `gone` are settled ones whose place is compacted."""

    messages: dict[int, bytes] = field(default_factory=dict)
    ready: list[int] = field(default_factory=list)
    groups: dict[str, FakeGroup] = field(default_factory=dict)
    next: int = 0
    batch_rows: int = 3
    flavours: dict[int, int] = field(default_factory=dict)
    incarnation: int = 0

    def put(self, *records: bytes) -> None:
        for one in records:
            self.messages[self.next] = one
            self.ready.append(self.next)
            self.next += 1

    def flavour_of(self, number: int) -> int:
        """As what a message is stored."""
        return self.flavours.get(number, 0)

    def lose(self, number: int) -> None:
        """What should not happen: a message leaves without being settled."""
        del self.messages[number]


def runs_of(numbers: list[int]) -> list[tuple[int, int]]:
    """Runs of numbers in the order given."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


class FakeBroker:
    """All connections to one fake; `connect` counts them, `calls` names what was asked."""

    def __init__(self) -> None:
        self.queues: dict[str, FakeQueue] = {}
        self.calls: list[str] = []
        self.connections = 0
        self.open_connections = 0
        self.asked: list[str] = []
        self.away: set[str] = set()
        self.breaks: list[BaseException] = []
        self.refuses: list[int] = []
        self.knows_backlog = True
        self.knows_names = True
        self.version = 1
        self.named: list[str] = []

    def connect(self, uri: str) -> Session:
        self.asked.append(uri)
        if uri in self.away:
            raise ConnectionRefusedError("nobody listens")
        self.connections += 1
        self.open_connections += 1
        connection = FakeConnection(self)
        return Session(connection, FakeChannel(self), connection.close, connection.open)

    def queue(self, name: str) -> FakeQueue:
        return self.queues.setdefault(name, FakeQueue())


class FakeConnection:
    """One connection; implements `warren.spark.broker.TableCalls`."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self._closed = False

    def _queue(self, call: str, name: str) -> FakeQueue:
        assert not self._closed, "a closed connection is used"
        self._broker.calls.append(call)
        if self._broker.breaks:
            raise self._broker.breaks.pop(0)
        if name not in self._broker.queues:
            raise ChannelException(404, f"no queue '{name}' in vhost '/'")
        return self._broker.queues[name]

    def _group(self, queue: FakeQueue, group: str, epoch: int) -> FakeGroup:
        if group not in queue.groups:
            raise ChannelException(406, "unknown group: acquire it first")
        state = queue.groups[group]
        if epoch != state.epoch:
            raise ChannelException(406, f"group '{group}' was fenced by a newer epoch")
        return state

    def acquire(self, queue: str, group: str, lease_ms: int) -> Acquired:
        state = self._queue("acquire", queue).groups.setdefault(group, FakeGroup())
        state.epoch += 1
        return Acquired(state.epoch, state.settled)

    def checkout(
        self, queue: str, group: str, epoch: int, after: int, rows_max: int, bytes_max: int,
        up_to: int,
    ) -> Checkout:  # fmt: skip
        q = self._queue("checkout", queue)
        state = self._group(q, group, epoch)
        for number in sorted(state.open):
            if number > after:
                return self._checkout(state, number)
        taken: list[int] = []
        size = 0
        for number in q.ready:
            size += len(q.messages[number])
            if len(taken) == rows_max or (taken and size > bytes_max):
                break
            if number <= up_to:
                taken.append(number)
        if not taken:
            return Checkout(after, 0, 0, [])
        gone = set(taken)
        q.ready = [number for number in q.ready if number not in gone]
        state.last += 1
        state.open[state.last] = taken
        return self._checkout(state, state.last)

    def _checkout(self, state: FakeGroup, number: int) -> Checkout:
        numbers = state.open[number]
        return Checkout(number, len(numbers), len(numbers), runs_of(numbers))

    def checkouts(self, queue: str, group: str, after: int, up_to: int) -> list[OpenCheckout]:
        state = self._queue("checkouts", queue).groups.get(group, FakeGroup())
        return [
            OpenCheckout(number, runs_of(state.open[number]))
            for number in sorted(state.open)
            if after < number <= up_to
        ]

    def read(self, queue: str, first: int, last: int, bytes_max: int) -> Batches:
        q = self._queue("read", queue)
        out = b""
        number = first - first % q.batch_rows
        while number <= last and len(out) < bytes_max:
            span = range(number, number + q.batch_rows)
            held = [n for n in span if n in q.messages]
            for low, high in runs_of(held):
                for flavour, run in groupby(range(low, high + 1), q.flavour_of):
                    span = list(run)
                    out += batch(span[0], [q.messages[n] for n in span], flavour=flavour)
            number += q.batch_rows
        return Batches(number, out)

    def settle(self, queue: str, group: str, epoch: int, up_to: int) -> None:
        q = self._queue("settle", queue)
        state = self._group(q, group, epoch)
        for number in [n for n in state.open if n <= up_to]:
            for message in state.open.pop(number):
                del q.messages[message]
        state.settled = max(state.settled, min(up_to, state.last))

    def release(self, queue: str, group: str, epoch: int) -> None:
        q = self._queue("release", queue)
        state = self._group(q, group, epoch)
        for number in list(state.open):
            q.ready = sorted(q.ready + state.open.pop(number))

    def retake(self, queue: str, group: str, epoch: int, number: int) -> Retaken:
        q = self._queue("retake", queue)
        state = self._group(q, group, epoch)
        wanted = state.lapsed.get(number, [])
        gone = [each for each in wanted if each not in q.ready]
        if gone:
            return Retaken(0, len(gone), runs_of(gone))
        if wanted:
            q.ready = [each for each in q.ready if each not in wanted]
            state.open[number] = state.lapsed.pop(number)
        return Retaken(len(wanted), 0, runs_of(wanted))

    def status(self, queue: str, group: str = "") -> Status:
        q = self._queue("status", queue)
        settled = q.groups[group].settled if group in q.groups else 0
        first = min(q.ready, default=q.next)
        return Status(first, q.next, len(q.ready), settled, runs_of(q.ready))

    def backlog(self, queue: str, group: str = "") -> Backlog:
        q = self._queue("backlog", queue)
        if not self._broker.knows_backlog:
            raise ConnectionException(503, "unimplemented method")
        settled = q.groups[group].settled if group in q.groups else 0
        size = sum(len(q.messages[number]) for number in q.ready)
        return Backlog(
            min(q.ready, default=q.next), q.next, len(q.ready), size, settled, STAMP_MS + 90_000
        )

    def held(self, queue: str, group: str) -> Held:
        state = self._queue("held", queue).groups.get(group, FakeGroup())
        open_ = [HeldCheckout(number, len(state.open[number]), -1) for number in sorted(state.open)]
        return Held(state.settled, open_)

    def messages(
        self, queue: str, first: int, last: int, rows_max: int = 0, bytes_max: int = 0
    ) -> Kept:
        q = self._queue("messages", queue)
        if not self._broker.knows_names:
            raise ConnectionException(503, "unimplemented method")
        end = max(first, min(last + 1, q.next))
        told: list[int] = []
        size = 0
        for number in sorted(n for n in q.messages if first <= n <= last):
            more = len(q.messages[number])
            if (rows_max and len(told) == rows_max) or (
                bytes_max and told and size + more > bytes_max
            ):
                end = number
                break
            told.append(number)
            size += more
        low = min(q.messages, default=q.next)
        return Kept(low, end, q.next, len(told), size, STAMP_MS + 90_000, runs_of(told))

    def queues(self, known: int = 0) -> Names:
        assert not self._closed, "a closed connection is used"
        broker = self._broker
        broker.calls.append("queues")
        if not broker.knows_names:
            raise ConnectionException(503, "unimplemented method")
        names = list(broker.queues)
        if names != broker.named:
            broker.named = names
            broker.version += 1
        return Names(broker.version, None if known == broker.version else names)

    def identify(self, queue: str) -> int:
        return self._queue("identify", queue).incarnation

    def open(self) -> Channel:
        raise NotImplementedError("what needs a whole channel is tested with a broker")

    def close(self) -> None:
        self._broker.open_connections -= 0 if self._closed else 1
        self._closed = True


class FakeChannel:
    """Publishes into the fake's queues; implements `warren.spark.broker.Publishing`."""

    def __init__(self, broker: FakeBroker) -> None:
        self.returned: list[Returned] = []
        self._broker = broker
        self._confirming = False
        self._sequence = 0

    def confirm_select(self) -> None:
        self._confirming = True

    def publish(
        self, exchange: str, routing_key: str, body: bytes, properties: bytes, mandatory: bool
    ) -> int:
        assert self._confirming
        self._sequence += 1
        if exchange == "" and routing_key in self._broker.queues:
            decoded = decode_properties(properties, 0, len(properties))
            self._broker.queues[routing_key].put(record(body, routing_key, properties=decoded))
        elif mandatory:
            self.returned.append(Returned(312, "NO_ROUTE", exchange, routing_key, properties, body))
        return self._sequence

    def wait_for_confirms(self) -> list[int]:
        refused, self._broker.refuses = self._broker.refuses, []
        return refused
