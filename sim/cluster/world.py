"""One run of a cluster: whole nodes, a network and clients, moved by a seed in virtual time.

A cluster forms, node by node. Then clients work while everything that the options allow goes
wrong. At last nothing goes wrong any more: the nodes have to agree, to answer whoever waits, to
give out all that they hold, and to fall silent, each within bounded virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, final

from sim.actors import Actor, Client
from sim.cast import make_clients, make_queues
from sim.checkers.order import OrderChecker
from sim.checkers.ranks import RankChecker
from sim.cluster.checkers import (
    ActiveChecker,
    ClusterCheckoutChecker,
    ClusterDeliveryChecker,
    ClusterDurabilityChecker,
    ClusterLossChecker,
)
from sim.cluster.drops import Drops
from sim.cluster.healing import Healing
from sim.cluster.kinds import MEMBERS_MIN, add_kinds
from sim.cluster.ledger import Ledger
from sim.cluster.lines import Lines
from sim.cluster.network import Network
from sim.cluster.schedule import MS, Schedule
from sim.cluster.site import DAMAGED, NO_MEMBER, Site
from sim.cluster.swarm import CLOCK, REPLACE, RESTORE, ROT, SPOIL, WIPE, ClusterOptions
from sim.cluster.timeouts import Timeouts
from sim.cluster.troubles import ClusterTroubles
from sim.cluster.vhosts import Realms
from sim.connection import SimConnection
from sim.consumer import Receiver
from sim.incarnations import Incarnation
from sim.model import (
    NEVER,
    SETTLED,
    SETTLED_MAYBE,
    WAITING,
    Copy,
    Holder,
    Message,
    QueueState,
    Violation,
)
from sim.room import is_at_rest
from sim.stage import Stage
from warren.errors import Refusal
from warren.ids import life_of, life_of_session
from warren.metadata.commands import Command
from warren.metadata.node_checks import check_remove_node
from warren.node.node import Node
from warren.queues.logged import LoggedQueue
from warren.wire.amqp091 import spec

FORM_MS: Final = 30_000
"""A cluster that takes longer to form is stuck."""
FORGET_US: Final = 500 * MS
LOST_ANSWERS: Final = ("to queue.purge was lost: ask again", "is being copied to this node")
"""What a node says when it was given a snapshot instead of the entries with its answers."""
TIMED: Final = "timed out. Timeout value used"
"""What a node says when a channel held messages for too long."""
LOST_POLL: Final = "to basic.get was lost"
"""That of a poll it finds in the snapshot."""
CACHE_BYTES_MIN: Final = 2_048
WAL_BYTES_MIN: Final = 8_192
EVENTS_MAX: Final = 1_000_000
"""A wait that takes more events goes round in circles.

