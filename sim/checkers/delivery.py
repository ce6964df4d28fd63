"""Nothing is invented; a second delivery says so; what is held or done with stays so.

- A delivered message was published, to that queue, unaltered, and was neither returned nor rolled
  back.
- A message that a client has seen before comes with `redelivered`.
- A message that a living consumer holds unsettled goes to nobody else.
- A settled message comes again only if the node crashed before the settlement was durable.
- A transient message does not outlive the process that took it, in a classic queue.

Source: ACK-01 to ACK-05, ORD-06, DUR-02 to DUR-04, reliability section 5.
"""

from __future__ import annotations

from sim.checkers import Checker
from sim.model import (
    RETURNED,
    ROLLED_BACK,
    SETTLED,
    SETTLED_FOR_GOOD,
    UNCOMMITTED,
    Copy,
    Holder,
    Violation,
)


class DeliveryChecker(Checker):
    """See the module's head."""

    def delivered(self, copy: Copy, redelivered: bool, holder: Holder) -> None:
        """Check one delivery against all that is known of its message."""
        message, queue = copy.message, copy.queue
        life = self.world.life
        if message.status in (RETURNED, ROLLED_BACK, UNCOMMITTED) or message.life < 0:
            raise Violation(f"{message} came out of queue {queue.name}")
        if message.life != life and not copy.survives_restart():
            raise Violation(f"{message} outlived its process in queue {queue.name}")
        before = copy.holder
        if before is not None and before.alive:
            raise Violation(
                f"{message} of queue {queue.name} was given to {holder.name} while {before.name} "
                "holds it"
            )
        if copy.seen > 0 and not redelivered:
            raise Violation(
                f"{message} of queue {queue.name} came again to {holder.name} without redelivered"
            )
        if copy.settled == SETTLED_FOR_GOOD or (
            copy.settled == SETTLED and copy.settled_life == life
        ):
            raise Violation(f"{message} of queue {queue.name} came again after it was settled")
