"""A queue whose only member's node stands still: what others keep for it is bounded, and holds up
nobody who publishes to a healthy queue.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, final

from sim.cluster.hand import Hand
from sim.cluster.schedule import MS
from sim.model import Violation
from warren.queues.quorum import QuorumQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.cluster.site import Site
    from sim.cluster.world import ClusterWorld

STRANDED: Final = "stranded"
HEALTHY: Final = "healthy"
KEPT_BYTES_MAX: Final = 65_536
"""So much nodes may keep that is not applied, in runs that look at this."""
SPARE_BYTES: Final = 65_536
"""What may come in one go before a publisher is held."""
BODIES: Final = 100
PROBES: Final = 5
NODES_MIN: Final = 3
AWAY_MS: Final = 60_000
PROGRESS_MS: Final = 20_000
WAIT_MS: Final = 30_000


@final
class Stranding:
    """See the module's head."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world

    def run(self) -> None:
        """Have one node stand still for a minute.

        Raises:
            Violation: A healthy queue takes nothing meanwhile, or too much is kept.
        """
        world = self._world
        sites = world.running()
        if len(sites) < NODES_MIN:
            return
        away, here = Random(f"{world.seed} stranding").sample(sites, 2)
        hands = [Hand(world, away, STRANDED), Hand(world, here, HEALTHY)]
        for hand in hands:
            self._wait("a queue cannot be declared", hand.opened)
        stuffing = Hand(world, here, STRANDED)
        self._wait("a queue cannot be used", stuffing.opened)
        if self._holders() == [away.name]:
            self._strand(away, here, stuffing, hands[1])
        for hand in hands:
            hand.empty()
        self._wait("queues cannot be purged", lambda: not any(hand.busy() for hand in hands))

    def _strand(self, away: Site, here: Site, stuffing: Hand, healthy: Hand) -> None:
        world = self._world
        world.say("%s stands still, with the only copy of a queue", away.name)
        world.count("queues stranded")
        away.paused_until_us = world.schedule.now_us + AWAY_MS * MS
        assert here.node is not None
        detector = here.node.cluster.detector
        self._wait("a silent node is trusted", lambda: bool(detector.suspected(away.name)))

        def stuffed() -> bool:
            if stuffing.sent < BODIES:
                stuffing.publish()
            kept = kept_bytes(here)
            if kept > KEPT_BYTES_MAX + SPARE_BYTES:
                raise Violation(f"{here.name} keeps {kept} bytes for a queue without a majority")
            return stuffing.sent == BODIES

        def got_on() -> bool:
            if healthy.sent < PROBES:
                # One at a time: a publisher is held after what it has published.
                healthy.publish()
            return healthy.confirmed == PROBES

        self._wait("clients do not act", stuffed)
        world.until(
            PROGRESS_MS,
            "a healthy queue takes nothing while another one has no majority",
            got_on,
        )
        world.until(
            AWAY_MS + WAIT_MS,
            "what waited for a node is not confirmed",
            lambda: stuffing.confirmed == stuffing.sent,
        )

    def _holders(self) -> list[str]:
        """Whose members the queue has; policies may have said that there are to be others."""
        names: set[str] = set()
        for site in self._world.running():
            assert site.node is not None
            record = site.node.metadata.queue("/", STRANDED)
            member = None if record is None else site.node.cluster.members.get(record.group_id)
            if member is not None:
                names |= {copy.node for copy in member.raft.members}
        return sorted(names)

    def _wait(self, complaint: str, done: Callable[[], bool]) -> None:
        self._world.until(WAIT_MS, complaint, done)


def kept_bytes(site: Site) -> int:
    """What a node keeps of its clients' messages until a leader has taken them."""
    node = site.node
    assert node is not None
    queue = node.queues.find("/", STRANDED)
    if not isinstance(queue, QuorumQueue):
        return 0
    return sum(len(each.payload) for each in queue.proposer().unoffered())
