"""How an operation waits: for the cluster, or until something is so, and never for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from warren.admin.service.slices import Slices
from warren.errors import NOT_FOUND, TIMED_OUT, Refusal
from warren.pending import PendingRequest, Result

POLL_SECONDS = 0.02

Thing = TypeVar("Thing")


class Awaited(PendingRequest):
    """A pending request for whose result a coroutine waits.

    Attributes:
        result: What it was carried out with; None before.
        refusal: Why it cannot be; None if it is not refused.
    """

    def __init__(self) -> None:
        self.result: Result | None = None
        self.refusal: Refusal | None = None
        self._told = asyncio.Event()

    def succeeded(self, result: Result) -> None:
        """Note the result."""
        self.result = result
        self._told.set()

    def refused(self, refusal: Refusal) -> None:
        """Note the refusal."""
        self.refusal = refusal
        self._told.set()

    def abandoned(self) -> None:
        """Note that the queue that was asked is gone, or cannot be reached."""
        self.refused(Refusal(NOT_FOUND, "the queue is gone or cannot be reached: ask again"))

    def missed(self) -> None:
        """Note that the queue has done it, and that this node has not seen its answer."""
        self.refused(Refusal(TIMED_OUT, "it was done, and its answer was lost: ask again"))

    async def wait(self, seconds: float) -> Result:
        """The result, once it is there.

        Raises:
            Refusal: It cannot be done; or `TIMED_OUT`, where that was not known in time.
        """
        try:
            await asyncio.wait_for(self._told.wait(), seconds)
        except TimeoutError:
            raise Refusal(
                TIMED_OUT, f"it was not in force within {seconds:.0f} s; it may yet come about"
            ) from None
        if self.refusal is not None:
            raise self.refusal
        assert self.result is not None, "it succeeded or was refused"
        return self.result


async def until(done: Callable[[], bool], seconds: float) -> bool:
    """Wait for something, but not for ever; whether it has come about."""
    loop = asyncio.get_running_loop()
    over = loop.time() + seconds
    while not done() and loop.time() < over:
        await asyncio.sleep(POLL_SECONDS)
    return done()


async def until_all(things: Iterable[Thing], done: Callable[[Thing], bool], seconds: float) -> None:
    """Wait until something was so of each of many things, but not for ever."""
    loop = asyncio.get_running_loop()
    over = loop.time() + seconds
    left = await Slices().those(things, lambda thing: not done(thing))
    while left and loop.time() < over:
        await asyncio.sleep(POLL_SECONDS)
        left = await Slices().those(left, lambda thing: not done(thing))
