"""A machine as a queue drives it: entries with their facts, and what comes of them kept."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from librt.strings import BytesWriter

from warren.log.facts import PRIORITIES, SIZES
from warren.queues.fifo import commands
from warren.queues.fifo.effects import Delivery, Effects, Reply
from warren.queues.fifo.entry import Encoded, Enqueue, Meta
from warren.queues.fifo.machine import Fifo
from warren.queues.freed import Freed

NOW_MS = 1_000
BYTES = 10

Write = Callable[[BytesWriter], None]


def size_of(number: int) -> int:
    """The bytes of a message, which the number tells, so that a model knows it, too."""
    return BYTES + number % 3


class Driven:
    """A machine; what this class does not have is the machine's.

    Attributes:
        deliveries, freed: The effects so far.
        died: Of each message that is to go elsewhere, why, its number, and its failed deliveries.
    """

    def __init__(self, limit: int = -1, keeps_place: bool = False, reports: bool = False) -> None:
        self.fifo = Fifo(limit, keeps_place, reports)
        self.deliveries: list[Delivery] = []
        self.freed = Freed()
        self.died: list[tuple[int, int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fifo, name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name in ("fifo", "deliveries", "freed", "died")
        object.__setattr__(self if own else self.fifo, name, value)

    def _note(self, effects: Effects) -> None:
        self.deliveries += effects.deliveries
        self.freed.add(effects.freed)
        for dead in effects.dead or []:
            runs: Any = [run for pieces in dead.lists for run in pieces]
            assert dead.count == sum(run.count for run in runs)
            for run in runs:
                for number in range(run.first, run.first + run.count):
                    self.died.append((int(dead.reason), number, int(run.failed + dead.failed)))

    def enqueue(
        self, first: int, count: int, size: int = -1, now_ms: int = NOW_MS, life_ms: int = -1
    ) -> None:
        """Messages arrive in one batch, unless each is to have its own size."""
        if size < 0:
            for number in range(first, first + count):
                self.enqueue(number, 1, size_of(number), now_ms, life_ms)
            return
        _, effects = self.fifo.apply(Meta(now_ms), Enqueue(first, count, size, life_ms))
        self._note(effects)

    def enqueue_each(
        self, first: int, sizes: list[int], priorities: list[int] | None = None, life_ms: int = -1
    ) -> None:
        """Messages arrive in one batch that says what each takes by itself, and its priority."""
        which = SIZES | (PRIORITIES if priorities else 0)
        facts = struct.pack(f"<I{len(sizes)}I", which, *sizes) + bytes(priorities or [])
        messages = Enqueue(first, len(sizes), 1_000_000, life_ms, facts)
        _, effects = self.fifo.apply(Meta(NOW_MS), messages)
        self._note(effects)

    def run(self, payload: bytes, now_ms: int = NOW_MS, session: int = 0) -> Reply:
        """Encoded commands, which lie somewhere in a buffer."""
        command = Encoded(b"xyz" + payload + b"more", 3, 3 + len(payload))
        reply, effects = self.fifo.apply(Meta(now_ms, session), command)
        self._note(effects)
        return reply

    def write(self, *writes: Write, now_ms: int = NOW_MS) -> Reply:
        """Commands, as one entry."""
        out = BytesWriter()
        for write in writes:
            write(out)
        return self.run(out.getvalue(), now_ms)

    def dispatch(self) -> None:
        """Hand out."""
        self._note(self.fifo.dispatch())

    def entry(self, *writes: Write) -> Reply:
        """Commands, and what follows each entry."""
        reply = self.write(*writes)
        self.dispatch()
        return reply

    def down_all(self, consumer_ids: list[int], failed: bool = True, now_ms: int = NOW_MS) -> None:
        """Sessions ended."""
        self._note(self.fifo.down_all(consumer_ids, now_ms, failed))

    def attach(self, consumer_id: int, credit: int, priority: int) -> None:
        """A consumer arrives."""
        self.write(lambda out: commands.attach(out, consumer_id, credit, priority))

    def cancel(self, consumer_id: int) -> None:
        """A consumer wants no more."""
        self.write(lambda out: commands.cancel(out, consumer_id))

    def down(self, consumer_id: int) -> None:
        """A consumer is gone."""
        self.write(lambda out: commands.down(out, consumer_id))

    def settle(self, consumer_id: int, first: int, last: int) -> None:
        """Messages are done with."""
        self.write(lambda out: commands.settle(out, consumer_id, first, last))

    def return_(self, consumer_id: int, first: int, last: int, failed: bool) -> None:
        """Messages go back."""
        self.write(lambda out: commands.return_(out, consumer_id, first, last, failed))

    def acquire(self, name: str) -> None:
        """A reader takes a group over."""
        self.write(lambda out: commands.acquire(out, name, 0))

    def checkout(self, name: str, epoch: int, after: int, rows_max: int) -> Reply:
        """A reader takes messages."""
        return self.write(lambda out: commands.checkout(out, name, epoch, after, rows_max, -1))

    def get(self, consumer_id: int) -> Delivery | None:
        """One message for a channel that polls."""
        return self.write(lambda out: commands.get(out, consumer_id)).delivery


def waiting(fifo: Any) -> tuple[list[Any], list[Any]]:
    """What is ready of a machine: what returned, and what comes behind it, as quadruples.

    Of what may have been handed out before a crash each message is one.
    """
    parts = fifo.ready.parts()
    returned, fresh = (
        [
            quadruple
            for pieces in lists
            for run in pieces
            for quadruple in _quadruples(run, int(fifo.ready.doubted))
        ]
        for lists in parts
    )
    return returned, fresh


def _quadruples(run: Any, doubted: int) -> list[tuple[int, int, int, int]]:
    first, last = int(run.first), int(run.first + run.count - 1)
    if first >= doubted:
        return [(first, last, int(run.acquired), int(run.failed))]
    return [
        (n, n, max(int(run.acquired), int(n < doubted)), int(run.failed))
        for n in range(first, last + 1)
    ]
