"""What a query of `mode=log` has of its queues: which messages there are, from a number on.

Nothing is taken, so any number of queries may follow a queue. Messages stay until the queue lets
go of them: by its limits, its time to live, or a consumer. What left before it was read is an error
with `failOnDataLoss`: a queue numbers what it takes without a gap.
"""

from __future__ import annotations

import sys
import time
from typing import Final, NamedTuple

from warren.client.table import Kept
from warren.errors import BrokerError
from warren.spark.bounds import first_beyond, kept_messages, next_stamp
from warren.spark.broker import Connect, RowsLost, refusal_code
from warren.spark.calling import PatientCaller
from warren.spark.checkpoint import Place, Places
from warren.spark.options import UNBOUNDED, ReadOptions
from warren.spark.partition import QueueShare
from warren.spark.sharing import FairShares, pause_max
from warren.spark.subscription import Subscription

#: Seconds between the first two looks of an idle query.
_PAUSE: Final = 0.05

#: Seconds for which people are told the same of how far a query is behind.
_TOLD_SECONDS: Final = 1.0


class Behind(NamedTuple):
    """How far a query is behind in its queues.

    Attributes:
        places: Where each queue ends now.
        rows, size_bytes: The messages that it has not read yet, and what they take.
        seconds: For how long the oldest of them has been in its queue.
    """

    places: Places
    rows: int
    size_bytes: int
    seconds: int


