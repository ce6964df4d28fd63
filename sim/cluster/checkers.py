"""What clients of a cluster are promised; see `sim.checkers` for the hooks.

A node that is cut off may be taken for dead: then its session is closed, and what its consumers
hold goes to others although the node still runs. From the moment that is committed, nothing that
those consumers are given or settle counts, until the node has learned of it; see
`ClusterWorld.closed`. Everything else is as for one node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from sim.checkers import Checker
from sim.checkers.checkouts import CheckoutChecker
from sim.checkers.delivery import check_delivery
from sim.model import (
    CONFIRMED,
    SETTLED,
    SETTLED_FOR_GOOD,
    SETTLED_MAYBE,
    WAITING,
    Copy,
    Holder,
    Message,
    Violation,
)

if TYPE_CHECKING:
    from sim.cluster.world import ClusterWorld

MEMBERS_NEVER_ALONE: Final = 3
"""A queue that begins with fewer members may come to have only one."""


@final
class ClusterDeliveryChecker(Checker):
    """Nothing is invented; a second delivery says so; what is held or done with stays so."""

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self._world = world

    def delivered(self, copy: Copy, redelivered: bool, holder: Holder) -> None:
        """Check one delivery against all that is known of its message."""
        done = copy.settled in (SETTLED, SETTLED_FOR_GOOD)
        if copy.holder is not holder:
            self._world.timeouts.taken(copy, self._world.now_ms(), holder)
        counted = copy.rejected
        if self._world.faults.group_size < MEMBERS_NEVER_ALONE:
            # As for one node: a sole member hands out ahead of its disk.
            lives = sum(site.life for site in self._world.sites.values())
            if copy.rejected_life != lives:
                copy.rejected_life = lives
                copy.rejected_before = copy.rejected
            counted -= copy.rejected_before
        check_delivery(copy, redelivered, holder, done, counted)
        if copy.queue.single:
            self.world.count("delivered from classic queues")


@final
class ActiveChecker(Checker):
    """Where one consumer at a time is served no other gets anything before that one is gone.

    Not where consumers may be timed out: another one is served before they are told. One that comes
    with a higher priority takes the place of one that holds nothing. Where it is gone again by
    then, any other of those that wait may be next.
    """

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self._world = world

    def delivered(self, copy: Copy, redelivered: bool, holder: Holder) -> None:
        """Compare with who was served last."""
        queue = copy.queue
        active = queue.active
        if not queue.single_active or not holder.subscribed or holder is active:
            return
        if active is not None and active.alive and active.subscribed:
            self._world.closed_unread(active)
            goes_first = any(
                arrival.favour > active.favour and arrival.may_follow(active.since)
                for arrival in queue.came
            )
            if queue.active is active and queue.timeout_ms < 0 and not goes_first:
                raise Violation(
                    f"{copy.message} of queue {queue.name} went to {holder.name}, while "
                    f"{active.name} is the active consumer"
                )
        if active is not None:
            self.world.count("active consumers followed")
        queue.active = holder


@final
class ClusterCheckoutChecker(CheckoutChecker):
    """As for one node, from all nodes."""

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self._world = world

    def _taken(self, copy: Copy, now_ms: int) -> None:
        self._world.timeouts.taken(copy, now_ms)

    def _done_with(self, copy: Copy) -> bool:
        return copy.settled in (SETTLED, SETTLED_FOR_GOOD)


@final
class Settling:
    """Settlements by one process in one queue that its end may still undo."""

    def __init__(self) -> None:
        self.copies: list[tuple[int, Copy]] = []

    def undo(self) -> None:
        """The process or its session is over: nobody knows which of them were committed."""
        for _, copy in self.copies:
            if copy.settled == SETTLED:
                copy.settled = SETTLED_MAYBE
        self.copies = []

    def keep(self, turn: int) -> None:
        """Something handed over in a turn is committed: so is what came before."""
        left: list[tuple[int, Copy]] = []
        for at, copy in self.copies:
            if at >= turn:
                left.append((at, copy))
            elif copy.settled == SETTLED:
                copy.settled = SETTLED_FOR_GOOD
        self.copies = left


@final
class ClusterDurabilityChecker(Checker):
    """Which settlements are for good, judged by confirms behind them through the same node."""

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self._world = world
        self._settling: dict[tuple[str, str], Settling] = {}
        self._ahead: set[tuple[Message, str]] = set()
        """Messages that may be in the log of a queue before settlements that came before them."""

    def handed(self, messages: list[Message]) -> None:
        """A node has messages; where it keeps settlements for a moment they may go first."""
        for message in messages:
            for copy in message.copies:
                if self._world.sites[message.site].keeps_settlements(copy.queue.name):
                    self._ahead.add((message, copy.queue.name))

    def settled_through(self, site: str, turn: int, copy: Copy) -> None:
        """A node has taken a settlement."""
        self._settling.setdefault((site, copy.queue.name), Settling()).copies.append((turn, copy))

    def confirmed(self, message: Message) -> None:
        """Earlier settlements through the same node and to the same queues are for good."""
        site = message.site
        for copy in message.copies:
            known = self._settling.get((site, copy.queue.name))
            ahead = (message, copy.queue.name) in self._ahead
            if known is not None and not copy.queue.single and not ahead:
                known.keep(message.turn)

    def over(self, site: str, queue: str) -> None:
        """A node is gone, or its session with one queue is."""
        for key in list(self._settling):
            if key[0] == site and queue in ("", key[1]):
                self._settling.pop(key).undo()


@final
class ClusterLossChecker(Checker):
    """Nothing confirmed is lost: at the end it was delivered and settled."""

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self._world = world

    def _may_be_purged(self, copy: Copy) -> bool:
        queue, message = copy.queue, copy.message
        if queue.single:
            return message.step < queue.cleared_step
        return self._world.ledger.may_be_purged(queue, message)

    def finished(self) -> None:
        """Account for every confirmed message."""
        for queue in self.world.queues:
            if queue.lost or self._world.out_of_use(queue):
                continue
            missing = [
                copy
                for copy in queue.copies
                if copy.message.status == CONFIRMED
                and copy.settled == WAITING
                and not self._may_be_purged(copy)
            ]
            if len(missing) > self.world.dropped(queue):
                raise Violation(
                    f"{len(missing)} confirmed messages of queue {queue.name} are lost, first "
                    f"{missing[0].message}"
                )
