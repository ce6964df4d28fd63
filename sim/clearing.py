"""Purges and deletions that no client is told of, for its connection ended first.

What came over a connection is taken up in the turn after its end, or never; where its client only
said goodbye, when the node has read so far. A purge is done then. A deletion is only written down:
it is done when its entry of the tables is durable, which a disk that is full, or stands still, puts
off for long. Until then the queue is there for all who ask, and whatever comes into it goes with
it. A queue stays that no client asked to delete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from sim.model import QueueState, Violation
from warren.node.node import Node

if TYPE_CHECKING:
    from sim.connection import SimConnection
    from sim.world import World


@final
class Clearing:
    """A purge or a deletion that may still be carried out.

    Attributes:
        connection: Over which it was asked for.
        deletes: Whether it may be a deletion.
        asked_step: It was asked for before this step.
        turn: The node had taken so many turns when something of it could still be read.
        before: What the node took the queue's name for at that time.
        mark: The entry of the tables up to which it is done, or never will be; -1 while that is
            not known.
    """

    def __init__(self, queue: QueueState, connection: SimConnection, asked_step: int) -> None:
        self.queue = queue
        self.connection = connection
        self.deletes = queue.is_being_deleted()
        self.asked_step = asked_step
        self.turn = -1
        self.before = 0
        self.mark = -1

    def is_coming(self) -> bool:
        """Whether the node may read something of it yet, from a client that is gone."""
        connection = self.connection
        return connection.condemned and not connection.closing and not connection.dead


@final
class Clearings:
    """See the module's head."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._open: list[Clearing] = []
        self._groups: dict[str, int] = {}
        """What the node takes the names of queues for that are deleted now and then."""

    def add(self, queue: QueueState, connection: SimConnection) -> None:
        """Whoever asked for a queue to be cleared is gone."""
        clearing = Clearing(queue, connection, self._world.step_number)
        self._read(clearing)
        self._open.append(clearing)
        if clearing.deletes:
            queue.doomed = True

    def watch(self, node: Node) -> None:
        """The node has handled an event.

        Raises:
            Violation: A queue went without being asked to.
        """
        queues = [queue for queue in self._world.queues if queue.volatile]
        for queue in queues:
            before, group = self._groups.get(queue.name, 0), group_of(node, queue)
            if before not in (0, group) and not queue.is_being_deleted():
                raise Violation(f"queue {queue.name} was {before}, is {group}, and not deleted")
            self._groups[queue.name] = group
        if self._open:
            self._open = [clearing for clearing in self._open if not self._is_over(clearing, node)]
            for queue in queues:
                queue.doomed = any(each.deletes and each.queue is queue for each in self._open)

    def ended(self) -> None:
        """The node's process is over: what it had not written down is never done."""
        self._open = [clearing for clearing in self._open if clearing.deletes]
        for clearing in self._open:
            clearing.mark = -1
            clearing.turn = -1

    def _read(self, clearing: Clearing) -> None:
        """What its client sent may be done from here on."""
        turns = self._world.turns
        clearing.turn = turns
        clearing.before = self._groups.get(clearing.queue.name, 0)
        clearing.queue.cleared_turn = turns + 1

    def _is_over(self, clearing: Clearing, node: Node) -> bool:
        """Whether nothing more comes of it, and all know where its queue is."""
        queue, world = clearing.queue, self._world
        if clearing.is_coming():
            self._read(clearing)
            return False
        if world.turns <= clearing.turn:
            return False
        if not clearing.deletes:
            return True
        member = node.store.member()
        if clearing.mark < 0:
            clearing.mark = int(member.log.last_index)
        if member.applied_index < clearing.mark:
            return False
        group = self._groups[queue.name]
        if clearing.before != group:
            queue.taken_step = world.step_number
            clearing.before = group
        if group == 0:
            return False
        queue.declared_again(world.step_number, clearing.asked_step)
        return True


def group_of(node: Node, queue: QueueState) -> int:
    """What a node takes the name of a queue for; 0 for none."""
    vhost = node.metadata.vhosts.get("/")
    record = None if vhost is None else vhost.queues.get(queue.name)
    return 0 if record is None else int(record.group_id)
