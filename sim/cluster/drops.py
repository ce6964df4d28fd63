"""How many messages left each queue without being settled, over all lives of its node.

They went with consumers who acknowledge nothing, or at the delivery limit. A node counts them, and
a crash may have it forget the count of a classic queue, not that they went; what an orderly stop
writes down is not counted again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from sim.model import QueueState

if TYPE_CHECKING:
    from sim.cluster.site import Site
    from sim.cluster.world import ClusterWorld


Counts = tuple[int, int]
"""What nodes have forgotten of a queue, and what they count."""


@final
class Drops:
    """See the module's head."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._forgotten: dict[str, int] = {}
        """What nodes have forgotten of each queue."""
        self._ended: dict[tuple[str, str], int] = {}
        """What nodes that are gone had counted of each queue."""

    def ending(self, site: Site) -> None:
        """A node is about to be gone."""
        for queue in self._world.queues:
            found = self._world.queue_on(site, queue) if queue.single else None
            if found is not None:
                self._ended[site.name, queue.name] = int(found.fifo.dropped)

    def began(self, site: Site) -> None:
        """A node has recovered: what it still counts is not forgotten."""
        for queue in self._world.queues:
            counted = self._ended.pop((site.name, queue.name), 0)
            if counted:
                found = self._world.queue_on(site, queue)
                kept = 0 if found is None else int(found.fifo.dropped)
                before = self._forgotten.get(queue.name, 0)
                self._forgotten[queue.name] = before + max(0, counted - kept)

    def counts(self, queue: QueueState) -> Counts:
        """What there is now."""
        found = [self._world.queue_on(site, queue) for site in self._world.running()]
        counted = [int(each.fifo.dropped) for each in found if each is not None]
        return self._forgotten.get(queue.name, 0), max(counted, default=0)

    def total(self, queue: QueueState) -> int:
        """So many at most."""
        return sum(self.counts(queue))

    def go_back(self, site: Site, queue: QueueState, counts: Counts) -> None:
        """A queue's node is down, and will find what there was before."""
        self._forgotten[queue.name], self._ended[site.name, queue.name] = counts
