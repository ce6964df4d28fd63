"""Which settlements are durable, judged only by what clients are told.

The log keeps order, so once a message is confirmed that was handed to the node in a later turn than
an ack to the same queue, that ack survives every crash. An orderly stop makes all of them durable.
"""

from __future__ import annotations

from sim.checkers import Checker
from sim.model import SETTLED, SETTLED_FOR_GOOD, Copy, Message


class DurabilityChecker(Checker):
    """Turns settlements into settlements for good; `delivery` holds the node to them."""

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
