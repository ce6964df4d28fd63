"""Classic queues in a cluster: each lives on one node, and is used from the others over lines.

A line ends for its two nodes at different times. Once the queue's node has given one up, what
consumers at the other end hold goes to others, although they may not know of it: nothing that they
are given or settle counts until their node has noticed, and they have read what it had said before.
See `warren.node.remote.proxying` for lines, and `ClusterWorld.closed` for the same with quorum
queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from sim.model import SETTLED_MAYBE, WAITING, Message, QueueState
from warren.queues.fifo.consumers import Consumer
from warren.queues.fifo_queue import FifoQueue

if TYPE_CHECKING:
    from sim.cluster.site import Site
    from sim.cluster.world import ClusterWorld

End = tuple[str, str]
"""A node, and the one at the other end of a line."""


@final
class Lines:
    """See the module's head."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._homes: dict[str, str] = {}
        """Where each queue lives."""
        self._moved: dict[str, int] = {}
        """When one was declared again elsewhere, as a step."""
        self._served: dict[End, int] = {}
        """The line in use, as the queues' node sees it."""
        self._fronts: dict[End, int] = {}
        """The same as the other node sees it."""
        self._changed: dict[End, int] = {}
        """When that was another one last, as a step."""
        self._consumers: dict[int, list[Consumer]] = {}
        """Of each queue, where it lives."""
        self._doubted: set[tuple[str, str]] = set()
        """Nodes that have not noticed that a line is over, with a queue that they used."""
        self._lost: set[str] = set()
        """Queues whose machine is lost for good."""
        self._without: set[tuple[str, str]] = set()
        """Nodes that know of no queue by the name of one of those."""
        self._missed: dict[tuple[str, str], int] = {}
        """When a node came to know of one, or still did not, as a step."""

    def watch(self, site: Site) -> None:
        """An event was handled by a node."""
        node = site.node
        assert node is not None
        for group_id, queue in node.remotes.owned.items():
            if self._homes.setdefault(queue.name, site.name) != site.name:
                self._homes[queue.name] = site.name
                self._moved[queue.name] = self._world.step_number
            assert isinstance(queue, FifoQueue), "all that is served to other nodes"
            consumers = list(queue.fifo.consumers.values())
            if consumers != self._consumers.get(group_id):
                self._consumers[group_id] = consumers
                self._world.consumers_changed(group_id)
        for front, served in node.remotes._served.items():
            number = int(served.number) if served.is_open else 0
            before = self._served.get((site.name, front), 0)
            if number != before:
                self._served[site.name, front] = number
                if before:
                    self._given_up(site.name, front, before)
        for home, line in node.remotes._fronts.items():
            number = int(line.number)
            before = self._fronts.get((site.name, home), 0)
            if number != before:
                self._fronts[site.name, home] = number
                self._changed[site.name, home] = self._world.step_number
                if before:
                    self._noticed(site.name, home)

        for name in self._lost:
            key = (site.name, name)
            if key in self._without:
                self._missed[key] = self._world.step_number
            if node.metadata.queue("/", name) is not None:
                self._without.discard(key)
            else:
                self._without.add(key)
                self._missed[key] = self._world.step_number

    def ended(self, site: Site) -> None:
        """A process is gone, and with it what it had not written down."""
        name = site.name
        for queue in self.queues_on(name):
            for copy in queue.copies:
                if copy.message.life >= 0 and not copy.survives_restart():
                    if copy.settled == WAITING:
                        copy.settled = SETTLED_MAYBE
        for front, home in list(self._fronts):
            if home == name and self._fronts[front, home]:
                self._given_up(home, front, self._fronts[front, home])
            elif front == name:
                del self._fronts[front, home]
        for home, front in list(self._served):
            if home == name:
                del self._served[home, front]
        self._doubted = {doubted for doubted in self._doubted if doubted[0] != name}

    def lost(self, site: Site) -> None:
        """A machine is lost for good: its queues may lose everything, and go with its node."""
        for queue in self.queues_on(site.name):
            queue.lost = True
            self._lost.add(queue.name)

    def may_refuse(self, message: Message, queue: str) -> bool:
        """Whether a publish may have found no line to its queue's node, or lost it."""
        if self._moved.get(queue, -1) >= message.step:
            return True
        end = (message.site, self._homes.get(queue, ""))
        if end[0] == end[1]:
            return False
        return not self._fronts.get(end) or self._changed.get(end, -1) >= message.step

    def may_return(self, message: Message, queue: str) -> bool:
        """Whether the node that has a publish may have known of no such queue.

        Other nodes hear later than the one that is asked that a queue is declared again.
        """
        return self._missed.get((message.site, queue), -1) >= message.step

    def doubtful(self, site: str, queue: str) -> bool:
        """Whether what clients of a node are given of a queue may be void."""
        return (site, queue) in self._doubted

    def queues_on(self, home: str) -> list[QueueState]:
        """The classic queues that live on a node."""
        return [each for each in self._world.queues if self._homes.get(each.name) == home]

    def _given_up(self, home: str, front: str, number: int) -> None:
        """A node with queues takes back what it had handed out over a line."""
        self._world.say("%s gives up its line to %s", home, front)
        self._world.count("lines given up")
        if self._world.expiring is not None:
            self._world.expiring.forget(front)
        knows = self._fronts.get((front, home)) != number
        for queue in self.queues_on(home):
            self._world.take_back(front, queue.name)
            if not knows:
                self._doubted.add((front, queue.name))

    def _noticed(self, front: str, home: str) -> None:
        """A node has noticed that a line is over; what it had said is still to be read."""
        self._world.say("%s has lost its line to %s", front, home)
        if self._world.expiring is not None:
            self._world.expiring.forget(front)
        for queue in self.queues_on(home):
            self._doubted.discard((front, queue.name))
            self._world.take_back(front, queue.name)
            self._world.late(front, queue.name)
