"""Moves of messages that are under way, and those that have ended: what their pages show."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from typing import Final

from warren.admin.service.caller import ADMINISTRATOR, Caller, sees_all
from warren.admin.service.moving import Choice, Destination, MoveProgress, move_messages
from warren.admin.service.service import AdminService
from warren.admin.ui.wrong import Wrong
from warren.errors import Refusal

log = logging.getLogger("warren")

RUNNING_MAX: Final = 8
KEPT_MAX: Final = 64


class Move:
    """One of them.

    Attributes:
        number: What names it.
        user, vhost, queue: Who asked for it, and where messages are taken.
        destination, choice, count, rate, dry_run: As `move_messages` has them.
        progress: How far it is.
        state: `running`, `done`, `stopped` or `failed`.
        problem: Why it failed; else empty.
        begun, ended: Seconds since 1970; 0 before.
    """

    def __init__(
        self,
        number: int,
        user: str,
        vhost: str,
        queue: str,
        destination: Destination,
        choice: Choice,
        count: int,
        rate: float,
        dry_run: bool,
    ) -> None:
        self.number = number
        self.user, self.vhost, self.queue = user, vhost, queue
        self.destination, self.choice = destination, choice
        self.count, self.rate, self.dry_run = count, rate, dry_run
        self.progress = MoveProgress(targets={})
        self.state = "running"
        self.problem = ""
        self.begun, self.ended = time.time(), 0.0
        self.task: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()

    async def run(self, service: AdminService, caller: Caller) -> None:
        """Carry it out."""
        parts = move_messages(
            service,
            caller,
            vhost=self.vhost,
            queue=self.queue,
            destination=self.destination,
            choice=self.choice,
            count=self.count,
            dry_run=self.dry_run,
        )
        state = "done"
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async for (progress,) in parts:
                self.progress = progress
                await self._pause(begun, loop)
                if self._stopped.is_set():
                    state = "stopped"
                    break
            self.state = state
        except Refusal as refusal:
            self.state, self.problem = "failed", refusal.text
        except Exception:
            log.exception("a move of messages failed")
            self.state, self.problem = "failed", "the node failed; its log says how"
        finally:
            await parts.aclose()
            self.ended = time.time()

    async def _pause(self, begun: float, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until the next message has its turn, or it is to stop."""
        if self.rate <= 0 or self.dry_run:
            await asyncio.sleep(0)
            return
        seconds = begun + self.progress.moved / self.rate - loop.time()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), max(seconds, 0.0))

    def stop(self) -> None:
        """Have it end behind the message that is under way."""
        self._stopped.set()


class Moves:
    """All of one node that are remembered."""

    def __init__(self) -> None:
        self._moves: dict[int, Move] = {}
        self._numbers = itertools.count(1)

    def seen_by(self, caller: Caller) -> list[Move]:
        """Those that a user sees, the newest first."""
        found = [move for move in self._moves.values() if _sees(caller, move)]
        return found[::-1]

    def find(self, caller: Caller, number: str) -> Move:
        """One of them.

        Raises:
            Wrong: There is none of this number, or none for this user.
        """
        move = self._moves.get(int(number)) if number.isdecimal() and len(number) < 10 else None
        if move is None or not _sees(caller, move):
            raise Wrong(404, "There is no such move (any more).")
        return move

    def stop(self, caller: Caller, number: str) -> None:
        """Have one end behind the message that is under way.

        Raises:
            Wrong: There is none of this number, or it is another user's.
        """
        move = self.find(caller, number)
        if not may_stop(caller, move):
            raise Wrong(403, "Only its own user and administrators can stop a move.")
        move.stop()

    def begin(
        self,
        service: AdminService,
        caller: Caller,
        vhost: str,
        queue: str,
        destination: Destination,
        choice: Choice,
        count: int,
        rate: float,
        dry_run: bool,
    ) -> Move:
        """Begin one.

        Raises:
            Wrong: There are too many.
        """
        running = [move for move in self._moves.values() if move.state == "running"]
        if len(running) >= RUNNING_MAX:
            raise Wrong(503, f"{RUNNING_MAX} moves are under way: wait for one, or stop one.")
        ended = [move.number for move in self._moves.values() if move.state != "running"]
        for number in ended[: max(len(self._moves) - KEPT_MAX + 1, 0)]:
            del self._moves[number]
        move = Move(
            next(self._numbers),
            caller.name,
            vhost,
            queue,
            destination,
            choice,
            count,
            rate,
            dry_run,
        )
        self._moves[move.number] = move
        move.task = asyncio.get_running_loop().create_task(move.run(service, caller))
        return move


def may_stop(caller: Caller, move: Move) -> bool:
    """Whether a move is a user's to stop; those who monitor only see it."""
    return move.user == caller.name or ADMINISTRATOR in caller.tags


def _sees(caller: Caller, move: Move) -> bool:
    return move.user == caller.name or sees_all(caller)
