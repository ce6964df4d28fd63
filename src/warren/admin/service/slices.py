"""Work for operators in slices of time, so that clients do not wait for more than one.

All that operators ask for shares one `Pace`: however many ask, and of however many steps an answer
is made, the loop does one slice of it and then reads its sockets. What waits for a slice stands in
line. A slice does not begin while messages wait for the node's turn, but for those that have waited
for theirs `WAIT_SECONDS_MAX`: a node with more messages than it can take still answers operators.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

SLICE_SECONDS = 0.0003
"""How long work goes on before the node looks after its clients again."""
WAIT_SECONDS_MAX = 0.001
"""How long a slice that is next gives way to messages."""
SORTED_AT_ONCE = 256
"""Things that are sorted in one go: a fraction of a millisecond."""
LOOKS_AT_ONCE = 16
"""Things that a condition is asked of before the clock is."""
QUEUES_AT_ONCE = 250
"""Queues that compiled code looks at in one call: some tenths of a millisecond."""

Thing = TypeVar("Thing")
Shaped = TypeVar("Shaped")


def no_messages() -> bool:
    """What a loop knows of messages without a node that has its turns in it."""
    return False


class Pace:
    """The slices of one loop, one after the other. Belongs to the loop's thread.

    Attributes:
        messages_wait: Whether messages wait for the node's turn.
        clock: Tells seconds that pass steadily.
    """

    def __init__(self) -> None:
        self.messages_wait: Callable[[], bool] = no_messages
        self.clock: Callable[[], float] = time.perf_counter
        self._line: deque[asyncio.Future[None]] = deque()
        self._planned = False
        """Whether the next in line is going to be called."""
        self._until = 0.0
        """The end of the newest slice. What comes later has none before it has stood in line."""

    @property
    def over(self) -> bool:
        """Whether the slice is over."""
        return self.clock() > self._until

    async def give_way(self) -> None:
        """Let the node read what its clients have sent, and have its turn of that.

        Each slice comes in a round of the loop of its own, and sockets are read before. If they
        have brought anything, the node's turn is planned for the same round: that comes first.
        """
        loop = asyncio.get_running_loop()
        place = loop.create_future()
        self._line.append(place)
        self._plan(loop)
        await place
        since = now = self.clock()
        while self.messages_wait() and now - since < WAIT_SECONDS_MAX:
            place = loop.create_future()
            self._line.appendleft(place)
            self._plan(loop)
            await place
            now = self.clock()
        self._until = now + SLICE_SECONDS

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._planned:
            self._planned = True
            # The loop reads sockets before it calls this.
            loop.call_soon(self._call_next, loop)

    def _call_next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give a slice to the next in line, which begins in the next round."""
        self._planned = False
        while self._line:
            place = self._line.popleft()
            if not place.done():
                place.set_result(None)
                break
        if self._line:
            self._plan(loop)


_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, Pace] = WeakKeyDictionary()


def pace_of(loop: asyncio.AbstractEventLoop) -> Pace:
    """The pace of all work for operators in a loop."""
    pace = _paces.get(loop)
    if pace is None:
        pace = _paces[loop] = Pace()
    return pace


async def give_way() -> None:
    """Let others go on after a step that is long in itself."""
    await pace_of(asyncio.get_running_loop()).give_way()


class Slices:
    """Work that is cut into slices; to be asked after each step of it."""

    def __init__(self) -> None:
        self._pace = pace_of(asyncio.get_running_loop())

    async def breathe(self) -> None:
        """Let others go on if a slice is over."""
        if self._pace.over:
            await self._pace.give_way()

    async def stretches(self, count: int) -> AsyncIterator[tuple[int, int]]:
        """Parts of so many queues, each by its first index and the one after its last."""
        for at in range(0, count, QUEUES_AT_ONCE):
            yield at, at + QUEUES_AT_ONCE
            await self.breathe()

    async def in_order(
        self, things: Sequence[Thing], key: Callable[[Thing], Any], reverse: bool = False
    ) -> AsyncIterator[Thing]:
        """Things in the order of their keys; who stops early saves most of the work."""
        parts: list[list[Thing]] = []
        for at in range(0, len(things), SORTED_AT_ONCE):
            parts.append(sorted(things[at : at + SORTED_AT_ONCE], key=key, reverse=reverse))
            await self.breathe()
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
        for number, thing in enumerate(things, 1):
            if wanted(thing):
                found.append(thing)
            if number % LOOKS_AT_ONCE == 0:
                await self.breathe()
        return found