class FollowedQueues:
    """The queues of one query, in the process that Spark runs for it on the driver.

    A `Place` is here the number of the first message that is not read yet.
    """

    def __init__(self, options: ReadOptions, connect: Connect) -> None:
        """Remember what to read; nothing is connected yet."""
        self._options = options
        self._caller = PatientCaller(options.uris, options.retry_seconds, connect)
        self._subscription = Subscription(options, self._caller)
        self._shares = FairShares()
        self._at: Places = {}  # where the newest batch ends
        self._idle_until = 0.0
        self._pause = _PAUSE
        self._behind: Behind | None = None
        self._behind_until = 0.0
        self._heads: dict[str, tuple[int, int]] = {}  # a message, and when it came

    def initial(self) -> Places:
        """Where a query without a checkpoint begins, by `startingOffsets` or a time."""
        found: Places = {}
        for queue in self._subscription.names():
            bound = self._options.start.of(queue)
            try:
                kept = self._kept(queue, 0, UNBOUNDED)
                number = first_beyond(self._caller, queue, kept.runs, bound)
                if number < 0:
                    number = kept.next  # There is nothing whose time could be looked at.
                number = min(max(number, kept.first), kept.next)
                found[queue] = Place(number, self._identify(queue))
            except BrokerError as error:
                if not self._went(error):
                    raise
        return found

    def newest(self) -> dict[str, int]:
        """The number of the newest message of each, below 0 if there never was one."""
        found: dict[str, int] = {}
        for queue in self._subscription.names():
            try:
                found[queue] = self._kept(queue, UNBOUNDED, UNBOUNDED).next - 1
            except BrokerError as error:
                if not self._went(error):
                    raise
        return found

    def advance(
        self, start: Places, rows_max: int, bytes_max: int, up_to: dict[str, int] | None
    ) -> Places:
        """Find the next messages of all queues together, each of which gets its even share.

        Args:
            start: Where the last batch ended.
            up_to: The highest message to read of each queue, and none of others; None reads all.

        Returns:
            Where the next batch ends; `start` if there is nothing.

        Raises:
            RowsLost: Messages left before they were read, or `start` is of another queue.
        """
        now = time.monotonic()
        if up_to is None and now < self._idle_until and self._at == start:
            return start
        names = self._subscription.names()
        wanted = set(names)
        end = {queue: place for queue, place in start.items() if queue in wanted}
        for queue in start.keys() - end.keys():
            _say(f"queue {queue!r} is not there any more: it is left out from now on")

        def advance_one(queue: str, rows: int, size: int) -> tuple[int, int] | None:
            bound = UNBOUNDED if up_to is None else up_to.get(queue, -1)
            return self._advance_one(queue, start, end, rows, size, bound)

        self._shares.take(names, rows_max, bytes_max, advance_one, lambda queue: True)
        self._at = end
        if end == start:
            self._idle_until = now + self._pause
            self._pause = min(self._pause * 2, pause_max(len(names)))
        else:
            self._idle_until = 0.0
            self._pause = _PAUSE
        return end

    def _advance_one(
        self, queue: str, start: Places, end: Places, rows: int, size: int, up_to: int
    ) -> tuple[int, int] | None:
        """Note in `end` where a batch ends in a queue; gives rows and bytes, None for nothing."""
        if up_to < 0:
            return None  # There never was a message in it, or it came after a run began.
        try:
            incarnation = self._identify(queue)
            place = end.get(queue)
            promised = place is not None and place.incarnation == incarnation
            begin = place if place is not None and promised else Place(0, incarnation)
            if place is not None and not promised:
                self._check_anew(queue)
            kept = self._kept(queue, begin.number, up_to, rows, size)
            if promised:
                self._check(queue, begin.number, kept)
        except BrokerError as error:
            if not self._went(error):
                raise
            end.pop(queue, None)
            return None
        number = min(max(begin.number, kept.end), kept.next)
        if number == begin.number:
            return None
        if place is not None and not promised:
            _say(f"queue {queue!r} was deleted and made anew: it is read from its first message on")
        end[queue] = Place(number, incarnation)
        return kept.rows, kept.size_bytes

    def shares(self, start: Places, end: Places) -> list[QueueShare]:
        """The messages of a logged batch that are there.

        Raises:
            RowsLost: Some are not there any more, and that is an error.
        """
        found: list[QueueShare] = []
        for queue, place in end.items():
            begin = start.get(queue)
            if begin == place:
                continue
            promised = begin is not None and begin.incarnation == place.incarnation
            first = begin.number if begin is not None and promised else 0
            if first >= place.number:
                continue
            try:
                if self._identify(queue) != place.incarnation:
                    raise self._lost(queue, "it was deleted and made anew since the batch began")
                kept = self._kept(queue, first, place.number - 1)
                if promised:
                    self._check(queue, first, kept)
            except RowsLost:
                if self._options.fail_on_data_loss:
                    raise
                continue
            except BrokerError as error:
                if not self._went(error):
                    raise
                if self._options.fail_on_data_loss:
                    raise self._lost(queue, "it is gone") from error
                continue
            if kept.runs:
                found.append(QueueShare(queue, kept.runs))
        return found

    def behind(self) -> Behind:
        """How far the query is behind, for people, who do not mind a second."""
        now = time.monotonic()
        if self._behind is not None and now < self._behind_until:
            return self._behind
        places: Places = {}
        rows = size = seconds = 0
        for queue in self._subscription.names():
            try:
                kept = self._kept(queue, self._at.get(queue, Place(0, 0)).number, UNBOUNDED)
                places[queue] = Place(kept.next, self._identify(queue))
                if kept.runs:
                    came_ms = self._came_ms(queue, kept.runs[0][0], kept.now_ms)
                    seconds = max(seconds, (kept.now_ms - came_ms) // 1000)
            except BrokerError as error:
                if not self._went(error):
                    raise
                continue
            rows += kept.rows
            size += kept.size_bytes
        self._behind = Behind(places, rows, size, seconds)
        self._behind_until = now + _TOLD_SECONDS
        return self._behind

    def waiting(self, start: Places) -> int:
        """How many messages there are from where a batch would begin."""
        rows = 0
        for queue in self._subscription.names():
            try:
                first = start.get(queue, Place(0, 0)).number
                rows += self._kept(queue, first, UNBOUNDED).rows
            except BrokerError as error:
                if not self._went(error):
                    raise
        return rows

    def close(self) -> None:
        """Disconnect from the broker."""
        self._caller.close()

    def _check_anew(self, queue: str) -> None:
        """
        Raises:
            RowsLost: That another queue has the name is an error; where a pattern says which
                queues are read, they come and go.
        """
        if self._options.fail_on_data_loss and not self._options.pattern:
            raise self._lost(queue, "it was deleted and made anew since the checkpoint")

    def _check(self, queue: str, first: int, kept: Kept) -> None:
        """
        Args:
            first: The first message that is not read yet.
            kept: What there is from there on.

        Raises:
            RowsLost: Some of what was promised is not there any more, and that is an error.
        """
        if not self._options.fail_on_data_loss:
            return
        if kept.next < first:
            raise self._lost(
                queue,
                f"the checkpoint is at message {first}, and the queue has had {kept.next}: its "
                "node came back with older data",
            )
        lost = max(kept.end - first, 0) - kept.rows
        if lost > 0:
            # A queue leaves out no number: what is between those that it has was there.
            for low, high in [*kept.runs, (kept.end, kept.end)]:
                if low > first:
                    raise self._lost(
                        queue,
                        f"{lost} messages, {first} to {low - 1} first of all, left it before they "
                        "were read, by its limits, its time to live, a purge, or a consumer",
                    )
                first = high + 1

    def _kept(self, queue: str, first: int, last: int, rows: int = 0, size: int = 0) -> Kept:
        return kept_messages(self._caller, queue, first, last, rows, size)

    def _identify(self, queue: str) -> int:
        return self._caller.call(lambda tables: tables.identify(queue))

    def _came_ms(self, queue: str, number: int, now_ms: int) -> int:
        """When the broker took a message, in milliseconds since 1970; now if it has gone since."""
        if self._heads.get(queue, (-1, 0))[0] != number:
            found, stamp_ms = next_stamp(self._caller, queue, number, number)
            self._heads[queue] = (number, stamp_ms if found == number else now_ms)
        return self._heads[queue][1]

    def _went(self, error: BrokerError) -> bool:
        """Whether a call failed as a queue that the pattern found is gone."""
        return bool(self._options.pattern) and refusal_code(error) == 404

    def _lost(self, queue: str, why: str) -> RowsLost:
        return RowsLost(
            f"queue {queue!r}: {why}; option failOnDataLoss=false goes on with what there is"
        )


def _say(text: str) -> None:
    print(f"warren: {text}", file=sys.stderr, flush=True)
