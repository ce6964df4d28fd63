"""Nothing is invented; a second delivery says so; what is held or done with stays so.

- A delivered message was published, to that queue, unaltered, and was neither returned nor rolled
  back.
- A message that a client has seen before comes with `redelivered`; another one only if it may
  have been on its way to somebody who was gone before it came.
- A message of a quorum queue comes no more once it was rejected oftener than its delivery limit.
- A message that a living consumer holds unsettled goes to nobody else.
- A settled message comes again only if the node crashed before the settlement was durable.
- A transient message does not outlive the process that took it, in a classic queue.

Source: ACK-01 to ACK-05, ORD-06, DUR-02 to DUR-04, V-02, V-03.
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
        life = self.world.life
        if 0 <= copy.message.life != life and not copy.survives_restart():
            raise Violation(f"{copy.message} outlived its process in queue {copy.queue.name}")
        done = copy.settled == SETTLED_FOR_GOOD or (
            copy.settled == SETTLED and copy.settled_life == life
        )
        if copy.rejected_life != life:
            copy.rejected_life = life
            copy.rejected_before = copy.rejected
        # What a crash took of the log counts for no limit: a sole member hands out ahead of it.
        check_delivery(copy, redelivered, holder, done, copy.rejected - copy.rejected_before)


def check_delivery(copy: Copy, redelivered: bool, holder: Holder, done: bool, counted: int) -> None:
    """What holds for every delivery, of one node or a cluster.

    Args:
        holder: Who is given it.
        done: Whether it was settled, and no end of a process can have undone that.
        counted: How often a client rejected it for certain, as far as its queue knows.

    Raises:
        Violation: It is one that must not be.
    """
    message, name = copy.message, copy.queue.name
    if message.status in (RETURNED, ROLLED_BACK, UNCOMMITTED) or message.life < 0:
        raise Violation(f"{message} came out of queue {name}")
    before = copy.holder
    if before is not None and before.alive:
        raise Violation(
            f"{message} of queue {name} was given to {holder.name} while {before.name} holds it"
        )
    if copy.seen > 0 and not redelivered:
        raise Violation(
            f"{message} of queue {name} came again to {holder.name} without redelivered"
        )
    if redelivered and copy.seen == 0 and not copy.queue.may_be_redelivered(message):
        raise Violation(
            f"{message} of queue {name} came to {holder.name} redelivered, though to nobody before"
        )
    if 0 <= copy.queue.delivery_limit < counted and not copy.queue.grouped:
        raise Violation(
            f"{message} of queue {name} came to {holder.name} after {counted} rejections, with a "
            f"limit of {copy.queue.delivery_limit}"
        )
    if done:
        raise Violation(f"{message} of queue {name} came again after it was settled")
