"""What the data source asks of a broker, and the connection that asks it.

The operations are those of class `table` (`docs/formats/table-class.md`); apart from `acquire` each
may be repeated without a further effect, which is what makes retrying after a lost connection
safe. The code above this line sees only the interface `Broker`, so that it can be tested against
one in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from warren.errors import BrokerError, ChannelException

Runs = Sequence[tuple[int, int]]
"""Message numbers as (first, last) pairs, both included."""


class Held(NamedTuple):
    """One open checkout: its number in the group, and its messages."""

    number: int
    runs: Runs


class Status(NamedTuple):
    """A queue as a group sees it.

    Attributes:
        next: The number the next message will get.
        ready: How many messages are ready.
        settled: The group's last settled checkout; 0 before the first.
        runs: The ready messages.
    """

    next: int
    ready: int
    settled: int
    runs: Runs


class Broker(Protocol):
    """One connection to a broker. Errors are `BrokerError`s, or `OSError` if it breaks."""

    def acquire(self, queue: str, group: str, lease_ms: int) -> tuple[int, int]:
        """Take a group over: a new epoch, which fences older ones, and the last settled number."""

    def checkout(
        self, queue: str, group: str, epoch: int, after: int, rows_max: int, bytes_max: int,
        up_to: int,
    ) -> int:  # fmt: skip
        """The lowest open checkout above `after`, made from ready messages if there is none.

        Returns:
            Its number; `after` if nothing is open, nor ready with a number up to `up_to` (which
            is no bound if it is negative).
        """

    def checkouts(self, queue: str, group: str, after: int, up_to: int) -> list[Held]:
        """The open checkouts with `after` < number <= `up_to`, in order."""

    def read(self, queue: str, first: int, last: int, bytes_max: int) -> tuple[int, bytes]:
        """Record batches holding messages from `first`, and the number to continue at."""

    def settle(self, queue: str, group: str, epoch: int, up_to: int) -> None:
        """Remove the messages of all checkouts up to a number for good."""

    def release(self, queue: str, group: str, epoch: int) -> None:
        """Give all open checkouts back to the queue."""

    def status(self, queue: str, group: str) -> Status:
        """Look without touching; an empty `group` is nobody's."""

    def close(self) -> None:
        """End the connection."""


class Fenced(BrokerError):
    """Another query acquired the group after this one did."""


class RowsLost(BrokerError):
    """The checkpoint promises rows that the queue cannot give any more."""


def is_fenced(error: BaseException) -> bool:
    """Whether the broker refused a call because its epoch is over."""
    return isinstance(error, ChannelException) and error.code == 406 and "fenced" in error.text


Connect = Callable[[str], Broker]
"""Opens a connection to a URI."""
