"""A group's hold on a queue: the driver's side of a streaming query that drains.

How exactly-once comes about. Messages leave the queue in numbered checkouts, which the broker keeps
until they are settled; the number is Spark's offset. Spark logs the offset before a batch runs and
its commit after, and both survive a crash:

- crash before the offset was logged: the checkout is still open and is handed out again;
- crash before the commit was logged: the batch runs again, on the same checkout;
- crash before the checkout was settled: the next run settles it, since the offset it starts from
  says that the batch before was committed;
- a lease ran out before the next run: it takes the same checkout again, if it is untouched.

A sink that has a batch already, by its id, skips it, and Spark commits the batch without having
planned it. Its messages were never read, so they go back to the queue and come with a later batch.

Spark tells a source of a commit one batch late and of the last one never, so what a query starts
from is settled as soon as it is seen, and with the option `checkpointLocation` as soon as Spark has
committed it. Nothing is settled when a query stops.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from warren.errors import BrokerError
from warren.spark.broker import (
    Backlog,
    Fenced,
    OpenCheckout,
    RowsLost,
    TableCalls,
    is_fenced,
    is_unknown_group,
    is_unknown_method,
    refusal_code,
)
from warren.spark.calling import PatientCaller
from warren.spark.checkpoint import Place
from warren.spark.leases import LeaseKeeper
from warren.spark.options import UNBOUNDED, ReadOptions

T = TypeVar("T")

#: How long an idle query may go without finding out that it was fenced.
_LOOK_SECONDS: Final = 5.0

#: Seconds between two looks of an idle query, at first and at most.
_PAUSE: Final = 0.05
_PAUSE_MAX: Final = 1.0


#: Stretches of messages that a text names.
_NAMED_MAX: Final = 20


class TakenCheckout(NamedTuple):
    """A checkout that a group has: its place, and how many messages and bytes are in it."""

    place: Place
    rows: int
    size_bytes: int


class Lag(NamedTuple):
    """How far a group is behind in its queue.

    Attributes:
        settled: Its last settled checkout.
        next: The number the next message will get.
        rows: Messages that are ready.
        size_bytes: What those take; -1 where the broker is too old to tell.
        seconds: For how long the one of them that comes next has been in the queue; likewise.
    """

    settled: int
    next: int
    rows: int
    size_bytes: int
    seconds: int


def check_epoch(caller: PatientCaller, options: ReadOptions, queue: str, epoch: int) -> None:
    """See, without a reader, whether a group is still in an epoch: settling nothing says so.

    Raises:
        Fenced: Another query has the group.
    """
    try:
        caller.call(lambda tables: tables.settle(queue, options.group, epoch, 0))
    except BrokerError as error:
        if not is_fenced(error):
            raise
        raise Fenced(
            f"another query took over group {options.group!r} of queue {queue!r}"
        ) from error


class GroupReader:
    """One group of one queue, acquired when it is first needed and kept until it is fenced.

    Lives in the process that Spark runs for the source on the driver. Not for two threads, but for
    those that renew the lease and settle what was committed.
    """

    def __init__(
        self,
        options: ReadOptions,
        queue: str,
        caller: PatientCaller,
        leases: LeaseKeeper,
        pause_max: float = _PAUSE_MAX,
    ) -> None:
        """Know what to read; a connection is made when it is first needed.

        Args:
            caller: Asks the broker; its maker closes it.
            leases: Keeps the group's lease, if it has one.
            pause_max: Seconds between two looks while nothing comes, at most.
        """
        self._options = options
        self._queue = queue
        self._group = options.group
        self._strict = options.fail_on_data_loss
        self._caller = caller
        self._leases = leases
        self._incarnation: int | None = None
        self._epoch = 0
        self._settled = 0
        self._newest = 0  # the highest checkout that is known to be of this queue
        self._idle_until = 0.0
        self._look_at = 0.0
        self._check_at = 0.0
        self._pause = _PAUSE
        self._pause_max = pause_max
        self._seen: Backlog | None = None
        self._tells_backlog = True
        self._head = (-1, 0)  # the message that was seen to come next, and when it came

    # --- what Spark asks ------------------------------------------------------------------------

    def epoch(self) -> int:
        """That in which this process acquired the group; 0 before."""
        return self._epoch

    def settled(self) -> Place:
        """The last settled checkout: where a query without a checkpoint begins."""
        return Place(self.backlog().settled, self.incarnation())

    def incarnation(self) -> int:
        """Which queue of its name this is; 0 where the broker cannot tell."""
        if self._incarnation is None:
            try:
                self._incarnation = self._call(lambda tables: tables.identify(self._queue))
            except BrokerError as error:
                if not is_unknown_method(error):
                    raise
                self._incarnation = 0
        return self._incarnation

    def backlog(self) -> Backlog:
        """What waits in the queue now; nothing is touched."""
        if self._tells_backlog:
            try:
                self._seen = self._call(lambda tables: tables.backlog(self._queue, self._group))
                return self._seen
            except BrokerError as error:
                if not is_unknown_method(error):
                    raise
                self._tells_backlog = False
        old = self._call(lambda tables: tables.status(self._queue, self._group))
        self._seen = Backlog(old.first, old.next, old.ready, -1, old.settled, 0)
        return self._seen

    def waiting(self) -> int:
        """How many messages are ready.

        Raises:
            Fenced: Another query has the group; a look at that is taken every few seconds.
        """
        now = time.monotonic()
        if self._epoch and now >= self._check_at:
            self._check_at = now + _LOOK_SECONDS
            self.check()
        return self.backlog().ready

    def lag(self) -> Lag:
        """How far the group is behind, for people, who do not mind a second."""
        idle = self._seen is not None and time.monotonic() < self._look_at
        seen = self._seen if idle and self._seen is not None else self.backlog()
        seconds = -1 if seen.size_bytes < 0 else 0
        if seen.size_bytes >= 0 and seen.ready > 0:
            seconds = max(0, seen.now_ms - self._came_ms(seen.first, seen.now_ms)) // 1000
        return Lag(seen.settled, seen.next, seen.ready, seen.size_bytes, seconds)

    def _came_ms(self, number: int, now_ms: int) -> int:
        """When the broker took a message, in milliseconds since 1970; now if it has gone since."""
        if self._head[0] != number:
            from warren.spark.bounds import next_stamp  # what repairs groups needs no numpy

            found, stamp_ms = next_stamp(self._caller, self._queue, number, number)
            self._head = (number, stamp_ms if found == number else now_ms)
        return self._head[1]

    def take(
        self, start: Place, rows_max: int, bytes_max: int, up_to: int, after: int = 0
    ) -> TakenCheckout | None:
        """Settle what is processed, then take the next messages.

        Args:
            start: The last checkout processed; everything up to it is settled.
            rows_max: Messages to take at most.
            bytes_max: Their bytes at most; one message is taken whatever its size.
            up_to: Take no message with a higher number.
            after: The last checkout that was taken since `start`, if there is one.

        Returns:
            The checkout to process next; None if there is nothing.

        Raises:
            Fenced: Another query has the group.
            RowsLost: `start` is not a place this group can go on from.
        """
        self.settle(start)
        after = max(after, start.number)
        if not self._is_ours(start) or after > self._newest:
            after = self._settled  # Nothing of this queue is behind a place of another one.
        # An idle query asks a hundred times a second. A checkout is a command in the broker's log
        # even if it takes nothing, so while nothing comes a look now and then has to do. It does
        # not show whether another query has the group by now, hence not for ever.
        now = time.monotonic()
        if now < self._idle_until:
            if now < self._look_at:
                return None
            if self.backlog().ready == 0:
                self._rest(now)
                return None
        taken = self._call(
            lambda tables: tables.checkout(
                self._queue, self._group, self._epoch, after, rows_max, bytes_max, up_to
            )
        )
        if taken.number == after:
            self._idle_until = now + max(_LOOK_SECONDS, self._pause_max)
            self._rest(now)
            return None
        self._idle_until = 0.0
        self._pause = _PAUSE
        self._newest = max(self._newest, taken.number)
        return TakenCheckout(
            Place(taken.number, self.incarnation()), taken.messages, taken.size_bytes
        )

    def held(self, start: Place, end: Place) -> list[OpenCheckout]:
        """The checkouts after `start` up to `end`, as a logged batch names them.

        Raises:
            Fenced: Another query has the group.
            RowsLost: A checkout is not open any more.
        """
        self._hold(start)
        if not self._is_ours(end):
            return []
        after = start.number if self._is_ours(start) else self._settled
        held = self._call(
            lambda tables: tables.checkouts(self._queue, self._group, after, end.number)
        )
        if not held or held[-1].number != end.number:
            settled = end.number <= self._settled
            why = "it is settled" if settled else self._retake(end.number)
            if not why:
                return self.held(start, end)
            if self._strict:
                raise self._lost(f"checkout {end.number} is not open any more: {why}")
        return held

    def settle(self, up_to: Place) -> None:
        """Remove the messages of all checkouts up to a number; repeating it does nothing.

        Raises:
            Fenced: Another query has the group.
        """
        self._hold(up_to)
        number = up_to.number
        if self._is_ours(up_to) and self._settled < number <= self._newest:
            self._call(lambda tables: tables.settle(self._queue, self._group, self._epoch, number))
            self._settled = number

    def check(self) -> None:
        """See whether this process still has the group, which it has acquired.

        Raises:
            Fenced: Another query has the group.
        """
        self._call(
            lambda tables: tables.settle(self._queue, self._group, self._epoch, self._settled)
        )

    def settle_committed(self, up_to: Place, caller: PatientCaller) -> None:
        """Settle in a thread of another, by a connection of that.

        `settle` says so once more, which changes nothing.

        Raises:
            BrokerError: It could not be done; `settle` will.
        """
        if self._epoch and self._is_ours(up_to) and up_to.number > self._settled:
            caller.call(
                lambda tables: tables.settle(self._queue, self._group, self._epoch, up_to.number)
            )

    def give_back(self) -> None:
        """Put the messages of all open checkouts back where they were; their numbers are used up.

        Raises:
            Fenced: Another query has the group.
        """
        self._call(lambda tables: tables.release(self._queue, self._group, self._epoch))

    def forget(self) -> None:
        """Keep the lease no more: the queue is gone, or not wanted any longer."""
        self._leases.let_go(self._renew)

    # --- the hold -------------------------------------------------------------------------------

    def _hold(self, start: Place) -> None:
        """Acquire the group, once in this object's life, and see whether `start` fits it.

        Never twice: a group that another query took over is that query's.
        """
        if self._epoch:
            return
        self.incarnation()
        lease_ms = self._options.lease_ms
        acquired = self._call(lambda tables: tables.acquire(self._queue, self._group, lease_ms))
        self._epoch, self._settled = acquired
        if lease_ms:
            self._leases.keep(self._renew)
        if not self._is_ours(start):
            if self._strict:
                raise self._lost("the queue was deleted and made anew since the checkpoint")
            start = Place(0, 0)
        open_ = self._call(
            lambda tables: tables.checkouts(self._queue, self._group, self._settled, UNBOUNDED)
        )
        numbers = [each.number for each in open_]
        self._newest = max(numbers, default=self._settled)
        why = ""
        if self._settled < start.number and start.number not in numbers:
            why = self._retake(start.number)
            if not why:
                numbers.append(start.number)
        if not self._strict:
            return
        if self._settled > start.number:
            raise self._lost(
                f"the checkpoint ends at checkout {start.number}, but {self._settled} is settled: "
                "the checkpoint is an old copy, or another query has used the group"
            )
        if self._settled < start.number and start.number not in numbers:
            raise self._lost(
                f"the checkpoint ends at checkout {start.number}, which is not open any more: {why}"
            )

    def _retake(self, number: int) -> str:
        """Have a checkout be open again that the group's lease ran out with; else says why not."""
        try:
            retaken = self._call(
                lambda tables: tables.retake(self._queue, self._group, self._epoch, number)
            )
        except BrokerError as error:
            if is_unknown_method(error):
                return "its lease ran out, and the broker is too old to take its messages again"
            if refusal_code(error) != 406:
                raise
            return f"it cannot be taken again: {error}"
        if retaken.rows:
            self._newest = max(self._newest, number)
            return ""
        if not retaken.gone:
            return (
                "the queue does not know it: it was given back, the group was deleted, it has "
                "taken other messages since, or the queue was made anew"
            )
        named = [f"{first}-{last}" if first < last else f"{first}" for first, last in retaken.runs]
        more = f" and {len(named) - _NAMED_MAX} stretches more" if len(named) > _NAMED_MAX else ""
        return (
            "its lease ran out, and since then others had, or took out, "
            f"{retaken.gone} of its messages: {', '.join(named[:_NAMED_MAX])}{more}"
        )

    def _is_ours(self, place: Place) -> bool:
        """Whether a place is of the queue that there is now, as far as is known."""
        return 0 in (place.incarnation, self.incarnation()) or (
            place.incarnation == self.incarnation()
        )

    def _rest(self, now: float) -> None:
        """Nothing is there: look again in a while, and a longer one each time."""
        self._look_at = now + self._pause
        self._pause = min(self._pause * 2, self._pause_max)

    def _renew(self, tables: TableCalls) -> None:
        """Settle what is settled, which keeps the lease; called in the thread that keeps it."""
        tables.settle(self._queue, self._group, self._epoch, self._settled)

    def _lost(self, what: str) -> RowsLost:
        return RowsLost(
            f"group {self._group!r} of queue {self._queue!r}: {what}; "
            "option failOnDataLoss=false goes on regardless"
        )

    def _call(self, ask: Callable[[TableCalls], T]) -> T:
        """Ask the broker, and say what it means if another query has the group.

        Every operation can be repeated: a second `acquire` fences only ourselves, the others
        change nothing more.
        """
        try:
            return self._caller.call(ask)
        except BrokerError as error:
            if is_unknown_group(error):
                raise Fenced(
                    f"group {self._group!r} of queue {self._queue!r} is gone: it was deleted, and "
                    "what it held is back in the queue; this query ends with nothing settled"
                ) from error
            if not is_fenced(error):
                raise
            raise Fenced(
                f"another query took over group {self._group!r} of queue {self._queue!r}; "
                "this one ends. Give each query a groupId of its own; a frame that is started "
                "twice and a query with two loads of one group are two queries to the broker: "
                "write to several places from one foreachBatch"
            ) from error
