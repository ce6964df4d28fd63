"""Nothing confirmed is lost.

At the end every queue is drained. Each confirmed message must then have been delivered and settled,
or may be missing for a reason the protocol allows: purged or deleted with its queue, transient and
older than the last restart, or dropped at a quorum queue's delivery limit.

Source: V-01, G-01, QQ-27, DUR-03, POI-03.
"""

from __future__ import annotations

from sim.checkers import Checker
from sim.model import CONFIRMED, WAITING, Copy, Violation


class LossChecker(Checker):
    """See the module's head."""

    def finished(self) -> None:
        """Account for every confirmed message."""
        for queue in self.world.queues:
            missing = [copy for copy in queue.copies if self.is_missing(copy)]
            if len(missing) > self.world.dropped(queue):
                raise Violation(
                    f"{len(missing)} confirmed messages of queue {queue.name} are lost, first "
                    f"{missing[0].message}"
                )

    def is_missing(self, copy: Copy) -> bool:
        """Whether a copy was not delivered and settled, and there is no reason for it."""
        message = copy.message
        if message.status != CONFIRMED or copy.settled != WAITING:
            return False
        queue = copy.queue
        if message.step < queue.cleared_step or message.turn <= queue.cleared_turn:
            return False
        if message.step <= queue.taken_step:
            return False
        return message.life == self.world.life or copy.survives_restart()
