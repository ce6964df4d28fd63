"""Histories that nobody lived through, for tests of the simulator's checkers.

A history acts on a `Forged` stage as clients would see it. Each complaint that a checker can make
has a history that causes it; `complained` notes which line of which module did.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, final

from sim.checkers import Checker
from sim.cluster.timeouts import Timeouts
from sim.model import (
    CONFIRMED,
    SETTLED,
    SETTLED_FOR_GOOD,
    Copy,
    Holder,
    Message,
    QueueState,
    Violation,
    body_of,
)
from sim.stage import Stage


class History(NamedTuple):
    """What is acted out, and what has to come of it.

    Attributes:
        act: Acts it out.
        words: What the complaint has to say; empty for a history that is as it should be.
    """

    act: Callable[[], None]
    words: str = ""

    def __str__(self) -> str:
        return self.act.__name__


@final
class Forged(Stage):
    """Stands where a node or a cluster would.

    Attributes:
        rests: Whether nobody holds anything.
        kept: Whether a queue keeps settlements for a moment.
        drops: How many messages each queue says that it dropped.
        purged: Whether a purge may have taken what is missing.
        faults: A cluster's options; this one stands for itself.
        group_size: One of them.
    """

    def __init__(self, *make: Callable[[Any], Checker]) -> None:
        super().__init__(1, 0, False)
        self.life = self.turns = self.step_number = 1
        self.rests = True
        self.kept = False
        self.drops = 0
        self.purged = False
        self.group_size = 3
        self.now = 1_000
        self.wall_jumps = False
        self.faults = self.ledger = self
        self.sites: dict[str, Any] = {"n1": self}
        self.timeouts = Timeouts(self)  # type: ignore[arg-type]
        self.checkers = [each(self) for each in make]

    # What a stage is asked.

    def era(self, queue: QueueState) -> int:
        """The node's life."""
        return self.life

    def now_ms(self) -> int:
        """Time that a history sets."""
        return self.now

    def at_rest(self, queue: QueueState) -> bool:
        """As the history says."""
        return self.rests

    def dropped(self, queue: QueueState) -> int:
        """As the history says."""
        return self.drops

    def keeps_settlements(self, queue: object) -> bool:
        """As the history says."""
        return self.kept

    def out_of_use(self, queue: QueueState) -> bool:
        """No queue is."""
        return False

    def closed_unread(self, holder: Holder) -> None:
        """No node has closed anything."""

    def may_be_purged(self, queue: QueueState, message: Message) -> bool:
        """As the history says."""
        return self.purged

    # What a history does.

    def queue(self, kind: str = "quorum", durable: bool = True) -> QueueState:
        """One more queue."""
        queue = QueueState(f"q{len(self.queues)}", kind, durable, False)
        self.queues.append(queue)
        return queue

    def publish(
        self, *queues: QueueState, channel: int = 1, persistent: bool = True, priority: int = 0
    ) -> Message:
        """Publish a message, which the node has from then on."""
        message = self.send(*queues, channel=channel, persistent=persistent, priority=priority)
        self.hand(message)
        return message

    def send(
        self, *queues: QueueState, channel: int = 1, persistent: bool = True, priority: int = 0
    ) -> Message:
        """Publish a message, which is on its way for now."""
        sequence = 1 + sum(each.channel == channel for each in self.messages.values())
        message = self.new_message(channel, sequence, 20, persistent)
        message.priority = priority
        self.copy_to(message, list(queues))
        return message

    def hand(self, message: Message) -> None:
        """The node gets it."""
        message.life, message.turn, message.step = self.life, self.turns, self.step_number
        message.site = "n1"
        for checker in self.checkers:
            checker.handed([message])

    def confirmed(self, *queues: QueueState, **how: Any) -> Message:
        """Publish a message, and have it confirmed."""
        message = self.publish(*queues, **how)
        self.confirm(message)
        assert message.status == CONFIRMED
        return message

    def give(self, message: Message, holder: Holder, redelivered: bool = False) -> Copy:
        """A client gets a message."""
        copy = message.copies[0]
        self.deliver(copy.queue, body_of(message), redelivered, holder)
        copy.holder = holder
        return copy

    def give_from(self, queue: QueueState, message: Message) -> None:
        """A client gets a message out of some queue."""
        self.deliver(queue, body_of(message), False, Holder("a"))

    def settle(self, copy: Copy, for_good: bool = False) -> None:
        """A client is done with it, and the node has heard so."""
        copy.holder = None
        copy.settled = SETTLED_FOR_GOOD if for_good else SETTLED
        copy.settled_life = self.life
        for checker in self.checkers:
            checker.settled(copy)

    def finish(self) -> None:
        """The run is over."""
        for checker in self.checkers:
            checker.finished()

    def start_again(self, orderly: bool = False) -> None:
        """The node's process ends, and another one begins."""
        for checker in self.checkers:
            checker.ended(orderly)
        self.life += 1


def complained(history: History) -> tuple[str, int] | None:
    """Act a history out.

    Returns:
        Module and line that complained; None if nobody did.
    """
    try:
        history.act()
    except Violation as error:
        assert history.words and history.words in str(error), str(error)
        at = error.__traceback__
        assert at is not None
        while at.tb_next is not None:
            at = at.tb_next
        return at.tb_frame.f_globals["__name__"], at.tb_lineno
    assert not history.words, f"nobody complained: {history.words}"
    return None


def complaints_in(module: ModuleType) -> list[tuple[int, int]]:
    """First and last line of each statement by which a module complains."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    found: list[tuple[int, int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            if isinstance(node.exc.func, ast.Name) and node.exc.func.id == "Violation":
                found.append((node.lineno, node.end_lineno or node.lineno))
    return found