The longest takes half of this: a backlog whose observers get it anew with each message that leaves,
in very small parts.
"""

Done = Callable[[], bool]


@final
class Doubt:
    """A closed session whose node has not learned of it, or whose clients read late words of it.

    Attributes:
        index: Of the entry that closed it.
        queue: Name of the queue; later, no node may run that can tell.
        learned: Whether the node has applied that.
    """

    def __init__(self, index: int, queue: str) -> None:
        self.index = index
        self.queue = queue
        self.learned = False


@final
class ClusterWorld(Stage):
    """See the module's head.

    Attributes:
        faults: How bad it gets.
        sites: All machines by name, those that are lost too.
        far: Draws who connects to nodes that hold nothing.
        wall_jumps: Whether wall clocks do.
        forces: Whether operators have nodes forgotten with the queues that have their last voter
            there.
        realms: Vhosts that come and go, if there are any.
    """

    clustered = True

    def __init__(self, seed: int, operations: int = 500, traced: bool = False) -> None:
        super().__init__(seed, operations, traced)
        options = self.options
        options.quorum_queues = max(1, options.quorum_queues)
        options.transient_queue = options.volatile = False
        self.faults = ClusterOptions(self.random, seed)
        if options.groups:
            # Half of the runs are of quorum queues alone, with readers.
            options.classic_queues = 0
        if options.classic_queues:
            # While their node is down there is nothing to do with them.
            self.faults.longest_us = min(self.faults.longest_us, 1_000 * MS)
        if self.faults.aims:
            # Most of what lives has left memory, and lies in closed files.
            options.cache_bytes, options.wal_max_bytes = CACHE_BYTES_MIN, WAL_BYTES_MIN
            options.prefetches = (20,)
            options.classic_queues = 0
        self.schedule = Schedule()
        self.network = Network(self)
        self.ledger = Ledger(self)
        self.remote_lines = Lines(self)
        self.drops = Drops(self)
        self.timeouts = Timeouts(self)
        self.troubles = ClusterTroubles(self)
        self.checkouts = ClusterCheckoutChecker(self)
        self.durability = ClusterDurabilityChecker(self)
        self.ranks = RankChecker(self)
        self.checkers = [
            ClusterDeliveryChecker(self),
            ActiveChecker(self),
            OrderChecker(self),
            self.ranks,
            self.durability,
            ClusterLossChecker(self),
        ]
        self.sites: dict[str, Site] = {}
        self.far = Random(f"{seed} far")
        self._sessions: dict[int, tuple[str, int]] = {}
        self._doubts: dict[tuple[str, int], Doubt] = {}
        self._late: set[tuple[SimConnection, str]] = set()
        self._unseen: set[str] = set()
        self._stirred: set[SimConnection] = set()
        self._cut: list[SimConnection] = []
        """Those whose clients are gone, which their nodes do not know."""
        self._replaced = False
        self.wall_jumps = CLOCK in self.faults.faults
        self.forces = False
        self.realms: Realms | None = None
        self._alarm_step = -1
        self._gone: dict[str, set[int]] = {}
        # A method that finds no majority for half a minute ends its connection.
        self.tolerated.add(541)

    # --- the run --------------------------------------------------------------------------------

    def run(self) -> None:
        """Run to the end.

        Raises:
            Violation: The cluster broke a promise.
        """
        self.say("seed %d: %s %s", self.seed, self.faults, self.options)
        self._form()
        self.queues = make_queues(self)
        for queue in self.queues:
            if queue.kind == "classic":
                queue.single = True
                # A commit to one that is away fails.
                self.tolerated.add(506)
        self.clients = make_clients(self)
        add_kinds(self)
        self.begin_acting()
        self._strike_later()
        while self.operations < self.options.operations:
            self.step()
        self.say("healing")
        self.troubles.heal()
        Healing(self).run()
        for checker in self.checkers:
            checker.finished()
        self.counts["events"] += self.schedule.done

    def step(self) -> None:
        """Let the next thing happen."""
        self.step_number += 1
        self.schedule.step()

    def until(self, milliseconds: int, complaint: str, done: Done) -> None:
        """Let things happen until a condition holds.

        Raises:
            Violation: It does not within this time.
        """
        end = self.schedule.now_us + milliseconds * MS
        at = self.schedule.now_us
        events = self.schedule.done + EVENTS_MAX
        while not done():
            # Look again after some virtual time, not after every event.
            at += 20 * MS
            while self.schedule.now_us < at:
                self.step()
                if self.schedule.done > events:
                    raise Violation(f"{complaint} within {EVENTS_MAX} events")
            if self.schedule.now_us > end:
                raise Violation(f"{complaint} within {milliseconds} ms")

    def _form(self) -> None:
        """Begin with one node and have the others join it."""
        size = self.faults.settle_size()
        if self.faults.many:
            self.count("clusters of many nodes")
        for number in range(1, size + 1):
            name = f"n{number}"
            self.sites[name] = Site(self, name, number > 1)
            self.sites[name].boot("n1" if number > 1 else "")
            if number == 1:
                self.until(FORM_MS, "the first node does not come up", self._all_up)
        self.until(FORM_MS, "the cluster does not form", self._all_up)
        self.count("joins", size - 1)

    def _all_up(self) -> bool:
        return all(self.serves(site) for site in self.sites.values() if not site.lost)

    def begin_acting(self) -> None:
        """Let clients do one thing after another."""
        self._act_later()

    def _act_later(self) -> None:
        gap = int(self.random.expovariate(1.0) * self.faults.gap_us)
        self.schedule.after(gap, self._act)

    def _act(self) -> None:
        if self.clients:
            self.operations += 1
            self.random.choice(self.clients).act()
            self._act_later()

    def _strike_later(self) -> None:
        if self.faults.faults:
            gap = int(self.random.expovariate(1.0) * self.faults.fault_us)
            self.schedule.after(gap, self._strike)

    def _strike(self) -> None:
        if self.faults.faults:
            self.troubles.strike(self.faults.pick(self.random))
            self._strike_later()

    # --- machines -------------------------------------------------------------------------------

    def running(self) -> list[Site]:
        """Machines whose node is up."""
        return [site for site in self.sites.values() if site.node is not None]

    def serves(self, site: Site) -> bool:
        """Whether a machine's node takes clients."""
        node = site.node
        return node is not None and node.ready and not site.former_uid

    def began(self, site: Site) -> None:
        """A node has recovered."""
        self.drops.began(site)
        self.ledger.began(site)

    def watch(self, site: Site) -> None:
        """An event was handled by a node: look at it."""
        node = site.node
        assert node is not None
        self.ledger.watch(site)
        self.remote_lines.watch(site)
        self.incarnations.watch(site.name, node, site.turns)
        if self.realms is not None:
            self.realms.watch(site)
        if node.alarms() or site.stalls():
            self._alarm_step = self.step_number
        if self.feed is not None:
            self.feed.checker.watch(node)
        if self.troubles.armed:
            self.troubles.outlive(site)
        session = int(node.cluster.session)
        if session:
            self._sessions[session] = (site.name, site.life)
        for key, doubt in list(self._doubts.items()):
            if key[0] == site.name and not doubt.learned:
                # Where a node has no copy, or one that has to catch up, its clients hear of this.
                observer = node.observers.observer(key[1])
                told = node.cluster.members.get(key[1]) if observer is None else observer
                if told is None or told.applied_index >= doubt.index:
                    doubt.learned = True
                    self._read_out(site, key)

    def ending(self, site: Site) -> None:
        """A node is about to be gone; its clients look at what it still had to say."""
        for connection in [each for each in self._cut if each.site == site.name]:
            self._cut.remove(connection)
            connection.vanish()
        self.drops.ending(site)
        self.ledger.ending(site)
        for key in list(self._doubts):
            if key[0] == site.name:
                del self._doubts[key]
        self.durability.over(site.name, "")
        self.remote_lines.ended(site)
        self.incarnations.ended(site.name)
        for queue in self.queues:
            self.unsettle(queue)
        if not site.lost:
            life = site.life
            self.schedule.after(self.faults.down_us(), lambda: self.restart(site, life))

    def restart(self, site: Site, life: int) -> None:
        """Start a node again, unless it was meanwhile."""
        if site.life == life and site.node is None and not site.lost:
            site.boot(self._contact(site))

    def _contact(self, site: Site) -> str:
        if not site.joins:
            return ""
        others = self.sites.values()
        return self.random.choice([at.name for at in others if at is not site and not at.lost])

    def may_lose(self, site: Site) -> bool:
        """Whether a machine's data may be lost for good; true once in a run."""
        if self._replaced or not self._spares_one():
            return False
        self._replaced = True
        return True

    def replace(self, site: Site) -> None:
        """Lose a machine for good, forget its node, and have a fresh one join."""
        self.say("%s is lost for good", site.name)
        site.lost = True
        self.remote_lines.lost(site)
        site.kill()
        self.forget(site.name, site.uid, self._begin_fresh)

    def _begin_fresh(self, contact: str) -> None:
        """Have another machine join."""
        name = f"n{len(self.sites) + 1}"
        fresh = Site(self, name, True)
        self.sites[name] = fresh
        self.count("replacements")
        fresh.boot(contact)

    def voters_min(self) -> int:
        """Operators leave a queue so many members that vote: one more may be lost for good."""
        losing = {REPLACE, RESTORE, ROT, SPOIL, WIPE} & set(self.faults.faults)
        return MEMBERS_MIN if losing else 1

    def _spares_one(self) -> bool:
        """Whether every group can lose a voter for good."""
        for site in self.running():
            node = site.node
            assert node is not None
            for member in node.cluster.members.values():
                raft = member.raft
                # A vote that is not committed may be gone when the others have been down, too.
                for members in (raft.members, raft.config_at(raft.commit_index).members):
                    if sum(bool(copy.voter) for copy in members) < MEMBERS_MIN:
                        return False
        return len(self.running()) == self.faults.size

    def forget(self, name: str, uid: bytes, then: Callable[[str], None]) -> None:
        """Have a node forgotten in a while, as an operator would, again until it is done.

        Args:
            uid: Of its data directory, since another node may come to bear its name.
            then: Called with the name of a node that knows that it is done.
        """
        self.schedule.after(FORGET_US, lambda: self._forget(name, uid, then))

    def _forget(self, name: str, uid: bytes, then: Callable[[str], None]) -> None:
        for other in self.running():
            node = other.node
            assert node is not None
            if not self.serves(other) or other.paused():
                continue
            record = node.metadata.nodes.get(name)
            if record is None or record.uid != uid:
                then(other.name)
                return
            running = not node.cluster.detector.suspected(name)
            try:
                command = check_remove_node(node.metadata, name, running, force=self.forces)
            except Refusal as error:
                self.say("%s: %s", other.name, error.text)
                continue
            self.submit(other, command)
            break
        self.forget(name, uid, then)

    @staticmethod
    def submit(site: Site, command: Command) -> None:
        """Have the tables changed through a node."""
        node = site.node
        assert node is not None
        site.guarded(site.life, lambda: node.store.submit(command, None))

    # --- sessions -------------------------------------------------------------------------------

    def closed(self, group_id: int, index: int, sessions: list[int]) -> None:
        """It is committed that sessions are over: what their consumers hold goes to others."""
        for session in sessions:
            found = self._sessions.get(life_of_session(session))
            if found is None:
                continue
            name, life = found
            if self.expiring is not None:
                self.expiring.forget(name, group_id)
            site = self.sites[name]
            queue = self._queue_name(group_id)
            self.say("group %d: session %d of %s is closed", group_id, session, name)
            if site.life != life or site.node is None or not queue:
                continue
            self.count("living sessions closed")
            self._doubts[name, group_id] = Doubt(index, queue)
            self.take_back(name, queue)

    def suspected(self, group_id: int, session: int) -> None:
        """It is committed that nobody hears a node: other consumers are active now.

        Whether its own are again, their clients cannot tell.
        """
        found = self._sessions.get(life_of_session(session))
        if found is not None:
            if self.expiring is not None:
                self.expiring.forget(found[0], group_id)
            for receiver in self._receivers(found[0], self._queue_name(group_id)):
                receiver.holder.subscribed = False

    def closed_unread(self, holder: Holder) -> None:
        """What a channel holds goes to others if its node has closed it, or the connection.

        A client that does not read for a while does not know.
        """
        for connection in self.connections:
            for actor in connection.users():
                if isinstance(actor, Receiver) and actor.holder is holder:
                    if connection.is_closed_unread(actor.number):
                        _take_back(actor)
                    return

    def take_back(self, site: str, queue: str) -> None:
        """What consumers at a node hold of a queue goes to others; they need not know."""
        self.durability.over(site, queue)
        for receiver in self._receivers(site, queue):
            _take_back(receiver)

    def unseen(self, group_id: int) -> None:
        """From here on it cannot be told which sessions of a group are over."""
        queue = self._queue_name(group_id)
        self._unseen.add(queue)
        if self.expiring is not None:
            self.expiring.blind(group_id)
        for state in self.queues:
            if state.name == queue:
                # Nobody sees who comes and goes.
                state.grouped = True
        for name in self.sites:
            for receiver in self._receivers(name, queue):
                # It may as well still hold all of it, so that settling counts, what is on its way
                # to the node, too.
                receiver.doubted |= set(receiver.held.values())
                receiver.doubted |= {
                    copy for copy in receiver.queue.copies if copy.holder is receiver.holder
                }
                _take_back(receiver)

    def group_of(self, queue: QueueState) -> int:
        """The group of a queue, -1 if no node knows it."""
        for site in self.running():
            found = self.queue_on(site, queue)
            if found is not None:
                return int(found.group_id)
        return -1

    def _queue_name(self, group_id: int) -> str:
        for site in self.running():
            node = site.node
            assert node is not None
            queue = node.queues.logged.get(group_id)
            if queue is not None:
                return queue.name
        return ""

    def _receivers(self, site: str, queue: str) -> list[Receiver]:
        found: list[Receiver] = []
        for connection in self.connections:
            if connection.site == site:
                for actor in connection.users():
                    if isinstance(actor, Receiver) and actor.queue.name == queue:
                        found.append(actor)
        return found

    def _read_out(self, site: Site, key: tuple[str, int]) -> None:
        """The node knows; what it had said before is still on its way to its clients."""
        self.late(site.name, self._doubts.pop(key).queue)

    def late(self, site: str, queue: str) -> None:
        """Clients of a node may still read what it had said of a queue before it knew better."""
        for connection in self.connections:
            if connection.site == site:
                self._late.add((connection, queue))
        for receiver in self._receivers(site, queue):
            receiver.void |= set(receiver.held)

    def doubtful(self, receiver: Receiver) -> bool:
        """Whether a delivery may be one of a session that is closed."""
        connection = receiver.connection
        if connection is None:
            return False
        name = receiver.queue.name
        if name in self._unseen or (connection, name) in self._late:
            return True
        if self.remote_lines.doubtful(connection.site, name):
            return True
        return any(
            key[0] == connection.site and doubt.queue == name for key, doubt in self._doubts.items()
        )

    def sent_late(self, receiver: Receiver, copy: Copy) -> bool:
        """As `Timeouts.sent_late`."""
        return self.timeouts.sent_late(receiver, copy)

    def settlement(self, receiver: Receiver, copy: Copy, sure: bool) -> int:
        """A settlement of what was taken back does nothing."""
        if not receiver.no_ack and copy.holder is not receiver.holder:
            held = copy.holder is not None and copy.holder.alive
            free = not held and copy.settled == WAITING
            return SETTLED_MAYBE if free and copy in receiver.doubted else WAITING
        connection = receiver.connection
        timed = receiver.queue.timeout_ms >= 0 and not receiver.once_at_most()
        if sure and not timed and connection is not None and not self.doubtful(receiver):
            turn = self.sites[connection.site].turns
            self.durability.settled_through(connection.site, turn, copy)
            return SETTLED
        return SETTLED_MAYBE

    def era(self, queue: QueueState) -> int:
        """How many lives there were, and sessions that any group has closed."""
        closed = sum(len(group.closed) for group in self.ledger.groups.values())
        return closed + sum(site.life for site in self.sites.values())

    # --- clients --------------------------------------------------------------------------------

    def connect(self, client: Client) -> SimConnection | None:
        """Connect to any node that takes clients."""
        ready = [site for site in self.running() if self.serves(site) and not site.paused()]
        if not ready:
            return None
        far = [site for site in ready if not site.holds_queues()]
        if far and self.far.random() < self.faults.far_share:
            ready = far
        site = self.random.choice(ready)
        assert site.node is not None
        self.say("%s connects to %s", client.name, site.name)
        return SimConnection(self, client.name, client.frame_max, site.node, site.name)

    def moment(self, connection: SimConnection) -> tuple[int, int]:
        """Life and turn of the connection's node."""
        site = self.sites[connection.site]
        return site.life, site.turns

    def disconnect(self, connection: SimConnection) -> None:
        """A connection is cut."""
        site = self.sites[connection.site]
        self.connections.remove(connection)
        connection.cut()
        self._cut.append(connection)
        site.guarded(site.life, lambda: self._told(connection))

    def _told(self, connection: SimConnection) -> None:
        """A node learns that a client is gone."""
        self._cut.remove(connection)
        connection.vanish()
        connection.end.lost()

    def stirred(self, connection: SimConnection) -> None:
        """Have its bytes moved in a moment."""
        if connection not in self._stirred:
            self._stirred.add(connection)
            delay = int(self.random.random() * self.faults.io_us)
            site = self.sites[connection.site]
            if site.paused() and not connection.inbox:
                delay += site.paused_until_us - self.schedule.now_us
            self.schedule.after(delay, lambda: self._move(connection))

    def _move(self, connection: SimConnection) -> None:
        """Hand some bytes over, or let the client read."""
        self._stirred.discard(connection)
        if connection.dead:
            return
        site = self.sites[connection.site]
        reads = (connection.inbox or connection.closing) and not connection.deaf
        hands = connection.outbox and not connection.held and not site.paused()
        if reads and (not hands or self.random.random() < 0.5):
            self.life = site.life
            connection.receive()
            if connection.dead:
                self.connections.remove(connection)
                site.guarded(site.life, lambda: None)
            assert connection.closing or not connection.dead
            self._note_read(site, connection)
        elif hands:
            size = len(connection.outbox)
            if self.random.random() < 0.3:
                size = self.random.randrange(1, size + 1)
            site.guarded(site.life, lambda: connection.hand_over(size))
        if (
            not connection.dead
            and (connection.inbox and not connection.deaf)
            or (connection.outbox and not connection.held)
            or (connection.closing and not connection.deaf)
        ):
            self.stirred(connection)

    def _note_read(self, site: Site, connection: SimConnection) -> None:
        """A client that has read all there was reads nothing of a closed session any more.

        A message that it polled for may still be fetched.
        """
        if any(isinstance(actor, Receiver) and actor.busy() for actor in connection.users()):
            return
        node = site.node
        if self._late and node is not None and not node.needs_turn and site.executor.idle:
            if not connection.inbox and not connection.end.output.buffer.getvalue():
                self._late = {late for late in self._late if late[0] is not connection}

    def may_be_cleared(self, queue: QueueState, connection: SimConnection) -> None:
        """What was submitted may be done at any time, as long as anybody has it in a log."""
        queue.cleared_step = NEVER

    def consumers_changed(self, group_id: int) -> None:
        """An entry brought or took consumers of a queue."""
        name = self._queue_name(group_id)
        for queue in self.queues:
            if queue.name == name:
                self.unsettle(queue)

    def may_refuse(self, message: Message) -> bool:
        """A disk was full, or a classic queue is damaged, or there was no line to its node."""
        return self._alarm_step >= message.step or any(
            copy.queue.single
            and (
                self.remote_lines.may_refuse(message, copy.queue.name)
                or self.out_of_use(copy.queue)
            )
            for copy in message.copies
        )

    def may_return(self, message: Message, queue: QueueState) -> bool:
        """It went with its machine, and the node may not know yet that there is another one."""
        return self.remote_lines.may_return(message, queue.name)

    def excuses(self, actor: Actor, method: spec.ChannelClose) -> bool:
        """A node does not start a copy that is damaged, before it has another one.

        Whether it had one when it said so the site has looked at.
        """
        connection = actor.connection
        if (
            isinstance(actor, Receiver)
            and actor.queue.timeout_ms >= 0
            and TIMED in method.reply_text
        ):
            actor.held_too_long()
            return True
        rotten = connection is not None and self.sites[connection.site].rotten
        return rotten and method.reply_code == 404 and NO_MEMBER in method.reply_text

    def check_internal_error(self, connection: SimConnection, text: str) -> None:
        """What a client asked for found no majority in time, or its answer is lost."""
        if LOST_POLL in text:
            raise Violation(f"{connection.name}: {text}")
        if any(word in text for word in LOST_ANSWERS):
            return
        if self.sites[connection.site].rotten and DAMAGED in text:
            return
        super().check_internal_error(connection, text)

    def process_over(self, queue: Incarnation) -> bool:
        """Whether the process that gave a queue its number has ended."""
        found = self._sessions.get(life_of(queue.id))
        if found is None:
            return True
        site = self.sites[found[0]]
        return site.life != found[1] or site.node is None

    def machine_lost(self, name: str) -> bool:
        """Whether a machine is lost for good, or what it had."""
        return self.sites[name].lost or self.sites[name].wiped

    def halted(self, queue: Incarnation) -> bool:
        """A classic queue whose snapshot is damaged cannot be used until it is deleted."""
        return queue.kind == "classic" and queue.id in self.sites[queue.home].halted

    def out_of_use(self, queue: QueueState) -> bool:
        """The same of a classic queue that lasts."""
        for site in self.running():
            assert site.node is not None
            record = site.node.metadata.queue("/", queue.name)
            if record is not None and record.kind == "classic":
                return int(record.group_id) in self.sites[record.node].halted
        return False

    def check_kept(self, queue: Incarnation, message: Message) -> None:
        """A quorum queue confirms what is committed."""
        group = self.ledger.groups.get(queue.id)
        if queue.kind == "quorum" and group is not None and not group.holed:
            if message.id not in group.published:
                raise Violation(f"{message} was confirmed before {queue.name} had it committed")

    def dropped_by(self, queue: Incarnation) -> int:
        """Messages dropped at a queue's delivery limit, or that its node has said are gone."""
        dropped = 0
        for site in self.running():
            assert site.node is not None
            found = site.node.queues.logged.get(queue.id)
            if found is not None:
                dropped = max(dropped, int(found.fifo.dropped))
        return dropped + len(self._gone.get(queue.name, ()))

    def dropped(self, queue: QueueState) -> int:
        """Messages dropped at a queue's delivery limit, or that its node has said are gone."""
        return self.drops.total(queue) + len(self._gone.get(queue.name, ()))

    def gone(self, queue: str) -> set[int]:
        """The numbers of the messages that a queue's node has said are gone."""
        return self._gone.get(queue, set())

    def mourn(self, queue: str, runs: str) -> None:
        """A node says which messages of a classic queue its damaged disk has lost."""
        for run in runs.split(", "):
            first, _, last = run.partition(" to ")
            numbers = range(int(first), int(last or first) + 1)
            self._gone.setdefault(queue, set()).update(numbers)

    def queue_on(self, site: Site, queue: QueueState) -> LoggedQueue | None:
        """A node's copy of a queue."""
        node = site.node
        assert node is not None
        vhost = node.queues.vhosts.get("/")
        found = None if vhost is None else vhost.queues.get(queue.name)
        return found if isinstance(found, LoggedQueue) else None

    def at_rest(self, queue: QueueState) -> bool:
        """Every copy of it says so, and there is one."""
        found = [self.queue_on(site, queue) for site in self.running()]
        here = [each for each in found if each is not None]
        return bool(here) and all(is_at_rest(each.fifo) for each in here)

    def ready_in(self, queue: QueueState) -> int:
        """By all copies of it."""
        found = [self.queue_on(site, queue) for site in self.running()]
        return max((int(each.fifo.ready_count()) for each in found if each is not None), default=0)

    def change_tables(self, site: str, command: Command) -> None:
        """By a command that this node submits."""
        self.submit(self.sites[site], command)

    def nodes(self) -> list[Node]:
        """Those of all machines that are up."""
        return [site.node for site in self.sites.values() if site.node is not None]

    def entry(self) -> Node:
        """Any node."""
        node = self.running()[0].node
        assert node is not None
        return node

    def confirm(self, message: Message) -> None:
        """A publish was confirmed."""
        self.ledger.check_confirmed(message)
        super().confirm(message)

    def say(self, text: str, *values: object) -> None:
        """Write an event line: event, virtual time, what."""
        if self.lines is not None:
            now_ms, rest = divmod(self.schedule.now_us, MS)
            self.lines.append(f"{self.schedule.done:7d} {now_ms:6d}.{rest:03d}ms {text % values}")

    def now_ms(self) -> int:
        """Virtual time."""
        return self.schedule.now_us // MS


def _take_back(receiver: Receiver) -> None:
    """What a receiver holds may be given to others."""
    receiver.forget_renewed()
    receiver.void |= set(receiver.held)
    if receiver.queue.active is receiver.holder:
        receiver.queue.active = None
    for copy in receiver.queue.copies:
        if copy.holder is receiver.holder:
            copy.holder = None
