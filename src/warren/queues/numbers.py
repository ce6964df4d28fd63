"""Numbers for what comes and goes, of which there are only so many at a time."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.errors import EXHAUSTED, Refusal


@final
class Numbers:
    """Gives out 1 to `last`; when all were given, those that came back, the longest ago first.

    So between two uses of a number lie as many others as can be.
    """

    def __init__(self, last: i64) -> None:
        self._last: i64 = last
        self._newest: i64 = 0
        self._given: dict[int, bool] = {}

    def take(self) -> i64:
        """A number that nobody has.

        Raises:
            Refusal: `EXHAUSTED`, all are given.
        """
        if len(self._given) >= self._last:
            raise Refusal(EXHAUSTED, f"{self._last} consumers at a time are the most")
        number = self._newest
        while True:
            number = number + 1 if number < self._last else 1
            if int(number) not in self._given:
                break
        self._newest = number
        self._given[int(number)] = True
        return number

    def give_back(self, number: i64) -> None:
        """Nobody has it any more; one that was not given changes nothing."""
        self._given.pop(int(number), None)

    def clear(self) -> None:
        """All came back."""
        self._given = {}
