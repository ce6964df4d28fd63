"""A classic queue of another node, as this node's channels see it.

It looks like any other queue. While there is no way to its node it refuses: publishes are nacked,
everything else is answered with 404.

Source: MIR-22, acceptance 2.7.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64, mypyc_attr

from warren.errors import ChannelException
from warren.queues.consumers import Limiter
from warren.queues.fifo import Fifo
from warren.queues.links import Link, Waiter
from warren.queues.publishing import PublishRun
from warren.queues.queue import Host, Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class Line:
    """The way from this node to another one that has queues.

    Attributes:
        owner: The other node's name.
        number: Which line it is, ascending for the life of the cluster; 0 while there is none.
    """

    def __init__(self, owner: str) -> None:
        self.owner: str = owner
        self.number: i64 = 0

    def dropped(self, count: i64) -> None:
        """Messages that nobody waits for are lost, because there is no line."""
        raise AssertionError("a line defines dropped")


@final
class RemoteQueue(Queue):
    """See the module's head."""

    def __init__(
        self, host: Host, vhost: str, name: str, kind: str, durable: bool, line: Line
    ) -> None:
        super().__init__(host, vhost, name, kind, Fifo(-1, True))
        self.durable: bool = durable
        self.line: Line = line

    def check(self) -> None:
        """Refuse to be used while there is no way to it.

        Raises:
            ChannelException: 404.
        """
        if self.line.number == 0:
            raise ChannelException(404, self.absence())

    def absence(self) -> str:
        """Why it cannot be used."""
        if self.deleted:
            return f"no {self}"
        durable = "durable " if self.durable else ""
        return f"home node '{self.line.owner}' of {durable}{self} is down or inaccessible"

    def publish(
        self, records: bytes, lengths: bytes, count: i64, persistent: bool, run: PublishRun | None
    ) -> None:
        """Gather messages, or refuse them."""
        if self.line.number == 0 and not self.deleted:
            self._refuse(count, run)
        else:
            super().publish(records, lengths, count, persistent, run)

    def subscribe(
        self,
        link: Link,
        consumer_id: i64,
        credit: i64,
        priority: i64,
        limiter: Limiter | None,
        waiter: Waiter,
    ) -> None:
        """Attach a consumer."""
        waiter.abandoned()

    def get(self, consumer_id: i64, waiter: Waiter) -> None:
        """Ask for one message."""
        waiter.abandoned()

    def purge(self, waiter: Waiter) -> None:
        """Drop all ready messages."""
        waiter.abandoned()

    def congested(self) -> bool:
        """Whether publishers should wait."""
        return False

    def seal(self) -> None:
        """There is nothing to send yet."""
        self._take_commands()

    def _refuse(self, count: i64, run: PublishRun | None) -> None:
        if run is None:
            self.line.dropped(count)
        else:
            run.refused = True
            run.safe()
