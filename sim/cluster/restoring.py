"""A machine whose disk is put back to an older copy, once in a run.

Some time an operator copies a data directory under its running node. Later the node is ended, and
the copy put in its place. Whoever starts it must be told so before it is up, and then begins anew;
see `warren.node.cluster.membership`. Other nodes can tell only if they have heard that there was
more: the disk is put back when nothing has stood in the way of that for a while, and until the node
was told nothing else goes wrong with machines. From then on everything may.

Its classic queues are what they were at the time of the copy: what was confirmed and waited then
waits again, whatever became of it; what was published later never comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, final

from sim.admin import Admin
from sim.cluster import swarm
from sim.cluster.drops import Counts
from sim.cluster.schedule import MS
from sim.cluster.site import Backup, Site
from sim.consumer import Receiver
from sim.model import (
    CONFIRMED,
    NEVER,
    SETTLED_FOR_GOOD,
    SETTLED_MAYBE,
    WAITING,
    Copy,
    QueueState,
    Violation,
)

if TYPE_CHECKING:
    from sim.cluster.world import ClusterWorld

KEEP_US: Final = 500 * MS
"""A copy that is put back is older than this, several times `DURABLE_EVERY_MS`."""
CALM_US: Final = 500 * MS
"""So long nothing has stood in the way of what nodes tell each other."""
LOOK_US: Final = 50 * MS
PATIENCE_US: Final = 5_000 * MS
"""An operator who finds no such time gives up."""
TOLD_US: Final = 30_000 * MS
"""A node that is not told that its disk is too old in this time never is."""
ROUNDS_MIN: Final = 5
"""More than may have been on their way to the disk when it was copied."""
ANOTHER_SHARE: Final = 0.2
"""How often another copy takes the place of the one that there is."""
HARMLESS: Final = {swarm.LOSE, swarm.DEAF, swarm.GARBLE, swarm.CLOCK, swarm.TRANSFER}
"""What may go wrong while one machine's disk is put back: nodes tell each other all the same."""


class Content(NamedTuple):
    """What is known of a classic queue on a disk that is copied.

    Attributes:
        waiting: Messages that were confirmed and waited, and how often each had been seen.
        automatic: Whether some consumers acknowledge nothing: what they are sent is gone.
        cleared_step: Of the queue; `NEVER` where a purge was under way.
        drops: How many messages had been dropped.
    """

    waiting: dict[Copy, int]
    automatic: bool
    cleared_step: int
    drops: Counts


class Kept(NamedTuple):
    """A copy of a machine's disk, and when it was made."""

    site: Site
    backup: Backup
    at_us: int
    step: int
    contents: dict[str, Content]


