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

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from warren.errors import BrokerError
from warren.spark.broker import (
    Connect,
    Fenced,
    OpenCheckout,
    RowsLost,
    Status,
    TableCalls,
    is_fenced,
    is_unknown_group,
    is_unknown_method,
    refusal_code,
)
from warren.spark.calling import PatientCaller
from warren.spark.checkpoint import Place
from warren.spark.options import UNBOUNDED, ReadOptions

T = TypeVar("T")

#: How many times a lease is renewed in its own length, so that one failed try does no harm.
_RENEWALS: Final = 3

#: How long an idle query may go without finding out that it was fenced.
_LOOK_SECONDS: Final = 5.0

#: Seconds between two looks of an idle query, at first and at most.
_PAUSE: Final = 0.05
_PAUSE_MAX: Final = 1.0


#: Stretches of messages that a text names.
_NAMED_MAX: Final = 20


def check_epoch(caller: PatientCaller, options: ReadOptions, epoch: int) -> None:
    """See, without a reader, whether a group is still in an epoch: settling nothing says so.

    Raises:
        Fenced: Another query has the group.
    """
    try:
        caller.call(lambda tables: tables.settle(options.queue, options.group, epoch, 0))
    except BrokerError as error:
        if not is_fenced(error):
            raise
        raise Fenced(
            f"another query took over group {options.group!r} of queue {options.queue!r}"
        ) from error


class GroupReader:
    """One group of one queue, acquired when it is first needed and kept until it is fenced.

    Lives in the process that Spark runs for the source on the driver. Not for two threads, other
    than its own that renews the lease.
    """

    def __init__(self, options: ReadOptions, connect: Connect) -> None:
        """Remember what to read; nothing is connected yet.

        Args:
            connect: Opens a connection to a URI.
        """
        self._options = options
        self._queue = options.queue
        self._group = options.group
        self._strict = options.fail_on_data_loss
        self._connect = connect
        self._caller = PatientCaller(options.uris, options.retry_seconds, connect)
        self._incarnation: int | None = None
        self._epoch = 0
        self._settled = 0
        self._newest = 0  # the highest checkout that is known to be of this queue
        self._idle_until = 0.0
        self._look_at = 0.0
        self._pause = _PAUSE
        self._seen: Status | None = None
        self._stopped = threading.Event()

    # --- what Spark asks ------------------------------------------------------------------------

    def epoch(self) -> int:
        """That in which this process acquired the group; 0 before."""
        return self._epoch

    def settled(self) -> Place:
        """The last settled checkout: where a query without a checkpoint begins."""
        return Place(self.status().settled, self.incarnation())

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

    def status(self) -> Status:
        """The queue as it is, without touching it."""
        self._seen = self._call(lambda tables: tables.status(self._queue, self._group))
        return self._seen

    def lag(self) -> Status:
        """The same for people, who do not mind a second."""
        idle = self._seen is not None and time.monotonic() < self._look_at
        return self._seen if idle and self._seen is not None else self.status()

    def take(self, start: Place, rows_max: int, bytes_max: int, up_to: int) -> Place | None:
        """Settle what is processed, then take the next messages.

        Args:
            start: The last checkout processed; everything up to it is settled.
            rows_max: Messages to take at most.
            bytes_max: Their bytes at most; one message is taken whatever its size.
            up_to: Take no message with a higher number.

        Returns:
            The checkout to process next; None if there is nothing.

        Raises:
            Fenced: Another query has the group.
            RowsLost: `start` is not a place this group can go on from.
        """
        self.settle(start)
        after = start.number
        if not self._is_ours(start) or after > self._newest:
            after = self._settled  # Nothing of this queue is behind a place of another one.
        # An idle query asks a hundred times a second. A checkout is a command in the broker's log
        # even if it takes nothing, so while nothing comes a look now and then has to do. It does
        # not show whether another query has the group by now, hence not for ever.
        now = time.monotonic()
        if now < self._idle_until:
            if now < self._look_at:
                return None
            if self.status().ready == 0:
                self._rest(now)
                return None
        number = self._call(
            lambda tables: tables.checkout(
                self._queue, self._group, self._epoch, after, rows_max, bytes_max, up_to
            )
        ).number
        if number == after:
            self._idle_until = now + _LOOK_SECONDS
            self._rest(now)
            return None
        self._idle_until = 0.0
        self._pause = _PAUSE
        self._newest = max(self._newest, number)
        return Place(number, self.incarnation())

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

    def settle_committed(self, up_to: Place) -> None:
        """Settle in a thread of another, over a connection of its own and in one try.

        `settle` says so once more, which changes nothing.

        Raises:
            BrokerError: It could not be done; `settle` will.
        """
        if not self._epoch or not self._is_ours(up_to):
            return
        caller = PatientCaller(self._options.uris, 0.0, self._connect)
        try:
            caller.call(
                lambda tables: tables.settle(self._queue, self._group, self._epoch, up_to.number)
            )
        finally:
            caller.close()

    def give_back(self) -> None:
        """Put the messages of all open checkouts back where they were; their numbers are used up.

        Raises:
            Fenced: Another query has the group.
        """
        self._call(lambda tables: tables.release(self._queue, self._group, self._epoch))

    def close(self) -> None:
        """Stop renewing and disconnect. The open checkout stays open."""
        self._stopped.set()
        self._caller.close()

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
            name = f"warren lease {self._group}"
            threading.Thread(target=self._renew, name=name, daemon=True).start()
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
        self._pause = min(self._pause * 2, _PAUSE_MAX)

    def _renew(self) -> None:
        """Keep the lease while a batch takes its time: settle what is settled, over and over."""
        while not self._stopped.wait(self._options.lease_ms / 1000 / _RENEWALS):
            caller = PatientCaller(self._options.uris, 0.0, self._connect)
            try:
                caller.call(
                    lambda tables: tables.settle(
                        self._queue, self._group, self._epoch, self._settled
                    )
                )
            except BrokerError as error:
                if is_fenced(error) or is_unknown_group(error):
                    return
                # Else the next turn comes well before the lease ends.
            finally:
                caller.close()

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
