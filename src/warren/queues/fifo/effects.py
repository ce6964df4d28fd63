"""What comes of a command: its reply, and what its machine would have its queue do.

Effects are data. Every member of a queue applies the same commands and so comes to the same
effects; each acts on those that are for its own node, and drops the rest, as a replay drops them
all. To act on one twice must do no harm: after a crash the log is applied anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.pending import Result
from warren.queues.fifo.pieces import Piece

if TYPE_CHECKING:
    from warren.queues.fifo.consumers import Consumer
    from warren.queues.fifo.dead_letters import Dead
    from warren.queues.fifo.groups import Checkout

OK: Final = 0
FENCED: Final = 1
UNKNOWN_GROUP: Final = 2
MALFORMED: Final = 3
RETURNING: Final = 4
SCATTERED: Final = 5
GONE: Final = 6


@final
class Delivery:
    """Messages `first..first+count-1` were handed to a consumer as ids from `mid` on.

    Attributes:
        acquired: How often each of them came back before.
        failed: How often that counted towards the delivery limit.
    """

    def __init__(
        self,
        consumer: Consumer,
        mid: i64,
        first: i64,
        count: i64,
        acquired: i64,
        failed: i64 = 0,
    ) -> None:
        self.consumer: Consumer = consumer
        self.mid: i64 = mid
        self.first: i64 = first
        self.count: i64 = count
        self.acquired: i64 = acquired
        self.failed: i64 = failed


class Reply(Result):
    """A machine's answer to one command; where there is more to say, it is one of those below.

    Attributes:
        code: One of the constants above, or of `warren.queues.links`.
    """

    def __init__(self, code: i64 = OK) -> None:
        self.code: i64 = code


@final
class PollReply(Reply):
    """The answer to a poll.

    Attributes:
        delivery: The message, None where none is ready.
        left: Messages that were ready behind it when it was taken; -1 where that is not known.
    """

    def __init__(self, delivery: Delivery | None, left: i64 = -1) -> None:
        super().__init__()
        self.delivery: Delivery | None = delivery
        self.left: i64 = left


@final
class PurgeReply(Reply):
    """The answer to a purge.

    Attributes:
        count: Messages that were ready and are gone.
    """

    def __init__(self, count: i64) -> None:
        super().__init__()
        self.count: i64 = count


@final
class AcquireReply(Reply):
    """A consumer group was taken over.

    Attributes:
        epoch: The one that begins with this.
        settled: The number of the last lease that was settled.
    """

    def __init__(self, epoch: i64, settled: i64) -> None:
        super().__init__()
        self.epoch: i64 = epoch
        self.settled: i64 = settled


@final
class FencedReply(Reply):
    """Another reader has taken the consumer group over.

    Attributes:
        epoch: That reader's.
    """

    def __init__(self, epoch: i64) -> None:
        super().__init__(FENCED)
        self.epoch: i64 = epoch


@final
class LeaseReply(Reply):
    """The answer to a reader who wants a lease.

    Attributes:
        number: The lease's; where nothing is to be taken, the one behind which the reader looked.
        count: Messages in it.
        checkout: The lease, None where nothing is to be taken.
    """

    def __init__(self, number: i64, count: i64, checkout: Checkout | None) -> None:
        super().__init__()
        self.number: i64 = number
        self.count: i64 = count
        self.checkout: Checkout | None = checkout


@final
class GoneReply(Reply):
    """The answer to a reader who wants a checkout again of which not all is untouched.

    Attributes:
        gone: Ascending (first, last) numbers of messages that left, or that somebody has or had
            since.
    """

    def __init__(self, gone: list[tuple[int, int]]) -> None:
        super().__init__(GONE)
        self.gone: list[tuple[int, int]] = gone


@final
class TimedOut:
    """A consumer held messages for longer than it may: they are ready again.

    Attributes:
        consumer_id: Whose they were.
        timeout_ms: How long it might have held each of them.
    """

    def __init__(self, consumer_id: i64, timeout_ms: i64) -> None:
        self.consumer_id: i64 = consumer_id
        self.timeout_ms: i64 = timeout_ms


@final
class Effects:
    """What a queue has to do.

    A new effect is a list more.

    Attributes:
        deliveries: Pass these on to consumers, in this order.
        freed: These messages left for good, so their bodies may go; only a machine that reports
            them (`Fifo.reports_freed`) has any.
        timed_out: Tell the clients of these consumers (CT-03).
        dead: These died, in this order, and are to go through the queue's dead-letter exchange. In
            a queue of one node they are not among those that left: their bodies may go afterwards.
    """

    def __init__(
        self,
        deliveries: list[Delivery],
        freed: list[list[Piece]],
        timed_out: list[TimedOut],
        dead: list[Dead] | None = None,
    ) -> None:
        self.deliveries: list[Delivery] = deliveries
        self.freed: list[list[Piece]] = freed
        self.timed_out: list[TimedOut] = timed_out
        self.dead: list[Dead] | None = dead


DONE: Final = Reply()
"""The answer to what nobody asks about, and so nobody changes it."""

NO_EFFECTS: Final = Effects([], [], [])
"""Nothing to do, for which nothing is allocated. Nobody changes it."""