@final
class Restoring:
    """See the module's head.

    Attributes:
        hushed: Whether machines are spared other trouble.
    """

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self.hushed = False
        self._kept: Kept | None = None
        self._until_us = 0
        self._calm_us = -1
        self._done = False

    def strike(self, site: Site) -> None:
        """Copy a disk, or wait for a moment to put a copy back."""
        world = self._world
        if self._done or self.hushed:
            return
        kept = self._kept
        if kept is None or world.random.random() < ANOTHER_SHARE:
            if world.serves(site) and not site.rotten and not _may_stand_alone(site):
                self._keep(site)
        elif world.schedule.now_us - kept.at_us >= KEEP_US:
            self.hushed = True
            self._calm_us = -1
            self._until_us = world.schedule.now_us + PATIENCE_US
            world.troubles.spare()
            self._look()

    def told(self) -> None:
        """The node knows that its disk is too old: from here on it is like one that joins."""
        self.hushed = False

    def heal(self) -> None:
        """No more disks are put back."""
        self._done = True
        self.hushed = False

    # --- copies ---------------------------------------------------------------------------------

    def _keep(self, site: Site) -> None:
        world = self._world
        world.say("the disk of %s is copied", site.name)
        world.count("disks copied")
        contents: dict[str, Content] = {}
        for queue in world.remote_lines.queues_on(site.name):
            contents[queue.name] = self._content(queue)
        now = world.schedule.now_us
        self._kept = Kept(site, site.backup(), now, world.step_number, contents)

    def _content(self, queue: QueueState) -> Content:
        world = self._world
        waiting: dict[Copy, int] = {}
        for copy in queue.copies:
            if copy.message.status == CONFIRMED and copy.settled == WAITING:
                if copy.survives_restart():
                    waiting[copy] = copy.seen
        actors = [actor for client in world.clients for actor in client.actors]
        automatic = any(
            isinstance(actor, Receiver) and actor.queue is queue and actor.no_ack
            for actor in actors
        )
        purging = any(isinstance(actor, Admin) and actor.clears(queue) for actor in actors)
        cleared_step = NEVER if purging else queue.cleared_step
        return Content(waiting, automatic, cleared_step, world.drops.counts(queue))

    # --- putting one back -----------------------------------------------------------------------

    def _look(self) -> None:
        """See whether this is the moment; else look again soon."""
        world, kept = self._world, self._kept
        if self._done or kept is None:
            return
        now = world.schedule.now_us
        if not self.all_hear(kept.site, kept.backup):
            self._calm_us = -1
        elif self._calm_us < 0:
            self._calm_us = now
        elif now - self._calm_us >= CALM_US and world.may_lose(kept.site):
            self._put_back(kept)
            return
        if now < self._until_us:
            world.schedule.after(LOOK_US, self._look)
        else:
            self.hushed = False

    def all_hear(self, kept: Site, backup: Backup) -> bool:
        """Whether all nodes hear all others, and the one has written more than the copy has."""
        world = self._world
        if world.network.blocked:
            return False
        sites = [site for site in world.sites.values() if not site.lost]
        names = {site.name for site in sites}
        now = world.schedule.now_us
        for site in sites:
            troubled = site.paused() or site.stalls() or site.crawls_until_us > now
            if troubled or not world.serves(site):
                return False
            peers = site.peers
            assert peers is not None
            for links in (peers.links, peers.accepted):
                if len(links) + 1 < len(names):
                    return False
                if not all(link.up and link.incoming for link in links.values()):
                    return False
        node = kept.node
        if kept.lost or kept.rotten or node is None:
            return False
        if kept.lives[0] != backup.lives[0]:
            return True
        return node.log.round_number >= backup.round + ROUNDS_MIN

    def _put_back(self, kept: Kept) -> None:
        world, site = self._world, kept.site
        self._done = True
        if world.random.random() < 0.5:
            site.kill()
        else:
            site.fail_power()
        age_ms = (world.schedule.now_us - kept.at_us) // MS
        world.say("the disk of %s is put back to what it was %d ms ago", site.name, age_ms)
        world.count("disks put back")
        site.restore(kept.backup)
        world.ledger.restored(site)
        for queue in world.remote_lines.queues_on(site.name):
            self._go_back(kept, queue)
        world.schedule.after(TOLD_US, self._check_told)

    def _go_back(self, kept: Kept, queue: QueueState) -> None:
        """A classic queue is what it was."""
        content = kept.contents.get(queue.name)
        for copy in queue.copies:
            message = copy.message
            if content is not None and copy in content.waiting:
                # What a consumer was sent at the time of the copy, and need not acknowledge, is
                # gone, although it may have read it later.
                sent = content.automatic and copy.seen > content.waiting[copy]
                copy.settled = SETTLED_MAYBE if sent else WAITING
            elif message.step <= kept.step:
                if message.step >= 0:
                    copy.settled = SETTLED_MAYBE
            elif message.status == CONFIRMED or message.site == kept.site.name:
                copy.settled = SETTLED_FOR_GOOD
            elif copy.settled == WAITING:
                # Another node may have it yet.
                copy.settled = SETTLED_MAYBE
        if content is None:
            return
        self._world.drops.go_back(kept.site, queue, content.drops)
        if NEVER not in (queue.cleared_step, content.cleared_step):
            queue.cleared_step = content.cleared_step

    def _check_told(self) -> None:
        kept = self._kept
        assert kept is not None
        if kept.site.restored:
            raise Violation(f"nobody tells {kept.site.name} that its disk is an older copy")


def _may_stand_alone(site: Site) -> bool:
    """Whether a group needs nobody else, by what is on a disk: its node would go on unheard."""
    assert site.node is not None
    for member in site.node.cluster.members.values():
        state = member.raft.state
        configs = list(state.configs._history)
        while len(configs) > 1 and configs[-1].index > state.persisted_index:
            del configs[-1]
        if sum(bool(copy.voter) for copy in configs[-1].members) < 2:
            return True
    return False
