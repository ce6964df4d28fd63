"""What a node gives out in one life so that no other gives the same; `warren.ids` has its bits.

A life has only so many of each kind. What clients want of them is refused when they are spent: one
more would be an identity of another life, perhaps another node's.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.errors import EXHAUSTED, Refusal
from warren.ids import COUNTER_MAX, of_life


@final
class Counter:
    """Gives out identities of one kind, for one life of a node."""

    def __init__(self, kind: str, last: i64 = 0) -> None:
        """
        Args:
            kind: What they are for, as refusals name it.
            last: How many were given out before.
        """
        self._kind: str = kind
        self._last: i64 = last

    def spent(self) -> bool:
        """Whether all were given out."""
        return self._last >= COUNTER_MAX

    def take(self, life: i64) -> i64:
        """An identity that nothing had before.

        Raises:
            Refusal: `EXHAUSTED`, all were given out.
        """
        if self._last >= COUNTER_MAX:
            raise Refusal(
                EXHAUSTED,
                f"this node has had {COUNTER_MAX} {self._kind} since it was started, which are the "
                "most: it has to be started again",
            )
        self._last += 1
        return of_life(life, self._last)

    def take_round(self, life: i64) -> i64:
        """The same for what is soon over: the oldest ones are given out again after the last."""
        if self._last >= COUNTER_MAX:
            self._last = 0
        return self.take(life)
