"""Messages that leave a queue for a reason, and that may go to another one for it.

    rejected         a client did not want it, and did not give it back
    expired          its time to live was over
    maxlen           there was no room for it
    delivery_limit   it came back too often

At most once, a machine only says which they were, as an effect: whoever acts on it reads them, and
has them routed. Where that is lost, so are they. At least once, it keeps them (`discards`) until it
is told that they are where they belong.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.queues.fifo.pieces import Piece

FORGOTTEN: Final = 0
"""What dies is dropped."""
AT_MOST_ONCE: Final = 1
"""It is said that it died."""
AT_LEAST_ONCE: Final = 2
"""It is kept until it is somewhere else."""
AT_THEIR_TIME: Final = 3
"""Messages come to wait for their time; then they die, and are kept like those."""


@final
class Dead:
    """Messages that died for one reason.

    Attributes:
        reason: One of those of `warren.message.dead_letters`.
        lists: Runs of them, in order, in lists that do not change.
        count: How many there are.
        failed: How often a delivery of them failed beyond what their runs say.
    """

    def __init__(self, reason: i64, lists: list[list[Piece]], count: i64, failed: i64) -> None:
        self.reason: i64 = reason
        self.lists: list[list[Piece]] = lists
        self.count: i64 = count
        self.failed: i64 = failed
