"""Work for operators in slices of time, so that clients do not wait for more than one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

SLICE_SECONDS = 0.002
"""How long work goes on before the node looks after its clients again."""
STEPS_AT_ONCE = 16
"""Steps of work between two looks at the clock."""

Thing = TypeVar("Thing")


class Slices:
    """Work that is cut into slices; to be asked after each step of it."""

    def __init__(self) -> None:
        self._steps = 0
        self._until = time.perf_counter() + SLICE_SECONDS

    async def breathe(self) -> None:
        """Let others go on if a slice is over."""
        self._steps += 1
        if self._steps % STEPS_AT_ONCE == 0 and time.perf_counter() > self._until:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + SLICE_SECONDS

    async def those(
        self, things: Iterable[Thing], wanted: Callable[[Thing], object]
    ) -> list[Thing]:
        """Some of many things; what `wanted` goes by may change between two of them."""
        found: list[Thing] = []
        for thing in things:
            if wanted(thing):
                found.append(thing)
            await self.breathe()
        return found
