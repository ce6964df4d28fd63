"""Where the highest priority always goes first, it does when a queue is emptied.

That is in classic queues with priorities, and in quorum queues of `quorum_queue.compat = 4.3`. One
consumer takes all of a queue that nobody holds anything of. What was confirmed by then is there, so
that it does not come behind what has a lower priority. What comes again goes by other rules.

Source: CQ-08, CQ-09, PRI-02.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.checkers import Checker
from sim.model import CONFIRMED, Copy, Holder, QueueState, Violation

if TYPE_CHECKING:
    from sim.stage import Stage


class RankChecker(Checker):
    """See the module's head."""

    def __init__(self, world: Stage) -> None:
        super().__init__(world)
        self._emptied: dict[str, set[Copy]] = {}
        """What is confirmed to be in each queue that is being emptied."""
        self._last: dict[str, tuple[Holder, int]] = {}

    def begin(self) -> None:
        """All queues are about to be emptied."""
        self._last = {}
        self._emptied = {
            queue.name: {copy for copy in queue.copies if copy.message.status == CONFIRMED}
            for queue in self.world.queues
            if self._is_strict(queue) and self.world.at_rest(queue)
        }

    def _is_strict(self, queue: QueueState) -> bool:
        if not self.world.options.priorities or queue.retry_ms or queue.volatile:
            return False
        return queue.max_priority > 0 if queue.kind == "classic" else self.world.options.strict

    def delivered(self, copy: Copy, redelivered: bool, holder: Holder) -> None:
        """Compare with the last first delivery of the same queue."""
        queue = copy.queue
        confirmed = self._emptied.get(queue.name)
        if redelivered or confirmed is None:
            return
        level = queue.level(copy.message)
        last_holder, last = self._last.get(queue.name, (holder, level))
        if last_holder is holder and copy in confirmed and level > last:
            raise Violation(
                f"{copy.message} of queue {queue.name} and priority {level} came to {holder.name} "
                f"behind one of priority {last}"
            )
        self._last[queue.name] = (holder, level)
        self.world.count("emptied by priority")
