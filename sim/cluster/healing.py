"""The end of a cluster's run: no more trouble, and everything promised has to come in time.

1. All nodes come up and take clients; whoever waits is answered; all members agree.
2. All clients leave; new ones take everything out of every queue, until no node holds anything.
3. Everybody leaves, and the nodes fall silent but for pings.
4. All nodes are stopped and started: they still hold nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, final

from sim import delays, hops
from sim.actors import Actor
from sim.cluster.forced import Forcing
from sim.cluster.stranding import Stranding
from sim.cluster.vhosts import MADE_MS, VHOSTS, takers
from sim.cluster.weak import WeakGroup
from sim.consumer import Receiver
from sim.dead_letters import SOURCE, TARGET, set_policy, undertakers
from sim.drain import drainers, probed, probers, there
from sim.expiring import HOLD_TIMES, holders
from sim.incarnations import IDLE
from sim.model import Violation
from sim.publisher import Publisher
from sim.rejecting import NARROW, SPILLED, moppers
from sim.replies import Server, last_talkers
from sim.short_lived import Dealer, emptiers, sweepers
from sim.told import Audit
from sim.trials import Trials
from warren.metadata.tables import NO_OWNER
from warren.node.store import METADATA_GROUP
from warren.queues.fifo_queue import FifoQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.actors import Client
    from sim.cluster.network import Link
    from sim.cluster.site import Site
    from sim.cluster.world import ClusterWorld

UP_MS: Final = 30_000
ANSWER_MS: Final = 30_000
ANSWERS_MOST: Final = 250
"""Half of all answers come in that time, or so many where little has room on its slow way."""
BURY_MS: Final = 120_000
"""So long it may take until one more dead letter has arrived of those refused again and again."""
LETTERS: Final = (SOURCE, TARGET)
DRAIN_MS: Final = 60_000
"""In so long half of all messages are taken out, ..."""
DRAIN_MOST: Final = 500
"""or so many: each may cost two reads of a slow disk at the other end of a slow link, 50 ms each,
where priorities alternate and nothing stays in memory."""
QUIET_MS: Final = 20_000
SILENCE_MS: Final = 3_000
STABLE_MS: Final = 1_000
"""For so long links have to stay, until nothing is under way that would break them."""
LOOK_MS: Final = 1_000
"""How long a queue that is in use when it is looked at may stay after that, at least."""
GONE_MS: Final = 5_000
"""So long exclusive queues may be there after their connections."""


@final
class Healing:
    """See the module's head."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._actors: list[Actor] = []
        self._talked = 0
        self._silent_since = 0
        self._links: list[Link] = []
        self._linked_since = 0
        """Since when they are all there is."""
        self._bound = 0
        """So many messages may be left when they are looked at next."""

    def run(self) -> None:
        """Heal.

        Raises:
            Violation: Something promised does not come.
        """
        world = self._world
        self._actors = [actor for client in world.clients for actor in client.actors]
        world.clients = []
        world.until(UP_MS, "not all nodes come up", self._up)
        self._answer()
        world.until(ANSWER_MS, "the members do not agree", self.agreed)
        world.until(ANSWER_MS, "nodes that are heard stay suspected", self._trusted)
        # What passes at most once between nodes is lost with a link.
        world.until(ANSWER_MS, "nodes that are up have no link", self._linked)
        told = "who held messages for too long is not told"
        world.until(ANSWER_MS, told, world.timeouts.all_told)
        strays = "messages are held of which no client knows"
        world.until(ANSWER_MS, strays, self._all_known)
        self.leave()
        world.until(GONE_MS, "exclusive queues outlive their connections", self._nobodys)
        self._hear()
        self._expire()
        self._bury()
        self._come_to_rest()
        self._spill()
        if world.governed is not None:
            Trials(self, world, world.governed).run()
        self._wait()
        self._talk()
        self._revive()
        self._strand()
        self._drain()
        self._probe()
        self._account()
        self._weaken()
        self._force()
        self._talked = world.counts["talk"]
        self._silent_since = world.now_ms()
        world.until(QUIET_MS, "idle nodes do not fall silent", self._silent)
        check_load(world.running())
        if not self._empty():
            # What was published without confirms may have been on its way between nodes.
            self._drain()
        self._start_again()
        if world.feed is not None:
            world.feed.checker.check_committed(world.ledger.handed())

    def _trusted(self) -> bool:
        """Whether consumers of all nodes are served again."""
        world = self._world
        for queue in world.queues:
            for site in world.running():
                found = world.queue_on(site, queue)
                if found is not None and found.fifo.suspects:
                    return False
        return True

    def _all_known(self) -> bool:
        """Whether clients and groups of readers hold as many messages as quorum queues count."""
        world = self._world
        for queue in world.queues:
            if queue.kind != "quorum" or queue.volatile:
                continue
            known = sum(
                copy.queue is queue
                for actor in self._actors
                if isinstance(actor, Receiver) and actor.connection is not None
                for copy in actor.held.values()
            )
            for site in world.running():
                found = world.queue_on(site, queue)
                if found is not None:
                    read = sum(int(group.held()) for group in found.fifo.groups.values())
                    if int(found.fifo.held_count()) - read > known:
                        return False
        return True

    def _linked(self) -> bool:
        """Whether all nodes of the cluster that are up are linked, by links that stay.

        What was damaged on its way before the faults ended breaks a link a little later.
        """
        running = self._world.running()
        links: list[Link] = []
        for site in running:
            node, peers = site.node, site.peers
            assert node is not None and peers is not None
            for other in running:
                if other is site or other.name not in node.metadata.nodes:
                    continue
                link = peers.links.get(other.name)
                if link is None or not link.up or link.target_life != other.life:
                    return False
                links.append(link)
        now = self._world.now_ms()
        if links != self._links:
            self._links = links
            self._linked_since = now
        return now - self._linked_since >= STABLE_MS

    def _bury(self) -> None:
        """All that died has to arrive."""
        world = self._world
        letters = world.letters
        if letters is None:
            return
        if letters.changes:
            set_policy(world, world.running()[0].name, None)
            world.until(ANSWER_MS, "a policy stays in force", self._dead_letters_once)
        world.clients = undertakers(world, letters)
        world.begin_acting()
        # A target with little room takes some at a time, and what it refused comes later each time.
        while not self._buried():
            self._bound = self.left_in(LETTERS) - 1
            world.until(BURY_MS, "dead letters do not arrive", self._fewer_letters)
        world.until(BURY_MS, "what died in a calm time does not arrive", letters.came)
        self.leave()
        world.until(QUIET_MS, "the nodes do not come to rest", self.agreed)
        letters.check()

    def _come_to_rest(self) -> None:
        """Nothing may go round for ever."""
        world = self._world
        known = world.hops
        if known is None:
            return
        world.clients = hops.last_turners(world, known)
        world.begin_acting()
        left = "messages go round, or stay in one of two queues"
        world.until(BURY_MS, left, lambda: self._stands_still(known.keeps()))
        self.leave()
        world.until(QUIET_MS, "the nodes do not come to rest", self.agreed)
        known.check()

    def _stands_still(self, kept: bool) -> bool:
        """Whether nothing is left that hops.

        Args:
            kept: Whether what would go round stays in a queue, as one of its dead letters.
        """
        names = (hops.FIRST, hops.SECOND)
        if not kept:
            return self.left_in(names) == 0
        for site in self._world.running():
            assert site.node is not None
            for queue in [site.node.queues.find("/", name) for name in names]:
                if isinstance(queue, FifoQueue):
                    if queue.fifo.ready_count() + queue.fifo.held_count():
                        return False
        return True

    def _dead_letters_once(self) -> bool:
        """Whether nobody keeps any more what dies, as a policy may have said."""
        for site in self._world.running():
            assert site.node is not None
            vhost = site.node.queues.vhosts.get("/")
            queue = None if vhost is None else vhost.queues.get(SOURCE)
            if isinstance(queue, FifoQueue) and queue.fifo.config.keeps_dead():
                return False
        return self.agreed()

    def _hear(self) -> None:
        """All that is done now has to be told."""
        world = self._world
        if world.feed is not None:
            Audit(world, world.feed, self._wait_for, self._begin).run()
            self.leave()
            world.until(QUIET_MS, "the nodes do not come to rest", self.agreed)

    def _wait_for(self, complaint: str, done: Callable[[], bool]) -> None:
        self._world.until(ANSWER_MS, complaint, done)

    def _begin(self, clients: list[Client]) -> None:
        """Have these clients act."""
        acts = bool(self._world.clients)
        self._world.clients = clients
        if not acts:
            self._world.begin_acting()

    def _expire(self) -> None:
        """A queue that nobody uses has to go, and one that is used to stay."""
        world = self._world
        known = world.expiring
        if known is None:
            return
        gone_ms = max(known.expires_ms, LOOK_MS) + GONE_MS
        world.until(gone_ms, "a queue that nobody uses stays", self._idle_gone)
        world.clients = holders(world, known)
        world.begin_acting()
        world.until(ANSWER_MS, "a queue that expires cannot be used", known.used)
        held_ms = HOLD_TIMES * known.expires_ms
        end = world.now_ms() + held_ms
        world.until(held_ms + ANSWER_MS, "time does not pass", lambda: world.now_ms() >= end)
        if not known.used():
            raise Violation("a queue that expires is not there any more for who consumes it")
        self.leave()
        world.until(gone_ms, "a queue that nobody uses any more stays", self._idle_gone)
        world.until(QUIET_MS, "the nodes do not come to rest", self.agreed)

    def _idle_gone(self) -> bool:
        """Whether no node knows the queue that expires."""
        for site in self._world.running():
            assert site.node is not None
            vhost = site.node.metadata.vhosts.get("/")
            queues = site.node.queues.vhosts.get("/")
            if vhost is not None and IDLE in vhost.queues:
                return False
            if queues is not None and IDLE in queues.queues:
                return False
        return True

    def _spill(self) -> None:
        """What there is no room for has to go elsewhere, and what there is room for to come."""
        world = self._world
        known = world.spills
        if known is None:
            return
        world.clients = moppers(world, known)
        world.begin_acting()
        world.until(BURY_MS, "what was rejected does not come to the other queue", known.done)
        left = "messages stay in a narrow queue, or where it rejects to"
        world.until(BURY_MS, left, lambda: self.left_in((NARROW, SPILLED)) == 0)
        self.leave()
        world.until(QUIET_MS, "the nodes do not come to rest", self.agreed)
        known.check()

    def _wait(self) -> None:
        """All that waited has to come."""
        world = self._world
        known = world.delays
        if known is None:
            return
        world.clients = delays.takers(world, known)
        world.begin_acting()
        world.until(BURY_MS, "messages that waited do not come", self._waited)
        self.leave()
        world.until(QUIET_MS, "the nodes do not come to rest", self.agreed)
        known.check()

    def _talk(self) -> None:
        """All that is asked now has to be answered."""
        world = self._world
        talks = world.talks
        if talks is None:
            return
        world.clients = last_talkers(world, talks)
        world.begin_acting()
        world.until(BURY_MS, "requests are not answered by those who serve them", talks.answered)
        self.leave()
        world.until(QUIET_MS, "the nodes do not come to rest", self.agreed)

    def _revive(self) -> None:
        """What is in vhosts that are there has to come out; then they go, and leave nothing."""
        world = self._world
        realms = world.realms
        if realms is None:
            return
        world.until(MADE_MS, "nodes do not have the same vhosts", realms.made)
        realms.calm = True
        world.clients = [each for name in VHOSTS for each in takers(world, name, realms)]
        world.begin_acting()
        lost = "what was confirmed in a vhost that is there does not come out of it"
        world.until(BURY_MS, lost, realms.came)
        self.leave()
        world.until(QUIET_MS, "the nodes do not come to rest", self.agreed)
        realms.over = True
        for name in VHOSTS:
            realms.delete(world.running()[0], name)
        world.until(GONE_MS, "vhosts that are deleted stay", realms.gone)
        world.until(QUIET_MS, "the nodes do not come to rest", self.agreed)

    def _strand(self) -> None:
        """Healthy queues have to get on while another one has no majority."""
        world = self._world
        if world.faults.strands:
            Stranding(world).run()
            self.leave()
            world.until(QUIET_MS, "the nodes do not come to rest", self.agreed)

    def _weaken(self) -> None:
        """A queue of one or two voters has to live with a bad disk, or to be lost as a whole."""
        world = self._world
        if world.faults.weak:
            WeakGroup(world).run()
            self.leave()
            world.until(QUIET_MS, "the nodes do not come to rest", self.agreed)

    def _force(self) -> None:
        """A queue has to go on that an operator changed by force."""
        world = self._world
        if world.faults.forced:
            Forcing(world).run()
            self.leave()
            world.until(UP_MS, "not all nodes come up", self._up)
            world.until(QUIET_MS, "the nodes do not come to rest", self.agreed)

    def _waited(self) -> bool:
        """The same of messages that wait."""
        return self.left_in((delays.STORE, delays.TARGET)) == 0

    def _buried(self) -> bool:
        """Whether nothing is left on either side of any node."""
        return self.left_in(LETTERS) == 0

    def _fewer_letters(self) -> bool:
        """Whether there are fewer than before."""
        return self.left_in(LETTERS) <= self._bound

    def left_in(self, names: tuple[str, ...]) -> int:
        """Messages in some queues, all copies counted."""
        left = 0
        for site in self._world.running():
            assert site.node is not None
            vhost = site.node.queues.vhosts.get("/")
            for name in names:
                queue = None if vhost is None else vhost.queues.get(name)
                if isinstance(queue, FifoQueue):
                    fifo = queue.fifo
                    left += int(fifo.sizes.count - fifo.leaving.count)
        return left

    def _drain(self) -> None:
        world = self._world
        world.clients = drainers(world) + emptiers(world)
        world.begin_acting()
        # Over a slow link, with little memory to read into, all of them may take long.
        while not self._empty():
            left = self._there()
            self._bound = max(left // 2, left - DRAIN_MOST)
            world.until(DRAIN_MS, "messages stay in the nodes", self._drained)
        self.leave()
        world.until(QUIET_MS, "the nodes do not come to rest", self.agreed)
        world.ledger.check_agreement()

    def _probe(self) -> None:
        """What is empty has to take publishes again."""
        world = self._world
        clients = [
            client
            for client, queue in ((each, each.actors[0]) for each in probers(world))
            if isinstance(queue, Publisher) and not world.out_of_use(queue.queues[0])
        ]
        if clients:
            world.clients = list(clients)
            world.begin_acting()
            world.until(ANSWER_MS, "an empty queue takes no publish", lambda: probed(clients))
            self.leave()
            self._drain()

    def _account(self) -> None:
        """Look at what queues that come and go have, then delete them."""
        world = self._world
        incarnations = world.incarnations
        for group_id, group in world.ledger.groups.items():
            if group_id in incarnations.known:
                incarnations.check_published(group_id, group.published)
        incarnations.finished()
        for queue in incarnations.living():
            if queue.in_memory and world.process_over(queue):
                raise Violation(f"queue {queue.name} has outlived the process it lived in")
        if incarnations.living():
            world.clients = sweepers(world)
            world.begin_acting()
            world.until(ANSWER_MS, "queues cannot be deleted", self._swept)
            self.leave()
            world.until(QUIET_MS, "the nodes do not come to rest", self.agreed)

    def _swept(self) -> bool:
        """Whether no node knows a queue that comes and goes."""
        world = self._world
        nodes = [site.node for site in world.running()]
        return all(node is not None and not world.incarnations.left(node) for node in nodes)

    def _nobodys(self) -> bool:
        """Whether no node knows a queue that is a connection's."""
        world = self._world
        for site in world.running():
            assert site.node is not None
            vhost = site.node.metadata.vhosts.get("/")
            # One that joins in the place of a machine lost by now has none yet.
            records = [] if vhost is None else vhost.queues.values()
            if any(record.exclusive_owner != NO_OWNER for record in records):
                return False
        return True

    def _check_rest(self) -> None:
        """Nothing is left of a queue that was deleted.

        Raises:
            Violation: A group, a queue's object or a binding is.
        """
        world = self._world
        for site in world.running():
            node = site.node
            assert node is not None
            vhost = node.metadata.vhosts["/"]
            known = {int(record.group_id) for record in vhost.queues.values()}
            groups = {int(group) for group in node.log.group_ids()} - {METADATA_GROUP}
            stray = groups - known | set(node.queues.logged) - known
            stray |= set(node.cluster.members) - known - {METADATA_GROUP}
            stray |= set(node.remotes.owned) - known
            if stray:
                raise Violation(f"{site.name} still has groups {sorted(stray)}, of deleted queues")
            objects = set(node.queues.vhosts["/"].queues) - set(vhost.queues)
            bound = [
                binding.destination
                for exchange in vhost.exchanges.values()
                for binding in exchange.bound.values()
                if not binding.to_exchange and binding.destination not in vhost.queues
            ]
            if objects or bound or vhost.owned:
                raise Violation(f"{site.name} still has queues {objects} and bindings {bound}")

    def leave(self) -> None:
        """Have all clients go."""
        world = self._world
        world.clients = []
        for connection in list(world.connections):
            world.disconnect(connection)

    def _up(self) -> bool:
        world = self._world
        lost = {site.name for site in world.sites.values() if site.lost}
        for site in world.running():
            assert site.node is not None
            if not lost.isdisjoint(site.node.metadata.nodes):
                # What was on a lost machine goes with its node.
                return False
        return all(world.serves(site) for site in world.sites.values() if not site.lost)

    def _answer(self) -> None:
        """All that was asked and published has to be answered."""
        while left := self._unanswered():
            self._bound = max(left // 2, left - ANSWERS_MOST)
            self._world.until(ANSWER_MS, "requests and publishes are not answered", self._answered)

    def _answered(self) -> bool:
        return self._unanswered() <= self._bound

    def _unanswered(self) -> int:
        left = sum(connection.garbled for connection in self._world.connections)
        for actor in self._actors:
            left += actor.busy() or (isinstance(actor, (Dealer, Server)) and actor.waits())
            left += len(actor.unconfirmed) if isinstance(actor, Publisher) else 0
        return left

    def agreed(self) -> bool:
        """Whether the members of each group have applied all there is."""
        world = self._world
        ends: dict[int, set[tuple[int, int]]] = {}
        for site in world.running():
            node = site.node
            assert node is not None
            for group_id, member in node.cluster.members.items():
                if len(member.proposals):
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
        self.stop_and_start()
        if not self._empty():
            raise Violation("messages are back after all nodes were stopped")
        self._check_rest()

    def stop_and_start(self) -> None:
        """Stop all nodes, and have them start."""
        world = self._world
        for site in world.running():
            site.stop()
        world.until(UP_MS, "not all nodes come up again", self._up)
        world.until(ANSWER_MS, "the members do not agree after a start", self.agreed)
        world.until(ANSWER_MS, "nodes that were started have no link", self._linked)

    def _empty(self) -> bool:
        return not self._there()

    def _drained(self) -> bool:
        """Whether as many of the messages are gone as have to be."""
        return self._there() <= self._bound

    def _there(self) -> int:
        """Messages that are still to come out: of each queue as many as the copy with most has.

        A node may get another copy while they are taken out.
        """
        world = self._world
        most: Counter[str] = Counter()
        for site in world.running():
            for queue in world.queues:
                found = world.queue_on(site, queue)
                if found is not None:
                    most[queue.name] = max(most[queue.name], there(found.fifo))
            self._look_at_living(site, most)
        return most.total()

    def _look_at_living(self, site: Site, most: Counter[str]) -> None:
        """The same of queues that come and go, as a machine has them."""
        node = site.node
        assert node is not None
        vhost = node.queues.vhosts.get("/")
        for name in self._world.incarnations.left(node):
            queue = None if vhost is None else vhost.queues.get(name)
            if isinstance(queue, FifoQueue):
                most[name] = max(most[name], there(queue.fifo))


def check_load(sites: list[Site]) -> None:
    """Where nothing waits for its queue's leader or majority, nothing is counted as waiting.

    Raises:
        Violation: A node would hold up publishers for what is not there.
    """
    for site in sites:
        assert site.node is not None
        load = site.node.cluster._load
        if load._bytes or load._unled:
            raise Violation(
                f"{site.name} is idle, and counts {load._bytes} bytes that wait for their queues "
                f"and {load._unled} for leaders"
            )
