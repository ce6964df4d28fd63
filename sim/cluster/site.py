"""One machine of a cluster: its disk, its clock, and the node that runs on it, if one does.

The node is driven as the server's loop drives it: what comes from outside is handed over, a turn
follows a moment later, jobs run and are reported one at a time, and time is minded every 50 ms.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, final

from sim.clock import CONSUMER_TIMEOUT_MS, DISCONNECTED_TIMEOUT_MS, SeededRandom
from sim.cluster.network import SimPeers
from sim.cluster.schedule import MS, SiteClock
from sim.cluster.stranding import KEPT_BYTES_MAX
from sim.connection import SimConnection
from sim.disk import Crash, SimDisk, SimExecutor
from sim.model import Violation
from warren import __version__
from warren.errors import CorruptRecord, StorageError
from warren.log.config import LogConfig
from warren.log.group import newest_snapshot
from warren.log.manifest import DIRECTORY, MANIFEST_PATH
from warren.node.cluster.links import ClusterListener
from warren.node.node import Node
from warren.ports import PeerHello
from warren.protocols.broker import Settings
from warren.protocols.peer import refusal as codes
from warren.protocols.peer.hello import LIVES_MAX
from warren.queues.quorum import QuorumQueue

if TYPE_CHECKING:
    from sim.cluster.world import ClusterWorld

GONE: Final = re.compile(r"messages ([\d, to]+) of queue '(.*)' in vhost '/' are gone", re.DOTALL)
"""What a node says of a classic queue that has lost messages to damage."""
NOT_STARTED: Final = re.compile(r"the queue of group (\d+) is not started")
"""What it says of a queue whose machine it cannot rebuild."""
NO_MEMBER: Final = "has no member on this node yet"
"""What it tells a client of a queue whose copy it has lost to damage, until it has another one."""
REFUSED: Final = re.compile(rf"queue '(.*)' in vhost '/' {NO_MEMBER}", re.DOTALL)
DAMAGED: Final = "damaged at byte"
"""What a node says of each damage of its disk that it meets and lives with."""
TICK_US: Final = 50 * MS
SECOND_US: Final = 1_000 * MS
DEFER_US: Final = 5 * MS
STALL_US: Final = 10 * MS
"""How often a disk that stands still is looked at again."""
CRAWL: Final = 20
"""How much longer a slow disk takes."""
UID_BYTES: Final = 16
PORT: Final = 1
RECONCILE_TRIGGER_MS: Final = 100
GROUPS_AT_ONCE: Final = 2
"""So few that looking through the log takes several ticks."""
CHANGES_AT_ONCE: Final = 2
"""So few that what is committed of the tables often waits for a turn."""
PART_RUNS: Final = 3
"""So few that the states of queues are written and read over several turns."""


class Backup(NamedTuple):
    """A copy of a machine's data directory, as it was at one moment.

    Attributes:
        starts: How often it had been started.
        round: The newest round of the log that was known to be durable.
    """

    disk: SimDisk
    lives: list[bytes]
    starts: int
    round: int


@final
class Site:
    """See the module's head.

    Attributes:
        name: The node's, and the machine's host name.
        joins: Whether an empty node waits to be taken into a cluster.
        uid: Of the data directory.
        former_uid: The one that it gave up to begin anew, until its node is in the cluster again.
        starts: How often the data directory was started, as far as it knows.
        life: Counts the node's starts, over all machines of this name.
        turns: Turns of this life.
        node: None while it is down.
        peers: The links of this life.
        paused_until_us: The process does nothing before.
        lost: Whether the machine is gone for good.
        rotten: Whether a bit of its disk has flipped.
        flipped: Which one: a file of the log, and the byte.
        halted: Groups that this life has not started, since the bit is in their snapshot.
        restored: Whether its disk is an older copy, and nobody has noticed yet.
        spoiled: Whether its disk lacks what nobody can name, until it has begun anew.
        wiped: Whether its disk has lost everything once.
        cluster_id: What the data directory says, empty at first.
        lives: Of the data directory, the newest first.
        free_limit_bytes: Free space below which the node raises its alarm.
        stalled_until_us: The disk stands still before.
        crawls_until_us: The disk is slow before.
    """

    def __init__(self, world: ClusterWorld, name: str, joins: bool) -> None:
        random = world.random
        self.world = world
        self.name = name
        self.joins = joins
        self.uid = self.first_uid = random.randbytes(UID_BYTES)
        self.disk = SimDisk(random.getrandbits(32))
        self.clock = SiteClock(world.schedule, random.randrange(1, 1_000_000))
        self.executor = SimExecutor(random, self.disk)
        self.former_uid = b""
        self.starts = 0
        self.life = 0
        self.turns = 0
        self.node: Node | None = None
        self.peers: SimPeers | None = None
        self.paused_until_us = 0
        self.lost = False
        self.rotten = False
        self.flipped = ("", 0)
        self.halted: set[int] = set()
        self.restored = False
        self.spoiled = False
        self.wiped = False
        self.cluster_id = b""
        self.lives: list[bytes] = []
        self.free_limit_bytes = 8_192
        self.stalled_until_us = 0
        self.crawls_until_us = 0
        self._turn_planned = False
        self._work_planned = False
        self._flush_planned = False
        self._ticked_us = 0
        self._known_round = -1

    def holds_queues(self) -> bool:
        """Whether the node has a copy of any queue."""
        return self.node is not None and len(self.node.queues.logged) > 0

    def keeps_settlements(self, queue: str) -> bool:
        """Whether the node may log what comes now before what was settled in a queue."""
        node = self.node
        known = None if node is None else node.queues.find("/", queue)
        return isinstance(known, QuorumQueue) and known._pending_commands

    # --- events ---------------------------------------------------------------------------------

    def paused(self) -> bool:
        """Whether the process stands still."""
        return self.paused_until_us > self.world.schedule.now_us

    def stalls(self) -> bool:
        """Whether the disk stands still."""
        return self.stalled_until_us > self.world.schedule.now_us

    def guarded(self, life: int, event: Callable[[], None]) -> None:
        """Let something happen to a process: later if it stands still, never if it is gone."""
        if self.life != life or self.node is None:
            return
        if self.paused():
            wait = self.paused_until_us - self.world.schedule.now_us
            self.world.schedule.after(wait, lambda: self.guarded(life, event))
            return
        self.world.life = life
        try:
            event()
        except Crash:
            self.world.say("%s: power fails within a call to the disk", self.name)
            self.fail_power()
            return
        except StorageError as error:
            self._damaged(error)
            return
        if self.node is not None:
            self._after()

    def _after(self) -> None:
        """See to what an event has stirred up."""
        node = self.node
        assert node is not None
        if node.failure is not None:
            self._stopped_by_failure(node.failure)
            return
        self._check_failures(node)
        world = self.world
        world.watch(self)
        life, random = self.life, world.random
        if node.needs_turn and not self._turn_planned:
            self._turn_planned = True
            world.schedule.after(
                int(random.random() * world.faults.turn_us),
                lambda: self.guarded(life, self._turn),
            )
        if not self._work_planned and not self.executor.idle:
            self._work_planned = True
            slower = CRAWL if self.crawls_until_us > world.schedule.now_us else 1
            world.schedule.after(
                int(random.random() * world.faults.disk_us) * slower,
                lambda: self.guarded(life, self._work),
            )

    def _check_failures(self, node: Node) -> None:
        """A node that was told of a failed call to its disk has to stop.

        Raises:
            Violation: It goes on.
        """
        if self.executor.failed and node.failure is None:
            calls = ", ".join(self.disk.failing.failed)
            raise Violation(f"node {self.name} goes on after its disk has failed: {calls}")

    def _turn(self) -> None:
        node = self.node
        assert node is not None
        self._turn_planned = False
        node.turn()
        # The server writes it down as soon as it is known.
        self.cluster_id = node.membership.cluster_id or node.metadata.cluster_id or self.cluster_id
        self.turns += 1
        if node.deferring and not self._flush_planned:
            self._flush_planned = True
            life = self.life
            self.world.schedule.after(DEFER_US, lambda: self.guarded(life, self._flush_deferred))

    def _flush_deferred(self) -> None:
        self._flush_planned = False
        assert self.node is not None
        self.node.flush_deferred()

    def _work(self) -> None:
        if self.stalls():
            life = self.life
            self.world.schedule.after(STALL_US, lambda: self.guarded(life, self._work))
            return
        self._work_planned = False
        self.executor.step()

    def _tick(self) -> None:
        node = self.node
        assert node is not None
        world = self.world
        node.tick_log()
        now = world.schedule.now_us
        if now - self._ticked_us >= SECOND_US:
            self._ticked_us = now
            node.tick(0)
        if node.ready and (self.restored or self.former_uid):
            self._is_known(node)
        life = self.life
        world.schedule.after(TICK_US, lambda: self.guarded(life, self._tick))

    # --- the node's life ------------------------------------------------------------------------

    def hello(self) -> PeerHello | None:
        """What the node says of itself; None while there is none."""
        node = self.node
        if node is None:
            return None
        joins = self.former_uid and not node.cluster.session
        cluster_id = b"" if joins else self.cluster_id
        return PeerHello(
            self.name,
            self.uid,
            cluster_id or bytes(UID_BYTES),
            self.starts,
            __version__,
            node.settings.cluster_version_max,
            self.name,
            PORT,
            life=node.settings.life,
            lives=self.lives[1 : LIVES_MAX + 1],
            round=int(node.announcer.first_round),
            former_uid=self.former_uid,
        )

    def boot(self, contact: str = "") -> None:
        """Start the node; the machine may stop again meanwhile.

        Args:
            contact: The node to ask to be taken into its cluster.
        """
        world = self.world
        self.life += 1
        self.starts += 1
        self.turns = 0
        self.halted = set()
        self._known_round = -1
        world.life = self.life
        world.count("lives")
        self.executor = SimExecutor(world.random, self.disk)
        self._turn_planned = self._work_planned = self._flush_planned = False
        self.peers = SimPeers(world.network, self)
        options = world.options
        settings = Settings(self.name)
        settings.renews_hashes = False
        settings.node_uid, settings.former_uid = self.uid, self.former_uid
        # Drawn by no random generator, so that seeds stay what they are.
        self.lives.insert(0, f"{self.name}.{self.life}".encode().rjust(UID_BYTES))
        settings.boot, settings.life = self.starts, self.lives[0]
        settings.cluster_host = self.name
        settings.cluster_port = PORT
        settings.join = self.joins
        settings.changes_at_once = CHANGES_AT_ONCE
        settings.part_runs = PART_RUNS
        settings.consumer_timeout_ms = CONSUMER_TIMEOUT_MS
        settings.consumer_disconnected_timeout_ms = DISCONNECTED_TIMEOUT_MS
        settings.tables_voters = world.faults.tables_voters
        settings.reconciles = world.faults.reconcile_ms > 0
        settings.reconcile_interval_ms = world.faults.reconcile_ms
        settings.feed_reads_max = world.faults.feed_reads
        settings.recent_bytes_max = world.faults.recent_bytes
        settings.reconcile_trigger_ms = RECONCILE_TRIGGER_MS
        settings.delivery_limit = -1 if options.own_limit else options.delivery_limit
        settings.quorum_size = world.faults.group_size
        settings.strict_priorities = options.strict
        settings.max_message_bytes = options.body_bytes_max or settings.max_message_bytes
        settings.log = LogConfig(
            wal_max_size_bytes=options.wal_max_bytes,
            cache_bytes=options.cache_bytes,
            reserve_bytes=options.reserve_bytes,
            disk_free_limit_bytes=self.free_limit_bytes,
            live_share_percent=options.live_share_percent,
            compact_interval_ms=options.compact_interval_ms,
            extent_bytes_max=options.extent_bytes_max,
            round_bytes_max=options.round_bytes_max,
            groups_at_once=GROUPS_AT_ONCE,
        )
        if world.faults.strands:
            settings.log.waiting_bytes_max = KEPT_BYTES_MAX
        node = Node(
            settings,
            self.clock,
            SeededRandom(world.random),
            self.disk,
            self.executor,
            self._warned,
            self.peers,
        )
        self.peers.listener = ClusterListener(node.cluster)
        node.membership.cluster_id = self.cluster_id
        self.node = node
        failures, fatal = self.disk.failing.count, self.disk.failing.fatal
        try:
            node.recover()
            if self.disk.failing.fatal > fatal:
                calls = ", ".join(self.disk.failing.failed)
                raise Violation(f"node {self.name} starts although its disk has failed: {calls}")
        except Crash:
            world.say("%s: power fails during recovery", self.name)
            world.count("crashes in recovery")
            self.fail_power()
            return
        except StorageError as error:
            if self.spoiled:
                self._wait_for_others(error)
            else:
                self._damaged(error)
            return
        except OSError as error:
            # Before a start takes a damaged log for whole it notes that, for which a full disk has
            # no room; it has changed nothing then.
            if not self.spoiled and self.disk.failing.count == failures:
                raise
            world.say("%s: the start fails: %s", self.name, error)
            self.kill()
            return
        if self.spoiled and not self.former_uid:
            raise Violation(f"node {self.name} goes on with a log that lacks something")
        world.say("%s begins life %d", self.name, self.life)
        if contact and contact != self.name:
            node.cluster.know(contact, contact, PORT)
        world.began(self)
        life = self.life
        delay = world.random.randrange(TICK_US)
        world.schedule.after(delay, lambda: self.guarded(life, self._tick))
        self.guarded(life, lambda: None)

    # --- an older copy --------------------------------------------------------------------------

    def backup(self) -> Backup:
        """Copy the data directory as it lies there, while the node runs."""
        assert self.node is not None
        newest = int(self.node.log.round_number)
        return Backup(copy.deepcopy(self.disk), list(self.lives), self.starts, newest)

    def restore(self, backup: Backup) -> None:
        """Put a copy in the place of the data directory; the node is down."""
        assert self.node is None
        self.disk, self.lives, self.starts = backup.disk, backup.lives, backup.starts
        self.disk.restart()
        self.disk.failing.end()
        self.restored = True

    def outdated(self) -> None:
        """Others say that the disk is an older copy: start once more, with copies that are empty.

        The same as `warren.server.main.Server.begin_anew`.
        """
        world = self.world
        if not self.restored:
            raise Violation(f"the disk of {self.name} is taken for an older copy")
        world.say("%s begins anew", self.name)
        world.count("begun anew")
        self.restored = False
        world.troubles.restoring.told()
        self.former_uid = self.uid
        self.uid = world.random.randbytes(UID_BYTES)
        self.stop()

    def _is_known(self, node: Node) -> None:
        """The node is up: its disk must be what it was, or what it got anew has to be durable."""
        if self.restored:
            raise Violation(f"node {self.name} came up with an older copy of its disk")
        if self._known_round < 0:
            self._known_round = int(node.log.round_number)
        if node.log.idle or node.log.round_number >= self._known_round + 2:
            self.former_uid = b""
            self.spoiled = False
            self.world.ledger.begun_anew(self)

    # --- an empty disk, and one that lacks something --------------------------------------------

    def wipe(self) -> None:
        """Have an empty disk; the node is down."""
        assert self.node is None
        random = self.world.random
        self.disk = SimDisk(random.getrandbits(32))
        self.uid = random.randbytes(UID_BYTES)
        self.former_uid = self.cluster_id = b""
        self.lives, self.starts = [], 0
        self.joins = self.wiped = True

    def _wait_for_others(self, error: StorageError) -> None:
        """Begin anew if another node says that a majority goes on without this one.

        If not, the start after this one asks again. The same as in `warren.server.main.Server`.
        """
        world = self.world
        if not isinstance(error, CorruptRecord) or self.former_uid:
            raise Violation(f"node {self.name} does not begin anew: {error}") from error
        own = self.hello()
        assert own is not None
        # None of the lives that the others know: see `Membership.judge`.
        own.lives = [bytes(UID_BYTES)] * LIVES_MAX
        world.say("%s waits for the others: %s", self.name, error)
        world.count("damage found")
        self._end(True)
        self.disk.restart()
        # Nothing of this start was written down.
        self.starts -= 1
        del self.lives[0]
        for other in world.running():
            if not world.network.reachable(self, other):
                continue
            assert other.peers is not None
            if other.peers.listener.judge(own) == codes.OUTDATED:
                break
        else:
            return
        world.say("%s begins anew", self.name)
        world.count("begun anew for damage")
        self.former_uid = self.uid
        self.uid = world.random.randbytes(UID_BYTES)
        world.ledger.restored(self)
        if error.path == MANIFEST_PATH:
            # Nothing says any more what is in which file.
            for name in self.disk.list(DIRECTORY):
                self.disk.remove(f"{DIRECTORY}/{name}")
            self.disk.sync_directory(DIRECTORY)

    # --- the end --------------------------------------------------------------------------------

    def fail_power(self) -> None:
        """The machine stops and loses what was not synced."""
        self.world.say("%s: life %d ends, the machine stops", self.name, self.life)
        self.world.count("power failures")
        self._end(True)
        self.disk.crash()

    def kill(self) -> None:
        """The process stops; the machine goes on."""
        self.world.say("%s: life %d ends, the process is killed", self.name, self.life)
        self.world.count("kills")
        self._end(False)
        self.disk.restart()

    def stop(self) -> None:
        """Stop the node in an orderly way, at once."""
        node = self.node
        assert node is not None
        world = self.world
        world.say("%s: life %d is asked to stop", self.name, self.life)
        for connection in self._connections():
            connection.condemned = True
        fatal = self.disk.failing.fatal
        try:
            node.shut_down()
            self._finish_work()
            for connection in self._connections():
                if not connection.deaf and not connection.dead:
                    connection.receive()
            for connection in self._connections():
                connection.vanish()
            node.prepare_close()
            self._finish_work()
            if node.failure is None:
                node.close()
        except Crash:
            world.say("%s: power fails during the stop", self.name)
            self.fail_power()
            return
        except StorageError as error:
            self._damaged(error)
            return
        except OSError as error:
            world.say("%s: the stop fails: %s", self.name, error)
            self.kill()
            return
        if node.failure is not None:
            self._stopped_by_failure(node.failure)
            return
        if self.disk.failing.fatal > fatal:
            calls = ", ".join(self.disk.failing.failed)
            raise Violation(f"node {self.name} stops in order after its disk has failed: {calls}")
        world.count("stops")
        world.say("%s: life %d ends in order", self.name, self.life)
        self._end(False)
        self.disk.restart()

    def _finish_work(self) -> None:
        node = self.node
        assert node is not None
        while node.failure is None and (node.needs_turn or self.executor.step()):
            if node.needs_turn:
                node.turn()
                self.turns += 1
            self._check_failures(node)
            self.world.watch(self)

    def _damaged(self, error: StorageError) -> None:
        """The node says that its data is damaged, and is of no use any more."""
        if not self.rotten:
            raise Violation(f"node {self.name} finds its data damaged: {error}") from error
        self.world.say("%s stops: %s", self.name, error)
        self.world.count("damage found")
        self.world.replace(self)

    def _stopped_by_failure(self, failure: BaseException) -> None:
        if isinstance(failure, StorageError):
            self._damaged(failure)
            return
        if not isinstance(failure, OSError):
            raise Violation(f"node {self.name} stopped: {failure!r}") from failure
        world = self.world
        world.count("sync failures")
        world.say("%s stops: %s", self.name, failure)
        if world.random.random() < 0.5:
            self.kill()
        else:
            self.fail_power()

    def _end(self, abrupt: bool) -> None:
        world = self.world
        for call in self.disk.failing.failed:
            world.count(f"disk calls failed: {call}")
        self.disk.failing.failed.clear()
        world.ending(self)
        for connection in self._connections():
            connection.vanish()
            world.connections.remove(connection)
        world.network.process_ended(self, abrupt)
        self.node = None
        self.peers = None
        self.paused_until_us = 0

    def _connections(self) -> list[SimConnection]:
        return [c for c in self.world.connections if c.site == self.name]

    def _warned(self, text: str) -> None:
        self.world.say("%s: %s", self.name, text)
        if DAMAGED in text:
            self.world.count("damage found")
        not_started = NOT_STARTED.match(text)
        if not_started is not None:
            self._not_started(int(not_started[1]), text)
        refused = REFUSED.search(text)
        if refused is not None:
            self._refused(refused[1], text)
        said = GONE.match(text)
        if said is not None:
            if not self.rotten:
                raise Violation(f"node {self.name} has lost messages without damage: {text}")
            self.world.mourn(said[2], said[1])

    def _refused(self, name: str, text: str) -> None:
        """The node lets no client at a quorum queue.

        Raises:
            Violation: It has a copy, or no reason to have none.
        """
        node = self.node
        assert node is not None
        record = node.metadata.queue("/", name)
        if not self.rotten:
            raise Violation(f"node {self.name} refuses a client for no reason: {text}")
        if record is not None and node.copies.here(record) is not None:
            raise Violation(f"node {self.name} refuses a client, and has a copy: {text}")

    def _not_started(self, group_id: int, text: str) -> None:
        """The node goes on without a queue, which may be a classic one whose snapshot is damaged.

        Raises:
            Violation: Its disk is whole.
        """
        if not self.rotten and not self.spoiled:
            raise Violation(f"node {self.name} does without a queue for no reason: {text}")
        assert self.node is not None
        place = newest_snapshot(self.node.log.group(group_id))
        path, at = self.flipped
        if place is not None and place.file.path == path:
            if place.snapshot_offset <= at < place.snapshot_offset + place.snapshot_size:
                self.halted.add(group_id)
