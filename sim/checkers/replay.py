"""A snapshot and the entries behind it give what all entries give; a stop changes nothing.

After each recovery every queue's machine is compared with one that replays the whole history of its
log. After an orderly stop it is also compared with what the node had before.

Source: G-12 and G-13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.checkers import Checker
from sim.journal import Journal
from sim.model import Violation
from warren.queues.fifo.machine import Fifo
from warren.queues.logged import LoggedQueue

if TYPE_CHECKING:
    from sim.world import World

Quadruples = list[tuple[int, int, int, int]]


def messages_of(fifo: Fifo) -> Quadruples:
    """Ready messages with their counters, transient ones left out."""
    runs = fifo.ready.quadruples()
    gone = {n for low, high in fifo.transient.pairs() for n in range(low, high + 1)}
    return sorted(
        (n, n, acquired, failed)
        for first, last, acquired, failed in runs
        for n in range(first, last + 1)
        if n not in gone
    )


class ReplayChecker(Checker):
    """See the module's head."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._world = world
        self.journal = Journal()
        self._before: dict[int, bytes | Quadruples] = {}

    def gather(self) -> None:
        """Keep the entries of closed files; called before the node may remove them."""
        node = self._world.node
        if node is not None:
            self.journal.gather(node)

    def ended(self, orderly: bool) -> None:
        """Note what has to be there again."""
        self._before = {}
        node = self._world.node
        if node is None or not orderly:
            return
        for group_id, queue in node.queues.logged.items():
            self._before[group_id] = self._state(queue)

    def recovered(self) -> None:
        """Compare."""
        node = self._world.node
        assert node is not None
        self.journal.gather(node)
        for group_id, queue in node.queues.logged.items():
            before = self._before.get(group_id)
            if before is not None and before != self._state(queue):
                raise Violation(f"{queue}: an orderly stop changed the machine")
            self._compare(queue)
        self._before = {}

    def _compare(self, queue: LoggedQueue) -> None:
        node = self._world.node
        assert node is not None
        index = int(node.log.group(int(queue.group_id), False).persisted_index)
        full = self.journal.replayed(node, int(queue.group_id), index) if index > 0 else None
        if full is None:
            self.world.count("partial replays")
            return
        self.world.count("full replays")
        fifo = queue.fifo
        if queue.type.replicated:
            same = full.encode() == fifo.encode()
        else:
            same = numbers(messages_of(full)) == numbers(messages_of(fifo))
        if not same:
            raise Violation(
                f"{queue}: snapshot and tail give {describe(fifo)}, the whole log {describe(full)}"
            )

    def _state(self, queue: LoggedQueue) -> bytes | Quadruples:
        return queue.fifo.encode() if queue.type.replicated else messages_of(queue.fifo)


def numbers(runs: Quadruples) -> list[int]:
    """Only the message numbers."""
    return [run[0] for run in runs]


def describe(fifo: Fifo) -> str:
    """A machine in a line."""
    return (
        f"ready {fifo.ready.quadruples()} "
        f"held {fifo.held_count()} consumers {sorted(fifo.consumers)} next {fifo.next_message}"
    )
