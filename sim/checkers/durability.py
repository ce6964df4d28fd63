"""Which settlements are durable, judged only by what clients are told.

The log keeps order, so once a message is confirmed that was handed to the node in a later turn than
an ack to the same queue, that ack survives every crash. Where the queue kept acks for a moment when
the message came, that may be in the log before them (decision 90). An orderly stop makes all of
them durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.checkers import Checker
from sim.model import SETTLED, SETTLED_FOR_GOOD, Copy, Message

if TYPE_CHECKING:
    from sim.world import World


class DurabilityChecker(Checker):
    """Turns settlements into settlements for good; `delivery` holds the node to them."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._world = world
        self._ahead: set[tuple[Message, str]] = set()
        """Messages that may be in the log of a queue before settlements that came before them."""

    def handed(self, messages: list[Message]) -> None:
        """The node has messages; where it keeps settlements for a moment they may go first."""
        for message in messages:
            for copy in message.copies:
                if self._world.keeps_settlements(copy.queue):
                    self._ahead.add((message, copy.queue.name))

    def settled(self, copy: Copy) -> None:
        """The node has taken an ack."""
        if copy.queue.durable:
            copy.queue.settling.append((self.world.turns, copy))

    def confirmed(self, message: Message) -> None:
        """All earlier acks to the same queues are durable."""
        for copy in message.copies:
            queue = copy.queue
            if not queue.settling or not copy.survives_restart():
                continue
            if (message, queue.name) in self._ahead:
                continue
            while queue.settling and queue.settling[0][0] < message.turn:
                _, done = queue.settling.popleft()
                if done.settled == SETTLED:
                    done.settled = SETTLED_FOR_GOOD

    def ended(self, orderly: bool) -> None:
        """After an orderly stop nothing that was settled comes back."""
        for queue in self.world.queues:
            if orderly:
                for _, copy in queue.settling:
                    if copy.settled == SETTLED:
                        copy.settled = SETTLED_FOR_GOOD
            queue.settling.clear()
