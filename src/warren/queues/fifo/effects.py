"""What comes of a command: its reply, and what its machine would have its queue do.

Effects are data. Every member of a queue applies the same commands and so comes to the same
effects; each acts on those that are for its own node, and drops the rest, as a replay drops them
all. To act on one twice must do no harm: after a crash the log is applied anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.queues.fifo.pieces import Piece

if TYPE_CHECKING:
    from warren.queues.fifo.consumers import Consumer
    from warren.queues.fifo.groups import Checkout

OK: Final = 0
FENCED: Final = 1
UNKNOWN_GROUP: Final = 2
MALFORMED: Final = 3


@final
class Delivery:
    """Messages `first..first+count-1` were handed to a consumer as ids from `mid` on."""

    def __init__(self, consumer: Consumer, mid: i64, first: i64, count: i64, acquired: i64) -> None:
        self.consumer: Consumer = consumer
        self.mid: i64 = mid
        self.first: i64 = first
        self.count: i64 = count
        self.acquired: i64 = acquired


@final
class Reply:
    """A machine's answer to one command.

    Attributes:
        code: One of the constants above, or of `warren.queues.links`.
        a, b, c: Numbers whose meaning the command defines.
    """

    def __init__(self, code: i64 = 0, a: i64 = 0, b: i64 = 0, c: i64 = 0) -> None:
        self.code: i64 = code
        self.a: i64 = a
        self.b: i64 = b
        self.c: i64 = c
        self.delivery: Delivery | None = None
        self.checkout: Checkout | None = None


@final
class Effects:
    """What a queue has to do.

    A new effect, a message to dead-letter or a publisher to refuse, is a list more.

    Attributes:
        deliveries: Pass these on to consumers, in this order.
        freed: These messages left for good, so their bodies may go; only a machine that reports
            them (`Fifo.reports_freed`) has any.
    """

    def __init__(self, deliveries: list[Delivery], freed: list[list[Piece]]) -> None:
        self.deliveries: list[Delivery] = deliveries
        self.freed: list[list[Piece]] = freed


DONE: Final = Reply()
"""The answer to what nobody asks about, and so nobody changes it."""

NO_EFFECTS: Final = Effects([], [])
"""Nothing to do, for which nothing is allocated. Nobody changes it."""
