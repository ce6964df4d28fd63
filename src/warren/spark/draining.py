"""What a streaming query has of its queues: a group in each, and one end of a batch for all.

Each queue has an offset, an epoch and a fence of its own. A batch is a checkout, or some, of each
queue that had messages; where it ends in the others does not change. Queues that a pattern finds
come and go: one that comes is read from where its group is, and one that goes between two batches
is left out of the offset from then on. What a batch under way has of a queue that is gone is lost,
and an error with `failOnDataLoss`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Final

from warren.errors import BrokerError
from warren.spark.broker import Connect, Fenced, RowsLost, refusal_code
from warren.spark.calling import PatientCaller
from warren.spark.checkpoint import Place, Places
from warren.spark.group import GroupReader, Lag
from warren.spark.leases import LeaseKeeper
from warren.spark.options import UNBOUNDED, ReadOptions
from warren.spark.partition import QueueShare
from warren.spark.sharing import FairShares, pause_max
from warren.spark.subscription import Subscription

#: Seconds for which people are told the same of how far a query is behind.
_TOLD_SECONDS: Final = 1.0


class DrainedQueues:
    """The queues of one query, in the process that Spark runs for it on the driver.

    Not for two threads, but for `settle_committed`.
    """

    def __init__(self, options: ReadOptions, connect: Connect) -> None:
        """Remember what to read; nothing is connected yet."""
        self._options = options
        self._connect = connect
        self._caller = PatientCaller(options.uris, options.retry_seconds, connect)
        self._leases = LeaseKeeper(options, connect)
        self._subscription = Subscription(options, self._caller)
        self._readers: dict[str, GroupReader] = {}
        self._came: Places = {}  # where those begin that have given nothing yet
        self._lags: dict[str, Lag] = {}
        self._lags_until = 0.0
        self._shares = FairShares()

    def settled(self) -> Places:
        """The last settled checkout of each: where a query without a checkpoint begins."""
        found: Places = {}
        for queue in self._subscription.names():
            try:
                found[queue] = self._reader(queue).settled()
            except BrokerError as error:
                if not self._went(queue, error):
                    raise
        return found

    def newest(self) -> dict[str, int]:
        """The number of the newest message of each, below 0 if there never was one."""
        found: dict[str, int] = {}
        for queue in self._subscription.names():
            try:
                found[queue] = self._reader(queue).backlog().next - 1
            except BrokerError as error:
                if not self._went(queue, error):
                    raise
        return found

    def take(
        self, start: Places, rows_max: int, bytes_max: int, up_to: dict[str, int] | None
    ) -> Places:
        """Settle what is processed, then take the next messages of all queues together.

        Each queue gets its even share of what a batch may have, and what others leave of theirs.
        One whose group has a checkout open gives that, however large it is.

        Args:
            start: Where the last batch ended.
            up_to: The highest message to take of each queue, and none of others; None takes all.

        Returns:
            Where the next batch ends; `start` if there is nothing.

        Raises:
            Fenced: Another query has the group in one of them.
            RowsLost: `start` is not a place that can be gone on from.
        """
        names = self._subscription.names()
        wanted = set(names)
        end = {queue: place for queue, place in start.items() if queue in wanted}
        for queue in start.keys() - end.keys():
            self._leave(queue, start[queue])

        def take_one(queue: str, rows: int, size: int) -> tuple[int, int] | None:
            bound = UNBOUNDED if up_to is None else up_to.get(queue, -1)
            return self._take_one(queue, start, end, rows, size, bound)

        self._shares.take(names, rows_max, bytes_max, take_one, self._has_more)
        return end

    def _take_one(
        self, queue: str, start: Places, end: Places, rows: int, size: int, up_to: int
    ) -> tuple[int, int] | None:
        """Take of one queue and note where that ends; gives rows and bytes, None for nothing."""
        if up_to < 0:
            return None  # There never was a message in it, or it came after a run began.
        try:
            place = self._start(queue, start)
            before = end.get(queue, place)
            after = before.number if before.incarnation == place.incarnation else 0
            taken = self._reader(queue).take(place, rows, size, up_to, after)
        except BrokerError as error:
            if not self._went(queue, error):
                raise
            end.pop(queue, None)
            return None
        if queue in start and place.incarnation != start[queue].incarnation:
            end[queue] = place  # It is another queue of that name.
        if taken is None:
            return None
        end[queue] = taken.place
        self._came.pop(queue, None)
        return taken.rows, taken.size_bytes

    def _has_more(self, queue: str) -> bool:
        """Whether messages are ready in a queue of which some were taken."""
        try:
            return self._reader(queue).backlog().ready > 0
        except BrokerError as error:
            if not self._went(queue, error):
                raise
            return False

    def held(self, start: Places, end: Places) -> list[QueueShare]:
        """The messages of a logged batch, the same whenever they are asked for.

        Raises:
            Fenced: Another query has the group in one of the queues.
            RowsLost: Some are not there any more, and that is an error.
        """
        found: list[QueueShare] = []
        for queue, place in end.items():
            if place == start.get(queue):
                continue
            reader = self._reader(queue)
            try:
                begin = start.get(queue)
                if begin is None or (
                    self._options.pattern and begin.incarnation != place.incarnation
                ):
                    begin = reader.settled()
                if place == begin:
                    continue
                held = reader.held(begin, place)
            except BrokerError as error:
                if not self._went(queue, error):
                    raise
                if self._options.fail_on_data_loss:
                    raise RowsLost(
                        f"queue {queue!r} is gone with checkout {place.number}, which is not "
                        "processed; option failOnDataLoss=false goes on without it"
                    ) from error
                continue
            runs = [run for checkout in held for run in checkout.runs]
            if runs:
                found.append(QueueShare(queue, runs, reader.epoch()))
        return found

    def settle(self, end: Places) -> None:
        """Remove the messages of all checkouts up to where a batch ends.

        Raises:
            Fenced: Another query has the group in one of the queues.
        """
        for queue, place in end.items():
            try:
                self._reader(queue).settle(place)
            except BrokerError as error:
                if not self._went(queue, error):
                    raise

    def settle_committed(self, end: Places) -> None:
        """Settle in a thread of another, over a connection of its own and in one try.

        Raises:
            BrokerError: It could not be done, in one of the queues at least; `settle` will.
        """
        caller = PatientCaller(self._options.uris, 0.0, self._connect)
        problem: BrokerError | None = None
        try:
            for queue, place in end.items():
                reader = self._readers.get(queue)
                if reader is None:
                    continue
                try:
                    reader.settle_committed(place, caller)
                except BrokerError as error:
                    # A queue that is gone is no matter of the others.
                    if refusal_code(error) != 404:
                        raise
                    problem = error
        finally:
            caller.close()
        if problem is not None:
            raise problem

    def waiting(self) -> int:
        """How many messages are ready in all of them.

        Raises:
            Fenced: Another query has the group in one of them, as of some seconds ago.
        """
        rows = 0
        for queue in self._subscription.names():
            try:
                rows += self._reader(queue).waiting()
            except BrokerError as error:
                if not self._went(queue, error):
                    raise
        return rows

    def give_back(self, queues: Iterable[str]) -> None:
        """Put what the group holds of some queues back where it was; the numbers are used up.

        Raises:
            Fenced: Another query has the group in one of the queues.
        """
        for queue in queues:
            try:
                self._reader(queue).give_back()
            except BrokerError as error:
                if not self._went(queue, error):
                    raise

    def lags(self) -> dict[str, Lag]:
        """How far the group is behind in each queue, for people, who do not mind a second."""
        names = self._subscription.names()
        if len(names) > 1 and time.monotonic() < self._lags_until:
            return self._lags
        found: dict[str, Lag] = {}
        for queue in names:
            try:
                found[queue] = self._reader(queue).lag()
            except BrokerError as error:
                if not self._went(queue, error):
                    raise
        self._lags = found
        self._lags_until = time.monotonic() + _TOLD_SECONDS
        return found

    def close(self) -> None:
        """Disconnect. What is open stays open."""
        self._leases.stop()
        self._caller.close()

    def _reader(self, queue: str) -> GroupReader:
        reader = self._readers.get(queue)
        if reader is None:
            pause = pause_max(len(self._subscription.names()))
            reader = GroupReader(self._options, queue, self._caller, self._leases, pause)
            self._readers[queue] = reader
        return reader

    def _start(self, queue: str, start: Places) -> Place:
        """Where a batch begins in a queue; one that is new begins behind what is settled."""
        place = start.get(queue)
        reader = self._reader(queue)
        if place is not None:
            known = reader.incarnation()
            if not self._options.pattern or 0 in (known, place.incarnation):
                return place
            if known == place.incarnation:
                return place
            _say(f"queue {queue!r} was deleted and made anew: it is read from its first message on")
        if queue not in self._came:
            self._came[queue] = reader.settled()
        return self._came[queue]

    def _leave(self, queue: str, place: Place) -> None:
        """Settle what is processed of a queue that the pattern does not find any more."""
        try:
            self._reader(queue).settle(place)
        except BrokerError as error:
            # It is gone, or this user may not read it any more.
            if not self._went(queue, error) and refusal_code(error) != 403:
                raise
        self._forget(queue)
        _say(f"queue {queue!r} is not there any more, or not wanted: it is left out from now on")

    def _went(self, queue: str, error: BrokerError) -> bool:
        """Whether a call failed as a queue that the pattern found is gone, or is another one."""
        if not self._options.pattern:
            return False
        gone = refusal_code(error) == 404
        if isinstance(error, Fenced) and queue in self._readers:
            known = self._readers[queue].incarnation()
            try:
                gone = self._caller.call(lambda tables: tables.identify(queue)) != known
            except BrokerError as again:
                gone = refusal_code(again) == 404
        if gone:
            self._forget(queue)
        return gone

    def _forget(self, queue: str) -> None:
        reader = self._readers.pop(queue, None)
        if reader is not None:
            reader.forget()
        self._came.pop(queue, None)


def _say(text: str) -> None:
    print(f"warren: {text}", file=sys.stderr, flush=True)
