"""Keeps the leases of groups while a batch takes its time, in one thread for all queues of a query.

A lease is renewed by any call of its group: settling once more what is settled changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from warren.errors import BrokerError
from warren.spark.broker import Connect, TableCalls, is_fenced, is_unknown_group
from warren.spark.calling import PatientCaller
from warren.spark.options import ReadOptions

#: How many times a lease is renewed in its own length, so that one failed try does no harm.
_RENEWALS: Final = 3

Renewal = Callable[[TableCalls], None]


class LeaseKeeper:
    """Renews leases from the first one that it is given until it is stopped."""

    def __init__(self, options: ReadOptions, connect: Connect) -> None:
        """Remember what to do; nothing is connected yet."""
        self._options = options
        self._connect = connect
        self._lock = threading.Lock()
        self._renewals: list[Renewal] = []
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def keep(self, renew: Renewal) -> None:
        """Have a call made over and over, until its group is another query's, or gone."""
        with self._lock:
            self._renewals.append(renew)
            if self._thread is None:
                name = f"warren lease {self._options.group}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()

    def let_go(self, renew: Renewal) -> None:
        """Make a call no more, if it was made: its queue is gone."""
        with self._lock:
            if renew in self._renewals:
                self._renewals.remove(renew)

    def stop(self) -> None:
        """Renew nothing any more."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._options.lease_ms / 1000 / _RENEWALS):
            caller = PatientCaller(self._options.uris, 0.0, self._connect)
            try:
                with self._lock:
                    renewals = list(self._renewals)
                for renew in renewals:
                    if self._stopped.is_set():
                        return
                    try:
                        caller.call(renew)
                    except BrokerError as error:
                        if is_fenced(error) or is_unknown_group(error):
                            self.let_go(renew)
                        # Else the next turn comes well before the lease ends.
            finally:
                caller.close()
