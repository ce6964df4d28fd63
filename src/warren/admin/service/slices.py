"""Work for operators in slices of time, so that clients do not wait for more than one."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar

SLICE_SECONDS = 0.0005
"""How long work goes on before the node looks after its clients again."""
STEPS_AT_ONCE = 16
"""Steps of work between two looks at the clock."""
SORTED_AT_ONCE = 512
"""Things that are sorted in one go: a fraction of a millisecond."""
QUEUES_AT_ONCE = 500
"""Queues that compiled code looks at in one call: some tenths of a millisecond."""

Thing = TypeVar("Thing")
Shaped = TypeVar("Shaped")


async def give_way() -> None:
    """Let the node read what its clients have sent, and have its turn of that.

    The loop calls what is to be called soon in the order in which that was said, and reads sockets
    after. So in the first round sockets are read, and only then is the node's turn asked for: work
    that went on in the second would come before it, and clients would wait for two slices.
    """
    await asyncio.sleep(0)
    await asyncio.sleep(0)


class Slices:
    """Work that is cut into slices; to be asked after each step of it."""

    def __init__(self) -> None:
        self._steps = 0
        self._until = time.perf_counter() + SLICE_SECONDS

    async def breathe(self) -> None:
        """Let others go on if a slice is over."""
        self._steps += 1
        if self._steps % STEPS_AT_ONCE == 0 and time.perf_counter() > self._until:
            await give_way()
            self._until = time.perf_counter() + SLICE_SECONDS

    async def next_part(self) -> None:
        """The same after a step that is long in itself: the clock is looked at each time."""
        if time.perf_counter() > self._until:
            await give_way()
            self._until = time.perf_counter() + SLICE_SECONDS

    async def stretches(self, count: int) -> AsyncIterator[tuple[int, int]]:
        """Parts of so many queues, each by its first index and the one after its last."""
        for at in range(0, count, QUEUES_AT_ONCE):
            yield at, at + QUEUES_AT_ONCE
            await self.next_part()

    async def in_order(
        self, things: Sequence[Thing], key: Callable[[Thing], Any], reverse: bool = False
    ) -> AsyncIterator[Thing]:
        """Things in the order of their keys; who stops early saves most of the work."""
        parts: list[list[Thing]] = []
        for at in range(0, len(things), SORTED_AT_ONCE):
            parts.append(sorted(things[at : at + SORTED_AT_ONCE], key=key, reverse=reverse))
            await self.next_part()
        for thing in heapq.merge(*parts, key=key, reverse=reverse):
            yield thing
            await self.breathe()

    async def each(self, things: Iterable[Thing], shape: Callable[[Thing], Shaped]) -> list[Shaped]:
        """Each of many things in another form."""
        found: list[Shaped] = []
        for thing in things:
            found.append(shape(thing))
            await self.breathe()
        return found

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
