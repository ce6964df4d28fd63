"""What the data source asks of a broker, and the connection that asks it.

The interfaces are the parts of `warren.client` that are used here, so that everything above can be
tested against a broker in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from warren.client import Channel, ChannelException
from warren.client import connect as connect_client
from warren.client.messages import Returned
from warren.client.table import (
    Acquired,
    Backlog,
    Batches,
    Checkout,
    Held,
    Kept,
    Names,
    OpenCheckout,
    Retaken,
    Runs,
    Status,
    Tables,
)
from warren.errors import BrokerError


class TableCalls(Protocol):
    """Class `table`; `warren.client.table.Tables` says what each call does."""

    def acquire(self, queue: str, group: str, lease_ms: int) -> Acquired: ...

    def checkout(
        self,
        queue: str,
        group: str,
        epoch: int,
        after: int,
        rows_max: int,
        bytes_max: int,
        up_to: int,
    ) -> Checkout: ...

    def checkouts(self, queue: str, group: str, after: int, up_to: int) -> list[OpenCheckout]: ...

    def read(self, queue: str, first: int, last: int, bytes_max: int) -> Batches: ...

    def settle(self, queue: str, group: str, epoch: int, up_to: int) -> None: ...

    def release(self, queue: str, group: str, epoch: int) -> None: ...

    def retake(self, queue: str, group: str, epoch: int, number: int) -> Retaken: ...

    def status(self, queue: str, group: str = "") -> Status: ...

    def identify(self, queue: str) -> int: ...

    def held(self, queue: str, group: str) -> Held: ...

    def backlog(self, queue: str, group: str = "") -> Backlog: ...

    def messages(
        self, queue: str, first: int, last: int, rows_max: int = 0, bytes_max: int = 0
    ) -> Kept: ...

    def queues(self, known: int = 0) -> Names: ...


class Reads(Protocol):
    """The one call of these that tasks make."""

    def read(self, queue: str, first: int, last: int, bytes_max: int) -> Batches: ...


class Publishing(Protocol):
    """A channel as a sink uses it; see `warren.client.Channel`."""

    returned: list[Returned]

    def confirm_select(self) -> None: ...

    def publish(
        self, exchange: str, routing_key: str, body: bytes, properties: bytes, mandatory: bool
    ) -> int: ...

    def wait_for_confirms(self) -> list[int]: ...


class Session(NamedTuple):
    """A connection with one channel on it; `close` may be called more than once.

    Attributes:
        open: Opens another channel.
    """

    tables: TableCalls
    channel: Publishing
    close: Callable[[], None]
    open: Callable[[], Channel]


#: By which older brokers answer a method that they do not know.
_UNKNOWN_METHOD: Final = (502, 503, 540)

Connect = Callable[[str], Session]
"""Opens a session at a URI; raises `BrokerError` or `OSError`."""


def connect(uri: str) -> Session:
    """Open a connection of one's own to the broker that a URI names."""
    connection = connect_client(uri, "warren in Spark")
    channel = connection.channel()
    return Session(Tables(channel), channel, connection.close, connection.channel)


class Fenced(BrokerError):
    """Another query acquired the group after this one did."""


class RowsLost(BrokerError):
    """The checkpoint promises rows that the queue cannot give any more."""


class BrokerAway(BrokerError):
    """No broker answered for as long as there was leave to try."""


class CheckpointLost(BrokerError):
    """A query without a checkpoint wants a group whose batches another checkpoint counts."""


class Unconfirmed(BrokerError):
    """The broker did not take over all messages of a task."""


def is_fenced(error: BaseException) -> bool:
    """Whether the broker refused a call because its epoch is over."""
    return isinstance(error, ChannelException) and error.code == 406 and "fenced" in error.text


def is_unknown_group(error: BaseException) -> bool:
    """Whether the broker refused a call because it knows of no such group: it was deleted."""
    text = "unknown group"
    return isinstance(error, ChannelException) and error.code == 406 and text in error.text


def is_elsewhere(error: BaseException) -> bool:
    """Whether the broker refused a call because the queue is on another node of it only."""
    text = "ask that node"
    return isinstance(error, ChannelException) and error.code == 406 and text in error.text


def is_unknown_method(error: BaseException) -> bool:
    """Whether the broker is too old to know what it was asked."""
    return refusal_code(error) in _UNKNOWN_METHOD


def refusal_code(error: BaseException) -> int:
    """The code by which a broker refused a call; 0 for what is no refusal."""
    return int(getattr(error, "code", 0)) if isinstance(error, BrokerError) else 0


__all__ = [
    "Backlog",
    "BrokerAway",
    "CheckpointLost",
    "Connect",
    "Fenced",
    "OpenCheckout",
    "Publishing",
    "Reads",
    "Retaken",
    "RowsLost",
    "Runs",
    "Session",
    "Status",
    "TableCalls",
    "Unconfirmed",
    "connect",
    "is_elsewhere",
    "is_fenced",
    "is_unknown_group",
    "is_unknown_method",
    "refusal_code",
]
