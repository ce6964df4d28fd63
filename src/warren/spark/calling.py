"""Calls a broker that may be away for some time: again and again, at each address in turn.

A broker that restarts, a leader that is elected, a node that is being given its copy anew: each is
over in seconds, and a query that ended meanwhile would have to be started by hand. So a call
whose connection breaks, or gets none, is made again until a time is over.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar
from urllib.parse import urlsplit

from warren.client.table import Batches
from warren.errors import BrokerError
from warren.spark.broker import (
    BrokerAway,
    Connect,
    Session,
    TableCalls,
    is_elsewhere,
    refusal_code,
)

T = TypeVar("T")

#: Seconds between the first two tries, and the most between any two.
_PAUSE: Final = 0.1
_PAUSE_MAX: Final = 5.0

#: A try that takes so many seconds is told of on standard error, and again after as many more.
_SAY_SECONDS: Final = 30.0

#: Answers by which a broker says that it goes, or that another node or a moment later would do.
_PASSING: Final = (320, 541)


def is_passing(error: BaseException) -> bool:
    """Whether the same call may go well in a moment."""
    return isinstance(error, OSError) or _may_elsewhere(error)


def _may_elsewhere(error: BaseException) -> bool:
    """Whether another node may answer the same call at once."""
    return refusal_code(error) in _PASSING or is_elsewhere(error)


def where(uris: Sequence[str]) -> str:
    """Hosts and ports of URIs, for texts: the rest of them has passwords."""
    return ", ".join(urlsplit(uri).netloc.rpartition("@")[2] or "localhost" for uri in uris)


class PatientCaller:
    """One connection at a time, to the first of some addresses that answers.

    Where a broker says that another node may do, the next address is the first from then on, and is
    asked at once, until all were: a classic queue is on one node only. Every call has to be such
    that it may be made twice.
    """

    def __init__(
        self, uris: Sequence[str], retry_seconds: float, connect: Connect, seeks: bool = True
    ) -> None:
        """Remember where to; nothing is connected yet.

        Args:
            retry_seconds: How long a call is made again whose connection breaks.
            seeks: Whether it is made again likewise when none of the addresses is the node that has
                the queue, which may be down.
        """
        self._seeks = seeks
        self._uris = list(uris)
        self._retry_seconds = retry_seconds
        self._connect = connect
        self._session: Session | None = None
        self._first = 0
        self._closed = threading.Event()

    def call(self, ask: Callable[[TableCalls], T]) -> T:
        """Ask the broker until it answers.

        Raises:
            BrokerAway: None of the addresses answered for `retry_seconds`.
            BrokerError: The broker's answer is an error that stays.
        """
        begun = time.monotonic()
        said = begun
        pause = 0.0 if self._session is not None else _PAUSE  # what was open may just be stale
        others = len(self._uris) - 1
        while True:
            try:
                return ask(self._open().tables)
            except BaseException as error:
                self.disconnect()
                if not is_passing(error):
                    raise
                if _may_elsewhere(error):
                    self._first = (self._first + 1) % len(self._uris)
                    others -= 1
                    if others >= 0 and not self._closed.is_set():
                        continue
                    others = len(self._uris) - 1
                    if is_elsewhere(error) and not self._seeks:
                        raise
                now = time.monotonic()
                if now - begun + pause > self._retry_seconds:
                    raise self._away(error, now - begun) from error
                if now - said >= _SAY_SECONDS:
                    said = now
                    print(f"warren: {self._away(error, now - begun)}", file=sys.stderr, flush=True)
            if self._closed.wait(pause):
                raise BrokerAway("the query was stopped")
            pause = min(max(pause * 2, _PAUSE), _PAUSE_MAX)

    def connected(self) -> Session:
        """A connection to the first address that answers; tried again like a call.

        Raises:
            BrokerAway: None of the addresses answered for `retry_seconds`.
            BrokerError: The broker refused.
        """
        self.call(lambda tables: None)
        assert self._session is not None, "a call leaves its connection open"
        return self._session

    def read(self, queue: str, first: int, last: int, bytes_max: int) -> Batches:
        """`table.read`, as `warren.client.table.Tables.read`."""
        return self.call(lambda tables: tables.read(queue, first, last, bytes_max))

    def close(self) -> None:
        """Disconnect for good."""
        self._closed.set()
        self.disconnect()

    def disconnect(self) -> None:
        """Have the next call connect anew."""
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except (OSError, BrokerError):
                pass  # It is broken already, which is why it is being closed.

    def _open(self) -> Session:
        if self._session is None:
            uris = self._uris[self._first :] + self._uris[: self._first]
            for at, uri in enumerate(uris):
                try:
                    self._session = self._connect(uri)
                    break
                except (OSError, BrokerError) as error:
                    if at + 1 == len(uris) or not is_passing(error):
                        raise
        assert self._session is not None, "there is an address"
        return self._session

    def _away(self, error: BaseException, seconds: float) -> BrokerAway:
        if is_elsewhere(error):
            return BrokerAway(
                f"no node at {where(self._uris)} has had the queue for {seconds:.0f} s ({error}): "
                "amqp.uri has to name that node, too"
            )
        return BrokerAway(
            f"no broker at {where(self._uris)} has answered for {seconds:.0f} s "
            f"({type(error).__name__}: {error}); option retryTimeout says how long to try"
        )
