"""What takes long to find, found once for all who ask within some seconds.

Sums and orders of 100,000 queues take some tenths of a second, in slices, beside the node's work
for its clients. Who watches a node asks for the same again and again, and several may at once. So
what was found is kept, and after a while found anew behind the answers: they come at once, and are
no older than RabbitMQ's, whose queues send their figures every five seconds. What few things make
up is never kept.

Source: the cache of RabbitMQ 4.3's management, which keeps lists for five times as long as they
took.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar, cast

KEPT_MIN: Final = 5_000
"""What is found by a look at fewer things than that is found anew each time: some milliseconds."""
KEPT_SECONDS: Final = 5.0
"""How old an answer may be."""
FORGET_SECONDS: Final = KEPT_SECONDS + 1.0
"""When it is let go of what nobody asked for again."""
SHARE: Final = 5.0
"""What is kept is not looked for again for so many times as long as that took."""
ENTRIES_MAX: Final = 16
"""The order of 100,000 queues takes 400 KB."""

Found = TypeVar("Found")


class _Entry:
    """One thing that is kept.

    Attributes:
        value: What was found; nothing is before `began`.
        began: When it was last begun to look for it, of what was found; in seconds.
        took: How long that took.
        looking: What looks for it anew.
    """

    def __init__(self) -> None:
        self.value: Any = None
        self.began: float | None = None
        self.took = 0.0
        self.looking: asyncio.Task[Any] | None = None

    def age(self, now: float) -> float:
        """How old what was found may be, in seconds."""
        return KEPT_SECONDS if self.began is None else now - self.began


class KeptAnswers:
    """What one node keeps. Belongs to the loop's thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            clock: Tells seconds that pass steadily.
        """
        self._clock = clock
        self._entries: dict[Hashable, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def stop(self) -> None:
        """Look for nothing any more."""
        for entry in self._entries.values():
            if entry.looking is not None:
                entry.looking.cancel()

    async def get(self, key: Hashable, count: int, find: Callable[[], Awaitable[Found]]) -> Found:
        """Give what was found under a key, which nobody may change; find it if there is none.

        Args:
            key: Says all that `find` goes by, and which kind of thing it finds.
            count: How many things it looks at.
            find: Finds it. It may be called for one caller and answer others.

        Raises:
            Exception: What `find` raises.
        """
        if count < KEPT_MIN or (key not in self._entries and self._is_full()):
            return await find()
        entry = self._entries.setdefault(key, _Entry())
        age = entry.age(self._clock())
        if age < KEPT_SECONDS:
            if age > min(SHARE * entry.took, KEPT_SECONDS / 2):
                self._look(key, entry, find)
            return cast(Found, entry.value)
        # Others may wait for the same, also when the client of this one goes.
        return cast(Found, await asyncio.shield(self._look(key, entry, find)))

    def _is_full(self) -> bool:
        """Whether so much is looked for that no more is to go on when its client has gone."""
        looking = sum(entry.looking is not None for entry in self._entries.values())
        return looking >= ENTRIES_MAX

    def _look(
        self, key: Hashable, entry: _Entry, find: Callable[[], Awaitable[Found]]
    ) -> asyncio.Task[Any]:
        """Look for a thing, unless something does already."""
        if entry.looking is None:
            entry.looking = asyncio.create_task(self._found(entry, find))
            entry.looking.add_done_callback(_hear)
            asyncio.get_running_loop().call_later(FORGET_SECONDS, self._forget)
            self._make_room()
        return entry.looking

    async def _found(self, entry: _Entry, find: Callable[[], Awaitable[Found]]) -> Found:
        began = self._clock()
        try:
            value = await find()
        finally:
            entry.looking = None
        entry.value, entry.began, entry.took = value, began, self._clock() - began
        return value

    def _make_room(self) -> None:
        """Let go of the oldest above the number that is kept; what is looked for stays."""
        idle = [key for key, entry in self._entries.items() if entry.looking is None]
        now = self._clock()
        idle.sort(key=lambda key: -self._entries[key].age(now))
        for key in idle[: max(len(self._entries) - ENTRIES_MAX, 0)]:
            del self._entries[key]

    def _forget(self) -> None:
        """Let go of what is too old to answer with."""
        now = self._clock()
        for key, entry in list(self._entries.items()):
            if entry.looking is None and entry.age(now) >= KEPT_SECONDS:
                del self._entries[key]


def _hear(task: asyncio.Task[Any]) -> None:
    """Take note of how a task ended, also where no request waits for it any more."""
    if not task.cancelled():
        task.exception()
