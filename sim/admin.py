"""A client that purges and deletes queues."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, final

from sim.actors import Actor
from sim.model import QueueState
from warren.wire.amqp091 import spec

if TYPE_CHECKING:
    from sim.connection import SimConnection
    from sim.stage import Stage


@final
class Admin(Actor):
    """Clears queues now and then, and declares again what it deleted."""

    def __init__(self, world: Stage, name: str, number: int, purged: list[QueueState]) -> None:
        super().__init__(world, name, number)
        self._queues = purged
        self._clearing: list[QueueState] = []
        self._over: SimConnection | None = None
        """The connection that it uses, or has used last."""

    def set_up(self) -> None:
        """Declare all queues."""
        self.tolerated = {404}
        self._over = self.connection
        self._clearing = []
        for queue in self._queues:
            self.declare(queue)
        self.call(spec.BasicQos(), self._begin)

    def _begin(self, method: spec.Method, content: bytes) -> None:
        for queue in self._queues:
            # It may still go by what was asked for over another connection.
            if not queue.doomed:
                queue.declared_again(self.world.step_number)
        self.begin(method, content)

    def ended(self) -> None:
        """What was asked for may still be done, as long as this node lives."""
        assert self._over is not None, "it has asked for something"
        for queue in self._clearing:
            self.world.may_be_cleared(queue, self._over)
        self._clearing = []

    def clears(self, queue: QueueState) -> bool:
        """Whether it waits to hear that a queue is purged or gone."""
        return queue in self._clearing

    def act(self) -> None:
        """Purge or delete a queue."""
        if self.busy() or self.random.random() > self.world.options.clear_share:
            return
        queue = self.random.choice(self._queues)
        self._clearing.append(queue)
        if queue.volatile and self.random.random() < 0.5:
            self.world.say("%s deletes %s", self.name, queue.name)
            self.world.count("deletes")
            queue.deleting(self.world.step_number)
            self.call(spec.QueueDelete(queue=queue.name), self._done)
            self.declare(queue, partial(self._declared, queue))
        else:
            self.world.say("%s purges %s", self.name, queue.name)
            self.world.count("purges")
            self.call(spec.QueuePurge(queue=queue.name), self._done)

    def _declared(self, queue: QueueState, method: spec.Method, content: bytes) -> None:
        queue.declared_again(self.world.step_number)

    def _done(self, method: spec.Method, content: bytes) -> None:
        self._clearing.pop(0).cleared_step = self.world.step_number
