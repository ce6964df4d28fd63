"""Publisher confirms: which of the messages published on a channel the broker has taken over."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class Confirms:
    """The publish sequence of one channel. Memory is for what is confirmed out of order only.

    Attributes:
        next_sequence: The number the next message gets; the first is 1.
        nacked: Numbers that the broker refused, in the order it said so; the owner clears it.
    """

    __slots__ = ("_early", "_lowest", "nacked", "next_sequence")

    def __init__(self) -> None:
        self.next_sequence: i64 = 1
        self.nacked: list[int] = []
        # Everything below is resolved; of the rest, only what is in the set.
        self._lowest: i64 = 1
        self._early: set[int] = set()

    def outstanding(self) -> i64:
        """How many messages have no answer yet."""
        return self.next_sequence - self._lowest - len(self._early)

    def resolve(self, sequence: i64, multiple: bool, accepted: bool) -> None:
        """Take a `basic.ack` or `basic.nack` from the broker.

        Args:
            sequence: Its delivery tag. With `multiple`, all up to it, and 0 for all there are.
        """
        lowest = self._lowest
        if multiple:
            last = self.next_sequence - 1 if sequence == 0 else sequence
            last = min(last, self.next_sequence - 1)
            if not self._early and accepted:
                self._lowest = max(lowest, last + 1)
                return
            while lowest <= last:
                number = int(lowest)
                if number in self._early:
                    self._early.discard(number)
                elif not accepted:
                    self.nacked.append(number)
                lowest += 1
        else:
            number = int(sequence)
            if sequence < lowest or sequence >= self.next_sequence or number in self._early:
                return
            if not accepted:
                self.nacked.append(number)
            if sequence != lowest:
                self._early.add(number)
                return
            lowest += 1
        while self._early and int(lowest) in self._early:
            self._early.discard(int(lowest))
            lowest += 1
        self._lowest = lowest
