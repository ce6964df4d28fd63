"""Writes down what clients of a simulated node see, as a history: many runs in one.

The simulator's own checkers know more; a history shows with fewer assumptions that they look, and
gives the checkers of histories something to agree on. Clusters are left out: what a consumer there
was sent late may look as if it came for the first time.
"""

from __future__ import annotations

from pathlib import Path

from sim.checkers import Checker
from sim.checkers.loss import LossChecker
from sim.history.events import History, Log
from sim.model import CONFIRMED, WAITING, Copy, Holder, Message
from sim.runner import Outcome, run_seed
from sim.stage import Stage


class Recorder(Checker):
    """Notes the events of one run; names begin with its seed, so that runs are told apart."""

    def __init__(self, world: Stage, history: History) -> None:
        super().__init__(world)
        self._history = history
        self._log = history.log_of(str(world.seed))
        self._holders: dict[Holder, str] = {}
        self._came: set[Copy] = set()

    def _note(
        self,
        op: str,
        kind: str,
        copy: Copy,
        redelivered: bool | None = None,
        log: Log | None = None,
    ) -> None:
        """Note what happens to one copy; a publisher is a channel and a level of priority."""
        message, queue = copy.message, copy.queue
        publisher = f"{self.world.seed}.{message.channel}.{queue.level(message)}"
        name = f"{self.world.seed}.{queue.name}"
        (log or self._log).note(op, kind, name, publisher, message.sequence, redelivered)

    def handed(self, messages: list[Message]) -> None:
        """Publishes were handed over."""
        for message in messages:
            for copy in message.copies:
                self._note("publish", "invoke", copy)

    def confirmed(self, message: Message) -> None:
        """A publisher was told that a message is safe."""
        for copy in message.copies:
            self._note("publish", "ok", copy)

    def delivered(self, copy: Copy, redelivered: bool, holder: Holder) -> None:
        """A client was given a message; each holder is a process of its own."""
        self._came.add(copy)
        process = self._holders.setdefault(holder, f"{self.world.seed}.h{len(self._holders)}")
        self._note("deliver", "ok", copy, redelivered, self._history.log_of(process))

    def settled(self, copy: Copy) -> None:
        """The node was told that a copy is done with."""
        self._note("settle", "info", copy)

    def recovered(self) -> None:
        """The node is back: there was a fault, and another life leads its queues."""
        self._log.note("fault", "ok", what=f"life {self.world.life}")
        self._log.note("leader", "ok", f"{self.world.seed}", node=f"life {self.world.life}")

    def finished(self) -> None:
        """Note what may be missing: it was purged, transient, dropped, or went with its queue."""
        loss = LossChecker(self.world)
        for queue in self.world.queues:
            may_be = self.world.dropped(queue)
            for copy in queue.copies:
                if copy.message.status != CONFIRMED or copy in self._came:
                    continue
                # A group of readers may have settled it, which is no delivery.
                if copy.settled == WAITING and loss.is_missing(copy):
                    if may_be == 0:
                        continue
                    may_be -= 1
                self._note("gone", "info", copy)


def record(folder: Path, seeds: range, operations: int) -> list[Outcome]:
    """Run seeds, and write what their clients saw into one history."""
    history = History(folder)
    outcomes = [
        run_seed(
            seed,
            operations,
            direct=lambda world: world.checkers.insert(0, Recorder(world, history)),
        )
        for seed in seeds
    ]
    history.close()
    return outcomes
