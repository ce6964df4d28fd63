"""First deliveries to one consumer keep the order of each publishing channel.

Where messages have priorities they do among those of one.

Source: ORD-04, ORD-06, ORD-07; V-04, G-10.
"""

from __future__ import annotations

from sim.checkers import Checker
from sim.model import Copy, Holder, Violation


class OrderChecker(Checker):
    """See the module's head."""

    def delivered(self, copy: Copy, redelivered: bool, holder: Holder) -> None:
        """Compare with the last first delivery from the same channel."""
        if redelivered:
            return
        message = copy.message
        key = (message.channel, copy.queue.name, copy.queue.level(message))
        last = holder.last.get(key, -1)
        if message.sequence <= last:
            raise Violation(
                f"{message} of queue {copy.queue.name} came to {holder.name} behind #{last} of "
                "the same channel"
            )
        holder.last[key] = message.sequence
