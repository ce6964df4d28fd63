"""The end of a run: no more trouble, every queue is drained, everything promised has to come.

1. Everybody gets the answers they wait for, and nothing is held that no client knows of.
2. All clients leave. Groups of readers give back what they hold.
3. A client takes everything out of every queue, until the node holds nothing.
4. The node is stopped and started: it must still hold nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor, Client
from sim.connection import SimConnection
from sim.consumer import Consumer, Receiver
from sim.model import CONFIRMED, QueueState, Violation
from sim.publisher import Publisher
from sim.replies import Server, last_talkers
from sim.short_lived import Dealer
from sim.told import Audit
from warren.queues.fifo.machine import Fifo
from warren.wire.amqp091 import spec

if TYPE_CHECKING:
    from sim.stage import Stage
    from sim.world import World

Done = Callable[[], bool]

STEPS_MAX: Final = 60_000
"""A phase that takes longer is stuck; the slowest takes a tenth of this."""
LOOK_EVERY: Final = 20
PROBE_BYTES: Final = 20


@final
class Returner(Actor):
    """Gives back what a group of readers has checked out."""

    def __init__(self, world: Stage, name: str, number: int, queue: QueueState) -> None:
        super().__init__(world, name, number)
        self._queue = queue
        self._group = world.options.name("g")

    def set_up(self) -> None:
        """Acquire, then release."""
        self.call(spec.TableAcquire(0, self._queue.name, self._group, 0), self._acquired)

    def _acquired(self, method: spec.Method, content: bytes) -> None:
        if not isinstance(method, spec.TableAcquireOk):
            raise Violation(f"{self.name}: {method.NAME} answers acquire")
        self.world.checkouts.acquired(self._queue, self._group, method.epoch, 0)
        self.call(spec.TableRelease(0, self._queue.name, self._group, method.epoch), self.begin)

    def act(self) -> None:
        """Nothing is left to do."""


@final
class Drainer(Client):
    """Consumes one queue and acks at once."""

    def act(self) -> None:
        """Ack all there is."""
        super().act()
        for actor in self.actors:
            if isinstance(actor, Consumer) and actor.held and actor.ready:
                actor.settle_all()


@final
class Prober(Publisher):
    """Publishes once to a queue that has rejected publishes, and is empty."""

    def __init__(self, world: Stage, name: str, queue: QueueState) -> None:
        super().__init__(world, name, 1, "confirm", [queue])
        self.done = False

    def act(self) -> None:
        """Publish, unless that is done or under way."""
        if not self.done and not self.unconfirmed:
            self._publish(1)

    def _size(self, connection: SimConnection) -> int:
        return PROBE_BYTES

    def _answered(self, sequence: int, multiple: bool, status: int) -> None:
        if status == CONFIRMED:
            self.done = True
            self.world.count("empty queues have room again")
        elif self.world.ready_in(self.queues[0]) > 0:
            # What was published without confirms was on its way between nodes, and came first.
            self.done = True
            self.world.count("empty queues filled by what was on its way")
        elif not self.world.may_refuse(self.unconfirmed[sequence]):
            raise Violation(f"{self.name}: {self.queues[0].name} is empty, and rejects a publish")
        super()._answered(sequence, multiple, status)


def probers(world: Stage) -> list[Client]:
    """Those who look whether queues that are empty take publishes again."""
    clients: list[Client] = []
    for queue in world.queues:
        if queue.rejects() and (queue.most_bytes < 0 or queue.most_bytes > 2 * PROBE_BYTES):
            client = Client(world, f"b.{queue.name}", 131_072)
            client.actors.append(Prober(world, client.name, queue))
            clients.append(client)
    return clients


def probed(clients: list[Client]) -> bool:
    """Whether all of them have."""
    actors = [actor for client in clients for actor in client.actors]
    return all(isinstance(actor, Prober) and actor.done for actor in actors)


def there(fifo: Fifo) -> int:
    """Messages of a queue that somebody is to get, now or when they have waited."""
    return int(fifo.ready_count() + fifo.held_count() + fifo.delayed.count)


def drainers(world: Stage) -> list[Client]:
    """Those who take everything out of every queue, and what readers hold back."""
    world.ranks.begin()
    clients: list[Client] = []
    for queue in world.queues:
        client = Drainer(world, f"d.{queue.name}", 131_072)
        client.actors.append(Consumer(world, client.name, 1, queue, True, 50, False, False))
        clients.append(client)
    if world.checkouts.epoch(world.queues[0], world.options.name("g")):
        returning = Client(world, "g.returner", 131_072)
        returning.actors.append(Returner(world, returning.name, 1, world.queues[0]))
        clients.append(returning)
    return clients


@final
class Drain:
    """See the module's head."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._actors: list[Actor] = []

    def run(self) -> None:
        """Drain.

        Raises:
            Violation: Something promised does not come.
        """
        world = self._world
        self._actors = [actor for client in world.clients for actor in client.actors]
        world.clients = []
        self._until("requests and publishes are not answered", self._answered)
        self._look_for_strays()
        for connection in list(world.connections):
            connection.lose()
        world.connections = []
        self._until("exclusive queues outlive their connections", self._nobodys)
        self._hear()
        self._talk()
        world.clients = drainers(world)
        self._until("messages stay in the node", self._empty)
        self._leave()
        world.clients = clients = probers(world)
        self._until("an empty queue takes no publish", lambda: probed(clients))
        world.clients = drainers(world)
        self._until("messages stay in the node", self._empty)
        self._leave()
        world.clients = []
        self._until("the node does not come to rest", self._quiet)
        world.stop()
        world.keep_up()
        for queue in world.queues:
            if queue.durable and self._held(queue):
                raise Violation(f"queue {queue.name} is not empty after an orderly stop")

    def _talk(self) -> None:
        """All that is asked now is answered."""
        world = self._world
        talks = world.talks
        if talks is None:
            return
        world.clients = last_talkers(world, talks)
        self._until("requests are not answered by those who serve them", talks.answered)
        self._leave()

    def _hear(self) -> None:
        """All that is done now is told."""
        world = self._world
        if world.feed is not None:
            Audit(world, world.feed, self._until, self._begin).run()
            self._leave()

    def _begin(self, clients: list[Client]) -> None:
        """Have these clients act."""
        self._world.clients = clients

    def _leave(self) -> None:
        world = self._world
        for connection in list(world.connections):
            connection.lose()
        world.connections = []

    def _until(self, complaint: str, done: Done) -> None:
        world = self._world
        for at in range(STEPS_MAX):
            if at % LOOK_EVERY == 0 and done():
                return
            world.step()
        raise Violation(f"{complaint} within {STEPS_MAX} steps: {self._report()}")

    def _answered(self) -> bool:
        ended = not any(connection.garbled for connection in self._world.connections)
        return (
            ended
            and self._quiet()
            and not any(
                actor.busy()
                or (isinstance(actor, Publisher) and actor.unconfirmed)
                or (isinstance(actor, (Dealer, Server)) and actor.waits())
                for actor in self._actors
            )
        )

    def _look_for_strays(self) -> None:
        """What the node counts as held is what clients and groups of readers hold."""
        world = self._world
        for queue in world.queues:
            found = world.queue_of(queue)
            if found is None:
                continue
            known = sum(
                copy.queue is queue
                for actor in self._actors
                if isinstance(actor, Receiver) and actor.connection is not None
                for copy in actor.held.values()
            )
            held = int(found.fifo.held_count())
            held -= sum(int(group.held()) for group in found.fifo.groups.values())
            if held != known and not queue.volatile:
                raise Violation(f"queue {queue.name} has {held} messages held, clients {known}")

    def _empty(self) -> bool:
        return all(not self._held(queue) for queue in self._world.queues)

    def _nobodys(self) -> bool:
        """Whether no queue is anybody's."""
        node = self._world.node
        return node is not None and not self._world.incarnations.left(node)

    def _quiet(self) -> bool:
        world = self._world
        node = world.node
        assert node is not None
        return (
            not node.needs_turn
            and not node.deferring
            and node.log.idle
            # A read that did not come back is tried again a while later.
            and not node.repairs.stalled
            and world.executor.idle
            and not any(c.outbox or c.inbox for c in world.connections)
        )

    def _held(self, queue: QueueState) -> int:
        found = self._world.queue_of(queue)
        return 0 if found is None else there(found.fifo)

    def _report(self) -> str:
        return ", ".join(f"{queue.name} holds {self._held(queue)}" for queue in self._world.queues)
