"""The end of a cluster's run: no more trouble, and everything promised has to come in time.

1. All nodes come up and take clients; whoever waits is answered; all members agree.
2. All clients leave; new ones take everything out of every queue, until no node holds anything.
3. Everybody leaves, and the nodes fall silent but for pings.
4. All nodes are stopped and started: they still hold nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor
from sim.drain import drainers
from sim.model import QueueState, Violation
from sim.publisher import Publisher

if TYPE_CHECKING:
    from sim.cluster.world import ClusterWorld

UP_MS: Final = 30_000
ANSWER_MS: Final = 30_000
DRAIN_MS: Final = 60_000
QUIET_MS: Final = 20_000
SILENCE_MS: Final = 3_000


@final
class Healing:
    """See the module's head."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._actors: list[Actor] = []
        self._talked = 0
        self._silent_since = 0

    def run(self) -> None:
        """Heal.

        Raises:
            Violation: Something promised does not come.
        """
        world = self._world
        self._actors = [actor for client in world.clients for actor in client.actors]
        world.clients = []
        world.until(UP_MS, "not all nodes come up", self._up)
        world.until(ANSWER_MS, "requests and publishes are not answered", self._answered)
        world.until(ANSWER_MS, "the members do not agree", self._agreed)
        self._leave()
        self._drain()
        self._talked = world.counts["talk"]
        self._silent_since = world.now_ms()
        world.until(QUIET_MS, "idle nodes do not fall silent", self._silent)
        if not self._empty():
            # What was published without confirms may have been on its way between nodes.
            self._drain()
        self._start_again()

    def _drain(self) -> None:
        world = self._world
        world.clients = drainers(world)
        world.begin_acting()
        world.until(DRAIN_MS, "messages stay in the nodes", self._empty)
        self._leave()
        world.until(QUIET_MS, "the nodes do not come to rest", self._agreed)
        world.ledger.check_agreement()

    def _leave(self) -> None:
        world = self._world
        world.clients = []
        for connection in list(world.connections):
            world.disconnect(connection)

    def _up(self) -> bool:
        world = self._world
        return all(world.serves(site) for site in world.sites.values() if not site.lost)

    def _answered(self) -> bool:
        ended = not any(connection.garbled for connection in self._world.connections)
        return ended and not any(
            actor.busy() or (isinstance(actor, Publisher) and actor.unconfirmed)
            for actor in self._actors
        )

    def _agreed(self) -> bool:
        """Whether the members of each group have applied all there is."""
        world = self._world
        ends: dict[int, set[tuple[int, int]]] = {}
        for site in world.running():
            node = site.node
            assert node is not None
            for group_id, member in node.cluster.members.items():
                if len(member.submissions):
                    return False
                end = (int(member.applied_index), int(member.log.last_index))
                ends.setdefault(group_id, set()).add(end)
        return all(len(found) == 1 and len(set(*found)) == 1 for found in ends.values())

    def _silent(self) -> bool:
        """Whether nothing but pings was said for a while."""
        talked, now = self._world.counts["talk"], self._world.now_ms()
        if talked != self._talked:
            self._talked = talked
            self._silent_since = now
        return now - self._silent_since >= SILENCE_MS

    def _start_again(self) -> None:
        """Stop and start everything: an empty cluster stays empty."""
        world = self._world
        for site in world.running():
            site.stop()
        world.until(UP_MS, "not all nodes come up again", self._up)
        world.until(ANSWER_MS, "the members do not agree after a start", self._agreed)
        if not self._empty():
            raise Violation("messages are back after all nodes were stopped")

    def _empty(self) -> bool:
        return all(not self._held(queue) for queue in self._world.queues)

    def _held(self, queue: QueueState) -> int:
        world = self._world
        held = 0
        for site in world.running():
            found = world.queue_on(site, queue)
            if found is not None:
                held += int(found.fifo.ready_count() + found.fifo.held_count())
        return held
