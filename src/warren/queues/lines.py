"""The way to the queues of another node, and what is on its way over it.

See `proxy` for what becomes of that when the line goes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.log.batch import Batch
from warren.pending import PendingReply
from warren.queues.fifo.consumers import Consumer
from warren.queues.fifo.effects import Delivery
from warren.queues.links import Link
from warren.queues.publishing import PublishRun

if TYPE_CHECKING:
    from warren.queues.proxy import ProxyQueue


class Line:
    """The way from this node to another one that has queues.

    Attributes:
        owner: The other node's name.
        number: Which line it is, ascending for the life of the cluster; 0 while there is none.
    """

    def __init__(self, owner: str) -> None:
        self.owner: str = owner
        self.number: i64 = 0

    @abstractmethod
    def coming(self) -> bool:
        """Whether there may be a line in a moment, where there is none."""

    @abstractmethod
    def clogged(self) -> bool:
        """Whether so much is on its way over it that more is to wait."""

    @abstractmethod
    def settle_loss(self, queue: ProxyQueue) -> None:
        """Call `lost` now, where the line has gone and the queue has not heard of it."""

    @abstractmethod
    def go_on_later(self, queue: ProxyQueue) -> None:
        """Call `go_on` when there is a line with little on its way; `give_up` if none comes."""

    @abstractmethod
    def dismiss(self, group_id: i64) -> None:
        """A queue was deleted."""

    @abstractmethod
    def new_consumer(self) -> i64:
        """An id that no other consumer in the cluster has."""

    @abstractmethod
    def send_messages(
        self,
        group_id: i64,
        sequence: i64,
        count: i64,
        persistent: bool,
        confirms: bool,
        lengths: bytes,
        payload: bytes,
        flavour: i64 = 0,
        life_ms: i64 = -1,
    ) -> None:
        """Messages for a queue; answered with `ProxyQueue.stored`."""

    @abstractmethod
    def send_commands(
        self, group_id: i64, sequence: i64, wanted: bool, exclusive: bool, payload: bytes
    ) -> None:
        """Commands for a queue; if `wanted`, answered with `ProxyQueue.replied`."""

    @abstractmethod
    def send_grant(self, group_id: i64, consumer_id: i64, count: i64, size: i64) -> None:
        """So much of what came for a consumer is out of the way."""

    @abstractmethod
    def dropped(self, count: i64) -> None:
        """Messages that nobody waits for are lost, because there is no line."""


@final
class Sent:
    """Messages on their way to the queue.

    Attributes:
        starts: Where each of the runs begins among them.
        rejected: Which of them there was no room for: where they begin, and how many.
    """

    def __init__(self, count: i64, size: i64, runs: list[PublishRun], starts: list[int]) -> None:
        self.count: i64 = count
        self.size: i64 = size
        self.runs: list[PublishRun] = runs
        self.starts: list[int] = starts
        self.answered: bool = False
        self.refused: bool = False
        self.rejected: list[tuple[int, int]] | None = None

    def reject(self) -> None:
        """Tell the runs which of their messages there was no room for."""
        if self.rejected is None:
            return
        for first, count in self.rejected:
            for at in range(len(self.runs)):
                run = self.runs[at]
                start = self.starts[at]
                low = max(first, start)
                high = min(first + count, start + int(run.count))
                if low < high:
                    run.reject(low - start, high - low)


@final
class Kept:
    """Messages or commands that wait to be sent; `count` is 0 for commands.

    Attributes:
        first: Whether the messages are persistent, or an answer to the commands is wanted.
        second: Whether the messages have confirms, or a consumer is to be the only one.
        lengths, payload, flavour, life_ms: As for `Line.send_messages` and `Line.send_commands`.
    """

    def __init__(
        self,
        sequence: i64,
        count: i64,
        first: bool,
        second: bool,
        lengths: bytes,
        payload: bytes,
        flavour: i64 = 0,
        life_ms: i64 = -1,
    ) -> None:
        self.sequence: i64 = sequence
        self.count: i64 = count
        self.first: bool = first
        self.second: bool = second
        self.lengths: bytes = lengths
        self.payload: bytes = payload
        self.flavour: i64 = flavour
        self.life_ms: i64 = life_ms


@final
class Asked:
    """Someone waits for an answer; `consumer_id` is that of a consumer to be attached, or -1."""

    def __init__(self, waiter: PendingReply, consumer_id: i64) -> None:
        self.waiter: PendingReply = waiter
        self.consumer_id: i64 = consumer_id


@final
class ReceivedMessages:
    """Messages that came for a consumer; `size` counts towards its window."""

    def __init__(self, delivery: Delivery, batch: Batch, size: i64, count: i64) -> None:
        self.delivery: Delivery = delivery
        self.batch: Batch = batch
        self.size: i64 = size
        self.count: i64 = count


@final
class Inbox:
    """What came for one consumer and is not written to its client.

    Attributes:
        paused: Whether the link has as much as it can pass on.
        next_mid: Behind the ids of all that came.
    """

    def __init__(self, consumer: Consumer, link: Link) -> None:
        self.consumer: Consumer = consumer
        self.link: Link = link
        self.paused: bool = False
        self.next_mid: i64 = 0
        self.pieces: deque[ReceivedMessages] = deque()
        self.current: ReceivedMessages | None = None
        """What the link has and did not write to the end."""
        self.owed_count: i64 = 0
        self.owed_bytes: i64 = 0
