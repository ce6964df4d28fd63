"""Consumers that held messages for too long: whoever had one taken has to be told in the end.

What a node says late may cross with this, so that clients look at what came to them, and when.

Source: CT-03.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from sim.consumer import Receiver
from sim.model import Copy, Holder, Violation

if TYPE_CHECKING:
    from sim.cluster.world import ClusterWorld


@final
class Untold:
    """Who seems to have held a message for too long, and is not told yet.

    Attributes:
        holder: Who had it when another one got it.
        taker: That one, if there is one. If it is told that it held messages for too long, this
            may have been one of them, sent to it before the holder had it.
    """

    def __init__(self, holder: Holder, taker: Holder | None) -> None:
        self.holder = holder
        self.taker = taker
        self._told = holder.told
        self._taker_told = 0 if taker is None else taker.told

    def lasts(self) -> bool:
        """Whether that is so still."""
        explained = self.taker is not None and self.taker.told != self._taker_told
        return self.holder.alive and self.holder.told == self._told and not explained


@final
class Timeouts:
    """See the module's head."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._untold: list[Untold] = []

    def taken(self, copy: Copy, now_ms: int, taker: Holder | None = None) -> None:
        """A message had gone to another one by then; who had it before may not know yet.

        Args:
            copy: The message.
            now_ms: When it was found to have gone.
            taker: Who got it, if anybody.

        Raises:
            Violation: Whoever has it cannot have held it for too long.
        """
        if copy.holder is not None:
            self._world.closed_unread(copy.holder)
        if copy.holder is not None and copy.holder.alive and copy.queue.timeout_ms >= 0:
            self._timed_out(copy, copy.holder, now_ms, taker)

    def _timed_out(self, copy: Copy, holder: Holder, now_ms: int, taker: Holder | None) -> None:
        if not self._may_be_held_too_long(copy, now_ms):
            held_ms = now_ms - copy.message.sent_ms
            raise Violation(
                f"{copy.message} was taken from {holder.name}, {held_ms} ms after it was published"
            )
        for connection in self._world.connections:
            for actor in connection.users():
                if isinstance(actor, Receiver) and actor.holder is holder:
                    if copy not in actor.told_of:
                        self._untold.append(Untold(holder, taker))
                    actor.void |= {tag for tag, held in actor.held.items() if held is copy}
                    actor.doubted.add(copy)
                    copy.holder = None
        self._world.count("messages held too long")

    def sent_late(self, receiver: Receiver, copy: Copy) -> bool:
        """A message comes to whom it went first, behind whom it went to when that was too long ago.

        A node that hears nothing for a while says late whom it gave what, and then who held it for
        too long: that has to come, too.
        """
        if not self._may_be_held_too_long(copy, self._world.now_ms()):
            return False
        self._untold.append(Untold(receiver.holder, None))
        self._world.count("messages sent when they were held too long")
        return True

    def _may_be_held_too_long(self, copy: Copy, now_ms: int) -> bool:
        """Whether a message was old enough by then to have been held for too long."""
        return self._world.wall_jumps or now_ms - copy.message.sent_ms >= copy.queue.timeout_ms

    def all_told(self) -> bool:
        """Whether all who held messages for too long know."""
        self._untold = [untold for untold in self._untold if untold.lasts()]
        return not self._untold
