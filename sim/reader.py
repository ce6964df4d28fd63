"""Clients that read a quorum queue as a table, in groups, as an analytical job does.

Several readers of one group take it from each other now and then; the ones that lost it must be
refused. What one has checked out, another may read for it: drivers of jobs plan, executors read,
and these need not be connected to the same node.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor
from sim.model import (
    SETTLED_MAYBE,
    WAITING,
    Copy,
    QueueState,
    Violation,
    body_of,
    id_of,
)
from warren.log.batch import Header
from warren.log.reading import walk
from warren.wire.amqp091 import spec

if TYPE_CHECKING:
    from sim.stage import Stage

Runs = list[tuple[int, int]]

Shares = tuple[float, float, float, float, float]

SHARES: Final[Shares] = (0.01, 0.01, 0.02, 0.01, 0.11)
"""How often a reader whose group another one has takes it; and one that has it, again; how often it
gives all back, deletes the group, and asks for its last checkout once more."""
EAGER_SHARES: Final[Shares] = (0.3, 0.06, 0.08, 0.06, 0.1)
REST_SHARE: Final = 0.15
"""How often an eager one rests with a checkout until its lease is over."""
AGAIN_SHARE: Final = 0.4
"""How often an eager one asks for what was settled."""

NO_BOUND: Final = (1 << 63) - 1
"""A message number above all others."""


def decode_runs(data: bytes) -> Runs:
    """The runs in an answer's content."""
    count = int.from_bytes(data[:4], "big")
    numbers = [int.from_bytes(data[at : at + 8], "big") for at in range(4, 4 + 16 * count, 8)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def body_in(record: bytes) -> bytes:
    """The body of a message record, which is its publish's frames."""
    parts: list[bytes] = []
    at = 0
    while at < len(record):
        size = int.from_bytes(record[at + 3 : at + 7], "big")
        if record[at] == 3:
            parts.append(record[at + 7 : at + 7 + size])
        at += size + 8
    return b"".join(parts)


@final
class Reader(Actor):
    """One driver of one group.

    Attributes:
        executors: Readers that may read for this one, itself among them.
    """

    def __init__(
        self, world: Stage, name: str, number: int, queue: QueueState, group: str, lease_ms: int
    ) -> None:
        super().__init__(world, name, number)
        self.queue = queue
        self.group = group
        self.lease_ms = lease_ms
        self.executors: list[Reader] = [self]
        self._epoch = 0
        self._fenced = False
        self._eager = world.options.eager
        self._rests_until_ms = 0
        self._newest = 0
        self._gone = 0
        self._known_settled = 0
        self._had = 0
        self._lapsed = 0
        self._after = 0
        self._number = 0
        self._unread: Runs = []
        self._rows: list[tuple[int, Copy]] = []
        self._whole = False
        self._settling = False

    def set_up(self) -> None:
        """Declare the queue, take the group."""
        self._epoch = 0
        self._forget_checkout()
        self.declare(self.queue)
        self.call(spec.BasicQos(), self.begin)

    def _forget_checkout(self) -> None:
        self._number = 0
        self._unread = []
        self._rows = []
        self._whole = False

    def ended(self) -> None:
        """A settlement without an answer may have come through."""
        if self._settling:
            for _, copy in self._rows:
                if copy.settled == WAITING:
                    copy.settled = SETTLED_MAYBE
        self._settling = False

    def act(self) -> None:
        """The next thing a driver does, or something that a driver does after a crash."""
        if self.busy() or self.world.now_ms() < self._rests_until_ms:
            return
        back, acquire, release, delete, again = EAGER_SHARES if self._eager else SHARES
        chance = self.random.random()
        self._newest = self.world.checkouts.epoch(self.queue, self.group)
        self._gone = self.world.checkouts.gone(self.queue, self.group)
        self._known_settled = self.world.checkouts.settled_up_to(self.queue, self.group)
        if self._epoch:
            self.tolerated.add(406)
        if not self._epoch and self._fenced and chance >= back:
            # The other one works for a while.
            return
        if not self._epoch or chance < acquire:
            self._acquire()
        elif chance < acquire + release:
            self._release()
        elif chance < acquire + release + delete:
            self._delete()
        elif self._lapsed:
            self._retake()
        elif not self._number:
            self._check_out(self._after)
        elif self._eager and chance > 1 - REST_SHARE:
            self._rests_until_ms = self.world.now_ms() + 2 * self.lease_ms
        elif not self._whole:
            self._read()
        elif chance < acquire + release + delete + again:
            # As after a crash that came before the number was noted.
            self._check_out(self._after)
        else:
            self._settle()

    def _acquire(self) -> None:
        self.call(spec.TableAcquire(0, self.queue.name, self.group, self.lease_ms), self._acquired)

    def _acquired(self, method: spec.Method, content: bytes) -> None:
        if not isinstance(method, spec.TableAcquireOk):
            raise Violation(f"{self.name}: {method.NAME} answers acquire")
        self.world.checkouts.acquired(self.queue, self.group, method.epoch, self._newest)
        self.world.say("%s holds %s, epoch %d", self.name, self.group, method.epoch)
        self.world.count("acquires")
        self._epoch = method.epoch
        self._fenced = False
        self._after = method.settled
        # What it had when its lease ran out, or another reader came, it may have once more.
        self._lapsed = self._had if self._had > method.settled else 0
        if self._eager:
            # Or what the other one had.
            newest = self.world.checkouts.newest(self.queue, self.group)
            asks = newest > method.settled or self.random.random() < AGAIN_SHARE
            self._lapsed = newest if asks else 0
        self._forget_checkout()

    def _passed(self) -> None:
        self.world.checkouts.passed(self.queue, self.group, self._epoch, self._newest, self._gone)

    def _retake(self) -> None:
        number, self._lapsed = self._lapsed, 0
        self.call(
            spec.TableRetake(0, self.queue.name, self.group, self._epoch, number),
            partial(self._retaken, number),
        )

    def _retaken(self, number: int, method: spec.Method, content: bytes) -> None:
        if not isinstance(method, spec.TableRetakeOk):
            raise Violation(f"{self.name}: {method.NAME} answers retake")
        self._passed()
        if method.count == 0:
            self.world.count("retakes of what is gone")
            return
        self.world.checkouts.retaken(self.queue, self.group, number, self._known_settled)
        self._has(number, decode_runs(content))
        self.world.count("retakes")

    def _delete(self) -> None:
        self.call(spec.TableDelete(0, self.queue.name, self.group), self._deleted)

    def _deleted(self, method: spec.Method, content: bytes) -> None:
        if not isinstance(method, spec.TableDeleteOk):
            raise Violation(f"{self.name}: {method.NAME} answers delete")
        self.world.checkouts.deleted(self.queue, self.group, self._newest)
        self.world.say("%s deleted %s", self.name, self.group)
        self.world.count("groups deleted")
        self._epoch = 0
        self._forget_checkout()

    def _check_out(self, after: int) -> None:
        rows = self.random.choice((1, 5, 40, 1_000))
        self.call(
            spec.TableCheckout(
                0, self.queue.name, self.group, self._epoch, after, rows, 1_000_000, NO_BOUND
            ),
            self._checked_out,
        )

    def _checked_out(self, method: spec.Method, content: bytes) -> None:
        if not isinstance(method, spec.TableCheckoutOk):
            raise Violation(f"{self.name}: {method.NAME} answers checkout")
        self._passed()
        if method.count == 0:
            return
        self.world.count("checkouts")
        self._has(method.number, decode_runs(content))

    def _has(self, number: int, runs: Runs) -> None:
        """A checkout is this reader's."""
        self.world.checkouts.checked_out(self.queue, self.group, number, runs)
        self.world.say("%s has checkout %d: %s", self.name, number, runs)
        self._number = self._had = number
        self._unread = list(runs)
        self._rows = []
        self._whole = False

    def _read(self) -> None:
        if not self._unread:
            self._whole = True
            return
        first, last = self._unread[0]
        size = self.random.choice((1, 4_000, 1_000_000))
        executor = self.random.choice(self.executors)
        if executor.busy() or not executor.ready:
            executor = self
        executor.call(
            spec.TableRead(0, self.queue.name, first, last, size),
            partial(self._was_read, self._number, first, last),
        )

    def _was_read(
        self, number: int, first: int, last: int, method: spec.Method, content: bytes
    ) -> None:
        if not isinstance(method, spec.TableReadOk):
            raise Violation(f"{self.name}: {method.NAME} answers read")
        if self._number != number or self._unread[:1] != [(first, last)]:
            # An executor was slow, and the driver went on without it.
            return
        at = first
        header = Header()
        place = walk(content, 0, 0, header, "read") if content else -1
        while place >= 0:
            batch = header.batch(None, content, place)
            for position in range(int(batch.count)):
                row = int(batch.first) + position
                if at <= row <= last:
                    self._rows.append((row, self._row(body_in(batch.record(position)))))
                    self.world.count("rows read")
                    at = row + 1
            place = walk(content, 0, place + int(header.size), header, "read")
        # Rows that are not there any more are passed over; settling tells whether that was right.
        following = max(at, method.next)
        if following > last:
            del self._unread[0]
        else:
            self._unread[0] = (following, last)

    def _row(self, body: bytes) -> Copy:
        message = self.world.messages.get(id_of(body))
        if message is None or body != body_of(message):
            raise Violation(f"{self.name}: a row that was never published: {body[:40]!r}")
        for copy in message.copies:
            if copy.queue is self.queue:
                copy.seen += 1
                return copy
        raise Violation(f"{self.name}: {message} is in the wrong queue")

    def _settle(self) -> None:
        self._settling = True
        self.call(
            spec.TableSettle(0, self.queue.name, self.group, self._epoch, self._number),
            self._settled,
        )

    def _settled(self, method: spec.Method, content: bytes) -> None:
        if not isinstance(method, spec.TableSettleOk):
            raise Violation(f"{self.name}: {method.NAME} answers settle")
        self._settling = False
        self._passed()
        self.world.checkouts.settled_rows(self.queue, self.group, self._number, self._rows)
        self.world.say("%s settled checkout %d", self.name, self._number)
        self.world.count("checkouts settled")
        self._after = self._number
        self._forget_checkout()

    def _release(self) -> None:
        self.call(spec.TableRelease(0, self.queue.name, self.group, self._epoch), self._released)

    def _released(self, method: spec.Method, content: bytes) -> None:
        if not isinstance(method, spec.TableReleaseOk):
            raise Violation(f"{self.name}: {method.NAME} answers release")
        self._passed()
        self.world.count("releases")
        self._forget_checkout()

    def refused(self, method: spec.ChannelClose) -> None:
        """Fenced: another reader has the group, or the lease ran out."""
        self._fenced = True
        self.world.count("fenced")
