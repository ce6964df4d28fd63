"""A group's hold on a queue: the driver's side of a streaming query that drains.

How exactly-once comes about. Messages leave the queue in numbered checkouts, which the broker keeps
until they are settled; the number is Spark's offset. Spark logs the offset before a batch runs and
its commit after, and both survive a crash:

- crash before the offset was logged: the checkout is still open and is handed out again;
- crash before the commit was logged: the batch runs again, on the same checkout;
- crash before the checkout was settled: the next run settles it, since the offset it starts from
  says that the batch before was committed.

A sink that has a batch already, by its id, skips it, and Spark commits the batch without having
planned it. Its messages were never read, so they go back to the queue and come with a later batch.

Spark tells a source of a commit one batch late and of the last one never, so what a query starts
from is settled as soon as it is seen. Nothing is settled when a query stops.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from warren.errors import BrokerError, ProtocolError
from warren.spark.broker import (
    Connect,
    Fenced,
    OpenCheckout,
    RowsLost,
    Session,
    Status,
    TableCalls,
    is_fenced,
)

T = TypeVar("T")

#: How many times a lease is renewed in its own length, so that one failed try does no harm.
_RENEWALS: Final = 3

#: How long an idle query may go without finding out that it was fenced.
_LOOK_SECONDS: Final = 5.0


class GroupReader:
    """One group of one queue, acquired when it is first needed and kept until it is fenced.

    Lives in the process that Spark runs for the source on the driver. Not for two threads, other
    than its own that renews the lease.
    """

    def __init__(
        self, uri: str, queue: str, group: str, lease_ms: int, strict: bool, connect: Connect
    ) -> None:
        """Remember what to read; nothing is connected yet.

        Args:
            uri: Where the broker is.
            lease_ms: How long the broker keeps the group's open checkouts if it hears nothing; 0
                for ever.
            strict: Whether a checkpoint that contradicts the queue is an error.
            connect: Opens a connection to a URI.
        """
        self._uri = uri
        self._queue = queue
        self._group = group
        self._lease_ms = lease_ms
        self._strict = strict
        self._connect = connect
        self._session: Session | None = None
        self._epoch = 0
        self._settled = 0
        self._idle_until = 0.0
        self._stopped = threading.Event()

    # --- what Spark asks ------------------------------------------------------------------------

    def settled(self) -> int:
        """The last settled checkout: where a query without a checkpoint begins."""
        return self.status().settled

    def status(self) -> Status:
        """The queue as it is, without touching it."""
        return self._call(lambda tables: tables.status(self._queue, self._group))

    def take(self, start: int, rows_max: int, bytes_max: int, up_to: int) -> int:
        """Settle what is processed, then take the next messages.

        Args:
            start: The last checkout processed; everything up to it is settled.
            rows_max: Messages to take at most.
            bytes_max: Their bytes at most; one message is taken whatever its size.
            up_to: Take no message with a higher number.

        Returns:
            Number of the checkout to process next; `start` if there is nothing.

        Raises:
            Fenced: Another query has the group.
            RowsLost: `start` is not a place this group can go on from.
        """
        self._hold(start)
        self.settle(start)
        # An idle query asks a hundred times a second. A checkout is a command in the broker's log
        # even if it takes nothing, so while nothing comes a look has to do. It does not show
        # whether another query has the group by now, hence not for ever.
        if time.monotonic() < self._idle_until and self.status().ready == 0:
            return start
        number = self._call(
            lambda tables: tables.checkout(
                self._queue, self._group, self._epoch, start, rows_max, bytes_max, up_to
            )
        ).number
        self._idle_until = time.monotonic() + _LOOK_SECONDS if number == start else 0.0
        return number

    def held(self, start: int, end: int) -> list[OpenCheckout]:
        """The checkouts after `start` up to `end`, as a logged batch names them.

        Raises:
            Fenced: Another query has the group.
            RowsLost: A checkout is not open any more.
        """
        self._hold(start)
        held = self._call(lambda tables: tables.checkouts(self._queue, self._group, start, end))
        if self._strict and (not held or held[-1].number != end):
            raise self._lost(f"checkout {end} is not open any more")
        return held

    def settle(self, up_to: int) -> None:
        """Remove the messages of all checkouts up to a number; repeating it does nothing.

        Raises:
            Fenced: Another query has the group.
        """
        self._hold(up_to)
        if up_to > self._settled:
            self._call(lambda tables: tables.settle(self._queue, self._group, self._epoch, up_to))
            self._settled = up_to

    def give_back(self) -> None:
        """Put the messages of all open checkouts back where they were; their numbers are used up.

        Raises:
            Fenced: Another query has the group.
        """
        self._call(lambda tables: tables.release(self._queue, self._group, self._epoch))

    def close(self) -> None:
        """Stop renewing and disconnect. The open checkout stays open."""
        self._stopped.set()
        self._disconnect()

    # --- the hold -------------------------------------------------------------------------------

    def _hold(self, start: int) -> None:
        """Acquire the group, once in this object's life, and see whether `start` fits it.

        Never twice: a group that another query took over is that query's.
        """
        if self._epoch:
            return
        acquired = self._call(
            lambda tables: tables.acquire(self._queue, self._group, self._lease_ms)
        )
        self._epoch, self._settled = acquired
        if self._lease_ms:
            name = f"warren lease {self._group}"
            threading.Thread(target=self._renew, name=name, daemon=True).start()
        if not self._strict:
            return
        if self._settled > start:
            raise self._lost(
                f"the checkpoint ends at checkout {start}, but {self._settled} is settled: "
                "the checkpoint is an old copy, or another query has used the group"
            )
        if self._settled < start:
            open_ = self._call(
                lambda tables: tables.checkouts(self._queue, self._group, self._settled, start)
            )
            if not open_ or open_[-1].number != start:
                raise self._lost(
                    f"the checkpoint ends at checkout {start}, which the queue does not know: its "
                    "lease ran out and the messages went back, or the queue was made anew"
                )

    def _renew(self) -> None:
        """Keep the lease while a batch takes its time: settle what is settled, over and over."""
        while not self._stopped.wait(self._lease_ms / 1000 / _RENEWALS):
            try:
                session = self._connect(self._uri)
                try:
                    session.tables.settle(self._queue, self._group, self._epoch, self._settled)
                finally:
                    session.close()
            except ProtocolError as error:
                if is_fenced(error):
                    return
            except (OSError, BrokerError):
                continue  # The next turn comes well before the lease ends.

    def _lost(self, what: str) -> RowsLost:
        return RowsLost(
            f"group {self._group!r} of queue {self._queue!r}: {what}; "
            "option failOnDataLoss=false goes on regardless"
        )

    # --- the connection -------------------------------------------------------------------------

    def _call(self, ask: Callable[[TableCalls], T]) -> T:
        """Ask the broker; once more over a new connection if the old one turns out broken.

        Every operation can be repeated: a second `acquire` fences only ourselves, the others
        change nothing more.
        """
        fresh = self._session is None
        try:
            return self._ask(ask)
        except OSError:
            if fresh:
                raise
            return self._ask(ask)

    def _ask(self, ask: Callable[[TableCalls], T]) -> T:
        try:
            if self._session is None:
                self._session = self._connect(self._uri)
            return ask(self._session.tables)
        except BaseException as error:
            self._disconnect()
            if is_fenced(error):
                raise Fenced(
                    f"another query took over group {self._group!r} of queue {self._queue!r}; "
                    "this one ends. Give each query a groupId of its own"
                ) from error
            raise

    def _disconnect(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except (OSError, BrokerError):
                pass  # It is broken already, which is why it is being closed.
